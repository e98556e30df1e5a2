"""HTTP requests with a key as values: their keys, what is compared of them, and responses as they are sent and stored. Programs in all languages make the same."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from email.message import Message
from typing import Any
from urllib.parse import parse_qsl, quote_plus, unquote_to_bytes

from .errors import InvalidSettingError
from .once import MAX_RESULT_BYTES

DOCS = "https://github.com/leasehold-dev/leasehold/blob/main/docs/guides/idempotency.md#"

STORED = (
    "Cache-Control", "Content-Disposition", "Content-Encoding", "Content-Language", "Content-Type", "Etag", "Last-Modified", "Link", "Location", "Retry-After", "Vary",
)
"""Fields of a response that are always stored."""

INCOMPARABLE = frozenset((
    "Host", "Idempotency-Key", "Content-Length", "Transfer-Encoding", "Trailer", "Connection", "Keep-Alive", "Proxy-Authorization", "Proxy-Connection", "Te", "Upgrade", "Expect",
))
"""Fields of a request that are compared anyway, or are about its connection."""


@dataclass(frozen=True)
class Request:
    """A request as the middleware sees it."""

    method: str
    path: str
    """As it was sent, escaped."""
    query: str
    host: str
    headers: Sequence[tuple[str, str]]
    """Names are in lower case."""
    body: bytes = b""
    raw: Mapping[str, Any] = field(default_factory=dict)
    """The environ of WSGI, or the scope of ASGI."""

    def header(self, name: str) -> str:
        """The value of a field, of the first line if there are several; "" if there is none."""
        return next((v for n, v in self.headers if n == name.lower()), "")


@dataclass(frozen=True)
class Reply:
    """A response."""

    status: int
    headers: Sequence[tuple[str, str]]
    body: bytes

    def fields(self) -> dict[str, str]:
        return {name.lower(): value for name, value in reversed(self.headers)}

    def replay(self, more: Sequence[str]) -> Reply:
        """What later callers get."""
        return Reply(self.status, [*_stored(self.headers, more), ("Idempotency-Replayed", "true")], self.body)


def problem(status: int, code: str, title: str, detail: str, again: float | None = None) -> Reply:
    """A problem document (RFC 9457). again is after how many seconds the request may be sent again, at least 1."""
    body = {"type": DOCS + code.lower(), "title": title, "status": status, "code": code, "retryable": again is not None, "detail": detail}
    more = [] if again is None else [("Retry-After", str(math.ceil(max(again, 1.0))))]
    return Reply(status, [("Content-Type", "application/problem+json"), *more], json.dumps(body).encode() + b"\n")


def key_of(request: Request) -> str | None:
    """The key of a request: a string of Structured Fields (RFC 8941), "8e03978e-40d5", or the same without quotes. None without the field; ValueError says what is wrong."""
    lines = [value for name, value in request.headers if name == "idempotency-key"]
    if not lines:
        return None
    if len(lines) > 1:
        raise ValueError("is given more than once: a request has one key")
    text = lines[0].strip(" \t")
    if text.startswith('"'):
        if not re.fullmatch(r'"([ !#-\[\]-~]|\\["\\])*"', text):
            raise ValueError("is no string in quotes, of printable ASCII, with nothing after it")
        text = re.sub(r"\\(.)", r"\1", text[1:-1])
    elif re.search(r'[^!-~]|[",;\\]', text):
        raise ValueError(
            "must be a string in quotes, or characters of printable ASCII without spaces, quotes, backslashes, commas and semicolons")
    if not text:
        raise ValueError("is empty: make up a key, such as a UUID")
    if len(text) > 255:
        raise ValueError("has more than 255 characters")
    return text


def name_of(names: Sequence[str]) -> list[str]:
    """Names of header fields that are compared, sorted, each once."""
    made = sorted({_canonical(name) for name in names})
    for name in made:
        if name in INCOMPARABLE or not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
            raise InvalidSettingError("headers", f"has {name!r}: it is compared anyway, is about the connection, or is no name of a field")
    return made


def _canonical(name: str) -> str:
    return "-".join(part.capitalize() for part in name.split("-"))


def hashed(*parts: str | bytes) -> str:
    """The SHA-256 in base64url of parts, each preceded by its length."""
    h = hashlib.sha256()
    for part in parts:
        raw = part if isinstance(part, bytes) else part.encode("utf-8", "surrogateescape")
        size = len(raw)
        while size >= 0x80:
            h.update(bytes((size & 0x7F | 0x80,)))
            size >>= 7
        h.update(bytes((size,)) + raw)
    return base64.urlsafe_b64encode(h.digest()).decode().rstrip("=")


def run_id(name: str, scope: str, key: str) -> str:
    """The ID of the run of a request, to look at its record: the name of the middleware, what its scope returned, and the key without quotes."""
    return hashed(name, scope, key)


def fingerprint(
    request: Request, headers: Sequence[str], ignore_host: bool, payload: Callable[[Request], bytes] | None,
) -> tuple[str, dict[str, str]]:
    """What the gate compares, and hashes of the fields that are compared with a stored response."""
    host = "" if ignore_host else re.sub(r":(80|443)$", "", request.host.lower())
    whole: list[str | bytes] = ["bytes", request.body]
    body: list[str | bytes] = ["chosen", payload(request)] if payload is not None else _form(request) or whole
    made = hashed(request.method, request.path, request.query, host, *body)
    return "1." + made, {f"header {name}": hashed(*(v for n, v in request.headers if n == name.lower())) for name in headers}


def _form(request: Request) -> list[str | bytes] | None:
    """The fields and files of a form; None if there is none, or it cannot be read whole."""
    kind = Message()
    kind["content-type"] = request.header("content-type")
    found: dict[bytes, list[bytes]] = {}
    if kind.get_content_type() == "application/x-www-form-urlencoded" and request.method in ("POST", "PUT", "PATCH"):
        for part in filter(None, request.body.split(b"&")):
            if re.search(rb";|%(?![0-9A-Fa-f]{2})", part):
                return None
            name, _, value = part.replace(b"+", b" ").partition(b"=")
            found.setdefault(unquote_to_bytes(name), []).append(unquote_to_bytes(value))
        return _listed("field", found)
    boundary = kind.get_boundary()
    if kind.get_content_type() != "multipart/form-data" or not boundary:
        return None
    first, *parts = (b"\r\n" + request.body).split(b"\r\n--" + boundary.encode())
    if not parts or not parts.pop().startswith(b"--") or not all(p.startswith(b"\r\n") and b"\r\n\r\n" in p for p in parts):
        return None
    for part in parts:
        head, _, content = part.partition(b"\r\n\r\n")
        found.setdefault(b"\n".join(sorted(head.strip().split(b"\r\n"))), []).append(content)
    return _listed("part", found)


def _listed(kind: str, found: Mapping[bytes, Sequence[bytes]]) -> list[str | bytes] | None:
    made: list[str | bytes] = ["form"]
    for name, values in sorted(found.items()):
        made += [kind, name, str(len(values)), *values]
    return made if found else None


def _stored(headers: Sequence[tuple[str, str]], more: Sequence[str]) -> list[tuple[str, str]]:
    names = {_canonical(name) for name in (*STORED, *more)}
    return sorted(((_canonical(n), v) for n, v in headers if _canonical(n) in names), key=lambda f: f[0])


@dataclass(frozen=True)
class Record:
    """A response as it is stored."""

    status: int
    header: str
    """As in the query of a URL."""
    form: str
    """How the body is stored: "text", "base64", or "none" if it is too large."""
    size: int
    body: bytes
    parts: Mapping[str, str]
    """Of the request's fingerprint, what the gate does not compare."""

    @staticmethod
    def of(reply: Reply, more: Sequence[str], parts: Mapping[str, str]) -> Record:
        header = "&".join(f"{quote_plus(n, encoding='latin-1')}={quote_plus(v, encoding='latin-1', errors='replace')}" for n, v in _stored(reply.headers, more))
        try:
            reply.body.decode()
            form = "base64" if b"\0" in reply.body else "text"
        except UnicodeDecodeError:
            form = "base64"
        made = Record(reply.status, header, form, len(reply.body), reply.body, parts)
        return made if len(made.text().encode()) <= MAX_RESULT_BYTES else Record(reply.status, "", "none", len(reply.body), b"", parts)

    def text(self) -> str:
        line: dict[str, Any] = {"v": 1, "status": self.status, "header": self.header, "body": self.form, "bytes": self.size, "parts": dict(self.parts)}
        text = json.dumps({k: v for k, v in line.items() if v or k == "bytes"}, separators=(",", ":")).replace("&", "\\u0026")
        return text + "\n" + (base64.b64encode(self.body) if self.form == "base64" else self.body).decode()

    @staticmethod
    def read(text: str) -> Record:
        """ValueError says why it is none."""
        line, found, body = text.partition("\n")
        try:
            r = json.loads(line)
            raw = base64.b64decode(body, validate=True) if r["body"] == "base64" else body.encode() if r["body"] == "text" else b""
            made = Record(r["status"], r.get("header", ""), r["body"], r["bytes"], raw, r.get("parts", {}))
            if not found or r["v"] != 1 or not 200 <= made.status <= 999 or made.form not in ("text", "base64", "none") or made.form != "none" and len(raw) != made.size:
                raise ValueError("its members do not fit")
            return made
        except (ValueError, KeyError, TypeError, AttributeError) as err:
            raise ValueError(f"the stored text is no response of this middleware, or of a later version of it: {err}") from err

    def replay(self) -> Reply:
        if self.form == "none":
            return problem(
                409, "IDEMPOTENT_RESPONSE_NOT_STORED", "response was not stored",
                f"the request was carried out before, with the status {self.status}; its response of {self.size} bytes was too large to be stored")
        fields = parse_qsl(self.header, keep_blank_values=True, encoding="latin-1")
        return Reply(self.status, [*fields, ("Idempotency-Replayed", "true")], self.body)
