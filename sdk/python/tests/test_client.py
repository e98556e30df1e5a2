"""Responses as they come over a network: broken off, compressed, far too long, of another server. The other end is a socket that the test writes to."""

from __future__ import annotations

import contextlib
import gc
import gzip
import json
import select
import socket
import threading
import time
import unittest
import warnings
from typing import Any

import leasehold
from leasehold import codes
from leasehold._time import Signal
from leasehold.client import _retry_after
from leasehold.machineids import ConfigurationError
from leasehold.once import Ask

from virtual import STUCK

LEASE = json.dumps({
    "tenant_id": "acme", "lock_key": "k", "lease_id": "l", "owner_id": "me", "fencing_token": 7, "state": "ACTIVE", "acquired_at": "2030-01-01T00:00:00.000Z",
    "expires_at": "2030-01-01T00:00:30.000Z", "remaining_ms": 30000, "ttl_seconds": 30, "metadata": {}, "replayed": False,
}).encode()


def http(body: bytes, status: str = "200 OK", kind: str = "application/json", *headers: str, length: int | None = None) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body) if length is None else length}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


class Wire:
    """A server that answers each request with the next of some bytes, and then closes the connection, unless it is told to keep it."""

    def __init__(self, *answers: bytes, keep: bool = False) -> None:
        self.answers, self.keep, self.sent, self.connections = list(answers), keep, list[bytes](), 0
        self.open: list[socket.socket] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.run, daemon=True).start()

    def run(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            self.open.append(connection)
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):  # the client hung up
            while True:
                request = b""
                while b"\r\n\r\n" not in request:
                    more = connection.recv(65536)
                    if not more:
                        return
                    request += more
                head, _, body = request.partition(b"\r\n\r\n")
                size = next((int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")), 0)
                while len(body) < size:
                    body += connection.recv(65536)
                self.sent.append(head + b"\r\n\r\n" + body)
                connection.sendall(self.answers.pop(0))
                if not self.keep:
                    return

    def body(self, i: int) -> dict[str, Any]:
        """What the client sent with a request; they count from 0."""
        got: dict[str, Any] = json.loads(self.sent[i].split(b"\r\n\r\n")[1])
        return got

    def close(self) -> None:
        self.listener.close()


class OverTheWire(unittest.TestCase):
    def wire(self, *answers: bytes, keep: bool = False) -> Wire:
        w = Wire(*answers, keep=keep)
        self.addCleanup(w.close)
        return w

    def acquire(self, w: Wire, **settings: Any) -> leasehold.HeldLease:
        return leasehold.Client(w.url, **settings).lock_api("acme").acquire("k", {"owner_id": "me", "request_id": "r", "ttl_seconds": 30})

    def test_what_is_broken_off_is_sent_again(self) -> None:
        """As long as no byte is missing without notice, whatever the form of the body."""
        chunked = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        cut = {
            "within the body": http(LEASE[:40], length=len(LEASE)),
            "before the body": http(b"", length=len(LEASE)),
            "at the end of a value": http(LEASE, length=len(LEASE) + 1),
            "within a chunk": chunked + b"100\r\n" + LEASE[:40],
            "between chunks": chunked + b"%x\r\n%s\r\n" % (len(LEASE), LEASE),
            "within the head": b"HTTP/1.1 200 OK\r\nContent-Le",
            "before the head": b"",
            "before the reason": b"HTTP/1.1",
            "another protocol": b"SSH-2.0-OpenSSH_9.2\r\n",
            "a status that is none": b"HTTP/1.1 two OK\r\n\r\n",
            "a length that is none": b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: -1\r\n\r\n",
            "no length and no body": b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n",
            "a head without end": b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70000 + b"\r\n\r\n",
            "too many fields": b"HTTP/1.1 200 OK\r\n" + b"X: x\r\n" * 200 + b"\r\n",
        }
        for name, answer in cut.items():
            with self.subTest(name):
                w = self.wire(answer, http(LEASE))
                lease = self.acquire(w)
                self.assertEqual(lease.token, 7)
                self.assertEqual(len(w.sent), 2)
                first, again = (w.body(i) for i in (0, 1))
                self.assertGreater(again.pop("not_after"), first.pop("not_after"))  # each try has an end of its own
                self.assertEqual(first, again)

    def test_a_fence_answers_about_the_token_that_was_asked_for(self) -> None:
        passed = {"tenant_id": "acme", "resource": "r", "fencing_token": 7, "subject": "lock/k"}
        lease = leasehold.FencedLease("lock/k", 7)
        w = self.wire(http(json.dumps(passed).encode()))
        leasehold.Client(w.url).fences("acme").check("r", lease)
        self.assertEqual(w.body(0), {"fencing_token": 7, "subject": "lock/k"})
        others: list[dict[str, Any]] = [{"tenant_id": "b"}, {"resource": "s"}, {"fencing_token": 8}, {"subject": "lock/other"}]
        for other in others:
            with self.subTest(str(other)), self.assertRaises(leasehold.InvalidResponseError):
                leasehold.Client(self.wire(http(json.dumps({**passed, **other}).encode())).url, tries=1).fences("acme").check("r", lease)
        for wrong in (7, None, "lock/k", leasehold.FencedLease("", 7), leasehold.FencedLease("k" * 321, 7)):
            with self.subTest(str(wrong)), self.assertRaises(leasehold.InvalidSettingError):
                leasehold.Client(w.url).fences("acme").check("r", wrong)  # type: ignore[arg-type]
        problem = b'{"code": "OTHER_SUBJECT", "status": 409}'
        with self.assertRaises(leasehold.OtherSubjectError) as refused:
            leasehold.Client(self.wire(http(problem, "409 Conflict", "application/problem+json")).url).fences("acme").check("r", lease)
        self.assertFalse(refused.exception.retryable)

    def test_machine_ids_that_are_broken_off_are_no_mistake_in_the_settings(self) -> None:
        """A ConfigurationError would stop a program that another try helps."""
        w = self.wire(http(b'{"leases": [', length=500))
        with self.assertRaises(leasehold.NoResponseError):
            leasehold.Client(w.url).machine_ids().acquire()
        w = self.wire(http(b'{"leases": ['))
        with self.assertRaises(ConfigurationError):
            leasehold.Client(w.url).machine_ids().acquire()

    def test_other_content_is_no_lease(self) -> None:
        packed = gzip.compress(LEASE)
        for name, answer in {
            "compressed, which was not asked for": http(packed, "200 OK", "application/json", "Content-Encoding: gzip"),
            "not UTF-8": http(LEASE.replace(b'"l"', b'"\xff"')),
            "a number that is none": http(LEASE.replace(b"30000", b"NaN")),
            "a time that is endless": http(LEASE.replace(b"30000", b"1e400")),
            "a number beyond 64 bits": http(LEASE.replace(b"30000", b"9" * 400)),
            "a true token": http(LEASE.replace(b": 7", b": true")),
            "nested deeply": http(b"[" * 100_000),
            "two values": http(LEASE + LEASE),
            "another tenant": http(LEASE.replace(b"acme", b"other")),
        }.items():
            with self.subTest(name):
                w = self.wire(answer)
                with self.assertRaises(leasehold.UnknownOutcomeError) as err:
                    self.acquire(w)
                self.assertIsInstance(err.exception.__cause__, leasehold.InvalidResponseError)
                self.assertEqual(err.exception.request_id, "r")
                self.assertIn(b"Accept-Encoding: identity", w.sent[0])

    def test_only_200_is_yes(self) -> None:
        for status in ("201 Created", "206 Partial Content", "409 Conflict"):
            with self.subTest(status), self.assertRaises(leasehold.InvalidResponseError):
                self.acquire(self.wire(http(LEASE, status)))

    def test_null_is_as_good_as_missing(self) -> None:
        w = self.wire(http(LEASE.replace(b'"metadata": {}', b'"metadata": null, "mode": null, "permit": null')))
        self.assertEqual(self.acquire(w).token, 7)

    def test_so_many_tries(self) -> None:
        w = self.wire(*[b""] * 9)
        with self.assertRaises(leasehold.UnknownOutcomeError):
            self.acquire(w, tries=3)
        self.assertEqual(len(w.sent), 3)

    def test_what_may_have_been_carried_out_stays_unknown(self) -> None:
        """An error of a later try says nothing of an earlier one, unless the lease was looked at."""
        def problem(code: str, status: int) -> bytes:
            return http(json.dumps({"code": code, "retryable": True}).encode(), f"{status} No", "application/problem+json")

        with self.assertRaises(leasehold.UnknownOutcomeError) as err:
            self.acquire(self.wire(b"", problem("RATE_LIMITED", 429)))
        self.assertIsInstance(err.exception.__cause__, codes.RateLimitedError)
        with self.assertRaises(leasehold.LockHeldError):
            self.acquire(self.wire(b"", problem("LOCK_HELD", 409)))

    def test_a_child_of_a_fork_does_not_use_connections_of_its_parent(self) -> None:
        w = self.wire(http(LEASE), http(LEASE), keep=True)
        client = leasehold.Client(w.url, tries=1)
        for want in (1, 2):
            client.lock_api("acme").acquire("k", {"owner_id": "me", "request_id": "r", "ttl_seconds": 30})
            self.assertEqual(w.connections, want)
            client._transport._idle.after_fork()  # type: ignore[attr-defined]

    def test_redirects_are_not_followed(self) -> None:
        """Above all the token does not go to another host."""
        for status in ("301 Moved", "302 Found", "303 See Other", "307 Temporary Redirect", "308 Permanent Redirect"):
            with self.subTest(status):
                elsewhere = self.wire(http(LEASE), http(LEASE), http(LEASE))
                w = self.wire(http(b"", status, "text/html", f"Location: {elsewhere.url}/"))
                with self.assertRaises(leasehold.InvalidResponseError) as err:
                    self.acquire(w, token="secret")
                self.assertIn("redirects are not followed", str(err.exception))
                self.assertIn(b"Authorization: Bearer secret", w.sent[0])
                self.assertEqual((len(w.sent), elsewhere.connections), (1, 0))

    def test_a_connection_that_the_server_closed_is_not_used_again(self) -> None:
        """Otherwise the next command would have an unknown outcome for nothing."""
        w = self.wire(http(LEASE), http(LEASE))
        client = leasehold.Client(w.url, tries=1)
        for _ in range(2):
            client.lock_api("acme").acquire("k", {"owner_id": "me", "request_id": "r", "ttl_seconds": 30})
            self.readable(client)
        self.assertEqual(w.connections, 2)

    def test_connections_of_a_client_that_is_gone_are_closed_by_the_next(self) -> None:
        w = self.wire(http(LEASE), http(LEASE), keep=True)
        clients = [leasehold.Client(w.url, tries=1), leasehold.Client(w.url, tries=1)]
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            clients[0].lock_api("acme").acquire("k", {"owner_id": "me", "request_id": "r", "ttl_seconds": 30})
            assert isinstance(clients[0]._transport, leasehold.HTTPTransport)
            [(connection, _)] = [c for of in clients[0]._transport._idle._of.values() for c in of]
            del clients[0]
            gc.collect()
            clients[0].lock_api("acme").acquire("k", {"owner_id": "me", "request_id": "r", "ttl_seconds": 30})
        self.assertEqual((connection.sock.fileno(), [str(t.message) for t in told]), (-1, []))

    def readable(self, client: leasehold.Client) -> None:
        """Wait until something has come over the idle connection: its end, or bytes."""
        assert isinstance(client._transport, leasehold.HTTPTransport)
        [(connection, _)] = [c for of in client._transport._idle._of.values() for c in of]
        self.assertTrue(select.select([connection.sock], [], [], STUCK)[0])

    def test_connections_are_used_again(self) -> None:
        w = self.wire(http(LEASE), http(LEASE), http(LEASE), http(LEASE), keep=True)
        client = leasehold.Client(w.url, tries=1)

        def acquire() -> None:
            client.lock_api("acme").acquire("k", {"owner_id": "me", "request_id": "r", "ttl_seconds": 30})

        for _ in range(3):
            acquire()
        self.assertEqual(w.connections, 1)
        w.open[0].sendall(http(LEASE))  # no one asked for it: it would be taken for the response of the next request
        self.readable(client)
        acquire()
        self.assertEqual(w.connections, 2)

    def test_an_answer_that_never_ends_is_given_up(self) -> None:
        for most, answer in ((0.3, http(b"{", length=100)), (0.3, b"")):
            w = self.wire(answer, keep=True)
            began = time.monotonic()
            with self.assertRaises(leasehold.UnknownOutcomeError) as err:
                self.acquire(w, tries=1, timeout=most)
            self.assertIsInstance(err.exception.__cause__, (codes.DeadlineExceededError, leasehold.NoResponseError))
            self.assertLess(time.monotonic() - began, STUCK)

    def test_a_server_is_given_the_time_that_it_asks_for(self) -> None:
        """Up to 10 s; if it asks for more the caller learns it at once."""
        for header, tries in (("11", 1), ("99999999999999999999999999", 1), ("0", 2), ("-1", 2), ("soon", 2), ("1e3", 2), ("", 2)):
            with self.subTest(header):
                w = self.wire(http(b"", "503 Busy", "text/html", f"Retry-After: {header}"), http(LEASE))
                if tries == 2:
                    self.assertEqual(self.acquire(w).token, 7)
                    continue
                with self.assertRaises(leasehold.UnknownOutcomeError) as err:
                    self.acquire(w)
                self.assertIsInstance(err.exception.__cause__, leasehold.InvalidResponseError)
                self.assertEqual(len(w.sent), 1)

    def test_an_error_keeps_the_token_and_the_password_to_itself(self) -> None:
        closed = socket.socket()
        self.addCleanup(closed.close)
        closed.bind(("127.0.0.1", 0))  # and does not listen
        at = f"127.0.0.1:{closed.getsockname()[1]}"
        for url, token in ((f"http://{at}", "secret-token"), (f"http://me:secret-token@{at}", None)):
            with self.assertRaises(leasehold.NoResponseError) as err:
                self.acquire_at(url, token)
            self.assertNotIn("secret-token", str(err.exception))
            self.assertFalse(err.exception.sent)

    def acquire_at(self, url: str, token: str | None) -> None:
        leasehold.Client(url, token=token, tries=1).lock_api("acme").acquire("k", {"owner_id": "me", "request_id": "r", "ttl_seconds": 30})

    def test_a_problem_that_lies_about_its_numbers(self) -> None:
        problem = b'{"code": "LOCK_HELD", "retry_after_ms": %s, "position": %s, "expires_at": "0000-99-99", "owner_id": 5, "retryable": "yes"}'
        for number in (b"-5", b'"soon"', b"1e400", b"99999999999999999999999", b"null", b"true", b"[]"):
            with self.subTest(number):
                w = self.wire(http(problem % (number, number), "409 Conflict", "application/problem+json"))
                with self.assertRaises(leasehold.LockHeldError) as err:
                    self.acquire(w)
                self.assertTrue(0 <= err.exception.retry_after <= 86_400)
                self.assertEqual((err.exception.owner_id, err.exception.expires_at, err.exception.retryable), ("", None, False))

    def test_gates_judge_their_responses(self) -> None:
        """What is about another run, or no grant at all, does not begin one."""
        ask = Ask("a", "me", "r", 60, 0, "")
        for body in ({}, {"acquired": True}, {"acquired": True, "run_id": "b", "fencing_token": 1, "remaining_ms": 1, "owner_id": "me"}, {"acquired": False},
                     {"acquired": True, "run_id": "a", "fencing_token": 1, "remaining_ms": 1, "owner_id": "another"}, {"acquired": False, "reason": "later", "run_id": "a"}):
            w = self.wire(http(json.dumps(body).encode()))
            with self.subTest(str(body)), self.assertRaises(leasehold.InvalidResponseError):
                leasehold.Client(w.url).runs().acquire(ask, 5, Signal())


    def test_what_a_run_is_begun_with(self) -> None:
        """0 takeovers are not the server's default, and a record may be kept for ten years."""
        answer = json.dumps({"acquired": True, "run_id": "a", "fencing_token": 1, "remaining_ms": 1, "owner_id": "me"}).encode()
        for most in (None, 0, 2):
            w = self.wire(http(answer))
            leasehold.Client(w.url).runs(keep=3660 * 86400).acquire(Ask("a", "me", "r", 60, 0, "", most), 5, Signal())
            body = json.loads(w.sent[0].split(b"\r\n\r\n", 1)[1])
            body.pop("not_after", None)
            self.assertEqual(body, {"owner_id": "me", "request_id": "r", "ttl_seconds": 60, "keep_seconds": 316224000, **({} if most is None else {"max_takeovers": most})})
        with self.assertRaises(leasehold.InvalidSettingError):
            leasehold.Client(w.url).runs(keep=3660 * 86400 + 1)


class RetryAfter(unittest.TestCase):
    def test_times(self) -> None:
        
        for date, text, want in (
            ("", "3", 3.0), ("", "0", 0.0), ("", "86401", 86400.0), ("", "9" * 30, 86400.0), ("", "-3", 0.0), ("", "3.5", 0.0), ("", "٣", 0.0), ("", "", 0.0),
            ("Tue, 01 Jan 2030 00:00:00 GMT", "Tue, 01 Jan 2030 00:00:05 GMT", 5.0), ("Tue, 01 Jan 2030 00:00:00 GMT", "Mon, 31 Dec 2029 00:00:00 GMT", 0.0),
            ("Tue, 01 Jan 2030 00:00:00 GMT", "Tue, 01 Jan 2130 00:00:00 GMT", 86400.0), ("", "Tue, 01 Jan 2030 00:00:05 GMT", 0.0),
            ("Tue, 01 Jan 2030 00:00:00 GMT", "Tue, 99 Jan 2030 00:00:05 GMT", 0.0), ("Tue, 01 Jan 2030 00:00:00 -0000", "Tue, 01 Jan 2030 00:00:05 GMT", 0.0),
        ):
            m = leasehold.Headers()
            m["Retry-After"] = text
            if date:
                m["Date"] = date
            with self.subTest(text):
                self.assertEqual(_retry_after(m), want)


if __name__ == "__main__":
    unittest.main()
