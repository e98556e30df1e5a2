"""What is to end a program, a greenlet, a generator or a task is not replaced or swallowed, wherever it strikes; and what was held is released or expires."""

from __future__ import annotations

import ast
import asyncio
import contextvars
import gc
import linecache
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import unittest
import warnings
from collections.abc import Callable
from types import FrameType
from typing import Any
from unittest import mock

import leasehold
from leasehold import _outcome, _steps
from leasehold._time import Backoff, Clock, Signal
from leasehold.once import run

from test_end import SOURCE, Judge
from test_engine import Server
from virtual import STUCK

PACKAGE = os.path.join(SOURCE, "leasehold") + os.sep


STEP = 3
"""Lines from one to the next at which an exception strikes; no divisor of their kinds, of which each strikes everywhere in the end."""


class GreenletExit(BaseException):
    """As that of greenlets is."""


KINDS: tuple[type[BaseException], ...] = (SystemExit, KeyboardInterrupt, GreenletExit, GeneratorExit, asyncio.CancelledError)


class InMemory:
    """A transport to a server without a network."""

    def __init__(self) -> None:
        self.server = Server()
        self.refuses = 0  # so many acquires
        self.fails = 0  # so many releases

    def send(self, request: leasehold.Request, deadline: float) -> leasehold.Response:
        path = request.url.partition("://")[2].partition("/")[2]
        problem = leasehold.Headers()
        problem["Content-Type"] = "application/problem+json"
        if path.endswith("/acquire") and b"give_up" not in (request.body or b"") and self.refuses > 0:
            self.refuses -= 1
            return leasehold.Response(409, "", problem, b'{"code": "LOCK_HELD", "retryable": true, "retry_after_ms": 1}')
        if path.endswith("/release") and self.fails > 0:
            self.fails -= 1
            raise leasehold.NoResponseError("it hangs")
        if "/runs/" in path and b"give_up" not in (request.body or b""):
            ok = leasehold.Headers()
            ok["Content-Type"] = "application/json"
            command = path.rpartition("/")[2]
            body = {
                "begin": b'{"run_id": "k", "acquired": true, "owner_id": "me", "fencing_token": 1, "remaining_ms": 300000}',
                "finish": b'{"run_id": "k", "status": "READY"}', "release": b'{"run_id": "k"}',
            }[command]
            return leasehold.Response(200, "OK", ok, body)
        return self.server.respond(path, request.body)


