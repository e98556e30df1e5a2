"""Public IDs: 11 characters that show neither when an ID was made nor how many there are.

    users = Converter([Key(secret=secret)], entity="user")
    text = users.encode(user_id)          # "9xO-N-buxPg"
    user_id = users.decode(text)          # MalformedError, KeyNumberError, ImplausibleError: there is nothing to look up

AES is written in Python here, because the standard library has none: about a thousand conversions a second, and without protection against those who can measure the time of
single operations on the same machine. Where that matters, convert in another program.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from .errors import InvalidSettingError, LeaseholdError
from .ids import DEFAULT_LAYOUT, MAX_ID, Layout

__all__ = ["Converter", "ImplausibleError", "Key", "KeyNumberError", "LENGTH", "MalformedError", "PublicIDError"]

LENGTH = 11
MIN_SECRET_BYTES = 16
MAX_ENTITY_BYTES = 64
AHEAD_MS = 60_000
"""How far in the future the timestamp of an ID may be when it is decoded: clocks differ."""

Mode = Literal["ff1-aes256", "ff1-aes128", "unkeyed"]


class PublicIDError(LeaseholdError, ValueError):
    """A text that is no public ID of the converter."""


class MalformedError(PublicIDError):
    """The text cannot be a public ID of any key. position is that of the first wrong character, from 1; 0 if the length is wrong."""

    def __init__(self, text: str, position: int = 0) -> None:
        super().__init__(text)
        self.position = position


class KeyNumberError(PublicIDError):
    """The last character names a key that the converter does not have."""

    def __init__(self, number: int, known: Sequence[int]) -> None:
        super().__init__(
            f"public ID names key {number} in its last character, known are {', '.join(map(str, known))}: check the character, or configure the key")
        self.number = number


class ImplausibleError(PublicIDError):
    """No ID of this can have been made: it was made up, or belongs to another entity or secret. Respond as for an ID that does not exist."""


@dataclass(frozen=True)
class Key:
    """One way to convert IDs. Its number is in every public ID made with it, so number, mode and secret of a key that was in use never change."""

    number: int = 0
    """From 0 to 3; with unkeyed only 0."""
    mode: Mode = "ff1-aes256"
    secret: bytes = field(default=b"", repr=False)
    """16 random bytes or more; none with unkeyed."""

    def derive(self) -> bytes:
        """The AES key: HKDF-SHA256 of the secret."""
        size = 16 if self.mode == "ff1-aes128" else 32
        extracted = hmac.new(b"\0" * 32, self.secret, hashlib.sha256).digest()
        return hmac.new(extracted, f"leasehold extid {self.mode}".encode() + b"\x01", hashlib.sha256).digest()[:size]


class Converter:
    """Converts IDs to public IDs and back: it encodes with the first key, and decodes with the key that a public ID names.

    entity
        What the IDs name, such as "user": at most 64 bytes of printable ASCII. Under one secret each entity has public IDs of its own. The unkeyed mode does not use it.
    layout
        That of the IDs.
    any_id
        Turns off the check whether an ID can have been made, for numbers that are not made by a generator.
    now_ms
        The clock that timestamps are compared with, in Unix milliseconds.
    """

    def __init__(
        self, keys: Sequence[Key], *, entity: str = "", layout: Layout = DEFAULT_LAYOUT, any_id: bool = False, now_ms: Callable[[], int] | None = None,
    ) -> None:
        layout.validate()
        if not isinstance(entity, str) or len(entity) > MAX_ENTITY_BYTES or any(not " " < c <= "~" for c in entity):
            raise InvalidSettingError("entity", f"must be at most {MAX_ENTITY_BYTES} bytes of printable ASCII without spaces")
        if not isinstance(keys, Sequence) or not keys or not all(isinstance(k, Key) for k in keys):
            raise InvalidSettingError("keys", 'give at least one; Key(mode="unkeyed") is the one without a secret')
        self._permutations: dict[int, _FF1 | _Mixer] = {}
        secrets: list[bytes] = []
        for key in keys:
            if key.number not in (0, 1, 2, 3):
                raise InvalidSettingError("number", f"is {key.number}: must be from 0 to 3")
            if key.number in self._permutations:
                raise InvalidSettingError("number", f"two keys have the number {key.number}: give each its own")
            if key.mode == "unkeyed":
                if key.number != 0 or key.secret:
                    raise InvalidSettingError("mode", "the unkeyed mode has no secret, and its number is 0")
                self._permutations[0] = _Mixer()
                continue
            if key.mode not in ("ff1-aes256", "ff1-aes128"):
                raise InvalidSettingError("mode", f"is {key.mode!r}: must be ff1-aes256, ff1-aes128 or unkeyed")
            if not isinstance(key.secret, bytes):
                raise InvalidSettingError("secret", "must be bytes")
            if len(key.secret) < MIN_SECRET_BYTES:
                raise InvalidSettingError("secret", f"has {len(key.secret)} bytes: must have at least {MIN_SECRET_BYTES} random ones")
            if key.secret in secrets:
                raise InvalidSettingError("secret", "two keys have the same one: give each its own")
            secrets.append(key.secret)
            self._permutations[key.number] = _FF1(key.derive(), entity.encode())
        self._current = keys[0].number
        self._layout, self._any_id = layout, any_id
        self._now_ms = now_ms or (lambda: time.time_ns() // 1_000_000)

    def encode(self, number: int) -> str:
        """The public ID of an ID."""
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 1 << 64:
            raise ValueError(f"ID {number!r}: must be a whole number of 64 bits")
        return to_text(self._permutations[self._current].forward(number), self._current)

    def decode(self, text: str) -> int:
        """The ID of a public ID."""
        bits, number = from_text(text)
        permutation = self._permutations.get(number)
        if permutation is None:
            raise KeyNumberError(number, sorted(self._permutations))
        found = permutation.inverse(bits)
        if not self._plausible(found):
            raise ImplausibleError("public ID belongs to no ID that can have been made: treat it as not found")
        return found

    def _plausible(self, number: int) -> bool:
        if number > MAX_ID or self._any_id:
            return number <= MAX_ID
        timestamp = number >> self._layout.bit_node
        return timestamp >> self._layout.bit_ts == 0 and timestamp <= self._now_ms() + AHEAD_MS - self._layout.custom_epoch


_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def to_text(bits: int, number: int) -> str:
    """64 bits and the number of a key as 11 characters."""
    return base64.urlsafe_b64encode(((bits << 2 | number) << 6).to_bytes(9, "big"))[:LENGTH].decode()


def from_text(text: str) -> tuple[int, int]:
    """The 64 bits and the number of the key, read strictly."""
    value = 0
    for position, c in enumerate(text[:LENGTH + 1], 1):  # the rest says no more, and may be megabytes
        digit = _ALPHABET.find(c)
        if digit < 0:
            raise MalformedError(f"public ID has {c!r} at position {position}: only A to Z, a to z, 0 to 9, '-' and '_' are allowed", position)
        value = value << 6 | digit
    if len(text) != LENGTH:
        raise MalformedError(f"public ID has {len(text)} characters: must have exactly {LENGTH}")
    return value >> 2, value & 3


_MASK = (1 << 64) - 1


class _Mixer:
    """A public permutation: it hides, and does not protect."""

    def forward(self, x: int) -> int:
        x ^= 0x9E3779B97F4A7C15
        x ^= x >> 33
        x = x * 0xFF51AFD7ED558CCD & _MASK
        x ^= x >> 33
        x = x * 0xC4CEB9FE1A85EC53 & _MASK
        return x ^ x >> 33

    def inverse(self, x: int) -> int:
        x ^= x >> 33
        x = x * pow(0xC4CEB9FE1A85EC53, -1, 1 << 64) & _MASK
        x ^= x >> 33
        x = x * pow(0xFF51AFD7ED558CCD, -1, 1 << 64) & _MASK
        x ^= x >> 33
        return x ^ 0x9E3779B97F4A7C15


class _FF1:
    """FF1 of NIST SP 800-38G with radix 2 and 64 digits."""

    def __init__(self, key: bytes, tweak: bytes) -> None:
        self._aes = _AES(key)
        prefix = bytes.fromhex("01020100 00020a20 00000040") + len(tweak).to_bytes(4, "big")
        whole = tweak + b"\0" * (-(len(tweak) + 5) % 16)
        state = self._aes.encrypt(prefix)
        for i in range(0, len(whole) - len(whole) % 16, 16):
            state = self._aes.encrypt(_xor(state, whole[i:i + 16]))
        self._state, self._rest = state, whole[len(whole) - len(whole) % 16:]

    def _round(self, i: int, half: int) -> int:
        block = self._rest + bytes([i]) + half.to_bytes(4, "big")
        return int.from_bytes(self._aes.encrypt(_xor(self._state, block))[4:8], "big")

    def forward(self, x: int) -> int:
        left, right = x >> 32, x & 0xFFFFFFFF
        for i in range(10):
            left, right = right, left + self._round(i, right) & 0xFFFFFFFF
        return left << 32 | right

    def inverse(self, x: int) -> int:
        left, right = x >> 32, x & 0xFFFFFFFF
        for i in range(9, -1, -1):
            left, right = right - self._round(i, left) & 0xFFFFFFFF, left
        return left << 32 | right


def _xor(a: bytes, b: bytes) -> bytes:
    return (int.from_bytes(a, "big") ^ int.from_bytes(b, "big")).to_bytes(16, "big")


def _double(x: int) -> int:
    return (x << 1 ^ 0x11B) & 0xFF if x & 0x80 else x << 1


def _sbox() -> list[int]:
    box, p, q = [0] * 256, 1, 1
    while True:
        p ^= _double(p)  # times 3
        q ^= q << 1
        q ^= q << 2
        q ^= q << 4
        q &= 0xFF
        if q & 0x80:
            q ^= 0x09
        turned = q ^ (q << 1 | q >> 7) ^ (q << 2 | q >> 6) ^ (q << 3 | q >> 5) ^ (q << 4 | q >> 4)
        box[p] = (turned ^ 0x63) & 0xFF
        if p == 1:
            box[0] = 0x63
            return box


_BOX = _sbox()
_TABLES: list[list[int]] = []
for _shift in (24, 16, 8, 0):  # what one byte of a column becomes, as a word
    _row = []
    for _s in _BOX:
        _word = _double(_s) << 24 | _s << 16 | _s << 8 | (_double(_s) ^ _s)
        _turn = 24 - _shift
        _row.append((_word >> _turn | _word << (32 - _turn)) & 0xFFFFFFFF if _turn else _word)
    _TABLES.append(_row)


class _AES:
    """AES (FIPS 197), encryption of one block."""

    def __init__(self, key: bytes) -> None:
        n = len(key) // 4
        words = [int.from_bytes(key[4 * i:4 * i + 4], "big") for i in range(n)]
        constant = 1
        for i in range(n, 4 * (n + 7)):
            t = words[-1]
            if i % n == 0:
                t = _sub((t << 8 | t >> 24) & 0xFFFFFFFF) ^ constant << 24
                constant = _double(constant)
            elif n > 6 and i % n == 4:
                t = _sub(t)
            words.append(words[i - n] ^ t)
        self._words = words

    def encrypt(self, block: bytes) -> bytes:
        w = self._words
        t0, t1, t2, t3 = _TABLES
        x = int.from_bytes(block, "big")
        a, b, c, d = x >> 96 ^ w[0], x >> 64 & 0xFFFFFFFF ^ w[1], x >> 32 & 0xFFFFFFFF ^ w[2], x & 0xFFFFFFFF ^ w[3]
        for r in range(4, len(w) - 4, 4):
            a, b, c, d = (
                t0[a >> 24] ^ t1[b >> 16 & 255] ^ t2[c >> 8 & 255] ^ t3[d & 255] ^ w[r],
                t0[b >> 24] ^ t1[c >> 16 & 255] ^ t2[d >> 8 & 255] ^ t3[a & 255] ^ w[r + 1],
                t0[c >> 24] ^ t1[d >> 16 & 255] ^ t2[a >> 8 & 255] ^ t3[b & 255] ^ w[r + 2],
                t0[d >> 24] ^ t1[a >> 16 & 255] ^ t2[b >> 8 & 255] ^ t3[c & 255] ^ w[r + 3],
            )
        end = len(w) - 4
        return b"".join(
            (((_BOX[p >> 24] << 24 | _BOX[q >> 16 & 255] << 16 | _BOX[s >> 8 & 255] << 8 | _BOX[u & 255]) ^ w[end + i]).to_bytes(4, "big"))
            for i, (p, q, s, u) in enumerate(((a, b, c, d), (b, c, d, a), (c, d, a, b), (d, a, b, c))))


def _sub(word: int) -> int:
    return _BOX[word >> 24] << 24 | _BOX[word >> 16 & 255] << 16 | _BOX[word >> 8 & 255] << 8 | _BOX[word & 255]
