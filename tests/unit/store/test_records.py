"""Records: what a protocol keeps beside its messages."""

from pathlib import Path

import pytest

from artemis_py.store import schema
from tests.unit.store.world import World


def test_records_survive_in_the_order_of_their_keys(tmp_path: Path) -> None:
    """Spaces are apart, even where one's name begins the other's."""
    with World(tmp_path) as world:
        world.store.save_record("mqtt", b"\x02", b"two")
        world.store.save_record("mqtt", b"\x01", b"one")
        world.store.save_record("mqtt2", b"\x01", b"other")
        world.settle()

    with World(tmp_path) as world:
        assert world.store.load_records("mqtt") == [(b"\x01", b"one"), (b"\x02", b"two")]
        assert world.store.load_records("mqtt2") == [(b"\x01", b"other")]


def test_a_record_is_durable_with_the_message_of_its_turn(tmp_path: Path) -> None:
    """Neither is on disk without the other, whenever the crash comes."""
    with World(tmp_path) as world:
        world.queue()
        world.settle()
        world.send("q", "m")
        world.store.save_record("mqtt", b"k", b"v")
        world.hands.turn()
        before = world.count(schema.REFERENCES), world.count(schema.RECORDS)
        world.commit()

        assert before == (0, 0)
        assert (world.count(schema.REFERENCES), world.count(schema.RECORDS)) == (1, 1)


def test_a_damaged_record_is_passed_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its owner goes on without it, and the log names it."""
    with World(tmp_path) as world:
        world.store.save_record("mqtt", b"a", b"one")
        world.store.save_record("mqtt", b"b", b"two")
        world.settle()
        with world.environment.begin(write=True) as transaction:
            key = schema.record_key("mqtt", b"a")
            transaction.put(key, b"\0\0\0\0one", db=world.environment.database(schema.RECORDS))

        assert world.store.load_records("mqtt") == [(b"b", b"two")]
        assert "damaged record passed over: space=mqtt" in caplog.text
