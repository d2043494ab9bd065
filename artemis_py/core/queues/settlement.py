"""Settlement: a delivery is acknowledged, given back, sent to the dead-letter address, or claimed by a transaction.

The functions take a delivered (or claimed) reference; its queue is `Reference.queue`.
"""

from typing import TYPE_CHECKING

from artemis_py.core.messages.message import Message
from artemis_py.core.queues.outcomes import BY_CONSUMER, EXPIRED, FAILED, REJECTED
from artemis_py.core.queues.reference import CLAIMED, DELIVERING, GONE, Reference, Shown, hold, unhold

if TYPE_CHECKING:
    from artemis_py.core.queues.consumer import Consumer
    from artemis_py.core.queues.queue import Queue


def acknowledge(reference: Reference) -> None:
    """End a delivery whose message was processed."""
    queue = reference.queue
    queue.delivering_count -= 1
    queue.messages_acknowledged += 1
    if queue.assignment is not None:
        queue.assignment.settled(queue, reference)
    # The same as `forget`, without the calls, because nearly every message ends here.
    reference.state = GONE
    reference.consumer = None
    if reference.handle:
        if queue.backlog.cold_mask:
            unstore(reference)
        else:
            queue.dispatcher.storage_remove(reference)
    if queue.entry is not None:
        queue.entry.ended(queue, reference)
    message = reference.message
    message.references -= 1
    origin = message.origin
    if message.references == 0:
        if origin is not None:
            origin.discharge(message)
        if message.large is not None:
            message.large.release()
    elif origin is not None:
        origin.discharge_reference()


def give_back(reference: Reference, outcome: int) -> None:
    """End a delivery whose message was not processed: RELEASED, FAILED, REJECTED or EXPIRED."""
    if isinstance(reference, Shown):
        end_shown(reference)
        return
    queue = reference.queue
    queue.delivering_count -= 1
    if queue.assignment is not None:
        queue.assignment.settled(queue, reference)
    consumer = reference.consumer
    reference.consumer = None
    reference.was_acquired = True
    if queue.is_deleted:
        forget(reference)
        return
    if outcome == REJECTED:
        _kill(reference, BY_CONSUMER)
        return
    if outcome == EXPIRED:
        queue.expiry.end(reference)
        return
    delay_ms = 0
    if outcome == FAILED:
        reference.delivery_count += 1
        settings = queue.address.settings
        if not queue.internal:
            if 0 < settings.max_delivery_attempts <= reference.delivery_count:
                _kill(reference, f"{reference.delivery_count} attempts to deliver it failed")
                return
            if settings.redelivery_delay > 0:
                delay_ms = _redelivery_delay_ms(reference)
        if reference.handle:
            queue.dispatcher.storage.update(reference, queue.dispatcher.now_ms + delay_ms if delay_ms else 0)
    if queue.purge_on_no_consumers and not queue.consumers:
        queue.messages_killed += 1
        forget(reference)
    elif delay_ms > 0 and queue.entry is not None and not queue.entry.may_return(queue, reference):
        queue.messages_replaced += 1
        forget(reference)
    elif delay_ms > 0:
        delay(reference, delay_ms)
    else:
        near: Reference | None = None
        if consumer is not None and consumer.cursor is not None and not consumer.is_closed:
            near = consumer.cursor.place(queue.backlog.priority_of(reference))
        put_back(reference, near)


def put_back(reference: Reference, near: Reference | None) -> None:
    """Put a returned reference back at its place, searching from `near`, or from the head."""
    queue = reference.queue
    if queue.entry is not None and not queue.entry.readmit(queue, reference):
        queue.messages_replaced += 1
        forget(reference)
        return
    queue.backlog.insert(reference, near)
    if queue.assignment is not None:
        queue.assignment.came_back(queue, reference)
    elif queue.dispatch.cursor_count > 0:
        for consumer in queue.consumers:
            if consumer.cursor is not None:
                consumer.cursor.came_back(consumer, reference)
    queue.dispatch.mark_ready()


def delay(reference: Reference, delay_ms: int) -> None:
    """Keep a failed delivery out of the backlog for this time."""
    queue = reference.queue
    queue.aside[reference.sequence] = reference
    queue.schedule.delay(reference, delay_ms)


def _redelivery_delay_ms(reference: Reference) -> int:
    """Return the delay before the next attempt (artemis-model §3.10); the cap is applied last."""
    settings = reference.queue.address.settings
    maximum = float(settings.max_redelivery_delay)
    wait_ms = float(settings.redelivery_delay)
    for _ in range(reference.delivery_count - 1):
        wait_ms *= settings.redelivery_delay_multiplier
        if wait_ms >= maximum:
            break
    factor = settings.redelivery_collision_avoidance_factor
    if factor > 0:
        # One random number in [-1, 1) decides size and direction.
        wait_ms += wait_ms * factor * (2.0 * reference.queue.routing.random() - 1.0)
    return int(min(wait_ms, maximum))


