"""Rules as steps, without input and output, and what carries them out: the thread of the caller, or one of a few in the background.

A rule that sends or waits is a generator. It yields a :class:`Send` or a :class:`Sleep` and gets what came of it, so that the same rule serves
blocking calls, tasks, and what goes on in the background. There is no event loop: one would be in the way of those of a program whose threads are
greenlets, and neither a program's loop that is blocked nor one that is closed keeps a lease from being renewed or released.
"""

from __future__ import annotations

import collections
import functools
import heapq
import itertools
import sys
import threading
import time
import weakref
from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar, Union

from ._call import Background, Cancelled, on_fork, spawn
from ._time import LOOK_AGAIN, SYSTEM, Clock, Moment, Signal
from .errors import ClosedError, EventLoopError, NoResponseError

if TYPE_CHECKING:
    from .client import Client

T = TypeVar("T")
P = ParamSpec("P")

WORKERS = 4
"""Threads of the background, while none of them has to wait for long."""

MOST_WORKERS = 256
"""Threads of the background, when requests get no response."""

MOST_WAITS = 64
"""Requests of tasks that wait at the server at a time: each has a thread. Those of more tasks ask again and again."""

PATIENCE = 0.5
"""Seconds after which what waits for a thread gets one more."""

GROWTH = 0.05
"""Seconds from then until there is another."""

IDLE_TIME = 30.0
"""Seconds after which a thread ends that has nothing to do."""


class Wire(NamedTuple):
    """One request over HTTP: the step is its response."""

    client: Client
    method: str
    path: str
    body: Mapping[str, Any] | None
    seconds: float
    abort: Signal | None
    most: int


class Blocks(NamedTuple):
    """A function that may block, such as one of the program: the step is what it returns."""

    do: Callable[[], Any]


Wires = Generator[Union[Wire, Blocks], Any, T]


class Send(NamedTuple):
    """Something that is sent, which ends in so many seconds. start gets a signal that is set when it is not waited for any more: because of cancel, or
    because it does not end by itself."""

    seconds: float
    start: Callable[[Signal], Wires[Any]]
    cancel: Signal | None = None
    waits: bool = False
    """Most of the time is that for which the server waits."""


class Sleep(NamedTuple):
    """A wait until a moment by either clock, or until one of the signals is set; None is no bound."""

    until: Moment | None
    signals: tuple[Signal, ...]


Steps = Generator[Union[Send, Sleep, Blocks], Any, T]


def pause(clock: Clock, seconds: float, *signals: Signal) -> Sleep:
    """A wait by the monotonic clock alone."""
    return Sleep(Moment(clock.monotonic() + seconds, float("inf")), signals)


def performed(make: Callable[P, Wires[T]]) -> Callable[P, T]:
    """A method that is written as steps, for callers that block. :func:`asked` finds the steps."""

    @functools.wraps(make)
    def method(*args: P.args, **kwargs: P.kwargs) -> T:
        return here(make(*args, **kwargs))

    method.steps = make  # type: ignore[attr-defined]
    return method


def asked(method: Callable[..., T], *args: Any, **kwargs: Any) -> Wires[T]:
    """The steps of a method. One that is not written as steps blocks."""
    make = getattr(method, "steps", None)
    if make is not None:
        steps: Wires[T] = make(getattr(method, "__self__"), *args, **kwargs)
        return steps
    return _blocks(functools.partial(method, *args, **kwargs))


def _blocks(do: Callable[[], T]) -> Wires[T]:
    got: T = yield Blocks(do)
    return got


def may_block(instead: str) -> None:
    """Refuse a call that blocks where an event loop runs in this thread: its other tasks would stand still. The error says what to do instead."""
    events = sys.modules.get("asyncio.events")
    if events is None or events._get_running_loop() is None:
        return
    if "greenlet" in sys.modules and sys.modules["asyncio.tasks"].current_task() is None:
        return  # the loop is that of another greenlet of this thread
    raise EventLoopError(f"this call blocks, and an event loop runs in this thread: {instead}")


def here(wires: Wires[T]) -> T:
    """Carry requests out in the thread of the caller."""

    def step(e: Any) -> Any:
        if isinstance(e, Blocks):
            return e.do()
        return e.client.once(e.method, e.path, e.body, seconds=e.seconds, abort=e.abort, most=e.most)

    return _each(wires, step)


def block(clock: Clock, steps: Steps[T]) -> T:
    """Carry steps out in the thread of the caller."""

    def step(e: Any) -> Any:
        if isinstance(e, Blocks):
            return e.do()
        if isinstance(e, Send):
            return sent(clock, e)
        if e.until is None:
            while not any(s.is_set() for s in e.signals):
                clock.wait(LOOK_AGAIN, *e.signals)
        elif e.until.wall == float("inf"):
            clock.sleep(e.until.monotonic - clock.monotonic(), *e.signals)
        else:
            clock.sleep_until(e.until, *e.signals)

    return _each(steps, step)


