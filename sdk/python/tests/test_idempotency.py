"""The middleware for requests with Idempotency-Key: what the conformance scripts do not say, and real servers of HTTP that are killed. These need LEASEHOLD_BIN."""

from __future__ import annotations

import asyncio
import http.client
import io
import json
import os
import signal
import tempfile
import threading
import time
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

import leasehold
from leasehold.idempotency import Middleware, Request, nothing_done, run_id, store_success
from leasehold.once import RunLock, current

from test_once import Memory
from test_server import Child, LONG, WithServer
from virtual import VirtualClock

Got = tuple[int, dict[str, str], bytes]


def asked(m: Middleware, app: Any, body: bytes = b"{}", **environ: Any) -> Got:
    """One request by WSGI."""
    head: list[Any] = []
    made: dict[str, Any] = {
        "REQUEST_METHOD": "POST", "PATH_INFO": "/payments", "QUERY_STRING": "", "HTTP_HOST": "pay.example", "CONTENT_LENGTH": str(len(body)),
        "CONTENT_TYPE": "application/json", "wsgi.input": io.BytesIO(body), "HTTP_IDEMPOTENCY_KEY": "k", **environ,
    }
    made = {k: v for k, v in made.items() if v is not None}

    def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> None:
        head[:] = [int(status.split()[0]), {name.lower(): value for name, value in headers}]

    content = b"".join(m.wsgi(app)(made, start_response))
    return head[0], head[1], content


class Counted:
    """An application that counts its runs."""

    def __init__(self, status: str = "201 Created", body: bytes = b"paid") -> None:
        self.status, self.body, self.runs, self.read = status, body, 0, list[bytes]()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        self.runs += 1
        self.read.append(environ["wsgi.input"].read())
        start_response(self.status, [("Content-Type", "text/plain")])
        return [self.body]


