"""What the tools see of a store whose write-ahead log has commits that LMDB does not have."""

import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from artemis_py.core.messages.builtin_format import PLAIN_FORMAT
from artemis_py.errors import StoreError
from artemis_py.store import schema
from artemis_py.store.lmdb import LARGE_MESSAGES_NAME
from artemis_py.store.log.log import WriteAheadLog
from artemis_py.store.log.options import LogOptions
from artemis_py.store.log.reading import Segment, find_segments
from artemis_py.store.log.segment import FOLDER_NAME, HEADER_BYTES, segment_files
from artemis_py.store.log_start import LogSettings
from artemis_py.storetools import unfolded
from artemis_py.storetools.check import check
from artemis_py.storetools.copies import JOURNAL_NAME, back_up, compact
from artemis_py.storetools.export import FileFormat, export_folder
from artemis_py.storetools.intake import import_file
from artemis_py.storetools.snapshot import Snapshot, opened
from artemis_py.storetools.statistics import statistics
from tests.log_switch import SMALL_LOG
from tests.unit.store.world import World, bodies
from tests.unit.storetools.log_broker import LogBroker, append, fold, log_broker
from tests.unit.storetools.stores import BODY, large_bodies, send_large

LogWorld = partial(World, log=SMALL_LOG)
FORMATS = {PLAIN_FORMAT.name: PLAIN_FORMAT}


@pytest.fixture
def crashed(tmp_path: Path) -> Path:
    """A store with one message in LMDB, and two commits in the log only."""
    folder = tmp_path / "store"
    with LogWorld(folder) as world:
        world.queue()
        append(world, "folded")
        fold(world)
        append(world, "one")
        append(world, "two", "three")
    return folder


ALL = ["folded", "one", "two", "three"]


def content(folder: Path) -> dict[str, bytes]:
    """All files of a log."""
    return {path.name: path.read_bytes() for path in (folder / FOLDER_NAME).iterdir()}


def found_in(folder: Path, log: LogSettings | None = SMALL_LOG) -> list[str]:
    """The messages that a broker finds, whose store is sound then."""
    with World(folder, log=log) as world:
        found = bodies(world.queue())
        world.audit()
        world.stop()
    assert check(folder).problems == []
    return [str(body) for body in found]


def exported(folder: Path, target: Path) -> tuple[list[str], list[str]]:
    """The messages of an export, and what was left out."""
    result = export_folder(folder, target, FileFormat.JSONL, FORMATS)
    store = target.with_name("imported")
    shutil.rmtree(store, ignore_errors=True)
    import_file(store, target, FileFormat.JSONL, FORMATS)
    target.unlink()
    return found_in(store), result.left_out


# -- without a broker ----------------------------------------------------------------------------------------------


def test_statistics_tell_what_is_in_the_log_only(crashed: Path) -> None:
    before = content(crashed)
    found = statistics(crashed)

    assert (found.messages, found.log_batches, found.problems) == (1, 2, ())
    assert found.log_bytes > 0
    assert found.log_file_bytes == sum(len(file) for file in before.values())
    assert content(crashed) == before


def test_a_store_without_a_log_has_none(tmp_path: Path) -> None:
    with World(tmp_path, log=None) as world:
        world.queue()
        world.send("q", "one")
        world.stop()
    found = statistics(tmp_path)

    assert (found.messages, found.log_batches, found.log_file_bytes, found.problems) == (1, 0, 0, ())


def test_after_a_clean_stop_the_log_has_nothing(crashed: Path) -> None:
    assert found_in(crashed) == ALL
    found = statistics(crashed)

    assert (found.messages, found.log_batches, found.problems) == (4, 0, ())


def test_a_check_reads_the_records_of_the_log(crashed: Path) -> None:
    findings = check(crashed)

    assert (findings.problems, findings.log_batches) == ([], 2)
    assert findings.log_bytes > 0


def test_damage_in_the_log_is_a_problem(crashed: Path) -> None:
    """Batches 1 to 3 are in LMDB."""
    with LogWorld(crashed) as world:
        append(world, "four")
        append(world, "five")
        append(world, "six")
    (path,) = (path for path in segment_files(crashed / FOLDER_NAME) if b"six" in path.read_bytes())
    path.write_bytes(path.read_bytes().replace(b"five", b"fiVe"))

    problems = check(crashed).problems
    assert len(problems) == 1
    assert f"log/{path.name}: batches " in problems[0]
    assert "are missing at offset" in problems[0]
    assert statistics(crashed).problems == tuple(problems)
    assert found_in(crashed) == [*ALL, "four"]
    assert check(crashed).damaged == [f"log/{path.name}.damaged"]


def test_a_file_of_the_log_without_a_beginning_is_a_problem(crashed: Path) -> None:
    path = segment_files(crashed / FOLDER_NAME)[0]
    path.write_bytes(bytes(HEADER_BYTES + 100) + path.read_bytes()[HEADER_BYTES + 100 :])

    assert check(crashed).problems == [f"log/{path.name}: its beginning is damaged"]


