"""Transports of the program, tokens of files, and that one fault gives one class of error whatever was asked for."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import http.server
import os
import socket
import socketserver
import ssl
import tempfile
import threading
import time
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import leasehold
from leasehold import _transport, client as client_module, codes
from leasehold.machineids import ConfigurationError
from leasehold.once import run, run_async

from test_client import Wire, http as answer
from test_engine import Server


class Wrapped:
    """Adds a header to each request, and counts them."""

    def __init__(self, inner: leasehold.Transport) -> None:
        self.inner, self.urls, self.deadlines = inner, list[str](), list[float]()

    def send(self, request: leasehold.Request, deadline: float) -> leasehold.Response:
        self.urls.append(request.url)
        self.deadlines.append(deadline - time.monotonic())
        return self.inner.send(dataclasses.replace(request, headers={**request.headers, "X-Trace": "t"}), deadline)


class Transports(unittest.TestCase):
    def test_a_wrapped_one(self) -> None:
        w = Wire(*[answer(b"{}")] * 8, keep=True)
        self.addCleanup(w.close)
        wrapped = Wrapped(leasehold.HTTPTransport())
        client = leasehold.Client(w.url, transport=wrapped, token="secret")
        with self.assertRaises(leasehold.InvalidResponseError):
            client.lock_api().get("k")
        with self.assertRaises(leasehold.InvalidResponseError):
            asyncio.run(client.locks().get_async("k"))
        self.assertTrue(all(b"X-Trace: t" in s and b"Authorization: Bearer secret" in s for s in w.sent))
        self.assertEqual(wrapped.urls[0], w.url + "/v1/tenants/default/locks/k")
        self.assertTrue(all(0 < d <= 5 for d in wrapped.deadlines), wrapped.deadlines)

    def test_a_response_that_trickles_ends_with_its_request(self) -> None:
        """A byte comes again and again, for ever: no single read takes long, and the request ends all the same."""
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)

        def trickle() -> None:
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError):
                connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
                while True:
                    connection.sendall(b"a")
                    time.sleep(0.02)

        threading.Thread(target=trickle, daemon=True).start()
        request = leasehold.Request("GET", f"http://127.0.0.1:{listener.getsockname()[1]}/", {})
        with self.assertRaises(leasehold.NoResponseError):
            leasehold.HTTPTransport().send(request, time.monotonic() + 0.3)

    def test_tls_that_cannot_work_is_not_tried_again(self) -> None:
        untrusted = ssl.SSLCertVerificationError(1, "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed")
        untrusted.verify_code = 20  # as the standard library sets it
        for err, retry in (
            (untrusted, False),
            (ConnectionRefusedError(111, "Connection refused"), True),
        ):
            with self.subTest(err):
                self.assertEqual(_transport._unconnected(err).retry, retry)

    def test_over_a_unix_socket(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, "s")

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                pass

            def do_POST(self) -> None:
                r = judge.respond(self.path, self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response_only(r.status)
                self.send_header("Content-Type", r.media_type)
                self.send_header("Content-Length", str(len(r.content)))
                self.end_headers()
                self.wfile.write(r.content)

        class Unix(leasehold.HTTPTransport):
            def connect(self, host: str, port: int, seconds: float) -> socket.socket:
                sock = socket.socket(socket.AF_UNIX)
                sock.settimeout(seconds)
                sock.connect(path)
                return sock

        judge = Server()
        with socketserver.ThreadingUnixStreamServer(path, Handler) as server:
            server.daemon_threads = True
            threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
            with leasehold.Client("http://localhost", transport=Unix()).locks(owner="me").hold("k") as lock:
                lock.check()
            server.shutdown()
        self.assertEqual((judge.sent("acquire"), judge.sent("release")), (1, 1))

    def test_an_error_of_the_system(self) -> None:
        class Broken:
            def send(self, request: leasehold.Request, deadline: float) -> leasehold.Response:
                raise ConnectionResetError("reset")

        with self.assertRaises(leasehold.NoResponseError):
            leasehold.Client("http://127.0.0.1:1", transport=Broken(), tries=1).lock_api().get("k")

    def test_settings_that_cannot_work(self) -> None:
        for field, settings in (
            ("transport", {"transport": object()}), ("transport", {"transport": leasehold.HTTPTransport(), "cafile": "x"}),
            ("token_file", {"token": "a", "token_file": "b"}), ("token_file", {"token_file": "/no/such/file"}), ("token_file", {"token_file": 7}),
            ("token", {"token": 7}), ("token", {"token": "two words"}), ("token", {"token": ""}), ("cafile", {"cafile": "/no/such/file"}),
        ):
            with self.subTest(field, **settings), self.assertRaises(leasehold.InvalidSettingError) as err:  # type: ignore[arg-type]
                leasehold.Client("http://127.0.0.1:1", **settings)  # type: ignore[arg-type]
            self.assertEqual(err.exception.field, field)


class Tokens(unittest.TestCase):
    """A server whose tokens live for 8 s, in a file that is replaced every 4, by a clock of the test."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = Path(folder.name) / "token"
        self.now, self.asked = 0.0, list[tuple[str, int]]()
        self.server, self.revoked = Server(), set[str]()

    def write(self, text: str) -> None:
        other = self.file.with_suffix(".new")
        other.write_text(text)
        os.replace(other, self.file)

    def send(self, request: leasehold.Request, deadline: float) -> leasehold.Response:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        made = float(token.removeprefix("t"))
        ok = made <= self.now < made + 8 and token not in self.revoked
        self.asked.append((token, 200 if ok else 401))
        if ok:
            return self.server.respond(request.url, request.body)
        headers = leasehold.Headers()
        headers["Content-Type"] = "application/problem+json"
        return leasehold.Response(401, "", headers, b'{"code": "UNAUTHENTICATED"}')

    def test_a_file(self) -> None:
        self.write("t0\n")
        locks = leasehold.Client("https://127.0.0.1:1", token_file=self.file, transport=self).locks(owner="me", retry_for=0.0)

        def use() -> None:
            with locks.hold("k", wait=0) as lock:
                lock.check()

        for step in range(12):
            self.now = step * 2.0
            if step % 2 == 0:
                self.write(f"t{step * 2}\n")
            if step == 5:
                for half in ("", "t8 and", "two words\n"):  # half written, for a moment
                    self.file.write_text(half)
                    use()
                self.file.unlink()
                use()
                self.write("t8\n")
            use()
        self.assertEqual({status for _, status in self.asked}, {200})
        self.assertEqual(len({token for token, _ in self.asked}), 6)

    def test_after_a_401_it_is_read_again(self) -> None:
        """Although it seems not to have changed; and the request is sent once more with what it says then."""
        self.write("t0")
        locks = leasehold.Client("https://127.0.0.1:1", token_file=self.file, transport=self).locks(owner="me", retry_for=0.0)
        with locks.hold("k", wait=0):
            self.revoked.add("t0")
            s = os.stat(self.file)
            self.now = 1.0
            self.file.write_text("t1")  # of the same length
            os.utime(self.file, ns=(s.st_atime_ns, s.st_mtime_ns))
        self.assertEqual(self.asked, [("t0", 200), ("t0", 401), ("t1", 200)])
        self.revoked.add("t1")
        with self.assertRaises(codes.UnauthenticatedError):
            locks.hold("k", wait=0).acquire()
        self.assertEqual(self.asked[3:], [("t1", 401)])  # there is no other

    @unittest.skipUnless(hasattr(os, "mkfifo"), "this system has no pipes with names")
    def test_what_became_a_pipe_is_not_waited_for(self) -> None:
        self.write("t0")
        locks = leasehold.Client("https://127.0.0.1:1", token_file=self.file, transport=self).locks(owner="me", retry_for=0.0)
        self.file.unlink()
        os.mkfifo(self.file)
        with locks.hold("k", wait=0):
            pass
        self.assertEqual({token for token, _ in self.asked}, {"t0"})

    def test_a_function_is_called_again(self) -> None:
        tokens = iter(["t0", "t1"])
        self.revoked.add("t0")
        self.now = 1.0
        locks = leasehold.Client("https://127.0.0.1:1", token=lambda: next(tokens), transport=self).locks(owner="me", retry_for=0.0)
        lock = locks.hold("k", wait=0).acquire()
        self.assertEqual(self.asked, [("t0", 401), ("t1", 200)])
        lock._keeper._renewing.set()


