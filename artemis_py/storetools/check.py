"""`data check`: reads every value of a store, and compares it with the values it belongs with.

    database     each value                        together
    meta         checksum of each number           the records of the log behind the one that is named there
    addresses    checksum, an address              no two have the same name
    queues       checksum, a queue                 no two have the same name; its id is below next-queue-id
    marks        checksum, a number
    references   checksum, a message or the id     its queue exists, its sequence is below the queue's mark or its
                 of a shared one                   running number below next-scheduled, its message id below
                                                   next-message-id
    counts       checksum, count and bytes         this queue and rank has so many references, of this size
    drops        checksum, a range
    messages     checksum, a message               at least one reference shares it
    shares       checksum, a count                 so many references share the message, which exists
    bodies       checksum, a count                 so many messages have the body; its file exists, has its size
                                                   and its checksum
    attempts     checksum, a count                 there is a reference at this place
    duplicates   checksum                          its address exists
    records      checksum, a key with its space;   its messages are in the queue of prepared messages
                 a prepared branch is one, a job is    both ends of a binding exist, and the alternate of an
                 one, an exchange, a binding, an       exchange
                 inherited range

A reference that is to be dropped is no problem without its queue, and is not counted. A file that no message refers to
is no problem either: it may be arriving, not durable, or about to be deleted. The check changes nothing: a start moves
damaged values out of the way by itself, and keeps them.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from struct import error as StructError

from attrs import define, field

from artemis_py.core.messages.message import Message
from artemis_py.core.queues.storage import host_and_space, space_of
from artemis_py.core.routing.exchanges.exchanges import PREDECLARED
from artemis_py.core.routing.exchanges.kept import (
    BINDINGS,
    EXCHANGES,
    exchange_key,
    read_stored_binding,
    read_stored_exchange,
)
from artemis_py.core.services.branch import BRANCHES, StoredBranch
from artemis_py.core.services.job import SPACE as JOBS
from artemis_py.core.services.job import read_job
from artemis_py.core.services.prepared_messages import PREPARED, PRIORITY
from artemis_py.core.services.virtual_hosts import SPACE as VIRTUAL_HOSTS
from artemis_py.core.services.virtual_hosts import HostState, host_id, read_host_record
from artemis_py.core.services.xid import xid_of_key
from artemis_py.core.settings.exchange_config import Destination
from artemis_py.errors import DamagedValue, InvalidRequest, StoreError
from artemis_py.store import last_values, schema
from artemis_py.store.definitions import read_address, read_queue
from artemis_py.store.environment import FILE_NAME
from artemis_py.store.inherited import INHERITED, read_record
from artemis_py.store.large import body_files, body_path, read_body
from artemis_py.store.log.segment import FOLDER_NAME
from artemis_py.storetools.bodies import bodies_folder
from artemis_py.storetools.drops import Drops
from artemis_py.storetools.mesh import SPACES as MESH_SPACES
from artemis_py.storetools.mesh import check as check_mesh_record
from artemis_py.storetools.snapshot import Progress, Snapshot, opened
from artemis_py.storetools.tallies import Tallies, read_message
from artemis_py.storetools.unfolded import log_state, mark_of, wait_until_folded


@define
class Findings:
    """Result of a check."""

    values: int = 0
    problems: list[str] = field(factory=list)
    """Lines of the form `database key: what is wrong`, keys in hexadecimal."""
    damaged: list[str] = field(factory=list)
    """Values, and files of the log, that an earlier start set aside."""
    unreferenced_files: int = 0
    """Files of large bodies, including those that are just arriving and those of messages that are not durable."""
    unreferenced_bytes: int = 0
    log_batches: int = 0
    """Commits that are in the write-ahead log only. Only their records are checked."""
    log_bytes: int = 0


def check(
    folder: Path,
    progress: Progress = lambda done, total: None,
    large_messages_folder: Path | None = None,
) -> Findings:
    """Read every value and compare them with each other. Raises StoreError if there is no store to read.

    Large bodies are below `folder` unless their folder is named. A broker that uses the store is given time to fold its
    log, so that what it confirmed before is checked.
    """
    if (folder / FOLDER_NAME).is_dir():
        wait_until_folded(folder)
    with opened(folder) as snapshot:
        log = log_state(folder, snapshot)
        findings = _Check(snapshot, bodies_folder(folder, large_messages_folder), progress).run()
        findings.problems.extend(log.problems)
        findings.damaged.extend(f"{FOLDER_NAME}/{name}" for name in log.set_aside)
        findings.log_batches = log.batches
        findings.log_bytes = log.batch_bytes
        return findings


def check_folder(folder: Path, large_messages_folder: Path | None = None) -> list[str]:
    """Return what is wrong with the store in a folder, in words; empty if it is sound. Raises as `check` does."""
    return check(folder, large_messages_folder=large_messages_folder).problems


class _Check:
    """One pass over a snapshot."""

    def __init__(self, snapshot: Snapshot, bodies: Path, progress: Progress) -> None:
        self._snapshot = snapshot
        self._bodies_folder = bodies
        self._progress = progress
        self._total = sum(snapshot.count(database) for database in schema.DATABASES)
        self._findings = Findings()
        self._tallies = Tallies(snapshot)
        self._drops = Drops(snapshot)
        self._names: set[tuple[bytes, int, str]] = set()
        """Databases, virtual hosts and names of addresses and queues."""
        self._prepared_ids: dict[int, int] = {}
        """Ids of the queues with the messages of prepared branches, by virtual host."""
        self._hosts: dict[int, HostState | None] = self._known_hosts()
        """States of virtual hosts by id; None if the record of a host is damaged."""
        self._marks = {key: self._number(schema.MARKS, key) for key in snapshot.keys(schema.MARKS)}
        self._next_message_id = self._number(schema.META, schema.NEXT_MESSAGE_ID)
        self._next_queue_id = self._number(schema.META, schema.NEXT_QUEUE_ID)
        self._next_scheduled = self._number(schema.META, schema.NEXT_SCHEDULED)
        self._readers: Mapping[bytes, Callable[[bytes, bytes], None]] = {
            schema.META: self._meta,
            schema.ADDRESSES: self._address,
            schema.QUEUES: self._queue,
            schema.MARKS: self._mark,
            schema.REFERENCES: self._reference,
            schema.COUNTS: self._counts,
            schema.DROPS: _drop,
            schema.MESSAGES: self._message,
            schema.SHARES: self._share,
            schema.BODIES: self._body,
            schema.LAST_VALUES: self._last_value,
            schema.ATTEMPTS: self._attempts,
            schema.DUPLICATES: self._duplicate,
            schema.RECORDS: self._record,
            schema.DAMAGED: self._set_aside,
        }

    def run(self) -> Findings:
        """Check all values, in the order of `schema.DATABASES`: counts come after what they count."""
        self._findings.problems.extend(f"{FILE_NAME} {problem}" for problem in self._snapshot.problems)
        for database in schema.DATABASES:
            read = self._readers[database]
            for key, value in self._snapshot.items(database):
                self._findings.values += 1
                self._progress(self._findings.values, self._total)
                try:
                    read(key, value)
                except DamagedValue as error:
                    self._say(database, key, str(error))
                except StructError:
                    self._say(database, key, "its key or value has an impossible length")
        for database, key, problem in self._tallies.not_taken():
            self._say(database, key, problem)
        self._unreferenced_files()
        return self._findings

    def _meta(self, key: bytes, value: bytes) -> None:
        if key in schema.NUMBERS:
            self._snapshot.number(schema.META, key)
        elif key == schema.LOG:
            mark_of(self._snapshot)

    def _mark(self, key: bytes, value: bytes) -> None:
        self._snapshot.number(schema.MARKS, key)

    def _address(self, key: bytes, value: bytes) -> None:
        address = read_address(schema.unseal(key, value))
        self._take_name(schema.ADDRESSES, address.host, address.name)

    def _queue(self, key: bytes, value: bytes) -> None:
        record = read_queue(schema.unseal(key, value))
        if record.config.name == PREPARED:
            self._prepared_ids[record.host] = schema.U32.unpack(key)[0]
        self._take_name(schema.QUEUES, record.host, record.config.name)
        if schema.U32.unpack(key)[0] >= self._next_queue_id:
            raise DamagedValue("its id may be given again: next-queue-id is not above it")

    def _reference(self, key: bytes, value: bytes) -> None:
        is_dropped = self._drops.have(key)
        size: int | None = None
        try:
            last_key, content = schema.split_key(schema.unseal(key, value))
            size = self._stored_in(content)
        finally:
            if not is_dropped:
                self._tallies.add_reference(key, size)
        if not is_dropped:
            self._has_its_place(key)
            if last_key is not None:
                self._is_last(key, last_key)

    def _is_last(self, key: bytes, last_key: bytes) -> None:
        """Check that the index of the last-value queue names this reference."""
        queue_id, handle = schema.read_place(key)
        index_key = last_values.entry_key(queue_id, last_key)
        entry = self._snapshot.get(schema.LAST_VALUES, index_key)
        if entry is None:
            raise DamagedValue("its last-value key is missing in last-values")
        try:
            found = last_values.read_entry(index_key, entry)[0]
        except DamagedValue:
            # It is reported itself.
            return
        if found != handle:
            raise DamagedValue("last-values names another reference for its last-value key")

    def _last_value(self, key: bytes, value: bytes) -> None:
        handle = last_values.read_entry(key, value)[0]
        reference = self._snapshot.get(schema.REFERENCES, last_values.place_of(key, handle))
        if reference is None:
            raise DamagedValue("its reference does not exist")
        if schema.last_key_in(reference) != key[schema.U32.size :]:
            raise DamagedValue("its reference has another last-value key")

    def _stored_in(self, content: bytes) -> int | None:
        """Check the message in a reference or the id it points to; return the message's size, if that can be told."""
        id = schema.shared_id(content)
        if id is not None:
            return self._tallies.add_share(id)
        message = read_message(content[1:])
        self._tallies.add_body(message)
        self._known_id(message)
        return message.size

    def _has_its_place(self, key: bytes) -> None:
        queue_id, handle = self._snapshot.inherited.owner_of(*schema.read_place(key))
        queue_key = schema.U32.pack(queue_id)
        if not self._snapshot.has(schema.QUEUES, queue_key):
            raise DamagedValue("its queue does not exist")
        if schema.is_scheduled(handle):
            if schema.number_in(handle) >= self._next_scheduled:
                raise DamagedValue("its running number may be given again: next-scheduled is not above it")
        elif schema.number_in(handle) >= self._marks.get(queue_key, 1):
            raise DamagedValue("its sequence may be given again: the mark of its queue is not above it")

    def _counts(self, key: bytes, value: bytes) -> None:
        try:
            count, size_bytes = schema.read_counts(key, value)
        except DamagedValue:
            self._tallies.forget_counts(key)
            raise
        self._tallies.take_counts(key, count, size_bytes)

    def _message(self, key: bytes, value: bytes) -> None:
        message = read_message(schema.unseal(key, value))
        self._tallies.add_body(message)
        self._known_id(message)
        if not self._tallies.is_shared(key):
            raise DamagedValue("no reference shares it")

    def _share(self, key: bytes, value: bytes) -> None:
        if not self._snapshot.has(schema.MESSAGES, key):
            self._say(schema.SHARES, key, "its message is missing")
        try:
            count = schema.read_count(key, value)
        except DamagedValue:
            self._tallies.forget_shares(key)
            raise
        self._tallies.take_shares(key, count)

    def _body(self, key: bytes, value: bytes) -> None:
        size_and_checksum = self._tallies.body_sizes.get(key)
        try:
            count = schema.read_count(key, value)
        except DamagedValue:
            self._tallies.forget_bodies(key)
            raise
        self._tallies.take_bodies(key, count)
        if size_and_checksum is None:
            return
        try:
            for _ in read_body(body_path(self._bodies_folder, schema.U64.unpack(key)[0]), *size_and_checksum):
                pass
        except StoreError as error:
            # Since the snapshot was taken, a broker may have deleted the file after its last reference.
            if self._snapshot.is_still_there(schema.BODIES, key):
                raise DamagedValue(str(error)) from error

    def _unreferenced_files(self) -> None:
        if not self._bodies_folder.is_dir():
            return
        for id, path in body_files(self._bodies_folder):
            if not self._snapshot.is_still_there(schema.BODIES, schema.U64.pack(id)):
                with suppress(FileNotFoundError):
                    self._findings.unreferenced_bytes += path.stat().st_size
                    self._findings.unreferenced_files += 1

    def _attempts(self, key: bytes, value: bytes) -> None:
        schema.read_attempts(key, value)
        if not self._snapshot.has(schema.REFERENCES, key):
            raise DamagedValue("there is no reference at this place")

    def _duplicate(self, key: bytes, value: bytes) -> None:
        schema.unseal(key, value)
        if not self._snapshot.has(schema.ADDRESSES, key[: schema.U32.size]):
            raise DamagedValue("its address does not exist")

    def _record(self, key: bytes, value: bytes) -> None:
        content = schema.unseal(key, value)
        space, name = schema.read_record_key(key)
        host, space = host_and_space(space)
        if host not in self._hosts:
            raise DamagedValue(f"virtual host {host} does not exist")
        if self._hosts[host] is HostState.DELETING:
            # Its records go last, in slices, without the order that their meaning would ask for.
            return
        if space == BRANCHES:
            self._branch(host, name, content)
        elif space == VIRTUAL_HOSTS:
            read_host_record(name, content)
        elif space == INHERITED:
            read_record(key, content)
        elif space in MESH_SPACES:
            check_mesh_record(self._snapshot, space, name, content)
        elif space == JOBS:
            # Its message may be gone: an administrator may have emptied the queue just before a crash.
            read_job(name, content)
        elif space == EXCHANGES:
            alternate = read_stored_exchange(name, content).alternate
            if alternate is not None and not self._is_there(host, alternate):
                raise DamagedValue(f"its alternate, {alternate}, does not exist")
        elif space == BINDINGS:
            binding = read_stored_binding(name, content)
            for end in (Destination(binding.source, is_queue=False), binding.destination):
                if not self._is_there(host, end):
                    raise DamagedValue(f"one of its ends, {end}, does not exist")

    def _is_there(self, host: int, destination: Destination) -> bool:
        """Tell whether a queue or an exchange is stored; predeclared exchanges always are there."""
        if destination.is_queue:
            return (schema.QUEUES, host, destination.name) in self._names
        key = schema.record_key(space_of(host, EXCHANGES), exchange_key(destination.name))
        return destination.name in PREDECLARED or self._snapshot.has(schema.RECORDS, key)

    def _branch(self, host: int, name: bytes, content: bytes) -> None:
        """Check a prepared branch. A delivery that it has claimed may be gone; see `StoredBranch.content`."""
        try:
            xid_of_key(name)
            branch = StoredBranch(content)
        except (ValueError, KeyError, TypeError, InvalidRequest) as error:
            raise DamagedValue("it is not a prepared branch") from error
        count = 0
        for sequence in range(branch.first, branch.first + len(branch.indexes)):
            key = schema.place_key(self._prepared_ids.get(host, 0), schema.handle_of(PRIORITY, sequence), 0)
            count += self._snapshot.has(schema.REFERENCES, key) and not self._drops.have(key)
        if count != branch.stored_count:
            raise DamagedValue(f"{count} of its {branch.stored_count} messages are there")

    def _set_aside(self, key: bytes, value: bytes) -> None:
        database, _, original = key.partition(b"\x00")
        self._findings.damaged.append(f"{database.decode()} {original.hex()}")

    def _known_id(self, message: Message) -> None:
        if message.id >= self._next_message_id:
            raise DamagedValue("its message id may be given again: next-message-id is not above it")

    def _take_name(self, database: bytes, host: int, name: str) -> None:
        if (database, host, name) in self._names:
            raise DamagedValue(f"there is another one called '{name}'")
        self._names.add((database, host, name))
        if host not in self._hosts:
            raise DamagedValue(f"virtual host {host} does not exist")

    def _known_hosts(self) -> dict[int, HostState | None]:
        """Return the states of the virtual hosts, with that of the default one."""
        found: dict[int, HostState | None] = {0: HostState.ACTIVE}
        for key, value in self._snapshot.items(schema.RECORDS, schema.record_key(VIRTUAL_HOSTS, b"")):
            name = schema.read_record_key(key)[1]
            with suppress(DamagedValue):
                id = host_id(name)
                found.setdefault(id, None)
                found[id] = read_host_record(name, schema.unseal(key, value))[1]
        return found

    def _number(self, database: bytes, key: bytes) -> int:
        """Return a number, 0 if it is missing; a damaged one, which is reported itself, counts as above all others."""
        try:
            return self._snapshot.number(database, key) or 0
        except DamagedValue:
            return 1 << 64

    def _say(self, database: bytes, key: bytes, problem: str) -> None:
        self._findings.problems.append(f"{database.decode()} {key.hex()}: {problem}")


def _drop(key: bytes, value: bytes) -> None:
    schema.read_drop(key, value)
