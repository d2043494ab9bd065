"""AMQP 1.0's composite types: performatives, SASL frames, termini, states and the message's properties.

Each class below is its own table: fields in wire order, with their type, `field(default=...)` unless mandatory. The
same table reads and writes. On the wire a composite is a described list; a missing field, null and the default mean
the same, and writing omits trailing defaults (AMQP 1.0 §1.4). This module does not know what a field means.
"""

from collections.abc import Callable, Mapping
from struct import Struct
from typing import Final, TypeVar
from uuid import UUID as Uuid

from attrs import NOTHING, field, fields, frozen

from artemis_amqp.engine.codec import (
    MAX_DEPTH,
    read_compound_header,
    read_map_items,
    read_value,
    write_compound,
    write_value,
)
from artemis_amqp.engine.types import (
    SYMBOL as SYMBOL_CODE,
)
from artemis_amqp.engine.types import (
    Array,
    InvalidField,
    MalformedValue,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)

# The standard says 32 (AMQP 1.0 §2.8.7), but Proton's own transactions send a UUID as text: 36 octets.
MAX_TAG_SIZE: Final = 64
"""Largest number of octets of a delivery-tag."""

_FRAME_HEADER: Final = Struct(">IBBH")

_Composite = TypeVar("_Composite")


# --- types of fields ---


@frozen
class Kind:
    """The type of a field: how its value is read from and written to the wire."""

    name: str
    read: Callable[[bytes, int, int, int], tuple[object, int]]
    """Reader: (data, offset, end, depth) -> value, next offset. The value is None for null."""
    write: Callable[[bytearray, object], None]
    """Writer; never called for a field at its default."""


def _wrong_type(kind: str, value: object) -> InvalidField:
    return InvalidField(f"{kind} expected, found {type(value).__name__}")


def _plain(name: str, python_type: type) -> Kind:
    """Return the kind of fields of one AMQP type; None, True and so on need no class of their own."""
    is_wrapped = python_type not in (bool, str, bytes)

    def read(data: bytes, offset: int, end: int, depth: int) -> tuple[object, int]:
        value, offset = read_value(data, offset, end, depth)
        if value is not None and type(value) is not python_type:
            raise _wrong_type(name, value)
        return value, offset

    def write(out: bytearray, value: object) -> None:
        write_value(out, python_type(value) if is_wrapped else value)

    return Kind(name, read, write)


def _read_tag(data: bytes, offset: int, end: int, depth: int) -> tuple[object, int]:
    value, offset = BINARY.read(data, offset, end, depth)
    if isinstance(value, bytes) and len(value) > MAX_TAG_SIZE:
        raise InvalidField(f"a delivery-tag of {len(value)} octets, at most {MAX_TAG_SIZE} are allowed")
    return value, offset


def _read_id(data: bytes, offset: int, end: int, depth: int) -> tuple[object, int]:
    value, offset = read_value(data, offset, end, depth)
    if value is not None and type(value) not in (str, ULong, Uuid, bytes):
        raise _wrong_type("message id", value)
    return value, offset


def _read_lenient_symbol(data: bytes, offset: int, end: int, depth: int) -> tuple[object, int]:
    value, offset = read_value(data, offset, end, depth)
    if value is None or type(value) is Symbol:
        return value, offset
    if not isinstance(value, str) or not value.isascii():
        raise _wrong_type("symbol", value)
    return Symbol(value), offset


def _read_symbols(data: bytes, offset: int, end: int, depth: int) -> tuple[object, int]:
    """Read a `multiple` field: null, one bare symbol or an array, returned as a tuple or None (AMQP 1.0 §1.4)."""
    value, offset = read_value(data, offset, end, depth)
    if value is None:
        return None, offset
    if type(value) is Symbol:
        return (value,), offset
    if isinstance(value, Array) and value.code == SYMBOL_CODE and not value.descriptors:
        return value.items, offset
    raise _wrong_type("symbol or array of symbols", value)


