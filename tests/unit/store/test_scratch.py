"""Scratch files: what is not durable and does not fit into memory."""

from collections.abc import Iterator
from pathlib import Path

import lmdb
import pytest

from artemis_py.core.messages.builtin_format import PLAIN_FORMAT
from artemis_py.core.messages.message import Message
from artemis_py.core.queues.page import END, PageRequest
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.reference import Reference
from artemis_py.store.scratch import GATHERED_MESSAGES, ScratchStore
from tests.core_harness import make_domain, make_queue
from tests.unit.store.world import SMALL_MAP_BYTES


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[ScratchStore]:
    """One with a small map, so that it has to grow."""
    store = ScratchStore(tmp_path / "paging", SMALL_MAP_BYTES)
    yield store
    store.close()


@pytest.fixture
def queue() -> Queue:
    return make_queue(make_domain())


def spill(store: ScratchStore, queue: Queue, sequences: range, durable: bool = False) -> None:
    for sequence in sequences:
        reference = Reference(Message(PLAIN_FORMAT, "q", b"%d" % sequence + bytes(1000), durable=durable), queue)
        reference.sequence = sequence
        store.spill(reference, 5)


def read(store: ScratchStore, queue: Queue, after: int = 0, upto: int = END, count: int = 10_000) -> list[int]:
    page = store.read(queue, PageRequest(5, after, upto, count, 1 << 40, set()))
    assert page is not None
    return [reference.sequence for reference in page.references]


def test_what_was_spilled_is_read_in_order_at_once(scratch: ScratchStore, queue: Queue) -> None:
    """Whether it was written already or still gathers."""
    many = GATHERED_MESSAGES + 10
    spill(scratch, queue, range(1, many))

    assert read(scratch, queue) == list(range(1, many))
    assert read(scratch, queue, after=5, upto=9) == [6, 7, 8, 9]


def test_a_page_that_was_cut_says_where(scratch: ScratchStore, queue: Queue) -> None:
    """The next one goes on there."""
    spill(scratch, queue, range(1, 20))

    page = scratch.read(queue, PageRequest(5, 0, END, 7, 1 << 40, {2}))

    assert page is not None
    assert [reference.sequence for reference in page.references] == [1, 3, 4, 5, 6, 7]
    assert page.end == 7


def test_a_message_comes_back_as_it_was(scratch: ScratchStore, queue: Queue) -> None:
    """Durable ones of queues that are not, too."""
    spill(scratch, queue, range(1, 2))
    spill(scratch, queue, range(2, 3), durable=True)

    page = scratch.read(queue, PageRequest(5, 0, END, 10, 1 << 40, set()))

    assert page is not None
    assert [(one.message.durable, one.message.data[:1], one.handle) for one in page.references] == [
        (False, b"1", 0),
        (True, b"2", 0),
    ]


def test_what_was_removed_or_dropped_is_not_read(scratch: ScratchStore, queue: Queue) -> None:
    """Written or not; other queues keep theirs, and so does this one what comes behind."""
    spill(scratch, queue, range(1, 10))
    first = scratch.read(queue, PageRequest(5, 0, END, 2, 1 << 40, set()))
    assert first is not None
    spill(scratch, queue, range(10, 12))
    for reference in first.references:
        scratch.remove(reference, 5)
    assert read(scratch, queue) == list(range(3, 12))

    scratch.drop(queue, 4, 1000)
    assert scratch.sweep() is False
    assert read(scratch, queue) == list(range(3, 12))
    scratch.drop(queue, 5, 10)
    assert scratch.sweep() is False
    assert read(scratch, queue) == [11]


