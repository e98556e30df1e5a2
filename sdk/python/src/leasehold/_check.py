"""Whether an argument can work. The error names it, before anything is sent."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping

from .errors import InvalidSettingError

MAX_TTL = 24 * 3600.0
"""Seconds of a lease."""


def number(name: str, value: object, *, endless: bool = False) -> float:
    """A number that is one, and finite unless it may be endless."""
    if not isinstance(value, bool) and isinstance(value, (int, float)):
        try:
            seconds = float(value)
        except OverflowError:
            seconds = float("inf")
        if abs(seconds) < float("inf") or endless and seconds > 0:
            return seconds
    raise InvalidSettingError(name, f"is {show(value)}: must be a number")


def seconds(name: str, value: object) -> float:
    """How long something may take, which may be endless."""
    most = number(name, value, endless=True)
    if most < 0:
        raise InvalidSettingError(name, f"is {value}: must not be negative")
    return most


def wait(name: str, value: object) -> float:
    """How long to wait for something that is held, which may be endless. None could be either of the two."""
    if value is None:
        raise InvalidSettingError(name, "is None: leasehold.FOREVER waits for as long as it takes, 0 does not wait")
    return seconds(name, value)


def positive(name: str, value: object) -> float:
    seconds = number(name, value)
    if seconds <= 0:
        raise InvalidSettingError(name, f"is {value}: must be more than 0 seconds")
    return seconds


def whole(name: str, value: object) -> int:
    """A whole number of 64 bits."""
    if isinstance(value, bool) or not isinstance(value, int) or not -(2**63) <= value < 2**63:
        raise InvalidSettingError(name, f"is {show(value)}: must be a whole number")
    return value


def text(name: str, value: object, most: int) -> str:
    """A name of 1 to most bytes of UTF-8 without control characters."""
    if not isinstance(value, str):
        raise InvalidSettingError(name, f"is {show(value)}: must be a str")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise InvalidSettingError(name, f"{value!r}: must be UTF-8 without control characters") from None
    if not 1 <= size <= most:
        raise InvalidSettingError(name, f"has {size} bytes: must have 1 to {most}")
    if any(unicodedata.category(c) == "Cc" for c in value):
        raise InvalidSettingError(name, f"{value!r}: must be UTF-8 without control characters")
    return value


def ttl(name: str, value: object) -> float:
    seconds = number(name, value)
    if not 1 <= seconds <= MAX_TTL or seconds != int(seconds):
        raise InvalidSettingError(name, f"is {value}: must be whole seconds from 1 to {MAX_TTL:.0f}")
    return seconds


def flag(name: str, value: object) -> bool:
    """True or False: "no" and 1 are mistakes."""
    if not isinstance(value, bool):
        raise InvalidSettingError(name, f"is {show(value)}: must be True or False")
    return value


def function(name: str, value: object) -> None:
    """Something that can be called, or None."""
    if value is not None and not callable(value):
        raise InvalidSettingError(name, f"is {show(value)}: must be a function")


def labels(name: str, value: object) -> dict[str, str]:
    """Labels for people; None is none. The server bounds their number and lengths."""
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(k, str) and isinstance(v, str) for k, v in value.items()):
        raise InvalidSettingError(name, "must be a mapping of str to str")
    try:
        "".join([*value.keys(), *value.values()]).encode()
    except UnicodeEncodeError:
        raise InvalidSettingError(name, "must be UTF-8") from None
    return dict(value)


def show(value: object) -> str:
    """A value for an error; of a long one the beginning."""
    try:
        shown = repr(value)
    except ValueError:  # a number of more digits than Python writes
        return "too long"
    return shown if len(shown) <= 80 else shown[:79] + "…"
