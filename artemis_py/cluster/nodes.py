"""Which other nodes have a queue, as far as this run has heard: what STRICT asks for each message."""

from typing import Final

from artemis_py.cluster.placement import SPREAD
from artemis_py.cluster.remote_queue import RemoteQueues


class KnownNodes:
    """What the nodes that are, or were, connected in this run have told of themselves."""

    def __init__(self) -> None:
        self.version: int = 0
        """Grows when `having` may give another answer."""
        self._queues: Final[dict[str, RemoteQueues]] = {}
        """Queues by node id, in its order."""
        self._formats: Final[dict[str, frozenset[str]]] = {}
        """Formats of messages that the nodes can read."""

    def learn(self, node_id: str, queues: RemoteQueues, formats: frozenset[str]) -> None:
        """Note a node that has come up."""
        self._queues[node_id] = queues
        self._formats[node_id] = formats
        for known in sorted(self._queues):
            self._queues[known] = self._queues.pop(known)
        self.changed()

    def forget(self, node_id: str) -> None:
        """Forget a node."""
        self._queues.pop(node_id, None)
        self.changed()

    def changed(self) -> None:
        """Note that nodes tell of other queues, or leave, or stay."""
        self.version += 1

    def having(self, address: str, queue: str, format: str) -> list[str]:
        """Return the nodes that have a queue, reachable or not, always in one order.

        Nodes that cannot read messages of this format are left out.
        """
        found: list[str] = []
        for node_id, queues in self._queues.items():
            remote = queues.find(address, queue)
            if remote is not None and remote.instance.placement == SPREAD and format in self._formats[node_id]:
                found.append(node_id)
        return found
