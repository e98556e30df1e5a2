"""A mistake in the settings names itself at once: a wrong address, the page of a proxy, TLS that does not fit, a token that is not valid any more."""

from __future__ import annotations

import asyncio
import socket
import unittest
from collections.abc import Callable
from typing import Any
from unittest import mock

import leasehold
import leasehold.once
from leasehold import codes, locks
from leasehold._http import Headers, Response
from leasehold.types import AcquireRequest

from test_client import Wire, http

EXPIRED = b'{"code": "UNAUTHENTICATED", "title": "no identity", "status": 401, "detail": "the token has expired"}'

def message(headers: dict[str, str]) -> Headers:
    m = Headers()
    for name, value in headers.items():
        m[name] = value
    return m


GIVEN_UP = b"HTTP/1.1 204 No Content\r\n\r\n"


class Mistakes(unittest.TestCase):
    """In each way to acquire. What a later request can cure is asked for again for retry_for, and told at once."""

    def ways(self, client: leasehold.Client) -> dict[str, Callable[[], Any]]:
        locks = client.locks(retry_for=0.0)
        return {
            "one request": lambda: client.lock_api().acquire("k", {"owner_id": "me", "request_id": "r", "ttl_seconds": 30}),
            "a thread": lambda: locks.hold("k").acquire(),
            "a task": lambda: asyncio.run(locks.hold("k").acquire_async()),
        }

    def each(self, url: Callable[[], str], kind: type[BaseException], *words: str, **settings: Any) -> None:
        for way in ("one request", "a thread", "a task"):
            with self.subTest(way), self.assertRaises(kind) as err:
                self.ways(leasehold.Client(url(), tries=1, **settings))[way]()
            for word in words:
                self.assertIn(word, str(err.exception))

    def wire(self, *answers: bytes) -> Wire:
        w = Wire(*answers, *[GIVEN_UP] * 9)
        self.addCleanup(w.close)
        return w

    def test_a_wrong_address(self) -> None:
        closed = socket.socket()
        self.addCleanup(closed.close)
        closed.bind(("127.0.0.1", 0))  # and does not listen
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        self.each(lambda: url, leasehold.NoResponseError, "no connection to " + url)

    def test_a_wrong_address_is_an_error_within_a_second(self) -> None:
        """A server that has never answered is asked three times, with pauses of 0.6 s at most. Nothing was sent, so nothing is given up. Where the caller
        says for how long to ask, and once it has answered, a server is away for a while."""
        closed = socket.socket()
        self.addCleanup(closed.close)
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"

        def tries(acquire: Callable[[leasehold.Client], Any], answered: bool = False) -> int:
            client = leasehold.Client(url)
            self.addCleanup(client.close)
            if answered:
                client._arrived(client._clock.now(), Response(404, "", message({"Content-Type": "application/problem+json"}), b""))
            with mock.patch.object(client, "_unanswered", wraps=client._unanswered) as failed:
                with self.assertRaises(leasehold.NoResponseError) as err:
                    acquire(client)
                self.assertIn("no connection to " + url, str(err.exception))
                return failed.call_count

        request: AcquireRequest = {"owner_id": "me", "request_id": "r", "ttl_seconds": 30}
        ways: dict[str, Callable[[leasehold.Client], Any]] = {
            "one request": lambda c: c.lock_api().acquire("k", request),
            "a thread": lambda c: c.locks().hold("k").acquire(),
            "a task": lambda c: asyncio.run(c.locks().hold("k").acquire_async()),
            "a run": lambda c: leasehold.once.run(c.runs(), "r", lambda run: None),
        }
        with mock.patch.object(locks.log, "warning"):
            for way, acquire in ways.items():
                with self.subTest(way):
                    self.assertEqual(tries(acquire), 3)
            async def at_once(client: leasehold.Client) -> None:
                held = [client.locks().hold("k" + str(n)).acquire_async() for n in range(5)]
                for err in await asyncio.gather(*held, return_exceptions=True):
                    self.assertIsInstance(err, leasehold.NoResponseError)
                raise err  # the last of them

            self.assertEqual(tries(lambda c: asyncio.run(at_once(c))), 15)
            self.assertGreater(tries(lambda c: c.locks(retry_for=1.0).hold("k").acquire()), 3)
            self.assertEqual(tries(ways["one request"], answered=True), 4)

    def test_another_server_is_named_within_a_second(self) -> None:
        page = http(b"<html>", "404 Not Found", "text/html")
        with mock.patch.object(locks.log, "warning"):
            ways: list[Callable[[leasehold.Client], Any]] = [
                lambda c: c.locks().hold("k").acquire(), lambda c: asyncio.run(c.locks().hold("k").acquire_async()),
                lambda c: leasehold.once.run(c.runs(), "r", lambda run: None),
            ]
            for acquire in ways:
                w = self.wire(page, page, page)
                with self.assertRaises(leasehold.InvalidResponseError) as err:
                    acquire(leasehold.Client(w.url))
                self.assertIn(w.url + " responded 404", str(err.exception))

    def test_a_name_that_is_none(self) -> None:
        self.each(lambda: "http://no-such-host.invalid", leasehold.NoResponseError, "no connection to http://no-such-host.invalid")

    def test_a_page_of_a_proxy(self) -> None:
        for status in ("200 OK", "403 Forbidden", "404 Not Found"):
            with self.subTest(status):
                self.each(
                    lambda: self.wire(http(b"<html>", status, "text/html")).url, leasehold.InvalidResponseError, status, "'text/html', which is not Leasehold")

    def test_an_expired_token(self) -> None:
        """It is not asked for again."""
        for retry_for in (0.0, 10.0):
            w = self.wire(http(EXPIRED, "401 Unauthorized", "application/problem+json"))
            with self.assertRaises(codes.UnauthenticatedError) as err:
                leasehold.Client(w.url, token="t").locks(retry_for=retry_for).hold("k").acquire()
            self.assertIn("the token has expired", str(err.exception))
            self.assertEqual(len(w.sent), 1)
        self.each(
            lambda: self.wire(http(EXPIRED, "401 Unauthorized", "application/problem+json")).url, codes.UnauthenticatedError, "the token has expired",
            token="t")

    def test_tls_to_a_server_without_it(self) -> None:
        """It is not asked for again, however long a server that is away would be."""
        w = self.wire()

        def serve(connection: socket.socket) -> None:
            with connection:
                connection.recv(9)
                connection.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")

        with mock.patch.object(w, "serve", serve):
            url = w.url.replace("http:", "https:")
            for retry_for in (0.0, 10.0):
                locks = leasehold.Client(url).locks(retry_for=retry_for)
                ways: list[Callable[[], Any]] = [
                    locks.hold("k").acquire, lambda locks=locks: asyncio.run(locks.hold("k").acquire_async())]  # type: ignore[misc]
                for acquire in ways:
                    before = w.connections
                    with self.assertRaises(leasehold.NoResponseError) as err:
                        acquire()
                    self.assertIn("its address begin with http://", str(err.exception))
                    self.assertEqual(w.connections, before + 1)

    def test_what_a_later_request_may_cure_is_told_at_once(self) -> None:
        """A server that is about to start, a proxy that does not know of it yet: before the second request there is a warning."""
        w = self.wire(http(b"<html>", "404 Not Found", "text/html"), http(EXPIRED, "401 Unauthorized", "application/problem+json"))
        with self.assertLogs("leasehold", "WARNING") as told, self.assertRaises(codes.UnauthenticatedError):
            leasehold.Client(w.url).locks().hold("k").acquire()
        self.assertEqual(len(told.output), 1)
        self.assertIn("which is not Leasehold", told.output[0])


if __name__ == "__main__":
    unittest.main()
