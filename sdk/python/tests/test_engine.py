"""Many locks at once: threads, requests, and renewals that do not wait for each other. And the wire, as the event loop of the client speaks it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import json
import select
import threading
import unittest
import warnings
from collections import Counter
from collections.abc import Callable
from email.message import Message
from typing import Any, cast
from unittest import mock

import leasehold
from leasehold import _steps, _transport, locks
from leasehold._call import spawn
from leasehold._http import Response
from leasehold._time import Moment, Signal
from leasehold._transport import MAX_RESPONSE, AsyncTransport, Transport
from leasehold.locks import _Events, _Queues, _Wait

import test_client
from fork import in_child
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
        self.silent = ""  # the key whose renewals get no response
        self.refused = ""  # the key that is held by another
        self.left = 0  # of requests that were given up without a response

    def respond(self, path: str, payload: bytes | None) -> Response:
        *_, key, command = path.split("/")
        r = json.loads(payload or b"{}")
        headers = Message()
        headers["Content-Type"] = "application/json"
        if r.get("give_up"):
            return Response(204, "", headers, b"")
        with self.mutex:
            self.counts[key, command] += 1
            if command == "acquire":
                self.token += 1
            token = self.token if command == "acquire" else r["fencing_token"]
        if command == "acquire" and key == self.refused:
            headers.replace_header("Content-Type", "application/problem+json")
            return Response(409, "", headers, b'{"code": "LOCK_HELD", "title": "held", "status": 409}')
        ttl = r.get("ttl_seconds", 0)
        body = {
            "tenant_id": "default", "lock_key": key, "lease_id": "l", "owner_id": r["owner_id"], "fencing_token": token, "metadata": {},
            "state": "RELEASED" if command == "release" else "ACTIVE", "expires_at": "2030-01-01T00:00:30.000Z", "remaining_ms": ttl * 1000,
            "ttl_seconds": ttl, "replayed": False,
        }
        return Response(200, "OK", headers, json.dumps(body).encode())

    def patched(self) -> Any:
        """Both transports, without a network."""
        server = self

        def send(transport: Transport, method: str, path: str, payload: bytes | None, **_: Any) -> Response:
            return server.respond(path, payload)

        async def send_async(transport: AsyncTransport, method: str, path: str, payload: bytes | None, **_: Any) -> Response:
            await asyncio.sleep(0)
            if server.silent and path.endswith(f"/{server.silent}/renew"):
                try:
                    await asyncio.get_running_loop().create_future()
                finally:
                    server.left += 1
            return server.respond(path, payload)

        return mock.patch.multiple("leasehold._transport.Transport", send=send), mock.patch.multiple(
            "leasehold._transport.AsyncTransport", send=send_async)

    def sent(self, command: str) -> int:
        with self.mutex:
            return sum(n for (_, c), n in self.counts.items() if c == command)


def threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith("leasehold") and t.name != "leasehold program"]


class Many(unittest.TestCase):
    def setUp(self) -> None:
        self.clock, self.server = VirtualClock(), Server()
        for patch in self.server.patched():
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

    def test_many_locks_are_renewed_without_a_thread_for_each(self) -> None:
        before = len(threads())
        self.hold()
        self.assertEqual(self.server.sent("acquire"), MANY)
        self.assertLessEqual(len(threads()) - before, MOST_THREADS, threads())
        for times in (1, 2):
            self.clock.run(10)
            self.assertEqual(self.server.sent("renew"), times * MANY)
            self.assertLessEqual(len(threads()) - before, MOST_THREADS, threads())
        self.assertEqual(self.lost, [])

    def test_a_renewal_without_a_response_delays_no_other(self) -> None:
        held = self.hold(100)
        self.server.silent = "k50"
        self.clock.run(26)
        self.assertEqual(self.lost, [])
        self.assertEqual({n for (_, c), n in self.server.counts.items() if c == "renew"}, {2})
        self.clock.run(4)  # a margin of 3 s before its end
        self.assertEqual(self.lost, ["k50"])
        self.assertTrue(held[50].lost.is_set())
        self.clock.run(60)
        self.assertEqual(self.lost, ["k50"])
        self.assertGreater(self.server.left, 0)

    def test_many_tasks_hold_locks_without_a_thread_for_each(self) -> None:
        """Each its own; the requests are one for each acquire and one for each release."""
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


class OverTheLoop(test_client.OverTheWire):
    """What goes over the wire is the same on the event loop of the client, and what is made of it."""

    def setUp(self) -> None:
        def once(
            client: leasehold.Client, method: str, path: str, body: Any, *, seconds: float, abort: Signal | None = None, most: int = MAX_RESPONSE,
        ) -> Response:
            loop = _steps._engine.loop()
            assert loop is not None
            wire = _steps.Wire(client, method, path, body, seconds, abort, most)
            got = asyncio.run_coroutine_threadsafe(client._once_async(wire), loop)
            if abort is not None:
                abort.subscribe(lambda: void(got.cancel()))
            try:
                return got.result()
            except concurrent.futures.CancelledError:
                raise leasehold.TransportError("it was given up") from None

        patch = mock.patch.object(leasehold.Client, "once", once)
        patch.start()
        self.addCleanup(patch.stop)

    def test_a_child_of_a_fork_does_not_use_connections_of_its_parent(self) -> None:
        w = self.wire(*[test_client.http(test_client.LEASE)] * 3, keep=True)
        client = leasehold.Client(w.url, tries=1)

        def acquire() -> list[str]:
            client.lock_api("acme").acquire("k", {"owner_id": "me", "request_id": "r", "ttl_seconds": 30})
            return [str(len(client._streams._open))]

        self.assertEqual(acquire(), ["1"])
        self.assertEqual(in_child(acquire), ["1"])
        self.assertEqual(w.connections, 2)
        acquire()
        self.assertEqual(w.connections, 2)

    def readable(self, client: leasehold.Client) -> None:
        """Wait until something has come over the idle connection. The loop may have taken it already."""
        for connection, _ in client._streams._idle:
            while connection.usable():
                select.select([connection.sock], [], [], 0.01)


def void(_: object) -> None:
    pass


class Lines(unittest.TestCase):
    def test_a_turn_that_comes_with_an_interrupt_is_passed_on(self) -> None:
        """The steps of a thread that waits, without a thread."""
        clock = VirtualClock()
        queues, waiting = _Queues(clock), _Wait(clock, Signal(), None)
        leave = queues.enter_free("k")
        assert leave is not None
        steps = queues.enter(waiting, "k")
        self.assertIsInstance(next(steps), _steps.Sleep)
        self.assertIsNone(queues.enter_free("k"))
        leave()  # it is the turn of the other, which is interrupted before it knows
        with self.assertRaises(KeyboardInterrupt):
            steps.throw(KeyboardInterrupt())
        self.assertIsNotNone(queues.enter_free("k"))


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

        with mock.patch.object(_steps._engine, "loop", lambda: None):
            _steps.later(clock, clock.now().plus(1), steps())
            clock.run(1.5)
        self.assertEqual(at, [])
        clock.run(1)
        self.assertEqual(at, ["leasehold requests"])


class Refused(unittest.TestCase):
    """What is done in a thread of its own is not done in the one of the event loop if no thread can be started."""

    def test_a_function_of_the_program(self) -> None:
        real, asked = spawn, list[str]()

        def second(name: str, do: Callable[[], None]) -> threading.Thread | None:
            asked.append(name)
            return None if len(asked) == 1 else real(name, do)

        with mock.patch.object(_transport, "spawn", second), mock.patch.object(_transport, "LOOK_AGAIN", 0):
            got = asyncio.run(_transport.in_thread(lambda: threading.current_thread().name))
        self.assertEqual((got, asked), ("leasehold request", ["request"] * 2))

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


class Collected(unittest.TestCase):
    def test_no_finalizer_ends_a_connection(self) -> None:
        """A client is collected in another thread than that of the loop, which ends its idle connections."""
        times, each = 20, 3
        w = test_client.Wire(*[test_client.http(test_client.LEASE)] * (times * each), keep=True)
        self.addCleanup(w.close)
        loop = cast(asyncio.AbstractEventLoop, _steps._engine.loop())
        wrong: list[object] = []
        before = set(_transport._opened.connections)

        async def requests(client: leasehold.Client) -> None:
            wire = _steps.Wire(client, "GET", "/", None, STUCK, None, MAX_RESPONSE)
            await asyncio.gather(*(client._once_async(wire) for _ in range(each)))

        def turn() -> None:
            asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result(STUCK)

        def cycle() -> None:
            client = leasehold.Client(w.url)
            asyncio.run_coroutine_threadsafe(requests(client), loop).result(STUCK)
            self.assertEqual(len(client._streams._idle), each)
            setattr(client, "itself", client)

        gc.collect()
        gc.disable()  # in this thread alone
        loop.set_debug(True)  # what is done to it in another thread raises
        loop.set_exception_handler(lambda _, context: wrong.append(context))
        try:
            with warnings.catch_warnings(record=True) as warned, mock.patch("sys.unraisablehook", wrong.append):
                warnings.simplefilter("always", ResourceWarning)
                for _ in range(times):
                    cycle()
                    turn()
                    gc.collect()
                    turn()
                    turn()
                self.assertEqual(_transport._opened.connections - before, set())
        finally:
            gc.enable()
            loop.set_debug(False)
            loop.set_exception_handler(None)
        self.assertEqual(w.connections, times * each)
        self.assertEqual((wrong, [str(e.message) for e in warned]), ([], []))


if __name__ == "__main__":
    unittest.main()
