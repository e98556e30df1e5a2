"""HTTP to one server: connections that are used again, a deadline for each request, no redirects."""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import os
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable
from typing import Any, BinaryIO
from urllib.parse import SplitResult, unquote, urlsplit

from . import _http
from ._call import on_fork, spawn
from ._http import Response
from ._time import LOOK_AGAIN, Signal
from .errors import InvalidSettingError, TransportError

MAX_RESPONSE = 128 << 20
"""Bytes of a response: a page of 1000 locks with all their metadata, each byte escaped, stays below."""

MAX_IDLE = 8
"""Connections that are kept for later requests."""

IDLE_TIME = 50.0
"""Seconds for which they are kept."""

MAX_WAIT = 1e6
"""Seconds that a socket can wait, on every system."""

NEVER_TLS = frozenset(("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNSUPPORTED_PROTOCOL", "TLSV1_ALERT_PROTOCOL_VERSION"))
"""Why TLS fails that another try does not help."""

USER_AGENT = "leasehold-python/0.1"

Token = str | Callable[[], str] | None


class Transport:
    """Sends requests, each once. It may be used by several threads at once."""

    def __init__(self, base_url: str, token: Token, ssl_context: ssl.SSLContext | None) -> None:
        self._url = _parse(base_url)
        if ssl_context is not None and not isinstance(ssl_context, ssl.SSLContext):
            raise InvalidSettingError("ssl_context", "must be an ssl.SSLContext")
        self._token = token
        u = self._url
        self.host = u.hostname or ""
        self.port = u.port or (443 if u.scheme == "https" else 80)
        self._authority = u.netloc.rsplit("@", 1)[-1]
        self.name = f"{u.scheme}://{_netloc(u)}{u.path.rstrip('/')}"
        """The base URL without its password, for errors."""
        self._path = u.path.rstrip("/")
        self.tls = (ssl_context or ssl.create_default_context()) if u.scheme == "https" else None
        credentials = token is not None or u.username is not None or u.password is not None
        if self.tls is None and credentials and not loopback(self.host):
            raise InvalidSettingError(
                "server", f"{self.name}: a token or a password must not travel over plain http: use https:// "
                "(http:// with credentials is accepted only for this machine itself)")
        self._lock = threading.Lock()
        self._idle: list[tuple[_Connection, float]] = []
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
        data = self.request(method, path, payload, self._authorization())
        connection = self._connection(min(seconds, MAX_WAIT))
        stop = abort.subscribe(connection.shut) if abort is not None else lambda: None
        keep = False
        try:
            if connection.file is None:
                try:
                    connection.connect(self)
                except OSError as err:
                    raise self.unconnected(err) from err
                if abort is not None and abort.is_set():
                    raise TransportError(f"the request to {self.name} was given up", sent=False)
            try:
                r, keep = connection.exchange(data, most)
            except (OSError, _http.Broken, ValueError) as err:
                raise self.unanswered(err) from err
            return r
        finally:
            stop()
            if keep and (abort is None or not abort.is_set()):
                self._keep(connection)
            else:
                connection.close()

    def request(self, method: str, path: str, payload: bytes | None, authorization: str) -> bytes:
        """The bytes of a request."""
        headers = {"User-Agent": USER_AGENT, "Accept": "application/json, application/problem+json"}
        if payload is not None:
            headers["Content-Type"] = "application/json"
        plain = path.partition("?")[0]
        if "%" in plain:  # what resolves escapes on the way must not make another name of one
            headers["Leasehold-Path"] = plain
        if authorization:
            headers["Authorization"] = authorization
        return _http.request(method, self._path + path, self._authority, headers, payload)

    def unconnected(self, err: Exception) -> TransportError:
        never = isinstance(err, ssl.SSLError) and (isinstance(err, ssl.SSLCertVerificationError) or err.reason in NEVER_TLS)
        hint = ": it may not speak TLS, and its address begin with http://" if "WRONG_VERSION_NUMBER" in str(err) else ""
        return TransportError(f"no connection to {self.name}: {err}{hint}", sent=False, retry=not never)

    def unanswered(self, err: Exception) -> TransportError:
        return TransportError(f"no response of {self.name}: {err or type(err).__name__}")

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

    def _connection(self, seconds: float) -> _Connection:
        while True:
            with self._lock:
                if not self._idle:
                    break
                connection, since = self._idle.pop()
            if connection.sock is not None and time.monotonic() - since < IDLE_TIME and not _readable(connection.sock):
                connection.seconds = seconds
                connection.sock.settimeout(seconds)
                return connection
            connection.close()
        return _Connection(seconds)

    def _keep(self, connection: _Connection) -> None:
        with self._lock:
            if len(self._idle) < MAX_IDLE:
                self._idle.append((connection, time.monotonic()))
                return
        connection.close()


