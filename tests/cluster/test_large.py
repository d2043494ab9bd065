"""Large messages in a mesh: in pieces, exactly once, in order, and no file is left behind (C44)."""

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from zlib import crc32

import pytest
from attrs import evolve

from artemis_py.cluster import pieces
from artemis_py.cluster.envelope import Envelope, encode_envelope
from artemis_py.cluster.events import LargeNotMoved, NotCopied
from artemis_py.cluster.hello import COPIES, Hello
from artemis_py.cluster.mesh import Mesh
from artemis_py.cluster.peer import Peer, PeerState
from artemis_py.cluster.pieces import PIECE_BYTES, WINDOW, Announced
from artemis_py.cluster.record_codec import encode
from artemis_py.cluster.records import BulkChannel, BulkRefused, BulkTaken
from artemis_py.cluster.report import explain
from artemis_py.cluster.taker import REFUSED_MS
from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.routing.domain import Domain
from artemis_py.core.runtime.carrier import Lane
from artemis_py.core.settings.address_settings import AddressSettings
from artemis_py.core.settings.cluster_config import ClusterConfig, LoadBalancing
from artemis_py.errors import InvalidRequest
from tests.cluster.bodies import files_of, fill_disk, with_body
from tests.cluster.node import FORMATS, Node
from tests.cluster.simulation import Simulation
from tests.cluster.test_connections import UP, open_wire
from tests.cluster.test_copies import topics as topics
from tests.cluster.test_copies import waiting
from tests.cluster.test_handover import is_done, meshed
from tests.cluster.test_replies import Requester
from tests.cluster.topics import Topics

SIZE = 10 * PIECE_BYTES + 1


def files(sim: Simulation) -> int:
    """Number of files of large bodies anywhere."""
    return sum(len(files_of(node)) for node in sim.nodes)


def is_clean(sim: Simulation) -> bool:
    """Whether all is consumed, and no file is left."""
    return is_done(sim) and not files(sim)


def peer_of(node: Node, other: Node) -> Peer:
    """The other node, as one knows it."""
    return node.mesh.peers[other.mesh.node_id]


def is_under_way(origin: Node, taker: Node) -> bool:
    """Whether a part of a body has arrived, and another one has not."""
    peer = taker.mesh.peers.get(origin.mesh.node_id)
    body = None if peer is None else peer.incoming_bulk._body
    return body is not None and body.size > 0


@pytest.mark.parametrize("size", [1, PIECE_BYTES, SIZE])
@pytest.mark.parametrize("durable", [True, False])
def test_large_message_is_handed_over(sim: Simulation, size: int, durable: bool) -> None:
    """With the octets that it had; its file is at the node that has it, and nowhere at the end."""
    a, b = meshed(sim, 2)
    sim.send(a, "q", "m", large=size, durable=durable)
    sim.run_for(1_000)
    assert (len(files_of(a)), len(files_of(b))) == (1, 0)
    consumer = sim.consume(b, "q", settle_ms=0)

    assert sim.run_until(lambda: is_clean(sim))
    assert consumer.bodies == ["m"]
    assert sim.table_faults() == []


def test_small_and_large_messages_of_a_queue_keep_their_order(sim: Simulation) -> None:
    """Although they go on two lanes."""
    a, b = meshed(sim, 2)
    consumer = sim.consume(b, "q", 50)
    sim.run_for(1_000)
    sent = [f"m{number}" for number in range(60)]
    for number, body in enumerate(sent):
        large = 300_000 if number % 7 == 0 else 0
        sim.at(sim.now + number * 3, partial(sim.send, a, "q", body, large=large))

    assert sim.run_until(lambda: len(consumer.bodies) == 60 and is_clean(sim))
    assert consumer.bodies == sent


def test_large_message_holds_up_no_other_queue(sim: Simulation) -> None:
    """The lanes of a connection are fair: what is small and comes later is there first."""
    sim.stalls = 0.0
    a, b = meshed(sim, 2)
    large, small = sim.consume(b, "large"), sim.consume(b, "small")
    sim.run_for(1_000)
    sim.send(a, "large", "l", large=20 * SIZE)
    assert sim.run_until(lambda: is_under_way(a, b))
    for number in range(20):
        sim.send(a, "small", f"s{number}")
    assert sim.run_until(lambda: len(small.bodies) == 20)

    assert large.bodies == []
    assert sim.run_until(lambda: is_clean(sim))


