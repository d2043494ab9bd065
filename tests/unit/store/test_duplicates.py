"""Duplicate ids on disk: stored with their messages, known after a restart (artemis-model §3.13, P11)."""

import logging
from pathlib import Path

import pytest

from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.routing.duplicates import duplicate_id
from artemis_py.core.routing.transaction import Transaction
from artemis_py.core.settings.address_settings import AddressSettings
from artemis_py.core.settings.broker_settings import BrokerSettings
from artemis_py.store import schema
from tests.core_harness import START_MS, make_session
from tests.unit.store.test_damage import spoil
from tests.unit.store.world import World, bodies

ID = duplicate_id("id")


def send(world: World, body: str, id: object, durable: bool = True, transaction: Transaction | None = None) -> int:
    """Through address `q`, under an id or under none."""
    message = plain_message("q", MessageView(body=body))
    message.durable = durable
    if id is None:
        return world.domain.route(message, world.domain.address("q"), "", transaction)
    return world.domain.route_once(message, world.domain.address("q"), "", transaction, duplicate_id(id))


def test_an_id_is_in_the_batch_of_its_message(tmp_path: Path) -> None:
    """artemis-model §3.13: atomically; a crash leaves both or neither."""
    with World(tmp_path) as world:
        world.queue()
        world.settle()
        send(world, "m", "id")
        world.hands.turn()
        before = (world.count(schema.REFERENCES), world.count(schema.DUPLICATES))
        world.commit()
        after = (world.count(schema.REFERENCES), world.count(schema.DUPLICATES))

    assert before == (0, 0)
    assert after == (1, 1)


def test_a_restart_knows_the_ids(tmp_path: Path) -> None:
    """P11, also after the message was consumed."""
    with World(tmp_path) as world:
        queue = world.queue()
        send(world, "m", "id")
        world.settle()
        queue.purge()
        world.settle()

    with World(tmp_path) as world:
        assert send(world, "again", "id") == 0
        assert send(world, "new", "other") == 1


def test_what_was_not_committed_is_not_known(tmp_path: Path) -> None:
    """The sender got no answer, and its message is not there: it will be taken."""
    with World(tmp_path) as world:
        world.queue()
        world.settle()
        send(world, "lost", "id")

    with World(tmp_path) as world:
        assert send(world, "again", "id") == 1


def test_a_duplicate_of_what_is_being_committed_waits_for_it(tmp_path: Path) -> None:
    """Its sender must not be told that a message is safe which is not yet."""
    with World(tmp_path) as world:
        world.queue()
        world.settle()
        send(world, "m", "id")
        world.hands.turn()
        told: list[bool] = []
        send(world, "again", "id")
        world.store.when_durable(lambda: told.append(True))
        before = list(told)
        world.settle()

        assert (before, told) == ([], [True])


def test_the_circle_goes_on_after_a_restart(tmp_path: Path) -> None:
    """`id-cache-size` on disk as well: the oldest give way in the order they came."""
    settings = {"q": AddressSettings(id_cache_size=3)}
    with World(tmp_path, settings) as world:
        world.queue()
        for number in range(5):
            send(world, "m", number)
        world.settle()
        assert world.count(schema.DUPLICATES) == 3

    with World(tmp_path, settings) as world:
        taken = [send(world, "m", number) for number in (2, 3, 4, 5, 2, 4)]
        world.settle()
        assert taken == [0, 0, 0, 1, 1, 0]
        assert world.count(schema.DUPLICATES) == 3

    with World(tmp_path, settings) as world:
        assert [send(world, "m", number) for number in (4, 5, 2, 3)] == [0, 0, 0, 1]


