"""The bodies of requests and responses. Generated from the contract by tools/generate.py."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

__all__ = [
    "AcquireRequest",
    "AnalysisFinishRequest",
    "AnalysisFinished",
    "AnalysisGranted",
    "AnalysisLock",
    "AnalysisLockRequest",
    "AnalysisRefreshRequest",
    "AnalysisReleaseRequest",
    "AnalysisReleased",
    "AnalysisSkipped",
    "EndedLease",
    "FencePassed",
    "FenceRequest",
    "ForceReleaseRequest",
    "ForceReleased",
    "ForcedRelease",
    "Lease",
    "Lock",
    "LockCounts",
    "LockHolder",
    "LockPage",
    "LockRefusal",
    "LockSet",
    "LockSetAcquireRequest",
    "LockSetLease",
    "LockSetReleaseRequest",
    "LockSetReleased",
    "LockSetRenewRequest",
    "LockSetToken",
    "LockWaiter",
    "MachineIDLease",
    "MachineIDLeaseRequest",
    "MachineIDLeases",
    "MachineIDReleaseRequest",
    "PastLease",
    "ReleaseRequest",
    "RenewRequest",
    "Run",
    "RunBeginRequest",
    "RunFinishRequest",
    "RunFinished",
    "RunGranted",
    "RunLock",
    "RunRefreshRequest",
    "RunReleaseRequest",
    "RunReleased",
    "RunRetry",
    "RunSkipped",
    "UnreadableLock",
]

class _AcquireRequest(TypedDict):
    """What it always has."""

    request_id: str
    """The caller's name for this command, the same for every retry."""


class AcquireRequest(_AcquireRequest, total=False):
    """See the contract: AcquireRequest."""

    owner_id: str
    """Who holds the lease. In development mode it is required. With authentication the owner is the token's subject; a value here is a
    suffix of 1 to 64 letters, digits, '.', '_' and '-' that tells instances of one subject apart, giving 'subject#suffix'."""
    ttl_seconds: int
    """How long the lease lasts from now, in whole seconds. Required, but for the mode `rate`, which has none."""
    metadata: dict[str, str]
    """Labels for people; keys of 1 to 64 bytes, values of up to 512."""
    mode: Literal["exclusive", "shared", "permits", "rate"]
    """`exclusive` (if left out): one holder. `shared`: up to 100 holders, and none beside an exclusive one; a further one gets `LOCK_HELD`.
    `permits`: `limit` holders at a time. `rate`: `limit` grants in any window of `window_seconds`; they are not held, renewed or released.
    A lock that is held or waited for keeps its mode, `exclusive` and `shared` being one, and its limit: another is `LOCK_MODE_DIFFERS`."""
    limit: int
    """Required with `permits`: how many may hold the lock at a time, 1 to 100. Required with `rate`: how many grants a window may have, 1
    to 1000. Not with other modes."""
    window_seconds: int
    """Required with `rate`: the length of the window, in whole seconds. Not with other modes."""
    wait_seconds: int
    """How long the server waits for a lock that is held before it responds, in whole seconds. Left out, 0: it responds at once. Send the
    same request again to wait on: one that waits in line keeps its place for 10 seconds after the response. Let the timeout of your client
    be some seconds longer."""
    fair: bool
    """Wait in line: first come, first served. Left out, false; the modes `shared`, `permits` and `rate` always do. Without `wait_seconds`
    the request only tries, and gives up the place that it has."""
    max_waiting: int
    """How many may wait in line, this request included: if as many wait already, the response is `LOCK_QUEUE_FULL`. Left out, 100. It needs
    `fair`, or a mode with a line."""
    replace: bool
    """Take the lock from its holder, if that one was acquired with `replace` as well; otherwise the response is `LOCK_HELD`. A request that
    may be a late copy takes the lock from no one, and is told so in `detail`: one whose `not_after` is not later than that of a request
    with `replace` which the lock does not remember any more, as four others came after it. Left out, false. With the mode `exclusive`
    only."""
    lock_delay_seconds: int
    """How long the lock stays closed if this lease expires or is ended by force, in whole seconds. Left out, 0. A release opens it at once.
    Not with the mode `rate`."""
    not_after: str
    """The end of the request: after this time of the store it has no effect, however late it arrives, and waits no longer. In RFC 3339,
    within an hour from now. Afterwards the response is `TOO_LATE`, unless the request had its effect before. The same `request_id` may be
    sent with a later end. Left out, the request has no end."""
    give_up: bool
    """Give up the request with this `request_id`: what it obtained ends, its place in line too, and no delivery of it obtains anything from
    now on. Send it with the body of the request when its caller does not want it any more. With `replace`, `not_after` is then the latest
    that a delivery of it had: so long its copies may come. Without it that is 40 seconds. The response is 204. Left out, false."""


class _RenewRequest(TypedDict):
    """What it always has."""

    request_id: str
    """The caller's name for this command, the same for every retry."""
    fencing_token: int
    """Larger than every token that was granted before, also after the lock's record was removed: the first is the store's time in
    microseconds. It needs 64 bits, or a double's 53. Pass it on to what the lock protects."""
    ttl_seconds: int
    """How long the lease lasts from now, in whole seconds."""


