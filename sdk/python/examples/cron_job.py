"""A cron job that runs on several machines, and works on one of them.

    python3 cron_job.py http://127.0.0.1:8080

The others find the lock held, and end at once. If this machine dies, the next run takes over when the lease has ended.
"""

from __future__ import annotations

import sys

import leasehold


def main() -> int:
    server = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080"
    locks = leasehold.Client(server).locks(ttl=30)
    try:
        with locks.hold("nightly-report", metadata={"job": "nightly-report"}, wait=0) as lock:
            print(f"this machine makes the report, under token {lock.token}")
            for part in range(1, 4):
                lock.check()  # raises LockLostError before another machine can begin
                print(f"part {part} is done")
    except leasehold.LockHeldError as err:
        print(f"another machine makes the report: {err.owner_id}")
    except leasehold.LockLostError as err:
        print(f"stopped: {err}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
