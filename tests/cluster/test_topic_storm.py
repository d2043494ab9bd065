"""Random histories of subscribers: no message is missed or comes twice, and faults that are planted are found."""

import os
from pathlib import Path

import pytest

from tests.cluster.plants import Planted, maker_of
from tests.cluster.topic_plants import TOPIC_PLANTS
from tests.cluster.topic_storm import TopicStorm

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
    "LateMark": 8,
    "EarlyConfirmation": 15,
}
"""A seed that found each fault when this was written: it is tried first, and any other one will do as well."""


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + SEEDS))
def test_no_subscription_misses_a_message_or_gets_it_twice(seed: int, folder: Path) -> None:
    """C4, C18 and C32 through breaks, partitions, crashes, stopped processes and slow disks; I12."""
    assert TopicStorm(seed, folder).run() == []


@pytest.mark.parametrize("plant", TOPIC_PLANTS, ids=lambda plant: plant.__name__)
def test_planted_fault_is_found(plant: type[Planted], folder: Path) -> None:
    """C46, for copies: a loop, a second copy, a missed subscription, a lost mark."""
    first = FOUND_BY[plant.__name__]
    seeds = [first, *[seed for seed in range(LIMIT) if seed != first]]

    assert any(TopicStorm(seed, folder / str(seed), maker_of(plant)).run() for seed in seeds)
