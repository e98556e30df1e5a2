/**
 * Locks with fencing tokens, and work that runs once, at a Leasehold server.
 *
 * @packageDocumentation
 */
export {
  ApiError, ClosedError, ConnectionError, InvalidResponseError, LeaseholdError, LockLostError, MaxHoldError,
  NotReleasedError, ReleasedError,
} from './errors.js'
export type { Code, Problem } from './errors.js'
export type { CodedError, CodedErrorClass } from './codes.gen.js'
export {
  InvalidArgumentError, AmbiguousPathError, UnauthenticatedError, PermissionDeniedError, NotOwnerError,
  BadSignatureError, NotFoundError, UnknownServiceError, MethodNotAllowedError, LockHeldError, LockNotHeldError,
  LockModeDiffersError, LockQueueFullError, LockDelayedError, LeaseLostError, LeaseExpiredError, LeaseReleasedError,
  LeaseChangedError, TooLateError, LockUnreadableError, StaleTokenError, AnalysisLockedError, RunInterruptedError,
  AlreadyFinishedError, AnalysisNotFailedError, AnalysisChangedError, PayloadTooLargeError, RequestIdReusedError,
  RunDiffersError, AttemptFailedError, InternalError, DocumentDamagedError, NotConfiguredError, UnavailableError,
  MachineIdsExhaustedError, MachineIdLimitError, LockLimitError, RunLimitError, RateLimitedError, OverloadedError,
  ClockSkewError, DeadlineExceededError, RequestTimeoutError,
} from './codes.gen.js'
export { Lock, Locks } from './locks.js'
export type { LockEvent, LockOptions, LockSetOptions, LockState, LocksOptions, Rate, WaitOptions } from './locks.js'
export type { ServerOptions } from './http.js'
export type { Clock } from './time.js'
