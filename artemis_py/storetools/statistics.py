"""`data stat`: reports the content of a store from the counts that it keeps; no reference and no message is read."""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from attrs import frozen

from artemis_py.core.messages.message import MESSAGE_OVERHEAD_BYTES
from artemis_py.core.queues.page import SCHEDULED_RANK
from artemis_py.core.services.virtual_hosts import SPACE as VIRTUAL_HOSTS
from artemis_py.core.services.virtual_hosts import host_id, read_host_record
from artemis_py.errors import DamagedValue
from artemis_py.store import schema
from artemis_py.store.definitions import read_queue
from artemis_py.store.environment import FILE_NAME
from artemis_py.store.large import body_path
from artemis_py.store.log.segment import FOLDER_NAME
from artemis_py.storetools.bodies import bodies_folder
from artemis_py.storetools.snapshot import Snapshot, opened
from artemis_py.storetools.unfolded import log_state, wait_until_folded

_UNKNOWN: Final = ("", "", "")


@frozen(kw_only=True)
class QueueStatistics:
    """Numbers of one queue in the store."""

    id: int
    name: str
    """Empty if its definition is damaged."""
    host: str
    """Name of its virtual host; empty for the default one."""
    address: str
    messages: int
    scheduled: int
    size_bytes: int
    """Size of its messages in memory, without large bodies."""


@frozen(kw_only=True)
class Statistics:
    """Numbers of a store."""

    format: int
    file_bytes: int
    used_bytes: int
    """Bytes of the file in use; the rest is free for reuse, and `compact` gives it back."""
    addresses: int
    shared_messages: int
    large_messages: int
    """Bodies in files; several messages may have the same one."""
    large_bytes: int
    duplicates: int
    records: int
    damaged: int
    queues: tuple[QueueStatistics, ...]
    log_file_bytes: int = 0
    """Size of the files of the write-ahead log."""
    log_batches: int = 0
    """Commits that are in the log only, and not counted: those of the last moments, or since a crash."""
    log_bytes: int = 0
    """Size of these commits."""
    problems: tuple[str, ...] = ()
    """Damaged pages of the file, whose content is not counted, and what is wrong with the log."""

    @property
    def messages(self) -> int:
        """Number of references in all queues."""
        return sum(queue.messages for queue in self.queues)


def statistics(folder: Path, large_messages_folder: Path | None = None) -> Statistics:
    """Count what is in a store; large bodies are below `folder` unless their folder is named. Raises StoreError.

    A broker that uses the store is given time to fold its log, so that what it confirmed before is counted.
    """
    if (folder / FOLDER_NAME).is_dir():
        wait_until_folded(folder)
    with opened(folder) as snapshot:
        log = log_state(folder, snapshot)
        messages: Counter[int] = Counter()
        scheduled: Counter[int] = Counter()
        sizes: Counter[int] = Counter()
        for key, count, size_bytes in _counted(snapshot):
            stored_id, rank = schema.read_rank(key)
            queue_id, _ = snapshot.inherited.owner_of(stored_id, 0)
            messages[queue_id] += count
            sizes[queue_id] += size_bytes
            if rank == SCHEDULED_RANK:
                scheduled[queue_id] = count
        names = _names(snapshot)
        return Statistics(
            format=snapshot.format,
            file_bytes=(folder / FILE_NAME).stat().st_size,
            used_bytes=snapshot.used_bytes,
            addresses=snapshot.count(schema.ADDRESSES),
            shared_messages=snapshot.count(schema.MESSAGES),
            large_messages=snapshot.count(schema.BODIES),
            large_bytes=_large_bytes(snapshot, bodies_folder(folder, large_messages_folder)),
            duplicates=snapshot.count(schema.DUPLICATES),
            records=snapshot.count(schema.RECORDS),
            damaged=snapshot.count(schema.DAMAGED),
            log_file_bytes=log.file_bytes,
            log_batches=log.batches,
            log_bytes=log.batch_bytes,
            problems=(*snapshot.problems, *log.problems),
            queues=tuple(
                QueueStatistics(
                    id=id,
                    name=names.get(id, _UNKNOWN)[0],
                    host=names.get(id, _UNKNOWN)[2],
                    address=names.get(id, _UNKNOWN)[1],
                    messages=messages[id],
                    scheduled=scheduled[id],
                    size_bytes=sizes[id],
                )
                for id in sorted(names.keys() | messages.keys())
            ),
        )


def _counted(snapshot: Snapshot) -> Iterator[tuple[bytes, int, int]]:
    """Yield rank, count and bytes; from a damaged file those of the references found, not those that were stored."""
    if not snapshot.problems:
        for key, value in snapshot.items(schema.COUNTS):
            yield key, *_counts(snapshot, key, value)
        return
    there: Counter[bytes] = Counter()
    sizes: Counter[bytes] = Counter()
    for key, value in snapshot.items(schema.REFERENCES):
        there[key[: schema.RANK_KEY_BYTES]] += 1
        sizes[key[: schema.RANK_KEY_BYTES]] += len(value) + MESSAGE_OVERHEAD_BYTES
    for key, count in there.items():
        yield key, count, sizes[key]


def _counts(snapshot: Snapshot, key: bytes, value: bytes) -> tuple[int, int]:
    """Return count and bytes; for a damaged count those that the next start will count."""
    try:
        return schema.read_counts(key, value)
    except DamagedValue:
        sizes = [len(reference) + MESSAGE_OVERHEAD_BYTES for _, reference in snapshot.items(schema.REFERENCES, key)]
        return len(sizes), sum(sizes)


def _large_bytes(snapshot: Snapshot, folder: Path) -> int:
    """Return the size of the bodies that exist; a broker may delete some in the meantime."""
    size = 0
    for key in snapshot.keys(schema.BODIES):
        with suppress(OSError):
            size += body_path(folder, schema.U64.unpack(key)[0]).stat().st_size
    return size


def _hosts(snapshot: Snapshot) -> dict[int, str]:
    """Return the names of virtual hosts, by their ids; that of a damaged one is its id."""
    names: dict[int, str] = {}
    for key, value in snapshot.items(schema.RECORDS, schema.record_key(VIRTUAL_HOSTS, b"")):
        with suppress(DamagedValue):
            id = host_id(schema.read_record_key(key)[1])
            names[id] = str(id)
            names[id] = read_host_record(schema.read_record_key(key)[1], schema.unseal(key, value))[0].name
    return names


def _names(snapshot: Snapshot) -> dict[int, tuple[str, str, str]]:
    """Return name, address and virtual host of each queue, by its id."""
    hosts = _hosts(snapshot)
    names: dict[int, tuple[str, str, str]] = {}
    for key, value in snapshot.items(schema.QUEUES):
        try:
            record = read_queue(schema.unseal(key, value))
            host = hosts.get(record.host, str(record.host)) if record.host else ""
            names[schema.U32.unpack(key)[0]] = (record.config.name, record.config.address, host)
        except DamagedValue:
            names[schema.U32.unpack(key)[0]] = _UNKNOWN
    return names
