"""The starts of this broker, as its store knows them: how many there were, and the random numbers of the last ones.

Each start has a number that nobody else has. Other brokers remember that of the last start at which they met this one.
If its store names another number for that start, or none of that many, the store is from before it: from a backup, or
a copy (docs/mesh.md, "A store from a backup").

    records   mesh-node, "incarnation"   ->   u64 number of starts
              mesh-node, "runs"          ->   u64 number of starts, then the u64 of each of the last ones, newest first
"""

from struct import Struct
from typing import Final

from artemis_py.core.queues.storage import Storage

NODE: Final = "mesh-node"
INCARNATION: Final = b"incarnation"
RUNS: Final = b"runs"
"""Space and keys of the records of the starts of this broker."""

KEPT_RUNS: Final = 16
"""Starts whose numbers are kept: each is 9 octets of a hello, which has 3 KiB. A broker that was away for more of them
does not know whether the store is the same."""

_NUMBER: Final = Struct(">Q")


def load_starts(storage: Storage) -> tuple[int, tuple[int, ...]]:
    """Return how many starts there were, and the numbers of the last ones, newest first."""
    records = dict(storage.load_records(NODE))
    last, runs = records.get(INCARNATION, b""), records.get(RUNS, b"")
    count = int(_NUMBER.unpack(last)[0]) if len(last) == _NUMBER.size else 0
    numbers = [int(each[0]) for each in _NUMBER.iter_unpack(runs)] if len(runs) % _NUMBER.size == 0 else []
    # A build that keeps no numbers may have run since they were written.
    return count, tuple(numbers[1:]) if numbers[:1] == [count] else ()


def save_start(storage: Storage, count: int, runs: tuple[int, ...]) -> None:
    """Note a start: the number of starts with it, and the numbers of all, newest first."""
    storage.save_record(NODE, INCARNATION, _NUMBER.pack(count))
    storage.save_record(NODE, RUNS, b"".join([_NUMBER.pack(each) for each in (count, *runs[:KEPT_RUNS])]))
