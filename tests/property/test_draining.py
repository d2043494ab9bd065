"""Reading a source to its end: every delivery arrives, in whatever pieces the octets come, before the end is believed.

A delivery in several frames uses its credit with the first of them. `DrainingLink` reads from our own engine here,
whose octets are cut where the test says; no socket, no broker, no Spark.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from artemis_amqp.engine.connection import AmqpConnection
from artemis_amqp.engine.handlers import DeliverySource, SenderLinkHandler
from artemis_amqp.engine.limits import ConnectionLimits
from artemis_amqp.engine.link import SETTLED, Link
from artemis_amqp.engine.performatives import Attach, Source, Target
from artemis_amqp.engine.receiver import ReceiverLink
from artemis_amqp.engine.sender import SenderLink
from artemis_py.spark.receiving import DrainingLink, DrainLink, runs
from tests.amqp_harness import Recorder
from tests.examples import examples

TIMEOUT_S: Final = 60.0
BODY: Final = bytes(range(251)) * 9000
"""Bodies are cut out of it: a frame that is missing or comes twice makes a difference."""


class Failing(DeliverySource):
    """A body that cannot be read beyond its first octets: the delivery is aborted."""

    def __init__(self, size: int) -> None:
        self.left = size

    def read(self, size: int) -> bytes:
        """Less than was asked for at the end."""
        given = min(size, self.left)
        self.left -= given
        return bytes(given)

    def close(self) -> None:
        """Nothing is open."""


class Queue(SenderLinkHandler):
    """A source with these messages: their sizes, and of the negative ones one frame arrives before they are aborted."""

    def __init__(self, sizes: list[int]) -> None:
        self.left = deque(enumerate(sizes))
        self.accepted: list[object] = []

    def on_credit(self, link: SenderLink) -> None:
        """Send what the peer allows; give back what is left of a drain."""
        while self.left and link.can_send:
            number, size = self.left.popleft()
            if size < 0:
                link.send(b"", b"", number, False, source=Failing(-size), source_size=10_000_000)
            else:
                link.send(number.to_bytes(4, "big"), BODY[:size], number, link.snd_settle_mode == SETTLED)
        if not self.left and link.drain and link.credit:
            link.drained()

    def on_disposition(self, link: SenderLink, delivery_id: int, token: object, state: object, settled: bool) -> None:
        """Accepted."""
        self.accepted.append(token)

    def on_abort(self, link: SenderLink, token: object) -> None:
        """Nobody is told but the peer."""


class Peer(Recorder):
    """The server's side, whose links get their messages from a queue."""

    def __init__(self, queue: Queue) -> None:
        super().__init__()
        self.queue = queue

    def on_attach(self, link: Link, attach: Attach) -> None:
        """As agreed."""
        super().on_attach(link, attach)
        if isinstance(link, SenderLink):
            link.handler = self.queue

    def on_writable(self) -> None:
        """There is room."""
        for session in self.sessions:
            session.tell_senders()


Cut = Callable[[bytes], Iterator[int]]
"""Given what is to be delivered next, the sizes of its pieces."""


class Wire:
    """What `Connection` is for a task, between two engines: each exchange delivers one piece of what the peer wrote."""

    def __init__(self, sizes: list[int], frame_size: int, cut: Cut) -> None:
        limits = ConnectionLimits(max_frame_size=frame_size, output_limit_bytes=2**17)
        self.queue = Queue(sizes)
        self.peer = Peer(self.queue)
        self.peer.engine = AmqpConnection(self.peer, limits, is_client=False, container_id="peer")
        self.handler = Recorder()
        self.engine = AmqpConnection(self.handler, limits, is_client=True)
        self.handler.engine = self.engine
        self.exchanges = 0
        self._cut = cut
        self._pieces: Iterator[int] = iter(())
        self._waiting = b""
        self._offset = 0
        self.engine.login.start(None, None)
        self._settle()
        self.engine.send_open(self.engine.our_open("c"))
        self._settle()
        self.session = self.engine.channels.begin()
        self._settle()

    def _flush(self) -> None:
        while data := self.engine.data_to_send():
            self.peer.engine.receive_data(data, 0.0)

    def _settle(self) -> None:
        """Exchange everything, uncut."""
        while True:
            self._flush()
            data = self.peer.engine.data_to_send()
            if not data:
                return
            self.engine.receive_data(data, 0.0)

    # -- as Connection -------------------------------------------------------------------------------------------

    def attach(self, source: Source, target: Target, is_sender: bool, snd_settle_mode: int) -> tuple[Link, Attach]:
        """The peer agrees."""
        link = self.session.attach("l", source, target, is_sender, snd_settle_mode)
        self._settle()
        return link, Attach(name="l", handle=0, role=False, source=source)

    def check(self, link: Link) -> None:
        """Nothing ends before its time."""
        assert link.is_attached
        assert "error" not in self.handler.names() + self.peer.names()

    def exchange(self, timeout_s: float) -> None:
        """One piece."""
        self.exchanges += 1
        self._flush()
        if self._offset == len(self._waiting):
            self._waiting = self.peer.engine.data_to_send()
            self._offset = 0
            self._pieces = self._cut(self._waiting)
            assert self._waiting, "the reader waits, and the peer has said everything"
        size = next(self._pieces, len(self._waiting))
        self.engine.receive_data(self._waiting[self._offset : self._offset + size], 0.0)
        self._offset = min(self._offset + size, len(self._waiting))


def octets(data: bytes) -> Iterator[int]:
    """A piece an octet."""
    yield from [1] * len(data)


