"""Work that runs once: by one worker at a time, and not again once it has finished. All later callers get the earlier result.

    runs = leasehold.Client("http://127.0.0.1:8080").runs("shop")

    @once(runs, key="invoice-{month}")
    def make_invoice(month: str) -> dict:
        ...

    @once(runs, key=lambda event, context: event["Records"][0]["messageId"], ignore=("event", "context"))
    def handler(event, context):
        ...

The key says which run it is. The other arguments are what it depends on: a call of the same key with others is :class:`~leasehold.codes.RunDiffersError`, and gets no result that is not
its own.

A queue delivers at least once. :func:`run` stands between the queue and the work: it asks the gate for the run, refreshes its lock while the work runs, and
stores the end under the lock's token. A request whose response was lost is sent again with the same request_id; each takes effect once. While the gate
cannot be reached the work goes on until the lock expires.

The end of the work is stored for as long as the gate may accept it: the caller waits for that until the lock expires, and ten seconds at least; then a RunNotStoredError has
what the work returned, and the end is sent again in the background (:class:`Storing`).

An effect and its record are two steps. If a process dies between the effect of the work and the end of the run, the next run does the work again. Write to your
database under :attr:`RunLock.token`, or under a unique name, where that must not happen.
"""

from __future__ import annotations

import base64
import contextlib
import contextvars
import functools
import inspect
import json
import math
import os
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace as changed
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, cast

from . import _check, _end, _input, _outcome, codes
from ._call import Background, Cancelled, on_fork, owe, tell
from ._steps import Blocks, Send, Sleep, Steps, Wires, asked, awaited, block, later, may_block, pause, performed
from ._steps import run as in_background
from ._term import Term
from ._time import CALL_TIME, SYSTEM, Backoff, Clock, Moment, Signal, hasten, try_time
from .client import TRY_TIME, Client, new_request_id, segment
from .errors import ApiError, InvalidResponseError, InvalidSettingError, LeaseholdError, LockLostError, NoResponseError
from .locks import process_name
from .types import (
    AnalysisFinished, AnalysisGranted, AnalysisLock, AnalysisReleased, Run, RunFinished, RunGranted, RunLock as RunLockBody, RunReleased,
)

if TYPE_CHECKING:
    import asyncio

__all__ = [
    "Analyses", "Gate", "Grant", "MAX_RESULT_BYTES", "Outcome", "PermanentError", "RunFailedError", "RunLock", "RunLockedError", "RunNotStoredError", "Runs", "Status", "Storing",
    "UncountedError", "current", "fingerprint", "once", "run", "run_async",
]

MAX_RESULT_BYTES = 256 << 10
"""Of a result; what is larger belongs elsewhere, and its address here."""

MAX_KEEP = 3660 * 86400  # seconds
MIN_HEARTBEAT = 0.01
MAX_REASON_BYTES = 1024
RELEASE_TIME = 30.0  # seconds for releasing a run
ENDING_TIME = 10.0  # seconds, at least, for storing the end of a run
SPARE_TIME = 1.0  # seconds that a call with a time of its own leaves for what its caller has to do then
WAITS = Backoff(0.2, 5.0)
POLLS = Backoff(0.1, 1.0, equal_jitter=True)

Status = Literal[
    "ready", "failed", "attempt_failed", "already_finished", "already_failed", "locked", "unknown_analysis", "lock_lost", "not_stored",
]
"""How a run ended.

ready
    The work ran, and its end is stored.
failed
    The work failed for good.
attempt_failed
    The work failed; it may be retried.
already_finished, already_failed
    Skipped: it had finished, or failed for good, before.
locked
    Skipped: another worker runs it.
unknown_analysis
    There is no such analysis.
lock_lost
    The lock was lost before the end was stored; nothing was stored. What a work returned after its lock had expired by the
    clocks of this process is stored if the server accepts it, because no other worker began.
not_stored
    The work ended, and the gate has not stored that: another worker may begin. See :attr:`Outcome.storing`.
"""


class PermanentError(Exception):
    """Raised by the work: a retry would fail in the same way, so the run is FAILED at once. ``raise PermanentError("…") from err``."""


class UncountedError(Exception):
    """Raised by the work: the failure is not that of the work, such as a credential that is missing here, and does not count."""


class RunLockedError(LeaseholdError):
    """Another worker runs it. ``retry_after`` is how many seconds its lock lasts, unless it is refreshed."""

    def __init__(self, text: str, retry_after: float = 0.0) -> None:
        super().__init__(text)
        self.retry_after = retry_after


class RunFailedError(LeaseholdError):
    """The run was FAILED before, and does not run again."""


class RunNotStoredError(LeaseholdError):
    """The work was done, and its end could not be stored. Another worker may run it again when the lock has expired, until it is. Its cause is the error of a work that failed for good,
    otherwise why its end is not stored."""

    value: Any = None
    """What a function that :func:`once` decorates returned all the same."""
    storing: Storing | None = None
    """Its end, if it is sent again in the background; None if it was rejected."""
    _returned = False  # the work did, and did not fail for good


@dataclass(frozen=True)
class Ask:
    """A worker's request for a run."""

    run_id: str
    owner: str
    request_id: str
    ttl: float
    max_failures: int
    fingerprint: str
    max_takeovers: int | None = None
    """None is as the server says."""


@dataclass(frozen=True)
class Held:
    """A lock that a gate granted."""

    run_id: str
    owner: str
    token: int


@dataclass(frozen=True)
class Grant:
    """The response of a gate to a request for a run."""

    held: Held | None
    """None if it was not granted."""
    reason: str = ""
    retry_after: float = 0.0
    failed: bool = False
    """With already_finished: how it ended."""
    result: str = ""
    failure_reason: str = ""
    remaining: float = 0.0
    runs: int = 0
    """Runs begun since the last that ended by itself, with this one; above 1 it is a takeover."""
    failures: int = 0
    """Runs that failed before this one."""


class Gate(Protocol):
    """Grants runs. Each method sends its request, and returns soon after abort is set. :class:`Runs` and
    :class:`Analyses` are gates.

    seconds is for how long the response is waited for. acquire tells the server that the run is not wanted any more
    soon after that (not_after). give_up returns when the server says that nothing is held under the request_id, and
    nothing will be.
    """

    def acquire(self, ask: Ask, seconds: float, abort: Signal) -> Grant: ...

    def give_up(self, ask: Ask, seconds: float, abort: Signal) -> None: ...

    def refresh(self, held: Held, ttl: float, seconds: float, abort: Signal) -> None: ...

    def release(self, held: Held, failed: str, seconds: float, abort: Signal) -> None: ...

    def finish(self, held: Held, result: str | None, failed: str, seconds: float, abort: Signal) -> None: ...


