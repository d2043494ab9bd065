"""What the log gives back, how it uses its files, and what it refuses."""

import errno
import logging
import os
import stat
from pathlib import Path
from typing import Final

import pytest

from artemis_py.errors import StoreError
from artemis_py.store.log import log as log_module
from artemis_py.store.log.log import WriteAheadLog
from artemis_py.store.log.options import SMALLEST_FILE_BYTES, LogOptions
from artemis_py.store.log.reading import LogReader, Segment, find_segments
from artemis_py.store.log.segment import FORMAT, HEADER_BYTES, RECORD_BYTES, Header, Record, encode_header, record_at
from tests.unit.store.log.logs import (
    OPTIONS,
    STORE,
    THIRD_BYTES,
    batch,
    damaged_files,
    files,
    filled,
    opened,
    overwrite,
    read,
)


def offset_of(index: int, size: int) -> int:
    """Offset of a record in a segment whose payloads have the same size."""
    return HEADER_BYTES + index * (RECORD_BYTES + size)


# -- appending and reading ---------------------------------------------------------------------------------------


def test_what_was_appended_is_read_in_order(tmp_path: Path) -> None:
    batches = filled(tmp_path, range(1, 21))

    assert list(read(tmp_path).items()) == list(batches.items())
    assert list(read(tmp_path, after=15)) == [16, 17, 18, 19, 20]
    assert read(tmp_path, after=20) == {}


def test_a_new_log_has_nothing(tmp_path: Path) -> None:
    log = opened(tmp_path)

    assert list(log.read(0)) == []
    assert (log.last, log.size_bytes) == (0, 0)
    assert len(files(tmp_path)) == OPTIONS.min_files


def test_the_parts_of_a_batch_are_written_as_one(tmp_path: Path) -> None:
    """More of them than one call of the system takes, and none at all."""
    many = [b"%d" % number for number in range(3000)]
    log = opened(tmp_path)
    list(log.read(0))
    log.append(1, many)
    log.append(2, [])
    log.append(3, [b"", b"end"])
    log.close()

    assert read(tmp_path) == {1: b"".join(many), 2: b"", 3: b"end"}


def test_numbers_go_on_after_those_that_lmdb_has(tmp_path: Path) -> None:
    """The log may be new while the store is not."""
    log = opened(tmp_path)
    assert list(log.read(500)) == []

    assert log.last == 500
    log.append(501, [b"first"])
    log.close()
    assert read(tmp_path, after=500) == {501: b"first"}


def test_each_writer_continues_the_log_of_the_one_before(tmp_path: Path) -> None:
    batches = filled(tmp_path, range(1, 4))
    for number in range(4, 10):
        log = opened(tmp_path)
        assert dict(log.read(0)) == batches
        batches[number] = batch(number)
        log.append(number, [batches[number]])
        log.close()

    assert read(tmp_path) == batches
    epochs = [segment.header.epoch for segment in find_segments(tmp_path / "log", STORE)[0] if segment.header.number]
    assert epochs == [1, 2, 3, 4, 5, 6, 7]


def test_a_batch_larger_than_a_file_gets_one_of_its_own(tmp_path: Path) -> None:
    log = opened(tmp_path)
    list(log.read(0))
    payloads = [batch(1), batch(2, 3 * SMALLEST_FILE_BYTES), batch(3)]
    for number, payload in enumerate(payloads, 1):
        log.append(number, [payload])

    assert max(path.stat().st_size for path in files(tmp_path)) > 3 * SMALLEST_FILE_BYTES
    assert read(tmp_path) == dict(enumerate(payloads, 1))
    log.cut(3)
    assert {path.stat().st_size for path in files(tmp_path)} == {SMALLEST_FILE_BYTES}
    log.close()


