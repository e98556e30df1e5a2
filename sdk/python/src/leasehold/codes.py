"""One class of error for each code of the API. Generated from the contract by tools/generate.py."""

from __future__ import annotations

from typing import Any

from .errors import ApiError

__all__ = [
    "ActivationExists",
    "ActivationFailed",
    "ActivationLocked",
    "AlreadyFinished",
    "AmbiguousPath",
    "AnalysisChanged",
    "AnalysisLocked",
    "AnalysisNotFailed",
    "AttemptFailed",
    "BadSignature",
    "ClockSkew",
    "ClusterDiffers",
    "ClusterFull",
    "CursorExpired",
    "DeadlineExceeded",
    "DocumentDamaged",
    "Internal",
    "InvalidArgument",
    "LeaseChanged",
    "LeaseExpired",
    "LeaseLost",
    "LeaseReleased",
    "LockDelayed",
    "LockHeld",
    "LockLimit",
    "LockModeDiffers",
    "LockNotHeld",
    "LockQueueFull",
    "LockUnreadable",
    "MachineIDLimit",
    "MachineIDsExhausted",
    "MemberExists",
    "MemberIneligible",
    "MemberUnknown",
    "MethodNotAllowed",
    "NoEligibleMember",
    "NotConfigured",
    "NotFound",
    "NotOwner",
    "Overloaded",
    "PayloadTooLarge",
    "PermissionDenied",
    "PlacementLimit",
    "RateLimited",
    "RequestIDReused",
    "RequestTimeout",
    "RunDiffers",
    "RunInterrupted",
    "RunLimit",
    "StaleEpoch",
    "StaleIncarnation",
    "StaleToken",
    "StateChanged",
    "TooLate",
    "TopologyUndetermined",
    "Unauthenticated",
    "Unavailable",
    "UnknownService",
    "WrongPhase",
    "of",
]


class InvalidArgument(ApiError):
    """400: invalid field."""

    code = "INVALID_ARGUMENT"
    default_title = "invalid field"
    default_status = 400
    default_retryable = False


class AmbiguousPath(ApiError):
    """400: the path is not clear."""

    code = "AMBIGUOUS_PATH"
    default_title = "the path is not clear"
    default_status = 400
    default_retryable = False


class Unauthenticated(ApiError):
    """401: not authenticated."""

    code = "UNAUTHENTICATED"
    default_title = "not authenticated"
    default_status = 401
    default_retryable = False


class PermissionDenied(ApiError):
    """403: permission denied."""

    code = "PERMISSION_DENIED"
    default_title = "permission denied"
    default_status = 403
    default_retryable = False


class NotOwner(ApiError):
    """403: not the owner of the lease."""

    code = "NOT_OWNER"
    default_title = "not the owner of the lease"
    default_status = 403
    default_retryable = False


class BadSignature(ApiError):
    """403: invalid signature."""

    code = "BAD_SIGNATURE"
    default_title = "invalid signature"
    default_status = 403
    default_retryable = False


class NotFound(ApiError):
    """404: not found."""

    code = "NOT_FOUND"
    default_title = "not found"
    default_status = 404
    default_retryable = False


class UnknownService(ApiError):
    """404: unknown service."""

    code = "UNKNOWN_SERVICE"
    default_title = "unknown service"
    default_status = 404
    default_retryable = False


class MethodNotAllowed(ApiError):
    """405: method not allowed."""

    code = "METHOD_NOT_ALLOWED"
    default_title = "method not allowed"
    default_status = 405
    default_retryable = False


class RequestTimeout(ApiError):
    """408, retryable: body too slow."""

    code = "REQUEST_TIMEOUT"
    default_title = "body too slow"
    default_status = 408
    default_retryable = True


class LockHeld(ApiError):
    """409, retryable: lock is held."""

    code = "LOCK_HELD"
    default_title = "lock is held"
    default_status = 409
    default_retryable = True


class LockNotHeld(ApiError):
    """409: lock is not held."""

    code = "LOCK_NOT_HELD"
    default_title = "lock is not held"
    default_status = 409
    default_retryable = False


class LockModeDiffers(ApiError):
    """409: lock has another mode."""

    code = "LOCK_MODE_DIFFERS"
    default_title = "lock has another mode"
    default_status = 409
    default_retryable = False


