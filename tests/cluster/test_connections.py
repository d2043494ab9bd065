"""How brokers meet: one connection for each pair, refusals with reasons, restarts, hostile peers."""

from pathlib import Path

import pytest

from artemis_py.cluster.envelope import Envelope, encode_envelope
from artemis_py.cluster.events import PeerDown
from artemis_py.cluster.marks import MARKS, Marks
from artemis_py.cluster.mesh import Mesh
from artemis_py.cluster.peer import Peer, PeerState
from artemis_py.cluster.record_codec import decode, encode, encode_one
from artemis_py.cluster.records import (
    Channel,
    Demand,
    Digest,
    Grant,
    Instance,
    Record,
    SnapshotBegin,
    SnapshotEnd,
    ToldMarks,
)
from artemis_py.cluster.remote_queue import RemoteQueue
from artemis_py.cluster.telling import QUEUES_PER_TURN
from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.queues.storage import Storage
from artemis_py.core.runtime.carrier import Lane, PeerRefused
from artemis_py.core.settings.address_settings import AddressSettings
from artemis_py.core.settings.cluster_config import ClusterConfig
from tests.cluster.node import FOLDED_MS, FORMATS, Node
from tests.cluster.simulation import Simulation


@pytest.mark.parametrize("seed", range(10))
def test_one_connection_stays_when_both_dial(seed: int, folder: Path) -> None:
    """C14: both sides keep the same one, however their dials cross."""
    sim = Simulation(seed, folder)
    sim.add_nodes(4)
    assert sim.run_until(sim.is_meshed)
    sim.run_for(5_000)

    assert len([link for link in sim.all_links if all(end.is_open for end in link.ends)]) == 6
    assert sim.is_meshed()
    sim.close()


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("dialler", [0, 1])
def test_connection_stays_when_its_broker_is_dialled_under_another_name(seed: int, dialler: int, folder: Path) -> None:
    """A broker that is dialled first does not know that it dials the same one. Nothing is broken off."""
    sim = Simulation(seed, folder)
    nodes = sim.add_nodes(2)
    assert sim.run_until(sim.is_meshed)
    (before,) = nodes[0].mesh.peers.values()
    nodes[dialler].run(nodes[dialler].generation, lambda: nodes[dialler].dial(nodes[1 - dialler]))
    sim.run_for(5_000)

    assert list(nodes[0].mesh.peers.values()) == [before]
    assert not any(isinstance(event, PeerDown) for node in nodes for event in node.events)
    assert len([link for link in sim.all_links if all(end.is_open for end in link.ends)]) == 1
    sim.close()


def test_connection_that_only_one_side_has_is_replaced(sim: Simulation) -> None:
    """What the dialling broker tells of its connections does not keep one that the other broker has lost, or doubts."""
    a, b = sim.add_nodes(2, ClusterConfig(name="mesh", check_period_ms=2_000, connection_ttl_ms=60_000))
    assert sim.run_until(sim.is_meshed)
    (before,) = b.mesh.peers.values()
    before.is_suspect = True
    a.run(a.generation, lambda: a.dial(b))
    sim.run_for(5_000)

    assert before not in b.mesh.peers.values()
    assert sim.run_until(sim.is_meshed)


def test_one_known_broker_is_enough_to_hear_of_the_others(sim: Simulation) -> None:
    """C13, as far as records go: a node that dials one learns of all."""
    nodes = sim.add_nodes(4, ties=[(1, 0), (2, 0), (3, 0)])
    sim.run_for(5_000)

    assert {member.name for member in nodes[3].mesh.members.values()} == {"A", "B", "C"}


def test_other_mesh_is_refused_by_name(sim: Simulation) -> None:
    """C15: the reason is told to both."""
    a = Node(sim, "A", sim.folder / "A", ClusterConfig(name="one"), sim.settings)
    b = Node(sim, "B", sim.folder / "B", ClusterConfig(name="two"), sim.settings)
    sim.nodes += [a, b]
    a.neighbours.append(b)
    a.dial_soon(b)
    sim.run_for(3_000)

    assert b.refusals
    assert "mesh 'one', this one in 'two'" in b.refusals[0]
    assert not a.mesh.peers


