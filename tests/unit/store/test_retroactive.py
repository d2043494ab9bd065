"""Histories of retroactive addresses in the store: what survives, and how often."""

from pathlib import Path

from artemis_py.core.settings.address_settings import AddressSettings
from artemis_py.core.settings.broker_settings import BrokerSettings
from artemis_py.store import schema
from tests.core_harness import (
    browse_all,
    make_message,
)
from tests.unit.core.retroactive_world import BOTH, PREFIX, THREE, create
from tests.unit.store.world import World
from tests.unit.store.world import bodies as stored_bodies


def restored(folder: Path) -> World:
    """A broker on this folder, with its histories."""
    world = World(folder, {"a": AddressSettings(retroactive_message_count=5, max_read_page_messages=2)})
    world.services.retroactive.restore()
    if "a" not in world.domain.addresses:
        world.domain.create_address("a", BOTH)
    return world


def test_a_history_survives_a_restart_and_is_not_there_twice(tmp_path: Path) -> None:
    with restored(tmp_path) as world:
        world.send("a", *"123456")
        create(world.domain)
        world.settle()
    with restored(tmp_path) as world:
        assert len(world.domain.others) == 1
        assert stored_bodies(world.domain.queues["q"]) == list("23456")
        world.send("a", "7")
        late = create(world.domain, "late")
        world.settle()

        assert stored_bodies(world.domain.queues["q"]) == list("234567")
        assert stored_bodies(late) == list("34567")
        world.audit()


def test_the_store_has_each_body_once(tmp_path: Path) -> None:
    """The rings, the queues that were there and those that come later refer to the same message."""
    with restored(tmp_path) as world:
        create(world.domain, "early")
        world.send("a", *"12345")
        world.settle()
        for number in range(3):
            create(world.domain, f"late{number}")
            world.settle()

        assert world.count(schema.MESSAGES) == 5
        assert world.count(schema.REFERENCES) == 30
        world.audit()
    with restored(tmp_path) as world:
        create(world.domain, "afterwards")
        world.settle()
        assert world.count(schema.MESSAGES) == 5
        for name in list(world.domain.queues):
            if not name.startswith(PREFIX):
                world.domain.delete_queue(name)
        world.domain.delete_address("a")
        world.settle()

        assert (world.count(schema.MESSAGES), world.count(schema.REFERENCES)) == (0, 0)
        world.audit()


def test_a_large_body_is_shared_and_deleted_with_the_last_reference(tmp_path: Path) -> None:
    with restored(tmp_path) as world:
        body = world.domain.storage.create_large(True)
        body.append(b"x" * 1000)
        body.finish()
        message = make_message("head", durable=True)
        world.send("a", "small")
        sent = world.domain.queues[f"{PREFIX}a.queue.multicast.retro"]
        message = browse_all(sent)[0].message.copy("a")
        message.durable = True
        message.large = body
        world.domain.route(message, world.domain.addresses["a"])
        body.release()
        late = create(world.domain)
        world.settle()
        references = browse_all(late)

        assert references[1].message.large is not None
        assert references[1].message.large.load() == b"x" * 1000
        world.domain.delete_address("a", force=True)
        world.settle()
        assert world.count(schema.BODIES) == 0


def test_the_setting_may_go_while_the_broker_is_down(tmp_path: Path) -> None:
    with restored(tmp_path) as world:
        world.send("a", "1")
        world.settle()
    with World(tmp_path) as world:
        world.services.retroactive.restore()
        world.settle()

        assert set(world.domain.addresses) == {"a"}
        assert world.domain.queues == {}
        world.audit()


def test_another_prefix_replaces_the_histories_of_the_one_before(tmp_path: Path) -> None:
    with restored(tmp_path) as world:
        world.send("a", "1")
        world.settle()
    with World(tmp_path, {"a": THREE}, BrokerSettings(internal_naming_prefix="own.")) as world:
        world.services.retroactive.restore()
        world.settle()

        assert set(world.domain.addresses) == {"a", "own.a.address.retro"}
        world.audit()
