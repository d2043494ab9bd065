"""A store with something of everything, for the tests of what looks at it from outside."""

from pathlib import Path

from artemis_py.core.consumer import FAILED
from tests.core_harness import START_MS, attach, settle_down
from tests.unit.store.world import World, multicast


def fill(folder: Path) -> None:
    """Three messages in a queue, one scheduled and one failed once; one in two subscriptions; a duplicate id."""
    with World(folder) as world:
        queue = world.queue()
        world.send("q", "a", "b")
        world.send("q", "later", delivery_time_ms=START_MS + 1000)
        multicast(world, "t", "t.a", "t.b")
        world.send("t", "shared")
        world.office.duplicates(queue.address).add(b"id", durable=True, size=10)
        recorder, consumer = attach(world.office, queue, credit=1)
        settle_down(world.office)
        consumer.settle(recorder.take()[0], FAILED)
        world.stop()
