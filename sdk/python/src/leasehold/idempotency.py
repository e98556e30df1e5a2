"""HTTP requests with the header Idempotency-Key take effect once: a middleware for WSGI and ASGI, on the gate of :mod:`leasehold.once`.

    payments = Middleware(client.runs("shop"), account, name="payments")     # account says whose a request is
    app.wsgi_app = payments.wsgi(app.wsgi_app)                               # Flask
    app.add_middleware(payments.asgi)                                        # FastAPI, Starlette
    application = payments.wsgi(get_wsgi_application())                      # Django; payments.asgi(get_asgi_application())

The first request with a key runs the application, whose response is stored and then sent; every later one with the key gets that response. The rules are those of all languages,
whose programs can share keys: docs/guides/idempotency.md. The middleware holds a response until it is stored: an application behind it cannot stream, and what it does in the
background before it returns is part of the request.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import _check, _outcome
from ._call import on_fork, tell
from ._http_print import Record, Reply, Request, fingerprint, key_of, name_of, problem, run_id
from ._steps import Steps, may_block
from ._time import SYSTEM, Clock, Signal
from .codes import RunDiffersError
from .errors import InvalidSettingError, LeaseholdError, LockLostError
from .once import Gate, Held, RunLock, RunNotStoredError, Storing, UncountedError, _current, _Ended, _Run, lost

__all__ = ["Middleware", "Request", "nothing_done", "run_id", "store_outcome", "store_success"]

AWAY = 1.5
"""Seconds for which a gate that does not respond is asked again before the application begins. The first try may take two seconds by itself."""

log = logging.getLogger("leasehold")
_within: contextvars.ContextVar[_Call | None] = contextvars.ContextVar("leasehold_idempotency", default=None)


def store_outcome(status: int, headers: Mapping[str, str]) -> bool:
    """The default of store: what came of an application that began is stored, errors too, as no one knows what it did before. Not stored is what says that nothing was done:
    425, 429, and 409 and 503 with Retry-After."""
    return status not in (425, 429) and not (status in (409, 503) and "retry-after" in headers)


def store_success(status: int, headers: Mapping[str, str]) -> bool:
    """A value of store for applications that have no effect when they fail: 401, 408, 409 with Retry-After, 425, 429, 5xx and exceptions leave the key free."""
    return status < 500 and status not in (401, 408, 425, 429) and not (status == 409 and "retry-after" in headers)


def nothing_done() -> None:
    """Say, from within an application, that it had no effect and will have none: its response is not stored, and the key is free. Without a key it changes nothing."""
    call = _within.get()
    while call is not None:
        call.nothing, call = True, call.outer


@dataclass(frozen=True)
class _Made:
    """What came of an application, for those who share it."""

    reply: Reply
    parts: Mapping[str, str]


class _NotKeptError(LeaseholdError):
    """Why a run is free again: its application responded, and that is not stored."""

    def __init__(self, made: _Made) -> None:
        super().__init__(f"it responded {made.reply.status}, which is not stored")
        self.made = made


class Middleware:
    """Makes requests take effect once. It may be used by several threads, tasks and applications at once.

    gate, scope
        client.runs(...), and a function that says whose a :class:`Request` is, such as the account that authentication found: no one gets the response to another one's.
    name
        What the middleware is in front of, such as "payments". A key belongs to the middlewares of one name, scope and gate.
    required, methods
        Refuse requests without a key; the methods whose requests can have one.
    headers, ignore_host, payload
        Fields of a request that are compared, too; leave out the host; a function that returns what of the body is compared.
    replay, store
        Fields of a response that are stored beside the usual ones; a function of status and headers, in lower case, that says whether a response is stored.
    ttl, wait, max_body, owner
        How many seconds a run outlives its process; how many a request waits for another with its key; bytes of a request; the name of this process for people.
    warn
        Gets what callers are not told; without it, that is logged.
    """

    def __init__(
        self, gate: Gate, scope: Callable[[Request], str], *, name: str, required: bool = False, methods: Collection[str] = ("POST", "PATCH"),
        headers: Sequence[str] = (), ignore_host: bool = False, payload: Callable[[Request], bytes] | None = None, replay: Sequence[str] = (),
        store: Callable[[int, Mapping[str, str]], bool] = store_outcome, ttl: float = 30.0, wait: float = 10.0, max_body: int = 1 << 20, owner: str = "",
        warn: Callable[[BaseException], None] | None = None, clock: Clock | None = None,
    ) -> None:
        for setting, value in (("scope", scope), ("payload", payload), ("store", store), ("warn", warn)):
            _check.function(setting, value)
        self.gate, self.scope, self.name, self.required, self.methods = gate, scope, _check.text("name", name, 256), required, frozenset(methods)
        self.headers, self.ignore_host, self.payload, self.replay, self.store = name_of(headers), ignore_host, payload, replay, store
        self.ttl, self.wait, self.max_body, self.owner = _check.ttl("ttl", ttl), _check.seconds("wait", wait), _check.whole("max_body", max_body), owner
        self._warn, self.clock = warn, clock or SYSTEM
        self.after_fork()
        on_fork(self)

    def after_fork(self) -> None:
        self._unkept: dict[Storing, str] = {}
        self._tasks: set[asyncio.Future[Any]] = set()

    def warn(self, text: str, err: BaseException | None = None) -> None:
        made = LeaseholdError(f"idempotency: {text}" + ("" if err is None else f": {err}"))
        made.__cause__ = err
        tell(self._warn or (lambda e: log.warning("%s", e)), made)

    def wsgi(self, app: Callable[..., Any]) -> Callable[..., Iterable[bytes]]:
        """An application that runs app once for each key."""
        from . import _http_apps

        return _http_apps.wsgi(self, app)

    def asgi(self, app: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
        """An application that runs app once for each key. A caller that hangs up does not stop it."""
        from . import _http_apps

        return _http_apps.asgi(self, app)

    def close(self, timeout: float = 10.0) -> None:
        """Wait until all responses that were sent are stored, so many seconds at most: for a process that ends. RunNotStoredError names the requests that may be carried out again."""
        may_block("await asyncio.to_thread(middleware.close)")
        end, left = self.clock.monotonic() + _check.seconds("timeout", timeout), []
        for storing, of in list(self._unkept.items()):
            if not storing.wait(max(0.0, end - self.clock.monotonic())):
                storing.stop()
                left.append(of)
        if left:
            raise RunNotStoredError(f"responses were sent and are not stored: {'; '.join(left)}")

    def keep(self, storing: Storing, of: str) -> None:
        """Know what is not stored yet, until it is."""

        def forget() -> None:
            self._unkept.pop(storing, None)

        self._unkept[storing] = of
        storing._done.subscribe(forget)

    def judged(self, request: Request) -> Reply | _Call | None:
        """What a request without a valid key gets, a call of one with a key, and None for one that concerns no one here."""
        if request.method not in self.methods:
            return None
        try:
            key = key_of(request)
        except ValueError as err:
            return problem(400, "IDEMPOTENCY_KEY_INVALID", "invalid idempotency key", f"Idempotency-Key {err}")
        if key is None:
            return None if not self.required else problem(400, "IDEMPOTENCY_KEY_REQUIRED", "idempotency key is missing",
                "this request needs the header Idempotency-Key: make up a key, such as a UUID, and send it again with each retry")
        scope = self.scope(request)
        if not scope:
            self.warn("the scope of the request is empty")
            return problem(500, "IDEMPOTENCY_SCOPE_EMPTY", "caller is not known", "this server did not find out whose request this is; it did not run")
        call = _Call(self, request, key, run_id(self.name, scope, key))
        outer = call.outer
        while outer is not None:
            if outer.id == call.id:  # the outer one stores what comes of it
                self.warn("a middleware is behind another one of the same name: the inner one does nothing")
                return None
            outer = outer.outer
        return call


class _Call:
    """One request with a key."""

    def __init__(self, m: Middleware, request: Request, key: str, run: str) -> None:
        self.m, self.request, self.key, self.id = m, request, key, run
        self.print, self.parts = fingerprint(request, m.headers, m.ignore_host, m.payload)
        self.until = m.clock.monotonic() + m.wait
        self.spent = False  # its application ran, and its lock went to another process
        self.nothing = False  # its application has said that it did nothing
        self.outer = _within.get()
        self.granted: tuple[_Run, RunLock, Held] | None = None

    def run_in(self, do: Callable[[], Any]) -> Any:
        """Call a function that is part of the run."""
        assert self.granted is not None
        tokens = _within.set(self), _current.set(self.granted[1])
        try:
            return do()
        finally:
            _within.reset(tokens[0])
            _current.reset(tokens[1])

    def left(self) -> None:
        """The caller has gone before the application began."""
        if self.granted is not None:
            run, lock, held = self.granted
            run.interrupted(lock, held)

    def before(self, cancel: Signal) -> Steps[Reply | None]:
        """What the request gets; None if its application is to run now."""
        m = self.m
        run = _Run(
            m.gate, self.id, owner=m.owner, request_id="", ttl=m.ttl, heartbeat=None, max_failures=0, max_takeovers=None, wait=max(0.0, self.until - m.clock.monotonic()),
            fingerprint=self.print, on_refresh=None, warn=lambda e: m.warn(str(e)), clock=m.clock, retry_for=AWAY, shared=True)
        try:
            outcome, lock, held = yield from run.begin(cancel)
        except LeaseholdError as err:
            return self.refused(err)
        if lock is not None and held is not None:
            if self.spent:
                yield from run.end(lock, held, _Ended(error=UncountedError()))
                return _lost()
            self.granted = run, lock, held
            return None
        assert outcome is not None
        made = outcome.error.made if isinstance(outcome.error, _NotKeptError) else outcome.value
        if made is not None:
            return _reused() if self.differs(made.parts) else made.reply
        if outcome.status == "already_finished":
            try:
                record = Record.read(outcome.result)
            except ValueError as err:
                return self.fault(err)
            return _reused() if self.differs(record.parts) else record.replay()
        if outcome.status == "locked":
            return _running(min(outcome.retry_after, 5.0))
        if outcome.status == "already_failed":
            m.warn("the request was given up", outcome.error)
            return problem(
                500, "IDEMPOTENT_REQUEST_GIVEN_UP", "request was given up", "the processes that carried this request out died again and again; "
                "find out what it did before you send it under another key")
        return self.fault(InvalidSettingError("gate", "does not make runs: use client.runs(...)"))

    def differs(self, stored: Mapping[str, str]) -> bool:
        """Whether it is another request, by what the gate does not compare: fields that both programs know."""
        return any(self.parts.get(name, own) != own for name, own in stored.items())

    def refused(self, err: BaseException) -> Reply:
        if isinstance(err, RunDiffersError):
            return _reused()
        if _outcome.final(err):
            return self.fault(err)
        self.m.warn("the gate does not respond", err)
        return _lost() if self.spent else problem(
            503, "IDEMPOTENCY_UNAVAILABLE", "idempotency cannot be ensured just now", "this request did not run: send it again, with the same key", 1.0)

    def fault(self, err: BaseException) -> Reply:
        self.m.warn("an operator has to look at it", err)
        return problem(500, "IDEMPOTENCY_FAULT", "idempotency cannot be ensured", "the server's log has the reason; this request did not run")

    def after(self, reply: Reply | None, error: Exception | None) -> Steps[Reply | None]:
        """Store what came of the application: its response, or an exception, or neither. The result is what the request gets; None if another process took over, which is to be asked."""
        try:
            return (yield from self.stored(reply, error))
        except BaseException:
            self.left()
            raise

    def stored(self, reply: Reply | None, error: Exception | None) -> Steps[Reply | None]:
        assert self.granted is not None
        m, (run, lock, held), sent = self.m, self.granted, reply if error is None else None
        stored = not self.nothing and m.store(sent.status if sent else 500, sent.fields() if sent else {})
        if sent is None:
            again = None if stored else 1.0
            if error is None:
                m.warn("the application returned and has not responded: that is not taken for a success")
            sent = problem(
                500, *(("IDEMPOTENT_REQUEST_FAILED", "request failed", "the request began and broke off") if error is not None else
                       ("IDEMPOTENT_RESPONSE_MISSING", "response is missing", "the request was carried out and left no response")), again)
        record, made = Record.of(sent, m.replay, self.parts), _Made(sent.replay(m.replay), self.parts)
        if stored and record.form == "none":
            m.warn(f"the response of {len(sent.body)} bytes is too large to be stored: callers that send the request again get 409")
        self.granted = None  # what is interrupted from here on goes on in the background
        outcome = yield from run.end(lock, held, _Ended(record.text(), done=True, value=made) if stored else _Ended(error=_NotKeptError(made)))
        if lost(outcome.error) and (stored or isinstance(error, LockLostError)):
            m.warn("the lock was lost to another process; the application ran here as well", outcome.error)
            self.spent = True
            if error is None or isinstance(error, LockLostError):
                return None
        elif outcome.storing is not None:
            m.warn("the response was sent and is not stored yet; until it is, the application may run again in another process")
            m.keep(outcome.storing, f"key {self.key!r} of {self.request.method} {self.request.path}, run {self.id}")
        elif stored and outcome.status != "ready":
            m.warn("the response was sent and is not stored; the application may run again", outcome.error)
        if error is not None:
            raise error
        return sent


def _reused() -> Reply:
    return problem(
        422, "IDEMPOTENCY_KEY_REUSED", "idempotency key used before",
        "this key was used before for another request (method, path, query, host, headers or body): use a new key for a new request")


def _running(after: float) -> Reply:
    return problem(
        409, "IDEMPOTENT_REQUEST_RUNNING", "request is under way", "a request with this key is being carried out: send it again, with the same key, and get its response", after)


def _lost() -> Reply:
    return problem(
        503, "IDEMPOTENT_REQUEST_INTERRUPTED", "request was interrupted",
        "this request began and was interrupted, and its response was not stored: send it again, with the same key", 1.0)
