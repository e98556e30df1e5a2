"""What an error says of a request, and whether a response is the one that was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, get_args, get_origin, get_type_hints

from ._time import Backoff
from .codes import (
    DocumentDamagedError, LeaseExpiredError, LeaseLostError, LeaseReleasedError, NotConfiguredError, NotOwnerError, OverloadedError, RateLimitedError,
    UnauthenticatedError,
)
from .errors import ApiError, InvalidResponseError, NoResponseError

Body = Mapping[str, Any]


def cause(err: BaseException) -> BaseException:
    """The error without what this package says around it."""
    from .errors import UnknownOutcomeError

    while isinstance(err, UnknownOutcomeError) and err.__cause__ is not None:
        err = err.__cause__
    return err


def gone(err: BaseException | None) -> bool:
    """Whether an error says that the lease is the caller's no more."""
    return isinstance(err, (LeaseLostError, LeaseExpiredError, LeaseReleasedError, NotOwnerError))


def final(err: BaseException) -> bool:
    """Whether the same request would be rejected again.

    The response's own word that a retry may help comes first. Then a rejection is final; a failure of the server is not, but for 501 and damage.
    """
    if isinstance(err, NoResponseError):
        return err._never
    return isinstance(err, ApiError) and not err.retryable and (err.status < 500 or err.status == 501 or isinstance(err, DocumentDamagedError))


FIRST_TRIES = 3
"""How often a request is sent to a server that has never answered, while no connection to it can be made or what answers is another server: its
address is wrong, rather than that it is away for a while. With the pauses between them that is less than a second."""


class Meeting:
    """Counts the tries of one request to a server that has never answered. Those of other requests do not count: many that are sent at once would have no
    second one."""

    def __init__(self) -> None:
        self._tries = 0

    def unmet(self, err: BaseException) -> bool:
        """Count an error: whether by now the address of the server may be wrong, so that another try in the next seconds is of no use."""
        if isinstance(err, (NoResponseError, InvalidResponseError)) and err._unmet:
            self._tries += 1
            return self._tries >= FIRST_TRIES
        return False


def unsettled(err: BaseException) -> bool:
    """Whether a request that failed may have been carried out, or may still be."""
    if isinstance(err, NoResponseError) and not err.sent:
        return False
    if isinstance(err, (OverloadedError, RateLimitedError, UnauthenticatedError, DocumentDamagedError, NotConfiguredError)):
        return False
    return not isinstance(err, ApiError) or err.status >= 500


def settles(err: BaseException) -> bool:
    """Whether an error says what became of earlier tries of the same request: the lease was looked at."""
    return isinstance(err, ApiError) and err.status < 500 and err.status not in (401, 429)


def retry_after(err: BaseException | None) -> float:
    """Seconds that the server asks to wait; 0 if it does not say."""
    return err.retry_after if isinstance(err, (ApiError, InvalidResponseError)) else 0.0


def poll_after(err: BaseException) -> float:
    """Seconds after which a request that waits comes again to a server that holds no response for so long; 0 if it does not say."""
    return err.poll_after if isinstance(err, ApiError) else 0.0


WAITS = Backoff(0.2, 5.0, 0.01)


def pause(retry: int, err: BaseException | None, left: float) -> float:
    """The wait before a retry: as long as the server asks for, but a third of the time that is left at most, as it may
    come too late then."""
    return max(WAITS.delay(retry), min(retry_after(err), left / 3))


@lru_cache(maxsize=None)
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def check_shape(value: object, kind: type) -> dict[str, Any]:
    """The value, if it is a JSON object whose known members have the types of the contract. null is as good as missing."""
    if not isinstance(value, dict):
        raise InvalidResponseError("it is no JSON object")
    for name, hint in _hints(kind).items():
        if value.get(name) is None:
            value.pop(name, None)
        elif not _fits(value[name], hint):
            raise InvalidResponseError(f"its member {name} has the wrong type")
    return value


def _fits(value: object, hint: Any) -> bool:
    origin, args = get_origin(hint), get_args(hint)
    if origin is list:
        return isinstance(value, list) and all(_fits(v, args[0]) for v in value)
    if origin is dict:
        return isinstance(value, dict) and all(_fits(v, args[1]) for v in value.values())
    if origin is not None:  # a Literal: a value that is newer than this client is judged where it matters
        return isinstance(value, type(args[0]))
    if hint is Any:
        return True
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63
    if hint in (str, bool, float):
        return isinstance(value, hint)
    return isinstance(value, dict) and check_shape(value, hint) is not None


