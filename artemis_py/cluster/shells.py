"""Subscriptions that clients of several nodes share: where each exists, and when it is over everywhere (mesh §4.4).

Such a subscription is a queue that may have an instance at every node, as an anycast queue has. An instance is a *root*
if clients of its node subscribed, or an administrator made it. A node that hears of a root makes a *shell*: what is
published there waits in it, and is handed over to where consumers are. So each message is in one instance, and each
subscription gets it once. A shell whose subscription has no root any more is deleted.

    records   mesh-shells, hash of the name (16 octets)       ->   JSON: name, for each peer how far away a root is
              mesh-tombstones, hash of the name (16 octets)   ->   JSON: name, time of the end in ms since 1970

Roots are told with their distance, so that in rings of nodes nothing remains of one that is gone.
"""

import json
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from artemis_py.cluster.records import Ended, Instance, SharedInstance
from artemis_py.cluster.remote_queue import RemoteQueues
from artemis_py.core.queues.queue import Queue
from artemis_py.core.runtime.timers import NEVER

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

ROOTLESS_MS: Final = 1000
"""Time for which a shell stays although no node has the subscription: one may be about to tell that it has."""


class Shells:
    """What is known of the roots of shared subscriptions."""

    def __init__(self, mesh: "Mesh") -> None:
        self._mesh: Final = mesh
        self._roots: Final[dict[str, dict[str, int]]] = {}
        """How far away roots are by way of each peer, by the name of the queue."""
        self._shells: Final[set[str]] = set()
        """Names of the queues here that exist for other nodes only."""
        self._ended: Final[dict[str, int]] = {}
        """Times at which subscriptions were ended, by the names of their queues."""
        self._created: Final[dict[str, int]] = {}
        """Times at which roots of this run were made."""
        self._making = ""
        """Name of the shell that is being made."""

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
                    roots = {str(peer): int(distance) for peer, distance in said.items()}
                except (ValueError, TypeError, AttributeError):
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

    def roots_of(self, name: str) -> dict[str, int]:
        """Return the peers that have the subscription, or know a node that has it, and how far away it is."""
        return self._roots.get(name, {})

    def root_for(self, peer: str, name: str) -> int:
        """Return how far away from a peer the nearest root is, as it is told; 0: none is known."""
        if name not in self._shells:
            return 1
        others = [distance for node, distance in self.roots_of(name).items() if node != peer]
        nearest = min(others, default=0)
        return nearest + 1 if 0 < nearest < self._mesh.config.max_hops else 0

    def created(self, queue: Queue) -> None:
        """Note a new queue here: a root, unless it is being made for another node."""
        if queue.name == self._making:
            return
        self._created[queue.name] = self._mesh.now_ms
        if self._ended.pop(queue.name, None) is not None:
            self._mesh.storage.save_record(TOMBSTONES, _key(queue.name), None)
        self._mesh.announcements.begin()

    def removed(self, local: "LocalQueue") -> None:
        """Note that a queue here is gone. If a client has ended its subscription, that is over everywhere."""
        name = local.queue.name
        self._created.pop(name, None)
        if name in self._shells:
            self._shells.discard(name)
            self._mesh.storage.save_record(SHELLS, _key(name), None)
        elif local.is_ended:
            self._remember(name, self._mesh.now_ms)
            for peer in self._mesh.peers.values():
                peer.tell(Ended(name, self._ended[name]))

    def adopt(self, local: "LocalQueue") -> None:
        """Make a root of a shell, because a client of this node subscribed to it."""
        name = local.queue.name
        self._shells.discard(name)
        self._created[name] = self._mesh.now_ms
        self._mesh.storage.save_record(SHELLS, _key(name), None)
        if self._ended.pop(name, None) is not None:
            self._mesh.storage.save_record(TOMBSTONES, _key(name), None)
        local.news()

    def give_up(self, local: "LocalQueue") -> None:
        """Make a shell of a root, because its last client here has left, and others have the subscription."""
        name = local.queue.name
        self._shells.add(name)
        self._created.pop(name, None)
        self._save(name)
        local.news()

    # -- what peers tell -------------------------------------------------------------------------------------------

    def learn(self, node: str, instance: Instance) -> None:
        """Note what a peer tells of a queue."""
        if not isinstance(instance, SharedInstance):
            return
        if not instance.root:
            self._remove(node, instance.queue)
            return
        roots = self._roots.setdefault(instance.queue, {})
        if node not in roots and self._ended.pop(instance.queue, None) is not None:
            self._mesh.storage.save_record(TOMBSTONES, _key(instance.queue), None)
        if roots.get(node) != instance.root:
            roots[node] = instance.root
            self._changed(instance.queue)

    def gone(self, node: str, instance: Instance) -> None:
        """Note that a peer has no such root any more."""
        if isinstance(instance, SharedInstance):
            self._remove(node, instance.queue)

    def sweep(self, node: str, remotes: RemoteQueues) -> None:
        """Forget the roots of a peer that it has not told on this connection."""
        told = {
            remote.instance.queue
            for remote in remotes
            if isinstance(remote.instance, SharedInstance) and remote.instance.root
        }
        for name in [each for each, nodes in self._roots.items() if node in nodes and each not in told]:
            self._remove(node, name)

    def forget_node(self, node: str) -> None:
        """Forget the roots of a member that will not come back. Durable subscriptions of it go on here."""
        for name in [each for each, nodes in self._roots.items() if node in nodes]:
            local = self._mesh.local(name)
            if local is not None and self.is_shell(name) and local.queue.is_stored and len(self._roots[name]) == 1:
                self.adopt(local)
            self._remove(node, name)

    def peer_lost(self, node: str) -> None:
        """Look again at the shells of subscriptions at a node that is away."""
        for name in self._shells:
            local = self._mesh.local(name)
            if local is not None and node in self.roots_of(name):
                local.changed()

    def _remove(self, node: str, name: str) -> None:
        roots = self._roots.get(name)
        if roots is None or node not in roots:
            return
        del roots[node]
        if not roots:
            del self._roots[name]
        self._changed(name)

    def _changed(self, name: str) -> None:
        local = self._mesh.local(name)
        if local is not None:
            local.news()
        if name in self._shells:
            self._save(name)

    def _save(self, name: str) -> None:
        queue = self._mesh.domain.queues.get(name)
        if queue is not None and queue.is_stored:
            value = json.dumps([name, self.roots_of(name)]).encode()
            self._mesh.storage.save_record(SHELLS, _key(name), value)

    def is_outdated(self, local: "LocalQueue", instance: SharedInstance) -> bool:
        """Tell whether the subscription of a shell was made again with another filter."""
        text = "" if local.queue.filter is None else local.queue.filter.text
        return instance.root == 1 and self.is_shell(local.queue.name) and text != instance.filter

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
                local.news()

    # -- the end -----------------------------------------------------------------------------------------------------

    def ended(self) -> list[Ended]:
        """Return the subscriptions that were ended lately."""
        oldest_ms = self._mesh.now_ms - KEPT_MS
        for name, ended_ms in list(self._ended.items()):
            if ended_ms < oldest_ms:
                del self._ended[name]
                self._mesh.storage.save_record(TOMBSTONES, _key(name), None)
        return [Ended(name, ended_ms) for name, ended_ms in self._ended.items()]

    def was_ended(self, name: str) -> bool:
        """Tell whether a client has ended a subscription, here or elsewhere."""
        return name in self._ended

    def end(self, peer: "Peer", name: str, ended_ms: int) -> None:
        """End a subscription that a client of another node has ended, unless clients here have used it since."""
        local = self._mesh.local(name)
        if local is None or not local.is_shared:
            return
        if self.is_shell(name):
            self._remember(name, ended_ms)
            return
        queue = local.queue
        if (
            not peer.may_share(queue.address.name)
            or queue.configuration_managed
            or queue.subscriber_count
            or local.own_consumers()
            or max(self._created.get(name, 0), self._left_ms(queue)) > ended_ms
        ):
            return
        self._remember(name, ended_ms)
        self.drop(local, "its subscription was ended at another broker")

    def _left_ms(self, queue: Queue) -> int:
        """Return when the last consumer of a queue left, by today's wall clock; 0: none ever did."""
        removed_ms = queue.consumer_removed_steady_ms
        return 0 if removed_ms == NEVER else self._mesh.now_ms - (self._mesh.dispatcher.steady_ms - removed_ms)

    def review(self, local: "LocalQueue") -> None:
        """Make a root of a shell that clients here have a use for, and delete one that no node needs any more."""
        queue, mesh = local.queue, self._mesh
        if local.own_consumers() or queue.subscriber_count or queue.configuration_managed:
            self.adopt(local)
            return
        roots = self.roots_of(queue.name)
        limit_ms = ROOTLESS_MS
        if roots:
            # What is not durable may be gone at a node that is away.
            if queue.is_stored or any(node in mesh.peers for node in roots):
                local.useless_since_ms = 0
                return
            limit_ms = mesh.config.connection_ttl_ms
        now_ms = mesh.dispatcher.steady_ms
        if not local.useless_since_ms:
            local.useless_since_ms = now_ms
        if now_ms < local.useless_since_ms + limit_ms:
            local.wake_at(local.useless_since_ms + limit_ms)
        elif queue.is_stored and queue.message_count and not self.was_ended(queue.name):
            # The roots were deleted because they were empty, or by an administrator who meant those only.
            self.adopt(local)
        else:
            self.drop(local, "no broker has its subscription any more")

    def drop(self, local: "LocalQueue", reason: str) -> None:
        """Delete a queue that nobody has a use for."""
        self._mesh.domain.delete_queue(local.queue.name, force=True, reason=reason)

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