class RenewRequest(_RenewRequest, total=False):
    """See the contract: RenewRequest."""

    owner_id: str
    """Who holds the lease. In development mode it is required. With authentication the owner is the token's subject; a value here is a
    suffix of 1 to 64 letters, digits, '.', '_' and '-' that tells instances of one subject apart, giving 'subject#suffix'."""
    expires_at: str
    """When the lease expires as far as the caller knows, as the lease showed it. The lease is renewed only while that is so."""


class _ReleaseRequest(TypedDict):
    """What it always has."""

    request_id: str
    """The caller's name for this command, the same for every retry."""
    fencing_token: int
    """Larger than every token that was granted before, also after the lock's record was removed: the first is the store's time in
    microseconds. It needs 64 bits, or a double's 53. Pass it on to what the lock protects."""


class ReleaseRequest(_ReleaseRequest, total=False):
    """See the contract: ReleaseRequest."""

    owner_id: str
    """Who holds the lease. In development mode it is required. With authentication the owner is the token's subject; a value here is a
    suffix of 1 to 64 letters, digits, '.', '_' and '-' that tells instances of one subject apart, giving 'subject#suffix'."""


class _ForceReleaseRequest(TypedDict):
    """What it always has."""

    request_id: str
    """The caller's name for this command, the same for every retry."""
    reason: str
    """For the holder; shown until the lock is acquired again."""


class ForceReleaseRequest(_ForceReleaseRequest, total=False):
    """See the contract: ForceReleaseRequest."""

    owner_id: str
    """Who holds the lease. In development mode it is required. With authentication the owner is the token's subject; a value here is a
    suffix of 1 to 64 letters, digits, '.', '_' and '-' that tells instances of one subject apart, giving 'subject#suffix'."""
    lease_id: str
    """End only this lease, as seen in the lock's `lease_id`."""


class _Lease(TypedDict):
    """What it always has."""

    tenant_id: str
    lock_key: str
    lease_id: str
    """Names this one lease. It gives no rights."""
    owner_id: str
    fencing_token: int
    """Larger than every token that was granted before, also after the lock's record was removed: the first is the store's time in
    microseconds. It needs 64 bits, or a double's 53. Pass it on to what the lock protects."""
    state: Literal["ACTIVE", "RELEASED", "EXPIRED"]
    """A lease is ACTIVE while now < expires_at and it was not released."""
    acquired_at: str
    """ISO 8601, UTC, milliseconds."""
    expires_at: str
    """ISO 8601, UTC, milliseconds."""
    remaining_ms: int
    """How long the lease lasts from the server's decision. Count it from before the request was sent: then the clocks of client and server
    need not agree."""
    ttl_seconds: int
    """Of the latest acquire or renewal. With `rate`: the length of the window."""
    metadata: dict[str, str]
    """Labels for people; keys of 1 to 64 bytes, values of up to 512."""
    replayed: bool
    """This request_id was carried out before; nothing was changed now."""


class Lease(_Lease, total=False):
    """A lease, as its holder sees it."""

    waited_ms: int
    """With `wait_seconds`: how long the request waited, at least, before the server decided. The lease lasts for remaining_ms and so much
    more, counted from before the request was sent."""
    mode: Literal["exclusive", "shared", "permits", "rate"]
    """Left out for `exclusive`."""
    permit: int
    """With `permits`: which one, from 1 to the limit. Tokens of one permit only ever increase."""


class _EndedLease(TypedDict):
    """What it always has."""

    tenant_id: str
    lock_key: str
    owner_id: str
    fencing_token: int
    """Larger than every token that was granted before, also after the lock's record was removed: the first is the store's time in
    microseconds. It needs 64 bits, or a double's 53. Pass it on to what the lock protects."""
    state: Literal["ACTIVE", "RELEASED", "EXPIRED"]
    """A lease is ACTIVE while now < expires_at and it was not released."""
    replayed: bool


class EndedLease(_EndedLease, total=False):
    """A lease that was released. If a release is repeated after the lock had later leases, only the required fields are still known."""

    lease_id: str
    acquired_at: str
    """ISO 8601, UTC, milliseconds."""
    expires_at: str
    """ISO 8601, UTC, milliseconds."""
    released_at: str
    """ISO 8601, UTC, milliseconds."""
    ttl_seconds: int
    """How long the lease lasts from now, in whole seconds."""
    metadata: dict[str, str]
    """Labels for people; keys of 1 to 64 bytes, values of up to 512."""


class ForcedRelease(TypedDict):
    """How an administrator ended the lease."""

    by: str
    reason: str
    at: str
    """ISO 8601, UTC, milliseconds."""


class _ForceReleased(TypedDict):
    """What it always has."""

    tenant_id: str
    lock_key: str
    state: Literal["ACTIVE", "RELEASED", "EXPIRED"]
    """A lease is ACTIVE while now < expires_at and it was not released."""
    replayed: bool


class ForceReleased(_ForceReleased, total=False):
    """A lease that an administrator ended. If a force-release is repeated after the lock had later leases, only the required fields are
    still known."""

    lease_id: str
    owner_id: str
    acquired_at: str
    """ISO 8601, UTC, milliseconds."""
    expires_at: str
    """ISO 8601, UTC, milliseconds."""
    released_at: str
    """ISO 8601, UTC, milliseconds."""
    ttl_seconds: int
    """How long the lease lasts from now, in whole seconds."""
    metadata: dict[str, str]
    """Labels for people; keys of 1 to 64 bytes, values of up to 512."""
    force_release: ForcedRelease
    """How an administrator ended the lease."""


