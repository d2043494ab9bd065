"""A store whose queue has inherited ranges, until it dies: `python -m tests.crash.range_victim folder [fault]`.

It goes the steps of `tests.unit.store.range_steps`, and prints the number of each when a client would hear that it is
done.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from artemis_py.store import schema
from artemis_py.store.inherited import record_of
from tests.unit.store.range_steps import SETTINGS, Steps
from tests.unit.store.world import World


def main(folder: Path, plant: Callable[[World], None]) -> None:
    """All steps; what is printed leaves the process at once."""
    world = World(folder, SETTINGS)
    plant(world)
    world.services.staging.epochs.inherited_messages = 1
    for number, step in enumerate(Steps(inherits=True).all):
        step(world)
        world.store.when_durable(lambda number=number: print(number, flush=True))  # type: ignore[misc]
        world.settle()


def forget_early(world: World) -> None:
    """A planted fault: the record of a range goes with its first message, and not with its last."""
    environment = world.environment
    apply = environment.apply

    def forgetful(change: Callable[[Any], None]) -> None:
        def changed(transaction: Any) -> None:
            change(transaction)
            for span in environment.inherited.by_source.values():
                first = schema.position_key(span.source_id, span.source_rank, span.after + 1)
                if transaction.get(first, db=environment.database(schema.REFERENCES)) is None:
                    transaction.delete(record_of(span)[0], db=environment.database(schema.RECORDS))

        apply(changed)

    environment.apply = forgetful  # type: ignore[method-assign]


FAULTS: Final[dict[str, Callable[[World], None]]] = {"forget-early": forget_early}

if __name__ == "__main__":
    main(Path(sys.argv[1]), FAULTS[sys.argv[2]] if len(sys.argv) > 2 else lambda world: None)
