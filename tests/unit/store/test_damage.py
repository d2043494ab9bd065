"""A store that is not as it was left: another format, another broker, values that somebody changed."""

import logging
import os
from pathlib import Path

import pytest

from artemis_py.core.messages.builtin_format import PLAIN_FORMAT
from artemis_py.core.messages.message import Message
from artemis_py.core.messages.record import MissingFormat, decode_message, encode_message
from artemis_py.core.queues.settlement import acknowledge
from artemis_py.errors import DamagedValue, ProtocolError, StoreError
from artemis_py.store import schema
from artemis_py.store.environment import Environment
from artemis_py.store.large import LargeFiles
from artemis_py.store.numbers import FAR
from artemis_py.storetools.check import check_folder
from tests.core_harness import START_MS, browse_all
from tests.unit.store.world import SMALL_MAP_BYTES, World, bodies, multicast
from tests.unit.storetools.stores import BODY, fill_large, large_bodies


def spoil(folder: Path, database: bytes, offset: int = -1) -> bytes:
    """Change one octet of the first value of a database; returns its key."""
    with Environment(folder, SMALL_MAP_BYTES) as environment, environment.begin(write=True) as transaction:
        cursor = transaction.cursor(db=environment.database(database))
        assert cursor.first()
        key, value = bytes(cursor.key()), bytearray(cursor.value())
        value[offset] ^= 0x40
        transaction.put(key, bytes(value), db=environment.database(database))
        return key


@pytest.mark.parametrize(("version", "advice"), [(12, "newer release"), (1, "older release")])
def test_another_format_is_refused_with_what_to_do(tmp_path: Path, version: int, advice: str) -> None:
    """A store is never read by guessing."""
    with Environment(tmp_path, SMALL_MAP_BYTES) as environment, environment.begin(write=True) as transaction:
        meta = environment.database(schema.META)
        transaction.put(schema.FORMAT_KEY, schema.U32.pack(version), db=meta)

    for _ in range(2):  # the folder is free again after the refusal
        with pytest.raises(StoreError, match=f"has format {version}.*{advice}"):
            Environment(tmp_path, SMALL_MAP_BYTES)


def unseal_numbers(folder: Path) -> None:
    """Make a store what the release before wrote: numbers and counts have no checksums."""
    with Environment(folder, SMALL_MAP_BYTES) as environment, environment.begin(write=True) as transaction:
        meta, marks = environment.database(schema.META), environment.database(schema.MARKS)
        transaction.put(schema.FORMAT_KEY, schema.U32.pack(schema.UNSEALED_FORMAT), db=meta)
        forms = {
            schema.NEXT_MESSAGE_ID: schema.U64,
            schema.NEXT_QUEUE_ID: schema.U32,
            schema.NEXT_SCHEDULED: schema.U64,
        }
        for key, form in forms.items():
            number = schema.read_number(key, bytes(transaction.get(key, b"", db=meta)))
            transaction.put(key, form.pack(number), db=meta)
        for database in (marks, environment.database(schema.SHARES), environment.database(schema.BODIES)):
            for name, value in list(transaction.cursor(db=database)):
                transaction.put(bytes(name), bytes(value)[schema.U32.size :], db=database)


def test_a_store_without_checksums_of_numbers_is_changed_by_its_first_start(tmp_path: Path) -> None:
    """What the release before wrote is read, goes on with its numbers, and has its checksums afterwards."""
    with World(tmp_path) as world:
        multicast(world, "t", "t.a", "t.b")
        world.send("t", "old")
        world.settle()
        world.stop()
    unseal_numbers(tmp_path)
    assert check_folder(tmp_path) == []

    with World(tmp_path) as world:
        world.send("t", "new")
        world.settle()
        world.audit()
        assert [bodies(world.queue(name)) for name in ("t.a", "t.b")] == [["old", "new"]] * 2
        for reference in browse_all(world.queue("t.a")):
            acknowledge(reference)
        world.settle()
        world.audit()
        world.stop()
    assert check_folder(tmp_path) == []


def lower(folder: Path, database: bytes, key: bytes) -> None:
    """Put a number back by the bits of a damaged octet, as no program would write it."""
    with Environment(folder, SMALL_MAP_BYTES) as environment, environment.begin(write=True) as transaction:
        value = bytearray(transaction.get(key, b"", db=environment.database(database)))
        value[-8:] = schema.U64.pack(1)
        transaction.put(key, bytes(value), db=environment.database(database))


