"""Time as the holder of a lease sees it: two clocks, waiting that can be cancelled, and waits between retries."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

LOOK_AGAIN = 1.0
"""Seconds for which a timer is trusted: one that was set before the machine slept comes late by as much."""

GRAIN = 0.001
"""Seconds by which a store's time lies behind the true one at most: stores cut theirs to whole milliseconds."""


CALL_TIME = 5.0
"""Seconds for which a call insists beside its wait, where its caller has no deadline of its own."""

AT_ONCE_TIME = 3.0
"""The same for a caller that does not wait."""

GRACE_TIME = 1.0
"""Seconds by which a call outlasts its caller at most: cleaning up goes on in the background."""

MOST_TRY_TIME = 15.0


def try_time(failed: int, most: float = MOST_TRY_TIME) -> float:
    """Seconds of a try that follows so many which had no response: 2 of the first, then twice as long each time."""
    return min(most, MOST_TRY_TIME, 2.0 * (1 << min(failed, 4)))


def hasten(wait: float, left: float) -> float:
    """A pause before the next renewal of a lease that lasts for so long: a part of that, so that one more try always
    comes before the loss."""
    return max(0.05, min(wait, max(left / 4, min(0.1, left / 2))))


class Moment(NamedTuple):
    """A point in time on both clocks of the process, in seconds.

    The monotonic clock is right if the time is set. The wall clock is right if the machine slept and the monotonic clock stood still. The
    first of the two to reach an expiry counts.
    """

    monotonic: float
    wall: float

    def plus(self, seconds: float) -> Moment:
        return Moment(self.monotonic + seconds, self.wall + seconds)

    def end(self, seconds: float) -> Moment:
        """When a lease of that length ends which was asked for at this moment."""
        return self.plus(seconds - GRAIN)

    def since(self, now: Moment) -> float:
        """Seconds that have passed until now, by the clock that says more; not less than 0."""
        return max(0.0, now.monotonic - self.monotonic, now.wall - self.wall)

    def until(self, end: Moment) -> float:
        """Seconds from here to end, by the clock that says less."""
        return min(end.monotonic - self.monotonic, end.wall - self.wall)


class Signal:
    """Something that happens once, such as a cancellation. It may be used by several threads at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._set = False
        self._cause: BaseException | None = None
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._next = 0

    def is_set(self) -> bool:
        return self._set

    @property
    def cause(self) -> BaseException | None:
        """With which it was set."""
        return self._cause

    def set(self, cause: BaseException | None = None) -> None:
        """Set the signal, unless it is set, and call who subscribed."""
        with self._lock:
            if self._set:
                return
            self._set, self._cause = True, cause
            callbacks = list(self._callbacks.values())
            self._callbacks.clear()
        while callbacks:
            try:
                callbacks.pop(0)()
            except BaseException:  # an interrupt of this thread keeps no other from waking
                self._rest(callbacks)
                raise

    def _rest(self, callbacks: list[Callable[[], None]]) -> None:
        for call in callbacks:
            call()

    def subscribe(self, call: Callable[[], None]) -> Callable[[], None]:
        """Call a function when the signal is set, at once if it is. The returned function ends that."""
        with self._lock:
            if not self._set:
                number = self._next
                self._next += 1
                self._callbacks[number] = call
                return lambda: self._unsubscribe(number)
        call()
        return lambda: None

    def _unsubscribe(self, number: int) -> None:
        with self._lock:
            self._callbacks.pop(number, None)


class Clock:
    """The clocks of the process. Tests replace it."""

    def monotonic(self) -> float:
        """Seconds since an arbitrary start; never goes back, and may stand still while the machine sleeps."""
        return time.monotonic()

    def wall(self) -> float:
        """Unix seconds; moves on while the machine sleeps, and may be set."""
        return time.time()

    def now(self) -> Moment:
        return Moment(self.monotonic(), self.wall())

    def wait(self, seconds: float | None, *signals: Signal) -> None:
        """Wait until one of the signals is set, or for so many seconds at most; None is no bound. It may return early."""
        event = threading.Event()
        ends = [s.subscribe(event.set) for s in signals]
        try:
            event.wait(seconds if seconds is None else min(seconds, threading.TIMEOUT_MAX))
        finally:
            for end in ends:
                end()

    def deadline(self, seconds: float) -> float:
        """When a request ends that has so many seconds, by time.monotonic."""
        return time.monotonic() + seconds

    def bound(self, seconds: float, call: Callable[[], None]) -> Callable[[], None]:
        """Call a function in so many seconds if the time of this clock is not that of sockets, which end by themselves."""
        return lambda: None

    def sleep_until(self, moment: Moment, *signals: Signal) -> bool:
        """Wait until a moment has come by either clock. False if one of the signals was set before."""
        while True:
            if any(s.is_set() for s in signals):
                return False
            left = self.now().until(moment)
            if left <= 0:
                return True
            self.wait(min(left, LOOK_AGAIN), *signals)

    def sleep(self, seconds: float, *signals: Signal) -> bool:
        """Wait for so many seconds. False if one of the signals was set before."""
        end = self.monotonic() + seconds
        while True:
            if any(s.is_set() for s in signals):
                return False
            left = end - self.monotonic()
            if left <= 0:
                return True
            self.wait(left, *signals)


SYSTEM = Clock()
"""The clocks of the process, for all that is given no others: what waits by them shares one thread."""


class Backoff(NamedTuple):
    """Bounds the waits between tries, in seconds: the first by first, each later one by twice the bound before, all by most.

    A wait is drawn at random between least and its bound ("full jitter"), or between half the bound and the bound.
    """

    first: float
    most: float
    least: float = 0.0
    equal_jitter: bool = False

    def delay(self, retry: int) -> float:
        """The wait before a retry; they count from 0."""
        bound = min(self.most, self.first * 2.0 ** min(retry, 60))
        if self.equal_jitter:
            return max(self.least, random.uniform(bound / 2, bound))
        return max(self.least, random.uniform(0, bound))
