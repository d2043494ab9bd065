"""Messages that come from other nodes, as they arrive."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from artemis_py.cluster.arrivals import Arrivals
from artemis_py.cluster.envelope import Envelope
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

    mesh.arrivals = Watched(mesh)