class LockQueueFull(ApiError):
    """409, retryable: too many wait for the lock."""

    code = "LOCK_QUEUE_FULL"
    default_title = "too many wait for the lock"
    default_status = 409
    default_retryable = True


class LockDelayed(ApiError):
    """409, retryable: lock is closed for its delay."""

    code = "LOCK_DELAYED"
    default_title = "lock is closed for its delay"
    default_status = 409
    default_retryable = True


class LeaseLost(ApiError):
    """409: superseded by a newer lease."""

    code = "LEASE_LOST"
    default_title = "superseded by a newer lease"
    default_status = 409
    default_retryable = False


class LeaseExpired(ApiError):
    """409: lease expired."""

    code = "LEASE_EXPIRED"
    default_title = "lease expired"
    default_status = 409
    default_retryable = False


class LeaseReleased(ApiError):
    """409: lease released."""

    code = "LEASE_RELEASED"
    default_title = "lease released"
    default_status = 409
    default_retryable = False


class LeaseChanged(ApiError):
    """409, retryable: lease changed."""

    code = "LEASE_CHANGED"
    default_title = "lease changed"
    default_status = 409
    default_retryable = True


class TooLate(ApiError):
    """409: too late."""

    code = "TOO_LATE"
    default_title = "too late"
    default_status = 409
    default_retryable = False


class CursorExpired(ApiError):
    """410: the place is gone."""

    code = "CURSOR_EXPIRED"
    default_title = "the place is gone"
    default_status = 410
    default_retryable = False


class LockUnreadable(ApiError):
    """409: lock cannot be judged."""

    code = "LOCK_UNREADABLE"
    default_title = "lock cannot be judged"
    default_status = 409
    default_retryable = False


class StaleToken(ApiError):
    """409: stale fencing token."""

    code = "STALE_TOKEN"
    default_title = "stale fencing token"
    default_status = 409
    default_retryable = False


class TopologyUndetermined(ApiError):
    """409, retryable: no member to place on."""

    code = "TOPOLOGY_UNDETERMINED"
    default_title = "no member to place on"
    default_status = 409
    default_retryable = True


class NoEligibleMember(ApiError):
    """409, retryable: no eligible member."""

    code = "NO_ELIGIBLE_MEMBER"
    default_title = "no eligible member"
    default_status = 409
    default_retryable = True


class MemberIneligible(ApiError):
    """409: member is not eligible."""

    code = "MEMBER_INELIGIBLE"
    default_title = "member is not eligible"
    default_status = 409
    default_retryable = False


class StaleEpoch(ApiError):
    """409: epoch is over."""

    code = "STALE_EPOCH"
    default_title = "epoch is over"
    default_status = 409
    default_retryable = False


class ActivationExists(ApiError):
    """409: identity is active."""

    code = "ACTIVATION_EXISTS"
    default_title = "identity is active"
    default_status = 409
    default_retryable = False


class ActivationLocked(ApiError):
    """409, retryable: identity is being activated."""

    code = "ACTIVATION_LOCKED"
    default_title = "identity is being activated"
    default_status = 409
    default_retryable = True


class ActivationFailed(ApiError):
    """409: activation failed."""

    code = "ACTIVATION_FAILED"
    default_title = "activation failed"
    default_status = 409
    default_retryable = False


class WrongPhase(ApiError):
    """409: activation is in another phase."""

    code = "WRONG_PHASE"
    default_title = "activation is in another phase"
    default_status = 409
    default_retryable = False


class StateChanged(ApiError):
    """409: state has another version."""

    code = "STATE_CHANGED"
    default_title = "state has another version"
    default_status = 409
    default_retryable = False


class MemberExists(ApiError):
    """409, retryable: member of this name lives."""

    code = "MEMBER_EXISTS"
    default_title = "member of this name lives"
    default_status = 409
    default_retryable = True


class MemberUnknown(ApiError):
    """404: no member of this name."""

    code = "MEMBER_UNKNOWN"
    default_title = "no member of this name"
    default_status = 404
    default_retryable = False


class StaleIncarnation(ApiError):
    """409: incarnation has ended."""

    code = "STALE_INCARNATION"
    default_title = "incarnation has ended"
    default_status = 409
    default_retryable = False


