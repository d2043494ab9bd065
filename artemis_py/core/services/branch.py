"""A transaction branch (XA), and the record that keeps a prepared one through a restart.

A record is JSON, in the space `branches`, by the key of the xid. Queues are named by their ids, which are never used
again, so a queue that is deleted and created again is not the same; other bindings are named by their names.

    user, started, prepared    who began the branch, and the times in ms since 1970
    first, stored              sequence of its first message in the queue of prepared messages; number of durable ones
    routes                     address that messages were sent to, and their bindings: ids of queues, names of others
    messages                   the index of the route of each message
    sizes                      address, number and size of the durable messages that were sent to it
    settled                    queue id, priority, sequence, outcome, and in base64 what the consumer changed
    ids                        address and id, in hexadecimal, of duplicate detection

What is not durable is left out: after a restart, the branch is without it.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any, Final

from artemis_py.core.addresses.address import Address
from artemis_py.core.addresses.binding import Binding
from artemis_py.core.messages.message import Message
from artemis_py.core.messages.record import amend, encode_amendment
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.settlement import claim_stored
from artemis_py.core.routing.transaction import Settlement, Transaction
from artemis_py.core.services.prepared_messages import MessageRange
from artemis_py.core.services.xid import Xid
from artemis_py.core.sessions.session import Session

BRANCHES: Final = "branches"
"""Space of the store's records of prepared branches."""

Target = Binding | str
"""A binding, or the name of one that is not a queue, which may be bound again only after a start."""


class Route:
    """Where a message of a prepared branch goes."""

    __slots__ = ("address", "targets")

    def __init__(self, address: str, targets: Sequence[Target]) -> None:
        self.address: str = address
        """The address that it was sent to, whose limits it counts towards; empty: unknown."""
        self.targets: Sequence[Target] = targets


class Content:
    """What a prepared branch is to do."""

    __slots__ = ("ids", "messages", "routes", "settlements", "sizes", "stored_count")

    def __init__(self, messages: MessageRange) -> None:
        self.messages: MessageRange = messages
        self.routes: list[Route] = []
        """The routes of its messages, in the order of their sequences."""
        self.settlements: list[Settlement] = []
        self.ids: list[tuple[str, bytes]] = []
        """Address and duplicate id of its messages that have one."""
        self.sizes: list[tuple[Address, int, int]] = []
        """Number and size of its messages, by the address that they were sent to: they count there as if on disk."""
        self.stored_count: int = 0
        """Number of its messages that are durable."""

    @property
    def size(self) -> int:
        """Number of its messages, settlements and ids."""
        return len(self.routes) + len(self.settlements) + len(self.ids)

    def addresses(self) -> set[str]:
        """Return the names of the addresses that it needs."""
        found: set[str] = set()
        for route in self.routes:
            if route.address:
                found.add(route.address)
            for target in route.targets:
                if isinstance(target, Binding):
                    found.add(target.address.name)
        for settlement in self.settlements:
            found.add(settlement.reference.queue.address.name)
        return found


class Branch:
    """One branch: a transaction of a session until it is prepared, on its own from then on."""

    __slots__ = ("content", "prepared_ms", "session", "started_ms", "transaction", "user", "xid")

    def __init__(self, xid: Xid, user: str | None, started_ms: int) -> None:
        self.xid: Xid = xid
        self.user: str | None = user
        """The user that began it, and may finish it."""
        self.started_ms: int = started_ms
        self.prepared_ms: int = 0
        self.session: Session | None = None
        self.transaction: Transaction | None = None
        """What it does, until it is prepared."""
        self.content: Content | None = None
        """The same, from then on."""