def test_a_lowered_mark_overwrites_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Sequences go on far above, the readers of the queue are told of the gap, and the log of the damage."""
    old = [f"old{number}" for number in range(30)]
    new = [f"new{number}" for number in range(30)]
    with World(tmp_path) as world:
        world.queue()
        world.send("q", *old)
        world.settle()
        world.stop()
    lower(tmp_path, schema.MARKS, schema.U32.pack(1))

    with caplog.at_level(logging.ERROR), World(tmp_path) as world:
        world.send("q", *new)
        world.settle()
        world.audit()
        assert bodies(world.queue()) == [*old, *new]
        last = browse_all(world.queue())[-1].sequence
        assert world.queue().skipped == ((31, 31 + FAR),)
        assert last == 31 + FAR + 29
        world.stop()
    assert "queue=q last=30" in caplog.text
    with World(tmp_path) as world:
        assert bodies(world.queue()) == [*old, *new]
    assert check_folder(tmp_path) == []


def test_a_mark_damaged_twice_gives_no_sequence_twice(tmp_path: Path) -> None:
    """Also if nothing is left that had one: what was skipped is remembered."""
    given = []
    for _ in range(3):
        with World(tmp_path) as world:
            world.queue()
            world.send("q", "m")
            world.settle()
            (reference,) = browse_all(world.queue())
            given.append(reference.sequence)
            acknowledge(reference)
            world.settle()
            world.stop()
        lower(tmp_path, schema.MARKS, schema.U32.pack(1))

    assert len(set(given)) == 3
    assert given == sorted(given)


@pytest.mark.parametrize("name", [schema.NEXT_MESSAGE_ID, schema.NEXT_QUEUE_ID, schema.NEXT_SCHEDULED])
def test_a_lowered_number_gives_nothing_twice(tmp_path: Path, name: bytes) -> None:
    """Shared messages, queues and scheduled messages keep what they have."""
    due = START_MS + 1_000_000
    with World(tmp_path) as world:
        multicast(world, "t", "t.a", "t.b")
        world.send("t", "old")
        world.queue()
        world.send("q", "later", delivery_time_ms=due)
        world.settle()
        world.stop()
    lower(tmp_path, schema.META, name)

    with World(tmp_path) as world:
        multicast(world, "u", "u.a", "u.b")
        world.send("u", "new")
        world.send("q", "later still", delivery_time_ms=due)
        world.settle()
        world.audit()
        world.stop()
    with World(tmp_path) as world:
        assert [bodies(world.queue(f"t.{one}")) for one in "ab"] == [["old"], ["old"]]
        assert [bodies(world.queue(f"u.{one}")) for one in "ab"] == [["new"], ["new"]]
        world.audit()
    assert check_folder(tmp_path) == []


@pytest.mark.parametrize("database", [schema.SHARES, schema.BODIES])
def test_a_damaged_count_keeps_what_it_counts(tmp_path: Path, database: bytes) -> None:
    """A message, or the file of a body, that may still be needed is not deleted."""
    fill_large(tmp_path)
    spoil(tmp_path, database)

    with World(tmp_path) as world:
        for name in ("l.a", "t.a", "big"):
            for reference in list(browse_all(world.queue(name))):
                acknowledge(reference)
        world.settle()
        assert large_bodies(world, "l.b") == [BODY[::-1]]
        assert bodies(world.queue("t.b")) == ["shared"]
        assert (world.count(schema.MESSAGES), world.count(database)) == (2, 2)


def test_a_second_broker_on_the_folder_is_refused_and_told_who_has_it(tmp_path: Path) -> None:
    """Two brokers would overwrite each other's messages."""
    with Environment(tmp_path, SMALL_MAP_BYTES), pytest.raises(StoreError, match=f"process {os.getpid()}"):
        Environment(tmp_path, SMALL_MAP_BYTES)

    Environment(tmp_path, SMALL_MAP_BYTES).close()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """A file is in the way."""
    (tmp_path / "data").write_text("")

    with pytest.raises(StoreError, match="data/journal"):
        Environment(tmp_path / "data" / "journal", SMALL_MAP_BYTES)


def test_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    """By its meta pages; it stays as it is."""
    (tmp_path / "data.mdb").write_bytes(b"x" * 16384)

    for _ in range(2):  # the folder is free again after the refusal
        with pytest.raises(StoreError, match=r"neither of its first two pages .* Put a backup in its place"):
            Environment(tmp_path, SMALL_MAP_BYTES)

    assert (tmp_path / "data.mdb").read_bytes() == b"x" * 16384


