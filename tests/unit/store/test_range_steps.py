"""A queue with inherited ranges goes through everything that can happen to one, with the broker ending in between."""

import shutil
from collections import Counter
from pathlib import Path

import pytest

from artemis_py.core.messages.builtin_format import PLAIN_FORMAT
from artemis_py.store import schema
from artemis_py.store.environment import Environment
from artemis_py.store.inherited import PREFIX
from artemis_py.storetools.check import check_folder
from artemis_py.storetools.copies import back_up, compact
from artemis_py.storetools.export import FileFormat, export_folder
from artemis_py.storetools.intake import import_file
from artemis_py.storetools.statistics import statistics
from tests.core_harness import browse_all
from tests.unit.store.range_steps import SETTINGS, State, Steps, state_of
from tests.unit.store.world import SMALL_MAP_BYTES, World

FORMATS = {PLAIN_FORMAT.name: PLAIN_FORMAT}


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stage is never too small."""
    monkeypatch.setattr(World, "inherited_messages", 1)


def opened(folder: Path) -> World:
    """A broker on the folder, which keeps two messages of a queue in memory."""
    world = World(folder, SETTINGS)
    world.services.staging.restore()
    for queue in world.domain.queues.values():
        queue.schedule.window_messages = 2
    world.settle()
    return world


def run(folder: Path, inherits: bool, between: str) -> list[State]:
    """Go all steps, with a restart between them; what there was after each."""
    found = []
    world = opened(folder)
    for step in Steps(inherits).all:
        step(world)
        world.settle()
        if between == "crash":
            world.crash()
        elif between == "stop":
            world.stop()
        if between != "nothing":
            world = opened(folder)
        found.append(state_of(world))
        world.audit()
    world.stop()
    assert check_folder(folder) == []
    return found


@pytest.mark.parametrize("between", ["nothing", "crash", "stop"])
def test_every_step_does_what_it_does_to_messages_that_were_sent(tmp_path: Path, between: str) -> None:
    """Bodies, order, sequences and failed deliveries; with restarts as without."""
    expected = run(tmp_path / "sent", False, "nothing")
    found = run(tmp_path / "inherited", True, between)

    for number, (state, wanted) in enumerate(zip(found, expected, strict=True)):
        if between == "nothing":
            assert state == wanted, number
        else:
            # A crash skips sequences; what is there stays in its order.
            assert _without_sequences(state) == _without_sequences(wanted), number
    assert [len(state["q"]) for state in expected[:-1]][3:5] == [13, 14]
    assert set(expected[-1]) == {"dead", "expired", "other"}


def _without_sequences(state: State) -> dict[str, list[tuple[object, int]]]:
    return {name: [(body, count) for body, count, _ in messages] for name, messages in state.items()}


def _bodies(state: State) -> dict[str, list[str]]:
    return {name: [str(body) for body, _, _ in messages] for name, messages in state.items()}


def test_the_tools_agree_after_every_step(tmp_path: Path) -> None:
    """Stat, check, backup, compact, and an export that is imported: what they see is what a start finds."""
    folder = tmp_path / "store"
    world = opened(folder)
    for number, step in enumerate(Steps(inherits=True).all):
        step(world)
        world.settle()
        state = state_of(world)
        world.stop()
        beside = tmp_path / str(number)
        beside.mkdir()
        assert check_folder(folder) == [], number
        counts = {name: len(messages) for name, messages in state.items()}
        assert {queue.name: queue.messages for queue in statistics(folder).queues if queue.name in counts} == counts
        exported = export_folder(folder, beside / "lines", FileFormat.JSONL, FORMATS)
        assert exported.left_out == [], number
        export_folder(folder, beside / "xml", FileFormat.XML, FORMATS)
        import_file(beside / "from xml", beside / "xml", FileFormat.XML, FORMATS)
        with opened(beside / "from xml") as look:
            assert _bodies(state_of(look)) == _bodies(state), number
        import_file(beside / "imported", beside / "lines", FileFormat.JSONL, FORMATS)
        back_up(folder, beside / "backup")
        compact(folder)
        for copy in (beside / "imported", beside / "backup" / "journal", folder):
            assert check_folder(copy) == [], (number, copy)
            with opened(copy) as look:
                assert state_of(look) == state, (number, copy)
                look.audit()
                look.stop()
        world = opened(folder)
    world.stop()


def test_any_value_may_be_damaged(tmp_path: Path) -> None:
    """One after the other: it is named, the next start sets it aside, and everything else is there."""
    original = tmp_path / "original"
    world = opened(original)
    for step in Steps(inherits=True).all[:15]:
        step(world)
        world.settle()
    everything = Counter(body for bodies in _bodies(state_of(world)).values() for body in bodies)
    assert len(world.environment.inherited.by_source) == 3
    world.stop()
    for database, key in _values(original):
        case = f"{database.decode()} {key.hex()}"
        folder = tmp_path / "case"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(original, folder)
        with Environment(folder, SMALL_MAP_BYTES) as environment, environment.begin(write=True) as transaction:
            value = bytearray(transaction.get(key, b"", db=environment.database(database)))
            value[-1] ^= 0x40
            transaction.put(key, bytes(value), db=environment.database(database))

        assert [problem for problem in check_folder(folder) if problem.startswith(case)], case
        exported = export_folder(folder, folder / "lines", FileFormat.JSONL, FORMATS)
        import_file(folder / "imported", folder / "lines", FileFormat.JSONL, FORMATS)
        allowed = 1 if database == schema.REFERENCES else 0
        for where in (folder / "imported", folder):
            with World(where, SETTINGS) as world:
                world.services.staging.restore()
                there = Counter(
                    str(one.message.view.body) for queue in world.domain.queues.values() for one in browse_all(queue)
                )
                assert (sum((everything - there).values()), there - everything) == (allowed, Counter()), (case, where)
                world.settle()
                world.audit()
                world.stop()
            # A record of another space is passed over by each start.
            is_passed_over = where is folder and database == schema.RECORDS and not key.startswith(PREFIX)
            assert len(check_folder(where)) == is_passed_over, case
        assert exported.left_out or database in REMADE, case


REMADE = (schema.COUNTS, schema.META)
"""Databases that an export does not need."""


def _values(folder: Path) -> list[tuple[bytes, bytes]]:
    """Databases and keys of all values with a checksum."""
    with Environment(folder, SMALL_MAP_BYTES) as environment:
        found = [(database, key) for database in schema.DATABASES for key, _ in environment.read_all(database, b"")]
    return [one for one in found if one != (schema.META, schema.FORMAT_KEY)]
