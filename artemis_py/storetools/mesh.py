"""What the mesh has in a store: the broker's own word to other brokers, which means nothing in another store.

An export leaves it out, and names what was on its way to other brokers: these messages may be there as well. A broker
that imports them has another node id, so nobody could tell it which of them had arrived.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from artemis_py.cluster.claims import CHANNELS, CLAIMS, read_claims
from artemis_py.cluster.departures import FORGOTTEN
from artemis_py.cluster.elsewhere import INTEREST
from artemis_py.cluster.marks import MARKS
from artemis_py.cluster.members import MEMBERS, RUNS
from artemis_py.cluster.registers import REGISTERS
from artemis_py.cluster.shells import SHELLS, TOMBSTONES
from artemis_py.cluster.starts import NODE
from artemis_py.core.queues.reference import PRIORITIES
from artemis_py.errors import DamagedValue
from artemis_py.store import schema
from artemis_py.storetools.snapshot import Snapshot

SPACES: Final = frozenset(
    (NODE, MEMBERS, RUNS, CHANNELS, CLAIMS, MARKS, FORGOTTEN, INTEREST, SHELLS, TOMBSTONES, REGISTERS)
)
"""Spaces of records that belong to the broker that wrote them."""


class Claimed:
    """Messages that were on their way to other brokers."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot: Final = snapshot
        self._peers: Final[dict[int, str]] = {}
        """Node ids by channel; channels come before claims, because keys are sorted."""
        self._counts: Final[Counter[tuple[int, str]]] = Counter()
        """Messages by queue id and node id."""

    def take(self, space: str, key: bytes, content: bytes) -> None:
        """Note a record. Raises DamagedValue for one that makes no sense."""
        if space == CHANNELS and len(key) == schema.U64.size:
            self._peers[schema.U64.unpack(key)[0]] = content.decode(errors="replace")
        if space == CLAIMS:
            channel, places = read(key, content)
            for queue_id, priority, sequence in places:
                # A record stays until all of its messages are gone.
                handle = schema.handle_of(priority, sequence)
                place = schema.place_key(*self._snapshot.inherited.place_of(queue_id, handle), 0)
                if priority < PRIORITIES and self._snapshot.has(schema.REFERENCES, place):
                    self._counts[queue_id, self._peers.get(channel, "unknown")] += 1

    def lines(self, queue_names: Mapping[int, tuple[int, str]]) -> Iterator[str]:
        """Yield a line for each queue and broker."""
        for (queue_id, peer), count in sorted(self._counts.items()):
            name = queue_names.get(queue_id, (0, str(queue_id)))[1]
            yield (
                f"note: {count} messages of queue '{name}' were on their way to broker {peer}: they are in the file, "
                "and may be there as well"
            )


def read(key: bytes, content: bytes) -> tuple[int, list[tuple[int, int, int]]]:
    """Return channel and places of a record of claims. Raises DamagedValue."""
    try:
        return read_claims(key, content)
    except ValueError as error:
        raise DamagedValue(str(error)) from error


def check(snapshot: Snapshot, space: str, key: bytes, content: bytes) -> None:
    """Check a record of the mesh. Raises DamagedValue."""
    if space == CLAIMS:
        # The messages may be gone, and their queues too: a record stays until the last of them is confirmed.
        channel, _ = read(key, content)
        if not snapshot.has(schema.RECORDS, schema.record_key(CHANNELS, schema.U64.pack(channel))):
            raise DamagedValue("nothing says for which broker these messages are claimed")
    elif space in (CHANNELS, MARKS) and len(key) < schema.U64.size:
        raise DamagedValue("it names no channel")
    elif space == MARKS and len(content) != schema.U64.size:
        raise DamagedValue("it is no mark")
