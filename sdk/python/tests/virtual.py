"""A clock that the test moves, and knowledge of when the client has done all that it does at a time.

All threads of the client have names that begin with "leasehold". Each of them either waits for this clock, or is in a request, or works: then the test waits for it,
in true time, however long that takes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import selectors
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from leasehold import _steps
from leasehold._call import on_fork
from leasehold._time import Clock, Moment, Signal
from leasehold._http import Response
from leasehold._transport import HTTPTransport, Request

START = 1_893_456_000.0  # 2030-01-01T00:00:00Z
STUCK = 60.0  # seconds of true time after which a test that waits for the client gives up


def watched(loops: dict[int, asyncio.BaseEventLoop]) -> asyncio.SelectorEventLoop:
    """An event loop that is in loops, by its thread, while it waits for something to do."""
    selector = selectors.DefaultSelector()
    select = selector.select

    def watch(timeout: float | None = None) -> Any:
        me = threading.get_ident()
        if timeout is None or timeout > 0:
            loops[me] = loop
        try:
            return select(timeout)
        finally:
            loops.pop(me, None)

    selector.select = watch  # type: ignore[assignment]
    loop = asyncio.SelectorEventLoop(selector)
    return loop


logging.getLogger("leasehold").addHandler(logging.NullHandler())  # not on the terminal

class VirtualClock(Clock):
    def __init__(self, start: float = START) -> None:
        self._changed = threading.Condition()
        self._monotonic = 1000.0
        self._wall = start
        self._waiting: dict[int, float | None] = {}  # by thread: when it is to go on
        self._sending: dict[object, int] = {}  # threads and tasks in a request, and its number: idents of threads are used again
        self._sent = 0
        self._loops: dict[int, asyncio.BaseEventLoop] = {}  # event loops that wait for something to do
        on_fork(self)

    def after_fork(self) -> None:
        """In a child no thread of the parent waits."""
        self._changed = threading.Condition()
        self._waiting, self._sending, self._loops = {}, {}, {}

    def monotonic(self) -> float:
        return self._monotonic

    def wall(self) -> float:
        return self._wall

    def wait(self, seconds: float | None, *signals: Signal) -> None:
        me = threading.get_ident()
        woken = threading.Event()

        def wake() -> None:
            with self._changed:
                self._waiting.pop(me, None)
                woken.set()
                self._changed.notify_all()

        ends = [s.subscribe(wake) for s in signals]
        with self._changed:  # before it is known to wait, it is known what would end that
            end = None if seconds is None else self._monotonic + max(seconds, 0)
            if not woken.is_set() and (end is None or end > self._monotonic):
                self._waiting[me] = end
                while not woken.is_set() and me in self._waiting:
                    self._changed.wait(STUCK)
                self._waiting.pop(me, None)
        for done in ends:
            done()

    def deadline(self, seconds: float) -> float:
        return time.monotonic() + STUCK  # bound ends the request before, by this clock

    def bound(self, seconds: float, call: Callable[[], None]) -> Callable[[], None]:
        return _steps._engine.timers_of(self).at(Moment(self._monotonic + seconds, float("inf")), call)

    def next_timer(self) -> float | None:
        """In how many seconds a timer is due."""
        with self._changed:
            due = [end for end in self._waiting.values() if end is not None]
            return max(0.0, min(due) - self._monotonic) if due else None

    def move(self, monotonic: float, wall: float | None = None, *, due: bool = True) -> None:
        """Move the clocks; timers that are due go on."""
        with self._changed:
            self._monotonic += monotonic
            self._wall += monotonic if wall is None else wall
            if due:  # otherwise they go on with the next move
                for thread, end in list(self._waiting.items()):
                    if end is not None and end <= self._monotonic + 1e-9:
                        del self._waiting[thread]
                self._changed.notify_all()

    def others(self) -> set[threading.Thread | None]:
        """The threads that call functions by other clocks, such as those that earlier tests have left."""
        return {t.thread for clock, t in list(_steps._engine.timers.items()) if clock() is not self}

    def busy(self) -> list[str]:
        """The threads of the client that work, but for the others."""
        engine, others = _steps._engine, self.others()
        with engine._changed:
            resting = set() if engine.waiting else set(engine.resting)
            watching = not engine.waiting
        with self._changed:
            return [
                t.name for t in threading.enumerate()
                if t.name.startswith("leasehold") and t not in others and t.ident not in self._waiting and t.ident not in self._sending
                and t.ident not in resting and not (watching and t.name == "leasehold watch")
                and not (t.ident in self._loops and not self._loops[t.ident]._ready)]  # type: ignore[attr-defined]

    def requests(self) -> set[int]:
        """The numbers of the requests that are under way."""
        with self._changed:
            return set(self._sending.values())

    def loop(self) -> asyncio.AbstractEventLoop:
        """An event loop whose rest this clock knows of. Its timers are of true time: the client uses none."""
        return watched(self._loops)

    def settle(self) -> None:
        """Wait until the client has done all that it does now, but for requests that are under way."""
        end = time.monotonic() + STUCK
        while self.busy():
            if time.monotonic() > end:
                raise AssertionError(f"the client does not come to rest: {self.busy()}")
            time.sleep(0.0002)

    def run(self, seconds: float, until: Callable[[], bool] = lambda: False) -> bool:
        """Let so many seconds pass, from timer to timer, or until something is so. Requests must end without the clock."""
        left = seconds
        while True:
            self.settle()
            if until():
                return True
            step = self.next_timer()
            if step is None or step > left:
                self.move(left)
                self.settle()
                return until()
            self.move(step)
            left -= step

    def watch_requests(self) -> contextlib.ExitStack:
        """Count the requests that are under way, whose threads do not work."""
        clock, send = self, HTTPTransport.send

        def counted(transport: HTTPTransport, request: Request, deadline: float) -> Response:
            me = threading.get_ident()

            def over() -> None:
                with clock._changed:
                    clock._sending.pop(me, None)

            with clock._changed:
                clock._sent += 1
                clock._sending[me] = clock._sent
            stop = request.abort.subscribe(over)  # from then on its thread has something to do
            try:
                return send(transport, request, deadline)
            finally:
                stop()
                over()

        both = contextlib.ExitStack()
        both.enter_context(mock.patch.object(HTTPTransport, "send", counted))
        return both


@contextlib.contextmanager
def no_threads(module: Any, name: str) -> Iterator[list[Callable[[], None]]]:
    """Within it a module starts no threads of a name. The list is what the background is asked to call a second later."""
    again: list[Callable[[], None]] = []

    def spawn(of: str, do: Callable[[], None]) -> threading.Thread | None:
        return None if of == name else real(of, do)

    def try_again(do: Callable[[], None]) -> bool:
        again.append(do)
        return True

    real = module.spawn
    with mock.patch.object(module, "spawn", spawn), mock.patch.object(module, "try_again", try_again):
        yield again


class Shifted(Clock):
    """A wall clock that is wrong by so many seconds."""

    def __init__(self, by: float) -> None:
        self.by = by

    def wall(self) -> float:
        return time.time() + self.by