def _write_symbols(out: bytearray, value: object) -> None:
    assert isinstance(value, tuple)
    write_value(out, Array(SYMBOL_CODE, (Symbol(symbol) for symbol in value)))


def _map_header(data: bytes, offset: int, end: int) -> tuple[int, int, int] | None:
    """Return count, start and stop of the map at `offset`; None for null."""
    if offset >= end:
        raise MalformedValue(f"the value at octet {offset} is cut short")
    code = data[offset]
    if code == 0x40:
        return None
    if code & 0xEF != 0xC1:
        raise InvalidField(f"map expected, found format code 0x{code:02x}")
    count, start, stop = read_compound_header(code, data, offset + 1, end)
    if count > stop - start or count & 1:
        raise MalformedValue(f"a map of {count} items in {stop - start} octets")
    return count, start, stop


def _read_fields(data: bytes, offset: int, end: int, depth: int) -> tuple[object, int]:
    """Read a map with distinct symbols as keys. Strings are accepted as symbols: some clients send them."""
    header = _map_header(data, offset, end)
    if header is None:
        return None, offset + 1
    count, start, stop = header
    result: dict[Symbol, object] = {}
    for key, value in read_map_items(count, data, start, stop, depth + 1, True).items():
        if not isinstance(key, str) or not key.isascii():
            raise _wrong_type("symbol as key", key)
        result[Symbol(key)] = value
    return result, stop


def _write_fields(out: bytearray, value: object) -> None:
    assert isinstance(value, Mapping)
    write_value(out, {Symbol(key): item for key, item in value.items()})


def _read_unsettled(data: bytes, offset: int, end: int, depth: int) -> tuple[object, int]:
    """Read a map of delivery-tags to states or null (AMQP 1.0 §2.7.3)."""
    header = _map_header(data, offset, end)
    if header is None:
        return None, offset + 1
    count, offset, stop = header
    result: dict[bytes, object] = {}
    for _ in range(count >> 1):
        tag, offset = _read_tag(data, offset, stop, depth + 1)
        if not isinstance(tag, bytes) or tag in result:
            raise InvalidField("the keys of unsettled are distinct delivery-tags")
        result[tag], offset = _read_any(data, offset, stop, depth + 1)
    if offset != stop:
        raise MalformedValue(f"{stop - offset} octets are left over in a map")
    return result, stop


def _write_unsettled(out: bytearray, value: object) -> None:
    assert isinstance(value, Mapping)
    content = bytearray()
    for tag, state in value.items():
        write_value(content, tag)
        _write_any(content, state)
    write_compound(out, 0xC1, 2 * len(value), content)


def _read_any(data: bytes, offset: int, end: int, depth: int) -> tuple[object, int]:
    """Read any value; a composite that this module knows is returned as its class."""
    if offset < end and data[offset] == 0x00:
        table, body = _read_descriptor(data, offset, end, depth)
        if table is not None:
            return _read_fields_of(table, data, body, end, depth + 1)
    return read_value(data, offset, end, depth)


def _write_any(out: bytearray, value: object) -> None:
    if type(value) in _TABLES_BY_CLASS:
        _write_composite(out, value)
    else:
        write_value(out, value)


def _one_of(name: str, *codes: int) -> Kind:
    """Return the kind of fields that contain a composite with one of these descriptor codes."""

    def read(data: bytes, offset: int, end: int, depth: int) -> tuple[object, int]:
        if offset < end and data[offset] == 0x40:
            return None, offset + 1
        if offset < end and data[offset] == 0x00:
            table, body = _read_descriptor(data, offset, end, depth)
            if table is not None and table.code in codes:
                return _read_fields_of(table, data, body, end, depth + 1)
        value, _ = read_value(data, offset, end, depth)
        raise _wrong_type(name, value)

    return Kind(name, read, _write_any)


