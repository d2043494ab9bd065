"""The check that decides whether LMDB may open the store's file.

LMDB itself cannot be asked: it trusts its file, and a damaged page ends the process (see `structure`).

    state of the file                              what is checked
    as the last clean stop left it                 its length and its meta pages
    anything else: a crash, a copy, other writing  every page, once
    in use by a broker                             its length: that broker checked the rest when it started

A clean stop leaves a note beside the file: the file's size, its time, and its last transaction. The broker removes the
note when it opens the file.
"""

import fcntl
import os
from pathlib import Path
from typing import Final

from artemis_py.errors import StoreError
from artemis_py.store import schema
from artemis_py.store.page_file import IS_READABLE, Meta, PageFile, Tree
from artemis_py.store.structure import MAIN, Walk

NOTE_NAME: Final = "clean"

ATTEMPTS_IN_USE: Final = 3
"""Checks of a file that a broker is writing. If all are in vain, it counts as sound: the broker itself can read it."""

KEY_LENGTHS: Final = {name.decode(): lengths for name, lengths in schema.KEY_LENGTHS.items()}
_NAMES: Final = frozenset(name.decode() for name in schema.DATABASES)


class Damage:
    """A damaged file, and the commit from which something can still be read."""

    def __init__(self, path: Path, meta: Meta, problems: list[str], doubtful: set[int], is_older: bool) -> None:
        self.path: Final = path
        self.meta: Final = meta
        self.problems: Final = problems
        """Descriptions of the damage, one for each page or database."""
        self.doubtful: Final = doubtful
        """Pages in use that the list of free pages has as well; their content may be of an earlier time."""
        self.is_older: Final = is_older
        """Whether the last commit cannot be read, so that this is the one before it."""

    def walk(self, file: PageFile) -> Walk:
        """Return a walk through what can be read, with its named databases known."""
        walk = Walk(file, self.meta, KEY_LENGTHS, self.doubtful)
        walk.read_names()
        rename(walk.databases)
        return walk


def examine(path: Path, can_trust_note: bool = True) -> Damage | None:
    """Return what is wrong with the file; None if nothing is. Raises NothingKnown with what to do, StoreError."""
    try:
        size = path.stat().st_size
        if size == 0:
            raise _hopeless(path, "it has 0 bytes")
        if not IS_READABLE:
            return None
        file = PageFile(path)
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from error
    try:
        return _examine(path, file, can_trust_note)
    finally:
        file.close()


def _examine(path: Path, file: PageFile, can_trust_note: bool) -> Damage | None:
    if not file.metas:
        raise _hopeless(path, f"neither of its first two pages tells what is in it ({file.size} bytes)")
    if can_trust_note and not file.broken_metas and _is_noted(path, file.metas[0]):
        return None
    broken = [f"meta page {number} is not readable" for number in file.broken_metas]
    found: Damage | None = None
    databases = 0
    for meta in file.metas:
        walk = Walk(file, meta, KEY_LENGTHS)
        is_sound = walk.run()
        unknown = rename(walk.databases)
        if found is None:
            if is_sound and not unknown and not broken:
                return None
            problems = broken + walk.problems + [f"{name}: there is no database of this name" for name in unknown]
            found = Damage(path, meta, problems, walk.doubtful, is_older=bool(broken))
            databases = len(walk.databases)
            if MAIN not in walk.damaged:
                break
        elif len(walk.databases) > databases:
            # Without names no database can be found: the commit before is better than none.
            found = Damage(path, meta, found.problems, walk.doubtful, is_older=True)
            databases = len(walk.databases)
    assert found is not None
    if not databases:
        raise _hopeless(path, "; ".join(found.problems[:3]))
    return found


def rename(databases: dict[str, Tree]) -> list[str]:
    """Return the names that no database of ours has; a single unknown one gets the name of a single missing one."""
    unknown = sorted(databases.keys() - _NAMES)
    missing = sorted(_NAMES - databases.keys())
    if len(unknown) == 1 and len(missing) == 1:
        databases[missing[0]] = databases.pop(unknown[0])
    return unknown


class NothingKnown(StoreError):
    """A file in which no page leads to the data: current values cannot be told from deleted ones."""


def _hopeless(path: Path, reason: str) -> StoreError:
    return NothingKnown(
        f"the store {path} is damaged, and nothing tells what is in it: {reason}. Nothing was changed, and no "
        "large message was deleted. Put a backup in its place; or save what is found in the file with `artemis-py data "
        "export`, move the file and the large messages away, start with an empty store and import what was saved"
    )


def is_in_use(lock: Path) -> bool:
    """Tell whether a broker has locked the file `lock` of its folder."""
    try:
        file = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(file)
    return False


def examine_in_use(path: Path) -> Damage | None:
    """Check a file that a broker is writing: only whether it was cut, which would end this process. See `examine`."""
    for _ in range(ATTEMPTS_IN_USE):
        before = _state(path)
        if before is None or not before[1]:
            return None
        found = examine(path, can_trust_note=False)
        # Pages that the broker has rewritten in the meantime are not damaged.
        if found is None or _state(path) == before:
            return found
    return None


def _state(path: Path) -> tuple[int, bool] | None:
    """Return the last transaction, and whether the file ends too early; None if that cannot be told."""
    if not IS_READABLE or path.stat().st_size == 0:
        return None
    file = PageFile(path)
    try:
        return (file.metas[0].transaction, file.is_short(file.metas[0])) if file.metas else None
    finally:
        file.close()


# -- the note of a clean stop ----------------------------------------------------------------------------------


def leave_note(path: Path) -> None:
    """Note that the file is as LMDB left it. Without the note the next start only takes longer."""
    note = path.with_name(NOTE_NAME)
    try:
        file = PageFile(path)
        try:
            if IS_READABLE and file.metas:
                note.write_text(_note(path, file.metas[0]), encoding="ascii")
        finally:
            file.close()
    except OSError:
        note.unlink(missing_ok=True)


def remove_note(path: Path) -> None:
    """Remove the note, because from now on the file changes. Raises OSError."""
    path.with_name(NOTE_NAME).unlink(missing_ok=True)


def has_note(path: Path) -> bool:
    """Tell whether a clean stop left a note, which may be about another file."""
    return path.with_name(NOTE_NAME).exists()


def _is_noted(path: Path, meta: Meta) -> bool:
    try:
        return path.with_name(NOTE_NAME).read_text(encoding="ascii") == _note(path, meta)
    except (OSError, ValueError):
        return False


def _note(path: Path, meta: Meta) -> str:
    status = path.stat()
    return f"{status.st_size} {status.st_mtime_ns} {meta.transaction}\n"
