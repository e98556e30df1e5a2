"""The conformance scripts of contracts/conformance, which every client library runs, by a runner in Python: once with the blocking calls, and once with asyncio.

The player, which is a Go program, judges. LEASEHOLD_PLAYER is its path; without it the tests are skipped.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import itertools
import json
import logging
import os
import subprocess
import threading
import time
import unittest
import urllib.request
from collections.abc import Callable
from datetime import datetime
from typing import Any

import leasehold
from leasehold import _outcome, _steps, ids
from leasehold._call import Cancelled
from leasehold._time import Signal
from leasehold.election import Election, Leader, Leadership
from leasehold.idempotency import Middleware, nothing_done, store_outcome, store_success
from leasehold.codes import LockDelayedError, LockHeldError, LockQueueFullError
from leasehold.machineids import ClockBackwardError, ConfigurationError, Generator, TimeRangeError
from leasehold.once import RunLock, RunNotStoredError, current, run, run_async

from virtual import STUCK, VirtualClock

Step = dict[str, Any]

AREAS = ("locks", "once", "ids", "elections", "middleware")  # what this client has; placement is not
BLOCKING = ("generator", "next", "close")  # calls that a program with a loop makes in a thread
PLAYER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class WorkError(Exception):
    """The failure of a work, as the script says."""


def exchange(method: str, url: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, method=method, headers={"Content-Type": "application/json"})
    with PLAYER.open(request, timeout=2 * STUCK) as r:
        return json.loads(r.read())


class Call:
    """An operation that the program asked of the client."""

    def __init__(self, runner: Runner, step: Step) -> None:
        self.runner, self.step, self.options = runner, step, step.get("options", {})
        self.cancelled = Signal()
        self.begun: dict[str, Any] | None = None
        self.lock: Any = None  # whose loss can be told
        self.back = Signal()  # the work is to return
        self.returned: Step = {}
        self.value: dict[str, Any] = {}
        self.error: BaseException | None = None
        self.done = threading.Event()
        self.handle: Any = None
        self.task: asyncio.Task[Any] | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        self.thread = threading.Thread(target=self._run, name=f"leasehold call {step['as']}", daemon=True)

    def start(self) -> None:
        self.thread.start()

    def cancel(self) -> None:
        if self.loop is not None and self.task is not None and not self.done.is_set():
            try:
                self.loop.call_soon_threadsafe(self.task.cancel)
            except RuntimeError:
                pass  # it has ended meanwhile
        self.cancelled.set(Cancelled())
        if self.runner.asynchronous:
            return
        self.back.set()

    def _run(self) -> None:
        try:
            if self.runner.asynchronous and self.step["call"] not in BLOCKING:
                self.loop = self.runner.clock.loop()
                try:
                    self.task = self.loop.create_task(self._do_async())
                    self.loop.run_until_complete(self.task)
                finally:
                    while left := asyncio.all_tasks(self.loop):  # a server's loop goes on
                        self.loop.run_until_complete(asyncio.wait(left))
                    self.loop.close()
            else:
                self._do()
        except BaseException as err:  # it is judged by the player
            self.error = err
        self.done.set()

    def _settings(self) -> dict[str, Any]:
        names = ("ttl", "wait", "shared", "permits", "fair", "max_waiting", "replace", "lock_delay", "max_hold", "metadata")
        return {n: self.options[n] for n in names if n in self.options}

    def _lock_value(self, lock: leasehold.Lock) -> dict[str, Any]:
        return {"key": lock.key, "token": lock.token, "permit": lock.permit}

    def _acquisition(self) -> leasehold.Hold[Any]:
        locks, s = self.runner.locks, self.step
        if s["call"] == "acquire_all":
            return locks.hold_all(s["keys"], **self._settings())
        settings = self._settings()
        if s["call"] == "try":
            settings["wait"] = 0
        return locks.hold(s["key"], **settings)

    def _obtained(self, lock: Any) -> None:
        self.handle = self.lock = lock
        self.value = {"tokens": dict(lock.tokens)} if isinstance(lock, leasehold.LockSet) else self._lock_value(lock)

    def _worked(self) -> str:
        if "error" in self.returned:
            raise WorkError(self.returned["error"])
        return str(self.returned.get("value", ""))

    def _begin(self, lock: Any, value: dict[str, Any]) -> None:
        self.lock, self.begun = lock, value

    def _work(self) -> str:
        while not self.back.is_set():
            self.runner.clock.wait(None, self.back)
        return self._worked()

    async def _work_async(self, through: bool = False) -> str:
        """Wait for the step that ends the work; through a loss of the lock, if it is to do so."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()

        def finish() -> None:
            if not future.done():
                future.set_result(None)

        def back() -> None:
            loop.call_soon_threadsafe(finish)

        end = self.back.subscribe(back)
        try:
            while not future.done():
                try:
                    await asyncio.shield(future)
                except asyncio.CancelledError:
                    if not through or self.lock is None or not self.lock.lost.is_set():
                        raise
        finally:
            end()
        return self._worked()

    def _run_settings(self) -> dict[str, Any]:
        return {
            "owner": self.runner.client_of.get("owner", ""), "clock": self.runner.clock,
            **{n: self.options[n] for n in ("ttl", "heartbeat", "wait", "max_failures", "max_takeovers", "fingerprint") if n in self.options},
        }

    def _outcome(self, o: Any) -> None:
        self.value = {"status": o.status, "result": o.result, "token": o.token, "retry_after_ms": round(o.retry_after * 1000)}

    def _do(self) -> None:
        s, r = self.step, self.runner
        op = s["call"]
        if op in ("acquire", "try", "acquire_all"):
            self._obtained(self._acquisition()._hold(False, self.cancelled))
        elif op == "do":
            a = self._acquisition()
            finish = a._finish
            a._finish = lambda acquire, working, cancel: finish(acquire, working, self.cancelled)
            with a as lock:
                self._begin(lock, self._lock_value(lock))
                self.value = {"result": self._work()}
        elif op == "take":
            o = {n: self.options[n] for n in ("limit", "window", "wait", "max_waiting", "metadata") if n in self.options}
            rate: dict[str, Any] = {"poll": 2.0, "wait": leasehold.FOREVER, "max_waiting": 0, "metadata": None, **o}
            self.value = {"token": r.locks._take(r.locks._rate(key=s["key"], **rate), self.cancelled)}
        elif op in ("release", "resign"):
            r.calls[s["of"]].handle.release()
        elif op == "campaign":
            self._led(self._election().campaign())
        elif op == "lead":

            def led(leader: Leader) -> str:
                self.back = Signal()
                self._begin(leader._lock, {"token": leader.token})
                return self._work()

            self.value = {"result": self._election().lead(led)}
        elif op == "leader":
            self.value = self._told(self._election().leader())
        elif op == "observe":
            for seen in itertools.islice(self._election()._observe(self.cancelled), s["count"]):
                self.value.setdefault("leaders", []).append("unknown" if seen.error else seen.owner)
        elif op == "once":

            def work(lock: RunLock) -> str:
                self._begin(lock, {"token": lock.token})
                return self._work()

            self._outcome(run(r.runs, s["key"], work, **self._run_settings()))
        elif op == "handle":
            self._handle()
        else:
            self._make_ids()

    async def _do_async(self) -> None:
        s, r = self.step, self.runner
        op = s["call"]
        if op in ("acquire", "try", "acquire_all"):
            self._obtained(await self._acquisition().acquire_async())
        elif op == "do":
            async with self._acquisition() as lock:
                self._begin(lock, self._lock_value(lock))
                self.value = {"result": await self._work_async()}
        elif op == "take":
            o = {n: self.options[n] for n in ("limit", "window", "wait", "max_waiting", "metadata") if n in self.options}
            self.value = {"token": await r.locks.take_async(s["key"], **o)}
        elif op in ("release", "resign"):
            await r.calls[s["of"]].handle.release_async()
        elif op == "campaign":
            self._led(await self._election().campaign_async())
        elif op == "lead":

            async def led(leader: Leader) -> str:
                self.back = Signal()
                self._begin(leader._lock, {"token": leader.token})
                return await self._work_async(through=True)

            self.value = {"result": await self._election().lead_async(led)}
        elif op == "leader":
            self.value = self._told(await self._election().leader_async())
        elif op == "observe":
            async with contextlib.aclosing(self._election().observe_async()) as changes:
                async for seen in changes:
                    self.value.setdefault("leaders", []).append("unknown" if seen.error else seen.owner)
                    if len(self.value["leaders"]) == s["count"]:
                        break
        elif op == "once":

            status = "stopped"

            async def work(lock: RunLock) -> str:
                nonlocal status
                self._begin(lock, {"token": lock.token})
                made = await self._work_async(through=True)
                status = "not_stored"
                return made

            try:
                self._outcome(await run_async(r.runs, s["key"], work, **self._run_settings()))
            except asyncio.CancelledError:  # which is what its caller gets, and no outcome
                self.value = {"status": status, "token": self.lock.token if self.lock is not None else 0}
        elif op == "handle":
            await self._handle_async()
        else:
            raise AssertionError(f"there is no operation {s['call']}")

    def _responds(self) -> tuple[int, list[tuple[str, str]], bytes] | None:
        """What the handler responds, by the step that ends it."""
        if "error" in self.returned:
            raise WorkError(self.returned["error"])
        does = self.returned.get("value")
        if not does:
            return None
        if does.get("nothing_done"):
            nothing_done()
        return does["status"], [(name, value) for name, value in does.get("headers", [])], does.get("body", "").encode() * does.get("times", 1)

    def _got(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        joined: dict[str, str] = {}
        for name, value in headers:
            joined[name.lower()] = f"{joined[name.lower()]}, {value}" if name.lower() in joined else value
        self.value = {"status": status, "headers": joined, "body": body.decode()}
        if joined.get("content-type", "").endswith("json"):
            self.value["json"] = json.loads(body)

    def _began(self, body: bytes) -> None:
        try:
            lock = current()
        except LookupError:
            self._begin(None, {"body": body.decode()})
        else:
            self._begin(lock, {"token": lock.token, "body": body.decode()})

    def _handle(self) -> None:
        asked = self.step["http"]
        path, _, query = asked["path"].partition("?")
        body = asked.get("body", "").encode()
        environ = {
            "REQUEST_METHOD": asked["method"], "PATH_INFO": path, "QUERY_STRING": query, "HTTP_HOST": "pay.example", "CONTENT_LENGTH": str(len(body)),
            "wsgi.input": io.BytesIO(body),
        }
        for name, value in asked.get("headers", []):
            member = "CONTENT_TYPE" if name == "Content-Type" else "HTTP_" + name.upper().replace("-", "_")
            value = value.encode().decode("latin-1")
            environ[member] = f"{environ[member]},{value}" if member in environ else value  # as servers do

        def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
            self._began(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
            self._returns()
            responds = self._responds()
            if responds is None:
                return []
            start_response(f"{responds[0]} as it says", responds[1])
            return [responds[2]]

        head: list[Any] = []
        got = b"".join(self.runner.middleware.wsgi(app)(environ, lambda status, headers: head.extend((status, headers))))
        self._got(int(head[0].split()[0]), head[1], got)

    def _returns(self) -> None:
        while not self.back.is_set():
            self.runner.clock.wait(None, self.back)

    async def _handle_async(self) -> None:
        asked = self.step["http"]
        path, _, query = asked["path"].partition("?")
        sent: list[dict[str, Any]] = []
        scope = {
            "type": "http", "method": asked["method"], "path": path, "raw_path": path.encode(), "query_string": query.encode(),
            "headers": [(b"host", b"pay.example"), *((name.lower().encode(), value.encode()) for name, value in asked.get("headers", []))],
        }

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": asked.get("body", "").encode(), "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
            self._began((await receive())["body"])
            try:
                await self._work_async(through=True)
            except WorkError:
                pass
            responds = self._responds()
            if responds is not None:
                headers = [(name.encode(), value.encode()) for name, value in responds[1]]
                await send({"type": "http.response.start", "status": responds[0], "headers": headers})
                await send({"type": "http.response.body", "body": responds[2]})

        try:
            await self.runner.middleware.asgi(app)(scope, receive, send)
        except asyncio.CancelledError:
            return  # the caller hung up
        self._got(
            sent[0]["status"], [(name.decode(), value.decode()) for name, value in sent[0]["headers"]], b"".join(m["body"] for m in sent[1:]))

    def _close(self) -> None:
        try:
            self.runner.middleware.close(self.options["wait"])
        except RunNotStoredError:
            self.value = {"not_stored": True}
        else:
            self.value = {"not_stored": False}

    def _election(self) -> Election:
        return Election(self.runner.locks, self.step["key"], **self._settings())

    def _led(self, leader: Leader) -> None:
        self.handle = self.lock = leader._lock
        self.value = {"token": leader.token}

    def _told(self, seen: Leadership) -> dict[str, Any]:
        return {"leads": bool(seen), "owner": seen.owner, "lease_id": seen.lease_id}

    def _make_ids(self) -> None:
        s, r = self.step, self.runner
        if s["call"] == "generator":
            o = self.options
            self.handle = Generator(
                r.client.machine_ids(), service=o.get("service", ""), throughput_per_ms=o.get("throughput_per_ms", 256),
                fallback=not o.get("no_fallback", False), max_backward_ms=o.get("max_backward_ms", 5000), clock=r.clock)
            r.generators.append(self.handle)
        elif s["call"] == "next":
            g: Generator = r.calls[s["of"]].handle
            made = g.next_ids(s.get("count", 1))

            def parts(number: int) -> dict[str, Any]:
                p = g.layout.decode(number)
                return {"id": ids.format_id(number), "time_ms": p.unix_ms, "machine_id": p.machine_id, "sequence": p.sequence, "fallback": p.fallback}

            self.value = {
                "count": len(made), "ascending": all(a < b for a, b in zip(made, made[1:])), "first": parts(made[0]), "last": parts(made[-1]),
            }
        elif s["call"] == "close" and r.middleware is not None:
            self._close()
        elif s["call"] == "close":
            r.calls[s["of"]].handle.close()
        else:
            raise AssertionError(f"there is no operation {s['call']}")


def describe(err: BaseException, cancelled: bool) -> dict[str, Any]:
    """What an error is: its class, and the code if it has one."""
    said = err
    while not isinstance(said, leasehold.ApiError) and said.__cause__ is not None:
        said = said.__cause__
    d: dict[str, Any] = {"class": "unavailable", "text": f"{type(err).__name__}: {err}"}
    if isinstance(said, leasehold.ApiError):
        d.update(code=said.code, field=said.field, owner=said.owner_id, retry_after_ms=round(said.retry_after * 1000))
    if isinstance(err, leasehold.MaxHoldError):
        d.update({"class": "lost", "code": "MAX_HOLD"})
    elif isinstance(err, leasehold.LockLostError):
        d["class"] = "lost"
    elif isinstance(err, leasehold.NotReleasedError):
        d["class"] = "not_released"
    elif isinstance(err, (asyncio.CancelledError, Cancelled)) or cancelled and isinstance(err, leasehold.ClosedError):
        d["class"] = "cancelled"
    elif isinstance(err, (LockHeldError, LockDelayedError, LockQueueFullError)):
        d["class"] = "held"
    elif isinstance(err, leasehold.InvalidSettingError):
        d["class"] = "invalid"
    elif isinstance(err, WorkError):
        d["class"] = "failed"
    elif isinstance(err, (ClockBackwardError, TimeRangeError)):
        d["class"] = "clock"
    elif _outcome.final(said) or isinstance(err, ConfigurationError) or isinstance(err.__cause__, ConfigurationError):
        d["class"] = "rejected"
    return d


class Runner:
    """One run of one script."""

    def __init__(self, player: str, script: dict[str, Any], start: str, asynchronous: bool) -> None:
        self.asynchronous = asynchronous
        self.script, self.client_of = script, script.get("client", {})
        made = exchange("POST", player + "/runs", {"script": script["name"]})
        self.url = made["run"]
        self.clock = VirtualClock(datetime.fromisoformat(start.replace("Z", "+00:00")).timestamp())
        self.began = self.clock.wall()
        self.passed = 0.0  # since the start of the script
        c = self.client_of
        self.client = leasehold.Client(made["base_url"], token=c.get("token") or None, clock=self.clock)
        self.locks = self.client.locks(c.get("tenant", "default"), owner=c.get("owner", ""), ttl=c.get("ttl_seconds", 30))
        self.runs = self.client.runs(c.get("tenant", "default"))
        self.middleware: Any = None
        if "middleware" in c:
            o = dict(c["middleware"])
            o["store"] = store_success if o.get("store") == "success" else store_outcome
            self.middleware = Middleware(
                self.runs, lambda r: r.header("X-Account") or "ann", owner=c["owner"], warn=lambda err: None, clock=self.clock, **o)
        self.calls: dict[str, Call] = {}
        self.generators: list[Generator] = []
        self.kept: set[int] = set()  # requests whose answer the player keeps
        self.repeats: dict[str, Step] = {}

    def under_way(self) -> set[int]:
        return self.clock.requests() - self.kept

    def settle(self) -> bool:
        """Wait until the client rests. True if a request is under way that no repeated step answers."""
        end = time.monotonic() + STUCK
        while True:
            self.clock.settle()
            self.kept &= self.clock.requests()
            open_ = self.under_way()
            if not open_:
                return False
            if self.client_of.get("refused"):  # no step answers it: it ends by itself
                time.sleep(0.0002)
            elif not self.repeats or exchange("GET", self.url + "?arrival=0.05")["waiting"]:
                return True
            if any(r.get("fault") == "hang" for r in self.repeats.values()):
                self.kept |= open_
            assert time.monotonic() < end, "a request gets no answer"

    def let_pass(self, seconds: float, until: Callable[[], bool]) -> bool:
        """Move the clock from timer to timer, until a condition holds, a request is under way, or so much time has passed."""
        left = seconds
        while True:
            asked = self.settle()
            if until() or asked:
                return until()
            step = self.clock.next_timer()
            if step is None or step > left + 1e-9:
                self.clock.move(left)
                self.passed += left
                self.settle()
                return until()
            self.clock.move(step)
            self.passed += step
            left -= step

    def time_of(self, s: Step) -> float:
        if "before" in s:
            return max(0.0, float(s["before"]) - self.passed - 1e-6)
        return float(s.get("within", 0.0))

    def wait(self, s: Step, until: Callable[[], bool]) -> bool:
        self.settle()
        return until() or self.time_of(s) > 0 and self.let_pass(self.time_of(s), until)

    def observe(self, s: Step) -> dict[str, Any]:
        """The runner's part of a step."""
        if "deliver" not in s:
            self.clock.move(0.0)  # what a freeze has held up
        if "call" in s:
            call = self.calls[s["as"]] = Call(self, s)
            call.start()
        elif "request" in s:
            if "repeat" not in s:
                self.wait(s, lambda: bool(self.under_way()))
        elif "result" in s:
            call = self.calls[s["result"]]
            if not self.wait(s, call.done.is_set):
                return {"error": {"class": "pending", "text": "the call has not ended"}}
            if call.error is not None:
                return {"error": describe(call.error, call.cancelled.is_set())}
            return {"value": call.value}
        elif "began" in s:
            call = self.calls[s["began"]]
            if not self.wait(s, lambda: call.begun is not None):
                return {"error": {"class": "failed", "text": "its work has not begun"}}
            return {"value": call.begun}
        elif "return" in s:
            call = self.calls[s["return"]]
            call.returned, call.begun = s, None
            call.back.set()
        elif "held" in s or "lost" in s:
            lock = self.calls[s.get("held") or s["lost"]].lock

            def told() -> bool:
                return lock is not None and threading.Event.is_set(lock.lost)  # without looking at the clocks

            if "held" in s:
                self.settle()
            else:
                self.wait(s, told)
            d: dict[str, Any] = {"lost": told()}
            if told():
                d.update({k: v for k, v in describe(getattr(lock, "_keeper", lock)._term.cause, False).items() if k == "code"})
            return d
        elif "cancel" in s:
            self.calls[s["cancel"]].cancel()
        elif "pass" in s:
            self.let_pass(float(s["pass"]), lambda: False)
        elif "freeze" in s:
            self.passed += float(s["freeze"])
            self.settle()
            # What was due fires after it: when the process goes on, an answer that has come meanwhile is there as well.
            self.clock.move(0.0 if s.get("clocks") == "wall" else float(s["freeze"]), float(s["freeze"]), due=False)
        elif "set" in s:
            self.settle()
            self.clock.move(0.0, float(s["set"]))
        return {}

    def step(self, i: int, s: Step) -> list[str]:
        observed = self.observe(s)
        self.settle()
        if "pass" in s and self.under_way():
            exchange("GET", self.url + "?arrival=20")  # what is under way and not asked for must be seen by the player
        before = self.clock.requests()
        outcome = exchange("POST", f"{self.url}/steps/{i}", observed)
        if not outcome["ok"]:
            return list(outcome["failures"]) or ["the player says no"]
        if "request" in s:
            if "repeat" in s:
                self.repeats[s["repeat"]] = s
            elif s.get("fault") == "hang" or "hold" in s:
                self.kept |= before
            else:
                self.gone(before - self.kept)
        elif "deliver" in s:
            kept, self.kept = self.kept, set()
            self.gone(kept)
        elif "stop" in s:
            self.repeats.pop(s["stop"], None)
        self.settle()
        return []

    def gone(self, requests: set[int]) -> None:
        """Wait until requests that were answered are under way no more."""
        end = time.monotonic() + STUCK
        while requests & self.clock.requests():
            assert time.monotonic() < end, "the client does not take the answer"
            time.sleep(0.0002)

    def run(self) -> list[str]:
        failures: list[str] = []
        with self.clock.watch_requests():
            try:
                for i, s in enumerate(self.script["steps"]):
                    failures = self.step(i, s)
                    if failures:
                        break
            finally:
                end = exchange("POST", self.url + "/end", {})
                self.leave()
        return failures or ([] if end["passed"] else list(end["failures"]))

    def leave(self) -> None:
        """Let everything end that a failed run has left: the clock runs on until no thread is left, and the event
        loop of the client has nothing to do."""
        for call in self.calls.values():
            call.returned = {"error": "the run is over"}
            call.back.set()
            call.cancel()
            if call.lock is not None and hasattr(call.lock, "_keeper"):
                call.lock._keeper._renewing.set()
                call.lock._keeper._term.over.set()
        for g in self.generators:
            with g._mutex:
                g._closed, g._held = True, []
            g._stopped.set()
        end = time.monotonic() + STUCK
        while self.clock.busy() or [
                t.name for t in threading.enumerate()
                if t.name.startswith("leasehold") and t.name != "leasehold watch" and t not in self.clock.others() and t.ident not in _steps._engine.resting]:
            assert time.monotonic() < end, [t.name for t in threading.enumerate()]
            step = self.clock.next_timer()
            if not self.clock.busy() and step is not None:
                self.clock.move(step)
            time.sleep(0.0002)


class Conformance(unittest.TestCase):
    process: subprocess.Popen[str]
    player: str
    scripts: dict[str, Any]

    @classmethod
    def setUpClass(cls) -> None:
        path = os.environ.get("LEASEHOLD_PLAYER")
        if not path:
            raise unittest.SkipTest("LEASEHOLD_PLAYER is not set: go build -o player ./contracts/conformance/player")
        logging.getLogger("leasehold.machineids").setLevel(logging.CRITICAL)
        cls.process = subprocess.Popen([path, "-stdin"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert cls.process.stdout is not None
        cls.player = cls.process.stdout.readline().strip()
        cls.scripts = exchange("GET", cls.player + "/scripts")

    @classmethod
    def tearDownClass(cls) -> None:
        assert cls.process.stdin is not None and cls.process.stdout is not None
        cls.process.stdin.close()
        cls.process.wait(STUCK)
        cls.process.stdout.close()

    def play(self, asynchronous: bool, skip: Callable[[dict[str, Any]], bool] = lambda s: False) -> None:
        only = os.environ.get("LEASEHOLD_SCRIPT")
        ran = 0
        for script in self.scripts["scripts"]:
            if only and script["name"] != only or skip(script) or script["area"] not in AREAS:
                continue
            with self.subTest(script["name"]):
                failures = Runner(self.player, script, self.scripts["start"], asynchronous).run()
                self.assertEqual(failures, [], script["proves"])
            ran += 1
        self.assertGreater(ran, 0)

    def test_blocking(self) -> None:
        # Nothing cancels a blocking run but an exception in its own thread.
        self.play(False, lambda s: s["area"] in ("once", "middleware") and any("cancel" in step for step in s["steps"]))

    def test_asyncio(self) -> None:
        self.play(True)

    def test_a_wrong_client_fails(self) -> None:
        """The runner tells the player what it observed: a client with another owner is found out."""
        script = next(s for s in self.scripts["scripts"] if s["name"] == "lock-hold-renew-release")
        wrong = {**script, "client": {**script["client"], "owner": "another"}}
        failures = Runner(self.player, wrong, self.scripts["start"], False).run()
        self.assertTrue(any("owner_id" in f for f in failures), failures)


if __name__ == "__main__":
    unittest.main()