class _LockHolder(TypedDict):
    """What it always has."""

    lease_id: str
    """Names this one lease, such as for a force-release. It gives no rights."""
    owner_id: str
    """Who holds it."""
    mode: Literal["exclusive", "shared", "permits", "rate"]
    """`exclusive` for a writer, `shared` for a reader, otherwise that of the lock."""
    acquired_at: str
    """When it was granted."""
    expires_at: str
    """When it ends, unless it is renewed."""
    ttl_seconds: int
    """Of the latest acquire or renewal, in seconds."""


class LockHolder(_LockHolder, total=False):
    """One lease of a lock that can have several."""

    permit: int
    """With `permits`: which one, from 1 to the limit."""
    metadata: dict[str, str]
    """Labels for people; keys of 1 to 64 bytes, values of up to 512."""


class LockWaiter(TypedDict):
    """A request that waits in line, and whose place counts."""

    owner_id: str
    """Who waits."""
    mode: Literal["exclusive", "shared", "permits", "rate"]
    """In which mode it is to hold the lock."""
    since: str
    """When it got its place."""
    until: str
    """When the place is given up, unless the request is sent again."""


class _PastLease(TypedDict):
    """What it always has."""

    owner_id: str
    """Who held it, cut to 32 bytes."""
    fencing_token: int
    """Of the lease that has ended; with it nothing can be changed."""
    acquired_at: str
    """When it was granted."""
    ended_at: str
    """When it was released, ended by force or replaced, or its expiry."""
    ended: Literal["released", "expired", "forced", "replaced"]
    """`released` by its holder; `expired`; `forced`: ended by an administrator; `replaced` by an acquire with `replace`."""


class PastLease(_PastLease, total=False):
    """A lease that has ended."""

    ended_by: str
    """With `forced`: the administrator; with `replaced`: who replaced it. Cut to 32 bytes."""


class LockRefusal(TypedDict):
    """Who was refused last, if the server records that (`LEASEHOLD_RECORD_REFUSALS`). Not in lists."""

    owner_id: str
    at: str
    """ISO 8601, UTC, milliseconds."""


class _Lock(TypedDict):
    """What it always has."""

    tenant_id: str
    lock_key: str
    lease_id: str
    """Names the latest lease. It is empty once that has ended and is not known any more: another one ended later, or an administrator ended
    the grants of a `rate`. Then `ttl_seconds` is 0, `owner_id` may be empty, and the times may all be when it ended."""
    owner_id: str
    state: Literal["ACTIVE", "RELEASED", "EXPIRED"]
    """A lease is ACTIVE while now < expires_at and it was not released."""
    acquired_at: str
    """ISO 8601, UTC, milliseconds."""
    expires_at: str
    """ISO 8601, UTC, milliseconds."""
    ttl_seconds: int
    """Of the latest acquire or renewal; 0 if that is not known any more. With `rate`: the length of the window."""
    metadata: dict[str, str]
    """Labels for people; keys of 1 to 64 bytes, values of up to 512."""


class Lock(_Lock, total=False):
    """A lock, as every caller of its tenant may see it."""

    released_at: str
    """ISO 8601, UTC, milliseconds."""
    force_release: ForcedRelease
    """How an administrator ended the lease."""
    mode: Literal["exclusive", "shared", "permits", "rate"]
    """Left out for `exclusive`."""
    limit: int
    """With `permits`: how many may hold the lock at a time. With `rate`: how many grants a window may have."""
    window_seconds: int
    """With `rate`: the length of the window, in seconds."""
    free_at: str
    """Until then the lock stays closed after a lease that expired or was ended by force: its lock delay; or it is kept for a request for
    several locks. With `rate`, if the grants are used up: when the next one is possible."""
    holders: list[LockHolder]
    """The leases that last, by token, if the lock has a line or a mode with several holders. The members above are of the latest one. Left
    out for one lease without a line, and with `rate`."""
    waiting: list[LockWaiter]
    """Who waits in line, the next one first, 100 at most. Left out if no one does."""
    history: list[PastLease]
    """The last leases that have ended, the latest first: as many as the lock's document has room for. Not in lists. Grants of a rate are
    not in it."""
    refused: LockRefusal
    """Who was refused last, if the server records that (`LEASEHOLD_RECORD_REFUSALS`). Not in lists."""


class LockCounts(TypedDict):
    """What was read for a page, whether or not it is in the page. The sum over all pages is that of all locks."""

    documents: int
    """All that were read: also those that cannot be read, and what is left of requests that were given up."""
    active: int
    """Held."""
    released: int
    expired: int
    waited_for: int
    """Locks with a line."""
    ending: int
    """Held locks with a lease of which less than a third is left."""


