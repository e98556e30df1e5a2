"""What can go wrong.

Every error of this package is a :class:`LeaseholdError`. What the server rejects is an :class:`ApiError`: one class for each code, so that
``except LockHeldError`` asks what happened. :mod:`leasehold.codes` has these classes.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any, ClassVar

__all__ = [
    "ApiError", "ClosedError", "EventLoopError", "InvalidResponseError", "InvalidSettingError", "LeaseholdError", "LockLostError", "MaxHoldError",
    "NoResponseError", "NotReleasedError", "ReleasedError", "UnknownOutcomeError",
]


class LeaseholdError(Exception):
    """The base of all errors of this package."""


class InvalidSettingError(LeaseholdError, ValueError):
    """An argument that cannot work. ``field`` names it."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(f"{field}: {text}")
        self.field = field


class ClosedError(LeaseholdError):
    """The client was closed, or is closed while the lock is held."""


class ReleasedError(LeaseholdError):
    """The lock was released by its holder."""


class EventLoopError(LeaseholdError, RuntimeError):
    """A call that blocks where an event loop runs in the same thread. The text names the form for asyncio."""


class NoResponseError(LeaseholdError):
    """There was no response: the server hangs, or no connection can be made, or it broke. ``sent`` is False if the request cannot have reached the
    server."""

    _unmet = False  # the address may be wrong: nothing there has ever answered as a server does
    _never = False  # a certificate that is not accepted, or no TLS: no retry helps

    def __init__(self, text: str, *, sent: bool = True, retry: bool = True) -> None:
        super().__init__(text)
        self.sent = sent
        self.retry = retry


class InvalidResponseError(LeaseholdError):
    """A response that is not about what was asked for: that of another server, the page of a proxy, a cache.

    ``status`` is that of HTTP where it does not say OK, otherwise 0. ``retry`` is whether it may be another soon.
    """

    _unmet = False  # nothing at the address has ever answered as a server does

    def __init__(self, text: str, *, status: int = 0, retry: bool = False, retry_after: float = 0.0) -> None:
        super().__init__(text)
        self.status = status
        self.retry = retry
        self.retry_after = retry_after


class UnknownOutcomeError(LeaseholdError):
    """A command ended without a definite response: the server may have carried it out, or may still do so.

    Sent again with ``request_id``, it takes effect once.
    """

    def __init__(self, request_id: str, cause: BaseException) -> None:
        super().__init__(f"{cause} (request_id {request_id} may have been carried out)")
        self.request_id = request_id
        self.__cause__ = cause


class LockLostError(LeaseholdError):
    """The lock is, or very soon will be, another's: its lease was not renewed in time, or the server says that it is over.

    ``__cause__`` is what the server said, or why the last renewal failed.
    """


class MaxHoldError(LockLostError):
    """The lock was held for as long as ``max_hold`` allows."""


class NotReleasedError(LeaseholdError):
    """The lock could not be released, or not in time: it is free when its lease expires. The work was done."""

PASSING = frozenset((408, 425, 429))
"""Statuses that say by themselves that the same request may succeed later, from any server."""



class ApiError(LeaseholdError):
    """A request that the server rejected or could not complete: a problem document (RFC 9457)."""

    code: ClassVar[str] = ""
    default_title: ClassVar[str] = ""
    default_status: ClassVar[int] = 500
    default_retryable: ClassVar[bool] = False
    _after_lost = False  # an earlier try of the same request had no response, and may still be on its way

    def __init__(self, detail: str = "", problem: dict[str, Any] | None = None, *, code: str = "", status: int | None = None) -> None:
        p = problem or {}
        if code:
            self.code = code  # type: ignore[misc]  # of a server that is newer than this client
        self.title = _text(p, "title") or self.default_title
        """The code in words."""
        self.status = status if status is not None else self.default_status
        """Of HTTP."""
        self.detail = detail or _text(p, "detail")
        """What is wrong in this case, and what would be right."""
        self.field = _text(p, "field")
        """With INVALID_ARGUMENT the field at fault."""
        passes = not type(self).code and self.status in PASSING
        retryable = p.get("retryable", self.default_retryable or passes)
        self.retryable = retryable is True
        """Whether the same request may succeed later."""
        self.retry_after = max(0.0, min(_number(p, "retry_after_ms"), 86_400_000)) / 1000
        """Seconds after which that may be; 0 is unknown."""
        self.poll_after = max(0.0, min(_number(p, "poll_after_ms"), 10_000)) / 1000
        """With LOCK_HELD and LOCK_DELAYED of a request that waits: seconds after which to send it again, because the server holds no response for so
        long; 0 if it did."""
        self.lock_key = _text(p, "lock_key")
        """With commands on several locks: because of which one."""
        self.owner_id = _text(p, "owner_id")
        """With LOCK_HELD: the holder."""
        self.position = int(_number(p, "position"))
        """With LOCK_HELD: the caller's place in line, 1 being the next; 0 if it has none."""
        self.highest_token = int(_number(p, "highest_token"))
        """With STALE_TOKEN: the highest token that was seen."""
        self.expires_at = parse_time(_text(p, "expires_at"))
        """With LOCK_HELD and LEASE_CHANGED: when the lease expires."""
        self.store_time = parse_time(_text(p, "store_time"))
        """With TOO_LATE, and with INVALID_ARGUMENT of not_after: the store's time, by which ends are judged."""
        self.request_id = _text(p, "instance").removeprefix("urn:request:")
        """Names the exchange in the server's log."""
        self.trace_id = _text(p, "trace_id")
        """Of the trace that the exchange is part of; empty if it is of none."""
        self.problem = p
        """The whole document."""
        text = self.code
        if self.detail or self.title:
            text += ": " + (self.detail or self.title)
        if self.code == "LOCK_HELD" and self.owner_id and self.expires_at is not None:
            text += f" (by {self.owner_id}, until {format_time(self.expires_at)} unless it renews)"
        super().__init__(text)


def _text(p: dict[str, Any], name: str) -> str:
    value = p.get(name)
    return value if isinstance(value, str) else ""


def _number(p: dict[str, Any], name: str) -> float:
    value = p.get(name)
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) and -(2**63) <= value < 2**63 else 0


def parse_time(text: str) -> datetime | None:
    """A time of the API; None if it is none."""
    try:
        return datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text).astimezone(timezone.utc)
    except (ValueError, OverflowError):
        return None


def format_time(t: datetime) -> str:
    """A time as the API writes it: ISO 8601, UTC, milliseconds."""
    u = t.astimezone(timezone.utc)
    return u.strftime("%Y-%m-%dT%H:%M:%S.") + f"{u.microsecond // 1000:03d}Z"
