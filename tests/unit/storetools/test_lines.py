"""JSON lines: what was exported comes back, octet for octet, into an empty folder or behind what is there."""

from collections.abc import Callable
from pathlib import Path

import lmdb
import pytest

from artemis_py.core.messages.builtin_format import PLAIN_FORMAT
from artemis_py.core.queues.consumer import RELEASED
from artemis_py.errors import StoreError
from artemis_py.store import schema
from artemis_py.store.environment import Environment
from artemis_py.store.folder_lock import FolderLock
from artemis_py.storetools import export as export_module
from artemis_py.storetools import intake
from artemis_py.storetools.check import check_folder
from artemis_py.storetools.export import FileFormat, export_folder
from artemis_py.storetools.intake import Imported, import_file
from artemis_py.storetools.lines import write_header
from artemis_py.storetools.snapshot import opened
from tests.core_harness import attach, browse_all
from tests.unit.store.test_damage import spoil
from tests.unit.store.world import World, bodies, multicast
from tests.unit.storetools.stores import (
    BODY,
    body_file,
    fill,
    fill_large,
    in_another_process,
    large_bodies,
    leave_a_drop,
)

FORMATS = {PLAIN_FORMAT.name: PLAIN_FORMAT}
CONTENT = [name for name in schema.DATABASES if name not in (schema.META, schema.DAMAGED)]


def export(folder: Path, target: Path) -> list[str]:
    """Write JSON lines; returns what was left out."""
    return export_folder(folder, target, FileFormat.JSONL, FORMATS).left_out


def take_in(folder: Path, source: Path) -> Imported:
    """Read JSON lines."""
    return import_file(folder, source, FileFormat.JSONL, FORMATS)


def content(folder: Path) -> dict[bytes, list[tuple[bytes, bytes]]]:
    """Every key and value but the broker's counters."""
    with opened(folder) as snapshot:
        return {name: list(snapshot.items(name)) for name in CONTENT}


def change(file: Path, edit: Callable[[list[str]], object]) -> None:
    """Change the lines of a file."""
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    edit(lines)
    file.write_text("".join(lines), encoding="utf-8")


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    """What `fill` makes, as a file."""
    fill(tmp_path / "a")
    assert export(tmp_path / "a", tmp_path / "a.jsonl") == []
    return tmp_path / "a.jsonl"


def test_an_import_into_an_empty_folder_is_the_same_store(tmp_path: Path, exported: Path) -> None:
    """Addresses, queues, messages shared and alone, places, attempts, schedules, duplicate ids: every octet."""
    take_in(tmp_path / "b", exported)

    assert content(tmp_path / "b") == content(tmp_path / "a")
    assert check_folder(tmp_path / "b") == []


def test_a_broker_starts_from_an_import_and_gives_no_number_twice(tmp_path: Path, exported: Path) -> None:
    """Sequences and ids go on behind those that came in."""
    take_in(tmp_path / "b", exported)

    with World(tmp_path / "b") as world:
        world.send("q", "new")
        world.settle()
        assert bodies(world.queue()) == ["a", "b", "new"]
    assert check_folder(tmp_path / "b") == []


def test_an_export_of_an_import_is_the_same_file(tmp_path: Path, exported: Path) -> None:
    """Nothing is lost on the way that the file would not tell."""
    take_in(tmp_path / "b", exported)
    export(tmp_path / "b", tmp_path / "b.jsonl")

    assert (tmp_path / "b.jsonl").read_bytes() == exported.read_bytes()


def test_what_is_there_stays_and_what_comes_stands_behind_it(tmp_path: Path, exported: Path) -> None:
    """An import into a store that has a queue of the same name."""
    with World(tmp_path / "b") as world:
        world.queue()
        multicast(world, "t", "t.b")
        world.send("q", "first", "second")
        world.send("t", "t first")
        world.stop()

    take_in(tmp_path / "b", exported)

    assert check_folder(tmp_path / "b") == []
    with World(tmp_path / "b") as world:
        assert bodies(world.queue()) == ["first", "second", "a", "b"]
        assert bodies(world.domain.queues["t.a"]) == ["shared"]
        assert bodies(world.domain.queues["t.b"]) == ["t first", "shared"]