class Rules(unittest.TestCase):
    def setUp(self) -> None:
        self.gate = Memory(VirtualClock())  # no request waits for it
        self.told: list[BaseException] = []

    def made(self, **settings: Any) -> Middleware:
        given: dict[str, Any] = {"name": "payments", "warn": self.told.append, **settings}
        return Middleware(self.gate, given.pop("scope", lambda r: "ann"), **given)

    def code(self, got: Got) -> tuple[int, str]:
        return got[0], json.loads(got[2])["code"]

    def test_what_is_compared(self) -> None:
        """Each line is a request, what is set, and another request that is the same, or is not."""
        form = {"CONTENT_TYPE": "application/x-www-form-urlencoded"}
        parts = b'--b\r\nContent-Disposition: form-data; name="%s"\r\n\r\n1\r\n'
        upload = b'--%s\r\nContent-Disposition: form-data; name="f"; filename="a"\r\n\r\n%s\r\n--%s--\r\n'
        of = {"CONTENT_TYPE": "multipart/form-data; boundary=b"}
        cases: list[tuple[str, dict[str, Any], bytes, dict[str, Any], bytes, dict[str, Any], bool]] = [
            ("body", {}, b"1", {}, b"2", {}, False),
            ("query", {}, b"1", {}, b"1", {"QUERY_STRING": "dry=1"}, False),
            ("path", {}, b"1", {}, b"1", {"PATH_INFO": "/other"}, False),
            ("an escaped path", {}, b"1", {"REQUEST_URI": "/a%2Fb?x", "PATH_INFO": "/a/b"}, b"1", {"REQUEST_URI": "/a/b?x", "PATH_INFO": "/a/b"}, False),
            ("method", {}, b"1", {}, b"1", {"REQUEST_METHOD": "PATCH"}, False),
            ("host", {}, b"1", {}, b"1", {"HTTP_HOST": "other.example"}, False),
            ("default port", {}, b"1", {}, b"1", {"HTTP_HOST": "PAY.example:443"}, True),
            ("another port", {}, b"1", {}, b"1", {"HTTP_HOST": "pay.example:8443"}, False),
            ("ignored host", {"ignore_host": True}, b"1", {}, b"1", {"HTTP_HOST": "other.example"}, True),
            ("another field", {}, b"1", {}, b"1", {"HTTP_X_DRY": "1"}, True),
            ("a field that counts", {"headers": ["x-dry"]}, b"1", {}, b"1", {"HTTP_X_DRY": "1"}, False),
            ("payload", {"payload": lambda r: r.body[:1]}, b"1a", {}, b"1b", {}, True),
            ("order of fields", {}, b"a=1&b=2", form, b"b=2&a=%31", form, True),
            ("order of values", {}, b"a=1&a=2", form, b"a=2&a=1", form, False),
            ("no form", {}, b"a=%", form, b"a=%25", form, False),
            ("order of parts", {}, parts % b"x" + parts % b"y" + b"--b--", of, parts % b"y" + parts % b"x" + b"--b--", of, True),
            ("another file", {}, upload % (b"b", b"1", b"b"), of, upload % (b"b", b"2", b"b"), of, False),
            ("another boundary", {}, upload % (b"b", b"1", b"b"), of, upload % (b"cc", b"1", b"cc"), {"CONTENT_TYPE": "multipart/form-data; boundary=cc"}, True),
            ("a form that is cut off", {}, parts % b"x", of, parts % b"y", of, False),
        ]
        for name, settings, body, first, other, second, same in cases:
            with self.subTest(name):
                self.gate = Memory(VirtualClock())
                m, app = self.made(**settings), Counted()
                self.assertEqual(asked(m, app, body, **first)[0], 201)
                again = asked(m, app, body, **first)
                self.assertEqual((again[0], again[1]["idempotency-replayed"], again[2]), (201, "true", b"paid"))
                got = asked(m, app, other, **second)
                self.assertEqual((got[0], app.runs), (201 if same else 422, 1), got)

    def test_a_program_with_other_fields_refuses_no_retry(self) -> None:
        app = Counted()
        self.assertEqual(asked(self.made(headers=["X-A"]), app, HTTP_X_A="1")[0], 201)
        self.assertEqual(asked(self.made(headers=["X-B"]), app, HTTP_X_B="1")[0], 201)
        self.assertEqual((asked(self.made(headers=["X-A"]), app, HTTP_X_A="2")[0], app.runs), (422, 1))

    def test_whose_key_it_is(self) -> None:
        m, app = self.made(scope=lambda r: r.header("X-Account")), Counted()
        for account in ("ann", "bob", "ann"):
            self.assertEqual(asked(m, app, HTTP_X_ACCOUNT=account)[0], 201)
        self.assertEqual(app.runs, 2)
        self.assertEqual(set(self.gate.runs), {run_id("payments", "ann", "k"), run_id("payments", "bob", "k")})
        self.assertEqual(self.code(asked(m, app)), (500, "IDEMPOTENCY_SCOPE_EMPTY"))

    def test_bodies(self) -> None:
        """The application reads it whole; one of unknown length only where the server says where it ends."""
        m, app = self.made(max_body=10), Counted()
        self.assertEqual(asked(m, app, b"0123456789")[0], 201)
        self.assertEqual(app.read, [b"0123456789"])
        self.assertEqual(self.code(asked(m, app, b"0123456789a")), (413, "PAYLOAD_TOO_LARGE"))
        self.assertEqual(self.code(asked(m, app, b"0", CONTENT_LENGTH="2")), (400, "BODY_INCOMPLETE"))
        chunked = {"CONTENT_LENGTH": None, "wsgi.input_terminated": True, "HTTP_IDEMPOTENCY_KEY": "chunked"}
        self.assertEqual(asked(m, app, b"01234", **chunked)[0], 201)
        self.assertEqual(app.read[-1], b"01234")
        self.assertEqual(self.code(asked(m, app, b"0123456789a", **chunked)), (413, "PAYLOAD_TOO_LARGE"))

    def test_responses_that_are_large(self) -> None:
        """A response is stored whole if its record has 256 KiB at most, else its status."""
        line = len('{"v":1,"status":201,"header":"Content-Type=text%2Fplain","body":"text","bytes":262000}\n')
        for i, (size, whole) in enumerate(((262144 - line, True), (262144 - line + 1, False), (2621440, False))):
            with self.subTest(size):
                app = Counted(body=b"x" * size)
                first, second = (asked(self.made(), app, HTTP_IDEMPOTENCY_KEY=f"k{i}") for _ in range(2))
                self.assertEqual((first[0], first[2], app.runs), (201, b"x" * size, 1))
                self.assertEqual(len(self.told), 0 if whole else i)
                if whole:
                    self.assertEqual((second[0], second[2]), (201, b"x" * size))
                else:
                    self.assertEqual(self.code(second), (409, "IDEMPOTENT_RESPONSE_NOT_STORED"))

    def test_a_middleware_behind_itself(self) -> None:
        m, app = self.made(), Counted()
        self.assertEqual(asked(m, m.wsgi(app))[0], 201)
        self.assertEqual((asked(m, m.wsgi(app))[1]["idempotency-replayed"], app.runs, len(self.told)), ("true", 1, 1))

    def test_two_middlewares(self) -> None:
        """One of another name behind it has keys of its own; what did nothing did so for both."""
        inner = Middleware(self.gate, lambda r: "ann", name="inner", warn=self.told.append)

        def app(environ: Any, start_response: Any) -> list[bytes]:
            nothing_done()
            return list(Counted("500 No")(environ, start_response))

        m = self.made()
        for _ in range(2):
            self.assertEqual(asked(m, inner.wsgi(app))[0], 500)
        self.assertEqual([r.status for r in self.gate.runs.values()], ["", ""])

    def test_what_the_application_knows(self) -> None:
        locks: list[RunLock] = []

        def app(environ: Any, start_response: Any) -> list[bytes]:
            locks.append(current())
            return Counted()(environ, start_response)

        asked(self.made(), app)
        self.assertEqual(locks[0].token, 1)
        with self.assertRaises(LookupError):
            current()
        nothing_done()  # of no request, says nothing

    def test_forms_of_applications(self) -> None:
        """Those that write, that yield, that respond twice, that fail while they yield."""
        def writes(environ: Any, start_response: Any) -> list[bytes]:
            write = start_response("201 Created", [])
            write(b"pa")
            return [b"id"]

        def yields(environ: Any, start_response: Any) -> Any:
            start_response("201 Created", [])
            yield b"pa"
            yield b"id"

        def twice(environ: Any, start_response: Any) -> list[bytes]:
            start_response("500 No", [])
            start_response("201 Created", [], (None, None, None))
            return [b"paid"]

        closed: list[bool] = []

        class Closes:
            def __init__(self, environ: Any, start_response: Any) -> None:
                start_response("201 Created", [])

            def __iter__(self) -> Any:
                return iter((b"paid",))

            def close(self) -> None:
                closed.append(True)

        def fails(environ: Any, start_response: Any) -> Any:
            start_response("201 Created", [])
            yield b"pa"
            raise OSError("no ink")

        apps: list[Callable[..., Any]] = [writes, yields, twice, Closes]
        for app in apps:
            self.gate = Memory(VirtualClock())
            for _ in range(2):
                self.assertEqual(asked(self.made(), app)[::2], (201, b"paid"), app)
        self.assertEqual(closed, [True])
        self.gate = Memory(VirtualClock())
        with self.assertRaises(OSError):
            asked(self.made(), fails)
        self.assertEqual(self.code(asked(self.made(), fails)), (500, "IDEMPOTENT_REQUEST_FAILED"))

    def test_an_interrupt_frees_the_key(self) -> None:
        def app(environ: Any, start_response: Any) -> Any:
            raise SystemExit(7)

        m = self.made()
        with self.assertRaises(SystemExit):
            asked(m, app)
        self.assertTrue(leasehold.once._background.wait(LONG))
        self.assertEqual((asked(m, Counted())[0], leasehold.once._flights.of), (201, {}))

    def test_a_policy_that_fails_holds_no_one(self) -> None:
        def store(status: int, headers: Any) -> bool:
            raise KeyError("a mistake")

        m = self.made(store=store)
        with self.assertRaises(KeyError):
            asked(m, Counted())
        self.assertTrue(leasehold.once._background.wait(LONG))
        self.assertEqual((self.gate.runs[run_id("payments", "ann", "k")].holder, leasehold.once._flights.of), (0, {}))

    def test_settings_that_cannot_work(self) -> None:
        for name, value in (
            ("headers", ["Host"]), ("headers", ["a b"]), ("scope", "ann"), ("store", 1), ("ttl", 0.5), ("wait", -1), ("payload", "x"), ("warn", 1),
        ):
            with self.subTest(name, value=value), self.assertRaises(leasehold.InvalidSettingError) as err:
                self.made(**{name: value})
            self.assertEqual(err.exception.field, name)
        with self.assertRaises(leasehold.InvalidSettingError):
            Middleware(self.gate, lambda r: "ann", name="")

    def test_what_is_kept_of_a_response(self) -> None:
        """Fields that are there twice, of any bytes; those that are named; no others."""
        def app(environ: Any, start_response: Any) -> list[bytes]:
            start_response("299 Odd", [("Link", "<a>"), ("link", "<b\xe9>"), ("Set-Cookie", "secret"), ("X-Id", "1 & 2")])
            return [b"\xff"]

        m = self.made(replay=["x-id"])
        asked(m, app)
        status, headers, body = asked(m, app)
        self.assertEqual((status, headers["link"], headers["x-id"], "set-cookie" in headers, body), (299, "<b\xe9>", "1 & 2", False, b"\xff"))

    def test_a_storm_in_one_process(self) -> None:
        """Threads that ask at once share what comes of one of them."""
        m, begun, go = self.made(store=store_success), threading.Event(), threading.Event()
        app = Counted()

        def slow(environ: Any, start_response: Any) -> Any:
            begun.set()
            go.wait(LONG)
            return app(environ, start_response)

        got: list[Got] = []
        threads = [threading.Thread(target=lambda: got.append(asked(m, slow))) for _ in range(20)]
        for t in threads:
            t.start()
        begun.wait(LONG)
        go.set()
        for t in threads:
            t.join(LONG)
        self.assertEqual((app.runs, [g[::2] for g in got]), (1, [(201, b"paid")] * 20))
        self.assertEqual((len(self.gate.sent("acquire")), len(self.gate.sent("finish")), leasehold.once._flights.of), (1, 1, {}))


