"""How often a queue is looked at for the mesh, while messages come and go that concern one node only."""

from collections import deque
from functools import partial

import pytest

from artemis_py.cluster.local_queue import LocalQueue
from artemis_py.cluster.nodes import KnownNodes
from artemis_py.core.messages.builtin_format import PLAIN_FORMAT
from artemis_py.core.messages.message import Message
from artemis_py.core.queues.consumer import ACCEPTED
from artemis_py.core.settings.cluster_config import LoadBalancing
from tests.cluster.node import Node
from tests.cluster.simulation import Simulation
from tests.cluster.test_departures import begin
from tests.cluster.test_handover import meshed
from tests.core_harness import Recorder

TURNS = 50


class Looks(deque[LocalQueue]):
    """Queues that changed, and how many there ever were."""

    looks = 0

    def append(self, local: LocalQueue, /) -> None:
        self.looks += 1
        super().append(local)


def looks_while_local_messages_pass(node: Node) -> int:
    """How often the queue is looked at in so many iterations in one millisecond, with a message in each."""
    session, inbox = node.session, Recorder()
    consumer = session.consume(node.domain.queues["q"], inbox, None)
    consumer.grant(1)
    node.domain.dispatcher.run()
    node.domain.dispatcher.run()
    looks = node.mesh.dirty = Looks()
    for _ in range(TURNS):
        node.domain.route(Message(PLAIN_FORMAT, "q", b"local"), node.domain.addresses["q"])
        consumer.grant(1)
        node.domain.dispatcher.run()
        consumer.settle(inbox.take()[0], ACCEPTED)
        node.domain.dispatcher.run()

    assert not node.domain.queues["q"].message_count
    return looks.looks


def test_local_messages_do_not_have_their_queue_looked_at(sim: Simulation) -> None:
    """A look costs more than a message: with a peer that wants nothing there is one in 20 ms."""
    a, b = meshed(sim, 2)
    for node in (a, b):
        sim.at(sim.now, partial(node.run, node.generation, partial(node.queue, "q")))
    sim.run_for(1_000)

    assert looks_while_local_messages_pass(a) <= 1


def test_takers_that_want_other_messages_cost_nothing(sim: Simulation) -> None:
    """Their number does not matter either: nothing waits, and they have their grants."""
    a, *others = meshed(sim, 4)
    sim.at(sim.now, partial(a.run, a.generation, partial(a.queue, "q")))
    for node in others:
        sim.consume(node, "q", 10, selector="color = 'red'")
    sim.run_for(1_000)

    assert looks_while_local_messages_pass(a) <= 1


def test_what_rests_is_looked_at_when_a_peer_wants_it(sim: Simulation) -> None:
    """It was local messages that had it rest, and the demand of a peer ends that."""
    a, b = meshed(sim, 2)
    sim.at(sim.now, partial(a.run, a.generation, partial(a.queue, "q")))
    sim.run_for(1_000)
    looks_while_local_messages_pass(a)
    a.session.close_consumer(a.domain.queues["q"].consumers[0])
    consumer = sim.consume(b, "q", 1)
    sim.run_for(1_000)
    sim.send(a, "q", "for b")

    assert sim.run_until(lambda: consumer.bodies == ["for b"])


def test_strict_looks_for_nodes_when_they_change_only(sim: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not for each message; a node that leaves the mesh gets no turn at once."""
    asked: list[str] = []
    having = KnownNodes.having

    def count(nodes: KnownNodes, address: str, queue: str, format: str) -> list[str]:
        asked.append(queue)
        return having(nodes, address, queue, format)

    monkeypatch.setattr(KnownNodes, "having", count)
    a, b, c = meshed(sim, 3, load_balancing=LoadBalancing.STRICT)
    for node in (a, b, c):
        sim.at(sim.now, partial(node.run, node.generation, partial(node.queue, "q")))
    sim.run_for(1_000)
    asked.clear()
    for number in range(30):
        sim.send(a, "q", f"m{number}")
    sim.run_for(1_000)
    assert [len(asked), b.domain.queues["q"].message_count, c.domain.queues["q"].message_count] == [1, 10, 10]

    begin(b)
    sim.run_for(1_000)
    asked.clear()
    for number in range(30):
        sim.send(a, "q", f"n{number}")
    sim.run_for(1_000)
    assert [len(asked), b.domain.queues["q"].message_count] == [1, 0]