class UnreadableLock(TypedDict):
    """A lock of the page whose document cannot be read. It is listed whatever the state that was asked for. The server's log says what is
    wrong with it."""

    lock_key: str
    code: Literal["INVALID_ARGUMENT", "AMBIGUOUS_PATH", "UNAUTHENTICATED", "PERMISSION_DENIED", "NOT_OWNER", "BAD_SIGNATURE", "NOT_FOUND", "UNKNOWN_SERVICE", "METHOD_NOT_ALLOWED", "REQUEST_TIMEOUT", "LOCK_HELD", "LOCK_NOT_HELD", "LOCK_MODE_DIFFERS", "LOCK_QUEUE_FULL", "LOCK_DELAYED", "LEASE_LOST", "LEASE_EXPIRED", "LEASE_RELEASED", "LEASE_CHANGED", "TOO_LATE", "CURSOR_EXPIRED", "LOCK_UNREADABLE", "STALE_TOKEN", "OTHER_SUBJECT", "TOPOLOGY_UNDETERMINED", "NO_ELIGIBLE_MEMBER", "MEMBER_INELIGIBLE", "STALE_EPOCH", "ACTIVATION_EXISTS", "ACTIVATION_LOCKED", "ACTIVATION_FAILED", "WRONG_PHASE", "STATE_CHANGED", "MEMBER_EXISTS", "MEMBER_UNKNOWN", "STALE_INCARNATION", "CLUSTER_FULL", "CLUSTER_DIFFERS", "ANALYSIS_LOCKED", "RUN_INTERRUPTED", "ALREADY_FINISHED", "NOT_FAILED", "NOT_READY", "END_CHANGED", "RUN_IN_PROGRESS", "PAYLOAD_TOO_LARGE", "REQUEST_ID_REUSED", "RUN_DIFFERS", "ATTEMPT_FAILED", "INTERNAL", "DOCUMENT_DAMAGED", "NOT_CONFIGURED", "UNAVAILABLE", "MACHINE_IDS_EXHAUSTED", "MACHINE_ID_LIMIT", "LOCK_LIMIT", "RUN_LIMIT", "PLACEMENT_LIMIT", "RATE_LIMITED", "OVERLOADED", "CLOCK_SKEW", "DEADLINE_EXCEEDED"]
    """`DOCUMENT_DAMAGED`: a field holds what it cannot, or there is something else in the document's place."""


class _LockPage(TypedDict):
    """What it always has."""

    locks: list[Lock]
    counts: LockCounts
    """What was read for a page, whether or not it is in the page. The sum over all pages is that of all locks."""
    at: str
    """The store's time when the page was read, by which the states were told: a lease has `expires_at` - `at` left."""


class LockPage(_LockPage, total=False):
    """See the contract: LockPage."""

    unreadable: list[UnreadableLock]
    next_page_token: str
    """`page_token` of the next page; missing on the last."""


class _LockSetAcquireRequest(TypedDict):
    """What it always has."""

    request_id: str
    """The caller's name for this command, the same for every retry."""
    lock_keys: list[str]
    """Which locks, each once. Their order has no meaning."""
    ttl_seconds: int
    """How long the lease lasts from now, in whole seconds."""


class LockSetAcquireRequest(_LockSetAcquireRequest, total=False):
    """See the contract: LockSetAcquireRequest."""

    owner_id: str
    """Who holds the lease. In development mode it is required. With authentication the owner is the token's subject; a value here is a
    suffix of 1 to 64 letters, digits, '.', '_' and '-' that tells instances of one subject apart, giving 'subject#suffix'."""
    metadata: dict[str, str]
    """Labels for people; keys of 1 to 64 bytes, values of up to 512."""
    not_after: str
    """The end of the request: after this time of the store it has no effect, however late it arrives, and waits no longer. In RFC 3339,
    within an hour from now. Afterwards the response is `TOO_LATE`, unless the request had its effect before. The same `request_id` may be
    sent with a later end. Left out, the request has no end."""
    give_up: bool
    """Give up the request with this `request_id`: what it obtained ends, its place in line too, and no delivery of it obtains anything from
    now on. Send it with the body of the request when its caller does not want it any more. With `replace`, `not_after` is then the latest
    that a delivery of it had: so long its copies may come. Without it that is 40 seconds. The response is 204. Left out, false."""


class LockSetToken(TypedDict):
    """See the contract: LockSetToken."""

    lock_key: str
    fencing_token: int
    """Larger than every token that was granted before, also after the lock's record was removed: the first is the store's time in
    microseconds. It needs 64 bits, or a double's 53. Pass it on to what the lock protects."""


class _LockSetRenewRequest(TypedDict):
    """What it always has."""

    request_id: str
    """The caller's name for this command, the same for every retry."""
    leases: list[LockSetToken]
    """Which leases; each lock once."""
    ttl_seconds: int
    """How long the lease lasts from now, in whole seconds."""


class LockSetRenewRequest(_LockSetRenewRequest, total=False):
    """See the contract: LockSetRenewRequest."""

    owner_id: str
    """Who holds the lease. In development mode it is required. With authentication the owner is the token's subject; a value here is a
    suffix of 1 to 64 letters, digits, '.', '_' and '-' that tells instances of one subject apart, giving 'subject#suffix'."""
    expires_at: str
    """When the leases expire as far as the caller knows. They are renewed only while that is so of all of them."""


class _LockSetReleaseRequest(TypedDict):
    """What it always has."""

    request_id: str
    """The caller's name for this command, the same for every retry."""
    leases: list[LockSetToken]
    """Which leases; each lock once."""


class LockSetReleaseRequest(_LockSetReleaseRequest, total=False):
    """See the contract: LockSetReleaseRequest."""

    owner_id: str
    """Who holds the lease. In development mode it is required. With authentication the owner is the token's subject; a value here is a
    suffix of 1 to 64 letters, digits, '.', '_' and '-' that tells instances of one subject apart, giving 'subject#suffix'."""