def test_broker_that_dials_itself_is_told_so(sim: Simulation) -> None:
    """C12: its own address may be in the list that is the same everywhere."""
    (a,) = sim.add_nodes(1)
    a.neighbours.append(a)
    a.dial_soon(a)
    sim.run_for(2_000)

    assert "dialled itself" in a.refusals[0]


def test_copy_of_a_data_folder_is_refused(sim: Simulation) -> None:
    """Two brokers with one node id."""
    nodes = sim.add_nodes(3)
    assert sim.run_until(sim.is_meshed)
    a, b, c = nodes
    b.mesh.node_id = a.mesh.node_id
    sim.cut(b, c)
    sim.run_for(10_000)

    assert any("the data folder was copied" in text for text in c.refusals)


def test_older_store_is_refused(sim: Simulation) -> None:
    """A broker that has been started fewer times than the others know has a restored store."""
    a, b = sim.add_nodes(2)
    assert sim.run_until(sim.is_meshed)
    sim.crash(b, 100)
    sim.run_for(2_000)
    assert sim.run_until(sim.is_meshed)
    b.mesh.incarnation = 1
    sim.cut(a, b)
    sim.run_for(10_000)

    assert any("restored or copied" in text for text in (*a.refusals, *b.refusals))


def test_claims_survive_a_crash_of_their_broker(sim: Simulation) -> None:
    """What was on its way is neither lost nor sent twice."""
    a, b = sim.add_nodes(2)
    assert sim.run_until(sim.is_meshed)
    consumer = sim.consume(b, "q", 100)
    sim.run_for(1_000)
    for number in range(50):
        sim.send(a, "q", f"m{number}")
    assert sim.run_until(lambda: sim.in_flight() > 0)
    sim.crash(a, 500)

    assert sim.run_until(lambda: sim.is_meshed() and not sim.ledger.missing() and not sim.in_flight())
    assert len(set(consumer.bodies)) == len(consumer.bodies)


def claimed(node: Node) -> dict[int, tuple[str, int]]:
    """Queue and sequence of each claim of a broker that has one channel, by number."""
    (channel,) = [each for each in node.mesh.channels if each.claims]
    return {number: (each.queue.name, each.sequence) for number, each in channel.claims.items()}


def test_many_claims_are_read_as_they_were_written(sim: Simulation) -> None:
    """They are of two queues, in turn; the peer is stopped, so all are in doubt when their broker starts again."""
    a, b = sim.add_nodes(2, ClusterConfig(name="mesh", standing_grant=200))
    assert sim.run_until(sim.is_meshed)
    for queue in ("p", "q"):
        sim.consume(b, queue, 200)
    sim.run_for(1_000)
    sim.stop(b, 60_000)
    for queue, count in (("q", 40), ("p", 5), ("q", 60), ("p", 40)):
        for number in range(count):
            sim.send(a, queue, f"{queue}{number}")
    sim.run_for(500)
    before = claimed(a)
    sim.crash(a, 100)
    sim.run_for(1_000)

    assert len(before) == 145
    assert claimed(a) == before


def test_silent_peer_gets_nothing_more(sim: Simulation) -> None:
    """A peer is suspect after check-period, and no longer when it speaks."""
    config = ClusterConfig(name="mesh", check_period_ms=2_000, connection_ttl_ms=60_000)
    a, b = sim.add_nodes(2, config)
    assert sim.run_until(sim.is_meshed)
    sim.stop(b, 10_000)
    sim.run_for(6_000)
    (peer,) = a.mesh.peers.values()
    assert peer.is_suspect

    sim.run_for(8_000)
    (peer,) = a.mesh.peers.values()
    assert not peer.is_suspect


def test_dead_connection_ends_after_its_time(sim: Simulation) -> None:
    """Silence for longer than connection-ttl."""
    config = ClusterConfig(name="mesh", check_period_ms=2_000, connection_ttl_ms=6_000)
    a, b = sim.add_nodes(2, config)
    assert sim.run_until(sim.is_meshed)
    sim.stop(b, 30_000)
    sim.run_for(12_000)
    assert not a.mesh.peers

    assert sim.run_until(sim.is_meshed)


# -- a hostile peer (C50) ------------------------------------------------------------------------------------------


