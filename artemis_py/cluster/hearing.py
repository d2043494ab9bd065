"""What one peer tells of its queues and subscriptions, and of ours: the counterpart of `telling` (mesh §5.4)."""

from typing import TYPE_CHECKING, Final

from artemis_py.cluster.records import (
    Demand,
    Digest,
    Ended,
    Gone,
    Grant,
    Instance,
    Interest,
    Load,
    Ready,
    Record,
    SharedInstance,
    SnapshotBegin,
    SnapshotEnd,
)
from artemis_py.cluster.remote_queue import RemoteQueue, RemoteQueues

if TYPE_CHECKING:
    from artemis_py.cluster.peer import Peer


class Hearing:
    """Notes what a peer tells, and passes it on to the parts of the mesh that act on it."""

    def __init__(self, peer: "Peer") -> None:
        self._peer: Final = peer
        self._remotes: Final[RemoteQueues] = peer.remotes

    def process(self, record: Record) -> None:
        """Note one record. Raises ProtocolError."""
        remote: RemoteQueue | None = None
        mesh = self._peer.mesh
        match record:
            case SnapshotBegin():
                self._remotes.begin()
            case SnapshotEnd(count, digest):
                self._sweep()
                self._compare(count, digest)
                self._peer.synced()
            case Digest(count, digest):
                self._compare(count, digest)
            case Interest():
                self._learn_interest(record)
            case Ended(queue, ended_ms):
                mesh.shells.end(self._peer, queue, ended_ms)
            case Instance():
                remote = self._remotes.add(record)
                mesh.shells.learn(self._peer.node_id, record)
                if isinstance(record, SharedInstance):
                    self._peer.news_came()
            case Demand():
                remote = self._remotes.set_demand(record)
            case Gone(id) if id in self._remotes.interests:
                mesh.elsewhere.forget(self._peer.node_id, self._remotes.remove_interest(id))
            case Gone():
                remote = self._remotes.remove(record)
                if remote is not None:
                    mesh.shells.gone(self._peer.node_id, remote.instance)
            case Grant():
                remote = self._remotes.grant(record)
            case Ready(id, is_ready):
                self._note_ready(id, bool(is_ready))
            case Load(clients):
                mesh.loads[self._peer.node_id] = clients
            case _:
                mesh.departures.heard(self._peer, record)
        if remote is not None and self._peer.is_up:
            mesh.demand_changed(self._peer, remote)

    def _sweep(self) -> None:
        """Forget what the snapshot has not repeated, and what was left of the connection before."""
        mesh, node_id = self._peer.mesh, self._peer.node_id
        for gone in self._remotes.sweep():
            mesh.shells.gone(node_id, gone.instance)
            mesh.demand_changed(self._peer, gone)
        for interest in self._remotes.sweep_interests():
            mesh.elsewhere.forget(node_id, interest)
        mesh.elsewhere.sweep(node_id, self._remotes.interests)
        mesh.shells.sweep(node_id, self._remotes)

    def _learn_interest(self, record: Interest) -> None:
        """Note what subscriptions of the peer, or of nodes behind it, want."""
        self._remotes.add_interest(record)
        self._peer.news_came()
        if record.node != self._peer.mesh.node_id:
            self._peer.mesh.elsewhere.learn(self._peer.node_id, record)

    def _note_ready(self, id: int, is_ready: bool) -> None:
        local = self._peer.mesh.local_by_id(id)
        told = None if local is None else local.told.get(self._peer)
        if local is not None and told is not None:
            told.is_ready = is_ready
            local.changed()

    def _compare(self, count: int, digest: int) -> None:
        if (count, digest) != (self._remotes.count, self._remotes.digest):
            self._peer.tables_differ()
