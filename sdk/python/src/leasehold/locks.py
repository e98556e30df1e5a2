"""Locks that are held while a block of code runs: waited for, renewed, lost in time, and released.

    client = leasehold.Client("http://127.0.0.1:8080")
    locks = client.locks()

    with locks.hold("deploy-prod") as lock:
        for step in steps:
            lock.check()                 # raises LockLostError before another can have the lock
            step(token=lock.token)

    async with locks.hold("deploy-prod") as lock:   # the task is cancelled if the lock is lost
        for step in steps:
            lock.check()
            await step(token=lock.token)

    lock = locks.hold("deploy-prod").acquire()      # without a block: it is held from here on
    try:
        ...
    finally:
        lock.release()

The server decides who has the lock, by its own clock. This module decides when to stop: it counts the lease from before the request that granted
or extended it was sent, or so much later as the server says that it waited, on the monotonic clock and on the wall clock, and the first of the
two to reach the end counts. A lock is lost a tenth of its lease earlier (``margin``), so that the work can stop while no one else has the lock. A
response that comes late extends nothing.

A process can be stopped (SIGSTOP, a debugger, a frozen function, a closed laptop) for longer than its lease. When it continues, the next
statement of the work may run before any thread looks at the time. :meth:`Lock.check` and ``lock.lost.is_set()`` look at the clocks at each call.
What was already sent cannot be stopped: that is what :attr:`Lock.token` is for. Pass it on to whatever the work writes to, which rejects a lower one.

Each lock is renewed when a third of its ttl is over, in a daemon thread for all locks. A child of a fork does not hold the locks of its parent:
its ``check`` raises LockLostError, and the end of its block releases nothing.
"""

from __future__ import annotations

import atexit
import collections
import logging
import math
import os
import random
import socket
import sys
import threading
import warnings
import weakref
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace as changed
from datetime import datetime, timezone
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar, cast

from . import _check, _end, _outcome, codes
from ._call import Background, Cancelled, Weak, on_fork, owe, spawn, tell
from ._steps import (
    MOST_WAITS, Send, Sleep, Steps, Wires, _engine, asked, awaited, block, later, may_block, pause, performed, run, try_again,
)
from ._check import MAX_TTL
from ._term import Term
from ._time import AT_ONCE_TIME, CALL_TIME, GRACE_TIME, LOOK_AGAIN, MOST_TRY_TIME, SYSTEM, Backoff, Clock, Moment, Signal, hasten, try_time
from .client import new_request_id
from .errors import (
    ApiError, ClosedError, InvalidResponseError, InvalidSettingError, LeaseholdError, LockLostError, MaxHoldError, NotReleasedError, ReleasedError,
    NoResponseError, format_time, parse_time,
)
from .types import Lock as LockRecord, LockPage

if TYPE_CHECKING:
    import asyncio

__all__ = [
    "DEFAULT_TTL", "Event", "FOREVER", "Hold", "Lock", "LockSet", "Locks", "MAX_KEYS", "MAX_LOCK_DELAY", "MAX_PERMITS", "MAX_RATE", "MAX_TTL", "MAX_WAITING",
    "MAX_WINDOW", "Provider",
]

FOREVER = math.inf
"""A wait that has no end."""

DEFAULT_TTL = 30.0
MAX_PERMITS = 100
MAX_WAITING = 100
MAX_LOCK_DELAY = 3600.0
MAX_RATE = 1000
MAX_WINDOW = 24 * 3600.0
MAX_KEYS = 20
MAX_PAGE = 1000

log = logging.getLogger("leasehold")

WAIT_TIME = 20.0  # seconds for which one request asks the server to wait, at most
SHORT_PAUSE = 0.1
PLACED_PAUSE = 2.0  # seconds between two requests of one that waits in line, whose place is kept for some seconds
LAST_LOOK = 0.5  # seconds before the end of a wait that a pause would outlast, when the request is sent again
FEW_POLLS = 5  # how often a lock is asked for without a wait when the server has no room for those who wait

class Event(NamedTuple):
    """What happened to a lock."""

    at: datetime
    what: str
    """Waiting, Acquired, Taken, Renewed, RenewalFailed, Lost, Released, ReleaseFailed, Abandoned (an acquire that was given up) or Forgotten (a lock
    that no one has any more and that was not released: it is not renewed, and expires)."""
    key: str
    token: int
    """The fencing token, 0 before the lock is acquired."""
    after: float
    """Of Waiting: seconds until the lock is asked for again; 0 if it is waited for at the server or in this process."""
    error: BaseException | None


class Provider(Protocol):
    """The locks of one tenant. Each method sends its request, and returns soon after abort is set.
    :class:`leasehold.client.LockAPI` is one.

    seconds is for how long the response is waited for. An acquire tells the server that it is not wanted any more soon
    after that (not_after). send_give_up gets the request of an acquire, and send_set the command "give_up" with that of
    an acquire: they return when the server says that nothing is held under its request_id, and nothing will be.
    """

    def send_acquire(self, key: str, r: Mapping[str, Any], seconds: float, abort: Signal) -> dict[str, Any]: ...

    def send_give_up(self, key: str, r: Mapping[str, Any], seconds: float, abort: Signal) -> None: ...

    def send_renew(self, key: str, r: Mapping[str, Any], seconds: float, abort: Signal) -> dict[str, Any]: ...

    def send_release(self, key: str, r: Mapping[str, Any], seconds: float, abort: Signal) -> dict[str, Any]: ...

    def send_get(self, key: str, seconds: float, abort: Signal) -> dict[str, Any]: ...

    def send_list(self, prefix: str, page_size: int, page_token: str, seconds: float, abort: Signal) -> dict[str, Any]: ...

    def send_set(
        self, command: str, r: Mapping[str, Any], keys: Sequence[str], tokens: Mapping[str, int], seconds: float, abort: Signal,
    ) -> dict[str, Any]: ...


@dataclass(frozen=True)
class _Options:
    ttl: float
    shared: bool = False
    permits: int = 0
    fair: bool = False
    max_waiting: int = 0
    replace: bool = False
    lock_delay: float = 0.0
    wait: float = FOREVER
    poll: float = 2.0
    max_hold: float | None = None
    margin: float = 0.0
    release_timeout: float = 5.0
    metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def lines(self) -> bool:
        return self.fair or self.shared or self.permits > 0

    def request(self, owner: str) -> dict[str, Any]:
        r: dict[str, Any] = {"owner_id": owner, "request_id": new_request_id(), "ttl_seconds": int(self.ttl)}
        if self.metadata:
            r["metadata"] = dict(self.metadata)
        for name, value in (
            ("fair", self.fair), ("max_waiting", self.max_waiting), ("replace", self.replace), ("lock_delay_seconds", int(self.lock_delay)),
        ):
            if value:
                r[name] = value
        if self.shared:
            r["mode"] = "shared"
        elif self.permits:
            r["mode"], r["limit"] = "permits", self.permits
        return r


def process_name(suffix: str) -> str:
    """A name of this process, "host-suffix", of characters that a server takes as the suffix of a verified name."""
    host = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in socket.gethostname() or "host")
    return f"{host[:40]}-{suffix}"


