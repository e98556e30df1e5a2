#!/usr/bin/env python3
"""A worker that runs an analysis once, in any language: here Python 3.9, standard library only.

    LEASEHOLD_SERVER=http://127.0.0.1:8080 python3 worker.py ANALYSIS_ID [SECONDS]

It asks the gate for the run, refreshes the lock while the work runs, and writes the end under the lock's token:

    POST /v1/analyses/{id}/lock      -> acquired, or the reason why not: a skip, no error
    POST /v1/analyses/{id}/refresh   every heartbeat_seconds; if rejected, stop
    POST /v1/analyses/{id}/finish    READY with a result
    POST /v1/analyses/{id}/release   the run failed, or was stopped

Put your own work into analyze(). Exit codes: 0 READY, now or before; 1 failed, deliver again; 3 another worker runs it,
deliver again later; 4 the lock was lost, deliver again; 5 there is no such analysis.
"""

import json
import os
import random
import signal
import socket
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid


class Lost(Exception):
    """The lock is no longer ours. What was not written yet must not be written any more."""


class Stopped(Exception):
    """The process is asked to end."""


class Problem(Exception):
    """An error response of the server; code is for programs."""

    def __init__(self, problem):
        super().__init__(f"{problem.get('code')}: {problem.get('detail') or problem.get('title')}")
        self.code = problem.get("code")
        self.field = problem.get("field")
        self.again = problem.get("retryable", False)


LOST = {"LEASE_LOST", "LEASE_EXPIRED", "LEASE_RELEASED", "ALREADY_FINISHED", "NOT_OWNER"}


class Gate:
    """Speaks to a Leasehold server about one analysis."""

    def __init__(self, server, analysis_id, token=None):
        self.url = server.rstrip("/") + "/v1/analyses/" + urllib.parse.quote(analysis_id, safe="")
        self.token = token

    def send(self, command, body, within):
        """Sends a command until there is a response, for so many seconds at most. Retries are idempotent."""
        until, wait = time.monotonic() + within, 0.2
        while True:
            try:
                return self._once(command, body, min(10, max(0.1, until - time.monotonic())))
            except Problem as problem:
                if not problem.again:
                    raise
                error = problem
            except OSError as unreachable:  # of which URLError is one
                error = unreachable
            pause = random.uniform(0, wait)
            if time.monotonic() + pause >= until:
                raise error
            time.sleep(pause)
            wait = min(2 * wait, 5)

    def _once(self, command, body, timeout):
        headers = {"Content-Type": "application/json"}
        if self.token:
            headers["Authorization"] = "Bearer " + self.token
        request = urllib.request.Request(self.url + command, json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=timeout) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                if error.headers.get_content_type() == "application/problem+json":
                    raise Problem(json.load(error)) from None
            raise


class Run:
    """A granted run: keeps its lock alive in a thread of its own until it is closed."""

    def __init__(self, gate, grant, ttl, asked):
        self.gate, self.ttl = gate, ttl
        self.lock = {"owner_id": grant["owner_id"], "fencing_token": grant["fencing_token"]}
        self.token = grant["fencing_token"]
        self._ends = self._after(asked, grant["remaining_ms"] / 1000)
        self._lost = self._stopped = None
        self._over = threading.Event()
        self._every = grant.get("heartbeat_seconds", ttl / 5)
        self._thread = threading.Thread(target=self._beat, daemon=True)
        self._thread.start()

    @staticmethod
    def now():
        """Both clocks: the monotonic one, and the one that advances while the machine sleeps."""
        return time.monotonic(), time.time()

    @staticmethod
    def _after(asked, seconds):
        return asked[0] + seconds, asked[1] + seconds

    def left(self):
        now = self.now()
        return min(self._ends[0] - now[0], self._ends[1] - now[1])

    def check(self):
        """Call this before each step. It consults the clocks, so that it is also right after the process was stopped."""
        if self._lost is None and self.left() <= 0:
            self._lost = "it expired"
        if self._lost:
            raise Lost(self._lost)
        if self._stopped:
            raise Stopped(self._stopped)

    def stop(self, why):
        self._stopped = why

    def _beat(self):
        wait = self._every
        while not self._over.wait(max(0, min(wait, self.left()))) and self._lost is None and self.left() > 0:
            asked = self.now()
            try:
                self.gate._once("/refresh", {**self.lock, "ttl_seconds": self.ttl}, max(0.1, self.left() / 3))
            except Problem as problem:
                if problem.code in LOST or problem.code == "NOT_FOUND":
                    self._lost = str(problem)
                    return
                wait = min(1, self._every / 4)
            except OSError:
                wait = min(1, self._every / 4)  # the server cannot be reached: retry soon
            else:
                if self.left() <= 0:
                    return  # too late: check() says so
                self._ends, wait = self._after(asked, self.ttl), self._every

    def close(self):
        self._over.set()
        self._thread.join()


def analyze(run, seconds):
    """The work itself, in steps. Here it only takes its time."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        run.check()
        time.sleep(0.05)
    return f"analyzed under token {run.token}"


def main(analysis_id, seconds=1.0, ttl=300):
    gate = Gate(os.environ.get("LEASEHOLD_SERVER", "http://127.0.0.1:8080"), analysis_id, os.environ.get("LEASEHOLD_AUTH_TOKEN"))
    owner = f"{socket.gethostname()[:40]}-{os.getpid()}"
    asked = Run.now()
    try:
        grant = gate.send("/lock", {"owner_id": owner, "request_id": uuid.uuid4().hex, "ttl_seconds": ttl}, min(30, ttl))
    except Problem as problem:
        print(problem, file=sys.stderr)
        return 5 if problem.code == "NOT_FOUND" and problem.field == "analysis_id" else 1
    except OSError as unreachable:
        print("the server does not respond:", unreachable, file=sys.stderr)
        return 1
    if not grant["acquired"]:
        print("skipped:", grant["reason"], flush=True)
        return 0 if grant["reason"] == "already_finished" else 3

    run = Run(gate, grant, ttl, asked)
    signal.signal(signal.SIGTERM, lambda *_: run.stop("SIGTERM"))
    print("running under token", run.token, flush=True)
    try:
        result = analyze(run, seconds)
        run.check()
    except Lost as lost:
        print("lost:", lost, file=sys.stderr)
        return 4
    except Stopped as stopped:
        return release(gate, run, stopped)
    except Exception as error:  # a failed attempt
        return release(gate, run, error, failure_reason=f"{type(error).__name__}: {error}".encode()[:1000].decode(errors="ignore"))
    finally:
        run.close()
    try:
        gate.send("/finish", {**run.lock, "status": "READY", "result": result}, max(10, run.left()))
    except Problem as problem:
        print(problem, file=sys.stderr)
        return 4 if problem.code in LOST else 1
    except OSError as unreachable:
        print("the result could not be stored:", unreachable, file=sys.stderr)
        return 1
    print("READY:", result, flush=True)
    return 0


def release(gate, run, why, **failed):
    """Releases the analysis for the next run. If that fails, the lock expires."""
    print(f"{type(why).__name__}: {why}", file=sys.stderr)
    try:
        gate.send("/release", {**run.lock, **failed}, 10)
    except (Problem, OSError) as error:
        print("release:", error, file=sys.stderr)
    return 1


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 3:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], float(sys.argv[2]) if len(sys.argv) == 3 else 1.0, int(os.environ.get("TTL", "300"))))