class Async(unittest.TestCase):
    def setUp(self) -> None:
        self.gate = Memory(VirtualClock())
        self.m = Middleware(self.gate, lambda r: r.header("x-account") or "ann", name="payments", warn=lambda err: None)
        self.runs = 0

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        self.runs += 1
        body = (await receive())["body"]
        await send({"type": "http.response.start", "status": 201, "headers": [(b"content-type", b"text/plain")]})
        await send({"type": "http.response.body", "body": b"paid ", "more_body": True})
        await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": body})

    async def ask(self, *messages: dict[str, Any], app: Any = None, **scope: Any) -> list[dict[str, Any]]:
        sent: list[dict[str, Any]] = []
        left = list(messages or ({"type": "http.request", "body": b"10"},))

        async def receive() -> dict[str, Any]:
            return left.pop(0) if left else {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        made = {"type": "http", "method": "POST", "path": "/payments", "query_string": b"", "headers": [(b"host", b"pay"), (b"idempotency-key", b"k")], **scope}
        await self.m.asgi(app or self.app)(made, receive, send)
        return sent

    def test_bodies_in_pieces(self) -> None:
        async def main() -> None:
            pieces: list[dict[str, Any]] = [{"type": "http.request", "body": b"1", "more_body": True}, {"type": "http.request", "body": b"0"}]
            first = await self.ask(*pieces)
            again = await self.ask()
            self.assertEqual([m["body"] for m in (first[1], again[1])], [b"paid 10", b"paid 10"])
            self.assertIn((b"idempotency-replayed", b"true"), again[0]["headers"])
            self.assertIn((b"content-length", b"7"), again[0]["headers"])
            self.assertEqual(await self.ask({"type": "http.request", "body": b"1", "more_body": True}, {"type": "http.disconnect"}), [])
            self.assertEqual((await self.ask({"type": "http.request", "body": b"x" * (1 << 20) + b"y"}))[0]["status"], 413)

        asyncio.run(main())
        self.assertEqual(self.runs, 1)

    def test_what_is_none_of_its_business(self) -> None:
        async def main() -> None:
            scopes: tuple[dict[str, Any], ...] = ({"type": "lifespan", "method": "POST"}, {"type": "websocket"}, {"method": "GET"}, {"headers": []})
            for scope in scopes:
                await self.ask(**scope)

        asyncio.run(main())
        self.assertEqual((self.runs, self.gate.asked), (4, []))

    def test_a_caller_that_leaves_does_not_stop_the_application(self) -> None:
        async def main() -> None:
            begun, go = asyncio.Event(), asyncio.Event()

            async def slow(scope: Any, receive: Any, send: Any) -> None:
                self.assertFalse(begun.is_set(), "it begins once more")
                begun.set()
                await go.wait()
                await self.app(scope, receive, send)

            first = asyncio.ensure_future(self.ask(app=slow))
            await begun.wait()
            second = asyncio.ensure_future(self.ask(app=slow))
            first.cancel()
            await asyncio.wait([first])
            self.assertTrue(first.cancelled())
            go.set()
            self.assertEqual((await second)[1]["body"], b"paid 10")

        asyncio.run(main())
        self.assertEqual((self.runs, leasehold.once._flights.of), (1, {}))

    def test_a_storm(self) -> None:
        async def main() -> None:
            got = await asyncio.gather(*(self.ask() for _ in range(100)))
            self.assertEqual({sent[1]["body"] for sent in got}, {b"paid 10"})

        asyncio.run(main())
        self.assertEqual(self.runs, 1)


PAYMENTS = """
    import os, socketserver, sys, time
    from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

    import leasehold
    from leasehold.idempotency import Middleware
    from leasehold.once import current

    url, ledger, hold = sys.argv[1:4]
    payments = Middleware(leasehold.Client(url).runs("shop"), lambda r: "ann", name="payments", ttl=2)

    def pay(environ, start_response):
        print("begun", current().token, flush=True)
        while os.path.exists(hold):
            time.sleep(0.01)
        with open(ledger, "ab", buffering=0) as file:
            file.write(environ["HTTP_IDEMPOTENCY_KEY"].encode() + b"\\n")
        start_response("201 Created", [("Content-Type", "text/plain")])
        return [f"paid {os.getpid()}".encode()]

    class Server(socketserver.ThreadingMixIn, WSGIServer):
        daemon_threads, request_queue_size = True, 128

    class Handler(WSGIRequestHandler):
        def log_message(self, *_): pass

    server = Server(("127.0.0.1", 0), Handler)
    server.set_app(payments.wsgi(pay))
    print("port", server.server_port, flush=True)
    server.serve_forever()
"""


class Killed(WithServer):
    def serve(self, ledger: Path, hold: Path) -> tuple[Child, int]:
        child = Child(PAYMENTS, self.server.url, str(ledger), str(hold))
        self.addCleanup(child.process.wait)
        self.addCleanup(child.process.kill)
        return child, int(child.until("port")[-1].split()[1])

    def send(self, ports: list[int], key: str, got: list[tuple[int, bytes]]) -> None:
        """Send a request again and again, to one server and the other, until it has a response that is none of the middleware's own."""
        end, turn = time.monotonic() + LONG, 0
        while time.monotonic() < end:
            connection = http.client.HTTPConnection("127.0.0.1", ports[turn % len(ports)], timeout=LONG)
            turn += 1
            try:
                connection.request("POST", "/", b'{"amount": 10}', {"Host": "pay.example", "Idempotency-Key": key})
                response = connection.getresponse()
                body = response.read()
                if response.status < 300:
                    got.append((response.status, body))
                    return
            except (OSError, http.client.HTTPException):
                pass
            finally:
                connection.close()
            time.sleep(0.05)

    def test_killed_in_the_middle_of_a_storm(self) -> None:
        """A server that dies before its effect: retries at another one make one payment, whose response all get."""
        with tempfile.TemporaryDirectory() as folder:
            ledger, hold = Path(folder, "ledger"), Path(folder, "hold")
            hold.touch()
            first, port = self.serve(ledger, hold)
            got: list[tuple[int, bytes]] = []
            early = threading.Thread(target=self.send, args=([port], "k", []), daemon=True)
            early.start()
            first.until("begun")
            second, other = self.serve(ledger, hold)
            storm = [threading.Thread(target=self.send, args=([port, other] if i % 2 else [other, port], "k", got)) for i in range(30)]
            for t in storm:
                t.start()
            time.sleep(0.2)
            first.process.send_signal(signal.SIGKILL)
            hold.unlink()
            for t in storm:
                t.join(LONG)
            self.assertEqual((ledger.read_bytes(), set(got)), (b"k\n", {(201, f"paid {second.process.pid}".encode())}))
            self.assertEqual(len(got), 30)


class RequestTest(unittest.TestCase):
    def test_header(self) -> None:
        r = Request("POST", "/", "", "h", [("x-a", "1"), ("x-a", "2")])
        self.assertEqual((r.header("X-A"), r.header("x-b")), ("1", ""))


del WithServer  # it is no test of this file

if __name__ == "__main__":
    unittest.main()