def test_slow_peer_has_few_pieces_on_their_way(sim: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    """The body is read from its file as the peer takes it."""
    a, b = meshed(sim, 2)
    sim.slowest_ms = 1_000
    most = 0
    accepted = pieces.OutgoingBulk.accepted

    def note(bulk: pieces.OutgoingBulk, number: int) -> None:
        nonlocal most
        accepted(bulk, number)
        most = max(most, bulk._frame - bulk._accepted)

    monkeypatch.setattr(pieces.OutgoingBulk, "accepted", note)
    sim.consume(b, "q")
    sim.send(a, "q", "m", large=SIZE)

    assert sim.run_until(lambda: is_clean(sim), 120_000)
    assert most == WINDOW


@pytest.mark.parametrize("fault", ["cut", "partition", "taker", "origin", "lands"])
def test_body_that_is_interrupted_begins_again(sim: Simulation, fault: str) -> None:
    """C44: nothing of the first attempt is left, and the message comes once."""
    a, b = meshed(sim, 2)
    consumer = sim.consume(b, "q")
    sim.send(a, "q", "m", large=SIZE)
    sim.send(a, "q", "after")
    assert sim.run_until(lambda: is_under_way(a, b))
    if fault == "cut":
        sim.cut(a, b)
    elif fault == "partition":
        sim.partition(a, b, 5_000)
    else:
        sim.crash(a if fault == "origin" else b, 500, lands=fault == "lands")
    assert sim.run_until(sim.is_meshed, 120_000)
    again = consumer if consumer.is_alive else sim.consume(b, "q")

    assert sim.run_until(lambda: is_clean(sim), 120_000)
    assert again.bodies == ["m", "after"]


def test_body_is_cut_again_and_again(sim: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    """C44: ten times in the middle."""
    monkeypatch.setattr(pieces, "PIECE_BYTES", 10_000)
    a, b = meshed(sim, 2)
    consumer = sim.consume(b, "q")
    sim.send(a, "q", "m", large=SIZE)
    for _ in range(10):
        assert sim.run_until(lambda: is_under_way(a, b), 120_000)
        sim.cut(a, b)
        assert sim.run_until(lambda: not is_under_way(a, b), 120_000)
        assert len(files_of(b)) <= 2

    assert sim.run_until(lambda: is_clean(sim), 120_000)
    assert consumer.bodies == ["m"]


def test_damaged_body_goes_to_the_dead_letter_address_of_its_broker(sim: Simulation) -> None:
    """As if a consumer there had failed to read it; what comes after it is not held up."""
    settings = AddressSettings(dead_letter_address="DLA", max_delivery_attempts=3)
    a, b = meshed(sim, 2, settings=settings)
    a.queue("DLA")
    sim.send(a, "q", "damaged", large=SIZE)
    sim.send(a, "q", "gone", large=SIZE)
    sim.send(a, "q", "sound", large=SIZE)
    sim.send(a, "q", "small")
    sim.run_for(1_000)
    damaged, gone, _ = files_of(a)
    with damaged.open("r+b") as file:
        file.seek(SIZE // 2)
        file.write(b"x")
    os.unlink(gone)
    consumer = sim.consume(b, "q")

    assert sim.run_until(lambda: len(consumer.bodies) == 2)
    assert consumer.bodies == ["sound", "small"]
    assert sim.run_until(lambda: a.domain.queues["DLA"].message_count == 2)
    reasons = [event.reason for event in a.events if isinstance(event, LargeNotMoved)]
    assert len(reasons) == 6
    assert "is damaged" in reasons[0]
    assert sim.run_until(lambda: not sim.in_flight() and not files_of(b))


def test_message_that_a_full_disk_cannot_keep_stays_at_its_node(sim: Simulation) -> None:
    """Others move; it is tried again after a while, and a consumer at its node gets it at once."""
    a, b = meshed(sim, 2)
    consumer = sim.consume(b, "q")
    sim.send(a, "q", "large", large=SIZE)
    assert sim.run_until(lambda: is_under_way(a, b))
    fill_disk(b, True)
    sim.send(a, "q", "small")
    sim.send(a, "q", "other", large=SIZE)
    assert sim.run_until(lambda: consumer.bodies == ["small"])
    sim.run_for(1_000)
    assert a.domain.queues["q"].waiting_count == 2
    assert not files_of(b)
    assert explain(a.mesh, "q") == ["mesh:B had no room for a large message, and is asked again after a while"]
    refused = [event for event in b.events if isinstance(event, LargeNotMoved)]
    assert len(refused) == 2
    fill_disk(b, False)

    assert sim.run_until(lambda: is_clean(sim), REFUSED_MS + 10_000)
    assert sorted(consumer.bodies) == ["large", "other", "small"]
    assert sim.table_faults() == []


def test_refused_message_is_there_for_a_consumer_of_its_own_node(sim: Simulation) -> None:
    """The peer's refusal concerns the peer only."""
    a, b = meshed(sim, 2)
    fill_disk(b, True)
    sim.consume(b, "q")
    sim.send(a, "q", "m", large=SIZE)
    sim.run_for(2_000)
    own = sim.consume(a, "q")

    assert sim.run_until(lambda: own.bodies == ["m"])
    assert sim.run_until(lambda: is_clean(sim))


class EarlierMesh(Mesh):
    """A broker that does not say that it takes large messages."""

    def connect(self, node_id: str = "") -> tuple[Hello, Peer]:
        own, peer = super().connect(node_id)
        return evolve(own, features=(COPIES,)), peer


@pytest.fixture
def earlier(folder: Path) -> Iterator[Simulation]:
    """A simulation in which node B has an earlier version."""

    def make(domain: Domain, config: ClusterConfig, id: str, name: str) -> Mesh:
        return (EarlierMesh if name == "B" else Mesh)(domain, config, id, name, FORMATS)

    simulation = Simulation(1, folder, make)
    yield simulation
    simulation.close()
    assert simulation.ledger.violations == []


def test_peer_of_an_earlier_version_gets_no_large_message(earlier: Simulation) -> None:
    """They stay at their node, as they did before, and a copy is reported; others move."""
    sim = earlier
    topics = Topics(sim)
    a, b = meshed(sim, 2)
    consumer, subscriber = sim.consume(b, "q"), topics.subscribe(b, "news")
    sim.run_for(2_000)
    sim.send(a, "q", "large", large=SIZE)
    sim.send(a, "q", "small")
    sim.send(b, "back", "back", large=SIZE)
    back = sim.consume(a, "back")
    copy = topics.publish(a, "news", large=SIZE), topics.publish(a, "news")
    sim.run_for(5_000)

    assert (consumer.bodies, subscriber.bodies, back.bodies) == (["small"], [copy[1]], ["back"])
    assert a.domain.queues["q"].waiting_count == 1
    assert [event.reason for event in a.events if isinstance(event, NotCopied)] == [
        "mesh:B has an earlier version, which takes no large messages"
    ]
    assert peer_of(b, a).has_bulk
    expected = "mesh:B wants none of what waits, or cannot take it: its version knows no large messages"
    assert explain(a.mesh, "q") == [expected]


def test_drained_node_gives_large_messages_away(sim: Simulation) -> None:
    """C55."""
    a, b = meshed(sim, 2)
    for number in range(5):
        sim.send(a, "q", f"m{number}", large=SIZE if number % 2 else 0)
    sim.run_for(500)
    a.run(a.generation, a.mesh.departures.begin)

    assert sim.run_until(lambda: b.domain.queues["q"].message_count == 5 if "q" in b.domain.queues else False)
    assert sim.run_until(lambda: not files_of(a))
    consumer = sim.consume(b, "q")
    assert sim.run_until(lambda: is_clean(sim))
    assert consumer.bodies == [f"m{number}" for number in range(5)]


def test_strict_turns_include_large_messages(sim: Simulation) -> None:
    """What is another node's turn waits for it, and shares no file with what stays."""
    a, b = meshed(sim, 2, load_balancing=LoadBalancing.STRICT)
    here, there = sim.consume(a, "q"), sim.consume(b, "q")
    sim.run_for(2_000)
    for number in range(6):
        sim.send(a, "q", f"m{number}", large=SIZE if number < 4 else 0)

    assert sim.run_until(lambda: is_clean(sim))
    assert (len(here.bodies), len(there.bodies)) == (3, 3)


# -- copies ----------------------------------------------------------------------------------------------------


def test_copies_for_subscriptions_share_one_file(sim: Simulation, topics: Topics) -> None:
    """A copy for each peer stores nothing twice, and each subscription gets the octets."""
    a, b, c = meshed(sim, 3)
    found = [topics.subscribe(node, "news", name) for node in (b, c) for name in ("", f"kept.{node.name}")]
    sim.run_for(2_000)
    sim.cut(a, b)
    sim.partition(a, b, 5_000)
    sim.partition(a, c, 5_000)
    sim.run_for(1_000)
    body = topics.publish(a, "news", large=SIZE)
    sim.run_for(1_000)
    assert waiting(a) == 2
    assert len(files_of(a)) == 1

    assert sim.run_until(lambda: is_clean(sim), 120_000)
    assert [each.bodies for each in found] == [[body]] * 4
    assert waiting(a) == 0


def test_copies_of_an_address_keep_their_order(sim: Simulation, topics: Topics) -> None:
    """What is published after a large message comes after it; another address does not wait for it."""
    sim.stalls = 0.0
    a, b = meshed(sim, 2)
    same, other = topics.subscribe(b, "same"), topics.subscribe(b, "other")
    sim.run_for(2_000)
    first = [topics.publish(a, "same"), topics.publish(a, "same", large=SIZE), topics.publish(a, "same")]
    second = topics.publish(a, "other")
    assert sim.run_until(lambda: other.bodies == [second])
    assert len(same.bodies) < 2

    assert sim.run_until(lambda: is_clean(sim))
    assert same.bodies == first
    assert waiting(a) == 0


def test_copy_whose_body_is_damaged_is_reported(sim: Simulation, topics: Topics) -> None:
    """Nothing holds up the others."""
    a, b = meshed(sim, 2)
    kept = topics.subscribe(b, "news", "kept")
    sim.run_for(2_000)
    sim.partition(a, b, 3_000)
    sim.run_for(500)
    topics.publish(a, "news", large=SIZE)
    body = topics.publish(a, "news")
    sim.run_for(1_000)
    os.truncate(files_of(a)[0], 1_000)

    assert sim.run_until(lambda: kept.bodies == [body], 120_000)
    reported = [event.reason for event in a.events if isinstance(event, NotCopied)]
    assert len(reported) == 1
    assert "cannot be read" in reported[0]
    assert sim.run_until(lambda: waiting(a) == 0)


def test_copy_that_a_full_disk_cannot_keep_waits(sim: Simulation, topics: Topics) -> None:
    """Until there is room, and what comes after it in the meantime waits as well."""
    a, b = meshed(sim, 2)
    kept = topics.subscribe(b, "news", "kept")
    sim.run_for(2_000)
    fill_disk(b, True)
    bodies = [topics.publish(a, "news", large=SIZE), topics.publish(a, "news")]
    sim.run_for(30_000)
    assert waiting(a) > 0
    fill_disk(b, False)

    assert sim.run_until(lambda: is_clean(sim))
    assert sorted(kept.bodies) == bodies


def test_shared_subscription_hands_large_messages_over(sim: Simulation, topics: Topics) -> None:
    """From the shell where they were published."""
    a, b = meshed(sim, 2)
    member = topics.subscribe(b, "news", "group", shared=True)
    sim.run_for(2_000)
    bodies = [topics.publish(a, "news", large=SIZE), topics.publish(a, "news")]

    assert sim.run_until(lambda: is_clean(sim))
    assert member.bodies == bodies


def test_copies_go_through_a_node_in_between(sim: Simulation, topics: Topics) -> None:
    """The node in the middle has a file for as long as it passes the copy on."""
    a, b, c = meshed(sim, 3, max_hops=2, ties=[(0, 1), (1, 2)])
    far = topics.subscribe(c, "news")
    sim.run_for(3_000)
    body = topics.publish(a, "news", large=SIZE)

    assert sim.run_until(lambda: is_clean(sim))
    assert far.bodies == [body]
    assert (waiting(a), waiting(b)) == (0, 0)


@pytest.mark.parametrize("name", [None, "ID:host-1:1:1"])
def test_large_reply_goes_to_a_temporary_queue(sim: Simulation, name: str | None) -> None:
    """C34: it keeps its place among other replies, whoever chose the name."""
    a, b = meshed(sim, 2)
    requester = Requester(a, chosen_name=name)
    a.plan_turn()
    sim.run_for(500)
    for number, size in enumerate((0, SIZE, 0)):
        send_to(b, requester.name, f"m{number}", size)
        sim.run_for(10)

    assert sim.run_until(lambda: requester.bodies == ["m0", "m1", "m2"])
    assert sim.run_until(lambda: is_clean(sim))


def send_to(node: Node, address: str, name: str, size: int) -> None:
    """Send a message as a client does."""
    message = plain_message(address, MessageView(body=name, properties={"large": size} if size else {}))
    message.durable = True
    held = with_body(node, message, name, size) if size else None
    node.simulation.ledger.sent(name, True, node.name)
    try:
        node.session.producer(address).send(message)
    finally:
        if held is not None:
            held.release()
        node.plan_turn()


def test_large_reply_for_an_earlier_version_is_refused(earlier: Simulation) -> None:
    """Its sender is told: nobody would get it."""
    a, b = meshed(earlier, 2)
    requester = Requester(b)
    earlier.run_for(500)

    with pytest.raises(InvalidRequest, match="takes no large messages"):
        send_to(a, requester.name, "m", SIZE)
    earlier.ledger.entries.clear()
    earlier.run_for(1_000)
    assert not files_of(a)


# -- what a peer must not send -----------------------------------------------------------------------------------


def head(number: int, size: int = 0) -> bytes:
    """The first frame of a message with a body of zeros."""
    message = plain_message("q", MessageView(body="x"))
    if size:
        message.large = Announced(0, size, crc32(bytes(size)))
    return b"\x01" + number.to_bytes(8, "big") + encode_envelope(Envelope(message, "q", "q", 0, False, ("peer",)))


@pytest.mark.parametrize(
    ("frames", "reason"),
    [
        ({2: b"\x02abc"}, "frame 2 came after 0"),
        ({1: b"\x02abc"}, "belongs to no large message"),
        ({1: b""}, "is malformed"),
        ({1: b"\x01"}, "is malformed"),
        ({1: b"\x04" + bytes(8)}, "is malformed"),
        ({1: head(2)}, "message 2 came after 0"),
        ({1: b"\x03" + bytes(7) + b"\x02"}, "message 2 came after 0"),
        ({1: head(1, 3), 2: b"\x02"}, "belongs to no large message"),
        ({1: head(1, 3), 2: b"\x02" + bytes(4)}, "belongs to no large message"),
        ({1: head(1, 3), 2: head(2)}, "before the body of the one before"),
        ({1: head(1, 3), 2: b"\x02abc"}, "is not what was announced"),
        ({1: head(1, 3), 3: b"\x02abc"}, "frame 3 came after 1"),
    ],
)
def test_frame_that_makes_no_sense_ends_the_connection(sim: Simulation, frames: dict[int, bytes], reason: str) -> None:
    """C50: and what has come of a body is gone."""
    node, wire, peer = open_wire(sim, *UP, BulkChannel(10, 1))
    for number, content in frames.items():
        peer.message(Lane.BULK, number, content)
    sim.run_for(100)

    assert reason in str(wire.closed)
    assert not files_of(node)


def test_scripted_large_message_arrives(sim: Simulation) -> None:
    """The script of the test above is a legal one but for its last frame."""
    node, wire, peer = open_wire(sim, *UP, BulkChannel(10, 1))
    for number, content in {1: head(1, 3), 2: b"\x02" + bytes(2), 3: b"\x02" + bytes(1)}.items():
        peer.message(Lane.BULK, number, content)
    node.plan_turn()
    sim.run_for(1_000)

    assert wire.closed is None
    assert wire.accepted == [3]
    assert node.domain.queues["q"].message_count == 1
    assert BulkTaken(1) in wire.records


def test_peer_that_says_what_cannot_be_is_closed(sim: Simulation) -> None:
    """C50: a confirmation of what was never sent, or a refusal of it."""
    for record in (BulkTaken(1), BulkRefused(1)):
        a, b = sim.nodes or meshed(sim, 2)
        assert sim.run_until(sim.is_meshed)
        peer = peer_of(a, b)
        peer.control(encode([record]))
        assert peer.state is PeerState.CLOSED
    assert sim.run_until(sim.is_meshed)
    peer = peer_of(a, b)
    peer.accepted(Lane.BULK, 1)

    assert peer.state is PeerState.CLOSED
