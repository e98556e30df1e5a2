"""The Python client of Leasehold: locks, work that runs once, machine IDs and 64-bit IDs. It needs the standard library only.

Hold a lock while I work:

    with leasehold.Client("http://127.0.0.1:8080").locks().hold("deploy-prod") as lock:
        lock.check()               # before each effect: raises LockLost before another can have the lock
        deploy(token=lock.token)   # what you write to rejects a lower token

Run this once, and give me its result (:mod:`leasehold.once`):

    @once(leasehold.Client("http://127.0.0.1:8080").runs("shop"), key="invoice-{month}")
    def make_invoice(month):
        return {"month": month, "total": 42}

Give me IDs (:mod:`leasehold.machineids`):

    with Generator(leasehold.Client("http://127.0.0.1:8080").machine_ids()) as ids:
        print(ids.next_id())
"""

from .client import Client, Fences, HeldLease, LockAPI, new_request_id
from .codes import LockHeld, LockQueueFull, RunDiffers, StaleToken
from .errors import (
    ApiError, ClosedError, InvalidResponseError, InvalidSettingError, LeaseholdError, LockLost, MaxHoldExceeded, NotReleasedError, ReleasedError,
    TransportError, UnknownOutcomeError,
)
from .locks import Event, Hold, Lock, Locks, LockSet

__version__ = "0.1.0"

__all__ = [
    "ApiError", "Client", "ClosedError", "Event", "Fences", "HeldLease", "Hold", "InvalidResponseError", "InvalidSettingError", "LeaseholdError",
    "Lock", "LockAPI", "LockHeld", "LockLost", "LockQueueFull", "LockSet", "Locks", "MaxHoldExceeded", "NotReleasedError", "ReleasedError", "RunDiffers",
    "StaleToken", "TransportError", "UnknownOutcomeError", "new_request_id",
]