class Wire:
    """A connection to a peer that the test plays."""

    peer = "test"
    is_dialled = False

    def __init__(self) -> None:
        self.closed: str | None = None
        self.listener: Peer | None = None
        self.accepted: list[int] = []
        self.sent: list[int] = []
        self.records: list[Record] = []

    def send_control(self, records: bytes) -> bool:
        self.records += decode(records)
        return True

    def send(self, lane: Lane, number: int, message: bytes) -> bool:
        self.sent.append(number)
        return True

    def accept(self, lane: Lane, number: int) -> None:
        self.accepted.append(number)

    def close(self, reason: str, is_duplicate: bool = False) -> None:
        if self.closed is None:
            self.closed = reason
            assert self.listener is not None
            self.listener.lost(reason)


HELLO: dict[str, object] = {
    "version": 1,
    "min-version": 1,
    "cluster": "mesh",
    "node-id": "stranger",
    "node-name": "X",
    "incarnation": 1,
    "run": 7,
    "connection": 1,
    "now-ms": 0,
    "load-balancing": "ON_DEMAND",
    "max-hops": 1,
    "scope": "",
    "formats": ["plain"],
}


def open_wire(sim: Simulation, *records: Record, features: tuple[str, ...] = ()) -> tuple[Node, Wire, Peer]:
    """A node, and a connection on which a peer has said hello and these records."""
    (node,) = sim.add_nodes(1)
    sim.run_for(1_000)
    wire = Wire()
    _, peer = node.mesh.connect()
    wire.listener = peer
    peer.opened(wire, {**HELLO, "features": list(features)} if features else HELLO)
    node.plan_turn()
    sim.run_for(10)
    for record in records:
        peer.control(encode([record]))
        node.plan_turn()
        sim.run_for(500)
    return node, wire, peer


UP = (ToldMarks(()), Channel(9, 1), SnapshotBegin(), SnapshotEnd(0, 0))


def test_scripted_peer_comes_up(sim: Simulation) -> None:
    """The script of the tests below is a legal one."""
    _, wire, peer = open_wire(sim, *UP)

    assert peer.state is PeerState.UP
    assert wire.closed is None


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        ((Channel(9, 1),), "marks come before"),
        ((ToldMarks(()), ToldMarks(())), "once"),
        ((ToldMarks(()), Channel(9, 5)), "not behind the mark"),
        ((*UP, Instance(1, "q", "q", 1, ""), Instance(2, "q", "q", 1, "")), "twice"),
        ((*UP, Instance(1, "q", "q", 1, ""), Instance(1, "other", "other", 1, "")), "another name"),
    ],
)
def test_records_that_break_the_rules_end_the_connection(
    sim: Simulation, records: tuple[Record, ...], reason: str
) -> None:
    _, wire, _ = open_wire(sim, *records)

    assert wire.closed is not None
    assert reason in wire.closed


@pytest.mark.parametrize(
    "octets",
    [b"\x01", b"\x19\x00\x00\x01\x00", b"\xff\x00\x00\x00", b"\x50\x00\x00\x04\xff\xff\xff\xff", b"\x14\x00\xff\xff"],
)
def test_malformed_records_end_the_connection(sim: Simulation, octets: bytes) -> None:
    _, wire, peer = open_wire(sim, *UP)
    peer.control(octets)

    assert wire.closed is not None


def test_unknown_optional_record_is_passed_over(sim: Simulation) -> None:
    """A later version may tell more."""
    _, wire, peer = open_wire(sim, *UP)
    peer.control(b"\x7f\x00\x00\x03abc" + encode_one(Digest(0, 0)))

    assert wire.closed is None
    assert peer.resyncs == 0


def test_confirmation_of_what_was_never_sent_ends_the_connection(sim: Simulation) -> None:
    _, wire, peer = open_wire(sim, *UP)
    peer.accepted(Lane.HANDOVER, 1 << 40)

    assert wire.closed == f"message {1 << 40} was confirmed, and never sent"


@pytest.mark.parametrize("number", [2, 1 << 63])
def test_message_out_of_order_ends_the_connection(sim: Simulation, number: int) -> None:
    _, wire, peer = open_wire(sim, *UP)
    deliver(peer, "q", "q", number)

    assert wire.closed == f"message {number} came after 0"


