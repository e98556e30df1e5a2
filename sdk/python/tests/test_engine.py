"""Many locks at once: threads, requests, and renewals that do not wait for each other. And the wire, as the event loop of the client speaks it."""

from __future__ import annotations

import asyncio
import json
import threading
import unittest
from collections import Counter
from collections.abc import Callable
from typing import Any
from unittest import mock

import leasehold
from leasehold import _steps, locks
from leasehold._http import Headers, Response
from leasehold._time import Moment, Signal
from leasehold._transport import HTTPTransport, Request
from leasehold.locks import _Events, _Queues, _Wait

import test_client
from test_locks import Program
from virtual import STUCK, VirtualClock, no_threads

MOST_THREADS = 8
MANY = 1000


class Server:
    """Grants locks to all who ask, behind both transports of a client."""

    def __init__(self) -> None:
        self.mutex = threading.Lock()
        self.counts: Counter[tuple[str, str]] = Counter()  # requests by key and command
        self.token = 0
        self.silent: set[str] = set()  # the keys whose renewals get no response
        self.refused = ""  # the key that is held by another
        self.sending: dict[object, int] = {}  # threads without a response
        self.left = 0  # of requests that were given up without a response

    def respond(self, path: str, payload: bytes | None) -> Response:
        *_, key, command = path.split("/")
        r = json.loads(payload or b"{}")
        headers = Headers()
        headers["Content-Type"] = "application/json"
        if r.get("give_up"):
            return Response(204, "", headers, b"")
        with self.mutex:
            self.counts[key, command] += 1
            if command == "acquire":
                self.token += 1
            token = self.token if command == "acquire" else r["fencing_token"]
        if command == "acquire" and key == self.refused:
            headers = Headers()
            headers["Content-Type"] = "application/problem+json"
            return Response(409, "", headers, b'{"code": "LOCK_HELD", "title": "held", "status": 409}')
        ttl = r.get("ttl_seconds", 0)
        body = {
            "tenant_id": "default", "lock_key": key, "lease_id": "l", "owner_id": r["owner_id"], "fencing_token": token, "metadata": {},
            "state": "RELEASED" if command == "release" else "ACTIVE", "expires_at": "2030-01-01T00:00:30.000Z", "remaining_ms": ttl * 1000,
            "ttl_seconds": ttl, "replayed": False,
        }
        return Response(200, "OK", headers, json.dumps(body).encode())

    def patched(self) -> Any:
        """The transport, without a network."""
        server = self

        def send(transport: HTTPTransport, request: Request, deadline: float) -> Response:
            *_, key, command = request.url.split("/")
            if key in server.silent and command == "renew":
                gone = threading.Event()
                request.abort.subscribe(gone.set)
                me = threading.get_ident()
                server.sending[me] = 0
                gone.wait(STUCK)
                server.sending.pop(me, None)
                server.left += 1
                raise leasehold.NoResponseError("no")
            return server.respond(request.url, request.body)

        return mock.patch.multiple("leasehold._transport.HTTPTransport", send=send)

    def sent(self, command: str) -> int:
        with self.mutex:
            return sum(n for (_, c), n in self.counts.items() if c == command)


def threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith("leasehold") and t.name != "leasehold program"]


