"""Subscriptions that clients of three nodes share, while the nodes of their members die in turn: row C32."""

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.cluster.moves import Moves
from tests.cluster.node import Node
from tests.cluster.test_handover import meshed
from tests.cluster.topics import SimSubscriber, Topics

GROUPS = ["group.1", "group.2"]


@pytest.fixture
def moves(folder: Path) -> Iterator[Moves]:
    """A simulation that counts moves, and whose promises must hold at the end."""
    simulation = Moves(1, folder)
    yield simulation
    simulation.close()
    assert simulation.ledger.violations == []


def join(topics: Topics, node: Node) -> list[SimSubscriber]:
    """A member of each group at a node."""
    return [topics.subscribe(node, "news", name, shared=True, settle_ms=20) for name in GROUPS]


def publish_everywhere(topics: Topics, nodes: list[Node], count: int, every_ms: int) -> None:
    """So many messages at each node that lives then."""
    sim = topics.simulation
    for number in range(count):
        for node in nodes:
            sim.at(sim.now + number * every_ms, partial(topics.publish, node, "news"))


def test_each_name_gets_one_instance_of_a_message_that_moves_once(moves: Moves) -> None:
    """C32: whatever the number of members and nodes; none of it is a copy for a node."""
    moves.stalls = 0.0
    topics = Topics(moves)
    nodes = meshed(moves, 3)
    members = [each for node in nodes for each in (*join(topics, node), *join(topics, node))]
    moves.on_arrival = moves.note
    moves.run_for(2_000)
    publish_everywhere(topics, nodes, 30, 20)
    moves.run_for(10_000)

    for name in GROUPS:
        got = Counter(body for each in members if each.subscription.name == name for body in each.bodies)
        assert len(got) == 90
        assert set(got.values()) == {1}
        # Each instance is consumed where it is, or one hand-over further.
        assert all(len(moves.times[name, body]) <= 1 for body in got)
    assert moves.copies == 0


def test_members_die_in_turn_and_leave_nothing(moves: Moves) -> None:
    """C32: each node dies twice while all publish, and its members come back or not; every name gets everything."""
    topics = Topics(moves)
    nodes = meshed(moves, 3)
    for node in nodes:
        join(topics, node)
    moves.run_for(2_000)
    publish_everywhere(topics, nodes, 120, 100)
    for turn in range(6):
        moves.run_for(1_000)
        victim = nodes[turn % 3]
        moves.crash(victim, 500, lands=turn % 2 == 0)
        assert moves.run_until(lambda: victim.is_running, 5_000)  # noqa: B023
        if turn != 4:
            join(topics, victim)
    assert moves.run_until(moves.is_meshed, 120_000)
    moves.run_for(10_000)

    assert moves.run_until(lambda: not moves.ledger.missing() and not moves.in_flight(), 120_000)
    for name in GROUPS:
        assert [node.domain.queues[name].message_count for node in nodes] == [0, 0, 0]
    assert sum(entry.is_confirmed for entry in moves.ledger.entries.values()) > 500
    assert moves.table_faults() == []