class _Connection:
    """A connection whose calls block."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.sock: socket.socket | None = None
        self.file: BinaryIO | None = None

    def connect(self, to: Transport) -> None:
        self.sock = sock = socket.create_connection((to.host, to.port), self.seconds)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if to.tls is not None:
            self.sock = sock = to.tls.wrap_socket(sock, server_hostname=to.host)
        self.file = sock.makefile("rb")

    def exchange(self, data: bytes, most: int) -> tuple[Response, bool]:
        sock, file = self.sock, self.file
        assert sock is not None and file is not None
        sock.sendall(data)
        reading = _http.response(most)
        ask = next(reading)
        while True:
            got = file.readline(ask.most + 1) if isinstance(ask, _http.Line) else file.read(ask.size)
            try:
                ask = reading.send(got)
            except StopIteration as end:
                result: tuple[Response, bool] = end.value
                return result

    def shut(self) -> None:
        """End what waits for the connection, in whatever thread."""
        sock = self.sock
        if sock is not None:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self) -> None:
        if self.file is not None:
            self.file.close()
        if self.sock is not None:
            self.sock.close()


class AsyncTransport:
    """The same on the event loop that carries the background out, in whose thread requests are sent."""

    def __init__(self, of: Transport) -> None:
        self._of = of
        self._loop: asyncio.AbstractEventLoop | None = None
        self._idle: list[tuple[_Streams, float]] = []
        self._open: set[_Streams] = set()  # the connections of this one in _opened
        self._addresses: asyncio.Future[list[Any]] | None = None
        on_fork(self)

    def after_fork(self) -> None:
        """The parent goes on using its connections, and its loop does not run in the child."""
        self._idle, self._open, self._addresses, self._loop = [], set(), None, None

    def close(self) -> None:
        """Close the connections that no request uses, soon."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._close)

    def _close(self) -> None:
        idle, self._idle = self._idle, []
        for connection, _ in idle:
            self._end(connection)

    def __del__(self) -> None:
        if getattr(self, "_loop", None) is not None:
            for connection in self._open:  # what is left of them ends in the thread of the loop
                self._loop.call_soon_threadsafe(_opened.end, connection)  # type: ignore[union-attr]

    async def send(self, method: str, path: str, payload: bytes | None, *, most: int = MAX_RESPONSE) -> Response:
        """Send a request once. A cancellation of the task ends it."""
        of = self._of
        self._loop = asyncio.get_running_loop()
        authorization = await in_thread(of._authorization) if callable(of._token) else of._authorization()
        data = of.request(method, path, payload, authorization)
        connection = self._connection()
        keep = False
        try:
            if connection is None:
                try:
                    connection = await self._connect()
                except OSError as err:
                    raise of.unconnected(err) from err
            try:
                r, keep = await connection.exchange(data, most)
            except (OSError, _http.Broken, ValueError) as err:
                raise of.unanswered(err) from err
            return r
        finally:
            if connection is not None:
                if keep and len(self._idle) < MAX_IDLE:
                    self._idle.append((connection, time.monotonic()))
                else:
                    self._end(connection)

    def _connection(self) -> _Streams | None:
        while self._idle:
            connection, since = self._idle.pop()
            if time.monotonic() - since < IDLE_TIME and connection.usable():
                return connection
            self._end(connection)
        return None

    def _end(self, connection: _Streams) -> None:
        self._open.discard(connection)
        _opened.end(connection)

    async def _connect(self) -> _Streams:
        problem: OSError | None = None
        for family, kind, proto, _, address in await self._resolve():
            sock = socket.socket(family, kind, proto)
            try:
                sock.setblocking(False)
                await asyncio.get_running_loop().sock_connect(sock, address)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                tls: dict[str, Any] = {} if self._of.tls is None else {
                    "ssl": self._of.tls, "server_hostname": self._of.host}
                reader, writer = await asyncio.open_connection(sock=sock, limit=_http.MAX_LINE, **tls)
            except OSError as err:
                sock.close()
                problem = err
                continue
            except BaseException:
                sock.close()
                raise
            connection = _Streams(sock, reader, writer)
            self._open.add(connection)
            _opened.add(connection)
            return connection
        raise problem or OSError("its name has no address")

    async def _resolve(self) -> list[Any]:
        """The addresses of the server. Those who ask at the same time share a look-up, which takes a thread."""
        of = self._of

        def look_up() -> list[Any]:
            return socket.getaddrinfo(of.host, of.port, type=socket.SOCK_STREAM)

        try:
            ipaddress.ip_address(of.host)
            return look_up()
        except ValueError:
            pass
        if self._addresses is None:
            self._addresses = asyncio.ensure_future(in_thread(look_up))
            self._addresses.add_done_callback(self._looked_up)
        return await asyncio.shield(self._addresses)

    def _looked_up(self, found: asyncio.Future[list[Any]]) -> None:
        self._addresses = None
        if not found.cancelled():
            found.exception()  # those who ask get it