class _LockSetLease(TypedDict):
    """What it always has."""

    lock_key: str
    fencing_token: int
    """Larger than every token that was granted before, also after the lock's record was removed: the first is the store's time in
    microseconds. It needs 64 bits, or a double's 53. Pass it on to what the lock protects."""


class LockSetLease(_LockSetLease, total=False):
    """See the contract: LockSetLease."""

    lease_id: str
    """After an acquire. Names this one lease. It gives no rights."""


class _LockSet(TypedDict):
    """What it always has."""

    tenant_id: str
    owner_id: str
    state: Literal["ACTIVE", "RELEASED", "EXPIRED"]
    """A lease is ACTIVE while now < expires_at and it was not released."""
    leases: list[LockSetLease]
    """By the bytes of their keys."""
    expires_at: str
    """When the first of them expires. Leases that are renewed together expire together."""
    remaining_ms: int
    """How long all of them last from the server's decision. Count it from before the request was sent: then the clocks of client and server
    need not agree."""
    ttl_seconds: int
    """How long the lease lasts from now, in whole seconds."""
    replayed: bool
    """This request_id was carried out before; nothing was changed now."""


class LockSet(_LockSet, total=False):
    """Several leases of one owner, as their holder sees them."""

    acquired_at: str
    """After an acquire."""
    metadata: dict[str, str]
    """Labels for people; keys of 1 to 64 bytes, values of up to 512."""


class LockSetReleased(TypedDict):
    """Several leases that were released."""

    tenant_id: str
    owner_id: str
    state: Literal["ACTIVE", "RELEASED", "EXPIRED"]
    """A lease is ACTIVE while now < expires_at and it was not released."""
    leases: list[LockSetLease]
    replayed: bool


class _RunBeginRequest(TypedDict):
    """What it always has."""

    request_id: str
    """The caller's name for this command, the same for every retry."""


class RunBeginRequest(_RunBeginRequest, total=False):
    """See the contract: RunBeginRequest."""

    owner_id: str
    """Who runs it. In development mode it is required. With authentication the owner is the token's subject; a value here is a suffix of 1
    to 64 letters, digits, '.', '_' and '-' that tells instances of one subject apart, giving 'subject#suffix', or that whole name as a
    grant returned it."""
    ttl_seconds: int
    """How long the lock lasts from now, in whole seconds."""
    fingerprint: str
    """What the run is about, such as a hash of its input. The first run of an ID stores it, and another one is `RUN_DIFFERS`. Left out,
    nothing is compared."""
    max_failures: int
    """A run that failed so often becomes FAILED instead of running again. 0, or left out, is no bound."""
    max_takeovers: int
    """How often the run may be taken over from a worker that crashed or lost its lock. After that it becomes FAILED instead of running
    again. 0: it is begun once, and never again after a crash. Left out, it is as the server says: 5, unless it was set."""
    due_at: str
    """For a job that comes round again: the time for which this run is due. The ID is the job's, and one record serves all its runs, so
    that no two of them are at work at once. A run of a later time than that of the record begins anew; one of the same time runs once. It
    is granted only from `due_at` to `next_due_at` by the store's time, otherwise the reason is `not_due`. It needs `next_due_at`."""
    next_due_at: str
    """The time for which the next run is due, later than `due_at`."""
    every_seconds: int
    """For a job that comes round again, without `due_at`: a run that has ended begins anew when so many seconds have passed since it began.
    Before, it is `already_finished`, with `retry_after_ms`."""
    keep_seconds: int
    """How long the record of the run is kept, in whole seconds, after the end of the run or, while it runs, after the end of its lock. Left
    out, it is as an earlier request of this run said, or a day if none did; the latest one that says it counts."""
    not_after: str
    """The end of the request: after this time of the store it has no effect, however late it arrives, and waits no longer. In RFC 3339,
    within an hour from now. Afterwards the response is `TOO_LATE`, unless the request had its effect before. The same `request_id` may be
    sent with a later end. Left out, the request has no end."""
    give_up: bool
    """Give up the request with this `request_id`: what it obtained ends, its place in line too, and no delivery of it obtains anything from
    now on. Send it with the body of the request when its caller does not want it any more. With `replace`, `not_after` is then the latest
    that a delivery of it had: so long its copies may come. Without it that is 40 seconds. The response is 204. Left out, false."""


class _RunGranted(TypedDict):
    """What it always has."""

    run_id: str
    acquired: Literal[True]
    owner_id: str
    fencing_token: int
    """Larger than every token that was granted before, also after the lock's record was removed: the first is the store's time in
    microseconds. It needs 64 bits, or a double's 53. Pass it on to what the lock protects."""
    expires_at: str
    """ISO 8601, UTC, milliseconds."""
    remaining_ms: int
    """How long the lock lasts from the server's decision. Count it from before the request was sent: then the clocks of client and server
    need not agree."""
    runs: int
    """Runs begun since the last one that ended by itself, including this one; above 1 it is a takeover."""
    failures: int
    """Runs that failed before."""
    replayed: bool
    """The same request_id had this lock already."""


class RunGranted(_RunGranted, total=False):
    """The run is the caller's until `expires_at`."""

    heartbeat_seconds: int
    """How often to refresh; missing for a lock of a second."""
    due_at: str
    """The time for which the run is due; missing if it came without one."""