def missing() -> InvalidResponseError:
    return InvalidResponseError("required members are missing")


def same_lock(got: Body, tenant: str, key: str) -> None:
    """Compare the lock that a response is about; an empty tenant is not known."""
    got_tenant, got_key = got.get("tenant_id", ""), got.get("lock_key", "")
    if not got_tenant and not got_key:
        raise missing()
    if got_key != key or tenant and got_tenant != tenant:
        raise InvalidResponseError(f"it is about the lock {got_key!r} of tenant {got_tenant!r}, not {key!r} of {tenant or got_tenant!r}")


def same_owner(asked: str, got: str) -> None:
    """The owner is the owner_id of the request, or ends with it after the subject of the token."""
    if not got or asked and got != asked and not got.endswith("#" + asked):
        raise InvalidResponseError(f"the lease belongs to {got!r}, not to {asked!r}")


def subject_of_lock(key: str, permit: int) -> str:
    """What a fence knows the tokens of a lock by: each permit has tokens of its own."""
    return f"lock/{key}#{permit}" if permit else f"lock/{key}"


def same_token(asked: int, got: int) -> None:
    if got <= 0 or got != asked:
        raise InvalidResponseError(f"the lease has the fencing token {got}, not {asked}")


def in_state(want: str, got: str) -> None:
    if got != want:
        raise InvalidResponseError(f"the lease is {got!r}, not {want}")


def granted(got: Body, tenant: str, key: str, owner: str, token: int = 0) -> None:
    """Whether a response is the caller's lease."""
    if not got.get("lease_id") or not got.get("expires_at") or not got.get("remaining_ms"):
        raise missing()
    same_lock(got, tenant, key)
    same_owner(owner, got.get("owner_id", ""))
    found = got.get("fencing_token", 0)
    same_token(token or max(found, 0), found)
    in_state("ACTIVE", got.get("state", ""))


def acquired(request: Body, got: Body, tenant: str, key: str, token: int = 0) -> None:
    """Whether a response is the lease that an acquire asked for."""
    granted(got, tenant, key, request.get("owner_id", ""), token)
    asked, mode = request.get("mode") or "exclusive", got.get("mode") or "exclusive"
    most = request.get("limit", 0) if asked == "permits" else 0
    permit = got.get("permit", 0)
    if mode != asked:
        raise InvalidResponseError(f"the lease has the mode {mode}, not {asked}")
    if permit > most or permit < min(1, most):
        raise InvalidResponseError(f"the lease has the permit {permit} of {most}")


def ended(got: Body, tenant: str, key: str, owner: str, token: int) -> None:
    """Whether a response is the end of the caller's lease."""
    same_lock(got, tenant, key)
    same_owner(owner, got.get("owner_id", ""))
    same_token(token, got.get("fencing_token", 0))
    in_state("RELEASED", got.get("state", ""))


def set_leases(got: Body, tenant: str, keys: list[str], owner: str, tokens: Mapping[str, int]) -> None:
    """Compare the leases of a response about several locks with those that were asked for."""
    leases = got.get("leases") or []
    if not got.get("tenant_id") or not leases:
        raise missing()
    if tenant and got["tenant_id"] != tenant:
        raise InvalidResponseError(f"it is about locks of the tenant {got['tenant_id']!r}, not of {tenant!r}")
    found = []
    for lease in leases:
        key, token = lease.get("lock_key", ""), lease.get("fencing_token", 0)
        found.append(key)
        same_token(tokens.get(key, token), token)
    if found != sorted(keys, key=lambda k: k.encode()):
        raise InvalidResponseError(f"it is about the locks {found}, not {keys}")
    same_owner(owner, got.get("owner_id", ""))


def set_granted(got: Body, tenant: str, keys: list[str], owner: str, tokens: Mapping[str, int]) -> None:
    if not got.get("expires_at") or not got.get("remaining_ms"):
        raise missing()
    set_leases(got, tenant, keys, owner, tokens)
    in_state("ACTIVE", got.get("state", ""))


def set_ended(got: Body, tenant: str, keys: list[str], owner: str, tokens: Mapping[str, int]) -> None:
    set_leases(got, tenant, keys, owner, tokens)
    in_state("RELEASED", got.get("state", ""))


def waited(request: Body, got: Body, took: float) -> float:
    """How much later than before its request a lease begins at the earliest: as long as the server waited."""
    if not request.get("wait_seconds"):
        return 0.0
    return max(0.0, min(float(got.get("waited_ms", 0)) / 1000, took))
