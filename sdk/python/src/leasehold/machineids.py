"""Make 64-bit IDs that sort by time, from leased machine IDs: no request per ID.

    with Generator(client.machine_ids(), service="orders") as ids:
        order_id = ids.next_id()

A lease of a machine ID is the right to an interval of timestamps. The server never lets the intervals of a machine ID overlap, and the generator writes a timestamp
into an ID only if it lies in the interval: that is why no two IDs are equal, whatever clocks show. The IDs of one generator increase strictly.

A daemon thread acquires leases and replaces them when 85 to 95 % of their time have passed. Without a lease, IDs are made in fallback mode: their highest bit of the machine ID
is set, so they never equal one made under a lease, and two processes can make equal ones with a small probability. ``fallback=False`` raises LeaseAcquisitionError instead. A
fallback is never silent: the logger "leasehold.machineids" gets one warning when the server grants no leases and one when it does again.

A child of a fork never uses the leases of its parent: it leases machine IDs of its own.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import random
import secrets
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from . import _check, _outcome, codes
from ._call import bounded, on_fork, spawn
from ._steps import Send, Wires, asked, may_block, sent
from ._time import Backoff, Clock, Signal
from ._http import Response
from .client import Client
from .errors import PASSING, ApiError, ClosedError, InvalidResponseError, InvalidSettingError, LeaseholdError, NoResponseError
from .ids import DEFAULT_LAYOUT, Layout
from .types import MachineIDLeases

__all__ = [
    "ClockBackwardError", "ConfigurationError", "Generator", "Lease", "LeaseAcquisitionError", "LeaseProvider", "MachineIDs", "Stats", "TimeRangeError", "WrongServerError", "sign",
]

log = logging.getLogger("leasehold.machineids")

REQUEST_TIME = 10.0
ACQUIRE_TIME = 30.0  # seconds of one attempt; less when a lease is about to end
LEAST_TIME = 1.0
MOST_PATIENCE = 1.0  # seconds for which IDs wait for an attempt where there is a fallback
MAX_BYTES = 16 << 20
ANCHOR_EVERY = 1.0
JUMP = 1.0
MAX_SAMPLE_ERROR = 0.001
GOOD_SAMPLE_ERROR = 0.00001
SAMPLES = 10
RENEW_FROM, RENEW_TO = 0.85, 0.95
PATROL = 10.0
MAX_NAP = 0.1
INSTEAD = "there is no lease yet, or the clock was set back: `await asyncio.to_thread(ids.next_id)`"
OVERSLEEP = 4
GAP = 100
SEALED = 1 << 62
FOREVER = 1 << 62


class ClockBackwardError(LeaseholdError):
    """The clock is further behind the last ID than max_backward_ms allows. Nothing was issued; the error stays until the clock has caught up to within the limit."""

    def __init__(self, backward_ms: int, limit_ms: int) -> None:
        super().__init__(f"the clock moved backward by {backward_ms} ms (limit: {limit_ms} ms): check NTP and the system's time settings")
        self.backward_ms, self.limit_ms = backward_ms, limit_ms


class TimeRangeError(LeaseholdError):
    """The clock shows a time that does not fit into an ID."""


class LeaseAcquisitionError(LeaseholdError):
    """There is no lease, the last attempt to get one failed, and fallback is turned off. ``__cause__`` is the failure."""


class ConfigurationError(LeaseholdError):
    """There never was a lease, and the server sent something else: its URL, the credentials or the service are wrong."""


class WrongServerError(ConfigurationError, InvalidResponseError):
    """What responds is no server of machine IDs."""


@dataclass(frozen=True)
class Lease:
    """The right to make IDs with one machine ID and the timestamps from created to expired, in Unix milliseconds, the latter excluded."""

    id: int
    created: int
    expired: int
    secret: str
    layout: Layout

    def __repr__(self) -> str:
        return f"Lease(machine ID {self.id} from {self.created} to {self.expired})"


def sign(secret: str, machine_id: int, timestamp: int) -> str:
    """The signature of a release: HMAC-SHA256 under the lease's secret of "id:timestamp" in decimal, as lower-case hexadecimal digits."""
    return hmac.new(secret.encode(), f"{machine_id}:{timestamp}".encode(), hashlib.sha256).hexdigest()


class LeaseProvider(Protocol):
    """Leases machine IDs."""

    def acquire(self, service: str, throughput_per_ms: int, meta: Mapping[str, str]) -> list[Lease]:
        """Lease as many machine IDs as the throughput needs. An error that no retry cures is a ConfigurationError."""
        ...

    def release(self, service: str, machine_id: int, signature: str, timestamp: int) -> None:
        """End a lease before it expires. Releasing one that no longer exists is no error."""
        ...