class _Streams:
    """A connection of an event loop."""

    def __init__(self, sock: socket.socket, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.sock, self.reader, self.writer = sock, reader, writer

    def abort(self) -> None:
        self.writer.transport.abort()

    def usable(self) -> bool:
        """Whether the server neither closed the connection nor sent what no one asked for."""
        return not (self.reader.at_eof() or self.reader._buffer or self.writer.is_closing() or _readable(self.sock))  # type: ignore[attr-defined]

    async def exchange(self, data: bytes, most: int) -> tuple[Response, bool]:
        self.writer.write(data)
        reading = _http.response(most)
        ask = next(reading)
        while True:
            if isinstance(ask, _http.Line):
                got = await self.reader.readline()  # a longer line is a ValueError
            else:
                got = await self._bytes(ask.size)
            try:
                ask = reading.send(got)
            except StopIteration as end:
                result: tuple[Response, bool] = end.value
                return result

    async def _bytes(self, size: int) -> bytes:
        try:
            return await self.reader.readexactly(size)
        except asyncio.IncompleteReadError as err:
            return err.partial


class _Opened:
    """The open connections of all event loops.

    A finalizer of asyncio that finds an open one closes it, in whatever thread collects garbage, beside the loop that uses
    it. So what is open is referenced from here, and not only by a client, until its loop has ended it.
    """

    def __init__(self) -> None:
        self.connections: set[_Streams] = set()
        self._inherited: list[object] = []
        on_fork(self)

    def add(self, connection: _Streams) -> None:
        self.connections.add(connection)

    def end(self, connection: _Streams) -> None:
        """Is called in the thread of its loop."""
        connection.abort()
        self.connections.discard(connection)

    def after_fork(self) -> None:
        """The child drops its copies."""
        for connection in self.connections:
            try:
                os.close(connection.sock.detach())
            except OSError:
                pass
        self._inherited.append(self.connections)  # nothing of it ends what the parent uses
        self.connections = set()


_opened = _Opened()


async def in_thread(do: Callable[[], Any]) -> Any:
    """Do something that blocks in a thread of its own."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()

    def settle(value: Any, err: BaseException | None) -> None:
        if done.done():
            return
        if err is None:
            done.set_result(value)
        elif isinstance(err, StopIteration):  # a future cannot have it
            done.set_exception(RuntimeError(f"{type(err).__name__}: {err}"))
        else:
            done.set_exception(err)

    def work() -> None:
        value, problem = None, None
        try:
            value = do()
        except BaseException as err:  # it is raised where it is waited for
            problem = err
        loop.call_soon_threadsafe(settle, value, problem)

    while spawn("request", work) is None:  # not here: it may block the loop
        await asyncio.sleep(LOOK_AGAIN)
    return await done


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
