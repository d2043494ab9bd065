"""Tells what became of messages that a client knows by their sequence numbers, so it need not infer that.

A message is in the queue while it waits, is with a consumer, is claimed by a transaction, or is kept back after a
failed attempt. An expired message stays in the queue until it is moved, but is not delivered. A message that is not in
the queue has left it in one of the ways that the queue counts.
"""

import json
from typing import Final

from artemis_py.core.queues.cursors.range_reader import there
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.reference import CLAIMED, DELIVERING, SCHEDULED
from artemis_py.core.runtime.background import SLICE_MESSAGES, Steps
from artemis_py.core.selectors.filter import Filter
from artemis_py.errors import InvalidRequest, LimitExceeded

MAX_RANGES: Final = 1000
"""Most ranges in one request; each is looked up separately."""

MAX_NAMED: Final = 100
"""Most messages that an answer names; it counts all of them."""

Ranges = list[tuple[int, int]]

_PLACES: Final = {
    DELIVERING: "with a consumer",
    CLAIMED: "in a transaction",
    SCHEDULED: "kept back after a failed attempt",
}


def read_ranges(value: object) -> Ranges:
    """Read ranges of sequence numbers, each `[from, to]`. Raises InvalidRequest or LimitExceeded."""
    if not isinstance(value, list) or not value:
        raise InvalidRequest("ranges must be an array of arrays of two numbers, from and to")
    ranges: Ranges = []
    for item in value:
        match item:
            case [int() as start, int() as stop] if start <= stop and start is not True and stop is not True:
                ranges.append((start, stop))
            case _:
                raise InvalidRequest("a range is an array of two numbers, from and to")
    if len(ranges) > MAX_RANGES:
        raise LimitExceeded(f"{len(ranges)} ranges are more than the {MAX_RANGES} of one request")
    return ranges


def find(queue: Queue, node_id: str, ranges: Ranges, filter: Filter | None) -> Steps:
    """Build the JSON answer of `reader.find`. Raises StoreError, without an answer, if messages cannot be read."""
    named: list[tuple[int, str]] = []
    count = expired = 0
    left = SLICE_MESSAGES
    for begin, stop in ranges:
        start = begin
        while start < stop:
            references, start = there(queue, start, stop, left)
            for reference in references:
                if 0 < reference.message.expires_ms <= queue.dispatcher.now_ms:
                    expired += 1
                elif filter is None or filter.matches(reference):
                    count += 1
                    if len(named) < MAX_NAMED:
                        named.append((reference.sequence, _PLACES.get(reference.state, "waiting")))
            left -= len(references)
            if left <= 0:
                left = SLICE_MESSAGES
                yield None
    return json.dumps(
        {
            "node": node_id,
            "queueId": queue.id,
            "count": count,
            "there": named,
            "expired": expired,
            "next": queue.next_sequence,
            "skipped": queue.skipped,
            "left": {
                "acknowledged": queue.messages_acknowledged,
                "expired": queue.messages_expired,
                "killed": queue.messages_killed,
                "replaced": queue.messages_replaced,
            },
        }
    )


def nothing(node_id: str) -> str:
    """Return the JSON answer for a queue that was deleted, even if a new one has its name."""
    return json.dumps({"node": node_id, "queueId": None})
