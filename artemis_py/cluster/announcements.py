"""Answers to new subscriptions wait until peers know of them (mesh §4.19).

A client that subscribes at one node, and on the answer has another client publish at a second node, may expect the
message: at one broker it would get it. Every change that peers must know of opens an announcement. The connection whose
request caused it takes it, and holds its answers back until each peer that is up has applied what it was told, or for
5 s. A peer that lets these pass is not waited for again until it has applied all that it was told: one that stands
still delays the first answer, and not those that follow.
"""

from typing import TYPE_CHECKING, Final

from artemis_py.core.runtime.announcement import Announcement
from artemis_py.core.runtime.timers import Timer

if TYPE_CHECKING:
    from artemis_py.cluster.mesh import Mesh
    from artemis_py.cluster.peer import Peer

SEEN_LIMIT_MS: Final = 5_000
"""Longest time that an answer waits for peers. A round trip and a commit are far less, also on a loaded machine. There
the 250 ms of the design were not enough: messages that were published on the answer were lost."""


class Announcements:
    """Announcements that not all peers have applied."""

    def __init__(self, mesh: "Mesh") -> None:
        self.late: int = 0
        """Number of answers that were given although a peer had not applied what it was told."""
        self._mesh: Final = mesh
        self._current: Announcement | None = None
        """That of the changes of this iteration."""
        self._waiting: Final[dict[Announcement, dict[Peer, int]]] = {}
        """Peers that an announcement waits for, and the batches that they must have applied; 0: not told yet."""
        self._timers: Final[dict[Announcement, Timer]] = {}
        self._slow: Final[set[Peer]] = set()
        """Peers that an answer was given without, and that have not applied all that they were told since."""

    def begin(self) -> None:
        """Open an announcement for a change, if there is a peer to know of it."""
        told = {peer for peer in self._mesh.peers.values() if peer.is_taking and peer.has_copies}
        board = self._mesh.domain.dispatcher.announcements
        self._slow.intersection_update(self._mesh.peers.values())
        peers = {peer: 0 for peer in told if peer not in self._slow}
        if not peers:
            self.late += bool(told)
            return
        if self._current is None:
            current = self._current = Announcement()
            current.is_late = len(peers) < len(told)
            self._waiting[current] = peers
            self._timers[current] = self._mesh.dispatcher.after(SEEN_LIMIT_MS, lambda: self._give_up(current))
        board.fresh = self._current

    def flushed(self) -> None:
        """Note that peers were told what has changed in this iteration, as far as they have room."""
        if not self._waiting:
            return
        if self._current is not None:
            if self._mesh.domain.dispatcher.announcements.fresh is self._current:
                self._mesh.domain.dispatcher.announcements.fresh = None
            self._current = None
        for announcement in list(self._waiting):
            self._look_at(announcement)

    def seen(self, peer: "Peer") -> None:
        """Note that a peer has applied more."""
        if peer in self._slow and peer.telling.is_over and peer.seen >= peer.told_news:
            self._slow.remove(peer)
        for announcement in list(self._waiting):
            if peer in self._waiting[announcement] and announcement is not self._current:
                self._look_at(announcement)

    def _look_at(self, announcement: Announcement) -> None:
        peers = self._waiting[announcement]
        for peer, batch in list(peers.items()):
            if not peer.is_up:
                del peers[peer]
                continue
            if not batch and peer.telling.is_over:
                batch = peers[peer] = peer.told_news or -1
            if batch and peer.seen >= batch:
                del peers[peer]
        if not peers:
            self._end(announcement)

    def _give_up(self, announcement: Announcement) -> None:
        self._slow.update(self._waiting[announcement])
        announcement.is_late = True
        self._end(announcement)

    def _end(self, announcement: Announcement) -> None:
        if self._waiting.pop(announcement, None) is None:
            return
        if announcement is self._current:
            self._current = None
        self._timers.pop(announcement).cancel()
        self.late += announcement.is_late
        announcement.end()
