"""Temporary addresses whose names clients have chosen: OpenWire's, `ID:<connection>:<number>`.

Such a name does not say where the address is, so each node tells the others when it is made and when it is gone, and
all that there are when they connect. The answer to the client that made it waits until they know (`announcements`), so
a request with this address to reply to never comes before it is known.

A client that has gone on at another broker makes its addresses there again, under the same names, while its former
broker may not have noticed that it left: so a name may be at several nodes, and the one that told it last counts.
"""

from itertools import islice
from typing import TYPE_CHECKING, Final

from artemis_py.cluster.events import NamesNotTold
from artemis_py.cluster.hello import CHOSEN_NAMES
from artemis_py.cluster.made_names import node_in
from artemis_py.cluster.records import ChosenName
from artemis_py.core.addresses.address import Address
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.runtime.events import RemoteTemporaryAdded, RemoteTemporaryRemoved
from artemis_py.core.sessions.session import Session
from artemis_py.errors import AddressExists, NoSuchAddress, ProtocolError

if TYPE_CHECKING:
    from artemis_py.cluster.mesh import Mesh
    from artemis_py.cluster.peer import Peer

MAX_NAMES: Final = 100_000
"""Names that one node tells, and that one peer may tell: each costs about 500 bytes at every node."""

MAX_GONE: Final = 10_000
"""Names that are remembered because they are gone, so that no late reply makes an ordinary address of one."""

NAMES_PER_STEP: Final = 500
"""Names of a node that is gone which are forgotten in one iteration: some 5 ms."""


class OwnName:
    """A name that a client of this node has chosen."""

    __slots__ = ("_address", "id")

    def __init__(self, id: int, address: Address) -> None:
        self.id: Final = id
        self._address: Final = address

    def record_for(self, peer: "Peer") -> ChosenName | None:
        """Return what a peer is told; None: nothing."""
        address = self._address
        if peer.hello is None or CHOSEN_NAMES not in peer.hello.features or not peer.may_share(address.name):
            return None
        owner = address.owner
        user = owner.subject.user if isinstance(owner, Session) else None
        is_queue = RoutingType.ANYCAST in address.routing_types
        return ChosenName(address.name, int(is_queue), user or "", int(not address.is_deleted))


