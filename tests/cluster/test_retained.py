"""Retained messages of all nodes are the same ones at every node (C35)."""

from functools import partial

import pytest

from artemis_py.cluster.events import NotRetained
from artemis_py.cluster.records import Record, RetainedDigest, RetainedPiece, RetainedStamps, RetainedWanted
from artemis_py.cluster.registers import BUCKETS, GONE_MS, REGISTERS, Register, Registers, bucket_of
from artemis_py.cluster.retained_topics import MAX_TOPIC_CHARS, PIECE_BYTES
from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.record import encode_with_durability
from artemis_py.core.messages.view import MessageView
from artemis_py.core.settings.cluster_config import Scope
from tests.cluster.node import FOLDED_MS, Node
from tests.cluster.simulation import Simulation
from tests.cluster.test_connections import HELLO, UP, open_wire
from tests.cluster.test_handover import meshed


def retain(node: Node, topic: str, body: str, expires_ms: int = 0) -> None:
    """What a client's publish with RETAIN does; without a body it deletes."""
    node.run(node.generation, partial(_retain, node, topic, body, expires_ms))


def _retain(node: Node, topic: str, body: str, expires_ms: int) -> None:
    if not body:
        node.services.retained.remove(topic)
        return
    message = plain_message(topic, MessageView(body=body))
    message.expires_ms = expires_ms
    node.services.retained.put(message)


def found(node: Node, topic: str = "t") -> str | None:
    """What a subscriber finds."""
    message = node.services.retained.get(topic)
    return None if message is None else str(message.view.body)


def all_found(sim: Simulation, topic: str = "t") -> list[str | None]:
    """What a subscriber at each node finds."""
    return [found(node, topic) for node in sim.nodes]


def is_same(sim: Simulation) -> bool:
    """Whether all nodes have the same digests."""
    return len({node.mesh.retained.registers.digests() for node in sim.nodes}) == 1


def test_message_is_found_at_every_node(sim: Simulation) -> None:
    """Retained, replaced elsewhere, deleted at a third node."""
    a, b, c = meshed(sim, 3)
    retain(a, "t", "one")
    sim.run_for(1_000)
    assert all_found(sim) == ["one"] * 3
    retain(b, "t", "two")
    sim.run_for(1_000)
    assert all_found(sim) == ["two"] * 3
    retain(c, "t", "")
    sim.run_for(1_000)

    assert all_found(sim) == [None] * 3
    assert is_same(sim)
    assert [node.services.retained.count for node in sim.nodes] == [0] * 3


def test_newer_one_wins_after_a_partition(sim: Simulation) -> None:
    """Both sides retain, replace and delete; all end with what was published last."""
    a, b, c = meshed(sim, 3)
    for topic in ("t", "gone", "back"):
        retain(a, topic, "before")
    sim.run_for(1_000)
    sim.partition(a, c, 8_000)
    sim.partition(b, c, 8_000)
    sim.run_for(4_000)
    retain(a, "t", "of A")
    retain(c, "gone", "of C")
    retain(b, "back", "")
    # Clocks are up to four seconds apart here.
    sim.run_for(4_500)
    retain(c, "t", "of C")
    retain(b, "gone", "")
    retain(c, "back", "of C")
    retain(c, "new", "of C")
    assert sim.run_until(sim.is_meshed)
    sim.run_for(2_000)

    assert all_found(sim, "t") == ["of C"] * 3
    assert all_found(sim, "gone") == [None] * 3
    assert all_found(sim, "back") == ["of C"] * 3
    assert all_found(sim, "new") == ["of C"] * 3
    assert is_same(sim)


def test_who_has_seen_a_message_replaces_it_however_wrong_its_clock_is(sim: Simulation) -> None:
    """The clock of A is an hour ahead."""
    a, b = meshed(sim, 2)
    a.clock_offset_ms += 3_600_000
    retain(a, "t", "of A")
    sim.run_for(1_000)
    retain(b, "t", "of B")
    sim.run_for(1_000)

    assert all_found(sim) == ["of B"] * 2


