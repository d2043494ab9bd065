"""What a mesh does after a fault: cases of the recovery table (C45) that have no test elsewhere."""

import shutil
from pathlib import Path

import pytest

from artemis_py.cluster.members import RUNS as MET
from artemis_py.cluster.starts import KEPT_RUNS, NODE, RUNS
from artemis_py.core.settings.address_settings import AddressSettings
from artemis_py.core.settings.cluster_config import LoadBalancing
from tests.cluster.keyed import Keyed
from tests.cluster.node import Node
from tests.cluster.simulation import Simulation
from tests.cluster.test_handover import is_done, meshed, send_all

HOUR_MS = 3_600_000


def begin_later(sim: Simulation) -> None:
    """Let all clocks be far enough from 1970 to be set back; a time in a hello is not below 0."""
    for node in sim.nodes:
        node.set_clock(2 * HOUR_MS)


def test_both_brokers_die_at_once(sim: Simulation) -> None:
    """Claims and marks of both stores fit together."""
    a, b = meshed(sim, 2)
    sim.consume(b, "q", 100, settle_ms=300)
    sim.run_for(1_000)
    bodies = send_all(sim, a, "q", 100)
    assert sim.run_until(lambda: sim.in_flight() > 0)
    for node, is_late in ((a, False), (b, True)):
        sim.crash(node, 500, lands=is_late)
    assert sim.run_until(sim.is_meshed)
    last = sim.consume(b, "q", 100)

    assert sim.run_until(lambda: not sim.ledger.missing() and not sim.in_flight())
    assert set(last.bodies) <= set(bodies)


def test_a_peer_that_is_away_for_long_keeps_what_was_granted_and_no_more(sim: Simulation) -> None:
    """The others are served, what is in doubt waits, and comes once when the peer is back."""
    a, b, c = meshed(sim, 3)
    sim.consume(b, "q", 10, settle_ms=60_000)
    here = sim.consume(c, "q", 10)
    sim.run_for(1_000)
    for number in range(200):
        sim.send(a, "q", f"m{number}")
    assert sim.run_until(lambda: a.mesh.channels.claimed_for(b.mesh.node_id) > 0)
    sim.crash(b, 3_600_000)
    sim.run_for(1_800_000)

    in_doubt = a.mesh.channels.claimed_for(b.mesh.node_id)
    assert 0 < in_doubt <= 10
    assert len(here.bodies) >= 180
    assert sim.run_until(sim.is_meshed, 3_600_000)
    sim.consume(b, "q", 10)
    assert sim.run_until(lambda: not sim.ledger.missing() and not sim.in_flight())


def test_an_origin_from_a_backup_of_its_last_run_hands_nothing_over_twice(sim: Simulation) -> None:
    """Its number of starts fits. What was claimed in the backup is settled by marks, and a new channel begins."""
    sim.has_slow_disks = False
    a, b = meshed(sim, 2)
    consumer = sim.consume(b, "q", 100)
    sim.run_for(1_000)
    send_all(sim, a, "q", 20)
    assert sim.run_until(lambda: is_done(sim))
    sim.stop(b, 5_000)
    sim.run_for(100)
    send_all(sim, a, "q", 5, "claimed")
    assert sim.run_until(lambda: a.mesh.channels.claimed_for(b.mesh.node_id) == 5 and not a.jobs)
    backup = sim.folder / "backup"
    shutil.copytree(a.folder, backup)
    assert sim.run_until(lambda: is_done(sim))
    send_all(sim, a, "q", 20, "later")
    assert sim.run_until(lambda: is_done(sim))
    a.crash(False)
    shutil.rmtree(a.folder)
    shutil.copytree(backup, a.folder)
    a.start()
    assert sim.run_until(sim.is_meshed)
    again = send_all(sim, a, "q", 5, "again")

    assert sim.run_until(lambda: is_done(sim))
    assert consumer.bodies[-5:] == again
    assert len(consumer.bodies) == 50


