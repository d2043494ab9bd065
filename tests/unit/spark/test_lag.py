"""How far a query is behind: checkpoints as Spark writes them, and offsets of progress reports."""

import json
from pathlib import Path

import pytest

from artemis_py.spark.errors import InvalidOffset, InvalidOption
from artemis_py.spark.lag import SourceBacklog, backlog, committed, lags
from artemis_py.spark.management import Head, Heads
from artemis_py.spark.offsets import Offset, Position


def offset(**numbers: int) -> Offset:
    """Positions in queues of node n, whose ids are 1."""
    return Offset({f"n|{name}::{name}": Position(1, number) for name, number in numbers.items()})


def write(folder: Path, number: int, *sources: str, done: bool = True) -> None:
    """A batch in a checkpoint; files whose names begin with a dot are the engine's checksums."""
    for name in ("offsets", "commits"):
        (folder / name).mkdir(exist_ok=True, parents=True)
    (folder / "offsets" / str(number)).write_text("\n".join(("v1", "{}", *sources)))
    (folder / "offsets" / f".{number}.crc").write_bytes(b"\xff")
    if done:
        (folder / "commits" / str(number)).write_text("v1\n{}")


def test_the_last_batch_that_was_committed_counts(tmp_path: Path) -> None:
    """By number, not by name; and not one that was only planned."""
    for number in (0, 9, 10):
        write(tmp_path, number, json.dumps(offset(a=number).written()))
    write(tmp_path, 11, json.dumps(offset(a=11).written()), done=False)

    assert committed(str(tmp_path)) == (10, offset(a=10))
    assert committed(f"file://{tmp_path}") == (10, offset(a=10))


def test_sources_of_other_connectors_do_not_count(tmp_path: Path) -> None:
    lines = [json.dumps(offset(**{name: 3}).written()) for name in "ab"]
    write(tmp_path, 0, '{"topic":{"0":5}}', lines[0], "-", lines[1])

    assert committed(str(tmp_path)) == (0, offset(a=3, b=3))
    write(tmp_path, 1, '{"topic":{"0":5}}')
    with pytest.raises(InvalidOffset, match=r"batch 1 of .* has no source of this connector"):
        committed(str(tmp_path))


def test_what_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="it has no folder offsets"):
        committed(str(tmp_path))
    with pytest.raises(InvalidOption, match="copy its folders offsets and commits"):
        committed("s3a://bucket/checkpoint")
    (tmp_path / "offsets").mkdir()
    assert committed(str(tmp_path)) == (-1, Offset())


def test_a_lag_is_what_was_not_read_and_says_what_cannot_be() -> None:
    def head(name: str, first: int, next: int, id: int = 1) -> Head:
        return Head(address=name, queue=name, queue_id=id, first=first, next=next)

    heads = Heads(
        node="n",
        queues=(
            head("even", 5, 5),
            head("behind", 3, 10),
            head("short", 8, 10),
            head("other", 1, 9, 2),
            head("new", 4, 9),
        ),
    )

    found = {one.queue: one for one in lags(offset(even=5, behind=7, short=5, other=4, gone=4), heads)}

    assert {name: (one.position, one.end, one.behind, one.waiting) for name, one in found.items()} == {
        "even": (5, 5, 0, 0),
        "behind": (7, 10, 3, 7),
        "short": (5, 10, 2, 2),
        "other": (4, 9, None, 8),
        "new": (None, 9, 5, 5),
        "gone": (4, None, None, None),
    }
    assert {name: one.note for name, one in found.items() if one.note} == {
        "short": "3 messages left the queue unread",
        "other": "the queue was created again",
        "new": "no query has read it",
        "gone": "the queue is gone, or on another broker",
    }


def test_a_progress_report_tells_the_backlog_of_each_queue() -> None:
    end, latest = (json.dumps(one.written()) for one in (offset(a=5, b=5), offset(a=9, b=5, c=7)))

    assert backlog(end, latest) == [
        SourceBacklog(address="a", queue="a", behind=4),
        SourceBacklog(address="b", queue="b", behind=0),
        SourceBacklog(address="c", queue="c", behind=0),
    ]


@pytest.mark.parametrize("other", [None, "7", '{"topic":{"0":5}}', ""])
def test_reports_of_other_connectors_have_none(other: str | None) -> None:
    assert backlog(other, other) == []
