/**
 * Errors. Programs act on `instanceof` or on `code`, never on the message.
 *
 * Every error of this package is a {@link LeaseholdError}. A rejection of the server is an {@link ApiError}, and there is one class for each of its codes.
 *
 * @module
 */
import type { components } from './types.gen.js'

/** What the server says of a request that it rejected or could not carry out. */
export type Problem = components['schemas']['Problem']

/** The codes of the server. */
export type Code = components['schemas']['Code']

/** The base of all errors of this package. */
export class LeaseholdError extends Error {
  override readonly name: string = 'LeaseholdError'
}

/** No definite response arrived: the request may have been carried out, or may still be. `cause` says what went wrong. */
export class ConnectionError extends LeaseholdError {
  override readonly name = 'ConnectionError'
}

/** A response that is not the one that was asked for: of another server, of a proxy, or about another lease. */
export class InvalidResponseError extends LeaseholdError {
  override readonly name = 'InvalidResponseError'
  /** How long to wait before the request is sent again, in milliseconds, if a proxy says so; else 0. */
  retryAfter = 0
}

/** The lock is, or very soon will be, another's. `cause` says why: the rejection of the server, or why renewals failed. */
export class LockLostError extends LeaseholdError {
  override readonly name: string = 'LockLostError'
  /** The error of the work, if it failed otherwise than with this one. */
  workError?: unknown

  /** The code with which the server said that the lease is over; LEASE_EXPIRED if its time was over. */
  get code(): Code | undefined {
    return this.cause instanceof ApiError && isGone(this.cause) ? this.cause.code : 'LEASE_EXPIRED'
  }
}

/** The lock was held for as long as `maxHold` allows. */
export class MaxHoldError extends LockLostError {
  override readonly name = 'MaxHoldError'
  override get code(): undefined {
    return undefined
  }
}

/** The lock was not released, and is free when its lease expires. `cause` says why. */
export class NotReleasedError extends LeaseholdError {
  override readonly name = 'NotReleasedError'
}

/** The lock was released by its holder. It is the reason with which `lock.signal` is aborted then. */
export class ReleasedError extends LeaseholdError {
  override readonly name = 'ReleasedError'
}

/** The client was closed. */
export class ClosedError extends LeaseholdError {
  override readonly name = 'ClosedError'
}

/** The server rejected a request, or could not carry it out. */
export class ApiError extends LeaseholdError {
  override readonly name: string
  /** What happened, for programs. */
  readonly code: Code
  /** The status of the response. */
  readonly status: number
  /** Whether the same request may succeed later. */
  readonly retryable: boolean
  /** With INVALID_ARGUMENT the invalid field. */
  readonly field: string | undefined
  /** With LOCK_HELD the holder. */
  readonly owner: string | undefined
  /** With LOCK_HELD and LEASE_CHANGED when the lease expires, ISO 8601. */
  readonly expiresAt: string | undefined
  /** How long to wait before the request is sent again, in milliseconds; 0 if the server does not say. */
  readonly retryAfter: number
  /** With LOCK_HELD the caller's place in line, 1 being the next; undefined without one. */
  readonly position: number | undefined

  /**
   * @param problem what the server says
   * @param retryAfter in milliseconds, if the response has a Retry-After; the problem's own is more exact
   */
  constructor(readonly problem: Partial<Problem> & { readonly code: Code }, retryAfter = 0, options?: ErrorOptions) {
    super(`${problem.code}: ${problem.detail || problem.title || 'rejected'}${problem.field ? ` (field ${problem.field})` : ''}`, options)
    this.code = problem.code
    // LOCK_HELD is a LockHeldError, LEASE_LOST a LeaseLostError.
    this.name = `${this.code.toLowerCase().replace(/(?:^|_)(.)/g, (_, letter: string) => letter.toUpperCase())}Error`
    this.status = problem.status ?? 0
    this.retryable = problem.retryable ?? false
    this.field = problem.field
    this.owner = problem.owner_id
    this.expiresAt = problem.expires_at
    const ms = Number(problem.retry_after_ms ?? retryAfter)
    this.retryAfter = ms > 0 ? ms : 0
    this.position = problem.position
  }
}