class _HTTPGate:
    """What runs and analyses have in common."""

    _member = "run_id"
    _begin = "begin"
    _kinds: tuple[type, type, type, type] = (RunGranted, RunLockBody, RunReleased, RunFinished)

    def __init__(self, client: Client) -> None:
        self._client = client
        self._extra: dict[str, Any] = {}

    def _path(self, run_id: str) -> str:
        raise NotImplementedError

    def _send(
        self, run_id: str, command: str, body: Mapping[str, Any], kind: type, valid: Callable[[dict[str, Any]], None],
        seconds: float, abort: Signal,
    ) -> Wires[dict[str, Any]]:
        return asked(
            self._client.exchange, "POST", f"{self._path(run_id)}/{command}", self._body(body), kind, valid, seconds=seconds, abort=abort,
            wanted=seconds if command == self._begin else None)

    def _body(self, members: Mapping[str, Any]) -> dict[str, Any]:
        return {k: v for k, v in {**members, **self._extra}.items() if v not in ("", None)}

    def _asked(self, ask: Ask) -> dict[str, Any]:
        return {
            "owner_id": ask.owner, "request_id": ask.request_id, "ttl_seconds": int(ask.ttl),
            "max_failures": ask.max_failures or None, "max_takeovers": ask.max_takeovers, "fingerprint": ask.fingerprint,
        }

    def _same(self, run_id: str, got: Mapping[str, Any]) -> None:
        found = got.get(self._member, "")
        if not found:
            raise _outcome.missing()
        if found != run_id:
            raise InvalidResponseError(f"it is about the run {found!r}, not {run_id!r}")

    @performed
    def acquire(self, ask: Ask, seconds: float, abort: Signal) -> Wires[Grant]:
        def valid(got: dict[str, Any]) -> None:
            if not got.get("acquired"):
                if got.get("reason") not in ("locked", "already_finished"):
                    raise _outcome.missing()
                self._same(ask.run_id, got)
                return
            if got.get("fencing_token", 0) <= 0 or got.get("remaining_ms", 0) <= 0:
                raise _outcome.missing()
            self._same(ask.run_id, got)
            _outcome.same_owner(ask.owner, got.get("owner_id", ""))

        got = yield from self._send(ask.run_id, self._begin, self._asked(ask), _AnyGrant, valid, seconds, abort)
        if not got.get("acquired"):
            return Grant(
                None, reason=got["reason"], retry_after=got.get("retry_after_ms", 0) / 1000, failed=got.get("status") == "FAILED", result=got.get("result", ""),
                failure_reason=got.get("failure_reason", ""))
        return Grant(
            Held(ask.run_id, got["owner_id"], got["fencing_token"]), remaining=got["remaining_ms"] / 1000, runs=got.get("runs", 0),
            failures=got.get("failures", 0))

    @performed
    def give_up(self, ask: Ask, seconds: float, abort: Signal) -> Wires[None]:
        return asked(
            self._client.give_up, f"{self._path(ask.run_id)}/{self._begin}", self._body(self._asked(ask)), seconds=seconds, abort=abort)

    @performed
    def refresh(self, held: Held, ttl: float, seconds: float, abort: Signal) -> Wires[None]:
        def valid(got: dict[str, Any]) -> None:
            self._same(held.run_id, got)
            _outcome.same_token(held.token, got.get("fencing_token", 0))

        body = {"owner_id": held.owner, "fencing_token": held.token, "ttl_seconds": int(ttl)}
        yield from self._send(held.run_id, "refresh", body, self._kinds[1], valid, seconds, abort)

    @performed
    def release(self, held: Held, failed: str, seconds: float, abort: Signal) -> Wires[None]:
        body = {"owner_id": held.owner, "fencing_token": held.token, "failure_reason": failed}
        yield from self._send(held.run_id, "release", body, self._kinds[2], lambda got: self._same(held.run_id, got), seconds, abort)

    @performed
    def finish(self, held: Held, result: str | None, failed: str, seconds: float, abort: Signal) -> Wires[None]:
        status = "READY" if result is not None else "FAILED"

        def valid(got: dict[str, Any]) -> None:
            self._same(held.run_id, got)
            _outcome.in_state(status, got.get("status", ""))

        body = {"owner_id": held.owner, "fencing_token": held.token, "status": status, "result": result, "failure_reason": failed}
        yield from self._send(held.run_id, "finish", body, self._kinds[3], valid, seconds, abort)


class _AnyGrant(AnalysisGranted, total=False):
    """The members of both shapes that are judged by their type."""

    reason: str
    retry_after_ms: int
    result: str
    failure_reason: str
    run_id: str


class Runs(_HTTPGate):
    """The runs of a tenant, which callers name themselves: the first one that begins a run does the work, and all later ones get its result.

    keep is for how many seconds the record of a run is kept after the end of the run: whole seconds from a minute to 3660 days. After that its ID is a new one. None leaves what other processes say, a day if none does.
    """

    def __init__(self, client: Client, tenant: str = "default", *, keep: float | None = None) -> None:
        super().__init__(client)
        segment(tenant, "tenant")
        self.tenant = tenant
        if keep is not None:
            if not 60 <= _check.number("keep", keep) <= MAX_KEEP or keep != int(keep):
                raise InvalidSettingError("keep", f"is {keep}: must be whole seconds from 60 to {MAX_KEEP}, 3660 days")
            self._extra["keep_seconds"] = int(keep)

    def _path(self, run_id: str) -> str:
        return f"/v1/tenants/{segment(self.tenant, 'tenant')}/runs/{segment(run_id, 'run_id')}"

    def get(self, run_id: str, *, timeout: float | None = None) -> Run:
        """Read a run. If there is none, the error is NotFoundError with the field "run_id"."""
        got, _ = self._client.call("GET", self._path(run_id), None, Run, lambda got: self._same(run_id, got), timeout=timeout)
        return cast(Run, got)


class Analyses(_HTTPGate):
    """The run-once gate of analyses, whose documents their producers make. Its caller needs the worker's scope where the server asks for tokens."""

    _member = "analysis_id"
    _begin = "lock"
    _kinds = (AnalysisGranted, AnalysisLock, AnalysisReleased, AnalysisFinished)

    def _path(self, run_id: str) -> str:
        return f"/v1/analyses/{segment(run_id, 'run_id')}"


