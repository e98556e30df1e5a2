"""Compares an uncontended lock with its raw requests, and with the Lock of redis-py and its raw commands, in one run.

    LEASEHOLD_BIN=leasehold python3 tools/bench.py

It starts leasehold with its store in memory, and redis-server, both on this machine, and acquires and releases one lock again and again, in turns. It prints
medians; their ratios say something, the times are those of this machine. It needs redis-server and redis-py (on Debian: redis-server, python3-redis).
"""

from __future__ import annotations

import asyncio
import http.client
import importlib
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

import leasehold  # noqa: E402

ROUNDS, EACH = 20, 25
RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def wait_for(port: int) -> None:
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            time.sleep(0.05)
    raise SystemExit(f"nothing listens on port {port}")


def raw_requests(port: int) -> Callable[[], None]:
    """An acquire and a release over one connection, by the standard library alone."""
    connection = http.client.HTTPConnection("127.0.0.1", port)

    def send(command: str, body: dict[str, object]) -> dict[str, object]:
        connection.request(
            "POST", f"/v1/tenants/default/locks/raw/{command}", json.dumps(body), {"Content-Type": "application/json"})
        got: dict[str, object] = json.loads(connection.getresponse().read())
        return got

    def pair() -> None:
        got = send("acquire", {"owner_id": "me", "ttl_seconds": 30, "request_id": leasehold.new_request_id()})
        token = got["fencing_token"]
        send("release", {"owner_id": "me", "fencing_token": token, "request_id": leasehold.new_request_id()})

    connection.connect()
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return pair


def main() -> None:
    redis: Any = importlib.import_module("redis")
    tasked: Any = importlib.import_module("redis.asyncio")

    ports = free_port(), free_port()
    env = {k: v for k, v in os.environ.items() if not k.startswith("LEASEHOLD_")}
    servers = [
        subprocess.Popen([os.environ.get("LEASEHOLD_BIN", "leasehold"), "serve", "--listen", f"127.0.0.1:{ports[0]}", "--store", "memory"],
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env),
        subprocess.Popen(["redis-server", "--port", str(ports[1]), "--save", "", "--appendonly", "no"],
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL),
    ]
    try:
        for port in ports:
            wait_for(port)
        locks = leasehold.Client(f"http://127.0.0.1:{ports[0]}").locks(owner="me")
        r = redis.Redis(port=ports[1])
        script = r.register_script(RELEASE)

        def ours() -> None:
            with locks.hold("lock"):
                pass

        def theirs() -> None:
            with r.lock("lock", timeout=30):
                pass

        def commands() -> None:
            r.set("raw", "token", nx=True, px=30000)
            script(keys=["raw"], args=["token"])

        async def ours_async() -> None:
            async with locks.hold("task"):
                pass

        blocking = {"requests": raw_requests(ports[0]), "lock": ours, "redis commands": commands, "redis lock": theirs}
        took: dict[str, list[float]] = {}
        for _ in range(ROUNDS):
            for name, do in blocking.items():
                began = time.perf_counter()
                for _ in range(EACH):
                    do()
                took.setdefault(name, []).append((time.perf_counter() - began) / EACH)

        async def of_tasks() -> None:
            a = tasked.Redis(port=ports[1])
            async_script = a.register_script(RELEASE)

            async def theirs_async() -> None:
                async with a.lock("task", timeout=30):
                    pass

            async def commands_async() -> None:
                await a.set("raw", "token", nx=True, px=30000)
                await async_script(keys=["raw"], args=["token"])

            tasks: dict[str, Callable[[], Awaitable[None]]] = {
                "lock, asyncio": ours_async, "redis commands, asyncio": commands_async, "redis lock, asyncio": theirs_async}
            for _ in range(ROUNDS):
                for name, task in tasks.items():
                    began = time.perf_counter()
                    for _ in range(EACH):
                        await task()
                    took.setdefault(name, []).append((time.perf_counter() - began) / EACH)
            await a.close()

        asyncio.run(of_tasks())
        median = {name: statistics.median(times[1:]) for name, times in took.items()}
        for name, seconds in median.items():
            print(f"{name:26}{seconds * 1e6:8.0f} µs")
        print()
        print("| an uncontended lock | in threads | in asyncio |")
        print("| --- | --- | --- |")
        for what, raw, lock, task_lock, raw_of_tasks in (
            ("Leasehold, of its two requests", "requests", "lock", "lock, asyncio", "requests"),
            ("redis-py, of its two commands", "redis commands", "redis lock", "redis lock, asyncio", "redis commands, asyncio"),
        ):
            print(f"| {what} | {median[lock] / median[raw]:.2f} × | {median[task_lock] / median[raw_of_tasks]:.2f} × |")
    finally:
        for server in servers:
            server.kill()
            server.wait()


if __name__ == "__main__":
    main()
