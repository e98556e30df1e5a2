"""The client of a server over HTTP: each method of :class:`LockAPI`, :class:`Fences` and :class:`MachineIDs` is one operation of the contract.

Most programs want :meth:`Client.locks` and :meth:`Client.runs`, which wait, renew and release by themselves.

A request whose response was lost, or that the server could not complete (UNAVAILABLE, DEADLINE_EXCEEDED), is sent again with the same
request_id until the tries are used up. Retries are idempotent: a command takes effect once.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, cast
from urllib.parse import quote, urlencode

from . import _check, _end, _outcome, codes
from ._auth import Token
from ._call import Background, owe
from ._steps import Send, Wire, Wires, asked, here, may_block, performed, run, sent
from ._time import CALL_TIME, SYSTEM, Backoff, Clock, Moment, Signal, try_time
from ._http import Headers, Response
from ._transport import MAX_RESPONSE, MAX_WAIT, Address, HTTPTransport, Transport
from .errors import PASSING, ApiError, InvalidResponseError, InvalidSettingError, LeaseholdError, NoResponseError, UnknownOutcomeError, format_time
from .types import (
    AcquireRequest, EndedLease, FencePassed, ForceReleased, ForceReleaseRequest, Lease, Lock, LockPage, LockSet, LockSetAcquireRequest,
    LockSetReleased, LockSetReleaseRequest, LockSetRenewRequest, ReleaseRequest, RenewRequest,
)

if TYPE_CHECKING:
    import ssl

    from .locks import Event, Locks
    from .machineids import MachineIDs
    from .once import Analyses, Runs

__all__ = ["Client", "Fenced", "FencedLease", "Fences", "HeldLease", "LockAPI", "new_request_id"]

T = TypeVar("T")

TRY_TIME = 15.0
"""Seconds for one request, beside what the server is to wait."""

ABANDON_TIME = 30.0
"""Seconds for the attempt to give up an acquire, beside the time in which it may still have its effect."""

MAX_RETRY_AFTER = 86_400.0
"""Seconds that a server can ask to wait: a longer time is as good as none."""

WAITS = Backoff(0.2, 10.0)

def new_request_id() -> str:
    """A request_id for a new command: 130 random bits."""
    bits = int.from_bytes(os.urandom(17), "big")
    return "".join("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"[bits >> 5 * i & 31] for i in range(26))


class Client:
    """A connection to one server. It may be used by several threads at once, and in a child after a fork.

    server
        The base URL, such as "http://127.0.0.1:8080". Redirects are not followed, and no proxy is used.
    token
        The bearer token, or a function that returns that of a request. With one the URL must begin with https://, unless it is this
        machine's own. None sends none, which a server in development mode accepts.
    token_file
        A file that has the token. It is read again when it has changed, and before a request fails for which the token was not accepted; the request
        is then sent once more. While the file is missing, empty or half written, the last token stays. A function is called once more as well.
    tries
        How often a request is sent at most while no response arrives. Before a retry the client waits a random time of up to 200 ms, 400 ms,
        800 ms and so on, 10 s at most, or for as long as the server asks; if that is more than 10 s, the request is not sent again.
    timeout
        Seconds for one try at most, beside what the server is to wait. The first try of a request has 2, the next ones 4 and 8. A call
        for which no timeout is given lasts for 5 seconds beside what the server is to wait.
    ssl_context
        For servers whose certificates the system does not know.
    cafile
        A file of such certificates, which is read again when it changes.
    transport
        How requests travel, such as through a proxy: see :class:`leasehold.Transport`. None is an :class:`leasehold.HTTPTransport`.
    """

    def __init__(
        self, server: str, *, token: str | Callable[[], str] | None = None, token_file: str | os.PathLike[str] | None = None, tries: int = 4,
        timeout: float = TRY_TIME, ssl_context: ssl.SSLContext | None = None, cafile: str | os.PathLike[str] | None = None,
        transport: Transport | None = None, clock: Clock | None = None,
    ) -> None:
        if _check.whole("tries", tries) < 1:
            raise InvalidSettingError("tries", f"is {tries}: must be at least 1")
        self._address = Address(server, token is not None or token_file is not None)
        self._token = Token(token, token_file)
        if transport is not None:
            if ssl_context is not None or cafile is not None:
                raise InvalidSettingError("transport", "is set beside ssl_context or cafile, which are of the HTTPTransport that it replaces")
            if not callable(getattr(transport, "send", None)):
                raise InvalidSettingError("transport", "must have a method send(request, deadline)")
        self._transport: Transport = transport if transport is not None else HTTPTransport(ssl_context=ssl_context, cafile=cafile)
        self._tries = tries
        self._timeout = _check.positive("timeout", timeout)
        self._clock = clock or SYSTEM
        self._time = _end.ServerTime(self._clock)
        self._answered = False  # something at the address has, as a server does
        self._background = Background()

    @property
    def name(self) -> str:
        """The base URL, without a password."""
        return self._address.name

    def close(self) -> None:
        """Close the idle connections. The client can be used again."""
        close = getattr(self._transport, "close", None)
        if close is not None:
            close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def lock_api(self, tenant: str = "default") -> LockAPI:
        """The locks of a tenant, one request at a time."""
        return LockAPI(self, tenant)

    def locks(
        self, tenant: str = "default", *, owner: str = "", ttl: float = 30.0, retry_for: float | None = None, release_timeout: float = 5.0,
        observe: Callable[[Event], None] | None = None,
    ) -> Locks:
        """Locks of a tenant that are renewed while they are held: see :class:`leasehold.locks.Locks`."""
        from .locks import Locks

        return Locks(
            self.lock_api(tenant), owner=owner, ttl=ttl, retry_for=retry_for, release_timeout=release_timeout, observe=observe, clock=self._clock,
            try_timeout=self._timeout)

    def runs(self, tenant: str = "default", *, keep: float | None = None) -> Runs:
        """Runs that callers name themselves: see :class:`leasehold.once.Runs`."""
        from .once import Runs

        return Runs(self, tenant, keep=keep)

    def analyses(self) -> Analyses:
        """The run-once gate of analyses: see :class:`leasehold.once.Analyses`."""
        from .once import Analyses

        return Analyses(self)

    def machine_ids(self) -> MachineIDs:
        """Leases of machine IDs for a :class:`leasehold.machineids.Generator`."""
        from .machineids import MachineIDs

        return MachineIDs(self)

    def fences(self, tenant: str = "default") -> Fences:
        """The fences of a tenant, which remember the highest fencing token that each resource has seen."""
        return Fences(self, tenant)

    # One request, and its tries.

    def once(self, method: str, path: str, body: Mapping[str, Any] | None, *, seconds: float, abort: Signal | None = None, most: int = MAX_RESPONSE) -> Response:
        """Send a request once, in the thread of the caller; whatever arrives is the response. If its token is not accepted, and there is another, it is
        sent with that."""
        begin = self._clock.now()
        deadline = self._clock.deadline(min(seconds, MAX_WAIT))
        content = encode(body)
        try:
            token = self._token.get()
            r = self._sent(method, path, content, token, deadline, abort, most)
            if r.status == 401 and self._token.changes:
                other = self._token.get(True)
                if other != token:
                    r = self._sent(method, path, content, other, deadline, abort, most)
        except NoResponseError as err:
            raise self._unanswered(err)
        return self._arrived(begin, r)

    def _arrived(self, begin: Moment, r: Response) -> Response:
        if r.status == 204 or r.media_type in ("application/json", "application/problem+json"):  # not that of a proxy
            self._time.compare(r.headers.get("Date") or "", begin.since(self._clock.now()))
            self._answered = True
        return r

    def _sent(
        self, method: str, path: str, content: bytes | None, token: str, deadline: float, abort: Signal | None, most: int,
    ) -> Response:
        authorization = f"Bearer {token}" if token else self._address.basic
        request = self._address.request(method, path, content, authorization, most, abort)
        try:
            return self._transport.send(request, deadline)
        except OSError as err:
            raise NoResponseError(f"no response of {self.name}: {err or type(err).__name__}") from err
        except NoResponseError as err:
            said = NoResponseError(f"no {'response of' if err.sent else 'connection to'} {self.name}: {err}", sent=err.sent, retry=err.retry)
            said._never = err._never
            raise said from err.__cause__

    def _unanswered(self, err: NoResponseError) -> NoResponseError:
        """The error, with a mark if it says that the address may be wrong."""
        if not err.sent and err.retry and isinstance(err.__cause__, OSError):  # not that the caller gave it up, or has no token
            err._unmet = not self._answered
        return err

    @performed
    def grant(
        self, path: str, body: Mapping[str, Any], *, wanted: float, seconds: float, abort: Signal | None = None,
        most: int = MAX_RESPONSE, member: str = "not_after",
    ) -> Wires[Response]:
        """Send a request that grants something once, and tell the server for how many seconds from now on it is wanted.

        If the response says that the end is wrong by the store's time it is sent once more, with another end. A body
        that has an end keeps it.
        """
        until = self._clock.monotonic() + wanted
        again = not body.get(member)
        while True:
            begin = self._clock.now()
            end = body.get(member) or self._time.end(until - begin.monotonic)
            left = max(0.01, min(seconds, until - begin.monotonic))
            r: Response = yield Wire(self, "POST", path, {**body, member: end}, left, abort, most)
            err = None if 200 <= r.status < 300 else self.rejection(r)
            if not isinstance(err, (codes.TooLateError, codes.InvalidArgumentError)) or err.store_time is None:
                return r
            self._time.correct(err.store_time, begin.since(self._clock.now()))
            if not again or abort is not None and abort.is_set():
                return r
            again = False

    @performed
    def exchange(
        self, method: str, path: str, body: Mapping[str, Any] | None, kind: type, valid: Callable[[dict[str, Any]], None] | None = None, *,
        seconds: float | None = None, abort: Signal | None = None, wanted: float | None = None,
    ) -> Wires[dict[str, Any]]:
        """Send a request once, and read the response that says OK; everything else is an error. One that grants
        something says for how many seconds it is wanted."""
        most = self._timeout if seconds is None else seconds
        if wanted is None or body is None:
            r: Response = yield Wire(self, method, path, body, most, abort, MAX_RESPONSE)
        else:
            r = yield from asked(
                self.grant, path, body, wanted=wanted, seconds=most, abort=abort)
        if r.status == 200 and r.media_type == "application/json":
            return self.read(r.content, kind, valid)
        raise self.rejection(r)

    @performed
    def give_up(
        self, path: str, body: Mapping[str, Any], *, seconds: float, abort: Signal | None = None,
    ) -> Wires[None]:
        """Send once that the request with this body is given up. It returns if the server says that it is; everything
        else is an error."""
        r: Response = yield Wire(self, "POST", path, {**body, "give_up": True}, seconds, abort, MAX_RESPONSE)
        if r.status != 204:
            raise self.rejection(r)

    def read(self, content: bytes, kind: type, valid: Callable[[dict[str, Any]], None] | None = None) -> dict[str, Any]:
        """The body of a response, if it is what was asked for."""
        try:
            got = _outcome.check_shape(json.loads(content), kind)
            if valid is not None:
                valid(got)
        except (ValueError, RecursionError) as err:
            raise InvalidResponseError(f"invalid response of {self.name}: {err}") from err
        except InvalidResponseError as err:
            raise InvalidResponseError(f"invalid response of {self.name}: {err}") from None
        return got

    def rejection(self, r: Response) -> LeaseholdError:
        """The error of a response that does not say OK."""
        wait = _retry_after(r.headers)
        if r.media_type == "application/problem+json":
            try:
                p = json.loads(r.content)
            except (ValueError, RecursionError):
                p = None
            if not isinstance(p, dict) or not isinstance(p.get("code"), str) or not p["code"]:
                return InvalidResponseError(f"invalid response of {self.name}: status {r.status} with a problem that cannot be read", status=r.status)
            err = codes.of(p["code"], p, r.status)
            err.request_id = err.request_id or r.headers.get("X-Request-Id") or ""
            err.retry_after = err.retry_after or wait
            return err
        if 300 <= r.status < 400:
            other = InvalidResponseError(
                f"{self.name} responded {r.status} {r.reason}: redirects are not followed, because they could lead away from TLS; use the URL of "
                "the server itself", status=r.status)
        else:
            other = InvalidResponseError(
                f"{self.name} responded {r.status} {r.reason} with content type {r.media_type!r}, which is not Leasehold",
                status=r.status, retry=r.status >= 500, retry_after=wait)
        other._unmet = _of_another(r) and not self._answered
        return other

    def insist(
        self, do: Callable[[float, Signal], T], *, extra: float = 0.0, timeout: float | None = None,
        request_id: str = "",
    ) -> tuple[T, Moment]:
        """Call do until there is a definite response, the tries are used up or timeout has passed. It gets the seconds
        that it has. The moment is that before the request which got the response. With a request_id, an error after
        which the command may have been carried out is an UnknownOutcomeError."""
        may_block("call it in a thread, with `await asyncio.to_thread(...)`")
        end = self._clock.monotonic() + (extra + CALL_TIME if timeout is None else _check.seconds("timeout", timeout))
        unknown, lost, retry, first = False, False, 0, _outcome.Meeting()
        while True:
            begin = self._clock.now()
            left = min(try_time(retry, self._timeout) + extra, max(0.0, end - begin.monotonic))
            try:
                return sent(self._clock, Send(left, lambda abort: asked(do, left, abort))), begin
            except (ApiError, NoResponseError, InvalidResponseError) as err:
                if isinstance(err, InvalidResponseError) and not err.status:
                    raise UnknownOutcomeError(request_id, err) if request_id else err
                maybe = err.retryable and err.status >= 500 if isinstance(err, ApiError) else err.retry
                never = isinstance(err, codes.OverloadedError) or isinstance(err, NoResponseError) and not err.sent
                unknown = maybe and not never or unknown and not _outcome.settles(err)
                lost = lost or unknown
                asks = _outcome.retry_after(err)
                pause = max(WAITS.delay(retry), asks)
                retry += 1
                done = not maybe or first.unmet(err) or asks > WAITS.most or retry >= self._tries or self._clock.monotonic() + pause >= end
                if done:
                    if unknown and request_id:
                        raise UnknownOutcomeError(request_id, err) from err
                    if isinstance(err, ApiError):
                        err._after_lost = lost
                    raise
            self._clock.sleep(pause)

    def call(
        self, method: str, path: str, body: Mapping[str, Any] | None, kind: type, valid: Callable[[dict[str, Any]], None] | None = None, *,
        extra: float = 0.0, timeout: float | None = None, request_id: str = "", grants: bool = False,
    ) -> tuple[dict[str, Any], Moment]:
        """exchange, and again where that may help."""
        return self.insist(
            lambda left, abort: self.exchange(
                method, path, body, kind, valid, seconds=left, abort=abort,
                wanted=left if grants else None),
            extra=extra, timeout=timeout, request_id=request_id)


def _of_another(r: Response) -> bool:
    """Whether a response is that of another server. The page of a proxy whose server is away says so in its status, and that of one that is busy."""
    return r.media_type not in ("application/json", "application/problem+json") and r.status < 500 and r.status not in PASSING


def encode(body: Mapping[str, Any] | None) -> bytes | None:
    """The JSON of a request; None for none."""
    if body is None:
        return None
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as err:
        raise InvalidSettingError("body", f"cannot be written as JSON in UTF-8: {err}") from err


def _retry_after(headers: Headers) -> float:
    """The seconds of Retry-After, a day at most; 0 is none. It may be a date, which is compared with the response's own."""
    text = headers.get("Retry-After") or ""
    if text.isascii() and text.isdigit():
        return MAX_RETRY_AFTER if len(text) > 9 else min(float(text), MAX_RETRY_AFTER)
    if not text:
        return 0.0
    from email.utils import parsedate_to_datetime  # which takes long to import

    try:
        ahead = (parsedate_to_datetime(text) - parsedate_to_datetime(headers.get("Date") or "")).total_seconds()
    except (ValueError, TypeError, IndexError, OverflowError):
        return 0.0
    return max(0.0, min(ahead, MAX_RETRY_AFTER))