class Storing:
    """The end of a run that could not be stored before its caller went on. It is sent again in the background until the gate has it, or says that another worker took over."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._done, self._cancel = Signal(), Signal()
        self.outcome: Outcome | None = None
        """What came of the run: as if the caller had waited; None until that is known."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the end is stored, or never will be; False if that takes longer than so many seconds."""
        may_block("await asyncio.to_thread(storing.wait)")
        end = None if timeout is None else self._clock.monotonic() + _check.seconds("timeout", timeout)
        while not self._done.is_set() and (end is None or self._clock.monotonic() < end):
            self._clock.wait(None if end is None else end - self._clock.monotonic(), self._done)
        return self._done.is_set()

    def stop(self) -> None:
        """Give up, unless the end is stored: for a process that ends."""
        self._cancel.set()


@dataclass(frozen=True)
class Outcome:
    """What came of a run."""

    status: Status
    result: str = ""
    """With ready what the work returned, with already_finished what it returned then; what it returned also if that is not stored."""
    retry_after: float = 0.0
    """With locked: seconds until the lock expires."""
    token: int = 0
    """The fencing token of the run, 0 if there was none."""
    error: BaseException | None = None
    """With attempt_failed, failed and lock_lost: why; with already_failed a RunFailedError, with not_stored a RunNotStoredError."""
    storing: Storing | None = None
    """With not_stored: the end of the run, while it is sent again in the background."""
    value: Any = field(default=None, compare=False)
    """What the work returned, to this call or the one that it shares."""


def lost(err: BaseException | None) -> bool:
    """Whether an error means that the lock is not, or no longer, the caller's."""
    return isinstance(err, (LockLostError, codes.AlreadyFinishedError)) or _outcome.gone(err) or err is not None and _unknown(err)


def _unknown(err: BaseException) -> bool:
    return isinstance(err, codes.NotFoundError) and err.field in ("analysis_id", "run_id")


def _rejected(err: BaseException) -> bool:
    """Whether the gate would reject the same request again."""
    return not lost(err) and _outcome.final(err)


_current: contextvars.ContextVar[RunLock | None] = contextvars.ContextVar("leasehold_run", default=None)


def current() -> RunLock:
    """The lock of the run that this code is part of, in a function that :func:`once` decorates."""
    lock = _current.get()
    if lock is None:
        raise LookupError("this code is not part of a run")
    return lock


class RunLock:
    """The lock of a run, as its work sees it."""

    def __init__(self, clock: Clock, held: Held, end: Moment) -> None:
        self.run_id = held.run_id
        self.token = held.token
        """The fencing token: pass it on to whatever the work writes to."""
        self.subject = f"run/{held.run_id}"
        """What the token is one of, for fences."""
        self._has_expired = False  # by the clocks of this process, which may be early
        self._term = Term(clock, end, expired=self._expired, inherited=f"run {held.run_id!r} is the parent's of this process")
        self.lost: threading.Event = self._term.lost
        """Is set when the lock is lost; is_set() looks at the clocks."""

    @property
    def remaining(self) -> float:
        """Seconds after which the lock expires unless it is refreshed; 0 if it is lost."""
        if self._term.look() is not None:
            return 0.0
        return max(0.0, self._term.remaining)

    def check(self) -> None:
        """Raise LockLostError if the run may not take its next step. It looks at the clocks, and costs no request."""
        err = self._term.look()
        if err is not None:
            raise LockLostError(*err.args) from err.__cause__

    def _expired(self, trouble: BaseException | None) -> LockLostError:
        self._has_expired = True
        text = f"the lock of run {self.run_id!r} is lost: it expired"
        err = LockLostError(text if trouble is None else f"{text}, after refreshes that failed: {trouble}")
        err.__cause__ = trouble
        return err


_background = Background()


def _run_name(field: str, value: object) -> str:
    """A name of a run; the error names the argument that it comes from."""
    name = _check.text(field, value, 256)
    if "/" in name or name in (".", ".."):
        raise InvalidSettingError(field, f"cannot be {name!r}: it is one name, without \"/\"")
    return name


def _not_begun(field: str, value: object) -> None:
    """A generator or a coroutine is work that has not begun: the end of the function is not its end."""
    if inspect.isawaitable(value) or inspect.isgenerator(value) or inspect.isasyncgen(value):
        if inspect.iscoroutine(value):
            value.close()
        raise InvalidSettingError(field, f"returned a {type(value).__name__}, whose work has not begun: use a function, or a coroutine function, that does the work")


@dataclass(frozen=True)
class _Ended:
    """How a work ended."""

    text: str = ""
    error: BaseException | None = None
    done: bool = False
    """It returned, and the error is that its result cannot be kept."""
    value: Any = None
    """What it returned."""


@dataclass(eq=False)
class _Flight:
    """A call that others share."""

    fingerprint: str
    begun: Signal = field(default_factory=Signal)  # the run was granted
    done: Signal = field(default_factory=Signal)
    outcome: Outcome | None = None  # what all get; with neither, another one asks
    error: Exception | None = None
    unstored: bool = False  # the work is done, and that is not stored


class _Flights:
    """The calls of this process that others share, by gate and run."""

    def __init__(self) -> None:
        self.after_fork()
        on_fork(self)

    def after_fork(self) -> None:
        self.mutex = threading.Lock()
        self.of: dict[tuple[int, str], _Flight] = {}


_flights = _Flights()


def _plain(value: Any) -> str:
    """The result of a work that returns text."""
    if value is not None and not isinstance(value, str):
        raise PermanentError(f"the result is a {type(value).__name__}: it must be a str, or None")
    return value or ""


def _unkept(err: BaseException) -> PermanentError:
    """Why the work is done, and its result cannot be kept."""
    try:
        why = f"{type(err).__name__}: {err}"
    except Exception:
        why = type(err).__name__
    problem = PermanentError(f"the work is done, but what it returned cannot be kept: {why}")
    problem.__cause__ = err
    return problem