def sent(clock: Clock, e: Send) -> Any:
    """Send something in the thread of the caller."""
    if e.cancel is not None and e.cancel.is_set():
        raise Cancelled
    abort = Signal()
    ends = [clock.bound(e.seconds, abort.set)]
    if e.cancel is not None:
        ends.append(e.cancel.subscribe(abort.set))
    try:
        return here(e.start(abort))
    except Exception as err:
        if e.cancel is not None and e.cancel.is_set():
            raise Cancelled from None
        if abort.is_set() and not isinstance(err, NoResponseError):
            raise _too_late(e) from err
        raise
    finally:
        for end in ends:
            end()


def _too_late(e: Send) -> NoResponseError:
    return NoResponseError(f"no response within {e.seconds:.3g}s")


def _each(steps: Generator[Any, Any, T], step: Callable[[Any], Any]) -> T:
    try:
        try:
            e = next(steps)
            while True:
                try:
                    value = step(e)
                except BaseException as err:  # an interrupt too
                    e = steps.throw(err)
                else:
                    e = steps.send(value)
        except StopIteration as end:
            got: T = end.value
            return got
    finally:
        steps.close()  # an interrupt may have come between two of them


# The threads of the background.


class _Engine:
    """The threads that carry out what goes on in the background, and the times of its clocks. They begin with the first steps."""

    def __init__(self) -> None:
        self.timers: dict[weakref.ref[Clock], _Timers] = {}  # see _call.Weak
        self._reset()
        on_fork(self)

    def _reset(self) -> None:
        self._changed = threading.Condition()
        self._jobs: collections.deque[tuple[float, Callable[[], None]]] = collections.deque()  # with the time since when they wait
        self._threads = 0
        self._watching = False  # a thread looks whether more are needed
        self._watched = threading.Condition(self._changed._lock)  # type: ignore[attr-defined]  # of that thread alone
        self.resting: set[int] = set()
        """Threads that wait for something to do."""
        self.waits = 0
        """Requests of tasks that wait at the server."""

    def after_fork(self) -> None:
        """The threads of the parent do not run in the child."""
        self._reset()
        self.timers = {}

    @property
    def waiting(self) -> int:
        """How much waits for a thread."""
        return len(self._jobs)

    def count(self, waits: int) -> None:
        with self._changed:
            self.waits += waits

    def timers_of(self, clock: Clock) -> _Timers:
        with self._changed:
            found = self.timers.get(weakref.ref(clock))
            if found is None:
                for gone in [c for c in self.timers if c() is None]:
                    del self.timers[gone]
                found = self.timers[weakref.ref(clock)] = _Timers(clock)
            return found

    def submit(self, job: Callable[[], None]) -> bool:
        """Do something in one of the threads. False if there is none, and none can be started."""
        with self._changed:
            if sys.is_finalizing():
                return False
            self._jobs.append((time.monotonic(), job))
            if len(self._jobs) <= len(self.resting):
                self._changed.notify()
            elif self._threads < WORKERS:
                self._start()
            elif not self._watching and self._threads < MOST_WORKERS:
                self._watching = True
                if spawn("watch", self._watch) is None:
                    self._watching = False
            if self._threads == 0:
                self._jobs.pop()
                return False
        return True

    def _start(self) -> None:
        started = None
        self._threads += 1
        try:
            started = spawn("requests", self._work)
        finally:
            if started is None:  # also after an interrupt
                self._threads -= 1

    def _work(self) -> None:
        me = threading.get_ident()
        while True:
            with self._changed:
                since = time.monotonic()
                while not self._jobs:
                    self.resting.add(me)
                    self._changed.wait(LOOK_AGAIN)  # an interrupt may have come before it was woken
                    self.resting.discard(me)
                    if not self._jobs and time.monotonic() - since > IDLE_TIME:
                        self._threads -= 1
                        return
                _, job = self._jobs.popleft()
            try:
                job()
            except BaseException:  # it ends no other
                sys.excepthook(*sys.exc_info())
            del job  # nothing is kept while this one rests

    def _watch(self) -> None:
        """Start more threads, one after the other, while something waits for longer than it should."""
        with self._changed:
            while self._jobs and self._threads < MOST_WORKERS:
                left = self._jobs[0][0] + PATIENCE - time.monotonic()
                if left <= 0:
                    self._start()
                self._watched.wait(GROWTH)
            self._watching = False


