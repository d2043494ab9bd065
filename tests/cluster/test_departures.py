"""Members that leave: drained, or forgotten (C55, C56)."""

import shutil
from functools import partial
from pathlib import Path

import pytest

from artemis_py.cluster.departures import KEPT_MS
from artemis_py.cluster.drain import Parting
from artemis_py.cluster.events import ChannelGap
from artemis_py.cluster.hello import SIGHT
from artemis_py.cluster.records import Record, Sees, Sight
from artemis_py.cluster.remains import rest_of
from artemis_py.cluster.report import members_of, own_status, topology
from artemis_py.core.runtime.carrier import PeerRefused
from artemis_py.core.settings.address_settings import AddressSettings
from artemis_py.core.settings.cluster_config import LoadBalancing
from artemis_py.errors import InvalidRequest
from tests.cluster.node import Node
from tests.cluster.simulation import Simulation
from tests.cluster.storm import Storm
from tests.cluster.test_connections import UP, open_wire
from tests.cluster.test_handover import is_done, meshed, send_all
from tests.cluster.test_storm import SEEDS


def begin(node: Node) -> None:
    """The command."""
    node.run(node.generation, node.mesh.departures.begin)


def parting(node: Node) -> Parting:
    """How far it is."""
    return node.mesh.departures.parting


def count(node: Node, queue: str) -> int:
    """Messages of a queue at a node."""
    found = node.domain.queues.get(queue)
    return 0 if found is None else found.message_count


def test_a_drained_node_gives_everything_away_in_order(sim: Simulation) -> None:
    """C55: nobody consumes; each queue goes to one node, which need not have had it."""
    a, b, c = meshed(sim, 3)
    bodies = {name: send_all(sim, a, name, 300, name) for name in ("p", "q", "r", "s")}
    sim.run_for(1_000)
    begin(a)

    assert sim.run_until(lambda: parting(a) is Parting.LEFT)
    assert all(count(a, name) == 0 for name in bodies)
    for name, expected in bodies.items():
        assert sorted((count(b, name), count(c, name))) == [0, 300]
        holder = b if count(b, name) else c
        consumer = sim.consume(holder, name, 50)
        assert sim.run_until(lambda: len(consumer.bodies) >= 300)  # noqa: B023
        assert consumer.bodies == expected
    assert sim.run_until(lambda: b.mesh.members.get(a.mesh.node_id) is c.mesh.members.get(a.mesh.node_id) is None)
    assert b.mesh.departures.is_forgotten(a.mesh.node_id)
    sim.run_for(10_000)
    assert b.mesh.departures.is_forgotten(a.mesh.node_id)
    assert c.mesh.departures.is_forgotten(a.mesh.node_id)
    for dialler in ("", b.mesh.node_id):
        with pytest.raises(PeerRefused, match="has left the mesh"):
            a.mesh.connect(dialler)
    assert a.mesh.connect("a node that was away, and has claims to settle")


def test_a_node_is_drained_under_load(sim: Simulation) -> None:
    """C55: producers and consumers are at it and elsewhere; clients of the drained node are gone after a while."""
    a, b, _ = meshed(sim, 3)
    there = sim.consume(b, "q", 20)
    here = sim.consume(a, "q", 20)
    for number in range(400):
        sim.at(sim.now + number * 10, partial(sim.send, a if number % 2 else b, "q", f"m{number}"))
    sim.run_for(1_500)
    begin(a)
    sim.run_for(4_000)
    sim.close_consumer(here)

    assert sim.run_until(lambda: parting(a) is Parting.LEFT)
    assert sim.run_until(lambda: is_done(sim))
    assert there.bodies


@pytest.mark.parametrize("dies", ["a", "target"])
def test_a_drain_that_breaks_loses_nothing(sim: Simulation, dies: str) -> None:
    """C55: the drained node dies half-way and is an ordinary one afterwards, or the node that takes a queue dies."""
    a, b, c = meshed(sim, 3)
    bodies = send_all(sim, a, "q", 600)
    sim.run_for(1_000)
    begin(a)
    assert sim.run_until(lambda: count(b, "q") + count(c, "q") > 20)
    target = b if count(b, "q") else c
    sim.crash(a if dies == "a" else target, 3_000)
    if dies == "a":
        assert sim.run_until(sim.is_meshed)
        assert parting(a) is Parting.STAYS
    else:
        assert sim.run_until(lambda: parting(a) is Parting.LEFT)
        assert sim.run_until(lambda: target.is_running)
    consumers = [sim.consume(node, "q", 50) for node in (b, c)]

    assert sim.run_until(lambda: is_done(sim))
    assert sorted([*consumers[0].bodies, *consumers[1].bodies]) == sorted(bodies)


