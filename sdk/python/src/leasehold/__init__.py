"""The Python client of Leasehold: locks, work that runs once, machine IDs and 64-bit IDs. It needs the standard library only.

    import leasehold

    locks = leasehold.Client("http://127.0.0.1:8080").locks()
    with locks.acquire("deploy-prod") as lock:
        deploy(token=lock.token)
"""

from .client import Client, Fences, HeldLease, LockAPI, new_request_id
from .codes import LockHeld, LockQueueFull, RunDiffers, StaleToken
from .errors import (
    ApiError, ClosedError, InvalidResponseError, InvalidSettingError, LeaseholdError, LockLost, MaxHoldExceeded, NotReleasedError, ReleasedError,
    TransportError, UnknownOutcomeError,
)
from .locks import Acquisition, Event, Lock, Locks, LockSet

__version__ = "0.1.0"

__all__ = [
    "Acquisition", "ApiError", "Client", "ClosedError", "Event", "Fences", "HeldLease", "InvalidResponseError", "InvalidSettingError", "LeaseholdError",
    "Lock", "LockAPI", "LockHeld", "LockLost", "LockQueueFull", "LockSet", "Locks", "MaxHoldExceeded", "NotReleasedError", "ReleasedError", "RunDiffers",
    "StaleToken", "TransportError", "UnknownOutcomeError", "new_request_id",
]
