"""Requests have an end, by the server's time, and what is not wanted any more is given up: by a clock that the test
moves, and over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import http.server
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import unittest
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import leasehold
from leasehold import _call, _end, codes
from leasehold._time import Signal
from leasehold.errors import format_time, parse_time
from leasehold.machineids import ConfigurationError
from leasehold.once import run, run_async

from fork import in_child
from test_locks import Fake, Program, but, fails
from test_once import Memory, Stored
from virtual import STUCK, Shifted, VirtualClock

SOURCE = str(Path(__file__).resolve().parent.parent / "src")
HOUR = 3600.0
LOST = leasehold.NoResponseError("no")

Answer = tuple[int, "dict[str, Any] | None"]


class Judge:
    """A server that judges the ends of requests by its own time, and grants everything else. With a function in said
    it says that instead."""

    def __init__(self, date: bool = False) -> None:
        self.date, self.kind = date, ""
        self.bodies: list[tuple[str, dict[str, Any]]] = []
        self.sizes: list[int] = []
        self.times: list[datetime] = []  # when they came
        self.came = threading.Condition()
        self.said: Callable[[str, dict[str, Any]], tuple[int, dict[str, Any] | None] | None] = lambda path, body: None
        judge = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # head and body are sent together

            def log_message(self, *_: Any) -> None:
                pass

            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers["Content-Length"]))
                body = json.loads(raw)
                with judge.came:
                    judge.bodies.append((self.path, body))
                    judge.sizes.append(len(raw))
                    judge.times.append(datetime.now(timezone.utc))
                    judge.came.notify_all()
                status, answer = judge.said(self.path, body) or judge.answer(self.path, body)
                try:
                    self.send_response_only(status)
                    if judge.date:
                        self.send_header("Date", format_datetime(datetime.now(timezone.utc), usegmt=True))
                    content = b"" if answer is None else json.dumps(answer).encode()
                    if status != 204:
                        kind = "application/json" if status == 200 else "application/problem+json"
                        self.send_header("Content-Type", judge.kind or kind)
                        self.send_header("Content-Length", str(len(content)))
                    self.end_headers()
                    self.wfile.write(content)
                except OSError:
                    pass  # the client hung up

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: Any) -> None:
                pass  # the client hung up

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any] | None]:
        if body.get("give_up"):
            return 204, None
        name = "notAfter" if path.startswith("/v1/machine-ids") else "not_after"
        now = datetime.now(timezone.utc)
        end = parse_time(body[name]) if name in body else now
        assert end is not None
        if not now <= end <= now + timedelta(hours=1):
            code, status = ("TOO_LATE", 409) if end < now else ("INVALID_ARGUMENT", 400)
            return status, {"code": code, "retryable": False, "field": name, "store_time": format_time(now)}
        parts = path.split("/")
        lease = {
            "tenant_id": parts[3], "lease_id": "l", "owner_id": body.get("owner_id"), "fencing_token": 7,
            "state": "ACTIVE", "replayed": False,
            "expires_at": format_time(now), "remaining_ms": 30_000, "ttl_seconds": 30, "metadata": {},
            "mode": body.get("mode", "exclusive"),
        }
        if body.get("mode") == "permits":
            lease["permit"] = 1
        if path.startswith("/v1/machine-ids"):
            at = int(now.timestamp() * 1000)
            return 200, {"leases": [{
                "id": 5, "created": at, "expired": at + 600_000, "secret": "s", "customEpoch": 0, "bitReserve": 1,
                "bitTs": 41, "bitId": 14, "bitSeq": 8}]}
        if parts[-1] in ("begin", "lock"):
            named = {"run_id": parts[-2]} if parts[-1] == "begin" else {"analysis_id": parts[-2]}
            return 200, {**named, "acquired": True, "owner_id": body["owner_id"], "fencing_token": 7,
                "remaining_ms": 30_000}
        if parts[-1] == "finish":
            return 200, {"run_id": parts[-2], "analysis_id": parts[-2], "status": body["status"]}
        if "lock_keys" in body:
            return 200, {**lease, "leases": [{"lock_key": k, "fencing_token": 7} for k in sorted(body["lock_keys"])]}
        if "leases" in body:
            return 200, {**lease, "state": "RELEASED", "leases": body["leases"]}
        return 200, {**lease, "lock_key": parts[-2], "state": "RELEASED" if parts[-1] == "release" else "ACTIVE"}

    def until(self, count: int, path: str = "") -> list[dict[str, Any]]:
        """The bodies of the requests to a path, when so many have come."""
        def found() -> list[dict[str, Any]]:
            return [body for to, body in self.bodies if path in to]

        with self.came:
            assert self.came.wait_for(lambda: len(found()) >= count, STUCK), (count, self.bodies)
            return found()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def granting(client: leasehold.Client) -> dict[str, tuple[str, Callable[[], object]]]:
    """Each way to ask for something that is granted, and the end of the path of its request."""
    def hold() -> None:
        with client.locks(owner="me").hold("k"):
            pass

    def hold_in(mode: dict[str, Any]) -> None:
        with client.locks(owner="me").hold("k", **mode):
            pass

    def hold_all() -> None:
        with client.locks(owner="me").hold_all(["a", "b"]):
            pass

    async def hold_async() -> None:
        async with client.locks(owner="me").hold("k"):
            pass

    async def work(lock: Any) -> str:
        return "done"

    def done(outcome: Any) -> None:
        assert outcome.status == "ready", outcome

    api = client.lock_api("t")
    modes: dict[str, dict[str, Any]] = {
        "shared": {"shared": True}, "permits": {"permits": 2}, "in line": {"fair": True},
        "that replaces": {"replace": True}, "with a delay": {"lock_delay": 5}}
    return {
        "a lock": ("/acquire", hold),
        "a lock, in a task": ("/acquire", lambda: asyncio.run(hold_async())),
        "several locks": ("/acquire", hold_all),
        "a rate": ("/acquire", lambda: client.locks(owner="me").take("k", limit=1, window=1)),
        "a lock, by one request": (
            "/acquire", lambda: api.acquire("k", {"owner_id": "me", "request_id": "r", "ttl_seconds": 30})),
        "several locks, by one request": (
            "/acquire",
            lambda: api.acquire_set({"lock_keys": ["a"], "owner_id": "me", "request_id": "r", "ttl_seconds": 30})),
        "a run": ("/begin", lambda: done(run(client.runs(), "job", lambda _: "done", owner="me"))),
        "a run, in a task": ("/begin", lambda: done(asyncio.run(run_async(client.runs(), "job", work, owner="me")))),
        "an analysis": ("/lock", lambda: done(run(client.analyses(), "job", lambda _: "done", owner="me"))),
        "a machine ID": ("/lease", lambda: client.machine_ids().acquire()),
        **{f"a lock {name}": ("/acquire", partial(hold_in, s)) for name, s in modes.items()},
    }


class Ends(unittest.TestCase):
    def judge(self, date: bool = False) -> Judge:
        j = Judge(date)
        self.addCleanup(j.close)
        return j

    def test_a_clock_that_is_wrong_costs_one_request_once(self) -> None:
        """Whatever is asked for; a clock that is right costs none, and 60 bytes at most."""
        for by in (0.0, HOUR, -HOUR, 3 * HOUR, -300 * HOUR):
            for name in granting(leasehold.Client("http://127.0.0.1:1")):
                with self.subTest(name, by=by):
                    j = self.judge()
                    path, ask = granting(leasehold.Client(j.url, clock=Shifted(by)))[name]
                    begin = datetime.now(timezone.utc)
                    ask()
                    took = datetime.now(timezone.utc) - begin
                    first = j.until(1, path)
                    self.assertEqual(len(first), 1 if by == 0 else 2)
                    self.assertEqual(len({b.get("request_id") for b in first}), 1)
                    ask()
                    later = j.until(1, path)[len(first):]
                    self.assertEqual(len(later), 1)
                    self.assertNotIn("give_up", str(j.bodies))
                    n = next(i for i, (_, body) in enumerate(j.bodies) if body is later[0])
                    end = parse_time(later[0].pop("not_after" if path != "/lease" else "notAfter"))
                    assert end is not None
                    self.assertLessEqual(end - j.times[n], timedelta(seconds=17) + (took if by else timedelta()))
                    self.assertGreaterEqual(end, begin)
                    self.assertLessEqual(j.sizes[n] - len(json.dumps(later[0], separators=(",", ":"))), 60)

    def test_a_clock_that_was_set_costs_one_request_more(self) -> None:
        clock = Shifted(0)
        j = self.judge()
        _, ask = granting(leasehold.Client(j.url, clock=clock))["a machine ID"]
        for by, want in ((0.0, 1), (HOUR, 2), (HOUR, 1), (0.0, 2), (-HOUR, 2), (-HOUR, 1)):
            clock.by, before = by, len(j.bodies)
            ask()
            self.assertEqual(len(j.bodies) - before, want)

    def test_a_second_refusal_of_the_end_is_the_callers(self) -> None:
        """It has the store's time, and nothing is left to be given up."""
        for name in granting(leasehold.Client("http://127.0.0.1:1")):
            for code, status, error in (
                ("TOO_LATE", 409, codes.TooLateError), ("INVALID_ARGUMENT", 400, codes.InvalidArgumentError),
            ):
                with self.subTest(name, code=code):
                    j = self.judge()
                    j.said = lambda path, body, c=code, s=status: (  # type: ignore[misc]
                        s, {"code": c, "field": "not_after", "store_time": "2030-01-01T00:00:09.214Z"})
                    path, ask = granting(leasehold.Client(j.url))[name]
                    with self.assertRaises((error, ConfigurationError)) as raised:
                        ask()
                    err: BaseException | None = raised.exception
                    if isinstance(err, ConfigurationError):
                        err = err.__cause__
                    assert isinstance(err, error)
                    self.assertEqual(err.store_time, datetime(2030, 1, 1, 0, 0, 9, 214000, timezone.utc))
                    self.assertEqual(len(j.until(2, path)), 2)
                    self.assertEqual(len(j.bodies), 2)

    def test_an_end_that_cannot_be_read_is_not_sent_again(self) -> None:
        j = self.judge()
        j.said = lambda path, body: (400, {"code": "INVALID_ARGUMENT", "field": "not_after"})
        with self.assertRaises(codes.InvalidArgumentError) as err:
            leasehold.Client(j.url).lock_api().acquire("k", {"owner_id": "me", "request_id": "r", "ttl_seconds": 30})
        self.assertIsNone(err.exception.store_time)
        self.assertEqual(len(j.bodies), 1)

    def test_an_end_of_the_caller_is_the_callers(self) -> None:
        """It is sent as it is, and the time is learned all the same."""
        j = self.judge()
        api = leasehold.Client(j.url, clock=Shifted(-HOUR)).lock_api("t")
        with self.assertRaises(codes.TooLateError):
            api.acquire("k",
                {"owner_id": "me", "request_id": "r", "ttl_seconds": 30, "not_after": "2020-01-01T00:00:00+01:00"})
        self.assertEqual(j.bodies[0][1]["not_after"], "2020-01-01T00:00:00+01:00")
        api.acquire("k", {"owner_id": "me", "request_id": "r", "ttl_seconds": 30})
        self.assertEqual(len(j.bodies), 2)

    def test_the_date_of_a_response_is_enough(self) -> None:
        """That of the server itself; a proxy before it may have another clock."""
        for kind, want in (("application/problem+json", 1), ("text/html", 2)):
            with self.subTest(kind):
                j = self.judge(date=True)
                client = leasehold.Client(j.url, clock=Shifted(HOUR), tries=1)
                j.kind, j.said = kind, lambda path, body: (503, {"code": "UNAVAILABLE"})
                with self.assertRaises(leasehold.LeaseholdError):
                    client.fences("t").check("r", leasehold.FencedLease("lock/k", 1))
                j.kind, j.said = "", lambda path, body: None
                client.lock_api("t").acquire("k", {"owner_id": "me", "request_id": "r", "ttl_seconds": 30})
                self.assertEqual(len(j.until(1, "/acquire")), want)

    def test_an_end_is_not_after_the_callers_own_time(self) -> None:
        """Nor further away than a server accepts, however long a try may take."""
        j = self.judge()
        request: Any = {"owner_id": "me", "request_id": "r", "ttl_seconds": 30}
        for client, timeout, wait, most in (
            (leasehold.Client(j.url), None, 0, 4), (leasehold.Client(j.url), 1.0, 0, 3),
            (leasehold.Client(j.url), None, 20, 24),
            (leasehold.Client(j.url), 3.0, 20, 5), (leasehold.Client(j.url, timeout=1.0), None, 0, 3),
            (leasehold.Client(j.url, timeout=86_400.0), None, 0, 4),
        ):
            at = datetime.now(timezone.utc)
            request["wait_seconds"] = wait
            client.lock_api("t").acquire("k", request, timeout=timeout)
            end = parse_time(j.bodies[-1][1]["not_after"])
            assert end is not None
            self.assertAlmostEqual((end - at).total_seconds(), most, delta=STUCK)
            self.assertLessEqual(end, datetime.now(timezone.utc) + timedelta(seconds=most))
            self.assertGreater(end, at + timedelta(seconds=most - 1.1))