class _Run:
    """One call of run."""

    def __init__(
        self, gate: Gate, run_id: str, *, owner: str, request_id: str, ttl: float, heartbeat: float | None, max_failures: int, max_takeovers: int | None,
        wait: float, fingerprint: str, on_refresh: Callable[[datetime], None] | None, warn: Callable[[BaseException], None] | None, clock: Clock | None,
        retry_for: float | None = None, write: Callable[[Any], str] | None = None, shared: bool = False,
    ) -> None:
        self.gate = gate
        self.shared = shared
        self.flight: _Flight | None = None  # of this call, if others share it
        self.write = write or _plain  # a result as text
        self.run_id = _run_name("run_id", run_id)
        self.ttl = _check.ttl("ttl", ttl)
        self.heartbeat = self.ttl / 5 if heartbeat is None else _check.number("heartbeat", heartbeat)
        if not MIN_HEARTBEAT <= self.heartbeat < self.ttl:
            raise InvalidSettingError(
                "heartbeat", f"is {heartbeat}: must be from {MIN_HEARTBEAT} and less than ttl, {ttl}; a fifth of ttl leaves time for refreshes that fail")
        self.wait = _check.seconds("wait", wait)
        self.retry_for = math.inf if retry_for is None else _check.seconds("retry_for", retry_for)
        if _check.whole("max_failures", max_failures) < 0:
            raise InvalidSettingError("max_failures", f"is {max_failures}: must not be negative; 0 never fails by count")
        if max_takeovers is not None and _check.whole("max_takeovers", max_takeovers) < 0:
            raise InvalidSettingError("max_takeovers", f"is {max_takeovers}: must not be negative; 0 never begins it again after a crash")
        if max_takeovers is not None and isinstance(gate, Analyses):
            raise InvalidSettingError("max_takeovers", "is of the runs of a tenant: for analyses the server has one")
        self.max_takeovers = max_takeovers
        self.owner = _check.text("owner", owner or process_name(str(os.getpid())), 256)
        self.made_up = not request_id
        self.request_id = _check.text("request_id", request_id or new_request_id(), 128)
        self.fingerprint = "" if fingerprint == "" else _check.text("fingerprint", fingerprint, 128)
        self.max_failures = max_failures
        _check.function("on_refresh", on_refresh)
        _check.function("warn", warn)
        self.on_refresh, self._warn = on_refresh, warn
        self.clock = clock or SYSTEM
        self.ends_at: float | None = None  # when the call must have ended, if its caller has so much time and no more
        self.loop: asyncio.AbstractEventLoop | None = None  # that of the task which runs it
        self.failures = 0
        self.under_way = False  # a try has been sent, and not been answered
        self.open = False  # a try may have been carried out, or may still be
        self.ends: Moment | None = None  # until then the latest try may have its effect
        self.late: Moment | None = None  # until then a try without a definite response may have its effect

    def warn(self, text: str, err: BaseException) -> None:
        if self._warn is not None:
            problem = LeaseholdError(f"{text}: {err}")
            problem.__cause__ = err
            tell(self._warn, problem)

    def warning(self, text: str, err: BaseException) -> Blocks:
        """warn, as a step."""
        return Blocks(lambda: self.warn(text, err))

    def within(self, seconds: float) -> float:
        """So many seconds, but no more than the call has."""
        return seconds if self.ends_at is None else max(0.01, min(seconds, self.ends_at - self.clock.monotonic()))

    def insist(
        self, limit: float, each: float, final: Callable[[BaseException], bool], do: Callable[[float, Signal], Wires[Any]],
        cancel: Signal | None = None, retry_for: float = math.inf,
    ) -> Steps[Any]:
        """Call do until it succeeds, the time has passed, or another try would return the same. The time for retries may be shorter than that of the first try."""
        began = self.clock.monotonic()
        end = began + limit
        retry = 0
        while True:
            seconds = min(try_time(retry, each), max(0.01, end - self.clock.monotonic()))
            try:
                return (yield Send(seconds, functools.partial(do, seconds), cancel))
            except (ApiError, NoResponseError, InvalidResponseError) as err:
                end = min(end, began + retry_for)
                left = end - self.clock.monotonic()
                # Or the next try may come too late: another worker may begin as soon as the gate is back.
                wait = max(WAITS.delay(retry), min(_outcome.retry_after(err), left / 3 if limit < math.inf else WAITS.most))
                if final(err) or wait >= left:
                    raise
                yield pause(self.clock, wait, *([cancel] if cancel else []))
                if cancel is not None and cancel.is_set():
                    raise Cancelled from None
                retry += 1

    def ask(self) -> Ask:
        return Ask(self.run_id, self.owner, self.request_id, self.ttl, self.max_failures, self.fingerprint, self.max_takeovers)

    def acquire(self, cancel: Signal, limit: float) -> Steps[tuple[Grant, Moment]]:
        """Ask until there is a response. The moment is that before the request which got it."""
        box: list[Moment] = []

        def once(seconds: float, abort: Signal) -> Wires[Grant]:
            began = self.clock.now()
            self.under_way, self.ends = True, began.plus(seconds + _end.AFTER)
            try:
                g: Grant = yield from asked(self.gate.acquire, self.ask(), seconds, abort)
                if g.held is not None and self.clock.now().until(began.end(g.remaining)) <= 0:
                    raise codes.LeaseExpiredError("the lock expired before the gate's response arrived: use a longer ttl")
            except (codes.RequestIdReusedError, codes.LeaseExpiredError):
                if self.made_up and not abort.is_set():
                    self.request_id, self.late = new_request_id(), None  # the one before is spent
                raise
            box[:] = [began]
            return g

        first = _outcome.Meeting()

        def final(err: BaseException) -> bool:
            if _outcome.unsettled(err):
                self.open, self.late = True, self.ends
            self.under_way, self.open = False, self.open and not _outcome.settles(err)
            return _unknown(err) or first.unmet(err) or _rejected(err) and not (self.made_up and isinstance(err, codes.RequestIdReusedError))

        if cancel.is_set():
            raise Cancelled
        self.under_way = True
        g = yield from self.insist(limit, min(TRY_TIME, self.ttl), final, once, cancel, self.retry_for)
        self.under_way = self.open = False
        return cast(Grant, g), box[0]

    def wanted(self, cancel: Signal) -> Steps[tuple[Grant, Moment]]:
        """waited, and what is left of it given up if that obtains nothing."""
        settled = owe(self.last_word)
        try:
            g, began = yield from self.waited(cancel)
        except BaseException as err:
            if self.unsettled() and not (_outcome.final(err) and _outcome.settles(err)):
                self.give_up()
            settled()
            raise
        if g.reason == "locked" and self.unsettled():
            self.give_up()
        settled()
        return g, began

    def unsettled(self) -> bool:
        """Whether the request may hold the run, or may still obtain it."""
        return self.under_way or self.open or self.late is not None and self.clock.now().until(self.late) > 0

    def waited(self, cancel: Signal) -> Steps[tuple[Grant, Moment]]:
        """acquire, again and again while another worker runs it, for as long as the caller waits."""
        until = self.clock.monotonic() + self.wait
        spare = CALL_TIME if self.retry_for == math.inf else max(TRY_TIME, self.retry_for)
        poll = 0
        while True:
            g, began = yield from self.acquire(cancel, self.within(until + spare - self.clock.monotonic()))
            left = until - self.clock.monotonic()
            if g.held is not None or g.reason != "locked" or left <= 0:
                return g, began
            wait = min(POLLS.delay(poll), left)
            if g.retry_after > 0:
                wait = min(wait, g.retry_after)
            yield pause(self.clock, wait, cancel)
            if cancel.is_set():
                raise Cancelled
            poll += 1

    def give_up(self) -> None:
        """Tell the gate in the background that the run is not wanted any more: what the request for it obtained ends,
        and no delivery obtains anything."""
        ask, now = self.ask(), self.clock.now()
        end = now.plus(max(0.0, 0.0 if self.ends is None else now.until(self.ends)) + min(self.ttl, 30.0))
        in_background(_background, self.clock, _end.give_up(
            self.clock, end, TRY_TIME, lambda s, abort: asked(self.gate.give_up, ask, s, abort)))

    def last_word(self, seconds: float) -> None:
        """Give the run up once, as the process ends."""
        if self.unsettled():
            self.gate.give_up(self.ask(), seconds / 2, Signal())  # for the connection, and for the response

    def begin(self, cancel: Signal) -> Steps[tuple[Outcome | None, RunLock | None, Held | None]]:
        """The outcome of a run that is skipped, or shared; otherwise its lock, which is kept."""
        end = self.clock.monotonic() + self.wait
        while True:
            with _flights.mutex:
                f = _flights.of.get((id(self.gate), self.run_id)) if self.shared else None
                if self.shared and f is None:
                    self.flight = _flights.of[id(self.gate), self.run_id] = _Flight(self.fingerprint)
            self.wait = max(0.0, end - self.clock.monotonic())
            if f is None or f.fingerprint != self.fingerprint:
                break
            found = yield from self.follow(f, end, cancel)
            if found is not None:
                return found, None, None
        if f is not None and f.unstored:
            raise codes.RunDiffersError()
        try:
            outcome, lock, held = yield from self.asks(cancel)
        except BaseException as err:
            self.land(error=err if isinstance(err, (ApiError, NoResponseError, InvalidResponseError)) else None)
            raise
        if outcome is not None:
            self.land(outcome)
        elif self.flight is not None:
            self.flight.begun.set()
        return outcome, lock, held

    def follow(self, f: _Flight, end: float, cancel: Signal) -> Steps[Outcome | None]:
        """Wait for another call, and share what comes of it; None if that is for another one to find out. Whether it is granted is known soon."""
        while not f.done.is_set():
            left, begun = end - self.clock.monotonic(), f.begun.is_set()
            if cancel.is_set():
                raise Cancelled
            if left <= 0 and begun:
                return Outcome("locked", retry_after=1.0)
            yield pause(self.clock, left if left > 0 else math.inf, f.done, cancel, *([] if begun else [f.begun]))
        if f.error is not None:
            raise f.error
        return f.outcome

    def land(self, outcome: Outcome | None = None, error: Exception | None = None) -> None:
        """Let those share the outcome that wait, if it says something to them, and those that come until it is stored."""
        f, self.flight = self.flight, None
        if f is None:
            return

        def over() -> None:
            with _flights.mutex:
                if _flights.of.get((id(self.gate), self.run_id)) is f:
                    del _flights.of[id(self.gate), self.run_id]

        if outcome is not None and outcome.status not in ("locked", "lock_lost") and not isinstance(outcome.error, UncountedError):
            f.outcome = outcome
        f.error, f.unstored = error, outcome is not None and outcome.storing is not None
        if not f.unstored:
            over()
        f.done.set()
        if outcome is not None and outcome.storing is not None:
            outcome.storing._done.subscribe(over)

    def asks(self, cancel: Signal) -> Steps[tuple[Outcome | None, RunLock | None, Held | None]]:
        try:
            g, began = yield from self.wanted(cancel)
        except codes.NotFoundError as err:
            if _unknown(err):
                return Outcome("unknown_analysis", error=err), None, None
            raise
        if g.held is None:
            if g.reason == "already_finished" and g.failed:
                text = f"run {self.run_id!r} was FAILED before, and does not run again"
                return Outcome("already_failed", error=RunFailedError(f"{text}: {g.failure_reason}" if g.failure_reason else text)), None, None
            if g.reason == "already_finished":
                return Outcome("already_finished", result=g.result), None, None
            return Outcome("locked", retry_after=g.retry_after), None, None
        held = g.held
        self.failures = g.failures
        lock = RunLock(self.clock, held, began.end(g.remaining))
        first = self.heartbeat if g.remaining >= self.ttl else self.heartbeat * g.remaining / self.ttl
        due, term = began.plus(first), lock._term
        later(self.clock, due, self.beat(lock, held, due), term.over)
        later(self.clock, term.until, term.watch(), term.over)
        return None, lock, held

    def beat(self, lock: RunLock, held: Held, due: Moment) -> Steps[None]:
        """Refresh the lock until it is lost or the work is over."""
        soon = min(1.0, self.heartbeat / 8)
        waits = Backoff(soon, min(10.0, self.heartbeat / 2), soon / 2)
        failed = 0
        while not lock._term.over.is_set() and lock._term.look() is None:
            now = self.clock.now()
            if now.until(due) > 0:
                yield Sleep(due, (lock._term.over,))
                continue
            if self.loop is not None and self.loop.is_closed():  # its task does not go on
                self.interrupted(lock, held)
                return
            seconds = try_time(failed, max(lock._term.left / 3, 0.01))
            try:
                yield Send(
                    seconds, lambda abort: asked(self.gate.refresh, held, self.ttl, seconds, abort), lock._term.over)
            except Cancelled:
                return
            except Exception as err:
                if lost(err):
                    loss = LockLostError(f"the lock of run {self.run_id!r} is lost: {err}")
                    loss.__cause__ = err
                    lock._term.lose(loss)
                    return
                lock._term.trouble = err
                yield self.warning(f"refresh the lock of run {self.run_id!r}, to be tried again", err)
                left = lock._term.left
                due = self.clock.now().plus(max(hasten(waits.delay(failed), left), min(_outcome.retry_after(err), left / 3)))
                failed += 1
                continue
            if not lock._term.extend(now.end(self.ttl)):
                return
            due, failed = now.plus(self.heartbeat), 0
            call = self.on_refresh
            if call is not None:
                end = datetime.fromtimestamp(now.wall, timezone.utc) + timedelta(seconds=self.ttl)
                yield Blocks(functools.partial(tell, call, end))

    def release(self, held: Held, failed: str) -> Steps[None]:
        """Release the lock in the background, and wait for that for CALL_TIME."""
        done = Signal()

        def work() -> Steps[None]:
            try:
                yield from self.released(held, failed)
            finally:
                done.set()

        in_background(_background, self.clock, work())
        yield pause(self.clock, self.within(CALL_TIME), done)

    def released(self, held: Held, failed: str) -> Steps[None]:
        try:
            yield from self.insist(
                RELEASE_TIME, TRY_TIME, lambda err: lost(err) or _rejected(err), lambda s, abort: asked(self.gate.release, held, failed, s, abort))
        except (ApiError, NoResponseError, InvalidResponseError) as err:
            yield self.warning(f"release the lock of run {self.run_id!r}, which now expires", err)

    def interrupted(self, lock: RunLock, held: Held) -> None:
        """The caller gave up: the run does not count. It is released in the background."""
        self.land()
        if lock._term.settle() is None:
            in_background(_background, self.clock, self.released(held, ""))

    def made(self, lock: RunLock, held: Held, value: Any) -> _Ended:
        """What a work ended with that returned. It is done: an interrupt while its result is written lets that be stored in the background, and one that cannot be
        written is no reason to do it again."""
        try:
            return self.kept(value)
        except BaseException:
            try:
                ended = self.kept(value)
            except BaseException as err:  # it is no interrupt, but what the methods of the result do
                ended = _Ended(error=_unkept(err), done=True)
            in_background(_background, self.clock, self.stored(lock, held, ended))
            raise

    def kept(self, value: Any) -> _Ended:
        try:
            text = self.write(value)
            size = len(text.encode())
            if size > MAX_RESULT_BYTES:
                raise PermanentError(f"the result has {size} bytes, {MAX_RESULT_BYTES} at most: keep it elsewhere and return where it is")
        except PermanentError as err:
            return _Ended(error=err, done=True)
        except UnicodeEncodeError:
            return _Ended(error=PermanentError("the result is not valid UTF-8: keep it elsewhere and return where it is"), done=True)
        except Exception as err:
            return _Ended(error=_unkept(err), done=True)
        return _Ended(text, done=True, value=value)

    def end(self, lock: RunLock, held: Held, ended: _Ended) -> Steps[Outcome]:
        """Store how the work ended. After an interrupt that goes on in the background, as the work is done."""
        running = _background.begin()
        try:
            return (yield from self.stored(lock, held, ended))
        except Exception:
            raise
        except BaseException:
            in_background(_background, self.clock, self.stored(lock, held, ended))
            raise
        finally:
            _background.end(running)

    def stored(self, lock: RunLock, held: Held, ended: _Ended) -> Steps[Outcome]:
        try:
            outcome = yield from self.settled(lock, held, ended)
        except Exception:
            self.land()
            raise
        self.land(outcome)
        return outcome

    def settled(self, lock: RunLock, held: Held, ended: _Ended) -> Steps[Outcome]:
        loss = lock._term.settle()
        if loss is not None and not (ended.done and lock._has_expired):
            return Outcome("lock_lost", token=held.token, error=loss)
        if ended.error is None:
            return (yield from self.finish(lock, held, ended.text, "", Outcome("ready", result=ended.text, token=held.token, value=ended.value)))
        return (yield from self.failed(lock, held, ended.error))

    def failed(self, lock: RunLock, held: Held, err: BaseException) -> Steps[Outcome]:
        if isinstance(err, UncountedError):
            yield from self.release(held, "")
            return Outcome("attempt_failed", token=held.token, error=err)
        if isinstance(err, PermanentError) or self.max_failures > 0 and self.failures + 1 >= self.max_failures:
            return (yield from self.finish(lock, held, None, reason(err), Outcome("failed", token=held.token, error=err)))
        yield from self.release(held, reason(err))
        return Outcome("attempt_failed", token=held.token, error=err)

    def finish(self, lock: RunLock, held: Held, result: str | None, failed: str, done: Outcome) -> Steps[Outcome]:
        """Store the end, and insist on it for as long as the gate may accept it, which is as long as no other worker took over. The caller waits until the
        lock expires, and for a while at least; then it goes on in the background."""
        out = yield from self.store(held, result, failed, done, self.within(max(lock._term.left, ENDING_TIME)), None)
        if out.storing is not None:
            storing = out.storing

            def goes_on() -> Steps[None]:
                try:
                    storing.outcome = yield from self.store(held, result, failed, done, math.inf, storing._cancel)
                except Cancelled:
                    storing.outcome = changed(out, storing=None)
                if storing.outcome.status != done.status and storing.outcome.error is not None:
                    yield self.warning("in the background", storing.outcome.error)
                storing._done.set()

            in_background(_background, self.clock, goes_on())
        return out

    def store(self, held: Held, result: str | None, failed: str, done: Outcome, limit: float, cancel: Signal | None) -> Steps[Outcome]:
        try:
            yield from self.insist(
                limit, TRY_TIME, lambda err: lost(err) or _rejected(err), lambda s, abort: asked(self.gate.finish, held, result, failed, s, abort), cancel)
            return done
        except (ApiError, NoResponseError, InvalidResponseError) as err:
            if lost(err):
                loss = LockLostError(f"the lock of run {self.run_id!r} is lost: {err}")
                loss.__cause__ = err
                return Outcome("lock_lost", result=done.result, token=held.token, error=loss)
            problem = done.error  # of a result that was rejected before
            if not isinstance(problem, RunNotStoredError):
                problem = RunNotStoredError(f"store the end of run {self.run_id!r}: {err}")
                problem.__cause__ = done.error or err
                problem._returned = result is not None
            if _rejected(err) and result is not None:  # the work is done, and is not done again because its result is not accepted
                failure = changed(done, status="failed", error=problem)
                return (yield from self.store(held, None, reason(problem), failure, limit, cancel))
            if _rejected(err):
                yield from self.release(held, reason(problem))
            else:
                problem.storing = Storing(self.clock)
            return changed(done, status="not_stored", error=problem, storing=problem.storing)


