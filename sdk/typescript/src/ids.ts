/**
 * 64-bit IDs that sort by time, under leased machine IDs, and their public form.
 *
 * @packageDocumentation
 */
export { decodeId, defaultLayout, firstId, formatId, idBytes, parseId } from './layout.js'
export type { IdParts, Layout } from './layout.js'
export { ClockBackwardError, ConfigurationError, IdGenerator, LeaseAcquisitionError, TimeRangeError } from './machineids.js'
export type { GeneratorOptions } from './machineids.js'
export { ImplausibleIdError, MalformedIdError, PublicIds } from './publicids.js'
export type { PublicIdKey, PublicIdOptions } from './publicids.js'