def test_a_damaged_message_is_set_aside_and_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """R8: the others are served, and the next start does not complain again."""
    with World(tmp_path) as world:
        world.queue()
        world.send("q", "a", "b", "c")
        world.settle()
    key = spoil(tmp_path, schema.REFERENCES)

    with caplog.at_level(logging.ERROR), World(tmp_path) as world:
        assert bodies(world.queue()) == ["b", "c"]
        assert world.queue().message_count == 2
        world.settle()
        assert world.count(schema.DAMAGED) == 1
        world.audit()
    assert key.hex() in caplog.text

    caplog.clear()
    with World(tmp_path) as world:
        assert bodies(world.queue()) == ["b", "c"]
    assert not caplog.records


def test_references_to_a_damaged_shared_message_go_with_it(tmp_path: Path) -> None:
    """R8: they refer to nothing."""
    with World(tmp_path) as world:
        multicast(world, "t", "a", "b")
        world.send("t", "one")
        world.send("t", "two")
        world.settle()
    spoil(tmp_path, schema.MESSAGES)

    with World(tmp_path) as world:
        assert [bodies(world.queue(name)) for name in ("a", "b")] == [["two"], ["two"]]
        world.settle()
        assert world.count(schema.DAMAGED) == 3
        world.audit()


def test_a_damaged_delivery_count_starts_anew(tmp_path: Path) -> None:
    """R8: the message is worth more than its count."""
    with World(tmp_path) as world:
        queue = world.queue()
        world.send("q", "m")
        (reference,) = browse_all(queue)
        reference.delivery_count = 3
        world.store.update(reference, 0)
        world.settle()
    spoil(tmp_path, schema.ATTEMPTS)

    with World(tmp_path) as world:
        (reference,) = browse_all(world.queue())
        assert (reference.message.view.body, reference.delivery_count) == ("m", 0)


def test_a_damaged_count_is_counted_again(tmp_path: Path) -> None:
    """R8: what is counted is on disk."""
    with World(tmp_path) as world:
        world.queue()
        world.send("q", "a", "b")
        world.settle()
    spoil(tmp_path, schema.COUNTS)

    with World(tmp_path) as world:
        assert world.queue().message_count == 2
        assert bodies(world.queue()) == ["a", "b"]
        world.audit()


def test_messages_of_a_damaged_queue_get_one_of_their_own(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """R8: whose they were is not known, so a queue made again does not have them, and they are served all the same."""
    with World(tmp_path) as world:
        world.queue()
        world.send("q", "m")
        world.settle()
    spoil(tmp_path, schema.QUEUES)

    with caplog.at_level(logging.ERROR), World(tmp_path) as world:
        assert bodies(world.queue()) == []
        assert world.found.lost_queues == 1
        assert bodies(world.queue("recovered-1")) == ["m"]
        world.settle()
        world.stop()
    assert "its messages are in a new one: id=1 queue=recovered-1" in caplog.text
    with World(tmp_path) as world:
        assert bodies(world.queue("recovered-1")) == ["m"]
        assert world.found.lost_queues == 0
    assert check_folder(tmp_path) == []


def test_a_damaged_address_is_made_anew_for_its_queue(tmp_path: Path) -> None:
    """R8: messages are served although what their address allowed beside is forgotten."""
    with World(tmp_path) as world:
        world.queue()
        world.send("q", "m")
        world.settle()
    spoil(tmp_path, schema.ADDRESSES)

    with World(tmp_path) as world:
        assert bodies(world.queue()) == ["m"]


def test_a_message_whose_protocol_is_missing_waits_for_it(tmp_path: Path) -> None:
    """Uninstalling a protocol package loses nothing."""
    with World(tmp_path) as world:
        world.queue()
        world.send("q", "m", format=MissingFormat("exotic"))
        world.settle()

    with World(tmp_path) as world:
        (reference,) = browse_all(world.queue())
        assert reference.lookup("colour") is None
        with pytest.raises(ProtocolError, match="exotic"):
            _ = reference.message.view


@pytest.mark.parametrize("length", [0, 3, 43, 44, 60])
def test_a_message_cut_short_is_damaged(length: int, tmp_path: Path) -> None:
    """A checksum that happens to fit must not lead to an exception of another kind."""
    message = Message(PLAIN_FORMAT, "address", b"data", b"annotations", producer="producer")
    content = encode_message(message)[:length]

    with pytest.raises(DamagedValue):
        decode_message(content, {}, LargeFiles(tmp_path))


def test_values_under_another_key_are_damaged() -> None:
    """The checksum covers the key: a value in the wrong place is not taken for a message of that place."""
    value = schema.seal(b"one", b"content")

    assert schema.unseal(b"one", value) == b"content"
    with pytest.raises(DamagedValue):
        schema.unseal(b"two", value)
