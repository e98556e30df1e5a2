"""Generators of IDs on a provider that the test writes, by a clock that the test moves."""

from __future__ import annotations

import asyncio
import logging
import threading
import unittest
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import leasehold
from leasehold.ids import DEFAULT_LAYOUT
from leasehold.machineids import ClockBackwardError, Generator, Lease, LeaseAcquisitionError, Stats, sign

from fork import in_child
from test_locks import Program
from virtual import VirtualClock


class Provider:
    """Grants what the test says, one answer for each request, and then nothing."""

    def __init__(self, clock: VirtualClock, *answers: list[Lease]) -> None:
        self.clock, self.answers = clock, list(answers)
        self.asked: list[int] = []
        self.released: list[tuple[int, str, int]] = []
        self.failure: Exception = leasehold.NoResponseError("no")

    def acquire(self, service: str, throughput_per_ms: int, meta: Mapping[str, str]) -> list[Lease]:
        self.asked.append(throughput_per_ms)
        if not self.answers:
            raise self.failure
        return self.answers.pop(0)

    def release(self, service: str, machine_id: int, signature: str, timestamp: int) -> None:
        self.released.append((machine_id, signature, timestamp))


class Machines(unittest.TestCase):
    def setUp(self) -> None:
        self.clock = VirtualClock()
        self.now = int(self.clock.wall() * 1000)
        log = logging.getLogger("leasehold.machineids")
        self.addCleanup(log.setLevel, log.level)
        log.setLevel(logging.CRITICAL)

    def lease(self, machine: int = 5, begin: int = 0, end: int = 600_000) -> Lease:
        """From begin to end, in milliseconds from now."""
        return Lease(machine, self.now + begin, self.now + end, f"secret {machine}", DEFAULT_LAYOUT)

    def generator(self, *answers: list[Lease], **settings: Any) -> tuple[Generator, Provider]:
        p = Provider(self.clock, *answers)
        given: dict[str, Any] = {"fallback": False, **settings}
        made = Program(lambda: Generator(p, clock=self.clock, **given))
        self.clock.settle()
        assert isinstance(made.value, Generator), made.error
        g = made.value
        self.addCleanup(self.clock.settle)
        self.addCleanup(g._stopped.set)
        return g, p

    def take(self, g: Generator, count: int = 1, seconds: float = 0.1) -> list[int]:
        p = Program(lambda: g.next_ids(count))
        self.clock.run(seconds)
        if p.error is not None:
            raise p.error
        return list(p.value)

    def test_no_id_has_a_time_outside_of_the_lease(self) -> None:
        """To the millisecond: the next lease of the machine ID begins where this one ends."""
        g, _ = self.generator([self.lease(begin=-3, end=40)])
        times: list[int] = []
        with self.assertRaises(LeaseAcquisitionError):
            for _ in range(1000):
                times += [g.layout.decode(i).unix_ms for i in self.take(g, 3, 0.001)]
        self.assertEqual((min(times), max(times)), (self.now, self.now + 39))

    def test_a_lease_that_begins_later_is_waited_for(self) -> None:
        g, _ = self.generator([self.lease(begin=80)])
        p = Program(lambda: g.next_id())
        self.clock.run(0.079)
        self.assertTrue(p.is_alive())
        self.clock.run(0.002)
        self.assertEqual(g.layout.decode(p.value).unix_ms, self.now + 80)

    def test_a_call_that_would_wait_is_refused_where_an_event_loop_runs(self) -> None:
        """At the line that is wrong, and nothing is ended; a wait for the next millisecond is none."""
        g, p = self.generator([self.lease(begin=4000)])

        def block() -> None:
            with g:
                self.fail("it could not be closed")

        async def refused() -> None:
            calls: list[tuple[Callable[[], object], str]] = [
                (g.next_id, "to_thread"), (lambda: g.next_ids(3), "to_thread"), (g.close, "to_thread"), (block, "without a block")]
            for call, instead in calls:
                with self.subTest(instead), self.assertRaises(leasehold.EventLoopError) as err:
                    call()
                self.assertIn(instead, str(err.exception))
            with self.assertRaises(TimeoutError):
                g.next_id(timeout=0)

        async def made() -> list[int]:
            return g.next_ids(300)

        asyncio.run(refused())
        self.clock.run(4.1)
        got = Program(lambda: asyncio.run(made()))
        self.clock.run(0.1)
        self.assertIsNone(got.error)
        self.assertEqual(len(set(got.value)), 300)
        self.assertEqual(p.released, [])
        Program(g.close)
        self.clock.settle()
        self.assertEqual([r[0] for r in p.released], [5])
        asyncio.run(self.closed_again(g))

    async def closed_again(self, g: Generator) -> None:
        g.close()

    def test_the_first_lease_is_not_waited_for_where_an_event_loop_runs(self) -> None:
        granted = threading.Event()

        class Slow(Provider):
            def acquire(self, service: str, throughput_per_ms: int, meta: Mapping[str, str]) -> list[Lease]:
                granted.wait()
                return []

        g = Generator(Slow(self.clock))

        async def first() -> int:
            return g.next_id()

        try:
            with self.assertRaises(leasehold.EventLoopError):
                asyncio.run(first())
        finally:
            granted.set()
            g.close()

    def test_leases_that_cannot_be_right_are_given_back(self) -> None:
        cases: dict[str, tuple[int, int, int]] = {
            "of the past": (5, -5002, 600_000), "of the future": (5, 5002, 600_000), "that is over": (5, -4000, 0), "of no time": (5, 0, -1),
            "of a machine ID that there is not": (1 << 14, 0, 600_000), "of a negative one": (-1, 0, 600_000),
        }
        for name, (machine, begin, end) in cases.items():
            with self.subTest(name):
                self.now = int(self.clock.wall() * 1000)
                g, p = self.generator([self.lease(machine, begin, end)])
                with self.assertRaises(LeaseAcquisitionError):
                    self.take(g)
                self.assertEqual(g.stats().leases_rejected, 1)
                self.assertEqual([r[0] for r in p.released], [] if end <= 0 else [machine])
        for begin in (-4998, 4998):  # the time is cut to whole milliseconds
            self.now = int(self.clock.wall() * 1000)
            g, p = self.generator([self.lease(begin=begin)])
            self.take(g, seconds=6)
            self.assertEqual(p.released, [])

    def test_two_leases_that_could_make_the_same_ids(self) -> None:
        g, p = self.generator([self.lease(5), Lease(5, self.now, self.now + 600_000, "another secret", DEFAULT_LAYOUT)], throughput_per_ms=512)
        made = self.take(g, 300)
        self.assertEqual(len(set(made)), 300)
        self.assertEqual(g.stats().leases_rejected, 1)
        self.assertEqual([r[0] for r in p.released], [5])
        self.assertEqual(p.released[0][1], sign("another secret", 5, p.released[0][2]))

    def test_an_answer_that_comes_twice(self) -> None:
        """The lease that is held is not released because its duplicate is of no use."""
        g, p = self.generator([self.lease()], [self.lease()], throughput_per_ms=512)
        self.take(g, 1, 5)
        self.assertEqual(p.released, [])

    def test_several_leases(self) -> None:
        g, _ = self.generator([self.lease(5), self.lease(9)], throughput_per_ms=512)
        made = self.take(g, 512)
        self.assertEqual({g.layout.decode(i).machine_id for i in made}, {5, 9})
        self.assertEqual(made, sorted(set(made)))
        self.assertEqual(len({g.layout.decode(i).unix_ms for i in made}), 1)

    def test_a_release_says_the_last_time(self) -> None:
        """The next lease begins after it: so it is no earlier than the last ID, also if the clock was set back."""
        for back in (0.0, -3.0):
            with self.subTest(back):
                self.now = int(self.clock.wall() * 1000)
                g, p = self.generator([self.lease(begin=-4000)])
                last = g.layout.decode(self.take(g, 1)[0]).unix_ms
                self.clock.move(0.0, back)
                closing = Program(g.close)
                self.clock.run(1)
                self.assertIsNone(closing.error)
                [(machine, signature, at)] = p.released
                self.assertEqual((machine, signature), (5, sign("secret 5", 5, at)))
                self.assertGreaterEqual(at, last)
                with self.assertRaises(leasehold.ClosedError):
                    g.next_id()
                self.clock.move(0.0, -back)

    def test_replaced_before_it_ends(self) -> None:
        g, p = self.generator([self.lease(5, end=10_000)], [self.lease(6, begin=9_000, end=20_000)])
        self.take(g)
        self.clock.run(8.3)
        self.assertEqual(len(p.asked), 1)
        self.clock.run(1.3)
        self.assertEqual(len(p.asked), 2)
        self.clock.run(1)
        [made] = self.take(g)
        self.assertEqual(g.layout.decode(made).machine_id, 6)

    def test_a_clock_that_jumps_forward(self) -> None:
        """Its lease may be wrong as well: another one is asked for."""
        g, p = self.generator([self.lease(5)], [self.lease(6, begin=2000)])
        self.take(g)
        self.clock.run(3)
        self.assertEqual(len(p.asked), 1)
        self.clock.move(0.0, 2.0)
        self.take(g)
        self.clock.run(12)
        self.assertEqual((len(p.asked), g.stats().clock_forward), (2, 1))

    def test_a_clock_that_is_set_back(self) -> None:
        g, _ = self.generator([self.lease(5, begin=-4000)], max_backward_ms=1000)
        [before] = self.take(g)
        self.clock.move(0.0, -3.0)
        self.clock.run(1.1)  # it is sampled once a second
        with self.assertRaises(ClockBackwardError) as err:
            self.take(g)
        self.assertTrue(1000 < err.exception.backward_ms <= 3000)
        self.clock.run(3)
        [after] = self.take(g)
        self.assertGreater(after, before)

    def test_fallback_ids_are_marked_and_told(self) -> None:
        logging.getLogger("leasehold.machineids").setLevel(logging.WARNING)
        with self.assertLogs("leasehold.machineids", logging.WARNING) as told:
            g, p = self.generator(fallback=True)
            made = self.take(g, 50)
            self.clock.run(30)
            made += self.take(g, 50)
            self.assertEqual(len(told.output), 1, told.output)
            self.assertTrue(all(g.layout.decode(i).fallback for i in made))
            self.assertTrue(g.stats().fallback)
            p.answers.append([self.lease(5, begin=30_000)])
            for _ in range(70):  # a lease that began long ago would be none
                p.answers[:] = [[self.lease(5, begin=int((self.clock.wall() * 1000)) - self.now)]] if p.answers else []
                self.clock.run(1)
            leased = self.take(g, 50)
            self.assertEqual(len(told.output), 2, told.output)
        self.assertFalse(any(g.layout.decode(i).fallback for i in leased))
        self.assertEqual(made + leased, sorted(set(made + leased)))
        self.assertEqual(g.stats().fallback_ids, 100)

    def test_what_operators_watch(self) -> None:
        g, p = self.generator(fallback=True, service="orders", max_backward_ms=-1)
        self.take(g, 3)
        self.assertEqual(g.stats(), Stats(service="orders", fallback=True, acquire_attempts=1, acquire_failures=1, ids=3, fallback_ids=3))
        p.answers.append([self.lease(5), self.lease(6)])
        self.clock.run(2)
        self.take(g, 1100)
        st = g.stats()
        self.assertEqual((st.active_leases, st.throughput_per_ms, st.fallback, st.acquire_attempts, st.ids, st.fallback_ids), (2, 512, False, 2, 1103, 3))
        self.assertGreaterEqual(st.sequence_waits, 2)
        self.clock.move(0.0, -3.0)
        self.clock.run(1.1)  # it is sampled once a second
        self.take(g, 1, 5)
        st = g.stats()
        self.assertEqual((st.clock_backward, round(st.last_backward_ms), st.clock_forward), (1, 3000, 0))
        closing = Program(g.close)
        self.clock.run(1)
        self.assertIsNone(closing.error)
        st = g.stats()
        self.assertEqual((st.active_leases, st.throughput_per_ms, st.ids), (0, 0, 1104))

    def test_a_lease_of_another_epoch_is_counted(self) -> None:
        """It is rejected, but for the first one after fallback IDs if its epoch is earlier."""
        for shift, accepted in ((-86_400_000, True), (86_400_000, False)):
            with self.subTest(accepted=accepted):
                self.now = int(self.clock.wall() * 1000)
                g, p = self.generator(fallback=True)
                before = self.take(g)
                epoch = DEFAULT_LAYOUT.custom_epoch + shift
                p.answers.append([replace(self.lease(), layout=replace(DEFAULT_LAYOUT, custom_epoch=epoch))])
                self.clock.run(1.5)
                after = self.take(g)
                self.assertGreater(after, before)
                st = g.stats()
                self.assertEqual((st.epoch_mismatches, st.leases_rejected, st.active_leases), (1, 0, 1) if accepted else (1, 1, 0))
                self.assertEqual(g.layout.custom_epoch, epoch if accepted else DEFAULT_LAYOUT.custom_epoch)

    def test_a_child_of_a_fork_leases_machine_ids_of_its_own(self) -> None:
        """Its clock shows the same time as that of its parent, which makes IDs in the same milliseconds."""
        g, p = self.generator([self.lease(5)])
        before = self.take(g, 10)

        def child() -> list[str]:
            p.answers.append([self.lease(6)])
            made = self.take(g, 10)
            closing = Program(g.close)
            self.clock.run(1)
            self.assertEqual((g.stats().ids, g.stats().acquire_attempts), (10, 1))  # not those of the parent, too
            return [str(closing.error), str(len(p.asked)), *(str(machine) for machine, _, _ in p.released), *(str(i) for i in made)]

        error, asked, released, *made = in_child(child)
        self.assertEqual((error, asked, released), ("None", "2", "6"))  # the lease of the parent is not the child's to release
        of_child = [int(i) for i in made]
        self.assertEqual({g.layout.decode(i).machine_id for i in of_child}, {6})
        of_parent = before + self.take(g, 10)
        self.assertEqual({g.layout.decode(i).machine_id for i in of_parent}, {5})
        self.assertFalse(set(of_parent) & set(of_child))
        self.assertEqual((len(p.asked), p.released), (1, []))

    def test_a_child_of_a_fork_without_a_lease_makes_none_under_that_of_its_parent(self) -> None:
        g, p = self.generator([self.lease(5)])
        self.take(g)

        def child() -> list[str]:
            try:
                return [str(i) for i in self.take(g)]
            except LeaseAcquisitionError:
                return ["none"]

        self.assertEqual(in_child(child), ["none"])

    def test_fallback_ids_of_a_child_of_a_fork_are_others(self) -> None:
        """Drawn anew, although it goes on in the same millisecond."""
        g, _ = self.generator(fallback=True)
        self.take(g, 10, 0.0505)  # to the middle of a millisecond: rounding makes no other one of it
        made = [int(i) for i in in_child(lambda: [str(i) for _ in range(5) for i in self.take(g, 10, 0.05)])]
        own = [i for _ in range(5) for i in self.take(g, 10, 0.05)]
        self.assertEqual([g.layout.decode(i).unix_ms for i in made], [g.layout.decode(i).unix_ms for i in own])
        self.assertNotEqual(made, own)

    def test_a_mistake_of_the_provider(self) -> None:
        """It is a failure as others are: told once, tried again after the pauses of those, and never in a tight loop."""
        logging.getLogger("leasehold.machineids").setLevel(logging.WARNING)
        with self.assertLogs("leasehold.machineids", logging.WARNING) as told:
            g, p = self.generator()
            p.failure = KeyError("a bug of the provider")
            self.assertFalse(self.clock.run(600, until=lambda: len(p.asked) > 30))
            with self.assertRaises(LeaseAcquisitionError) as err:
                self.take(g)
        self.assertEqual(len(told.output), 2, told.output)  # of the first failure, and of this one
        self.assertIsInstance(err.exception.__cause__, KeyError)
        self.assertGreater(len(p.asked), 600 / 60)


if __name__ == "__main__":
    unittest.main()