@pytest.mark.parametrize(
    "content", [b"", b"\x01", b"\x01\x00" + bytes(60), b"\x09" + bytes(80), b"\x01\x80" + bytes(80)]
)
def test_malformed_message_ends_the_connection(sim: Simulation, content: bytes) -> None:
    node, wire, peer = open_wire(sim, *UP)
    peer.message(Lane.HANDOVER, 1, content)

    assert wire.closed is not None
    assert node.mesh.marks.get("stranger", 9) == 0


def test_peer_has_a_limited_number_of_channels(sim: Simulation) -> None:
    """It has one for each run, and closes those of earlier runs."""
    node, wire, peer = open_wire(sim, *UP)
    for number in range(100, 164):
        node.mesh.marks.set("stranger", number, 1)
    peer.control(encode([Channel(200, 1)]))

    assert wire.closed == "the peer has more than 64 channels"


def test_wrong_digest_asks_for_everything_again(sim: Simulation) -> None:
    """Nothing can drift unnoticed."""
    _, wire, peer = open_wire(sim, *UP, Digest(3, 12345))

    assert wire.closed is None
    assert peer.resyncs == 1


def test_unlimited_grant_takes_no_more_than_there_is_room_for(sim: Simulation) -> None:
    """Bytes on their way are bounded by the confirmation window, whatever the peer grants."""
    node, wire, peer = open_wire(
        sim, *UP, Instance(1, "q", "q", 1, ""), Demand(1, (("", 1, 64),)), Grant(1, (1 << 64) - 1)
    )
    for number in range(200):
        sim.send(node, "q", f"m{number}-" + "x" * 200_000)
    sim.run_for(5_000)

    window = node.config.confirmation_window_size_bytes
    assert peer.handover.channel is not None
    assert peer.handover.channel.bytes_claimed <= window + 201_000
    assert 0 < len(wire.sent) < 200


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"cluster": "other"}, "other"),
        ({"version": 0}, "upgrade it first"),
        ({"min-version": 99}, "upgrade this broker"),
        ({"node-id": 5}, "node-id"),
        ({"incarnation": -1}, "incarnation"),
        ({"runs": 5}, "runs"),
        ({"urls": "x"}, "urls"),
        ({"node-name": "x" * 2_000}, "node-name"),
    ],
)
def test_hello_that_does_not_fit_is_refused(sim: Simulation, changes: dict[str, object], reason: str) -> None:
    """C15."""
    (node,) = sim.add_nodes(1)
    sim.run_for(1_000)
    _, peer = node.mesh.connect()

    with pytest.raises(PeerRefused, match=reason):
        peer.opened(Wire(), HELLO | changes)


# -- messages that have no place -------------------------------------------------------------------------------------


def deliver(peer: Peer, address: str, queue: str, number: int = 1) -> None:
    """A message of a scripted peer."""
    message = plain_message(address, MessageView(body="m"))
    message.durable = True
    envelope = Envelope(message, address, queue, 0, False, ("stranger",))
    peer.message(Lane.HANDOVER, number, encode_envelope(envelope))


class CountedMarks(Marks):
    """Marks that count how often one is stored."""

    def __init__(self, storage: Storage) -> None:
        super().__init__(storage)
        self.stored: list[int] = []

    def set(self, origin: str, channel: int, number: int) -> None:
        self.stored.append(number)
        super().set(origin, channel, number)


def counted(node: Node) -> CountedMarks:
    """The marks of a node."""
    marks = node.mesh.marks = CountedMarks(node.domain.storage)
    return marks


def test_messages_that_come_together_cost_one_mark(sim: Simulation) -> None:
    """It is stored before anything else runs, so it is in the commit of the messages; nothing more follows it."""
    node, wire, peer = open_wire(sim, *UP)
    marks = counted(node)

    def read() -> None:
        for number in (1, 2, 3):
            deliver(peer, "q", "q", number)
        assert marks.stored == []
        peer.has_read()

    node.run(node.generation, read)
    assert marks.stored == [3]
    sim.run_for(FOLDED_MS)

    assert marks.stored == [3]
    assert wire.accepted == [3]
    assert [value for _, value in node.store.load_records(MARKS)] == [(3).to_bytes(8, "big")]


def test_mark_is_stored_if_the_connection_ends_in_the_middle_of_a_read(sim: Simulation) -> None:
    """What came before the end is in the store, so the peer must hear of it."""
    node, _, peer = open_wire(sim, *UP)
    marks = counted(node)

    def read() -> None:
        deliver(peer, "q", "q", 1)
        deliver(peer, "q", "q", 3)

    node.run(node.generation, read)

    assert not peer.is_up
    assert marks.stored == [1]