class ChosenNames:
    """Names that clients have chosen, at this node and at others."""

    def __init__(self, mesh: "Mesh") -> None:
        self._mesh: Final = mesh
        self._own: Final[dict[str, OwnName]] = {}
        self._heard: Final[dict[str, dict[str, ChosenName]]] = {}
        """What each node has told, by node id and name."""
        self._holders: Final[dict[str, dict[str, None]]] = {}
        """Nodes that have an address of this name; the one that told it last is the last one."""
        self._untold: Final[dict[str, dict[str, None]]] = {}
        """Names that a running snapshot has not repeated, or that are to be forgotten, by node id."""
        self._gone: Final[dict[str, None]] = {}
        self._has_left_out = False

    # -- names of this node ------------------------------------------------------------------------------------------

    def own(self) -> list[OwnName]:
        """Return what peers are told."""
        return list(self._own.values())

    def address_added(self, address: Address) -> None:
        """Tell peers of a temporary address, unless its name says where it is."""
        mesh, name = self._mesh, address.name
        self._gone.pop(name, None)
        if not address.temporary or node_in(name) or mesh.is_reserved(name):
            return
        if len(self._own) >= MAX_NAMES:
            if not self._has_left_out:
                self._has_left_out = True
                mesh.domain.events.emit(NamesNotTold(mesh.config.name, MAX_NAMES))
            return
        own = self._own[name] = OwnName(mesh.next_id(), address)
        self._tell(own)
        mesh.announcements.begin()

    def address_removed(self, address: Address) -> None:
        """Tell peers that it is gone."""
        own = self._own.pop(address.name, None)
        if own is not None:
            self._has_left_out = False
            self._note_gone(address.name)
            self._tell(own)

    def _tell(self, own: OwnName) -> None:
        for peer in self._mesh.peers.values():
            peer.tell_later(own)

    def _note_gone(self, name: str) -> None:
        self._gone[name] = None
        if len(self._gone) > MAX_GONE:
            del self._gone[next(iter(self._gone))]

    # -- names of other nodes ----------------------------------------------------------------------------------------

    def holder(self, name: str) -> str:
        """Return the node that has an address of this name; empty if none is known."""
        holders = self._holders.get(name)
        return next(reversed(holders)) if holders else ""

    def is_gone(self, name: str) -> bool:
        """Tell whether an address of this name was there, and is not any more."""
        return name in self._gone and name not in self._holders

    def check_unused(self, name: str) -> None:
        """Raise NoSuchAddress for a name that another node has, or that is gone."""
        if name in self._holders:
            raise NoSuchAddress(f"temporary address '{name}' belongs to a client of another broker")
        if name in self._gone:
            raise NoSuchAddress(f"temporary address '{name}' is gone")

    def check_free(self, name: str, user: str | None) -> None:
        """Raise AddressExists for a name that a client of another user has at another node."""
        node_id = self.holder(name)
        if node_id and self._heard[node_id][name].user != (user or ""):
            raise AddressExists(f"temporary address '{name}' belongs to a client of another broker")

    def learn(self, peer: "Peer", record: ChosenName) -> None:
        """Note what a peer tells. Raises ProtocolError."""
        name, node_id = record.address, peer.node_id
        if self._mesh.is_reserved(name) or node_in(name) or not peer.may_share(name):
            return
        if not record.is_there:
            self._forget(node_id, name)
            return
        heard = self._heard.setdefault(node_id, {})
        if name not in heard and len(heard) >= MAX_NAMES:
            raise ProtocolError(f"the peer tells of more than {MAX_NAMES} temporary addresses")
        is_new = name not in self._holders
        heard[name] = record
        self._untold.get(node_id, {}).pop(name, None)
        holders = self._holders.setdefault(name, {})
        holders.pop(node_id, None)
        holders[node_id] = None
        self._gone.pop(name, None)
        self._mesh.temporaries.holder_changed(name, node_id)
        if is_new and name not in self._mesh.domain.addresses:
            self._mesh.domain.events.emit(RemoteTemporaryAdded(name, bool(record.is_queue)))

    def _forget(self, node_id: str, name: str) -> None:
        heard = self._heard.get(node_id, {})
        record = heard.pop(name, None)
        if record is None:
            return
        if not heard:
            del self._heard[node_id]
        self._untold.get(node_id, {}).pop(name, None)
        holders = self._holders[name]
        del holders[node_id]
        if holders:
            self._mesh.temporaries.holder_changed(name, self.holder(name))
            return
        del self._holders[name]
        self._mesh.temporaries.holder_changed(name, "")
        if name not in self._mesh.domain.addresses:
            self._note_gone(name)
            self._mesh.domain.events.emit(RemoteTemporaryRemoved(name, bool(record.is_queue)))

    # -- connections -------------------------------------------------------------------------------------------------

    def begin(self, node_id: str) -> None:
        """Begin a snapshot of a peer."""
        self._untold[node_id] = dict.fromkeys(self._heard.get(node_id, ()))

    def sweep(self, node_id: str) -> None:
        """Forget what a snapshot has not repeated, some names in each iteration."""
        untold = self._untold.get(node_id, {})
        for name in list(islice(untold, NAMES_PER_STEP)):
            self._forget(node_id, name)
            untold.pop(name, None)
        if untold:
            self._mesh.dispatcher.after(0, lambda: self._go_on(node_id, untold))
        else:
            self._untold.pop(node_id, None)

    def _go_on(self, node_id: str, untold: dict[str, None]) -> None:
        if self._untold.get(node_id) is untold:
            self.sweep(node_id)

    def peer_lost(self, node_id: str) -> None:
        """Forget the names of a node, unless it is back within `connection-ttl`."""
        self._untold.pop(node_id, None)
        if node_id in self._heard:
            mesh = self._mesh
            mesh.dispatcher.after(mesh.config.connection_ttl_ms, lambda: self._check_away(node_id))

    def _check_away(self, node_id: str) -> None:
        if not self._mesh.temporaries.is_reachable(node_id):
            self.forget_node(node_id)

    def forget_node(self, node_id: str) -> None:
        """Forget the names of a node that does not come back."""
        self.begin(node_id)
        self.sweep(node_id)
