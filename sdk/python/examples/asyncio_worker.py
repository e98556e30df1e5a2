"""A worker with asyncio: three workers share two connections to another service, and each is cancelled if it loses its permit.

    python3 asyncio_worker.py http://127.0.0.1:8080
"""

from __future__ import annotations

import asyncio
import sys

import leasehold


async def worker(locks: leasehold.Locks, name: str) -> None:
    try:
        async with locks.hold("partner-connections", permits=2, wait=60) as lock:
            print(f"{name} works with connection {lock.permit}")
            await asyncio.sleep(0.1)  # what is awaited here is cancelled if the lock is lost
        print(f"{name} is done")
    except leasehold.LockLostError as err:
        print(f"{name} was stopped: {err}")
    except leasehold.LockHeldError:
        print(f"{name} found no free connection within a minute")


async def main() -> None:
    server = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080"
    locks = leasehold.Client(server).locks(ttl=15)
    await asyncio.gather(*(worker(locks, f"worker {n}") for n in range(1, 4)))


if __name__ == "__main__":
    asyncio.run(main())