BOOLEAN: Final = _plain("boolean", bool)
UBYTE: Final = _plain("ubyte", UByte)
USHORT: Final = _plain("ushort", UShort)
UINT: Final = _plain("uint", UInt)
ULONG: Final = _plain("ulong", ULong)
TIMESTAMP: Final = _plain("timestamp", Timestamp)
STRING: Final = _plain("string", str)
SYMBOL: Final = _plain("symbol", Symbol)
LENIENT_SYMBOL: Final = Kind("symbol", _read_lenient_symbol, SYMBOL.write)
"""A field that is written as a symbol but also read from a string: senders often get content-type wrong."""
BINARY: Final = _plain("binary", bytes)
TAG: Final = Kind("delivery-tag", _read_tag, BINARY.write)
MESSAGE_ID: Final = Kind("message id", _read_id, write_value)
SYMBOLS: Final = Kind("symbols", _read_symbols, _write_symbols)
FIELDS: Final = Kind("fields", _read_fields, _write_fields)
UNSETTLED: Final = Kind("unsettled", _read_unsettled, _write_unsettled)
ANY: Final = Kind("any", _read_any, _write_any)
ERROR: Final = _one_of("error", 0x1D)
SOURCE: Final = _one_of("source", 0x28)
TARGET: Final = _one_of("target", 0x29, 0x30)


# --- tables ---


@frozen
class _Field:
    name: str
    kind: Kind
    is_mandatory: bool
    default: object


@frozen
class _Table:
    code: int
    name: str
    cls: type
    fields: tuple[_Field, ...]


_TABLES: Final[dict[object, _Table]] = {}
"""Tables by descriptor, both the code and the name."""
_TABLES_BY_CLASS: Final[dict[type, _Table]] = {}


def _of(kind: Kind) -> dict[str, Kind]:
    return {"kind": kind}


def _composite(code: int, name: str) -> Callable[[type[_Composite]], type[_Composite]]:
    """Register a class of fields under its descriptor."""

    def register(cls: type[_Composite]) -> type[_Composite]:
        rows = tuple(
            _Field(
                attribute.name,
                attribute.metadata["kind"],
                attribute.default is NOTHING,
                None if attribute.default is NOTHING else attribute.default,
            )
            for attribute in fields(cls)  # type: ignore[arg-type]
        )
        table = _Table(code, name, cls, rows)
        _TABLES[ULong(code)] = _TABLES[Symbol(f"amqp:{name}:list")] = _TABLES_BY_CLASS[cls] = table
        return cls

    return register


# --- errors and delivery states (AMQP 1.0 §2.8.14, AMQP 1.0 §3.4, AMQP 1.0 §4.5) ---


@_composite(0x1D, "error")
@frozen
class AmqpError:
    """Why a link, session, connection or delivery failed."""

    condition: str = field(metadata=_of(SYMBOL))
    description: str | None = field(default=None, metadata=_of(STRING))
    info: dict[Symbol, object] | None = field(default=None, metadata=_of(FIELDS))


@_composite(0x23, "received")
@frozen
class Received:
    """State of a delivery that was received in part; only in link resumption."""

    section_number: int = field(metadata=_of(UINT))
    section_offset: int = field(metadata=_of(ULONG))


@_composite(0x24, "accepted")
@frozen
class Accepted:
    """The message was accepted."""


@_composite(0x25, "rejected")
@frozen
class Rejected:
    """The message cannot be processed."""

    error: AmqpError | None = field(default=None, metadata=_of(ERROR))


@_composite(0x26, "released")
@frozen
class Released:
    """The message was not and will not be looked at."""


@_composite(0x27, "modified")
@frozen
class Modified:
    """The message was not processed and comes back changed."""

    delivery_failed: bool = field(default=False, metadata=_of(BOOLEAN))
    undeliverable_here: bool = field(default=False, metadata=_of(BOOLEAN))
    message_annotations: dict[Symbol, object] | None = field(default=None, metadata=_of(FIELDS))


@_composite(0x31, "declare")
@frozen
class Declare:
    """Body of a message to the coordinator: begin a transaction."""

    global_id: object = field(default=None, metadata=_of(ANY))


@_composite(0x32, "discharge")
@frozen
class Discharge:
    """Body of a message to the coordinator: end a transaction."""

    txn_id: bytes = field(metadata=_of(BINARY))
    fail: bool = field(default=False, metadata=_of(BOOLEAN))


