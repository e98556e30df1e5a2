"""The middleware of :mod:`leasehold.idempotency` as applications of WSGI and of ASGI."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ._http_print import Reply, Request, problem
from ._steps import awaited, block
from ._time import Signal
from .errors import LockLostError
from .once import _ended

if TYPE_CHECKING:
    from .idempotency import Middleware, _Call

PATH = "/!$&'()*+,;=:@-._~"
"""What is not escaped in a path."""


def _too_large(most: int) -> Reply:
    return problem(413, "PAYLOAD_TOO_LARGE", "body too large", f"a request with Idempotency-Key has at most {most} bytes")


def _incomplete() -> Reply:
    return problem(400, "BODY_INCOMPLETE", "body is incomplete", "the body ended before it was whole, or this server had read it before")


def wsgi(m: Middleware, app: Callable[..., Any]) -> Callable[..., Iterable[bytes]]:
    def send(reply: Reply, start_response: Callable[..., Any]) -> list[bytes]:
        try:
            phrase = HTTPStatus(reply.status).phrase
        except ValueError:
            phrase = "Unknown"
        start_response(f"{reply.status} {phrase}", list(reply.headers))
        return [reply.body]

    def served(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        import io

        if environ["REQUEST_METHOD"] not in m.methods or "HTTP_IDEMPOTENCY_KEY" not in environ and not m.required:
            return app(environ, start_response)  # type: ignore[no-any-return]
        size = environ.get("CONTENT_LENGTH")
        most = int(size) if size else m.max_body + 1 if environ.get("wsgi.input_terminated") else 0
        body = b""
        if most <= m.max_body or not size:
            while len(body) < most and (more := environ["wsgi.input"].read(most - len(body))):
                body += more
        if max(len(body), int(size or 0)) > m.max_body:
            return send(_too_large(m.max_body), start_response)
        if size and len(body) < int(size):
            return send(_incomplete(), start_response)
        call = m.judged(_of_environ(environ, body))
        environ["wsgi.input"] = io.BytesIO(body)
        if call is None:
            return app(environ, start_response)  # type: ignore[no-any-return]
        if isinstance(call, Reply):
            return send(call, start_response)
        reply: Reply | None = None
        try:
            while reply is None:
                reply = block(m.clock, call.before(Signal()))
                if reply is None:
                    reply = block(m.clock, call.after(*_collected(call, app, {**environ, "wsgi.input": io.BytesIO(body)})))
        except BaseException:  # an interrupt
            call.left()
            raise
        return send(reply, start_response)

    return served


def _of_environ(environ: dict[str, Any], body: bytes) -> Request:
    raw = environ.get("REQUEST_URI") or environ.get("RAW_URI") or ""
    path = raw.partition("?")[0] if raw.startswith("/") else quote((environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")).encode("latin-1"), safe=PATH)
    headers = [(name[5:].replace("_", "-").lower(), str(value)) for name, value in environ.items() if name.startswith("HTTP_")]
    headers.append(("content-type", environ.get("CONTENT_TYPE", "")))
    host = environ.get("HTTP_HOST") or f"{environ.get('SERVER_NAME', '')}:{environ.get('SERVER_PORT', '')}"
    return Request(environ["REQUEST_METHOD"], path, environ.get("QUERY_STRING", ""), host, headers, body, environ)


def _collected(call: _Call, app: Callable[..., Any], environ: dict[str, Any]) -> tuple[Reply | None, Exception | None]:
    """What an application of WSGI responds, or its exception."""
    head: list[tuple[int, list[tuple[str, str]]]] = []
    pieces: list[bytes] = []

    def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Callable[[bytes], None]:
        head[:] = [(int(status.split(" ")[0]), list(headers))]
        return pieces.append

    def collect() -> None:
        made = app(environ, start)
        try:
            pieces.extend(made if made is not None else ())
        finally:
            close = getattr(made, "close", None)
            if close is not None:
                close()

    try:
        call.run_in(collect)
    except Exception as err:
        return None, err
    return (Reply(head[0][0], head[0][1], b"".join(pieces)) if head else None), None


Receive = Callable[[], Awaitable[dict[str, Any]]]
Emit = Callable[[dict[str, Any]], Awaitable[None]]


def asgi(m: Middleware, app: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    async def send(reply: Reply, emit: Emit) -> None:
        named = {name.lower() for name, _ in reply.headers}
        more = [] if "content-length" in named or reply.status in (204, 304) else [("content-length", str(len(reply.body)))]
        headers = [(name.lower().encode("latin-1"), value.encode("latin-1", "replace")) for name, value in (*reply.headers, *more)]
        await emit({"type": "http.response.start", "status": reply.status, "headers": headers})
        await emit({"type": "http.response.body", "body": reply.body})

    async def served(scope: dict[str, Any], receive: Receive, emit: Emit) -> None:
        if scope["type"] != "http" or scope["method"] not in m.methods or not m.required and all(name != b"idempotency-key" for name, _ in scope["headers"]):
            return await app(scope, receive, emit)
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return  # the caller has gone
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > m.max_body:
                return await send(_too_large(m.max_body), emit)
        call = m.judged(_of_scope(scope, body))
        if call is None:
            return await app(scope, _again(body, receive), emit)
        if isinstance(call, Reply):
            return await send(call, emit)
        keyed = call
        while True:
            reply = await awaited(m.clock, keyed.before, lambda _: keyed.left())
            if reply is None:
                task = asyncio.ensure_future(_ran(keyed, app, dict(scope), _again(body, receive)))
                m._tasks.add(task)  # it goes on when the caller has gone
                task.add_done_callback(m._tasks.discard)
                reply = await asyncio.shield(task)
            if reply is not None:
                return await send(reply, emit)

    return served


def _of_scope(scope: dict[str, Any], body: bytes) -> Request:
    headers = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in scope["headers"]]
    raw = scope.get("raw_path")
    path = raw.decode("latin-1").partition("?")[0] if raw else quote(scope["path"].encode(), safe=PATH)
    host = next((value for name, value in headers if name == "host"), "")
    return Request(scope["method"], path, scope.get("query_string", b"").decode("latin-1"), host, headers, body, scope)


def _again(body: bytes, receive: Receive) -> Receive:
    """A request's body once more."""
    given = False

    async def received() -> dict[str, Any]:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return received


async def _ran(call: _Call, app: Callable[..., Awaitable[None]], scope: dict[str, Any], receive: Receive) -> Reply | None:
    """Run an application of ASGI and store what came of it. It is cancelled if its lock is lost."""
    assert call.granted is not None
    run, lock, held = call.granted
    head: list[dict[str, Any]] = []
    pieces: list[bytes] = []

    async def emit(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            head[:] = [message]
        elif message["type"] == "http.response.body":
            pieces.append(message.get("body", b""))

    async def begun() -> None:
        await app(scope, receive, emit)

    task = call.run_in(lambda: asyncio.ensure_future(begun()))  # which has the context of this moment
    ended = await _ended(run, lock, held, task)
    if isinstance(ended, asyncio.CancelledError):
        ended = LockLostError("the application cancelled itself")
    if ended is not None and not isinstance(ended, Exception):
        call.left()
        raise ended
    error = ended
    reply = None
    if head and error is None:
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in head[0].get("headers", ())]
        reply = Reply(head[0]["status"], headers, b"".join(pieces))
    return await awaited(call.m.clock, lambda _: call.after(reply, error), lambda _: None)
