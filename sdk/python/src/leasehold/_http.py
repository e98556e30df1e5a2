"""HTTP/1.1 without input and output: the bytes of a request, and what the bytes of a response say."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, NamedTuple, TypeVar

MAX_LINE = 65536
"""Bytes of a line of a response."""

MAX_FIELDS = 100
"""Fields of the head of a response, and lines after its body."""


class Headers(dict[str, str]):
    """The fields of a response. Their names are the same in capitals."""

    def __setitem__(self, name: str, value: str) -> None:
        super().setdefault(name.lower(), value)  # of several the first

    def get(self, name: str, default: Any = None) -> Any:
        return super().get(name.lower(), default)


class Response(NamedTuple):
    """What came of a request."""

    status: int
    reason: str
    headers: Headers
    content: bytes

    @property
    def media_type(self) -> str:
        return (self.headers.get("Content-Type") or "").split(";")[0].strip().lower()


class Broken(Exception):
    """The bytes that arrived are no whole response."""


class Line(NamedTuple):
    """Asks for the bytes up to the next line feed, with it, or up to the end of the connection."""

    most: int
    """Bytes; the answer to a longer line is any part of it that is longer than MAX_LINE."""


class Bytes(NamedTuple):
    """Asks for so many bytes, or those up to the end of the connection; -1 asks for all of these."""

    size: int


T = TypeVar("T")
Reading = Generator["Line | Bytes", bytes, T]


def request(method: str, target: str, host: str, fields: Mapping[str, str], payload: bytes | None) -> bytes:
    """The bytes of a request."""
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", "Accept-Encoding: identity"]
    lines += [f"{name}: {value}" for name, value in fields.items()]
    if payload is not None or method == "POST":
        lines.append(f"Content-Length: {len(payload or b'')}")
    return "\r\n".join([*lines, "", ""]).encode("ascii") + (payload or b"")


def response(most: int) -> Reading[tuple[Response, bool]]:
    """Read a response, of whose body so many bytes at most, and whether the connection can be used again."""
    while True:
        version, status, reason = _status((yield from _line()))
        headers = _message((yield from _fields()))
        if status >= 200:
            break
        if status == 101:
            raise Broken("it changes to another protocol")
    tokens = (headers.get("Connection") or "").lower()
    keep = "close" not in tokens if version >= "HTTP/1.1" else "keep-alive" in tokens
    if status in (204, 304):
        return Response(status, reason, headers, b""), keep
    if (headers.get("Transfer-Encoding") or "").strip().lower() == "chunked":
        content = yield from _chunks(most)
        return Response(status, reason, headers, content), keep and len(content) < most
    length = headers.get("Content-Length")
    if length is not None:
        if not length.isascii() or not length.isdigit():
            raise Broken("its length is no number")
        size = int(length) if len(length) < 19 else most + 1
        content = yield Bytes(min(size, most))
        if len(content) < min(size, most):
            raise Broken(f"it ends after {len(content)} of {length} bytes")
        return Response(status, reason, headers, content), keep and size <= most
    content = yield Bytes(-1 if most < 0 else most)
    if not content:
        raise Broken("it has no length, and no body")
    return Response(status, reason, headers, content), False


def _line() -> Reading[bytes]:
    line = yield Line(MAX_LINE)
    if len(line) > MAX_LINE:
        raise Broken("it has a line without end")
    if not line.endswith(b"\n"):
        raise Broken("the connection ended before it" if not line else "the connection ended within it")
    return line


def _status(line: bytes) -> tuple[str, int, str]:
    words = line.decode("iso-8859-1").strip().split(None, 2)
    if len(words) < 2 or not words[0].startswith("HTTP/1.") or not (
            words[1].isascii() and words[1].isdigit() and len(words[1]) == 3):
        raise Broken("it is not HTTP")
    return words[0], int(words[1]), words[2] if len(words) > 2 else ""


def _fields() -> Reading[list[str]]:
    """The lines up to an empty one. A line that goes on with the one before is part of that."""
    lines: list[str] = []
    while True:
        line = (yield from _line()).decode("iso-8859-1").rstrip("\r\n")
        if not line:
            return lines
        if line[0] in " \t" and lines:
            lines[-1] += " " + line.strip()
        else:
            lines.append(line)
        if len(lines) > MAX_FIELDS or len(lines[-1]) > MAX_LINE:
            raise Broken("it has too many fields")


def _message(fields: list[str]) -> Headers:
    headers = Headers()
    for line in fields:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise Broken("a field of its head has no name")
        headers[name] = value.strip()
    return headers


def _chunks(most: int) -> Reading[bytes]:
    got: list[bytes] = []
    left = most
    while True:
        text = (yield from _line()).split(b";")[0].strip()
        try:
            size = int(text, 16) if text.isalnum() and len(text) < 16 else -1
        except ValueError:
            size = -1
        if size < 0:
            raise Broken("the size of a part is no number")
        if size == 0:
            yield from _fields()
            return b"".join(got)
        part = yield Bytes(min(size, left))
        got.append(part)  # what the end of the connection cut is followed by no line
        left -= len(part)
        if left == 0:
            return b"".join(got)
        yield from _line()
