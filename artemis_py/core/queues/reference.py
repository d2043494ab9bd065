"""A reference: one message in one queue, and the sorted lists in which references wait.

Appending, removing and putting back are O(1) whatever the length of a list.
"""

from typing import TYPE_CHECKING, Final

from artemis_py.core.messages.message import Message

if TYPE_CHECKING:
    from artemis_py.core.messages.account import MessageAccount
    from artemis_py.core.queues.consumer import Consumer
    from artemis_py.core.queues.cursors.list_cursor import ListCursor
    from artemis_py.core.queues.outstanding import Outstanding
    from artemis_py.core.queues.queue import Queue

PRIORITIES: Final = 10

# Where a reference is.
WAITING: Final = 0
DELIVERING: Final = 1
SCHEDULED: Final = 2
GONE: Final = 3
CLAIMED: Final = 4
"""Settled in a transaction that has not ended."""
COLD: Final = 5
"""On its way to disk: no list has it, and once committed it is not in memory until it is needed again."""


def hold(message: Message) -> None:
    """Count one more reference to a message, in the account of the address that it was sent to."""
    origin = message.origin
    if message.references == 0:
        if origin is not None:
            origin.charge(message)
        if message.large is not None:
            message.large.hold()
    elif origin is not None:
        origin.charge_reference()
    message.references += 1


def hold_more(message: Message, count: int) -> None:
    """Count several more references to a message; it has no large body."""
    origin = message.origin
    more = count
    if message.references == 0:
        more -= 1
        if origin is not None:
            origin.charge(message)
    message.references += count
    if more and origin is not None:
        origin.charge_references(more)


def unhold(message: Message) -> None:
    """Undo one `hold`."""
    message.references -= 1
    origin = message.origin
    if message.references == 0:
        if origin is not None:
            origin.discharge(message)
        if message.large is not None:
            message.large.release()
    elif origin is not None:
        origin.discharge_reference()


def unhold_all(messages: list[Message], start: int, stop: int) -> int:
    """Undo one `hold` of each message in `messages[start:stop]`; return their size in bytes."""
    size_bytes = 0
    origin: MessageAccount | None = None
    references = 0
    for index in range(start, stop):
        message = messages[index]
        size_bytes += message.size
        if message.references > 1 and message.origin is origin:
            # Nearly always: the copy of another subscriber is still under way.
            message.references -= 1
            references += 1
            continue
        if references and origin is not None:
            origin.discharge_references(references)
        references = 0
        origin = message.origin
        unhold(message)
    if references and origin is not None:
        origin.discharge_references(references)
    return size_bytes


class Reference:
    """One message in one queue."""

    __slots__ = ("batch", "consumer", "cursors", "delivery_count", "handle", "hidden_from", "key", "message", "next",
                 "outstanding", "previous", "put_at", "queue", "sequence", "state", "was_acquired")  # fmt: skip

    def __init__(self, message: Message, queue: "Queue", handle: int = 0) -> None:
        self.message: Message = message
        self.queue: Queue = queue
        self.handle: int = handle
        """The store's key for it within its queue, set by the store; 0 if it is not stored. The last 56 bits are the
        sequence, or the store's running number while the reference has no sequence."""
        self.batch: int = 0
        """The batch that writes it, if it has to be durable before it is delivered; set by the store."""
        self.put_at: int = 0
        """Its place among the references of the batch that writes it; the store's own."""
        self.sequence: int = 0
        """Position in the queue, from 1; given when the message becomes visible, never reused. 0: not visible yet."""
        self.delivery_count: int = 0
        """Number of earlier delivery attempts that count."""
        self.was_acquired: bool = False
        """Whether it came back from a consumer at least once, whether or not the attempt counted."""
        self.state: int = WAITING
        self.previous: Reference | None = None
        self.next: Reference | None = None
        self.outstanding: Outstanding | None = None
        """The unsettled deliveries that it is one of."""
        self.consumer: Consumer | None = None
        """The consumer that has it while it is delivered or claimed."""
        self.cursors: set[ListCursor] | None = None
        """Cursors that examined everything up to and including this reference."""
        self.key: bytes | None = None
        """Its key in a last-value queue, which the store keeps with it; None if it has none."""
        self.hidden_from: set[int] | None = None
        """Ids of consumers that must not get it again."""

    def lookup(self, name: str) -> object:
        """Return what a selector finds under `name`: the queue's own facts first, then the message's."""
        if name == "amqp.annotation.x-opt-sequence-number":
            return self.sequence
        if name == "JMSXDeliveryCount":
            return self.delivery_count + 1
        if name == "JMSRedelivered":
            return self.delivery_count > 0
        return self.message.lookup(name)


class Shown(Reference):
    """A delivery of a message that stays in its queue, to a consumer of a queue that keeps its messages.

    It has the message's sequence and no handle. Settling it, in whatever way, ends it and changes nothing else.
    """

    __slots__ = ()


class ReferenceList:
    """The waiting references of one priority, sorted by sequence."""

    __slots__ = ("count", "head", "tail")

    def __init__(self) -> None:
        self.head: Reference | None = None
        self.tail: Reference | None = None
        self.count: int = 0

    def append(self, reference: Reference) -> None:
        """Add the newest reference."""
        tail = self.tail
        reference.previous = tail
        reference.next = None
        if tail is None:
            self.head = reference
        else:
            tail.next = reference
        self.tail = reference
        self.count += 1

    def insert(self, reference: Reference, near: Reference | None) -> None:
        """Put a reference back at its place, searching from `near`, or from the head."""
        sequence = reference.sequence
        after = near
        while after is not None and after.sequence > sequence:
            after = after.previous
        following = self.head if after is None else after.next
        while following is not None and following.sequence < sequence:
            after = following
            following = following.next
        reference.previous = after
        reference.next = following
        if after is None:
            self.head = reference
        else:
            after.next = reference
        if following is None:
            self.tail = reference
        else:
            following.previous = reference
        self.count += 1

    def unlink(self, reference: Reference, priority: int) -> None:
        """Remove a reference, wherever it is; cursors on it step back."""
        previous = reference.previous
        following = reference.next
        if previous is None:
            self.head = following
        else:
            previous.next = following
        if following is None:
            self.tail = previous
        else:
            following.previous = previous
        if reference.cursors is not None:
            for cursor in reference.cursors:
                cursor.places[priority] = previous
            if previous is not None:
                if previous.cursors is None:
                    previous.cursors = reference.cursors
                else:
                    previous.cursors |= reference.cursors
            reference.cursors = None
        reference.previous = None
        reference.next = None
        self.count -= 1