class Many(unittest.TestCase):
    def setUp(self) -> None:
        self.clock, self.server = VirtualClock(), Server()
        self.server.sending = self.clock._sending
        patch = self.server.patched()
        patch.start()
        self.addCleanup(patch.stop)
        self.client = leasehold.Client("http://127.0.0.1:1", clock=self.clock)
        self.lost: list[str] = []

        def observe(e: leasehold.Event) -> None:
            if e.what == "Lost":
                self.lost.append(e.key)

        self.locks = self.client.locks(owner="me", ttl=30, observe=observe)

    def tearDown(self) -> None:
        for lock in list(self.locks._held):
            lock._give_up()
        self.clock.settle()

    def hold(self, count: int = MANY) -> list[leasehold.Lock]:
        p = Program(lambda: [self.locks.hold(f"k{n}").acquire() for n in range(count)])
        while p.is_alive():
            self.clock.settle()
        assert p.error is None, p.error
        held: list[leasehold.Lock] = p.value
        return held

    def few_threads(self) -> None:
        """The machine may be slow: no more threads than there are while requests get responses."""
        patch = mock.patch.object(_steps, "PATIENCE", STUCK)
        patch.start()
        self.addCleanup(patch.stop)

    def test_many_locks_are_renewed_without_a_thread_for_each(self) -> None:
        self.few_threads()
        before = len(threads())
        held = self.hold()
        self.assertEqual(self.server.sent("acquire"), MANY)
        self.assertLessEqual(len(threads()) - before, MOST_THREADS, threads())
        for times in (1, 2):
            self.clock.run(10)
            self.assertEqual(self.server.sent("renew"), times * MANY)
            self.assertLessEqual(len(threads()) - before, MOST_THREADS, threads())
        self.assertEqual(self.lost, [])
        self.assertTrue(all(lock.owned() for lock in held))

    def test_renewals_without_a_response_delay_no_other(self) -> None:
        """Of more locks than there are threads."""
        held = self.hold(100)
        silent = [f"k{n}" for n in range(50, 50 + 3 * _steps.WORKERS)]
        self.server.silent = set(silent)
        self.clock.run(26)
        self.assertEqual(self.lost, [])
        self.assertEqual({n for (_, c), n in self.server.counts.items() if c == "renew"}, {2})
        self.clock.run(4)  # a margin of 3 s before its end
        self.assertEqual(sorted(self.lost), silent)
        self.assertTrue(held[50].lost.is_set())
        self.clock.run(60)
        self.assertEqual(sorted(self.lost), silent)
        self.assertGreater(self.server.left, 0)

    def test_many_tasks_hold_locks_without_a_thread_for_each(self) -> None:
        """Each its own; the requests are one for each acquire and one for each release."""
        self.few_threads()
        before, most = len(threads()), 0

        async def use(n: int) -> None:
            nonlocal most
            async with self.locks.hold(f"k{n}") as lock:
                lock.check()
                most = max(most, len(threads()))

        async def main() -> None:
            await asyncio.gather(*(use(n) for n in range(MANY)))

        self.run_task(main)
        self.assertLessEqual(most - before, MOST_THREADS)
        self.assertEqual((self.server.sent("acquire"), self.server.sent("renew"), self.server.sent("release")), (MANY, 0, MANY))

    def test_many_tasks_wait_for_what_another_client_holds(self) -> None:
        """One of them asks, over and over; a task that is cancelled is told to the server if it asked."""
        self.few_threads()
        self.server.refused = "k"
        before = len(threads())
        ended: list[str] = []

        async def main() -> None:
            tasks = [asyncio.ensure_future(self.use("k")) for _ in range(MANY)]
            while self.server.sent("acquire") < 2:
                await asyncio.sleep(0)
            self.assertLessEqual(len(threads()) - before, MOST_THREADS, threads())
            for task in tasks:
                task.cancel()
            got = await asyncio.gather(*tasks, return_exceptions=True)
            ended.extend(type(e).__name__ for e in got)

        self.run_task(main)
        self.assertEqual(ended, ["CancelledError"] * MANY)
        asked = self.server.sent("acquire")
        self.clock.run(30)
        self.assertEqual(self.server.sent("acquire"), asked)
        self.server.refused = ""
        p = Program(lambda: self.locks.hold("k", wait=0).acquire())  # no one of them has its place any more
        self.clock.run(1)
        self.assertIsNone(p.error)

    async def use(self, key: str) -> None:
        async with self.locks.hold(key):
            self.fail("another holds it")

    def run_task(self, main: Any) -> None:
        def do() -> None:
            loop = self.clock.loop()
            try:
                loop.run_until_complete(main())
            finally:
                loop.close()

        p = Program(do)
        p.join(STUCK)
        self.assertFalse(p.is_alive())
        self.assertIsNone(p.error)