def test_a_short_write_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux writes at most 2 GiB at once."""
    log = opened(tmp_path)
    list(log.read(0))
    write = os.pwritev
    monkeypatch.setattr(os, "pwritev", lambda file, parts, offset: write(file, [b"".join(parts)[:17]], offset))
    log.append(1, [b"first", b"batch"])
    log.append(2, [b"%d" % number for number in range(2000)])
    log.close()

    assert read(tmp_path) == {1: b"firstbatch", 2: b"".join(b"%d" % number for number in range(2000))}


def test_one_write_and_one_sync_make_a_batch_safe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    log = opened(tmp_path)
    list(log.read(0))
    write, sync = os.pwritev, os.fdatasync

    def counted_write(file: int, parts: list[bytes], offset: int) -> int:
        calls.append("write")
        return write(file, parts, offset)

    def counted_sync(file: int) -> None:
        calls.append("sync")
        sync(file)

    monkeypatch.setattr(os, "pwritev", counted_write)
    monkeypatch.setattr(os, "fdatasync", counted_sync)
    log.append(1, [b"one"])
    log.append(2, [b"two", b"parts"])

    assert calls == ["write", "sync"] * 2
    log.close()


def test_without_sync_nothing_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = opened(tmp_path, LogOptions(file_bytes=SMALLEST_FILE_BYTES, sync=False))
    list(log.read(0))
    monkeypatch.setattr(os, "fdatasync", None)
    log.append(1, [b"one"])
    log.close()

    assert read(tmp_path) == {1: b"one"}


# -- files ---------------------------------------------------------------------------------------------------------


def test_cut_files_are_used_again(tmp_path: Path) -> None:
    """However much goes through the log, it keeps its files."""
    log = opened(tmp_path)
    list(log.read(0))
    for number in range(1, 100):
        log.append(number, [batch(number, THIRD_BYTES)])
        log.cut(number - 1)
    log.close()

    assert len(files(tmp_path)) == OPTIONS.min_files
    assert read(tmp_path, after=98) == {99: batch(99, THIRD_BYTES)}


def test_the_rest_of_an_earlier_use_is_not_read(tmp_path: Path) -> None:
    """The numbers would even fit: the new batches are as long as the old ones, and are written over the first."""
    once = LogOptions(file_bytes=SMALLEST_FILE_BYTES, min_files=1)
    filled(tmp_path, range(1, 4), THIRD_BYTES, once)
    (path,) = files(tmp_path)
    old = path.read_bytes()
    for number in (4, 2):
        path.write_bytes(old)
        log = opened(tmp_path, once)
        assert list(log.read(number - 1)) == (
            [] if number == 4 else [(2, batch(2, THIRD_BYTES)), (3, batch(3, THIRD_BYTES))]
        )
        log.cut(3)
        log.append(log.last + 1, [batch(9, THIRD_BYTES)])
        log.close()

        assert read(tmp_path, after=3, options=once) == {4: batch(9, THIRD_BYTES)}


def test_a_reader_that_takes_the_rest_of_an_earlier_use_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A planted fault: any valid record is the next one."""

    def next_record(reader: LogReader, segment: Segment, data: bytes, offset: int) -> Record | None:
        record = record_at(data, offset, reader._seed)
        if record is None:
            return None
        length = record.end - record.start
        return Record(offset, length, record.salt, record.segment, reader.last + 1, record.epoch, record.writer)

    monkeypatch.setattr(LogReader, "_next", next_record)

    with pytest.raises(AssertionError):
        test_the_rest_of_an_earlier_use_is_not_read(tmp_path)


def test_files_beyond_the_pool_are_deleted(tmp_path: Path) -> None:
    """`journal-pool-files`; -1 keeps all."""
    for pool_files, kept in ((3, 3), (-1, 7), (0, 2)):
        folder = tmp_path / str(pool_files)
        log = opened(folder, LogOptions(file_bytes=SMALLEST_FILE_BYTES, min_files=2, pool_files=pool_files))
        list(log.read(0))
        for number in range(1, 22):
            log.append(number, [batch(number, THIRD_BYTES)])
        assert len(files(folder)) == 7
        log.cut(20)
        assert len(files(folder)) == kept
        log.close()
        assert list(read(folder, 20, log.options)) == [21]


def test_a_start_deletes_files_beyond_the_pool_and_those_that_are_too_large(tmp_path: Path) -> None:
    filled(tmp_path, range(1, 22), THIRD_BYTES)
    assert len(files(tmp_path)) == 7
    read(tmp_path, 21, LogOptions(file_bytes=SMALLEST_FILE_BYTES, pool_files=4))
    assert len(files(tmp_path)) == 4
    read(tmp_path, 21, LogOptions(file_bytes=2 * SMALLEST_FILE_BYTES, min_files=6))
    assert sorted(sizes(tmp_path)) == [SMALLEST_FILE_BYTES] * 4 + [2 * SMALLEST_FILE_BYTES] * 2
    read(tmp_path, 21)

    assert sizes(tmp_path) == [SMALLEST_FILE_BYTES] * 4


def sizes(folder: Path) -> list[int]:
    """Sizes of the files."""
    return [path.stat().st_size for path in files(folder)]


