"""The content of a store, independent of its keys: the entries of an export, in their order.

Addresses come first, then queues, then messages that several references share, then the references of one queue after
the other, then duplicate ids and records. A large body comes before the first message that has it. So an import never
needs anything that comes later, and neither side keeps more than one entry in memory at a time, or a piece of a body.
References that are to be dropped are left out.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from attrs import frozen

from artemis_py.core.messages.message import Message, MessageFormat
from artemis_py.core.messages.record import decode_message
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.errors import DamagedValue, StoreError
from artemis_py.store import schema
from artemis_py.store.definitions import (
    AddressRecord,
    QueueRecord,
    read_address,
    read_queue,
    recovered_name,
    recovered_queue,
)
from artemis_py.store.inherited import PREFIX
from artemis_py.store.large import body_path, read_body
from artemis_py.storetools.bodies import StoredBodies
from artemis_py.storetools.drops import Drops
from artemis_py.storetools.mesh import Claimed
from artemis_py.storetools.snapshot import Snapshot

PIECE_BYTES: Final = 192 * 1024
"""Octets of a large body that are read and written at once: a line of 256 KiB in base64."""


def qualified(host: int, name: str) -> str:
    """Return a name that tells addresses, or queues, of all virtual hosts apart; that of the default host is plain."""
    return name if host == 0 else f"\0{host}\0{name}"


@frozen(kw_only=True)
class AddressEntry:
    """An address."""

    record: AddressRecord


@frozen(kw_only=True)
class QueueEntry:
    """A durable queue."""

    id: int
    """Id by which records of protocols name the queue."""
    record: QueueRecord
    next_sequence: int
    """Limit of used sequences: those below it may have been used."""


@frozen(kw_only=True)
class BodyEntry:
    """A large body, for messages that come after it."""

    id: int
    size: int
    checksum: int
    """CRC-32 of its octets."""
    pieces: Iterator[bytes]
    """Octets, to be read before the next entry. Raises as reading an entry does, if size or checksum is wrong."""


@frozen(kw_only=True)
class MessageEntry:
    """A message that references after it share by its id."""

    message: Message


@frozen(kw_only=True)
class ReferenceEntry:
    """A message in its queue."""

    queue: str
    host: int = 0
    """Virtual host of the queue."""
    sequence: int
    """Sequence in the queue; 0 while the message waits for its delivery time and has none yet."""
    message: Message | int
    """The message itself, or the id of a shared one."""
    delivery_count: int = 0
    due_ms: int = 0
    """Time in ms at which a failed delivery is tried again; 0: at once."""
    amendment: bytes = b""
    """Changes that consumers made to the message (`core.messages.record.amend`); empty if there are none."""


@frozen(kw_only=True)
class DuplicateEntry:
    """An id under which an address took a message."""

    address: str
    host: int = 0
    """Virtual host of the address."""
    number: int
    id: bytes


@frozen(kw_only=True)
class RecordEntry:
    """A record of a protocol or of the core."""

    space: str
    key: bytes
    value: bytes


_MESH_RECORDS: Final = b"mesh-"
"""Prefix of the records of the mesh, which mean nothing in another store."""

_OWN_RECORDS: Final = schema.record_key(schema.NODE_RECORDS, b"")
"""Prefix of the records that identify a broker; a broker that imports its messages keeps its own identity."""

Entry = AddressEntry | QueueEntry | BodyEntry | MessageEntry | ReferenceEntry | DuplicateEntry | RecordEntry


class Entries:
    """All entries of a snapshot. A damaged value is left out and reported."""

    def __init__(
        self,
        snapshot: Snapshot,
        bodies: StoredBodies,
        formats: Mapping[str, MessageFormat],
        tell: Callable[[str], None],
        are_bodies_apart: bool,
    ) -> None:
        """Prepare; `formats` are by name, and a message of another format keeps its bytes.

        `tell` gets a line for each value left out. Unless `are_bodies_apart`, there are no entries for large bodies:
        messages have them.
        """
        self._snapshot: Final = snapshot
        self._bodies: Final = bodies
        self._formats: Final = formats
        self._tell: Final = tell
        self._are_bodies_apart: Final = are_bodies_apart
        self._drops: Final = Drops(snapshot)
        self._address_names: dict[bytes, tuple[int, str]] = {}
        """Virtual hosts and names of addresses, by their keys."""
        self._addresses_there: set[str] = set()
        self._queue_names: dict[int, tuple[int, str]] = {}
        """Virtual hosts and names of queues, by their ids."""
        self._claimed: Final = Claimed(snapshot)
        self._lost: set[int] = set()
        """Ids of shared messages that were left out."""
        self._shared_bodies: set[int] = set()
        """Ids of bodies that have had their entry and that other messages have, too."""
        self.total: Final = sum(snapshot.count(database) for database in self._readers)
        """Number of entries if nothing is damaged, without bodies."""

    def __iter__(self) -> Iterator[Entry]:
        for database, read in self._readers.items():
            is_reference = database == schema.REFERENCES
            for key, value in self._snapshot.references() if is_reference else self._snapshot.items(database):
                if is_reference and self._drops.have(key):
                    continue
                if database == schema.RECORDS and key.startswith((_OWN_RECORDS, PREFIX)):
                    continue
                try:
                    if database == schema.RECORDS and key.startswith(_MESH_RECORDS):
                        self._claimed.take(*schema.read_record_key(key), schema.unseal(key, value))
                        continue
                    entry = read(self, key, value)
                    if isinstance(entry, QueueEntry):
                        yield from self._address_before(entry)
                    if self._are_bodies_apart and isinstance(entry, MessageEntry | ReferenceEntry):
                        yield from self._body_before(entry)
                except DamagedValue as error:
                    if database == schema.MESSAGES and len(key) == schema.U64.size:
                        self._lost.add(schema.U64.unpack(key)[0])
                    self._tell(f"left out: {database.decode()} {key.hex()}: {error}")
                    if database == schema.QUEUES and len(key) == schema.U32.size:
                        yield from self._recovered(key)
                else:
                    yield entry
            if database == schema.QUEUES:
                yield from self._lost_queues()
        for line in self._claimed.lines(self._queue_names):
            self._tell(line)

    def _address_before(self, entry: QueueEntry) -> Iterator[AddressEntry]:
        """Yield the address of a queue if it is damaged, with the queue's routing type: as a start makes it."""
        config, host = entry.record.config, entry.record.host
        if qualified(host, config.address) not in self._addresses_there:
            self._addresses_there.add(qualified(host, config.address))
            routing_types = frozenset((config.routing_type or RoutingType.MULTICAST,))
            yield AddressEntry(
                record=AddressRecord(
                    name=config.address,
                    routing_types=routing_types,
                    auto_created=config.auto_created,
                    internal=config.internal,
                    paused=False,
                    host=host,
                )
            )

    def _recovered(self, key: bytes) -> Iterator[Entry]:
        """Yield address and queue for the messages of a queue whose definition is damaged, as a start makes them."""
        id = schema.U32.unpack(key)[0]
        entry = self._queue(*recovered_queue(id))
        yield from self._address_before(entry)
        yield entry

    def _lost_queues(self) -> Iterator[Entry]:
        """Yield addresses and queues for messages whose queue, or inherited range, is lost; as a start makes them."""
        for stored_id in self._snapshot.stored_ids():
            id = self._snapshot.inherited.owner_of(stored_id, 0)[0]
            if id not in self._queue_names and not self._drops.have_all(stored_id):
                self._tell(f"note: the queue of the messages under id {id} is lost: they are in '{recovered_name(id)}'")
                yield from self._recovered(schema.U32.pack(id))

    def _body_before(self, entry: MessageEntry | ReferenceEntry) -> Iterator[BodyEntry]:
        """Yield the large body of a message when it comes for the first time. Raises DamagedValue."""
        large = entry.message.large if isinstance(entry.message, Message) else None
        if large is None or large.id in self._shared_bodies:
            return
        path = body_path(self._bodies.folder, large.id)
        try:
            # The checksum is known only at the end, and a part of a body is of no use: so it is read twice.
            for _ in read_body(path, large.size, large.checksum):
                pass
        except StoreError as error:
            raise DamagedValue(f"its large body cannot be used: {error}") from error
        body_key = schema.U64.pack(large.id)
        if schema.count_or_unknown(body_key, self._snapshot.get(schema.BODIES, body_key) or b"") != 1:
            self._shared_bodies.add(large.id)
        pieces = read_body(path, large.size, large.checksum, PIECE_BYTES)
        yield BodyEntry(id=large.id, size=large.size, checksum=large.checksum, pieces=pieces)

    def _address(self, key: bytes, value: bytes) -> AddressEntry:
        record = read_address(schema.unseal(key, value))
        self._address_names[key] = record.host, record.name
        self._addresses_there.add(qualified(record.host, record.name))
        return AddressEntry(record=record)

    def _queue(self, key: bytes, value: bytes) -> QueueEntry:
        record = read_queue(schema.unseal(key, value))
        self._queue_names[schema.U32.unpack(key)[0]] = record.host, record.config.name
        id = schema.U32.unpack(key)[0]
        try:
            mark = self._snapshot.number(schema.MARKS, key)
        except DamagedValue as error:
            # An import continues with the sequence after the queue's last message.
            self._tell(f"left out: marks {key.hex()}: {error}")
            mark = None
        return QueueEntry(id=id, record=record, next_sequence=1 if mark is None else mark)

    def _shared_message(self, key: bytes, value: bytes) -> MessageEntry:
        return MessageEntry(message=decode_message(schema.unseal(key, value), self._formats, self._bodies))

    def _reference(self, key: bytes, value: bytes) -> ReferenceEntry:
        _, content = schema.split_key(schema.unseal(key, value))
        queue_id, handle = self._snapshot.inherited.owner_of(*schema.read_place(key))
        queue = self._queue_names.get(queue_id)
        if queue is None:
            raise DamagedValue("its queue does not exist")
        id = schema.shared_id(content)
        if id is not None and (id in self._lost or not self._snapshot.has(schema.MESSAGES, schema.U64.pack(id))):
            raise DamagedValue(f"its message {id} cannot be read")
        message = decode_message(content[1:], self._formats, self._bodies) if id is None else id
        delivery_count, due_ms, amendment = self._attempts(key)
        host, name = queue
        return ReferenceEntry(
            queue=name,
            host=host,
            sequence=0 if schema.is_scheduled(handle) else schema.number_in(handle),
            message=message,
            delivery_count=delivery_count,
            due_ms=due_ms,
            amendment=amendment,
        )

    def _attempts(self, key: bytes) -> tuple[int, int, bytes]:
        """Return what is noted of failed deliveries; a message whose note is damaged has none, as after a start."""
        value = self._snapshot.get(schema.ATTEMPTS, key)
        try:
            return (0, 0, b"") if value is None else schema.read_attempts(key, value)
        except DamagedValue as error:
            self._tell(f"left out: attempts {key.hex()}: {error}")
            return 0, 0, b""

    def shared(self, id: int) -> Message:
        """Return a message that several references share. Raises DamagedValue."""
        key = schema.U64.pack(id)
        value = self._snapshot.get(schema.MESSAGES, key)
        if value is None:
            raise DamagedValue(f"its message {id} is missing")
        return decode_message(schema.unseal(key, value), self._formats, self._bodies)

    def _duplicate(self, key: bytes, value: bytes) -> DuplicateEntry:
        address = self._address_names.get(key[: schema.U32.size])
        if address is None:
            raise DamagedValue("its address does not exist")
        host, name = address
        number, id = schema.duplicate_number(key), schema.unseal(key, value)
        return DuplicateEntry(address=name, host=host, number=number, id=id)

    def _record(self, key: bytes, value: bytes) -> RecordEntry:
        space, rest = schema.read_record_key(key)
        return RecordEntry(space=space, key=rest, value=schema.unseal(key, value))

    _readers: Final[Mapping[bytes, Callable[["Entries", bytes, bytes], Entry]]] = {
        schema.ADDRESSES: _address,
        schema.QUEUES: _queue,
        schema.MESSAGES: _shared_message,
        schema.REFERENCES: _reference,
        schema.DUPLICATES: _duplicate,
        schema.RECORDS: _record,
    }