@_composite(0x33, "declared")
@frozen
class Declared:
    """Outcome of a declare."""

    txn_id: bytes = field(metadata=_of(BINARY))


@_composite(0x34, "transactional-state")
@frozen
class TransactionalState:
    """A state that takes effect with its transaction."""

    txn_id: bytes = field(metadata=_of(BINARY))
    outcome: object = field(default=None, metadata=_of(ANY))


# --- termini (AMQP 1.0 §3.5, AMQP 1.0 §4.5.1) ---


@_composite(0x28, "source")
@frozen(kw_only=True)
class Source:
    """Source of a link: the node that its messages come from."""

    address: str | None = field(default=None, metadata=_of(STRING))
    durable: int = field(default=0, metadata=_of(UINT))
    expiry_policy: str = field(default="session-end", metadata=_of(SYMBOL))
    timeout: int = field(default=0, metadata=_of(UINT))
    """Seconds."""
    dynamic: bool = field(default=False, metadata=_of(BOOLEAN))
    dynamic_node_properties: dict[Symbol, object] | None = field(default=None, metadata=_of(FIELDS))
    distribution_mode: str | None = field(default=None, metadata=_of(SYMBOL))
    filter: dict[Symbol, object] | None = field(default=None, metadata=_of(FIELDS))
    default_outcome: object = field(default=None, metadata=_of(ANY))
    outcomes: tuple[Symbol, ...] = field(default=(), metadata=_of(SYMBOLS))
    capabilities: tuple[Symbol, ...] = field(default=(), metadata=_of(SYMBOLS))


@_composite(0x29, "target")
@frozen(kw_only=True)
class Target:
    """Target of a link: the node that its messages go to."""

    address: str | None = field(default=None, metadata=_of(STRING))
    durable: int = field(default=0, metadata=_of(UINT))
    expiry_policy: str = field(default="session-end", metadata=_of(SYMBOL))
    timeout: int = field(default=0, metadata=_of(UINT))
    """Seconds."""
    dynamic: bool = field(default=False, metadata=_of(BOOLEAN))
    dynamic_node_properties: dict[Symbol, object] | None = field(default=None, metadata=_of(FIELDS))
    capabilities: tuple[Symbol, ...] = field(default=(), metadata=_of(SYMBOLS))


@_composite(0x30, "coordinator")
@frozen
class Coordinator:
    """The target of a link that controls transactions."""

    capabilities: tuple[Symbol, ...] = field(default=(), metadata=_of(SYMBOLS))


# --- performatives (AMQP 1.0 §2.7) ---


@_composite(0x10, "open")
@frozen(kw_only=True)
class Open:
    """Begin a connection."""

    container_id: str = field(metadata=_of(STRING))
    hostname: str | None = field(default=None, metadata=_of(STRING))
    max_frame_size: int = field(default=0xFFFFFFFF, metadata=_of(UINT))
    channel_max: int = field(default=0xFFFF, metadata=_of(USHORT))
    idle_time_out: int | None = field(default=None, metadata=_of(UINT))
    """Milliseconds."""
    outgoing_locales: tuple[Symbol, ...] = field(default=(), metadata=_of(SYMBOLS))
    incoming_locales: tuple[Symbol, ...] = field(default=(), metadata=_of(SYMBOLS))
    offered_capabilities: tuple[Symbol, ...] = field(default=(), metadata=_of(SYMBOLS))
    desired_capabilities: tuple[Symbol, ...] = field(default=(), metadata=_of(SYMBOLS))
    properties: dict[Symbol, object] | None = field(default=None, metadata=_of(FIELDS))


