"""One class of error for each code of the API. Generated from the contract by tools/generate.py."""

from __future__ import annotations

from typing import Any

from .errors import ApiError

__all__ = [
    "ActivationExistsError",
    "ActivationFailedError",
    "ActivationLockedError",
    "AlreadyFinishedError",
    "AmbiguousPathError",
    "AnalysisLockedError",
    "AttemptFailedError",
    "BadSignatureError",
    "ClockSkewError",
    "ClusterDiffersError",
    "ClusterFullError",
    "CursorExpiredError",
    "DeadlineExceededError",
    "DocumentDamagedError",
    "EndChangedError",
    "InternalError",
    "InvalidArgumentError",
    "LeaseChangedError",
    "LeaseExpiredError",
    "LeaseLostError",
    "LeaseReleasedError",
    "LockDelayedError",
    "LockHeldError",
    "LockLimitError",
    "LockModeDiffersError",
    "LockNotHeldError",
    "LockQueueFullError",
    "LockUnreadableError",
    "MachineIdLimitError",
    "MachineIdsExhaustedError",
    "MemberExistsError",
    "MemberIneligibleError",
    "MemberUnknownError",
    "MethodNotAllowedError",
    "NoEligibleMemberError",
    "NotConfiguredError",
    "NotFailedError",
    "NotFoundError",
    "NotOwnerError",
    "NotReadyError",
    "OtherSubjectError",
    "OverloadedError",
    "PayloadTooLargeError",
    "PermissionDeniedError",
    "PlacementLimitError",
    "RateLimitedError",
    "RequestIdReusedError",
    "RequestTimeoutError",
    "RunDiffersError",
    "RunInProgressError",
    "RunInterruptedError",
    "RunLimitError",
    "StaleEpochError",
    "StaleIncarnationError",
    "StaleTokenError",
    "StateChangedError",
    "TooLateError",
    "TopologyUndeterminedError",
    "UnauthenticatedError",
    "UnavailableError",
    "UnknownServiceError",
    "WrongPhaseError",
    "of",
]


class InvalidArgumentError(ApiError):
    """400: invalid field."""

    code = "INVALID_ARGUMENT"
    default_title = "invalid field"
    default_status = 400
    default_retryable = False


class AmbiguousPathError(ApiError):
    """400: the path is not clear."""

    code = "AMBIGUOUS_PATH"
    default_title = "the path is not clear"
    default_status = 400
    default_retryable = False


class UnauthenticatedError(ApiError):
    """401: not authenticated."""

    code = "UNAUTHENTICATED"
    default_title = "not authenticated"
    default_status = 401
    default_retryable = False


class PermissionDeniedError(ApiError):
    """403: permission denied."""

    code = "PERMISSION_DENIED"
    default_title = "permission denied"
    default_status = 403
    default_retryable = False


class NotOwnerError(ApiError):
    """403: not the owner of the lease."""

    code = "NOT_OWNER"
    default_title = "not the owner of the lease"
    default_status = 403
    default_retryable = False


class BadSignatureError(ApiError):
    """403: invalid signature."""

    code = "BAD_SIGNATURE"
    default_title = "invalid signature"
    default_status = 403
    default_retryable = False


class NotFoundError(ApiError):
    """404: not found."""

    code = "NOT_FOUND"
    default_title = "not found"
    default_status = 404
    default_retryable = False


class UnknownServiceError(ApiError):
    """404: unknown service."""

    code = "UNKNOWN_SERVICE"
    default_title = "unknown service"
    default_status = 404
    default_retryable = False


class MethodNotAllowedError(ApiError):
    """405: method not allowed."""

    code = "METHOD_NOT_ALLOWED"
    default_title = "method not allowed"
    default_status = 405
    default_retryable = False


class RequestTimeoutError(ApiError):
    """408, retryable: body too slow."""

    code = "REQUEST_TIMEOUT"
    default_title = "body too slow"
    default_status = 408
    default_retryable = True


class LockHeldError(ApiError):
    """409, retryable: lock is held."""

    code = "LOCK_HELD"
    default_title = "lock is held"
    default_status = 409
    default_retryable = True


class LockNotHeldError(ApiError):
    """409: lock is not held."""

    code = "LOCK_NOT_HELD"
    default_title = "lock is not held"
    default_status = 409
    default_retryable = False


class LockModeDiffersError(ApiError):
    """409: lock has another mode."""

    code = "LOCK_MODE_DIFFERS"
    default_title = "lock has another mode"
    default_status = 409
    default_retryable = False


