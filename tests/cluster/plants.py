"""Faults that are planted into the mesh, to see the simulation find them."""

from collections.abc import Mapping
from functools import partial

from artemis_py.cluster.channels import Channels
from artemis_py.cluster.hello import Hello
from artemis_py.cluster.lanes import Outgoing
from artemis_py.cluster.local_queue import LocalQueue
from artemis_py.cluster.marks import Marks
from artemis_py.cluster.mesh import Mesh
from artemis_py.cluster.peer import Peer
from artemis_py.cluster.records import Demand, Record
from artemis_py.cluster.telling import Telling
from artemis_py.core.messages.message import MessageFormat
from artemis_py.core.routing.domain import Domain
from artemis_py.core.runtime.carrier import Lane, PeerConnection
from artemis_py.core.settings.cluster_config import ClusterConfig
from tests.cluster.node import FORMATS
from tests.cluster.simulation import MeshMaker


class Planted(Mesh):
    """A mesh whose peers are of another class."""

    peer_class: type[Peer] = Peer

    def connect(self, node_id: str = "") -> tuple[Hello, Peer]:
        hello, peer = super().connect(node_id)
        return hello, self.peer_class(self, peer.number)


class EarlyMarks(Planted):
    """Marks are told before what the former connection brought is committed."""

    class peer_class(Peer):
        def opened(self, connection: PeerConnection, hello: Mapping[str, object]) -> None:
            super().opened(connection, hello)
            self._fenced()


class LateMark(Planted):
    """A mark is not in the commit of its message, but in the one after it."""

    def __init__(
        self, domain: Domain, config: ClusterConfig, id: str, name: str, formats: Mapping[str, MessageFormat]
    ) -> None:
        super().__init__(domain, config, id, name, formats)

        class Late(Marks):
            def set(marks, origin: str, channel: int, number: int) -> None:
                marks._marks.setdefault(origin, {})[channel] = number
                marks._storage.when_durable(partial(Marks.set, marks, origin, channel, number))

        self.marks = Late(domain.storage)


class Unfenced(Planted):
    """The older connection to the same broker goes on."""

    class peer_class(Peer):
        def close(self, reason: str, is_duplicate: bool = False) -> None:
            if reason != "another connection to this broker is newer":
                super().close(reason, is_duplicate)


class EarlySend(Planted):
    """A message is sent before its claim is in the store."""

    class peer_class(Peer):
        def __init__(self, mesh: Mesh, number: int) -> None:
            super().__init__(mesh, number)

            class Early(Outgoing):
                def save_claims(self) -> None:
                    if self.channel is not None and self.channel.fresh:
                        self.send(self.channel.save_fresh())

            self.handover = Early(self, Lane.HANDOVER)
            self.copies = Early(self, Lane.COPIES)


class EarlyConfirmation(Planted):
    """A message is confirmed before it is committed."""

    class peer_class(Peer):
        def flush(self) -> bool:
            for incoming in self.incoming.values():
                if incoming.to_confirm:
                    number, incoming.to_confirm = incoming.to_confirm, 0
                    incoming.confirm(number)
            return super().flush()


class ForgottenClaims(Planted):
    """A broker that starts does not know what it had claimed."""

    def restore(self) -> int:
        missing = super().restore()
        for channel in self.channels:
            channel.settle(0)
        return missing


class ForgottenMarks(Planted):
    """Marks of a channel are forgotten with the connection."""

    class peer_class(Peer):
        def lost(self, reason: str) -> None:
            super().lost(reason)
            for id, _ in self.mesh.marks.of(self.node_id):
                self.mesh.marks.forget(self.node_id, id)


class UnsettledChannel(Planted):
    """After a break nothing comes back that the peer does not have."""

    def __init__(
        self, domain: Domain, config: ClusterConfig, id: str, name: str, formats: Mapping[str, MessageFormat]
    ) -> None:
        super().__init__(domain, config, id, name, formats)

        class Unsettled(Channels):
            def settle(self, peer: Peer, marks: Mapping[int, int]) -> int:
                for (node_id, _), current in self._current.items():
                    if node_id == peer.node_id:
                        current.free(current.next - 1)
                return super().settle(peer, marks)

        self.channels = Unsettled(self)


class SilentChange(Planted):
    """A change of demand is not told when it is the last consumer that left."""

    class peer_class(Peer):
        def __init__(self, mesh: Mesh, number: int) -> None:
            super().__init__(mesh, number)

            class Silent(Telling):
                def tell(self, records: list[Record], local: LocalQueue) -> None:
                    count = len(records)
                    super().tell(records, local)
                    records[count:] = [each for each in records[count:] if not isinstance(each, Demand) or each.wants]

            self.telling = Silent(self)


class Deltas(Planted):
    """What has changed about demand is told, and not what it is now."""

    class peer_class(Peer):
        def __init__(self, mesh: Mesh, number: int) -> None:
            super().__init__(mesh, number)

            class Differing(Telling):
                def tell(self, records: list[Record], local: LocalQueue) -> None:
                    told = self.told_of(local)
                    before = () if told is None or told.demand is None else told.demand.wants
                    count = len(records)
                    super().tell(records, local)
                    for index in range(count, len(records)):
                        record = records[index]
                        if isinstance(record, Demand) and record.wants:
                            records[index] = Demand(record.id, tuple(set(record.wants) - set(before)))

            self.telling = Differing(self)


PLANTS: list[type[Planted]] = [
    EarlyMarks,
    LateMark,
    Unfenced,
    EarlySend,
    EarlyConfirmation,
    ForgottenClaims,
    ForgottenMarks,
    UnsettledChannel,
    Deltas,
    SilentChange,
]


def maker_of(plant: type[Planted]) -> MeshMaker:
    """What makes a mesh with this fault."""
    return lambda domain, config, id, name: plant(domain, config, id, name, FORMATS)
