"""When messages are due, expire and die, wherever they are: rows C39 and C40 of the checklist."""

from functools import partial

import pytest

from artemis_py.core.messages.message import Message
from artemis_py.core.queues.consumer import REJECTED
from artemis_py.core.queues.queue import Queue
from artemis_py.core.settings.address_settings import AddressSettings
from artemis_py.core.settings.cluster_config import LoadBalancing
from tests.cluster.clients import SimConsumer
from tests.cluster.node import Node
from tests.cluster.simulation import Simulation
from tests.cluster.test_handover import has_one, is_done, meshed

TTL_MS = 5_000
EXPIRING = AddressSettings(expiry_address="EXPIRED")


def prepared(sim: Simulation, count: int, aside: str, **options: object) -> list[Node]:
    """Nodes that are connected, with clocks that agree, since expiry is absolute, and a queue for what is set aside."""
    nodes = meshed(sim, count, **options)
    for node in nodes:
        node.clock_offset_ms = 0
        node.run(node.generation, partial(node.queue, aside))
    sim.run_for(1_000)
    return nodes


def expire_all(nodes: list[Node]) -> None:
    """What the reaper does every thirty seconds, in memory and on disk."""
    for node in nodes:
        for queue in list(node.domain.queues.values()):
            node.run(node.generation, partial(expire, queue))


def expire(queue: Queue) -> None:
    """Expire what is due in a queue."""
    queue.expiry.expire_due()
    while not queue.expiry.sweep(1_000):
        pass


def one_expired(sim: Simulation, nodes: list[Node], at: Node) -> Message:
    """See that one message expired, once and at one node, and that a consumer elsewhere gets it; return it."""
    expire_all(nodes)
    assert {node.name: node.queue("q").messages_expired for node in nodes} == {
        node.name: int(node is at) for node in nodes
    }
    last = sim.consume(next(node for node in nodes if node is not at), "EXPIRED", 10, settle_ms=3_600_000)
    assert sim.run_until(partial(has_one, last), 120_000)
    sim.run_for(10_000)
    (message,) = last.unsettled()
    assert message.extra is not None
    assert message.extra["_AMQ_ORIG_QUEUE"] == "q"
    assert message.extra["_AMQ_ORIG_NODE"] == at.name
    assert not sim.in_flight()
    return message


def test_scheduled_message_arrives_when_it_is_due(sim: Simulation) -> None:
    """C39: after two seconds and no later than a round trip and 250 ms after that, at the consumer elsewhere."""
    sim.stalls = 0.0
    sim.has_slow_disks = False
    a, b = meshed(sim, 2)
    consumer = sim.consume(b, "q", 10)
    sim.run_for(1_000)
    sent_ms = sim.now
    sim.send(a, "q", "m", delay_ms=2_000)
    sim.run_for(1_999)
    assert consumer.bodies == []
    assert sim.transfers == 0

    sim.run_for(2 * sim.slowest_ms + 251)
    assert consumer.bodies == ["m"]
    assert sim.now <= sent_ms + 2_000 + 2 * sim.slowest_ms + 250


def test_message_expires_once_where_it_waits(sim: Simulation) -> None:
    """C39: at its origin, because the consumer elsewhere has no room."""
    nodes = a, b, _ = prepared(sim, 3, "EXPIRED", settings=EXPIRING)
    sim.consume(b, "q", 0)
    sim.run_for(1_000)
    sim.send(a, "q", "m", ttl_ms=TTL_MS)
    sim.run_for(TTL_MS + 1_000)

    one_expired(sim, nodes, a)


def test_message_expires_once_where_it_was_taken(sim: Simulation) -> None:
    """C39: at the other node, whose consumer left before it had settled it."""
    nodes = a, b, _ = prepared(sim, 3, "EXPIRED", settings=EXPIRING)
    consumer = sim.consume(b, "q", 1, settle_ms=3_600_000)
    sim.run_for(1_000)
    sim.send(a, "q", "m", ttl_ms=TTL_MS)
    assert sim.run_until(lambda: has_one(consumer) and not sim.in_flight(), TTL_MS)
    sim.close_consumer(consumer)
    sim.run_for(TTL_MS + 1_000)

    one_expired(sim, nodes, b)


@pytest.mark.parametrize("arrives", [False, True])
def test_claim_expires_once_at_the_node_that_has_it(sim: Simulation, arrives: bool) -> None:
    """C39: its node cannot know whether the other one has it until they are connected again, long after the time."""
    sim.stalls = 0.0
    sim.has_slow_disks = False
    nodes = a, b, _ = prepared(sim, 3, "EXPIRED", settings=EXPIRING)
    consumer = sim.consume(b, "q", 1, settle_ms=3_600_000)
    sim.run_for(1_000)
    sim.send(a, "q", "m", ttl_ms=TTL_MS)
    # The other node either has it, and its confirmation gets lost, or dies before it has.
    while not (b.mesh.taken if arrives else a.mesh.channels.claimed_for(b.mesh.node_id)):
        sim.run_for(1)
    sim.partition(a, b, 20_000)
    if arrives:
        a.run(a.generation, lambda: a.mesh.peers[b.mesh.node_id].close("planned"))
    else:
        sim.crash(b, 10)
    sim.run_for(1_000)
    sim.close_consumer(consumer)
    sim.run_for(TTL_MS + 1_000)
    expire_all(nodes)
    assert a.mesh.channels.claimed_for(b.mesh.node_id) == 1
    assert a.queue("q").messages_expired == 0
    assert sim.run_until(sim.is_meshed, 120_000)
    sim.run_for(5_000)

    one_expired(sim, nodes, b if arrives else a)


