/**
 * The classes of all errors of requests: those of the server's codes, and those of what went wrong on the way. The first entry has those that programs of locks ask for
 * most.
 *
 * @packageDocumentation
 */
export {
  ApiError, ClosedError, InvalidResponseError, InvalidSettingError, LeaseholdError, LockLostError, MaxHoldError, NoResponseError, NotReleasedError, ReleasedError,
} from './fault.js'
export type { Code, Problem } from './fault.js'
export type { CodedError, CodedErrorClass } from './codes.gen.js'
export {
  AlreadyFinishedError, AmbiguousPathError, AnalysisLockedError, AttemptFailedError, BadSignatureError, ClockSkewError, DeadlineExceededError,
  DocumentDamagedError, EndChangedError, InternalError, InvalidArgumentError, LeaseChangedError, LeaseExpiredError, LeaseLostError,
  LeaseReleasedError, LockDelayedError, LockHeldError, LockLimitError, LockModeDiffersError, LockNotHeldError, LockQueueFullError,
  LockUnreadableError, MachineIdLimitError, MachineIdsExhaustedError, MethodNotAllowedError, NotConfiguredError, NotFailedError, NotFoundError,
  NotOwnerError, NotReadyError, OtherSubjectError, OverloadedError, PayloadTooLargeError, PermissionDeniedError, RateLimitedError,
  RequestIdReusedError, RequestTimeoutError, RunDiffersError, RunInProgressError, RunInterruptedError, RunLimitError, StaleTokenError, TooLateError, UnauthenticatedError,
  UnavailableError, UnknownServiceError, apiError,
} from './codes.gen.js'
