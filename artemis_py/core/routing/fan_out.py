"""The way of one message into many queues.

A copy for a subscriber that waits only for the next visit of the dispatcher is a place in a list (`unlisted`). What
decides on that is the same for all queues where it concerns the message, and is looked at once here; the rest is asked
of each queue without a call. Whatever is unusual about a queue leaves the message to `Queue.offer`.
"""

from artemis_py.core.addresses.binding import Binding
from artemis_py.core.messages.message import DEFAULT_PRIORITY, Message
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.reference import hold_more


# One loop of 45 lines, because it runs once per copy: as in `dispatch`, its steps are no methods.
def offer_to_all(message: Message, targets: list[Binding]) -> int:
    """Offer a message that was sent just now to its targets; return how many it passed through (`Binding.offer`)."""
    origin = message.origin
    if (
        origin is None
        or message.expires_ms
        or message.delivery_time_ms
        or message.has_group
        or message.large is not None
        or message.priority != DEFAULT_PRIORITY
        or not message.durable
        or origin.account.is_full
        or origin.broker_account.is_tight
    ):
        return _offer_one_by_one(message, targets)
    size = message.size
    passed = 0
    kept = 0
    for target in targets:
        # What `passing.keep_unlisted` asks and does.
        if isinstance(target, Queue):
            consumer = target.passing
            sequence = target.next_sequence
            if (
                consumer is not None
                and not consumer.presettled
                and consumer.cursor is None
                and target.assignment is None
                and target.entry is None
                and target.enabled
                and not target.is_stored
                and (target.address is origin or not target.address.account.is_full)
                and target.backlog.add_unlisted(message, sequence, size)
            ):
                target.next_sequence = sequence + 1
                target.messages_added += 1
                kept += 1
                dispatch = target.dispatch
                if not dispatch.is_ready:
                    dispatch.mark_ready()
                continue
        if kept:
            hold_more(message, kept)
            kept = 0
        if target.offer(message):
            passed += 1
    if kept:
        hold_more(message, kept)
    return passed


def _offer_one_by_one(message: Message, targets: list[Binding]) -> int:
    passed = 0
    for target in targets:
        if target.offer(message):
            passed += 1
    return passed