class Requests(unittest.TestCase):
    """An uncontended lock costs one request for its acquire and one for its release, over connections that are used again."""

    def lock_server(self) -> tuple[test_client.Wire, leasehold.Locks]:
        lease = json.loads(test_client.LEASE)
        answers = [test_client.http(json.dumps({**lease, "state": s}).encode()) for _ in range(3) for s in ("ACTIVE", "RELEASED")]
        w = test_client.Wire(*answers, keep=True)
        self.addCleanup(w.close)
        return w, leasehold.Client(w.url).locks("acme", owner="me")

    def test_blocking(self) -> None:
        w, locks = self.lock_server()
        for _ in range(3):
            with locks.hold("k") as lock:
                lock.check()
        self.assertEqual(len(w.sent), 6)
        self.assertEqual(w.connections, 1)

    def test_asyncio(self) -> None:
        w, locks = self.lock_server()

        async def use() -> None:
            async with locks.hold("k") as lock:
                lock.check()

        for _ in range(3):  # each in an event loop of its own
            asyncio.run(use())
        self.assertEqual(len(w.sent), 6)
        self.assertEqual(w.connections, 1)


class Lines(unittest.TestCase):
    """The steps of threads that wait, without a thread."""

    def setUp(self) -> None:
        clock = VirtualClock()
        self.queues, self.waiting = _Queues(clock), _Wait(clock, Signal(), None)

    def test_in_the_order_in_which_they_came(self) -> None:
        turns = [Signal() for _ in range(4)]
        self.assertTrue(self.queues.enter_free("k", turns[0]))
        steps = [self.queues.enter(self.waiting, "k", t) for t in turns[1:]]
        for s in steps:
            self.assertIsInstance(next(s), _steps.Sleep)
        self.queues.leave("k", turns[2])
        self.assertEqual([t.is_set() for t in turns[1:]], [False, False, False])
        self.queues.leave("k", turns[0])
        self.assertEqual([t.is_set() for t in turns[1:]], [True, False, False])
        with self.assertRaises(StopIteration) as end:
            next(steps[0])
        self.assertTrue(end.exception.value)
        self.queues.leave("k", turns[1])
        self.assertTrue(turns[3].is_set())
        self.queues.leave("k", turns[3])
        self.assertEqual(self.queues._lines, {})

    def test_those_behind_one_that_was_interrupted_before_it_left_have_their_turn_all_the_same(self) -> None:
        first, second, third = Signal(), Signal(), Signal()
        self.assertTrue(self.queues.enter_free("k", first))
        gone, stays = self.queues.enter(self.waiting, "k", second), self.queues.enter(self.waiting, "k", third)
        next(gone)
        sleep = next(stays)
        assert isinstance(sleep, _steps.Sleep) and sleep.until is not None
        self.assertLess(sleep.until.monotonic, 1010.0)  # by itself: no one may wake it
        gone.close()
        del first, second, gone
        with self.assertRaises(StopIteration) as end:
            next(stays)
        self.assertTrue(end.exception.value)
        del third, stays, sleep, end
        self.assertTrue(self.queues.enter_free("k", Signal()))


class Abandoned(unittest.TestCase):
    def test_what_is_obtained_for_a_cancelled_task_is_given_up_once(self) -> None:
        """Though its steps did not see the signal: they had what they asked for."""
        clock, go_on = VirtualClock(), Signal()
        given_up: list[str] = []

        def steps(cancel: Signal) -> _steps.Steps[str]:
            yield _steps.Sleep(None, (go_on,))
            return "a lock"

        async def main() -> None:
            task = asyncio.ensure_future(_steps.awaited(clock, steps, given_up.append))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        asyncio.run(main())
        self.assertEqual(given_up, [])
        go_on.set()
        clock.settle()
        self.assertEqual(given_up, ["a lock"])


