"""Work that runs once, on a gate that the test writes, by a clock that the test moves."""

from __future__ import annotations

import asyncio
import enum
import json
import threading
import unittest
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from typing import Any
from unittest import mock

import leasehold
from leasehold import _input, codes
from leasehold._time import Signal
from leasehold.once import (
    MAX_RESULT_BYTES, Ask, Grant, Held, Outcome, PermanentError, RunFailedError, RunLock, RunLockedError, RunNotStoredError, UncountedError, _background, _flights, current, fingerprint,
    once, run, run_async,
)

from test_locks import Program
from virtual import STUCK, VirtualClock


@dataclass
class Stored:
    holder: int = 0  # the token of the run that holds it; 0 is none
    end: float = 0.0
    failures: int = 0
    status: str = ""
    result: str = ""
    reason: str = ""
    fingerprint: str = ""


@dataclass
class Memory:
    """A gate in memory. An error in trouble is raised by the next request of its kind, which has no effect."""

    clock: VirtualClock
    runs: dict[str, Stored] = field(default_factory=dict)
    asked: list[tuple[str, Any]] = field(default_factory=list)
    trouble: dict[str, list[BaseException]] = field(default_factory=dict)
    requests: dict[int, str] = field(default_factory=dict)  # by the token of their run
    token: int = 0
    slow: float = 0.0  # how long the answer of the next refresh takes

    def _begin(self, what: str, detail: Any) -> None:
        self.asked.append((what, detail))
        if self.trouble.get(what):
            raise self.trouble[what].pop(0)

    def sent(self, what: str) -> list[Any]:
        return [detail for kind, detail in self.asked if kind == what]

    def acquire(self, ask: Ask, seconds: float, abort: Signal) -> Grant:
        self._begin("acquire", ask)
        r = self.runs.setdefault(ask.run_id, Stored(fingerprint=ask.fingerprint))
        if r.fingerprint and ask.fingerprint and r.fingerprint != ask.fingerprint:
            raise codes.RunDiffersError()
        if r.status:
            return Grant(None, reason="already_finished", failed=r.status == "FAILED", result=r.result, failure_reason=r.reason)
        if r.holder and r.end > self.clock.wall():
            return Grant(None, reason="locked", retry_after=r.end - self.clock.wall())
        self.token += 1
        r.holder, r.end = self.token, self.clock.wall() + ask.ttl
        self.requests[self.token] = ask.request_id
        return Grant(Held(ask.run_id, ask.owner, self.token), remaining=ask.ttl, runs=1, failures=r.failures)

    def give_up(self, ask: Ask, seconds: float, abort: Signal) -> None:
        self._begin("give_up", ask)
        r = self.runs.setdefault(ask.run_id, Stored())
        if self.requests.get(r.holder) == ask.request_id:
            r.holder = 0

    def _held(self, held: Held) -> Stored:
        r = self.runs[held.run_id]
        if r.holder != held.token:
            raise codes.LeaseLostError()
        return r

    def refresh(self, held: Held, ttl: float, seconds: float, abort: Signal) -> None:
        self._begin("refresh", held)
        self._held(held).end = self.clock.wall() + ttl
        took, self.slow = self.slow, 0.0
        self.clock.move(took, due=False)

    def release(self, held: Held, failed: str, seconds: float, abort: Signal) -> None:
        self._begin("release", failed)
        r = self._held(held)
        r.holder, r.failures = 0, r.failures + bool(failed)

    def finish(self, held: Held, result: str | None, failed: str, seconds: float, abort: Signal) -> None:
        self._begin("finish", (result, failed))
        r = self._held(held)
        r.status, r.result, r.reason = ("FAILED", "", failed) if result is None else ("READY", result, "")


class Color(str, enum.Enum):
    RED = "red"


