"""Large bodies of a store that a broker may be using, and how they stay readable for as long as they are read.

A broker deletes the file of a body after the commit that removed its last reference, and a snapshot from before that
commit still refers to it. So a program that needs the bodies of a snapshot gives their files a second name first:

    hard links to all bodies ─► snapshot ─► links to bodies that came between ─► read ─► links are removed

A body that came and went between the first two steps is no longer in a newer snapshot: in that case all steps begin
again. A copy of a write-ahead log is made between the links and the snapshot, and is followed by links to what came
since: it may refer to bodies that the snapshot does not know.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from artemis_py.core.messages.large_body import LargeBody
from artemis_py.errors import StoreError
from artemis_py.store import schema
from artemis_py.store.folder_lock import FolderLock
from artemis_py.store.large import FileReader, body_files, body_path, check_file
from artemis_py.store.lmdb import LARGE_MESSAGES_NAME
from artemis_py.storetools.snapshot import Snapshot, is_logged, opened

HOLD_PREFIX: Final = "held-"
"""Prefix of folders with links, inside the folder of the bodies: links do not reach into other file systems."""


class StoredBody(LargeBody):
    """A body that can only be read."""

    def __init__(self, path: Path, id: int, size: int, checksum: int) -> None:
        super().__init__(id, size, checksum, holders=0)
        self._path: Final = path

    def reader(self) -> FileReader:
        """See `LargeBody`."""
        return FileReader(self._path, self.size, self.checksum)


class StoredBodies:
    """The files of bodies in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder: Final = folder

    def restore(self, id: int, size: int, checksum: int) -> StoredBody:
        """See `core.messages.record.Bodies`."""
        path = body_path(self.folder, id)
        check_file(path, size)
        return StoredBody(path, id, size, checksum)


class UnseenBodies:
    """Bodies as their messages describe them, whether the files are there or not."""

    def restore(self, id: int, size: int, checksum: int) -> LargeBody:
        """See `core.messages.record.Bodies`."""
        return LargeBody(id, size, checksum, holders=0)


def bodies_folder(folder: Path, large_messages_folder: Path | None) -> Path:
    """Return the folder with the bodies of the store in `folder`: below it, unless another folder is named."""
    return folder / LARGE_MESSAGES_NAME if large_messages_folder is None else large_messages_folder


@contextmanager
def opened_with_bodies(
    folder: Path, large_messages_folder: Path | None, before: Callable[[], None] | None = None
) -> Iterator[tuple[Snapshot, StoredBodies]]:
    """Yield a store as it is now, with the files of its large bodies, which stay in the meantime. Raises StoreError.

    `before` is called before the snapshot is taken, maybe several times; bodies that are there at its end stay too. A
    body that is missing all the same is damage, which `restore` reports.
    """
    bodies = bodies_folder(folder, large_messages_folder)
    if before is not None:
        before()
    with opened(folder) as snapshot:
        if not bodies.is_dir() or not (snapshot.count(schema.BODIES) or is_logged(snapshot)):
            yield snapshot, StoredBodies(bodies)
            return
    with _hold_in(bodies) as hold:
        while True:
            _link_all(bodies, hold)
            if before is not None:
                before()
                _link_all(bodies, hold)
            with opened(folder) as snapshot:
                if _has_all(snapshot, bodies, hold):
                    yield snapshot, StoredBodies(hold)
                    return


@contextmanager
def _hold_in(bodies: Path) -> Iterator[Path]:
    """Yield a folder for links, after deleting folders that killed processes left behind. Raises StoreError."""
    try:
        for left in bodies.glob(HOLD_PREFIX + "*"):
            _remove_unused(left)
        hold = Path(tempfile.mkdtemp(prefix=HOLD_PREFIX, dir=bodies))
    except OSError as error:
        raise StoreError(f"{bodies} cannot be written: {error.strerror}") from error
    lock = FolderLock(hold)
    try:
        yield hold
    finally:
        shutil.rmtree(hold, ignore_errors=True)
        lock.release()


def _remove_unused(hold: Path) -> None:
    try:
        lock = FolderLock(hold)
    except StoreError:
        return
    shutil.rmtree(hold, ignore_errors=True)
    lock.release()


def _link_all(bodies: Path, hold: Path) -> None:
    for id, _ in list(body_files(bodies)):
        _link(bodies, hold, id)


def _link(bodies: Path, hold: Path, id: int) -> bool:
    """Link a body's file; return False if the file is missing. Raises StoreError."""
    link = body_path(hold, id)
    try:
        if not link.exists():
            link.hardlink_to(body_path(bodies, id))
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StoreError(f"{body_path(bodies, id)} cannot be held by a hard link: {error.strerror}") from error
    return True


def _has_all(snapshot: Snapshot, bodies: Path, hold: Path) -> bool:
    """Tell whether all bodies of a snapshot are linked, except those that are missing although the store needs them."""
    for key in snapshot.keys(schema.BODIES):
        if not _link(bodies, hold, schema.U64.unpack(key)[0]) and not snapshot.is_still_there(schema.BODIES, key):
            return False
    return True