class MachineIDs:
    """The machine IDs of a server. Each call sends one request, which it ends after 10 s, for the server soon after
    that: the generator tries again by itself, and leases whose response was lost expire. Only if the server says that
    the end is wrong by its time, the request is sent once more."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def acquire(self, service: str = "", throughput_per_ms: int = 0, meta: Mapping[str, str] | None = None) -> list[Lease]:
        """Lease machine IDs. MachineIdsExhaustedError means that none is free."""
        body: dict[str, Any] = {}
        if service:
            body["serviceId"] = service
        if meta:
            body["meta"] = dict(meta)
        if throughput_per_ms:
            body["throughputPerMs"] = throughput_per_ms
        content = self._send(lambda abort: asked(
            self._client.grant, "/v1/machine-ids/lease", body, wanted=REQUEST_TIME, seconds=REQUEST_TIME, abort=abort, most=MAX_BYTES,
            member="notAfter"))
        try:
            got = _outcome.check_shape(json.loads(content), MachineIDLeases)
            if not got.get("leases"):
                raise _outcome.missing()
        except (ValueError, RecursionError, InvalidResponseError) as err:
            raise WrongServerError(f"invalid response of {self._client.name}: {err}") from err
        return [
            Lease(
                r.get("id", 0), r.get("created", 0), r.get("expired", 0), r.get("secret", ""),
                Layout(r.get("customEpoch", 0), r.get("bitReserve", 0), r.get("bitTs", 0), r.get("bitId", 0), r.get("bitSeq", 0)))
            for r in got["leases"]
        ]

    def release(self, service: str, machine_id: int, signature: str, timestamp: int) -> None:
        """End a lease. One that has expired, or that the server does not know, counts as released."""
        body: dict[str, Any] = {"signature": signature, "timestamp": timestamp}
        if service:
            body["serviceId"] = service
        try:
            self._send(lambda abort: asked(
                self._client.once, "DELETE", f"/v1/machine-ids/lease/{machine_id}", body, seconds=REQUEST_TIME, abort=abort,
                most=MAX_BYTES))
        except ConfigurationError as err:
            if not isinstance(err.__cause__, codes.NotFoundError):
                raise

    def _send(self, do: Callable[[Signal], Wires[Response]]) -> bytes:
        client = self._client
        r: Response = sent(client._clock, Send(REQUEST_TIME, do))
        if 200 <= r.status < 300:
            return r.content
        err = client.rejection(r)
        if _misconfigured(r.status, err):
            raise (WrongServerError if isinstance(err, InvalidResponseError) else ConfigurationError)(str(err)) from err
        raise err


def _misconfigured(status: int, err: LeaseholdError) -> bool:
    """Whether a response is to be cured by those who run the program or the server. A damaged document is not: IDs go on without a lease."""
    if isinstance(err, ApiError):
        return _outcome.final(err) and not isinstance(err, codes.DocumentDamagedError)
    return status not in PASSING and (status < 500 or status == 501)


@dataclass
class Stats:
    """The counters of a generator, since it was made: each only grows, unless it says otherwise. The names with dots are those of the metrics that they are to be exported as."""

    service: str = ""
    """As in the settings: the attribute ``leasehold.service``."""
    active_leases: int = 0
    """Now: leases whose interval contains the present. ``leasehold.ids.leases``"""
    throughput_per_ms: int = 0
    """Now: IDs in a millisecond under them. ``leasehold.ids.throughput``, which is per second"""
    fallback: bool = False
    """Now: IDs are made without a lease. ``leasehold.ids.fallback``, 0 or 1"""
    acquire_attempts: int = 0
    """Attempts to acquire leases. ``leasehold.ids.acquire.attempts``"""
    acquire_failures: int = 0
    """Of them, those that failed. ``leasehold.ids.acquire.failures``"""
    leases_rejected: int = 0
    """Granted, but rejected: counted in the failures, too. ``leasehold.ids.leases.rejected``"""
    epoch_mismatches: int = 0
    """Leases with another epoch than the IDs before: rejected, but for the first one after fallback IDs if its epoch is earlier. ``leasehold.ids.epoch.mismatches``"""
    ids: int = 0
    """IDs that were made, fallback IDs included. ``leasehold.ids.issued``"""
    fallback_ids: int = 0
    """Of them, those without a lease. ``leasehold.ids.issued.fallback``"""
    sequence_waits: int = 0
    """How often IDs had to wait because those of the millisecond were used up. ``leasehold.ids.sequence.waits``"""
    clock_backward: int = 0
    """Steps back of the wall clock, by a millisecond or more. ``leasehold.ids.clock.backward``"""
    last_backward_ms: float = 0.0
    """The size of the last one, in milliseconds. ``leasehold.ids.clock.backward.last``, which is in seconds"""
    clock_forward: int = 0
    """Jumps forward by a second or more, such as after a suspension. ``leasehold.ids.clock.forward``"""


class _Held:
    """A lease that was accepted, as a range of timestamps and of numbers below them."""

    def __init__(self, lease: Lease) -> None:
        lay = lease.layout
        self.lease = lease
        self.start = lease.created - lay.custom_epoch
        self.until = min(lease.expired - lay.custom_epoch, 1 << lay.bit_ts)
        self.low, self.high = lease.id << lay.bit_seq, (lease.id + 1) << lay.bit_seq
        self.renew_at = 0
        self.suspect = False


class _Segment:
    """A span of milliseconds in which the same leases are usable, or none."""

    def __init__(self, node: int) -> None:
        self.start = self.until = self.cap = 0
        self.node = self.unit = node  # widths: below the timestamp; of the smallest sequence among the leases
        self.nodes: list[int] = []
        self.leases = 0
        self.fallback = False
        self.random = False  # each millisecond begins with a random index of those of cached leases
        self.keys = (0, 0)

    def use(self, leases: list[_Held]) -> None:
        leases = sorted(leases, key=lambda h: h.low)
        self.unit = min([self.node, *(h.lease.layout.bit_seq for h in leases)])
        self.cap = sum(h.high - h.low for h in leases)
        self.nodes = [n for h in leases for n in range(h.low, h.high, 1 << self.unit)]

    def room(self, ms: int) -> int:
        return self.cap - self.first(ms) if self.random else self.cap

    def first(self, ms: int) -> int:
        """The number that a millisecond's fallback IDs begin with, drawn anew for each millisecond as a keyed hash of it."""
        bound = self.cap if self.random else (1 << (self.node - 1)) - self.cap + 1
        return _mix(_mix(ms ^ self.keys[0]) ^ self.keys[1]) * bound >> 64

    def id(self, ms: int, index: int) -> int:
        if self.fallback:
            n = self.first(ms) + index
            if self.random:
                n = self.nodes[n >> self.unit] | n & ((1 << self.unit) - 1)
            return ms << self.node | 1 << (self.node - 1) | n
        return ms << self.node | self.nodes[index >> self.unit] | index & ((1 << self.unit) - 1)


