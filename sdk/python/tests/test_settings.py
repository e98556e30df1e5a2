"""Arguments that cannot work: each is an InvalidSettingError that names its field, or is accepted. No other error comes from inside, and nothing is sent."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from typing import Any

import leasehold
from leasehold import publicids
from leasehold.machineids import Generator
from leasehold.once import _Run, fingerprint, once

STRANGE: tuple[Any, ...] = (
    None, "x", "", -1, 0, 1, float("nan"), float("inf"), -float("inf"), True, object(), b"x", [], {}, 1.5, 10**400, 10**5000, "\ud800", "a\nb", "9",
)
SECRET = b"0123456789abcdef"


def _sent(do: Callable[[], object]) -> None:
    """Do what ends without a response, or at once, if its arguments can work."""
    try:
        do()
    except (leasehold.NoResponseError, leasehold.UnknownOutcomeError, leasehold.codes.DeadlineExceededError, TimeoutError):
        pass  # no one listens there


class Settings(unittest.TestCase):
    def check(self, field: str, make: Callable[[Any], object], *also: str) -> None:
        refused = 0
        for value in STRANGE:
            with self.subTest(field, type=type(value).__name__):
                try:
                    make(value)
                except leasehold.InvalidSettingError as err:
                    refused += 1
                    self.assertIn(err.field, (field, *also))
                    self.assertLess(len(str(err)), 400)
        self.assertGreater(refused, 3, field)

    def test_client(self) -> None:
        url = "http://127.0.0.1:1"
        self.check("server", lambda v: leasehold.Client(v))
        self.check("tries", lambda v: leasehold.Client(url, tries=v))
        self.check("timeout", lambda v: _sent(lambda: leasehold.Client(url, timeout=v, tries=1).lock_api().get("k")))
        client = leasehold.Client(url)
        for make in ("lock_api", "locks", "runs"):
            self.check("tenant", getattr(client, make))
        self.check("keep", lambda v: client.runs(keep=v))
        self.check("ssl_context", lambda v: leasehold.Client("https://127.0.0.1:1", ssl_context=v))
        api: Any = client.lock_api()
        request = {"owner_id": "me", "request_id": "r", "ttl_seconds": 9}
        self.check("wait_seconds", lambda v: _sent(lambda: api.acquire("k", {**request, "wait_seconds": v}, timeout=0.01)))
        self.check("timeout", lambda v: _sent(lambda: leasehold.Client("http://127.0.0.1:1", tries=1).lock_api().get("k", timeout=v)))

    def test_token(self) -> None:
        def send(token: Any) -> None:
            _sent(lambda: leasehold.Client("http://127.0.0.1:1", token=token, tries=1).lock_api().get("k"))

        self.check("token", send)
        self.check("token", lambda v: send(lambda: v))
        with self.assertRaises(leasehold.InvalidSettingError):
            send(lambda: None)

    def test_locks(self) -> None:
        client = leasehold.Client("http://127.0.0.1:1")
        locks = client.locks()
        for field in ("owner", "ttl", "retry_for", "release_timeout"):
            self.check(field, lambda v: client.locks(**{field: v}))
        for field in (
            "wait", "ttl", "permits", "max_waiting", "lock_delay", "poll", "max_hold", "margin", "release_timeout", "metadata",
            "shared", "fair", "replace",
        ):
            self.check(field, lambda v: locks.hold("k", **{field: v}))
        self.check("observe", lambda v: client.locks(observe=v))
        self.check("timeout", lambda v: client.locks().close(v))
        self.check("key", locks.hold)
        self.check("keys", locks.hold_all)
        self.check("key", lambda v: locks.hold_all(["a", v]))
        for field in ("limit", "window", "poll", "max_waiting", "metadata"):
            given: dict[str, Any] = {"limit": 1, "window": 1, "wait": 0, "poll": 2.0, "max_waiting": 0, "metadata": None}
            self.check(field, lambda v: locks._rate("k", **{**given, field: v}))

    def test_runs(self) -> None:
        given: dict[str, Any] = {
            "owner": "", "request_id": "", "ttl": 30, "heartbeat": None, "max_failures": 0, "max_takeovers": None, "wait": 0, "fingerprint": "", "on_refresh": None, "warn": None, "clock": None}
        gate: Any = None
        for field in ("owner", "request_id", "ttl", "heartbeat", "max_failures", "max_takeovers", "wait", "fingerprint", "on_refresh", "warn"):
            self.check(field, lambda v: _Run(gate, "r", **{**given, field: v}))
        for field in ("key", "ignore"):
            self.check(field, lambda v: once(gate, **{"key": "k", field: v})(lambda: None))
        self.check("value", fingerprint)
        self.check("run_id", lambda v: _Run(gate, v, **given))

    def test_generators(self) -> None:
        for field in ("service", "throughput_per_ms", "retry_interval", "max_backward_ms", "epoch", "bit_ts", "burst_window", "max_skew", "meta"):
            self.check(field, lambda v: Generator(None, **{field: v}), "customEpoch")
        self.check("fallback", lambda v: Generator(None, fallback=v), "provider")
        self.check("retry_max_interval", lambda v: Generator(None, retry_max_interval=v), "retry_interval")
        ids = Generator(None)
        self.check("timeout", lambda v: _sent(lambda: ids.next_ids(1, v)))
        self.check("count", lambda v: ids.next_ids(v) if not isinstance(v, int) or v < 1000 else None)

    def test_public_ids(self) -> None:
        self.check("keys", publicids.Converter)
        self.check("keys", lambda v: publicids.Converter([v]))
        self.check("secret", lambda v: publicids.Converter([publicids.Key(secret=v)]))
        self.check("entity", lambda v: publicids.Converter([publicids.Key(secret=SECRET)], entity=v))


if __name__ == "__main__":
    unittest.main()
