"""One leader among processes that campaign for the same key, on the locks of :mod:`leasehold.locks`.

    election = Election(client.locks(), "scheduler")

    election.lead(schedule)               # calls schedule(leader) each time that this process is elected
    await election.lead_async(schedule)   # of a coroutine function, which is cancelled when the leadership is lost

    with election.campaign() as leader:   # by hand: waits until this process is elected, and resigns at the end
        leader.check()
        write(token=leader.token)

The leader is who holds the lock. It must stop before its lease ends: ``leader.check()`` and ``leader.lost`` say when, and what it writes must carry
:attr:`Leader.token` all the same, because a process that was stopped may write once more. A leader that crashed is followed when its lease has
ended, one that resigned at once.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import TracebackType
from typing import Any, TypeVar

from . import _outcome, codes
from ._call import Cancelled
from ._steps import Steps, awaited, block, may_block, pause
from ._time import Backoff, Signal
from .errors import ApiError, ClosedError, InvalidResponseError, InvalidSettingError, LeaseholdError, LockLostError, NoResponseError, parse_time
from .locks import Hold, Lock, Locks

__all__ = ["Election", "Leader", "Leadership"]

T = TypeVar("T")

WAITS = Backoff(1.0, 10.0, 0.1)
"""Before a campaign that failed is begun again."""

MIN_LOOK = 1.0
MAX_LOOK = 10.0


class Leader:
    """The leadership of this process, until it resigns or loses it. In ``with`` and ``async with`` it resigns at the end."""

    def __init__(self, lock: Lock) -> None:
        self._lock = lock
        self.lost = lock.lost
        """A :class:`threading.Event` that is set when the leadership is lost; is_set() looks at the clocks."""

    @property
    def token(self) -> int:
        """The fencing token of this leadership: higher than that of every earlier one."""
        return self._lock.token

    @property
    def subject(self) -> str:
        """What the token is one of, for fences."""
        return self._lock.subject

    def check(self) -> None:
        """Raise LockLostError if the leadership is lost, which is before another can be elected. It costs no request."""
        self._lock.check()

    def resign(self, timeout: float | None = None) -> None:
        """End the leadership, so that another can be elected at once. It may be called again. As :meth:`leasehold.Lock.release`."""
        self._lock.release(timeout)

    async def resign_async(self, timeout: float | None = None) -> None:
        """:meth:`resign` without blocking the event loop."""
        await self._lock.release_async(timeout)

    def __enter__(self) -> Leader:
        return self

    def __exit__(self, kind: type[BaseException] | None, err: BaseException | None, tb: TracebackType | None) -> None:
        try:
            self.resign()
        except LeaseholdError:
            if err is None:
                raise

    async def __aenter__(self) -> Leader:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, err: BaseException | None, tb: TracebackType | None) -> None:
        try:
            await self.resign_async()
        except LeaseholdError:
            if err is None:
                raise


@dataclass(frozen=True)
class Leadership:
    """Who leads, as the server knows it. It is false if no one does, or if that is not known: then there is an error."""

    owner: str = ""
    """Of its locks, as the server was told; with authentication after the subject of its token."""
    lease_id: str = ""
    """Names this one leadership."""
    since: datetime | None = None
    """By the server's clock."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    error: LeaseholdError | None = None
    """Why it is not known who leads."""
    ttl: float = 0.0
    """Seconds of its lease."""

    def __bool__(self) -> bool:
        return self.lease_id != ""


