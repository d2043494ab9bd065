"""The validated user of a message at the other brokers of a mesh: it is part of the message."""

from functools import partial

from attrs import evolve

from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.names.routing_type import RoutingType
from tests.cluster.node import Node
from tests.cluster.simulation import Simulation
from tests.cluster.test_handover import meshed
from tests.cluster.topics import Topics

BY_TESTER = "_AMQ_VALIDATED_USER = 'tester' AND JMSXUserID = 'tester'"


def name_users(node: Node) -> None:
    """Turn `populate-validated-user` on at one broker."""
    node.domain.set_options(evolve(node.domain.options, populate_validated_user=True))
    node.session.options_changed()


def send(node: Node, queue: str, body: str) -> None:
    """Send a message as a client does."""
    node.simulation.ledger.sent(body, True, node.name)
    message = plain_message(queue, MessageView(body=body), durable=True)
    node.session.producer(queue, RoutingType.ANYCAST).send(message)
    node.store.when_durable(partial(node.simulation.ledger.acknowledged, body))


def test_a_message_that_moves_keeps_its_user(sim: Simulation) -> None:
    """Also on its way through a third broker; where it was sent decides."""
    a, b, c = meshed(sim, 3, ties=[(0, 1), (1, 2)], max_hops=2)
    name_users(a)
    near, far = sim.consume(b, "near", selector=BY_TESTER), sim.consume(c, "far", selector=BY_TESTER)
    sim.run_for(2_000)
    for number in range(5):
        for queue in ("near", "far"):
            a.run(a.generation, partial(send, a, queue, f"{queue}{number}"))

    assert sim.run_until(lambda: len(near.bodies) + len(far.bodies) == 10)


def test_copies_for_subscriptions_keep_their_user(sim: Simulation) -> None:
    a, b = meshed(sim, 2)
    name_users(a)
    topics = Topics(sim)
    found = topics.subscribe(b, "news", selector=BY_TESTER)
    sim.run_for(2_000)
    bodies = [topics.publish(a, "news") for _ in range(5)]
    sim.run_for(3_000)

    assert found.bodies == bodies
