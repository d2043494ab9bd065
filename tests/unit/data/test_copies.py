"""`data backup` and `data compact`: copies that are stores."""

from pathlib import Path

import pytest

from artemis_py.data.copies import back_up, compact
from artemis_py.errors import StoreError
from artemis_py.store.environment import FILE_NAME, LOCK_NAME, NEW_NAME, FolderLock
from tests.unit.data.stores import fill
from tests.unit.store.world import World, bodies


def test_a_backup_is_a_store(tmp_path: Path) -> None:
    """`data backup`: a broker starts from it."""
    fill(tmp_path / "a")

    size = back_up(tmp_path / "a", tmp_path / "b")

    assert size == (tmp_path / "b" / FILE_NAME).stat().st_size
    with World(tmp_path / "b") as world:
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
    assert {path.name for path in tmp_path.iterdir()} == {FILE_NAME, LOCK_NAME, "lock.mdb"}
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

    back_up(tmp_path / "a", tmp_path / "b")

    assert [path.name for path in (tmp_path / "b").iterdir()] == [FILE_NAME]


def test_the_progress_of_a_backup_ends_at_its_size(tmp_path: Path) -> None:
    """Bytes done and bytes in all."""
    fill(tmp_path / "a")
    told: list[tuple[int, int]] = []

    back_up(tmp_path / "a", tmp_path / "b", lambda done, total: told.append((done, total)))

    assert told[-1][0] == told[-1][1] > 0
