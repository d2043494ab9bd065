"""How often each message goes from one node to another, and when: seen where it arrives."""

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from artemis_py.cluster.arrivals import Arrivals
from artemis_py.cluster.envelope import Envelope
from artemis_py.cluster.mesh import Mesh
from artemis_py.cluster.peer import Peer
from artemis_py.core.addresses.address import Address
from artemis_py.core.messages.message import MessageFormat
from artemis_py.core.routing.domain import Domain
from artemis_py.core.runtime.carrier import Lane
from artemis_py.core.settings.cluster_config import ClusterConfig
from tests.cluster.node import FORMATS
from tests.cluster.simulation import Simulation


class Moves(Simulation):
    """A simulation that notes each move of each message."""

    def __init__(self, seed: int, folder: Path) -> None:
        super().__init__(seed, folder, self._make)
        self.times: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
        """Times at which a message has arrived anywhere, by its queue (empty for a copy) and body."""

    def _make(self, domain: Domain, config: ClusterConfig, id: str, name: str) -> Mesh:
        return _Watched(self, domain, config, id, name, FORMATS)

    def most(self) -> int:
        """Moves of the message that has moved most often."""
        return max(map(len, self.times.values()), default=0)


class _Watched(Mesh):
    def __init__(
        self,
        moves: Moves,
        domain: Domain,
        config: ClusterConfig,
        id: str,
        name: str,
        formats: Mapping[str, MessageFormat],
    ) -> None:
        super().__init__(domain, config, id, name, formats)

        class Watching(Arrivals):
            def take(self, peer: Peer, lane: Lane, envelope: Envelope) -> Address | None:
                moves.times[envelope.queue, str(envelope.message.view.body)].append(moves.now)
                return super().take(peer, lane, envelope)

        self.arrivals = Watching(self)
