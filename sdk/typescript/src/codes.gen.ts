// Code generated from contracts/codes.yaml by scripts/generate.mjs. DO NOT EDIT.

import { ApiError, type Code } from './fault.js'

/** The error of one code. */
export interface CodedError<C extends Code> extends ApiError {
  readonly code: C
}

/** The class of the errors of one code. */
export interface CodedErrorClass<C extends Code> {
  new (...args: ConstructorParameters<typeof ApiError>): CodedError<C>
  readonly prototype: CodedError<C>
}

/** Makes the class of a code: its instances are the errors with that code. A program that asks for few classes has few of them. */
const of = <C extends Code>(code: C) => class extends ApiError {
  static override [Symbol.hasInstance](e: unknown): boolean {
    return e instanceof ApiError && e.code === code
  }
} as unknown as CodedErrorClass<C>

/** INVALID_ARGUMENT: invalid field. */
export const InvalidArgumentError = /* @__PURE__ */ of('INVALID_ARGUMENT')
export type InvalidArgumentError = CodedError<'INVALID_ARGUMENT'>
/** AMBIGUOUS_PATH: the path is not clear. */
export const AmbiguousPathError = /* @__PURE__ */ of('AMBIGUOUS_PATH')
export type AmbiguousPathError = CodedError<'AMBIGUOUS_PATH'>
/** UNAUTHENTICATED: not authenticated. */
export const UnauthenticatedError = /* @__PURE__ */ of('UNAUTHENTICATED')
export type UnauthenticatedError = CodedError<'UNAUTHENTICATED'>
/** PERMISSION_DENIED: permission denied. */
export const PermissionDeniedError = /* @__PURE__ */ of('PERMISSION_DENIED')
export type PermissionDeniedError = CodedError<'PERMISSION_DENIED'>
/** NOT_OWNER: not the owner of the lease. */
export const NotOwnerError = /* @__PURE__ */ of('NOT_OWNER')
export type NotOwnerError = CodedError<'NOT_OWNER'>
/** BAD_SIGNATURE: invalid signature. */
export const BadSignatureError = /* @__PURE__ */ of('BAD_SIGNATURE')
export type BadSignatureError = CodedError<'BAD_SIGNATURE'>
/** NOT_FOUND: not found. */
export const NotFoundError = /* @__PURE__ */ of('NOT_FOUND')
export type NotFoundError = CodedError<'NOT_FOUND'>
/** UNKNOWN_SERVICE: unknown service. */
export const UnknownServiceError = /* @__PURE__ */ of('UNKNOWN_SERVICE')
export type UnknownServiceError = CodedError<'UNKNOWN_SERVICE'>
/** METHOD_NOT_ALLOWED: method not allowed. */
export const MethodNotAllowedError = /* @__PURE__ */ of('METHOD_NOT_ALLOWED')
export type MethodNotAllowedError = CodedError<'METHOD_NOT_ALLOWED'>
/** REQUEST_TIMEOUT: body too slow. */
export const RequestTimeoutError = /* @__PURE__ */ of('REQUEST_TIMEOUT')
export type RequestTimeoutError = CodedError<'REQUEST_TIMEOUT'>
/** LOCK_HELD: lock is held. */
export const LockHeldError = /* @__PURE__ */ of('LOCK_HELD')
export type LockHeldError = CodedError<'LOCK_HELD'>
/** LOCK_NOT_HELD: lock is not held. */
export const LockNotHeldError = /* @__PURE__ */ of('LOCK_NOT_HELD')
export type LockNotHeldError = CodedError<'LOCK_NOT_HELD'>
/** LOCK_MODE_DIFFERS: lock has another mode. */
export const LockModeDiffersError = /* @__PURE__ */ of('LOCK_MODE_DIFFERS')
export type LockModeDiffersError = CodedError<'LOCK_MODE_DIFFERS'>
/** LOCK_QUEUE_FULL: too many wait for the lock. */
export const LockQueueFullError = /* @__PURE__ */ of('LOCK_QUEUE_FULL')
export type LockQueueFullError = CodedError<'LOCK_QUEUE_FULL'>
/** LOCK_DELAYED: lock is closed for its delay. */
export const LockDelayedError = /* @__PURE__ */ of('LOCK_DELAYED')
export type LockDelayedError = CodedError<'LOCK_DELAYED'>
/** LEASE_LOST: superseded by a newer lease. */
export const LeaseLostError = /* @__PURE__ */ of('LEASE_LOST')
export type LeaseLostError = CodedError<'LEASE_LOST'>
/** LEASE_EXPIRED: lease expired. */
export const LeaseExpiredError = /* @__PURE__ */ of('LEASE_EXPIRED')
export type LeaseExpiredError = CodedError<'LEASE_EXPIRED'>
/** LEASE_RELEASED: lease released. */
export const LeaseReleasedError = /* @__PURE__ */ of('LEASE_RELEASED')
export type LeaseReleasedError = CodedError<'LEASE_RELEASED'>
/** LEASE_CHANGED: lease changed. */
export const LeaseChangedError = /* @__PURE__ */ of('LEASE_CHANGED')
export type LeaseChangedError = CodedError<'LEASE_CHANGED'>
/** TOO_LATE: too late. */
export const TooLateError = /* @__PURE__ */ of('TOO_LATE')
export type TooLateError = CodedError<'TOO_LATE'>
/** LOCK_UNREADABLE: lock cannot be judged. */
export const LockUnreadableError = /* @__PURE__ */ of('LOCK_UNREADABLE')
export type LockUnreadableError = CodedError<'LOCK_UNREADABLE'>
/** STALE_TOKEN: stale fencing token. */
export const StaleTokenError = /* @__PURE__ */ of('STALE_TOKEN')
export type StaleTokenError = CodedError<'STALE_TOKEN'>
/** OTHER_SUBJECT: token of another lock or run. */
export const OtherSubjectError = /* @__PURE__ */ of('OTHER_SUBJECT')
export type OtherSubjectError = CodedError<'OTHER_SUBJECT'>
/** ANALYSIS_LOCKED: analysis is locked. */
export const AnalysisLockedError = /* @__PURE__ */ of('ANALYSIS_LOCKED')
export type AnalysisLockedError = CodedError<'ANALYSIS_LOCKED'>
/** RUN_INTERRUPTED: run interrupted. */
export const RunInterruptedError = /* @__PURE__ */ of('RUN_INTERRUPTED')
export type RunInterruptedError = CodedError<'RUN_INTERRUPTED'>
/** ALREADY_FINISHED: already finished. */
export const AlreadyFinishedError = /* @__PURE__ */ of('ALREADY_FINISHED')
export type AlreadyFinishedError = CodedError<'ALREADY_FINISHED'>
/** NOT_FAILED: only what is FAILED can be retried. */
export const NotFailedError = /* @__PURE__ */ of('NOT_FAILED')
export type NotFailedError = CodedError<'NOT_FAILED'>
/** NOT_READY: only a run that is READY can be run again. */
export const NotReadyError = /* @__PURE__ */ of('NOT_READY')
export type NotReadyError = CodedError<'NOT_READY'>
/** END_CHANGED: it ended at another time. */
export const EndChangedError = /* @__PURE__ */ of('END_CHANGED')
export type EndChangedError = CodedError<'END_CHANGED'>
/** RUN_IN_PROGRESS: a worker runs it. */
export const RunInProgressError = /* @__PURE__ */ of('RUN_IN_PROGRESS')
export type RunInProgressError = CodedError<'RUN_IN_PROGRESS'>
/** PAYLOAD_TOO_LARGE: body too large. */
export const PayloadTooLargeError = /* @__PURE__ */ of('PAYLOAD_TOO_LARGE')
export type PayloadTooLargeError = CodedError<'PAYLOAD_TOO_LARGE'>
/** REQUEST_ID_REUSED: request_id used before. */
export const RequestIdReusedError = /* @__PURE__ */ of('REQUEST_ID_REUSED')
export type RequestIdReusedError = CodedError<'REQUEST_ID_REUSED'>
/** RUN_DIFFERS: run of something else. */
export const RunDiffersError = /* @__PURE__ */ of('RUN_DIFFERS')
export type RunDiffersError = CodedError<'RUN_DIFFERS'>
/** ATTEMPT_FAILED: run failed. */
export const AttemptFailedError = /* @__PURE__ */ of('ATTEMPT_FAILED')
export type AttemptFailedError = CodedError<'ATTEMPT_FAILED'>
/** INTERNAL: internal error. */
export const InternalError = /* @__PURE__ */ of('INTERNAL')
export type InternalError = CodedError<'INTERNAL'>
/** DOCUMENT_DAMAGED: stored document is damaged. */
export const DocumentDamagedError = /* @__PURE__ */ of('DOCUMENT_DAMAGED')
export type DocumentDamagedError = CodedError<'DOCUMENT_DAMAGED'>
/** NOT_CONFIGURED: not configured. */
export const NotConfiguredError = /* @__PURE__ */ of('NOT_CONFIGURED')
export type NotConfiguredError = CodedError<'NOT_CONFIGURED'>
/** UNAVAILABLE: store unavailable. */
export const UnavailableError = /* @__PURE__ */ of('UNAVAILABLE')
export type UnavailableError = CodedError<'UNAVAILABLE'>
/** MACHINE_IDS_EXHAUSTED: no free machine ID. */
export const MachineIdsExhaustedError = /* @__PURE__ */ of('MACHINE_IDS_EXHAUSTED')
export type MachineIdsExhaustedError = CodedError<'MACHINE_IDS_EXHAUSTED'>
/** MACHINE_ID_LIMIT: too many machine IDs. */
export const MachineIdLimitError = /* @__PURE__ */ of('MACHINE_ID_LIMIT')
export type MachineIdLimitError = CodedError<'MACHINE_ID_LIMIT'>
/** LOCK_LIMIT: too many locks. */
export const LockLimitError = /* @__PURE__ */ of('LOCK_LIMIT')
export type LockLimitError = CodedError<'LOCK_LIMIT'>
/** RUN_LIMIT: too many runs. */
export const RunLimitError = /* @__PURE__ */ of('RUN_LIMIT')
export type RunLimitError = CodedError<'RUN_LIMIT'>
/** RATE_LIMITED: too many requests. */
export const RateLimitedError = /* @__PURE__ */ of('RATE_LIMITED')
export type RateLimitedError = CodedError<'RATE_LIMITED'>
/** OVERLOADED: server overloaded. */
export const OverloadedError = /* @__PURE__ */ of('OVERLOADED')
export type OverloadedError = CodedError<'OVERLOADED'>
/** CLOCK_SKEW: clock skew too large. */
export const ClockSkewError = /* @__PURE__ */ of('CLOCK_SKEW')
export type ClockSkewError = CodedError<'CLOCK_SKEW'>
/** DEADLINE_EXCEEDED: store timed out. */
export const DeadlineExceededError = /* @__PURE__ */ of('DEADLINE_EXCEEDED')
export type DeadlineExceededError = CodedError<'DEADLINE_EXCEEDED'>

/** The codes of which a retry may help, although the status does not say so, where a response does not say it. */
const retryable = /^(LOCK_HELD|LOCK_QUEUE_FULL|LOCK_DELAYED|LEASE_CHANGED|TOPOLOGY_UNDETERMINED|NO_ELIGIBLE_MEMBER|ACTIVATION_LOCKED|MEMBER_EXISTS|CLUSTER_FULL|ANALYSIS_LOCKED|RUN_INTERRUPTED|RUN_IN_PROGRESS|ATTEMPT_FAILED)$/

/** Makes the error of a problem. */
export const apiError = (problem: ConstructorParameters<typeof ApiError>[0], retryAfter = 0, options?: ErrorOptions): ApiError =>
  new ApiError({ ...(retryable.test(problem.code) && { retryable: true }), ...problem }, retryAfter, options)
