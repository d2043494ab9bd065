"""A broker that copies a long history until it dies: `python -m tests.crash.retroactive_victim folder [fault]`.

The copying takes many turns, each of them with a commit, and messages come in between. It prints "sent" when the
history is on disk, and "copied" when the queue has everything.
"""

import sys
from pathlib import Path
from typing import Final

from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.services import catching_up, retroactive
from artemis_py.core.settings.address_settings import AddressSettings
from artemis_py.core.settings.queue_config import QueueConfig
from tests.unit.store.world import World

SETTINGS: Final = {"news": AddressSettings(retroactive_message_count=100, max_read_page_messages=2)}
RING: Final = "$.artemis.internal.news.queue.multicast.retro"
HISTORY: Final = 12
LATER: Final = 4


def take_small_steps() -> None:
    """Make slices small; only for a process of its own."""
    retroactive.AT_ONCE = 2  # type: ignore[attr-defined]
    catching_up.SLICE = 2  # type: ignore[misc]
    catching_up.PER_ARRIVAL = 1  # type: ignore[misc]


def open_world(folder: Path) -> World:
    """A broker on this folder."""
    world = World(folder, SETTINGS)
    world.services.retroactive.restore()
    return world


def commit(world: World) -> None:
    """Make durable what happened, without another slice."""
    while world.hands.planned or world.hands.jobs:
        world.hands.turn()
        while world.hands.jobs:
            world.hands.work()


def main(folder: Path) -> None:
    """Send, create, and send while the history is copied; what is printed leaves the process at once."""
    world = open_world(folder)
    domain = world.domain
    domain.create_address("news", frozenset(RoutingType))
    world.send("news", *[f"m{number}" for number in range(HISTORY)])
    world.settle()
    print("sent", flush=True)
    domain.create_queue(QueueConfig(name="late", address="news", routing_type=RoutingType.MULTICAST))
    for number in range(HISTORY, HISTORY + LATER):
        commit(world)
        world.send("news", f"m{number}")
        domain.dispatcher.run()
    while world.services.retroactive.catching_up:
        commit(world)
        domain.dispatcher.run()
    commit(world)
    print("copied", flush=True)


def without_record() -> None:
    """A planted fault: nothing says how far the queue is."""
    setattr(catching_up.CatchUp, "save", lambda self: None)  # noqa: B010


def record_first() -> None:
    """A planted fault: the record is always one step old."""
    save = catching_up.CatchUp.save

    def late(self: catching_up.CatchUp) -> None:
        position = self.reader.position
        self.reader.position = max(0, position - 2)
        save(self)
        self.reader.position = position

    setattr(catching_up.CatchUp, "save", late)  # noqa: B010


FAULTS: Final = {"without-record": without_record, "record-first": record_first}

if __name__ == "__main__":
    for fault in sys.argv[2:]:
        FAULTS[fault]()
    take_small_steps()
    main(Path(sys.argv[1]))