class Timers(unittest.TestCase):
    def test_by_either_clock(self) -> None:
        """In the order of their moments; what was ended is not called; there is no thread when there is nothing to wait for."""
        clock = VirtualClock()
        timers, called = _steps._engine.timers_of(clock), list[str]()
        now = clock.now()
        for name, moment in (
            ("second", now.plus(2)), ("first", now.plus(1)), ("wall", Moment(now.monotonic + 9, now.wall + 5)),
            ("monotonic", Moment(now.monotonic + 3, float("inf"))), ("never", Moment(now.monotonic + 2.5, now.wall + 2.5)),
        ):
            end = timers.at(moment, lambda name=name: called.append(name))  # type: ignore[misc]
            if name == "never":
                end()
        clock.run(1.5)
        self.assertEqual(called, ["first"])
        clock.run(2)
        self.assertEqual(called, ["first", "second", "monotonic"])
        clock.move(0.0, 1.6)  # the machine slept
        clock.run(1)
        self.assertEqual(called, ["first", "second", "monotonic", "wall"])
        clock.run(10)
        self.assertIsNone(timers.thread)

    def test_a_thread_that_cannot_be_started_at_once(self) -> None:
        """Each call tries again, and so does the event loop: one attempt at a time."""
        for by_the_loop in (False, True):
            with self.subTest(by_the_loop=by_the_loop):
                clock, called = VirtualClock(), list[str]()
                timers = _steps._engine.timers_of(clock)
                with no_threads(_steps, "times") as again:
                    timers.at(clock.now().plus(1), lambda: called.append("first"))
                    timers.at(clock.now().plus(2), lambda: called.append("second"))
                    self.assertEqual(len(again), 1)
                    again.pop()()
                    self.assertEqual(len(again), 1)
                self.assertIsNone(timers.thread)
                if by_the_loop:
                    again.pop()()
                else:
                    timers.at(clock.now().plus(3), lambda: None)
                self.assertIsNotNone(timers.thread)
                clock.run(3)
                self.assertEqual(called, ["first", "second"])

    def test_a_function_that_raises_ends_no_other(self) -> None:
        clock, called = VirtualClock(), list[str]()
        timers, now = _steps._engine.timers_of(clock), clock.now()

        def wrong() -> None:
            raise KeyError("mine")

        with mock.patch("sys.excepthook") as shown:
            for call in (wrong, lambda: called.append("of the same time"), wrong):
                timers.at(now.plus(1), call)
            timers.at(now.plus(2), lambda: called.append("later"))
            clock.run(3)
        self.assertEqual(called, ["of the same time", "later"])
        self.assertEqual([c.args[0] for c in shown.call_args_list], [KeyError, KeyError])

    def test_what_is_due_waits_for_the_event_loop(self) -> None:
        """If its thread cannot be started: in the one of the times it would delay all others."""
        clock, at = VirtualClock(), list[str]()

        def steps() -> _steps.Steps[None]:
            at.append(threading.current_thread().name)
            yield from ()

        with mock.patch.object(_steps._engine, "submit", lambda job: False):
            _steps.later(clock, clock.now().plus(1), steps())
            clock.run(1.5)
        self.assertEqual(at, [])
        clock.run(1)
        self.assertEqual(at, ["leasehold requests"])


class Refused(unittest.TestCase):
    """What is done in a thread of its own is not done in the one of the event loop if no thread can be started."""

    def test_events(self) -> None:
        """They are delivered in their order when a thread can be started: by the event loop, an event or the end."""
        def emit(events: _Events) -> None:
            events.emit("Released", "k")

        def wait(events: _Events) -> None:
            events.flush(STUCK)

        for name, more in (("by the loop", None), ("by an event", emit), ("by the end", wait)):
            with self.subTest(name):
                told: list[tuple[str, str]] = []
                events = _Events(lambda e: told.append((e.what, threading.current_thread().name)))
                with no_threads(locks, "events") as again:
                    events.emit("Acquired", "k")
                    events.emit("Lost", "k")
                    self.assertEqual((told, len(again)), ([], 1))
                again[0]() if more is None else more(events)
                events.flush(STUCK)
                self.assertEqual([what for what, _ in told][:2], ["Acquired", "Lost"])
                self.assertEqual({at for _, at in told}, {"leasehold events"})


if __name__ == "__main__":
    unittest.main()
