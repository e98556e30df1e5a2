"""64-bit IDs that sort by the time they were made, as whole numbers of Python. They travel as strings of decimal digits, and as 8 bytes, big-endian.

    reserve (0) | milliseconds since the epoch | fallback (1 bit) | rest of the machine ID | sequence

:mod:`leasehold.machineids` makes them, :mod:`leasehold.publicids` hides what they show.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from .errors import InvalidSettingError

__all__ = ["DEFAULT_EPOCH", "DEFAULT_LAYOUT", "Layout", "MAX_ID", "Parts", "format_id", "id_from_base32", "id_from_bytes", "id_to_base32", "id_to_bytes", "parse_id"]

MAX_ID = (1 << 63) - 1
DEFAULT_EPOCH = 1_767_225_600_000
"""2026-01-01T00:00:00Z in Unix milliseconds."""

_MAX_EPOCH = 253_402_300_799_999
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def _at(unix_ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=unix_ms)


def parse_id(text: str) -> int:
    """Read the decimal digits that :func:`format_id` writes, and nothing else: one ID has one spelling."""
    if not isinstance(text, str) or not 1 <= len(text) <= 19 or not text.isascii() or not text.isdigit():
        raise ValueError(f"ID {text!r}: must be 1 to 19 decimal digits")
    if len(text) > 1 and text[0] == "0":
        raise ValueError(f"ID {text!r}: must not begin with a zero")
    number = int(text)
    if number > MAX_ID:
        raise ValueError(f"ID {text!r}: must be at most {MAX_ID}")
    return number


def format_id(number: int) -> str:
    """The ID in decimal digits. In JSON it is a string: many readers hold numbers as 64-bit floats, which round above 2^53."""
    return str(_checked(number))


_BASE32 = "0123456789ABCDEFGHIJKLMNOPQRSTUV"


def id_to_base32(number: int) -> str:
    """The ID in 13 digits of base 32 (0 to 9, A to V), with zeros in front: these texts sort as IDs do, which decimal digits do not, as there are more of them
    from year to year."""
    number = _checked(number)
    return "".join(_BASE32[number >> shift & 31] for shift in range(60, -1, -5))


def id_from_base32(text: str) -> int:
    """Read what :func:`id_to_base32` writes, and nothing else."""
    if not isinstance(text, str) or len(text) != 13 or text[0] > "7" or any(c not in _BASE32 for c in text):
        raise ValueError(f"ID {text!r}: must be 13 digits from 0 to 9 and A to V, the first of them 7 at most")
    return int(text, 32)


def id_to_bytes(number: int) -> bytes:
    """The ID in 8 bytes, big-endian: bytes sort as IDs do."""
    return _checked(number).to_bytes(8, "big")


def id_from_bytes(raw: bytes) -> int:
    """Read what :func:`id_to_bytes` writes."""
    if len(raw) != 8:
        raise ValueError(f"ID has {len(raw)} bytes: must have 8")
    if raw[0] > 0x7F:
        raise ValueError("ID with its first bit set: must be at most 2^63-1")
    return int.from_bytes(raw, "big")


def _checked(number: int) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= MAX_ID:
        raise ValueError(f"ID {number!r}: must be a whole number from 0 to {MAX_ID}")
    return number


@dataclass(frozen=True)
class Parts:
    """An ID taken apart."""

    unix_ms: int
    """When it was made, in Unix milliseconds."""
    fallback: bool
    """Made without a live lease, and so unique only with high probability."""
    machine_id: int
    """Without the fallback bit; random in a fallback ID."""
    sequence: int
    """Among the IDs of this machine ID and millisecond, from 0."""
    node: int
    """Machine ID with its fallback bit, then sequence: all bits below the timestamp."""

    @property
    def time(self) -> datetime:
        """When it was made, in UTC."""
        return _at(self.unix_ms)


@dataclass(frozen=True)
class Layout:
    """Where the parts of an ID are. An ID does not carry its layout; to decode it, one must know it."""

    custom_epoch: int = DEFAULT_EPOCH
    """Unix milliseconds of the timestamp 0."""
    bit_reserve: int = 1
    """Zero bits, so that IDs are positive as signed numbers."""
    bit_ts: int = 41
    """Of the timestamp; 41 last 69 years."""
    bit_id: int = 14
    """Of the machine ID with its fallback bit."""
    bit_seq: int = 8
    """Of the sequence: a lease makes 1<<bit_seq IDs in a millisecond."""

    def validate(self) -> None:
        """Raise InvalidSettingError, which names the part at fault, if the layout cannot carry IDs."""
        for name, value, least, why in (
            ("bitReserve", self.bit_reserve, 1, "so that IDs are positive as signed 64-bit numbers"),
            ("bitTs", self.bit_ts, 32, "fewer would be used up within two months"),
            ("bitId", self.bit_id, 2, "one bit tells fallback IDs apart, one tells machines apart"),
            ("bitSeq", self.bit_seq, 1, "a machine makes more than one ID in a millisecond"),
        ):
            if value < least:
                raise InvalidSettingError(name, f"must be at least {least}: {why}")
        if not 0 <= self.custom_epoch <= _MAX_EPOCH:
            raise InvalidSettingError("customEpoch", f"{self.custom_epoch}: must be a time in Unix milliseconds from 0 to {_MAX_EPOCH} (the year 9999)")
        total = self.bit_reserve + self.bit_ts + self.bit_id + self.bit_seq
        if total != 64:
            raise InvalidSettingError("layout", f"bitReserve + bitTs + bitId + bitSeq must be 64, not {total}")

    @property
    def bit_node(self) -> int:
        """The width of what follows the timestamp."""
        return self.bit_id + self.bit_seq

    @property
    def max_machine_id(self) -> int:
        """The largest machine ID that can be leased; those above it mark fallback IDs."""
        return (1 << (self.bit_id - 1)) - 1

    @property
    def throughput(self) -> int:
        """How many IDs one lease makes in a millisecond."""
        return 1 << self.bit_seq

    @property
    def end(self) -> datetime:
        """The first instant whose timestamp no longer fits, or the year 9999 if that is earlier."""
        return _at(min(_MAX_EPOCH, self.custom_epoch + (1 << self.bit_ts)))

    def decode(self, number: int) -> Parts:
        """Take an ID apart. The layout must be the one that it was made with."""
        node = _checked(number) & ((1 << self.bit_node) - 1)
        return Parts(
            unix_ms=(number >> self.bit_node) + self.custom_epoch, fallback=node >> (self.bit_node - 1) == 1,
            machine_id=(node >> self.bit_seq) & self.max_machine_id, sequence=node & (self.throughput - 1), node=node)

    def first_id(self, t: datetime) -> int:
        """The smallest ID of a time, cut to the millisecond: with it, "made since t" is a comparison that can use an index on IDs."""
        if t.tzinfo is None:
            raise ValueError("the time must have a time zone")
        ms = (t - _EPOCH) // timedelta(milliseconds=1)
        if ms < self.custom_epoch or t >= self.end:
            raise ValueError(f"time {t.isoformat()}: must be from {_at(self.custom_epoch).isoformat()} on and before {self.end.isoformat()}")
        return (ms - self.custom_epoch) << self.bit_node


DEFAULT_LAYOUT = Layout()
"""1 reserved bit, 41 bits of milliseconds since 2026, 14 bits of machine ID, 8 bits of sequence."""
