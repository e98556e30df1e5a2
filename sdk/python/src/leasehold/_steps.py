"""Rules as steps, without input and output, and what carries them out: the thread of the caller, or one event loop for all of a process.

A rule that sends or waits is a generator. It yields a :class:`Send` or a :class:`Sleep` and gets what came of it, so that the same rule serves
blocking calls, tasks, and what goes on in the background. The event loop has a thread of its own: neither a program's loop that is blocked nor
one that is closed keeps a lease from being renewed or released.
"""

from __future__ import annotations

import asyncio
import functools
import heapq
import itertools
import selectors
import sys
import threading
import weakref
from collections.abc import Callable, Coroutine, Generator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Union

from ._call import Background, Cancelled, on_fork, spawn, waited
from ._time import LOOK_AGAIN, Clock, Moment, Signal
from ._http import Response
from ._transport import in_thread
from .codes import DeadlineExceeded

if TYPE_CHECKING:
    from .client import Client

T = TypeVar("T")
P = ParamSpec("P")


@dataclass(frozen=True)
class Wire:
    """One request over HTTP: the step is its response."""

    client: Client
    method: str
    path: str
    body: Mapping[str, Any] | None
    seconds: float
    abort: Signal | None
    most: int


@dataclass(frozen=True)
class Blocks:
    """A function that may block, such as one of the program: the step is what it returns."""

    do: Callable[[], Any]


Wires = Generator[Union[Wire, Blocks], Any, T]


@dataclass(frozen=True)
class Send:
    """Something that is sent, with a time of its own: see :func:`leasehold._call.bounded`. start gets a signal that is set when it is not waited
    for any more."""

    seconds: float
    start: Callable[[Signal], Wires[Any]]
    cancel: Signal | None = None


@dataclass(frozen=True)
class Sleep:
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


def here(wires: Wires[T]) -> T:
    """Carry requests out in the thread of the caller."""

    def step(e: Any) -> Any:
        if isinstance(e, Blocks):
            return e.do()
        return e.client.once(e.method, e.path, e.body, seconds=e.seconds, abort=e.abort, most=e.most)

    return _each(wires, step)


def block(clock: Clock, steps: Steps[T]) -> T:
    """Carry steps out in the thread of the caller, and their requests on the event loop, which it does not wait for if they take too long."""

    def step(e: Any) -> Any:
        if isinstance(e, Blocks):
            return e.do()
        if isinstance(e, Send):
            return waited(clock, e.seconds, functools.partial(_begin, e.start), e.cancel)
        if e.until is None:
            while not any(s.is_set() for s in e.signals):
                clock.wait(LOOK_AGAIN, *e.signals)
        elif e.until.wall == float("inf"):
            clock.sleep(e.until.monotonic - clock.monotonic(), *e.signals)
        else:
            clock.sleep_until(e.until, *e.signals)

    return _each(steps, step)


def _begin(start: Callable[[Signal], Wires[Any]], abort: Signal, end: Callable[[Any, BaseException | None], None]) -> None:
    """Send something on the event loop of the background, for a thread that waits for it."""

    async def work() -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        stop = abort.subscribe(functools.partial(loop.call_soon_threadsafe, task.cancel))  # type: ignore[arg-type]
        got = await _wires(start, abort)
        stop()
        end(*got)

    if _engine.start(work()):
        return
    try:
        value = here(start(abort))
    except BaseException as err:
        end(None, err)
    else:
        end(value, None)


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


# The event loop of the background.


def new_loop() -> asyncio.AbstractEventLoop:
    """Tests replace it."""
    return asyncio.SelectorEventLoop(selectors.DefaultSelector())


class _Engine:
    """The event loop of the process, and the times of its clocks. Its thread begins with the first steps, and ends with the process."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._inherited: list[object] = []
        self.timers: weakref.WeakKeyDictionary[Clock, _Timers] = weakref.WeakKeyDictionary()
        on_fork(self)

    def after_fork(self) -> None:
        """The loop of the parent does not run in the child; nothing of it is ended there, which would end it in the parent."""
        self._mutex = threading.Lock()
        self._inherited.append((self._loop, self._tasks))
        self._loop, self._tasks = None, set()
        self.timers = weakref.WeakKeyDictionary()

    def loop(self) -> asyncio.AbstractEventLoop | None:
        """None if the process is ending, and no other thread runs any more."""
        if sys.is_finalizing():
            return None
        with self._mutex:
            if self._loop is None:
                loop = new_loop()
                if spawn("requests", functools.partial(self._run, loop)) is None:
                    loop.close()
                    return None
                self._loop = loop
            return self._loop

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        loop.run_forever()

    def timers_of(self, clock: Clock) -> _Timers:
        with self._mutex:
            found = self.timers.get(clock)
            if found is None:
                found = self.timers[clock] = _Timers(clock)
            return found

    def start(self, work: Coroutine[Any, Any, None]) -> bool:
        """False if that is not possible any more."""
        loop = self.loop()
        if loop is None:
            work.close()
            return False
        loop.call_soon_threadsafe(self._begin, work)
        return True

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def try_again(do: Callable[[], None]) -> bool:
    """Call a function, which must be quick, on the event loop in LOOK_AGAIN seconds: it starts a thread that could not be
    started. False if there is no event loop either."""
    loop = _engine.loop()
    if loop is None:
        return False
    loop.call_soon_threadsafe(loop.call_later, LOOK_AGAIN, do)
    return True


class _Timers:
    """Calls functions at moments of a clock, in one thread. It ends when there is none left. If it cannot be started, each
    call of at tries again, and so does the event loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = weakref.ref(clock)  # which is the key of these
        self._mutex = threading.Lock()
        self._changed = Signal()
        self._next: float | None = None  # the monotonic time at which the thread looks again; None if there is no thread
        self._by_monotonic: list[tuple[float, int, list[Callable[[], None]]]] = []
        self._by_wall: list[tuple[float, int, list[Callable[[], None]]]] = []
        self._numbers = itertools.count()  # functions have no order
        self.thread: threading.Thread | None = None
        self._again = False  # the event loop tries to start it

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