def test_node_that_was_away_catches_up(sim: Simulation) -> None:
    """It was killed, and others have retained, replaced and deleted since; it has what it had."""
    a, b = meshed(sim, 2)
    for topic in ("t", "gone", "stays"):
        retain(b, topic, "before")
    sim.run_for(1_000)
    sim.crash(b, 5_000)
    sim.run_for(1_000)
    retain(a, "t", "after")
    retain(a, "new", "after")
    retain(a, "gone", "")
    sim.run_for(6_000)
    assert sim.run_until(sim.is_meshed)
    sim.run_for(1_000)

    assert [found(b, topic) for topic in ("t", "new", "gone", "stays")] == ["after", "after", None, "before"]
    assert is_same(sim)


def test_what_was_retained_before_the_mesh_is_shared(sim: Simulation) -> None:
    """Brokers that had none join one: of two messages that nobody can compare all nodes take the same."""
    for node in sim.add_nodes(2, ties=[]):
        node.services.retained.watcher = None
        retain(node, "both", f"of {node.name}")
        retain(node, f"own.{node.name}", "x")
    sim.run_for(1_000)
    a, b = sim.nodes
    sim.crash(a, 1)
    sim.crash(b, 1)
    a.neighbours.append(b)
    assert sim.run_until(sim.is_meshed)
    sim.run_for(1_000)

    assert len(set(all_found(sim, "both"))) == 1
    assert all_found(sim, "own.A") == all_found(sim, "own.B") == ["x", "x"]
    assert is_same(sim)


def test_rejoining_costs_what_has_changed(sim: Simulation) -> None:
    """C35: of 100,000 topics one was replaced while a node was away. Those of other parts cost nothing."""
    a, b = meshed(sim, 2)
    topics = [topic for topic in map("site.{}".format, range(100_000)) if bucket_of(topic) == bucket_of("t")]
    assert 300 < len(topics) < 500
    for number, topic in enumerate(topics):
        for node in (a, b):
            node.mesh.retained.registers._put(topic, Register((number + 1, 1), True))
    retain(a, "t", "one")
    sim.run_for(2_000)
    assert is_same(sim)
    sim.partition(a, b, 3_000)
    sim.run_for(2_900)
    retain(a, "t", "two")
    before = [node.mesh.retained.told_bytes for node in sim.nodes]
    sim.run_for(5_000)

    assert found(b) == "two"
    assert is_same(sim)
    told = sum(node.mesh.retained.told_bytes for node in sim.nodes) - sum(before)
    assert told + 2 * 8 * BUCKETS < 65_536


def test_large_message_goes_in_pieces_and_holds_nothing_up(sim: Simulation) -> None:
    """Another is told behind it; a newer one that comes in between is told after it."""
    a, b = meshed(sim, 2)
    body = "x" * (20 * PIECE_BYTES)
    retain(a, "large", body)
    retain(a, "small", "y")
    sim.send(a, "q", "message")
    sim.consume(b, "q")
    sim.run_for(5_000)
    retain(a, "large", "new")
    sim.run_for(5_000)

    assert (found(b, "large"), found(b, "small")) == ("new", "y")
    assert is_same(sim)


def test_large_message_arrives_whole(sim: Simulation) -> None:
    """Its pieces are put together in order, also when it is replaced while it is being told."""
    a, b = meshed(sim, 2)
    sim.stalls = 0
    body = "".join(f"{number:07}" for number in range(50_000))
    retain(a, "t", "z" * 2_000_000)
    sim.run_for(3)
    retain(a, "t", body)
    sim.run_for(10_000)

    assert found(b) == body


def test_message_expires_at_each_node(sim: Simulation) -> None:
    """Nobody tells it, and nobody brings it back, although the clocks differ."""
    a, b = meshed(sim, 2)
    for node in sim.nodes:
        node.clock_offset_ms = 0
    a.clock_offset_ms = 1_000
    retain(a, "t", "short", expires_ms=a.clock() + 5_000)
    sim.run_for(1_000)
    assert all_found(sim) == ["short"] * 2
    sim.run_for(4_500)
    assert all_found(sim) == [None, "short"]
    sim.cut(a, b)
    sim.run_for(4_000)
    assert sim.run_until(sim.is_meshed)
    sim.run_for(1_000)

    assert all_found(sim) == [None, None]
    assert is_same(sim)