/** INVALID_ARGUMENT: invalid field. */
export class InvalidArgumentError extends ApiError {}
/** UNAUTHENTICATED: not authenticated. */
export class UnauthenticatedError extends ApiError {}
/** PERMISSION_DENIED: permission denied. */
export class PermissionDeniedError extends ApiError {}
/** NOT_OWNER: not the owner of the lease. */
export class NotOwnerError extends ApiError {}
/** BAD_SIGNATURE: invalid signature. */
export class BadSignatureError extends ApiError {}
/** NOT_FOUND: not found. */
export class NotFoundError extends ApiError {}
/** UNKNOWN_SERVICE: unknown service. */
export class UnknownServiceError extends ApiError {}
/** METHOD_NOT_ALLOWED: method not allowed. */
export class MethodNotAllowedError extends ApiError {}
/** LOCK_HELD: lock is held. */
export class LockHeldError extends ApiError {}
/** LOCK_NOT_HELD: lock is not held. */
export class LockNotHeldError extends ApiError {}
/** LOCK_MODE_DIFFERS: lock has another mode. */
export class LockModeDiffersError extends ApiError {}
/** LOCK_QUEUE_FULL: too many wait for the lock. */
export class LockQueueFullError extends ApiError {}
/** LOCK_DELAYED: lock is closed for its delay. */
export class LockDelayedError extends ApiError {}
/** ANALYSIS_LOCKED: analysis is locked. */
export class AnalysisLockedError extends ApiError {}
/** RUN_INTERRUPTED: run interrupted. */
export class RunInterruptedError extends ApiError {}
/** RUN_DIFFERS: run of something else. */
export class RunDiffersError extends ApiError {}
/** LEASE_LOST: superseded by a newer lease. */
export class LeaseLostError extends ApiError {}
/** LEASE_EXPIRED: lease expired. */
export class LeaseExpiredError extends ApiError {}
/** LEASE_RELEASED: lease released. */
export class LeaseReleasedError extends ApiError {}
/** LEASE_CHANGED: lease changed. */
export class LeaseChangedError extends ApiError {}
/** ALREADY_FINISHED: analysis is already finished. */
export class AlreadyFinishedError extends ApiError {}
/** ANALYSIS_NOT_FAILED: analysis is not FAILED. */
export class AnalysisNotFailedError extends ApiError {}
/** ANALYSIS_CHANGED: analysis has changed. */
export class AnalysisChangedError extends ApiError {}
/** LOCK_UNREADABLE: lock cannot be judged. */
export class LockUnreadableError extends ApiError {}
/** STALE_TOKEN: stale fencing token. */
export class StaleTokenError extends ApiError {}
/** PAYLOAD_TOO_LARGE: body too large. */
export class PayloadTooLargeError extends ApiError {}
/** REQUEST_ID_REUSED: request_id used before. */
export class RequestIdReusedError extends ApiError {}
/** ATTEMPT_FAILED: run failed. */
export class AttemptFailedError extends ApiError {}
/** INTERNAL: internal error. */
export class InternalError extends ApiError {}
/** DOCUMENT_DAMAGED: stored document is damaged. */
export class DocumentDamagedError extends ApiError {}
/** NOT_CONFIGURED: not configured. */
export class NotConfiguredError extends ApiError {}
/** UNAVAILABLE: store unavailable. */
export class UnavailableError extends ApiError {}
/** MACHINE_IDS_EXHAUSTED: no free machine ID. */
export class MachineIdsExhaustedError extends ApiError {}
/** CLOCK_SKEW: clock skew too large. */
export class ClockSkewError extends ApiError {}
/** DEADLINE_EXCEEDED: store timed out. */
export class DeadlineExceededError extends ApiError {}
/** MACHINE_ID_LIMIT: too many machine IDs. */
export class MachineIdLimitError extends ApiError {}
/** LOCK_LIMIT: too many locks. */
export class LockLimitError extends ApiError {}
/** PLACEMENT_LIMIT: too many identities or clusters. */
export class PlacementLimitError extends ApiError {}
/** RATE_LIMITED: too many requests. */
export class RateLimitedError extends ApiError {}
/** OVERLOADED: server overloaded. */
export class OverloadedError extends ApiError {}
/** TOPOLOGY_UNDETERMINED: no member to place on. */
export class TopologyUndeterminedError extends ApiError {}
/** NO_ELIGIBLE_MEMBER: no eligible member. */
export class NoEligibleMemberError extends ApiError {}
/** MEMBER_INELIGIBLE: member is not eligible. */
export class MemberIneligibleError extends ApiError {}
/** STALE_EPOCH: epoch is over. */
export class StaleEpochError extends ApiError {}
/** ACTIVATION_EXISTS: identity is active. */
export class ActivationExistsError extends ApiError {}
/** ACTIVATION_LOCKED: identity is being activated. */
export class ActivationLockedError extends ApiError {}
/** ACTIVATION_FAILED: activation failed. */
export class ActivationFailedError extends ApiError {}
/** WRONG_PHASE: activation is in another phase. */
export class WrongPhaseError extends ApiError {}
/** STATE_CHANGED: state has another version. */
export class StateChangedError extends ApiError {}
/** MEMBER_EXISTS: member of this name lives. */
export class MemberExistsError extends ApiError {}
/** MEMBER_UNKNOWN: no member of this name. */
export class MemberUnknownError extends ApiError {}
/** STALE_INCARNATION: incarnation has ended. */
export class StaleIncarnationError extends ApiError {}
/** CLUSTER_FULL: cluster is full. */
export class ClusterFullError extends ApiError {}
/** CLUSTER_DIFFERS: cluster is set up differently. */
export class ClusterDiffersError extends ApiError {}

