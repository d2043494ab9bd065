"""The history of a retroactive address: two rings with its last messages, and the binding that fills them.

Both rings are internal queues, so each keeps its messages in the order in which they were sent, whatever their
priorities. A message in a ring has the address that it was sent to, and all of its other attributes. Only its delivery
time is set aside: a ring keeps messages in the order of sending, and a queue that begins with the history schedules the
message itself.

The copy in the rings is a message of its own, so it counts at the internal address and fills no limit of the real one.
In the store it has the id of the original, and all references to both share one body (`Message.is_shared`).
"""

from typing import Final

from artemis_py.core.addresses.address import Address
from artemis_py.core.addresses.binding import Binding
from artemis_py.core.messages.message import Message
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.page import Page
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.reference import WAITING, Reference
from artemis_py.core.settings.queue_config import QueueConfig
from artemis_py.errors import StoreError

DUE: Final = "_AMQ_RETRO_DUE"
"""Property of a message in a ring: the delivery time that its producer gave it, in milliseconds since 1970."""

RING_PRIORITY: Final = 4
"""Priority of the one list that an internal queue uses."""

HINT_DISTANCE: Final = 500
"""A reader remembers one message of so many that it has read, to find its place again."""


class HistoryNames:
    """The names of what belongs to a retroactive address, as in Artemis (artemis-model §3.11)."""

    def __init__(self, prefix: str, address: str) -> None:
        self.address: Final = f"{prefix}{address}.address.retro"
        self.multicast: Final = f"{prefix}{address}.queue.multicast.retro"
        self.anycast: Final = f"{prefix}{address}.queue.anycast.retro"
        self.divert: Final = f"{prefix}{address}.divert.retro"


class History(Binding):
    """Puts a copy of each message of an address into the rings for its routing type, both if it has none."""

    def __init__(self, name: str, address: Address, multicast: Queue, anycast: Queue, size: int) -> None:
        super().__init__(name, address, RoutingType.MULTICAST)
        self.takes_any_type = True
        self.is_accessory = True
        self.multicast: Final = multicast
        self.anycast: Final = anycast
        self.size: int = size
        """Number of messages that each ring keeps."""
        self._last_id: int = 0

    def ring(self, routing_type: RoutingType) -> Queue:
        """Return the ring for queues of this type."""
        return self.multicast if routing_type is RoutingType.MULTICAST else self.anycast

    @property
    def has_messages(self) -> bool:
        """Whether a ring has messages."""
        return self.multicast.waiting_count + self.anycast.waiting_count > 0

    def take(self, message: Message) -> None:
        """Put a copy into the rings."""
        copy = message.copy(message.address)
        copy.routing_type = message.routing_type
        copy.expires_ms = message.expires_ms
        copy.stored_first = message.stored_first
        copy.origin = self.multicast.address
        copy.is_shared = True
        if message.delivery_time_ms or message.id < self._last_id:
            # Another content, or the message of a transaction that began earlier. Ids ascend in a ring, so that the
            # first and the last tell which messages are in a history (`Queue.began_with`).
            copy.id = self.multicast.dispatcher.numbers.new_message_id()
        else:
            copy.id = message.id
            message.is_shared = True
        if message.delivery_time_ms:
            copy.set_extra(DUE, message.delivery_time_ms)
        self._last_id = copy.id
        if message.routing_type != RoutingType.ANYCAST:
            self.multicast.take(copy)
        if message.routing_type != RoutingType.MULTICAST:
            self.anycast.take(copy)


def ring_config(name: str, address: str, routing_type: RoutingType, size: int) -> QueueConfig:
    """Return the attributes of a ring. It sets all those that the settings of a broad match could change."""
    return QueueConfig(
        name=name,
        address=address,
        routing_type=routing_type,
        internal=True,
        max_consumers=0,
        ring_size=size,
        auto_delete=False,
        exclusive=False,
        last_value=False,
        non_destructive=False,
        purge_on_no_consumers=False,
    )


def as_sent(message: Message, now_ms: int) -> Message:
    """Return a message of a ring with the delivery time that its producer gave it, unless that is over."""
    extra = message.extra
    due_ms = None if extra is None else extra.get(DUE)
    if extra is None or not isinstance(due_ms, int):
        return message
    sent = message.copy(message.address)
    sent.id = message.id
    sent.origin = message.origin
    sent.routing_type = message.routing_type
    sent.expires_ms = message.expires_ms
    sent.delivery_time_ms = due_ms if due_ms > now_ms else 0
    sent.extra = {name: value for name, value in extra.items() if name != DUE} or None
    return sent


class HistoryReader:
    """Reads a ring from the oldest message on, and removes nothing.

    It keeps no messages between two calls, so a thousand readers take no memory worth counting.
    """

    def __init__(self, ring: Queue, position: int, upto: int) -> None:
        self.ring: Final = ring
        self.position: int = position
        """Everything up to this sequence was read, or is gone."""
        self.upto: Final = upto
        """Last sequence to read."""
        self._hints: list[Reference] = []
        """Messages in memory that were read; the next one follows the last of them that is still there."""
        self._emptied = ring.backlog.emptied

    @property
    def is_done(self) -> bool:
        """Whether everything was read."""
        return self.position >= self.upto

    def read(self, limit: int) -> list[Reference]:
        """Return the next messages, about `limit`. Raises StoreError if the disk cannot be read now."""
        backlog = self.ring.backlog
        found = self._in_memory(limit)
        end = found[-1].sequence if len(found) >= limit else self.upto
        tail = backlog.tails[RING_PRIORITY]
        if tail is not None and tail.frontier < end:
            page: Page | None = backlog.scan(tail, max(tail.frontier, self.position), end, limit)
            if page is None:
                raise StoreError(f"messages of queue '{self.ring.name}' cannot be read")
            if page.end < end:
                end = page.end
                found = [reference for reference in found if reference.sequence <= end]
            self._remember(found)
            found = sorted(found + page.references, key=_sequence_of)
        else:
            self._remember(found)
        self.position = end
        return found

    def _in_memory(self, limit: int) -> list[Reference]:
        backlog = self.ring.backlog
        if self._emptied != backlog.emptied:
            self._emptied = backlog.emptied
            self._hints = []
        while self._hints and self._hints[-1].state != WAITING:
            self._hints.pop()
        candidate = self._hints[-1].next if self._hints else backlog.lists[RING_PRIORITY].head
        while candidate is not None and candidate.sequence <= self.position:
            candidate = candidate.next
        found: list[Reference] = []
        while candidate is not None and candidate.sequence <= self.upto and len(found) < limit:
            found.append(candidate)
            candidate = candidate.next
        return found

    def _remember(self, found: list[Reference]) -> None:
        if not found:
            return
        hints = self._hints
        if len(hints) > 1 and found[-1].sequence - hints[-2].sequence < HINT_DISTANCE:
            hints.pop()
        hints.append(found[-1])


def _sequence_of(reference: Reference) -> int:
    return reference.sequence