def test_queue_that_is_gone_is_made_again(sim: Simulation) -> None:
    """The peer no longer has the message, so it waits here until somebody wants it."""
    node, wire, peer = open_wire(sim, *UP)
    node.run(node.generation, lambda: deliver(peer, "q", "q"))
    sim.run_for(1_000)

    assert node.domain.queues["q"].waiting_count == 1
    assert node.domain.queues["q"].auto_created
    assert wire.accepted == [1]


def test_message_that_cannot_be_in_its_queue_is_a_dead_letter(sim: Simulation) -> None:
    """A taker never refuses: it has the message already."""
    sim.settings = AddressSettings(dead_letter_address="DLQ")
    node, wire, peer = open_wire(sim, *UP)
    node.run(node.generation, lambda: (node.queue("q", address="elsewhere"), node.queue("DLQ")))
    node.run(node.generation, lambda: deliver(peer, "q", "q"))
    sim.run_for(1_000)

    assert node.domain.queues["DLQ"].waiting_count == 1
    assert wire.accepted == [1]
    assert node.mesh.marks.get("stranger", 9) == 1


@pytest.mark.parametrize(
    ("address", "queue"),
    [("$sys", "q"), ("q", "$.artemis.internal.x"), ("activemq.management", "q"), ("activemq.notifications", "q")],
)
def test_message_for_the_broker_itself_ends_the_connection(sim: Simulation, address: str, queue: str) -> None:
    """C48: a peer brings what the mesh has, and nothing else."""
    node, wire, peer = open_wire(sim, *UP)
    node.run(node.generation, lambda: deliver(peer, address, queue))

    assert wire.closed is not None
    assert "which the mesh does not have" in wire.closed


def test_message_without_the_permission_ends_the_connection(sim: Simulation) -> None:
    """C48."""
    node, wire, peer = open_wire(sim, *UP)
    peer.may_share = lambda address: address != "q"
    node.run(node.generation, lambda: deliver(peer, "q", "q"))

    assert wire.closed == "the peer has sent a message for 'q', without the permission mesh"


def test_taker_whose_store_fails_confirms_nothing(sim: Simulation) -> None:
    """The connection ends, and nobody may connect until a restart; the origin keeps what was on its way."""
    a, b = sim.add_nodes(2)
    assert sim.run_until(sim.is_meshed)
    sim.consume(b, "q", 100)
    sim.run_for(1_000)
    b.disk_fails = True
    for number in range(20):
        sim.send(a, "q", f"m{number}")
    sim.run_for(5_000)
    assert not b.mesh.peers
    assert "store of this broker has failed" in b.refusals[-1]

    sim.ledger.crashes += 1
    b.disk_fails = False
    b.crash(lands=False)
    b.start()
    assert sim.run_until(sim.is_meshed)
    sim.consume(a, "q", 100)
    assert sim.run_until(lambda: not sim.ledger.missing() and not sim.in_flight())


def test_broker_with_many_queues_is_met_in_slices(folder: Path) -> None:
    """Consumers of 1,200 queues: not all of them are looked at in the iteration in which their broker comes up."""
    most: list[int] = [0]

    class Counting(Mesh):
        count = 0

        def demand_changed(self, peer: Peer, remote: RemoteQueue) -> None:
            self.count += 1
            super().demand_changed(peer, remote)

        def turn_ended(self) -> bool:
            has_more = super().turn_ended()
            most[0] = max(most[0], self.count)
            self.count = 0
            return has_more

    sim = Simulation(1, folder, lambda domain, config, id, name: Counting(domain, config, id, name, FORMATS))
    a, b = sim.add_nodes(2, ClusterConfig(name="mesh"), ties=[])
    for number in range(1_200):
        sim.consume(b, f"q{number}", 1)
    sim.run_for(5_000)
    for number in (0, 700, 1_199):
        sim.send(a, f"q{number}", f"m{number}")
    a.neighbours.append(b)
    a.dial_soon(b)
    assert sim.run_until(lambda: sum(len(each.bodies) for each in sim.consumers) == 3)
    sim.close()

    assert 0 < most[0] <= 2 * QUEUES_PER_TURN
    assert sim.ledger.violations == []