def test_message_that_expired_while_its_node_was_down_stays_away(sim: Simulation) -> None:
    """Its stamp is kept, so the node does not take it for one that it never had."""
    a, _ = meshed(sim, 2)
    retain(a, "t", "short", expires_ms=a.clock() + 5_000)
    sim.run_for(1_000)
    sim.crash(a, 10_000)
    sim.run_for(15_000)
    assert sim.run_until(sim.is_meshed)
    sim.run_for(1_000)

    assert all_found(sim) == [None, None]
    assert is_same(sim)


def test_deletion_travels_ahead_of_a_message_that_was_not_seen(sim: Simulation) -> None:
    """A client deletes at B what has not come to B yet."""
    a, b = meshed(sim, 2)
    sim.partition(a, b, 6_000)
    sim.run_for(100)
    retain(a, "t", "one")
    sim.run_for(5_000)
    retain(b, "t", "")
    assert sim.run_until(sim.is_meshed)
    sim.run_for(3_000)

    assert all_found(sim) == [None, None]


def test_chain_passes_messages_on(sim: Simulation) -> None:
    """With `max-hops` 2, and not with 1 or 0."""
    meshed(sim, 3, ties=[(0, 1), (1, 2)], max_hops=2)
    retain(sim.nodes[0], "t", "one")
    sim.run_for(2_000)
    assert all_found(sim) == ["one"] * 3


@pytest.mark.parametrize(("hops", "expected"), [(0, ["x", None]), (1, ["x", "x"])])
def test_mesh_without_hops_shares_nothing(sim: Simulation, hops: int, expected: list[str | None]) -> None:
    """As with everything else."""
    a, _ = meshed(sim, 2, max_hops=hops)
    retain(a, "t", "x")
    sim.run_for(1_000)

    assert all_found(sim) == expected


def test_topics_out_of_scope_and_those_of_the_broker_stay(sim: Simulation) -> None:
    """`address` of the cluster connection; `$SYS`; a topic of 4,097 characters."""
    a, b = meshed(sim, 2, scope=Scope(("site", "$SYS", "x")))
    topics = ["site.a", "other.a", "$SYS.a", "x" * (MAX_TOPIC_CHARS + 1)]
    for topic in topics:
        retain(a, topic, "x")
    sim.run_for(1_000)

    assert [found(b, topic) for topic in topics] == ["x", None, None, None]


def test_node_without_memory_for_it_says_so(sim: Simulation) -> None:
    """It keeps what it has, and is told again when it connects."""
    a, b = meshed(sim, 2)
    b.domain.account.max_bytes = 1
    retain(a, "t", "one")
    sim.run_for(1_000)
    assert all_found(sim) == ["one", None]
    assert [event.topic for event in b.events if isinstance(event, NotRetained)] == ["t"]
    b.domain.account.max_bytes = -1
    sim.cut(a, b)
    sim.run_for(4_000)
    assert sim.run_until(sim.is_meshed)
    sim.run_for(1_000)

    assert all_found(sim) == ["one", "one"]


def test_nobody_is_told_of_what_is_not_stored(sim: Simulation) -> None:
    """A node that dies may forget it; others that had heard would tell it to some and not to all."""
    a, b = meshed(sim, 2)
    a.disk_fails = True
    retain(a, "t", "lost")
    sim.run_for(2_000)

    assert found(b) is None


def test_topic_that_changes_without_a_pause_is_told(sim: Simulation) -> None:
    """Something of it is always not stored; others are told what is."""
    a, b = meshed(sim, 2)
    sim.stalls = 0
    for number in range(2_000):
        sim.at(sim.now + number / 10, partial(retain, a, "t", f"{number}"))
    sim.run_for(190)
    before = found(b)
    sim.run_for(2_000)

    assert before is not None
    assert 0 < int(before) < 1_900
    assert found(b) == "1999"
    assert is_same(sim)
    assert not a.mesh.retained._versions


def test_nodes_compare_again_while_they_are_connected(sim: Simulation) -> None:
    """Each minute: what a third node had told one of them, and never the other, comes then."""
    a, b = meshed(sim, 2)
    message = plain_message("t", MessageView(body="x"))
    a.run(a.generation, lambda: a.services.retained.keep(message))
    a.mesh.retained.registers.set("t", (5, 1), False, a.clock())
    sim.run_for(130_000)

    assert found(b) == "x"


