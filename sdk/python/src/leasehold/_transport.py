"""HTTP to one server: connections that are used again, a deadline for each request, no redirects."""

from __future__ import annotations

import base64
import http.client
import ipaddress
import os
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable
from email.message import Message
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from ._call import on_fork
from ._time import Signal
from .errors import InvalidSettingError, TransportError

MAX_RESPONSE = 128 << 20
"""Bytes of a response: a page of 1000 locks with all their metadata, each byte escaped, stays below."""

MAX_IDLE = 8
"""Connections that are kept for later requests."""

IDLE_TIME = 50.0
"""Seconds for which they are kept."""

MAX_WAIT = 1e6
"""Seconds that a socket can wait, on every system."""

USER_AGENT = "leasehold-python/0.1"

Token = str | Callable[[], str] | None


class Response(NamedTuple):
    status: int
    reason: str
    headers: Message
    content: bytes

    @property
    def media_type(self) -> str:
        return (self.headers.get("Content-Type") or "").split(";")[0].strip().lower()


class Transport:
    """Sends requests, each once. It may be used by several threads at once."""

    def __init__(self, base_url: str, token: Token, ssl_context: ssl.SSLContext | None) -> None:
        self._url = _parse(base_url)
        if ssl_context is not None and not isinstance(ssl_context, ssl.SSLContext):
            raise InvalidSettingError("ssl_context", "must be an ssl.SSLContext")
        self._token = token
        u = self._url
        self._host = u.hostname or ""
        self._port = u.port
        self.name = f"{u.scheme}://{_netloc(u)}{u.path.rstrip('/')}"
        """The base URL without its password, for errors."""
        self._path = u.path.rstrip("/")
        self._tls = (ssl_context or ssl.create_default_context()) if u.scheme == "https" else None
        credentials = token is not None or u.username is not None or u.password is not None
        if self._tls is None and credentials and not loopback(self._host):
            raise InvalidSettingError(
                "server", f"{self.name}: a token or a password must not travel over plain http: use https:// "
                "(http:// with credentials is accepted only for this machine itself)")
        self._lock = threading.Lock()
        self._idle: list[tuple[http.client.HTTPConnection, float]] = []
        self._pid = os.getpid()
        on_fork(self)

    def after_fork(self) -> None:
        """The parent goes on using its connections: the child drops its copies of them."""
        self._lock = threading.Lock()
        idle, self._idle = self._idle, []
        self._pid = os.getpid()
        for connection, _ in idle:
            if connection.sock is not None:
                try:  # close the descriptor without a farewell of TLS, which would end the parent's connection
                    os.close(connection.sock.detach())
                except OSError:
                    pass

    def close(self) -> None:
        """Close the connections that no request uses."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection, _ in idle:
            connection.close()

    def __del__(self) -> None:
        if hasattr(self, "_idle") and self._pid == os.getpid():
            self.close()

    def send(
        self, method: str, path: str, payload: bytes | None, *, seconds: float, abort: Signal | None = None, most: int = MAX_RESPONSE,
    ) -> Response:
        """Send a request once. seconds bounds each wait for the network; abort ends the request."""
        headers = {"User-Agent": USER_AGENT, "Accept": "application/json, application/problem+json"}
        if payload is not None:
            headers["Content-Type"] = "application/json"
        plain = path.partition("?")[0]
        if "%" in plain:  # what resolves escapes on the way must not make another name of one
            headers["Leasehold-Path"] = plain
        authorization = self._authorization()
        if authorization:
            headers["Authorization"] = authorization
        connection = self._connection(min(seconds, MAX_WAIT))
        stop = abort.subscribe(lambda: _shut(connection)) if abort is not None else lambda: None
        keep = False
        r: http.client.HTTPResponse | None = None
        try:
            if connection.sock is None:
                try:
                    connection.connect()
                except (OSError, http.client.HTTPException) as err:
                    raise TransportError(f"no connection to {self.name}: {err}", sent=False) from err
                if abort is not None and abort.is_set():
                    raise TransportError(f"the request to {self.name} was given up", sent=False)
                sock: socket.socket | None = connection.sock
                if sock is not None:
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                connection.request(method, self._path + path, body=payload if payload is not None else (b"" if method == "POST" else None), headers=headers)
                r = connection.getresponse()
                content = r.read(most)
                # http.client does not say that the connection ended before the body, or the head, did.
                if r.length and len(content) < most or r.will_close and not content and not r.chunked and r.length is None:
                    raise http.client.IncompleteRead(content, r.length)
                keep = not r.will_close and r.isclosed()
            except (OSError, http.client.HTTPException, ValueError) as err:
                raise TransportError(f"no response of {self.name}: {err or type(err).__name__}") from err
            return Response(r.status, r.reason, r.headers, content)
        finally:
            stop()
            if r is not None and not keep:
                r.close()  # it has the socket if the server ends the connection after it
            if keep and (abort is None or not abort.is_set()):
                self._keep(connection)
            else:
                connection.close()

    def _authorization(self) -> str:
        token = self._token
        if callable(token):
            try:
                token = token()
            except Exception as err:
                raise TransportError(f"get a token: {err}", sent=False, retry=False) from err
            if token is None:  # a request without a token is another request
                raise InvalidSettingError("token", "the function returned None: it must return a token")
        if token is not None:
            if not isinstance(token, str) or not token or any(c <= " " or c > "~" for c in token):
                raise InvalidSettingError("token", "must be one word of printable ASCII")
            return "Bearer " + token
        u = self._url
        if u.username is None and u.password is None:
            return ""
        return "Basic " + base64.b64encode(f"{unquote(u.username or '')}:{unquote(u.password or '')}".encode()).decode()

    def _connection(self, seconds: float) -> http.client.HTTPConnection:
        while True:
            with self._lock:
                if not self._idle:
                    break
                connection, since = self._idle.pop()
            if connection.sock is not None and time.monotonic() - since < IDLE_TIME and not _readable(connection.sock):
                connection.timeout = seconds
                connection.sock.settimeout(seconds)
                return connection
            connection.close()
        if self._tls is not None:
            return http.client.HTTPSConnection(self._host, self._port, timeout=seconds, context=self._tls)
        return http.client.HTTPConnection(self._host, self._port, timeout=seconds)

    def _keep(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if len(self._idle) < MAX_IDLE:
                self._idle.append((connection, time.monotonic()))
                return
        connection.close()


def _shut(connection: http.client.HTTPConnection) -> None:
    sock = connection.sock
    if sock is not None:
        try:
            sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def _readable(sock: socket.socket) -> bool:
    """Whether the server closed the connection, or sent what no one asked for."""
    try:
        if hasattr(select, "poll"):
            poll = select.poll()
            poll.register(sock, select.POLLIN)
            return bool(poll.poll(0))
        return bool(select.select([sock], [], [], 0)[0])
    except (OSError, ValueError):
        return True


def _parse(base_url: str) -> SplitResult:
    if not isinstance(base_url, str):
        raise InvalidSettingError("server", "must be a str with a URL like http://127.0.0.1:8080")
    try:
        u = urlsplit(base_url)
        _ = u.port
        host = u.hostname
    except ValueError:
        u, host = SplitResult("", "", "", "", ""), None
    if u.scheme not in ("http", "https") or not host or "?" in base_url or "#" in base_url or any(c <= " " or c > "~" for c in base_url):
        quoted = "" if "@" in base_url else f" {base_url!r}"
        raise InvalidSettingError("server", f"must be a URL like http://127.0.0.1:8080, not{quoted or ' that'}")
    return u


def _netloc(u: SplitResult) -> str:
    host = u.netloc.rsplit("@", 1)[-1]
    return f"{u.username or ''}:xxxxx@{host}" if u.password is not None else f"{u.username}@{host}" if u.username else host


def loopback(host: str) -> bool:
    """Whether a host is this machine itself."""
    if host.lower() == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