class _RunSkipped(TypedDict):
    """What it always has."""

    run_id: str
    acquired: Literal[False]
    reason: Literal["already_finished", "locked", "not_due"]
    """Why a run was not granted. `not_due` is of runs with a `due_at` alone."""


class RunSkipped(_RunSkipped, total=False):
    """The run was not granted. With `locked`, `owner_id` runs it until `expires_at` at least."""

    status: Literal["READY", "FAILED"]
    """With `already_finished`: how it ended."""
    result: str
    """With READY: what was stored; missing if nothing was."""
    failure_reason: str
    """With FAILED: why."""
    owner_id: str
    expires_at: str
    """ISO 8601, UTC, milliseconds."""
    retry_after_ms: int
    """With `locked`: until the lock expires, unless its holder refreshes it. With `already_finished` and `every_seconds`: until it may run
    again. With `not_due`, if it is too early: until it is due."""
    due_at: str
    """The time for which the run of the record is due, or was; missing if it came without one."""
    now: str
    """With `not_due`: the store's time, by which it was judged."""


class _RunRefreshRequest(TypedDict):
    """What it always has."""

    fencing_token: int
    """Larger than every token that was granted before, also after the lock's record was removed: the first is the store's time in
    microseconds. It needs 64 bits, or a double's 53. Pass it on to what the lock protects."""


class RunRefreshRequest(_RunRefreshRequest, total=False):
    """See the contract: RunRefreshRequest."""

    owner_id: str
    """Who runs it. In development mode it is required. With authentication the owner is the token's subject; a value here is a suffix of 1
    to 64 letters, digits, '.', '_' and '-' that tells instances of one subject apart, giving 'subject#suffix', or that whole name as a
    grant returned it."""
    ttl_seconds: int
    """How long the lock lasts from now, in whole seconds."""
    keep_seconds: int
    """How long the record of the run is kept, in whole seconds, after the end of the run or, while it runs, after the end of its lock. Left
    out, it is as an earlier request of this run said, or a day if none did; the latest one that says it counts."""


class RunLock(TypedDict):
    """The lock of a run, as its holder sees it."""

    run_id: str
    owner_id: str
    fencing_token: int
    """Larger than every token that was granted before, also after the lock's record was removed: the first is the store's time in
    microseconds. It needs 64 bits, or a double's 53. Pass it on to what the lock protects."""
    expires_at: str
    """ISO 8601, UTC, milliseconds."""
    remaining_ms: int


class _RunReleaseRequest(TypedDict):
    """What it always has."""

    fencing_token: int
    """Larger than every token that was granted before, also after the lock's record was removed: the first is the store's time in
    microseconds. It needs 64 bits, or a double's 53. Pass it on to what the lock protects."""


class RunReleaseRequest(_RunReleaseRequest, total=False):
    """See the contract: RunReleaseRequest."""

    owner_id: str
    """Who runs it. In development mode it is required. With authentication the owner is the token's subject; a value here is a suffix of 1
    to 64 letters, digits, '.', '_' and '-' that tells instances of one subject apart, giving 'subject#suffix', or that whole name as a
    grant returned it."""
    failure_reason: str
    """Why the run failed, in up to 1024 bytes. Stored in the document."""
    keep_seconds: int
    """How long the record of the run is kept, in whole seconds, after the end of the run or, while it runs, after the end of its lock. Left
    out, it is as an earlier request of this run said, or a day if none did; the latest one that says it counts."""


class RunReleased(TypedDict):
    """See the contract: RunReleased."""

    run_id: str
    failures: int
    replayed: bool


class _RunFinishRequest(TypedDict):
    """What it always has."""

    fencing_token: int
    """Larger than every token that was granted before, also after the lock's record was removed: the first is the store's time in
    microseconds. It needs 64 bits, or a double's 53. Pass it on to what the lock protects."""
    status: Literal["READY", "FAILED"]
    """How an analysis ended. Any other status, or none, is unfinished."""


class RunFinishRequest(_RunFinishRequest, total=False):
    """See the contract: RunFinishRequest."""

    owner_id: str
    """Who runs it. In development mode it is required. With authentication the owner is the token's subject; a value here is a suffix of 1
    to 64 letters, digits, '.', '_' and '-' that tells instances of one subject apart, giving 'subject#suffix', or that whole name as a
    grant returned it."""
    result: str
    """With READY, the result, in up to 256 KiB. Callers that begin the run later get it."""
    failure_reason: str
    """Why the run failed, in up to 1024 bytes. Stored in the document."""
    keep_seconds: int
    """How long the record of the run is kept, in whole seconds, after the end of the run or, while it runs, after the end of its lock. Left
    out, it is as an earlier request of this run said, or a day if none did; the latest one that says it counts."""


class RunFinished(TypedDict):
    """See the contract: RunFinished."""

    run_id: str
    status: Literal["READY", "FAILED"]
    """How an analysis ended. Any other status, or none, is unfinished."""
    replayed: bool


class RunRetry(TypedDict):
    """Who let it run once more, the last time, and why."""

    by: str
    reason: str
    at: str
    """ISO 8601, UTC, milliseconds."""


class _Run(TypedDict):
    """What it always has."""

    run_id: str
    finished: bool
    """The status is READY or FAILED."""
    locked: bool
    """A caller runs it now."""
    runs: int
    failures: int


