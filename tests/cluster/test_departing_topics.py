"""What members that leave do with subscriptions, and with copies for subscriptions (C55, C56)."""

from functools import partial

import pytest

from artemis_py.cluster.drain import Parting
from artemis_py.cluster.remains import rest_of
from tests.cluster.node import Node
from tests.cluster.simulation import Simulation
from tests.cluster.test_copies import publish_all, waiting
from tests.cluster.test_departures import begin, count, parting
from tests.cluster.test_handover import meshed, send_all
from tests.cluster.topics import Topics


@pytest.fixture
def topics(sim: Simulation) -> Topics:
    """Subscribers of the simulation."""
    return Topics(sim)


def forget(node: Node, other: Node) -> None:
    """The command."""
    node.run(node.generation, partial(node.mesh.departures.forget, other.mesh.node_id))


def test_a_drain_moves_what_waits_in_a_shared_subscription(sim: Simulation, topics: Topics) -> None:
    """Its only root is the drained node; afterwards the others have the subscription."""
    a, b, c = meshed(sim, 3)
    member = topics.subscribe(a, "news", "group", shared=True, credit=0)
    sim.run_for(2_000)
    bodies = publish_all(topics, a, "news", 40)
    sim.run_for(1_000)
    sim.close_consumer(member)
    assert count(a, "group") == 40
    begin(a)

    assert sim.run_until(lambda: parting(a) is Parting.LEFT)
    assert sim.run_until(lambda: b.mesh.members.get(a.mesh.node_id) is None)
    assert sorted((count(b, "group"), count(c, "group"))) == [0, 40]
    again = topics.subscribe(b, "news", "group", shared=True, credit=100)
    assert sim.run_until(lambda: len(again.bodies) == 40)
    assert again.bodies == bodies


def test_a_node_that_is_being_drained_still_gets_copies(sim: Simulation, topics: Topics) -> None:
    """Its subscriptions are its own until they are ended; what they keep is named, and nothing waits elsewhere."""
    a, b = meshed(sim, 2)
    member = topics.subscribe(a, "news", "kept", credit=0)
    sim.run_for(2_000)
    publish_all(topics, b, "news", 1)
    sim.run_for(1_000)
    begin(a)
    sim.run_for(2_000)
    publish_all(topics, b, "news", 3)
    sim.run_for(2_000)

    assert (count(a, "kept"), waiting(b)) == (4, 0)
    assert parting(a) is Parting.EMPTY
    (rest,) = rest_of(a.mesh)[1]
    assert (rest.queue, rest.reason) == ("kept", "a subscription stays at its broker")
    topics.end(topics.subscriptions["kept"])
    a.run(a.generation, member.unsubscribe)
    assert sim.run_until(lambda: parting(a) is Parting.LEFT)


def test_copies_for_a_forgotten_node_are_discarded(sim: Simulation, topics: Topics) -> None:
    """Its subscriptions are gone with it, and nothing is stranded."""
    a, b, c = meshed(sim, 3)
    topics.subscribe(b, "news", "kept")
    other = topics.subscribe(c, "news")
    sim.run_for(2_000)
    sim.crash(b, 10_000_000)
    sim.run_for(5_000)
    bodies = publish_all(topics, a, "news", 5)
    send_all(sim, a, "q", 2)
    sim.run_for(2_000)
    assert waiting(a) == 5
    topics.end(topics.subscriptions["kept"])
    forget(a, b)
    sim.run_for(2_000)
    bodies += publish_all(topics, a, "news", 5)
    sim.run_for(2_000)

    assert waiting(a) == 0
    assert a.mesh.elsewhere.ways_to([b.mesh.node_id]) == {}
    assert other.bodies == bodies
    assert count(a, "q") == 2


def test_copies_for_nodes_behind_a_forgotten_one_go_another_way(sim: Simulation, topics: Topics) -> None:
    """In a ring the other way round; they were waiting for the node in between."""
    a, b, c, d = meshed(sim, 4, ties=[(0, 1), (1, 2), (2, 3), (3, 0)], max_hops=3)
    member = topics.subscribe(c, "news", "kept")
    sim.run_for(3_000)
    via = next(iter(a.mesh.elsewhere.ways_to([c.mesh.node_id])))
    middle = b if via == b.mesh.node_id else d
    # The subscription is durable, so what the node in between has told counts while it is away.
    sim.crash(middle, 10_000_000)
    sim.run_for(1)
    bodies = publish_all(topics, a, "news", 5)
    sim.run_for(500)
    before = waiting(a)
    sim.run_for(5_000)
    forget(a, middle)
    sim.run_for(10_000)

    assert before == 5
    assert waiting(a) == 0
    assert member.bodies == bodies
