"""The table of outages: the gate is away for a while at each step of a payment that takes five seconds. No process dies. Time is that of a clock that the tests move."""

from __future__ import annotations

import asyncio
import io
import unittest
from collections.abc import Callable
from typing import Any, Protocol

import leasehold
from leasehold.idempotency import Middleware
from leasehold.once import RunNotStoredError, once

from test_locks import Program
from test_once import Memory
from virtual import VirtualClock

STEPS = {"claim": 0.0, "renew": 2.0, "finish": 5.0}
TAKES = 5.0  # seconds that a payment takes
WINDOW = 5.0
"""How long a retry must come after the gate is back, if connections were refused: the longest pause between two tries to store the end of a run."""


class Gate(Memory):
    """A gate that may be away."""

    away = False

    def _begin(self, what: str, detail: Any) -> None:
        super()._begin(what, detail)
        if self.away:
            raise leasehold.NoResponseError("connection refused", sent=False)


class Client:
    """What a process has of the gate: calls of two processes share nothing."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def __getattr__(self, name: str) -> Any:
        return getattr(self._gate, name)


class Shop(Protocol):
    """A program that takes payments."""

    def ask(self) -> str:
        """Try once to make the payment, and say which one it was, or why there is none now."""

    def close(self) -> None: ...


class Outage:
    """One cell of the table: here pays, and other is asked so many seconds after the gate is back."""

    def __init__(self, kind: Callable[[Outage, float], Shop], ttl: float, step: str, seconds: float, after: float) -> None:
        self.clock = VirtualClock()
        self.gate = Gate(self.clock)
        self.payments = 0
        here, other = kind(self, ttl), kind(self, ttl)
        begins, programs = STEPS[step], [] if step == "claim" else [Program(here.ask)]
        self.clock.run(max(0.0, begins - 0.001))
        self.gate.away = True
        if step == "claim":
            programs.append(Program(here.ask))
        for _ in range(10):
            self.clock.run(seconds / 10)
            if kind is not Function:  # one that is asked again in its own process shares what comes of it, also while it is not stored
                programs.append(Program(here.ask))
        self.clock.settle()
        self.gate.away = False
        self.clock.run(after)
        programs.append(Program(other.ask))
        self.clock.run(30)
        self.paid = sorted({str(p.error or p.value) for p in programs if p.error or p.value.startswith("payment")})
        later = [Program(here.ask), Program(other.ask)]
        self.clock.run(5)
        self.later = {p.value for p in later}
        for shop in (here, other):
            shop.close()

    def begin(self) -> str:
        self.payments += 1
        return f"payment {self.payments}"

    def pay(self) -> str:
        made = self.begin()
        self.clock.wait(TAKES)
        return made


class Function:
    """A function that once decorates."""

    shared = False

    def __init__(self, of: Outage, ttl: float) -> None:
        self.pay: Callable[[], str] = once(Client(of.gate), key="k", ttl=ttl, wait=10, shared=self.shared, clock=of.clock)(lambda: of.pay())

    def ask(self) -> str:
        try:
            return self.pay()
        except RunNotStoredError as err:
            return str(err.value)
        except leasehold.LeaseholdError as err:
            return type(err).__name__

    def close(self) -> None:
        pass


class Shared(Function):
    """One whose calls are shared in their process."""

    shared = True


class Requests:
    """A middleware."""

    def __init__(self, of: Outage, ttl: float) -> None:
        self.of = of
        self.m = Middleware(Client(of.gate), lambda r: "ann", name="payments", ttl=ttl, warn=lambda err: None, clock=of.clock)

    def close(self) -> None:
        self.m.close(0)


class Wsgi(Requests):
    def ask(self) -> str:
        def app(environ: Any, start_response: Any) -> list[bytes]:
            made = self.of.pay()
            start_response("201 Created", [])
            return [made.encode()]

        status: list[str] = []
        environ = {"REQUEST_METHOD": "POST", "PATH_INFO": "/", "HTTP_HOST": "pay", "CONTENT_LENGTH": "0", "wsgi.input": io.BytesIO(), "HTTP_IDEMPOTENCY_KEY": "k"}
        body = b"".join(self.m.wsgi(app)(environ, lambda line, headers: status.append(line)))
        return body.decode() if status[-1].startswith("201") else status[-1]


class Asgi(Requests):
    def ask(self) -> str:
        loop = self.of.clock.loop()
        try:
            return loop.run_until_complete(self.asked(loop))
        finally:
            loop.close()

    async def asked(self, loop: asyncio.AbstractEventLoop) -> str:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            made, over = self.of.begin(), loop.create_future()

            def paid() -> None:
                loop.call_soon_threadsafe(over.set_result, None)

            self.of.clock.bound(TAKES, paid)
            try:
                await asyncio.shield(over)
            except asyncio.CancelledError:  # the lock is lost: what was begun is brought to its end
                await over
            await send({"type": "http.response.start", "status": 201, "headers": []})
            await send({"type": "http.response.body", "body": made.encode()})

        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": b""}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": [(b"host", b"pay"), (b"idempotency-key", b"k")]}
        await self.m.asgi(app)(scope, receive, send)
        return str(sent[1]["body"].decode() if sent[0]["status"] == 201 else sent[0]["status"])


class Outages(unittest.TestCase):
    def each(self, kind: Callable[[Outage, float], Shop]) -> None:
        for ttl in (3.0, 30.0):
            for step, begins in STEPS.items():
                for seconds in (15.0, 40.0, 90.0, 300.0):
                    held = begins + seconds < ttl  # the lock is still that of the first one
                    for after, payments in ((WINDOW, 1), (0.0, 1 if held or step == "claim" else 2)):
                        with self.subTest(ttl=ttl, step=step, seconds=seconds, after=after):
                            got = Outage(kind, ttl, step, seconds, after)
                            last = f"payment {payments}"
                            self.assertEqual((got.payments, got.paid, got.later), (payments, sorted({"payment 1", last}), {last}))

    def test_functions(self) -> None:
        self.each(Function)

    def test_functions_whose_calls_are_shared(self) -> None:
        self.each(Shared)

    def test_wsgi(self) -> None:
        self.each(Wsgi)

    def test_asgi(self) -> None:
        self.each(Asgi)


if __name__ == "__main__":
    unittest.main()
