"""What clients were promised and what they got, and what of that must never be."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cluster.clients import SimConsumer


class Entry:
    """One message."""

    __slots__ = (
        "claims",
        "deliveries",
        "durable",
        "holder",
        "is_acknowledged",
        "is_confirmed",
        "number",
        "origin",
        "settled_at",
    )

    def __init__(self, durable: bool, origin: str, number: int) -> None:
        self.durable = durable
        self.origin = origin
        self.number = number
        """Its place among all messages that were sent."""
        self.claims: set[tuple[str, int, int]] = set()
        """Nodes that have claimed it for another one, with channel and number."""
        self.is_acknowledged = False
        self.is_confirmed = False
        self.holder: SimConsumer | None = None
        """The consumer that has it and has not settled it."""
        self.settled_at: tuple[SimConsumer, int] | None = None
        """The consumer that accepted it, and the generation of its node: a crash takes that back until it is stored."""
        self.deliveries = 0


class Ledger:
    """All messages of one run, by their bodies."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.violations: list[str] = []
        self.crashes = 0
        self.has_order = False
        """Whether messages of one node must come in the order in which they were sent: see `came_in_order`."""
        self.selective: set[str] = set()
        """Queues of which a consumer has ever selected what it got."""

    def sent(self, body: str, durable: bool, origin: str) -> None:
        self.entries[body] = Entry(durable, origin, len(self.entries))

    def acknowledged(self, body: str) -> None:
        self.entries[body].is_acknowledged = True

    def delivered(self, body: str, consumer: "SimConsumer") -> None:
        entry = self.entries[body]
        entry.deliveries += 1
        where = f"{body} delivered to {consumer.name}"
        if entry.is_confirmed:
            self.violations.append(f"doubled: {where} after its consumption was confirmed")
        elif entry.holder is not None and entry.holder.holds(body):
            self.violations.append(f"doubled: {where} while {entry.holder.name} has it")
        elif entry.settled_at is not None and entry.settled_at[0].node.generation == entry.settled_at[1]:
            self.violations.append(f"doubled: {where} after {entry.settled_at[0].name} had accepted it")
        entry.holder = consumer
        entry.settled_at = None

    def came_in_order(self, body: str, consumer: "SimConsumer") -> bool:
        """Tell whether a consumer got a message behind what its producer had sent before (I4, mesh §4.14).

        That is not promised for what was delivered before, has moved twice, or has returned from a peer; nor where
        messages have moved for a selector, because those between them follow if its consumer has left.
        """
        if not self.has_order or consumer.consumer.queue.name in self.selective:
            return True
        entry = self.entries[body]
        if entry.deliveries or len(entry.claims) > 1 or any(node == consumer.node.name for node, _, _ in entry.claims):
            return True
        last = consumer.last.get(entry.origin, -1)
        consumer.last[entry.origin] = max(entry.number, last)
        return entry.number > last

    def accepted(self, body: str, consumer: "SimConsumer") -> None:
        entry = self.entries[body]
        entry.holder = None
        entry.settled_at = (consumer, consumer.node.generation)

    def released(self, body: str) -> None:
        self.entries[body].holder = None

    def confirmed(self, body: str) -> None:
        self.entries[body].is_confirmed = True

    def missing(self) -> list[str]:
        """Messages that were promised and never consumed; those that are not durable only if nothing has crashed.

        A consumer that accepted a message had it, even if the crash of its broker kept that from being confirmed.
        """
        return [
            body
            for body, entry in self.entries.items()
            if entry.is_acknowledged
            and not entry.is_confirmed
            and not entry.settled_at
            and (entry.durable or not self.crashes)
        ]
