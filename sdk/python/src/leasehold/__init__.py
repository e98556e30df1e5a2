"""The Python client of Leasehold: locks, work that runs once, machine IDs and 64-bit IDs. It needs the standard library only.

Hold a lock while I work:

    with leasehold.Client("http://127.0.0.1:8080").locks().hold("deploy-prod") as lock:
        lock.check()               # before each effect: raises LockLostError before another can have the lock
        deploy(token=lock.token)   # what you write to rejects a lower token

Run this once, and give me its result (:mod:`leasehold.once`):

    @once(leasehold.Client("http://127.0.0.1:8080").runs("shop"), key="invoice-{month}")
    def make_invoice(month):
        return {"month": month, "total": 42}

Give me IDs (:mod:`leasehold.machineids`):

    with Generator(leasehold.Client("http://127.0.0.1:8080").machine_ids()) as ids:
        print(ids.next_id())
"""

from ._http import Headers, Response
from ._transport import HTTPTransport, Request, Transport
from .client import Client, Fenced, FencedLease, Fences, HeldLease, LockAPI, new_request_id
from .codes import LockHeldError, LockQueueFullError, OtherSubjectError, RequestIdReusedError, RunDiffersError, StaleTokenError
from .errors import (
    ApiError, ClosedError, EventLoopError, InvalidResponseError, InvalidSettingError, LeaseholdError, LockLostError, MaxHoldError, NoResponseError,
    NotReleasedError, ReleasedError, UnknownOutcomeError,
)
from .locks import FOREVER, Event, Hold, Lock, Locks, LockSet

__version__ = "0.1.0"

__all__ = [
    "ApiError", "Client", "ClosedError", "Event", "EventLoopError", "FOREVER", "Fenced", "FencedLease", "Fences", "HTTPTransport", "Headers", "HeldLease", "Hold",
    "InvalidResponseError", "InvalidSettingError", "LeaseholdError", "Lock", "LockAPI", "LockHeldError", "LockLostError", "LockQueueFullError", "LockSet",
    "Locks", "MaxHoldError", "NoResponseError", "NotReleasedError", "OtherSubjectError", "ReleasedError", "Request", "RequestIdReusedError", "Response", "RunDiffersError",
    "StaleTokenError", "Transport", "UnknownOutcomeError", "new_request_id",
]