def test_what_was_dropped_is_deleted_in_slices(
    scratch: ScratchStore, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A million messages took a second of the loop."""
    monkeypatch.setattr("artemis_py.store.scratch.SWEPT_MESSAGES", 3)
    spill(scratch, queue, range(1, 8))
    scratch.drop(queue, 5, 6)

    assert [scratch.sweep(), scratch.sweep(), scratch.sweep()] == [True, True, False]
    assert read(scratch, queue) == [7]


def test_the_map_grows_and_the_file_has_no_name(scratch: ScratchStore, queue: Queue, tmp_path: Path) -> None:
    """Whatever ends the process gives the room back."""
    spill(scratch, queue, range(1, 3000))

    assert len(read(scratch, queue)) == 2999
    assert not list((tmp_path / "paging").iterdir())


def test_when_the_disk_fails_what_is_there_is_served_and_nothing_is_lost(
    scratch: ScratchStore, queue: Queue, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Messages that could not be written are read from memory."""
    spill(scratch, queue, range(1, 10))
    assert len(read(scratch, queue)) == 9

    def fail(env: object) -> None:
        raise lmdb.DiskError("planted")

    monkeypatch.setattr(scratch, "_write_to", fail)
    spill(scratch, queue, range(10, 15))
    page = scratch.read(queue, PageRequest(5, 0, END, 100, 1 << 40, set()))
    assert page is not None
    scratch.remove(page.references[3], 5)
    scratch.remove(page.references[11], 5)

    assert read(scratch, queue) == [1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 13, 14]
    assert not scratch.is_usable
    assert "planted" in caplog.text


def spill_keyed(store: ScratchStore, queue: Queue, sequence: int, key: bytes) -> Reference:
    reference = Reference(Message(PLAIN_FORMAT, "q", b"m"), queue)
    reference.sequence = sequence
    reference.key = key
    store.spill(reference, 5)
    return reference


def place_of(store: ScratchStore, queue: Queue, key: bytes) -> int | None:
    place = store.find_last(queue, key)
    return None if place is None else place.sequence


@pytest.mark.parametrize("is_written", [False, True])
def test_last_values_are_found_and_removed(scratch: ScratchStore, queue: Queue, is_written: bool) -> None:
    """Whether they gather or are in the file; a newer one is written over an older one, or over one that is gone."""
    spill_keyed(scratch, queue, 1, b"a")
    spill_keyed(scratch, queue, 2, b"")
    if is_written:
        read(scratch, queue)
    assert [place_of(scratch, queue, key) for key in (b"a", b"", b"b")] == [1, 2, None]

    place = scratch.find_last(queue, b"a")
    assert place is not None
    scratch.remove_at(queue, place, b"a")
    assert place_of(scratch, queue, b"a") is None
    spill_keyed(scratch, queue, 3, b"a")

    assert place_of(scratch, queue, b"a") == 3
    assert read(scratch, queue) == [2, 3]
    assert place_of(scratch, queue, b"a") == 3


def test_key_comes_back_with_its_message_and_leaves_with_it(scratch: ScratchStore, queue: Queue) -> None:
    """A message brought into memory is known there."""
    spill_keyed(scratch, queue, 1, b"a")
    spill(scratch, queue, range(2, 3))
    page = scratch.read(queue, PageRequest(5, 0, END, 10, 1 << 40, set()))
    assert page is not None
    assert [reference.key for reference in page.references] == [b"a", None]

    for reference in page.references:
        scratch.remove(reference, 5)

    assert place_of(scratch, queue, b"a") is None
    assert read(scratch, queue) == []


def test_dropped_last_values_leave_no_entry(scratch: ScratchStore, queue: Queue) -> None:
    """Except that of a key that was used again before the sweep."""
    for sequence, key in enumerate((b"a", b"b"), 1):
        spill_keyed(scratch, queue, sequence, key)
    scratch.drop(queue, 5, 2)
    spill_keyed(scratch, queue, 3, b"b")
    read(scratch, queue)

    while scratch.sweep():
        pass

    assert [place_of(scratch, queue, key) for key in (b"a", b"b")] == [None, 3]
    assert read(scratch, queue) == [3]
