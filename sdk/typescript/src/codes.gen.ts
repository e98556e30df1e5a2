// Code generated from contracts/codes.yaml by scripts/generate.mjs. DO NOT EDIT.

import { ApiError, type Code, type Problem } from './errors.js'

/** The error of one code. */
export interface CodedError<C extends Code> extends ApiError {
  readonly code: C
}

/** The class of the errors of one code. */
export interface CodedErrorClass<C extends Code> {
  new (...args: ConstructorParameters<typeof ApiError>): CodedError<C>
  readonly prototype: CodedError<C>
}

const classes: Record<string, typeof ApiError> = {}

/** Makes the class of a code. Where a response does not say whether a retry may help, it is as the code says. */
const of = <C extends Code>(code: C, retryable = false) => (classes[code] = class extends ApiError {
  constructor(...[problem, ...more]: ConstructorParameters<typeof ApiError>) {
    super({ retryable, ...problem }, ...more)
  }
}) as unknown as CodedErrorClass<C>

/** INVALID_ARGUMENT: invalid field. */
export const InvalidArgumentError = of('INVALID_ARGUMENT')
export type InvalidArgumentError = CodedError<'INVALID_ARGUMENT'>
/** AMBIGUOUS_PATH: the path is not clear. */
export const AmbiguousPathError = of('AMBIGUOUS_PATH')
export type AmbiguousPathError = CodedError<'AMBIGUOUS_PATH'>
/** UNAUTHENTICATED: not authenticated. */
export const UnauthenticatedError = of('UNAUTHENTICATED')
export type UnauthenticatedError = CodedError<'UNAUTHENTICATED'>
/** PERMISSION_DENIED: permission denied. */
export const PermissionDeniedError = of('PERMISSION_DENIED')
export type PermissionDeniedError = CodedError<'PERMISSION_DENIED'>
/** NOT_OWNER: not the owner of the lease. */
export const NotOwnerError = of('NOT_OWNER')
export type NotOwnerError = CodedError<'NOT_OWNER'>
/** BAD_SIGNATURE: invalid signature. */
export const BadSignatureError = of('BAD_SIGNATURE')
export type BadSignatureError = CodedError<'BAD_SIGNATURE'>
/** NOT_FOUND: not found. */
export const NotFoundError = of('NOT_FOUND')
export type NotFoundError = CodedError<'NOT_FOUND'>
/** UNKNOWN_SERVICE: unknown service. */
export const UnknownServiceError = of('UNKNOWN_SERVICE')
export type UnknownServiceError = CodedError<'UNKNOWN_SERVICE'>
/** METHOD_NOT_ALLOWED: method not allowed. */
export const MethodNotAllowedError = of('METHOD_NOT_ALLOWED')
export type MethodNotAllowedError = CodedError<'METHOD_NOT_ALLOWED'>
/** REQUEST_TIMEOUT: body too slow. */
export const RequestTimeoutError = of('REQUEST_TIMEOUT', true)
export type RequestTimeoutError = CodedError<'REQUEST_TIMEOUT'>
/** LOCK_HELD: lock is held. */
export const LockHeldError = of('LOCK_HELD', true)
export type LockHeldError = CodedError<'LOCK_HELD'>
/** LOCK_NOT_HELD: lock is not held. */
export const LockNotHeldError = of('LOCK_NOT_HELD')
export type LockNotHeldError = CodedError<'LOCK_NOT_HELD'>
/** LOCK_MODE_DIFFERS: lock has another mode. */
export const LockModeDiffersError = of('LOCK_MODE_DIFFERS')
export type LockModeDiffersError = CodedError<'LOCK_MODE_DIFFERS'>
/** LOCK_QUEUE_FULL: too many wait for the lock. */
export const LockQueueFullError = of('LOCK_QUEUE_FULL', true)
export type LockQueueFullError = CodedError<'LOCK_QUEUE_FULL'>
/** LOCK_DELAYED: lock is closed for its delay. */
export const LockDelayedError = of('LOCK_DELAYED', true)
export type LockDelayedError = CodedError<'LOCK_DELAYED'>
/** LEASE_LOST: superseded by a newer lease. */
export const LeaseLostError = of('LEASE_LOST')
export type LeaseLostError = CodedError<'LEASE_LOST'>
/** LEASE_EXPIRED: lease expired. */
export const LeaseExpiredError = of('LEASE_EXPIRED')
export type LeaseExpiredError = CodedError<'LEASE_EXPIRED'>
/** LEASE_RELEASED: lease released. */
export const LeaseReleasedError = of('LEASE_RELEASED')
export type LeaseReleasedError = CodedError<'LEASE_RELEASED'>
/** LEASE_CHANGED: lease changed. */
export const LeaseChangedError = of('LEASE_CHANGED', true)
export type LeaseChangedError = CodedError<'LEASE_CHANGED'>
/** TOO_LATE: too late. */
export const TooLateError = of('TOO_LATE')
export type TooLateError = CodedError<'TOO_LATE'>
/** LOCK_UNREADABLE: lock cannot be judged. */
export const LockUnreadableError = of('LOCK_UNREADABLE')
export type LockUnreadableError = CodedError<'LOCK_UNREADABLE'>
/** STALE_TOKEN: stale fencing token. */
export const StaleTokenError = of('STALE_TOKEN')
export type StaleTokenError = CodedError<'STALE_TOKEN'>
/** TOPOLOGY_UNDETERMINED: no member to place on. */
export const TopologyUndeterminedError = of('TOPOLOGY_UNDETERMINED', true)
export type TopologyUndeterminedError = CodedError<'TOPOLOGY_UNDETERMINED'>
/** NO_ELIGIBLE_MEMBER: no eligible member. */
export const NoEligibleMemberError = of('NO_ELIGIBLE_MEMBER', true)
export type NoEligibleMemberError = CodedError<'NO_ELIGIBLE_MEMBER'>
/** ACTIVATION_LOCKED: identity is being activated. */
export const ActivationLockedError = of('ACTIVATION_LOCKED', true)
export type ActivationLockedError = CodedError<'ACTIVATION_LOCKED'>
/** MEMBER_EXISTS: member of this name lives. */
export const MemberExistsError = of('MEMBER_EXISTS', true)
export type MemberExistsError = CodedError<'MEMBER_EXISTS'>
/** CLUSTER_FULL: cluster is full. */
export const ClusterFullError = of('CLUSTER_FULL', true)
export type ClusterFullError = CodedError<'CLUSTER_FULL'>
/** ANALYSIS_LOCKED: analysis is locked. */
export const AnalysisLockedError = of('ANALYSIS_LOCKED', true)
export type AnalysisLockedError = CodedError<'ANALYSIS_LOCKED'>
/** RUN_INTERRUPTED: run interrupted. */
export const RunInterruptedError = of('RUN_INTERRUPTED', true)
export type RunInterruptedError = CodedError<'RUN_INTERRUPTED'>
/** ALREADY_FINISHED: already finished. */
export const AlreadyFinishedError = of('ALREADY_FINISHED')
export type AlreadyFinishedError = CodedError<'ALREADY_FINISHED'>
/** ANALYSIS_NOT_FAILED: analysis is not FAILED. */
export const AnalysisNotFailedError = of('ANALYSIS_NOT_FAILED')
export type AnalysisNotFailedError = CodedError<'ANALYSIS_NOT_FAILED'>
/** ANALYSIS_CHANGED: analysis has changed. */
export const AnalysisChangedError = of('ANALYSIS_CHANGED')
export type AnalysisChangedError = CodedError<'ANALYSIS_CHANGED'>
/** PAYLOAD_TOO_LARGE: body too large. */
export const PayloadTooLargeError = of('PAYLOAD_TOO_LARGE')
export type PayloadTooLargeError = CodedError<'PAYLOAD_TOO_LARGE'>
/** REQUEST_ID_REUSED: request_id used before. */
export const RequestIdReusedError = of('REQUEST_ID_REUSED')
export type RequestIdReusedError = CodedError<'REQUEST_ID_REUSED'>
/** RUN_DIFFERS: run of something else. */
export const RunDiffersError = of('RUN_DIFFERS')
export type RunDiffersError = CodedError<'RUN_DIFFERS'>
/** ATTEMPT_FAILED: run failed. */
export const AttemptFailedError = of('ATTEMPT_FAILED', true)
export type AttemptFailedError = CodedError<'ATTEMPT_FAILED'>
/** INTERNAL: internal error. */
export const InternalError = of('INTERNAL')
export type InternalError = CodedError<'INTERNAL'>
/** DOCUMENT_DAMAGED: stored document is damaged. */
export const DocumentDamagedError = of('DOCUMENT_DAMAGED')
export type DocumentDamagedError = CodedError<'DOCUMENT_DAMAGED'>
/** NOT_CONFIGURED: not configured. */
export const NotConfiguredError = of('NOT_CONFIGURED')
export type NotConfiguredError = CodedError<'NOT_CONFIGURED'>
/** UNAVAILABLE: store unavailable. */
export const UnavailableError = of('UNAVAILABLE', true)
export type UnavailableError = CodedError<'UNAVAILABLE'>
/** MACHINE_IDS_EXHAUSTED: no free machine ID. */
export const MachineIdsExhaustedError = of('MACHINE_IDS_EXHAUSTED', true)
export type MachineIdsExhaustedError = CodedError<'MACHINE_IDS_EXHAUSTED'>
/** MACHINE_ID_LIMIT: too many machine IDs. */
export const MachineIdLimitError = of('MACHINE_ID_LIMIT', true)
export type MachineIdLimitError = CodedError<'MACHINE_ID_LIMIT'>
/** LOCK_LIMIT: too many locks. */
export const LockLimitError = of('LOCK_LIMIT', true)
export type LockLimitError = CodedError<'LOCK_LIMIT'>
/** RUN_LIMIT: too many runs. */
export const RunLimitError = of('RUN_LIMIT', true)
export type RunLimitError = CodedError<'RUN_LIMIT'>
/** PLACEMENT_LIMIT: too many identities or clusters. */
export const PlacementLimitError = of('PLACEMENT_LIMIT', true)
export type PlacementLimitError = CodedError<'PLACEMENT_LIMIT'>
/** RATE_LIMITED: too many requests. */
export const RateLimitedError = of('RATE_LIMITED', true)
export type RateLimitedError = CodedError<'RATE_LIMITED'>
/** OVERLOADED: server overloaded. */
export const OverloadedError = of('OVERLOADED', true)
export type OverloadedError = CodedError<'OVERLOADED'>
/** CLOCK_SKEW: clock skew too large. */
export const ClockSkewError = of('CLOCK_SKEW', true)
export type ClockSkewError = CodedError<'CLOCK_SKEW'>
/** DEADLINE_EXCEEDED: store timed out. */
export const DeadlineExceededError = of('DEADLINE_EXCEEDED', true)
export type DeadlineExceededError = CodedError<'DEADLINE_EXCEEDED'>

/** Makes the error of a problem, of the class of its code. A code that this version does not know is an {@link ApiError}. */
export function apiError(problem: Partial<Problem> & { readonly code: Code }, retryAfter = 0): ApiError {
  return new ((Object.hasOwn(classes, problem.code) && classes[problem.code]) || ApiError)(problem, retryAfter)
}
