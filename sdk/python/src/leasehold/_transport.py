"""How requests travel: a transport is one method with a deadline. That of the standard library keeps connections, and follows no redirects."""

from __future__ import annotations

import os
import select
import socket
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol
from urllib.parse import SplitResult, unquote, urlsplit

from . import _http
from ._auth import Files
from ._call import at_last, on_fork, spawn
from ._http import Response
from ._time import Signal
from .errors import InvalidSettingError, NoResponseError

if TYPE_CHECKING:
    import ssl

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


@dataclass(frozen=True)
class Request:
    """What a transport sends. Use :func:`dataclasses.replace` to send another."""

    method: str
    url: str
    """Absolute, without credentials."""
    headers: Mapping[str, str]
    body: bytes | None = None
    most: int = MAX_RESPONSE
    """Bytes of the response's body that are read at most."""
    abort: Signal = field(default_factory=Signal)
    """Is set when the response is not wanted any more: ``abort.subscribe(f)`` calls f then. A transport may heed it."""


class Transport(Protocol):
    """Sends requests, each once, in the thread of its caller. It may be used by several threads at once."""

    def send(self, request: Request, deadline: float) -> Response:
        """The response, whatever its status. Redirects are responses. Without one by the deadline, on the clock of :func:`time.monotonic`,
        or if the connection fails, it raises a NoResponseError, whose ``sent`` is False if nothing can have arrived, or an OSError."""
        ...


class HTTPTransport:
    """The transport of the standard library, with connections that are used again.

    Override :meth:`connect` to reach the server in another way, such as over a Unix socket.

    ssl_context
        For servers whose certificates the system does not know.
    cafile
        A file of such certificates, which is read again when it changes.
    """

    def __init__(self, *, ssl_context: ssl.SSLContext | None = None, cafile: str | os.PathLike[str] | None = None) -> None:
        if ssl_context is not None:
            import ssl

            if not isinstance(ssl_context, ssl.SSLContext):
                raise InvalidSettingError("ssl_context", "must be an ssl.SSLContext")
            if cafile is not None:
                raise InvalidSettingError("cafile", "is set beside ssl_context: load it into that")
        self._context = ssl_context
        self._files = None if cafile is None else Files("cafile", cafile, _tls)
        self._idle = _Idle()
        _idle[weakref.ref(self)] = self._idle

    def close(self) -> None:
        """Close the connections that no request uses."""
        self._idle.close()

    def connect(self, host: str, port: int, seconds: float) -> socket.socket:
        """A connection to the server, in so many seconds."""
        return _connected(host, port, seconds)

    def send(self, request: Request, deadline: float) -> Response:
        """Send a request once. It ends at the deadline, and soon after abort is set."""
        scheme, _, rest = request.url.partition("://")
        authority, slash, target = rest.partition("/")
        data = _http.request(request.method, slash + target or "/", authority, request.headers, request.body)
        origin = f"{scheme}://{authority}"
        _close_unused()
        connection = self._idle.take(origin)
        stop: Callable[[], None] = _nothing
        keep = False
        try:
            if connection is None:
                try:
                    connection = self._connect(scheme, authority, deadline, request.abort)
                except OSError as err:
                    raise _unconnected(err) from err
            stop = request.abort.subscribe(connection.shut)
            if request.abort.is_set():
                raise NoResponseError("the request was given up", sent=False)
            try:
                r, keep = connection.exchange(data, request.most, deadline)
            except (OSError, _http.Broken, ValueError) as err:
                raise NoResponseError(str(err) or type(err).__name__) from err
            return r
        finally:
            stop()
            if connection is not None:
                if keep and not request.abort.is_set():
                    self._idle.keep(origin, connection)
                else:
                    connection.close()

    def _connect(self, scheme: str, authority: str, deadline: float, abort: Signal) -> _Connection:
        u = urlsplit(f"//{authority}")
        host, port = u.hostname or "", u.port or (443 if scheme == "https" else 80)
        sock = self.connect(host, port, _left(deadline))
        try:
            if scheme == "https":
                sock.settimeout(_left(deadline))
                stop = abort.subscribe(lambda: _shut(sock))
                try:
                    sock = self._tls().wrap_socket(sock, server_hostname=host)
                finally:
                    stop()
            return _Connection(sock)
        except BaseException:
            sock.close()
            raise

    def _tls(self) -> ssl.SSLContext:
        if self._files is not None:
            return self._files.value()
        if self._context is None:
            self._context = _tls(None)
        return self._context