class Run(_Run, total=False):
    """A run, as every caller of its tenant may see it."""

    status: Literal["READY", "FAILED"]
    """How it ended; missing if it has not."""
    owner_id: str
    """Who runs it, or ran it until the lock expired."""
    expires_at: str
    """ISO 8601, UTC, milliseconds."""
    result: str
    failure_reason: str
    """Of the last failed run."""
    finished_at: str
    """When it became READY or FAILED."""
    due_at: str
    """The time for which the latest run of a job is due, or was; missing if it came without one."""
    begun_at: str
    """When the latest run of a job began; missing for a run without `due_at` and `every_seconds`."""
    kept_until: str
    """Until when the record is kept, unless another request comes. From then on the ID is a new one."""
    retry: RunRetry
    """Who let it run once more, the last time, and why."""


class _AnalysisLockRequest(TypedDict):
    """What it always has."""

    request_id: str
    """The caller's name for this command, the same for every retry."""


class AnalysisLockRequest(_AnalysisLockRequest, total=False):
    """See the contract: AnalysisLockRequest."""

    owner_id: str
    """Who runs it. In development mode it is required. With authentication the owner is the token's subject; a value here is a suffix of 1
    to 64 letters, digits, '.', '_' and '-' that tells instances of one subject apart, giving 'subject#suffix', or that whole name as a
    grant returned it."""
    ttl_seconds: int
    """How long the lock lasts from now, in whole seconds."""
    max_failures: int
    """An analysis of which so many runs have failed becomes FAILED instead of running again. 0, or left out, is no bound."""
    fingerprint: str
    """What the analysis is about, such as a hash of its input. The first lock that says so stores it in the document, and another one is
    `RUN_DIFFERS`. Left out, nothing is compared."""
    not_after: str
    """The end of the request: after this time of the store it has no effect, however late it arrives, and waits no longer. In RFC 3339,
    within an hour from now. Afterwards the response is `TOO_LATE`, unless the request had its effect before. The same `request_id` may be
    sent with a later end. Left out, the request has no end."""
    give_up: bool
    """Give up the request with this `request_id`: what it obtained ends, its place in line too, and no delivery of it obtains anything from
    now on. Send it with the body of the request when its caller does not want it any more. With `replace`, `not_after` is then the latest
    that a delivery of it had: so long its copies may come. Without it that is 40 seconds. The response is 204. Left out, false."""


class _AnalysisGranted(TypedDict):
    """What it always has."""

    analysis_id: str
    acquired: Literal[True]
    owner_id: str
    fencing_token: int
    """Larger than every token that was granted before, also after the lock's record was removed: the first is the store's time in
    microseconds. It needs 64 bits, or a double's 53. Pass it on to what the lock protects."""
    expires_at: str
    """ISO 8601, UTC, milliseconds."""
    remaining_ms: int
    """How long the lock lasts from the server's decision. Count it from before the request was sent: then the clocks of client and server
    need not agree."""
    runs: int
    """Runs begun since the last one that ended by itself, including this one; above 1 it is a takeover."""
    failures: int
    """Runs that failed before."""
    replayed: bool
    """The same request_id had this lock already."""


class AnalysisGranted(_AnalysisGranted, total=False):
    """The run is the caller's until `expires_at`."""

    status: str
    """Of the analysis, if it has one."""
    heartbeat_seconds: int
    """How often to refresh; missing for a lock of a second."""


class _AnalysisSkipped(TypedDict):
    """What it always has."""

    analysis_id: str
    acquired: Literal[False]
    reason: Literal["already_finished", "locked", "not_due"]
    """Why a run was not granted. `not_due` is of runs with a `due_at` alone."""


class AnalysisSkipped(_AnalysisSkipped, total=False):
    """The run was not granted. With `locked`, `owner_id` runs the analysis until `expires_at` at least."""

    status: str
    """Of the analysis, if it has one."""
    result: str
    """With READY: the document's result, if it has one."""
    failure_reason: str
    """With FAILED: why, if the document says it."""
    owner_id: str
    expires_at: str
    """ISO 8601, UTC, milliseconds."""
    retry_after_ms: int
    """With `locked`: until the lock expires, unless its holder refreshes it."""


class _AnalysisRefreshRequest(TypedDict):
    """What it always has."""

    fencing_token: int
    """Larger than every token that was granted before, also after the lock's record was removed: the first is the store's time in
    microseconds. It needs 64 bits, or a double's 53. Pass it on to what the lock protects."""


class AnalysisRefreshRequest(_AnalysisRefreshRequest, total=False):
    """See the contract: AnalysisRefreshRequest."""

    owner_id: str
    """Who runs it. In development mode it is required. With authentication the owner is the token's subject; a value here is a suffix of 1
    to 64 letters, digits, '.', '_' and '-' that tells instances of one subject apart, giving 'subject#suffix', or that whole name as a
    grant returned it."""
    ttl_seconds: int
    """How long the lock lasts from now, in whole seconds."""


class AnalysisLock(TypedDict):
    """The lock of a run, as its holder sees it."""

    analysis_id: str
    owner_id: str
    fencing_token: int
    """Larger than every token that was granted before, also after the lock's record was removed: the first is the store's time in
    microseconds. It needs 64 bits, or a double's 53. Pass it on to what the lock protects."""
    expires_at: str
    """ISO 8601, UTC, milliseconds."""
    remaining_ms: int


