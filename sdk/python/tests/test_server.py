"""The client and a real `leasehold serve`: through a proxy that loses and spoils, with a server and with holders that are killed and frozen.

LEASEHOLD_BIN is the path of the server's binary; without it the tests are skipped. True time passes here. What is asserted holds on a machine of any speed.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import queue
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
from pathlib import Path
from typing import Any

import leasehold
from leasehold._time import Signal
from leasehold.codes import NotFoundError
from leasehold.election import Election
from leasehold.machineids import ConfigurationError, Generator, LeaseAcquisitionError
from leasehold.once import PermanentError, RunFailedError, RunLockedError, _background, once, run, run_async

from faults import Gateway, Proxy, Server
from fork import in_child
from virtual import Shifted

SOURCE = str(Path(__file__).resolve().parent.parent / "src")
LONG = 120.0  # seconds after which a test gives up


class Child:
    """A program of its own, whose lines are read as they come."""

    def __init__(self, text: str, *args: str, stdin: int | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-u", "-c", textwrap.dedent(text), *args], stdin=stdin, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": SOURCE})
        self.lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line.strip())
        self.process.stdout.close()
        self.lines.put("end")

    def line(self) -> str:
        return self.lines.get(timeout=LONG)

    def until(self, word: str) -> list[str]:
        """The lines up to one that begins with a word."""
        seen: list[str] = []
        while not seen or not seen[-1].startswith(word):
            assert "end" not in seen, seen
            seen.append(self.line())
        return seen

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


class WithServer(unittest.TestCase):
    server: Server
    folder: tempfile.TemporaryDirectory[str]

    @classmethod
    def setUpClass(cls) -> None:
        binary = os.environ.get("LEASEHOLD_BIN")
        if not binary:
            raise unittest.SkipTest("LEASEHOLD_BIN is not set: go build -o leasehold ./cmd/leasehold")
        cls.folder = tempfile.TemporaryDirectory()
        cls.server = Server(binary, cls.folder.name)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.server.thaw()
        cls.server.kill()
        cls.folder.cleanup()

    def locks(self, url: str = "", **settings: Any) -> leasehold.Locks:
        return leasehold.Client(url or self.server.url).locks(**settings)

    def eventually(self, what: Any, text: str) -> None:
        end = time.monotonic() + LONG
        while not what():
            self.assertLess(time.monotonic(), end, text)
            time.sleep(0.02)


class Basics(WithServer):
    def test_all_modes(self) -> None:
        locks, others = self.locks(), self.locks()
        with locks.hold("exclusive") as lock:
            lock.check()
            self.assertGreater(lock.remaining, 0)
            self.assertEqual(locks.get("exclusive")["owner_id"], locks.owner)
            with self.assertRaises(leasehold.LockHeldError) as held, others.hold("exclusive", wait=0):
                pass
            self.assertEqual(held.exception.owner_id, locks.owner)
            with self.assertRaises(leasehold.LockHeldError), others.hold("exclusive", wait=0.5):
                pass
        with others.hold("exclusive", wait=LONG) as later:  # the acquire that gave up may hold it for a moment
            self.assertGreater(later.token, lock.token)
        with locks.hold("shared", shared=True), others.hold("shared", shared=True, wait=0):
            with self.assertRaises(leasehold.LockHeldError), others.hold("shared", wait=0):
                pass
        with locks.hold("pool", permits=2) as one, others.hold("pool", permits=2) as two:
            self.assertEqual({one.permit, two.permit}, {1, 2})
            with self.assertRaises(leasehold.LockHeldError), others.hold("pool", permits=2, wait=0):
                pass
            with self.assertRaises(leasehold.codes.LockModeDiffersError), others.hold("pool", permits=3, wait=0):
                pass
        with locks.hold_all(["b", "a"]) as both:
            self.assertEqual(both.keys, ["a", "b"])
            with self.assertRaises(leasehold.LockHeldError) as held, others.hold_all(["c", "b"], wait=0):
                pass
            self.assertEqual(held.exception.lock_key, "b")
        self.assertLess(locks.take("rate", limit=2, window=600), locks.take("rate", limit=2, window=600))
        with self.assertRaises(leasehold.LockHeldError) as spent:
            locks.take("rate", limit=2, window=600, wait=0)
        self.assertGreater(spent.exception.retry_after, 0)
        with self.assertRaises(NotFoundError):
            locks.get("never")

    def test_fences(self) -> None:
        client = leasehold.Client(self.server.url)
        fences, locks = client.fences(), client.locks()
        with locks.hold("scheduler") as first:
            self.assertEqual(fences.check("disk", first)["subject"], "lock/scheduler")
        with locks.hold("scheduler") as second:
            fences.check("disk", second)
        with self.assertRaises(leasehold.StaleTokenError):
            fences.check("disk", leasehold.FencedLease("lock/scheduler", first.token))
        with locks.hold("another") as other, self.assertRaises(leasehold.OtherSubjectError):
            fences.check("disk", other)
        with locks.hold("pool", permits=1) as permit:
            self.assertEqual(fences.check("pool", permit)["subject"], "lock/pool#1")
        Election(locks, "leader").lead(lambda leader: self.assertEqual(fences.check("led", leader)["subject"], "lock/leader"))
        run(client.runs(), "invoice-7", lambda lock: fences.check("invoices", lock)["subject"])
        held = client.lock_api().acquire("one", {"owner_id": "me", "request_id": "r", "ttl_seconds": 30})
        self.assertEqual(fences.check("one", held)["subject"], "lock/one")

    def test_replace(self) -> None:
        first = self.locks(ttl=6).hold("preview", replace=True).acquire()
        with self.locks().hold("preview", replace=True) as second:
            self.assertGreater(second.token, first.token)
            self.assertTrue(first.lost.wait(LONG))
            self.assertIsInstance(first.lost_cause, leasehold.LockLostError)
            with self.assertRaises(leasehold.LockLostError):
                first.check()
        with self.assertRaises(leasehold.LockLostError):
            first.release()

    def test_queue_full(self) -> None:
        with self.locks().hold("rebuild", fair=True):
            waiting = threading.Thread(target=lambda: self.locks().hold("rebuild", fair=True, max_waiting=1).acquire().release())
            waiting.start()
            api = leasehold.Client(self.server.url).lock_api()
            self.eventually(lambda: api.get("rebuild").get("waiting"), "no one waits in line")
            with self.assertRaises(leasehold.LockQueueFullError), self.locks().hold("rebuild", fair=True, max_waiting=1):
                pass
        waiting.join(LONG)
        self.assertFalse(waiting.is_alive())

    def test_a_cancelled_acquire_leaves_nothing(self) -> None:
        ended = threading.Semaphore(0)

        def observe(e: leasehold.Event) -> None:
            if e.what == "Abandoned":
                ended.release()

        async def give_up() -> None:
            async with self.locks(observe=observe).hold("wanted", fair=True):
                self.fail("it is held by another")

        async def both() -> None:
            task = asyncio.ensure_future(give_up())
            while not (await asyncio.to_thread(api.get, "wanted")).get("waiting"):
                await asyncio.sleep(0.02)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task

        api = leasehold.Client(self.server.url).lock_api()
        with self.locks().hold("wanted", fair=True):
            asyncio.run(both())
            self.assertTrue(ended.acquire(timeout=LONG))
            self.assertFalse(api.get("wanted").get("waiting"))
        with self.locks().hold("wanted", wait=0):
            pass

    def test_the_task_is_cancelled_on_loss(self) -> None:
        api = leasehold.Client(self.server.url).lock_api()
        went_on = []

        async def work() -> None:
            async with self.locks(ttl=3).hold("forced") as lock:
                await asyncio.get_running_loop().run_in_executor(None, lambda: api.force_release(
                    "forced", {"owner_id": "admin", "request_id": "", "reason": "a test"}))
                await asyncio.sleep(LONG)
                went_on.append(lock)

        with self.assertRaises(leasehold.LockLostError) as lost:
            asyncio.run(work())
        self.assertIsInstance(lost.exception.__cause__, leasehold.codes.LeaseReleasedError)
        self.assertEqual(went_on, [])

    def test_the_end_of_the_interpreter(self) -> None:
        """What is released when modules are cleared ends, though no thread runs any more."""
        child = Child("""
            import sys, leasehold
            def steps():
                with leasehold.Client(sys.argv[1]).locks().hold("at-the-end") as lock:
                    yield lock.token
            at_work = steps()
            print(next(at_work))
        """, self.server.url)
        self.assertNotEqual(child.line(), "end")
        self.assertEqual(child.line(), "end")
        self.assertEqual(child.process.wait(LONG), 0)
        self.assertEqual(self.locks().get("at-the-end")["state"], "RELEASED")

    def test_forks(self) -> None:
        locks = self.locks()
        ids = Generator(leasehold.Client(self.server.url).machine_ids(), service="", fallback=False)
        before = ids.next_ids(100)
        with locks.hold("parent") as lock:

            def child() -> list[str]:
                said = []
                try:
                    lock.check()
                except leasehold.LockLostError:
                    said.append("lost" if lock.lost.is_set() and lock.lost.wait(0) else "lost, but its event is not set")
                lock.release()
                try:
                    with locks.hold("parent", wait=0):
                        said.append("held twice")
                except leasehold.LockHeldError:
                    said.append("held")
                said += [str(i) for i in ids.next_ids(100, timeout=LONG)]
                ids.close()
                return said

            said = in_child(child)
            self.assertEqual(said[:2], ["lost", "held"], said)
            lock.check()
            self.assertEqual(locks.get("parent")["state"], "ACTIVE")
        mine, childs = set(before + ids.next_ids(100)), {int(i) for i in said[2:]}
        self.assertEqual(len(childs), 100)
        self.assertFalse(mine & childs)
        ids.close()


class Late(WithServer):
    """A gateway holds a request back, its caller gives up, and then the request is delivered."""

    def gateway(self) -> Gateway:
        g = Gateway(self.server.port)
        self.addCleanup(g.close)
        return g

    def test_what_was_given_up_obtains_nothing(self) -> None:
        modes: dict[str, dict[str, Any]] = {
            "exclusive": {}, "fair": {"fair": True}, "shared": {"shared": True}, "permits": {"permits": 2},
            "replace": {"replace": True}, "delay": {"lock_delay": 60}}
        api = leasehold.Client(self.server.url).lock_api()
        for name, settings in modes.items():
            with self.subTest(name):
                self.check(f"late-{name}", lambda locks: locks.hold(f"late-{name}", **settings)._hold, api)
        with self.subTest("several"):
            self.check("late-several", lambda locks: locks.hold_all(["late-several", "late-other"])._hold, api)

    def check(self, key: str, hold: Any, api: leasehold.LockAPI) -> None:
        g, seen, cancel = self.gateway(), queue.Queue[leasehold.Event](), Signal()
        g.holds = True
        locks = self.locks(g.url, observe=seen.put)
        waits = threading.Thread(target=lambda: self.assertRaises(leasehold.ClosedError, hold(locks), False, cancel))
        waits.start()
        self.assertTrue(g.until_held(1, LONG))
        cancel.set()
        waits.join(LONG)
        told = seen.get(timeout=LONG)
        self.assertEqual((told.what, told.error), ("Abandoned", None))
        self.assertEqual(len(g.passed), 1)  # one request is enough
        [(path, body)] = g.held
        status, _, content = g.deliver(path, body)
        self.assertNotEqual(status, 200, content)
        with self.locks().hold(key, wait=0):
            self.assertEqual(api.get(key)["state"], "ACTIVE")

    def test_a_grant_of_a_rate(self) -> None:
        g, cancel = self.gateway(), Signal()
        g.holds = True
        locks = self.locks(g.url)
        rate = locks._rate("late-rate", 1, 600, leasehold.FOREVER, 2.0, 0, None)
        waits = threading.Thread(target=lambda: self.assertRaises(leasehold.ClosedError, locks._take, rate, cancel))
        waits.start()
        self.assertTrue(g.until_held(1, LONG))
        cancel.set()
        waits.join(LONG)
        self.assertTrue(locks._background.wait(LONG))
        self.assertEqual(len(g.passed), 1)
        status, _, content = g.deliver(*g.held[0])
        self.assertNotEqual(status, 200, content)
        self.locks().take("late-rate", limit=1, window=600, wait=0)

    def test_a_run_and_an_analysis(self) -> None:
        client = leasehold.Client(self.server.url)
        self.assertEqual(client.once("PUT", "/v1/analyses/late", None, seconds=LONG).status, 200)
        for there in ("runs", "analyses"):
            with self.subTest(there):
                g = self.gateway()
                g.holds = True
                late = leasehold.Client(g.url)

                async def main() -> None:
                    async def work(lock: Any) -> str:
                        self.fail("it runs")

                    gate = late.runs() if there == "runs" else late.analyses()
                    task = asyncio.ensure_future(run_async(gate, "late", work))
                    while not g.held:
                        await asyncio.sleep(0.01)
                    task.cancel()
                    with self.assertRaises(asyncio.CancelledError):
                        await task

                asyncio.run(main())
                self.eventually(lambda: g.passed, "it is not given up")
                self.assertTrue(_background.wait(LONG))
                self.assertEqual(len(g.passed), 1)
                status, _, content = g.deliver(*g.held[0])
                self.assertFalse(status == 200 and json.loads(content)["acquired"], content)
                got = run(client.runs() if there == "runs" else client.analyses(), "late", lambda lock: "done")
                self.assertEqual((got.status, got.error), ("ready", None))

    def test_a_clock_that_is_wrong(self) -> None:
        """One request more, once."""
        for by in (-3600.0, 0.0, 3600.0):
            with self.subTest(by=by):
                g = self.gateway()
                client = leasehold.Client(g.url, clock=Shifted(by))
                for n in range(3):
                    with client.locks().hold(f"clock-{by:.0f}"):
                        pass
                    with client.locks().hold_all([f"clock-{by:.0f}", "clock"]):
                        pass
                    self.assertEqual(run(client.runs(), f"clock-{by:.0f}-{n}", lambda lock: "done").status, "ready")
                asked = [p for p in g.passed if p.endswith(("/acquire", "/begin"))]
                self.assertEqual(len(asked), 9 + (by != 0), asked)


class Faults(WithServer):
    def test_exclusion_through_faults(self) -> None:
        proxy = Proxy(self.server.port, seed=16, share=0.25)
        inside, most, tokens, mutex, failures = 0, 0, [], threading.Lock(), []

        def worker(n: int) -> None:
            nonlocal inside, most
            locks = self.locks(proxy.url, ttl=20, retry_for=LONG, release_timeout=LONG)
            for _ in range(5):
                try:
                    with locks.hold("counter") as lock:
                        with mutex:
                            inside += 1
                            most = max(most, inside)
                            tokens.append(lock.token)
                        time.sleep(0.005)
                        with mutex:
                            inside -= 1
                except leasehold.LeaseholdError as err:
                    failures.append(err)

        threads = [threading.Thread(target=worker, args=(n,)) for n in range(6)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(LONG)
        proxy.close()
        # The lock remembers its last 8 releases: one whose answer was lost, and that is repeated later than that, is told that a later lease was granted.
        self.assertEqual([f for f in failures if not isinstance(f.__cause__, leasehold.codes.LeaseLostError)], [])
        self.assertEqual(len(tokens), 30)
        self.assertEqual(most, 1)
        self.assertEqual(tokens, sorted(set(tokens)))
        self.assertTrue(all(proxy.faults.values()), proxy.faults)

    def test_work_runs_once_through_faults(self) -> None:
        proxy = Proxy(self.server.port, seed=4, share=0.25)
        ran: list[str] = []

        @once(leasehold.Client(proxy.url).runs("shop"), key="invoice-{month}", ttl=60, wait=LONG)
        def invoice(month: str) -> dict[str, Any]:
            ran.append(month)
            return {"month": month, "total": 42}

        got: list[Any] = []
        threads = [threading.Thread(target=lambda m=m: got.append(invoice(m))) for m in ("may", "june") for _ in range(5)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(LONG)
        proxy.close()
        self.assertEqual(sorted(ran), ["june", "may"])
        self.assertEqual(len(got), 10)
        self.assertEqual({g["month"] for g in got}, {"may", "june"})

    def test_ids_through_faults(self) -> None:
        """No two IDs are equal among generators whose leases, renewals and releases are lost, repeated and delayed."""
        log = logging.getLogger("leasehold.machineids")
        self.addCleanup(log.setLevel, log.level)
        log.setLevel(logging.CRITICAL)
        proxy = Proxy(self.server.port, seed=7, share=0.4)
        made: list[int] = []
        ascending: list[bool] = []
        mutex = threading.Lock()

        def worker() -> None:
            for _ in range(6):
                with Generator(leasehold.Client(proxy.url).machine_ids(), fallback=False, retry_interval=0.05) as ids:
                    while True:
                        try:
                            mine = ids.next_ids(300, timeout=LONG)
                            break
                        except (ConfigurationError, LeaseAcquisitionError):
                            time.sleep(0.02)  # the last attempt failed: the generator makes another
                    with mutex:
                        made.extend(mine)
                        ascending.append(mine == sorted(set(mine)))

        threads = [threading.Thread(target=worker) for _ in range(5)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(LONG)
        proxy.close()
        self.assertEqual(len(made), 5 * 6 * 300)
        self.assertEqual(len(set(made)), len(made))
        self.assertTrue(all(ascending))
        self.assertTrue(all(proxy.faults.values()), proxy.faults)

    def test_a_killed_worker_is_followed(self) -> None:
        child = Child("""
            import sys, time, leasehold
            from leasehold.once import once

            @once(leasehold.Client(sys.argv[1]).runs("shop"), key="job", ttl=2)
            def job():
                print("runs")
                time.sleep(1000)

            job()
        """, self.server.url)
        child.until("runs")
        child.end()

        @once(leasehold.Client(self.server.url).runs("shop"), key="job", ttl=2, wait=LONG)
        def job() -> str:
            return "done"

        self.assertEqual(job(), "done")


class AnalysesTest(WithServer):
    """The gate of analyses, whose documents their producers make."""

    def setUp(self) -> None:
        self.client = leasehold.Client(self.server.url)

    def create(self, analysis: str) -> None:
        self.assertEqual(self.client.once("PUT", f"/v1/analyses/{analysis}", None, seconds=LONG).status, 200)

    def document(self, analysis: str) -> dict[str, Any]:
        got: dict[str, Any] = json.loads(self.client.once("GET", f"/v1/analyses/{analysis}", None, seconds=LONG).content)
        return got

    def test_without_a_document(self) -> None:
        got = run(self.client.analyses(), "nowhere", lambda lock: self.fail("it runs"))
        self.assertEqual((got.status, type(got.error)), ("unknown_analysis", NotFoundError))

        @once(self.client.analyses(), key="nowhere")
        def job() -> None:
            self.fail("it runs")

        with self.assertRaises(NotFoundError) as err:
            job()
        self.assertEqual(err.exception.field, "analysis_id")

    def test_it_runs_once(self) -> None:
        self.create("a-1")
        others: list[str] = []

        def work(lock: Any) -> str:
            lock.check()
            self.assertTrue(self.document("a-1")["locked"])
            others.append(run(self.client.analyses(), "a-1", lambda _: self.fail("it runs twice"), owner="another").status)
            return "done"

        got = run(self.client.analyses(), "a-1", work, owner="worker-1", ttl=60)
        self.assertEqual((got.status, others), ("ready", ["locked"]), got.error)
        self.assertEqual(self.document("a-1")["status"], "READY")
        self.assertEqual(run(self.client.analyses(), "a-1", lambda _: self.fail("it runs again")).status, "already_finished")

    def test_failures_are_counted(self) -> None:
        self.create("a-2")

        def fail(_: Any) -> str:
            raise ConnectionError("the bank does not answer")

        for want in ("attempt_failed", "failed", "already_failed"):
            got = run(self.client.analyses(), "a-2", fail, max_failures=2)
            self.assertEqual(got.status, want, got.error)
        self.assertEqual(self.document("a-2")["status"], "FAILED")
        self.assertIn("the bank does not answer", self.document("a-2")["failure_reason"])

    def test_the_decorator_on_a_coroutine(self) -> None:
        self.create("a-3")

        @once(self.client.analyses(), key="{analysis}")
        async def job(analysis: str) -> None:
            await asyncio.sleep(0)
            raise PermanentError("there is no data")

        with self.assertRaises(PermanentError):
            asyncio.run(job("a-3"))
        with self.assertRaises(RunFailedError) as err:
            asyncio.run(job("a-3"))
        self.assertIn("there is no data", str(err.exception))


class Frozen(WithServer):
    HOLDER = """
        import sys, time, leasehold
        locks = leasehold.Client(sys.argv[1]).locks(ttl=2)
        try:
            with locks.hold("frozen") as lock:
                print("token", lock.token)
                while True:
                    lock.check()
                    print("step")
                    time.sleep(0.05)
        except leasehold.LockLostError as err:
            print("lost", err)
    """

    def test_a_frozen_holder_notices_at_its_next_step(self) -> None:
        child = Child(self.HOLDER, self.server.url)
        token = int(child.until("token")[-1].split()[1])
        child.until("step")
        child.process.send_signal(signal.SIGSTOP)
        with self.locks().hold("frozen", wait=LONG) as lock:  # its lease has ended
            self.assertGreater(lock.token, token)
            while not child.lines.empty():
                child.line()
            child.process.send_signal(signal.SIGCONT)
            # A process that was stopped between its check and its step takes that one step: that is what tokens are for.
            self.assertLessEqual(child.until("lost").count("step"), 1)
            lock.check()
        child.end()

    def test_a_killed_holder_is_followed(self) -> None:
        child = Child(self.HOLDER, self.server.url)
        token = int(child.until("token")[-1].split()[1])
        child.end()
        with self.locks().hold("frozen", wait=LONG) as lock:
            self.assertGreater(lock.token, token)

    def test_a_task_of_a_frozen_process_is_cancelled(self) -> None:
        child = Child("""
            import asyncio, sys, leasehold
            locks = leasehold.Client(sys.argv[1]).locks(ttl=2)
            async def main():
                async with locks.hold("task") as lock:
                    print("token", lock.token)
                    await asyncio.sleep(1000)
            try:
                asyncio.run(main())
            except leasehold.LockLostError as err:
                print("lost", err)
        """, self.server.url)
        child.until("token")
        child.process.send_signal(signal.SIGSTOP)
        with self.locks().hold("task", wait=LONG):
            child.process.send_signal(signal.SIGCONT)
            child.until("lost")
        child.end()

    def test_a_frozen_worker_stores_nothing(self) -> None:
        """Another takes over; the first learns that at its next check, and what it returns does not count."""
        child = Child("""
            import sys, leasehold
            from leasehold.once import once, current

            @once(leasehold.Client(sys.argv[1]).runs("shop"), key="frozen-job", ttl=2)
            def job():
                print("runs")
                sys.stdin.readline()  # until the process goes on, and is told
                try:
                    current().check()
                except leasehold.LockLostError:
                    print("told")
                return "of the first"

            try:
                print("returned", job())
            except leasehold.LockLostError as err:
                print("lost", err)
        """, self.server.url, stdin=subprocess.PIPE)
        child.until("runs")
        child.process.send_signal(signal.SIGSTOP)

        @once(leasehold.Client(self.server.url).runs("shop"), key="frozen-job", ttl=60, wait=LONG)
        def job() -> str:
            return "of the second"

        self.assertEqual(job(), "of the second")
        assert child.process.stdin is not None
        child.process.stdin.write("go on\n")
        child.process.stdin.close()
        child.process.send_signal(signal.SIGCONT)
        self.assertEqual([line.split()[0] for line in child.until("lost")], ["told", "lost"])
        self.assertEqual(job(), "of the second")
        child.end()

    def test_a_frozen_server(self) -> None:
        lost_at: list[float] = []
        locks = self.locks(ttl=3, observe=lambda e: lost_at.append(time.monotonic()) if e.what == "Lost" else None)
        lock = locks.hold("server").acquire()
        self.server.freeze()
        last = time.monotonic()  # no renewal is granted after this
        try:
            self.assertTrue(lock.lost.wait(LONG))
            self.assertLessEqual(lock.left, 3 / 10)  # the lease lasts for the margin at most
            self.assertLess(lock._keeper._term._end.monotonic, last + 3)
            with self.assertRaises(leasehold.LockLostError):
                lock.check()
            began = time.monotonic()
            with self.assertRaises((leasehold.NotReleasedError, leasehold.LockLostError)):
                lock.release(timeout=0.2)
            self.assertLess(time.monotonic() - began, LONG)
        finally:
            self.server.thaw()
        with self.locks().hold("server", wait=LONG) as later:
            self.assertGreater(later.token, lock.token)

    def test_a_killed_server(self) -> None:
        seen: queue.Queue[leasehold.Event] = queue.Queue()
        locks = self.locks(ttl=9, observe=seen.put)
        with locks.hold("restart", release_timeout=LONG) as lock:
            self.server.kill()
            while seen.get(timeout=LONG).what != "RenewalFailed":
                pass
            lock.check()
            self.server.start()
            while True:
                e = seen.get(timeout=LONG)
                if e.what == "Renewed":
                    lock.check()
                    self.assertEqual((locks.get("restart")["owner_id"], locks.get("restart")["state"]), (locks.owner, "ACTIVE"))
                    break
                if e.what == "Lost":  # the machine was too slow to start a server in time
                    self.skipTest("the server was away for longer than the lease")


if __name__ == "__main__":
    unittest.main()
