"""A store that is not as it was left: another format, another broker, values that somebody changed."""

import logging
import os
from pathlib import Path

import pytest

from artemis_py.core.message import Message
from artemis_py.core.plain import PLAIN_FORMAT
from artemis_py.errors import ProtocolError, StoreError
from artemis_py.store import schema
from artemis_py.store.environment import Environment
from artemis_py.store.schema import DamagedValue, MissingFormat
from tests.unit.store.world import SMALL_MAP_BYTES, World, bodies, multicast


def spoil(folder: Path, database: bytes, offset: int = -1) -> bytes:
    """Change one octet of the first value of a database; returns its key."""
    with Environment(folder, SMALL_MAP_BYTES) as environment, environment.begin(write=True) as transaction:
        cursor = transaction.cursor(db=environment.database(database))
        assert cursor.first()
        key, value = bytes(cursor.key()), bytearray(cursor.value())
        value[offset] ^= 0x40
        transaction.put(key, bytes(value), db=environment.database(database))
        return key


@pytest.mark.parametrize(("version", "advice"), [(3, "newer release"), (1, "older release")])
def test_another_format_is_refused_with_what_to_do(tmp_path: Path, version: int, advice: str) -> None:
    """A store is never read by guessing."""
    with Environment(tmp_path, SMALL_MAP_BYTES) as environment, environment.begin(write=True) as transaction:
        meta = environment.database(schema.META)
        transaction.put(schema.FORMAT_KEY, schema.U32.pack(version), db=meta)

    for _ in range(2):  # the folder is free again after the refusal
        with pytest.raises(StoreError, match=f"has format {version}.*{advice}"):
            Environment(tmp_path, SMALL_MAP_BYTES)


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
    """LMDB's own check of its meta pages."""
    (tmp_path / "data.mdb").write_bytes(b"x" * 16384)

    with pytest.raises(StoreError, match="cannot be opened"):
        Environment(tmp_path, SMALL_MAP_BYTES)


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
        (reference,) = queue.browse_all()
        reference.delivery_count = 3
        world.store.update(reference, 0)
        world.settle()
    spoil(tmp_path, schema.ATTEMPTS)

    with World(tmp_path) as world:
        (reference,) = world.queue().browse_all()
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


def test_messages_of_a_damaged_queue_are_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """R8: a queue made anew gets another number, so nothing is delivered to the wrong one."""
    with World(tmp_path) as world:
        world.queue()
        world.send("q", "m")
        world.settle()
    spoil(tmp_path, schema.QUEUES)

    with caplog.at_level(logging.ERROR), World(tmp_path) as world:
        assert bodies(world.queue()) == []
        assert world.found.lost_queues == 1
        assert world.count(schema.REFERENCES) == 1
    assert "queues that are not there were left alone: count=1" in caplog.text


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
        (reference,) = world.queue().browse_all()
        assert reference.lookup("colour") is None
        with pytest.raises(ProtocolError, match="exotic"):
            _ = reference.message.view


@pytest.mark.parametrize("length", [0, 3, 43, 44, 60])
def test_a_message_cut_short_is_damaged(length: int) -> None:
    """A checksum that happens to fit must not lead to an exception of another kind."""
    message = Message(PLAIN_FORMAT, "address", b"data", b"annotations", producer="producer")
    content = schema.encode_message(message)[:length]

    with pytest.raises(DamagedValue):
        schema.decode_message(content, {})


def test_values_under_another_key_are_damaged() -> None:
    """The checksum covers the key: a value in the wrong place is not taken for a message of that place."""
    value = schema.seal(b"one", b"content")

    assert schema.unseal(b"one", value) == b"content"
    with pytest.raises(DamagedValue):
        schema.unseal(b"two", value)