@_composite(0x11, "begin")
@frozen(kw_only=True)
class Begin:
    """Begin a session."""

    remote_channel: int | None = field(default=None, metadata=_of(USHORT))
    next_outgoing_id: int = field(metadata=_of(UINT))
    incoming_window: int = field(metadata=_of(UINT))
    outgoing_window: int = field(metadata=_of(UINT))
    handle_max: int = field(default=0xFFFFFFFF, metadata=_of(UINT))
    offered_capabilities: tuple[Symbol, ...] = field(default=(), metadata=_of(SYMBOLS))
    desired_capabilities: tuple[Symbol, ...] = field(default=(), metadata=_of(SYMBOLS))
    properties: dict[Symbol, object] | None = field(default=None, metadata=_of(FIELDS))


@_composite(0x12, "attach")
@frozen(kw_only=True)
class Attach:
    """Attach a link to a session."""

    name: str = field(metadata=_of(STRING))
    handle: int = field(metadata=_of(UINT))
    role: bool = field(metadata=_of(BOOLEAN))
    """True: the author of the frame receives."""
    snd_settle_mode: int = field(default=2, metadata=_of(UBYTE))
    rcv_settle_mode: int = field(default=0, metadata=_of(UBYTE))
    source: Source | None = field(default=None, metadata=_of(SOURCE))
    target: Target | Coordinator | None = field(default=None, metadata=_of(TARGET))
    unsettled: dict[bytes, object] | None = field(default=None, metadata=_of(UNSETTLED))
    incomplete_unsettled: bool = field(default=False, metadata=_of(BOOLEAN))
    initial_delivery_count: int | None = field(default=None, metadata=_of(UINT))
    max_message_size: int | None = field(default=None, metadata=_of(ULONG))
    offered_capabilities: tuple[Symbol, ...] = field(default=(), metadata=_of(SYMBOLS))
    desired_capabilities: tuple[Symbol, ...] = field(default=(), metadata=_of(SYMBOLS))
    properties: dict[Symbol, object] | None = field(default=None, metadata=_of(FIELDS))


@_composite(0x13, "flow")
@frozen(kw_only=True)
class Flow:
    """The state of a session's windows and, with a handle, of a link's credit."""

    next_incoming_id: int | None = field(default=None, metadata=_of(UINT))
    incoming_window: int = field(metadata=_of(UINT))
    next_outgoing_id: int = field(metadata=_of(UINT))
    outgoing_window: int = field(metadata=_of(UINT))
    handle: int | None = field(default=None, metadata=_of(UINT))
    delivery_count: int | None = field(default=None, metadata=_of(UINT))
    link_credit: int | None = field(default=None, metadata=_of(UINT))
    available: int | None = field(default=None, metadata=_of(UINT))
    drain: bool = field(default=False, metadata=_of(BOOLEAN))
    echo: bool = field(default=False, metadata=_of(BOOLEAN))
    properties: dict[Symbol, object] | None = field(default=None, metadata=_of(FIELDS))


@_composite(0x14, "transfer")
@frozen(kw_only=True)
class Transfer:
    """One frame of a delivery; the payload follows it."""

    handle: int = field(metadata=_of(UINT))
    delivery_id: int | None = field(default=None, metadata=_of(UINT))
    delivery_tag: bytes | None = field(default=None, metadata=_of(TAG))
    message_format: int | None = field(default=None, metadata=_of(UINT))
    settled: bool | None = field(default=None, metadata=_of(BOOLEAN))
    more: bool = field(default=False, metadata=_of(BOOLEAN))
    rcv_settle_mode: int | None = field(default=None, metadata=_of(UBYTE))
    state: object = field(default=None, metadata=_of(ANY))
    resume: bool = field(default=False, metadata=_of(BOOLEAN))
    aborted: bool = field(default=False, metadata=_of(BOOLEAN))
    batchable: bool = field(default=False, metadata=_of(BOOLEAN))


@_composite(0x15, "disposition")
@frozen(kw_only=True)
class Disposition:
    """The state of a range of deliveries."""

    role: bool = field(metadata=_of(BOOLEAN))
    """True: the author of the frame receives the deliveries."""
    first: int = field(metadata=_of(UINT))
    last: int | None = field(default=None, metadata=_of(UINT))
    settled: bool = field(default=False, metadata=_of(BOOLEAN))
    state: object = field(default=None, metadata=_of(ANY))
    batchable: bool = field(default=False, metadata=_of(BOOLEAN))