class LockQueueFullError(ApiError):
    """409, retryable: too many wait for the lock."""

    code = "LOCK_QUEUE_FULL"
    default_title = "too many wait for the lock"
    default_status = 409
    default_retryable = True


class LockDelayedError(ApiError):
    """409, retryable: lock is closed for its delay."""

    code = "LOCK_DELAYED"
    default_title = "lock is closed for its delay"
    default_status = 409
    default_retryable = True


class LeaseLostError(ApiError):
    """409: superseded by a newer lease."""

    code = "LEASE_LOST"
    default_title = "superseded by a newer lease"
    default_status = 409
    default_retryable = False


class LeaseExpiredError(ApiError):
    """409: lease expired."""

    code = "LEASE_EXPIRED"
    default_title = "lease expired"
    default_status = 409
    default_retryable = False


class LeaseReleasedError(ApiError):
    """409: lease released."""

    code = "LEASE_RELEASED"
    default_title = "lease released"
    default_status = 409
    default_retryable = False


class LeaseChangedError(ApiError):
    """409, retryable: lease changed."""

    code = "LEASE_CHANGED"
    default_title = "lease changed"
    default_status = 409
    default_retryable = True


class TooLateError(ApiError):
    """409: too late."""

    code = "TOO_LATE"
    default_title = "too late"
    default_status = 409
    default_retryable = False


class CursorExpiredError(ApiError):
    """410: the place is gone."""

    code = "CURSOR_EXPIRED"
    default_title = "the place is gone"
    default_status = 410
    default_retryable = False


class LockUnreadableError(ApiError):
    """409: lock cannot be judged."""

    code = "LOCK_UNREADABLE"
    default_title = "lock cannot be judged"
    default_status = 409
    default_retryable = False


class StaleTokenError(ApiError):
    """409: stale fencing token."""

    code = "STALE_TOKEN"
    default_title = "stale fencing token"
    default_status = 409
    default_retryable = False


class OtherSubjectError(ApiError):
    """409: token of another lock or run."""

    code = "OTHER_SUBJECT"
    default_title = "token of another lock or run"
    default_status = 409
    default_retryable = False


class TopologyUndeterminedError(ApiError):
    """409, retryable: no member to place on."""

    code = "TOPOLOGY_UNDETERMINED"
    default_title = "no member to place on"
    default_status = 409
    default_retryable = True


class NoEligibleMemberError(ApiError):
    """409, retryable: no eligible member."""

    code = "NO_ELIGIBLE_MEMBER"
    default_title = "no eligible member"
    default_status = 409
    default_retryable = True


class MemberIneligibleError(ApiError):
    """409: member is not eligible."""

    code = "MEMBER_INELIGIBLE"
    default_title = "member is not eligible"
    default_status = 409
    default_retryable = False


class StaleEpochError(ApiError):
    """409: epoch is over."""

    code = "STALE_EPOCH"
    default_title = "epoch is over"
    default_status = 409
    default_retryable = False


class ActivationExistsError(ApiError):
    """409: identity is active."""

    code = "ACTIVATION_EXISTS"
    default_title = "identity is active"
    default_status = 409
    default_retryable = False


class ActivationLockedError(ApiError):
    """409, retryable: identity is being activated."""

    code = "ACTIVATION_LOCKED"
    default_title = "identity is being activated"
    default_status = 409
    default_retryable = True


class ActivationFailedError(ApiError):
    """409: activation failed."""

    code = "ACTIVATION_FAILED"
    default_title = "activation failed"
    default_status = 409
    default_retryable = False


class WrongPhaseError(ApiError):
    """409: activation is in another phase."""

    code = "WRONG_PHASE"
    default_title = "activation is in another phase"
    default_status = 409
    default_retryable = False


class StateChangedError(ApiError):
    """409: state has another version."""

    code = "STATE_CHANGED"
    default_title = "state has another version"
    default_status = 409
    default_retryable = False


class MemberExistsError(ApiError):
    """409, retryable: member of this name lives."""

    code = "MEMBER_EXISTS"
    default_title = "member of this name lives"
    default_status = 409
    default_retryable = True


class MemberUnknownError(ApiError):
    """404: no member of this name."""

    code = "MEMBER_UNKNOWN"
    default_title = "no member of this name"
    default_status = 404
    default_retryable = False


class StaleIncarnationError(ApiError):
    """409: incarnation has ended."""

    code = "STALE_INCARNATION"
    default_title = "incarnation has ended"
    default_status = 409
    default_retryable = False


class ClusterFullError(ApiError):
    """409, retryable: cluster is full."""

    code = "CLUSTER_FULL"
    default_title = "cluster is full"
    default_status = 409
    default_retryable = True


