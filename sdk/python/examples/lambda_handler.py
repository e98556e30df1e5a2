"""A handler of AWS Lambda that makes each invoice once, however often its event is delivered.

Set LEASEHOLD_URL and LEASEHOLD_TOKEN for the function, and lambda_handler.handler as its handler. `python3 lambda_handler.py` delivers one event three times.

Choose a ttl that is a bit longer than the refreshes of a fifth of it need; a function that is frozen or killed does not refresh, and the next delivery takes over after that. The
event comes back to the queue if the handler raises, as it does while another delivery is under way. An event of the same order with another total is RunDiffersError: ignore leaves out
what differs from delivery to delivery, as the context does.
"""

from __future__ import annotations

import os
from typing import Any

import leasehold
from leasehold.once import current, once

# Made once for each process: connections are used again by later events.
client = leasehold.Client(os.environ.get("LEASEHOLD_URL", "http://127.0.0.1:8080"), token=os.environ.get("LEASEHOLD_TOKEN") or None)


@once(client.runs("shop"), key="invoice-{event[order]}", ignore=("context",), ttl=30, max_failures=5)
def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    run = current()
    run.check()  # before each step that must not be done twice
    print(f"invoice for order {event['order']} under token {run.token}")
    return {"order": event["order"], "total": event["total"]}


if __name__ == "__main__":
    order = f"{os.getpid()}"
    for _ in range(3):
        print(handler({"order": order, "total": 42}, None))
