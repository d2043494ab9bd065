"""`data backup` and `data compact`: copies that are stores."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from artemis_py.errors import StoreError
from artemis_py.store import schema
from artemis_py.store.condition import NOTE_NAME
from artemis_py.store.environment import FILE_NAME, NEW_NAME
from artemis_py.store.folder_lock import LOCK_NAME, FolderLock
from artemis_py.store.large import body_files
from artemis_py.store.lmdb import LARGE_MESSAGES_NAME
from artemis_py.store.log.segment import FOLDER_NAME
from artemis_py.storetools import bodies as bodies_module
from artemis_py.storetools import copies
from artemis_py.storetools import snapshot as snapshot_module
from artemis_py.storetools.bodies import HOLD_PREFIX
from artemis_py.storetools.check import check, check_folder
from artemis_py.storetools.copies import JOURNAL_NAME, back_up, compact
from artemis_py.storetools.snapshot import Snapshot
from artemis_py.storetools.statistics import statistics
from tests.log_switch import IS_ON
from tests.unit.store.world import World, bodies
from tests.unit.storetools.stores import BODY, body_file, fill, fill_large, in_another_process, large_bodies


def test_a_backup_is_a_store(tmp_path: Path) -> None:
    """`data backup`: a broker starts from it."""
    fill(tmp_path / "a")

    size = back_up(tmp_path / "a", tmp_path / "b")

    assert size == (tmp_path / "b" / JOURNAL_NAME / FILE_NAME).stat().st_size
    with World(tmp_path / "b" / JOURNAL_NAME) as world:
        assert bodies(world.queue()) == ["a", "b"]


def test_a_backup_overwrites_nothing(tmp_path: Path) -> None:
    """The only copy may be there."""
    fill(tmp_path / "a")

    with pytest.raises(StoreError, match="is not empty"):
        back_up(tmp_path / "a", tmp_path / "a")


def test_compacting_gives_space_back_and_keeps_the_rest(tmp_path: Path) -> None:
    """`data compact`."""
    with World(tmp_path) as world:
        queue = world.queue()
        world.send("q", *("x" * 10_000 for _ in range(50)))
        world.settle()
        queue.purge()
        world.send("q", "kept")
        world.stop()

    before, after = compact(tmp_path)

    assert after < before // 2
    log = {FOLDER_NAME} if IS_ON else set()
    assert {path.name for path in tmp_path.iterdir()} == log | {
        FILE_NAME,
        LOCK_NAME,
        NOTE_NAME,
        "lock.mdb",
        LARGE_MESSAGES_NAME,
    }
    with World(tmp_path) as world:
        assert bodies(world.queue()) == ["kept"]


def test_a_store_in_use_is_not_compacted(tmp_path: Path) -> None:
    """The broker would go on writing to the old file."""
    fill(tmp_path)
    lock = FolderLock(tmp_path)

    with pytest.raises(StoreError, match="used by another broker"):
        compact(tmp_path)
    lock.release()


def test_a_backup_goes_on_over_what_an_interrupted_one_left(tmp_path: Path) -> None:
    """A copy is made aside, so nothing there looks like a store before it is one."""
    fill(tmp_path / "a")
    (tmp_path / "b" / NEW_NAME).mkdir(parents=True)
    (tmp_path / "b" / NEW_NAME / FILE_NAME).write_bytes(b"half")
    (tmp_path / "b" / LARGE_MESSAGES_NAME).mkdir()
    (tmp_path / "b" / LARGE_MESSAGES_NAME / "9.body").write_bytes(b"of the interrupted one")

    back_up(tmp_path / "a", tmp_path / "b")

    assert sorted(path.name for path in (tmp_path / "b").iterdir()) == [JOURNAL_NAME, LARGE_MESSAGES_NAME]
    assert check_folder(tmp_path / "b" / JOURNAL_NAME, tmp_path / "b" / LARGE_MESSAGES_NAME) == []


def test_the_progress_of_a_backup_ends_at_its_size(tmp_path: Path) -> None:
    """Bytes done and bytes in all."""
    fill(tmp_path / "a")
    told: list[tuple[int, int]] = []

    back_up(tmp_path / "a", tmp_path / "b", lambda done, total: told.append((done, total)))

    assert told[-1][0] == told[-1][1] > 0


def test_a_backup_has_the_large_bodies_of_its_moment(tmp_path: Path) -> None:
    """And no others: one that arrives belongs to no message of the copy."""
    fill_large(tmp_path / "a")
    body_file(tmp_path / "a", 9).write_bytes(b"arriving")

    size = back_up(tmp_path / "a", tmp_path / "b")

    journal, large = tmp_path / "b" / JOURNAL_NAME, tmp_path / "b" / LARGE_MESSAGES_NAME
    assert size == (journal / FILE_NAME).stat().st_size + 2 * len(BODY)
    findings = check(journal, large_messages_folder=large)
    assert (findings.problems, findings.unreferenced_files) == ([], 0)
    large.rename(journal / LARGE_MESSAGES_NAME)
    with World(journal) as world:
        assert large_bodies(world, "big") == [BODY]
        assert large_bodies(world, "l.a") == large_bodies(world, "l.b") == [BODY[::-1]]


def test_large_bodies_that_are_consumed_meanwhile_are_in_the_backup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker deletes their files while they are copied; the snapshot refers to them."""
    fill_large(tmp_path / "a")
    copy_bodies = copies._copy_bodies

    def consumed(*arguments: object) -> int:
        in_another_process("purge", tmp_path / "a")
        assert not body_file(tmp_path / "a", 1).exists()
        return copy_bodies(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(copies, "_copy_bodies", consumed)
    back_up(tmp_path / "a", tmp_path / "b")

    assert check_folder(tmp_path / "b" / JOURNAL_NAME, tmp_path / "b" / LARGE_MESSAGES_NAME) == []
    assert len(list(body_files(tmp_path / "b" / LARGE_MESSAGES_NAME))) == 2


def test_large_bodies_that_come_meanwhile_are_not_in_the_backup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor are their messages: both are of the moment of the snapshot."""
    fill_large(tmp_path / "store")
    copy = Snapshot.copy_to

    def copy_later(snapshot: Snapshot, folder: Path) -> None:
        in_another_process("add_large", tmp_path / "store")
        copy(snapshot, folder)

    monkeypatch.setattr(Snapshot, "copy_to", copy_later)
    back_up(tmp_path / "store", tmp_path / "copy")

    findings = check(tmp_path / "copy" / "journal", large_messages_folder=tmp_path / "copy" / "large-messages")
    assert findings.problems == []
    assert statistics(tmp_path / "copy" / "journal").large_messages == 2
    assert statistics(tmp_path / "store").large_messages == 3


def test_links_go_with_who_made_them_or_with_the_next(tmp_path: Path) -> None:
    """One that was killed left them behind; they would keep deleted bodies on the disk."""
    fill_large(tmp_path / "a")
    left = tmp_path / "a" / LARGE_MESSAGES_NAME / f"{HOLD_PREFIX}left"
    used = tmp_path / "a" / LARGE_MESSAGES_NAME / f"{HOLD_PREFIX}used"
    left.mkdir()
    used.mkdir()
    lock = FolderLock(used)

    back_up(tmp_path / "a", tmp_path / "b")

    assert list((tmp_path / "a" / LARGE_MESSAGES_NAME).glob(HOLD_PREFIX + "*")) == [used]
    lock.release()


def test_a_body_that_is_missing_is_missing_in_the_backup_too(tmp_path: Path) -> None:
    """One damaged message is no reason to lose all the others."""
    fill_large(tmp_path / "a")
    body_file(tmp_path / "a", 1).unlink()

    back_up(tmp_path / "a", tmp_path / "b")

    (problem,) = check_folder(tmp_path / "b" / JOURNAL_NAME, tmp_path / "b" / LARGE_MESSAGES_NAME)
    assert "1.body: No such file" in problem


def test_a_body_that_came_and_went_before_it_was_held_is_looked_for_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The links are made before the snapshot, which may refer to a younger body; a newer snapshot does not."""
    fill_large(tmp_path / "a")
    snapshots: list[int] = []

    @contextmanager
    def opened(folder: Path) -> Iterator[Snapshot]:
        with snapshot_module.opened(folder) as snapshot:
            snapshots.append(snapshot.count(schema.BODIES))
            if len(snapshots) == 2:
                in_another_process("purge", folder)
            yield snapshot

    # None are seen before the snapshot that refers to two.
    monkeypatch.setattr(bodies_module, "body_files", lambda folder: body_files(folder) if len(snapshots) > 1 else [])
    monkeypatch.setattr(bodies_module, "opened", opened)
    back_up(tmp_path / "a", tmp_path / "b")

    assert snapshots == [2, 2, 0]
    assert check_folder(tmp_path / "b" / JOURNAL_NAME, tmp_path / "b" / LARGE_MESSAGES_NAME) == []
