"""The index of last-value queues on disk: upgrades, damage, shared and large messages, and the commands on it."""

from collections.abc import Callable
from pathlib import Path

import lmdb
import pytest

from artemis_py.core.messages.builtin_format import PLAIN_FORMAT, plain_message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.cursors.cursor import ScanBudget
from artemis_py.core.queues.queue import Queue
from artemis_py.core.settings.address_settings import AddressSettings
from artemis_py.store import last_values, schema
from artemis_py.store.environment import Environment
from artemis_py.storetools.check import check_folder
from artemis_py.storetools.export import FileFormat, export_folder
from artemis_py.storetools.intake import import_file
from artemis_py.storetools.statistics import statistics
from tests.core_harness import attach, settle_down
from tests.property.test_last_value import audit
from tests.unit.store.test_damage import spoil
from tests.unit.store.world import SMALL_MAP_BYTES, World, bodies, multicast
from tests.unit.storetools.stores import send_large

FORMATS = {PLAIN_FORMAT.name: PLAIN_FORMAT}

SMALL = {"#": AddressSettings(max_read_page_messages=2)}


def send(world: World, address: str, *pairs: tuple[str, str], priority: int = 4) -> None:
    """Durable messages with keys: pairs of key and body."""
    for key, body in pairs:
        message = plain_message(address, MessageView(body=body, properties={"key": key}), True, priority)
        world.domain.route(message, world.domain.addresses[address])


def keyed(world: World, name: str = "q", **options: object) -> Queue:
    """A last-value queue."""
    return world.queue(name, last_value_key="key", **options)


def fill(folder: Path, count: int = 20) -> None:
    """A queue with so many keys, most of them on disk only."""
    with World(folder, SMALL) as world:
        keyed(world)
        send(world, "q", *[(f"k{number}", f"m{number}") for number in range(count)])
        world.settle()
        world.stop()


