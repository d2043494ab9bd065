"""Messages that a queue passes on to its only consumer, and never holds.

A message that is to be delivered at most once, to a subscriber that takes everything at once, passes through its queue
without a trace: it is taken, delivered and acknowledged in one step. In a fan-out that is what nearly every copy does,
and it costs a quarter of what a reference costs, its place in the backlog and the visit of the dispatcher.

A message that its consumer settles needs a reference, and is not passed on. Handing it over with one while it is
routed was tried and costs more: in a fan-out it touches everything of all subscribers for each message, where a visit
of the dispatcher serves one subscriber with many messages (`benchmarks/README.md`). So it waits for that visit, and is
kept until then without a reference (`unlisted`).

It is exactly what a queue would do with the message in this iteration of the loop; whatever could make a difference
(messages that wait, a rule, a pause, an expiry, the store) leaves the message to the queue.
"""

from typing import TYPE_CHECKING

from artemis_py.core.messages.message import DEFAULT_PRIORITY, Message
from artemis_py.core.queues.reference import hold

if TYPE_CHECKING:
    from artemis_py.core.queues.queue import Queue


def find_passing(queue: "Queue") -> None:
    """Note which consumer messages may be passed on to, after consumers have changed."""
    consumers = queue.consumers
    queue.passing = consumers[0] if len(consumers) == 1 and consumers[0].passing is not None else None


def pass_on(queue: "Queue", message: Message) -> bool:
    """Pass a message on to the only consumer (`Queue.passing`); False: the queue has to take it."""
    consumer = queue.passing
    if (
        consumer is None
        or (message.durable and not consumer.presettled)
        or consumer.credit <= 0
        or consumer.blocked
        # It may have to skip messages, or only looks at them.
        or consumer.cursor is not None
        or queue.backlog.count
        or queue.assignment is not None
        or queue.entry is not None
        or queue.paused
        or queue.address.paused
        or not queue.enabled
        or message.expires_ms
        or message.delivery_time_ms
        or message.has_group
        or message.large is not None
        or (message.durable and queue.is_stored)
    ):
        return False
    dispatch = queue.dispatch
    sink = consumer.passing
    if sink is None or dispatch.returning or dispatch.watcher is not None or not dispatch.gate.is_open:
        return False
    if not sink.pass_on(message):
        return False
    consumer.credit -= 1
    consumer.accepted += 1
    queue.messages_added += 1
    queue.messages_acknowledged += 1
    return True


def keep_unlisted(queue: "Queue", message: Message) -> bool:
    """Keep a message for the only consumer (`Queue.passing`) without a reference; False: the queue has to take it."""
    consumer = queue.passing
    origin = message.origin
    if (
        consumer is None
        or consumer.cursor is not None
        or queue.assignment is not None
        or queue.entry is not None
        or not queue.enabled
        or queue.address.account.is_full
        or origin is None
        or origin.account.is_full
        or queue.dispatcher.account.is_tight
        or message.expires_ms
        or message.delivery_time_ms
        or message.has_group
        or message.large is not None
        or message.priority != DEFAULT_PRIORITY
        or (message.durable and queue.is_stored)
        or not queue.backlog.add_unlisted(message, queue.next_sequence, message.size)
    ):
        return False
    queue.next_sequence += 1
    queue.messages_added += 1
    hold(message)
    dispatch = queue.dispatch
    if not dispatch.is_ready:
        dispatch.mark_ready()
    return True
