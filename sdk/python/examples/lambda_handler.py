"""Handlers of AWS Lambda that make each invoice once, however often their event is delivered: one of single events, and one of batches of SQS.

Set LEASEHOLD_URL and LEASEHOLD_TOKEN for the function, and lambda_handler.handler or lambda_handler.batches as its handler. `python3 lambda_handler.py` delivers one event three
times, and a batch.

The lock lasts for the time that is left to the invocation: if that is ended or frozen, the next delivery takes over after it. An event comes back to the queue if the handler
raises, as it does while another delivery is under way. An event of the same order with another total is RunDiffersError.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from typing import Any

import leasehold
from leasehold import aws
from leasehold.once import current

# Made once for each process: connections are used again by later events.
client = leasehold.Client(os.environ.get("LEASEHOLD_URL", "http://127.0.0.1:8080"), token=os.environ.get("LEASEHOLD_TOKEN") or None)


@aws.once(client.runs("shop"), key="invoice-{event[order]}", max_failures=5)
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    run = current()
    run.check()  # before each step that must not be done twice
    print(f"invoice for order {event['order']} under token {run.token}")
    return {"order": event["order"], "total": event["total"]}


def batches(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Of a queue whose event source reports batch item failures."""
    return aws.batch(event, context, lambda order, record: handler(order, context))


class Context:
    """What Lambda gives a handler, of which this needs one method."""

    def __init__(self, seconds: float) -> None:
        self.end = time.monotonic() + seconds

    def get_remaining_time_in_millis(self) -> int:
        return int((self.end - time.monotonic()) * 1000)


if __name__ == "__main__":
    order = f"{os.getpid()}"
    for _ in range(3):
        print(handler({"order": order, "total": 42}, Context(30)))
    bodies = [json.dumps({"order": order, "total": 42}), "no JSON", json.dumps({"order": f"{order}-b", "total": 7})]
    records = [{"messageId": f"m{i}", "eventSource": "aws:sqs", "body": body} for i, body in enumerate(bodies)]
    print(batches({"Records": records}, Context(30)))
