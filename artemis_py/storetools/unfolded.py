"""The write-ahead log of a store, seen from outside: what is in it and not in LMDB yet.

A broker that runs folds its log all the time, and uses the files of the log again. So the tools wait until LMDB has
what was in the log when they began: what was confirmed before is then seen. Without a broker the log stays as it is
until the next start, and a tool tells what is in it.

A copy takes the log first and LMDB's file after it. A batch leaves the log only after LMDB has it, so each batch is in
the copied log, in the copied file or in both. Those that the file does not have are then written into it.

    list of segments ─► their content, newest first ─► snapshot of LMDB's file

A segment that is used again in the meantime had only batches that are in the snapshot, and is left out. The newest one
comes first because no other grows: read last, an older one could end before a newer one begins.
"""

import os
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from attrs import frozen

from artemis_py.errors import DamagedValue, StoreError
from artemis_py.store import schema
from artemis_py.store.condition import NOTE_NAME, is_in_use, leave_note
from artemis_py.store.environment import FILE_NAME, Environment, sync_folder
from artemis_py.store.folder_lock import LOCK_NAME
from artemis_py.store.log.reading import LogReader, Segment, find_segments, first_needed, read_content
from artemis_py.store.log.segment import DAMAGED_SUFFIX, FOLDER_NAME, HEADER_BYTES, decode_header, seed_of
from artemis_py.store.log_start import STORE_ID_BYTES, Mark, start_log
from artemis_py.storetools.snapshot import Snapshot, is_logged, opened

WAIT_S: Final = 15.0
"""Longest time in seconds that a tool waits for a broker; with the default options one folds after two seconds."""
LOOK_S: Final = 0.05
LMDB_LOCK_NAME: Final = "lock.mdb"

ATTEMPTS: Final = 5
"""Attempts to list files that a broker is deleting."""


@frozen(kw_only=True)
class LogState:
    """The log of a store."""

    file_bytes: int = 0
    """Size of its files, used or not."""
    batches: int = 0
    """Batches that are not in LMDB yet."""
    batch_bytes: int = 0
    last: int = 0
    """Number of the last batch."""
    problems: tuple[str, ...] = ()
    set_aside: tuple[str, ...] = ()
    """Names of damaged files that a start has set aside."""


def mark_of(snapshot: Snapshot) -> Mark | None:
    """Return what LMDB's file knows of its log; None if it never had one. Raises DamagedValue."""
    value = snapshot.get(schema.META, schema.LOG)
    if value is None:
        return None
    content = schema.unseal(schema.LOG, value)
    if len(content) != STORE_ID_BYTES + schema.U64.size:
        raise DamagedValue("it is not the note of a log")
    return Mark(content[:STORE_ID_BYTES], schema.U64.unpack_from(content, STORE_ID_BYTES)[0])


def log_state(folder: Path, snapshot: Snapshot) -> LogState:
    """Return what the log of the store in `folder` has that the snapshot does not have.

    While a broker uses the log, damage is left to that broker, which looks for it when it starts.
    """
    log_folder = folder / FOLDER_NAME
    if not log_folder.is_dir():
        mark = _known(snapshot)
        is_missing = is_logged(snapshot) and mark is not None and mark.number > 0
        return LogState(problems=(f"{FOLDER_NAME} is missing: what was only there is lost",) if is_missing else ())
    set_aside = tuple(sorted(path.name for path in log_folder.iterdir() if DAMAGED_SUFFIX in path.suffix))
    try:
        mark = mark_of(snapshot)
        if mark is None:
            return LogState(set_aside=set_aside)
        segments, unreadable = _list(log_folder, mark.store_id)
        reader = LogReader(segments, seed_of(mark.store_id), mark.number)
        batch_bytes = 0
        with suppress(FileNotFoundError):
            for _, payload in reader.batches():
                batch_bytes += len(payload)
    except (DamagedValue, OSError, StoreError) as error:
        return LogState(problems=(f"{FOLDER_NAME}: {error}",), set_aside=set_aside)
    return LogState(
        file_bytes=sum(segment.size for segment in segments),
        batches=reader.last - mark.number,
        batch_bytes=batch_bytes,
        last=reader.last,
        problems=() if _is_used(folder) else tuple(_problems(reader, unreadable)),
        set_aside=set_aside,
    )