def test_an_origin_from_a_backup_is_noticed_and_goes_on_when_it_is_accepted(sim: Simulation) -> None:
    """R9: both brokers say why it is refused; then what it has handed over since the backup comes again, and is all."""
    a, b = meshed(sim, 2)
    kept = send_all(sim, a, "q", 5, "kept")
    sim.run_for(1_000)
    a.crash(False)
    backup = sim.folder / "backup"
    shutil.copytree(a.folder, backup)
    a.start()
    for _ in range(2):
        assert sim.run_until(sim.is_meshed)
        sim.crash(a, 1_000)
        sim.run_for(2_000)
    assert sim.run_until(sim.is_meshed)
    consumer = sim.consume(b, "q", 100)
    later = send_all(sim, a, "q", 10, "later")
    assert sim.run_until(lambda: is_done(sim))
    assert sorted(consumer.bodies) == sorted(kept + later)
    channels = {channel for channel, _ in b.mesh.marks.of(a.mesh.node_id)}
    a.crash(False)
    shutil.rmtree(a.folder)
    shutil.copytree(backup, a.folder)
    a.start()
    sim.run_for(10_000)
    assert not b.mesh.peers
    assert any("its store was restored or copied" in text for text in b.refusals)
    for body in kept:
        # The ledger takes them for doubled otherwise, and so they are: nobody else knows that they were consumed.
        sim.ledger.entries[body].is_confirmed = False
        sim.ledger.entries[body].settled_at = None
    b.run(b.generation, lambda: b.mesh.members.accept(b.mesh.members.find("A")))
    assert sim.run_until(sim.is_meshed, 120_000)
    again = send_all(sim, a, "q", 5, "again")

    assert sim.run_until(lambda: is_done(sim))
    assert sorted(consumer.bodies[15:]) == sorted(kept + again)
    assert not channels & {channel for channel, _ in b.mesh.marks.of(a.mesh.node_id)}
    assert sim.table_faults() == []


def start_again(sim: Simulation, node: Node, *, times: int = 1) -> None:
    """End a node and start it at once, so that each start is in its store."""
    for _ in range(times):
        node.crash(False)
        node.start()
        assert sim.run_until(lambda: node.mesh.is_ready)


def back_up(node: Node) -> Path:
    """A copy of the store of a node, which is started again after that."""
    node.crash(False)
    backup = node.folder.with_name("backup")
    shutil.copytree(node.folder, backup)
    node.start()
    return backup


def restore(node: Node, backup: Path) -> None:
    """Put a copy in the place of the store of a node that has ended, and start it."""
    node.crash(False)
    shutil.rmtree(node.folder)
    shutil.copytree(backup, node.folder)
    node.start()


def was_noticed(node: Node) -> bool:
    """Whether a node has refused another one because of its store."""
    return any("its store was restored or copied" in text for text in node.refusals)


@pytest.mark.parametrize("more", [0, 1, 5])
def test_a_store_from_a_backup_is_noticed_whatever_the_number_of_its_starts(sim: Simulation, more: int) -> None:
    """R9: it has been started as often as the lost one, or more often since; its starts are other ones."""
    a, b = meshed(sim, 2)
    backup = back_up(a)
    assert sim.run_until(sim.is_meshed)
    starts = a.mesh.incarnation
    restore(a, backup)
    assert a.mesh.incarnation == starts
    start_again(sim, a, times=more)
    sim.run_for(10_000)
    assert was_noticed(b)
    assert not b.mesh.peers
    b.crash(False)
    b.start()
    sim.run_for(10_000)
    assert not b.mesh.peers

    b.run(b.generation, lambda: b.mesh.members.accept(b.mesh.members.find("A")))
    assert sim.run_until(sim.is_meshed, 120_000)
    b.refusals.clear()
    for node in (b, a):
        start_again(sim, node)
        assert sim.run_until(sim.is_meshed, 120_000)
    assert not was_noticed(b)


@pytest.mark.parametrize("times", [3, KEPT_RUNS, KEPT_RUNS + 5])
def test_a_broker_that_was_away_for_many_starts_of_another_one_takes_it_back(sim: Simulation, times: int) -> None:
    """Each start is a later one of the same store; of more than are kept nothing is known."""
    a, b = meshed(sim, 2)
    b.crash(False)
    start_again(sim, a, times=times)
    b.start()

    assert sim.run_until(sim.is_meshed)
    assert not was_noticed(b)


def test_a_build_that_keeps_no_runs_may_come_between(sim: Simulation) -> None:
    """At either side: what is stored is of another start than the last one then, and is not used."""
    a, b = meshed(sim, 2)
    for node in (a, b):
        start_again(sim, node)
    assert sim.run_until(sim.is_meshed)
    old = {node: (dict(node.store.load_records(NODE))[RUNS], node.store.load_records(MET)) for node in (a, b)}
    for node in (a, b):
        start_again(sim, node)
    assert sim.run_until(sim.is_meshed)
    for node, (runs, met) in old.items():
        node.store.save_record(NODE, RUNS, runs)
        for id, start in met:
            node.store.save_record(MET, id, start)
    sim.run_for(2_000)
    for node in (a, b):
        start_again(sim, node)
        assert node.mesh.runs == ()

    assert sim.run_until(sim.is_meshed)
    assert not was_noticed(a)
    assert not was_noticed(b)