class Time(unittest.TestCase):
    """What is known of the server's time."""

    def setUp(self) -> None:
        self.clock = VirtualClock()  # 2030-01-01T00:00:00Z
        self.time = _end.ServerTime(self.clock)

    def ahead(self) -> float:
        end = parse_time(self.time.end(0.0))
        assert end is not None
        return round(end.timestamp() - self.clock.wall() - _end.AFTER, 3)

    def test_dates(self) -> None:
        for date, took, want in (
            ("Tue, 01 Jan 2030 00:00:00 GMT", 0.0, 0.0), ("Tue, 01 Jan 2030 00:00:02 GMT", 0.0, 0.0),
            ("Mon, 31 Dec 2029 23:59:57 GMT", 0.0, 0.0),
            ("Tue, 01 Jan 2030 00:00:03 GMT", 0.0, 3.0), ("Mon, 31 Dec 2029 23:59:56 GMT", 0.0, -3.0),
            # It may have been right when it was said.
            ("Mon, 31 Dec 2029 23:00:00 GMT", 0.0, -3599.0), ("Mon, 31 Dec 2029 23:00:00 GMT", 3600.0, 0.0),
            ("Tue, 01 Jan 2030 01:00:00 GMT", 3600.0, 3600.0), ("Tue, 01 Jan 2030 01:00:00 -0000", 0.0, 3600.0),
            ("", 0.0, 0.0), ("soon", 0.0, 0.0), ("Tue, 99 Jan 2030 00:00:05 GMT", 0.0, 0.0),
        ):
            with self.subTest(date, took=took):
                self.time = _end.ServerTime(self.clock)
                self.time.compare(date, took)
                self.assertEqual(self.ahead(), want)

    def test_times_that_cannot_be_written(self) -> None:
        for date in ("Fri, 31 Dec 9999 23:59:59 -2359", "Mon, 01 Jan 0001 00:00:00 +2359"):
            self.time = _end.ServerTime(self.clock)
            self.time.compare(date, 0.0)
            self.assertIsNotNone(parse_time(self.time.end(60.0)), date)

    def test_no_end_is_further_away_than_a_server_accepts(self) -> None:
        for seconds, most in ((60.0, 60.0 + _end.AFTER), (2999.0, 3000.0), (1e9, 3000.0)):
            end = parse_time(self.time.end(seconds))
            assert end is not None
            self.assertAlmostEqual(end.timestamp() - self.clock.wall(), most, 3, str(seconds))

    def test_the_stores_time_comes_first(self) -> None:
        self.time.compare("Tue, 01 Jan 2030 01:00:00 GMT", 0.0)
        self.assertEqual(self.ahead(), HOUR)
        for at, took, want in ((60.0, 0.0, 60.0), (50.0, 5.0, 55.0), (50.0, 20.0, 55.0), (-60.0, 0.0, -60.0)):
            self.time.correct(datetime.fromtimestamp(self.clock.wall() + at, timezone.utc), took)
            self.assertEqual(self.ahead(), want)
            self.time.compare("Tue, 01 Jan 2030 01:00:00 GMT", 0.0)
            self.assertEqual(self.ahead(), want)

    def test_a_child_of_a_fork(self) -> None:
        """It can ask, whatever a thread of the parent did with the time when it was made."""
        self.time.correct(datetime.fromtimestamp(self.clock.wall() + 60, timezone.utc), 0.0)

        def child() -> list[str]:
            self.time.compare("Tue, 01 Jan 2030 02:00:00 GMT", 0.0)
            said = str(self.ahead())
            self.time.correct(datetime.fromtimestamp(self.clock.wall() + 90, timezone.utc), 0.0)
            return [said, str(self.ahead())]

        with self.time._lock:
            said = in_child(child)
        self.assertEqual(said, ["60.0", "90.0"])