class ClusterDiffersError(ApiError):
    """409: cluster is set up differently."""

    code = "CLUSTER_DIFFERS"
    default_title = "cluster is set up differently"
    default_status = 409
    default_retryable = False


class AnalysisLockedError(ApiError):
    """409, retryable: analysis is locked."""

    code = "ANALYSIS_LOCKED"
    default_title = "analysis is locked"
    default_status = 409
    default_retryable = True


class RunInterruptedError(ApiError):
    """409, retryable: run interrupted."""

    code = "RUN_INTERRUPTED"
    default_title = "run interrupted"
    default_status = 409
    default_retryable = True


class AlreadyFinishedError(ApiError):
    """409: already finished."""

    code = "ALREADY_FINISHED"
    default_title = "already finished"
    default_status = 409
    default_retryable = False


class NotFailedError(ApiError):
    """409: only what is FAILED can be retried."""

    code = "NOT_FAILED"
    default_title = "only what is FAILED can be retried"
    default_status = 409
    default_retryable = False


class NotReadyError(ApiError):
    """409: only a run that is READY can be run again."""

    code = "NOT_READY"
    default_title = "only a run that is READY can be run again"
    default_status = 409
    default_retryable = False


class EndChangedError(ApiError):
    """409: it ended at another time."""

    code = "END_CHANGED"
    default_title = "it ended at another time"
    default_status = 409
    default_retryable = False


class RunInProgressError(ApiError):
    """409, retryable: a worker runs it."""

    code = "RUN_IN_PROGRESS"
    default_title = "a worker runs it"
    default_status = 409
    default_retryable = True


class PayloadTooLargeError(ApiError):
    """413: body too large."""

    code = "PAYLOAD_TOO_LARGE"
    default_title = "body too large"
    default_status = 413
    default_retryable = False


class RequestIdReusedError(ApiError):
    """422: request_id used before."""

    code = "REQUEST_ID_REUSED"
    default_title = "request_id used before"
    default_status = 422
    default_retryable = False


class RunDiffersError(ApiError):
    """422: run of something else."""

    code = "RUN_DIFFERS"
    default_title = "run of something else"
    default_status = 422
    default_retryable = False


class AttemptFailedError(ApiError):
    """424, retryable: run failed."""

    code = "ATTEMPT_FAILED"
    default_title = "run failed"
    default_status = 424
    default_retryable = True


class InternalError(ApiError):
    """500: internal error."""

    code = "INTERNAL"
    default_title = "internal error"
    default_status = 500
    default_retryable = False


class DocumentDamagedError(ApiError):
    """500: stored document is damaged."""

    code = "DOCUMENT_DAMAGED"
    default_title = "stored document is damaged"
    default_status = 500
    default_retryable = False


class NotConfiguredError(ApiError):
    """501: not configured."""

    code = "NOT_CONFIGURED"
    default_title = "not configured"
    default_status = 501
    default_retryable = False


class UnavailableError(ApiError):
    """503, retryable: store unavailable."""

    code = "UNAVAILABLE"
    default_title = "store unavailable"
    default_status = 503
    default_retryable = True


class MachineIdsExhaustedError(ApiError):
    """503, retryable: no free machine ID."""

    code = "MACHINE_IDS_EXHAUSTED"
    default_title = "no free machine ID"
    default_status = 503
    default_retryable = True


class MachineIdLimitError(ApiError):
    """429, retryable: too many machine IDs."""

    code = "MACHINE_ID_LIMIT"
    default_title = "too many machine IDs"
    default_status = 429
    default_retryable = True


class LockLimitError(ApiError):
    """429, retryable: too many locks."""

    code = "LOCK_LIMIT"
    default_title = "too many locks"
    default_status = 429
    default_retryable = True


class RunLimitError(ApiError):
    """429, retryable: too many runs."""

    code = "RUN_LIMIT"
    default_title = "too many runs"
    default_status = 429
    default_retryable = True


class PlacementLimitError(ApiError):
    """429, retryable: too many identities or clusters."""

    code = "PLACEMENT_LIMIT"
    default_title = "too many identities or clusters"
    default_status = 429
    default_retryable = True


class RateLimitedError(ApiError):
    """429, retryable: too many requests."""

    code = "RATE_LIMITED"
    default_title = "too many requests"
    default_status = 429
    default_retryable = True


class OverloadedError(ApiError):
    """503, retryable: server overloaded."""

    code = "OVERLOADED"
    default_title = "server overloaded"
    default_status = 503
    default_retryable = True


