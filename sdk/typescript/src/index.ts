/**
 * Locks with fencing tokens, at a Leasehold server.
 *
 * @packageDocumentation
 */
export {
  ApiError, ClosedError, InvalidResponseError, InvalidSettingError, LeaseholdError, LockLostError, MaxHoldError, NoResponseError, NotReleasedError, ReleasedError,
} from './fault.js'
export type { Code, Problem } from './fault.js'
export type { CodedError, CodedErrorClass } from './codes.gen.js'
export {
  LockDelayedError, LockHeldError, LockModeDiffersError, LockQueueFullError, NotFoundError, PermissionDeniedError, RateLimitedError, UnauthenticatedError,
} from './codes.gen.js'
export { FOREVER, Lock, Locks } from './locks.js'
export type { ListOptions, LockEvent, LockOptions, LockState, LocksOptions, QueryOptions, Rate, WaitOptions } from './locks.js'
export type { ServerOptions } from './http.js'
export type { Clock } from './time.js'