class _Idle:
    """The connections of a transport that no request uses."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of: dict[str, list[tuple[_Connection, float]]] = {}
        self._kept = 0
        on_fork(self)

    def after_fork(self) -> None:
        """The parent goes on using its connections: the child drops its copies of them."""
        self._lock = threading.Lock()
        idle, self._of, self._kept = self._of, {}, 0
        for connection, _ in (c for of in idle.values() for c in of):
            try:  # close the descriptor without a farewell of TLS, which would end the parent's connection
                os.close(connection.sock.detach())
            except OSError:
                pass

    def close(self) -> None:
        """Close the connections that no request uses."""
        with self._lock:
            idle, self._of, self._kept = self._of, {}, 0
        for connection, _ in (c for of in idle.values() for c in of):
            connection.close()

    def take(self, origin: str) -> _Connection | None:
        while True:
            with self._lock:
                of = self._of.get(origin)
                if not of:
                    return None
                connection, since = of.pop()
                self._kept -= 1
            if time.monotonic() - since < IDLE_TIME and not _readable(connection.sock):
                return connection
            connection.close()

    def keep(self, origin: str, connection: _Connection) -> None:
        with self._lock:
            if self._kept < MAX_IDLE:
                self._of.setdefault(origin, []).append((connection, time.monotonic()))
                self._kept += 1
                return
        connection.close()


_idle: dict[weakref.ref[HTTPTransport], _Idle] = {}
"""Of each transport. Those of one that is gone are closed when another is used, or at the end of the process: nothing runs at its own (see _call.Weak)."""


def _close_unused(ends: bool = False) -> None:
    for transport, idle in list(_idle.items()):
        if transport() is None:
            _idle.pop(transport, None)
        elif not ends:
            continue
        idle.close()


at_last(lambda: _close_unused(ends=True))


def _tls(cafile: bytes | None) -> ssl.SSLContext:
    import ssl

    if cafile is None:
        return ssl.create_default_context()
    return ssl.create_default_context(cadata=cafile.decode("ascii"))


def _nothing() -> None:
    pass


def _left(deadline: float) -> float:
    """The seconds up to a deadline, as a socket takes them; 0 would be no wait at all, and not its end."""
    return min(max(deadline - time.monotonic(), 0.0001), MAX_WAIT)


def _connected(host: str, port: int, seconds: float) -> socket.socket:
    """A connection by TCP. A look-up of a name, which cannot be interrupted, has a thread."""
    end = time.monotonic() + seconds
    problem: OSError | None = None
    for family, kind, proto, _, address in _addresses(host, port, seconds):
        sock = socket.socket(family, kind, proto)
        try:
            sock.settimeout(_left(end))
            sock.connect(address)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock
        except OSError as err:
            sock.close()
            problem = err
        except BaseException:
            sock.close()
            raise
    raise problem or OSError("its name has no address")


def _addresses(host: str, port: int, seconds: float) -> list[tuple[int, int, int, str, tuple[object, ...]]]:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
            return [(family, socket.SOCK_STREAM, 0, "", (host, port))]
        except OSError:
            pass
    found: list[object] = []
    done = threading.Event()

    def look_up() -> None:
        try:
            found.append(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except OSError as err:
            found.append(err)
        done.set()

    if spawn("look-up", look_up) is None:
        look_up()
    if not done.wait(min(seconds, threading.TIMEOUT_MAX)):
        raise TimeoutError(f"no address of {host} in time")
    if isinstance(found[0], OSError):
        raise found[0]
    return found[0]  # type: ignore[return-value]


def _unconnected(err: OSError) -> NoResponseError:
    """Why there is no connection. One that TLS does not allow is not tried again."""
    never = False
    hint = ""
    if getattr(err, "library", None) is not None or hasattr(err, "verify_code"):  # an SSLError
        import ssl

        never = isinstance(err, ssl.SSLError) and (isinstance(err, ssl.SSLCertVerificationError) or err.reason in NEVER_TLS)
        hint = ": it may not speak TLS, and its address begin with http://" if "WRONG_VERSION_NUMBER" in str(err) else ""
    problem = NoResponseError(f"{err}{hint}", sent=False, retry=not never)
    problem._never = never
    return problem


class _Connection:
    """A connection whose calls block."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.come = bytearray()
        """What has come and is not taken yet."""

    def exchange(self, data: bytes, most: int, deadline: float) -> tuple[Response, bool]:
        self.sock.settimeout(_left(deadline))
        self.sock.sendall(data)
        reading = _http.response(most)
        ask = next(reading)
        while True:
            got = self._line(ask.most + 1, deadline) if isinstance(ask, _http.Line) else self._bytes(ask.size, deadline)
            try:
                ask = reading.send(got)
            except StopIteration as end:
                response, keep = end.value
                return response, keep and not self.come  # what no one asked for is no response to the next request

    def _line(self, most: int, deadline: float) -> bytes:
        """A line with its end, or so many bytes of it, or what there is of it when the server has said all."""
        looked = 0
        while (end := self.come.find(b"\n", looked, most)) < 0 and len(self.come) < most:
            looked = len(self.come)
            if not self._more(deadline):
                break
        return self._take(end + 1 if end >= 0 else most)

    def _bytes(self, size: int, deadline: float) -> bytes:
        while len(self.come) < size and self._more(deadline):
            pass
        return self._take(size)

    def _more(self, deadline: float) -> bool:
        """Wait for more, until the deadline, however little comes at a time. False when the server has said all."""
        if time.monotonic() >= deadline:
            raise TimeoutError("timed out")
        self.sock.settimeout(_left(deadline))
        got = self.sock.recv(1 << 16)
        self.come += got
        return bool(got)

    def _take(self, size: int) -> bytes:
        taken = bytes(self.come[:size])
        del self.come[:size]
        return taken

    def shut(self) -> None:
        """End what waits for the connection, in whatever thread."""
        _shut(self.sock)

    def close(self) -> None:
        self.sock.close()


