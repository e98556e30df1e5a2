"""Handlers of AWS Lambda: the time that is left, and batches of SQS."""

from __future__ import annotations

import unittest
from typing import Any

import leasehold
from leasehold import aws, codes
from leasehold.once import PermanentError, RunLockedError, RunNotStoredError

from test_once import Context, Memory
from virtual import VirtualClock
from test_locks import Program


class Left(Context):
    """A context with so many seconds left."""

    def __init__(self, clock: VirtualClock, seconds: float) -> None:
        self.clock, self.end = clock, clock.monotonic() + seconds

    def get_remaining_time_in_millis(self) -> int:
        return int((self.end - self.clock.monotonic()) * 1000)


class Once(unittest.TestCase):
    def setUp(self) -> None:
        self.clock = VirtualClock()
        self.gate = Memory(self.clock)

    def call(self, f: Any, event: Any, seconds: float, passes: float = 0.0) -> Program:
        context = Left(self.clock, seconds)
        p = Program(lambda: f(event, context))
        self.clock.settle()
        self.clock.run(passes)
        return p

    def test_a_lock_lasts_as_long_as_the_invocation(self) -> None:
        """The delivery that follows one which was killed at its end need not wait."""
        @aws.once(self.gate, key="order-{event[id]}", clock=self.clock)
        def handler(event: Any, context: Any) -> str:
            return "made"

        p = self.call(handler, {"id": 7}, 12.3)
        self.assertEqual((p.value, self.gate.sent("acquire")[0].ttl), ("made", 13))
        self.assertEqual(self.call(handler, {"id": 7}, 3.0).value, "made")  # the context is no part of it
        self.assertEqual(len(self.gate.sent("finish")), 1)

    def test_nothing_is_refreshed(self) -> None:
        @aws.once(self.gate, key="order", clock=self.clock)
        def handler(event: Any, context: Any) -> str:
            self.clock.wait(50)
            return "made"

        p = self.call(handler, {}, 60, 51)
        self.assertEqual((p.value, self.gate.sent("refresh")), ("made", []))

    def test_what_it_waits_for_ends_before_it(self) -> None:
        """Another one's run, a gate that is away at the begin, and one that is away at the end."""
        @aws.once(self.gate, key="order", wait=60, clock=self.clock)
        def handler(event: Any, context: Any) -> str:
            return "made"

        self.gate.trouble["finish"] = [leasehold.NoResponseError("no")] * 1000
        p = self.call(handler, {}, 5, 4.1)
        self.assertIsInstance(p.error, RunNotStoredError)
        assert isinstance(p.error, RunNotStoredError)
        self.assertEqual(p.error.value, "made")
        assert p.error.storing is not None
        p.error.storing.stop()
        self.clock.run(1)
        del self.gate.trouble["finish"]
        self.gate.runs["order"].end = self.clock.wall() + 100
        self.assertIsInstance(self.call(handler, {}, 3, 2.1).error, RunLockedError)
        self.gate.trouble["acquire"] = [leasehold.NoResponseError("no")] * 1000
        p = self.call(handler, {}, 4, 3.1)
        self.assertIsInstance(p.error, leasehold.NoResponseError)

    def test_too_late(self) -> None:
        @aws.once(self.gate, key="order", clock=self.clock)
        def handler(event: Any, context: Any) -> str:
            return "made"

        self.assertIsInstance(self.call(handler, {}, 1.5).error, TimeoutError)
        self.assertEqual(self.gate.asked, [])

    def test_what_is_no_handler(self) -> None:
        with self.assertRaises(leasehold.InvalidSettingError):
            aws.once(self.gate, key="k")(lambda event: None)


def record(message: str, body: str, group: str | None = None) -> dict[str, Any]:
    return {
        "messageId": message, "body": body, "eventSource": "aws:sqs", "eventSourceARN": "arn:aws:sqs:eu-central-1:1:q" + (".fifo" if group else ""),
        "attributes": {"MessageGroupId": group or "g"},
    }


class Batch(unittest.TestCase):
    def setUp(self) -> None:
        self.done: list[Any] = []

    def batch(self, *records: dict[str, Any], seconds: float = 60.0) -> list[str]:
        clock = VirtualClock()
        context = Left(clock, seconds)

        def work(body: Any, record: Any) -> None:
            clock.move(10)
            if body == "fails":
                raise codes.OverloadedError(status=503)
            self.done.append(body)

        with self.assertLogs("leasehold") as said:
            leasehold.locks.log.info("begun")
            out = aws.batch({"Records": list(records)}, context, work)
        self.said = said.output[1:]
        self.assertEqual(list(out), ["batchItemFailures"])
        return [f["itemIdentifier"] for f in out["batchItemFailures"]]

    def test_what_fails_comes_again(self) -> None:
        self.assertEqual(self.batch(record("1", "1"), record("2", '"fails"'), record("3", "3")), ["2"])
        self.assertEqual(self.done, [1, 3])

    def test_malformed_bodies_are_reported_at_once(self) -> None:
        """Also those behind others for which there is no time."""
        self.assertEqual(self.batch(record("1", "1"), record("2", "{"), record("3", "3")), ["2"])
        self.assertIn("2 is malformed", self.said[0])

    def test_a_group_stops_at_what_comes_again(self) -> None:
        failed = self.batch(record("1", '"fails"', "a"), record("2", "2", "a"), record("3", "3", "b"), record("4", "{", "b"), record("5", "5", "b"))
        self.assertEqual((failed, self.done), (["1", "2", "4", "5"], [3]))

    def test_what_is_done_and_not_stored_does_not_come_again(self) -> None:
        """What failed for good does: no one else knows it."""
        clock = VirtualClock()
        for problem in (None, PermanentError("no ink")):
            gate = Memory(clock)
            gate.trouble["finish"] = [codes.PermissionDeniedError()] * 2

            @aws.once(gate, key="order", clock=clock)
            def handler(event: Any, context: Any) -> str:
                if problem is not None:
                    raise problem
                return "made"

            context = Left(clock, 60)
            with self.subTest(problem), self.assertLogs("leasehold"):
                out = aws.batch({"Records": [record("1", "1")]}, context, lambda body, record: handler(body, context))
                self.assertEqual(out["batchItemFailures"], [] if problem is None else [{"itemIdentifier": "1"}])

    def test_what_there_is_no_time_for_comes_again(self) -> None:
        self.assertEqual(self.batch(*(record(str(i), str(i)) for i in range(5)), seconds=25.0), ["3", "4"])

    def test_what_is_no_batch(self) -> None:
        for event in ({}, {"Records": []}, {"Records": [{"eventSource": "aws:s3"}]}, [], {"Records": [{**record("1", "1"), "messageId": ""}]}):
            with self.subTest(event), self.assertRaises(ValueError):
                aws.batch(event, None, print)  # type: ignore[arg-type]


if __name__ == "__main__":
    unittest.main()
