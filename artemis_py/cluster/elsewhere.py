"""What subscriptions of other nodes want of messages that are published here, and the copies that they get.

The node where a message is published decides once which other nodes get it. Each of them gets one copy, whatever the
number of its subscriptions, and a peer gets one message for itself and all nodes behind it:

    publish ─► router of the address ─┬─► queues of this broker
                                      └─► Copies(peer) ─► what waits for the peer, with the nodes that it is for

What a peer has told counts until it is told otherwise, also while the peer is away. What its durable subscriptions want
is stored, so that this holds when this broker starts again:

    records   mesh-interest, hash of the peer's id, the node's id and the pattern (16 octets)
              ->   JSON: peer, node, distance, pattern, selectors (null: any)
"""

import json
from collections.abc import Iterable
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from artemis_py.cluster.patterns import Patterns
from artemis_py.cluster.records import Interest, Texts
from artemis_py.core.addresses.address import Address
from artemis_py.core.addresses.binding import Binding
from artemis_py.core.addresses.router import RemoteBindings
from artemis_py.core.messages.message import Message
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.selectors.filter import Filter, Lookup, parse_filter
from artemis_py.errors import InvalidFilter, ProtocolError

if TYPE_CHECKING:
    from artemis_py.cluster.mesh import Mesh

INTEREST: Final = "mesh-interest"
"""Space of the records of durable interest."""

MAX_TOLD: Final = 1_000_000
"""Nodes and patterns that are remembered of one peer: as many as a node of a large mesh tells, on all its connections.
What one connection has told counts until another one has told everything, so a peer must not be able to go on."""

Filters = tuple[Filter, ...] | None
"""Selectors of which one must match; None: everything does."""


class Remote:
    """What the subscriptions of one address at another node want, as one peer has told."""

    __slots__ = ("durable", "is_gone", "record", "via", "wants")

    def __init__(self, via: str, record: Interest) -> None:
        self.via: Final = via
        """Id of the peer that the copies go to."""
        self.record: Interest = record
        self.wants: Filters = _parse(record.wants)
        self.durable: Filters = _parse(record.durable)
        self.is_gone: bool = False
        """Whether the peer has told otherwise since."""


