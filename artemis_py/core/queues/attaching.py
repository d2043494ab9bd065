"""Attaching consumers to a queue and detaching them, and returning the deliveries that a consumer leaves behind."""

from typing import TYPE_CHECKING

from artemis_py.core.queues.outcomes import FAILED, RELEASED
from artemis_py.core.queues.passing import find_passing
from artemis_py.core.queues.reference import Reference
from artemis_py.core.queues.settlement import give_back
from artemis_py.core.runtime.accounts import CONSUMER_BYTES
from artemis_py.core.runtime.background import SLICE_MESSAGES, Steps

if TYPE_CHECKING:
    from artemis_py.core.queues.consumer import Consumer
    from artemis_py.core.queues.queue import Queue


def attach(consumer: "Consumer") -> None:
    """Attach a consumer to its queue; the session has checked the limits."""
    queue = consumer.queue
    queue.consumers.append(consumer)
    find_passing(queue)
    queue.dispatcher.tables.occupy(CONSUMER_BYTES)
    queue.dispatch.add(consumer)
    if consumer.is_exclusive:
        queue.count_exclusive(1)
    if queue.assignment is not None and not consumer.browse:
        queue.assignment.joined(queue, consumer)
    queue.swept = False
    queue.dispatch.gate.check()


def detach(consumer: "Consumer", failed: bool) -> None:
    """Detach a consumer; its unsettled deliveries go back to their places, as failed attempts if `failed`."""
    queue = consumer.queue
    consumer.is_closed = True
    queue.consumers.remove(consumer)
    find_passing(queue)
    queue.dispatcher.tables.vacate(CONSUMER_BYTES)
    queue.dispatcher.starved.discard(consumer)
    queue.dispatch.remove(consumer)
    if queue.assignment is not None:
        queue.assignment.left(queue, consumer)
    if consumer.is_exclusive:
        queue.count_exclusive(-1)
    if consumer.cursor is not None:
        consumer.cursor.reset()
    outstanding = sorted(consumer.unsettled(), key=_sequence_of, reverse=True)
    consumer.outstanding.take_all()
    consumer.shown = {}
    if not queue.consumers:
        queue.consumer_removed_steady_ms = queue.dispatcher.steady_ms
        queue.dispatch.gate.check()
        if queue.purge_on_no_consumers:
            queue.purge()
    if outstanding:
        queue.dispatcher.slices.start(_take_back(queue, outstanding, FAILED if failed else RELEASED))
    queue.dispatch.mark_ready()


def _take_back(queue: "Queue", references: list[Reference], outcome: int) -> Steps:
    """Put back a consumer's deliveries, in slices. Nothing is delivered until the last is back, to preserve order."""
    queue.dispatch.returning += 1
    left = SLICE_MESSAGES
    # Newest first, so that each finds its place at the head at once.
    for reference in references:
        give_back(reference, outcome)
        left -= 1
        if left == 0:
            left = SLICE_MESSAGES
            yield None
    queue.dispatch.returning -= 1
    queue.dispatch.mark_ready()
    return None


def _sequence_of(reference: Reference) -> int:
    return reference.sequence
