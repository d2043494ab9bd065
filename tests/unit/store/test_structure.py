"""LMDB's file read without LMDB: what it holds, and that every page is looked at."""

from pathlib import Path

import lmdb
import pytest

from artemis_py.store.page_file import PageFile
from artemis_py.store.structure import FREE, NODE_BYTES, Walk

COUNT = 2000
LONG = b"long" * 5000


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """An LMDB file of several levels, with long values and free pages."""
    with lmdb.open(str(tmp_path), map_size=1 << 24, max_dbs=2) as environment:
        for name in (b"one", b"two"):
            database = environment.open_db(name)
            for first in range(0, COUNT, 500):
                with environment.begin(write=True, db=database) as transaction:
                    for number in range(first, first + 500):
                        transaction.put(b"%08d" % number, b"value %d" % number * 5)
                    transaction.put(b"%08d" % first, LONG)
            with environment.begin(write=True, db=database) as transaction:
                for number in range(500, 1000):
                    transaction.delete(b"%08d" % number)
    return tmp_path / "data.mdb"


def walk(path: Path) -> Walk:
    """All of the last commit."""
    file = PageFile(path)
    try:
        found = Walk(file, file.metas[0], {"one": (8,)})
        found.run()
    finally:
        file.close()
    return found


def test_what_lmdb_wrote_is_sound_and_read_as_it_was_written(stored: Path) -> None:
    """Keys in their order, values octet for octet."""
    assert walk(stored).problems == []
    file = PageFile(stored)
    reading = Walk(file, file.metas[0], {})
    reading.read_names()
    found = {
        name: [pair for page in reading.leaves(name, tree) for pair in reading.entries(name, page)]
        for name, tree in reading.databases.items()
    }

    with lmdb.open(str(stored.parent), max_dbs=2, readonly=True) as environment:
        for name in ("one", "two"):
            with environment.begin(db=environment.open_db(name.encode(), create=False)) as transaction:
                assert found[name] == [(bytes(key), bytes(value)) for key, value in transaction.cursor()]
    assert len(found["one"]) == COUNT - 500
    assert reading.find("one", b"00000000") == LONG
    assert reading.find("one", b"00001999") == b"value 1999" * 5
    assert reading.find("one", b"00000500") is None
    assert reading.find("three", b"00000000") is None
    file.close()


def test_every_page_in_use_is_missed(stored: Path) -> None:
    """There is no page that may be wrong without a word, but free ones and those of the commit before."""
    data = stored.read_bytes()
    sound = walk(stored)
    in_use = 0
    for page in range(2, len(data) // 4096):
        stored.write_bytes(data[: page * 4096] + bytes(4096) + data[(page + 1) * 4096 :])
        in_use += bool(walk(stored).problems)
    stored.write_bytes(data)

    with lmdb.open(str(stored.parent), max_dbs=2, readonly=True) as environment:
        databases = [None, *(environment.open_db(name, create=False) for name in (b"one", b"two"))]
        with environment.begin() as transaction:
            stats = [transaction.stat(database) if database else transaction.stat() for database in databases]
        pages = sum(stat["branch_pages"] + stat["leaf_pages"] for stat in stats)
    # Of a long value only the first page has a head; its checksum is in the value.
    longs = 2 * 3
    free_pages = walk_of_free(sound)
    assert in_use == pages + longs + free_pages


def walk_of_free(sound: Walk) -> int:
    """Pages that the list of free ones takes."""
    free = sound._meta.free
    return free.branch_pages + free.leaf_pages + (1 if free.overflow_pages else 0)


def test_a_value_that_is_shorter_than_its_place_is_found(stored: Path) -> None:
    """LMDB moves the nodes of a page by their sizes: a wrong one would spoil all others when one is deleted."""
    data = stored.read_bytes()
    node = data[data.index(b"00001990value 1990") - NODE_BYTES :][:NODE_BYTES]
    shorter = bytes([node[0] - 2]) + node[1:]
    stored.write_bytes(data.replace(node + b"00001990", shorter + b"00001990"))

    assert any("are not contiguous" in problem for problem in walk(stored).problems)


def test_a_key_of_another_length_is_found(stored: Path) -> None:
    """No code of ours has to be ready for one."""
    file = PageFile(stored)
    found = Walk(file, file.metas[0], {"one": (7,)})

    assert not found.run()
    assert found.damaged == {"one"}
    file.close()


def test_a_page_that_is_free_and_in_use_is_found(stored: Path) -> None:
    """LMDB would write over it."""
    file = PageFile(stored)
    found = Walk(file, file.metas[0], {})
    found.read_names()
    root = found.databases["two"].root
    assert walk(stored).problems == []
    lists = [value for page in found.leaves(FREE, file.metas[0].free) for _, value in found.entries(FREE, page)]
    changed = (1).to_bytes(8, "little") + root.to_bytes(8, "little") + lists[0][16:]
    stored.write_bytes(stored.read_bytes().replace(lists[0], changed))
    file.close()

    found = walk(stored)

    assert found.problems == [f"{FREE}: page {root} is in use"]
    assert found.doubtful == {root}


def test_without_its_first_page_the_second_one_tells(stored: Path) -> None:
    """The commit that it is of, and the size of pages."""
    data = stored.read_bytes()
    before = PageFile(stored)
    stored.write_bytes(bytes(4096) + data[4096:])
    file = PageFile(stored)

    assert file.broken_metas == [0]
    assert file.page_size == 4096
    assert file.metas[0].transaction in {meta.transaction for meta in before.metas}
    file.close()
    before.close()


def test_a_file_of_nothing_has_no_commit(tmp_path: Path) -> None:
    """And none is made up."""
    path = tmp_path / "data.mdb"
    path.write_bytes(b"\xff" * 20000)
    file = PageFile(path)

    assert file.metas == []
    assert file.broken_metas == []
    file.close()