class Injected(unittest.TestCase):
    """An exception is raised at each line of the package that a call comes by, in turn. What it leaves behind is renewed by no one, and keeps no one waiting."""

    def setUp(self) -> None:
        # What goes on in the background is waited for at each line. No release may be waited for that no one carries out.
        for module, name, value in ((_outcome, "WAITS", Backoff(0.001, 0.001, 0.001)), (leasehold.locks, "CALL_TIME", 100 * STUCK)):
            patch = mock.patch.object(module, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        self.wire = InMemory()
        self.client = leasehold.Client("http://127.0.0.1:1", transport=self.wire)

    def inject(self, at: int, err: BaseException, do: Callable[[], object]) -> tuple[bool, BaseException | None]:
        """Raise at a line. Whether it came to that, and what came out."""
        left, me = at, threading.get_ident()

        def trace(frame: FrameType, event: str, arg: object) -> Any:
            nonlocal left
            if not frame.f_code.co_filename.startswith(PACKAGE) or threading.get_ident() != me:
                return None
            line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
            # No signal strikes at a try, nor at the end of a with, which is counted before what it has is left.
            if event == "line" and not line.startswith(("with ", "try:")):
                if left == 0:
                    left = -1
                    raise err
                if left > 0:
                    left -= 1
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            contextvars.copy_context().run(do)
        except BaseException as got:
            return left == -1, got
        finally:
            sys.settrace(before)
        return left == -1, None

    def each(self, do: Callable[[leasehold.Locks], object], prepare: Callable[[], None] = lambda: None) -> None:
        at = 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            while True:
                err = KINDS[at % len(KINDS)]("now")
                locks = self.client.locks(owner="me")
                prepare()
                struck, got = self.inject(at, err, lambda: do(locks))
                if not struck:
                    break
                self.assertIs(got, err, f"line {at}")
                err.__traceback__ = err.__context__ = got = None  # which may have the lock
                with self.subTest(f"line {at}"):
                    self.over(locks, at)
                at += STEP
        self.assertGreater(at, 100)

    def over(self, locks: leasehold.Locks, at: int) -> None:
        """Nothing is renewed for ever, and no key is the place of one that is gone."""
        end = time.monotonic() + STUCK
        while _steps._engine.waiting:
            self.assertLess(time.monotonic(), end, f"line {at}")
            time.sleep(0.0001)
        if locks._held or locks._queues._lines:
            gc.collect()
        kept = list(locks._held)
        self.assertEqual([k for k in kept if k._needed and not k._forgotten], [], f"line {at}")
        for k in kept:
            k._term.lose(leasehold.LockLostError("it expires"))
        kept.clear()
        locks._held.clear()
        self.assertTrue(locks._background.wait(STUCK), f"line {at}")
        self.wire.refuses = self.wire.fails = 0
        with locks.hold("k", wait=0.0):  # no one has its place in the client's line any more
            pass

    def test_a_block(self) -> None:
        def do(locks: leasehold.Locks) -> None:
            with locks.hold("k") as lock:
                lock.check()

        self.each(do)

    def test_acquire_and_release(self) -> None:
        def do(locks: leasehold.Locks) -> None:
            lock = locks.hold("k").acquire()
            try:
                lock.check()
            finally:
                lock.release()

        self.each(do)

    def test_waiting_for_another(self) -> None:
        def prepare() -> None:
            self.wire.refuses = 1

        def do(locks: leasehold.Locks) -> None:
            with locks.hold("k"):
                pass

        self.each(do, prepare)

    def test_a_release_that_fails_at_first(self) -> None:
        def prepare() -> None:
            self.wire.fails = 1

        def do(locks: leasehold.Locks) -> None:
            with locks.hold("k", release_timeout=0.001):
                pass

        def quiet(locks: leasehold.Locks) -> None:
            try:
                do(locks)
            except leasehold.NotReleasedError:
                pass

        self.each(quiet, prepare)

    def test_a_run(self) -> None:
        runs = self.client.runs()
        self.each(lambda locks: run(runs, "k", lambda lock: "done", owner="me"))


class NoCodeAtTheEnd(unittest.TestCase):
    """Python drops the exception of a signal whose handler runs within a finalizer: so no code of the package runs at the end of what a program drops."""

    def test_nothing_is_called(self) -> None:
        ignored = warnings.catch_warnings()
        ignored.__enter__()
        self.addCleanup(ignored.__exit__, None, None, None)
        warnings.simplefilter("ignore", ResourceWarning)
        client = leasehold.Client("http://127.0.0.1:1", transport=InMemory())
        locks = client.locks()
        made: list[tuple[str, Callable[[], object]]] = [
            ("a lock", lambda: locks.hold("k").acquire()),
            ("a lock that was not acquired", lambda: locks.hold("k")),
            ("a client", lambda: leasehold.Client("http://127.0.0.1:1")),
            ("locks", lambda: client.locks()),
            ("what asks", lambda: locks.hold("k")._begin()),
            ("a place in line", lambda: self.placed(locks)),
            ("what goes on", lambda: locks._background.begin()),
            ("a clock", self.clock),
        ]
        for name, make in made:
            with self.subTest(name):
                thing, called = [make()], list[str]()

                def called_is(frame: FrameType, event: str, arg: object) -> None:
                    if event == "call":
                        called.append(frame.f_code.co_qualname if hasattr(frame.f_code, "co_qualname") else frame.f_code.co_name)

                gc.disable()
                before = sys.getprofile()
                sys.setprofile(called_is)
                try:
                    thing.clear()
                finally:
                    sys.setprofile(before)
                    gc.enable()
                self.assertEqual(called, [])

    def placed(self, locks: leasehold.Locks) -> object:
        turn = Signal()
        locks._queues.enter_free("placed", turn)
        return turn

    def clock(self) -> object:
        clock = Clock()
        _steps._engine.timers_of(clock)
        return clock

    def test_nothing_that_would_be_called(self) -> None:
        """Of what no test above makes, too."""
        for folder, _, names in os.walk(PACKAGE):
            for name in names:
                if not name.endswith(".py"):
                    continue
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    tree = ast.parse(file.read())
                for node in ast.walk(tree):
                    at = f"{name}:{getattr(node, 'lineno', 0)}"
                    if isinstance(node, ast.FunctionDef):
                        self.assertNotEqual(node.name, "__del__", at)
                    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "weakref":
                        self.assertEqual(node.attr, "ref", at)
                    if isinstance(node, ast.Call) and ast.unparse(node.func) == "weakref.ref":
                        self.assertEqual(len(node.args), 1, at)


class Signalled(unittest.TestCase):
    """A program that is sent a signal again and again, at different moments, while it locks and releases."""

    PROGRAM = """
        import signal, sys
        import leasehold

        def stop(*_):
            sys.exit(7)

        if sys.argv[2] == "SIGTERM":
            signal.signal(signal.SIGTERM, stop)
        locks = leasehold.Client(sys.argv[1]).locks(owner="me")
        print("begun", flush=True)
        while True:
            try:
                with locks.hold("k"):
                    pass
            except Exception as err:
                print("swallowed", repr(err), flush=True)
    """

    FORGETS = """
        import signal, sys
        import leasehold

        def stop(*_):
            sys.exit(7)

        signal.signal(signal.SIGTERM, stop)
        client = leasehold.Client(sys.argv[1])
        locks = client.locks(owner="me")
        print("begun", flush=True)
        while True:
            for key in range(100):
                locks.hold(str(key)).acquire()
                locks.hold("unused")
                client.locks()
    """

    def test_signals_while_locks_are_forgotten(self) -> None:
        judge = Judge()
        self.addCleanup(judge.close)
        env = {**os.environ, "PYTHONPATH": SOURCE, "PYTHONDONTWRITEBYTECODE": "1"}
        for i in range(24):
            judge.bodies.clear()
            p = subprocess.Popen(
                [sys.executable, "-c", textwrap.dedent(self.FORGETS), judge.url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
            assert p.stdout is not None
            self.assertEqual(p.stdout.readline(), "begun\n")
            judge.until(1 + i % 5)
            time.sleep(i * 0.0003)
            p.send_signal(signal.SIGTERM)
            out, err = p.communicate(timeout=STUCK)
            self.assertEqual((p.returncode, out, err), (7, "", ""), i)

    def test_signals(self) -> None:
        judge = Judge()
        self.addCleanup(judge.close)
        env = {**os.environ, "PYTHONPATH": SOURCE, "PYTHONDONTWRITEBYTECODE": "1"}
        for i in range(24):
            name = ("SIGTERM", "SIGINT")[i % 2]
            with self.subTest(name, i=i):
                judge.bodies.clear()
                p = subprocess.Popen(
                    [sys.executable, "-c", textwrap.dedent(self.PROGRAM), judge.url, name], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
                assert p.stdout is not None
                self.assertEqual(p.stdout.readline(), "begun\n")
                judge.until(1 + i % 5)
                time.sleep(i * 0.0003)
                p.send_signal(getattr(signal, name))
                out, err = p.communicate(timeout=STUCK)
                self.assertEqual((p.returncode, out), (7, "") if name == "SIGTERM" else (-signal.SIGINT, ""))
                if name == "SIGTERM":
                    self.assertEqual(err, "")
                else:
                    self.assertEqual(err.strip().splitlines()[-1], "KeyboardInterrupt")
                    self.assertNotIn("During handling of the above exception", err)
                granted = len([1 for path, body in judge.bodies if path.endswith("/acquire") and not body.get("give_up")])
                ended = len([1 for path, body in judge.bodies if path.endswith("/release") or body.get("give_up")])
                self.assertIn(ended, (granted, granted + 1, granted - 1), judge.bodies[-3:])


if __name__ == "__main__":
    unittest.main()
