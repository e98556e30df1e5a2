/**
 * 64-bit IDs that sort by time, under leased machine IDs, and their public form.
 *
 * @packageDocumentation
 */
export { decodeId, defaultLayout, firstId, formatId, idBytes, idFromBase32, idToBase32, parseId } from './layout.js'
export type { IdParts, Layout } from './layout.js'
export {
  ClockBackwardError, ConfigurationError, EpochMismatchError, HttpLeaseProvider, IdGenerator, LeaseAcquisitionError, NoProviderError, TimeRangeError,
} from './machineids.js'
export type {
  AcquireOptions, AcquireResponse, GeneratorEvent, GeneratorOptions, GeneratorStats, LeaseInfo, LeaseProvider, ReleaseOptions,
} from './machineids.js'
export { ImplausibleIdError, MalformedIdError, PublicIds } from './publicids.js'
export type { PublicIdKey, PublicIdOptions } from './publicids.js'