def try_again(do: Callable[[], None]) -> bool:
    """Call a function, which must be quick, in LOOK_AGAIN seconds in one of the background's threads: it starts a thread that could not be
    started. False if there is none of these either."""

    def later() -> None:
        SYSTEM.sleep(LOOK_AGAIN)
        do()

    return _engine.submit(later)


class _Timers:
    """Calls functions at moments of a clock, in one thread. It ends when there is none left. If it cannot be started, each
    call of at tries again, and so does the background."""

    def __init__(self, clock: Clock) -> None:
        self._clock = weakref.ref(clock)  # which is the key of these
        self._mutex = threading.Lock()
        self._changed = Signal()
        self._next: float | None = None  # the monotonic time at which the thread looks again; None if there is no thread
        self._by_monotonic: list[tuple[float, int, list[Callable[[], None]]]] = []
        self._by_wall: list[tuple[float, int, list[Callable[[], None]]]] = []
        self._numbers = itertools.count()  # functions have no order
        self.thread: threading.Thread | None = None
        self._again = False  # the background tries to start it

    def at(self, moment: Moment, call: Callable[[], None]) -> Callable[[], None]:
        """Call a function, which must be quick, at a moment by either clock. The returned function ends that."""
        clock = self._clock()
        assert clock is not None
        entry = [call]
        with self._mutex:
            number = next(self._numbers)
            if moment.monotonic < float("inf"):
                heapq.heappush(self._by_monotonic, (moment.monotonic, number, entry))
            if moment.wall < float("inf"):
                heapq.heappush(self._by_wall, (moment.wall, number, entry))
            now, changed = clock.now(), None
            if self._next is None:
                self._start(clock, now)
            elif now.monotonic + now.until(moment) < self._next:
                changed, self._changed = self._changed, Signal()
        if changed is not None:
            changed.set()
        return entry.clear

    def _start(self, clock: Clock, now: Moment) -> None:
        """Start the thread, which waits for the mutex that the caller has."""
        self.thread = spawn("times", functools.partial(self._run, clock))
        if self.thread is not None:
            self._next = now.monotonic
        elif not self._again:
            self._again = try_again(self._start_again)

    def _start_again(self) -> None:
        clock = self._clock()
        with self._mutex:
            self._again = False
            if clock is not None and self._next is None and (self._by_monotonic or self._by_wall):
                self._start(clock, clock.now())

    def _run(self, clock: Clock) -> None:
        while True:
            calls: list[Callable[[], None]] = []
            with self._mutex:
                now = clock.now()
                left = min(self._due(self._by_monotonic, now.monotonic, calls), self._due(self._by_wall, now.wall, calls))
                changed = self._changed
                if left == float("inf") and not calls:
                    self._next = self.thread = None
                    return
                wait = 0.0 if calls else min(left, LOOK_AGAIN)
                self._next = now.monotonic + wait
            for call in calls:
                try:
                    call()
                except Exception:  # it ends no other
                    sys.excepthook(*sys.exc_info())
            if not calls:
                clock.wait(wait, changed)

    def _due(self, heap: list[tuple[float, int, list[Callable[[], None]]]], now: float, calls: list[Callable[[], None]]) -> float:
        """Take what is due from a heap, and say in how many seconds the next is."""
        while heap and (heap[0][0] <= now or not heap[0][2]):
            entry = heapq.heappop(heap)[2]
            calls += entry
            entry.clear()
        return heap[0][0] - now if heap else float("inf")


_engine = _Engine()