def reason(err: BaseException) -> str:
    """An error as a sentence for the record: never empty, UTF-8, cut to what fits."""
    text = str(err).encode("utf-8", "replace").decode() or f"the work failed with an empty {type(err).__name__}"
    raw = text.encode()
    if len(raw) <= MAX_REASON_BYTES:
        return text
    more = "…"
    return raw[: MAX_REASON_BYTES - len(more.encode())].decode("utf-8", "ignore") + more


def run(
    gate: Gate, run_id: str, work: Callable[[RunLock], str | None], *, owner: str = "", request_id: str = "", ttl: float = 300.0,
    heartbeat: float | None = None, max_failures: int = 0, max_takeovers: int | None = None, wait: float = 0.0, retry_for: float | None = None, fingerprint: str = "",
    shared: bool = False, on_refresh: Callable[[datetime], None] | None = None, warn: Callable[[BaseException], None] | None = None, clock: Clock | None = None,
) -> Outcome:
    """Run the work if the gate grants it, and say what came of it.

    An error means that nothing ran: the arguments are invalid, or the gate did not respond within wait and 5 seconds. Everything else is an Outcome. KeyboardInterrupt
    and SystemExit go on: the run is released, and does not count.

    work
        Gets the :class:`RunLock`, and must stop when that is lost. The text that it returns is stored: at most MAX_RESULT_BYTES. An exception is a failed
        attempt; see :class:`PermanentError` and :class:`UncountedError`.
    ttl, heartbeat
        Of the lock in whole seconds, and between refreshes; None means a fifth of ttl.
    max_failures
        The run that fails when so many have failed, with it, is FAILED for good. 0: never by count.
    max_takeovers
        The run that so many have taken over from a worker that crashed or lost its lock is FAILED, instead of running again. 0: it is begun once, and never again
        after a crash. None: as the server says. Not of analyses.
    wait
        How many seconds to wait for another worker that runs it now, for its result or for the lock.
    retry_for
        For how many seconds to ask again while the gate does not respond, whatever wait is, from the first try without a response, which may take two seconds by itself. None is 5 beside
        wait.
    fingerprint
        Says what the run is about, in 128 bytes at most, such as :func:`fingerprint` makes it. Another one under the same name is RunDiffersError, and nothing runs.
    shared
        Calls for the run at this gate object are one: the first asks, and those that come until its end is stored wait for it, and share what comes of it. Nothing is shared of a call that
        ends with locked or lock_lost, with an :class:`UncountedError` or an interrupt: the next one asks then.
    on_refresh
        Is called after each refresh with the lock's new expiry, so that a queue's own timeout can be moved along.
    warn
        Gets what does not fail the run: a failed release, a refresh that is tried again.
    """
    r = _Run(
        gate, run_id, owner=owner, request_id=request_id, ttl=ttl, heartbeat=heartbeat, max_failures=max_failures, max_takeovers=max_takeovers, wait=wait,
        fingerprint=fingerprint, on_refresh=on_refresh, warn=warn, clock=clock, retry_for=retry_for, shared=shared)
    return _blocking(r, work, "work")


