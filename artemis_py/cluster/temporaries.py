"""Temporary addresses of clients at other nodes, and who sends to those of this node.

Nothing is told of a temporary address whose name says where it is (`made_names`). A node whose client sends to one asks
its node, and is told when the address is gone:

    client ─► node B ── asks for X ─────────────► node A, which made the name X
                     ◄─ X is there, or is gone ──
                     ── copies for X ───────────► queue X ─► requester
                     ◄─ X is gone ───────────────  when it is deleted

If the client has chosen the name, nodes have been told of it before (`chosen_names`).

A message for X waits for its node as copies for subscriptions do, and goes to it on the same lane. So it is confirmed
to the sender when this node has it, and neither a break of the connection nor a crash of this node loses it if it is
durable.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final
from uuid import UUID

from mypy_extensions import mypyc_attr

from artemis_py.cluster.chosen_names import ChosenNames
from artemis_py.cluster.made_names import make_name, node_in, short_id
from artemis_py.cluster.records import AskedTemporary, ToldTemporary
from artemis_py.cluster.strict import REPLY
from artemis_py.core.addresses.address import Address
from artemis_py.core.messages.message import Message
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.routing.companion import Companion
from artemis_py.core.routing.discards import DiscardCause
from artemis_py.core.routing.routes import NO_TYPE
from artemis_py.core.routing.temporary_names import RemoteAddress, TemporaryNames
from artemis_py.core.runtime.announcement import Announcement
from artemis_py.errors import InvalidRequest, NoSuchAddress, Refusal

if TYPE_CHECKING:
    from artemis_py.cluster.mesh import Mesh
    from artemis_py.cluster.peer import Peer

ANSWER_LIMIT_MS: Final = 250
"""Longest time that the answer to a link waits for the node of its address. Without it the link ends a little later."""

MAX_REMOTES: Final = 10_000
"""Temporary addresses of other nodes that are remembered. Beyond that those are forgotten that were used first and that
no client has a link to: each costs about 2 KiB, and to ask for it again costs one record."""

_BOTH: Final = frozenset((RoutingType.ANYCAST, RoutingType.MULTICAST))


class RemoteTemporary(RemoteAddress):
    """A temporary address of another node."""

    def __init__(self, mesh: "Mesh", name: str, node_id: str, is_chosen: bool) -> None:
        domain = mesh.domain
        settings = domain.settings.resolve(name)
        address = Address(name, _BOTH, settings, domain.account, temporary=True)
        super().__init__(f"replies to {name}", address, RoutingType.MULTICAST)
        self.node_id: str = node_id
        self.is_chosen: Final = is_chosen
        """Whether the client chose its name."""
        self.announcement: Announcement | None = None
        """What the answers to clients wait for that were the first to send there."""
        self.calls: Final[dict[Callable[[str], None], None]] = {}
        self._mesh: Final = mesh

    def check(self, message: Message | None = None) -> None:
        """Raise NoSuchAddress if the address is gone or its node away, InvalidRequest if it takes no large messages."""
        name = self.address.name
        if self.address.is_deleted:
            raise NoSuchAddress(f"temporary address '{name}' is gone")
        if not self._mesh.temporaries.is_reachable(self.node_id):
            raise NoSuchAddress(f"temporary address '{name}' belongs to another broker, which is away")
        if message is not None and message.large is not None and self.node_id not in self._mesh.takes_large:
            raise InvalidRequest(f"temporary address '{name}' belongs to a broker that takes no large messages")

    def take(self, message: Message) -> None:
        """Keep a message for the node, as durable as it is itself."""
        if self.address.is_deleted:
            # A transaction has ended after the address.
            self._mesh.domain.discards.add(self.address.name, DiscardCause.MESH, "the temporary address is gone")
        else:
            if self.is_chosen:
                message.set_extra(REPLY, 1)
            self._mesh.forward_to(self.node_id).put_copy(message, (self.node_id,), message.durable)

    def when_gone(self, call: Callable[[str], None]) -> None:
        """Run `call` with the reason when the node says that the address is gone."""
        self.calls[call] = None

    def let_go(self, call: Callable[[str], None]) -> None:
        """Undo `when_gone`."""
        self.calls.pop(call, None)


class _Changes(Companion):
    """Hears of addresses that are created and deleted."""

    def __init__(self, temporaries: "Temporaries", chosen_names: ChosenNames) -> None:
        self._temporaries: Final = temporaries
        self._chosen_names: Final = chosen_names

    def address_added(self, address: Address) -> None:
        """Tell peers of a name that a client has chosen."""
        self._chosen_names.address_added(address)

    def address_removed(self, address: Address) -> None:
        """Tell peers whose clients may send there."""
        self._temporaries.address_removed(address)
        self._chosen_names.address_removed(address)


@mypyc_attr(allow_interpreted_subclasses=True)
class Temporaries(TemporaryNames):
    """The names of temporary addresses in a mesh."""

    def __init__(self, mesh: "Mesh") -> None:
        super().__init__(mesh.domain.entropy)
        self._mesh: Final = mesh
        self._own: Final = short_id(mesh.node_id)
        self._node_ids: Final[dict[bytes, str]] = {}
        """Members by their short ids."""
        self._remotes: Final[dict[str, RemoteTemporary]] = {}
        self._askers: Final[dict[str, dict[Peer, None]]] = {}
        """Peers whose clients send to temporary addresses of this node."""
        self._lost_ms: Final[dict[str, int]] = {}
        """When the connections to nodes that are away ended."""
        self._opened: Announcement | None = None
        """The announcement that was opened in this iteration."""

    def install(self) -> None:
        """Have this broker make such names, and hear of temporary addresses that are deleted."""
        self._mesh.domain.temporary_names = self
        self._mesh.domain.companions.append(_Changes(self, self._mesh.chosen_names))

    # -- names ---------------------------------------------------------------------------------------------------

    def new(self) -> str:
        """Return a name that says that this node made it."""
        return make_name(self._own, UUID(self._entropy.uuid()))

    def check_unused(self, name: str) -> None:
        """Raise NoSuchAddress for the name of a temporary address: nothing else may have it, here or elsewhere."""
        short = node_in(name)
        if short:
            what = "is gone" if short == self._own else "belongs to a client of another broker"
            raise NoSuchAddress(f"temporary address '{name}' {what}")
        self._mesh.chosen_names.check_unused(name)

    def check_free(self, name: str, user: str | None) -> None:
        """Raise AddressExists for a name that a client of another user has chosen at another node."""
        self._mesh.chosen_names.check_free(name, user)

    def find(self, name: str) -> RemoteTemporary | None:
        """Return the address of this name if another member has made it; it may be gone."""
        found = self._remotes.get(name)
        if found is not None:
            return found
        short = node_in(name)
        if short:
            node_id = self._member(short) if short != self._own else ""
            return self._ask(name, node_id) if node_id else None
        chosen_names = self._mesh.chosen_names
        node_id = chosen_names.holder(name)
        if node_id:
            return self._add(RemoteTemporary(self._mesh, name, node_id, is_chosen=True))
        if not chosen_names.is_gone(name):
            return None
        gone = RemoteTemporary(self._mesh, name, "", is_chosen=True)
        gone.address.is_deleted = True
        return gone

    def _member(self, short: bytes) -> str:
        """Return the id of the member with this short id; empty if there is none."""
        if short not in self._node_ids:
            self._node_ids.clear()
            self._node_ids.update({short_id(each.node_id): each.node_id for each in self._mesh.members.values()})
        return self._node_ids.get(short, "")

    def is_reachable(self, node_id: str) -> bool:
        """Tell whether a node is connected, or was a moment ago: a break need not cost a client its replies."""
        mesh = self._mesh
        if mesh.peers.get(node_id) is not None:
            return True
        lost_ms = self._lost_ms.get(node_id)
        return lost_ms is not None and mesh.dispatcher.steady_ms - lost_ms < mesh.config.connection_ttl_ms

    # -- addresses of other nodes --------------------------------------------------------------------------------

    def _add(self, remote: RemoteTemporary) -> RemoteTemporary:
        if len(self._remotes) >= MAX_REMOTES:
            for other in [each for each in self._remotes.values() if not each.calls][: MAX_REMOTES // 10]:
                self._forget(other)
        self._remotes[remote.address.name] = remote
        return remote

    def _ask(self, name: str, node_id: str) -> RemoteTemporary:
        """Ask a node whether it has an address."""
        found = self._add(RemoteTemporary(self._mesh, name, node_id, is_chosen=False))
        peer = self._mesh.peers.get(node_id)
        if peer is not None and peer.is_taking:
            peer.say(AskedTemporary(name))
            self._hold_answers(found)
        return found

    def _forget(self, remote: RemoteTemporary) -> None:
        del self._remotes[remote.address.name]
        self._mesh.domain.duplicates.forget(remote.address)

    def _hold_answers(self, remote: RemoteTemporary) -> None:
        """Let answers of this iteration wait for the node, so that a link to an address that is gone ends at once."""
        board = self._mesh.domain.dispatcher.announcements
        if board.fresh is None:
            self._opened = board.fresh = Announcement()
        if board.fresh is self._opened and self._opened is not None:
            remote.announcement = self._opened
            self._mesh.dispatcher.after(ANSWER_LIMIT_MS, lambda: self._end(remote))

    def flushed(self) -> None:
        """Forget an announcement that no answer of this iteration has taken."""
        if self._opened is not None:
            board = self._mesh.domain.dispatcher.announcements
            if board.fresh is self._opened:
                board.fresh = None
            self._opened = None

    def _end(self, remote: RemoteTemporary) -> None:
        announcement, remote.announcement = remote.announcement, None
        if announcement is not None and not announcement.is_over:
            announcement.end()

    def told(self, peer: "Peer", record: ToldTemporary) -> None:
        """Note whether an address of a peer is there; links to one that is gone end."""
        remote = self._remotes.get(record.address)
        if remote is None or remote.node_id != peer.node_id or remote.is_chosen:
            return
        if not record.is_there:
            self._gone(remote)
        self._end(remote)

    def _gone(self, remote: RemoteTemporary) -> None:
        """End the links to an address."""
        if not remote.address.is_deleted:
            remote.address.is_deleted = True
            calls = list(remote.calls)
            remote.calls.clear()
            for call in calls:
                call("its client has left, or has deleted it")

    def holder_changed(self, name: str, node_id: str) -> None:
        """Note which node has an address of a name that its client chose; empty: none has."""
        remote = self._remotes.get(name)
        if remote is None:
            return
        if node_id:
            remote.node_id = node_id
            remote.address.is_deleted = False
        else:
            self._gone(remote)

    # -- addresses of this node ----------------------------------------------------------------------------------

    def is_own(self, name: str) -> bool:
        """Tell whether this node has made a name."""
        return node_in(name) == self._own

    def is_reply(self, message: Message) -> bool:
        """Tell whether a copy that a peer has sent is for a temporary address of this node."""
        extra = message.extra
        return (extra is not None and REPLY in extra) or self.is_own(message.address)

    def asked(self, peer: "Peer", name: str) -> None:
        """Tell a peer whether an address is there, and when it is gone."""
        is_there = self.is_own(name) and name in self._mesh.domain.addresses and peer.may_share(name)
        if is_there:
            self._askers.setdefault(name, {})[peer] = None
        peer.say(ToldTemporary(name, int(is_there)))

    def address_removed(self, address: Address) -> None:
        """Tell the peers whose clients send there."""
        for peer in self._askers.pop(address.name, ()):
            peer.say(ToldTemporary(address.name, 0))

    def take(self, message: Message) -> Address | None:
        """Route a message of a peer's client; return the address if producers must wait."""
        domain = self._mesh.domain
        name = message.address
        address = domain.addresses.get(name)
        # The type that its sender meant is that of the address.
        message.routing_type = NO_TYPE
        if message.extra is not None:
            message.extra.pop(REPLY, None)
        if address is None or not address.temporary:
            gone = Address(name, _BOTH, domain.settings.resolve(name), domain.account, temporary=True)
            message.origin = gone
            domain.discards.add(name, DiscardCause.MESH, "the temporary address is gone")
            domain.undeliverable.unrouted(message, gone, None)
            return None
        try:
            domain.route(message, address)
        except Refusal as refusal:
            domain.discards.add(name, DiscardCause.MESH, f"a reply from another broker was refused: {refusal}")
        return address if address.must_wait else None

    # -- connections ---------------------------------------------------------------------------------------------

    def peer_up(self, peer: "Peer") -> None:
        """Ask again for the addresses of a peer that clients here send to: its clients may have left since."""
        self._lost_ms.pop(peer.node_id, None)
        for name, remote in self._remotes.items():
            if remote.node_id == peer.node_id and not (remote.address.is_deleted or remote.is_chosen):
                peer.say(AskedTemporary(name))

    def peer_lost(self, peer: "Peer") -> None:
        """Note when a node was there last; it asks again."""
        self._lost_ms[peer.node_id] = self._mesh.dispatcher.steady_ms
        self._mesh.chosen_names.peer_lost(peer.node_id)
        for name in [name for name, peers in self._askers.items() if peer in peers]:
            del self._askers[name][peer]
            if not self._askers[name]:
                del self._askers[name]