def segment(text: str, name: str = "key") -> str:
    """A text as one segment of a path. How long it may be, the server says. ".", ".." and "/" cannot be one: the URL would name another resource."""
    if text in (".", "..", "/"):
        raise InvalidSettingError(name, 'cannot be ".", ".." or "/"')
    return quote(_check.text(name, text, 1 << 16), safe="")


class HeldLease:
    """A lease of a lock, with the time that is left of it."""

    def __init__(self, lease: Lease, begin: Moment, owner: str, clock: Clock) -> None:
        self.lease = lease
        self.owner_id = owner
        """owner_id of the request."""
        self._begin = begin
        self._clock = clock

    @property
    def token(self) -> int:
        """The fencing token."""
        return self.lease["fencing_token"]

    @property
    def subject(self) -> str:
        """What the token is one of, for fences."""
        return _outcome.subject_of_lock(self.lease["lock_key"], self.lease.get("permit", 0))

    @property
    def remaining(self) -> float:
        """Seconds that the lease lasts from now on, at least; 0 or less means that it has expired.

        They count from before the request, on the monotonic clock and on the wall clock, whichever has gone further. A force-release is not
        seen: that takes a renewal.
        """
        now = self._clock.now()
        gone = max(now.monotonic - self._begin.monotonic, now.wall - self._begin.wall)
        return self.lease["remaining_ms"] / 1000 - gone


