"""Random histories of subscribers: no message is missed or comes twice, and faults that are planted are found."""

import os
from pathlib import Path

import pytest

from artemis_py.cluster.shells import Shells
from artemis_py.core.settings.cluster_config import ClusterConfig
from tests.cluster.plants import Planted, maker_of
from tests.cluster.simulation import Simulation
from tests.cluster.topic_plants import TOPIC_PLANTS
from tests.cluster.topic_storm import TopicStorm
from tests.cluster.topics import Topics

SEEDS = int(os.environ.get("ARTEMIS_MESH_SEEDS", "8"))
"""Number of histories, as in `test_storm`."""

FIRST_SEED = int(os.environ.get("ARTEMIS_MESH_FIRST_SEED", "0"))

LIMIT = 60
"""Histories within which each planted fault must be found."""

FOUND_BY = {
    "RoutedCopies": 0,
    "CopyForEachPattern": 1,
    "ForgottenInterest": 0,
    "SilentInterest": 0,
    "LateMark": 9,
    "EarlyConfirmation": 15,
}
"""A seed that found each fault when this was written: it is tried first, and any other one will do as well."""


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + SEEDS))
def test_no_subscription_misses_a_message_or_gets_it_twice(seed: int, folder: Path) -> None:
    """C4, C18 and C32 through breaks, partitions, crashes, stopped processes and slow disks; I12."""
    assert TopicStorm(seed, folder).run() == []


@pytest.mark.one_build
@pytest.mark.parametrize("plant", TOPIC_PLANTS, ids=lambda plant: plant.__name__)
def test_planted_fault_is_found(plant: type[Planted], folder: Path) -> None:
    """C46, for copies: a loop, a second copy, a missed subscription, a lost mark."""
    first = FOUND_BY[plant.__name__]
    seeds = [first, *[seed for seed in range(LIMIT) if seed != first]]

    assert any(TopicStorm(seed, folder / str(seed), maker_of(plant)).run() for seed in seeds)


def left_after_the_end(seed: int, folder: Path) -> list[str]:
    """Which nodes have a subscription although it was ended while one of them was away, and another one died since."""
    sim = Simulation(seed, folder)
    a, b, c = sim.add_nodes(3, ClusterConfig(name="mesh"))
    assert sim.run_until(sim.is_meshed)
    topics = Topics(sim)
    away = topics.subscribe(a, "news", "group", shared=True)
    last = topics.subscribe(b, "news", "group", shared=True)
    sim.run_for(2_000)
    sim.close_consumer(away)
    sim.run_for(1_000)
    sim.crash(a, 20_000)
    sim.run_for(1_000)
    last.node.run(last.generation, last.unsubscribe)
    sim.run_for(2_000)
    for node in (b, c):
        sim.crash(node, 500)
    sim.run_for(20_000)
    assert sim.run_until(sim.is_meshed, 120_000)
    sim.run_for(5_000)
    sim.close()
    return [node.name for node in (a, b, c) if "group" in node.domain.queues]


def test_tombstones_that_are_forgotten_are_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C46: the end of a subscription is remembered by a run only. Histories do not end durable ones, so this does."""
    assert left_after_the_end(1, folder / "sound") == []
    load = Shells.load

    def forget(shells: Shells) -> None:
        load(shells)
        shells._ended.clear()

    monkeypatch.setattr(Shells, "load", forget)

    assert left_after_the_end(1, folder / "planted") != []