def _blocking(r: _Run, work: Callable[[RunLock], Any], called: str) -> Outcome:
    may_block("await run_async(...), or let @once decorate a coroutine function")
    outcome, lock, held = block(r.clock, r.begin(Signal()))
    if lock is None or held is None:
        assert outcome is not None
        return outcome
    before = _current.set(lock)
    ended: _Ended | None = None
    value: Any = None
    try:
        value = work(lock)
        _not_begun(called, value)
    except Exception as err:
        ended = _Ended(error=err)
    except BaseException:
        r.interrupted(lock, held)
        raise
    finally:
        _current.reset(before)
    return block(r.clock, r.end(lock, held, ended or r.made(lock, held, value)))


async def run_async(
    gate: Gate, run_id: str, work: Callable[[RunLock], Any], *, owner: str = "", request_id: str = "", ttl: float = 300.0,
    heartbeat: float | None = None, max_failures: int = 0, max_takeovers: int | None = None, wait: float = 0.0, retry_for: float | None = None, fingerprint: str = "",
    shared: bool = False, on_refresh: Callable[[datetime], None] | None = None, warn: Callable[[BaseException], None] | None = None, clock: Clock | None = None,
) -> Outcome:
    """:func:`run` for work that is a coroutine function. It is cancelled when the lock is lost, and has then not succeeded unless it returns all the same."""
    r = _Run(
        gate, run_id, owner=owner, request_id=request_id, ttl=ttl, heartbeat=heartbeat, max_failures=max_failures, max_takeovers=max_takeovers, wait=wait,
        fingerprint=fingerprint, on_refresh=on_refresh, warn=warn, clock=clock, retry_for=retry_for, shared=shared)

    return await _awaiting(r, work)


