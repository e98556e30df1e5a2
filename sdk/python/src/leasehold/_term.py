"""A lease from its grant to its loss, as its holder knows it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from ._steps import Sleep, Steps
from ._time import Clock, Moment, Signal
from .errors import LockLostError


class Term:
    """The end of a lease, and its loss. Once lost it stays lost. It may be used by several threads at once."""

    def __init__(
        self, clock: Clock, end: Moment, *, expired: Callable[[BaseException | None], LockLostError], inherited: str, margin: float = 0.0,
        most: Moment | None = None,
    ) -> None:
        """end is when the lease ends. It counts as lost margin before that, and at most if that is earlier.

        expired makes the reason; it gets why the latest renewal failed. inherited is the reason in a child of a fork, which does not hold the lease.
        """
        self._clock, self._end, self._margin, self._most = clock, end, margin, most
        self._expired, self._inherited = expired, inherited
        self._pid = os.getpid()
        self._mutex = threading.RLock()
        self._settled = False
        self._on_lost: list[Callable[[], None]] = []
        self.cause: LockLostError | None = None
        """Why it was lost; None if it was not, or if that was not noticed."""
        self.trouble: BaseException | None = None
        """Why the latest renewal failed; None if it did not."""
        self.lost: threading.Event = _LostEvent(self.look)
        self.over = Signal()
        """Is set when the lease is lost or settled, after which no one needs to watch the time."""

    @property
    def inherited(self) -> bool:
        """Whether this process is a child of the holder."""
        return os.getpid() != self._pid

    @property
    def left(self) -> float:
        """Seconds after which the lease itself ends."""
        return self._clock.now().until(self._end)

    @property
    def remaining(self) -> float:
        """Seconds after which it counts as lost."""
        now = self._clock.now()
        left = now.until(self._end.plus(-self._margin))
        return left if self._most is None else min(left, now.until(self._most))

    @property
    def until(self) -> Moment:
        """When it counts as lost."""
        end = self._end.plus(-self._margin)
        if self._most is None:
            return end
        return Moment(min(end.monotonic, self._most.monotonic), min(end.wall, self._most.wall))

    def watch(self) -> Steps[None]:
        """Watch the time, until the lease is lost or settled."""
        while not self.over.is_set() and self.look() is None:
            yield Sleep(self.until, (self.over,))

    @property
    def capped(self) -> bool:
        """Whether the lease lasts for as long as it may be held, so that it needs no renewal."""
        if self._most is None:
            return False
        now = self._clock.now()
        return now.until(self._most) <= now.until(self._end.plus(-self._margin))

    def look(self) -> LockLostError | None:
        """Look at the clocks. The result is why the lease was lost."""
        if self.inherited:
            return LockLostError(self._inherited)
        with self._mutex:
            if self.cause is None and not self._settled and self.remaining <= 0:
                self.lose(self._expired(self.trouble))
            return self.cause

    def lose(self, err: LockLostError) -> None:
        with self._mutex:
            if self.cause is not None or self._settled:
                return
            self.cause = err
            calls, self._on_lost = self._on_lost, []
        self.lost.set()
        self.over.set()
        for call in calls:
            call()

    def when_lost(self, call: Callable[[], None]) -> None:
        """Call a function when the lease is lost, at once if it is."""
        with self._mutex:
            if self.cause is None:
                self._on_lost.append(call)
                return
        call()

    def extend(self, end: Moment) -> bool:
        """Move the end. False if that comes too late, or after the lease was settled."""
        with self._mutex:
            if self.look() is not None or self._settled:
                return False
            self._end, self.trouble = end, None
        return self.look() is None

    def settle(self) -> LockLostError | None:
        """The last look: what has not been lost by now is not lost any more."""
        if self.inherited:  # a thread that does not go on in the child may have the mutex
            return self.look()
        with self._mutex:
            err = self.look()
            self._settled = True
        self.over.set()
        return err


class _LostEvent(threading.Event):
    """Is set when the lease is lost. is_set and wait look at the clocks, which may be quicker than the thread that watches the time."""

    def __init__(self, look: Callable[[], object]) -> None:
        super().__init__()
        self._look = look

    def is_set(self) -> bool:
        return self._look() is not None or super().is_set()

    def wait(self, timeout: float | None = None) -> bool:
        return self._look() is not None or super().wait(timeout)