def test_a_stopped_drain_leaves_an_ordinary_node(sim: Simulation) -> None:
    """It takes messages and has demand again, and nobody has room for its messages without a consumer."""
    a, b = meshed(sim, 2)
    sim.consume(b, "busy", 0)
    sim.run_for(1_000)
    begin(a)
    sim.run_for(1_000)
    assert sim.run_until(lambda: parting(a) is Parting.LEFT)
    a.run(a.generation, a.mesh.departures.end)
    assert sim.run_until(sim.is_meshed)
    send_all(sim, a, "q", 10)
    consumer = sim.consume(a, "back", 10)
    sim.run_for(1_000)
    sim.send(b, "back", "x")
    sim.run_for(5_000)

    assert (count(a, "q"), count(b, "q")) == (10, 0)
    assert consumer.bodies == ["x"]
    assert not b.mesh.departures.is_forgotten(a.mesh.node_id)
    assert sim.table_faults() == []


def test_a_drain_is_begun_and_ended_once(sim: Simulation) -> None:
    """The second command is told so."""
    (a,) = sim.add_nodes(1)
    with pytest.raises(InvalidRequest, match="not being drained"):
        a.mesh.departures.end()
    a.mesh.departures.begin()
    with pytest.raises(InvalidRequest, match="already"):
        a.mesh.departures.begin()


def test_what_stays_is_named(sim: Simulation) -> None:
    """Kinds of queues that need one broker, paused and scheduled messages; the rest moves (C55)."""
    a, b = meshed(sim, 2)
    a.run(a.generation, lambda: a.queue("kept", exclusive=True))
    send_all(sim, a, "kept", 3, "k")
    send_all(sim, a, "plain", 4, "p")
    send_all(sim, a, "paused", 5, "z")
    a.run(a.generation, lambda: a.queue("paused").pause())
    sim.send(a, "later", "s", delay_ms=3_600_000)
    sim.run_for(1_000)
    begin(a)

    assert sim.run_until(lambda: parting(a) is Parting.EMPTY)
    left, rests = rest_of(a.mesh)
    assert (left, count(b, "plain")) == (9, 4)
    assert [(rest.queue, rest.messages, rest.reason, rest.moves) for rest in rests] == [
        ("kept", 3, "a queue that is exclusive stays at its broker", False),
        ("paused", 5, "the queue or its address is paused", False),
        ("later", 1, "1 wait for their delivery time", True),
    ]
    a.run(a.generation, lambda: a.queue("paused").resume())
    assert sim.run_until(lambda: count(b, "paused") == 5)
    assert own_status(a.mesh, 0).drained == 9


def test_groups_move_to_one_node_in_order(sim: Simulation) -> None:
    """Messages of groups stay at their node otherwise."""
    a, b, c = meshed(sim, 3)
    bodies = [f"m{number}" for number in range(60)]
    for number, body in enumerate(bodies):
        sim.send(a, "q", body, has_group=number % 2 == 0)
    sim.run_for(1_000)
    begin(a)

    assert sim.run_until(lambda: parting(a) is Parting.LEFT)
    holder = b if count(b, "q") else c
    consumer = sim.consume(holder, "q", 100)
    sim.run_for(5_000)
    assert consumer.bodies == bodies


@pytest.mark.parametrize("kind", [LoadBalancing.OFF, LoadBalancing.STRICT, LoadBalancing.OFF_WITH_REDISTRIBUTION])
def test_a_drain_moves_what_load_balancing_would_keep(sim: Simulation, kind: LoadBalancing) -> None:
    """An operator's word counts more than where messages are balanced."""
    settings = AddressSettings(redistribution_delay=-1)
    a, b = meshed(sim, 2, load_balancing=kind, settings=settings)
    a.run(a.generation, lambda: a.queue("q"))
    sim.run_for(500)
    send_all(sim, a, "q", 20)
    sim.run_for(1_000)
    begin(a)

    assert sim.run_until(lambda: parting(a) is Parting.LEFT)
    assert count(b, "q") == 20