def edges(data: bytes) -> Iterator[int]:
    """Around every frame: its first octet, all but its last, and that one. Between these nothing is read."""
    start = 0
    while start < len(data):
        size = int.from_bytes(data[start : start + 4], "big")
        yield from (1, size - 2, 1)
        start += size


def whole(data: bytes) -> Iterator[int]:
    """All that there is."""
    yield len(data)


def read(wire: Wire, link: DrainingLink) -> list[tuple[int, int]]:
    """Number and size of what comes, until the reader believes that there is nothing more."""
    found = []
    for payloads in link.batches(TIMEOUT_S):
        for payload in payloads:
            number, size = int.from_bytes(payload[:4], "big"), len(payload) - 4
            assert payload[4:] == BODY[:size]
            found.append((number, size))
    return found


def draining(wire: Any, credit: int) -> DrainingLink:
    return DrainingLink(wire, "q", credit, {}, SETTLED)


def arriving(sizes: list[int]) -> list[tuple[int, int]]:
    return [(number, size) for number, size in enumerate(sizes) if size >= 0]


@pytest.mark.parametrize(
    ("sizes", "frame_size"),
    [([60_000], 512), ([10, -600, 60_000, -700, 20], 4096), ([100, 66_000, 5], 65_536), ([], 512)],
)
def test_a_drain_cut_at_every_octet_brings_everything(sizes: list[int], frame_size: int) -> None:
    """What is small comes beside it, and what is aborted in the middle is no end either."""
    wire = Wire(sizes, frame_size, octets)

    assert read(wire, draining(wire, 4)) == arriving(sizes)


@pytest.mark.parametrize(
    ("sizes", "frame_size"),
    [
        ([300_000, 5, 300_000, 7], 512),
        ([1, 2_000_000, 3], 1024),
        ([2_000_000, 1, 2_000_000], 65_536),
        ([1_000_000, -100_000, 5, -1, 700_000], 16_384),
        ([131_072, 131_071, 131_000, 262_144] * 3, 131_072),
    ],
)
@pytest.mark.parametrize("credit", [1, 3, 1000])
def test_a_drain_cut_around_every_frame_brings_everything(sizes: list[int], frame_size: int, credit: int) -> None:
    """Up to two megabytes, with credit for one, some and all of them."""
    wire = Wire(sizes, frame_size, edges)

    assert read(wire, draining(wire, credit)) == arriving(sizes)


CUTS: Final = st.sampled_from((edges, whole))
SIZES: Final = st.lists(
    st.integers(0, 2_000) | st.integers(60_000, 70_000) | st.integers(-3_000, -1) | st.just(300_000), max_size=8
)


@settings(max_examples=examples(40), deadline=None)
@given(SIZES, st.integers(512, 9_000), st.integers(1, 5), st.lists(st.integers(50, 100_000), min_size=1, max_size=5))
def test_a_drain_brings_everything_however_it_is_cut(
    sizes: list[int], frame_size: int, credit: int, pieces: list[int]
) -> None:
    def cut(data: bytes) -> Iterator[int]:
        start = index = 0
        while start < len(data):
            yield pieces[index % len(pieces)]
            start += pieces[index % len(pieces)]
            index += 1

    wire = Wire(sizes, frame_size, cut)

    assert read(wire, draining(wire, credit)) == arriving(sizes)


@settings(max_examples=examples(60), deadline=None)
@given(SIZES, st.integers(512, 9_000), st.integers(1, 5), st.none() | st.integers(1, 9), CUTS)
def test_what_a_drain_takes_is_accepted_and_nothing_else(
    sizes: list[int], frame_size: int, credit: int, limit: int | None, cut: Cut
) -> None:
    """In rounds of credit, of which aborted deliveries use some."""
    wire = Wire(sizes, frame_size, cut)
    link: Any = DrainLink(wire, "q", None, credit, False, limit)  # type: ignore[arg-type]

    found = read(wire, link)
    wire._flush()

    assert found == arriving(sizes)[:limit]
    assert wire.queue.accepted == [number for number, _ in found]


@pytest.mark.parametrize("size", [60_000, 300_000, 2_000_000])
def test_a_long_message_is_not_silence(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over a slow line it takes longer than the silence that ends a reading; each frame is a sign of life."""
    clock = iter(range(10**9))
    monkeypatch.setattr("artemis_py.spark.receiving.time.monotonic", lambda: float(next(clock)))
    wire = Wire([size], 1024, edges)

    assert read(wire, draining(wire, 10)) == [(0, size)]
    assert wire.exchanges > TIMEOUT_S


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ([], []),
        ([7], [(7, 7)]),
        ([1, 2, 4, 5, 9], [(1, 2), (4, 5), (9, 9)]),
        ([2**32 - 1, 0, 1], [(2**32 - 1, 1)]),
    ],
)
def test_runs_of_delivery_ids(ids: list[int], expected: list[tuple[int, int]]) -> None:
    assert runs(ids) == expected


def test_a_link_knows_what_is_on_its_way() -> None:
    """Credit and delivery-count move with the first frame, arrival with the last."""
    wire = Wire([2000], 512, edges)
    link = wire.session.attach("l", Source(address="q"), Target(), False, SETTLED)
    wire._settle()
    assert isinstance(link, ReceiverLink)
    assert (link.arriving, link.returned) == (-1, 0)
    link.grant(5, drain=True)
    wire.exchange(0)
    for _ in range(5):
        wire.exchange(0)

    assert link.arriving > 0
    assert (link.delivery_count, link.credit, link.returned) == (1, 4, 0)
    wire._settle()
    while wire._offset < len(wire._waiting):
        wire.exchange(0)
    assert (link.arriving, link.credit, link.returned) == (-1, 0, 4)