class Locks:
    """Holds locks of one tenant. It may be used by several threads and tasks at once.

    owner
        Who holds the locks, for people and for other programs; it gives no rights. Where the server authenticates, it is the suffix of the token's
        subject: 1 to 64 letters, digits, ".", "_" and "-". Empty means the name of the host and random characters.
    ttl
        How long a lease lasts unless it is renewed: whole seconds from 1 to MAX_TTL. It is renewed every third of it. After a crash others wait for as
        long at most.
    retry_for
        For how many seconds an acquire is sent again while no definite response arrives, and how much longer than its wait it lasts at most. None is
        10 and 5, for one that does not wait 3, but less than one while nothing at the address has ever answered as a server does, and no connection
        can be made or another server answers: the address may be wrong. 0 is a single try. The first try has 2 seconds in any case.
    release_timeout
        How many seconds the end of a block waits for the release, which goes on in the background after that until the lease ends.
    observe
        Is called for each :class:`Event`, in their order, one at a time, in a thread of its own.
    try_timeout
        Seconds for one request at most, beside what the server is to wait; the first ones are shorter.
    """

    def __init__(
        self, provider: Provider, *, owner: str = "", ttl: float = DEFAULT_TTL, retry_for: float | None = None, release_timeout: float = 5.0,
        observe: Callable[[Event], None] | None = None, clock: Clock | None = None, try_timeout: float = MOST_TRY_TIME,
    ) -> None:
        self._most = _check.positive("try_timeout", try_timeout)
        self._own_name = not owner
        self._owner = _check.text("owner", owner or process_name(os.urandom(6).hex()), 256)
        self._ttl = _check.ttl("ttl", ttl)
        self._insists = retry_for is not None
        self._retry_for = 10.0 if retry_for is None else _check.number("retry_for", retry_for)
        if self._retry_for < 0:
            raise InvalidSettingError("retry_for", f"is {retry_for}: must not be negative")
        self._release_timeout = _check.positive("release_timeout", release_timeout)
        _check.function("observe", observe)
        self._provider = provider
        self._clock = clock or SYSTEM
        self._queues = _Queues(self._clock)
        self._events = _Events(observe)
        self._background = Background()
        self._mutex = threading.Lock()
        self._closed = Signal()
        self._held: set[_Keeper] = set()  # no handle: one that is dropped is not held any more
        self._failed: list[LeaseholdError] = []
        on_fork(self)

    @property
    def owner(self) -> str:
        """Under which name locks are held, as the server is told."""
        return self._owner

    def after_fork(self) -> None:
        """The locks of the parent are not the child's."""
        self._mutex = threading.Lock()
        self._queues = _Queues(self._clock)
        self._events = _Events(self._events.observe)
        closed, self._closed = self._closed, Signal()  # a thread of the parent may have been inside
        if closed.is_set():
            self._closed.set(closed.cause)
        self._held = set()
        self._failed = []
        if self._own_name:
            self._owner = process_name(os.urandom(6).hex())

    def hold(
        self, key: str, *, wait: float = FOREVER, ttl: float | None = None, shared: bool = False, permits: int = 0, fair: bool = False,
        max_waiting: int = 0, replace: bool = False, lock_delay: float = 0.0, poll: float = 2.0, max_hold: float | None = None,
        margin: float | None = None, release_timeout: float | None = None, metadata: Mapping[str, str] | None = None,
    ) -> Hold[Lock]:
        """A lock for ``with`` and ``async with``, which wait for it, renew it and release it. Nothing is sent before.

        :meth:`Hold.acquire` has it without a block. What is made here and never used is a ResourceWarning of a later call, which names the line. A thread or task that holds a lock cannot have it once more: with FOREVER it waits for itself.

        wait
            How many seconds to wait for a lock that is held: FOREVER is as long as it takes, 0 does not wait. Then the error is LockHeldError, or why
            else it could not be had. While no response says whether it is held, that lasts for 5 seconds longer at most, and for 3 with 0.
        ttl
            As for :class:`Locks`, which it overrides.
        shared
            Any number may hold the lock at a time, but none beside one that did not ask for shared: readers and a writer.
        permits
            So many may hold the lock at a time, 1 to MAX_PERMITS; :attr:`Lock.permit` says which of them one has. All must say the same: else LockModeDiffersError.
        fair
            Wait in line: first come, first served. Locks that are shared or have permits always have a line.
        max_waiting
            How many wait in line, with this one: 1 to MAX_WAITING. If there are as many already the error is LockQueueFullError. 0 waits, however many there are.
        replace
            Take the lock from its holder, if that one asked for replace as well. The holder learns of it when it renews.
        lock_delay
            How many seconds the lock stays closed if the lease expires or is ended by force, so that what its holder has sent can arrive.
        poll
            Seconds between two requests at most while a lock is held and the server does not wait itself, 0.1 at least.
        max_hold
            How many seconds the lock is held at most; None is no bound. Then it is lost with MaxHoldError, and the lease is not renewed any more.
        margin
            How many seconds before the lease's end the lock counts as lost; less than half of ttl. None means a tenth of ttl.
        release_timeout
            As for :class:`Locks`, which it overrides.
        metadata
            Labels for people who look at the lock: 32 at most, with keys of 1 to 64 bytes and values of up to 512.
        """
        o = self._options(
            wait=wait, ttl=ttl, shared=shared, permits=permits, fair=fair, max_waiting=max_waiting, replace=replace, lock_delay=lock_delay, poll=poll,
            max_hold=max_hold, margin=margin, release_timeout=release_timeout, metadata=metadata)
        _check.text("key", key, 256)
        
        def begin() -> _Acquire:
            return _Acquire(
                self, self._provider, key, o, o.request(self._owner), min(self._most, o.ttl), own=o.max_waiting > 0 or o.replace,
                alone=not o.shared and not o.permits, grant=False)

        return Hold(begin, lambda a, working, cancel: a.run(cancel, lambda asked, got: Lock(_Keeper(self, a, asked, got, working, cancel))))

    def hold_all(
        self, keys: Sequence[str], *, wait: float = FOREVER, ttl: float | None = None, poll: float = 2.0, max_hold: float | None = None,
        margin: float | None = None, release_timeout: float | None = None, metadata: Mapping[str, str] | None = None,
    ) -> Hold[LockSet]:
        """1 to MAX_KEYS locks of one holder each, acquired and renewed in one step, all or none.

        No one waits with some of its locks held, so that those whose keys overlap cannot block each other for good. They are asked for again and
        again, see poll; those who want few can overtake it, but a line at one of them does not keep it waiting for good. The order of the keys has no meaning. If one of the locks is
        lost, all are.
        """
        o = self._options(wait=wait, ttl=ttl, poll=poll, max_hold=max_hold, margin=margin, release_timeout=release_timeout, metadata=metadata)
        if isinstance(keys, (str, bytes)) or not isinstance(keys, Sequence) or not 1 <= len(keys) <= MAX_KEYS:
            raise InvalidSettingError("keys", f"must be a sequence of 1 to {MAX_KEYS} keys")
        ordered = sorted((_check.text("key", k, 256) for k in keys), key=lambda k: k.encode())
        for a, b in zip(ordered, ordered[1:]):
            if a == b:
                raise InvalidSettingError("keys", f"the key {a!r} is given twice")
        several = _Several(self._provider, ordered)

        def begin() -> _Acquire:
            return _Acquire(
                self, several, several.name, o, o.request(self._owner), min(self._most, o.ttl), own=True, alone=True, grant=False)

        def finish(a: _Acquire, working: bool, cancel: Signal) -> Steps[LockSet]:
            return a.run(
                cancel,
                lambda asked, got: LockSet(_Keeper(self, a, asked, got, working, cancel, several=True), several.tokens(got["fencing_token"])))

        return Hold(begin, finish)

    def take(
        self, key: str, *, limit: int, window: float, wait: float = FOREVER, poll: float = 2.0, max_waiting: int = 0,
        metadata: Mapping[str, str] | None = None,
    ) -> int:
        """Wait until what a key names may be done once more: limit times in any window of so many seconds, by all who take from the key together.

        It returns the grant's token, which is higher than that of every earlier one. A grant is not held: there is nothing to renew or to release,
        and it is used up when it is given. With wait 0 the error is LockHeldError, with the seconds until the next grant in retry_after.
        """
        may_block("await take_async(...)")
        return self._take(self._rate(key, limit, window, wait, poll, max_waiting, metadata), Signal())

    async def take_async(
        self, key: str, *, limit: int, window: float, wait: float = FOREVER, poll: float = 2.0, max_waiting: int = 0,
        metadata: Mapping[str, str] | None = None,
    ) -> int:
        """:meth:`take` without blocking the event loop. If the task is cancelled, the place in line is given up."""
        a = self._rate(key, limit, window, wait, poll, max_waiting, metadata)
        return await awaited(self._clock, lambda cancel: self._taking(a, cancel), lambda token: None)

    def get(self, key: str) -> LockRecord:
        """Read a lock: who holds it. NotFoundError means that there is no record of it."""
        _check.text("key", key, 256)
        may_block("await get_async(...)")
        return block(self._clock, self._get(key))

    async def get_async(self, key: str) -> LockRecord:
        """:meth:`get` without blocking the event loop."""
        _check.text("key", key, 256)
        return await awaited(self._clock, lambda _: self._get(key), lambda _: None)

    def _get(self, key: str) -> Steps[LockRecord]:
        got = yield Send(CALL_TIME, lambda abort: asked(self._provider.send_get, key, CALL_TIME, abort))
        return cast(LockRecord, got)

    def locked(self, key: str) -> bool:
        """Whether anyone holds a lock, by one request. It may be another's by the time that you know."""
        _check.text("key", key, 256)
        may_block("await locked_async(...)")
        return block(self._clock, self._locked(key))

    async def locked_async(self, key: str) -> bool:
        """:meth:`locked` without blocking the event loop."""
        _check.text("key", key, 256)
        return await awaited(self._clock, lambda _: self._locked(key), lambda _: None)

    def _locked(self, key: str) -> Steps[bool]:
        try:
            return (yield from self._get(key))["state"] == "ACTIVE"
        except codes.NotFoundError:
            return False

    def list(self, *, prefix: str = "", page_size: int = 0) -> Iterator[LockRecord]:
        """The locks whose keys begin with a prefix, by ascending bytes of their keys: those that are held, and records of those that were. A page is
        read when it is needed; None of what is read is kept."""
        self._listed(prefix, page_size)
        may_block("async for lock in locks.list_async(...)")
        return self._pages(prefix, page_size)

    def _pages(self, prefix: str, page_size: int) -> Iterator[LockRecord]:
        place = ""
        while True:
            page = block(self._clock, self._page(prefix, page_size, place))
            yield from page["locks"]
            place = page.get("next_page_token", "")
            if not place:
                return

    def list_async(self, *, prefix: str = "", page_size: int = 0) -> AsyncIterator[LockRecord]:
        """:meth:`list` without blocking the event loop."""
        self._listed(prefix, page_size)
        return self._pages_async(prefix, page_size)

    async def _pages_async(self, prefix: str, page_size: int) -> AsyncIterator[LockRecord]:
        place = ""
        while True:
            page = await awaited(self._clock, lambda _: self._page(prefix, page_size, place), lambda _: None)
            for lock in page["locks"]:
                yield lock
            place = page.get("next_page_token", "")
            if not place:
                return

    def _listed(self, prefix: str, page_size: int) -> None:
        if prefix != "":
            _check.text("prefix", prefix, 256)
        if not 0 <= _check.whole("page_size", page_size) <= MAX_PAGE:
            raise InvalidSettingError("page_size", f"is {page_size}: must be 1 to {MAX_PAGE}, or 0 for what the server has")

    def _page(self, prefix: str, page_size: int, place: str) -> Steps[LockPage]:
        """A page, which is asked for again where that may help."""
        end, retry = self._clock.monotonic() + CALL_TIME, 0
        while True:
            left = max(0.01, end - self._clock.monotonic())
            seconds = min(try_time(retry, self._most), left)
            try:
                got = yield Send(seconds, lambda abort: asked(self._provider.send_list, prefix, page_size, place, seconds, abort))
                return cast(LockPage, got)
            except (ApiError, NoResponseError, InvalidResponseError) as err:
                wait = _outcome.pause(retry, err, left)
                if _outcome.final(err) or wait >= left:
                    raise
            yield pause(self._clock, wait)
            retry += 1

    def close(self, timeout: float = 5.0) -> None:
        """End the client: it acquires nothing more, and ``check`` of the locks that it holds raises ClosedError.

        It waits for so many seconds until they are released. Then it releases those that were taken with :meth:`Hold.acquire`, within 1 s; locks whose
        block still runs expire. The error is a NotReleasedError that says which locks that concerns.
        """
        timeout = _check.seconds("timeout", timeout)
        may_block("call it in a thread, with `await asyncio.to_thread(locks.close)`")
        self._closed.set(ClosedError("the client of locks is closed"))
        with self._mutex:
            held = list(self._held)
        for lock in held:
            lock._cancel(ClosedError("the client of locks is closed"))
        end = self._clock.monotonic() + timeout
        left = []
        for lock in held:
            self._clock.sleep(max(0.0, end - self._clock.monotonic()), lock._finished)
            if lock._finished.is_set():
                continue
            if lock._working:
                lock._renewing.set()
                left.append(f"lock {lock._lease_key!r}: its block still runs, and it expires")
                continue
            try:
                block(self._clock, lock._end(max(0.0, min(GRACE_TIME, end + GRACE_TIME - self._clock.monotonic()))))
            except LeaseholdError as err:
                left.append(str(err))
        self._background.wait(max(0.0, min(GRACE_TIME, end + GRACE_TIME - self._clock.monotonic())))
        self._events.flush(GRACE_TIME)
        with self._mutex:
            left += [str(e) for e in self._failed]
        if left:
            raise NotReleasedError("; ".join(left))

    def __enter__(self) -> Locks:
        may_block("use it without a block, and close it with `await asyncio.to_thread(locks.close)`")
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Below is what acquisitions call.

    def _options(
        self, *, wait: float, ttl: float | None, poll: float, max_hold: float | None, margin: float | None, release_timeout: float | None,
        metadata: Mapping[str, str] | None, shared: bool = False, permits: int = 0, fair: bool = False, max_waiting: int = 0, replace: bool = False,
        lock_delay: float = 0.0,
    ) -> _Options:
        seconds = self._ttl if ttl is None else _check.ttl("ttl", ttl)
        before = seconds / 10 if margin is None else _check.number("margin", margin)
        for name, value in (("shared", shared), ("fair", fair), ("replace", replace)):
            _check.flag(name, value)
        _check.wait("wait", wait)
        if _check.number("poll", poll) < SHORT_PAUSE:
            raise InvalidSettingError("poll", f"is {poll}: must be {SHORT_PAUSE} at least")
        if not 0 <= _check.whole("max_waiting", max_waiting) <= MAX_WAITING:
            raise InvalidSettingError("max_waiting", f"is {max_waiting}: must be 1 to {MAX_WAITING}, or 0 for no bound")
        if max_hold is not None and _check.number("max_hold", max_hold) <= 0:
            raise InvalidSettingError("max_hold", f"is {max_hold}: must be more than 0; None is no bound")
        if not 0 <= before < seconds / 2:
            raise InvalidSettingError("margin", f"is {margin}: must be less than half of the ttl, which is {seconds}")
        if not 0 <= _check.whole("permits", permits) <= MAX_PERMITS:
            raise InvalidSettingError("permits", f"is {permits}: must be 1 to {MAX_PERMITS}, or 0 for a lock with one holder")
        if shared and permits:
            raise InvalidSettingError("permits", "is set beside shared: a lock is either for readers and a writer, or has permits")
        if replace and (shared or permits):
            raise InvalidSettingError("replace", "is set: a lock that is shared or has permits has no one holder to replace")
        if max_waiting and not (fair or shared or permits):
            raise InvalidSettingError("max_waiting", "is set: it needs a line, so set fair, shared or permits as well")
        delay = _check.number("lock_delay", lock_delay)
        if not 0 <= delay <= MAX_LOCK_DELAY or delay != int(delay):
            raise InvalidSettingError("lock_delay", f"is {lock_delay}: must be whole seconds up to {MAX_LOCK_DELAY:.0f}")
        return _Options(
            ttl=seconds, shared=shared, permits=permits, fair=fair, max_waiting=max_waiting, replace=replace, lock_delay=delay, wait=wait,
            poll=float(poll), max_hold=max_hold, margin=before,
            release_timeout=self._release_timeout if release_timeout is None else _check.positive("release_timeout", release_timeout),
            metadata=_check.labels("metadata", metadata))

    def _rate(
        self, key: str, limit: int, window: float, wait: float, poll: float, max_waiting: int, metadata: Mapping[str, str] | None,
    ) -> _Acquire:
        _check.text("key", key, 256)
        if not 1 <= _check.whole("limit", limit) <= MAX_RATE:
            raise InvalidSettingError("limit", f"is {limit}: must be 1 to {MAX_RATE}")
        seconds = _check.number("window", window)
        if not 1 <= seconds <= MAX_WINDOW or seconds != int(seconds):
            raise InvalidSettingError("window", f"is {window}: must be whole seconds from 1 to {MAX_WINDOW:.0f}")
        o = self._options(
            wait=wait, ttl=DEFAULT_TTL, poll=poll, max_hold=None, margin=None, release_timeout=None, metadata=metadata, max_waiting=max_waiting, fair=True)
        r = changed(o, fair=False).request(self._owner)
        del r["ttl_seconds"]
        r["mode"], r["limit"], r["window_seconds"] = "rate", limit, int(seconds)
        return _Acquire(self, self._provider, key, o, r, self._most, own=max_waiting > 0, alone=False, grant=True)

    def _take(self, a: _Acquire, cancel: Signal) -> int:
        return block(self._clock, self._taking(a, cancel))

    def _taking(self, a: _Acquire, cancel: Signal) -> Steps[int]:
        def use(asked: Moment, got: dict[str, Any]) -> int:
            self._events.emit("Taken", a.key, got["fencing_token"])
            return cast(int, got["fencing_token"])

        return a.run(cancel, use)

    def _discard(self, a: _Acquire, asked: Moment, got: dict[str, Any]) -> None:
        """Release in the background a lease that no one wants."""
        end = asked.end(a.lasts(got))
        if self._clock.now().until(end) <= 0:
            return

        def work() -> Steps[None]:
            err: BaseException | None = None
            try:
                yield from self._free(a.provider, a.key, got, end)
            except Exception as e:
                err = e
            self._abandoned(a.key, got["fencing_token"], err)

        run(self._background, self._clock, work())

    def _free(self, provider: Provider, key: str, got: dict[str, Any], end: Moment) -> Steps[None]:
        """Release a lease that no one holds, until end."""
        r = {"owner_id": self._owner, "fencing_token": got["fencing_token"], "request_id": new_request_id()}
        retry = 0
        while True:
            try:
                left = max(0.01, self._clock.now().until(end))
                yield from self._release(provider, key, r, min(try_time(retry, self._most), left))
                return
            except (ApiError, NoResponseError, InvalidResponseError) as err:
                if _outcome.gone(err):
                    return
                wait = _outcome.pause(retry, err, self._clock.now().until(end))
                if _outcome.final(err) or self._clock.now().until(end) <= wait:
                    raise
            yield pause(self._clock, wait)
            retry += 1

    def _release(self, provider: Provider, key: str, r: dict[str, Any], seconds: float) -> Steps[None]:
        got = yield Send(seconds, lambda abort: asked(provider.send_release, key, r, seconds, abort))
        _outcome.ended(got, "", key, r["owner_id"], r["fencing_token"])

    def _give_up(self, a: _Acquire) -> None:
        """Tell the server in the background that an acquire is not wanted any more: what it obtained ends, and no
        delivery of it obtains anything from then on."""
        now = self._clock.now()
        end = now.plus(max(0.0, 0.0 if a.late is None else now.until(a.late)) + min(a.o.ttl, 30.0))

        def work() -> Steps[None]:
            err = yield from _end.give_up(
                self._clock, end, a.each,
                lambda seconds, abort: asked(a.provider.send_give_up, a.key, a.request, seconds, abort))
            self._abandoned(a.key, 0, err)

        run(self._background, self._clock, work())

    def _abandoned(self, key: str, token: int, err: BaseException | None) -> None:
        self._events.emit("Abandoned", key, token, err)
        if err is not None and self._closed.is_set():
            with self._mutex:
                self._failed.append(NotReleasedError(f"lock {key!r}, which an acquire that was given up may have obtained: {err}"))