def test_a_strict_share_is_not_kept_for_a_node_that_leaves(sim: Simulation) -> None:
    """What waits for it goes to the queue here, and it gets no turn any more (C56)."""
    a, b = meshed(sim, 2, load_balancing=LoadBalancing.STRICT)
    for node in (a, b):
        node.run(node.generation, partial(node.queue, "q"))
    sim.run_for(1_000)
    sim.crash(b, 10_000_000)
    sim.run_for(5_000)
    bodies = send_all(sim, a, "q", 40)
    sim.run_for(3_000)
    dead = b.mesh.node_id
    assert (count(a, "q"), a.mesh.forward_to(dead).waiting_count) == (20, 20)
    a.run(a.generation, lambda: a.mesh.departures.forget(dead))
    sim.run_for(3_000)
    bodies += send_all(sim, a, "q", 10, "late")
    consumer = sim.consume(a, "q", 100)
    sim.run_for(5_000)

    assert sorted(consumer.bodies) == sorted(bodies)
    assert a.mesh.forward_to(dead).waiting_count == 0


def test_a_node_that_is_being_drained_gets_no_turn(sim: Simulation) -> None:
    """STRICT: what waits for it comes back, what is on its way comes with everything else, and nothing follows."""
    a, b = meshed(sim, 2, load_balancing=LoadBalancing.STRICT, confirmation_window_size_bytes=200)
    for node in (a, b):
        node.run(node.generation, partial(node.queue, "q"))
    b.run(b.generation, lambda: b.queue("kept", exclusive=True))
    sim.send(b, "kept", "k")
    sim.run_for(1_000)
    sim.stop(b, 3_000)
    send_all(sim, a, "q", 40)
    sim.run_for(1_000)
    assert a.mesh.forward_to(b.mesh.node_id).waiting_count > 10
    begin(b)
    assert sim.run_until(lambda: parting(b) is Parting.EMPTY and not b.is_stopped)
    sim.run_for(2_000)
    assert not a.mesh.peers[b.mesh.node_id].may_claim
    send_all(sim, a, "q", 10, "late")
    sim.run_for(2_000)

    assert (count(a, "q"), count(b, "q"), a.mesh.forward_to(b.mesh.node_id).waiting_count) == (50, 0, 0)
    assert members_of(a.mesh)[0].state == "empty"


def test_two_nodes_that_leave_do_not_give_to_each_other(sim: Simulation) -> None:
    """Both are drained at once; a third one gets everything."""
    a, b, c = meshed(sim, 3)
    for node in (a, b):
        send_all(sim, node, "q", 200, node.name)
    sim.run_for(1_000)
    for node in (a, b):
        begin(node)

    assert sim.run_until(lambda: parting(a) is parting(b) is Parting.LEFT)
    assert count(c, "q") == 400


def test_all_members_forget_together(sim: Simulation) -> None:
    """C56: also one that was away, and nobody names the forgotten one again; it may come back by itself."""
    a, b, c, d = meshed(sim, 4)
    dead = b.mesh.node_id
    sim.crash(b, 10_000_000)
    sim.crash(c, 20_000)
    sim.run_for(5_000)
    a.run(a.generation, lambda: a.mesh.departures.forget(dead))
    sim.run_for(60_000)

    assert c.is_running
    assert [node.mesh.members.get(dead) for node in (a, c, d)] == [None, None, None]
    assert all(node.mesh.departures.is_forgotten(dead) for node in (a, c, d))
    b.start()
    assert sim.run_until(sim.is_meshed)
    assert not any(node.mesh.departures.is_forgotten(dead) for node in (a, c, d))


def test_a_node_that_is_connected_elsewhere_is_not_forgotten_there(sim: Simulation) -> None:
    """One that only this broker cannot reach: the others know better."""
    a, b, c = meshed(sim, 3)
    sim.partition(a, b, 1_000_000)
    assert sim.run_until(lambda: b.mesh.node_id not in a.mesh.peers)
    a.run(a.generation, lambda: a.mesh.departures.forget(b.mesh.node_id))
    sim.run_for(5_000)

    assert a.mesh.members.get(b.mesh.node_id) is None
    assert c.mesh.members.get(b.mesh.node_id) is not None


def test_forgotten_nodes_are_remembered_for_a_week(sim: Simulation) -> None:
    """Their marks too: if such a node comes back, they tell what it had handed over."""
    a, b = meshed(sim, 2)
    sim.consume(a, "q", 10)
    send_all(sim, b, "q", 5)
    sim.run_for(3_000)
    dead = b.mesh.node_id
    assert a.mesh.marks.of(dead)
    sim.crash(b, 10 * KEPT_MS)
    sim.run_for(3_000)
    a.run(a.generation, lambda: a.mesh.departures.forget(dead))
    sim.run_for(1_000)
    sim.crash(a, 1_000)
    sim.run_for(3_000)
    assert a.mesh.departures.is_forgotten(dead)
    assert a.mesh.marks.of(dead)
    a.clock_offset_ms += KEPT_MS
    sim.crash(a, 1_000)
    sim.run_for(3_000)

    assert not a.mesh.departures.is_forgotten(dead)
    assert not a.mesh.marks.of(dead)


