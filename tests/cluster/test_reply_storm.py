"""Random histories of requests and replies: none is lost, doubled or stranded; faults that are planted are found."""

import os
from pathlib import Path

import pytest

from artemis_py.cluster.chosen_names import ChosenNames, OwnName
from artemis_py.cluster.mesh import Mesh
from artemis_py.cluster.records import ToldTemporary
from artemis_py.cluster.temporaries import Temporaries
from artemis_py.core.addresses.address import Address
from tests.cluster.node import FORMATS
from tests.cluster.reply_storm import ReplyStorm
from tests.cluster.simulation import MeshMaker

SEEDS = int(os.environ.get("ARTEMIS_MESH_SEEDS", "8"))
"""Number of histories, as in `test_storm`."""

FIRST_SEED = int(os.environ.get("ARTEMIS_MESH_FIRST_SEED", "0"))

LIMIT = 20
"""Histories within which each planted fault must be found."""


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + SEEDS))
def test_no_reply_is_lost_doubled_or_stranded(seed: int, folder: Path) -> None:
    """C34 through breaks, partitions, crashes, stopped processes and slow disks; no name is remembered in the end."""
    assert ReplyStorm(seed, folder).run() == []


# -- planted faults ----------------------------------------------------------------------------------------------


class SilentNames(ChosenNames):
    """Nobody is told of a new name, before it connects again."""

    def address_added(self, address: Address) -> None:
        tell, self._tell = self._tell, lambda own: None  # type: ignore[method-assign]
        super().address_added(address)
        self._tell = tell  # type: ignore[method-assign]


class ForgottenNames(ChosenNames):
    """A peer that connects is not told of names that are there."""

    def own(self) -> list[OwnName]:
        return []


class ImmortalNames(ChosenNames):
    """Nobody is told that a name is gone."""

    def address_removed(self, address: Address) -> None:
        self._own.pop(address.name, None)


class SilentAddresses(Temporaries):
    """Nobody is told that an address is gone whose name the broker made."""

    def address_removed(self, address: Address) -> None:
        self._askers.pop(address.name, None)

    def told(self, peer: object, record: ToldTemporary) -> None:
        pass


PLANTS: list[type[ChosenNames] | type[Temporaries]] = [SilentNames, ForgottenNames, ImmortalNames, SilentAddresses]


def maker_of(plant: type[ChosenNames] | type[Temporaries]) -> MeshMaker:
    """What makes a mesh with this fault."""

    class Planted(Mesh):
        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments)  # type: ignore[arg-type]
            part = plant(self)
            if isinstance(part, ChosenNames):
                self.chosen_names = part
            else:
                self.temporaries = part

    return lambda domain, config, id, name: Planted(domain, config, id, name, FORMATS)


@pytest.mark.one_build
@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_planted_fault_is_found(plant: type[ChosenNames] | type[Temporaries], folder: Path) -> None:
    """Within a few histories."""
    assert any(ReplyStorm(seed, folder / str(seed), maker_of(plant)).run() for seed in range(LIMIT))
