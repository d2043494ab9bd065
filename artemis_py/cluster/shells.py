"""Subscriptions that clients of several nodes share: where each exists, and when it is over everywhere (mesh §4.4).

Such a subscription is a queue that may have an instance at every node, as an anycast queue has. An instance is a *root*
if clients of its node subscribed, or an administrator made it. A node that hears of a root makes a *shell*: what is
published there waits in it, and is handed over to where consumers are. So each message is in one instance, and each
subscription gets it once. A shell whose subscription has no root any more is deleted.

    records   mesh-shells, name of the queue            ->   JSON: ids of the nodes that have roots
              mesh-tombstones, name of the queue        ->   JSON: time at which it was ended, in ms since 1970
"""

import json
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from artemis_py.cluster.records import Ended, Instance, SharedInstance
from artemis_py.cluster.remote_queue import RemoteQueues
from artemis_py.core.queues.queue import Queue

if TYPE_CHECKING:
    from artemis_py.cluster.local_queue import LocalQueue
    from artemis_py.cluster.mesh import Mesh
    from artemis_py.cluster.peer import Peer

SHELLS: Final = "mesh-shells"
"""Space of the records of shells."""
TOMBSTONES: Final = "mesh-tombstones"
"""Space of the records of subscriptions that were ended."""

KEPT_MS: Final = 7 * 24 * 3_600_000
"""Time for which a node remembers that a subscription was ended, to tell those that were away."""
MAX_TOMBSTONES: Final = 10_000
"""Ended subscriptions that are remembered; beyond that those that were ended first are forgotten."""


