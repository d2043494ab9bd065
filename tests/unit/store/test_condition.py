"""When the store's file is looked at before LMDB has it, and what is said of it."""

import os
from collections.abc import Collection, Mapping
from pathlib import Path

import pytest

from artemis_py.core.queues.settlement import acknowledge
from artemis_py.errors import StoreError
from artemis_py.store import condition, schema
from artemis_py.store.condition import NOTE_NAME, NothingKnown, examine, examine_in_use, is_in_use
from artemis_py.store.environment import DAMAGED_SUFFIX, FILE_NAME, Environment
from artemis_py.store.folder_lock import LOCK_NAME
from artemis_py.store.lmdb import LARGE_MESSAGES_NAME
from artemis_py.store.page_file import Meta, PageFile
from artemis_py.store.structure import Walk
from tests.core_harness import browse_all
from tests.unit.store.world import SMALL_MAP_BYTES, World, bodies
from tests.unit.storetools.stores import BODY, body_file, fill_large, large_bodies


@pytest.fixture
def walks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Gets an entry for each time that all pages are read."""
    found: list[str] = []

    def counted(file: PageFile, meta: Meta, key_lengths: Mapping[str, Collection[int]], *doubtful: set[int]) -> Walk:
        found.append("walk")
        return Walk(file, meta, key_lengths, *doubtful)

    monkeypatch.setattr(condition, "Walk", counted)
    return found


def pages_of(folder: Path, database: bytes) -> list[int]:
    """The leaf pages of a database."""
    file = PageFile(folder / FILE_NAME)
    walk = Walk(file, file.metas[0], {})
    walk.read_names()
    name = database.decode()
    numbers = [int.from_bytes(page[:8], "little") for page in walk.leaves(name, walk.databases[name])]
    file.close()
    return numbers


def zero(folder: Path, *pages: int) -> None:
    """Overwrite pages of the store's file."""
    with (folder / FILE_NAME).open("r+b") as file:
        for page in pages:
            file.seek(page * 4096)
            file.write(bytes(4096))


def roots(folder: Path) -> list[int]:
    """The pages with the names of the databases, of the last two commits."""
    file = PageFile(folder / FILE_NAME)
    file.close()
    return [meta.main.root for meta in file.metas]


def test_a_clean_stop_saves_the_next_start_the_reading(tmp_path: Path, walks: list[str]) -> None:
    """And nothing else does: after a crash, or another program's writing, all pages are read."""
    fill_large(tmp_path)
    assert (tmp_path / NOTE_NAME).exists()
    walks.clear()
    with Environment(tmp_path, SMALL_MAP_BYTES):
        assert not (tmp_path / NOTE_NAME).exists()
    assert walks == []

    os.utime(tmp_path / FILE_NAME)
    Environment(tmp_path, SMALL_MAP_BYTES).close()
    assert walks == ["walk"]

    (tmp_path / NOTE_NAME).unlink()
    Environment(tmp_path, SMALL_MAP_BYTES).close()
    assert walks == ["walk", "walk"]


def test_a_store_in_use_is_not_read_as_a_whole(tmp_path: Path, walks: list[str]) -> None:
    """Its broker has done that, and goes on writing."""
    fill_large(tmp_path)
    assert not is_in_use(tmp_path / LOCK_NAME)
    walks.clear()

    with Environment(tmp_path, SMALL_MAP_BYTES):
        assert is_in_use(tmp_path / LOCK_NAME)
        assert examine_in_use(tmp_path / FILE_NAME) is None
    assert walks == []


