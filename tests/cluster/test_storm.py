"""Random histories: nothing is lost, doubled or stranded, and faults that are planted are found."""

import os
from functools import partial
from pathlib import Path

import pytest

from artemis_py.cluster.hearing import Hearing
from artemis_py.core.settings.cluster_config import ClusterConfig
from tests.cluster.node import Node, make_mesh
from tests.cluster.plants import PLANTS, Planted, SilentChange, Unfenced, maker_of
from tests.cluster.simulation import MeshMaker, Simulation
from tests.cluster.storm import Storm, shrink

SEEDS = int(os.environ.get("ARTEMIS_MESH_SEEDS", "16"))
"""Number of histories; thousands at night, some hundreds before a release."""

FIRST_SEED = int(os.environ.get("ARTEMIS_MESH_FIRST_SEED", "0"))

LIMIT = 200
"""Histories within which each planted fault must be found."""

FOUND_BY = {
    "EarlyMarks": 39,
    "LateMark": 6,
    "EarlySend": 1,
    "EarlyConfirmation": 1,
    "ForgottenClaims": 0,
    "ForgottenMarks": 0,
    "UnsettledChannel": 0,
    "Deltas": 0,
    "SilentChange": 0,
}
"""A seed that found each fault when this was written: it is tried first, and any other one will do as well."""


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + SEEDS))
def test_nothing_is_lost_doubled_or_stranded(seed: int, folder: Path) -> None:
    """C45 and C61: breaks, partitions, crashes that lose unsynced writes, stopped processes, slow disks."""
    assert Storm(seed, folder).run() == []


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + SEEDS))
def test_dialling_a_broker_that_is_connected_breaks_nothing(
    seed: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same, where a third of the dials go to nodes that are connected, under names that nobody knows them by."""
    monkeypatch.setattr(Node, "dials_blindly", True)

    assert Storm(seed, folder).run() == []


def test_nodes_dial_again_that_had_another_connection_then(folder: Path) -> None:
    """Each of two nodes still had the other's connection when its own ended: both must look again later."""
    assert Storm(2511, folder).run() == []


def test_marks_that_a_connection_told_long_ago_are_not_believed(folder: Path) -> None:
    """Both nodes dialled at once, and the network held one connection up until the other one had come and gone.

    What it brought then were marks from before all messages: those that the peer had were taken back as well.
    """
    assert Storm(30102, folder).run() == []


@pytest.mark.one_build
@pytest.mark.parametrize("plant", [each for each in PLANTS if each is not Unfenced], ids=lambda plant: plant.__name__)
def test_planted_fault_is_found(plant: type[Planted], folder: Path) -> None:
    """C46."""
    first = FOUND_BY[plant.__name__]
    seeds = [first, *[seed for seed in range(LIMIT) if seed != first]]

    assert any(Storm(seed, folder / str(seed), maker_of(plant)).run() for seed in seeds)


def test_what_no_digest_shows_is_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C46: a change that is not told, where nobody compares what was told with what is known."""
    monkeypatch.setattr(Hearing, "_compare", lambda *_: None)

    assert any(Storm(seed, folder / str(seed), maker_of(SilentChange)).run() for seed in range(LIMIT))


def half_open(seed: int, folder: Path, maker: MeshMaker) -> list[str]:
    """What goes wrong if one side gives a connection up while what it has sent through it is still on its way."""
    sim = Simulation(seed, folder, maker)
    origin, taker = sim.add_nodes(2, ClusterConfig(name="mesh"))
    assert sim.run_until(sim.is_meshed)
    sim.consume(taker, "q", 50, settle_ms=300)
    sim.run_for(500)
    for number in range(20):
        sim.at(sim.now + number, partial(sim.send, origin, "q", f"m{number}"))
    sim.run_for(15)
    sim.give_up(origin, taker, 800)
    # It gets what comes back, while the taker may still get it as well.
    sim.consume(origin, "q", 50, settle_ms=300)
    sim.run_for(3_000)
    sim.close()
    return list(sim.ledger.violations)


def test_older_connection_that_goes_on_is_found(folder: Path) -> None:
    """C46: histories of all kinds seldom find this one, so it has one of its own."""
    seeds = range(20)

    assert any(half_open(seed, folder / f"planted-{seed}", maker_of(Unfenced)) for seed in seeds)
    assert not any(half_open(seed, folder / f"sound-{seed}", make_mesh) for seed in seeds)


def test_failing_history_shrinks(folder: Path) -> None:
    """A seed that fails does so with few of its steps, because what a step does depends on its own key only."""
    maker = maker_of(PLANTS[-1])
    seed = FOUND_BY["SilentChange"]
    before = Storm(seed, folder / "before", maker)
    assert before.run() != []

    steps = shrink(seed, folder / "shrink", maker, attempts=40)

    assert len(steps) <= len(before.steps) // 2
    assert Storm(seed, folder / "after", maker, steps).run() != []


def test_history_repeats_itself(folder: Path) -> None:
    """The same seed makes the same history, to the last message."""
    one, other = [Storm(5, folder / name) for name in ("one", "other")]
    assert one.run() == other.run()

    deliveries = [
        {body: entry.deliveries for body, entry in storm.simulation.ledger.entries.items()} for storm in (one, other)
    ]
    assert deliveries[0] == deliveries[1]
    assert one.simulation.transfers == other.simulation.transfers