@pytest.mark.parametrize("seed", range(10))
def test_a_restored_store_is_noticed_by_those_that_met_it_later_and_by_no_other(seed: int, folder: Path) -> None:
    """R9 in random histories: crashes before and after a start is stored, nodes that are away, partitions."""
    keyed = Keyed(seed)
    sim = Simulation(seed, folder)
    nodes = sim.add_nodes(4)
    a, *others = nodes
    starts: set[int] = set()
    """Numbers of the starts of A since the backup."""

    def live(part: str) -> None:
        for index in range(keyed.between(3, 12, part)):
            node = keyed.choice([a, a, *others], part, "node", index)
            ms = keyed.choice([1, 300, 3_000, 10_000], part, "ms", index)
            if keyed.chance(0.7, part, "crash", index):
                sim.crash(node, ms, lands=keyed.chance(0.5, part, "lands", index))
            else:
                sim.partition(node, keyed.choice([each for each in nodes if each is not node], part, "to", index), ms)
            sim.run_for(keyed.between(0, 5_000, part, "pause", index))
            starts.add(a.mesh.run)
        assert sim.run_until(lambda: all(node.is_running for node in nodes), 60_000)
        starts.add(a.mesh.run)

    live("before")
    sim.heal()
    assert sim.run_until(sim.is_meshed, 120_000)
    backup = back_up(a)
    starts = {a.mesh.run}
    if keyed.chance(0.5, "some are away"):
        for node in others[keyed.between(0, 2, "away") :]:
            sim.partition(a, node, 40_000)
    live("after")
    met = {node: node.mesh.members.find("A").run in starts for node in others}
    restore(a, backup)
    sim.ledger.crashes += 1
    for index in range(keyed.between(0, KEPT_RUNS // 2, "starts")):
        sim.crash(a, 1, lands=keyed.chance(0.5, "lands", index))
        sim.run_for(keyed.between(2, 1_000, "start", index))
    sim.heal()
    sim.run_for(120_000)
    noticed = {node: a.mesh.node_id not in node.mesh.peers for node in others}
    sim.close()

    assert noticed == met


def test_an_origin_whose_store_fails_hands_nothing_over(sim: Simulation) -> None:
    """What is not claimed on the disk is not sent."""
    a, b = meshed(sim, 2)
    consumer = sim.consume(b, "q", 100)
    sim.run_for(1_000)
    a.disk_fails = True
    send_all(sim, a, "q", 20)
    sim.run_for(10_000)

    assert consumer.bodies == []
    assert not a.mesh.peers
    sim.ledger.crashes += 1
    a.disk_fails = False
    a.crash(lands=False)
    a.start()
    assert sim.run_until(sim.is_meshed)
    bodies = send_all(sim, a, "q", 20, "again")
    assert sim.run_until(lambda: len(consumer.bodies) == 20)
    assert consumer.bodies == bodies


def test_a_process_that_was_stopped_for_long_goes_on(sim: Simulation) -> None:
    """Longer than `connection-ttl`. What it finds in its sockets is of a connection that is over."""
    a, b, c = meshed(sim, 3, check_period_ms=3_000, connection_ttl_ms=10_000)
    there = sim.consume(b, "q", 20, settle_ms=500)
    sim.run_for(1_000)
    send_all(sim, a, "q", 100)
    assert sim.run_until(lambda: sim.in_flight() > 0)
    sim.stop(b, 60_000)
    sim.run_for(30_000)
    assert b.mesh.node_id not in a.mesh.peers
    sim.consume(c, "q", 20)
    assert sim.run_until(sim.is_meshed, 120_000)

    assert sim.run_until(lambda: not sim.ledger.missing() and not sim.in_flight())
    assert there.bodies


@pytest.mark.parametrize("hops", [1, 2])
@pytest.mark.parametrize("jumps", ["a", "b", "both"])
def test_a_clock_that_is_set_back_strands_nothing(sim: Simulation, jumps: str, hops: int) -> None:
    """By an hour, while messages are on the way: what is paced or waits goes on as if nothing had happened."""
    a, b, c = meshed(sim, 3, max_hops=hops, ties=[(0, 1), (1, 2)] if hops > 1 else None)
    begin_later(sim)
    consumer = sim.consume(c if hops > 1 else b, "q", 10, settle_ms=50)
    sim.run_for(1_000)
    before = send_all(sim, a, "q", 100, "before")
    assert sim.run_until(lambda: sim.in_flight() > 0)
    for node in {"a": (a,), "b": (b, c), "both": (a, b, c)}[jumps]:
        node.set_clock(-HOUR_MS)
    after = send_all(sim, a, "q", 20, "after")

    assert sim.run_until(lambda: is_done(sim), 30_000)
    assert sorted(consumer.bodies) == sorted(before + after)
    sim.close_consumer(consumer)
    last = sim.consume(a, "other", 10)
    send_all(sim, c, "other", 20, "other")
    assert sim.run_until(lambda: is_done(sim), 30_000)
    assert len(last.bodies) == 20
    assert sim.counted_as_stranded() == []


@pytest.mark.parametrize("balancing", [LoadBalancing.ON_DEMAND, LoadBalancing.OFF_WITH_REDISTRIBUTION])
def test_redistribution_delay_is_a_span(sim: Simulation, balancing: LoadBalancing) -> None:
    """A clock that is set back in the middle of it does not make it longer, nor does one that jumps end it."""
    settings = AddressSettings(redistribution_delay=5_000)
    a, b = meshed(sim, 2, load_balancing=balancing, settings=settings)
    begin_later(sim)
    local = sim.consume(a, "q", 0)
    sim.run_for(1_000)
    send_all(sim, a, "q", 20)
    sim.close_consumer(local)
    sim.run_for(1_000)
    there = sim.consume(b, "q", 100)
    a.set_clock(HOUR_MS)
    sim.run_for(1_000)
    assert there.bodies == []
    a.set_clock(-2 * HOUR_MS)

    assert sim.run_until(lambda: is_done(sim), 15_000)
    assert len(there.bodies) == 20


def test_a_peer_that_falls_silent_is_noticed_although_the_clock_was_set_back(sim: Simulation) -> None:
    """`connection-ttl` is a span: messages that were granted to the peer do not wait for the hour to pass."""
    a, b, c = meshed(sim, 3, check_period_ms=3_000, connection_ttl_ms=10_000)
    begin_later(sim)
    sim.consume(b, "q", 20, settle_ms=500)
    sim.run_for(1_000)
    send_all(sim, a, "q", 100)
    assert sim.run_until(lambda: sim.in_flight() > 0)
    sim.stop(b, 60_000)
    a.set_clock(-HOUR_MS)
    sim.run_for(20_000)

    assert b.mesh.node_id not in a.mesh.peers
    sim.consume(c, "q", 20)
    assert sim.run_until(sim.is_meshed, 120_000)
    assert sim.run_until(lambda: not sim.ledger.missing() and not sim.in_flight(), 120_000)


@pytest.mark.parametrize("hops", [1, 2])
@pytest.mark.parametrize("jumps", ["a", "b", "both"])
def test_a_clock_that_jumps_ahead_strands_nothing(sim: Simulation, jumps: str, hops: int) -> None:
    """By an hour: at the origin, at the taker, or at both."""
    a, b, c = meshed(sim, 3, max_hops=hops, ties=[(0, 1), (1, 2)] if hops > 1 else None)
    consumer = sim.consume(c if hops > 1 else b, "q", 10)
    sim.run_for(1_000)
    send_all(sim, a, "q", 20, "before")
    assert sim.run_until(lambda: is_done(sim))
    for node in {"a": (a,), "b": (b, c), "both": (a, b, c)}[jumps]:
        node.set_clock(3_600_000)
    send_all(sim, a, "q", 20, "after")
    assert sim.run_until(lambda: is_done(sim))
    sim.close_consumer(consumer)
    last = sim.consume(a, "other", 10)
    send_all(sim, c, "other", 20, "other")

    assert sim.run_until(lambda: is_done(sim))
    assert len(last.bodies) == 20
    sim.run_for(120_000)
    assert sim.run_until(sim.is_meshed)
    send_all(sim, a, "q", 5, "late")
    sim.consume(c, "q", 10)
    assert sim.run_until(lambda: is_done(sim))