@_composite(0x16, "detach")
@frozen(kw_only=True)
class Detach:
    """Detach a link; with `closed` its terminus goes too."""

    handle: int = field(metadata=_of(UINT))
    closed: bool = field(default=False, metadata=_of(BOOLEAN))
    error: AmqpError | None = field(default=None, metadata=_of(ERROR))


@_composite(0x17, "end")
@frozen
class End:
    """End a session."""

    error: AmqpError | None = field(default=None, metadata=_of(ERROR))


@_composite(0x18, "close")
@frozen
class Close:
    """End a connection."""

    error: AmqpError | None = field(default=None, metadata=_of(ERROR))


# --- SASL (AMQP 1.0 §5.3.3). What may hold a credential stays out of every repr. ---


@_composite(0x40, "sasl-mechanisms")
@frozen
class SaslMechanisms:
    """Mechanisms that the server offers."""

    sasl_server_mechanisms: tuple[Symbol, ...] = field(metadata=_of(SYMBOLS))


@_composite(0x41, "sasl-init")
@frozen(kw_only=True)
class SaslInit:
    """Mechanism that the client chose, with its first response."""

    mechanism: str = field(metadata=_of(SYMBOL))
    initial_response: bytes | None = field(default=None, repr=False, metadata=_of(BINARY))
    hostname: str | None = field(default=None, metadata=_of(STRING))


@_composite(0x42, "sasl-challenge")
@frozen
class SaslChallenge:
    """A question to the client."""

    challenge: bytes = field(repr=False, metadata=_of(BINARY))


@_composite(0x43, "sasl-response")
@frozen
class SaslResponse:
    """The client's answer."""

    response: bytes = field(repr=False, metadata=_of(BINARY))


@_composite(0x44, "sasl-outcome")
@frozen
class SaslOutcome:
    """Outcome of the login; code 0 is success."""

    code: int = field(metadata=_of(UBYTE))
    additional_data: bytes | None = field(default=None, repr=False, metadata=_of(BINARY))


# --- the one message section that is a list of named fields (AMQP 1.0 §3.2.4) ---


@_composite(0x73, "properties")
@frozen(kw_only=True)
class Properties:
    """A message's standard properties, never changed on its way."""

    message_id: object = field(default=None, metadata=_of(MESSAGE_ID))
    """str, ULong, `uuid.UUID` or bytes."""
    user_id: bytes | None = field(default=None, metadata=_of(BINARY))
    to: str | None = field(default=None, metadata=_of(STRING))
    subject: str | None = field(default=None, metadata=_of(STRING))
    reply_to: str | None = field(default=None, metadata=_of(STRING))
    correlation_id: object = field(default=None, metadata=_of(MESSAGE_ID))
    content_type: str | None = field(default=None, metadata=_of(LENIENT_SYMBOL))
    content_encoding: str | None = field(default=None, metadata=_of(LENIENT_SYMBOL))
    absolute_expiry_time: int | None = field(default=None, metadata=_of(TIMESTAMP))
    """Milliseconds since 1970, as is `creation_time`."""
    creation_time: int | None = field(default=None, metadata=_of(TIMESTAMP))
    group_id: str | None = field(default=None, metadata=_of(STRING))
    group_sequence: int | None = field(default=None, metadata=_of(UINT))
    reply_to_group_id: str | None = field(default=None, metadata=_of(STRING))


# --- reading ---


def _read_descriptor(data: bytes, offset: int, end: int, depth: int) -> tuple[_Table | None, int]:
    """Return the table of the described value at `offset` (None: not known here) and the offset of its value."""
    if offset + 2 < end and data[offset + 1] == 0x53:
        return _TABLES.get(data[offset + 2]), offset + 3
    descriptor, body = read_value(data, offset + 1, end, depth + 1)
    if type(descriptor) is ULong or type(descriptor) is Symbol:
        return _TABLES.get(descriptor), body
    return None, body


