"""A store that works until it dies: `python -m tests.crash.victim folder`.

Step n puts a message for two subscriptions, moves the oldest message of a queue to another queue in the same turn
(as to a dead-letter address), puts a new one there, and prints n when all that was confirmed. If the store fails
instead it prints the reason and tries to go on, which must confirm nothing.
"""

import sys
from pathlib import Path
from typing import Final

from tests.unit.store.world import World, multicast

STEPS: Final = 12


def main(folder: Path) -> None:
    """All steps; what is printed leaves the process at once."""
    world = World(folder)
    source, target = world.queue("source"), world.queue("target")
    multicast(world, "news", "news.a", "news.b")
    for step in range(STEPS):
        waiting = source.browse_all()
        if waiting:
            body = waiting[0].message.view.body
            source.purge()
            world.send("target", str(body))
        if world.store.failure is None:
            world.send("source", f"m{step}")
            world.send("news", f"m{step}")
        world.store.when_durable(lambda step=step: print(step, flush=True), lambda why: print("failed", flush=True))  # type: ignore[misc]
        world.settle()
        if world.store.failure is not None:
            break
    world.store.when_durable(lambda: print("end", flush=True), lambda why: print("failed", flush=True))
    assert target.message_count <= STEPS


if __name__ == "__main__":
    main(Path(sys.argv[1]))
