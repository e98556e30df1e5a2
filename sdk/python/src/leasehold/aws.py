"""Functions of AWS Lambda: handlers that take effect once in the time that is left to them, and batches of SQS.

    @once(client.runs("shop"), key="invoice-{event[order]}")
    def handler(event, context):
        ...

    def handler(event, context):
        return batch(event, context, lambda order, record: make_invoice(order["id"]))
"""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from . import _check
from .errors import InvalidSettingError
from .once import Gate, RunNotStoredError
from .once import once as _once

__all__ = ["batch", "once", "time_left"]

log = logging.getLogger("leasehold")

RESERVE = 2.0  # seconds that are left when a batch begins no further message

F = TypeVar("F", bound=Callable[..., Any])


def time_left(event: object, context: Any) -> float:
    """Seconds until Lambda ends the invocation."""
    return float(context.get_remaining_time_in_millis()) / 1000


def once(gate: Gate, *, key: str | Callable[..., str], ignore: Collection[str] = (), **settings: Any) -> Callable[[F], F]:
    """:func:`leasehold.once.once` for a handler of Lambda: its lock lasts for as long as the invocation can, and all that it waits for ends before that. The second argument is not
    part of what the run is."""

    def decorate(f: F) -> F:
        names = list(inspect.signature(f).parameters)
        if len(names) != 2:
            raise InvalidSettingError("function", f"{f!r} is no handler of Lambda: it has two parameters, the event and the context")
        return _once(gate, key=key, ignore=(*ignore, names[1]), time_left=time_left, **settings)(f)

    return decorate


def batch(
    event: Mapping[str, Any], context: Any, work: Callable[[Any, Mapping[str, Any]], object], *, parse: Callable[[str], Any] = json.loads,
    reserve: float = RESERVE,
) -> dict[str, list[dict[str, str]]]:
    """Do the work for each message of a batch of SQS, and say which ones shall come again: what a handler returns whose event source reports batch item failures.

    work
        Gets what parse makes of a message's body, and the whole record. An exception means that the message comes again; it is logged. RunNotStoredError of work that returned does not:
        it is done.
    parse
        A body that it raises for is reported before any work begins, and goes to the dead-letter queue by the queue's own count.
    reserve
        Once no more than so many seconds of the invocation are left no message begins: the rest comes again.

    Of a group of a FIFO queue nothing is done after a message that comes again. What is no batch of SQS is a ValueError, so that the event stays where it came from.
    """
    least = _check.seconds("reserve", reserve)
    records = event.get("Records") if isinstance(event, Mapping) else None
    if not isinstance(records, list) or not records or not all(
            isinstance(r, Mapping) and r.get("eventSource") == "aws:sqs" and r.get("messageId") for r in records):
        raise ValueError("the event is no batch of SQS messages: attach this function to a queue")
    bodies: dict[str, Any] = {}
    for record in records:
        try:
            bodies[record["messageId"]] = parse(record["body"])
        except Exception as err:
            log.error("message %s is malformed: %s", record["messageId"], err)
    failed, stopped = [], set()
    for record in records:
        message = record["messageId"]
        group = record.get("attributes", {}).get("MessageGroupId") if str(record.get("eventSourceARN", "")).endswith(".fifo") else None
        done = False
        if message in bodies and (group is None or group not in stopped) and time_left(event, context) > least:
            try:
                work(bodies[message], record)
                done = True
            except Exception as err:
                done = isinstance(err, RunNotStoredError) and err._returned
                log.exception("message %s is done, which is not stored" if done else "message %s failed, and comes again", message)
        if not done:
            failed.append({"itemIdentifier": message})
            if group is not None:
                stopped.add(group)
    return {"batchItemFailures": failed}