def test_start_reads_no_message_and_no_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start costs the same with any number of keys; a newer message then removes the older one without reading it."""
    fill(tmp_path, 1000)
    reads: list[object] = []
    read_page = Environment.read_page

    def counted(self: Environment, *arguments: object) -> object:
        reads.append(arguments)
        return read_page(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Environment, "read_page", counted)
    with World(tmp_path, SMALL) as world:
        queue = world.queue()
        send(world, "q", *[(f"k{number}", "new") for number in range(0, 1000, 10)])
        world.settle()

        assert reads == []
        assert (queue.message_count, queue.messages_replaced) == (1000, 100)
        assert world.domain.dispatcher.tables.size_bytes < 20_000
        audit(world)
        world.stop()
    assert check_folder(tmp_path) == []


def test_message_shared_by_queues_of_both_kinds_stays_where_it_is_not_replaced(tmp_path: Path) -> None:
    """A place that is removed without reading it gives up its share of the message."""
    with World(tmp_path, SMALL) as world:
        world.domain.create_address("t", frozenset(RoutingType))
        last = keyed(world, "t.last", address="t", routing_type=RoutingType.MULTICAST)
        (plain,) = multicast(world, "t", "t.plain")
        pairs = [(f"k{number}", f"m{number}") for number in range(10)]
        send(world, "t", *pairs)
        world.settle()
        send(world, "t", *pairs)
        world.settle()

        assert (last.message_count, plain.message_count) == (10, 20)
        audit(world)
        plain.purge()
        last.purge()
        world.settle()
        assert world.count(schema.MESSAGES) == 0
        audit(world)


def test_large_body_of_a_replaced_message_is_deleted(tmp_path: Path) -> None:
    """Though the message was on disk only and is not read."""
    with World(tmp_path, SMALL) as world:
        keyed(world)
        send(world, "q", *[(f"k{number}", "m") for number in range(5)])
        message = plain_message("q", MessageView(body="before", properties={"key": "big"}), durable=True)
        large = message.large = world.store.create_large(durable=True)
        large.append(bytes(100_000))
        large.finish()
        world.domain.route(message, world.domain.addresses["q"])
        large.release()
        del message, large
        world.settle()
        assert world.count(schema.BODIES) == 1

        send(world, "q", ("big", "small"))
        world.settle()

        assert world.count(schema.BODIES) == 0
        audit(world)
    assert check_folder(tmp_path) == []


def test_deleted_queue_leaves_no_entry(tmp_path: Path) -> None:
    """Nor does one whose references take several commits."""
    fill(tmp_path, 30)
    with World(tmp_path, SMALL) as world:
        world.environment.drop_slice = 7
        world.domain.delete_queue("q")
        world.settle()
        assert [world.count(name) for name in (schema.REFERENCES, schema.LAST_VALUES)] == [0, 0]
        world.stop()


def make_older(folder: Path, version: int) -> None:
    """Make a store what an earlier release wrote: without the database."""
    with Environment(folder, SMALL_MAP_BYTES) as environment, environment.begin(write=True) as transaction:
        meta = environment.database(schema.META)
        transaction.put(schema.FORMAT_KEY, schema.U32.pack(version), db=meta)
        transaction.drop(environment.database(schema.LAST_VALUES))


def test_store_of_the_format_before_is_read_and_changed_by_its_first_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """By the commands, too, before that. The log says once that there is no way back."""
    caplog.set_level("INFO", "artemis_py.store.format")
    with World(tmp_path) as world:
        world.queue()
        world.send("q", "old")
        world.settle()
        world.stop()
    make_older(tmp_path, schema.KEYLESS_FORMAT)
    assert check_folder(tmp_path) == []
    assert statistics(tmp_path).format == schema.KEYLESS_FORMAT

    with World(tmp_path) as world:
        keyed(world, "new")
        send(world, "new", ("a", "1"), ("a", "2"))
        world.settle()
        assert (bodies(world.queue()), bodies(world.queue("new"))) == (["old"], ["2"])
        world.stop()

    assert check_folder(tmp_path) == []
    assert statistics(tmp_path).format == schema.FORMAT_VERSION
    with World(tmp_path) as world:
        world.stop()
    lines = [message for message in caplog.messages if message.startswith("store converted")]
    assert len(lines) == 1
    assert lines[0].endswith(f"from={schema.KEYLESS_FORMAT} to={schema.FORMAT_VERSION}")


def test_queue_that_was_plain_stays_plain_after_a_restart(tmp_path: Path) -> None:
    """Though the settings of its address have changed; a last-value queue stays one."""
    lasting = {"plain": AddressSettings(default_last_value_queue=True), "last": AddressSettings()}
    with World(tmp_path, {"last": AddressSettings(default_last_value_key="key")}) as world:
        world.queue("plain")
        world.queue("last")
        world.settle()
        world.stop()

    with World(tmp_path, lasting) as world:
        for name in ("plain", "last"):
            send(world, name, ("a", "1"), ("a", "2"))
        world.settle()

        assert bodies(world.queue("plain")) == ["1", "2"]
        assert bodies(world.queue("last")) == ["2"]
        assert world.queue("last").settings.last_value_key == "key"
        assert not world.queue("plain").settings.last_value


@pytest.mark.parametrize("is_committed", [False, True])
def test_browser_that_read_ahead_is_not_shown_what_was_replaced(tmp_path: Path, is_committed: bool) -> None:
    """Also if the removal is committed, so that nothing in memory remembers it."""
    fill(tmp_path)
    with World(tmp_path, SMALL) as world:
        queue = world.queue()
        _, browser = attach(world.domain, queue, 0, browse=True)
        browser.credit = 10
        assert browser.cursor is not None
        shown = [browser.cursor.next(browser, ScanBudget(1000))]
        send(world, "q", ("k1", "new 1"))
        if is_committed:
            world.settle()
            send(world, "q", ("k2", "new 2"))
            world.settle()

        shown += [browser.cursor.next(browser, ScanBudget(1000)) for _ in range(3)]

        expected = ["m0", "m3", "m4", "m5"] if is_committed else ["m0", "m2", "m3", "m4"]
        assert [None if one is None else one.message.view.body for one in shown] == expected


# -- damage ----------------------------------------------------------------------------------------------------


def test_damaged_entry_is_set_aside_and_both_messages_stay(tmp_path: Path) -> None:
    """Nothing is lost; the next message of the key is alone again once they are consumed."""
    fill(tmp_path)
    key = spoil(tmp_path, schema.LAST_VALUES)[schema.U32.size :].decode()
    assert len(check_folder(tmp_path)) == 1

    with World(tmp_path, SMALL) as world:
        queue = world.queue()
        send(world, "q", (key, "new"))
        world.settle()

        assert world.count(schema.DAMAGED) == 1
        assert queue.message_count == 21
        recorder, consumer = attach(world.domain, queue)
        settle_down(world.domain)
        for reference in recorder.take():
            consumer.settle(reference, 0)
        world.settle()
        assert [world.count(name) for name in (schema.REFERENCES, schema.LAST_VALUES)] == [0, 0]
        assert queue.message_count == 0


def test_entry_of_a_damaged_message_means_nothing(tmp_path: Path) -> None:
    """The message is lost and counted as such when it is read, and not a second time by its key."""
    fill(tmp_path)
    spoil(tmp_path, schema.REFERENCES)
    with World(tmp_path, SMALL) as world:
        queue = world.queue()
        assert len(bodies(queue)) == 19
        world.settle()

        send(world, "q", ("k0", "new"))
        world.settle()

        assert queue.message_count == len(bodies(queue)) == 20
        audit_without_entries_of_lost(world)


def audit_without_entries_of_lost(world: World) -> None:
    """Every message has its entry."""
    with world.environment.begin() as transaction:
        index = world.environment.database(schema.LAST_VALUES)
        for key, value in transaction.cursor(db=world.environment.database(schema.REFERENCES)):
            last_key = schema.last_key_in(bytes(value))
            assert last_key is not None
            entry_key = last_values.entry_key(schema.read_place(bytes(key))[0], last_key)
            entry = transaction.get(entry_key, db=index)
            assert entry is not None
            assert last_values.read_entry(entry_key, bytes(entry))[0] == schema.read_place(bytes(key))[1]


def change(folder: Path, edit: Callable[[Environment, lmdb.Transaction, bytes, bytes], object]) -> None:
    """Change the first entry of the index, with a right checksum."""
    with Environment(folder, SMALL_MAP_BYTES) as environment, environment.begin(write=True) as transaction:
        cursor = transaction.cursor(db=environment.database(schema.LAST_VALUES))
        assert cursor.first()
        edit(environment, transaction, bytes(cursor.key()), bytes(cursor.value()))


def forget(environment: Environment, transaction: lmdb.Transaction, key: bytes, value: bytes) -> None:
    transaction.delete(key, db=environment.database(schema.LAST_VALUES))


def name_another(environment: Environment, transaction: lmdb.Transaction, key: bytes, value: bytes) -> None:
    handle, size = last_values.read_entry(key, value)
    changed = last_values.entry_value(key, handle + 1, size)
    transaction.put(key, changed, db=environment.database(schema.LAST_VALUES))


def name_none(environment: Environment, transaction: lmdb.Transaction, key: bytes, value: bytes) -> None:
    changed = last_values.entry_value(key, 1 << 40, 10)
    transaction.put(key, changed, db=environment.database(schema.LAST_VALUES))


@pytest.mark.parametrize(
    ("edit", "problem"),
    [
        (forget, "its last-value key is missing in last-values"),
        (name_another, "its reference has another last-value key"),
        (name_none, "its reference does not exist"),
    ],
)
def test_check_finds_wrong_entries(
    tmp_path: Path, edit: Callable[[Environment, lmdb.Transaction, bytes, bytes], object], problem: str
) -> None:
    """Each entry has its reference, and each reference with a key its entry."""
    fill(tmp_path)
    change(tmp_path, edit)

    assert any(one.endswith(problem) for one in check_folder(tmp_path))


# -- export and import -----------------------------------------------------------------------------------------


def export(folder: Path, target: Path) -> Path:
    assert export_folder(folder, target, FileFormat.JSONL, FORMATS).left_out == []
    return target


def test_import_makes_the_index(tmp_path: Path) -> None:
    """From the messages themselves."""
    fill(tmp_path / "old")
    file = export(tmp_path / "old", tmp_path / "file")

    import_file(tmp_path / "new", file, FileFormat.JSONL, FORMATS)

    assert check_folder(tmp_path / "new") == []
    with World(tmp_path / "new", SMALL) as world:
        send(world, "q", ("k3", "new"))
        world.settle()
        assert len(bodies(world.queue())) == 20
        audit(world)


def test_imported_messages_replace_those_of_an_existing_queue(tmp_path: Path) -> None:
    """They come after them. Messages of a plain queue, in whatever order they are exported, replace each other, too."""
    with World(tmp_path / "plain") as world:
        world.domain.create_address("q", frozenset(RoutingType))
        world.queue()
        multicast(world, "q", "other")
        send(world, "q", ("k1", "last of k1"), priority=3)
        send(world, "q", ("k2", "first of k2"), priority=9)
        send(world, "q", ("k2", "last of k2"), priority=3)
        world.settle()
        world.stop()
    file = export(tmp_path / "plain", tmp_path / "file")
    fill(tmp_path / "here", 3)

    import_file(tmp_path / "here", file, FileFormat.JSONL, FORMATS)

    assert check_folder(tmp_path / "here") == []
    with World(tmp_path / "here", SMALL) as world:
        assert bodies(world.queue()) == ["m0", "last of k1", "last of k2"]
        assert len(bodies(world.queue("other"))) == 3
        audit(world)


def test_large_message_of_a_last_value_queue_is_checked_and_exported(tmp_path: Path) -> None:
    """The key before it in its value is in nobody's way."""
    with World(tmp_path / "old") as world:
        world.queue("q", last_value_key="JMSPriority")
        send_large(world, "q", bytes(200_000))
        world.settle()
        assert world.count(schema.LAST_VALUES) == 1
        world.stop()
    assert check_folder(tmp_path / "old") == []

    import_file(tmp_path / "new", export(tmp_path / "old", tmp_path / "file"), FileFormat.JSONL, FORMATS)

    assert check_folder(tmp_path / "new") == []
