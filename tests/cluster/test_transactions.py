"""Transactions whose messages go to consumers of three nodes, which die at every commit: row C41 of the checklist."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.names.routing_type import RoutingType
from tests.cluster.node import Node
from tests.cluster.simulation import Simulation
from tests.cluster.test_handover import meshed
from tests.cluster.topics import SimSubscriber, Topics

QUEUES = ["qa", "qb", "qc"]
"""Their consumers are at A, B and C."""
SUBSCRIPTIONS = ["kept.b", "kept.c"]
"""Durable subscriptions of the topic `news` at B and C."""
COUNT = 2
"""Transactions, one after the other."""


class Transactions:
    """Two transactions at A, and what comes of them when a node dies at one of its commits."""

    def __init__(self, folder: Path, victim: int = 0, at_commit: int = 0, lands: bool = False) -> None:
        self.sim = Simulation(1, folder)
        self.sim.stalls = 0.0
        self.sim.has_slow_disks = False
        self.topics = Topics(self.sim)
        self.nodes = meshed(self.sim, 3)
        self.confirmed: set[int] = set()
        self.commits = [0, 0, 0]
        """Commits of each node since the transactions began."""
        self._lands = lands
        self._kill = (victim, at_commit)
        for node, queue in zip(self.nodes, QUEUES, strict=True):
            self.sim.consume(node, queue, 100)
        for node, name in zip(self.nodes[1:], SUBSCRIPTIONS, strict=True):
            self.topics.subscribe(node, "news", name)
        self.sim.run_for(2_000)

    def run(self) -> list[str]:
        """Play it; return what is wrong."""
        sim, (a, *_) = self.sim, self.nodes
        for index, node in enumerate(self.nodes):
            node.submit = partial(self._submit, index, node.submit)  # type: ignore[method-assign]
        for number in range(COUNT):
            a.run(a.generation, partial(self._commit, a, number))
            sim.run_for(40)
        sim.run_for(5_000)
        if not sim.run_until(sim.is_meshed, 120_000):
            return ["the mesh did not form again"]
        for node, queue in zip(self.nodes, QUEUES, strict=True):
            sim.consume(node, queue, 100)
        for node, name in zip(self.nodes[1:], SUBSCRIPTIONS, strict=True):
            if not any(each.is_alive for each in self._members(name)):
                self.topics.subscribe(node, "news", name)
        sim.run_for(5_000)
        sim.close()
        return self._faults()

    def _submit(self, index: int, submit: Callable[..., None], *arguments: object) -> None:
        """Begin a commit, and die before it is over if this is the one."""
        self.commits[index] += 1
        if self._kill == (index, self.commits[index]):
            self.sim.at(self.sim.now, partial(self.sim.crash, self.nodes[index], 300, self._lands))
        submit(*arguments)

    def _commit(self, node: Node, number: int) -> None:
        """Send to all queues and to the topic in one transaction."""
        transaction = node.session.begin()
        for address in QUEUES:
            node.queue(address)
            self.sim.ledger.sent(f"{address}:{number}", True, node.name)
        for address in [*QUEUES, "news"]:
            is_topic = address == "news"
            body = f"A:{number + 1}" if is_topic else f"{address}:{number}"
            message = plain_message(address, MessageView(body=body))
            message.durable = True
            routing_type = RoutingType.MULTICAST if is_topic else RoutingType.ANYCAST
            node.session.producer(address, routing_type).send(message, transaction)
        node.session.commit(transaction)
        node.store.when_durable(partial(self.confirmed.add, number))

    def _members(self, name: str) -> list[SimSubscriber]:
        return [
            each for each in self.sim.consumers if isinstance(each, SimSubscriber) and each.subscription.name == name
        ]

    def _faults(self) -> list[str]:
        faults = list(self.sim.ledger.violations)
        got = {body for each in self.sim.consumers if not isinstance(each, SimSubscriber) for body in each.bodies}
        for number in range(COUNT):
            parts = [f"{queue}:{number}" in got for queue in QUEUES]
            for name in SUBSCRIPTIONS:
                parts.append(any(f"A:{number + 1}" in each.bodies for each in self._members(name)))
            if len(set(parts)) > 1:
                faults.append(f"of transaction {number} only a part has come: {parts}")
            elif number in self.confirmed and not parts[0]:
                faults.append(f"transaction {number} was confirmed and is lost")
        return faults


def test_transactions_reach_the_consumers_of_three_nodes(folder: Path) -> None:
    """C41, without a fault."""
    calm = Transactions(folder)

    assert calm.run() == []
    assert calm.confirmed == {0, 1}


@pytest.mark.parametrize("lands", [False, True])
@pytest.mark.parametrize("victim", [0, 1, 2])
def test_transaction_is_whole_or_absent_whichever_commit_a_node_dies_at(folder: Path, victim: int, lands: bool) -> None:
    """C41: the commit may be lost with the node, or be there although nobody heard of it."""
    calm = Transactions(folder / "calm")
    calm.run()
    # Behind these come those of the last clients.
    count = min(calm.commits[victim], 12)
    faults = {
        at_commit: found
        for at_commit in range(1, count + 1)
        if (found := Transactions(folder / str(at_commit), victim, at_commit, lands).run())
    }

    assert count >= 3
    assert faults == {}