def _kill(reference: Reference, cause: str) -> None:
    """Send a message to the dead-letter address."""
    queue = reference.queue
    queue.messages_killed += 1
    if not queue.internal:
        queue.routing.dead_letter(reference, cause)
    forget(reference)


def replace(reference: Reference) -> None:
    """Remove a waiting message to make room for another."""
    queue = reference.queue
    queue.backlog.unlink(reference)
    queue.messages_replaced += 1
    forget(reference)


def amend(reference: Reference, message: Message) -> None:
    """Replace a delivered message by the version that its consumer changed, before it is given back.

    Other queues that share the message keep the original. The change is as durable as the reference.
    """
    hold(message)
    unhold(reference.message)
    reference.message = message
    if reference.handle and not reference.queue.is_deleted:
        reference.queue.dispatcher.storage.update(reference, 0)


# -- queues that keep their messages ---------------------------------------------------------------------------


def show(reference: Reference, consumer: "Consumer") -> Shown:
    """Return a delivery of a message that stays in the queue, in memory or on disk. It counts as one more reference."""
    queue = reference.queue
    message = reference.message
    if message.references == 0:
        # Just read from disk.
        message.origin = queue.routing.account_of(message, queue.address)
    hold(message)
    shown = Shown(message, queue)
    shown.sequence = reference.sequence
    shown.delivery_count = reference.delivery_count
    shown.was_acquired = reference.was_acquired
    shown.state = DELIVERING
    consumer.adopt(shown)
    return shown


def end_shown(shown: Shown) -> None:
    """End such a delivery, unless it has ended."""
    if shown.state == GONE:
        return
    if shown.consumer is not None:
        shown.consumer.relinquish(shown)
        shown.consumer = None
    shown.state = GONE
    unhold(shown.message)


# -- transactions ----------------------------------------------------------------------------------------------


def claim(reference: Reference) -> None:
    """Settle a delivery in a transaction: the consumer no longer has it, but it stays in the queue."""
    consumer = reference.consumer
    if consumer is not None:
        consumer.relinquish(reference)
    reference.state = CLAIMED
    reference.queue.aside[reference.sequence] = reference


def end_claim(reference: Reference) -> None:
    """End a claim when its transaction ends; `acknowledge`, `give_back` or `unclaim` follows."""
    # No `pop`: compiled, that is a call by name, and brokers of a mesh do this for each message.
    aside = reference.queue.aside
    if reference.sequence in aside:
        del aside[reference.sequence]


def unclaim(reference: Reference) -> bool:
    """Hand a claimed delivery back to its consumer after `end_claim`; False if the consumer is gone."""
    consumer = reference.consumer
    if consumer is None or consumer.is_closed:
        return False
    reference.state = DELIVERING
    consumer.adopt(reference)
    return True


def claim_stored(queue: "Queue", priority: int, sequence: int) -> Reference | None:
    """Claim a message that an earlier run left on disk, for the transaction that had claimed it then.

    It counts as in delivery, without a consumer. None if it is no longer in the queue, or cannot be read.
    """
    backlog = queue.backlog
    tail = backlog.tails[priority]
    if tail is None:
        return None
    page = backlog.scan(tail, sequence - 1, sequence, 1)
    if page is None or not page.references:
        return None
    reference = page.references[0]
    backlog.pull(tail, reference)
    reference.state = CLAIMED
    queue.aside[sequence] = reference
    queue.delivering_count += 1
    if reference.message.expires_ms:
        queue.expiry.note(reference.message.expires_ms)
    backlog.close(tail, priority)
    return reference


# -- the end of a reference ------------------------------------------------------------------------------------


def forget(reference: Reference) -> None:
    """Forget a reference for good. References of a deleted queue leave the store together with the queue."""
    queue = reference.queue
    reference.state = GONE
    reference.consumer = None
    if queue.aside:
        queue.aside.pop(reference.sequence, None)
    if queue.assignment is not None:
        queue.assignment.removed(queue, reference)
    if reference.handle and not queue.is_deleted:
        unstore(reference)
    if queue.entry is not None:
        queue.entry.ended(queue, reference)
    unhold(reference.message)


def unstore(reference: Reference) -> None:
    """Have the store forget a reference, and note that it can still be read until that is committed."""
    queue = reference.queue
    if reference.sequence == 0:
        queue.schedule.left(reference)
    elif queue.backlog.cold_mask:
        tail = queue.backlog.tails[queue.backlog.priority_of(reference)]
        if tail is not None:
            tail.left(reference)
    queue.dispatcher.storage.remove(reference)
