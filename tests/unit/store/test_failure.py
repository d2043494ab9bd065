"""Why a write failed: what LMDB makes "Input/output error" of is told apart by asking the file system."""

import errno
import os
import resource
from collections.abc import Callable
from pathlib import Path

import lmdb
import pytest

from artemis_py.store.failure import PROBE_NAME, reason_of

CUT_SHORT = lmdb.Error("mdb_txn_commit: Input/output error")


def statvfs(free_blocks: int) -> Callable[[object], os.statvfs_result]:
    """A file system with so many free blocks of 4 KiB."""
    return lambda path: os.statvfs_result((4096, 4096, 1000, free_blocks, free_blocks, 9, 9, 9, 0, 255))


def test_a_full_disk_is_said_to_be_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what is left, and with what the library said."""
    monkeypatch.setattr(os, "statvfs", statvfs(3))

    assert reason_of(CUT_SHORT, tmp_path / "data.mdb") == (
        f"the disk is full: 12288 bytes are left on the disk of {tmp_path} (mdb_txn_commit: Input/output error)"
    )


def test_a_broken_disk_is_not_said_to_be_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is room: it is what the library says."""
    monkeypatch.setattr(os, "statvfs", statvfs(1 << 20))

    assert reason_of(CUT_SHORT, tmp_path / "data.mdb") == "mdb_txn_commit: Input/output error"
    assert reason_of(OSError(errno.EIO, "Input/output error"), tmp_path / "data.mdb") == "Input/output error"
    assert list(tmp_path.iterdir()) == []


def test_a_limit_of_the_process_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `ulimit -f` sets it: no other program has trouble with the disk."""
    (tmp_path / "data.mdb").write_bytes(bytes(5000))
    monkeypatch.setattr(resource, "getrlimit", lambda which: (8192, 8192))
    monkeypatch.setattr(os, "statvfs", statvfs(1 << 20))

    assert "may not grow beyond 8192 bytes (ulimit -f)" in reason_of(CUT_SHORT, tmp_path / "data.mdb")


def test_a_quota_shows_when_something_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file system has room, only not for this user."""

    def refuse(descriptor: int) -> None:
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    monkeypatch.setattr(os, "statvfs", statvfs(1 << 20))
    monkeypatch.setattr(os, "fsync", refuse)

    assert "accepts no more data: Disk quota exceeded" in reason_of(CUT_SHORT, tmp_path / "data.mdb")
    assert not (tmp_path / PROBE_NAME).exists()


def test_a_folder_that_is_gone_leaves_the_reason_as_it_is(tmp_path: Path) -> None:
    """Nothing can be asked then."""
    assert reason_of(CUT_SHORT, tmp_path / "gone" / "data.mdb") == "mdb_txn_commit: Input/output error"