class LockAPI:
    """The operations of a tenant's locks. A response that is not about the lock, the owner and the token of the request is an error.

    A request without a request_id gets one. timeout bounds all tries of a call, in seconds.
    """

    def __init__(self, client: Client, tenant: str) -> None:
        self._client = client
        self.tenant = tenant
        self._base = "/v1/tenants/" + segment(tenant, "tenant")

    def _path(self, key: str, command: str = "") -> str:
        return f"{self._base}/locks/{segment(key)}{command}"

    def acquire(self, key: str, request: AcquireRequest, *, timeout: float | None = None) -> HeldLease:
        """Take the lock. :class:`~leasehold.codes.LockHeldError` has the holder, and when its lease expires.

        With wait_seconds the server waits for a lock that is held, and the client so much longer for the response. Each
        try ends, for the server too, soon after the client has stopped to wait for it. If the call obtains nothing, a
        try of it had no response, and the request had no request_id, it is given up in the background, see
        :meth:`abandon`. A lease that has expired by the time its response arrives is LeaseExpiredError.
        """
        wait = _check.whole("wait_seconds", request.get("wait_seconds", 0))
        return self._giving_up(self._path(key, "/acquire"), request, lambda r: self._lease(
            key, "/acquire", r, lambda got: _outcome.acquired(r, got, self.tenant, key), wait, timeout))

    def _giving_up(self, path: str, request: Mapping[str, Any], do: Callable[[dict[str, Any]], T]) -> T:
        """Send an acquire, and give it up in the background if a try of it had no response and the caller cannot send
        it again."""
        r, client = _filled(request), self._client
        if request.get("request_id"):
            return do(r)

        def send(seconds: float, abort: Signal) -> Wires[None]:
            return asked(client.give_up, path, r, seconds=seconds, abort=abort)

        settled = owe(lambda seconds: here(send(seconds / 2, Signal())))  # for the connection, and for the response
        try:
            got = do(r)
        except BaseException as err:
            refused = isinstance(err, ApiError) and err._after_lost and not _outcome.final(err)
            if refused or isinstance(err, UnknownOutcomeError) or not isinstance(err, Exception):
                # For how long a try may still have its effect.
                late = client._timeout + min(float(r.get("wait_seconds", 0)), 60.0) + _end.AFTER
                end = client._clock.now().plus(late + ABANDON_TIME)
                run(client._background, client._clock, _end.give_up(client._clock, end, client._timeout, send))
            settled()
            raise
        settled()
        return got

    def abandon(self, key: str, request: AcquireRequest, *, timeout: float | None = None) -> None:
        """Give up an acquire: what it obtained ends, its place in line too, and no delivery of it obtains anything from
        then on, at any server.

        The request is that of the acquire, with its request_id. A grant of the mode rate stays used. It returns as well
        if the server knows that what the request obtained has ended already.
        """
        if not request.get("request_id"):
            raise InvalidSettingError("request_id", "is required: that of the acquire to give up")
        r = dict(request)
        try:
            self._client.insist(
                lambda left, abort: self._client.give_up(self._path(key, "/acquire"), r, seconds=left, abort=abort),
                timeout=timeout)
        except codes.RequestIdReusedError:
            pass

    def renew(self, key: str, request: RenewRequest, *, timeout: float | None = None) -> HeldLease:
        """Move the lease's expiry to now + ttl_seconds.

        After LeaseLostError, LeaseExpiredError, LeaseReleasedError and NotOwnerError the caller must stop what the lock protects. With expires_at, LeaseChangedError means
        that the lease expires at another time, which the error has: it is still held. :meth:`renew_lease` takes care of that.
        """
        r = cast(RenewRequest, _filled(request))
        return self._lease(
            key, "/renew", r, lambda got: _outcome.granted(got, self.tenant, key, r.get("owner_id", ""), r["fencing_token"]), 0, timeout)

    def renew_lease(self, held: HeldLease, ttl_seconds: int, *, timeout: float | None = None) -> HeldLease:
        """Renew a lease and name when it expires, so that a delivery that is delayed on its way never undoes a later renewal."""
        r: dict[str, Any] = {
            "owner_id": held.owner_id, "fencing_token": held.token, "ttl_seconds": ttl_seconds, "expires_at": held.lease["expires_at"],
        }
        try:
            return self.renew(held.lease["lock_key"], cast(RenewRequest, r), timeout=timeout)
        except codes.LeaseChangedError as err:
            if not isinstance(err.expires_at, datetime):
                raise
            r["expires_at"] = format_time(err.expires_at)
            return self.renew(held.lease["lock_key"], cast(RenewRequest, r), timeout=timeout)

    def _lease(
        self, key: str, command: str, r: Mapping[str, Any], valid: Callable[[dict[str, Any]], None], wait: float, timeout: float | None,
    ) -> HeldLease:
        got, begin = self._client.call(
            "POST", self._path(key, command), r, Lease, valid, extra=min(wait, 60.0), timeout=timeout,
            request_id=r["request_id"], grants=command == "/acquire")
        clock = self._client._clock
        now = clock.now()
        took = min(now.monotonic - begin.monotonic, now.wall - begin.wall)
        held = HeldLease(cast(Lease, got), begin.plus(_outcome.waited(r, got, took)), r.get("owner_id", ""), clock)
        if command == "/acquire" and r.get("mode") == "rate":
            return held
        if held.remaining <= 0:
            raise codes.LeaseExpiredError("the lease expired before its response arrived: use a longer ttl")
        return held

    def release(self, key: str, request: ReleaseRequest, *, timeout: float | None = None) -> EndedLease:
        """End the caller's lease."""
        r = cast(ReleaseRequest, _filled(request))
        got, _ = self._client.call(
            "POST", self._path(key, "/release"), r, EndedLease,
            lambda got: _outcome.ended(got, self.tenant, key, r.get("owner_id", ""), r["fencing_token"]), timeout=timeout, request_id=r["request_id"])
        return cast(EndedLease, got)

    def force_release(self, key: str, request: ForceReleaseRequest, *, timeout: float | None = None) -> ForceReleased:
        """End another owner's lease; it needs the administrator's scope."""
        r = _filled(request)

        def valid(got: dict[str, Any]) -> None:
            _outcome.same_lock(got, self.tenant, key)
            _outcome.in_state("RELEASED", got.get("state", ""))

        got, _ = self._client.call(
            "POST", self._path(key, "/force-release"), r, ForceReleased, valid, timeout=timeout, request_id=r["request_id"])
        return cast(ForceReleased, got)

    def get(self, key: str, *, timeout: float | None = None) -> Lock:
        """Read a lock. NotFoundError means that there is no record of it."""
        got, _ = self._client.call("GET", self._path(key), None, Lock, lambda got: self._is_lock(got, key), timeout=timeout)
        return cast(Lock, got)

    def list(
        self, *, prefix: str = "", state: str = "", page_size: int = 0, page_token: str = "", timeout: float | None = None,
    ) -> LockPage:
        """A page of the tenant's locks by ascending bytes of their keys."""
        path, valid = self._list(prefix, state, page_size, page_token)
        got, _ = self._client.call("GET", path, None, LockPage, valid, timeout=timeout)
        return cast(LockPage, got)

    def _list(self, prefix: str, state: str, page_size: int, page_token: str) -> tuple[str, Callable[[dict[str, Any]], None]]:
        """The path of a page, and whether a response can be that."""
        query = {"prefix": prefix, "state": state, "page_token": page_token, "page_size": str(page_size) if page_size else ""}
        text = urlencode({k: v for k, v in query.items() if v})

        def valid(got: dict[str, Any]) -> None:
            if "locks" not in got:
                raise _outcome.missing()
            for lock in got["locks"]:
                self._is_lock(lock, lock.get("lock_key", ""))
                if not lock["lock_key"].startswith(prefix) or state and lock.get("state") != state:
                    raise InvalidResponseError(f"it lists the lock {lock['lock_key']!r} in the state {lock.get('state')}, which was not asked for")

        return self._base + "/locks" + ("?" + text if text else ""), valid

    def _is_lock(self, got: Mapping[str, Any], key: str) -> None:
        if not got.get("lease_id"):
            raise _outcome.missing()
        _outcome.same_lock(got, self.tenant, key)

    def acquire_set(self, request: LockSetAcquireRequest, *, timeout: float | None = None) -> LockSet:
        """Take up to 20 locks in one step, all or none. LockHeldError says in lock_key which of them is held."""
        return cast(LockSet, self._giving_up(f"{self._base}/lock-sets/acquire", request, lambda r: self._set(
            "/acquire", r, LockSet, r.get("lock_keys", []), {}, _outcome.set_granted, timeout)))

    def renew_set(self, request: LockSetRenewRequest, *, timeout: float | None = None) -> LockSet:
        """Move the expiry of several leases to now + ttl_seconds, of all or of none."""
        r, tokens = _filled(request), _tokens(request)
        return cast(LockSet, self._set("/renew", r, LockSet, list_of(tokens), tokens, _outcome.set_granted, timeout))

    def release_set(self, request: LockSetReleaseRequest, *, timeout: float | None = None) -> LockSetReleased:
        """End those of the caller's leases that last. LeaseLostError and its kin say that one of them, lock_key, was lost before."""
        r, tokens = _filled(request), _tokens(request)
        return cast(LockSetReleased, self._set("/release", r, LockSetReleased, list_of(tokens), tokens, _outcome.set_ended, timeout))

    def _set(
        self, command: str, r: dict[str, Any], kind: type, keys: Sequence[str], tokens: Mapping[str, int], valid: Callable[..., None],
        timeout: float | None,
    ) -> dict[str, Any]:
        got, _ = self._client.call(
            "POST", self._base + "/lock-sets" + command, r, kind,
            lambda got: valid(got, self.tenant, keys, r.get("owner_id", ""), tokens), timeout=timeout,
            request_id=r["request_id"], grants=command == "/acquire")
        return got

    # What leasehold.locks needs: each request is sent once.

    @performed
    def send_acquire(self, key: str, r: Mapping[str, Any], seconds: float, abort: Signal) -> Wires[dict[str, Any]]:
        return asked(
            self._client.exchange, "POST", self._path(key, "/acquire"), r, Lease, lambda got: _outcome.acquired(r, got, self.tenant, key),
            seconds=seconds, abort=abort, wanted=seconds)

    @performed
    def send_give_up(self, key: str, r: Mapping[str, Any], seconds: float, abort: Signal) -> Wires[None]:
        return asked(self._client.give_up, self._path(key, "/acquire"), r, seconds=seconds, abort=abort)

    @performed
    def send_renew(self, key: str, r: Mapping[str, Any], seconds: float, abort: Signal) -> Wires[dict[str, Any]]:
        return asked(
            self._client.exchange, "POST", self._path(key, "/renew"), r, Lease,
            lambda got: _outcome.granted(got, self.tenant, key, r["owner_id"], r["fencing_token"]), seconds=seconds, abort=abort)

    @performed
    def send_release(self, key: str, r: Mapping[str, Any], seconds: float, abort: Signal) -> Wires[dict[str, Any]]:
        return asked(
            self._client.exchange, "POST", self._path(key, "/release"), r, EndedLease,
            lambda got: _outcome.ended(got, self.tenant, key, r["owner_id"], r["fencing_token"]), seconds=seconds, abort=abort)

    @performed
    def send_get(self, key: str, seconds: float, abort: Signal) -> Wires[dict[str, Any]]:
        return asked(self._client.exchange, "GET", self._path(key), None, Lock, lambda got: self._is_lock(got, key), seconds=seconds, abort=abort)

    @performed
    def send_list(self, prefix: str, page_size: int, page_token: str, seconds: float, abort: Signal) -> Wires[dict[str, Any]]:
        path, valid = self._list(prefix, "", page_size, page_token)
        return asked(self._client.exchange, "GET", path, None, LockPage, valid, seconds=seconds, abort=abort)

    @performed
    def send_set(self, command: str, r: Mapping[str, Any], keys: Sequence[str], tokens: Mapping[str, int], seconds: float, abort: Signal) -> Wires[dict[str, Any]]:
        if command == "give_up":
            yield from asked(self._client.give_up, f"{self._base}/lock-sets/acquire", r, seconds=seconds, abort=abort)
            return {}
        kind, valid = (LockSetReleased, _outcome.set_ended) if command == "release" else (LockSet, _outcome.set_granted)
        return (yield from asked(
            self._client.exchange, "POST", f"{self._base}/lock-sets/{command}", r, kind, lambda got: valid(got, self.tenant, list(keys), r["owner_id"], tokens),
            seconds=seconds, abort=abort, wanted=seconds if command == "acquire" else None))