async def _awaiting(r: _Run, work: Callable[[RunLock], Any]) -> Outcome:
    import asyncio

    def give_up(begun: tuple[Outcome | None, RunLock | None, Held | None]) -> None:
        if begun[1] is not None and begun[2] is not None:
            r.interrupted(begun[1], begun[2])

    r.loop = asyncio.get_running_loop()
    outcome, lock, held = await awaited(r.clock, r.begin, give_up)
    if lock is None or held is None:
        assert outcome is not None
        return outcome
    held_lock, held_run = lock, held

    async def begun() -> Any:
        _current.set(held_lock)  # of the task alone
        return await work(held_lock)

    task = asyncio.ensure_future(begun())

    err = await _ended(r, held_lock, held_run, task)
    if err is None:
        ended = r.made(held_lock, held_run, task.result())
    elif isinstance(err, Exception):
        ended = _Ended(error=err)
    else:  # it cancelled itself, or is to end the program
        r.interrupted(held_lock, held_run)
        raise err
    return await awaited(r.clock, lambda _: r.end(held_lock, held_run, ended), lambda _: None)


async def _ended(r: _Run, lock: RunLock, held: Held, task: asyncio.Future[Any]) -> BaseException | None:
    """Wait for a work that is a task, and say what it ended with: an exception, or None. It is cancelled when the lock is lost, or its caller is; then the run is released."""
    import asyncio

    loop = r.loop = asyncio.get_running_loop()

    def cancel() -> None:
        try:
            loop.call_soon_threadsafe(task.cancel)
        except RuntimeError:
            pass  # the loop is closed

    lock._term.when_lost(cancel)
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        task.cancel()
        try:
            await asyncio.gather(task, return_exceptions=True)
        finally:  # also if the caller is cancelled once more
            r.interrupted(lock, held)
        raise
    except GeneratorExit:  # the coroutine is thrown away, and can wait for nothing
        r.interrupted(lock, held)
        try:
            task.cancel()
        except RuntimeError:
            pass  # the loop is closed
        raise
    return lock._term.look() or asyncio.CancelledError() if task.cancelled() else task.exception()


F = TypeVar("F", bound=Callable[..., Any])