_MASK = (1 << 64) - 1


def _mix(x: int) -> int:
    """The finalizer of MurmurHash3."""
    x ^= x >> 33
    x = x * 0xFF51AFD7ED558CCD & _MASK
    x ^= x >> 33
    x = x * 0xC4CEB9FE1A85EC53 & _MASK
    return x ^ x >> 33


@dataclass
class _Action:
    """What a call has to do that got no ID. Without anything: try again at once."""

    error: LeaseholdError | None = None
    attempt: Signal | None = None
    within: float = ANCHOR_EVERY
    """Seconds for which that is waited for."""
    until: int | None = None
    late: bool = False


class Generator:
    """Makes IDs. It may be used by several threads at once. :meth:`close` must be called at the end, or ``with`` be used.

    provider
        Such as ``client.machine_ids()``; None makes fallback IDs only.
    service
        Names the service whose machine IDs are leased.
    throughput_per_ms
        How many IDs per millisecond are needed; 256 is one lease of the default layout. Further IDs wait for the next millisecond.
    fallback
        False makes next_id fail where it would make IDs without a lease.
    retry_interval, retry_max_interval
        Bound the seconds between attempts to acquire: the first, and the largest.
    max_backward_ms
        How far the clock may be behind the last ID. Up to that limit IDs use up the last millisecond and then wait for the clock; beyond it they fail with
        ClockBackwardError. 0 fails with the next call. A negative number waits without limit.
    epoch, bit_ts
        The epoch in Unix milliseconds and the width of the timestamp until the first lease sets them.
    burst_window
        Seconds, up to 60, that timestamps may be in the past, so that a short burst passes at once.
    max_skew
        Seconds that a lease may begin before or after the local time.
    meta
        Labels for people who read the server's log; None means the host's name and the process's ID.
    """

    def __init__(
        self, provider: LeaseProvider | None, *, service: str = "", throughput_per_ms: int = 256, fallback: bool = True, retry_interval: float = 1.0,
        retry_max_interval: float = 60.0, max_backward_ms: int = 5000, epoch: int = 0, bit_ts: int = 0, burst_window: float = 0.0, max_skew: float = 5.0,
        meta: Mapping[str, str] | None = None, clock: Clock | None = None,
    ) -> None:
        if _check.whole("throughput_per_ms", throughput_per_ms) < 1:
            raise InvalidSettingError("throughput_per_ms", f"is {throughput_per_ms}: must be at least 1")
        if not 0 < _check.number("retry_interval", retry_interval) <= _check.number("retry_max_interval", retry_max_interval):
            raise InvalidSettingError("retry_interval", f"is {retry_interval}: must be more than 0 and at most retry_max_interval, {retry_max_interval}")
        if not 0 <= _check.number("burst_window", burst_window) <= 60:
            raise InvalidSettingError("burst_window", f"is {burst_window}: must be from 0 to 60 seconds")
        _check.positive("max_skew", max_skew)
        _check.whole("max_backward_ms", max_backward_ms)
        _check.whole("epoch", epoch)
        if not isinstance(service, str):
            raise InvalidSettingError("service", "must be a str")
        if _check.whole("bit_ts", bit_ts) and not 32 <= bit_ts <= 60:
            raise InvalidSettingError("bit_ts", f"is {bit_ts}: must be from 32 to 60")
        if not _check.flag("fallback", fallback) and provider is None:
            raise InvalidSettingError("provider", "is None and fallback is turned off: no ID could ever be made")
        layout = DEFAULT_LAYOUT if not epoch else replace(DEFAULT_LAYOUT, custom_epoch=epoch)
        if bit_ts:
            node = 64 - layout.bit_reserve - bit_ts
            seq = min(layout.bit_seq, node - 2)
            layout = replace(layout, bit_ts=bit_ts, bit_seq=seq, bit_id=node - seq)
        layout.validate()
        if throughput_per_ms > 1 << (layout.bit_node - 1):
            raise InvalidSettingError("throughput_per_ms", f"is {throughput_per_ms}: a millisecond has {1 << (layout.bit_node - 1)} IDs at most")
        self._provider, self._service, self._throughput, self._fallback = provider, service, throughput_per_ms, fallback
        self._retry, self._retry_max = retry_interval, retry_max_interval
        self._backward, self._skew, self._window = max_backward_ms, int(max_skew * 1000), int(burst_window * 1000)
        self._meta = _check.labels("meta", meta) if meta is not None else {"pid": str(os.getpid()), "host": socket.gethostname()}
        self._clock = clock or Clock()
        self._layout = layout
        self._stats = Stats(service)
        self._mutex = threading.RLock()
        self._held: list[_Held] = []
        self._cached: list[_Held] = []
        self._leased = self._settled = self._closed = self._trying = False
        self._since: float | None = None  # when the attempt began, or IDs waited for it first
        self._failures = 0
        self._failure: BaseException | None = None
        self._told: set[str] = set()
        self._tried, self._woken, self._stopped, self._done = Signal(), Signal(), Signal(), Signal()
        self._try_at = float("-inf")
        self._last, self._index, self._crowded = 0, SEALED, -1
        self._segment = self._open()
        self._base = 0.0
        self._rebase()
        self._thread_pid = 0
        if provider is not None:
            on_fork(self)
        self._start()

    def __enter__(self) -> Generator:
        if self._provider is not None:
            may_block("use it without a block, and close it with `await asyncio.to_thread(ids.close)`")
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.close()
        except LeaseholdError:
            pass  # it was logged, and the lease expires

    @property
    def layout(self) -> Layout:
        """How this generator's IDs are laid out: by its leases, or before the first one by its settings."""
        with self._mutex:
            return self._layout

    def next_id(self, timeout: float | None = None) -> int:
        """An ID larger than all that this generator returned before.

        It waits for the next millisecond when this one's IDs are used up, for a clock that was set back, and, if there is no lease and no attempt has failed yet, for
        the attempt's outcome. timeout bounds that, in seconds: after it the error is a TimeoutError. Other errors are ClockBackwardError, LeaseAcquisitionError,
        ConfigurationError, TimeRangeError and ClosedError. Where an event loop runs, a wait for a lease, or of more than 0.1 s for the clock, is an EventLoopError; one for
        the next millisecond is not.
        """
        return self.next_ids(1, timeout)[0]

    def next_ids(self, count: int, timeout: float | None = None) -> list[int]:
        """So many IDs in ascending order. IDs of other callers may lie between them."""
        if _check.whole("count", count) < 1:
            raise InvalidSettingError("count", f"is {count}: must be at least 1")
        end = None if timeout is None else self._clock.monotonic() + _check.seconds("timeout", timeout)
        self._start()
        if self._backward == 0:
            self._check_wall()
        got: list[int] = []
        late = False
        while True:
            with self._mutex:
                if not self._closed:
                    self._anchor(False)
                    self._take(count - len(got), late, got)
                if len(got) == count:
                    return got
                action = self._diagnose()
            if action.error is not None:
                raise action.error
            left = float("inf") if end is None else end - self._clock.monotonic()
            if left <= 0:
                raise TimeoutError("no ID could be made in time")
            late = action.late
            if action.attempt is not None:
                may_block(INSTEAD)
                self._clock.wait(min(left, action.within), action.attempt)
                late = False
            elif action.until is not None:
                wait = max(0.0, action.until / 1000 - self._seconds())
                if wait > MAX_NAP:
                    may_block(INSTEAD)
                self._clock.wait(min(left, MAX_NAP, wait))

    def stats(self) -> Stats:
        """The counters, as a copy."""
        with self._mutex:
            now = self._millis()
            active = [] if self._closed else [h.lease.layout.throughput for h in self._held if h.start <= now < h.until]
            return replace(self._stats, active_leases=len(active), throughput_per_ms=sum(active), fallback=self._segment.fallback)

    def close(self) -> None:
        """Stop the generator for good: it makes no more IDs, then releases the leases that have not expired.

        If one cannot be released the error says why; it expires by itself. The end of a ``with`` block logs that instead.
        """
        with self._mutex:
            if self._closed:
                return
            if self._provider is not None:
                may_block("call it in a thread, with `await asyncio.to_thread(ids.close)`")
            self._closed = True
            self._install(lambda start: None)
        self._stopped.set()
        self._woken.set()
        if self._provider is None or self._thread_pid != os.getpid():
            return
        while not self._done.is_set():  # an acquire that is under way may bring more leases
            self._clock.wait(None, self._done)
        with self._mutex:
            held, self._held = self._held, []
        problem = self._release([h.lease for h in held])
        if problem is not None:
            raise problem

    def after_fork(self) -> None:
        """The leases of the parent are not the child's, nor is what it makes in fallback mode, nor what it counted."""
        self._mutex = threading.RLock()
        self._stats = Stats(self._stats.service)
        self._held, self._cached = [], []
        self._trying, self._failures, self._failure, self._told = False, 0, None, set()
        self._since = None
        self._tried, self._woken, self._stopped, self._done = Signal(), Signal(), Signal(), Signal()
        self._try_at = float("-inf")
        self._segment = self._open()
        self._index = SEALED
        if "pid" in self._meta:
            self._meta = {**self._meta, "pid": str(os.getpid())}

    # Time.

    def _seconds(self) -> float:
        """Seconds since the epoch, by the monotonic clock and the last sample of the wall clock."""
        return self._clock.monotonic() + self._base

    def _millis(self) -> int:
        return max(0, int(self._seconds() * 1000))

    def _sample(self) -> tuple[float, bool]:
        """What to add to the monotonic clock for the time since the epoch, and whether that was measured well."""
        best, base = float("inf"), 0.0
        for _ in range(SAMPLES):
            before = self._clock.monotonic()
            wall = self._clock.wall()
            took = self._clock.monotonic() - before
            if took < best:
                best, base = took, wall - self._layout.custom_epoch / 1000 - before
            if best <= GOOD_SAMPLE_ERROR:
                break
        return base, best <= MAX_SAMPLE_ERROR

    def _rebase(self) -> None:
        self._base, _ = self._sample()
        self._anchor_at = self._clock.monotonic() + ANCHOR_EVERY

    def _anchor(self, force: bool) -> None:
        """Sample the wall clock if that is due, and note its steps."""
        now = self._clock.monotonic()
        if now < self._anchor_at and not force:
            return
        base, good = self._sample()
        if good:
            step = base - self._base
            if step <= -0.001:
                self._stats.clock_backward += 1
                self._stats.last_backward_ms = -step * 1000
            elif step >= JUMP:
                self._stats.clock_forward += 1
                for h in self._held:
                    h.suspect = True
                if self._held:
                    self._woken.set()
            self._base = base
        self._anchor_at = now + ANCHOR_EVERY

    def _check_wall(self) -> None:
        """Compare the wall clock with the last ID, where no step back is allowed. One millisecond may be the error of the sample."""
        with self._mutex:
            at = int(self._clock.wall() * 1000) - self._layout.custom_epoch
            if self._last - at <= 1 or self._closed:
                return
            self._anchor(True)
            raise ClockBackwardError(self._last - at, 0)

    # IDs.

    def _open(self) -> _Segment:
        return _Segment(self._layout.bit_node)

    def _take(self, count: int, late: bool, into: list[int]) -> None:
        """Append up to so many IDs that can be made now."""
        while count > 0:
            s, now = self._segment, int(self._seconds() * 1000) if self._seconds() >= 0 else -1
            last, index = self._last, self._index
            room = s.room(last)
            if now < 0 or last >= s.until or last > now + 1 and not late:
                return
            following = max(s.start, now - self._window) if now > self._window else s.start
            if last < following and last + OVERSLEEP >= following:
                if index >= room:
                    following = max(s.start, last + 1)
                elif last >= s.start and self._crowded == last:
                    following = last
            if not (last >= following and index < room):
                following = max(following, last + 1)
                if following > now or following >= s.until:
                    return
                if following == last + 1 and room <= index < SEALED:
                    self._crowded = following
                last, index = following, 0
                room = s.room(last)
            n = min(count, room - index)
            into.extend(s.id(last, i) for i in range(index, index + n))
            self._last, self._index = last, index + n
            self._stats.ids += n
            if s.fallback:
                self._stats.fallback_ids += n
            count -= n

    def _install(self, build: Any) -> bool:
        """Put a segment into force, after all IDs that were issued. Where build finds none, none is in force."""
        start = self._millis()
        start = max(start - min(start, self._window), self._last + 1)
        s = build(start) or self._open()
        self._segment, self._index = s, SEALED
        self._settled = self._settled or s.cap > 0
        return bool(s.cap > 0)

    def _build(self, at: int, before: int) -> _Segment | None:
        """The segment that a millisecond lies in. If no lease is usable then, but one begins later, not after before, it is the segment that begins with that one."""
        end = 1 << self._layout.bit_ts
        if at >= end:
            return None
        live = [h for h in self._held if h.start <= at < h.until]
        later = min((h.start for h in self._held if at < h.start), default=FOREVER)
        if not live:
            return None if later > before or later >= end else self._build(later, before)
        s = self._open()
        s.start, s.until, s.leases = at, min(end, later, *(h.until for h in live)), len(live)
        s.use(live)
        return s

    def _build_fallback(self, at: int) -> _Segment | None:
        """A segment without a live lease, which ends where a lease begins."""
        end = 1 << self._layout.bit_ts
        if at >= end:
            return None
        s = self._open()
        s.fallback = True
        s.keys = (secrets.randbits(64), secrets.randbits(64))
        s.start, s.until = at, min([end, *(h.start for h in self._held if at < h.start)])
        last = self._last_leases(at)
        if last:
            s.random = True
            s.use(last)
        else:
            s.cap = min(self._throughput, 1 << (s.node - 2))
        return s

    def _last_leases(self, at: int) -> list[_Held]:
        """The leases whose machine IDs are used for fallback IDs: those that this process had last, but for those that another process may share."""
        for leases in (self._held, self._cached):
            found: list[_Held] = []
            for h in sorted((h for h in leases if not h.suspect and at >= h.start), key=lambda h: -h.until):
                if not any(h.low < o.high and o.low < h.high for o in found):
                    found.append(h)
            if found:
                return found
        return []

    def _diagnose(self) -> _Action:
        """Find out why no ID could be made."""
        if self._closed:
            return _Action(error=ClosedError("the generator is closed"))
        self._anchor(False)
        if self._seconds() < 0:
            return _Action(error=TimeRangeError("the time does not fit into an ID"))
        now, s, last, index = self._millis(), self._segment, self._last, self._index
        late = last > now + 1
        if late and 0 <= self._backward < last - now:
            return _Action(error=ClockBackwardError(last - now, self._backward))
        most = max(self._backward, self._skew)
        if s.start > now and self._backward >= 0 and s.start - now > most:
            return _Action(error=ClockBackwardError(s.start - now, most))
        room = s.room(last)
        following = max(s.start, now - min(now, self._window))
        if last >= following:
            following = last + 1 if index >= room else last
        if following > now and (not late or index >= room):
            if room <= index < SEALED:
                self._stats.sequence_waits += 1
            return _Action(until=following, late=late)
        if following >= s.until:
            return self._change(now)
        return _Action(late=late)

    def _latest_start(self, now: int) -> int:
        """The last millisecond at which a lease may begin for callers to wait for it."""
        return now + GAP if self._fallback else FOREVER

    def _change(self, now: int) -> _Action:
        """Leave the segment for the one that now lies in, if there is one."""
        if now >= 1 << self._layout.bit_ts:
            return _Action(error=TimeRangeError("the time does not fit into an ID"))
        if self._install(lambda start: self._build(start, self._latest_start(now))):
            return _Action()
        if self._provider is not None:
            self._woken.set()
            coming = any(now < h.start for h in self._held)
            if not self._fallback and (self._failures == 0 and not coming or self._trying):
                return _Action(attempt=self._tried)
            if self._fallback and self._failures == 0 and not coming:
                if self._since is None:
                    self._since = self._clock.monotonic()
                patience = MOST_PATIENCE - (self._clock.monotonic() - self._since)
                if patience > 0:
                    return _Action(attempt=self._tried, within=patience)
            if not self._fallback:
                err: LeaseholdError = LeaseAcquisitionError(f"no lease could be acquired and fallback is turned off: {self._failure}")
                err.__cause__ = self._failure
                return _Action(error=err)
            if not self._leased and isinstance(self._failure, ConfigurationError):
                err = ConfigurationError(f"the lease provider granted no lease: {self._failure}")
                err.__cause__ = self._failure
                return _Action(error=err)
        self._install(self._build_fallback)
        return _Action()

    # Leases.

    def _start(self) -> None:
        if self._provider is None or self._thread_pid == os.getpid() or self._closed:
            return
        with self._mutex:
            if self._thread_pid != os.getpid():
                self._thread_pid = os.getpid()
                if spawn("machine IDs", self._renew) is None:
                    self._done.set()

    def _renew(self) -> None:
        """The thread that acquires."""
        while not self._stopped.is_set():
            with self._mutex:
                self._woken = Signal() if not self._stopped.is_set() else self._woken
                need, wait = self._plan()
                woken = self._woken
            if need > 0 and wait <= 0:
                self._acquire(need)
                continue
            self._clock.wait(min(wait, PATROL), woken, self._stopped)
        with self._mutex:
            self._tried.set()
        self._done.set()

    def _plan(self) -> tuple[int, float]:
        """How much throughput is to be acquired after how many seconds."""
        self._anchor(False)
        now, need, due = self._millis(), self._throughput, FOREVER
        for h in self._held:
            if not h.suspect and now < h.renew_at:
                need -= h.lease.layout.throughput
                due = min(due, h.renew_at)
        if need <= 0:
            return 0, (due - now) / 1000
        return need, self._try_at - self._clock.monotonic()

    def _acquire(self, need: int) -> None:
        assert self._provider is not None
        with self._mutex:
            self._trying, self._since = True, self._clock.monotonic()
            # Half of what is left of the leases, so that it has ended, and another attempt had its turn, when they do.
            lasts = (max((h.until for h in self._held), default=0) - self._millis()) / 1000
            most = max(LEAST_TIME, min(ACQUIRE_TIME, lasts / 2)) if lasts > 0 else ACQUIRE_TIME
            self._stats.acquire_attempts += 1
            self._anchor(True)
            began = int(self._seconds() * 1000)
        leases: list[Lease] = []
        problem: Exception | None = None
        provider = self._provider
        try:
            leases = bounded(self._clock, most, lambda abort: provider.acquire(self._service, need, self._meta), cancel=self._stopped)
        except Exception as err:  # also what a provider raises that is not known here
            problem = err
        self._release(self._conclude(leases, problem, began))

    def _conclude(self, leases: list[Lease], problem: Exception | None, began: int) -> list[Lease]:
        """Record the outcome of an attempt, and return the leases to be released."""
        unwanted: list[Lease] = []
        with self._mutex:
            self._trying, self._since = False, None
            if problem is None:
                unwanted, problem = self._accept(leases, began)
            now = self._clock.monotonic()
            if problem is None:
                if self._failures:
                    log.warning("the lease provider grants leases again after %d failures", self._failures)
                self._failures, self._failure, self._told = 0, None, set()
                pause = min([self._retry, *((le.expired - le.created) / 10_000 for le in leases)])
                self._try_at = now + max(pause, 0.001)
            elif not self._stopped.is_set():
                self._failures += 1
                self._failure = problem
                self._stats.acquire_failures += 1
                kind = type(problem).__name__
                if kind not in self._told:
                    self._told.add(kind)
                    then = "fallback IDs" if self._fallback and (self._leased or not isinstance(problem, ConfigurationError)) else "no IDs"
                    log.warning("the lease provider grants no leases, so there are %s: %s", then, problem)
                self._try_at = now + self._delay(problem)
            self._tried.set()
            self._tried = Signal()
        return unwanted

    def _delay(self, problem: BaseException) -> float:
        asks = _outcome.retry_after(problem)
        if isinstance(problem, (codes.MachineIdsExhaustedError, codes.MachineIdLimitError)) and asks > 0:
            return min(asks + random.uniform(0, self._retry), self._retry_max)
        return max(Backoff(self._retry, self._retry_max, equal_jitter=True).delay(self._failures - 1), min(asks, self._retry_max))

    def _accept(self, leases: list[Lease], began: int) -> tuple[list[Lease], Exception | None]:
        """Hold the usable leases and put them into effect. Those that are not wanted are returned, with an error if any was rejected."""
        if not leases:
            return [], InvalidResponseError("the provider granted no lease")
        self._anchor(True)
        fresh: list[_Held] = []
        unwanted: list[Lease] = []
        faults: list[str] = []

        def reject(le: Lease, why: str) -> None:
            faults.append(f"lease of machine ID {le.id} rejected: {why}")
            unwanted.append(le)
            self._stats.leases_rejected += 1

        for le in leases:
            why = self._unusable(le, began, not fresh)
            if why:
                reject(le, why)
            else:
                fresh.append(_Held(le))
        for h in list(fresh):
            others = [o for o in [*self._held, *fresh[: fresh.index(h)]] if o is not h]
            if any(o.low < h.high and h.low < o.high and o.start < h.until and h.start < o.until for o in others):
                fresh.remove(h)
                reject(h.lease, "it could make the same IDs as another lease that is held")
        share = random.uniform(RENEW_FROM, RENEW_TO)
        for h in fresh:
            h.renew_at = h.start + int((h.until - h.start) * share)
        if self._closed:
            self._held += fresh
        elif fresh:
            now, was_fallback = self._millis(), self._segment.fallback
            gone = [h for h in self._held if now >= h.until or h.suspect]
            if gone:
                self._cached = gone
            self._held = [h for h in self._held if h not in gone] + fresh
            self._leased = True
            self._install(lambda start: self._build(start, self._latest_start(now)) or (self._build_fallback(start) if was_fallback else None))
        keys = {(h.lease.id, h.lease.secret) for h in self._held}
        return [le for le in unwanted if (le.id, le.secret) not in keys], InvalidResponseError("; ".join(faults)) if faults else None

    def _unusable(self, le: Lease, began: int, first: bool) -> str:
        """Why a lease cannot be used; empty if it can. The first lease of all decides the layout."""
        lay = le.layout
        try:
            lay.validate()
        except InvalidSettingError as err:
            return str(err)
        now = int(self._seconds() * 1000)
        sole = not self._held and not self._leased and first
        same = lay.bit_ts == self._layout.bit_ts and lay.bit_reserve == self._layout.bit_reserve
        if sole and not self._settled or sole and lay.custom_epoch < self._layout.custom_epoch and same:
            shift = self._layout.custom_epoch - lay.custom_epoch
            began, now = began + shift, now + shift
        elif lay.custom_epoch != self._layout.custom_epoch:
            self._stats.epoch_mismatches += 1
            return f"customEpoch is {lay.custom_epoch}, that of the IDs before is {self._layout.custom_epoch}"
        elif not same:
            return f"bitReserve and bitTs are {lay.bit_reserve} and {lay.bit_ts}: those of the IDs before are {self._layout.bit_reserve} and {self._layout.bit_ts}"
        start, until = le.created - lay.custom_epoch, le.expired - lay.custom_epoch
        if not 0 <= le.id <= lay.max_machine_id:
            return f"id: must be from 0 to {lay.max_machine_id}"
        if le.created >= le.expired:
            return f"created {le.created} and expired {le.expired}: the interval is empty"
        if start < 0 or start >> lay.bit_ts:
            return f"created {le.created}: the time does not fit into an ID"
        if start > now + self._skew:
            return f"it begins in {start - now} ms: the local clock is behind the provider's by more than max_skew, {self._skew} ms"
        if start < began - self._skew:
            return f"it began {began - start} ms before it was asked for: the local clock is ahead of the provider's by more than max_skew, {self._skew} ms"
        if until <= now:
            return f"it ended {now - until} ms ago"
        if lay != self._layout:
            moved = lay.custom_epoch != self._layout.custom_epoch
            if moved and self._settled:
                self._stats.epoch_mismatches += 1
                log.warning("IDs go on with the epoch of the first lease: customEpoch is %d, that of the fallback IDs before is %d: set epoch", lay.custom_epoch, self._layout.custom_epoch)
                self._last += self._layout.custom_epoch - lay.custom_epoch
            self._layout = lay
            if not self._settled:
                self._segment = self._open()
            if moved:
                self._rebase()
        return ""

    def _release(self, leases: list[Lease]) -> LeaseholdError | None:
        """Release leases, as far as that works, and say what did not. No ID has a later timestamp by now."""
        problem: LeaseholdError | None = None
        if not leases or self._provider is None:
            return problem
        with self._mutex:
            latest = max(self._millis(), self._last) + self._layout.custom_epoch
        for le in leases:
            at = max(latest, le.created - 1)
            if le.expired <= at:
                continue
            try:
                self._provider.release(self._service, le.id, sign(le.secret, le.id, at), at)
            except Exception as err:
                log.warning("release machine ID %d, which expires: %s", le.id, err)
                problem = err if isinstance(err, LeaseholdError) else LeaseholdError(f"release machine ID {le.id}: {err}")
        return problem