class ClockSkewError(ApiError):
    """503, retryable: clock skew too large."""

    code = "CLOCK_SKEW"
    default_title = "clock skew too large"
    default_status = 503
    default_retryable = True


class DeadlineExceededError(ApiError):
    """504, retryable: store timed out."""

    code = "DEADLINE_EXCEEDED"
    default_title = "store timed out"
    default_status = 504
    default_retryable = True


CLASSES: dict[str, type[ApiError]] = {
    "INVALID_ARGUMENT": InvalidArgumentError,
    "AMBIGUOUS_PATH": AmbiguousPathError,
    "UNAUTHENTICATED": UnauthenticatedError,
    "PERMISSION_DENIED": PermissionDeniedError,
    "NOT_OWNER": NotOwnerError,
    "BAD_SIGNATURE": BadSignatureError,
    "NOT_FOUND": NotFoundError,
    "UNKNOWN_SERVICE": UnknownServiceError,
    "METHOD_NOT_ALLOWED": MethodNotAllowedError,
    "REQUEST_TIMEOUT": RequestTimeoutError,
    "LOCK_HELD": LockHeldError,
    "LOCK_NOT_HELD": LockNotHeldError,
    "LOCK_MODE_DIFFERS": LockModeDiffersError,
    "LOCK_QUEUE_FULL": LockQueueFullError,
    "LOCK_DELAYED": LockDelayedError,
    "LEASE_LOST": LeaseLostError,
    "LEASE_EXPIRED": LeaseExpiredError,
    "LEASE_RELEASED": LeaseReleasedError,
    "LEASE_CHANGED": LeaseChangedError,
    "TOO_LATE": TooLateError,
    "CURSOR_EXPIRED": CursorExpiredError,
    "LOCK_UNREADABLE": LockUnreadableError,
    "STALE_TOKEN": StaleTokenError,
    "OTHER_SUBJECT": OtherSubjectError,
    "TOPOLOGY_UNDETERMINED": TopologyUndeterminedError,
    "NO_ELIGIBLE_MEMBER": NoEligibleMemberError,
    "MEMBER_INELIGIBLE": MemberIneligibleError,
    "STALE_EPOCH": StaleEpochError,
    "ACTIVATION_EXISTS": ActivationExistsError,
    "ACTIVATION_LOCKED": ActivationLockedError,
    "ACTIVATION_FAILED": ActivationFailedError,
    "WRONG_PHASE": WrongPhaseError,
    "STATE_CHANGED": StateChangedError,
    "MEMBER_EXISTS": MemberExistsError,
    "MEMBER_UNKNOWN": MemberUnknownError,
    "STALE_INCARNATION": StaleIncarnationError,
    "CLUSTER_FULL": ClusterFullError,
    "CLUSTER_DIFFERS": ClusterDiffersError,
    "ANALYSIS_LOCKED": AnalysisLockedError,
    "RUN_INTERRUPTED": RunInterruptedError,
    "ALREADY_FINISHED": AlreadyFinishedError,
    "NOT_FAILED": NotFailedError,
    "NOT_READY": NotReadyError,
    "END_CHANGED": EndChangedError,
    "RUN_IN_PROGRESS": RunInProgressError,
    "PAYLOAD_TOO_LARGE": PayloadTooLargeError,
    "REQUEST_ID_REUSED": RequestIdReusedError,
    "RUN_DIFFERS": RunDiffersError,
    "ATTEMPT_FAILED": AttemptFailedError,
    "INTERNAL": InternalError,
    "DOCUMENT_DAMAGED": DocumentDamagedError,
    "NOT_CONFIGURED": NotConfiguredError,
    "UNAVAILABLE": UnavailableError,
    "MACHINE_IDS_EXHAUSTED": MachineIdsExhaustedError,
    "MACHINE_ID_LIMIT": MachineIdLimitError,
    "LOCK_LIMIT": LockLimitError,
    "RUN_LIMIT": RunLimitError,
    "PLACEMENT_LIMIT": PlacementLimitError,
    "RATE_LIMITED": RateLimitedError,
    "OVERLOADED": OverloadedError,
    "CLOCK_SKEW": ClockSkewError,
    "DEADLINE_EXCEEDED": DeadlineExceededError,
}
"""The class of each code."""


def of(code: str, problem: dict[str, Any], status: int) -> ApiError:
    """The error of a problem document. A code that is newer than this client is an ApiError with that code."""
    made = CLASSES.get(code)
    return made(problem=problem, status=status) if made else ApiError(problem=problem, code=code, status=status)