def hang(server: Fake, clock: VirtualClock) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """No answer, until the client gives up."""
    def answer(_: dict[str, Any]) -> dict[str, Any]:
        clock.wait(None, server.abort)
        raise LOST

    return answer


HELD = codes.LockHeldError(problem={"retryable": True, "retry_after_ms": 20_000}, status=409)
BUSY = codes.RateLimitedError(problem={"retryable": True, "retry_after_ms": 3000}, status=429)


class GivingUp(unittest.TestCase):
    """A caller that does not want a lock any more, at each time."""

    def setUp(self) -> None:
        self.clock = VirtualClock()
        self.server = Fake(self.clock)
        self.seen: list[leasehold.Event] = []
        self.locks = leasehold.Locks(self.server, owner="me", ttl=30, clock=self.clock, observe=self.seen.append)

    def tearDown(self) -> None:
        self.clock.run(600)

    def sent(self, what: str) -> list[dict[str, Any]]:
        return [r for name, r in self.server.sent if name == what]

    def blocking(self, cancel: Signal, **settings: Any) -> Program:
        return Program(lambda: self.locks.hold("k", **settings)._hold(False, cancel))

    def test_in_each_state(self) -> None:
        """One request says so, if there may be something to be given up, and it is that of the acquire."""
        waits = hang(self.server, self.clock)
        states: dict[str, tuple[list[Any], float, dict[str, Any], int]] = {
            "in its first request": ([waits], 0.0, {}, 1),
            "while it waits at the server": ([fails(HELD), waits], 5.0, {}, 1),
            "while it waits in line at the server": ([fails(HELD), waits], 5.0, {"fair": True}, 1),
            "with a place in line, between two requests": (
                [fails(HELD), fails(HELD), fails(LOST)], 0.05, {"fair": True}, 1),
            "after a lost response": ([fails(LOST)], 0.0, {}, 1),
            "after a lost response and a refusal, while the lost request may still come": (
                [fails(LOST), fails(HELD), fails(HELD)], 1.0, {"poll": 60.0}, 1),
            "after a refusal": ([fails(HELD), fails(HELD)], 1.0, {"poll": 60.0}, 0),
            "after no request reached the server": ([fails(leasehold.NoResponseError("no", sent=False))], 0.0, {}, 0),
            "when it shall replace": ([waits], 0.0, {"replace": True}, 1),
        }
        for name, (answers, seconds, settings, want) in states.items():
            for give_up in ("cancel", "close"):
                with self.subTest(name, give_up=give_up):
                    self.server.sent.clear()
                    self.locks = leasehold.Locks(self.server, owner="me", ttl=30, clock=self.clock)
                    self.server.answers["acquire"] = list(answers)
                    cancel = Signal()
                    p = self.blocking(cancel, **settings)
                    self.clock.run(seconds)
                    self.assertTrue(p.is_alive(), p.error)
                    asked = self.sent("acquire")
                    if give_up == "cancel":
                        cancel.set(leasehold.ClosedError("the test does not want it"))
                    else:
                        Program(lambda: self.locks.close(timeout=1))
                    self.clock.settle()  # no time passes
                    self.assertIsInstance(p.error, leasehold.ClosedError)
                    given_up = self.sent("give_up")
                    self.assertEqual(len(given_up), want)
                    self.clock.run(300)
                    self.assertEqual(self.sent("acquire"), asked)
                    self.assertEqual(self.sent("give_up"), given_up)
                    self.assertEqual(self.sent("release"), [])
                    for r in given_up:
                        self.assertEqual(r, {k: v for k, v in asked[-1].items() if k != "wait_seconds"})

    def test_what_may_have_been_carried_out(self) -> None:
        """A rejection that looked at no lock does not say what became of a lost request, also when that can come no more
        because the machine slept."""
        self.server.answers["acquire"] = [fails(LOST)] + 20 * [fails(BUSY)]
        p = Program(lambda: self.locks.hold("k").acquire())
        self.clock.run(1)
        self.assertEqual(len(self.sent("acquire")), 2)
        self.clock.move(60)
        self.clock.run(1)
        self.assertIsInstance(p.error, codes.RateLimitedError)
        self.assertEqual(len(self.sent("give_up")), 1)

    def test_when_its_wait_is_over(self) -> None:
        self.server.answers["acquire"] = [fails(HELD), hang(self.server, self.clock)]
        p = Program(lambda: self.locks.hold("k", wait=5).acquire())
        self.clock.run(5.1)
        self.assertIsInstance(p.error, leasehold.LockHeldError)
        self.assertEqual(len(self.sent("give_up")), 1)

    def test_a_grant_of_a_rate(self) -> None:
        """A request that comes late would use one up."""
        self.server.answers["acquire"] = [hang(self.server, self.clock)]
        cancel = Signal()
        p = Program(lambda: self.locks._take(self.locks._rate("k", 1, 60, leasehold.FOREVER, 2.0, 0, None), cancel))
        self.clock.settle()
        cancel.set()
        self.clock.settle()
        self.assertIsInstance(p.error, leasehold.ClosedError)
        self.assertEqual(len(self.sent("give_up")), 1)

    def test_several_locks(self) -> None:
        given_up: list[tuple[str, dict[str, Any]]] = []

        def send_set(command: str, r: Any, keys: Any, tokens: Any, seconds: float, abort: Signal) -> dict[str, Any]:
            given_up.append((command, dict(r)))
            if command == "acquire":
                self.clock.wait(None, abort)
                raise LOST
            return {}

        cancel = Signal()
        with mock.patch.object(self.server, "send_set", send_set):
            Program(lambda: self.locks.hold_all(["b", "a"])._hold(False, cancel))
            self.clock.settle()
            cancel.set()
            self.clock.settle()
        self.assertEqual([c for c, _ in given_up], ["acquire", "give_up"])
        self.assertEqual(given_up[0][1], given_up[1][1])
        self.assertEqual(given_up[1][1]["lock_keys"], ["a", "b"])

    def test_a_task(self) -> None:
        self.server.answers["acquire"] = [fails(HELD), hang(self.server, self.clock)]

        async def main() -> str:
            async def use() -> None:
                async with self.locks.hold("k"):
                    self.fail("it is held by another")

            task = asyncio.ensure_future(use())
            while len(self.sent("acquire")) < 2:
                await asyncio.sleep(0)
            task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                return "cancelled"
            return "not"

        def do() -> str:
            loop = self.clock.loop()
            try:
                return loop.run_until_complete(main())
            finally:
                loop.close()

        p = Program(do)
        p.join(STUCK)
        self.clock.settle()
        self.assertEqual(p.value, "cancelled", p.error)
        self.assertEqual(len(self.sent("give_up")), 1)

    def test_an_interrupt(self) -> None:
        """In the thread that waits; and one more while it gives up, so that it is told when the process ends."""
        for twice in (False, True):
            with self.subTest(twice=twice):
                self.server.sent.clear()
                self.server.answers["acquire"] = [hang(self.server, self.clock)]
                interrupts = iter([KeyboardInterrupt])

                def wait(seconds: float | None, *signals: Signal) -> None:
                    if threading.current_thread().name == "leasehold program":
                        while not self.server.sent:  # it is interrupted in its request, not before
                            time.sleep(0.0002)
                        for err in interrupts:
                            raise err
                    VirtualClock.wait(self.clock, seconds, *signals)

                with contextlib.ExitStack() as patches:
                    patches.enter_context(mock.patch.object(self.clock, "wait", wait))
                    if twice:
                        patches.enter_context(mock.patch.object(self.locks, "_give_up", side_effect=KeyboardInterrupt))
                    p = Program(lambda: self.locks.hold("k").acquire())
                    p.join(STUCK)
                self.clock.settle()
                self.assertIsInstance(p.error, KeyboardInterrupt)
                self.assertEqual(len(self.sent("give_up")), 0 if twice else 1)
                _call.pay()
                _call.pay()
                self.assertEqual(len(self.sent("give_up")), 1)
                self.assertEqual(self.sent("give_up"), self.sent("acquire"))

    def test_a_thread_that_waits_when_the_process_ends(self) -> None:
        """It is given up once, and not asked for again."""
        self.server.answers["acquire"] = [fails(HELD), hang(self.server, self.clock)]
        p = Program(lambda: self.locks.hold("k", fair=True).acquire())
        self.clock.run(1)

        def child() -> list[str]:
            _call.pay()
            return [str(len(self.sent("give_up")))]

        self.assertEqual(in_child(child), ["0"])  # that is the parent's
        _call.pay()
        self.assertEqual(len(self.sent("give_up")), 1)
        self.clock.run(60)
        self.assertIsInstance(p.error, leasehold.ClosedError)
        self.assertEqual((len(self.sent("acquire")), len(self.sent("give_up"))), (2, 1))

    def test_an_interrupt_at_the_end_of_the_process(self) -> None:
        """What it kept from being told is told; one more ends the process."""
        for interrupts, want in ((0, 1), (1, 2), (2, 2)):
            with self.subTest(interrupts=interrupts):
                self.server.sent.clear()
                self.server.answers["acquire"] = [hang(self.server, self.clock)]
                cancel = Signal()
                self.blocking(cancel)
                self.clock.settle()
                errors: list[BaseException] = [KeyboardInterrupt()] * interrupts
                self.server.answers["give_up"] = [fails(e) for e in errors]
                with mock.patch.object(_call.Background, "wait"):
                    if interrupts < 2:
                        _call._at_exit()
                    else:
                        self.assertRaises(KeyboardInterrupt, _call._at_exit)
                self.assertEqual(len(self.sent("give_up")), want)
                _call.pay()
                cancel.set()
                self.clock.settle()

    def test_what_was_granted_or_refused_is_not_owed(self) -> None:
        p = Program(lambda: self.locks.hold("k").acquire())
        self.clock.settle()
        Program(p.value.release)
        self.server.answers["acquire"] = [fails(HELD)]
        Program(lambda: self.locks.hold("k", wait=0).acquire())
        self.clock.settle()
        self.assertEqual(_call._owed, {})

    def test_what_settles_it(self) -> None:
        """Success, and rejections for good; whatever else is said it is said again, until nothing can be left of it."""
        cases: dict[str, tuple[list[Exception], int, bool]] = {
            "success": ([], 1, True), "used": ([codes.RequestIdReusedError(status=422)], 1, True),
            "denied": ([codes.PermissionDeniedError(status=403)], 1, False),
            "not authenticated": ([codes.UnauthenticatedError(status=401)], 1, False),
            "a mistake in the program": ([KeyError("a bug")], 1, False),
            "held": ([HELD], 2, True), "away": ([LOST] * 3, 4, True),
            "an error of the server": ([codes.UnavailableError(status=503)], 2, True),
            "limited": ([BUSY], 2, True),
            "another response": ([leasehold.InvalidResponseError("no")], 2, True),
            "all that": ([HELD, LOST, codes.UnavailableError(status=503), HELD], 5, True),
            "for good": ([LOST] * 1000, 0, False),
        }
        for name, (errors, want, well) in cases.items():
            with self.subTest(name):
                self.server.sent.clear()
                self.seen.clear()
                self.server.answers = {"acquire": [hang(self.server, self.clock)],
                    "give_up": [fails(e) for e in errors], "release": [], "renew": []}
                cancel = Signal()
                self.blocking(cancel)
                self.clock.settle()
                cancel.set()
                if name == "held":
                    self.clock.run(1)  # it does not matter when the lock may be free
                    self.assertEqual(len(self.sent("give_up")), 2)
                if name == "limited":
                    self.clock.run(2.9)
                    self.assertEqual(len(self.sent("give_up")), 1)
                self.clock.run(15 + 2 + 30 - 5)  # until the acquire, and what it can have obtained, have ended
                if want:
                    self.assertEqual(len(self.sent("give_up")), want)
                before = len(self.sent("give_up"))
                self.clock.run(600)
                if want:
                    self.assertEqual(len(self.sent("give_up")), before)
                self.assertLess(len(self.sent("give_up")), 60)
                self.assertEqual(len({json.dumps(r) for r in self.sent("give_up")}), 1)
                [told] = [e for e in self.seen if e.what == "Abandoned"]
                self.assertEqual(told.error is None, well)

    def test_close_says_what_may_still_be_held(self) -> None:
        self.server.answers = {"acquire": [hang(self.server, self.clock)],
            "give_up": [fails(codes.PermissionDeniedError(status=403))], "release": [], "renew": []}
        self.blocking(Signal())
        self.clock.settle()
        p = Program(lambda: self.locks.close(timeout=1))
        self.clock.run(5)
        p.join(STUCK)
        self.assertIsInstance(p.error, leasehold.NotReleasedError)