def write_branch(branch: Branch, messages: Sequence[Message]) -> bytes:
    """Return the record of a prepared branch; `messages` are those that it sends."""
    content = branch.content
    assert content is not None
    routes: dict[tuple[str, tuple[int | str, ...]], int] = {}
    indexes = []
    sizes: dict[str, tuple[int, int]] = {}
    for route, message in zip(content.routes, messages, strict=True):
        named = route.address, _names_of(route.targets)
        index = routes.get(named)
        if index is None:
            index = routes[named] = len(routes)
        indexes.append(index)
        if message.durable:
            count, size = sizes.get(route.address, (0, 0))
            sizes[route.address] = count + 1, size + message.size
    settled = []
    for settlement in content.settlements:
        reference = settlement.reference
        queue = reference.queue
        if reference.handle and queue.is_stored:
            amendment = "" if settlement.amended is None else b64encode(encode_amendment(settlement.amended)).decode()
            priority = queue.backlog.priority_of(reference)
            settled.append((queue.id, priority, reference.sequence, settlement.outcome, amendment))
    record = {
        "user": branch.user,
        "started": branch.started_ms,
        "prepared": branch.prepared_ms,
        "first": content.messages.first,
        "stored": sum(message.durable for message in messages),
        "routes": list(routes),
        "messages": indexes,
        "sizes": [(address, *numbers) for address, numbers in sizes.items()],
        "settled": settled,
        "ids": [(address, id.hex()) for address, id in content.ids],
    }
    return json.dumps(record, separators=(",", ":")).encode()


def _names_of(targets: Sequence[Target]) -> tuple[int | str, ...]:
    """Return the names of bindings that a restart brings back."""
    names: list[int | str] = []
    for target in targets:
        if isinstance(target, str):
            names.append(target)
        elif not isinstance(target, Queue):
            names.append(target.name)
        elif target.is_stored:
            names.append(target.id)
    return tuple(names)


class StoredBranch:
    """The record of a branch, as `write_branch` made it."""

    __slots__ = ("first", "ids", "indexes", "prepared_ms", "routes", "settled", "sizes", "started_ms", "stored_count",
                 "user")  # fmt: skip

    def __init__(self, value: bytes) -> None:
        """Raises ValueError, KeyError or TypeError if it is no such record."""
        record: dict[str, Any] = json.loads(value)
        user: str | None = record["user"]
        self.user: str | None = user
        self.started_ms: int = record["started"]
        self.prepared_ms: int = record["prepared"]
        self.first: int = record["first"]
        self.stored_count: int = record["stored"]
        self.routes: list[tuple[str, list[int | str]]] = [(str(name), list(route)) for name, route in record["routes"]]
        self.indexes: list[int] = [int(index) for index in record["messages"]]
        self.sizes: list[tuple[str, int, int]] = [(str(name), int(n), int(size)) for name, n, size in record["sizes"]]
        self.settled: list[tuple[int, int, int, int, bytes]] = []
        for queue_id, priority, sequence, outcome, amendment in record["settled"]:
            self.settled.append((int(queue_id), int(priority), int(sequence), int(outcome), b64decode(amendment)))
        self.ids: list[tuple[str, bytes]] = [(str(address), bytes.fromhex(id)) for address, id in record["ids"]]
        if self.indexes and not 0 <= min(self.indexes) <= max(self.indexes) < len(self.routes):
            raise ValueError("a message has a route that does not exist")

    def content(self, messages: MessageRange, queues: dict[int, Queue]) -> Content:
        """Return what the branch is to do, and claim its deliveries again; `queues` are by id.

        Deliveries that their queue no longer has are left out: the queue or the message was deleted, or replaced by a
        newer last value.
        """
        content = Content(messages)
        content.stored_count = self.stored_count
        content.ids = self.ids
        routes = [Route(address, _targets_of(names, queues)) for address, names in self.routes]
        content.routes = [routes[index] for index in self.indexes]
        for queue_id, priority, sequence, outcome, amendment in self.settled:
            queue = queues.get(queue_id)
            reference = None if queue is None else claim_stored(queue, priority, sequence)
            if reference is not None:
                amended = amend(reference.message, amendment) if amendment else None
                content.settlements.append(Settlement(reference, outcome, True, True, amended))
        return content


def _targets_of(names: list[int | str], queues: dict[int, Queue]) -> list[Target]:
    targets: list[Target] = []
    for name in names:
        if isinstance(name, str):
            targets.append(name)
        elif name in queues:
            targets.append(queues[name])
    return targets
