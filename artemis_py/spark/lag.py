"""How far a query is behind: the positions of its checkpoint, beside the ends of its queues.

Spark writes the end of each planned batch into `offsets` of a checkpoint, and a file of the same number into `commits`
when the batch is done; so the last committed batch says what the query has read. Nothing here needs Spark or Java.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from attrs import frozen

from artemis_py.spark.connection import Broker
from artemis_py.spark.errors import InvalidOffset, InvalidOption, Refused
from artemis_py.spark.management import Head, Heads, Management
from artemis_py.spark.offsets import Offset, Position, key_of, names_of, ranges_by_key
from artemis_py.spark.options import ConnectionOptions

_OURS: Final = '"v"'
UNKNOWN_QUEUE: Final = "does not exist"
"""Words with which the broker refuses the head of a queue that it does not have."""


@frozen(kw_only=True)
class Lag:
    """State of a query in one queue."""

    address: str
    queue: str
    position: int | None
    """Number of the first message that the query has not read; None: the query does not know the queue."""
    end: int | None
    """Number of the next message to arrive; None: the broker does not have the queue."""
    behind: int | None
    """Messages that the query has not read, at most: numbers may be missing. None: unknown."""
    waiting: int | None
    """Messages that are in the queue, at most."""
    note: str = ""


def committed(folder: str) -> tuple[int, Offset]:
    """Return number and end of the last batch that a checkpoint has committed; -1 and no position if there is none.

    Raises InvalidOption for a folder that is no checkpoint, InvalidOffset if no source of the query is ours.
    """
    parts = urlsplit(folder)
    if parts.scheme not in ("", "file"):
        raise InvalidOption(f"the checkpoint {folder} is not on this machine: copy its folders offsets and commits")
    path = Path(unquote(parts.path) if parts.scheme else folder)
    if not (path / "offsets").is_dir():
        raise InvalidOption(f"{folder} is no checkpoint of a query: it has no folder offsets")
    done = _numbers(path / "commits")
    planned = _numbers(path / "offsets")
    if not done or done[-1] not in planned:
        return -1, Offset()
    number = done[-1]
    lines = (path / "offsets" / str(number)).read_text(encoding="utf-8").splitlines()
    # A version, the engine's own state, then a line for each source; that of another connector has another form.
    ours = [Offset.read(line) for line in lines[2:] if line.startswith("{") and _OURS in line]
    if not ours:
        raise InvalidOffset(f"batch {number} of {folder} has no source of this connector")
    return number, Offset({key: position for offset in ours for key, position in offset.positions.items()})


def _numbers(folder: Path) -> list[int]:
    if not folder.is_dir():
        return []
    return sorted(int(file.name) for file in folder.iterdir() if file.name.isdecimal())


def lags(offset: Offset, heads: Heads) -> list[Lag]:
    """Return the lag in each queue of a query, and in queues that it has not seen yet."""
    found = {key_of(heads.node, head.address, head.queue): head for head in heads.queues}
    keys = sorted({*found, *offset.positions})
    return [_lag(key, offset.positions.get(key), found.get(key)) for key in keys]


def _lag(key: str, position: Position | None, head: Head | None) -> Lag:
    address, queue = names_of(key)
    behind: int | None = None
    if head is None:
        note = "the queue is gone, or on another broker"
    elif position is None:
        behind, note = head.next - head.first, "no query has read it"
    elif position.queue_id != head.queue_id:
        note = "the queue was created again"
    else:
        behind = max(head.next - max(position.next, head.first), 0)
        gone = head.first - position.next - head.never_given(position.next, head.first)
        note = f"{gone} messages left the queue unread" if gone > 0 else ""
    return Lag(
        address=address,
        queue=queue,
        position=None if position is None else position.next,
        end=None if head is None else head.next,
        behind=behind,
        waiting=None if head is None else head.next - head.first,
        note=note,
    )


@frozen(kw_only=True)
class SourceBacklog:
    """Messages of one queue that a running query has not read, as its progress report says."""

    address: str
    queue: str
    behind: int


def backlog(end: Any, latest_offset: Any) -> list[SourceBacklog]:
    """Return the backlog of each queue from two offsets of a progress report; empty if they are not ours."""
    try:
        read, available = Offset.read(end), Offset.read(latest_offset)
    except InvalidOffset:
        return []
    parts = ranges_by_key(read, available)
    found = []
    for key in sorted(available.positions):
        address, queue = names_of(key)
        behind = parts[key].count if key in parts else 0
        found.append(SourceBacklog(address=address, queue=queue, behind=behind))
    return found


def heads_of(options: ConnectionOptions, queues: Iterable[str]) -> Heads:
    """Return the heads of queues by name; those that the broker does not have are left out. Raises SparkError."""
    names = list(queues)
    return Broker(options).run(lambda connection: _heads(Management(connection, options.idle_timeout_s), names))


def _heads(management: Management, names: list[str]) -> Heads:
    found: list[Head] = []
    node = ""
    for name in names:
        try:
            heads = management.heads([name])
        except Refused as error:
            # A refused operation has no condition, only words.
            if UNKNOWN_QUEUE not in str(error):
                raise
            continue
        node = heads.node
        found += heads.queues
    return Heads(node=node, queues=tuple(found))