class OneRequest(unittest.TestCase):
    """The operations of the contract give up what no one else can: their caller does not know the request_id."""

    def test_what_is_left_of_a_call(self) -> None:
        held: Answer = (409, {"code": "LOCK_HELD", "retryable": True})
        away: Answer = (503, {"code": "UNAVAILABLE", "retryable": True})
        denied: Answer = (403, {"code": "PERMISSION_DENIED"})
        cut: Answer = (200, {})
        cases: dict[str, tuple[list[Answer], bool]] = {
            "away": ([away, away], True), "away, then held": ([away, held], True), "held": ([held], False),
            "away, then denied": ([away, denied], False),
            "another response": ([cut], True), "granted": ([], False), "away, then granted": ([away], False),
        }
        for name, (answers, want) in cases.items():
            for own in (False, True):
                for path in ("/locks/k", "/lock-sets"):
                    with self.subTest(name, own=own, path=path):
                        j = Judge()
                        self.addCleanup(j.close)
                        left = list(answers)

                        def said(path: str, body: dict[str, Any], left: list[Answer] = left) -> Answer | None:
                            return left.pop(0) if left and not body.get("give_up") else None

                        j.said = said
                        client = leasehold.Client(j.url, tries=2)
                        request = {"owner_id": "me", "request_id": "mine" if own else "", "ttl_seconds": 30}
                        of_set: Any = {**request, "lock_keys": ["a"]}
                        of_lock: Any = {**request, "fair": True}
                        with contextlib.suppress(leasehold.LeaseholdError):
                            if path == "/lock-sets":
                                client.lock_api("t").acquire_set(of_set)
                            else:
                                client.lock_api("t").acquire("k", of_lock)
                        self.assertTrue(client._background.wait(STUCK))
                        given_up = [body for _, body in j.bodies if body.pop("give_up", False)]
                        self.assertEqual(len(given_up), 1 if want and not own else 0)
                        for body in given_up:
                            self.assertNotIn("not_after", body)
                            asked = j.bodies[0][1]
                            del asked["not_after"]
                            self.assertEqual(body, asked)
        self.assertEqual(_call._owed, {})

    def test_abandon(self) -> None:
        request: Any = {"owner_id": "me", "request_id": "mine", "ttl_seconds": 30, "replace": True}
        cases: list[tuple[list[Answer], type[leasehold.LeaseholdError] | None]] = [
            ([], None), ([(503, {"code": "UNAVAILABLE", "retryable": True})], None),
            ([(422, {"code": "REQUEST_ID_REUSED"})], None),
            ([(409, {"code": "LOCK_HELD", "retryable": True})], leasehold.LockHeldError),
            ([(403, {"code": "PERMISSION_DENIED"})], codes.PermissionDeniedError),
        ]
        for answers, error in cases:
            with self.subTest(str(answers)):
                j = Judge()
                self.addCleanup(j.close)
                left = list(answers)
                j.said = lambda path, body, t=left: t.pop(0) if t else None  # type: ignore[misc]
                api = leasehold.Client(j.url).lock_api("t")
                if error is None:
                    api.abandon("k", request)
                else:
                    with self.assertRaises(error):
                        api.abandon("k", request)
                self.assertEqual([body for _, body in j.bodies], [{**request, "give_up": True}] * len(j.bodies))
        with self.assertRaises(leasehold.InvalidSettingError):
            api.abandon("k", {"owner_id": "me", "request_id": "", "ttl_seconds": 30})