class ClusterFull(ApiError):
    """409, retryable: cluster is full."""

    code = "CLUSTER_FULL"
    default_title = "cluster is full"
    default_status = 409
    default_retryable = True


class ClusterDiffers(ApiError):
    """409: cluster is set up differently."""

    code = "CLUSTER_DIFFERS"
    default_title = "cluster is set up differently"
    default_status = 409
    default_retryable = False


class AnalysisLocked(ApiError):
    """409, retryable: analysis is locked."""

    code = "ANALYSIS_LOCKED"
    default_title = "analysis is locked"
    default_status = 409
    default_retryable = True


class RunInterrupted(ApiError):
    """409, retryable: run interrupted."""

    code = "RUN_INTERRUPTED"
    default_title = "run interrupted"
    default_status = 409
    default_retryable = True


class AlreadyFinished(ApiError):
    """409: already finished."""

    code = "ALREADY_FINISHED"
    default_title = "already finished"
    default_status = 409
    default_retryable = False


class AnalysisNotFailed(ApiError):
    """409: analysis is not FAILED."""

    code = "ANALYSIS_NOT_FAILED"
    default_title = "analysis is not FAILED"
    default_status = 409
    default_retryable = False


class AnalysisChanged(ApiError):
    """409: analysis has changed."""

    code = "ANALYSIS_CHANGED"
    default_title = "analysis has changed"
    default_status = 409
    default_retryable = False


class PayloadTooLarge(ApiError):
    """413: body too large."""

    code = "PAYLOAD_TOO_LARGE"
    default_title = "body too large"
    default_status = 413
    default_retryable = False


class RequestIDReused(ApiError):
    """422: request_id used before."""

    code = "REQUEST_ID_REUSED"
    default_title = "request_id used before"
    default_status = 422
    default_retryable = False


class RunDiffers(ApiError):
    """422: run of something else."""

    code = "RUN_DIFFERS"
    default_title = "run of something else"
    default_status = 422
    default_retryable = False


class AttemptFailed(ApiError):
    """424, retryable: run failed."""

    code = "ATTEMPT_FAILED"
    default_title = "run failed"
    default_status = 424
    default_retryable = True


class Internal(ApiError):
    """500: internal error."""

    code = "INTERNAL"
    default_title = "internal error"
    default_status = 500
    default_retryable = False


class DocumentDamaged(ApiError):
    """500: stored document is damaged."""

    code = "DOCUMENT_DAMAGED"
    default_title = "stored document is damaged"
    default_status = 500
    default_retryable = False


class NotConfigured(ApiError):
    """501: not configured."""

    code = "NOT_CONFIGURED"
    default_title = "not configured"
    default_status = 501
    default_retryable = False


class Unavailable(ApiError):
    """503, retryable: store unavailable."""

    code = "UNAVAILABLE"
    default_title = "store unavailable"
    default_status = 503
    default_retryable = True


class MachineIDsExhausted(ApiError):
    """503, retryable: no free machine ID."""

    code = "MACHINE_IDS_EXHAUSTED"
    default_title = "no free machine ID"
    default_status = 503
    default_retryable = True


class MachineIDLimit(ApiError):
    """429, retryable: too many machine IDs."""

    code = "MACHINE_ID_LIMIT"
    default_title = "too many machine IDs"
    default_status = 429
    default_retryable = True


class LockLimit(ApiError):
    """429, retryable: too many locks."""

    code = "LOCK_LIMIT"
    default_title = "too many locks"
    default_status = 429
    default_retryable = True


class RunLimit(ApiError):
    """429, retryable: too many runs."""

    code = "RUN_LIMIT"
    default_title = "too many runs"
    default_status = 429
    default_retryable = True


class PlacementLimit(ApiError):
    """429, retryable: too many identities or clusters."""

    code = "PLACEMENT_LIMIT"
    default_title = "too many identities or clusters"
    default_status = 429
    default_retryable = True


class RateLimited(ApiError):
    """429, retryable: too many requests."""

    code = "RATE_LIMITED"
    default_title = "too many requests"
    default_status = 429
    default_retryable = True


class Overloaded(ApiError):
    """503, retryable: server overloaded."""

    code = "OVERLOADED"
    default_title = "server overloaded"
    default_status = 503
    default_retryable = True