def _problems(reader: LogReader, unreadable: list[Path]) -> list[str]:
    found = [f"{FOLDER_NAME}/{path.name}: its beginning is damaged" for path in unreadable]
    damage = reader.damage
    if damage is not None:
        found.append(
            f"{FOLDER_NAME}/{reader.segments[damage.index].path.name}: batches {damage.expected} to {damage.found - 1} "
            f"are missing at offset {damage.offset}, later ones cannot be applied"
        )
    return found


def wait_until_folded(folder: Path, wait_s: float = WAIT_S) -> bool:
    """Wait until LMDB has all batches that its broker has confirmed; return whether it has. Raises StoreError.

    Without a broker nothing is folded: this returns False at once.
    """
    if not _is_used(folder):
        return False
    with opened(folder) as snapshot:
        state = log_state(folder, snapshot)
    until = time.monotonic() + wait_s
    number = state.last - state.batches
    while number < state.last:
        if not _is_used(folder) or time.monotonic() > until:
            return False
        time.sleep(LOOK_S)
        with opened(folder) as snapshot, suppress(DamagedValue):
            mark = mark_of(snapshot)
            number = state.last if mark is None else mark.number
    return True


def copy_log(folder: Path, target: Path) -> None:
    """Copy the log of the store in `folder` to `target`/log, durably.

    Copy LMDB's file after it. Raises OSError, StoreError.
    """
    log_folder = folder / FOLDER_NAME
    copy = target / FOLDER_NAME
    shutil.rmtree(copy, ignore_errors=True)
    if not log_folder.is_dir():
        return
    copy.mkdir()
    mark: Mark | None = None
    if _is_used(folder):
        # Without a broker, opening the file means checking all its pages.
        with opened(folder) as snapshot:
            mark = _known(snapshot)
    segments, _ = _list(log_folder, None if mark is None else mark.store_id)
    for segment in reversed(segments[first_needed(segments, 0 if mark is None else mark.number) :]):
        if segment.header.number:
            _copy_segment(segment, copy / segment.path.name)
    sync_folder(copy)


def _copy_segment(segment: Segment, copy: Path) -> None:
    """Copy a file, unless it was deleted or used again since it was listed: LMDB has its batches then."""
    with suppress(FileNotFoundError):
        content = read_content(segment.path, False)
        header = decode_header(read_content(segment.path, False, HEADER_BYTES), segment.path)
        if header is None or header.number == segment.header.number:
            with copy.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())


def check_copy(target: Path, snapshot: Snapshot) -> None:
    """Raise StoreError if batches are missing in a copied log that the snapshot does not have: the log is damaged."""
    mark = _known(snapshot)
    if mark is None:
        return
    segments, unreadable = find_segments(target / FOLDER_NAME, mark.store_id)
    reader = LogReader(segments, seed_of(mark.store_id), mark.number)
    for _ in reader.batches():
        pass
    if problems := _problems(reader, unreadable):
        raise StoreError(
            f"the store is damaged and is not copied: {problems[0]}; a broker that starts on it takes over what can "
            "be read, and `artemis-py data export` saves it"
        )


def fold_copy(target: Path) -> list[bytes]:
    """Write what a copied log has into the copy of LMDB's file, and delete the log; return the keys of large bodies.

    Raises StoreError.
    """
    # LMDB itself wrote the file a moment ago: its pages need no check.
    leave_note(target / FILE_NAME)
    environment = Environment(target)
    try:
        start_log(environment, None)
        keys = [key for key, _ in environment.read_all(schema.BODIES, b"")]
    finally:
        environment.close()
    for name in (LOCK_NAME, LMDB_LOCK_NAME, NOTE_NAME):
        (target / name).unlink(missing_ok=True)
    shutil.rmtree(target / FOLDER_NAME, ignore_errors=True)
    return keys


def _known(snapshot: Snapshot) -> Mark | None:
    """Return the mark; None if it is damaged, because a start then renames the log."""
    try:
        return mark_of(snapshot)
    except DamagedValue:
        return None


def _list(log_folder: Path, store_id: bytes | None) -> tuple[list[Segment], list[Path]]:
    """Return what `find_segments` returns, although a broker may be deleting files. Raises OSError, StoreError."""
    for _ in range(ATTEMPTS - 1):
        with suppress(FileNotFoundError):
            return find_segments(log_folder, store_id)
    return find_segments(log_folder, store_id)


def _is_used(folder: Path) -> bool:
    """Return whether a broker uses the store."""
    return is_in_use(folder / LOCK_NAME)