class RunsGivenUp(unittest.TestCase):
    def setUp(self) -> None:
        self.clock = VirtualClock()
        self.gate = Memory(self.clock)

    def tearDown(self) -> None:
        self.clock.run(3600)

    def begun(self, *answers: Any, **settings: Any) -> Program:
        """A call whose request gets these answers: an error, or None for a response that does not come although the
        run was granted."""
        acquire, left = self.gate.acquire, list(answers)

        def answer(ask: Any, seconds: float, abort: Signal) -> Any:
            err = left.pop(0) if left else LOST
            got = acquire(ask, seconds, abort) if err is None else None
            if got is None and isinstance(err, Exception):
                self.gate.asked.append(("acquire", ask))
                raise err
            self.clock.wait(None, abort)
            raise LOST

        patch = mock.patch.object(self.gate, "acquire", answer)
        patch.start()
        self.addCleanup(patch.stop)
        return Program(lambda: run(self.gate, "job", lambda lock: self.fail("it runs"), owner="me", ttl=300,
            clock=self.clock, **settings))

    def test_a_begin_that_gets_no_response(self) -> None:
        """The error says so after half a minute, and then no one holds the run."""
        p = self.begun(None)
        self.clock.run(60)
        self.assertIsInstance(p.error, leasehold.NoResponseError)
        self.assertEqual(len(self.gate.sent("give_up")), 1)
        self.assertEqual({a.request_id for a in self.gate.sent("give_up") + self.gate.sent("acquire")},
            {self.gate.sent("acquire")[0].request_id})
        self.assertEqual(self.gate.runs["job"].holder, 0)

    def test_a_rejection_leaves_nothing(self) -> None:
        for err in (codes.PermissionDeniedError(status=403), codes.RunDiffersError(status=422)):
            p = self.begun(LOST, err)
            self.gate.asked.clear()
            self.clock.run(60)
            self.assertIs(p.error, err)
            self.assertEqual(self.gate.sent("give_up"), [])

    def test_an_interrupt(self) -> None:
        interrupts = iter([KeyboardInterrupt])

        def wait(seconds: float | None, *signals: Signal) -> None:
            if threading.current_thread().name == "leasehold program":
                while not self.gate.asked:  # it is interrupted in its request, not before
                    time.sleep(0.0002)
                for err in interrupts:
                    raise err
            VirtualClock.wait(self.clock, seconds, *signals)

        with mock.patch.object(self.clock, "wait", wait):
            p = self.begun(None)
            p.join(STUCK)
        self.clock.settle()
        self.assertIsInstance(p.error, KeyboardInterrupt)
        self.assertEqual((len(self.gate.sent("give_up")), self.gate.runs["job"].holder), (1, 0))

    def test_the_end_of_the_process(self) -> None:
        self.begun(None)
        self.clock.settle()
        _call.pay()
        self.assertEqual((len(self.gate.sent("give_up")), self.gate.runs["job"].holder), (1, 0))

    def test_a_lost_begin_and_another_holder(self) -> None:
        """The lost request may still come when the other has ended."""
        for wait in (0.0, 2.0, 40.0):  # after 4 s the lost request has ended
            with self.subTest(wait):
                self.gate.runs["job"] = Stored(holder=99, end=self.clock.wall() + 3600)
                self.gate.asked.clear()
                self.gate.trouble["acquire"] = [LOST]
                p = Program(lambda: run(self.gate, "job", lambda lock: self.fail("it runs"), owner="me", ttl=300,
                    wait=wait, clock=self.clock))
                self.clock.run(60)
                self.assertEqual(p.value.status, "locked", p.error)
                self.assertEqual(len(self.gate.sent("give_up")), 1 if wait < 20 else 0)
                self.assertEqual(self.gate.runs["job"].holder, 99)