# -- registers ---------------------------------------------------------------------------------------------------


def test_deletions_are_forgotten_after_a_week(sim: Simulation) -> None:
    """In memory and in the store, a few at a time."""
    (node,) = sim.add_nodes(1)
    registers = Registers(node.store, "node")
    for number in range(5):
        registers.set(f"t{number}", (1_000 + number, 1), True, 2_000)
    assert len(registers) == 5
    registers.set("new", (3_000 + GONE_MS, 1), False, 3_000 + GONE_MS)
    registers.set("new", (3_001 + GONE_MS, 1), False, 3_001 + GONE_MS)
    registers.set("new", (3_002 + GONE_MS, 1), False, 3_002 + GONE_MS)

    assert registers.topics() == ["new"]


def test_no_more_deletions_are_remembered_than_there_is_room_for(
    sim: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that ended first are forgotten."""
    monkeypatch.setattr("artemis_py.cluster.registers.MAX_GONE", 3)
    (node,) = sim.add_nodes(1)
    registers = Registers(node.store, "node")
    for number in range(5):
        registers.set(f"t{number}", (1_000 + number, 1), True, 2_000)
    sim.run_for(FOLDED_MS)
    again = Registers(node.store, "node")
    again.load()

    assert registers.topics() == again.topics() == ["t2", "t3", "t4"]
    assert registers.digests() == again.digests()


def test_damaged_record_is_forgotten(sim: Simulation) -> None:
    """The topic is told again by others."""
    (node,) = sim.add_nodes(1)
    node.store.save_record(REGISTERS, b"x" * 16, b"[1]")
    node.store.save_record(REGISTERS, b"y" * 16, b"{")
    sim.run_for(1_000)
    registers = Registers(node.store, "node")
    registers.load()

    assert len(registers) == 0


# -- a peer that is not as it should be --------------------------------------------------------------------------


def piece(topic: str, flags: int, octets: bytes = b"") -> RetainedPiece:
    """What a peer tells."""
    return RetainedPiece(topic, 5, 1, flags, octets)


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (RetainedDigest(b"short"), "digests"),
        (RetainedStamps(BUCKETS, 1, (), ()), "stamps"),
        (RetainedStamps(0, 1, ("t",), ()), "stamps"),
        (piece("t", 6, b"\x01short"), "malformed"),
        (piece("t", 6, encode_with_durability(plain_message("other", MessageView(body="x")))), "topic"),
    ],
)
def test_what_makes_no_sense_ends_the_connection(sim: Simulation, record: Record, reason: str) -> None:
    """With a reason."""
    HELLO["features"] = ["copies", "retained"]
    try:
        _, wire, _ = open_wire(sim, *UP, record)
    finally:
        del HELLO["features"]

    assert wire.closed is not None
    assert reason in wire.closed


def test_peer_of_an_earlier_version_is_told_nothing(sim: Simulation) -> None:
    """It does not know the records, and what it says of them does not count."""
    node, wire, _ = open_wire(sim, *UP, RetainedDigest(b"\x01" * 8 * BUCKETS), RetainedWanted(("t",)))
    retain(node, "t", "x")
    sim.run_for(500)

    assert not any(isinstance(each, RetainedDigest | RetainedPiece | RetainedStamps) for each in wire.records)


def test_peer_without_the_permission_is_told_nothing_and_changes_nothing(sim: Simulation) -> None:
    """The permission `mesh` on the topic."""
    HELLO["features"] = ["copies", "retained"]
    try:
        node, wire, peer = open_wire(sim, *UP)
    finally:
        del HELLO["features"]
    peer.may_share = lambda address: address != "secret"
    retain(node, "secret", "x")
    retain(node, "open", "x")
    sim.run_for(500)
    node.mesh.retained.take(peer, piece("secret", 7))
    node.mesh.retained.take(peer, piece("hidden", 7))

    assert [each.topic for each in wire.records if isinstance(each, RetainedPiece)] == ["open"]
    assert found(node, "secret") == "x"
    assert node.mesh.retained.registers.get("hidden") is not None
