"""Damage at each kind of place of a write-ahead log: what it costs is named and kept, and no number is given twice.

Batches that were confirmed are lost, and with them the notes of the numbers that they used. A reader that remembers the
sequences that it has seen would pass over new messages with the same ones.
"""

import logging
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from artemis_py.errors import StoreError
from artemis_py.store import log_start, schema
from artemis_py.store.environment import Environment
from artemis_py.store.large import body_files
from artemis_py.store.lmdb import LARGE_MESSAGES_NAME
from artemis_py.store.log.log import WriteAheadLog
from artemis_py.store.log.segment import HEADER_BYTES, RECORD_BYTES, segment_files
from artemis_py.storetools.check import check_folder
from tests.core_harness import START_MS, browse_all
from tests.log_switch import SMALL_LOG
from tests.unit.store.world import SMALL_MAP_BYTES, World, bodies, multicast
from tests.unit.storetools.stores import send_large

LogWorld = partial(World, log=SMALL_LOG)

MANY = 200_000
"""More numbers than are reserved ahead, as a week between two starts uses."""
BALLAST = "x" * 25_000
"""Two batches fill a file."""
BODY = b"large" * 60_000
BATCHES = 6


def append(world: World) -> None:
    """Have everything appended to the log, and nothing folded."""
    world.store._commit()
    world.hands.work()
    assert not world.hands.jobs


def given(world: World, number: int) -> dict[str, int]:
    """Send, schedule and create something with new numbers; returns the numbers."""
    queue = world.queue()
    world.send("q", f"m{number} {BALLAST}")
    world.send("q", "later", delivery_time_ms=START_MS + 1_000_000)
    made = world.queue(f"made{number}")
    # Nothing shares the message: it has its id alone.
    reference = list(browse_all(queue))[-1]
    return {
        "sequence": reference.sequence,
        "message": reference.message.id,
        "queue": made.id,
        "scheduled": world.store.reserved.next_scheduled - 1,
    }


def use_many(world: World) -> None:
    """Use as many numbers as a long run does, in messages that were consumed."""
    world.queue().next_sequence += MANY
    world.domain.dispatcher.numbers.message_id += MANY
    world.store.reserved.next_scheduled += MANY


def fill(folder: Path) -> dict[str, set[int]]:
    """Leave a folded beginning and a log of some files, as a crash does; returns all numbers that were given."""
    found: list[dict[str, int]] = []
    with LogWorld(folder) as world:
        multicast(world, "t", "t.a", "t.b")
        world.queue("big")
        found.append(given(world, 100))
        world.settle()
        for number in range(BATCHES):
            use_many(world)
            found.append(given(world, number))
            world.send("t", f"shared {number}")
            if number == 3:
                send_large(world, "big", BODY)
            append(world)
    return {name: {each[name] for each in found} for name in found[0]}


def flip(path: Path, offset: int) -> None:
    """Change a bit of a file."""
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


def used_files(folder: Path) -> list[Path]:
    """The files of the log with batches that are not folded, in order."""
    return [path for path in segment_files(folder / "log") if path.read_bytes()[HEADER_BYTES:].strip(b"\0")]


def first_batch(folder: Path) -> None:
    flip(used_files(folder)[1], HEADER_BYTES + RECORD_BYTES + 100)


def head_of_a_batch(folder: Path) -> None:
    flip(used_files(folder)[1], HEADER_BYTES + 10)


def end_of_a_file(folder: Path) -> None:
    path = used_files(folder)[1]
    flip(path, len(path.read_bytes().rstrip(b"\0")) - 100)


def beginning_of_a_file(folder: Path) -> None:
    """The header, and the head of the first record, which says the same."""
    path = used_files(folder)[1]
    flip(path, 20)
    flip(path, HEADER_BYTES + 10)


def beginning_of_the_last_file(folder: Path) -> None:
    """No newer batch shows that some are missing."""
    path = used_files(folder)[-1]
    flip(path, 20)
    flip(path, HEADER_BYTES + 10)


