"""Records of sessions in the store, key by key (`Storage.save_record`, space "mqtt"); read again at start.

    u32 session, u8 1                     JSON: the session (`SessionRecord`)
    u32 session, u8 2, u32 number         JSON: one subscription (`SubscriptionRecord`)
    u32 session, u8 3, u16 packet id      nothing: a QoS 2 message that was taken and not released
    u32 session, u8 4, u16 packet id      u8 state, u64 order, u32 queue id, u64 sequence: a QoS 2 delivery under way

A state is that of `flight`; order is the order of first sending. Integers are big-endian.
"""

import json
from base64 import b64decode, b64encode
from struct import Struct
from typing import Any, Final

from attrs import asdict, define, field, frozen

from artemis_py.core.queues.storage import RecordStorage

SPACE: Final = "mqtt"

_SESSION: Final = Struct(">IB")
_NUMBERED: Final = Struct(">IBI")
_IDENTIFIED: Final = Struct(">IBH")
_OUTGOING: Final = Struct(">BQIQ")

_KIND_SESSION: Final = 1
_KIND_SUBSCRIPTION: Final = 2
_KIND_INCOMING: Final = 3
_KIND_OUTGOING: Final = 4


# The object and its fields, without texts and octets that a client makes as long as it likes.
_WILL_BYTES: Final = 512


@frozen(kw_only=True)
class StoredWill:
    """A will, and in whose name it is published."""

    topic: str
    payload: bytes
    qos: int
    retain: bool
    properties: bytes
    """Properties of the PUBLISH, in the form of `on_publish`."""
    expiry_s: int
    """Seconds until the message expires; -1: never."""
    delay_s: int
    user: str | None
    roles: tuple[str, ...]
    exchange: str = ""
    """Exchange that it goes through; empty: its topic is an address."""

    @property
    def size_bytes(self) -> int:
        """Memory that it takes."""
        return _WILL_BYTES + len(self.payload) + len(self.properties) + 4 * len(self.topic)


@frozen(kw_only=True)
class SessionRecord:
    """A session."""

    client_id: str
    expiry_s: int
    ended_ms: int
    """Time at which its connection ended; 0: it was connected."""
    user: str | None = None
    """Owner; None: a client without a name, or the record was stored before sessions had owners."""
    will: StoredWill | None = None


@frozen(kw_only=True)
class SubscriptionRecord:
    """A subscription of a session."""

    number: int
    topic_filter: str
    queue: str
    kind: str
    qos: int
    no_local: bool
    retain_as_published: bool
    identifier: int


@frozen(kw_only=True)
class OutgoingRecord:
    """A delivery of QoS 2 that a client has not confirmed to the end."""

    packet_id: int
    state: int
    order: int
    queue_id: int
    sequence: int


@define
class StoredSession:
    """Everything of one session that was in the store."""

    number: int
    session: SessionRecord | None = None
    subscriptions: list[SubscriptionRecord] = field(factory=list)
    incoming: list[int] = field(factory=list)
    outgoing: list[OutgoingRecord] = field(factory=list)
    keys: list[bytes] = field(factory=list)
    """Keys of all these records."""


class Records:
    """The records of one session."""

    def __init__(self, storage: RecordStorage, number: int) -> None:
        self._storage: Final = storage
        self.number: Final = number
        self._subscriptions: set[int] = set()

    def save_session(self, record: SessionRecord) -> None:
        """Remember the session as it is now."""
        self._storage.save_record(SPACE, _SESSION.pack(self.number, _KIND_SESSION), _dump(asdict(record)))

    def forget_session(self) -> None:
        """Forget the session alone; its subscriptions and identifiers have records of their own."""
        self._storage.save_record(SPACE, _SESSION.pack(self.number, _KIND_SESSION), None)

    def save_subscription(self, record: SubscriptionRecord) -> None:
        """Remember a subscription as it is now."""
        key = _NUMBERED.pack(self.number, _KIND_SUBSCRIPTION, record.number)
        self._storage.save_record(SPACE, key, _dump(asdict(record)))

    def forget_subscription(self, number: int) -> None:
        """Forget a subscription."""
        self._storage.save_record(SPACE, _NUMBERED.pack(self.number, _KIND_SUBSCRIPTION, number), None)

    def save_incoming(self, packet_id: int) -> None:
        """Remember a QoS 2 message that was taken; durable with it."""
        self._storage.save_record(SPACE, _IDENTIFIED.pack(self.number, _KIND_INCOMING, packet_id), b"")

    def forget_incoming(self, packet_id: int) -> None:
        """Forget a QoS 2 message that was released."""
        self._storage.save_record(SPACE, _IDENTIFIED.pack(self.number, _KIND_INCOMING, packet_id), None)

    def save_outgoing(self, packet_id: int, state: int, order: int, queue_id: int, sequence: int) -> None:
        """Remember a QoS 2 delivery that is about to go out, or was received."""
        key = _IDENTIFIED.pack(self.number, _KIND_OUTGOING, packet_id)
        self._storage.save_record(SPACE, key, _OUTGOING.pack(state, order, queue_id, sequence))

    def forget_outgoing(self, packet_id: int) -> None:
        """Forget a QoS 2 delivery that is complete."""
        self._storage.save_record(SPACE, _IDENTIFIED.pack(self.number, _KIND_OUTGOING, packet_id), None)


def load(storage: RecordStorage) -> list[StoredSession]:
    """Return all sessions that an earlier run remembered; one without `session` has lost its record."""
    found: dict[int, StoredSession] = {}
    for key, value in storage.load_records(SPACE):
        number, kind = _SESSION.unpack_from(key)
        stored = found.get(number)
        if stored is None:
            stored = found[number] = StoredSession(number)
        stored.keys.append(key)
        if kind == _KIND_SESSION:
            stored.session = _read_session(_parse(value))
        elif kind == _KIND_SUBSCRIPTION:
            stored.subscriptions.append(SubscriptionRecord(**_parse(value)))
        elif kind == _KIND_INCOMING:
            stored.incoming.append(_IDENTIFIED.unpack(key)[2])
        elif kind == _KIND_OUTGOING:
            state, order, queue_id, sequence = _OUTGOING.unpack(value)
            stored.outgoing.append(
                OutgoingRecord(
                    packet_id=_IDENTIFIED.unpack(key)[2],
                    state=state,
                    order=order,
                    queue_id=queue_id,
                    sequence=sequence,
                )
            )
    return list(found.values())


def _read_session(fields: dict[str, Any]) -> SessionRecord:
    will = fields.pop("will")
    if will is not None:
        will = StoredWill(**(will | {"roles": tuple(will["roles"])}))
    return SessionRecord(**fields, will=will)


def forget(storage: RecordStorage, keys: list[bytes]) -> None:
    """Forget these records."""
    for key in keys:
        storage.save_record(SPACE, key, None)


def _dump(record: dict[str, object]) -> bytes:
    return json.dumps(record, separators=(",", ":"), default=_octets).encode()


def _octets(value: object) -> object:
    if isinstance(value, bytes):
        return {"octets": b64encode(value).decode("ascii")}
    raise TypeError(f"no record holds a {type(value).__name__}")


def _parse(value: bytes) -> dict[str, Any]:
    parsed = json.loads(value, object_hook=_read_octets)
    if not isinstance(parsed, dict):
        raise ValueError("a record is not an object")
    return parsed


def _read_octets(value: dict[str, object]) -> object:
    octets = value.get("octets")
    return b64decode(octets) if isinstance(octets, str) and len(value) == 1 else value