class _Several:
    """Several locks as one: its key is that of all, its token that of the first."""

    def __init__(self, provider: Provider, keys: list[str]) -> None:
        self._provider = provider
        self._keys = keys
        self.name = ", ".join(keys)
        self._mutex = threading.Lock()
        self._granted: dict[int, dict[str, int]] = {}

    def tokens(self, first: int) -> dict[str, int]:
        with self._mutex:
            return self._granted[first]

    def _request(self, r: Mapping[str, Any]) -> dict[str, Any]:
        body = {k: v for k, v in r.items() if k in ("owner_id", "request_id", "ttl_seconds", "metadata")}
        body["lock_keys"] = self._keys
        return body

    @performed
    def send_give_up(self, key: str, r: Mapping[str, Any], seconds: float, abort: Signal) -> Wires[None]:
        yield from asked(self._provider.send_set, "give_up", self._request(r), self._keys, {}, seconds, abort)

    @performed
    def send_acquire(self, key: str, r: Mapping[str, Any], seconds: float, abort: Signal) -> Wires[dict[str, Any]]:
        got = yield from asked(self._provider.send_set, "acquire", self._request(r), self._keys, {}, seconds, abort)
        _outcome.set_granted(got, "", self._keys, r["owner_id"], {})
        tokens = {lease["lock_key"]: lease["fencing_token"] for lease in got["leases"]}
        first = tokens[self._keys[0]]
        with self._mutex:
            self._granted[first] = tokens
        return self._as_one(got, first)

    @performed
    def send_renew(self, key: str, r: Mapping[str, Any], seconds: float, abort: Signal) -> Wires[dict[str, Any]]:
        return self._send("renew", r, _outcome.set_granted, seconds, abort)

    @performed
    def send_release(self, key: str, r: Mapping[str, Any], seconds: float, abort: Signal) -> Wires[dict[str, Any]]:
        return self._send("release", r, _outcome.set_ended, seconds, abort)

    def _send(self, command: str, r: Mapping[str, Any], valid: Callable[..., None], seconds: float, abort: Signal) -> Wires[dict[str, Any]]:
        """Send a command about the leases that were granted with the token of the request."""
        tokens = self.tokens(r["fencing_token"])
        body = {k: v for k, v in r.items() if k != "fencing_token"}
        body["leases"] = [{"lock_key": k, "fencing_token": t} for k, t in tokens.items()]
        got = yield from asked(self._provider.send_set, command, body, self._keys, tokens, seconds, abort)
        valid(got, "", self._keys, r["owner_id"], tokens)
        return self._as_one(got, r["fencing_token"])

    def send_get(self, key: str, seconds: float, abort: Signal) -> dict[str, Any]:
        raise codes.NotConfiguredError("several locks are read one by one")

    def send_list(self, prefix: str, page_size: int, page_token: str, seconds: float, abort: Signal) -> dict[str, Any]:
        raise codes.NotConfiguredError("several locks are read one by one")

    def send_set(
        self, command: str, r: Mapping[str, Any], keys: Sequence[str], tokens: Mapping[str, int], seconds: float, abort: Signal,
    ) -> dict[str, Any]:
        raise codes.NotConfiguredError("several locks are not nested")

    def _as_one(self, got: Mapping[str, Any], token: int) -> dict[str, Any]:
        return {**got, "lock_key": self.name, "lease_id": self.name, "fencing_token": token}