class _AnalysisReleaseRequest(TypedDict):
    """What it always has."""

    fencing_token: int
    """Larger than every token that was granted before, also after the lock's record was removed: the first is the store's time in
    microseconds. It needs 64 bits, or a double's 53. Pass it on to what the lock protects."""


class AnalysisReleaseRequest(_AnalysisReleaseRequest, total=False):
    """See the contract: AnalysisReleaseRequest."""

    owner_id: str
    """Who runs it. In development mode it is required. With authentication the owner is the token's subject; a value here is a suffix of 1
    to 64 letters, digits, '.', '_' and '-' that tells instances of one subject apart, giving 'subject#suffix', or that whole name as a
    grant returned it."""
    failure_reason: str
    """Why the run failed, in up to 1024 bytes. Stored in the document."""


class AnalysisReleased(TypedDict):
    """See the contract: AnalysisReleased."""

    analysis_id: str
    failures: int
    replayed: bool


class _AnalysisFinishRequest(TypedDict):
    """What it always has."""

    fencing_token: int
    """Larger than every token that was granted before, also after the lock's record was removed: the first is the store's time in
    microseconds. It needs 64 bits, or a double's 53. Pass it on to what the lock protects."""
    status: Literal["READY", "FAILED"]
    """How an analysis ended. Any other status, or none, is unfinished."""


class AnalysisFinishRequest(_AnalysisFinishRequest, total=False):
    """See the contract: AnalysisFinishRequest."""

    owner_id: str
    """Who runs it. In development mode it is required. With authentication the owner is the token's subject; a value here is a suffix of 1
    to 64 letters, digits, '.', '_' and '-' that tells instances of one subject apart, giving 'subject#suffix', or that whole name as a
    grant returned it."""
    result: str
    """With READY, the result or where it is, in up to 256 KiB. Left out, the document's is not changed."""
    failure_reason: str
    """Why the run failed, in up to 1024 bytes. Stored in the document."""


class AnalysisFinished(TypedDict):
    """See the contract: AnalysisFinished."""

    analysis_id: str
    status: Literal["READY", "FAILED"]
    """How an analysis ended. Any other status, or none, is unfinished."""
    replayed: bool


class MachineIDLeaseRequest(TypedDict, total=False):
    """See the contract: MachineIDLeaseRequest."""

    serviceId: str
    """Names the layout and the namespace. Left out or empty, the service 'default'."""
    meta: dict[str, str]
    """Who leases, for people: host name, process ID. Keys of 1 to 64 bytes, values of up to 512. It is written to the server's log, beside
    the machine IDs, and stored nowhere."""
    throughputPerMs: int
    """IDs to make in a millisecond. Left out, one lease. A server bounds the leases of one request, to 64 unless it is set up otherwise,
    which make 16384 IDs in the default layout."""
    notAfter: str
    """The end of the request: after this time of the store it has no effect, however late it arrives, and waits no longer. In RFC 3339,
    within an hour from now. Afterwards the response is `TOO_LATE`, unless the request had its effect before. The same `request_id` may be
    sent with a later end. Left out, the request has no end."""


class MachineIDLease(TypedDict):
    """The lease of a machine ID, with all that is needed to make IDs under it."""

    id: int
    """The machine ID."""
    created: int
    """The first timestamp of the lease, Unix milliseconds."""
    expired: int
    """The first timestamp that is no longer the lease's, Unix milliseconds."""
    secret: str
    """Signs the release. Keep it out of logs."""
    customEpoch: int
    """The time of the timestamp 0, Unix milliseconds. Never changes."""
    bitReserve: int
    """Zero bits at the top of an ID. Never changes."""
    bitTs: int
    """Bits of the timestamp. Never changes."""
    bitId: int
    """Bits of the machine ID. The highest is 0 in IDs made under a lease."""
    bitSeq: int
    """Bits of the sequence. Leases of one caller may differ."""


class MachineIDLeases(TypedDict):
    """See the contract: MachineIDLeases."""

    leases: list[MachineIDLease]


class _MachineIDReleaseRequest(TypedDict):
    """What it always has."""

    signature: str
    """HMAC-SHA256 of `id:timestamp`, hexadecimal."""
    timestamp: int
    """A time in Unix milliseconds."""


class MachineIDReleaseRequest(_MachineIDReleaseRequest, total=False):
    """See the contract: MachineIDReleaseRequest."""

    serviceId: str
    """The service that leased it. Left out, the signature tells."""


class FenceRequest(TypedDict):
    """See the contract: FenceRequest."""

    fencing_token: int
    """Larger than every token that was granted before, also after the lock's record was removed: the first is the store's time in
    microseconds. It needs 64 bits, or a double's 53. Pass it on to what the lock protects."""
    subject: str
    """What a token is one of: `lock/` and the key of the lock, for a permit with `#` and its number behind it; `run/` and the ID of the
    run. UTF-8 without control characters, at most 320 bytes."""


class FencePassed(TypedDict):
    """See the contract: FencePassed."""

    tenant_id: str
    resource: str
    fencing_token: int
    """Larger than every token that was granted before, also after the lock's record was removed: the first is the store's time in
    microseconds. It needs 64 bits, or a double's 53. Pass it on to what the lock protects."""
    subject: str