class ClockSkew(ApiError):
    """503, retryable: clock skew too large."""

    code = "CLOCK_SKEW"
    default_title = "clock skew too large"
    default_status = 503
    default_retryable = True


class DeadlineExceeded(ApiError):
    """504, retryable: store timed out."""

    code = "DEADLINE_EXCEEDED"
    default_title = "store timed out"
    default_status = 504
    default_retryable = True


CLASSES: dict[str, type[ApiError]] = {
    "INVALID_ARGUMENT": InvalidArgument,
    "AMBIGUOUS_PATH": AmbiguousPath,
    "UNAUTHENTICATED": Unauthenticated,
    "PERMISSION_DENIED": PermissionDenied,
    "NOT_OWNER": NotOwner,
    "BAD_SIGNATURE": BadSignature,
    "NOT_FOUND": NotFound,
    "UNKNOWN_SERVICE": UnknownService,
    "METHOD_NOT_ALLOWED": MethodNotAllowed,
    "REQUEST_TIMEOUT": RequestTimeout,
    "LOCK_HELD": LockHeld,
    "LOCK_NOT_HELD": LockNotHeld,
    "LOCK_MODE_DIFFERS": LockModeDiffers,
    "LOCK_QUEUE_FULL": LockQueueFull,
    "LOCK_DELAYED": LockDelayed,
    "LEASE_LOST": LeaseLost,
    "LEASE_EXPIRED": LeaseExpired,
    "LEASE_RELEASED": LeaseReleased,
    "LEASE_CHANGED": LeaseChanged,
    "TOO_LATE": TooLate,
    "CURSOR_EXPIRED": CursorExpired,
    "LOCK_UNREADABLE": LockUnreadable,
    "STALE_TOKEN": StaleToken,
    "TOPOLOGY_UNDETERMINED": TopologyUndetermined,
    "NO_ELIGIBLE_MEMBER": NoEligibleMember,
    "MEMBER_INELIGIBLE": MemberIneligible,
    "STALE_EPOCH": StaleEpoch,
    "ACTIVATION_EXISTS": ActivationExists,
    "ACTIVATION_LOCKED": ActivationLocked,
    "ACTIVATION_FAILED": ActivationFailed,
    "WRONG_PHASE": WrongPhase,
    "STATE_CHANGED": StateChanged,
    "MEMBER_EXISTS": MemberExists,
    "MEMBER_UNKNOWN": MemberUnknown,
    "STALE_INCARNATION": StaleIncarnation,
    "CLUSTER_FULL": ClusterFull,
    "CLUSTER_DIFFERS": ClusterDiffers,
    "ANALYSIS_LOCKED": AnalysisLocked,
    "RUN_INTERRUPTED": RunInterrupted,
    "ALREADY_FINISHED": AlreadyFinished,
    "ANALYSIS_NOT_FAILED": AnalysisNotFailed,
    "ANALYSIS_CHANGED": AnalysisChanged,
    "PAYLOAD_TOO_LARGE": PayloadTooLarge,
    "REQUEST_ID_REUSED": RequestIDReused,
    "RUN_DIFFERS": RunDiffers,
    "ATTEMPT_FAILED": AttemptFailed,
    "INTERNAL": Internal,
    "DOCUMENT_DAMAGED": DocumentDamaged,
    "NOT_CONFIGURED": NotConfigured,
    "UNAVAILABLE": Unavailable,
    "MACHINE_IDS_EXHAUSTED": MachineIDsExhausted,
    "MACHINE_ID_LIMIT": MachineIDLimit,
    "LOCK_LIMIT": LockLimit,
    "RUN_LIMIT": RunLimit,
    "PLACEMENT_LIMIT": PlacementLimit,
    "RATE_LIMITED": RateLimited,
    "OVERLOADED": Overloaded,
    "CLOCK_SKEW": ClockSkew,
    "DEADLINE_EXCEEDED": DeadlineExceeded,
}
"""The class of each code."""


def of(code: str, problem: dict[str, Any], status: int) -> ApiError:
    """The error of a problem document. A code that is newer than this client is an ApiError with that code."""
    made = CLASSES.get(code)
    return made(problem=problem, status=status) if made else ApiError(problem=problem, code=code, status=status)