def _shut(sock: socket.socket) -> None:
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


class Address:
    """The base URL of a server."""

    def __init__(self, base_url: str, credentials: bool) -> None:
        u = _parse(base_url)
        host = u.hostname or ""
        self.name = f"{u.scheme}://{_netloc(u)}{u.path.rstrip('/')}"
        """The base URL without its password, for errors."""
        self.url = f"{u.scheme}://{u.netloc.rsplit('@', 1)[-1]}{u.path.rstrip('/')}"
        """The base URL without credentials."""
        named = u.username is not None or u.password is not None
        if u.scheme != "https" and (credentials or named) and not loopback(host):
            raise InvalidSettingError(
                "server", f"{self.name}: a token or a password must not travel over plain http: use https:// "
                "(http:// with credentials is accepted only for this machine itself)")
        self.basic = ""
        """The header of its name and password."""
        if named:
            import base64

            self.basic = "Basic " + base64.b64encode(f"{unquote(u.username or '')}:{unquote(u.password or '')}".encode()).decode()

    def request(
        self, method: str, path: str, body: bytes | None, authorization: str, most: int, abort: Signal | None,
    ) -> Request:
        headers = {"User-Agent": USER_AGENT, "Accept": "application/json, application/problem+json"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        plain = path.partition("?")[0]
        if "%" in plain:  # what resolves escapes on the way must not make another name of one
            headers["Leasehold-Path"] = plain
        if authorization:
            headers["Authorization"] = authorization
        return Request(method, self.url + path, headers, body, most, abort or Signal())


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
    import ipaddress

    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