def test_everybody_is_seen_by_everybody(sim: Simulation) -> None:
    """The topology, as one node has heard of it, in a chain and after a break."""
    a, b, c = meshed(sim, 3, ties=[(0, 1), (1, 2)])
    sim.run_for(1_000)
    names = {node.mesh.node_id: node.name for node in (a, b, c)}

    def seen(at: Node) -> dict[str, object]:
        nodes = topology(at.mesh)["nodes"]
        assert isinstance(nodes, list)
        return {
            node["name"]: None if node["sees"] is None else "".join(sorted(names[id] for id in node["sees"]))
            for node in nodes
        }

    assert seen(a) == {"A": "B", "B": "AC", "C": None}
    assert seen(b) == {"B": "AC", "A": "B", "C": "B"}
    sim.crash(c, 10_000_000)
    sim.run_for(5_000)
    assert seen(a) == {"A": "B", "B": "A", "C": None}


@pytest.mark.parametrize(("features", "kind"), [((), Sees), ((SIGHT,), Sight)])
def test_a_connection_more_is_told_as_one(sim: Simulation, features: tuple[str, ...], kind: type[Record]) -> None:
    """Not with all others, which grow with the nodes; a broker of an earlier version is told of all."""
    node, wire, _ = open_wire(sim, *UP, features=features)
    assert [type(each) for each in wire.records if isinstance(each, Sees | Sight)][:1] == [Sees]
    other = Node(sim, "B", sim.folder / "B", node.config, sim.settings)
    sim.nodes.append(other)
    other.neighbours.append(node)
    other.dial_soon(node)
    wire.records.clear()
    assert sim.run_until(lambda: any(peer.is_up for peer in other.mesh.peers.values()))
    sim.run_for(500)
    told = [each for each in wire.records if isinstance(each, Sees | Sight)]

    here = {"stranger", other.mesh.node_id}
    assert told == ([Sight(other.mesh.node_id, 1)] if kind is Sight else [Sees(tuple(sorted(here)))])


class DrainStorm(Storm):
    """A history in which nodes are drained, and stay after all, while everything else happens."""

    def fail(self, index: int, node: Node) -> None:
        if not self.keyed.chance(0.4, "drain", index):
            super().fail(index, node)
        elif node.is_running and not node.is_stopped:
            departures = node.mesh.departures
            node.run(node.generation, departures.begin if departures.drain is None else departures.end)

    def settle(self) -> list[str]:
        self.simulation.heal()
        for node in self.simulation.nodes:
            if node.is_running and node.mesh.departures.drain is not None:
                node.run(node.generation, node.mesh.departures.end)
        return super().settle()


@pytest.mark.parametrize("seed", range(SEEDS // 2))
def test_nothing_is_lost_while_nodes_are_drained(seed: int, folder: Path) -> None:
    """C55 among breaks, crashes and partitions."""
    assert DrainStorm(seed, folder).run() == []


def test_an_accepted_store_from_a_backup_goes_on_and_names_what_is_lost(sim: Simulation) -> None:
    """R8: it lacks what it had confirmed; the other broker knows from where to where, and goes on."""
    a, b = meshed(sim, 2)
    consumer = sim.consume(b, "q", 100)
    sim.crash(b, 1_000)
    assert sim.run_until(lambda: b.is_running and sim.is_meshed())
    backup = sim.folder / "backup"
    b.crash(False)
    shutil.copytree(b.folder, backup)
    b.start()
    for _ in range(2):
        assert sim.run_until(sim.is_meshed)
        sim.crash(b, 1_000)
        sim.run_for(2_000)
    assert sim.run_until(sim.is_meshed)
    consumer = sim.consume(b, "q", 100)
    sim.run_for(1_000)
    send_all(sim, a, "q", 20)
    assert sim.run_until(lambda: len(consumer.bodies) == 20 and not sim.in_flight())
    b.crash(False)
    shutil.rmtree(b.folder)
    shutil.copytree(backup, b.folder)
    b.start()
    sim.run_for(10_000)
    assert any("restored or copied" in text for text in (*a.refusals, *b.refusals))
    a.run(a.generation, lambda: a.mesh.members.accept(a.mesh.members.find("B")))
    assert sim.run_until(sim.is_meshed)
    later = sim.consume(b, "q", 100)
    send_all(sim, a, "q", 5, "later")
    sim.run_for(3_000)

    assert later.bodies == [f"later{number}" for number in range(5)]
    (gap,) = [event for event in a.events if isinstance(event, ChannelGap)]
    assert gap.detail.startswith("messages 1 to 20 of channel")