def _read_fields_of(table: _Table, data: bytes, offset: int, end: int, depth: int) -> tuple[object, int]:
    """Return the composite whose list is at `offset`, and the offset behind it."""
    if depth >= MAX_DEPTH:
        raise MalformedValue(f"values nest deeper than {MAX_DEPTH}")
    if offset >= end:
        raise MalformedValue(f"{table.name} is cut short")
    code = data[offset]
    if code == 0x45:
        count, start, stop = 0, offset + 1, offset + 1
    elif code & 0xEF == 0xC0:
        count, start, stop = read_compound_header(code, data, offset + 1, end)
    else:
        raise MalformedValue(f"{table.name} is a list, not of format code 0x{code:02x}")
    if count > len(table.fields):
        raise MalformedValue(f"{table.name} has {len(table.fields)} fields, not {count}")
    values: dict[str, object] = {}
    offset = start
    for index, row in enumerate(table.fields):
        value: object = None
        if index < count:
            try:
                value, offset = row.kind.read(data, offset, stop, depth + 1)
            except InvalidField as error:
                raise InvalidField(f"{table.name}.{row.name.replace('_', '-')}: {error}") from None
        if value is not None:
            values[row.name] = value
        elif row.is_mandatory:
            raise MalformedValue(f"{table.name}.{row.name.replace('_', '-')} is mandatory")
    if offset != stop:
        raise MalformedValue(f"{stop - offset} octets are left over in {table.name}")
    return table.cls(**values), stop


def read_composite(data: bytes, offset: int, end: int) -> tuple[object, int]:
    """Return the composite at `offset`, whichever of this module's classes it is, and the offset behind it.

    Raises MalformedValue, for a value of the wrong type InvalidField; both have the `condition` to answer with.
    """
    if offset >= end or data[offset] != 0x00:
        raise MalformedValue(f"no described value at octet {offset}")
    table, body = _read_descriptor(data, offset, end, 0)
    if table is None:
        raise MalformedValue(f"the descriptor at octet {offset} is not known")
    return _read_fields_of(table, data, body, end, 1)


def read_performative(data: bytes, offset: int, end: int) -> tuple[object, int]:
    """Return the performative or SASL body that a frame starts with, and the offset of its payload.

    Raises as `read_composite` does, and for every composite that is not a frame body.
    """
    performative, stop = read_composite(data, offset, end)
    if type(performative) not in _FRAME_BODIES:
        raise MalformedValue(f"{type(performative).__name__} is not a frame body")
    return performative, stop


# --- writing ---


def _write_composite(out: bytearray, composite: object) -> None:
    table = _TABLES_BY_CLASS[type(composite)]
    out += b"\x00\x53"
    out.append(table.code)
    content = bytearray()
    count = 0
    size = 0
    for index, row in enumerate(table.fields):
        value = getattr(composite, row.name)
        if not row.is_mandatory and value == row.default:
            content.append(0x40)
        else:
            row.kind.write(content, value)
            count = index + 1
            size = len(content)
    if count == 0:
        out.append(0x45)
    else:
        # Nulls at the end are left out.
        write_compound(out, 0xC0, count, content[:size])


def encode(composite: object) -> bytes:
    """Return a composite as a described list; a field at its default is null, trailing nulls are omitted.

    Raises TypeError or ValueError for a field that its type cannot carry.
    """
    out = bytearray()
    _write_composite(out, composite)
    return bytes(out)


def frame(channel: int, performative: object, frame_type: int = 0) -> bytes:
    """Return a whole frame without payload (AMQP 1.0 §2.3). `frame_type` 1 is SASL."""
    body = encode(performative)
    return _FRAME_HEADER.pack(8 + len(body), 2, frame_type, channel) + body


_FRAME_BODIES: Final = frozenset(
    (
        Open,
        Begin,
        Attach,
        Flow,
        Transfer,
        Disposition,
        Detach,
        End,
        Close,
        SaslMechanisms,
        SaslInit,
        SaslChallenge,
        SaslResponse,
        SaslOutcome,
    )
)
