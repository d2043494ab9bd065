"""What became of messages that somebody knows by their numbers: an answer, so that nobody has to infer it.

A message is there wherever it is: it waits, a consumer has it, a transaction has claimed it, or it is kept back after a
failed attempt. One that is past its time is there until it is moved, and nobody gets it. What is not there went one of
the ways that the queue counts.
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
"""Ranges in one request; each is looked up by itself."""

MAX_NAMED: Final = 100
"""Messages that an answer names; it counts them all."""

Ranges = list[tuple[int, int]]

_PLACES: Final = {
    DELIVERING: "with a consumer",
    CLAIMED: "in a transaction",
    SCHEDULED: "kept back after a failed attempt",
}


def read_ranges(value: object) -> Ranges:
    """Ranges of numbers, each from and to. Raises InvalidRequest, LimitExceeded."""
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
    """JSON text for `reader.find`. Raises StoreError if messages cannot be read: then nothing is said of any."""
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
            },
        }
    )


def nothing(node_id: str) -> str:
    """The same for a queue that is gone, or was deleted and made again."""
    return json.dumps({"node": node_id, "queueId": None})