def fingerprint(value: object) -> str:
    """What :func:`once` compares of the arguments of a function, for callers of :func:`run`: 43 characters, the SHA-256 of the value's canonical JSON (RFC 8785) in base64url.

    Equal values have equal fingerprints, whatever the order of their keys, and clients in other languages make the same ones. What JSON does not have (a date, bytes, NaN, a key
    that is no str), or rounds (a whole number that is no 64-bit float) is an InvalidSettingError.
    """
    try:
        text = _input.canonical(value, "it")
    except _input.NoJSON as err:
        raise InvalidSettingError("value", str(err)) from err
    import hashlib

    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")


def once(
    gate: Gate, *, key: str | Callable[..., str], ignore: Collection[str] = (), owner: str = "", ttl: float = 300.0, heartbeat: float | None = None,
    max_failures: int = 0, max_takeovers: int | None = None, wait: float = 0.0, retry_for: float | None = None, shared: bool = False,
    warn: Callable[[BaseException], None] | None = None, time_left: Callable[..., float] | None = None, clock: Clock | None = None,
) -> Callable[[F], F]:
    """A decorator: the function runs once for each key, and all calls return what it returned then, read from JSON.

    key
        A function of the arguments, or a format string with their names: "invoice-{month}", "{event[id]}". It becomes the ID of the run: 1 to 256 bytes without "/". The
        format string escapes: in an argument "~", "/" and the character that follows it in the format are written as ~ and their bytes in hexadecimal digits, so that
        "{x}-{y}" of ("1-2", "3") is 1~2D2-3, and not that of ("1", "2-3"). Two fields need text between them.
    ignore
        The names of arguments that do not count, such as ("session",) or ("self",). All others are part of what the run is: their :func:`fingerprint` is compared with that of the key's
        first call, and a call with others is :class:`~leasehold.codes.RunDiffersError`. One that JSON does not have is an error, unless the key says it as {name}.
    time_left
        A function of the arguments that says for how many seconds the call can last, where it is killed or frozen after that (:mod:`leasehold.aws`). Then the lock lasts for so long, without
        refreshes, instead of ttl: who comes again after that need not wait. Waiting and storing end a second before. With less than two seconds nothing runs: TimeoutError.

    The other settings are those of :func:`run`. What the function returns must be JSON of at most MAX_RESULT_BYTES, and every call, the first as well, gets what comes out of that: a tuple is a
    list. One that is not makes the run FAILED, with a :class:`PermanentError`: the work is done, and not done again. An exception of the function is a failed
    attempt, and goes on to the caller; the next call runs it again, unless it is a :class:`PermanentError`. Calls that do not run raise
    :class:`RunLockedError` while another worker runs it, and :class:`RunFailedError`. LockLostError says that the run was not protected until its end. In the function,
    :func:`current` is the lock. It works on functions, coroutine functions and handlers of AWS Lambda.
    """

    _check.function("time_left", time_left)
    if not isinstance(key, str) and not callable(key):
        raise InvalidSettingError("key", f"is {_check.show(key)}: must be a str or a function")

    def decorate(f: F) -> F:
        if inspect.isgeneratorfunction(f) or inspect.isasyncgenfunction(f):
            raise InvalidSettingError("function", f"{f!r} is a generator function, whose work is not done when it returns")
        signature = inspect.signature(f)
        left_out = _input.ignored(ignore, signature.parameters)
        made = _input.Key(key, signature.parameters) if isinstance(key, str) else None

        def begun(args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Run:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            run_id = _run_name("key", key(*args, **kwargs) if callable(key) else cast(_input.Key, made).of(bound.arguments))
            about = _input.of_arguments(bound.arguments, left_out, made.whole if made else (), fingerprint)
            lasts, beats, left = ttl, heartbeat, math.inf
            if time_left is not None:
                left = _check.number("time_left", time_left(*args, **kwargs)) - SPARE_TIME
                if left < SPARE_TIME:
                    raise TimeoutError(f"nothing ran: {left + SPARE_TIME:.3g} s are left, and {2 * SPARE_TIME:.3g} s are needed")
                lasts = min(math.ceil(left + SPARE_TIME), _check.MAX_TTL)
                beats = lasts - MIN_HEARTBEAT
            r = _Run(
                gate, run_id, owner=owner, request_id="", ttl=lasts, heartbeat=beats, max_failures=max_failures, max_takeovers=max_takeovers,
                wait=min(_check.seconds("wait", wait), left),
                fingerprint=about, on_refresh=None, warn=warn, clock=clock, retry_for=retry_for, write=_written, shared=shared)
            r.ends_at = None if time_left is None else r.clock.monotonic() + left
            return r

        if inspect.iscoroutinefunction(f) or inspect.iscoroutinefunction(getattr(f, "__call__", None)):

            @functools.wraps(f)
            async def later(*args: Any, **kwargs: Any) -> Any:
                async def work(lock: RunLock) -> Any:
                    made = await f(*args, **kwargs)
                    _not_begun("function", made)
                    return made

                r = begun(args, kwargs)
                with _told_what_differs(r.run_id):
                    outcome = await _awaiting(r, work)
                return _returned(r.run_id, outcome)

            return cast(F, later)

        @functools.wraps(f)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            r = begun(args, kwargs)
            with _told_what_differs(r.run_id):
                outcome = _blocking(r, lambda lock: f(*args, **kwargs), "function")
            return _returned(r.run_id, outcome)

        return cast(F, wrapper)

    return decorate


@contextlib.contextmanager
def _told_what_differs(run_id: str) -> Iterator[None]:
    """Say what to do about a key that was called before with other arguments."""
    try:
        yield
    except codes.RunDiffersError as err:
        raise codes.RunDiffersError(
            f"an earlier call of the key {run_id!r} had other arguments, and has the result of those: say in the key what differs, or leave out with ignore what does not matter",
            err.problem) from err


def _written(value: Any) -> str:
    """The result of a call, as it is stored."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _returned(run_id: str, outcome: Outcome) -> Any:
    """What a call of a decorated function returns: what comes out of its JSON, in any case."""
    if outcome.status in ("ready", "already_finished"):
        try:
            return json.loads(outcome.result) if outcome.result else None
        except ValueError as err:
            raise InvalidResponseError(f"the result of run {run_id!r} is no JSON: another program stored it") from err
    if outcome.status == "locked":
        raise RunLockedError(f"another worker runs {run_id!r}", outcome.retry_after)
    assert outcome.error is not None
    if isinstance(outcome.error, RunNotStoredError) and outcome.result:
        outcome.error.value = json.loads(outcome.result)
    raise outcome.error
