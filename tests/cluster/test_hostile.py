"""A peer that wants to do harm: it is closed with a reason, and costs a bounded memory (row C50 of the checklist)."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from artemis_py.cluster.events import ChannelGap
from artemis_py.cluster.peer import PeerState
from artemis_py.cluster.record_codec import encode
from artemis_py.cluster.records import (
    Channel,
    Demand,
    Gone,
    Grant,
    Instance,
    Interest,
    Record,
    SharedInstance,
    SnapshotBegin,
    ToldMarks,
)
from tests.cluster.node import Node
from tests.cluster.simulation import Simulation
from tests.cluster.test_connections import HELLO, UP, Wire, open_wire
from tests.cluster.test_records import RECORDS

HUGE = (1 << 64) - 1
NAME = "x" * 1_000
LIMIT = 100_000


def again(sim: Simulation, node: Node, connection: int, *records: Record) -> Wire:
    """One more connection of the same peer, on which it says these records."""
    wire = Wire()
    _, peer = node.mesh.connect()
    wire.listener = peer
    peer.opened(wire, {**HELLO, "connection": connection})
    node.plan_turn()
    sim.run_for(10)
    for record in records:
        peer.control(encode([record]))
        node.plan_turn()
        sim.run_for(100)
    return wire


def floods() -> Iterator[tuple[str, Iterator[Record]]]:
    """Records without end, of each kind that a table is made of."""
    count = 1_000
    yield "queues", (Instance(id, f"{NAME}{id}", f"{NAME}{id}", 1, "") for id in range(count))
    yield "filters", (Instance(id, f"q{id}", f"q{id}", 1, f"a = '{NAME}'") for id in range(count))
    yield "shared", (SharedInstance(id, f"t{id}", f"{NAME}{id}", 0, "", 0, 1) for id in range(count))
    yield "interests", (Interest(id, "stranger", 1, f"{NAME}{id}", None, None) for id in range(count))
    yield "selectors", (Interest(id, "stranger", 1, f"t{id}", (f"a = '{NAME}'",), None) for id in range(count))
    demand = tuple([(f"a = '{NAME}{number}'", 1, 1) for number in range(200)])
    yield "demand", iter([Instance(1, "q", "q", 1, ""), Demand(1, demand)])


@pytest.mark.parametrize(("records"), [flood for _, flood in floods()], ids=[name for name, _ in floods()])
def test_peer_that_tells_without_end_is_closed(sim: Simulation, records: Iterator[Record]) -> None:
    """C50: by the octets that it has told, since a few million names may be as long as it likes."""
    node, wire, peer = open_wire(sim, *UP)
    peer.remotes.max_octets = LIMIT
    for record in records:
        peer.control(encode([record]))

    assert wire.closed == f"the peer tells more than {LIMIT} octets of queues and subscriptions"
    assert "stranger" not in node.mesh.peers


def test_what_is_told_no_more_makes_room(sim: Simulation) -> None:
    """C50: what counts is what a peer tells now, so an honest one that goes on for years is not closed."""
    _, wire, peer = open_wire(sim, *UP)
    peer.remotes.max_octets = LIMIT
    for id in range(500):
        peer.control(encode([Instance(id, f"{NAME}{id}", "q", 1, ""), Demand(id, (("", 1, 1),)), Gone(id)]))
        peer.control(encode([Interest(id, "stranger", 1, NAME, None, None), Gone(id)]))

    assert wire.closed is None


def test_connections_that_tell_other_subscriptions_each_time_are_closed(sim: Simulation) -> None:
    """C50: what a connection has told stays when it breaks, until another one has told everything."""
    node, wire, _ = open_wire(sim, *UP)
    node.mesh.elsewhere.max_told = 50
    closed: list[str | None] = []
    for connection in range(2, 8):
        wire.close("planned")
        first = connection * 10
        told = [Interest(id, "stranger", 1, f"t{id}", None, ()) for id in range(first, first + 10)]
        wire = again(sim, node, connection, ToldMarks(()), Channel(9, 1), SnapshotBegin(), *told)
        closed.append(wire.closed)

    assert closed == [None] * 5 + ["the peer has told of more than 50 addresses with subscriptions"]
    assert len(node.mesh.elsewhere._by_peer["stranger"]) == 50


@pytest.mark.parametrize("mark", [1, HUGE])
def test_mark_beyond_what_was_sent_is_reported_and_ends_the_channel(sim: Simulation, mark: int) -> None:
    """C50 and R9: one of the two stores is older than it was. Messages that were not on their way are not lost."""
    node, wire, _ = open_wire(sim, *UP)
    before = next(each for each in wire.records if isinstance(each, Channel))
    sim.send(node, "q", "m")
    sim.run_for(500)
    wire.close("planned")
    wire = again(sim, node, 2, ToldMarks(((before.id, mark),)), *UP[1:])

    assert wire.closed is None
    after = next(each for each in wire.records if isinstance(each, Channel))
    assert after.id != before.id
    (gap,) = [event for event in node.events if isinstance(event, ChannelGap)]
    assert gap.detail == f"message {mark} of channel {before.id:x} was never sent: this broker's store is older"
    assert node.queue("q").waiting_count == 1


def test_grant_of_everything_is_no_more_than_a_grant(sim: Simulation) -> None:
    """C50: totals of 2^64 - 1, for queues that exist and for others, and one that is taken back."""
    node, wire, peer = open_wire(sim, *UP, Instance(1, "q", "q", 1, ""), Demand(1, (("", 1, 255),)))
    for id in (1, 2, HUGE):
        for total in (HUGE, 0, HUGE):
            peer.control(encode([Grant(id, total)]))
    sim.send(node, "q", "m")
    sim.run_for(500)

    assert wire.closed is None
    assert wire.sent == [1]


@given(st.lists(st.lists(RECORDS, min_size=1, max_size=4), max_size=8), st.booleans())
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_records_in_any_order_leave_the_broker_as_it_was(batches: list[list[Record]], comes_up: bool) -> None:
    """C50: whatever comes, the peer is closed with a reason or goes on, and clients here notice nothing."""
    with tempfile.TemporaryDirectory(prefix="artemis-mesh-") as folder:
        sim = Simulation(1, Path(folder))
        node, wire, peer = open_wire(sim, *(UP if comes_up else ()))
        for batch in batches:
            peer.control(encode(batch))
            node.plan_turn()
            sim.run_for(50)
        sim.run_for(1_000)
        if wire.closed is not None:
            assert wire.closed
            assert peer.state is PeerState.CLOSED
            assert peer not in node.mesh.peers.values()
        assert peer.remotes.count <= sum(map(len, batches))
        consumer = sim.consume(node, "own", 10)
        sim.send(node, "own", "m")
        sim.run_for(5_000)
        assert consumer.bodies == ["m"]
        assert sim.ledger.violations == []
        sim.close()