def test_a_file_is_taken_in_once(tmp_path: Path, exported: Path) -> None:
    """It is known by its content: a script may run twice."""
    first = take_in(tmp_path / "b", exported)
    again = take_in(tmp_path / "b", exported.rename(tmp_path / "other.jsonl"))

    assert (first.resumed_at, again.resumed_at) == (0, first.entries)
    assert content(tmp_path / "b") == content(tmp_path / "a")


@pytest.mark.parametrize("writes", range(1, 11))
def test_an_interrupted_import_goes_on(
    tmp_path: Path, exported: Path, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    """Nothing is lost or doubled wherever it stopped, and no broker starts on the half of it."""
    monkeypatch.setattr(intake, "BATCH_ENTRIES", 1)
    apply = Environment.apply
    left = iter(range(writes))

    def fails(self: Environment, change: Callable[[lmdb.Transaction], None]) -> None:
        if next(left, None) is None:
            raise lmdb.DiskError("no space")
        apply(self, change)

    monkeypatch.setattr(Environment, "apply", fails)
    with pytest.raises(StoreError, match="the same import continues"):
        take_in(tmp_path / "b", exported)
    monkeypatch.setattr(Environment, "apply", apply)
    with pytest.raises(StoreError, match=r"an import into the store in .* was not finished"):
        Environment(tmp_path / "b")
    (tmp_path / "c.jsonl").write_bytes(exported.read_bytes() + b" ")
    with pytest.raises(StoreError, match=r"an import of another file, a\.jsonl, is not finished"):
        take_in(tmp_path / "b", tmp_path / "c.jsonl")

    assert take_in(tmp_path / "b", exported).resumed_at == writes
    assert content(tmp_path / "b") == content(tmp_path / "a")
    assert check_folder(tmp_path / "b") == []


@pytest.mark.parametrize(
    ("line", "text", "said"),
    [
        (1, "{}\n", "the first line of a file"),
        (1, '{"artemis-py-export": 2}\n', "it has version 2"),
        (2, "{\n", "Expecting property name"),
        (2, '{"address": {"name": 5}}\n', "it is not an address"),
        (3, '{"what": 5}\n', "none of the forms"),
        (4, '{"message": {"id": 1}}\n', "'format' is missing"),
        (4, '{"message": {"id": 1, "format": "plain", "address": "t", "data": "?"}}\n', "base64"),
        (4, '{"reference": {"queue": "unknown", "sequence": 1, "message": 1}}\n', "queue 'unknown' is not in the file"),
        (
            8,
            '{"reference": {"queue": "q", "sequence": 1, "message": 99}}\n',
            "message 99 is not in the file before this",
        ),
        (8, '{"reference": {"queue": "q", "sequence": -1, "message": 99}}\n', "sequence is not a number"),
        (
            8,
            '{"duplicate": {"address": "none", "number": 1, "id": ""}}\n',
            "address 'none' is not in the file before this",
        ),
    ],
)
def test_a_mistake_is_named_with_its_line_and_changes_nothing(
    tmp_path: Path, exported: Path, line: int, text: str, said: str
) -> None:
    """The whole file is read before anything is written."""

    def edit(lines: list[str]) -> None:
        lines[line - 1] = text

    change(exported, edit)

    with pytest.raises(StoreError, match=rf"a\.jsonl:{line}: .*{said}"):
        take_in(tmp_path / "b", exported)
    assert not any(content(tmp_path / "b").values())


def test_a_cut_file_is_refused(tmp_path: Path, exported: Path) -> None:
    """Each of its lines is right, but the last is not there."""
    change(exported, lambda lines: lines.pop())

    with pytest.raises(StoreError, match="it was cut off"):
        take_in(tmp_path / "b", exported)


def test_a_missing_line_is_noticed(tmp_path: Path, exported: Path) -> None:
    """The last one counts those before it."""
    change(exported, lambda lines: lines.pop(-2))

    with pytest.raises(StoreError, match="lines were written"):
        take_in(tmp_path / "b", exported)


def test_two_messages_in_one_place_are_refused(tmp_path: Path, exported: Path) -> None:
    """One would replace the other without a word."""

    def edit(lines: list[str]) -> None:
        place = next(number for number, line in enumerate(lines) if line.startswith('{"reference"'))
        lines.insert(place + 1, lines[place])

    change(exported, edit)

    with pytest.raises(StoreError, match=r"a\.jsonl:9: sequence 1 of queue 'q' is not in its order"):
        take_in(tmp_path / "b", exported)


def test_a_queue_of_another_address_is_not_mixed_up(tmp_path: Path, exported: Path) -> None:
    """Its messages would come out where nobody expects them."""
    with World(tmp_path / "b") as world:
        world.queue("t.a", address="elsewhere")
        world.stop()

    with pytest.raises(StoreError, match=r"queue 't\.a' is on address 'elsewhere' in the store already"):
        take_in(tmp_path / "b", exported)


def test_a_store_in_use_takes_nothing_in(tmp_path: Path, exported: Path) -> None:
    """The broker would not know what is in its queues."""
    (tmp_path / "b").mkdir()
    lock = FolderLock(tmp_path / "b")

    with pytest.raises(StoreError, match="used by another broker"):
        take_in(tmp_path / "b", exported)
    lock.release()


def test_damaged_values_are_left_out_and_named(tmp_path: Path) -> None:
    """Whatever is whole comes out."""
    fill(tmp_path / "a")
    key = spoil(tmp_path / "a", schema.REFERENCES)

    left_out = export(tmp_path / "a", tmp_path / "a.jsonl")
    take_in(tmp_path / "b", tmp_path / "a.jsonl")

    assert left_out == [f"left out: references {key.hex()}: its checksum is wrong"]
    with World(tmp_path / "b") as world:
        assert bodies(world.queue()) == ["b"]


def test_an_export_overwrites_nothing(tmp_path: Path, exported: Path) -> None:
    """The only copy may be there; what is not whole has another name."""
    with pytest.raises(StoreError, match="overwrites nothing"):
        export(tmp_path / "a", exported)

    assert {path.name for path in tmp_path.iterdir()} == {"a", "a.jsonl"}


def test_a_message_of_a_protocol_that_is_not_installed_keeps_its_octets(tmp_path: Path, exported: Path) -> None:
    """JSON lines do not look into messages."""
    change(exported, lambda lines: lines.__setitem__(slice(None), [each.replace("plain", "other") for each in lines]))
    take_in(tmp_path / "b", exported)
    export(tmp_path / "b", tmp_path / "b.jsonl")

    assert (tmp_path / "b.jsonl").read_bytes() == exported.read_bytes()
    assert '"other"' in exported.read_text(encoding="utf-8")


@pytest.fixture
def exported_large(tmp_path: Path) -> Path:
    """What `fill_large` makes, as a file."""
    fill_large(tmp_path / "a")
    assert export(tmp_path / "a", tmp_path / "a.jsonl") == []
    return tmp_path / "a.jsonl"


def test_large_bodies_and_records_come_back(tmp_path: Path, exported_large: Path) -> None:
    """Every octet, in files of the same numbers, shared by the same messages."""
    take_in(tmp_path / "b", exported_large)

    assert content(tmp_path / "b") == content(tmp_path / "a")
    assert check_folder(tmp_path / "b") == []
    export(tmp_path / "b", tmp_path / "b.jsonl")
    assert (tmp_path / "b.jsonl").read_bytes() == exported_large.read_bytes()
    with World(tmp_path / "b") as world:
        assert large_bodies(world, "big") == [BODY]
        assert large_bodies(world, "l.a") == large_bodies(world, "l.b") == [BODY[::-1]]
        assert world.store.load_records("mqtt") == [(b"\x00key", b"value")]


def test_a_large_body_is_written_in_pieces(exported_large: Path) -> None:
    """No line is longer than one of them, so neither side has it in memory."""
    lines = exported_large.read_bytes().splitlines()

    assert max(map(len, lines)) < 300_000
    assert [line[:9] for line in lines].count(b'{"octets"') == 6


def test_bodies_and_queues_come_behind_those_that_are_there(tmp_path: Path, exported_large: Path) -> None:
    """Numbers of bodies are given anew; records would refer to the wrong queues, so they stay out."""
    fill_large(tmp_path / "b")

    imported = take_in(tmp_path / "b", exported_large)

    (left_out,) = imported.left_out
    assert left_out.startswith("left out: 1 records of 'mqtt'")
    assert check_folder(tmp_path / "b") == []
    with World(tmp_path / "b") as world:
        assert large_bodies(world, "big") == [BODY, BODY]
        assert large_bodies(world, "l.a") == [BODY[::-1], BODY[::-1]]
        assert world.queue().scheduled_count == 2


@pytest.mark.parametrize("writes", range(1, 20, 3))
def test_an_interrupted_import_of_large_bodies_goes_on(
    tmp_path: Path, exported_large: Path, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    """What was written of a body whose message is not committed is written again."""
    monkeypatch.setattr(intake, "BATCH_ENTRIES", 1)
    apply = Environment.apply
    left = iter(range(writes))

    def fails(self: Environment, change: Callable[[lmdb.Transaction], None]) -> None:
        if next(left, None) is None:
            raise lmdb.DiskError("no space")
        apply(self, change)

    monkeypatch.setattr(Environment, "apply", fails)
    with pytest.raises(StoreError, match="the same import continues"):
        take_in(tmp_path / "b", exported_large)
    monkeypatch.setattr(Environment, "apply", apply)
    take_in(tmp_path / "b", exported_large)

    assert content(tmp_path / "b") == content(tmp_path / "a")
    assert check_folder(tmp_path / "b") == []


def place_of(lines: list[str], start: str) -> int:
    """The index of the first line that begins so."""
    return next(index for index, line in enumerate(lines) if line.startswith(start))


@pytest.mark.parametrize(
    ("start", "edit", "said"),
    [
        ('{"octets"', lambda line: "", "not a line of an export: 'octets' is missing"),
        ('{"octets"', lambda line: line + line, "the size that was announced"),
        ('{"octets"', lambda line: line.replace("//79", "//78"), "the checksum that was announced"),
        ('{"octets"', lambda line: '{"octets":""}\n', "the size that was announced"),
        ('{"body"', lambda line: "", "none of the forms"),
        ('{"body"', lambda line: line.replace('"id":', '"id":9'), "body 2 is not in the file before this"),
        ('{"record"', lambda line: line.replace("mqtt", "m\\u0000"), "none of the forms"),
        ('{"queue"', lambda line: line.replace('"id":1', '"id":2'), "another queue has the id 2"),
    ],
)
def test_a_mistake_in_a_body_or_record_is_found(
    tmp_path: Path, exported_large: Path, start: str, edit: Callable[[str], str], said: str
) -> None:
    """Before anything of it is stored."""

    def replace(lines: list[str]) -> None:
        index = place_of(lines, start)
        lines[index] = edit(lines[index])

    change(exported_large, replace)

    with pytest.raises(StoreError, match=said):
        take_in(tmp_path / "b", exported_large)
    assert not any(content(tmp_path / "b").values())


def test_a_message_whose_body_is_damaged_is_left_out(tmp_path: Path) -> None:
    """Its octets were noticed before one of them was written."""
    fill_large(tmp_path / "a")
    damaged = bytearray(body_file(tmp_path / "a", 1).read_bytes())
    damaged[-1] ^= 1
    body_file(tmp_path / "a", 1).write_bytes(damaged)

    (left_out,) = export(tmp_path / "a", tmp_path / "a.jsonl")
    take_in(tmp_path / "b", tmp_path / "a.jsonl")

    assert "its large body cannot be used" in left_out
    assert check_folder(tmp_path / "b") == []
    with World(tmp_path / "b") as world:
        assert large_bodies(world, "big") == []
        assert large_bodies(world, "l.a") == [BODY[::-1]]


def test_large_bodies_that_are_consumed_meanwhile_are_in_the_export(
    tmp_path: Path, exported_large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An export is one moment of a store that may be in use."""

    def consumed() -> bytes:
        in_another_process("purge", tmp_path / "a")
        assert not body_file(tmp_path / "a", 1).exists()
        return write_header()

    monkeypatch.setattr(export_module, "write_header", consumed)

    assert export(tmp_path / "a", tmp_path / "later.jsonl") == []
    assert (tmp_path / "later.jsonl").read_bytes() == exported_large.read_bytes()


def test_what_is_to_be_dropped_does_not_come_out(tmp_path: Path) -> None:
    """Neither its references, nor messages that only they shared."""
    fill(tmp_path / "a")
    leave_a_drop(tmp_path / "a", schema.Drop(2, schema.ALL_RANKS))
    leave_a_drop(tmp_path / "a", schema.Drop(3, schema.ALL_RANKS), number=2)

    assert export(tmp_path / "a", tmp_path / "a.jsonl") == []
    take_in(tmp_path / "b", tmp_path / "a.jsonl")

    assert check_folder(tmp_path / "b") == []
    with World(tmp_path / "b") as world:
        assert bodies(world.queue()) == ["a", "b"]
        assert bodies(world.queue("t.a")) == bodies(world.queue("t.b")) == []
        assert world.count(schema.MESSAGES) == 0


def test_an_import_carries_out_the_drops_it_finds(tmp_path: Path, exported: Path) -> None:
    """What comes in must not fall under them."""
    fill(tmp_path / "b")
    leave_a_drop(tmp_path / "b", schema.Drop(1, schema.ALL_RANKS))

    take_in(tmp_path / "b", exported)

    assert check_folder(tmp_path / "b") == []
    with World(tmp_path / "b") as world:
        assert bodies(world.queue()) == ["a", "b"]


def test_a_damaged_count_is_not_added_to(tmp_path: Path, exported: Path) -> None:
    """A start makes it anew; before that nothing is taken in."""
    fill(tmp_path / "b")
    spoil(tmp_path / "b", schema.COUNTS)

    with pytest.raises(StoreError, match="start a broker on it"):
        take_in(tmp_path / "b", exported)
    with World(tmp_path / "b") as world:
        world.stop()
    take_in(tmp_path / "b", exported)


def test_what_consumers_changed_of_a_message_is_taken_along(tmp_path: Path) -> None:
    """Beside the message, which another queue has as it was."""
    with World(tmp_path / "a") as world:
        multicast(world, "t", "t.a", "t.b")
        world.send("t", "m")
        world.settle()
        queue = world.domain.queues["t.a"]
        recorder, consumer = attach(world.domain, queue, credit=1)
        (reference,) = recorder.take()
        queue.amend(reference, reference.message.amended(b"annotations", {"m.why": "because"}))
        consumer.settle(reference, RELEASED)
        world.settle()
        world.stop()
    export(tmp_path / "a", tmp_path / "a.jsonl")
    take_in(tmp_path / "b", tmp_path / "a.jsonl")

    assert content(tmp_path / "b") == content(tmp_path / "a")
    assert check_folder(tmp_path / "b") == []
    with World(tmp_path / "b") as world:
        ((amended,), (original,)) = [browse_all(world.domain.queues[name]) for name in ("t.a", "t.b")]
        assert (amended.message.annotations, amended.message.extra) == (b"annotations", {"m.why": "because"})
        assert (original.message.annotations, original.message.extra) == (b"", None)
