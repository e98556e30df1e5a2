"""Credentials that change while the program runs: tokens of files and of functions, certificates of files."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from ._call import on_fork
from .errors import InvalidSettingError, NoResponseError

T = TypeVar("T")

MAX_BYTES = 1 << 20
"""Of a file of credentials."""


class Files(Generic[T]):
    """What is made of a file, which is read again when it has changed. What was made last stays while the file is missing, empty or half written."""

    def __init__(self, name: str, path: str | os.PathLike[str], make: Callable[[bytes], T]) -> None:
        """make raises a ValueError or an OSError if it makes nothing of the content."""
        if not isinstance(path, (str, os.PathLike)):
            raise InvalidSettingError(name, "must be the path of a file")
        self._name, self._path, self._make = name, path, make
        self._made: tuple[T] | None = None
        self._seen: tuple[int, int, int] | None = None
        self.after_fork()
        on_fork(self)
        try:
            self.value()
        except NoResponseError as err:
            raise InvalidSettingError(name, str(err)) from err.__cause__

    def after_fork(self) -> None:
        self._mutex = threading.Lock()

    def value(self, again: bool = False) -> T:
        """What the file says. It is read if it has changed, and again whether or not it seems to have."""
        with self._mutex:
            problem: Exception | None = None
            try:
                s = os.stat(self._path)
                seen = (s.st_mtime_ns, s.st_size, s.st_ino)
                if self._made is None or again or seen != self._seen:
                    if self._made is not None and not stat.S_ISREG(s.st_mode):  # a pipe would be waited for
                        raise ValueError("it is no file any more")
                    with open(self._path, "rb") as f:
                        content = f.read(MAX_BYTES)
                    self._made = (self._make(content),)
                    self._seen = seen
            except (OSError, ValueError) as err:
                problem = err
            if self._made is None:
                raise NoResponseError(f"{self._name} {os.fspath(self._path)!r} cannot be read: {problem}", sent=False, retry=False) from problem
            return self._made[0]


class Token:
    """The bearer token of requests: a str, a function that returns one, or that of a file."""

    def __init__(self, token: str | Callable[[], str] | None, file: str | os.PathLike[str] | None) -> None:
        if token is not None and file is not None:
            raise InvalidSettingError("token_file", "is set beside token")
        self.given = token is not None or file is not None
        self._token = token
        self._file = None if file is None else Files("token_file", file, _in_file)
        if isinstance(token, str):
            word(token)
        elif token is not None and not callable(token):
            raise InvalidSettingError("token", "must be a str or a function that returns one")

    def get(self, again: bool = False) -> str:
        """The token; empty if there is none. The file is read again if it changed, or after a request was not authenticated."""
        if self._file is not None:
            return self._file.value(again)
        token = self._token
        if callable(token):
            try:
                token = token()
            except Exception as err:
                raise NoResponseError(f"get a token: {err}", sent=False, retry=False) from err
            if token is None:  # a request without a token is another request
                raise InvalidSettingError("token", "the function returned None: it must return a token")
        return "" if token is None else word(token)

    @property
    def changes(self) -> bool:
        """Whether another look can find another token."""
        return self._file is not None or callable(self._token)


def _in_file(content: bytes) -> str:
    try:
        return word(content.decode("ascii").strip())
    except InvalidSettingError as err:
        raise ValueError(str(err)) from None


def word(token: object) -> str:
    """A token, which is one word."""
    if not isinstance(token, str) or not token or any(c <= " " or c > "~" for c in token):
        raise InvalidSettingError("token", "must be one word of printable ASCII")
    return token
