"""One request with a time of its own, and the threads in the background that a fork or the end of the process concerns."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ._time import LOOK_AGAIN, Clock, Signal
from .errors import NoResponseError

T = TypeVar("T")

EXIT_TIME = 2.0
"""Seconds that the end of the process waits for releases in the background."""

LAST_TIME = 1.0
"""Seconds for what is to be told before the process ends, and for the background once that is interrupted again."""


class Cancelled(Exception):
    """A request was given up because its signal was set. It does not leave the package."""


def spawn(name: str, do: Callable[[], None]) -> threading.Thread | None:
    """Start a daemon thread; None if the process is ending and starts no more of them."""
    if sys.is_finalizing():  # it would start, and never run
        return None
    thread = threading.Thread(target=do, name=f"leasehold {name}", daemon=True)
    try:
        thread.start()
    except RuntimeError:
        return None
    return thread


def bounded(
    clock: Clock, seconds: float, do: Callable[[Signal], T], *, cancel: Signal | None = None,
) -> T:
    """Do something in a thread of its own, and return in so many seconds, also if that does not.

    The signal that it gets is set when no one waits for it any more. The error is that of
    do, NoResponseError, or Cancelled if cancel was set.
    """

    done, abort = Signal(), Signal()
    box: list[tuple[T | None, BaseException | None]] = []

    def work() -> None:
        try:
            got = do(abort)
        except BaseException as err:  # it is raised where it is waited for
            box.append((None, err))
        else:
            box.append((got, None))
        done.set()

    if cancel is not None and cancel.is_set():
        raise Cancelled
    signals = (done,) if cancel is None else (done, cancel)
    end = clock.monotonic() + seconds
    try:
        if spawn("request", work) is None:
            work()
        while not done.is_set():
            left = end - clock.monotonic()
            if left <= 0 or cancel is not None and cancel.is_set():
                break
            clock.wait(min(left, LOOK_AGAIN), *signals)
    finally:
        ended = done.is_set()  # not by what the signal does
        if not ended:
            abort.set()
    if ended:
        value, err = box[0]
        if err is not None:
            raise err
        return value  # type: ignore[return-value]
    if cancel is not None and cancel.is_set():
        raise Cancelled
    raise NoResponseError(f"no response within {seconds:.3g}s")


def tell(call: Callable[[T], object], value: T) -> None:
    """Call a function of the program whose exception is shown, and ends nothing. An interrupt of the main thread goes on."""
    try:
        call(value)
    except BaseException as err:
        if not isinstance(err, Exception) and threading.current_thread() is threading.main_thread():
            raise
        sys.excepthook(*sys.exc_info())


class Weak(Generic[T]):
    """A set, in order, of what it does not keep. That of the standard library runs Python code at the end of each of them, wherever that is, and
    Python drops the exception of a signal that comes meanwhile. The caller sees to it that no two threads change it at once, or that nothing is
    discarded."""

    def __init__(self) -> None:
        self._refs: dict[weakref.ref[T], None] = {}
        self._most = 16  # entries before those without a thing are looked for

    def add(self, thing: T) -> None:
        self._refs[weakref.ref(thing)] = None
        if len(self._refs) > self._most:
            self._most = 16 + 2 * len(self.alive())

    def discard(self, thing: T) -> None:
        self._refs.pop(weakref.ref(thing), None)

    def __contains__(self, thing: T) -> bool:
        return weakref.ref(thing) in self._refs

    def first(self) -> T | None:
        """The one that was added before the others."""
        for ref in list(self._refs):
            thing = ref()
            if thing is not None:
                return thing
            self._refs.pop(ref, None)
        return None

    def alive(self) -> list[T]:
        found = []
        for ref in list(self._refs):
            thing = ref()
            if thing is None:
                self._refs.pop(ref, None)
            else:
                found.append(thing)
        return found


class Background:
    """What goes on when no one waits for it, such as the release of what a cancelled acquire may have obtained."""

    def __init__(self) -> None:
        self._reset()
        everything.add(self)

    def _reset(self) -> None:
        self._changed = threading.Condition()
        self._running: Weak[_Running] = Weak()

    def begin(self) -> _Running:
        """Something begins, and goes on until end is called, or until it has dropped what it got here: an interrupt may keep it from calling that."""
        running = _Running()
        with self._changed:
            self._running.add(running)
        return running

    def end(self, running: _Running) -> None:
        with self._changed:
            self._running.discard(running)
            self._changed.notify_all()

    def wait(self, seconds: float) -> bool:
        """Wait until nothing goes on; False if that takes longer."""
        end = time.monotonic() + seconds
        with self._changed:
            while self._running.first() is not None:
                left = end - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(min(left, LOOK_AGAIN / 10))
        return True

    def after_fork(self) -> None:
        """In the child no thread of the parent goes on."""
        self._reset()


class _Running:
    """Something that goes on in the background."""


_owed: dict[object, Callable[[float], object]] = {}


def owe(last: Callable[[float], object]) -> Callable[[], None]:
    """Call a function, with the seconds that it has, if the process ends before the returned one was called.

    That is so for what a thread waits for that ends with the process, and for a program that was interrupted once more
    while it cleaned up.
    """
    key = object()
    _owed[key] = last

    def settled() -> None:
        _owed.pop(key, None)

    return settled


def pay() -> None:
    """Call what is owed, one after the other, within LAST_TIME."""
    end = time.monotonic() + LAST_TIME
    for key, last in list(_owed.items()):
        left = end - time.monotonic()
        if left > 0:
            try:
                last(left)
            except Exception:
                pass  # there is no time left to try again
        _owed.pop(key, None)


everything: Weak[Background] = Weak()
_forked: Weak[Any] = Weak()


def on_fork(thing: Any) -> None:
    """Call the method after_fork of a thing in each child of this process."""
    _forked.add(thing)


def _after_fork() -> None:
    _owed.clear()  # the parent asks for it
    for b in everything.alive():
        b.after_fork()
    for thing in _forked.alive():
        thing.after_fork()


_at_last: list[Callable[[], None]] = []


def at_last(do: Callable[[], None]) -> None:
    """Call a function at the end of the process, after all that goes on in the background."""
    _at_last.append(do)


def _at_exit() -> None:
    try:
        _end(EXIT_TIME)
    except KeyboardInterrupt:
        _end(LAST_TIME)
    for do in _at_last:
        do()


def _end(seconds: float) -> None:
    pay()
    end = time.monotonic() + seconds
    for b in everything.alive():
        b.wait(max(0.0, end - time.monotonic()))


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