class Classes(unittest.TestCase):
    """One fault is one class, for locks, runs, machine IDs and single requests."""

    def ways(self, client: leasehold.Client) -> dict[str, Callable[[], Any]]:
        locks = client.locks(owner="me", retry_for=0.0)
        return {
            "a lock": lambda: locks.hold("k", wait=0).acquire(),
            "a lock of a task": lambda: asyncio.run(locks.hold("k", wait=0).acquire_async()),
            "a run": lambda: run(client.runs(), "k", lambda lock: ""),
            "a run of a task": lambda: asyncio.run(run_async(client.runs(), "k", nothing)),
            "machine IDs": lambda: client.machine_ids().acquire(),
            "a request": lambda: client.lock_api().get("k"),
            "a command": lambda: client.lock_api().acquire("k", {"owner_id": "me", "request_id": "r", "ttl_seconds": 30}),
        }

    def check(self, send: Callable[[leasehold.Request, float], leasehold.Response], want: type[BaseException]) -> None:
        class Faulty:
            def send(self, request: leasehold.Request, deadline: float) -> leasehold.Response:
                return send(request, deadline)

        with mock.patch("leasehold._time.Backoff.delay", lambda self, retry: 0.0), mock.patch.object(client_module, "CALL_TIME", 0.5), \
                mock.patch("leasehold.once.CALL_TIME", 0.5):
            for way, call in self.ways(leasehold.Client("http://127.0.0.1:1", transport=Faulty(), tries=1)).items():
                with self.subTest(way):
                    try:
                        call()
                    except leasehold.LeaseholdError as got:
                        err: BaseException | None = got
                    else:
                        self.fail("there was no error")
                    if isinstance(err, leasehold.UnknownOutcomeError):  # of a command, which may have been carried out
                        self.assertEqual(way, "a command")
                        err = err.__cause__
                    if isinstance(err, ConfigurationError) and not isinstance(err, want):
                        err = err.__cause__
                    self.assertIsInstance(err, want)

    def response(self, status: int, kind: str, content: bytes) -> Callable[[leasehold.Request, float], leasehold.Response]:
        headers = leasehold.Headers()
        headers["Content-Type"] = kind
        return lambda request, deadline: leasehold.Response(status, "", headers, content)

    def test_no_response(self) -> None:
        def hangs(request: leasehold.Request, deadline: float) -> leasehold.Response:
            raise TimeoutError("timed out")

        def refuses(request: leasehold.Request, deadline: float) -> leasehold.Response:
            raise leasehold.NoResponseError("refused", sent=False) from ConnectionRefusedError()

        self.check(hangs, leasehold.NoResponseError)
        self.check(refuses, leasehold.NoResponseError)

    def test_the_page_of_a_proxy(self) -> None:
        self.check(self.response(404, "text/html", b"<html>"), leasehold.InvalidResponseError)
        self.check(self.response(302, "text/html", b"<html>"), leasehold.InvalidResponseError)

    def test_other_content(self) -> None:
        self.check(self.response(200, "application/json", b"[]"), leasehold.InvalidResponseError)
        self.check(self.response(200, "text/plain", b"OK"), leasehold.InvalidResponseError)

    def test_a_rejection(self) -> None:
        self.check(self.response(401, "application/problem+json", b'{"code": "UNAUTHENTICATED"}'), codes.UnauthenticatedError)
        self.check(self.response(403, "application/problem+json", b'{"code": "PERMISSION_DENIED"}'), codes.PermissionDeniedError)


async def nothing(lock: object) -> str:
    return ""


if __name__ == "__main__":
    unittest.main()