def test_a_smaller_cache_after_a_restart_removes_the_rest(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        world.queue()
        for number in range(10):
            send(world, "m", number)
        world.settle()

    with World(tmp_path, {"q": AddressSettings(id_cache_size=2)}) as world:
        send(world, "m", "new")
        world.settle()
        assert world.count(schema.DUPLICATES) == 2


def test_ids_of_messages_that_are_not_durable_are_not_stored(tmp_path: Path) -> None:
    """After a crash neither message nor id is there; numbers between stored ones may be missing."""
    with World(tmp_path) as world:
        world.queue()
        for number in range(6):
            send(world, "m", number, durable=number % 2 == 0)
        world.settle()
        assert world.count(schema.DUPLICATES) == 3

    with World(tmp_path) as world:
        assert [send(world, "m", number) for number in range(6)] == [0, 1, 0, 1, 0, 1]


def test_a_transaction_stores_its_ids_at_the_commit(tmp_path: Path) -> None:
    """With its messages, in one batch; a rollback stores none."""
    with World(tmp_path) as world:
        world.queue()
        session = make_session(world.domain)
        kept, undone = session.begin(), session.begin()
        send(world, "kept", "kept", transaction=kept)
        send(world, "undone", "undone", transaction=undone)
        world.settle()
        before = world.count(schema.DUPLICATES)
        session.commit(kept)
        session.rollback(undone)
        world.hands.turn()
        assert len(world.hands.jobs) == 1
        world.settle()
        assert (before, world.count(schema.DUPLICATES)) == (0, 1)

    with World(tmp_path) as world:
        assert [send(world, "again", id) for id in ("kept", "undone")] == [0, 1]
        assert bodies(world.queue()) == ["kept", "again"]


def test_an_id_of_a_durable_transaction_is_stored_though_its_message_is_not_durable(tmp_path: Path) -> None:
    """One id is enough to protect all of a transaction."""
    with World(tmp_path) as world:
        world.queue()
        session = make_session(world.domain)
        transaction = session.begin()
        send(world, "with id", "id", durable=False, transaction=transaction)
        send(world, "durable", None, transaction=transaction)
        session.commit(transaction)
        world.settle()

    with World(tmp_path) as world:
        assert send(world, "again", "id") == 0


def test_without_persistence_of_ids_a_restart_forgets(tmp_path: Path) -> None:
    """`persist-id-cache` false."""
    options = BrokerSettings(persist_id_cache=False)
    with World(tmp_path, options=options) as world:
        world.queue()
        send(world, "m", "id")
        assert send(world, "again", "id") == 0
        world.settle()
        assert world.count(schema.DUPLICATES) == 0

    with World(tmp_path, options=options) as world:
        assert send(world, "again", "id") == 1


def test_a_deleted_address_takes_its_ids_along(tmp_path: Path) -> None:
    """Only its own; the new one of the same name starts anew."""
    with World(tmp_path) as world:
        world.queue()
        send(world, "m", "id")
        world.queue("r")
        message = plain_message("r", MessageView(body="m"))
        message.durable = True
        world.domain.route_once(message, world.domain.address("r"), "", None, ID)
        world.settle()
        world.domain.delete_address("q", force=True)
        world.queue()
        assert send(world, "new", "id") == 1
        world.settle()
        assert world.count(schema.DUPLICATES) == 2

    with World(tmp_path) as world:
        world.domain.delete_address("q", force=True)
        world.settle()
        assert world.count(schema.DUPLICATES) == 1


def test_a_temporary_address_stores_no_ids(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        session = make_session(world.domain)
        queue = session.create_temporary_queue(RoutingType.ANYCAST)
        message = plain_message(queue.name, MessageView(body="m"))
        message.durable = True
        world.domain.route_once(message, queue.address, "", None, ID)
        world.settle()

        assert ID in world.domain.duplicates.of(queue.address)
        assert world.count(schema.DUPLICATES) == 0


def test_clearing_the_cache_clears_it_on_disk(tmp_path: Path) -> None:
    """`clearDuplicateIdCache`, also before the ids were asked for in this run."""
    with World(tmp_path) as world:
        world.queue()
        for number in range(3):
            send(world, "m", number)
        world.settle()

    with World(tmp_path) as world:
        assert world.domain.duplicates.of(world.domain.address("q")).clear() == 3
        world.settle()
        assert world.count(schema.DUPLICATES) == 0

    with World(tmp_path) as world:
        assert send(world, "again", 1) == 1


def test_a_damaged_id_is_passed_over_and_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """R8: the others hold, and it gives way in its turn."""
    settings = {"q": AddressSettings(id_cache_size=3)}
    with World(tmp_path, settings) as world:
        world.queue()
        for number in range(3):
            send(world, "m", number)
        world.settle()
    spoil(tmp_path, schema.DUPLICATES)

    with caplog.at_level(logging.ERROR), World(tmp_path, settings) as world:
        assert [send(world, "m", number) for number in (1, 2, 0)] == [0, 0, 1]
        world.settle()
    assert "damaged duplicate id" in caplog.text


def test_after_a_failed_commit_nothing_is_known_of_its_ids_at_the_next_start(tmp_path: Path) -> None:
    """P15: what was not confirmed may be sent again."""
    with World(tmp_path) as world:
        world.queue()
        world.settle()
        send(world, "m", "id")
        world.hands.turn()
        world.hands.work("disk full")
        assert world.store.load_duplicates(world.domain.address("q")) == []

    with World(tmp_path) as world:
        world.domain.dispatcher.now_ms = START_MS
        assert send(world, "again", "id") == 1


def test_an_id_that_was_removed_leaves_the_others_as_they_are(tmp_path: Path) -> None:
    """A branch that is rolled back gives its ids back, from the middle too; numbers are not used twice."""
    with World(tmp_path) as world:
        queue = world.queue()
        for id in ("a", "b", "c"):
            send(world, id, id)
        world.settle()
        world.domain.duplicates.remove(queue.address, duplicate_id("b"))
        world.domain.duplicates.remove(queue.address, duplicate_id("b"))
        world.settle()
        stored = world.count(schema.DUPLICATES)
        again = [send(world, id, id) for id in ("a", "b", "c")]
        world.settle()

    with World(tmp_path) as world:
        known = [send(world, id, id) for id in ("a", "b", "c", "d")]
    assert (stored, again, known) == (2, [0, 1, 0], [0, 0, 0, 1])