class Unsaid(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


class Broken(dict[str, int]):
    """A result that raises while it is written, so many times."""

    def __init__(self, problem: BaseException, times: int = 1000) -> None:
        super().__init__(a=1)
        self.problem, self.times = problem, times

    def items(self) -> Any:
        self.times -= 1
        if self.times >= 0:
            raise self.problem
        return super().items()


class Context:
    """What AWS Lambda gives a handler beside the event."""

    function_name, function_version, memory_limit_in_mb = "invoices", "$LATEST", "128"
    invoked_function_arn = "arn:aws:lambda:eu-central-1:123456789012:function:invoices"
    aws_request_id = "5f9b3f3e-8f1d-4d3c-9a53-1f4a3b2f1c00"

    def get_remaining_time_in_millis(self) -> int:
        return 3000


SQS_EVENT = {
    "Records": [{
        "messageId": "059f36b4-87a3-44ab-83d2-661975830a7d", "receiptHandle": "AQEBwJnKyrHigUMZj6rYigCgxlaS3SLy0a", "body": json.dumps({"order": 42}),
        "attributes": {"ApproximateReceiveCount": "1", "SentTimestamp": "1545082649183", "SenderId": "AIDAIENQZJOLO23YVJ4VO",
                       "ApproximateFirstReceiveTimestamp": "1545082649185"},
        "messageAttributes": {}, "md5OfBody": "e4e68fb7bd0e697a0ae8f1bb342846b3", "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:eu-central-1:123456789012:invoices", "awsRegion": "eu-central-1",
    }],
}


class OnceTest(unittest.TestCase):
    def setUp(self) -> None:
        self.clock = VirtualClock()
        self.gate = Memory(self.clock)

    def tearDown(self) -> None:
        self.clock.run(3600)  # what goes on in the background ends

    def once(self, **settings: Any) -> Callable[[Any], Any]:
        given: dict[str, Any] = {"key": "job", "ttl": 30, "owner": "me", **settings}
        return once(self.gate, clock=self.clock, **given)

    def call(self, do: Callable[[], Any], seconds: float = 0) -> Program:
        p = Program(do)
        self.clock.run(seconds)
        return p

    def value(self, do: Callable[[], Any], seconds: float = 60) -> Any:
        p = self.call(do, seconds)
        if p.error is not None:
            raise p.error
        self.assertFalse(p.is_alive())
        return p.value

    # Keys.

    def test_keys(self) -> None:
        cases: list[tuple[Any, tuple[Any, ...], dict[str, Any], str]] = [
            ("invoice-{month}", ("may",), {}, "invoice-may"), ("invoice-{month}", (), {"month": "may"}, "invoice-may"),
            ("{month}-{year}", ("may",), {}, "may-2026"), ("{month[id]}", ({"id": 7},), {}, "7"), ("{month.real}", (7,), {}, "7"),
            (lambda month, year=0: f"{month}:{year}", ("may",), {}, "may:0"), ("fixed", ("may",), {}, "fixed"),
            ("{month}-{year}", ("2026-11",), {}, "2026~2D11-2026"), ("{year}-{month}", ("2026-11",), {}, "2026-2026-11"), ("{year}:{month}", ("a/b~c",), {}, "2026:a~2Fb~7Ec"),
            ("{month}→{year}", ("a→b",), {}, "a~E2~86~92b→2026"), ("{{{month}}}", ("may",), {}, "{may}"), ("{month!r}-{year:06d}", ("may",), {}, "'may'-002026"),
            ("{month:>{year}}", ("may",), {"year": 5}, "  may"), ("a {month} é", ("may 1.2_3+4@5",), {}, "a may 1.2_3+4@5 é"),
        ]
        for key, args, kwargs, want in cases:
            with self.subTest(want):
                self.gate.runs.clear()

                def job(month: Any, year: int = 2026) -> str:
                    return "done"

                self.assertEqual(self.value(lambda: self.once(key=key)(job)(*args, **kwargs)), "done")
                self.assertEqual(self.gate.sent("acquire")[-1].run_id, want)

    def test_keys_that_cannot_work(self) -> None:
        """The field is named, nothing is sent, and nothing runs."""
        def job(month: Any) -> None:
            self.fail("it runs")

        for key, month, name in (
            ("{year}", "may", "key"), ("{month[id]}", {}, "key"), ("{month.id}", 1, "key"), ("{", "may", "key"), ("{0}", "may", "key"), (lambda month: 7, "may", "key"),
            (lambda month: None, "may", "key"), ("{month}", "", "key"), ("a/{month}", "may", "key"), ("{month}", "..", "key"), ("{month}", "x" * 257, "key"),
            ("{month}", "a\n", "key"), ("{month}", "\ud800", "key"), ("{month}{month}", "may", "key"), ("{month}{{}}{month}A{month}", "may", "key"), ("{month}1{month}", "may", "key"),
            ("{month}~{month}", "may", "key"), ("{month}F-{month}", "may", "key"), ("{}", "may", "key"), ("{month:{year}}", "may", "key"), ("{month!x}", "may", "key"),
        ):
            with self.subTest(f"{key} {month!r:.20}"), self.assertRaises(leasehold.InvalidSettingError) as err:
                self.once(key=key)(job)(month)
            self.assertEqual(err.exception.field, name)
        self.assertEqual(self.gate.asked, [])

    def test_keys_that_cannot_work_are_told_where_they_are_written(self) -> None:
        for key in ("{year}", "{", "{0}", "{}", "{a}{b}", "{a}1{b}", "{a[id]}{b}"):
            with self.subTest(key), self.assertRaises(leasehold.InvalidSettingError) as err:
                self.once(key=key)(lambda a, b: None)
            self.assertEqual(err.exception.field, "key")

    def test_other_arguments_make_other_keys(self) -> None:
        pieces = ("", "a", "-", "--", ":", "~", "/", "2", "2D", "~2D", "→", "x-", "-x")
        parts = sorted({a + b for a in pieces for b in pieces})
        for text in ("{a}-{b}", "x-{a}--{b}-x", "{a}→{b}", "-{a}: {b}-", "{a}x{b}", "{a!s}-{b!s}"):
            with self.subTest(text):
                key = _input.Key(text, ("a", "b"))
                made = {key.of({"a": a, "b": b}) for a in parts for b in parts}
                self.assertEqual(len(made), len(parts) ** 2)
                self.assertEqual([k for k in made if "/" in k], [])

    def test_settings_that_cannot_work(self) -> None:
        for name, value in (
            ("ttl", 0), ("ttl", 1.5), ("ttl", "30"), ("heartbeat", 30), ("heartbeat", 0), ("heartbeat", float("nan")), ("heartbeat", "1"), ("wait", -1), ("wait", float("nan")),
            ("wait", "1"), ("max_failures", -1), ("max_failures", 1.5), ("max_failures", True), ("owner", "x" * 257), ("owner", 5),
            ("max_takeovers", -1), ("max_takeovers", 1.5), ("max_takeovers", True), ("max_takeovers", "0"), ("ignore", "session"), ("ignore", 5), ("ignore", (5,)), ("ignore", ("other",)),
        ):
            with self.subTest(f"{name} {value!r}"), self.assertRaises(leasehold.InvalidSettingError) as err:
                self.once(**{name: value})(lambda: self.fail("it runs"))()
            self.assertEqual(err.exception.field, name)
        analyses = leasehold.Client("http://127.0.0.1:1").analyses()
        with self.assertRaises(leasehold.InvalidSettingError) as err:
            run(analyses, "a", lambda lock: self.fail("it runs"), max_takeovers=0)
        self.assertEqual(err.exception.field, "max_takeovers")
        self.assertEqual(self.gate.asked, [])

    def test_a_bound_on_takeovers(self) -> None:
        for most in (None, 0, 2):
            self.value(self.once(max_takeovers=most)(lambda: 1))
            self.assertEqual(self.gate.sent("acquire")[-1].max_takeovers, most)

    # What later calls get.

    def test_later_calls_get_the_earlier_result(self) -> None:
        values: tuple[Any, ...] = ({"a": [1, 2.5, None, "ü"]}, None, "", 0, False, [], "text")
        for i, value in enumerate(values):
            with self.subTest(repr(value)):
                ran: list[int] = []

                @self.once(key=f"job-{i}")
                def job() -> Any:
                    ran.append(1)
                    return value

                self.assertEqual([self.value(job), self.value(job), self.value(job)], [value] * 3)
                self.assertEqual(len(ran), 1)

    def test_the_first_call_gets_what_later_ones_get(self) -> None:
        """What comes out of the JSON."""
        made = {"pair": (1, 2), 3: Color.RED}
        job = self.once()(lambda: made)
        for _ in range(2):
            self.assertEqual(self.value(job), {"pair": [1, 2], "3": "red"})
        self.assertEqual(self.run_task(self.once(key="other")(self.coroutine(made))).value, {"pair": [1, 2], "3": "red"})

    def coroutine(self, value: Any) -> Callable[[], Any]:
        async def job() -> Any:
            return value

        return job

    def test_a_result_that_another_program_stored(self) -> None:
        self.gate.runs["job"] = Stored(status="READY", result="<xml/>")
        with self.assertRaises(leasehold.InvalidResponseError):
            self.value(self.once()(lambda: self.fail("it runs")))

    def test_results_that_cannot_be_stored(self) -> None:
        """The work was done, and would be done again: the run is FAILED at once, with the reason."""
        circle: list[Any] = []
        circle.append(circle)
        deep: list[Any] = []
        for _ in range(3000):
            deep = [deep]
        values = (
            (object(), "JSON"), (float("nan"), "JSON"), ([float("-inf")], "JSON"), ({1: {2, 3}}, "JSON"), ({(1, 2): 3}, "keys must be str"), (circle, "Circular"), (deep, "RecursionError"),
            (10 ** 5000, "ValueError"), (Broken(KeyError("mine")), "KeyError: 'mine'"), (Broken(UncountedError("mine")), "mine"), (Broken(Unsaid()), "Unsaid"), (Broken(SystemExit("mine")), "mine"),
            (Broken(KeyboardInterrupt("mine")), "mine"), (Broken(asyncio.CancelledError("mine")), "mine"), (Broken(GeneratorExit("mine")), "mine"), ("\ud800", "UTF-8"),
            ("x" * (MAX_RESULT_BYTES - 1), "bytes"), ("ü" * (MAX_RESULT_BYTES // 2), "bytes"), ("x" * (10 * MAX_RESULT_BYTES), "bytes"),
        )
        for i, (value, text) in enumerate(values):
            ran: list[int] = []

            def job() -> Any:
                ran.append(1)
                return value

            def late() -> Any:
                self.clock.move(40, due=False)
                return job()

            async def task() -> Any:
                return job()

            for name, f in ((f"job-{i}", job), (f"late-{i}", late), (f"task-{i}", task)):
                decorated = self.once(key=name)(f)
                call = self.run_task if f is task else self.call
                with self.subTest(text, name=name):
                    ran.clear()
                    first = call(decorated, 60).error
                    problem = value.problem if isinstance(value, Broken) and not isinstance(value.problem, Exception) else None
                    self.assertIsInstance(first, PermanentError if problem is None else type(problem))
                    self.clock.run(1)
                    self.assertEqual((self.gate.runs[name].status, len(ran)), ("FAILED", 1))
                    self.assertIn(text, self.gate.runs[name].reason)
                    again = call(decorated, 60).error
                    self.assertIsInstance(again, RunFailedError)
                    self.assertIn(text, str(again))
                    self.assertEqual(len(ran), 1)
        self.assertEqual(self.gate.sent("release"), [])
        fits = self.once(key="just-fits")(lambda: "x" * (MAX_RESULT_BYTES - 2))
        self.assertEqual(len(self.value(fits)), MAX_RESULT_BYTES - 2)

    def test_an_interrupt_while_the_result_is_written(self) -> None:
        """The work is done: its end is stored in the background, and the interrupt goes on."""
        for i, stop in enumerate((KeyboardInterrupt, SystemExit)):
            with self.subTest(stop.__name__):
                value = Broken(stop(), times=1)
                p = self.call(self.once(key=f"job-{i}")(lambda: value), 1)
                self.assertIsInstance(p.error, stop)
                self.clock.run(1)
                self.assertEqual((self.gate.runs[f"job-{i}"].status, self.gate.runs[f"job-{i}"].result), ("READY", '{"a":1}'))
        self.assertEqual(self.gate.sent("release"), [])

    # Arguments.

    def test_other_arguments_under_the_same_key(self) -> None:
        """It is told what to do, and gets no result of another."""
        @self.once(ignore=("session",))
        def pay(amount: int, *tags: str, currency: str = "JPY", session: object = None, **more: Any) -> int:
            return amount

        self.assertEqual(self.value(lambda: pay(1, "a", when=(1, {"b": 2.0}))), 1)
        self.assertEqual(self.gate.sent("acquire")[0].fingerprint, fingerprint({"amount": 1, "tags": ["a"], "currency": "JPY", "more": {"when": [1, {"b": 2}]}}))
        self.assertEqual(self.value(lambda: pay(1.0, "a", currency="JPY", session=object(), when=[1, {"b": 2}])), 1)
        for other in (lambda: pay(2, "a", when=(1, {"b": 2})), lambda: pay(1, when=(1, {"b": 2})), lambda: pay(1, "a", currency="EUR", when=(1, {"b": 2})),
                      lambda: pay(1, "a"), lambda: pay("1", "a", when=(1, {"b": 2})), lambda: pay(True, "a", when=(1, {"b": 2}))):
            with self.assertRaises(leasehold.RunDiffersError) as err:
                self.value(other)
            for part in ("'job'", "say in the key", "ignore"):
                self.assertIn(part, str(err.exception))

        async def task(amount: int) -> int:
            return amount

        job = self.once(key="task")(task)
        self.assertEqual(self.run_task(lambda: job(1)).value, 1)
        self.assertIsInstance(self.run_task(lambda: job(2)).error, leasehold.RunDiffersError)

    def test_without_arguments_that_count(self) -> None:
        self.value(self.once()(lambda: 1))
        self.value(lambda: self.once(ignore=("a", "b"))(lambda a, b: 1)(object(), object()))
        self.assertEqual([a.fingerprint for a in self.gate.sent("acquire")], ["", ""])

    def test_an_argument_that_json_does_not_have(self) -> None:
        """It is named, with what to do, and nothing is sent."""
        def job(day: Any, session: Any = None) -> int:
            return 1

        circle: list[Any] = []
        circle.append(circle)
        for value in (date(2026, 11, 29), b"x", {1, 2}, object(), float("nan"), 2 ** 53 + 1, 10 ** 400, {1: 2}, [{"a": [b"x"]}], "\ud800", {"\udc00": 1}, circle):
            for key in ("job", "{day.__class__.__name__}", "{day!s:.1}"):
                if key == "{day!s:.1}" and value == "\ud800":
                    continue  # it is no key either
                with self.subTest(type(value).__name__, key=key), self.assertRaises(leasehold.InvalidSettingError) as err:
                    self.once(key=key)(job)(value)
                self.assertEqual(err.exception.field, "day")
                self.assertIn("ignore=('day',)", str(err.exception))
        self.assertEqual(self.gate.asked, [])
        with self.assertRaises(leasehold.InvalidSettingError) as err:
            self.once(key="{day}")(job)(date(2026, 11, 29), session=object())
        self.assertEqual(err.exception.field, "session")
        self.assertEqual(self.gate.asked, [])

    def test_an_argument_that_the_key_says(self) -> None:
        """It need not be JSON; if it is, it counts with its type."""
        job = self.once(key="report-{day}")(lambda day: str(day))
        self.assertEqual(self.value(lambda: job(date(2026, 11, 29))), "2026-11-29")
        self.assertEqual(self.value(lambda: job(date(2026, 11, 30))), "2026-11-30")
        self.assertEqual([a.run_id for a in self.gate.sent("acquire")], ["report-2026-11-29", "report-2026-11-30"])
        self.assertEqual(self.value(lambda: job(1)), "1")
        with self.assertRaises(leasehold.RunDiffersError):
            self.value(lambda: job("1"))

    # Failures.

    def test_a_failure_goes_on_to_the_caller_and_the_next_call_runs_again(self) -> None:
        ran: list[int] = []

        @self.once()
        def job() -> str:
            ran.append(1)
            if len(ran) == 1:
                raise KeyError("first")
            return "done"

        with self.assertRaises(KeyError):
            self.value(job)
        self.assertEqual(self.gate.sent("release"), ["'first'"])
        self.assertEqual(self.value(job), "done")

    def test_a_bound_on_failures(self) -> None:
        ran: list[int] = []

        @self.once(max_failures=2)
        def job() -> None:
            ran.append(1)
            raise KeyError(len(ran))

        for want in (KeyError, KeyError, RunFailedError, RunFailedError):
            with self.assertRaises(want):
                self.value(job)
        self.assertEqual(len(ran), 2)
        self.assertEqual((len(self.gate.sent("release")), self.gate.sent("finish")), (1, [(None, "2")]))

    def test_a_permanent_failure(self) -> None:
        @self.once()
        def job() -> None:
            raise PermanentError("the order does not exist")

        with self.assertRaises(PermanentError):
            self.value(job)
        with self.assertRaises(RunFailedError) as err:
            self.value(job)
        self.assertIn("the order does not exist", str(err.exception))

    def test_a_failure_that_does_not_count(self) -> None:
        @self.once(max_failures=1)
        def job() -> None:
            raise UncountedError("no credentials here")

        for _ in range(3):
            with self.assertRaises(UncountedError):
                self.value(job)
        self.assertEqual(self.gate.sent("release"), ["", "", ""])

    def test_an_interrupt_releases_and_does_not_count(self) -> None:
        for stop in (KeyboardInterrupt, SystemExit):
            @self.once(max_failures=1)
            def job() -> None:
                raise stop

            with self.subTest(stop.__name__), self.assertRaises(stop):
                self.value(job)
            self.assertEqual(self.gate.sent("release")[-1], "")
        self.assertEqual(self.gate.sent("finish"), [])

    def test_an_end_that_is_rejected(self) -> None:
        """It makes the run FAILED, for the work is done; where that is rejected, too, the lock is released, and the outcome is that it is not stored."""
        for failed in (False, True):
            with self.subTest(failed=failed):
                self.gate = Memory(self.clock)
                rejections = [codes.PermissionDeniedError("the first")] + [codes.PermissionDeniedError("the second")] * (not failed)
                problem = PermanentError("no ink")

                def work() -> str:
                    if failed:
                        raise problem
                    return "done"

                self.gate.trouble["finish"] = list(rejections)
                out = self.value(lambda: run(self.gate, "job", lambda lock: work(), clock=self.clock))
                assert isinstance(out.error, RunNotStoredError)
                self.assertEqual((out.status, out.result, out.storing), ("not_stored", "" if failed else "done", None))
                self.assertIs(out.error.__cause__, problem if failed else rejections[0])
                self.assertIn("the first", self.gate.sent("release")[0])
                self.gate.trouble["finish"] = list(rejections)
                with self.assertRaises(RunNotStoredError) as err:
                    self.value(self.once()(work))
                self.assertEqual((err.exception.value, len(self.gate.sent("release"))), (None if failed else "done", 2))
        self.gate.trouble["finish"] = [codes.PermissionDeniedError()]
        with self.assertRaises(RunNotStoredError):
            self.value(self.once()(lambda: "done"))
        self.assertEqual((len(self.gate.sent("release")), self.gate.runs["job"].status), (2, "FAILED"))

    def test_what_ran_and_is_not_stored_is_an_outcome(self) -> None:
        """Of its own: an attempt that failed may be tried again, and this one must not. It says what the work returned."""
        self.away("finish")
        p = self.call(lambda: run(self.gate, "k", lambda lock: "paid", ttl=30, clock=self.clock), 40)
        assert p.value is not None and p.value.storing is not None, p.error
        self.assertEqual((p.value.status, p.value.result, type(p.value.error)), ("not_stored", "paid", RunNotStoredError))
        self.gate.trouble.clear()
        self.clock.run(20)
        self.assertEqual((p.value.storing.wait(0), p.value.storing.outcome), (True, Outcome("ready", result="paid", token=p.value.token)))
        sent = len(self.gate.asked)
        self.clock.run(60)
        self.assertEqual(len(self.gate.asked), sent)

    def away(self, step: str) -> None:
        self.gate.trouble[step] = [leasehold.NoResponseError("the gate is away") for _ in range(10_000)]

    def test_what_is_stored_in_the_background_ends(self) -> None:
        """When another worker took over, and when the process ends."""
        told: list[BaseException] = []
        for how in ("taken over", "stopped"):
            with self.subTest(how):
                self.gate = Memory(self.clock)
                self.away("finish")
                p = self.call(once(self.gate, key="k", ttl=30, warn=told.append, clock=self.clock)(lambda: "done"), 40)
                assert isinstance(p.error, RunNotStoredError) and p.error.storing is not None
                storing = p.error.storing
                self.assertIsNone(storing.outcome)
                if how == "taken over":
                    self.gate.runs["k"].holder = 7
                    self.gate.trouble.clear()
                else:
                    storing.stop()
                self.clock.run(20)
                sent = len(self.gate.asked)
                self.clock.run(60)
                self.assertEqual(len(self.gate.asked), sent)
                assert storing.outcome is not None
                self.assertEqual(storing.outcome.status, "lock_lost" if how == "taken over" else "not_stored")
                self.assertIn("in the background", str(told[-1]))

    def test_the_gate_cannot_be_reached(self) -> None:
        """For half a minute it is asked again; then the error says so, and nothing has run."""
        self.gate.trouble["acquire"] = [leasehold.NoResponseError("no")] * 1000
        p = self.call(self.once()(lambda: self.fail("it runs")), 29)
        self.assertGreater(len({a.request_id for a in self.gate.sent("acquire")}), 0)
        self.assertEqual(len({a.request_id for a in self.gate.sent("acquire")}), 1)
        self.clock.run(2)
        self.assertIsInstance(p.error, leasehold.NoResponseError)

    def test_a_bound_for_a_gate_that_does_not_respond(self) -> None:
        """Whatever wait is, from the first try without a response; one that responds in between begins it anew."""
        self.gate.trouble["acquire"] = [leasehold.NoResponseError("no")] * 1000
        p = self.call(self.once(wait=60, retry_for=1.5)(lambda: self.fail("it runs")), 1.6)
        self.assertIsInstance(p.error, leasehold.NoResponseError)
        self.assertGreater(len(self.gate.sent("acquire")), 2)
        p = self.call(self.once(retry_for=40)(lambda: "done"), 30)
        self.gate.trouble.clear()
        self.clock.run(6)
        self.assertEqual(p.value, "done", p.error)
        self.gate.trouble["acquire"] = [leasehold.NoResponseError("no")]
        self.gate.runs["job"] = Stored(holder=99, end=self.clock.wall() + 20)
        p = self.call(self.once(wait=60, retry_for=1.5)(lambda: "done"), 10)
        self.gate.trouble["acquire"] = [leasehold.NoResponseError("no")]
        self.clock.run(12)
        self.assertEqual(p.value, "done", p.error)

    # Others that run it.

    def test_while_another_runs_it(self) -> None:
        self.gate.runs["job"] = Stored(holder=99, end=self.clock.wall() + 20)
        with self.assertRaises(RunLockedError) as err:
            self.value(self.once()(lambda: self.fail("it runs")), 1)
        self.assertAlmostEqual(err.exception.retry_after, 20, delta=0.01)
        p = self.call(self.once(wait=60)(lambda: "done"), 17)
        self.assertTrue(p.is_alive())
        self.clock.run(4)
        self.assertEqual(p.value, "done", p.error)  # the other died

    def test_the_result_of_the_one_that_was_waited_for(self) -> None:
        self.gate.runs["job"] = Stored(holder=99, end=self.clock.wall() + 20)
        p = self.call(self.once(wait=60)(lambda: self.fail("it runs")), 10)
        self.gate.runs["job"].status, self.gate.runs["job"].result = "READY", "[1]"
        self.clock.run(2)
        self.assertEqual(p.value, [1], p.error)

    # The lock while it runs.

    def working(self, p: list[RunLock], go: threading.Event) -> Callable[[], str]:
        @self.once()
        def job() -> str:
            p.append(current())
            end = Signal()
            while not go.is_set():
                self.clock.wait(0.5, end)
            return "done"

        return job  # type: ignore[no-any-return]

    def test_it_is_refreshed_while_it_runs(self) -> None:
        locks: list[RunLock] = []
        go = threading.Event()
        p = self.call(self.working(locks, go), 100)
        self.assertTrue(15 <= len(self.gate.sent("refresh")) <= 17)
        locks[0].check()
        self.assertGreater(locks[0].remaining, 20)
        self.assertEqual(locks[0].token, 1)
        go.set()
        self.clock.run(1)
        self.assertEqual(p.value, "done")
        sent = len(self.gate.sent("refresh"))
        self.clock.run(60)
        self.assertEqual(len(self.gate.sent("refresh")), sent)

    def test_a_takeover_is_told_at_the_next_refresh(self) -> None:
        locks: list[RunLock] = []
        go = threading.Event()
        p = self.call(self.working(locks, go), 1)
        self.gate.runs["job"].holder = 99
        self.clock.run(6)
        with self.assertRaises(leasehold.LockLostError) as err:
            locks[0].check()
        self.assertIsInstance(err.exception.__cause__, codes.LeaseLostError)
        go.set()
        self.clock.run(1)
        self.assertIsInstance(p.error, leasehold.LockLostError)
        self.assertEqual((self.gate.sent("finish"), self.gate.sent("release")), ([], []))

    def test_a_process_that_stood_still(self) -> None:
        """check, lost and remaining look at both clocks before any thread of the client has run again; the gate decides on the result."""
        for name, monotonic, wall, taken in (
            ("the machine slept", 0.0, 31.0, True), ("the time was set", 31.0, 0.0, True), ("both", 31.0, 31.0, True),
            ("no other worker began", 31.0, 31.0, False),
        ):
            with self.subTest(name):
                locks: list[RunLock] = []
                go = threading.Event()
                p = self.call(self.working(locks, go), 1)
                sent = len(self.gate.asked)
                self.clock.move(monotonic, wall, due=False)
                with self.assertRaises(leasehold.LockLostError):
                    locks[0].check()
                self.assertTrue(locks[0].lost.is_set())
                self.assertEqual(locks[0].remaining, 0)
                if taken:
                    self.gate.runs["job"].holder = 99
                go.set()
                self.clock.run(1)
                if taken:
                    self.assertIsInstance(p.error, leasehold.LockLostError)
                else:
                    self.assertEqual(p.value, "done")
                self.assertEqual([name for name, _ in self.gate.asked[sent:]], ["finish"])
                self.clock.move(60)
                self.gate.runs.clear()

    def test_a_refresh_that_comes_after_the_end_extends_nothing(self) -> None:
        locks: list[RunLock] = []
        go = threading.Event()
        self.gate.slow = 26.0
        p = self.call(self.working(locks, go), 8)
        with self.assertRaises(leasehold.LockLostError):
            locks[0].check()
        self.gate.runs["job"].holder = 99
        go.set()
        self.clock.run(1)
        self.assertIsInstance(p.error, leasehold.LockLostError)

    def test_refreshes_that_fail_are_told(self) -> None:
        told: list[BaseException] = []
        self.gate.trouble["refresh"] = [codes.UnavailableError(status=503), leasehold.NoResponseError("no")]
        end = Signal()

        @self.once(warn=told.append)
        def job() -> str:
            self.clock.wait(20, end)
            current().check()
            return "done"

        self.assertEqual(self.value(job), "done")
        self.assertEqual([type(t.__cause__) for t in told], [codes.UnavailableError, leasehold.NoResponseError])

    def test_current(self) -> None:
        with self.assertRaises(LookupError):
            current()
        self.assertEqual(self.value(self.once()(lambda: current().run_id)), "job")
        with self.assertRaises(LookupError):
            current()

    # Forms of functions.

    def test_the_function_keeps_its_name(self) -> None:
        @self.once()
        def make_invoice(month: str) -> None:
            """Make it."""

        self.assertEqual((make_invoice.__name__, make_invoice.__doc__), ("make_invoice", "Make it."))

    def test_methods(self) -> None:
        made = self.once(key="{self.name}-{part}", ignore=("self",))

        class Report:
            name = "sales"

            @made
            def part(self, part: int) -> int:
                return part

        self.assertEqual(self.value(lambda: Report().part(3)), 3)
        self.assertEqual(self.gate.sent("acquire")[0].run_id, "sales-3")

    def test_a_handler_of_lambda(self) -> None:
        """The queue delivers the message three times: at first the handler fails, then it works, then the message comes once more."""
        ran: list[str] = []

        @self.once(key=lambda event, context: event["Records"][0]["messageId"], ignore=("event", "context"), max_failures=5)
        def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
            ran.append(context.aws_request_id)
            current().check()
            if len(ran) == 1:
                raise ConnectionError("the bank does not answer")
            return {"batchItemFailures": [], "order": json.loads(event["Records"][0]["body"])["order"]}

        with self.assertRaises(ConnectionError):
            self.value(lambda: handler(SQS_EVENT, Context()))
        for _ in range(2):
            self.assertEqual(self.value(lambda: handler(SQS_EVENT, Context())), {"batchItemFailures": [], "order": 42})
        self.assertEqual(len(ran), 2)
        self.assertEqual({a.run_id for a in self.gate.sent("acquire")}, {SQS_EVENT["Records"][0]["messageId"]})

    def run_task(self, main: Callable[[], Any], seconds: float = 60) -> Program:
        def do() -> Any:
            loop = self.clock.loop()
            try:
                return loop.run_until_complete(main())
            finally:
                loop.close()

        return self.call(do, seconds)

    def test_coroutine_functions(self) -> None:
        ran: list[str] = []

        @self.once(key="{name}", max_failures=2)
        async def job(name: str) -> dict[str, str]:
            ran.append(current().run_id)
            await asyncio.sleep(0)
            if name == "bad":
                raise KeyError(name)
            return {"name": name}

        self.assertTrue(asyncio.iscoroutinefunction(job))
        for _ in range(2):
            self.assertEqual(self.run_task(lambda: job("good")).value, {"name": "good"})
        self.assertEqual(ran, ["good"])
        for want in (KeyError, KeyError, RunFailedError):
            self.assertIsInstance(self.run_task(lambda: job("bad")).error, want)
        self.gate.runs["taken"] = Stored(holder=99, end=self.clock.wall() + 20)
        self.assertIsInstance(self.run_task(lambda: job("taken"), 1).error, RunLockedError)
        self.assertIsInstance(self.run_task(lambda: job(""), 1).error, leasehold.InvalidSettingError)

    def test_a_coroutine_is_cancelled_when_its_run_is_lost(self) -> None:
        went_on: list[str] = []

        @self.once()
        async def job() -> None:
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                went_on.append("cancelled")
                raise
            went_on.append("on")

        async def main() -> str:
            try:
                await job()
            except leasehold.LockLostError:
                await asyncio.sleep(0)  # the caller's own task goes on
                return "lost"
            return "held"

        p = self.run_task(main, 1)
        self.gate.runs["job"].holder = 99
        self.clock.run(6)
        self.assertEqual((p.value, went_on), ("lost", ["cancelled"]), p.error)
        self.assertEqual((self.gate.sent("finish"), self.gate.sent("release")), ([], []))

    def test_a_coroutine_that_goes_on_after_the_loss_stores_nothing(self) -> None:
        @self.once()
        async def job() -> str:
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                pass
            return "done"

        p = self.run_task(job, 1)
        self.gate.runs["job"].holder = 99
        self.clock.run(6)
        self.assertIsInstance(p.error, leasehold.LockLostError)
        self.assertEqual(self.gate.sent("finish"), [])

    def test_a_caller_that_gives_up(self) -> None:
        """Its work is cancelled; the run is released, and that does not count."""
        @self.once(max_failures=1)
        async def job() -> None:
            await asyncio.get_running_loop().create_future()

        async def main() -> str:
            task = asyncio.ensure_future(job())
            while not self.gate.sent("acquire"):
                await asyncio.sleep(0)
            for _ in range(1000):
                await asyncio.sleep(0)
            task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                return "cancelled"
            return "not"

        p = self.run_task(main, 1)
        self.assertEqual(p.value, "cancelled", p.error)
        self.assertEqual((self.gate.sent("release"), self.gate.sent("finish")), ([""], []))

    def test_a_caller_that_gives_up_twice(self) -> None:
        """It does not wait for the work to clean up, and the run is released all the same."""
        stop: list[asyncio.Task[Any]] = []

        @self.once()
        async def job() -> None:
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                stop[0].cancel()
                for _ in range(10):
                    await asyncio.sleep(0)

        async def main() -> None:
            stop.append(asyncio.ensure_future(job()))
            while len(asyncio.all_tasks()) < 3:  # the third is the job
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.001)
            stop[0].cancel()
            with self.assertRaises(asyncio.CancelledError):
                await stop[0]

        p = self.run_task(main, 1)
        p.join(STUCK)
        self.clock.run(60)
        self.assertIsNone(p.error)
        self.assertEqual((self.gate.sent("release"), self.gate.sent("finish"), self.gate.sent("refresh")), ([""], [], []))

    def test_an_interrupt_while_the_end_is_stored(self) -> None:
        """The work was done: its end is stored in the background."""
        finish = self.gate.finish
        interrupts = mock.Mock(side_effect=[KeyboardInterrupt, *[None] * 10])
        with mock.patch.object(self.gate, "finish", lambda *args: interrupts() or finish(*args)):
            p = self.call(lambda: self.once()(lambda: "done")(), 1)
        self.assertIsInstance(p.error, KeyboardInterrupt)
        self.assertEqual(self.gate.runs["job"].status, "READY")
        self.assertEqual(self.gate.sent("release"), [])

    def test_a_caller_that_gives_up_while_the_end_is_stored(self) -> None:
        """The end of the process waits for it."""
        finish, storing, go = self.gate.finish, threading.Event(), threading.Event()

        def slow(*args: Any) -> None:
            storing.set()
            go.wait(STUCK)
            finish(*args)

        @self.once()
        async def job() -> str:
            return "done"

        async def main() -> None:
            task = asyncio.ensure_future(job())
            while not storing.is_set():
                await asyncio.sleep(0.001)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task

        with mock.patch.object(self.gate, "finish", slow):
            p = Program(lambda: asyncio.run(main()))
            p.join(STUCK)
            self.assertFalse(_background.wait(0))
            go.set()
            self.assertTrue(_background.wait(STUCK))
        self.assertIsNone(p.error)
        self.assertEqual(self.gate.runs["job"].status, "READY")

    def test_work_that_is_no_coroutine_function(self) -> None:
        """The run is released, and not refreshed for good."""
        def broken(lock: RunLock) -> str:
            raise KeyError("mine")

        for work in (lambda lock: "text", broken):
            with self.subTest(repr(work)):
                self.gate.asked.clear()
                p = self.run_task(lambda: run_async(self.gate, "job", work, clock=self.clock, ttl=30))
                self.clock.run(60)
                self.assertEqual(getattr(p.value, "status", None), "attempt_failed", p.error)
                self.assertEqual((len(self.gate.sent("release")), self.gate.sent("refresh")), (1, []))

    def test_work_that_has_not_begun_when_the_function_returns(self) -> None:
        """Its key is not used up."""
        def generator() -> Any:
            yield 1

        async def generated() -> Any:
            yield 1

        async def coroutine() -> None: ...

        for f in (generator, generated):
            with self.subTest(f.__name__), self.assertRaises(leasehold.InvalidSettingError) as err:
                self.once()(f)
            self.assertEqual(err.exception.field, "function")
        for f in (generator, generated, coroutine):
            with self.subTest(f"returned {f.__name__}"):
                with self.assertRaises(leasehold.InvalidSettingError) as err:
                    self.value(self.once()(lambda: f()))
                self.assertEqual(err.exception.field, "function")
                work: Any = lambda lock: f()
                got = self.value(lambda: run(self.gate, "job", work, clock=self.clock))
                self.assertEqual((got.status, getattr(got.error, "field", None)), ("attempt_failed", "work"))
        self.assertEqual(self.value(self.once()(lambda: "done")), "done")

    def test_an_object_that_is_called_as_a_coroutine_function(self) -> None:
        class Job:
            async def __call__(self) -> str:
                return "done"

        p = self.run_task(self.once()(Job()))
        self.clock.run(1)
        self.assertEqual(p.value, "done", p.error)

    def test_a_result_that_is_no_text(self) -> None:
        """The run ends, and is not held until it expires."""
        for i, value in enumerate((5, b"x", {}, 0, False)):
            with self.subTest(repr(value)):
                work: Any = lambda lock: value
                got = self.value(lambda: run(self.gate, f"job-{i}", work, clock=self.clock))
                self.assertEqual(got.status, "failed", got)
                self.assertIn(type(value).__name__, str(got.error))
                self.assertEqual(self.gate.runs[f"job-{i}"].status, "FAILED")

    def test_callbacks_that_raise_end_nothing(self) -> None:
        told: list[Any] = []

        def tell(what: Any) -> None:
            told.append(what)
            if len(told) == 1:
                raise SystemExit
            raise ValueError("mine")

        self.gate.trouble["refresh"] = [codes.UnavailableError(status=503)]
        with mock.patch("sys.excepthook") as shown:
            got = self.value(lambda: run(
                self.gate, "job", lambda lock: str(self.clock.sleep(100)), clock=self.clock, ttl=30, on_refresh=tell, warn=tell), 120)
        self.assertEqual(got.status, "ready", got)
        self.assertGreater(len(told), 10)
        self.assertEqual(shown.call_count, len(told))

    def test_a_coroutine_that_is_thrown_away_releases(self) -> None:
        @self.once()
        async def job() -> None:
            await asyncio.get_running_loop().create_future()

        def do() -> None:
            loop = self.clock.loop()
            coroutine = job()
            loop.create_task(coroutine)
            while len(tasks := asyncio.all_tasks(loop)) < 2:  # the second is the job
                loop.call_later(0.01, loop.stop)
                loop.run_forever()
            loop.close()
            for t in tasks:
                t._log_destroy_pending = False  # type: ignore[attr-defined]
            coroutine.close()

        p = self.call(do, 1)
        p.join(STUCK)
        self.clock.run(1)
        self.assertIsNone(p.error)
        self.assertEqual(self.gate.sent("release"), [""])

    def test_a_loop_that_is_closed_releases(self) -> None:
        """Though its task was not cancelled, and can never go on."""
        left: list[Any] = []

        @self.once()
        async def job() -> None:
            await asyncio.get_running_loop().create_future()

        def do() -> None:
            loop = self.clock.loop()
            left.append(loop.create_task(job()))
            while len(tasks := asyncio.all_tasks(loop)) < 2:  # the second is the job
                loop.call_soon(loop.stop)
                loop.run_forever()
            loop.call_soon(loop.stop)
            loop.run_forever()  # it begins
            loop.close()
            left.extend(tasks)
            for t in tasks:
                t._log_destroy_pending = False  # type: ignore[attr-defined]

        p = self.call(do, 1)
        p.join(STUCK)
        self.clock.run(60)
        self.assertIsNone(p.error)
        self.assertEqual([what for what, _ in self.gate.asked], ["acquire", "release"])
        self.assertEqual(self.gate.sent("release"), [""])  # it does not count

    # run and run_async.

    def test_outcomes(self) -> None:
        def ask(run_id: str, work: Callable[[RunLock], str | None]) -> Any:
            return self.value(lambda: run(self.gate, run_id, work, clock=self.clock, ttl=30))

        def fail(_: RunLock) -> str:
            raise KeyError("it")

        self.assertEqual((ask("a", lambda lock: f"token {lock.token}").status, ask("a", fail).result), ("ready", "token 1"))
        failed = ask("b", fail)
        self.assertEqual((failed.status, type(failed.error)), ("attempt_failed", KeyError))
        self.gate.trouble["acquire"] = [codes.NotFoundError(problem={"field": "analysis_id"}, status=404)]
        self.assertEqual(ask("c", fail).status, "unknown_analysis")
        self.gate.trouble["acquire"] = [codes.NotFoundError(problem={"field": "path"}, status=404)]
        with self.assertRaises(codes.NotFoundError):  # a server without runs
            ask("d", fail)

    def test_refreshes_are_told(self) -> None:
        """So that the time of a message of a queue can be moved along."""
        told: list[Any] = []
        end = Signal()

        def work(lock: RunLock) -> str:
            self.clock.wait(13, end)
            return ""

        self.value(lambda: run(self.gate, "job", work, clock=self.clock, ttl=30, on_refresh=told.append))
        self.assertEqual([round(t.timestamp() - self.clock._wall + 60 - 30) for t in told], [6, 12])

    def test_run_async(self) -> None:
        async def work(lock: RunLock) -> str:
            await asyncio.sleep(0)
            return f"token {lock.token}"

        p = self.run_task(lambda: run_async(self.gate, "job", work, clock=self.clock, ttl=30))
        self.assertEqual((p.value.status, p.value.result), ("ready", "token 1"))


class SharedTest(unittest.TestCase):
    """Calls of one process for one run that are shared."""

    def setUp(self) -> None:
        self.clock = VirtualClock()
        self.gate = Memory(self.clock)
        self.runs = 0

    def work(self, lock: RunLock) -> str:
        self.runs += 1
        self.clock.wait(5)
        return str(self.runs)

    def ask(self, work: Any = None, wait: float = 10, **settings: Any) -> Program:
        p = Program(lambda: run(self.gate, "r", work or self.work, wait=wait, shared=True, clock=self.clock, **settings))
        self.clock.settle()
        return p

    def test_a_storm_is_one_run(self) -> None:
        programs = [self.ask() for _ in range(20)]
        self.clock.run(6)
        self.assertEqual([(p.value.status, p.value.result, p.value.value) for p in programs], [("ready", "1", "1")] * 20)
        self.assertEqual((self.runs, len(self.gate.sent("acquire")), _flights.of), (1, 1, {}))

    def test_each_call_of_a_function_has_a_result_of_its_own(self) -> None:
        @once(self.gate, key="r", wait=10, shared=True, clock=self.clock)
        def work() -> list[str]:
            self.clock.wait(5)
            return ["paid"]

        one, two = Program(work), Program(work)
        self.clock.run(6)
        self.assertEqual((one.value, two.value, one.value is two.value), (["paid"], ["paid"], False))

    def test_a_failure_is_shared_and_one_that_says_nothing_is_not(self) -> None:
        def fails(lock: RunLock) -> str:
            self.clock.wait(1)
            raise OSError("no paper")

        def uncounted(lock: RunLock) -> str:
            self.clock.wait(1)
            raise UncountedError("no credential")

        one, two = self.ask(fails), self.ask()
        self.clock.run(2)
        self.assertEqual((one.value.status, one.value.error is two.value.error, self.runs), ("attempt_failed", True, 0))
        one, two = self.ask(uncounted), self.ask()
        self.clock.run(7)
        self.assertEqual((one.value.status, two.value.result, self.runs), ("attempt_failed", "1", 1))

    def test_what_another_process_took_over_is_asked_for_there(self) -> None:
        first, second = self.ask(), self.ask()
        self.gate.runs["r"].holder, self.gate.runs["r"].status, self.gate.runs["r"].result = 0, "READY", "of another process"
        self.clock.run(6)
        self.assertEqual((first.value.status, second.value.status, second.value.result), ("lock_lost", "already_finished", "of another process"))

    def test_a_call_waits_no_longer_than_it_is_told_to(self) -> None:
        first, second = self.ask(), self.ask(wait=2)
        self.clock.run(3)
        self.assertEqual(second.value, Outcome("locked", retry_after=1.0))
        self.clock.run(3)
        self.assertEqual(first.value.result, "1")

    def test_another_input_is_refused_also_while_the_end_is_not_stored(self) -> None:
        self.gate.trouble["finish"] = [leasehold.NoResponseError("refused", sent=False) for _ in range(100)]
        first = self.ask(fingerprint="1", ttl=3)
        self.assertIsInstance(self.ask(fingerprint="2").error, codes.RunDiffersError)
        self.clock.run(30)
        asked = len(self.gate.sent("acquire"))
        same, other = self.ask(fingerprint="1"), self.ask(fingerprint="2")
        self.clock.run(1)
        self.assertEqual((first.value.status, same.value), ("not_stored", first.value))
        self.assertIsInstance(other.error, codes.RunDiffersError)
        self.assertEqual((self.runs, len(self.gate.sent("acquire"))), (1, asked))
        first.value.storing.stop()
        self.clock.run(10)
        self.assertEqual(_flights.of, {})


if __name__ == "__main__":
    unittest.main()
