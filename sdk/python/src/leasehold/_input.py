"""What a run is about: canonical JSON of its input, and keys that are made of arguments."""

from __future__ import annotations

import json
import re
import string
from collections.abc import Callable, Collection, Mapping
from decimal import Decimal
from typing import Any

from . import _check
from .errors import InvalidSettingError


class NoJSON(ValueError):
    """JSON does not have a value, or has others that are read as the same."""


def canonical(value: object, where: str) -> str:
    """A value in canonical JSON, as RFC 8785 has it."""
    try:
        return _canonical(value, where)
    except RecursionError:
        raise NoJSON(f"{where} is nested too deeply, or within itself") from None


def _canonical(value: object, where: str) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value, where)
    if isinstance(value, (int, float)):
        return _number(value, where)
    if isinstance(value, (list, tuple)):
        return f"[{','.join(_canonical(v, f'{where}[{i}]') for i, v in enumerate(value))}]"
    if isinstance(value, dict):
        for k in value:
            if not isinstance(k, str):
                raise NoJSON(f"{where} has the key {_check.show(k)}, which is no str")
        members: dict[str, tuple[str, str]] = {k: (_text(k, f"a key of {where}"), _canonical(v, f"{where}[{k!r:.40}]")) for k, v in value.items()}
        return f"{{{','.join(':'.join(members[k]) for k in sorted(members, key=lambda k: k.encode('utf-16-be')))}}}"
    raise NoJSON(f"{where} is a {type(value).__name__}, which JSON does not have")


def _text(value: str, where: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise NoJSON(f"{where} is not valid Unicode") from None
    return json.dumps(value, ensure_ascii=False)


def _number(value: float, where: str) -> str:
    """A number as ECMAScript writes it."""
    try:
        f = float(value)
    except OverflowError:
        f = float("inf")
    if abs(f) == float("inf") or f != f or isinstance(value, int) and int(f) != value:
        raise NoJSON(f"{where} is {_check.show(value)}, which is no 64-bit float, as which JSON is read")
    if f == 0:
        return "0"
    _, numbers, exponent = Decimal(float.__repr__(abs(f))).normalize().as_tuple()
    assert isinstance(exponent, int)
    digits = "".join(map(str, numbers))
    point = len(digits) + exponent
    if len(digits) <= point <= 21:
        text = digits + "0" * (point - len(digits))
    elif 0 < point <= 21:
        text = f"{digits[:point]}.{digits[point:]}"
    elif -6 < point <= 0:
        text = f"0.{'0' * -point}{digits}"
    else:
        text = f"{digits[0]}{'.' * (len(digits) > 1)}{digits[1:]}e{point - 1:+d}"
    return text if f > 0 else f"-{text}"


class Key:
    """A format string with the names of arguments, whose fields are escaped."""

    def __init__(self, text: str, names: Collection[str]) -> None:
        self._text = text
        self._fields: list[tuple[str, str, str, str | None]] = []  # the text before, the field, its format, its conversion
        self.whole: set[str] = set()
        """The arguments that it says as they are."""
        before = ""
        try:
            parsed = list(string.Formatter().parse(text))
        except ValueError as err:
            raise InvalidSettingError("key", f"{_check.show(text)} is no format string: {err}") from err
        for literal, name, spec, conversion in parsed:
            before += literal
            if name is None:
                continue
            argument = re.split(r"[.\[]", name)[0]
            if argument not in names:
                raise InvalidSettingError("key", f"{_check.show(text)} has {{{name}}}, which is no argument: there {'is' if len(names) == 1 else 'are'} {', '.join(names) or 'none'}")
            if self._fields and before[:1] in ("", "~", *"0123456789ABCDEF"):
                raise InvalidSettingError(
                    "key", f"{_check.show(text)} needs text before {{{name}}} that does not begin with a digit, A to F or ~, or other arguments could make the same key")
            if name == argument and not spec:
                self.whole.add(argument)
            self._fields.append((before, name, spec or "", conversion))
            before = ""
        self._end = before

    def of(self, arguments: Mapping[str, Any]) -> str:
        """The key of a call."""
        formatter = string.Formatter()
        made = ""
        try:
            for i, (before, name, spec, conversion) in enumerate(self._fields):
                value = formatter.convert_field(formatter.get_field(name, (), arguments)[0], conversion)  # type: ignore[arg-type]
                part = formatter.format_field(value, formatter.vformat(spec, (), arguments))
                then = self._fields[i + 1][0][0] if i + 1 < len(self._fields) else ""
                made += before + "".join(_escaped(c) if c in ("~", "/", then) else c for c in part)
        except (KeyError, IndexError, AttributeError, TypeError, ValueError) as err:
            raise InvalidSettingError("key", f"{_check.show(self._text)} cannot be made of the arguments: {type(err).__name__}: {err}") from err
        return made + self._end


def _escaped(c: str) -> str:
    return "".join(f"~{b:02X}" for b in c.encode())


def ignored(ignore: object, names: Collection[str]) -> frozenset[str]:
    """The names of arguments that do not count."""
    if isinstance(ignore, str) or not isinstance(ignore, Collection) or not all(isinstance(n, str) for n in ignore):
        raise InvalidSettingError("ignore", f"is {_check.show(ignore)}: must be a tuple of names of arguments, such as (\"session\",)")
    for name in ignore:
        if name not in names:
            raise InvalidSettingError("ignore", f"has {_check.show(name)}, which is no argument: there {'is' if len(names) == 1 else 'are'} {', '.join(names) or 'none'}")
    return frozenset(ignore)


def of_arguments(arguments: Mapping[str, object], ignore: Collection[str], whole: Collection[str], fingerprint: Callable[[object], str]) -> str:
    """The fingerprint of the arguments of a call; empty without any that count. One that JSON does not have counts by the key that says it whole."""
    counted: dict[str, object] = {}
    for name, value in arguments.items():
        if name in ignore:
            continue
        try:
            canonical(value, name)
        except NoJSON as err:
            if name in whole:
                continue
            raise InvalidSettingError(
                name, f"calls of one key are compared by their arguments, and {err}. Pass what JSON has, say it in the key as {{{name}}}, or leave it out: ignore=({name!r},)") from err
        counted[name] = value
    return fingerprint(counted) if counted else ""