def test_a_missing_log_is_a_problem(crashed: Path) -> None:
    shutil.rmtree(crashed / FOLDER_NAME)

    assert check(crashed).problems == ["log is missing: what was only there is lost"]


def test_the_log_of_another_store_is_a_problem(crashed: Path) -> None:
    shutil.rmtree(crashed / FOLDER_NAME)
    log = WriteAheadLog.open(crashed / FOLDER_NAME, b"another store id", LogOptions(min_files=1))
    list(log.read(0))
    log.close()

    (problem,) = check(crashed).problems
    assert "belongs to another store" in problem


def test_a_damaged_note_of_the_log_is_a_problem(crashed: Path) -> None:
    with LogWorld(crashed) as world:

        def damage(transaction: object) -> None:
            transaction.put(schema.LOG, b"damaged", db=world.environment.database(schema.META))  # type: ignore[attr-defined]

        world.environment.apply(damage)

    assert len(check(crashed).problems) == 2


@pytest.mark.parametrize("log", [SMALL_LOG, None])
def test_a_backup_has_what_the_log_has(crashed: Path, tmp_path: Path, log: LogSettings | None) -> None:
    """Whether its broker has a log or not."""
    before = content(crashed)
    size = back_up(crashed, tmp_path / "copy")

    files = [path for path in (tmp_path / "copy").rglob("*") if path.is_file()]
    assert size == sum(path.stat().st_size for path in files)
    assert found_in(tmp_path / "copy" / JOURNAL_NAME, log) == ALL
    assert content(crashed) == before


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_backup_is_a_store_without_a_log(crashed: Path, tmp_path: Path, is_stopped: bool) -> None:
    """Also of a format that releases without a log read."""
    if is_stopped:
        found_in(crashed)
    back_up(crashed, tmp_path / "copy")

    assert [path.name for path in (tmp_path / "copy" / JOURNAL_NAME).iterdir()] == ["data.mdb"]
    found = statistics(tmp_path / "copy" / JOURNAL_NAME)
    assert (found.messages, found.format, found.problems) == (4, schema.FORMAT_VERSION, ())


def test_a_backup_has_the_bodies_that_only_the_log_refers_to(tmp_path: Path) -> None:
    with LogWorld(tmp_path / "store") as world:
        world.queue()
        fold(world)
        send_large(world, "q", BODY)
        append(world, "small")
    back_up(tmp_path / "store", tmp_path / "copy")

    journal, large = tmp_path / "copy" / JOURNAL_NAME, tmp_path / "copy" / LARGE_MESSAGES_NAME
    shutil.move(large, journal / LARGE_MESSAGES_NAME)
    with LogWorld(journal) as world:
        assert large_bodies(world, "q") == [BODY, b""]
        world.stop()
    assert check(journal).problems == []


def test_a_backup_of_a_damaged_log_is_refused(crashed: Path, tmp_path: Path) -> None:
    with LogWorld(crashed) as world:
        append(world, "four")
        append(world, "five")
    (path,) = (path for path in segment_files(crashed / FOLDER_NAME) if b"five" in path.read_bytes())
    path.write_bytes(path.read_bytes().replace(b"four", b"foUr"))

    with pytest.raises(StoreError, match="damaged and is not copied: log/"):
        back_up(crashed, tmp_path / "copy")


def test_an_export_has_what_the_log_has(crashed: Path, tmp_path: Path) -> None:
    before = content(crashed)

    assert exported(crashed, tmp_path / "out.jsonl") == (ALL, [])
    assert content(crashed) == before
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".log-")] == []


def test_an_export_names_what_a_damaged_log_lacks(crashed: Path, tmp_path: Path) -> None:
    with LogWorld(crashed) as world:
        append(world, "four")
        append(world, "five")
        append(world, "six")
    (path,) = (path for path in segment_files(crashed / FOLDER_NAME) if b"six" in path.read_bytes())
    path.write_bytes(path.read_bytes().replace(b"five", b"fiVe"))

    found, left_out = exported(crashed, tmp_path / "out.jsonl")
    assert found == [*ALL, "four"]
    assert len(left_out) == 1
    assert "later ones cannot be applied" in left_out[0]


def test_compacting_leaves_the_log_as_it_is(crashed: Path) -> None:
    before = content(crashed)
    compact(crashed)

    assert content(crashed) == before
    assert found_in(crashed) == ALL


# -- beside a broker -----------------------------------------------------------------------------------------------


@pytest.fixture
def running(tmp_path: Path) -> Iterator[LogBroker]:
    """A broker with commits in its log only."""
    with log_broker(tmp_path / "store") as broker:
        broker.append("folded")
        broker.fold()
        broker.append("one")
        broker.append("two", "three")
        yield broker