def _filled(request: Mapping[str, Any]) -> dict[str, Any]:
    r = dict(request)
    if not r.get("request_id"):
        r["request_id"] = new_request_id()
    return r


def _tokens(request: LockSetRenewRequest | LockSetReleaseRequest) -> dict[str, int]:
    return {t["lock_key"]: t["fencing_token"] for t in request.get("leases", [])}


def list_of(tokens: Mapping[str, int]) -> Sequence[str]:
    return list(tokens)


class Fenced(Protocol):
    """A fencing token and what it is one of: a lock, a leader and the lock of a run are such. In another process, a :class:`FencedLease` is."""

    @property
    def subject(self) -> str: ...

    @property
    def token(self) -> int: ...


class FencedLease(NamedTuple):
    """A fencing token that was passed on, with what it is one of."""

    subject: str
    """``lock/`` and the key of the lock, with ``#`` and its number for a permit; ``run/`` and the ID of the run."""
    token: int


class Fences:
    """The fences of one tenant, for resources that cannot compare fencing tokens themselves."""

    def __init__(self, client: Client, tenant: str) -> None:
        self._client = client
        self.tenant = tenant

    def check(self, resource: str, lease: Fenced, *, timeout: float | None = None) -> FencePassed:
        """Pass the fencing token of a lock, a leader or a run by the resource's fence.

        :class:`~leasehold.codes.StaleTokenError` means that a higher token was seen and that the holder of this one must stop,
        :class:`~leasehold.codes.OtherSubjectError` that tokens of another lock or run were seen, which have no order with this one.
        """
        subject, token = getattr(lease, "subject", None), getattr(lease, "token", None)
        body: dict[str, Any] = {"fencing_token": _check.whole("token", token), "subject": _check.text("subject", subject, 320)}

        def valid(got: dict[str, Any]) -> None:
            if got.get("tenant_id") != self.tenant or got.get("resource") != resource:
                raise InvalidResponseError(f"it is about the fence of {got.get('resource')!r}, which was not asked for")
            _outcome.same_token(body["fencing_token"], got.get("fencing_token", 0))
            if got.get("subject") != subject:
                raise InvalidResponseError(f"it is about a token of {got.get('subject')!r}, not of {subject!r}")

        path = f"/v1/tenants/{segment(self.tenant, 'tenant')}/fences/{segment(resource, 'resource')}/check"
        got, _ = self._client.call("POST", path, body, FencePassed, valid, timeout=timeout)
        return cast(FencePassed, got)
