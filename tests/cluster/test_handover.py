"""Messages go from a queue of one broker to a consumer of another."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cluster.simulation import Simulation


@pytest.fixture
def simulate(folder: Path) -> Iterator[Callable[[int], Simulation]]:
    made: list[Simulation] = []

    def make(seed: int = 1) -> Simulation:
        made.append(Simulation(seed, folder / str(len(made))))
        return made[-1]

    yield make
    for simulation in made:
        simulation.close()


def test_message_goes_to_the_consumer_of_another_broker(simulate: Callable[[int], Simulation]) -> None:
    sim = simulate(1)
    a, b = sim.add_nodes(2)
    assert sim.run_until(sim.is_meshed)
    sim.send(a, "q", "first")
    consumer = sim.consume(b, "q")

    sim.run_for(2_000)

    assert consumer.bodies == ["first"]
    assert sim.ledger.missing() == []
    assert sim.ledger.violations == []
    assert sim.table_faults() == []
    assert sim.in_flight() == 0