class Shells:
    """What is known of the roots of shared subscriptions."""

    def __init__(self, mesh: "Mesh") -> None:
        self._mesh: Final = mesh
        self._roots: Final[dict[str, set[str]]] = {}
        """Nodes that have roots, by the name of the queue."""
        self._shells: Final[set[str]] = set()
        """Names of the queues here that exist for other nodes only."""
        self._ended: Final[dict[str, int]] = {}
        """Times at which subscriptions were ended, by the names of their queues."""
        self._created: Final[dict[str, int]] = {}
        """Times at which roots of this run were made."""
        self._making = ""
        """Name of the shell that is being made."""
        self._is_ending = False
        """Whether a queue is being deleted because others said so."""

    def load(self) -> None:
        """Read what an earlier run left; queues exist already."""
        storage = self._mesh.storage
        for space in (SHELLS, TOMBSTONES):
            for key, value in storage.load_records(space):
                try:
                    name, said = json.loads(value)
                    if space == TOMBSTONES:
                        self._ended[str(name)] = int(said)
                        continue
                    roots = {str(each) for each in said}
                except (ValueError, TypeError):
                    storage.save_record(space, key, None)
                    continue
                if name in self._mesh.domain.queues:
                    self._shells.add(name)
                    self._roots[name] = roots
                else:
                    storage.save_record(space, key, None)

    # -- what is here ----------------------------------------------------------------------------------------------

    def is_shell(self, name: str) -> bool:
        """Tell whether a queue here exists for other nodes only."""
        return name in self._shells

    def roots_of(self, name: str) -> set[str]:
        """Return the other nodes that have the subscription themselves."""
        return self._roots.get(name, set())

    def flags_of(self, queue: Queue) -> int:
        """Return what peers are told about a queue here; see `SharedInstance`."""
        durable = SharedInstance.DURABLE if queue.is_stored else 0
        return durable if queue.name in self._shells else durable | SharedInstance.ROOT

    def created(self, queue: Queue) -> None:
        """Note a new queue here: a root, unless it is being made for another node."""
        if queue.name == self._making:
            return
        self._created[queue.name] = self._mesh.now_ms
        if self._ended.pop(queue.name, None) is not None:
            self._mesh.storage.save_record(TOMBSTONES, _key(queue.name), None)
        self._mesh.announcements.begin()

    def removed(self, queue: Queue) -> None:
        """Note that a queue here is gone. A root that was deleted ends the subscription everywhere."""
        name = queue.name
        self._created.pop(name, None)
        if name in self._shells:
            self._shells.discard(name)
            self._mesh.storage.save_record(SHELLS, _key(name), None)
        elif not self._is_ending:
            self._remember(name, self._mesh.now_ms)
            for peer in self._mesh.peers.values():
                peer.tell_ended(Ended(name, self._ended[name]))

    def adopt(self, local: "LocalQueue") -> None:
        """Make a root of a shell, because a client of this node subscribed to it."""
        name = local.queue.name
        self._shells.discard(name)
        self._created[name] = self._mesh.now_ms
        self._mesh.storage.save_record(SHELLS, _key(name), None)
        if self._ended.pop(name, None) is not None:
            self._mesh.storage.save_record(TOMBSTONES, _key(name), None)
        local.changed()

    def give_up(self, local: "LocalQueue") -> None:
        """Make a shell of a root, because its last client here has left, and others have the subscription."""
        name = local.queue.name
        self._shells.add(name)
        self._created.pop(name, None)
        self._save(name)
        local.changed()

    # -- what peers tell -------------------------------------------------------------------------------------------

    def learn(self, node: str, instance: Instance) -> None:
        """Note what a peer tells of a queue."""
        if not isinstance(instance, SharedInstance):
            return
        if not instance.is_root:
            self.gone(node, instance)
            return
        roots = self._roots.setdefault(instance.queue, set())
        if node not in roots:
            roots.add(node)
            self._changed(instance.queue)

    def gone(self, node: str, instance: Instance) -> None:
        """Note that a peer has no such root any more."""
        if isinstance(instance, SharedInstance):
            self._remove(node, instance.queue)

    def sweep(self, node: str, remotes: RemoteQueues) -> None:
        """Forget the roots of a peer that it has not told on this connection."""
        for name in [each for each, nodes in self._roots.items() if node in nodes]:
            local = self._mesh.local(name)
            remote = None if local is None else remotes.find(local.queue.address.name, name)
            if remote is None or not isinstance(remote.instance, SharedInstance) or not remote.instance.is_root:
                self._remove(node, name)

    def forget_node(self, node: str) -> None:
        """Forget the roots of a member that will not come back. Durable subscriptions of it go on here."""
        for name in [each for each, nodes in self._roots.items() if node in nodes]:
            local = self._mesh.local(name)
            if local is not None and self.is_shell(name) and local.queue.is_stored and self._roots[name] == {node}:
                self.adopt(local)
            self._remove(node, name)

    def _remove(self, node: str, name: str) -> None:
        roots = self._roots.get(name)
        if roots is None or node not in roots:
            return
        roots.discard(node)
        if not roots:
            del self._roots[name]
        self._changed(name)

    def _changed(self, name: str) -> None:
        local = self._mesh.local(name)
        if local is not None:
            local.changed()
        if name in self._shells:
            self._save(name)

    def _save(self, name: str) -> None:
        queue = self._mesh.domain.queues.get(name)
        if queue is not None and queue.is_stored:
            value = json.dumps([name, sorted(self.roots_of(name))]).encode()
            self._mesh.storage.save_record(SHELLS, _key(name), value)

    def make(self, instance: SharedInstance) -> None:
        """Make the queue of a subscription that another node has."""
        name = instance.queue
        self._making = name
        try:
            queue = self._mesh.arrivals.make_shared(instance)
        finally:
            self._making = ""
        if queue is not None:
            self._shells.add(name)
            self._save(name)
            local = self._mesh.local(name)
            if local is not None:
                local.changed()

    # -- the end -----------------------------------------------------------------------------------------------------

    def ended(self) -> list[Ended]:
        """Return the subscriptions that were ended lately."""
        oldest_ms = self._mesh.now_ms - KEPT_MS
        for name, ended_ms in list(self._ended.items()):
            if ended_ms < oldest_ms:
                del self._ended[name]
                self._mesh.storage.save_record(TOMBSTONES, _key(name), None)
        return [Ended(name, ended_ms) for name, ended_ms in self._ended.items()]

    def end(self, peer: "Peer", name: str, ended_ms: int) -> None:
        """End a subscription that a client of another node has ended, unless clients here have used it since."""
        local = self._mesh.local(name)
        if local is None or not local.is_shared or self.is_shell(name):
            return
        queue = local.queue
        if (
            not peer.may_share(queue.address.name)
            or queue.configuration_managed
            or queue.subscriber_count
            or local.own_consumers()
            or max(self._created.get(name, 0), queue.consumer_removed_ms) > ended_ms
        ):
            return
        self._remember(name, ended_ms)
        self.drop(local, "its subscription was ended at another broker")

    def drop(self, local: "LocalQueue", reason: str) -> None:
        """Delete a queue that nobody has a use for."""
        self._is_ending = True
        try:
            self._mesh.domain.delete_queue(local.queue.name, force=True, reason=reason)
        finally:
            self._is_ending = False

    def _remember(self, name: str, ended_ms: int) -> None:
        self._ended.pop(name, None)
        while len(self._ended) >= MAX_TOMBSTONES:
            oldest = next(iter(self._ended))
            del self._ended[oldest]
            self._mesh.storage.save_record(TOMBSTONES, _key(oldest), None)
        self._ended[name] = ended_ms
        self._mesh.storage.save_record(TOMBSTONES, _key(name), json.dumps([name, ended_ms]).encode())


def _key(name: str) -> bytes:
    """Return a key of fixed length: names of queues may be longer than a key."""
    return blake2b(name.encode(), digest_size=16).digest()
