"""Consumers that get nothing of a queue, because it needs one broker, and they are at another one."""

from typing import TYPE_CHECKING, Final

from artemis_py.cluster.events import KeptElsewhere
from artemis_py.cluster.placement import SPREAD

if TYPE_CHECKING:
    from artemis_py.cluster.local_queue import LocalQueue


class KeptReport:
    """Reports for one queue, once for each node, that its consumers get nothing of what is elsewhere, or the others."""

    __slots__ = ("_checked_consumers", "_local", "_reported")

    def __init__(self, local: "LocalQueue") -> None:
        self._local: Final = local
        self._checked_consumers = -1
        """Number of consumers at the last look at that; -1: something has changed elsewhere."""
        self._reported: set[str] = set()
        """Nodes for which it was reported."""

    def look_again(self) -> None:
        """Note that something has changed elsewhere."""
        self._checked_consumers = -1

    def report(self) -> None:
        """Report it, if something has changed since the last look."""
        local = self._local
        queue, mesh = local.queue, local.mesh
        count = len(queue.consumers)
        if count == self._checked_consumers:
            return
        self._checked_consumers = count
        is_here = local.placement != SPREAD
        own = -1
        for peer in mesh.peers.values():
            remote = peer.remotes.find(queue.address.name, queue.name)
            if remote is None or peer.node_id in self._reported:
                continue
            if is_here and not remote.demand.consumers:
                continue
            if not is_here and remote.instance.placement == SPREAD:
                continue
            if not is_here and own < 0:
                own = len(local.own_consumers())
            if is_here or own:
                self._reported.add(peer.node_id)
                name = "" if peer.hello is None else peer.hello.node_name
                mesh.domain.events.emit(KeptElsewhere(mesh.config.name, queue.name, name, is_here))
