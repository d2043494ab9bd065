"""What one peer tells of its queues and subscriptions, and of ours: the counterpart of `telling` (mesh §5.4)."""

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final

from artemis_py.cluster.records import (
    AskedRetained,
    AskedTemporary,
    ChosenName,
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
    RetainedDigest,
    RetainedPiece,
    RetainedStamps,
    RetainedWanted,
    SharedInstance,
    SnapshotBegin,
    SnapshotEnd,
    ToldRetained,
    ToldTemporary,
)
from artemis_py.cluster.remote_queue import RemoteQueue, RemoteQueues
from artemis_py.cluster.telling import QUEUES_PER_TURN

if TYPE_CHECKING:
    from artemis_py.cluster.peer import Peer


class Hearing:
    """Notes what a peer tells, and passes it on to the parts of the mesh that act on it."""

    def __init__(self, peer: "Peer") -> None:
        self._peer: Final = peer
        self._remotes: Final[RemoteQueues] = peer.remotes
        self._unmet: Iterator[RemoteQueue] | None = None
        """Queues of the peer that were not looked at since it came up."""

    def up(self) -> None:
        """Let the peer take from queues here as it wants to, some in each iteration."""
        self._unmet = iter(self._remotes)
        self.meet()

    def meet(self) -> bool:
        """Look at some queues of a peer that has come up; True: there are more."""
        if self._unmet is None:
            return False
        batch = list(islice(self._unmet, QUEUES_PER_TURN))
        if len(batch) < QUEUES_PER_TURN:
            self._unmet = None
        for remote in batch:
            # Most queues have no consumers there, and concern nobody.
            if remote.concerns_others and self._remotes.get(remote.instance.id) is remote:
                self._peer.mesh.demand_changed(self._peer, remote)
        return self._unmet is not None

    def clear(self) -> None:
        """Look at nothing more: the peer is gone."""
        self._unmet = None

    def process(self, record: Record) -> None:
        """Note one record. Raises ProtocolError."""
        remote: RemoteQueue | None = None
        mesh = self._peer.mesh
        match record:
            case SnapshotBegin():
                self._remotes.begin()
                mesh.chosen_names.begin(self._peer.node_id)
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
                granted = self._remotes.grant(record)
                if granted is not None:
                    mesh.granted(self._peer, granted)
            case Ready(id, is_ready):
                self._note_ready(id, bool(is_ready))
            case Load(clients):
                mesh.loads[self._peer.node_id] = clients
            case AskedTemporary(address):
                mesh.temporaries.asked(self._peer, address)
            case ToldTemporary():
                mesh.temporaries.told(self._peer, record)
            case ChosenName():
                mesh.chosen_names.learn(self._peer, record)
                self._peer.news_came()
            case AskedRetained(question):
                mesh.retained.asked_for_all(self._peer, question)
            case ToldRetained(question, copies):
                mesh.newcomers.answered(self._peer, question, copies)
            case RetainedDigest() | RetainedStamps() | RetainedWanted() | RetainedPiece():
                self._hear_of_retained(record)
            case _:
                mesh.departures.heard(self._peer, record)
        if remote is not None:
            mesh.nodes.changed()
        if remote is not None and self._peer.is_up:
            mesh.demand_changed(self._peer, remote)

    def _hear_of_retained(self, record: Record) -> None:
        topics = self._peer.mesh.retained
        match record:
            case RetainedDigest(digests):
                topics.compare(self._peer, digests)
            case RetainedStamps():
                topics.learn(self._peer, record)
            case RetainedWanted():
                topics.asked(self._peer, record)
            case RetainedPiece():
                topics.take(self._peer, record)

    def _sweep(self) -> None:
        """Forget what the snapshot has not repeated, and what was left of the connection before."""
        mesh, node_id = self._peer.mesh, self._peer.node_id
        for gone in self._remotes.sweep():
            mesh.shells.gone(node_id, gone.instance)
            mesh.demand_changed(self._peer, gone)
        mesh.nodes.changed()
        for interest in self._remotes.sweep_interests():
            mesh.elsewhere.forget(node_id, interest)
        mesh.elsewhere.sweep(node_id, self._remotes.interests)
        mesh.chosen_names.sweep(node_id)
        mesh.shells.sweep(node_id, self._remotes)

    def _learn_interest(self, record: Interest) -> None:
        """Note what subscriptions of the peer, or of nodes behind it, want."""
        self._remotes.add_interest(record)
        self._peer.news_came()
        if record.node != self._peer.mesh.node_id:
            self._peer.mesh.elsewhere.learn(self._peer.node_id, record)

    def _note_ready(self, id: int, is_ready: bool) -> None:
        local = self._peer.mesh.local_by_id(id)
        if local is not None:
            local.grants.note_ready(self._peer, is_ready)

    def _compare(self, count: int, digest: int) -> None:
        if (count, digest) != (self._remotes.count, self._remotes.digest):
            self._peer.tables_differ()
