"""Messages that come from other nodes, as they arrive."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from artemis_py.cluster.arrivals import Arrivals
from artemis_py.cluster.blocks import Run
from artemis_py.cluster.envelope import Envelope
from artemis_py.cluster.lanes import Incoming
from artemis_py.cluster.mesh import Mesh
from artemis_py.cluster.peer import Peer
from artemis_py.core.addresses.address import Address
from artemis_py.core.runtime.carrier import Lane

if TYPE_CHECKING:
    from tests.cluster.node import Node


def watch(node: "Node", mesh: Mesh, listener: "Callable[[Node, Envelope], None]") -> None:
    """Have a function told of each message that a node takes from another one."""

    class Watched(Arrivals):
        def take(self, peer: Peer, lane: Lane, envelope: Envelope) -> Address | None:
            listener(node, envelope)
            return super().take(peer, lane, envelope)

        def take_all(self, peer: Peer, incoming: Incoming, run: Run) -> None:
            # Copies go through `take`, one after the other.
            if run.envelope.queue:
                for message in run.messages:
                    run.envelope.message = message
                    listener(node, run.envelope)
            super().take_all(peer, incoming, run)

    mesh.arrivals = Watched(mesh)