def test_a_store_that_is_cut_while_it_is_used_ends_no_command(tmp_path: Path) -> None:
    """They do not map it."""
    fill_large(tmp_path)
    path = tmp_path / FILE_NAME
    os.truncate(path, path.stat().st_size // 2)

    damage = examine_in_use(path)

    assert damage is not None
    assert any("beyond the end of the file" in problem for problem in damage.problems)


def test_the_rest_of_a_damaged_store_goes_on_and_the_file_is_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Queue by queue the log says what is lost; the next start says nothing more."""
    with World(tmp_path) as world:
        world.queue()
        world.queue("other")
        world.send("q", *[f"{number} {'x' * 200}" for number in range(200)])
        world.send("other", "m")
        world.settle()
        world.stop()
    zero(tmp_path, pages_of(tmp_path, schema.REFERENCES)[1])
    damaged = (tmp_path / FILE_NAME).read_bytes()

    with World(tmp_path) as world:
        left = len(bodies(world.queue()))
        assert 150 < left < 200
        assert bodies(world.queue("other")) == ["m"]
        world.audit()
        world.stop()
    assert f"lost: queue q: {200 - left} of 200 messages are lost" in caplog.text
    assert "queue other" not in caplog.text
    assert (tmp_path / (FILE_NAME + DAMAGED_SUFFIX)).read_bytes() == damaged
    caplog.clear()
    with World(tmp_path) as world:
        assert len(bodies(world.queue())) == left
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_large_bodies_of_lost_messages_stay(tmp_path: Path) -> None:
    """At every later start as well: who had them may be in a backup."""
    fill_large(tmp_path)
    zero(tmp_path, *pages_of(tmp_path, schema.REFERENCES), *pages_of(tmp_path, schema.BODIES))

    for _ in range(3):
        with World(tmp_path) as world:
            assert bodies(world.queue("big")) == []
            world.stop()
        assert body_file(tmp_path, 1).read_bytes() == BODY
        assert body_file(tmp_path, 2).read_bytes() == BODY[::-1]


def test_counts_of_large_bodies_are_made_again(tmp_path: Path) -> None:
    """One that two subscriptions have goes with the second of them."""
    fill_large(tmp_path)
    zero(tmp_path, *pages_of(tmp_path, schema.BODIES), *pages_of(tmp_path, schema.SHARES))

    with World(tmp_path) as world:
        world.audit()
        for name in ("l.a", "l.b"):
            assert large_bodies(world, name) == [BODY[::-1]]
            for reference in list(browse_all(world.queue(name))):
                acknowledge(reference)
            world.settle()
        assert not body_file(tmp_path, 2).exists()
        assert body_file(tmp_path, 1).exists()


def test_without_its_newest_meta_page_the_commit_before_is_served(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """And said: what the last commit stored is missing."""
    fill_large(tmp_path)
    file = PageFile(tmp_path / FILE_NAME)
    file.close()
    zero(tmp_path, file.metas[0].transaction & 1)

    with World(tmp_path) as world:
        assert bodies(world.queue("t.a")) == ["shared"]
    assert "the last commit cannot be read" in caplog.text


@pytest.mark.parametrize("size", [0, 1, 4096, 8192])
def test_where_nothing_can_be_told_nothing_is_started(tmp_path: Path, size: int) -> None:
    """A file of no bytes is no new store, and its large messages are not another one's."""
    fill_large(tmp_path)
    files = sorted((tmp_path / LARGE_MESSAGES_NAME).iterdir())
    os.truncate(tmp_path / FILE_NAME, size)

    for _ in range(2):  # the folder is free again after the refusal
        with pytest.raises(StoreError, match=r"nothing tells what is in it.*Put a backup in its place"):
            World(tmp_path)

    assert sorted((tmp_path / LARGE_MESSAGES_NAME).iterdir()) == files
    assert (tmp_path / FILE_NAME).stat().st_size == size


def test_a_name_with_a_flipped_bit_is_the_one_that_is_missing(tmp_path: Path) -> None:
    """The page of names has no checksum."""
    fill_large(tmp_path)
    data = (tmp_path / FILE_NAME).read_bytes()
    (tmp_path / FILE_NAME).write_bytes(data.replace(b"references", b"rEferences"))

    with World(tmp_path) as world:
        assert bodies(world.queue("t.a")) == ["shared"]
        world.audit()


def test_an_import_does_not_take_over_a_damaged_store(tmp_path: Path) -> None:
    """What is lost shall be read in the log of a broker."""
    fill_large(tmp_path)
    zero(tmp_path, pages_of(tmp_path, schema.REFERENCES)[0])

    with pytest.raises(StoreError, match=r"is damaged: references: page .* start a broker on it"):
        Environment(tmp_path, SMALL_MAP_BYTES, for_import=True)
    assert examine(tmp_path / FILE_NAME) is not None


def test_names_of_both_commits_lost_is_nothing_known(tmp_path: Path) -> None:
    """The values are all there, and nothing leads to them."""
    fill_large(tmp_path)
    zero(tmp_path, *roots(tmp_path))

    with pytest.raises(NothingKnown, match="data export"):
        examine(tmp_path / FILE_NAME)