class Elsewhere(RemoteBindings):
    """All that is known of subscriptions at other nodes."""

    def __init__(self, mesh: "Mesh") -> None:
        super().__init__()
        self._mesh: Final = mesh
        self._remotes: Final[dict[tuple[str, str], dict[str, Remote]]] = {}
        """By node and pattern, then by the peer that has told."""
        self._by_peer: Final[dict[str, dict[tuple[str, str], Remote]]] = {}
        self._patterns: Final[Patterns[tuple[str, str]]] = Patterns(mesh.domain.options.wildcards)
        """Nodes and patterns, by pattern."""
        self._ways: Final[dict[str, str]] = {}
        """The peer on the nearest way to a node, as it was last looked for; empty: there is none."""
        self._told_of: Final[dict[str, dict[tuple[str, str], None]]] = {}
        """Keys of what was told of each node."""
        self.max_told: int = MAX_TOLD

    # -- what peers tell -----------------------------------------------------------------------------------------

    def learn(self, via: str, record: Interest) -> None:
        """Note what a peer tells of the subscriptions of a node. Raises ProtocolError."""
        key = (record.node, record.pattern)
        before = self._remotes.get(key, {}).get(via)
        if before is None and len(self._by_peer.get(via, ())) >= self.max_told:
            raise ProtocolError(f"the peer has told of more than {self.max_told} addresses with subscriptions")
        if before is not None:
            before.is_gone = True
        remote = Remote(via, record)
        if key not in self._remotes:
            self._remotes[key] = {}
            self._told_of.setdefault(record.node, {})[key] = None
            self._patterns.add(record.pattern, key)
        self._remotes[key][via] = remote
        self._by_peer.setdefault(via, {})[key] = remote
        old = () if before is None else _stored(before.record)
        if _stored(record) != old:
            self._save(via, key, record)
        self._changed(key)

    def forget(self, via: str, record: Interest) -> None:
        """Note that a peer has no such subscriptions any more, nor a way to them."""
        self._forget(via, (record.node, record.pattern))

    def sweep(self, via: str, told: dict[int, Interest]) -> None:
        """Forget what a peer had told before this connection, and has not told again."""
        now = {(each.node, each.pattern) for each in told.values()}
        for key in [each for each in self._by_peer.get(via, {}) if each not in now]:
            self._forget(via, key)

    def forget_peer(self, via: str) -> None:
        """Forget all that a member has told, because it will not come back."""
        for key in list(self._by_peer.get(via, {})):
            self._forget(via, key)

    def _forget(self, via: str, key: tuple[str, str]) -> None:
        remote = self._by_peer.get(via, {}).pop(key, None)
        if remote is None:
            return
        remote.is_gone = True
        del self._remotes[key][via]
        if not self._remotes[key]:
            del self._remotes[key]
            self._told_of[key[0]].pop(key)
            self._patterns.remove(key[1], key)
        if _stored(remote.record):
            self._save(via, key, None)
        self._changed(key)

    def _changed(self, key: tuple[str, str]) -> None:
        """Have routers of addresses made again that have other copies to send now."""
        node, pattern = key
        self._ways.pop(node, None)
        routers = self._mesh.domain.routers
        if self._patterns.is_wild(pattern):
            routers.remote_changed()
        else:
            address = self._mesh.domain.addresses.get(pattern)
            if address is not None:
                self._mesh.domain.bindings_changed(address)
        self._mesh.interests.relay(node, pattern)

    # -- the store -----------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Read what an earlier run left."""
        for key, value in self._mesh.storage.load_records(INTEREST):
            try:
                via, node, distance, pattern, selectors = json.loads(value)
                durable = None if selectors is None else tuple([str(each) for each in selectors])
                record = Interest(0, str(node), int(distance), str(pattern), durable, durable)
            except (ValueError, TypeError):
                # The peer tells it again.
                self._mesh.storage.save_record(INTEREST, key, None)
                continue
            self.learn(str(via), record)

    def _save(self, via: str, key: tuple[str, str], record: Interest | None) -> None:
        name = blake2b("\n".join((via, *key)).encode(), digest_size=16).digest()
        value: bytes | None = None
        if record is not None and record.durable != ():
            value = json.dumps([via, record.node, record.distance, record.pattern, record.durable]).encode()
        self._mesh.storage.save_record(INTEREST, name, value)

    # -- routing ---------------------------------------------------------------------------------------------------

    def nearest(self, node: str, pattern: str) -> Remote | None:
        """Return the nearest way to the subscriptions of a node; None if there are none."""
        found = self._remotes.get((node, pattern))
        if not found:
            return None
        return min(found.values(), key=_nearness)

    def knows(self, node: str, message: Message) -> bool:
        """Tell whether a node is known to want a message."""
        return any(
            not found.is_gone and _match(found.wants, message)
            for key in self._patterns.match(message.address)
            if key[0] == node
            for found in self._remotes[key].values()
        )

    def bindings(self, address: Address) -> list[Binding]:
        """Return what sends copies of the messages of an address: one binding for each peer."""
        if not self._remotes or not self._is_shared(address):
            return []
        best: dict[str, Remote] = {}
        wanted: dict[str, list[Remote]] = {}
        for key in self._patterns.match(address.name):
            nearest = min(self._remotes[key].values(), key=_nearness)
            # All copies for a node go the same way, so that there is one.
            known = best.get(nearest.record.node)
            if known is None or _nearness(nearest) < _nearness(known):
                best[nearest.record.node] = nearest
            wanted.setdefault(nearest.record.node, []).append(nearest)
        ways: dict[str, list[Remote]] = {}
        for node, remotes in wanted.items():
            ways.setdefault(best[node].via, []).extend(remotes)
        return [Copies(self._mesh, address, via, remotes) for via, remotes in sorted(ways.items())]

    def _is_shared(self, address: Address) -> bool:
        """Tell whether other nodes may have what is sent to an address."""
        return not (
            address.internal
            or address.temporary
            or address.is_exchange
            or self._mesh.is_reserved(address.name)
            or not self._mesh.config.scope.covers(address.name)
        )

    def ways_to(self, nodes: Iterable[str]) -> dict[str, list[str]]:
        """Return for some nodes the peers on the nearest ways to them; those without a way are left out."""
        ways: dict[str, list[str]] = {}
        for node in nodes:
            via = self._ways.get(node)
            if via is None:
                found = [each for key in self._told_of.get(node, ()) for each in self._remotes[key].values()]
                via = self._ways[node] = min(found, key=_nearness).via if found else ""
            if via:
                ways.setdefault(via, []).append(node)
        return ways


class Copies(Binding):
    """Sends a copy of each message of an address to one peer, if subscriptions there or behind it want it."""

    def __init__(self, mesh: "Mesh", address: Address, via: str, remotes: list[Remote]) -> None:
        super().__init__(f"copies for {via}", address, RoutingType.MULTICAST)
        self._mesh: Final = mesh
        self._via: Final = via
        self._remotes: Final = remotes
        if all(each.wants is not None for each in remotes):
            self.filter = Filter("wanted by another node", self._is_wanted)

    def _is_wanted(self, source: Lookup) -> bool:
        return any(_match(each.wants, source) for each in self._remotes)

    def take(self, message: Message) -> None:
        """Keep a copy for the peer, durable if the message is and a durable subscription there wants it."""
        nodes: dict[str, None] = {}
        durable = False
        # A transaction may end long after the router has chosen.
        for remote in self._remotes:
            if not remote.is_gone and _match(remote.wants, message):
                nodes[remote.record.node] = None
                durable = durable or _match(remote.durable, message)
        if nodes:
            self._mesh.forward_to(self._via).put_copy(message, tuple(nodes), durable)


def _match(filters: Filters, source: Lookup) -> bool:
    return filters is None or any(each.matches(source) for each in filters)


def _nearness(remote: Remote) -> tuple[int, str]:
    return remote.record.distance, remote.via


def _stored(record: Interest) -> Texts:
    """Return the part of an interest that is stored; empty: nothing is."""
    return record.durable


def _parse(texts: Texts) -> Filters:
    """Return selectors. One that this broker does not understand counts as "everything"."""
    if texts is None:
        return None
    try:
        return tuple([parse_filter(text) for text in texts])
    except InvalidFilter:
        return None
