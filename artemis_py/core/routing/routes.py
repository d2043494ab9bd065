"""Which queues a message goes to: the routing table of one address (reference §1.2).

Bindings are grouped by routing name and one queue of each group gets the message. A multicast queue is a group of
one. The anycast queues bound to one address are a group, whose members take turns; those bound to a wildcard
address that matches are a group of their own.
"""

from typing import Final

from artemis_py.core.messages.message import Message, RoutingType
from artemis_py.core.queues.queue import Queue

NO_TYPE: Final = -1
_MULTICAST: Final = 0
_ANYCAST: Final = 1


class AnycastGroup:
    """Queues of one address that take turns."""

    __slots__ = ("address", "index", "queues")

    def __init__(self, address: str, queues: list[Queue], index: int) -> None:
        self.address: str = address
        self.queues: list[Queue] = queues
        self.index: int = index
        """Whose turn it is."""

    def choose(self, message: Message) -> Queue | None:
        """The next queue that accepts the message, preferring those with a consumer for it; None: nobody accepts."""
        queues = self.queues
        count = len(queues)
        if count == 1:
            queue = queues[0]
            return queue if queue.accepts(message) else None
        fallback = -1
        start = self.index if self.index < count else 0
        for step in range(count):
            position = start + step
            if position >= count:
                position -= count
            queue = queues[position]
            if not queue.accepts(message):
                continue
            if queue.has_consumer_for(message):
                self.index = position + 1
                return queue
            if fallback < 0:
                fallback = position
        if fallback < 0:
            return None
        self.index = fallback + 1
        return queues[fallback]


class Routes:
    """Everything bound to one address, directly or through wildcards."""

    __slots__ = ("choices", "groups", "is_stale", "multicast", "only", "size", "wildcard_version")

    def __init__(self, bound: list[list[Queue]], previous: "Routes | None", wildcard_version: int) -> None:
        """`bound` holds the queues of each address that counts here; turns are carried over from `previous`."""
        self.multicast: list[Queue] = []
        self.groups: list[AnycastGroup] = []
        self.is_stale: bool = False
        self.wildcard_version: int = wildcard_version
        """Of the wildcard bindings this table was made from."""
        self.size: int = sum([len(queues) for queues in bound])
        """Queues that are bound."""
        self.choices: int = 0
        """Queues that have to be asked whether they want a message."""
        self.only: Queue | None = None
        """Set if there is one queue, anycast and without a filter: the usual case needs no choice."""
        for queues in bound:
            anycast: list[Queue] = []
            for queue in queues:
                if queue.routing_type == RoutingType.ANYCAST:
                    anycast.append(queue)
                else:
                    self.multicast.append(queue)
                    self.choices += queue.filter is not None
            if len(anycast) > 1 or (anycast and anycast[0].filter is not None):
                self.choices += len(anycast)
            if anycast:
                address = anycast[0].address.name
                index = 0
                if previous is not None:
                    for group in previous.groups:
                        if group.address == address:
                            index = group.index
                self.groups.append(AnycastGroup(address, anycast, index))
        if not self.multicast and len(self.groups) == 1:
            queues = self.groups[0].queues
            if len(queues) == 1 and queues[0].filter is None:
                self.only = queues[0]

    def select(self, message: Message) -> list[Queue]:
        """The queues that get this message."""
        routing_type = message.routing_type
        targets: list[Queue] = []
        if routing_type != _ANYCAST:
            for queue in self.multicast:
                if queue.filter is None or queue.filter.matches(message):
                    targets.append(queue)
        if routing_type != _MULTICAST:
            for group in self.groups:
                chosen = group.choose(message)
                if chosen is not None:
                    targets.append(chosen)
        return targets