class Election:
    """One leadership. It may be used by several threads and tasks at once. The settings are those of :meth:`leasehold.Locks.hold`: after max_hold a
    leader steps down, and another may be elected."""

    def __init__(self, locks: Locks, key: str, **settings: Any) -> None:
        if not isinstance(locks, Locks):
            raise InvalidSettingError("locks", "must be what client.locks() returns")
        self._locks, self._key, self._settings = locks, key, settings
        self._clock = locks._clock
        self._hold()._made.used = True  # a setting that cannot work is an error here

    def _hold(self) -> Hold[Lock]:
        return self._locks.hold(self._key, **self._settings)

    def campaign(self) -> Leader:
        """Wait until this process is elected. Errors are those of :meth:`leasehold.Hold.acquire`."""
        may_block("await campaign_async()")
        return Leader(self._hold().acquire())

    async def campaign_async(self) -> Leader:
        """:meth:`campaign` without blocking the event loop."""
        return Leader(await self._hold().acquire_async())

    def lead(self, work: Callable[[Leader], T]) -> T:
        """Campaign, and call work each time that this process is elected. It resigns when work returns. If the leadership was lost by then, it campaigns
        again, whatever came of work; otherwise it returns or raises what work did. work must return when the leadership is lost.

        While the server does not respond this goes on, until the client of the locks is closed. LockHeldError ends it where there is a bound, ``wait``,
        and so does an error of a request that would be rejected again.
        """
        may_block("await lead_async(...)")
        failed = 0
        while True:
            lock: Lock | None = None
            try:
                with self._hold() as lock:
                    return work(Leader(lock))
            except Exception as err:
                if self._over(lock, err):
                    raise
                failed = failed + 1 if lock is None else 0
            if failed:
                block(self._clock, self._pause(failed))

    async def lead_async(self, work: Callable[[Leader], Awaitable[T]]) -> T:
        """:meth:`lead` for a coroutine function. It is cancelled when the leadership is lost."""
        failed = 0
        while True:
            lock: Lock | None = None
            try:
                async with self._hold() as lock:
                    return await work(Leader(lock))
            except Exception as err:
                if self._over(lock, err):
                    raise
                failed = failed + 1 if lock is None else 0
            if failed:
                await awaited(self._clock, lambda _: self._pause(failed), lambda _: None)

    def _over(self, lock: Lock | None, err: Exception) -> bool:
        """Whether this process does not campaign again."""
        if self._locks._closed.is_set():
            return True
        if lock is not None:
            return lock.lost_cause is None and not isinstance(err, LockLostError)
        return not isinstance(err, (ApiError, NoResponseError, InvalidResponseError)) or isinstance(err, codes.LockHeldError) or _outcome.final(err)

    def _pause(self, failed: int) -> Steps[None]:
        yield pause(self._clock, WAITS.delay(failed - 1), self._locks._closed)

    def leader(self) -> Leadership:
        """Who leads, by one request."""
        may_block("await leader_async()")
        return block(self._clock, self._leader())

    async def leader_async(self) -> Leadership:
        """:meth:`leader` without blocking the event loop."""
        return await awaited(self._clock, lambda _: self._leader(), lambda _: None)

    def _leader(self) -> Steps[Leadership]:
        try:
            got = yield from self._locks._get(self._key)
        except codes.NotFoundError:
            return Leadership()
        if got["state"] != "ACTIVE":
            return Leadership()
        return Leadership(
            got["owner_id"], got["lease_id"], parse_time(got.get("acquired_at", "")), dict(got.get("metadata", {})), ttl=float(got.get("ttl_seconds", 0)))

    def observe(self) -> Iterator[Leadership]:
        """Who leads, at first and after each change. It looks every third of the leader's ttl, but not more often than each second and not more seldom than
        each ten; a leadership that is shorter can be missed. That there is no response is told once, as a Leadership with an error."""
        may_block("async for leadership in observe_async()")
        return self._observe(Signal())

    def _observe(self, stop: Signal) -> Iterator[Leadership]:
        looks = _Looks(self)
        while True:
            try:
                change = block(self._clock, looks.change(stop))
            except Cancelled:
                raise ClosedError("the observation was cancelled") from None
            yield change

    async def observe_async(self) -> AsyncGenerator[Leadership, None]:
        """:meth:`observe` without blocking the event loop."""
        looks = _Looks(self)
        while True:
            yield await awaited(self._clock, looks.change, lambda _: None)


class _Looks:
    """What an observer has seen."""

    def __init__(self, of: Election) -> None:
        self._of = of
        self._seen: Leadership | None = None
        self._wait = 0.0  # before the next look
        self._failed = 0

    def change(self, stop: Signal) -> Steps[Leadership]:
        """Look until there is something else to be seen."""
        of = self._of
        while True:
            yield pause(of._clock, self._wait, stop, of._locks._closed)
            if of._locks._closed.is_set():
                raise ClosedError("the client of locks is closed")
            if stop.is_set():
                raise Cancelled
            try:
                now = yield from of._leader()
            except (ApiError, NoResponseError, InvalidResponseError) as err:
                self._wait = max(WAITS.delay(self._failed), _outcome.retry_after(err))
                self._failed += 1
                self._seen = None
                if self._failed == 1:
                    return Leadership(error=err)
                continue
            before, self._seen = self._seen, now
            self._wait, self._failed = min(max(now.ttl / 3, MIN_LOOK), MAX_LOOK), 0
            if before is None or now.lease_id != before.lease_id:
                return now
