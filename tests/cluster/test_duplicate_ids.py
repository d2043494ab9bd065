"""Duplicate ids across brokers: what was taken over counts as sent here, and no message is lost for its id (C42)."""

from functools import partial

import pytest

from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.routing.duplicates import TRAVELLING_ID
from artemis_py.core.runtime.events import Duplicate
from tests.cluster.node import Node
from tests.cluster.simulation import Simulation
from tests.cluster.test_handover import meshed
from tests.cluster.topics import Topics

ID = b"tid-1"


def send(node: Node, body: str, id: bytes = ID, durable: bool = True) -> int:
    """A message with a duplicate id, for queue `q`."""
    node.stamp()
    ledger = node.simulation.ledger
    ledger.sent(body, durable, node.name)
    message = plain_message("q", MessageView(body=body))
    message.durable = durable
    node.queue("q")
    count = node.session.producer("q").send(message, None, id)
    if count:
        node.store.when_durable(partial(ledger.acknowledged, body))
    node.plan_turn()
    return count


def knows(node: Node, id: bytes = ID) -> bool:
    """Whether a node would refuse the id."""
    address = node.domain.addresses.get("q")
    return address is not None and id in node.domain.duplicates.of(address)


@pytest.mark.parametrize("durable", [True, False])
def test_id_of_a_message_that_was_taken_over_is_known(sim: Simulation, durable: bool) -> None:
    """A producer that connects to the other node and repeats itself is recognised; a durable id survives a crash."""
    a, b = meshed(sim, 2)
    consumer = sim.consume(b, "q")
    assert send(a, "first", durable=durable) == 1
    assert sim.run_until(lambda: consumer.bodies == ["first"])
    sim.run_for(2_000)
    assert send(b, "again") == 0
    sim.crash(b, 100)
    sim.run_for(3_000)

    assert knows(b) == durable
    assert knows(a)


def test_id_is_not_known_before_its_message_is_stored(sim: Simulation) -> None:
    """Both are one commit: a crash in between leaves neither, and the message comes again."""
    a, b = meshed(sim, 2)
    sim.consume(b, "q", 1, settle_ms=60_000)
    sim.run_for(1_000)
    assert send(a, "first") == 1
    while not knows(b):
        sim.run_for(0.05)
    sim.crash(b, 1)
    sim.run_for(2)
    was_known = knows(b)
    late = sim.consume(b, "q")

    assert not was_known
    assert sim.run_until(lambda: late.bodies == ["first"])
    assert knows(b)


def test_second_message_of_an_id_is_discarded_where_the_first_one_is(sim: Simulation) -> None:
    """Sent at two nodes while neither knew of the other's: one of them moves, and the other stays."""
    a, b = meshed(sim, 2)
    send(a, "one")
    send(b, "two")
    sim.run_for(1_000)
    consumer = sim.consume(b, "q")
    sim.run_for(3_000)

    assert consumer.bodies == ["two"]
    assert b.mesh.duplicate_ids.discarded == 1
    assert [event.address for event in b.events if isinstance(event, Duplicate)] == ["q"]
    assert a.queue("q").message_count == 0
    assert not sim.in_flight()
    sim.ledger.entries.pop("one")


def test_messages_that_cross_are_both_kept(sim: Simulation) -> None:
    """Each node has handed over its own when the other one comes: to discard it there would lose both."""
    a, b = meshed(sim, 2)
    consumers = [sim.consume(node, "q", 0) for node in (a, b)]
    sim.run_for(1_000)
    a.mesh.duplicate_ids._left.add(f"{ID.hex()} q")
    b.mesh.duplicate_ids._left.add(f"{ID.hex()} q")
    send(a, "one")
    send(b, "two")
    sim.run_for(1_000)
    consumers[1].consumer.grant(5)
    b.plan_turn()
    sim.run_for(3_000)

    assert sorted(consumers[1].bodies) == ["one", "two"]


def test_message_that_comes_back_is_not_its_own_duplicate(sim: Simulation) -> None:
    """From A to B, whose consumer leaves, and back to A: A knows the id, because the message was sent there."""
    a, b = meshed(sim, 2)
    first = sim.consume(b, "q", 1, settle_ms=60_000)
    send(a, "one")
    assert sim.run_until(lambda: first.bodies == ["one"])
    sim.run_for(1_000)
    sim.close_consumer(first)
    second = sim.consume(a, "q", 1)

    assert sim.run_until(lambda: second.bodies == ["one"])
    assert a.mesh.duplicate_ids.discarded == 0


def test_id_from_before_a_restart_discards_nothing(sim: Simulation) -> None:
    """Whether its message is still at the node, nobody knows."""
    a, b = meshed(sim, 2)
    send(a, "one")
    send(b, "two")
    sim.run_for(1_000)
    sim.crash(b, 100)
    sim.run_for(3_000)
    consumer = sim.consume(b, "q")

    assert sim.run_until(lambda: sorted(consumer.bodies) == ["one", "two"])


def test_subscriptions_have_the_same_id_by_right(sim: Simulation) -> None:
    """Two groups of a topic: each gets the message, by way of one node."""
    a, b = meshed(sim, 2)
    topics = Topics(sim)
    found = [topics.subscribe(b, "news", f"group{number}", shared=True) for number in range(2)]
    sim.run_for(2_000)
    message = plain_message("news", MessageView(body="A:1"))
    message.durable = True
    a.session.producer("news").send(message, None, ID)
    a.plan_turn()
    sim.run_for(3_000)

    assert [each.bodies for each in found] == [["A:1"]] * 2
    assert ID in b.domain.duplicates.of(b.domain.addresses["news"])


def test_copy_for_subscriptions_is_remembered(sim: Simulation) -> None:
    """A publisher that repeats itself at the node of a subscriber does not double the message there."""
    a, b = meshed(sim, 2)
    topics = Topics(sim)
    subscriber = topics.subscribe(b, "news")
    sim.run_for(2_000)
    for node in (a, b):
        message = plain_message("news", MessageView(body=f"{node.name}:1"))
        node.session.producer("news").send(message, None, ID)
        node.plan_turn()
        sim.run_for(2_000)

    assert subscriber.bodies == ["A:1"]


def test_dead_letter_s_id_is_that_of_another_address(sim: Simulation) -> None:
    """What was moved from its address is no duplicate of anything, and neither is what makes no sense."""
    a, _ = meshed(sim, 2)
    a.queue("q")
    message = plain_message("q", MessageView(body="x"))
    for text in (f"{ID.hex()} orders", "zz q", 5, ""):
        message.set_extra(TRAVELLING_ID, text)
        a.mesh.duplicate_ids.remember(message)

    assert len(a.domain.duplicates.of(a.domain.addresses["q"])) == 0
