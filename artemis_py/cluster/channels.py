"""All channels that this broker sends messages on, to all peers, and what is claimed in them (mesh §5.5).

In each run of this broker, a peer has one channel for each lane. Channels of earlier runs stay until their claims are
settled.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from artemis_py.cluster.claims import OriginChannel, load_channels
from artemis_py.cluster.events import ChannelGap
from artemis_py.core.runtime.carrier import Lane

if TYPE_CHECKING:
    from artemis_py.cluster.mesh import Mesh
    from artemis_py.cluster.peer import Peer


@mypyc_attr(allow_interpreted_subclasses=True)
class Channels:
    """Finds channels by their numbers, and by node and lane."""

    def __init__(self, mesh: "Mesh") -> None:
        self._mesh: Final = mesh
        self._channels: Final[dict[int, OriginChannel]] = {}
        self._current: Final[dict[tuple[str, Lane], OriginChannel]] = {}
        """Channels of this run by node id and lane."""
        self.settled: Final[dict[str, int]] = {}
        """Number of the last connection that had been begun when channels to a node were settled last."""

    def __iter__(self) -> Iterator[OriginChannel]:
        return iter(self._channels.values())

    def load(self) -> int:
        """Read what an earlier run left, when queues exist; return how many claimed messages are gone."""
        queues = {queue.id: queue for queue in self._mesh.domain.queues.values()}
        channels, missing = load_channels(self._mesh.storage, queues)
        for channel in channels:
            self._channels[channel.id] = channel
        return missing

    def knows(self, id: int) -> bool:
        """Tell whether messages are claimed, or may be, in a channel of this number."""
        return id in self._channels

    def claimed_for(self, node_id: str) -> int:
        """Return how many messages are on their way to a node; while it is away they are in doubt."""
        return sum(len(each.claims) for each in self if each.peer_id == node_id)

    def to(self, node_id: str, lane: Lane) -> OriginChannel:
        """Return the channel to a node, whose claims are settled, or a new one."""
        current = self._current.get((node_id, lane))
        if current is None:
            current = OriginChannel(self._mesh.storage, self._mesh.random_number(), node_id)
            self._channels[current.id] = self._current[node_id, lane] = current
        return current

    def settle(self, peer: "Peer", marks: Mapping[int, int]) -> int:
        """Settle everything that was on its way to a peer by its marks; return how many messages the peer has."""
        self.settled[peer.node_id] = self._mesh.connections
        arrived = 0
        for channel in list(self):
            if channel.peer_id != peer.node_id:
                continue
            mark = marks.get(channel.id, 0)
            arrived += len(channel.claims)
            # What an earlier run has sent, and heard of, is not known beyond what was still claimed.
            keys = [key for key, current in self._current.items() if current is channel]
            fits = bool(keys) and self._check_mark(peer, channel, mark)
            arrived -= channel.settle(mark)
            if not fits:
                self._end(channel)
                for key in keys:
                    del self._current[key]
        return arrived

    def drop(self, node_id: str) -> int:
        """Give back everything that is on its way to a node; return how many messages that is."""
        count = 0
        for channel in list(self):
            if channel.peer_id == node_id:
                count += channel.settle(channel.freed)
                self._end(channel)
        for lane in Lane:
            self._current.pop((node_id, lane), None)
        return count

    def _end(self, channel: OriginChannel) -> None:
        channel.close()
        del self._channels[channel.id]

    def _check_mark(self, peer: "Peer", channel: OriginChannel, mark: int) -> bool:
        """Report a mark that cannot be right, because one of the two stores is older than it was."""
        detail = ""
        if mark < channel.freed:
            detail = f"messages {mark + 1} to {channel.freed} of channel {channel.id:x} were confirmed, and are lost"
        elif mark >= channel.next:
            detail = f"message {mark} of channel {channel.id:x} was never sent: this broker's store is older"
        if detail:
            mesh = self._mesh
            mesh.domain.events.emit(ChannelGap(mesh.config.name, peer.label, detail))
        return not detail