GROWING: Final = LogOptions(file_bytes=5 * SMALLEST_FILE_BYTES)


def test_a_file_is_made_when_it_is_needed_and_grows(tmp_path: Path) -> None:
    """A start makes none. Each time a record has no room the size doubles, until the next file has its turn."""
    log = opened(tmp_path, GROWING)
    list(log.read(0))
    found = [sizes(tmp_path)]
    for number in range(1, 18):
        log.append(number, [batch(number, THIRD_BYTES)])
        if sizes(tmp_path) != found[-1]:
            found.append(sizes(tmp_path))
    log.close()

    grown = [[count * SMALLEST_FILE_BYTES] for count in (1, 2, 4, 5)]
    assert found == [[], *grown, [5 * SMALLEST_FILE_BYTES, SMALLEST_FILE_BYTES]]
    assert read(tmp_path, options=GROWING) == {number: batch(number, THIRD_BYTES) for number in range(1, 18)}


def test_a_file_grows_for_a_large_record_and_is_used_again_as_it_is(tmp_path: Path) -> None:
    """A small file that is free grows as well, if there is none that is large enough."""
    log = opened(tmp_path, GROWING)
    list(log.read(0))
    large = 4 * SMALLEST_FILE_BYTES - HEADER_BYTES - RECORD_BYTES
    found = []
    for number, size in enumerate((1, large // 2, large, 1, large, large, large), 1):
        log.append(number, [batch(number, size)])
        found.append([each // SMALLEST_FILE_BYTES for each in sizes(tmp_path)])
        log.cut(number)
    log.close()

    assert found == [[1], [2], [2, 4], [2, 5], [4, 5], [4, 5], [4, 5]]
    assert read(tmp_path, 6, GROWING) == {7: batch(7, large)}


def test_a_file_grows_as_far_as_the_disk_has_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record may be the one that makes room. When not even that is there, a file that is free is taken."""
    allocate = os.posix_fallocate
    most = 2 * SMALLEST_FILE_BYTES

    def nearly_full(file: int, offset: int, size: int) -> None:
        if offset + size > most:
            raise OSError(errno.ENOSPC, "No space left on device")
        allocate(file, offset, size)

    log = opened(tmp_path, GROWING)
    list(log.read(0))
    monkeypatch.setattr(os, "posix_fallocate", nearly_full)
    third = THIRD_BYTES + RECORD_BYTES
    for number in range(1, 7):
        log.append(number, [batch(number, THIRD_BYTES)])
    assert sizes(tmp_path) == [most]
    most += third
    log.append(7, [batch(7, THIRD_BYTES)])
    log.append(8, [batch(8, THIRD_BYTES)])
    assert sizes(tmp_path) == [HEADER_BYTES + 7 * third, SMALLEST_FILE_BYTES]
    most = 0
    log.cut(7)
    log.append(9, [batch(9, THIRD_BYTES)])
    log.append(10, [batch(10, THIRD_BYTES)])
    log.append(11, [batch(11, THIRD_BYTES)])
    assert len(sizes(tmp_path)) == 2
    log.cut(10)
    for number in range(12, 18):
        log.append(number, [batch(number, THIRD_BYTES)])
    with pytest.raises(OSError, match="No space left"):
        log.append(18, [batch(18, 4 * THIRD_BYTES)])
    log.close()

    assert sizes(tmp_path) == [HEADER_BYTES + 7 * third, SMALLEST_FILE_BYTES]
    assert list(read(tmp_path, 10, GROWING)) == list(range(11, 18))


def test_the_size_is_that_of_batches_that_are_not_cut(tmp_path: Path) -> None:
    """A file counts as a whole until it is cut as a whole, except that a log without batches has no size."""
    record_bytes = THIRD_BYTES + RECORD_BYTES
    log = opened(tmp_path)
    list(log.read(0))
    sizes = []
    for number in range(1, 9):
        log.append(number, [batch(number, THIRD_BYTES)])
        sizes.append(log.size_bytes)
    assert sizes == [number * record_bytes for number in range(1, 9)]
    log.cut(2)
    assert log.size_bytes == 8 * record_bytes
    log.cut(3)
    assert log.size_bytes == 5 * record_bytes
    log.cut(8)
    assert log.size_bytes == 0
    log.append(9, [batch(9, THIRD_BYTES)])
    assert log.size_bytes == record_bytes
    log.append(10, [batch(10, THIRD_BYTES)])
    log.cut(9)
    log.close()

    again = opened(tmp_path)
    assert list(again.read(9)) == [(10, batch(10, THIRD_BYTES))]
    assert again.size_bytes == record_bytes
    again.close()


def test_a_file_that_was_not_finished_is_no_file(tmp_path: Path) -> None:
    """The process was killed while it made one."""
    batches = filled(tmp_path, range(1, 4))
    (tmp_path / "log" / log_module.NEW_NAME).write_bytes(b"half")

    assert read(tmp_path) == batches
    assert not (tmp_path / "log" / log_module.NEW_NAME).exists()


def test_a_file_that_cannot_be_deleted_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log = opened(tmp_path, LogOptions(file_bytes=SMALLEST_FILE_BYTES, pool_files=2))
    list(log.read(0))
    for number in range(1, 12):
        log.append(number, [batch(number, THIRD_BYTES)])

    def unlink(path: Path) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "unlink", unlink)
    log.cut(11)

    assert "cannot be deleted" in caplog.text
    assert log.size_bytes == 0
    log.close()


@pytest.mark.parametrize("error", [errno.EINVAL, errno.EOPNOTSUPP])
def test_a_file_system_that_cannot_allocate_gets_files_of_the_same_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    def refuse(file: int, offset: int, size: int) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    filled(tmp_path, range(1, 3))

    assert {path.stat().st_size for path in files(tmp_path)} == {SMALLEST_FILE_BYTES}


# -- failures ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["pwritev", "fdatasync"])
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_after_a_failed_write_or_sync_nothing_is_appended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, error: int
) -> None:
    """The kernel reports a lost write once: the next sync would succeed."""

    def fail(*args: object) -> int:
        raise OSError(error, os.strerror(error))

    log = opened(tmp_path)
    list(log.read(0))
    log.append(1, [b"one"])
    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(OSError, match=os.strerror(error)):
            log.append(2, [b"two"])
    for number in (2, 3):
        with pytest.raises(OSError, match=f"failed before: {os.strerror(error)}"):
            log.append(number, [b"again"])
    assert log.last == 1
    log.close()

    found = read(tmp_path)
    assert found in ({1: b"one"}, {1: b"one", 2: b"two"})


def test_a_full_disk_that_has_no_room_for_a_file_ends_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: int, offset: int, size: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    log = opened(tmp_path)
    list(log.read(0))
    monkeypatch.setattr(os, "posix_fallocate", full)
    number = 3 * OPTIONS.min_files + 1
    for fitting in range(1, number):
        log.append(fitting, [batch(fitting, THIRD_BYTES)])
    with pytest.raises(OSError, match="No space left"):
        log.append(number, [batch(number, THIRD_BYTES)])
    with pytest.raises(OSError, match="failed before"):
        log.append(number, [b"small enough"])
    log.close()

    assert not (tmp_path / "log" / log_module.NEW_NAME).exists()
    assert list(read(tmp_path)) == list(range(1, number))


def test_a_full_disk_keeps_no_log_from_its_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A broker must start to be emptied; a record that has room is taken, in a smaller file."""
    options = LogOptions(file_bytes=4 * SMALLEST_FILE_BYTES, min_files=1)
    allocate = os.posix_fallocate

    def nearly_full(file: int, offset: int, size: int) -> None:
        if size > 2 * SMALLEST_FILE_BYTES:
            raise OSError(errno.ENOSPC, "No space left on device")
        allocate(file, offset, size)

    monkeypatch.setattr(os, "posix_fallocate", nearly_full)
    log = opened(tmp_path, options)
    list(log.read(0))
    made = files(tmp_path)
    large = batch(2, SMALLEST_FILE_BYTES)
    log.append(1, [b"one"])
    log.append(2, [large])
    with pytest.raises(OSError, match="No space left"):
        log.append(3, [batch(3, 3 * SMALLEST_FILE_BYTES)])
    log.close()

    assert made == []
    assert "no room for the files of the log" in caplog.text
    assert read(tmp_path, options=options) == {1: b"one", 2: large}


def test_a_write_that_writes_nothing_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = opened(tmp_path)
    list(log.read(0))
    monkeypatch.setattr(os, "pwritev", lambda *args: 0)
    monkeypatch.setattr(os, "pwrite", lambda *args: 0)

    with pytest.raises(OSError, match="nothing was written"):
        log.append(1, [b"one"])
    log.close()


def test_a_closed_log_takes_nothing(tmp_path: Path) -> None:
    log = opened(tmp_path)
    list(log.read(0))
    log.close()
    log.close()

    with pytest.raises(OSError, match="closed"):
        log.append(1, [b"one"])


# -- where the log ends --------------------------------------------------------------------------------------------


def test_a_torn_batch_ends_the_log_and_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    batches = filled(tmp_path, range(1, 4))
    path = files(tmp_path)[0]
    overwrite(path, offset_of(2, 40) + RECORD_BYTES + 39, b"\0")
    del batches[3]

    assert read(tmp_path) == batches
    assert f"not written whole: file={path} offset={offset_of(2, 40)} batch=3" in caplog.text
    assert damaged_files(tmp_path) == []


def test_the_log_goes_on_behind_a_torn_batch(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its number is given again; the warning is not repeated."""
    filled(tmp_path, range(1, 4))
    overwrite(files(tmp_path)[0], offset_of(2, 40) + RECORD_BYTES, b"\0")
    log = opened(tmp_path)
    batches = dict(log.read(0))
    log.append(3, [b"another"])
    log.close()
    caplog.clear()

    assert read(tmp_path) == {**batches, 3: b"another"}
    assert "not written whole" not in caplog.text


def test_a_damaged_batch_before_whole_ones_is_set_aside_with_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing behind it can be applied in order; nothing is lost silently."""
    batches = filled(tmp_path, range(1, 8), THIRD_BYTES)
    _, second, third = files(tmp_path)
    content = [path.read_bytes() for path in (second, third)]
    overwrite(second, offset_of(1, THIRD_BYTES) + RECORD_BYTES + 9, b"\0")

    assert read(tmp_path) == {number: batches[number] for number in range(1, 5)}
    assert f"from 5 on are not applied, the next one that can be read is 6: file={second}" in caplog.text
    assert damaged_files(tmp_path) == [f"{second.name}.damaged", f"{third.name}.damaged"]
    assert Path(f"{third}.damaged").read_bytes() == content[1]
    kept = bytearray(Path(f"{second}.damaged").read_bytes())
    kept[offset_of(1, THIRD_BYTES) + RECORD_BYTES + 9] = batches[5][9]
    assert kept == content[0]


def test_the_log_goes_on_behind_damage(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What was set aside does not come back between newer batches."""
    filled(tmp_path, range(1, 8), THIRD_BYTES)
    overwrite(files(tmp_path)[1], offset_of(1, THIRD_BYTES), b"\0\0\0\0")
    log = opened(tmp_path)
    batches = dict(log.read(0))
    assert len(log.set_aside) == 2
    for number in range(5, 12):
        batches[number] = b"newer %d" % number
        log.append(number, [batches[number]])
    log.close()
    caplog.clear()

    assert read(tmp_path) == batches
    assert "ERROR" not in caplog.text


def test_a_missing_segment_is_damage(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    batches = filled(tmp_path, range(1, 10), THIRD_BYTES)
    files(tmp_path)[1].unlink()

    assert read(tmp_path) == {number: batches[number] for number in range(1, 4)}
    assert "from 4 on are not applied, the next one that can be read is 7" in caplog.text
    assert len(damaged_files(tmp_path)) == 1


def test_a_last_batch_of_a_segment_that_is_damaged_is_kept(tmp_path: Path) -> None:
    """It looks torn, but the next segment says that it was whole."""
    batches = filled(tmp_path, range(1, 7), THIRD_BYTES)
    first, second = files(tmp_path)
    overwrite(first, offset_of(2, THIRD_BYTES) + RECORD_BYTES, b"\0")

    assert read(tmp_path) == {1: batches[1], 2: batches[2]}
    assert damaged_files(tmp_path) == [f"{first.name}.damaged", f"{second.name}.damaged"]


def test_a_first_batch_that_is_damaged_sets_the_whole_file_aside(tmp_path: Path) -> None:
    filled(tmp_path, range(1, 3))
    overwrite(files(tmp_path)[0], HEADER_BYTES, b"\0\0\0\0")

    assert read(tmp_path) == {}
    assert damaged_files(tmp_path) == ["00000001.log.damaged"]


def test_damage_again_gets_another_name(tmp_path: Path) -> None:
    for _ in range(2):
        filled(tmp_path, range(1, 3))
        damaged = next(path for path in files(tmp_path) if path.read_bytes()[HEADER_BYTES:].strip(b"\0"))
        damaged = damaged.rename(damaged.with_name("00000001.log"))
        overwrite(damaged, HEADER_BYTES, b"\0\0\0\0")
        assert read(tmp_path) == {}

    assert damaged_files(tmp_path) == ["00000001.log.damaged", "00000001.log.damaged-2"]


def test_damage_of_what_lmdb_has_is_passed_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    batches = filled(tmp_path, range(1, 7))
    overwrite(files(tmp_path)[0], offset_of(1, 40) + RECORD_BYTES, b"\0")

    assert read(tmp_path, after=3) == {number: batches[number] for number in (4, 5, 6)}
    assert "not needed" in caplog.text
    assert damaged_files(tmp_path) == []


def test_a_log_that_does_not_reach_back_to_lmdb_is_set_aside(tmp_path: Path) -> None:
    """An older LMDB file was put back, and what it would need is cut."""
    log = opened(tmp_path)
    list(log.read(100))
    log.append(101, [b"one"])
    log.close()

    assert read(tmp_path, after=50) == {}
    assert len(damaged_files(tmp_path)) == 1


def test_a_damaged_header_does_not_matter(tmp_path: Path) -> None:
    """Every record says the same."""
    batches = filled(tmp_path, range(1, 8), THIRD_BYTES)
    for path in files(tmp_path):
        overwrite(path, 0, bytes(HEADER_BYTES))

    assert read(tmp_path) == batches


def test_a_file_without_a_beginning_is_set_aside(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    batches = filled(tmp_path, range(1, 7), THIRD_BYTES)
    last = files(tmp_path)[1]
    overwrite(last, 0, bytes(HEADER_BYTES + RECORD_BYTES))

    assert read(tmp_path) == {number: batches[number] for number in range(1, 4)}
    assert f"it is not applied: file={last}" in caplog.text
    assert damaged_files(tmp_path) == [f"{last.name}.damaged"]


def test_an_unused_file_with_a_damaged_header_is_deleted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    batches = filled(tmp_path, range(1, 4))
    overwrite(files(tmp_path)[1], 0, b"\0")

    assert read(tmp_path) == batches
    assert damaged_files(tmp_path) == []
    assert "ERROR" not in caplog.text


# -- refusals ------------------------------------------------------------------------------------------------------


def test_the_log_of_another_store_is_refused(tmp_path: Path) -> None:
    filled(tmp_path, range(1, 4))

    with pytest.raises(StoreError, match="belongs to another store: put back the log"):
        WriteAheadLog.open(tmp_path / "log", b"another store id", OPTIONS)


def test_a_later_format_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(tmp_path, range(1, 4))
    with monkeypatch.context() as patch:
        patch.setattr("artemis_py.store.log.segment.FORMAT", FORMAT + 1)
        header = encode_header(Header(STORE, bytes(16), 1, 1, bytes(8)))
    overwrite(files(tmp_path)[0], 0, header)

    with pytest.raises(StoreError, match="start it with the release that wrote it"):
        read(tmp_path)


def test_batches_are_appended_in_order_after_reading(tmp_path: Path) -> None:
    log = opened(tmp_path)
    with pytest.raises(AssertionError):
        log.append(1, [b"not read yet"])
    list(log.read(7))
    with pytest.raises(AssertionError):
        log.append(9, [b"a gap"])
    log.close()


@pytest.mark.parametrize("wrong", [{"file_bytes": 100}, {"min_files": -1}, {"pool_files": -2}])
def test_options_out_of_range_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be"):
        LogOptions(**wrong)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _all_levels(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


def test_names_are_synced_by_the_first_batch_and_not_by_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start writes nothing that relies on them; the folder itself is synced in its parent before its first file."""
    synced: list[int] = []
    sync = os.fsync

    def note(file: int) -> None:
        status = os.fstat(file)
        if stat.S_ISDIR(status.st_mode):
            synced.append(status.st_ino)
        sync(file)

    monkeypatch.setattr(os, "fsync", note)
    found = []
    for number in (1, 3):
        log = opened(tmp_path, LogOptions(file_bytes=SMALLEST_FILE_BYTES))
        assert list(log.read(number - 1)) == []
        found.append(list(synced))
        log.append(number, [batch(number)])
        log.append(number + 1, [batch(number + 1)])
        found.append(list(synced))
        log.close()
        synced.clear()

    folder = (tmp_path / "log").stat().st_ino
    assert found == [[], [tmp_path.stat().st_ino, folder], [], [folder]]