def zeroed_sector(folder: Path) -> None:
    path = used_files(folder)[1]
    with path.open("r+b") as file:
        file.seek(HEADER_BYTES)
        file.write(bytes(512))


def missing_file(folder: Path) -> None:
    used_files(folder)[1].unlink()


def missing_log(folder: Path) -> None:
    shutil.rmtree(folder / "log")


def note_of_the_log(folder: Path) -> None:
    """LMDB's file does not know its log any more."""
    with Environment(folder, SMALL_MAP_BYTES) as environment, environment.begin(write=True) as transaction:
        meta = environment.database(schema.META)
        transaction.put(schema.LOG, bytes(transaction.get(schema.LOG, b"", db=meta))[:-1] + b"\xff", db=meta)


PLACES: list[Callable[[Path], None]] = [
    first_batch,
    head_of_a_batch,
    end_of_a_file,
    beginning_of_a_file,
    beginning_of_the_last_file,
    zeroed_sector,
    missing_file,
    missing_log,
    note_of_the_log,
]
KEPT = {first_batch, head_of_a_batch, end_of_a_file, beginning_of_a_file, beginning_of_the_last_file, zeroed_sector}
"""Where the damaged file itself is kept."""


@pytest.mark.parametrize("damage", PLACES)
def test_no_number_is_given_twice_and_no_body_is_deleted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: Callable[[Path], None]
) -> None:
    """What is before the damage is served; a stop and a start later nothing is different."""
    before = fill(tmp_path)
    large = [path.read_bytes() for _, path in body_files(tmp_path / LARGE_MESSAGES_NAME)]
    damage(tmp_path)

    after: list[dict[str, int]] = []
    with caplog.at_level(logging.ERROR):
        for number in range(200, 203):
            with LogWorld(tmp_path) as world:
                found = [str(body).split()[0] for body in bodies(world.queue())]
                after.append(given(world, number))
                world.settle()
                world.audit()
                world.stop()
            assert found[0] == "m100"
    first_start = [record for record in caplog.records if "continue far above what is noted" in record.message]

    for name, numbers in before.items():
        later = [each[name] for each in after]
        assert not numbers & set(later), name
        assert later == sorted(set(later)), name
    assert len(first_start) == 1
    assert [path.read_bytes() for _, path in body_files(tmp_path / LARGE_MESSAGES_NAME)] == large == [BODY]
    kept = list((tmp_path / "log").glob("*.damaged*"))
    assert bool(kept) == (damage in KEPT or damage is missing_file)
    assert check_folder(tmp_path) == []


def test_what_is_behind_a_batch_that_was_not_written_whole_was_never_confirmed(tmp_path: Path) -> None:
    """So the numbers that were reserved before suffice; if that batch is damaged later, they do so as well."""
    before = fill(tmp_path)
    path = used_files(tmp_path)[-1]
    flip(path, len(path.read_bytes().rstrip(b"\0")) - 100)

    with LogWorld(tmp_path) as world:
        after = given(world, 200)
        world.settle()
        assert world.found.orphans == 0

    assert all(number not in before[name] for name, number in after.items() if name != "queue")


@pytest.mark.parametrize("killed", ["_note_loss", "_rename_damaged", "cut"])
def test_a_start_that_is_killed_forgets_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: str) -> None:
    """Before the note, before the files are set aside, and behind both."""
    before = fill(tmp_path)
    missing_file(tmp_path)

    def die(*_: object) -> None:
        raise StoreError("killed")

    monkeypatch.setattr(log_start if killed == "_note_loss" else WriteAheadLog, killed, die)
    with pytest.raises(StoreError, match="killed"):
        LogWorld(tmp_path, log=SMALL_LOG)
    monkeypatch.undo()

    with LogWorld(tmp_path) as world:
        after = given(world, 200)
        assert bodies(world.queue())[0] == f"m100 {BALLAST}"
    assert all(number not in before[name] for name, number in after.items())