class _Wait:
    """How long an acquire waits."""

    def __init__(self, clock: Clock, cancel: Signal, deadline: float | None) -> None:
        self.clock, self.cancel, self.deadline = clock, cancel, deadline

    def over(self) -> bool:
        return self.cancel.is_set() or self.deadline is not None and self.clock.monotonic() >= self.deadline

    def left(self) -> float:
        return float("inf") if self.deadline is None else self.deadline - self.clock.monotonic()

    def in_time(self, seconds: float) -> float:
        """A pause that ends before the wait does, so that what the lock's line has granted by then is not missed."""
        return min(seconds, max(self.left() - LAST_LOOK, LAST_LOOK + SHORT_PAUSE))

    def sleep(self, seconds: float) -> Steps[bool]:
        """False if the wait is over before."""
        yield pause(self.clock, max(0.0, min(seconds, self.left())), self.cancel)
        return not self.over()


R = TypeVar("R")


class _Acquire:
    """One intention to have a lock. Its tries have one request_id, so that one that is carried out late is not another."""

    def __init__(
        self, client: Locks, provider: Provider, key: str, o: _Options, request: dict[str, Any], each: float, *, own: bool, alone: bool, grant: bool,
    ) -> None:
        self.client, self.provider, self.key, self.o, self.request, self.each = client, provider, key, o, request, each
        self.own = own  # it does not let other threads of the client go first
        self.alone = alone  # no others hold the lock meanwhile
        self.grant = grant  # of a rate, which is not held
        turn = Signal()
        self.turn = turn
        self.leave: Callable[[], None] = lambda: client._queues.leave(key, turn)  # lets the next thread of the client ask
        self.inside = False  # it is this one's turn
        self.open = False  # a try may have been carried out, or may still be
        self.placed = False  # it may have a place in line
        self.told = False  # that there was no usable response
        self.ended = False  # given up because the process ends: it is not sent again
        self.late: Moment | None = None  # until then a try without a definite response may have its effect
        self.last: Exception | None = None  # of the latest try that was not cut off
        self.clock = client._clock
        self.loop: asyncio.AbstractEventLoop | None = None  # that of the task which asks
        self.deadline: float | None = None  # of the wait, once that has begun
        self.latest: float | None = None  # of the call

    def _begin(self) -> None:
        now = self.clock.monotonic()
        if self.o.wait == FOREVER:
            return
        if self.deadline is None and self.o.wait:
            self.deadline = now + self.o.wait
        if self.latest is None:
            beyond = max(try_time(0), self.client._retry_for) if self.client._insists else CALL_TIME if self.o.wait else AT_ONCE_TIME
            self.latest = now + self.o.wait + beyond

    def run(self, cancel: Signal, use: Callable[[Moment, dict[str, Any]], R]) -> Steps[R]:
        """Ask for what is to be acquired, and give it to use if it was granted."""
        c = self.client
        running = c._background.begin()
        unsubscribe = c._closed.subscribe(lambda: cancel.set(c._closed.cause))
        try:
            self._check(cancel)
            self._begin()
            calling, waiting = _Wait(self.clock, cancel, self.latest), _Wait(self.clock, cancel, self.deadline)
            if self.alone and not self.own:
                yield from self._enter(waiting)
            settled = owe(self._last_word)
            try:
                began, got = yield from self._ask(calling, waiting)
                settled()
                try:
                    return use(began, got)
                except BaseException:
                    if not self.grant:
                        c._discard(self, began, got)
                    raise
            except BaseException as err:
                if self._unsettled() and not (_outcome.final(err) and _outcome.settles(err)):
                    c._give_up(self)
                settled()
                if not isinstance(err, Exception):  # nothing takes the place of what is to end the program, or the task
                    raise
                self._check(cancel)
                if not isinstance(err, Cancelled):
                    raise
                raise ClosedError("the acquire was cancelled") from None
        finally:
            self.leave()
            unsubscribe()
            c._background.end(running)
            self.last = None  # its frames have what was obtained

    def _unsettled(self) -> bool:
        """Whether the acquire has a place in line, or may hold what it asks for, or may still obtain it."""
        late = self.late is not None and self.clock.now().until(self.late) > 0
        return not self.ended and (self.placed or self.open or late)

    def _last_word(self, seconds: float) -> None:
        """Give the acquire up once, as the process ends."""
        if self.ended or self._unsettled():  # one more time if it was interrupted
            self.ended = True
            # Half of the time for the connection, and half for the response.
            self.provider.send_give_up(self.key, self.request, seconds / 2, Signal())

    def _check(self, cancel: Signal) -> None:
        if cancel.is_set():
            cause = cancel.cause or ClosedError("the acquire was cancelled")
            raise type(cause)(*cause.args) from self.last

    def _enter(self, waiting: _Wait) -> Steps[None]:
        c = self.client
        self.inside = c._queues.enter_free(self.key, self.turn)
        if not self.inside:
            taken = codes.LockHeldError(
                "this client has the lock already, or one of its threads or tasks waits for it", {"owner_id": c._owner})
            if self.o.wait == 0:
                raise taken
            c._events.emit("Waiting", self.key, err=taken)
            if not (yield from self._turn(waiting)):
                self._check(waiting.cancel)
                raise taken

    def _turn(self, waiting: _Wait) -> Steps[bool]:
        """Wait until no other thread or task of this client is before this one; False if waiting ended."""
        if not self.own and not self.inside:
            self.inside = yield from self.client._queues.enter(waiting, self.key, self.turn)
        return self.own or self.inside

    def _ask(self, calling: _Wait, waiting: _Wait) -> Steps[tuple[Moment, dict[str, Any]]]:
        """Ask until it is granted, waiting ends, or there is nothing to wait for.

        Until there was a definite response calling bounds it, because it is not known whether the lock is held. After that the requests let the
        server wait. The moment is that from which the lease is counted.
        """
        c = self.client
        failed = polls = 0  # tries without a definite response, one after the other; tries that are not to wait
        first = _outcome.Meeting()
        wait = 0.0  # of the next try
        since = self.clock.now()  # when there was no definite response for the first time
        answered = False  # the server has said that the lock is held
        while True:
            asking = waiting if answered else calling
            began = self.clock.now()
            each = try_time(failed, self.each)
            if failed > 0:
                each = max(LAST_LOOK, min(each, began.until(since.plus(c._retry_for))))
            try:
                return (yield from self._try(asking, wait, each))
            except Cancelled:
                raise
            except Exception as err:
                if asking.over():
                    raise self.last or err
                before, self.last, problem = self.last, err, err
            answered = answered or self._held(problem)
            asking = waiting if answered else calling
            if asking.over():
                raise problem
            took = began.until(self.clock.now())
            asks = _outcome.retry_after(problem)
            pause = max(_outcome.WAITS.delay(failed), asks)
            if self._held(problem):
                if self.o.wait == 0:
                    raise problem
                if isinstance(problem, codes.LockQueueFullError):
                    polls = FEW_POLLS
                pause, again = 0.0, _outcome.poll_after(problem)
                if again > 0:  # it holds no response for so long
                    pause = waiting.in_time(again)
                elif polls > 0 or self._left(waiting) == 0 or wait > 0 and took < wait / 2:  # the server does not wait as it is asked to
                    pause = self._pause(asks)
                c._events.emit("Waiting", self.key, after=pause, err=problem)
                if not (yield from self._turn(waiting)) or not (yield from waiting.sleep(pause)):
                    raise problem
                failed, since, wait = 0, self.clock.now(), self._left(waiting)
                if polls > 0:
                    polls, wait = polls - 1, 0.0
                continue
            if isinstance(problem, (codes.RequestIdReusedError, codes.LeaseExpiredError)):
                self.request = {**self.request, "request_id": new_request_id()}  # what it obtained has ended
                self.late = None
                if failed > 0 and isinstance(problem, codes.RequestIdReusedError):
                    self.last = before  # the caller knows of no request_id, but may ask why there was no response
                failed += 1
            elif _outcome.final(problem) or isinstance(problem, codes.LockQueueFullError):
                raise problem
            elif not isinstance(problem, (ApiError, NoResponseError, InvalidResponseError)):
                raise problem  # a mistake in the program
            else:
                if failed == 0 and wait > 0:
                    since = self.clock.now()  # there was none to expect before
                failed += 1
                if isinstance(problem, codes.OverloadedError) and wait > 0:
                    polls = FEW_POLLS
            if failed > 0:
                left = min(self.clock.now().until(since.plus(c._retry_for)), asking.left())
                if left <= 0 or asks > left or first.unmet(problem) and not c._insists:
                    raise self.last or problem
                if not self.told and isinstance(problem, (NoResponseError, InvalidResponseError)):  # it may never help
                    self.told = True
                    log.warning("lock %r is asked for again, for up to %.3g s: %s", self.key, left, problem)
                pause = min(pause, left)
            wait = 0.0
            if self.placed and (polls == 0 or failed < 3):  # otherwise the place is given up
                wait = min(1.0, self._left(waiting))
            c._events.emit("Waiting", self.key, after=pause, err=problem)
            if not (yield from asking.sleep(pause)):
                raise problem

    def _try(self, asking: _Wait, wait: float, each: float) -> Steps[tuple[Moment, dict[str, Any]]]:
        """Send the request once."""
        if self.ended or asking.cancel.is_set():
            raise Cancelled
        request = dict(self.request)
        if wait > 0:
            request["wait_seconds"] = int(wait)
        began = self.clock.now()
        seconds = max(0.0, min(each + wait, asking.left()))
        before, self.open = self.open, True  # also if the process ends meanwhile
        try:
            got = yield Send(
                seconds, lambda abort: asked(self.provider.send_acquire, self.key, request, seconds, abort), asking.cancel, wait > 0)
            _outcome.acquired(request, got, "", self.key)
            began = began.plus(_outcome.waited(request, got, began.until(self.clock.now())))
            if not self.grant and self.clock.now().until(began.end(self.lasts(got)).plus(-self.o.margin)) <= 0:
                self.client._discard(self, began, got)
                raise codes.LeaseExpiredError(f"the response arrived when the lease was about to end: use a longer ttl than {self.o.ttl:.0f}s")
        except BaseException as err:
            self.open = _outcome.unsettled(err)
            if self.open:
                end = began.plus(seconds + _end.AFTER)
                if self.late is None or self.late.until(end) > 0:
                    self.late = end
            self.open = self.open or before and not _outcome.settles(err)
            lines = self.o.lines or self.grant
            if _outcome.settles(err):
                self.placed = (
                    wait > 0 and self._held(err) and not isinstance(err, codes.LockQueueFullError)
                    and (lines or isinstance(err, ApiError) and err.position > 0))
            elif _outcome.unsettled(err):
                self.placed = self.placed or wait > 0 and lines
            raise
        self.open = self.placed = False
        return began, got

    def _held(self, err: BaseException) -> bool:
        """Whether the lock cannot be had now, but can later without anything being wrong."""
        return isinstance(err, (codes.LockHeldError, codes.LockDelayedError)) or isinstance(err, codes.LockQueueFullError) and self.o.max_waiting == 0

    def _left(self, waiting: _Wait) -> float:
        """For how long the server is asked to wait: whole seconds, and not much longer than the caller does."""
        left = waiting.left()
        if self.loop is not None and _engine.waits >= MOST_WAITS:
            return 0.0
        return WAIT_TIME if left >= WAIT_TIME else max(0.0, float(-int(-left // 1)))

    def _pause(self, holder: float) -> float:
        """How long to wait for a lock that is held. The holder's lease may be renewed, or end earlier."""
        poll = random.uniform(self.o.poll / 2, self.o.poll)
        if self.placed:
            poll = min(poll, PLACED_PAUSE)
        if holder <= 0:
            return poll
        return min(poll, max(holder, SHORT_PAUSE / 2) + random.uniform(0, SHORT_PAUSE))  # not all who wait at the same time

    def lasts(self, got: Mapping[str, Any]) -> float:
        """How long a lease lasts from when it was asked for."""
        return min(float(got["remaining_ms"]) / 1000, self.o.ttl)


class _Keeper:
    """Keeps a lease until it is released or lost. No reference leads from here to the handle of the program: when that is dropped, no one has the
    lock any more, and its lease is not renewed."""

    def __init__(
        self, client: Locks, a: _Acquire, asked: Moment, got: dict[str, Any], working: bool, calling: Signal, several: bool = False,
    ) -> None:
        self._client, self._provider, self._o, self._request = client, a.provider, a.o, a.request
        self._clock = client._clock
        self._lease_key, self._token = a.key, cast(int, got["fencing_token"])
        self._permit = cast(int, got.get("permit", 0))
        self._working = working  # a block knows when its work ends
        self._several, self._rested = several, False
        self._loop = a.loop  # that of the task which holds it
        self._mutex = threading.RLock()
        self._term = Term(
            self._clock, asked.end(a.lasts(got)), margin=a.o.margin, most=None if a.o.max_hold is None else self._clock.now().plus(a.o.max_hold),
            expired=self._expired, inherited=f"lock {a.key!r} is held by the parent of this process")
        self._release_request = {"owner_id": client._owner, "fencing_token": self._token, "request_id": new_request_id()}
        self._ended: LeaseholdError | None = None  # released, or the client was closed
        self._announced = False
        self._elsewhere = False  # a copy of this process renews the lease: it is not released here
        self._handle: weakref.ref[_Handle] | None = None  # that of the program; it calls nothing: see _call.Weak
        self._renewing, self._finished = Signal(), Signal()
        self._releasing: _Releasing | None = None
        self._unreleased: Exception | None = None  # why the latest release failed
        self._leave: Callable[[], None] = lambda: None
        self._asking: tuple[_Acquire, Signal] | None = a, calling
        self._due, self._expires_at = asked.plus(a.lasts(got) - a.o.ttl * 2 / 3), cast(str, got["expires_at"])

    def _keep(self) -> None:
        """Begin to keep the lease, for a handle that there is."""
        assert self._asking is not None
        client, (a, calling), self._asking = self._client, self._asking, None  # whose errors lead to frames that have the handle
        with client._mutex:
            if calling.is_set() or client._closed.is_set():
                self._renewing.set()
                raise Cancelled
            client._held.add(self)
        if a.alone:  # until it is not held any more
            self._leave = a.leave
        client._events.emit("Acquired", a.key, self._token)
        later(self._clock, self._due, self._renewals(self._due, self._expires_at), self._renewing, self._term.over)
        later(self._clock, self._term.until, self._term.watch(), self._term.over)
        self._term.when_lost(self._lost)
        if a.alone:
            a.leave = lambda: None  # last: what is interrupted before is held by no one

    def _check(self) -> None:
        lost = self._term.look()
        if lost is not None:
            raise _again(lost)
        if self._ended is not None:
            raise type(self._ended)(*self._ended.args)

    def _end(self, timeout: float | None) -> Steps[None]:
        if self._term.inherited:
            return
        lost = self._term.settle()
        self._cancel(ReleasedError("the lock was released"))
        self._renewing.set()
        if lost is not None:
            self._announce(lost)
            if self._elsewhere or _outcome.gone(lost.__cause__) or self._term.left <= 0:  # there is nothing to release
                yield from self._release_rest(self._o.release_timeout if timeout is None else timeout)
                self._finish()
                raise _again(lost)
        end = self._clock.monotonic() + (CALL_TIME if timeout is None else timeout)
        r, mine = self._begin_release()
        if mine:
            yield from self._release_first(r, end)
        yield pause(self._clock, max(0.0, end - self._clock.monotonic()), r.done)
        err: LeaseholdError | None = r.error
        if not r.done.is_set():
            err = NotReleasedError(f"lock {self._lease_key!r}: not released in time, and the release goes on in the background")
        self._leave()
        if lost is not None:
            raise _again(lost)
        if err is not None:
            raise _again(err)

    def _release_rest(self, timeout: float) -> Steps[None]:
        """One of several locks was lost; the others are released once, or expire."""
        with self._mutex:
            if not self._several or self._rested or self._elsewhere or self._term.left <= 0:
                return
            self._rested = True
        done = Signal()

        def work() -> Steps[None]:
            try:
                yield from self._client._release(
                    self._provider, self._lease_key, self._release_request, min(self._client._most, max(self._term.left, 0.01)))
            except Exception:
                pass  # it says that one of them was lost, or they expire
            done.set()

        run(self._client._background, self._clock, work())
        yield pause(self._clock, timeout, done)

    def _end_here(self, timeout: float | None) -> None:
        """Release in the thread of the caller."""
        try:
            block(self._clock, self._end(timeout))
        except LeaseholdError:
            raise
        except BaseException:  # an interrupt, maybe before the release began
            self._give_up()
            raise

    def _give_up(self) -> None:
        """Release in the background what no one waits for any more."""
        self._renewing.set()
        with self._mutex:
            r = self._releasing
            if r is not None and r.thread == threading.get_ident() and not r.goes_on and not r.done.is_set():
                self._releasing = None  # this thread was interrupted before it sent that one
        run(self._client._background, self._clock, self._end(None))  # an error was told as an event

    @property
    def _needed(self) -> bool:
        """Whether the lease is still to be renewed by this process."""
        return not self._renewing.is_set() and self._term.cause is None and not self._term.inherited

    @property
    def _forgotten(self) -> bool:
        """Whether the program has no handle any more."""
        return self._handle is None or self._handle() is None

    def _expired(self, trouble: BaseException | None) -> LockLostError:
        name = f"lock {self._lease_key!r} is lost"
        if self._o.max_hold is not None and self._term.left > self._o.margin:
            return MaxHoldError(f"{name}: it was held for as long as it may be, {self._o.max_hold}s")
        if trouble is not None:
            err = LockLostError(f"{name}: its lease expires, after renewals that failed: {trouble}")
            err.__cause__ = trouble
            return err
        return LockLostError(f"{name}: its lease expires, and was not renewed in time")

    def _cancel(self, err: LeaseholdError) -> None:
        """End the lock's time without a loss."""
        with self._mutex:
            if self._ended is None or isinstance(err, ReleasedError):
                self._ended = err
        if not self._working:  # no one knows when the work ends
            self._renewing.set()

    def _announce(self, err: LockLostError) -> None:
        with self._mutex:
            if self._announced:
                return
            self._announced = True
        self._client._events.emit("Lost", self._lease_key, self._token, err)
        self._leave()
        if not self._working:
            self._finish()

    def _finish(self) -> None:
        with self._client._mutex:
            self._client._held.discard(self)
        self._finished.set()

    def _lost(self) -> None:
        if self._term.cause is not None:
            self._announce(self._term.cause)

    def _until(self, due: Moment) -> Steps[bool]:
        """Wait until a renewal is due; False if there is to be none."""
        term = self._term
        while not self._renewing.is_set() and not term.over.is_set() and term.look() is None:
            if self._clock.now().until(due) <= 0:
                return True
            yield Sleep(due, (self._renewing, term.over))
        return False

    def _renewals(self, due: Moment, expires_at: str) -> Steps[None]:
        """Renew the lock, until it is released or lost."""
        term, ttl = self._term, self._o.ttl
        soon = min(1.0, ttl / 24)
        waits = Backoff(soon, min(10.0, ttl / 6), soon / 2)
        r: dict[str, Any] = {
            "owner_id": self._client._owner, "fencing_token": self._token, "ttl_seconds": int(ttl), "request_id": new_request_id(),
            "expires_at": expires_at,
        }
        failed = 0
        unanswered = False  # a renewal may have moved the end that is known
        while (yield from self._until(due)):
            if self._loop is not None and self._loop.is_closed():  # its task does not go on
                self._give_up()
                return
            if self._forgotten:  # what it protects may still be at work: it is left to expire
                log.warning("lock %r was not released, and no one has it any more: it is not renewed, and expires", self._lease_key)
                self._client._events.emit("Forgotten", self._lease_key, self._token)
                return
            if term.capped:
                return
            began = self._clock.now()
            seconds = min(try_time(failed, self._client._most), max(term.remaining / 3, 0.01))
            request = dict(r)
            problem: Exception
            try:
                got = yield Send(
                    seconds, lambda abort: asked(self._provider.send_renew, self._lease_key, request, seconds, abort), self._renewing)
                _outcome.acquired(self._request, got, "", self._lease_key, self._token)
                if got.get("permit", 0) != self._permit:
                    raise InvalidResponseError(f"the lease has the permit {got.get('permit', 0)}, not {self._permit}")
            except Cancelled:
                return
            except Exception as err:
                problem = err
            else:
                lasts = min(got["remaining_ms"] / 1000, ttl)
                if not term.extend(began.end(lasts)):
                    return
                self._client._events.emit("Renewed", self._lease_key, self._token)
                r["request_id"], r["expires_at"], failed, unanswered = new_request_id(), got["expires_at"], 0, False
                due = began.plus(lasts - ttl * 2 / 3)
                now = self._clock.now()
                if now.until(due) < soon:
                    due = now.plus(soon)
                continue
            if self._renewing.is_set() or term.over.is_set():
                return
            changed = problem.expires_at if isinstance(problem, codes.LeaseChangedError) else None
            known = parse_time(r["expires_at"])
            # Only this process renews the lease: if it did not move the end, a copy of it did, such as one of a
            # snapshot.
            self._elsewhere = changed is not None and not unanswered and known is not None and changed > known
            if self._elsewhere or _outcome.gone(problem):
                name = f"lock {self._lease_key!r} is lost"
                why = "another process, a copy of this one, renews its lease" if self._elsewhere else str(problem)
                loss = LockLostError(f"{name}: {why}")
                loss.__cause__ = problem
                term.lose(loss)
                return
            unanswered = unanswered or _outcome.unsettled(problem)
            if changed is not None:  # by the renewal without a response; or the store lost one
                r["expires_at"], unanswered = format_time(changed), False
                if failed == 0:
                    failed += 1
                    continue
            term.trouble = problem
            left = term.remaining
            self._client._events.emit("RenewalFailed", self._lease_key, self._token, problem)
            due = self._clock.now().plus(max(hasten(waits.delay(failed), left), min(_outcome.retry_after(problem), left / 3)))
            failed += 1

    def _begin_release(self) -> tuple[_Releasing, bool]:
        """Begin to release the lock, unless that is under way or done: then it is not the caller's to do."""
        with self._mutex:
            last = self._releasing
            if last is not None and (not last.done.is_set() or last.error is None or isinstance(last.error, LockLostError)):
                return last, False
            r = self._releasing = _Releasing()
            return r, True

    def _release_first(self, r: _Releasing, end: float) -> Steps[None]:
        """Send the release here once. What is left to do goes on in the background."""
        began, failed = False, 0
        try:
            seconds = min(end - self._clock.monotonic(), self._release_time(0))
            if seconds > 0:
                began = yield from self._carry_out(r, self._released_once(seconds))
                failed = 1
        finally:
            if not began:  # also after an interrupt
                run(self._client._background, self._clock, self._carry_out(r, self._try_release(failed)))
                r.goes_on = True

    def _carry_out(self, r: _Releasing, release: Steps[bool]) -> Steps[bool]:
        """Release the lock, and say how that ended. False if it goes on."""
        try:
            if not (yield from release):
                return False
            self._client._events.emit("Released", self._lease_key, self._token)
        except LockLostError as err:
            r.error = err
            self._announce(err)
        except LeaseholdError as err:
            r.error = err
            self._client._events.emit("ReleaseFailed", self._lease_key, self._token, err)
        self._leave()
        self._finish()
        r.done.set()
        return True

    def _release_time(self, failed: int) -> float:
        return min(try_time(failed, self._client._most), max(self._term.left / 3, 0.01))

    def _released_once(self, seconds: float) -> Steps[bool]:
        """Send the release once: whether it is done. The error is why it never will be."""
        name = f"lock {self._lease_key!r}"
        try:
            yield from self._client._release(self._provider, self._lease_key, self._release_request, seconds)
            return True
        except Exception as err:
            if _outcome.gone(err):
                raise LockLostError(f"{name} is lost: {err}") from err
            if _outcome.final(err) or not isinstance(err, (ApiError, NoResponseError, InvalidResponseError)):
                raise NotReleasedError(f"{name}: {err}") from err
            self._unreleased = err
            return False

    def _try_release(self, retry: int) -> Steps[bool]:
        """Release the lock, or say why that was not possible until the lease ended."""
        while True:
            if retry > 0:
                left = max(0.0, self._term.left)
                yield pause(self._clock, min(_outcome.pause(retry - 1, self._unreleased, left), left))
            if self._term.left <= 0:
                raise NotReleasedError(f"lock {self._lease_key!r}: not released before its lease ended: {self._unreleased}") from self._unreleased
            if (yield from self._released_once(self._release_time(retry))):
                return True
            retry += 1


class _Releasing:
    """The end of a lock."""

    def __init__(self) -> None:
        self.done = Signal()
        self.error: LeaseholdError | None = None
        self.thread = threading.get_ident()
        """That is to carry it out first."""
        self.goes_on = False
        """In the background."""


def _again(err: LeaseholdError) -> LeaseholdError:
    """A copy to raise: one exception that is raised in several places mixes up their tracebacks."""
    made = type(err)(*err.args)
    made.__cause__ = err.__cause__
    return made


class _Handle:
    """What a lock and several locks have in common."""

    def __init__(self, keeper: _Keeper) -> None:
        self._keeper = keeper
        keeper._handle = weakref.ref(self)
        self.lost: threading.Event = keeper._term.lost
        """Is set when the lock is lost; is_set() looks at the clocks."""
        keeper._keep()

    def owned(self) -> bool:
        """Whether the lock is held by this handle, by the clocks of this process and without a request: it was not released and is not lost."""
        return self._keeper._term.look() is None and self._keeper._ended is None

    @property
    def lost_cause(self) -> LockLostError | None:
        """Why the lock was lost; None if it was not."""
        return self._keeper._term.look()

    @property
    def remaining(self) -> float:
        """Seconds after which the lock is lost unless it is renewed; 0 if it is."""
        if self._keeper._term.look() is not None or self._keeper._ended is not None:
            return 0.0
        return max(0.0, self._keeper._term.remaining)

    @property
    def left(self) -> float:
        """Seconds after which the lease itself ends unless it is renewed, which is margin later: what is done under the lock must have ended by then."""
        lost = self._keeper._term.look()
        if lost is not None and (self._keeper._elsewhere or _outcome.gone(lost.__cause__)):
            return 0.0
        return max(0.0, self._keeper._term.left)

    def check(self) -> None:
        """Raise LockLostError if the lock is lost, ClosedError if its client was closed, ReleasedError if it was released. It looks at the clocks, and costs
        no request."""
        self._keeper._check()

    def release(self, timeout: float | None = None) -> None:
        """Release the lock, and wait for that for so many seconds at most; None waits for 5. (The end of a block waits for release_timeout.)

        A release that fails is tried again until the lease ends, also in the background. The error is a NotReleasedError if the lock may still be held,
        and a LockLostError if it was lost before. It may be called again, which tries again what has failed. In a child of a fork it does nothing.
        """
        if timeout is not None:
            timeout = _check.seconds("timeout", timeout)
        may_block("await release_async()")
        self._keeper._end_here(timeout)

    async def release_async(self, timeout: float | None = None) -> None:
        """:meth:`release` without blocking the event loop. If the task is cancelled, the release goes on."""
        if timeout is not None:
            timeout = _check.seconds("timeout", timeout)
        await awaited(self._keeper._clock, lambda _: self._keeper._end(timeout), lambda _: None)


class Lock(_Handle):
    """A lock that is held until the end of its block, until :meth:`release`, or until it is lost. It may be used by several threads at once."""

    @property
    def key(self) -> str:
        """The lock's key; of several locks all keys, separated by ", "."""
        return self._keeper._lease_key

    @property
    def token(self) -> int:
        """The fencing token: higher than that of every earlier holder. With several holders at a time the one that came last has the highest."""
        return self._keeper._token

    @property
    def subject(self) -> str:
        """What the token is one of, for fences: ``lock/`` and the key, with ``#`` and the permit if it has one."""
        return _outcome.subject_of_lock(self.key, self.permit)

    @property
    def permit(self) -> int:
        """Which permit is held, from 1 to permits; 0 if the lock has none. The tokens of one permit only ever increase."""
        return self._keeper._permit


class LockSet(_Handle):
    """Several locks that are held together. If one of them is lost, all are."""

    def __init__(self, keeper: _Keeper, tokens: dict[str, int]) -> None:
        super().__init__(keeper)
        self.tokens: Mapping[str, int] = dict(tokens)
        """The fencing token of each lock, by its key."""

    @property
    def key(self) -> str:
        """All keys, separated by ", "."""
        return self._keeper._lease_key

    @property
    def keys(self) -> list[str]:
        """Those of the locks, in the order of their bytes."""
        return sorted(self.tokens, key=lambda k: k.encode())


H = TypeVar("H", bound=_Handle)


class _Made:
    """Whether a :class:`Hold` was used, and the line that made it."""

    def __init__(self, hold: Hold[Any], frame: FrameType) -> None:
        self.hold = weakref.ref(hold)
        self.place = frame.f_code.co_filename, frame.f_lineno
        self.used = False
        _look_for_unused(2)
        _made.append(self)


_made: collections.deque[_Made] = collections.deque()


def _look_for_unused(most: int) -> None:
    """Warn of what was made, was not used, and is gone."""
    for _ in range(min(most, len(_made))):
        try:
            made = _made.popleft()
        except IndexError:  # another thread looks, too
            return
        if made.used:
            continue
        if made.hold() is not None:
            _made.append(made)
            continue
        text = "a lock was never acquired: use locks.hold(...) in `with` or `async with`, or call acquire()"
        tell(lambda place: warnings.warn_explicit(text, ResourceWarning, *place), made.place)


atexit.register(lambda: _look_for_unused(len(_made)))


class Hold(Generic[H]):
    """What :meth:`Locks.hold` returns: it acquires in ``with`` and ``async with``, and releases at the end of the block.

    By itself it holds nothing, so that its truth value is a TypeError, and later calls warn if it goes unused (ResourceWarning).

    At the end of a block that raised nothing, LockLostError says that the work was not protected until its end, NotReleasedError that it was, and that others wait
    until the lease expires. An exception of the block is not replaced.

    ``async with`` cancels the task when the lock is lost, and the block then ends with LockLostError. If the task is cancelled by another, the lock is released in the
    background, and the cancellation does not wait for that.
    """

    def __init__(self, begin: Callable[[], _Acquire], finish: Callable[[_Acquire, bool, Signal], Steps[H]]) -> None:
        self._begin, self._finish = begin, finish
        self._made = _Made(self, sys._getframe(2))
        self._lock: H | None = None
        self._task: asyncio.Task[Any] | None = None
        self._before = 0
        self._interrupted = False
        self._over = False
        self._entered = False  # a block has begun, or is about to

    def acquire(self) -> H:
        """Acquire without a block: :meth:`Lock.release` must be called. Until then it is renewed, unless what is returned is
        dropped. It is held; a lock that cannot be had is an error, as in ``with``."""
        may_block("await acquire_async()")
        return self._hold(False, Signal())

    async def acquire_async(self) -> H:
        """:meth:`acquire` without blocking the event loop. The task is not cancelled when the lock is lost."""
        return await self._hold_async(False)

    def __bool__(self) -> bool:
        raise TypeError("nothing is held yet: use `with` or `async with`, or call acquire(), which raises LockHeldError if the lock cannot be had")

    def _hold(self, working: bool, cancel: Signal) -> H:
        self._made.used = True
        a = self._begin()
        return block(a.clock, self._finish(a, working, cancel))

    async def _hold_async(self, working: bool) -> H:
        import asyncio

        self._made.used = True
        a = self._begin()
        a.loop = asyncio.get_running_loop()
        lock = await awaited(a.clock, lambda cancel: self._finish(a, working, cancel), _unwanted)
        if not working:  # it may be held for longer than the loop runs
            lock._keeper._loop = None
        return lock

    def _enter(self) -> None:
        self._made.used = True
        if self._lock is not None or self._entered:
            raise RuntimeError("this lock is held in another block: call hold again")
        self._entered = True

    def __enter__(self) -> H:
        may_block("write `async with`")
        self._enter()
        try:
            lock = self._lock = self._hold(True, Signal())
            return lock
        finally:
            self._entered = self._lock is not None

    def __exit__(self, kind: type[BaseException] | None, err: BaseException | None, tb: TracebackType | None) -> None:
        lock = self._lock
        assert lock is not None
        keeper = lock._keeper
        try:
            keeper._end_here(keeper._o.release_timeout)
        except LeaseholdError as problem:
            if err is None:
                raise
            _note(err, problem)
        finally:
            self._lock, self._entered = None, False

    async def __aenter__(self) -> H:
        import asyncio

        self._enter()
        task = asyncio.current_task()
        assert task is not None
        try:
            lock = await self._hold_async(True)
        except BaseException:
            self._entered = False
            raise
        self._lock, self._task, self._interrupted, self._over = lock, task, False, False
        self._before = task.cancelling() if hasattr(task, "cancelling") else 0
        loop = asyncio.get_running_loop()

        def lost() -> None:
            try:
                loop.call_soon_threadsafe(self._interrupt, lock)
            except RuntimeError:
                pass  # the loop is closed, and with it the block

        lock._keeper._term.when_lost(lost)
        return lock

    def _interrupt(self, lock: H) -> None:
        if self._lock is lock and not self._over and self._task is not None:
            self._interrupted = True
            self._task.cancel()

    async def __aexit__(self, kind: type[BaseException] | None, err: BaseException | None, tb: TracebackType | None) -> None:
        import asyncio

        assert self._lock is not None and self._task is not None
        lock: H = self._lock
        task = self._task
        self._over = True  # from here on a loss does not interrupt the task
        if isinstance(err, GeneratorExit):  # the coroutine is thrown away, and can wait for nothing
            self._lock = self._task = None
            self._entered = False
            lock._keeper._give_up()
            return
        outside = isinstance(err, asyncio.CancelledError)
        if self._interrupted:
            if hasattr(task, "uncancel"):
                outside = task.uncancel() > self._before
            else:
                outside = False
            if not isinstance(err, asyncio.CancelledError):
                try:
                    await asyncio.sleep(0)  # the cancellation that the block ended before
                except asyncio.CancelledError:
                    pass
        self._lock = self._task = None
        self._entered = False
        if outside:
            lock._keeper._give_up()
            if not isinstance(err, asyncio.CancelledError):
                raise asyncio.CancelledError
            return
        try:
            await lock.release_async(lock._keeper._o.release_timeout)
        except LeaseholdError as problem:
            if err is None or self._interrupted and isinstance(err, asyncio.CancelledError):
                raise problem from problem.__cause__
            _note(err, problem)


def _unwanted(lock: _Handle) -> None:
    lock._keeper._give_up()


def _note(err: BaseException, problem: LeaseholdError) -> None:
    if not isinstance(err, LockLostError) and hasattr(err, "add_note"):
        err.add_note(str(problem))


class _Queues:
    """Let one thread or task of a client at a time ask for a key, or hold it, in the order in which they came.

    The first in the line of a key has its turn. One stands there by a signal of its own, which is set when its turn may have come, until it leaves or no one
    has the signal any more: an interrupt may come before it is noted that one has a place, or while one leaves.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._mutex = threading.Lock()
        self._lines: dict[str, Weak[Signal]] = {}

    def enter_free(self, key: str, turn: Signal) -> bool:
        """Have the turn of a key, unless there is a line."""
        with self._mutex:
            line = self._lines.get(key)
            if line is not None and line.first() is not None:
                return False
            line = self._lines[key] = Weak()
            line.add(turn)
            return True

    def enter(self, waiting: _Wait, key: str, turn: Signal) -> Steps[bool]:
        """Wait for the turn of a key. False if the wait is over before."""
        with self._mutex:
            line = self._lines.setdefault(key, Weak())
            line.add(turn)
            place = len(line.alive())  # the further behind, the more seldom one looks whether those before are still there
        while not self._first(key, turn):
            if waiting.over():
                self.leave(key, turn)
                return False
            end = min(waiting.left(), LOOK_AGAIN * place)
            yield pause(self._clock, end, turn, waiting.cancel)
        return True

    def _first(self, key: str, turn: Signal) -> bool:
        with self._mutex:
            return self._lines[key].first() is turn

    def leave(self, key: str, turn: Signal) -> None:
        with self._mutex:
            line = self._lines.get(key)
            if line is None or turn not in line:
                return
            line.discard(turn)
            first = line.first()
            if first is None:
                del self._lines[key]
                return
        first.set()


class _Events:
    """Delivers events in their order, one at a time, in a thread of its own."""

    def __init__(self, observe: Callable[[Event], None] | None) -> None:
        self.observe = observe
        self._changed = threading.Condition()
        self._queue: collections.deque[Event] = collections.deque()
        self._running = False
        self._again = False  # the event loop tries to start the thread

    def emit(self, what: str, key: str, token: int = 0, err: BaseException | None = None, after: float = 0.0) -> None:
        if self.observe is None:
            return
        with self._changed:
            self._queue.append(Event(datetime.now(timezone.utc), what, key, token, after, err))
            self._start()
        if sys.is_finalizing():  # there is no other thread
            self._deliver()

    def _start(self) -> None:
        """Start the thread if there is something to deliver. If that is not possible, the next event and the event loop try
        again: observe may block, and is not called in this thread."""
        if self._running or not self._queue:
            return
        self._running = spawn("events", self._deliver) is not None
        if not self._running and not self._again:
            self._again = try_again(self._start_again)

    def _start_again(self) -> None:
        with self._changed:
            self._again = False
            self._start()

    def _deliver(self) -> None:
        while True:
            with self._changed:
                if not self._queue:
                    self._running = False
                    self._changed.notify_all()
                    return
                event = self._queue.popleft()
            if self.observe is not None:
                tell(self.observe, event)

    def flush(self, seconds: float) -> None:
        with self._changed:
            self._start()
            self._changed.wait_for(lambda: not self._running and not self._queue, seconds)