class Clones(unittest.TestCase):
    """Two copies of one process renew one lease: a snapshot that was started twice."""

    def setUp(self) -> None:
        self.clock = VirtualClock()
        self.server = Fake(self.clock)
        self.locks = leasehold.Locks(self.server, owner="me", ttl=30, clock=self.clock)

    def changed(self, end: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
        return fails(codes.LeaseChangedError(problem={"retryable": True, "expires_at": end}, status=409))

    def held(self) -> leasehold.Lock:
        p = Program(lambda: self.locks.hold("k").acquire())
        self.clock.settle()
        assert isinstance(p.value, leasehold.Lock), p.error
        return p.value

    def tearDown(self) -> None:
        for lock in list(self.locks._held):
            lock._term.over.set()
            lock._renewing.set()
        self.clock.settle()

    def test_another_moved_the_end(self) -> None:
        """The lock is lost, as all renewals of this process were answered; another error in between changes nothing
        of that."""
        limited = fails(codes.RateLimitedError(problem={"retryable": True}, status=429))
        unsent = fails(leasehold.NoResponseError("no", sent=False))
        cases: dict[str, list[Callable[[dict[str, Any]], dict[str, Any]]]] = {
            "at first": [], "after a renewal": [but()], "after a refusal": [limited],
            "after a request that was not sent": [unsent, limited]}
        for name, answers in cases.items():
            with self.subTest(name):
                lock = self.held()
                self.server.answers["renew"] = [*answers, self.changed("2030-01-01T00:01:00.000Z")]
                self.clock.run(25)
                with self.assertRaises(leasehold.LockLostError) as err:
                    lock.check()
                self.assertIsInstance(err.exception.__cause__, codes.LeaseChangedError)
                self.assertIn("a copy of this one", str(err.exception))
                self.assertEqual(lock.left, 0)
                p = Program(lock.release)
                self.clock.run(60)
                self.assertIsInstance(p.error, leasehold.LockLostError)
                self.assertEqual([what for what, _ in self.server.sent if what == "release"], [])  # the other holds it

    def test_an_end_that_is_earlier(self) -> None:
        """The store has lost a renewal: the lock goes on from there, at once."""
        lock = self.held()
        self.server.answers["renew"] = [self.changed("2030-01-01T00:00:20.000Z")]
        self.clock.run(10.1)
        lock.check()
        self.assertEqual([r["expires_at"] for what, r in self.server.sent if what == "renew"],
            ["2030-01-01T00:00:30.000Z", "2030-01-01T00:00:20.000Z"])

    def test_a_renewal_without_a_response_moved_it(self) -> None:
        """The lock goes on from the end that the server names; when that is changed too, it was another."""
        for lost in (LOST, codes.UnavailableError(status=503), leasehold.InvalidResponseError("no")):
            with self.subTest(type(lost).__name__):
                lock = self.held()
                self.server.sent.clear()
                self.server.answers["renew"] = [fails(lost), self.changed("2030-01-01T00:00:40.000Z"),
                    but(expires_at="2030-01-01T00:00:50.000Z")]
                self.clock.run(16)
                lock.check()
                ends = [r["expires_at"] for what, r in self.server.sent if what == "renew"]
                self.assertEqual(ends, ["2030-01-01T00:00:30.000Z"] * 2 + ["2030-01-01T00:00:40.000Z"])
                self.server.answers["renew"] = [self.changed("2030-01-01T00:01:40.000Z")]
                self.clock.run(15)
                self.assertTrue(lock.lost.is_set())
        lock = self.held()
        self.server.answers["renew"] = [fails(LOST), self.changed("2030-01-01T00:00:40.000Z"),
            self.changed("2030-01-01T00:00:41.000Z")]
        self.clock.run(20)
        self.assertTrue(lock.lost.is_set())


class Processes(unittest.TestCase):
    """Programs that end, whose last request the test waits for."""

    def setUp(self) -> None:
        self.judge = Judge()
        self.addCleanup(self.judge.close)
        self.go = threading.Event()
        self.addCleanup(self.go.set)
        self.judge.said = self.hanging

    def hanging(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any] | None] | None:
        if not body.get("give_up"):
            self.go.wait(STUCK)
            return 503, {"code": "UNAVAILABLE", "retryable": True}
        return None

    def program(self, text: str) -> subprocess.Popen[str]:
        p = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(text), self.judge.url], stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True,
            env={**os.environ, "PYTHONPATH": SOURCE})
        self.addCleanup(p.wait)
        self.addCleanup(p.kill)
        assert p.stdin is not None
        self.addCleanup(p.stdin.close)
        return p

    LOCK = """
        import sys, leasehold
        with leasehold.Client(sys.argv[1]).locks(owner="me").hold("k", fair=True):
            pass
    """

    def test_an_interrupt(self) -> None:
        p = self.program(self.LOCK)
        asked = self.judge.until(1)[0]
        p.send_signal(signal.SIGINT)
        p.wait(STUCK)
        given_up = self.judge.until(2)
        self.assertEqual(len(given_up), 2)
        self.assertTrue(given_up[1].pop("give_up"))
        asked.pop("not_after")
        self.assertEqual(given_up[1], asked)

    def test_an_interrupt_while_it_is_told(self) -> None:
        """The process waits a second more at most."""
        told = threading.Event()

        def slow(path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any] | None] | None:
            if body.get("give_up"):
                told.set()
                self.go.wait(STUCK)
                return None
            return self.hanging(path, body)

        self.judge.said = slow
        p = self.program(self.LOCK)
        self.judge.until(1)
        p.send_signal(signal.SIGINT)
        self.assertTrue(told.wait(STUCK))
        p.send_signal(signal.SIGINT)
        p.wait(STUCK)  # though it gets no response
        self.assertTrue(self.judge.until(2)[1]["give_up"])

    def test_a_thread_that_ends_with_the_process(self) -> None:
        for what in ("locks(owner='me').hold('k').acquire()", "runs()"):
            with self.subTest(what):
                before = len(self.judge.bodies)
                p = self.program(f"""
                    import sys, threading, leasehold
                    from leasehold.once import run
                    client = leasehold.Client(sys.argv[1])
                    if {what == "runs()"}:
                        do = lambda: run(client.runs(), "job", lambda lock: "done")
                    else:
                        do = lambda: client.locks(owner="me").hold("k").acquire()
                    threading.Thread(target=do, daemon=True).start()
                    sys.stdin.readline()
                """)
                self.judge.until(before + 1)
                assert p.stdin is not None
                p.stdin.write("go on\n")
                p.stdin.flush()
                self.assertTrue(self.judge.until(before + 2)[-1].get("give_up"))
                p.wait(STUCK)


if __name__ == "__main__":
    unittest.main()