class _Task:
    """Steps that are carried out in the background. Of each of them one thing takes it on, whatever comes first: its end, or the end of its time."""

    def __init__(self, clock: Clock, steps: Steps[Any], done: Callable[[Any, BaseException | None], None]) -> None:
        self._clock, self._steps, self._done = clock, steps, done

    def begin(self) -> None:
        """Take the first step here: those who call one after the other have their places in line in that order."""
        try:
            e = self._steps.send(None)
        except StopIteration as end:
            return self._done(end.value, None)
        except Exception as err:
            return self._done(None, err)
        if isinstance(e, Sleep):
            return self._sleep(e)
        go_on = functools.partial(self.go_on, e=e)
        if not _engine.submit(go_on):
            go_on()

    def go_on(self, value: Any = None, problem: BaseException | None = None, e: Any = None) -> None:
        """Take the steps that follow, until one has to be waited for."""
        while True:
            try:
                if e is None:
                    e = self._steps.send(value) if problem is None else self._steps.throw(problem)
            except StopIteration as end:
                return self._done(end.value, None)
            except BaseException as err:  # it is told, and ends no thread
                return self._done(None, err)
            value, problem = None, None
            if isinstance(e, Sleep):
                return self._sleep(e)
            try:
                value = e.do() if isinstance(e, Blocks) else self._sent(e)
            except _Passed:
                return
            except BaseException as err:
                problem = err
            e = None

    def _later(self, problem: BaseException | None = None) -> None:
        go_on = functools.partial(self.go_on, None, problem)
        if not _engine.submit(go_on):
            go_on()

    def _sleep(self, e: Sleep) -> None:
        turn = _Turn()

        def wake() -> None:
            if turn.take():
                for end in ends:
                    end()
                self._later()

        ends: list[Callable[[], None]] = []
        for signal in e.signals:
            ends.append(signal.subscribe(wake))
        if e.until is not None and not turn.taken:
            ends.append(_engine.timers_of(self._clock).at(e.until, wake))
        if turn.taken:  # by a signal that was set
            for end in ends:
                end()

    def _sent(self, e: Send) -> Any:
        """Send something in this thread. If it does not end in time another goes on with the steps, and this one has nothing to do with them."""
        if e.cancel is not None and e.cancel.is_set():
            raise Cancelled
        abort, turn = Signal(), _Turn()

        def over(cancelled: bool) -> None:
            if turn.take():
                abort.set()
                self._later(Cancelled() if cancelled else _too_late(e))

        ends = [_engine.timers_of(self._clock).at(Moment(self._clock.monotonic() + e.seconds, float("inf")), functools.partial(over, False))]
        if e.cancel is not None:
            ends.append(e.cancel.subscribe(functools.partial(over, True)))
        _engine.count(e.waits)
        try:
            return here(e.start(abort))
        finally:
            _engine.count(-e.waits)
            mine = turn.take()
            for end in ends:
                end()
            if not mine:
                raise _Passed


class _Passed(BaseException):
    """Another thread goes on."""


class _Turn:
    """Is taken once."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()

    def take(self) -> bool:
        return self._mutex.acquire(blocking=False)

    @property
    def taken(self) -> bool:
        return self._mutex.locked()


def start(clock: Clock, steps: Steps[T], done: Callable[[T | None, BaseException | None], None] = lambda value, err: None) -> None:
    """Carry steps out in the background, and call done with what they return, or with their error. It must be quick."""
    if _engine.submit(_Task(clock, steps, done).go_on):
        return
    try:
        value = block(clock, steps)
    except Exception as err:
        done(None, err)
    except BaseException as err:
        done(None, err)
        raise
    else:
        done(value, None)


def later(clock: Clock, moment: Moment, steps: Steps[Any], *signals: Signal) -> None:
    """Carry steps out in the background at a moment, unless one of the signals is set before. Until then they cost no thread."""
    timers = _engine.timers_of(clock)
    task = _Task(clock, steps, lambda value, err: None)

    def begin() -> None:
        if not _engine.submit(task.go_on):  # it cannot be started now, and this thread is that of all others
            timers.at(clock.now().plus(LOOK_AGAIN), begin)

    end = timers.at(moment, begin)
    for signal in signals:
        signal.subscribe(end)


def run(background: Background, clock: Clock, steps: Steps[Any]) -> None:
    """Carry out what goes on when no one waits for it."""
    running = background.begin()
    start(clock, steps, lambda value, err: background.end(running))


async def awaited(clock: Clock, make: Callable[[Signal], Steps[T]], give_up: Callable[[T], object]) -> T:
    """Carry steps out for a task of the program. If that is cancelled the signal is set, and give_up gets what the steps return all the same."""
    import asyncio

    loop = asyncio.get_running_loop()
    ended = loop.create_future()
    cancel, mutex = Signal(), threading.Lock()
    box: list[tuple[T | None, BaseException | None]] = []
    unwanted = False

    def end() -> None:
        if not ended.done():
            ended.set_result(None)

    def leave() -> None:
        """What is obtained from now on, or was and has not been taken, is given up once."""
        nonlocal unwanted
        with mutex:
            first, unwanted = not unwanted, True
            done = box[0] if box else None
        if first and done is not None and done[1] is None:
            give_up(done[0])  # type: ignore[arg-type]

    def done(value: T | None, err: BaseException | None) -> None:
        with mutex:
            box.append((value, err))
            left = unwanted
        if left and err is None:
            give_up(value)  # type: ignore[arg-type]
        try:
            loop.call_soon_threadsafe(end)
        except RuntimeError:  # the loop is closed
            leave()

    _Task(clock, make(cancel), done).begin()
    try:
        await ended
    except (asyncio.CancelledError, GeneratorExit):
        cancel.set(ClosedError("the acquire was cancelled"))
        leave()
        raise
    value, problem = box[0]
    if problem is not None:
        raise problem
    return value  # type: ignore[return-value]