const classes: { readonly [code in Code]: typeof ApiError } = {
  INVALID_ARGUMENT: InvalidArgumentError,
  UNAUTHENTICATED: UnauthenticatedError,
  PERMISSION_DENIED: PermissionDeniedError,
  NOT_OWNER: NotOwnerError,
  BAD_SIGNATURE: BadSignatureError,
  NOT_FOUND: NotFoundError,
  UNKNOWN_SERVICE: UnknownServiceError,
  METHOD_NOT_ALLOWED: MethodNotAllowedError,
  LOCK_HELD: LockHeldError,
  LOCK_NOT_HELD: LockNotHeldError,
  LOCK_MODE_DIFFERS: LockModeDiffersError,
  LOCK_QUEUE_FULL: LockQueueFullError,
  LOCK_DELAYED: LockDelayedError,
  ANALYSIS_LOCKED: AnalysisLockedError,
  RUN_INTERRUPTED: RunInterruptedError,
  RUN_DIFFERS: RunDiffersError,
  LEASE_LOST: LeaseLostError,
  LEASE_EXPIRED: LeaseExpiredError,
  LEASE_RELEASED: LeaseReleasedError,
  LEASE_CHANGED: LeaseChangedError,
  ALREADY_FINISHED: AlreadyFinishedError,
  ANALYSIS_NOT_FAILED: AnalysisNotFailedError,
  ANALYSIS_CHANGED: AnalysisChangedError,
  LOCK_UNREADABLE: LockUnreadableError,
  STALE_TOKEN: StaleTokenError,
  PAYLOAD_TOO_LARGE: PayloadTooLargeError,
  REQUEST_ID_REUSED: RequestIdReusedError,
  ATTEMPT_FAILED: AttemptFailedError,
  INTERNAL: InternalError,
  DOCUMENT_DAMAGED: DocumentDamagedError,
  NOT_CONFIGURED: NotConfiguredError,
  UNAVAILABLE: UnavailableError,
  MACHINE_IDS_EXHAUSTED: MachineIdsExhaustedError,
  CLOCK_SKEW: ClockSkewError,
  DEADLINE_EXCEEDED: DeadlineExceededError,
  MACHINE_ID_LIMIT: MachineIdLimitError,
  LOCK_LIMIT: LockLimitError,
  PLACEMENT_LIMIT: PlacementLimitError,
  RATE_LIMITED: RateLimitedError,
  OVERLOADED: OverloadedError,
  TOPOLOGY_UNDETERMINED: TopologyUndeterminedError,
  NO_ELIGIBLE_MEMBER: NoEligibleMemberError,
  MEMBER_INELIGIBLE: MemberIneligibleError,
  STALE_EPOCH: StaleEpochError,
  ACTIVATION_EXISTS: ActivationExistsError,
  ACTIVATION_LOCKED: ActivationLockedError,
  ACTIVATION_FAILED: ActivationFailedError,
  WRONG_PHASE: WrongPhaseError,
  STATE_CHANGED: StateChangedError,
  MEMBER_EXISTS: MemberExistsError,
  MEMBER_UNKNOWN: MemberUnknownError,
  STALE_INCARNATION: StaleIncarnationError,
  CLUSTER_FULL: ClusterFullError,
  CLUSTER_DIFFERS: ClusterDiffersError,
}

/** Makes the error of a problem, of the class of its code. A code that this version does not know is an {@link ApiError}. */
export function apiError(problem: Partial<Problem> & { readonly code: Code }, retryAfter = 0): ApiError {
  return new (Object.hasOwn(classes, problem.code) ? classes[problem.code] : ApiError)(problem, retryAfter)
}

/** Whether an error says that a lease is the caller's no more. */
export function isGone(e: unknown): boolean {
  return e instanceof LeaseLostError || e instanceof LeaseExpiredError || e instanceof LeaseReleasedError || e instanceof NotOwnerError
}
