"""The term of a lease by itself: no thread watches the time, and no one else looks at the clocks."""

from __future__ import annotations

import unittest
from collections.abc import Callable

import leasehold
from leasehold._term import Term

from fork import in_child
from virtual import VirtualClock

TTL = 30.0
MARGIN = 3.0
TROUBLE = leasehold.NoResponseError("no")


class Terms(unittest.TestCase):
    def setUp(self) -> None:
        self.clock = VirtualClock()
        self.calls: list[str] = []

    def term(self, most: float | None = None) -> Term:
        def expired(trouble: BaseException | None) -> leasehold.LockLostError:
            err = leasehold.LockLostError("expired")
            err.__cause__ = trouble
            return err

        now = self.clock.now()
        t = Term(
            self.clock, now.plus(TTL), expired=expired, inherited="of the parent", margin=MARGIN, most=None if most is None else now.plus(most))
        t.when_lost(lambda: self.calls.append("lost"))
        return t

    def test_the_first_loss_stays(self) -> None:
        t = self.term()
        first = leasehold.LockLostError("first")
        t.lose(first)
        t.lose(leasehold.LockLostError("second"))
        self.clock.move(TTL)
        self.assertIs(t.look(), first)
        self.assertIs(t.settle(), first)
        self.assertIs(t.cause, first)

    def test_functions_are_called_once(self) -> None:
        """However the loss is noticed, and however often."""
        losses: tuple[Callable[[Term], None], ...] = (
            lambda t: t.lose(leasehold.LockLostError("taken")), lambda t: self.clock.move(TTL), lambda t: self.clock.move(TTL, 0.0))
        for lose in losses:
            t = self.term()
            t.when_lost(lambda: self.calls.append("second"))
            self.assertEqual(self.calls, [])
            lose(t)
            for _ in range(2):
                self.assertIsNotNone(t.look())
                self.assertTrue(t.lost.is_set())
                t.lose(leasehold.LockLostError("again"))
            self.assertIsNotNone(t.settle())
            self.assertEqual(self.calls, ["lost", "second"])
            self.calls.clear()

    def test_a_function_that_comes_after_the_loss_is_called_at_once(self) -> None:
        t = self.term()
        t.lose(leasehold.LockLostError("taken"))
        self.calls.clear()
        t.when_lost(lambda: self.calls.append("late"))
        self.assertEqual(self.calls, ["late"])
        t.look()
        self.assertEqual(self.calls, ["late"])

    def test_no_function_is_called_after_the_work_has_ended(self) -> None:
        """A lock that was released is not lost any more: not by its time, and not by what a late response says."""
        t = self.term()
        self.assertIsNone(t.settle())
        t.when_lost(lambda: self.calls.append("late"))
        t.lose(leasehold.LockLostError("taken"))
        self.clock.move(2 * TTL)
        self.assertIsNone(t.look())
        self.assertIsNone(t.settle())
        self.assertFalse(t.lost.is_set())
        self.assertIsNone(t.cause)
        self.assertEqual(self.calls, [])

    def test_the_last_moment(self) -> None:
        """A renewal or an end of the work just before the end is in time; at the end it is too late, although no one has looked at the clocks before."""
        for name, monotonic, wall in (("both clocks", 1.0, 1.0), ("the machine slept", 0.0, 1.0), ("the time was set", 1.0, 0.0)):
            for passed, lost in ((TTL - MARGIN - 0.001, False), (TTL - MARGIN, True), (TTL + 3600, True)):
                with self.subTest(f"{name}, {passed} s"):
                    settled, extended = self.term(), self.term()
                    extended.trouble = TROUBLE
                    end = self.clock.now().plus(3600 + 3 * TTL)
                    self.clock.move(monotonic * passed, wall * passed)
                    self.assertEqual(settled.settle() is not None, lost)
                    self.assertEqual(extended.extend(end), not lost)
                    self.assertEqual(self.calls, ["lost", "lost"] if lost else [])
                    cause = extended.look()
                    self.assertEqual(cause is not None, lost)
                    if cause is not None:
                        self.assertIs(cause.__cause__, TROUBLE)
                    self.assertEqual(extended.trouble is None, not lost)
                    self.calls.clear()

    def test_the_most_is_not_extended(self) -> None:
        t = self.term(most=40)
        self.clock.move(20)
        self.assertTrue(t.extend(self.clock.now().plus(TTL)))
        self.clock.move(19.999)
        self.assertIsNone(t.look())
        self.clock.move(0.001)
        self.assertIsNotNone(t.look())

    def test_a_child_of_a_fork_does_not_hold_it(self) -> None:
        t = self.term()

        def child() -> list[str]:
            return [str(t.inherited), str(t.look()), str(t.lost.is_set()), str(t.lost.wait(0)), str(t.settle()), *self.calls]

        self.assertEqual(in_child(child), ["True", "of the parent", "True", "True", "of the parent"])
        self.assertFalse(t.inherited)
        self.assertIsNone(t.look())

    def test_a_child_of_a_fork_waits_for_no_thread_of_its_parent(self) -> None:
        """One may have had the mutex, and has it for ever in the child."""
        t = self.term()

        def child() -> list[str]:
            setattr(t, "_mutex", None)  # to take it raises
            return [str(t.settle())]

        self.assertEqual(in_child(child), ["of the parent"])


if __name__ == "__main__":
    unittest.main()
