"""The simulated network: connections of octets with delays, cuts that each side notices by itself, and partitions."""

from collections.abc import Mapping
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING

from artemis_py.cluster.blocks import read_block
from artemis_py.cluster.peer import Peer
from artemis_py.core.messages.builtin_format import PLAIN_FORMAT
from artemis_py.core.messages.message import MessageFormat
from artemis_py.core.runtime.carrier import Lane, PeerRefused

if TYPE_CHECKING:
    from tests.cluster.node import Node
    from tests.cluster.simulation import Simulation

CONTROL, MESSAGE, ACCEPT, HELLO, CLOSE = range(5)
HEAD = Struct(">BBQ")
LANES = list(Lane)
_FORMATS: dict[str, MessageFormat] = {PLAIN_FORMAT.name: PLAIN_FORMAT}


class End:
    """One side of a connection; fulfils `PeerConnection`."""

    def __init__(self, link: "Link", node: "Node", is_dialled: bool) -> None:
        self.link = link
        self.node = node
        self.generation = node.generation
        self.is_dialled = is_dialled
        self.listener: Peer | None = None
        self.is_open = True
        self.last_ms = 0.0
        """Time at which the last octets sent here arrive: they keep their order."""
        self.sent = 0
        self.frames = 0
        self.messages_sent = 0

    @property
    def peer(self) -> str:
        return self.other.node.name

    @property
    def other(self) -> "End":
        first, second = self.link.ends
        return second if first is self else first

    def send_control(self, records: bytes) -> bool:
        self._send(CONTROL, 0, records)
        return True

    def send(self, lane: Lane, number: int, message: bytes) -> bool:
        count = 1 if lane is Lane.BULK else sum(len(run.messages) for run in read_block(message, _FORMATS))
        self.messages_sent += count
        self.link.simulation.transfers += count
        if lane is Lane.COPIES:
            self.link.simulation.copies += count
        self._send(MESSAGE, number, message, lane)
        return True

    def accept(self, lane: Lane, number: int) -> None:
        self._send(ACCEPT, number, b"", lane)

    def close(self, reason: str, is_duplicate: bool = False) -> None:
        if self.is_open:
            self._send(CLOSE, int(is_duplicate), reason.encode())
            self.lose(reason)

    def say_hello(self, hello: Mapping[str, object]) -> None:
        self.hello = hello
        self._send(HELLO, 0, b"")

    def _send(self, kind: int, number: int, content: bytes, lane: Lane = Lane.HANDOVER) -> None:
        if not self.is_open or self.link.is_cut:
            return
        simulation = self.link.simulation
        delay_ms = simulation.delay(self.link.id, self.is_dialled, self.sent)
        self.sent += 1
        self.last_ms = max(self.last_ms, simulation.now + delay_ms)
        frame = HEAD.pack(kind, LANES.index(lane), number) + content
        simulation.at(self.last_ms, lambda: self.other.arrive(frame, self))

    def arrive(self, frame: bytes, sender: "End") -> None:
        """Octets have come, unless they are held up or a cut has swallowed them."""
        if self.link.frozen_until > self.link.simulation.now:
            self.link.simulation.at(self.link.frozen_until, lambda: self.arrive(frame, sender))
            return
        if self.link.swallows(sender.is_dialled):
            return
        self.frames += 1
        self.node.run(self.generation, lambda: self._process(frame, sender))

    def _process(self, frame: bytes, sender: "End") -> None:
        if not self.is_open:
            return
        kind, lane, number = HEAD.unpack_from(frame)
        content = frame[HEAD.size :]
        if kind == HELLO:
            self._open(sender.hello)
        elif kind == CLOSE:
            self.lose(content.decode())
        elif self.listener is not None:
            if kind == CONTROL:
                self.listener.control(content)
            elif kind == MESSAGE:
                self.listener.message(LANES[lane], number, content)
                self.listener.has_read()
            else:
                self.listener.accepted(LANES[lane], number)

    def _open(self, hello: Mapping[str, object]) -> None:
        try:
            if self.listener is None:
                ours, self.listener = self.node.mesh.connect(str(hello.get("node-id")))
                self.say_hello(ours.as_map())
            self.listener.opened(self, hello)
        except PeerRefused as refusal:
            self.node.refusals.append(str(refusal))
            self.close(str(refusal), refusal.is_duplicate)

    def lose_later(self, reason: str) -> None:
        """Notice the end in a callback of its own."""
        self.node.run(self.generation, lambda: self.lose(reason))

    def lose(self, reason: str) -> None:
        """The connection is over for this side."""
        if not self.is_open:
            return
        self.is_open = False
        listener, self.listener = self.listener, None
        if listener is not None:
            listener.lost(reason)
        self.link.ended(self)


class Link:
    """One connection."""

    def __init__(self, simulation: "Simulation", id: int, dialler: "Node", target: "Node") -> None:
        self.simulation = simulation
        self.id = id
        self.is_cut = False
        self.frozen_until = 0.0
        self._swallows = [False, False]
        self.ends = (End(self, dialler, True), End(self, target, False))

    def swallows(self, is_dialled: bool) -> bool:
        return self._swallows[is_dialled]

    def cut(self) -> None:
        """Break; what is on its way may still arrive, and each side notices after a time of its own."""
        if self.is_cut:
            return
        self.is_cut = True
        simulation = self.simulation
        for end in self.ends:
            direction = int(end.is_dialled)
            # Now and then one side gives up while what it has sent is still on its way.
            rest_ms = simulation.keyed.choice([0, 5, 20, 5_000], "cut", self.id, direction)
            simulation.at(simulation.now + rest_ms, partial(self._swallow, direction))
            notice_ms = simulation.keyed.choice([0, 10, 500, 3_000], "notice", self.id, direction)
            simulation.at(simulation.now + notice_ms, partial(end.lose_later, "cut"))

    def give_up(self, node: "Node", ms: float) -> None:
        """Break for one node only; what it has sent arrives later, and the other side knows nothing of it."""
        if self.is_cut:
            return
        self.is_cut = True
        simulation = self.simulation
        self.frozen_until = simulation.now + ms
        for end in self.ends:
            notice_ms = 0 if end.node is node else 2 * ms
            simulation.at(simulation.now + notice_ms, partial(end.lose_later, "gave up"))

    def _swallow(self, direction: int) -> None:
        self._swallows[direction] = True

    def ended(self, end: End) -> None:
        """One side has gone: the other one hears of it, or notices later."""
        other = end.other
        simulation = self.simulation
        simulation.live_links.discard(self)
        if end.is_dialled:
            end.node.dial_ended(other.node)
        if other.is_open and not self.is_cut:
            at_ms = max(end.last_ms, simulation.now) + simulation.delay(self.id, end.is_dialled, -1)
            simulation.at(at_ms, lambda: other.node.run(other.generation, lambda: other.lose("closed by peer")))
