"""Locks on a provider that the test writes, by a clock that the test moves."""

from __future__ import annotations

import asyncio
import functools
import gc
import ssl
import threading
import time
import unittest
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from unittest import mock

import leasehold
from leasehold import _outcome, _steps, codes
from leasehold._time import Signal
from leasehold._transport import loopback
from leasehold.locks import _made
from leasehold.once import once

from fork import in_child
from virtual import STUCK, VirtualClock, no_threads


class Fake:
    """A server of exclusive locks that always grants, unless the test says otherwise."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock, self.token = clock, 0
        self.abort = Signal()  # of the latest acquire
        self.sent: list[tuple[str, dict[str, Any]]] = []
        self.answers: dict[str, list[Callable[[dict[str, Any]], dict[str, Any]]]] = {"acquire": [], "give_up": [],
            "renew": [], "release": []}

    def _answer(self, what: str, r: Mapping[str, Any], body: dict[str, Any]) -> dict[str, Any]:
        self.sent.append((what, dict(r)))
        return self.answers[what].pop(0)(body) if self.answers[what] else body

    def _lease(self, key: str, r: Mapping[str, Any], token: int) -> dict[str, Any]:
        return {
            "tenant_id": "t", "lock_key": key, "lease_id": "l", "owner_id": r["owner_id"], "fencing_token": token, "state": "ACTIVE", "replayed": False,
            "expires_at": "2030-01-01T00:00:30.000Z", "remaining_ms": r.get("ttl_seconds", 0) * 1000,
            "ttl_seconds": r.get("ttl_seconds", 0),
            "metadata": {},
        }

    def send_acquire(self, key: str, r: Mapping[str, Any], seconds: float, abort: Signal) -> dict[str, Any]:
        self.token += 1
        self.abort = abort
        return self._answer("acquire", r, self._lease(key, r, self.token))

    def send_give_up(self, key: str, r: Mapping[str, Any], seconds: float, abort: Signal) -> None:
        self._answer("give_up", r, {})

    def send_renew(self, key: str, r: Mapping[str, Any], seconds: float, abort: Signal) -> dict[str, Any]:
        return self._answer("renew", r, self._lease(key, r, r["fencing_token"]))

    def send_release(self, key: str, r: Mapping[str, Any], seconds: float, abort: Signal) -> dict[str, Any]:
        body = {"tenant_id": "t", "lock_key": key, "owner_id": r["owner_id"], "fencing_token": r["fencing_token"], "state": "RELEASED", "replayed": False}
        return self._answer("release", r, body)

    def send_list(self, prefix: str, page_size: int, page_token: str, seconds: float, abort: Signal) -> dict[str, Any]:
        raise codes.NotConfiguredError()

    def send_get(self, key: str, seconds: float, abort: Signal) -> dict[str, Any]:
        raise codes.NotFoundError()

    def send_set(
        self, command: str, r: Mapping[str, Any], keys: Sequence[str], tokens: Mapping[str, int], seconds: float, abort: Signal,
    ) -> dict[str, Any]:
        raise codes.NotConfiguredError()


def fails(err: BaseException) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def answer(_: dict[str, Any]) -> dict[str, Any]:
        raise err

    return answer


def but(**members: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda body: {**body, **members}


class Program(threading.Thread):
    """A program that uses the client, in a thread that the clock knows."""

    def __init__(self, do: Callable[[], Any]) -> None:
        super().__init__(name="leasehold program", daemon=True)
        self.do, self.value, self.error = do, None, None
        self.start()

    value: Any
    error: BaseException | None

    def run(self) -> None:
        try:
            self.value = self.do()
        except BaseException as err:
            self.error = err


def raises(lock: leasehold.Lock) -> bool:
    """Whether check says that the lock is lost."""
    try:
        lock.check()
    except leasehold.LockLostError:
        return True
    return False


class LocksTest(unittest.TestCase):
    def setUp(self) -> None:
        self.clock = VirtualClock()
        self.server = Fake(self.clock)
        self.locks = leasehold.Locks(self.server, owner="me", ttl=30, clock=self.clock)
        self.kept: list[leasehold.Lock] = []  # a lock that no one has any more is not renewed

    def tearDown(self) -> None:
        for lock in list(self.locks._held):
            lock._term.over.set()
            lock._renewing.set()
        self.clock.settle()

    def held(self, **settings: Any) -> leasehold.Lock:
        p = Program(lambda: self.locks.hold("k", **settings).acquire())
        self.clock.settle()
        assert isinstance(p.value, leasehold.Lock), p.error
        self.kept.append(p.value)
        return p.value

    def sent(self, what: str) -> list[dict[str, Any]]:
        return [r for name, r in self.server.sent if name == what]

    def test_renewed_at_a_third(self) -> None:
        self.held()
        self.clock.run(9.9)
        self.assertEqual(len(self.sent("renew")), 0)
        self.clock.run(0.2)
        self.assertEqual(len(self.sent("renew")), 1)
        self.clock.run(10)
        self.assertEqual(len(self.sent("renew")), 2)
        ids = {r["request_id"] for _, r in self.server.sent}
        self.assertEqual(len(ids), 3)

    def test_a_lock_that_no_one_has_any_more_is_not_renewed(self) -> None:
        """It is left to expire, as what it protects may still be at work; an event and the log name its key."""
        events: list[str] = []
        locks = leasehold.Locks(self.server, owner="me", ttl=30, clock=self.clock, observe=lambda e: events.append(f"{e.what} {e.key}"))
        for how in ("dropped", "its thread died", "in a cycle", "after a wait"):
            with self.subTest(how):
                events.clear()
                self.server.sent.clear()
                if how == "after a wait":
                    self.server.answers["acquire"] = [fails(codes.LockHeldError(problem={"retryable": True}, status=409))]

                def take() -> None:
                    lock = locks.hold("k").acquire()
                    if how == "in a cycle":
                        setattr(lock, "itself", lock)
                    if how == "its thread died":
                        raise KeyError("a mistake")

                p = Program(take)
                self.clock.settle()
                p.join(STUCK)
                p.error = None
                gc.collect()
                with self.assertLogs("leasehold", "WARNING") as said:
                    self.clock.run(26)
                self.assertIn("'k'", said.output[0])
                self.assertEqual((len(self.sent("renew")), len(self.sent("release"))), (0, 0))
                self.assertIn("Forgotten k", events)
                self.clock.run(5)
                self.assertEqual(events[-1], "Lost k")
                self.assertEqual(locks._held, set())

    def test_locked_owned_and_list(self) -> None:
        """locked asks the server, owned only the clocks."""
        lock = self.held()
        self.assertTrue(lock.owned())
        pages = {"": ([{"lock_key": "k1"}, {"lock_key": "k2"}], "p"), "p": ([{"lock_key": "k3"}], "")}
        asked: list[tuple[str, int, str]] = []

        def send_list(prefix: str, page_size: int, place: str, seconds: float, abort: Signal) -> dict[str, Any]:
            asked.append((prefix, page_size, place))
            return {"locks": pages[place][0], "next_page_token": pages[place][1]}

        def send_get(key: str, seconds: float, abort: Signal) -> dict[str, Any]:
            if key == "none":
                raise codes.NotFoundError(status=404)
            return {"state": key.upper()}

        with mock.patch.object(self.server, "send_list", send_list), mock.patch.object(self.server, "send_get", send_get):
            self.assertEqual([self.locks.locked(k) for k in ("active", "released", "none")], [True, False, False])
            found = self.locks.list(prefix="k", page_size=2)
            self.assertEqual(next(found)["lock_key"], "k1")
            self.assertEqual(len(asked), 1)  # the next page is read when it is needed
            self.assertEqual([r["lock_key"] for r in found], ["k2", "k3"])
            self.assertEqual(asked, [("k", 2, ""), ("k", 2, "p")])

            async def tasks() -> None:
                self.assertEqual([await self.locks.locked_async(k) for k in ("active", "none")], [True, False])
                self.assertEqual([r["lock_key"] async for r in self.locks.list_async(prefix="k")], ["k1", "k2", "k3"])

            asyncio.run(tasks())
        before = len(self.server.sent)
        self.clock.move(28, due=False)
        self.assertFalse(lock.owned())
        self.clock.move(0)
        self.assertEqual(before, len(self.server.sent))
        other = self.held()
        Program(other.release)
        self.clock.settle()
        self.assertFalse(other.owned())

    def test_a_call_that_blocks_is_refused_where_an_event_loop_runs(self) -> None:
        """At the line that is wrong; nothing is sent. The error names the other form."""
        lock, client = self.held(), leasehold.Client("http://127.0.0.1:1")
        self.server.sent.clear()
        hold = self.locks.hold("another")

        def block() -> None:
            with hold:
                self.fail("it holds the lock")

        @once(client.runs(), key="k")
        def job() -> Any:
            self.fail("it runs")

        calls: tuple[tuple[Callable[[], Any], str], ...] = (
            (block, "async with"), (hold.acquire, "acquire_async"), (lock.release, "release_async"), (lambda: self.locks.locked("k"), "locked_async"),
            (lambda: self.locks.get("k"), "get_async"), (lambda: self.locks.list(), "list_async"), (self.locks.close, "to_thread"),
            (lambda: self.locks.take("k", limit=1, window=1), "take_async"), (lambda: client.lock_api().get("k"), "to_thread"), (lambda: job(), "run_async"),
        )

        async def main() -> None:
            for call, instead in calls:
                with self.subTest(instead), self.assertRaises(leasehold.EventLoopError) as err:
                    call()
                self.assertIn(instead, str(err.exception))

        asyncio.run(main())
        self.assertEqual(self.server.sent, [])
        Program(lambda: hold.acquire().release())  # it was not used up
        self.clock.settle()
        self.assertEqual([what for what, _ in self.server.sent], ["acquire", "release"])
        lock.check()

    def test_wait_none_names_forever(self) -> None:
        calls: tuple[Callable[[], object], ...] = (
            lambda: self.locks.hold("k", wait=None), lambda: self.locks.take("k", limit=1, window=1, wait=None))  # type: ignore[arg-type]
        for call in calls:
            with self.assertRaises(leasehold.InvalidSettingError) as err:
                call()
            self.assertEqual(err.exception.field, "wait")
            self.assertIn("FOREVER", str(err.exception))

    def test_lost_a_margin_before_the_end(self) -> None:
        lock = self.held()
        self.server.answers["renew"] = [fails(leasehold.NoResponseError("no"))] * 1000
        self.clock.run(26.9)
        lock.check()
        self.clock.run(0.2)
        self.assertTrue(threading.Event.is_set(lock.lost))  # by the thread of the lock, without a look
        with self.assertRaises(leasehold.LockLostError) as lost:
            lock.check()
        self.assertIsInstance(lost.exception.__cause__, leasehold.NoResponseError)
        self.assertGreater(lock.left, 2)
        self.assertEqual(lock.remaining, 0)

    def test_two_clocks(self) -> None:
        for name, monotonic, wall in (("the machine slept", 0.0, 28.0), ("the time was set", 28.0, 0.0), ("both", 28.0, 28.0)):
            with self.subTest(name):
                looks: tuple[Callable[[leasehold.Lock], bool], ...] = (
                    lambda lock: lock.lost.is_set(), lambda lock: lock.lost.wait(0), lambda lock: lock.remaining == 0, lambda lock: lock.lost_cause is not None, raises)
                for look in looks:  # each by itself, on a lock of its own
                    lock = self.held()
                    self.assertFalse(look(lock))
                    self.clock.move(monotonic, wall, due=False)  # no thread has run yet
                    self.assertTrue(look(lock))
                    self.clock.move(0)
                    self.clock.settle()

    def test_a_renewal_that_comes_after_the_end_extends_nothing(self) -> None:
        def slow(body: dict[str, Any]) -> dict[str, Any]:
            self.clock.move(20, due=False)
            return body

        lock = self.held()
        self.server.answers["renew"] = [slow]
        self.clock.run(11)
        self.assertTrue(raises(lock))
        self.clock.run(5)
        self.assertTrue(raises(lock))

    def test_another_answer_is_no_lease(self) -> None:
        wrong: tuple[dict[str, Any], ...] = (
            {"owner_id": "another"}, {"lock_key": "another"}, {"fencing_token": 0}, {"fencing_token": -1}, {"state": "RELEASED"}, {"remaining_ms": 0},
            {"lease_id": ""}, {"expires_at": ""}, {"mode": "shared"}, {"permit": 1}, {"owner_id": "notme"}, {"owner_id": "#me#x"},
        )
        for members in wrong:
            with self.subTest(str(members)):
                before = len(self.sent("acquire"))
                self.server.answers["acquire"] = [but(**members)]
                p = Program(lambda: self.locks.hold("k").acquire())
                self.clock.run(1)
                self.assertIsNotNone(p.value, p.error)
                asked = self.sent("acquire")[before:]
                self.assertEqual(len(asked), 2)  # the same request again
                self.assertEqual(asked[0]["request_id"], asked[1]["request_id"])
                Program(p.value.release)
                self.clock.settle()

    def test_a_permit_that_cannot_be(self) -> None:
        for permit in (0, 4, -1):
            with self.subTest(permit):
                before = len(self.sent("acquire"))
                self.server.answers["acquire"] = [but(mode="permits", permit=permit), but(mode="permits", permit=3)]
                p = Program(lambda: self.locks.hold("k", permits=3).acquire())
                self.clock.run(1)
                self.assertEqual((p.value.permit, len(self.sent("acquire")) - before), (3, 2), p.error)
                Program(p.value.release)
                self.clock.settle()

    def test_a_wait_of_the_server_that_cannot_be(self) -> None:
        """The lease begins no later than its response arrived, whatever the server says of its wait."""
        for said, took, want in ((3_600_000, 5.0, 5.0), (-5000, 5.0, 0.0), (3000, 5.0, 3.0)):
            self.assertEqual(_outcome.waited({"wait_seconds": 20}, {"waited_ms": said}, took), want)
        self.assertEqual(_outcome.waited({}, {"waited_ms": 3000}, 5.0), 0.0)

    def test_a_late_answer_is_released(self) -> None:
        def slow(body: dict[str, Any]) -> dict[str, Any]:
            self.clock.move(1.9)
            return body

        locks = leasehold.Locks(self.server, owner="me", ttl=2, retry_for=60, clock=self.clock)
        self.server.answers["acquire"] = [slow]
        p = Program(lambda: locks.hold("k").acquire())
        self.clock.run(5)
        self.assertEqual([r["fencing_token"] for r in self.sent("release")], [1])
        self.assertEqual(p.value.token, 2)
        self.assertNotEqual(self.sent("acquire")[0]["request_id"], self.sent("acquire")[1]["request_id"])
        p.value._keeper._term.over.set()
        p.value._keeper._renewing.set()

    def test_without_time_for_more_and_without_a_wait_there_is_one_try(self) -> None:
        locks = leasehold.Locks(self.server, owner="me", retry_for=0, clock=self.clock)
        p = Program(lambda: locks.hold("k", wait=0).acquire().release())
        self.clock.run(3)
        self.assertIsNone(p.error)
        self.assertEqual(len(self.sent("acquire")), 1)

    def test_retries_obey_the_server(self) -> None:
        self.server.answers["acquire"] = [fails(codes.RateLimitedError(problem={"retry_after_ms": 5000, "retryable": True}, status=429))]
        p = Program(lambda: self.locks.hold("k").acquire())
        self.clock.run(4.9)
        self.assertEqual(len(self.sent("acquire")), 1)
        self.clock.run(0.2)
        self.assertIsNotNone(p.value)

    def test_that_a_lease_has_ended_is_no_error_of_one_who_had_no_answer_until_then(self) -> None:
        begin = self.clock.now()

        def answer(_: dict[str, Any]) -> dict[str, Any]:
            raise codes.UnavailableError(status=503) if begin.until(self.clock.now()) < 9.99 else codes.RequestIdReusedError(status=422)

        self.server.answers["acquire"] = [answer] * 99
        p = Program(lambda: self.locks.hold("k").acquire())
        self.clock.run(15)
        self.assertIsInstance(p.error, codes.UnavailableError)
        self.assertEqual(len({r["request_id"] for r in self.sent("acquire")}), 1)

    def test_an_error_that_stays_is_not_repeated(self) -> None:
        errors: tuple[leasehold.ApiError, ...] = (
            codes.PermissionDeniedError(), codes.DocumentDamagedError(status=500), codes.NotConfiguredError(status=501))
        for err in errors:
            with self.subTest(err.code):
                self.server.sent.clear()
                self.server.answers["acquire"] = [fails(err)]
                p = Program(lambda: self.locks.hold("k").acquire())
                self.clock.run(60)
                self.assertIs(p.error, err)
                self.assertEqual(len(self.server.sent), 1)  # nor is it asked for once more to release what it obtained: that is nothing

    def test_an_error_of_the_server_is_repeated_though_it_does_not_say_that_it_may_be(self) -> None:
        self.server.answers["acquire"] = [fails(codes.InternalError(status=500))]
        p = Program(lambda: self.locks.hold("k").acquire())
        self.clock.run(60)
        self.assertIsNotNone(p.value)
        self.assertEqual(len(self.sent("acquire")), 2)

    def test_a_mistake_in_the_program_is_not_repeated(self) -> None:
        for where in ("send_acquire", "_answer"):  # before anything was sent, and after that
            with self.subTest(where):
                self.server.sent.clear()
                do = getattr(self.server, where)
                mistakes = mock.Mock(side_effect=[KeyError("a bug of the provider")])

                def once(*args: Any) -> Any:
                    setattr(self.server, where, do)
                    if where == "_answer":
                        do(*args)
                    return mistakes()

                setattr(self.server, where, once)
                p = Program(lambda: self.locks.hold("k").acquire())
                self.clock.run(60)
                self.assertIsInstance(p.error, KeyError)
                # It may have obtained something all the same.
                self.assertEqual([what for what, _ in self.server.sent],
                    ["acquire"] * (where == "_answer") + ["give_up"])

    def test_a_release_with_a_mistake_in_the_program_is_not_repeated(self) -> None:
        lock = self.held()
        self.server.answers["release"] = [fails(KeyError("a bug of the provider"))]
        p = Program(lock.release)
        self.clock.run(40)
        self.assertIsInstance(p.error, leasehold.NotReleasedError)
        assert p.error is not None
        self.assertIsInstance(p.error.__cause__, KeyError)
        self.assertEqual(len(self.sent("release")), 1)

    def test_what_was_never_sent_has_obtained_nothing(self) -> None:
        """A connection that could not be made is tried again, and nothing is said when that is given up; a lost
        response may be that of a grant."""
        for sent, want in ((False, 0), (True, 1)):
            with self.subTest(sent=sent):
                self.server.answers["acquire"] = [fails(leasehold.NoResponseError("no", sent=sent))] * 1000
                p = Program(lambda: self.locks.hold("k").acquire())
                self.assertTrue(self.clock.run(60, until=lambda: not p.is_alive()))
                self.assertIsInstance(p.error, leasehold.NoResponseError)
                self.assertGreater(len(self.sent("acquire")), 2)
                self.server.answers["acquire"].clear()
                self.clock.run(60)
                self.assertEqual((len(self.sent("give_up")), len(self.sent("release"))), (want, 0))
                self.server.sent.clear()

    def test_a_release_without_an_answer_is_repeated(self) -> None:
        lock = self.held()
        self.server.answers["release"] = [fails(leasehold.NoResponseError("no"))] * 3
        p = Program(lock.release)
        self.clock.run(20)
        self.assertIsNone(p.error)
        releases = self.sent("release")
        self.assertEqual(len(releases), 4)
        self.assertEqual(len({r["request_id"] for r in releases}), 1)

    def test_a_try_that_may_have_been_carried_out_stays_open(self) -> None:
        """The acquire is given up for the server too, whatever the tries after it met, unless one of them was
        rejected for good."""
        lost, late, limited = leasehold.NoResponseError("no"), codes.UnavailableError(status=503), codes.RateLimitedError(status=429)
        cases: dict[str, tuple[list[Exception], bool]] = {
            "an error of the server": ([late], True), "then not authenticated": ([lost, codes.UnauthenticatedError(status=401)], True),
            "then limited": ([lost] + [limited] * 1000, True), "then denied": ([lost, codes.PermissionDeniedError(status=403)], False),
        }
        for name, (errors, want) in cases.items():
            with self.subTest(name):
                self.server.answers["acquire"] = [fails(e) for e in (errors * 1000 if len(errors) == 1 else errors)]
                p = Program(lambda: self.locks.hold("k").acquire())
                self.assertTrue(self.clock.run(60, until=lambda: not p.is_alive()))
                self.assertIsInstance(p.error, type(errors[-1]))
                self.server.answers["acquire"].clear()
                self.clock.run(60)
                self.assertEqual(len(self.sent("give_up")), 1 if want else 0)
                self.assertEqual(len({r["request_id"] for _, r in self.server.sent}), 1)
                self.server.sent.clear()

    def test_an_error_that_asks_for_more_time_than_there_is(self) -> None:
        """It is raised at once: a later try would come too late."""
        problem = {"retryable": True, "retry_after_ms": 11_000}
        self.server.answers["acquire"] = [fails(codes.RateLimitedError("", problem, status=429))]
        p = Program(lambda: self.locks.hold("k").acquire())
        self.clock.settle()
        self.assertIsInstance(p.error, codes.RateLimitedError)
        self.clock.run(60)
        self.assertEqual([what for what, _ in self.server.sent], ["acquire"])

    def test_what_is_given_up_is_the_request(self) -> None:
        """With replace too, and without the wait: whether the parameters are the same is compared."""
        self.server.answers["acquire"] = [
            fails(leasehold.LockHeldError(problem={"retry_after_ms": 1000})), fails(leasehold.NoResponseError("no")),
            fails(codes.UnauthenticatedError(status=401))]
        p = Program(lambda: self.locks.hold("k", replace=True, metadata={"build": "7"}).acquire())
        self.clock.run(60)
        self.assertIsInstance(p.error, codes.UnauthenticatedError)
        self.assertEqual([bool(r.pop("wait_seconds", 0)) for r in self.sent("acquire")], [False, True, False])
        self.assertEqual(self.sent("acquire") + self.sent("give_up"), [self.sent("acquire")[0]] * 4)

    def test_a_renewal_says_that_the_lease_is_gone(self) -> None:
        for err in (codes.LeaseLostError(), codes.LeaseExpiredError(), codes.LeaseReleasedError(), codes.NotOwnerError()):
            with self.subTest(err.code):
                lock = self.held()
                self.server.answers["renew"] = [fails(err)]
                self.clock.run(11)
                self.assertTrue(raises(lock))
                assert lock.lost_cause is not None
                self.assertIs(lock.lost_cause.__cause__, err)

    def test_a_renewal_of_another_lease_extends_nothing(self) -> None:
        wrong: tuple[dict[str, Any], ...] = ({"fencing_token": 99}, {"lock_key": "another"}, {"owner_id": "another"}, {"permit": 1}, {"state": "RELEASED"})
        for members in wrong:
            with self.subTest(str(members)):
                lock = self.held()
                self.server.answers["renew"] = [but(**members)] * 1000
                self.clock.run(26.9)
                self.assertFalse(raises(lock))
                self.clock.run(0.2)
                self.assertTrue(raises(lock))
                assert lock.lost_cause is not None
                self.assertIsInstance(lock.lost_cause.__cause__, leasehold.InvalidResponseError)
                self.server.answers["renew"].clear()

    def test_threads_are_served_in_their_order(self) -> None:
        first = self.held()
        order: list[int] = []

        def use(n: int) -> None:
            with self.locks.hold("k"):
                order.append(n)

        for n in range(4):
            Program(functools.partial(use, n))
            self.clock.settle()
        self.assertEqual(len(self.sent("acquire")), 1)  # the others wait in this process
        Program(first.release)
        self.clock.run(1)
        self.assertEqual(order, [0, 1, 2, 3])

    def test_a_thread_that_gets_an_error_lets_the_next_one_ask(self) -> None:
        self.server.answers["acquire"] = [fails(codes.UnavailableError(status=503)), fails(codes.PermissionDeniedError())]
        first = Program(lambda: self.locks.hold("k").acquire())
        self.clock.settle()
        second = Program(lambda: self.locks.hold("k").acquire())
        self.clock.settle()
        self.assertEqual(len(self.sent("acquire")), 1)
        self.clock.run(20)
        self.assertIsInstance(first.error, codes.PermissionDeniedError)
        self.assertIsInstance(second.value, leasehold.Lock, second.error)

    def test_a_loss_is_told_once(self) -> None:
        """And none is told of a lock that was released, whatever comes later."""
        told: list[str] = []
        self.locks = leasehold.Locks(self.server, owner="me", ttl=30, clock=self.clock, observe=lambda e: told.append(e.what))
        self.server.answers["renew"] = [fails(codes.LeaseLostError())]
        lock = self.held()
        self.clock.run(11)
        self.assertEqual(told, ["Acquired", "Lost"])
        for _ in range(2):
            self.assertTrue(raises(lock))
            p = Program(lock.release)
            self.clock.run(60)
            self.assertIsInstance(p.error, leasehold.LockLostError)
        self.assertEqual(told, ["Acquired", "Lost"])
        told.clear()

        def late(body: dict[str, Any]) -> dict[str, Any]:
            """The renewal finds that the lease was lost, and says so when the lock was released meanwhile."""
            Program(lock.release)
            while not lock._keeper._term.over.is_set():
                time.sleep(0.0002)
            raise codes.LeaseReleasedError()

        self.server.answers["renew"] = [late]
        lock = self.held()
        self.clock.run(120)
        self.assertEqual(told, ["Acquired", "Released"])
        self.assertFalse(lock.lost.is_set())
        self.assertIsNone(lock.lost_cause)

    def test_a_child_of_a_fork_has_no_lock_of_its_parent(self) -> None:
        lock = self.held()

        def child() -> list[str]:
            said = [str(raises(lock)), str(lock.lost_cause), str(lock.remaining)]
            lock.release()
            mine = self.held()  # by a request: no thread of the parent is before it
            said.append(f"{lock.token} {mine.token}")
            self.clock.run(25)

            def end() -> None:
                mine.release()
                self.locks.close(timeout=3)
                said.append("closed")

            Program(end)
            self.clock.settle()  # no time passes: it waits for no lock of the parent
            return [*said, *(f"{what} {r.get('fencing_token', '')}" for what, r in self.server.sent[1:])]

        self.assertEqual(in_child(child), [
            "True", "lock 'k' is held by the parent of this process", "0.0", "1 2", "closed", "acquire ", "renew 2", "renew 2", "release 2"])
        self.assertFalse(raises(lock))
        self.clock.run(11)
        self.assertEqual([what for what, _ in self.server.sent], ["acquire", "renew"])

    def test_a_child_of_a_fork_waits_for_no_thread_of_its_parent(self) -> None:
        closed = leasehold.Locks(self.server, clock=self.clock)
        closed.close(timeout=0)

        def child() -> list[str]:
            return [f"{c._closed._lock.locked()} {c._closed.is_set()} {c._closed.cause}" for c in (self.locks, closed)]

        with self.locks._closed._lock, closed._closed._lock:  # another thread is inside
            said = in_child(child)
        self.assertEqual(said, ["False False None", "False True the client of locks is closed"])

    def test_a_lock_whose_times_cannot_be_kept(self) -> None:
        """No thread can be started for a while: its loss is told, and what can be renewed later is renewed."""
        told: list[str] = []
        self.locks = leasehold.Locks(
            self.server, owner="me", ttl=30, clock=self.clock, observe=lambda e: told.append(f"{e.what} {e.token}"))
        with no_threads(_steps, "times") as again:
            lost = self.held()
            self.clock.move(27)
            self.clock.settle()
            self.assertTrue(raises(lost))
            self.clock.settle()
            self.assertEqual(told, ["Acquired 1", "Lost 1"])
            lock = self.held()
        self.assertEqual(self.sent("renew"), [])
        again[-1]()  # the event loop tries again
        self.clock.run(11)
        self.assertEqual([r["fencing_token"] for r in self.sent("renew")], [2])
        self.clock.run(90)
        self.assertFalse(raises(lock))

    def test_names_of_a_client_in_a_child(self) -> None:
        """A name that was made up names one process; one that the program chose is kept."""
        made_up = leasehold.Locks(self.server, clock=self.clock)
        [other, same] = in_child(lambda: [made_up.owner, self.locks.owner])
        self.assertNotEqual(other, made_up.owner)
        self.assertEqual(same, "me")

    def test_the_block_keeps_its_exception(self) -> None:
        def use() -> None:
            with self.locks.hold("k"):
                self.server.answers["release"] = [fails(codes.LeaseLostError())]
                raise KeyError("mine")

        p = Program(use)
        self.clock.run(1)
        self.assertIsInstance(p.error, KeyError)
        self.assertEqual(len(self.sent("release")), 1)

    def test_an_interrupt_releases(self) -> None:
        def use() -> None:
            with self.locks.hold("k"):
                raise KeyboardInterrupt

        p = Program(use)
        self.clock.run(1)
        self.assertIsInstance(p.error, KeyboardInterrupt)
        self.assertEqual(len(self.sent("release")), 1)

    def test_an_interrupt_before_the_release_begins(self) -> None:
        def use() -> None:
            with self.locks.hold("k") as lock:
                settle = lock._keeper._term.settle
                interrupts = mock.Mock(side_effect=[KeyboardInterrupt, None])
                setattr(lock._keeper._term, "settle", lambda: interrupts() or settle())

        p = Program(use)
        self.clock.run(1)
        self.assertIsInstance(p.error, KeyboardInterrupt)
        self.assertEqual(len(self.sent("release")), 1)

    def test_the_end_of_a_block_has_a_time(self) -> None:
        self.server.answers["release"] = [fails(codes.UnavailableError(status=503))] * 1000

        def use() -> None:
            with self.locks.hold("k", release_timeout=2):
                pass

        p = Program(use)
        self.clock.run(1.9)
        self.assertTrue(p.is_alive())
        self.clock.run(0.2)
        self.assertIsInstance(p.error, leasehold.NotReleasedError)
        sent = len(self.sent("release"))
        self.clock.run(30)
        self.assertGreater(len(self.sent("release")), sent)  # it goes on in the background
        self.assertEqual(len({r["request_id"] for r in self.sent("release")}), 1)

    def test_max_hold(self) -> None:
        lock = self.held(max_hold=40)
        self.clock.run(39.9)
        lock.check()
        self.clock.run(0.2)
        with self.assertRaises(leasehold.MaxHoldError):
            lock.check()

    def test_an_event_ends_no_others(self) -> None:
        told: list[str] = []

        def observe(event: leasehold.Event) -> None:
            told.append(event.what)
            raise SystemExit

        locks = leasehold.Locks(self.server, owner="me", clock=self.clock, observe=observe)

        def use() -> None:
            for _ in range(2):
                with locks.hold("k"):
                    pass

        with mock.patch("sys.excepthook"):
            p = Program(use)
            self.clock.run(1)
            locks.close()
        self.assertIsNone(p.error)
        self.assertEqual(told, ["Acquired", "Released"] * 2)

    def test_a_block_is_not_entered_twice(self) -> None:
        a = self.locks.hold("k")

        def twice() -> None:
            with a, a:
                pass

        p = Program(twice)
        self.clock.run(1)
        self.assertIsInstance(p.error, RuntimeError)
        self.assertEqual(len(self.sent("release")), 1)

    def test_what_is_not_acquired_says_so(self) -> None:
        """It has no truth value, and sends nothing. Later calls warn of what went unused, and name its line."""
        _made.clear()
        for made in (lambda: self.locks.hold("k", wait=0), lambda: self.locks.hold_all(["k"])):
            with self.assertRaises(TypeError):
                if made():  # type: ignore[no-untyped-call]
                    self.fail("nothing is held")
            gc.collect()
            with self.assertWarns(ResourceWarning) as told:
                self.locks.hold("later")  # looks at what was made before
            _made.clear()
            self.assertEqual((told.filename, told.lineno), (__file__, made.__code__.co_firstlineno))
        self.assertEqual(self.server.sent, [])
        self.assertFalse(hasattr(self.locks, "acquire"))

    def test_what_is_acquired_warns_of_nothing(self) -> None:
        def use() -> None:
            with self.locks.hold("k"):
                pass
            self.locks.hold("k").acquire().release()

        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            p = Program(use)
            self.clock.run(1)
            gc.collect()
        self.assertIsNone(p.error)
        self.assertEqual([w for w in told if "never acquired" in str(w.message)], [])

    def test_closed(self) -> None:
        lock = self.held()
        p = Program(lambda: self.locks.close(timeout=3))
        self.clock.settle()
        with self.assertRaises(leasehold.ClosedError):
            lock.check()
        self.clock.run(3.1)
        p.join(60)
        self.assertIsNone(p.error)
        self.assertEqual(len(self.sent("release")), 1)
        q = Program(lambda: self.locks.hold("k").acquire())
        self.clock.settle()
        self.assertIsInstance(q.error, leasehold.ClosedError)

    def test_invalid_arguments_name_the_field(self) -> None:
        bad: dict[str, list[Callable[[], object]]] = {
            "key": [lambda: self.locks.hold(""), lambda: self.locks.hold("k" * 257), lambda: self.locks.hold("a\x00"), lambda: self.locks.hold("\ud800")],
            "ttl": [lambda: self.locks.hold("k", ttl=0), lambda: self.locks.hold("k", ttl=1.5), lambda: self.locks.hold("k", ttl=86401)],
            "wait": [lambda: self.locks.hold("k", wait=-1), lambda: self.locks.hold("k", wait=float("nan"))],
            "poll": [lambda: self.locks.hold("k", poll=0.05)],
            "permits": [lambda: self.locks.hold("k", permits=101), lambda: self.locks.hold("k", permits=2, shared=True)],
            "replace": [lambda: self.locks.hold("k", shared=True, replace=True)],
            "max_waiting": [lambda: self.locks.hold("k", max_waiting=1), lambda: self.locks.hold("k", fair=True, max_waiting=101)],
            "margin": [lambda: self.locks.hold("k", margin=15), lambda: self.locks.hold("k", margin=-1)],
            "lock_delay": [lambda: self.locks.hold("k", lock_delay=0.5), lambda: self.locks.hold("k", lock_delay=3601)],
            "max_hold": [lambda: self.locks.hold("k", max_hold=0)],
            "keys": [lambda: self.locks.hold_all([]), lambda: self.locks.hold_all(["a", "a"]), lambda: self.locks.hold_all("ab")],
            "limit": [lambda: self.locks.take("k", limit=0, window=1)],
            "window": [lambda: self.locks.take("k", limit=1, window=0.5)],
        }
        for field, calls in bad.items():
            for i, call in enumerate(calls):
                with self.subTest(field=field, i=i), self.assertRaises(leasehold.InvalidSettingError) as err:
                    call()
                self.assertEqual(err.exception.field, field)
        self.assertEqual(self.server.sent, [])


class Async(unittest.TestCase):
    def setUp(self) -> None:
        self.clock = VirtualClock()
        self.server = Fake(self.clock)
        self.locks = leasehold.Locks(self.server, owner="me", ttl=30, clock=self.clock)

    go_on: Callable[[], object]

    def run_task(self, main: Callable[[], Any]) -> Program:
        def do() -> Any:
            loop = self.clock.loop()
            try:
                return loop.run_until_complete(main())
            finally:
                loop.close()

        return Program(do)

    def threads(self) -> list[str]:
        return [t.name for t in threading.enumerate() if t.name.startswith("leasehold")]

    @mock.patch.object(_steps, "PATIENCE", STUCK)  # the machine may be slow
    def test_a_thousand_tasks_wait_without_a_thread_for_each(self) -> None:
        """For a lock that another client holds, without a bound and with one. They get it in the order in which they came."""
        for wait in (leasehold.FOREVER, 50.0):
            with self.subTest(wait=wait):
                self.server.sent.clear()
                self.server.answers["acquire"] = [fails(codes.LockHeldError(status=409))] * 4
                order: list[int] = []

                async def use(n: int) -> None:
                    async with self.locks.hold("k", wait=wait) as lock:
                        lock.check()
                        order.append(n)

                async def main() -> None:
                    await asyncio.gather(*(use(n) for n in range(1000)))

                before = len(self.threads())
                p = self.run_task(main)
                self.clock.settle()
                self.assertEqual([what for what, _ in self.server.sent], ["acquire"] * 2)
                self.assertLessEqual(len(self.threads()) - before, 8, self.threads())
                self.clock.run(20)
                p.join(STUCK)
                self.assertIsNone(p.error)
                self.assertEqual(order, list(range(1000)))

    def test_a_wait_of_a_task_ends(self) -> None:
        """By its time, by a cancellation and by close: no request is sent for it, and the next task has its turn."""
        async def use(wait: float) -> None:
            async with self.locks.hold("k", wait=wait):
                pass

        async def main() -> list[str]:
            loop = asyncio.get_running_loop()
            go_on = loop.create_future()
            self.go_on = lambda: loop.call_soon_threadsafe(go_on.set_result, None)
            async with self.locks.hold("k"):
                tasks = [asyncio.ensure_future(use(wait)) for wait in (3.0, 1.0, leasehold.FOREVER, leasehold.FOREVER)]
                for _ in range(3):
                    await asyncio.sleep(0)
                tasks[2].cancel()
                await go_on
            got = await asyncio.gather(*tasks, return_exceptions=True)
            return [type(err).__name__ for err in got]

        p = self.run_task(main)
        self.clock.run(5)
        self.assertEqual([what for what, _ in self.server.sent], ["acquire"])
        self.go_on()
        self.clock.run(1)
        self.assertEqual(p.value, ["LockHeldError", "LockHeldError", "CancelledError", "NoneType"], p.error)
        self.assertEqual([what for what, _ in self.server.sent], ["acquire", "release"] * 2)

    def test_close_ends_the_wait_of_a_task(self) -> None:
        async def use() -> None:
            async with self.locks.hold("k"):
                pass

        lock = Program(lambda: self.locks.hold("k").acquire())
        self.clock.settle()
        p = self.run_task(use)
        self.clock.settle()
        closing = Program(self.locks.close)
        self.clock.run(1)
        self.assertIsInstance(p.error, leasehold.ClosedError)
        self.clock.run(10)
        closing.join(STUCK)
        self.assertIsNone(lock.error)

    def test_a_turn_is_passed_on_by_a_loop_that_is_closed(self) -> None:
        """A task in it waits, and never looks at its turn."""
        lock = Program(lambda: self.locks.hold("k").acquire())
        self.clock.settle()
        left = []

        async def use() -> None:
            async with self.locks.hold("k"):
                self.fail("the loop does not run any more")

        def do() -> None:
            loop = self.clock.loop()
            task = loop.create_task(use())
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            left.append(task)
            for _ in range(3):
                loop.call_soon(loop.stop)
                loop.run_forever()
            loop.close()

        Program(do).join(STUCK)
        lock.value.release()
        self.clock.run(1)
        p = Program(lambda: self.locks.hold("k", wait=0).acquire().release())
        self.clock.run(1)
        self.assertIsNone(p.error)

    def test_a_loop_that_is_closed_releases(self) -> None:
        """Though its task was not cancelled, and can never go on: in a block, or before it has what it asked for."""
        left: list[Any] = []
        inside: list[leasehold.Lock] = []
        go_on = threading.Event()

        def waits(body: dict[str, Any]) -> dict[str, Any]:
            go_on.wait(STUCK)
            return body

        async def use() -> None:
            async with self.locks.hold("k") as lock:
                inside.append(lock)
                await asyncio.get_running_loop().create_future()

        async def ask() -> None:
            await self.locks.hold("k").acquire_async()
            self.fail("the loop is closed before that")

        def do(work: Callable[[], Any], until: Callable[[], object]) -> None:
            loop = self.clock.loop()
            task = loop.create_task(work())
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            left.append(task)
            while not until():
                loop.call_soon(loop.stop)
                loop.run_forever()
            go_on.set()
            while work is ask and not loop._ready:  # type: ignore[attr-defined]
                pass  # the response comes, and the task does not see it
            loop.close()

        def sent() -> list[str]:
            return [what for what, _ in self.server.sent]

        for work, until in ((use, lambda: inside), (ask, sent)):
            with self.subTest(work.__name__):
                self.server.sent.clear()
                go_on.clear()
                if work is ask:
                    self.server.answers["acquire"] = [waits]
                p = Program(lambda: do(work, until))
                p.join(STUCK)
                self.clock.run(9)
                self.assertEqual((sent(), p.error), (["acquire"], None))
                self.clock.run(2)
                self.assertEqual(sent(), ["acquire", "release"])
                self.clock.run(60)
                self.assertEqual(sent(), ["acquire", "release"])
                self.assertEqual(self.locks._held, set())

    def test_a_lock_without_a_block_outlasts_its_loop(self) -> None:
        p = self.run_task(lambda: self.locks.hold("k").acquire_async())
        p.join(STUCK)
        self.clock.run(60)
        self.assertFalse(raises(p.value))
        self.assertEqual({what for what, _ in self.server.sent}, {"acquire", "renew"})

    def test_the_task_is_cancelled_on_loss(self) -> None:
        async def main() -> str:
            try:
                async with self.locks.hold("k"):
                    self.server.answers["renew"] = [fails(codes.LeaseLostError())]
                    await asyncio.get_running_loop().create_future()
            except leasehold.LockLostError as err:
                task = asyncio.current_task()
                assert task is not None
                left = task.cancelling() if hasattr(task, "cancelling") else 0
                await asyncio.sleep(0)  # the task goes on
                return f"{type(err.__cause__).__name__} {left}"
            return "held"

        p = self.run_task(main)
        self.clock.run(11)
        self.assertEqual(p.value, "LeaseLostError 0", p.error)

    def test_the_task_is_not_cancelled_after_a_release(self) -> None:
        """In the block: neither when the lease would have ended, nor by a loss that is told late."""
        waits: list[Callable[[], object]] = []

        async def main() -> str:
            loop = asyncio.get_running_loop()
            over = loop.create_future()
            waits.append(lambda: loop.call_soon_threadsafe(over.set_result, "went on"))
            async with self.locks.hold("k") as lock:
                await lock.release_async()
                lock._keeper._term.lose(leasehold.LockLostError("late"))
                return str(await over)

        p = self.run_task(main)
        self.clock.run(120)
        waits[0]()
        self.clock.run(1)
        self.assertEqual(p.value, "went on", p.error)
        self.assertEqual([what for what, _ in self.server.sent], ["acquire", "release"])

    def test_a_coroutine_that_is_thrown_away_releases(self) -> None:
        """While it waits, and while it holds the lock."""
        holds: list[bool] = []

        async def use() -> None:
            async with self.locks.hold("k"):
                holds.append(True)
                await asyncio.get_running_loop().create_future()

        for until in (self.server.sent, holds):
            with self.subTest(holds=until is holds):
                self.server.sent.clear()
                holds.clear()

                def do() -> None:
                    loop = self.clock.loop()
                    coroutine = use()
                    task = loop.create_task(coroutine)
                    while not until:
                        loop.call_later(0.002, loop.stop)
                        loop.run_forever()
                    task._log_destroy_pending = False  # type: ignore[attr-defined]
                    loop.close()
                    coroutine.close()

                p = Program(do)
                p.join(STUCK)
                self.clock.run(40)
                self.assertIsNone(p.error)
                self.assertEqual(([what for what, _ in self.server.sent].count("release"), [what for what, _ in self.server.sent].count("renew")), (1, 0))

    def test_a_loop_that_stops_for_good_while_an_acquire_waits(self) -> None:
        """What it obtained is released: the loop takes the news, and never looks at it."""
        async def use() -> None:
            async with self.locks.hold("k"):
                self.fail("the loop does not run any more")

        def do() -> None:
            loop = self.clock.loop()
            coroutine = use()
            task = loop.create_task(coroutine)
            loop.call_soon(loop.stop)  # after the acquire began
            loop.run_forever()
            while not self.locks._held:
                time.sleep(0.001)
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            loop.close()
            coroutine.close()

        p = Program(do)
        p.join(STUCK)
        self.clock.run(40)
        self.assertIsNone(p.error)
        self.assertEqual([what for what, _ in self.server.sent], ["acquire", "release"])

    def test_a_loss_at_the_end_of_the_block(self) -> None:
        async def main() -> str:
            try:
                async with self.locks.hold("k") as lock:
                    lock._keeper._term.lose(leasehold.LockLostError("now"))
                    lock._keeper  # the block ends before its task can be cancelled
            except leasehold.LockLostError:
                await asyncio.sleep(0)
                return "lost"
            return "held"

        p = self.run_task(main)
        self.clock.run(1)
        self.assertEqual(p.value, "lost", p.error)

    @unittest.skipUnless(hasattr(asyncio.Task, "uncancel"), "Python 3.10 does not count cancellations")
    def test_a_cancellation_beside_a_loss_stays_one(self) -> None:
        async def use() -> None:
            async with self.locks.hold("k") as lock:
                lock._keeper._term.lose(leasehold.LockLostError("now"))
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
                await asyncio.get_running_loop().create_future()

        async def main() -> str:
            try:
                await asyncio.ensure_future(use())
            except asyncio.CancelledError:
                return "cancelled"
            except leasehold.LockLostError:
                return "lost"
            return "held"

        p = self.run_task(main)
        self.clock.run(1)
        self.assertEqual(p.value, "cancelled", p.error)

    def test_a_cancellation_from_outside_stays_one(self) -> None:
        async def use() -> None:
            async with self.locks.hold("k"):
                await asyncio.get_running_loop().create_future()

        async def main() -> str:
            task = asyncio.ensure_future(use())
            while not self.locks._held:
                await asyncio.sleep(0)
            for _ in range(1000):
                await asyncio.sleep(0)
            self.server.answers["release"] = [fails(codes.UnavailableError(status=503))] * 3
            task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                return "cancelled"
            return "not"

        p = self.run_task(main)
        self.clock.settle()
        self.assertEqual(p.value, "cancelled", p.error)  # no time has passed: it did not wait for the release
        self.clock.run(20)
        self.assertEqual(len([1 for what, _ in self.server.sent if what == "release"]), 4)


class ClientTest(unittest.TestCase):
    def test_tokens_only_over_tls_or_loopback(self) -> None:
        for url in ("http://example.com", "http://10.0.0.1:8080", "http://127.0.0.1.example.com"):
            with self.subTest(url), self.assertRaises(leasehold.InvalidSettingError):
                leasehold.Client(url, token="t")
        with self.assertRaises(leasehold.InvalidSettingError) as err:
            leasehold.Client("http://me:secret@example.com")
        self.assertNotIn("secret", str(err.exception))
        for url in ("https://example.com", "http://127.0.0.1:8080", "http://localhost", "http://[::1]:80"):
            leasehold.Client(url, token="t", ssl_context=ssl.create_default_context())
        leasehold.Client("http://example.com")  # without a token

    def test_urls(self) -> None:
        for url in ("", "127.0.0.1:8080", "ftp://a", "http://", "http://a?b", "http://a#b", "http://a:port", "http://a b"):
            with self.subTest(url), self.assertRaises(leasehold.InvalidSettingError) as err:
                leasehold.Client(url)
            self.assertEqual(err.exception.field, "server")

    def test_loopback(self) -> None:
        for host, want in {"localhost": True, "127.9.9.9": True, "::1": True, "::ffff:127.0.0.1": True, "10.0.0.1": False, "localhost.example": False}.items():
            self.assertEqual(loopback(host), want, host)

    def test_a_class_for_each_code(self) -> None:
        self.assertGreater(len(codes.CLASSES), 50)
        for code, made in codes.CLASSES.items():
            err = codes.of(code, {"code": code, "field": "ttl_seconds"}, 400)
            self.assertIs(type(err), made)
            self.assertEqual((err.code, err.field), (code, "ttl_seconds"))
        newer = codes.of("OF_A_LATER_SERVER", {"retryable": True}, 409)
        self.assertEqual((newer.code, newer.retryable, newer.status), ("OF_A_LATER_SERVER", True, 409))
        self.assertEqual(leasehold.ApiError.code, "")


if __name__ == "__main__":
    unittest.main()