def test_the_tools_wait_until_a_broker_has_folded(
    running: LogBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was confirmed before a tool began is seen."""
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            running.fold()

    monkeypatch.setattr("artemis_py.storetools.unfolded.time.sleep", sleep)
    found = statistics(tmp_path / "store")

    assert (found.messages, found.log_batches, len(pauses)) == (4, 0, 3)
    assert exported(tmp_path / "store", tmp_path / "out.jsonl") == (ALL, [])


def test_the_tools_tell_what_a_broker_does_not_fold(
    running: LogBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its store has failed, or its log may be old."""
    monkeypatch.setattr(unfolded, "WAIT_S", 0)
    monkeypatch.setattr(unfolded.wait_until_folded, "__defaults__", (0.0,))
    found = statistics(tmp_path / "store")

    assert (found.messages, found.log_batches) == (1, 2)
    assert check(tmp_path / "store").log_batches == 2
    assert exported(tmp_path / "store", tmp_path / "out.jsonl") == (ALL, [])


def test_a_log_that_changes_while_it_is_looked_at_is_no_damage(running: LogBroker, tmp_path: Path) -> None:
    """A gap is where files were used again."""
    with opened(tmp_path / "store") as snapshot:
        running.fold()
        for index in range(60):
            running.append(f"more {index} " + "x" * 5000)
            running.fold()

        assert unfolded.log_state(tmp_path / "store", snapshot).problems == ()


def work(broker: LogBroker, numbers: Iterator[int]) -> None:
    """Fill some files of the log, fold them, use them again, and leave a part unfolded."""
    for _ in range(2):
        for _ in range(30):
            broker.append(f"m{next(numbers)}-" + "x" * 5000)
        broker.fold()
    for _ in range(5):
        broker.append(f"m{next(numbers)}-" + "x" * 5000)


def between_files(broker: LogBroker, numbers: Iterator[int], monkeypatch: pytest.MonkeyPatch) -> None:
    copy = unfolded._copy_segment

    def copied(segment: Segment, target: Path) -> None:
        copy(segment, target)
        work(broker, numbers)

    monkeypatch.setattr(unfolded, "_copy_segment", copied)


def within_a_file(broker: LogBroker, numbers: Iterator[int], monkeypatch: pytest.MonkeyPatch) -> None:
    read = os.pread
    sizes = iter(range(100))

    def torn(file: int, size: int, offset: int) -> bytes:
        """The first half of a file, then what is there later."""
        if size < HEADER_BYTES * 2 or next(sizes) > 6:
            return read(file, size, offset)
        first = read(file, size // 2, offset)
        work(broker, numbers)
        return first + read(file, size - len(first), offset + len(first))

    monkeypatch.setattr(os, "pread", torn)


def before_the_file(broker: LogBroker, numbers: Iterator[int], monkeypatch: pytest.MonkeyPatch) -> None:
    copy = unfolded.copy_log

    def copied(folder: Path, target: Path) -> None:
        copy(folder, target)
        work(broker, numbers)

    monkeypatch.setattr("artemis_py.storetools.copies.copy_log", copied)


def while_listing(broker: LogBroker, numbers: Iterator[int], monkeypatch: pytest.MonkeyPatch) -> None:

    def found(folder: Path, store_id: bytes | None) -> tuple[list[Segment], list[Path]]:
        segments = find_segments(folder, store_id)
        if folder.parent.name == "store":
            work(broker, numbers)
        return segments

    monkeypatch.setattr(unfolded, "find_segments", found)


def backed_up(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    meddle: Callable[[LogBroker, Iterator[int], pytest.MonkeyPatch], None],
) -> tuple[int, list[str]]:
    """How many messages were confirmed before a backup, and those that it has."""
    numbers = iter(range(10_000))
    with log_broker(tmp_path / "store") as broker:
        work(broker, numbers)
        confirmed = next(numbers)
        broker.append(f"m{confirmed}-")
        with monkeypatch.context() as patch:
            meddle(broker, numbers, patch)
            back_up(tmp_path / "store", tmp_path / "copy")
        work(broker, numbers)
    return confirmed + 1, [body.partition("-")[0] for body in found_in(tmp_path / "copy" / JOURNAL_NAME)]


MEDDLING = [between_files, within_a_file, before_the_file, while_listing]


@pytest.mark.parametrize("meddle", MEDDLING)
def test_a_backup_beside_a_broker_at_work_is_one_moment(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    meddle: Callable[[LogBroker, Iterator[int], pytest.MonkeyPatch], None],
) -> None:
    """Whatever the broker appends, folds and uses again between two steps of the copy."""
    confirmed, found = backed_up(tmp_path, monkeypatch, meddle)

    assert len(found) >= confirmed
    assert found == [f"m{number}" for number in range(len(found))]


def test_a_backup_that_takes_the_log_last_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted fault: what is folded between the two is in neither copy."""

    def log_last(broker: LogBroker, numbers: Iterator[int], patch: pytest.MonkeyPatch) -> None:
        patch.setattr("artemis_py.storetools.copies.copy_log", lambda folder, target: None)
        patch.setattr(unfolded, "_is_used", lambda folder: False)

        def check(target: Path, snapshot: Snapshot) -> None:
            work(broker, numbers)
            unfolded.copy_log(tmp_path / "store", target)
            unfolded.check_copy(target, snapshot)

        patch.setattr("artemis_py.storetools.copies.check_copy", check)

    with pytest.raises(StoreError, match="are missing"):
        backed_up(tmp_path, monkeypatch, log_last)
