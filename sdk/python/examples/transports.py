"""Requests that go another way: with a header of their own, and over a Unix socket.

    python3 transports.py http://127.0.0.1:8080
    python3 transports.py /run/leasehold.sock
"""

from __future__ import annotations

import dataclasses
import socket
import sys

import leasehold


class Traced:
    """Adds a header to each request, and prints what came of it."""

    def __init__(self, inner: leasehold.Transport) -> None:
        self.inner = inner

    def send(self, request: leasehold.Request, deadline: float) -> leasehold.Response:
        request = dataclasses.replace(request, headers={**request.headers, "X-Trace": "nightly"})
        response = self.inner.send(request, deadline)
        print(f"{request.method} {request.url}: {response.status}")
        return response


class UnixTransport(leasehold.HTTPTransport):
    """Connects to a Unix socket, whatever the URL says."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path

    def connect(self, host: str, port: int, seconds: float) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(seconds)
        sock.connect(self.path)
        return sock


def main() -> None:
    server = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080"
    if server.startswith("/"):
        client = leasehold.Client("http://localhost", transport=Traced(UnixTransport(server)))
    else:
        client = leasehold.Client(server, transport=Traced(leasehold.HTTPTransport()))
    with client.locks().hold("traced") as lock:
        print(f"token {lock.token}")


if __name__ == "__main__":
    main()