def start(clock: Clock, steps: Steps[T], done: Callable[[T | None, BaseException | None], None] = lambda value, err: None) -> None:
    """Carry steps out in the background, and call done with what they return, or with their error. It must be quick."""

    async def work() -> None:
        value: T | None = None
        problem: BaseException | None = None
        try:
            value = await _steps(clock, steps)
        except BaseException as err:  # it is told, and does not end the loop
            problem = err
        done(value, problem)

    if _engine.start(work()):
        return
    try:
        value = block(clock, steps)
    except BaseException as err:
        done(None, err)
    else:
        done(value, None)


def later(clock: Clock, moment: Moment, steps: Steps[Any], *signals: Signal) -> None:
    """Carry steps out in the background at a moment, unless one of the signals is set before. Until then they cost no turn of the event loop."""
    timers = _engine.timers_of(clock)

    def begin() -> None:
        if _engine.loop() is None:  # it cannot be started now, and this thread is that of all others
            timers.at(clock.now().plus(LOOK_AGAIN), begin)
        else:
            start(clock, steps)

    end = timers.at(moment, begin)
    for signal in signals:
        signal.subscribe(end)


def run(background: Background, clock: Clock, steps: Steps[Any]) -> None:
    """Carry out what goes on when no one waits for it."""
    background.begin()
    start(clock, steps, lambda value, err: background.end())


async def _steps(clock: Clock, steps: Steps[T]) -> T:
    value: Any = None
    problem: BaseException | None = None
    while True:
        try:
            e = steps.send(value) if problem is None else steps.throw(problem)
        except StopIteration as end:
            got: T = end.value
            return got
        value, problem = None, None
        try:
            if isinstance(e, Send):
                value = await _send(clock, e)
            elif isinstance(e, Blocks):
                value = await in_thread(e.do)
            else:
                await _sleep(clock, e)
        except BaseException as err:
            problem = err


async def _sleep(clock: Clock, e: Sleep) -> None:
    over, _, wake = _wake()
    ends = [s.subscribe(wake) for s in e.signals]
    if e.until is not None:
        ends.append(_engine.timers_of(clock).at(e.until, wake))
    try:
        await over
    finally:
        for end in ends:
            end()


async def _send(clock: Clock, e: Send) -> Any:
    if e.cancel is not None and e.cancel.is_set():
        raise Cancelled
    abort = Signal()
    over, settle, wake = _wake()
    task = asyncio.get_running_loop().create_task(_wires(e.start, abort))
    task.add_done_callback(lambda _: settle())
    ends = [_engine.timers_of(clock).at(Moment(clock.monotonic() + e.seconds, float("inf")), wake)]
    if e.cancel is not None:
        ends.append(e.cancel.subscribe(wake))
    try:
        await over
    finally:
        for end in ends:
            end()
        if not task.done():
            abort.set()
            task.cancel()
    if task.done():
        value, problem = task.result()
        if problem is not None:
            raise problem
        return value
    if e.cancel is not None and e.cancel.is_set():
        raise Cancelled
    raise DeadlineExceeded(f"no response within {e.seconds:.3g}s")


async def _wires(start: Callable[[Signal], Wires[Any]], abort: Signal) -> tuple[Any, BaseException | None]:
    """What came of requests. An error is no exception of the task: one of a program could end the loop."""
    try:
        wires = start(abort)
    except BaseException as err:
        return None, err
    value: Any = None
    problem: BaseException | None = None
    while True:
        try:
            e = wires.send(value) if problem is None else wires.throw(problem)
        except StopIteration as end:
            return end.value, None
        except BaseException as err:
            return None, err
        value, problem = None, None
        try:
            value = await in_thread(e.do) if isinstance(e, Blocks) else await e.client._once_async(e)
        except BaseException as err:
            problem = err


def _wake() -> tuple[asyncio.Future[None], Callable[[], None], Callable[[], None]]:
    """A future of this loop, what sets it, and what sets it in any thread."""
    loop = asyncio.get_running_loop()
    over = loop.create_future()

    def settle() -> None:
        if not over.done():
            over.set_result(None)

    def wake() -> None:
        loop.call_soon_threadsafe(settle)

    return over, settle, wake


async def awaited(clock: Clock, make: Callable[[Signal], Steps[T]], give_up: Callable[[T], object]) -> T:
    """Carry steps out for a task of the program. If that is cancelled the signal is set, and give_up gets what the steps return all the same."""
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

    start(clock, make(cancel), done)
    try:
        await ended
    except (asyncio.CancelledError, GeneratorExit):
        from .errors import ClosedError

        cancel.set(ClosedError("the acquire was cancelled"))
        leave()
        raise
    value, problem = box[0]
    if problem is not None:
        raise problem
    return value  # type: ignore[return-value]