@pytest.mark.parametrize("restarts", [False, True])
def test_share_that_expires_while_its_node_is_away_goes_to_the_expiry_address(sim: Simulation, restarts: bool) -> None:
    """C39 with STRICT: it is the message itself that waits for the node, and no copy."""
    nodes = a, b, _ = prepared(sim, 3, "EXPIRED", settings=EXPIRING, load_balancing=LoadBalancing.STRICT)
    for node in (a, b):
        node.run(node.generation, partial(node.queue, "q"))
    sim.run_for(1_000)
    sim.crash(b, 60_000)
    sim.run_for(1_000)
    for number in range(2):
        sim.send(a, "q", f"m{number}", ttl_ms=TTL_MS)
    sim.run_for(1_000)
    assert a.queue("q").waiting_count == 1
    if restarts:
        sim.crash(a, 10)
        sim.run_for(1_000)
    sim.run_for(TTL_MS)
    # The reaper takes what waits for the other node first, or this queue.
    expire_all([a])
    expire_all([a])

    assert a.queue("q").messages_expired == 2
    assert not sim.in_flight()
    sim.run_for(60_000)
    assert sim.run_until(sim.is_meshed, 120_000)
    readers = [sim.consume(node, "EXPIRED", 10) for node in nodes]
    assert sim.run_until(lambda: sum(len(each.bodies) for each in readers) == 2)
    assert sorted(body for each in readers for body in each.bodies) == ["m0", "m1"]


def test_tenth_rejection_is_the_last_wherever_they_were(sim: Simulation) -> None:
    """C40: five attempts at one broker and five at the next; a client of a third one gets the dead letter."""
    settings = AddressSettings(max_delivery_attempts=10, dead_letter_address="DLQ")
    nodes = a, b, c = prepared(sim, 3, "DLQ", settings=settings)
    sim.send(a, "q", "m")
    for node in (a, b):
        failing = sim.consume(node, "q", 1, settle_ms=3_600_000)
        assert sim.run_until(partial(has_one, failing))
        for count in range(5):
            assert len(failing.bodies) == count + 1
            node.run(node.generation, failing.fail)
            sim.run_for(200)
        sim.close_consumer(failing)
        sim.run_for(1_000)
    assert [node.queue("q").messages_killed for node in nodes] == [0, 1, 0]
    reader = sim.consume(c, "DLQ", 10, settle_ms=3_600_000)
    assert sim.run_until(partial(has_one, reader))
    sim.run_for(5_000)

    notes = notes_of(reader)
    assert notes.pop("_AMQ_ORIG_MESSAGE_ID")
    assert notes.pop("_AMQ_DEATH_TIME")
    assert notes == {
        "_AMQ_ORIG_ADDRESS": "q",
        "_AMQ_ORIG_QUEUE": "q",
        "_AMQ_ORIG_NODE": "B",
        "_AMQ_DEATH_ATTEMPTS": 10,
        "_AMQ_DEATH_CAUSE": "10 attempts to deliver it failed",
    }
    assert reader.bodies == ["m"]


def notes_of(consumer: SimConsumer) -> dict[str, object]:
    """What the broker has noted on the one message that a consumer got."""
    (message,) = consumer.unsettled()
    return {name: value for name, value in (message.extra or {}).items() if name.startswith("_AMQ_")}


def test_dead_letters_of_all_brokers_go_to_one_consumer(sim: Simulation) -> None:
    """C40: each broker has a queue of them, and a client anywhere drains all."""
    settings = AddressSettings(max_delivery_attempts=1, dead_letter_address="DLQ")
    nodes = prepared(sim, 3, "DLQ", settings=settings)
    for node in nodes:
        failing = sim.consume(node, f"q.{node.name}", 1, settle_ms=3_600_000)
        sim.send(node, f"q.{node.name}", node.name)
        assert sim.run_until(partial(has_one, failing))
        node.run(node.generation, partial(reject, failing))
        sim.run_for(500)
        assert node.queue("DLQ").message_count == 1
    reader = sim.consume(nodes[2], "DLQ", 10)

    assert sim.run_until(lambda: len(reader.bodies) == 3)
    assert sorted(reader.bodies) == ["A", "B", "C"]
    assert sim.run_until(lambda: is_done(sim))


def reject(consumer: SimConsumer) -> None:
    """Refuse what a consumer has for good."""
    for body, reference in consumer._unsettled.items():
        consumer.node.simulation.ledger.released(body)
        consumer.consumer.settle(reference, REJECTED)
    consumer._unsettled.clear()
