"""Encoding of rows: from the columns of an Arrow batch to encoded messages, ready for a transfer frame.

Most rows of a job have the same durability, priority and time to live, so that encoded headers are cached.
"""

import json
from collections.abc import Callable, Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

from artemis_amqp.client import (
    Described,
    Properties,
    Symbol,
    Timestamp,
    UInt,
    ULong,
    encode,
    encode_value,
    header_bytes,
)
from artemis_amqp.engine.extensions import DELIVERY_DELAY, DELIVERY_TIME
from artemis_py.spark.errors import InvalidOption, SendFailed
from artemis_py.spark.options import WriteOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

DUPLICATE_ID: Final = "_AMQ_DUPL_ID"

_DEFAULT_PRIORITY: Final = 4

TEXTS: Final = (
    "message_id",
    "correlation_id",
    "to",
    "subject",
    "reply_to",
    "content_type",
    "content_encoding",
    "group_id",
)

_INTEGERS: Final = ("bigint", "int", "smallint", "tinyint")
_TIMES: Final = ("timestamp",)
_PROPERTY_VALUES: Final = ("string", "bigint", "int", "double", "boolean")

COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "body": ("binary", "string"),
    "message": ("binary",),
    **dict.fromkeys(TEXTS, ("string",)),
    "user_id": ("string", "binary"),
    "group_sequence": _INTEGERS,
    "creation_time": _TIMES,
    "expiry_time": _TIMES,
    "durable": ("boolean",),
    "priority": _INTEGERS,
    "ttl_ms": _INTEGERS,
    "properties": tuple(f"map<string,{value}>" for value in _PROPERTY_VALUES),
    "address": ("string",),
    "duplicate_id": ("string",),
    "delay_ms": _INTEGERS,
    "scheduled_time": _TIMES,
}
"""Columns that a sink understands, and the types that each may have."""

SOURCE_ONLY: Final = frozenset(("queue", "sequence", "enqueued_time", "body_type", "delivery_count", "annotations"))
"""Columns of a source that a sink ignores, so that what a source reads can be written back."""

_WHOLE_ROW: Final = ("json", "arrow")
"""Payloads that consist of all columns that are not fields of the message."""


@frozen
class Encoded:
    """One message, ready to send."""

    address: str | None
    """Address of the message; None: that of the option."""
    head: bytes
    """Header and message annotations."""
    bare: bytes


def check_columns(schema: "StructType", options: WriteOptions) -> None:
    """Raise InvalidOption for a frame that cannot be written: missing, unknown or wrongly typed columns."""
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    if options.payload in ("body", "message"):
        if options.payload not in types:
            raise InvalidOption(f"payload={options.payload} needs a column {options.payload!r}")
        unknown = [name for name in types if name not in COLUMNS and name not in SOURCE_ONLY]
        if unknown:
            raise InvalidOption(
                f"the sink has no use for the column {unknown[0]!r}; it takes {', '.join(COLUMNS)}; "
                "payload=json sends columns of any name"
            )
    for name, found in types.items():
        legal = COLUMNS.get(name)
        if legal is not None and found not in legal and options.payload not in _WHOLE_ROW:
            raise InvalidOption(f"column {name!r} must be {' or '.join(legal)}, not {found}")
    if options.address is None and "address" not in types:
        raise InvalidOption("say where to send: the option address, or a column of that name")
    if options.idempotence == "column" and "duplicate_id" not in types:
        raise InvalidOption("idempotence=column needs a column 'duplicate_id'")
    if options.idempotence == "source" and not {"queue", "sequence"} <= types.keys():
        raise InvalidOption("idempotence=source needs the columns 'queue' and 'sequence' of the source")


class Encoder:
    """Encoder of the batches of one query; the ids of `idempotence=source` begin with `writer`."""

    def __init__(self, options: WriteOptions, writer: str) -> None:
        self._options: Final = options
        self._writer: Final = writer
        self._headers: Final[dict[tuple[bool, int, int], bytes]] = {}

    def messages(self, batch: "pa.RecordBatch") -> Iterator[Encoded]:
        """Yield the messages of a batch, in the order of its rows. Raises SendFailed for a row that cannot be sent."""
        if self._options.payload == "arrow":
            yield from self._one_message(batch)
            return
        columns = _Columns(batch, self._options)
        bodies = self._bodies(batch, columns)
        for row in range(batch.num_rows):
            yield self._message(columns, row, bodies(row))

    def _one_message(self, batch: "pa.RecordBatch") -> Iterator[Encoded]:
        """Yield the whole batch as one message, an Arrow IPC stream."""
        import pyarrow as pa

        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        bare = encode(Properties(content_type=Symbol("application/vnd.apache.arrow.stream")))
        head = self._head(self._options.durable, _DEFAULT_PRIORITY, -1, {})
        yield Encoded(None, head, bare + data_section(sink.getvalue()))

    def _bodies(self, batch: "pa.RecordBatch", columns: "_Columns") -> Callable[[int], bytes]:
        payload = self._options.payload
        if payload == "json":
            rest = [name for name in batch.schema.names if name not in COLUMNS and name not in SOURCE_ONLY]
            rows = batch.select(rest).to_pylist()
            return lambda row: data_section(json.dumps(rows[row], default=_json, ensure_ascii=False).encode())
        values = batch.column(payload).to_pylist()
        if payload == "message":
            return lambda row: _required(values[row], "message", row)
        if columns.is_text("body"):
            return lambda row: _text(_required(values[row], "body", row))
        return lambda row: data_section(_required(values[row], "body", row))

    def _message(self, columns: "_Columns", row: int, body: bytes) -> Encoded:
        get = columns.get
        annotations: dict[object, object] = {}
        delay = get("delay_ms", row)
        if delay is not None:
            annotations[DELIVERY_DELAY] = delay
        scheduled = get("scheduled_time", row)
        if scheduled is not None:
            annotations[DELIVERY_TIME] = Timestamp(_ms(scheduled))
        duplicate_id = self._duplicate_id(columns, row)
        if duplicate_id is not None and self._options.payload == "message":
            annotations[Symbol(DUPLICATE_ID)] = duplicate_id
        durable = get("durable", row)
        priority = get("priority", row)
        ttl_ms = get("ttl_ms", row)
        head = self._head(
            self._options.durable if durable is None else durable,
            _DEFAULT_PRIORITY if priority is None else min(max(priority, 0), 9),
            -1 if ttl_ms is None else ttl_ms,
            annotations,
        )
        address = None if self._options.address is not None else get("address", row)
        if address is None and self._options.address is None:
            raise SendFailed(f"row {row} of a batch has no address")
        bare = body if self._options.payload == "message" else columns.properties(row, duplicate_id) + body
        return Encoded(address, head, bare)

    def _head(self, durable: bool, priority: int, ttl_ms: int, annotations: dict[object, object]) -> bytes:
        header = self._headers.get((durable, priority, ttl_ms))
        if header is None:
            header = header_bytes(durable, priority, ttl_ms, False, 0)
            if len(self._headers) < 256:
                self._headers[durable, priority, ttl_ms] = header
        return header + encode_value(Described(ULong(0x72), annotations)) if annotations else header

    def _duplicate_id(self, columns: "_Columns", row: int) -> str | None:
        kind = self._options.idempotence
        if kind == "source":
            return f"{self._writer}:{columns.get('queue', row)}:{columns.get('sequence', row)}"
        if kind == "column":
            value = columns.get("duplicate_id", row)
            return None if value is None else str(value)
        return None


class _Columns:
    """Columns of a batch other than the payload, as Python values."""

    def __init__(self, batch: "pa.RecordBatch", options: WriteOptions) -> None:
        import pyarrow as pa

        self._text: Final = {field.name for field in batch.schema if field.type in (pa.string(), pa.large_string())}
        names = set(batch.schema.names) & {*COLUMNS, *SOURCE_ONLY} - {"body", "message", "annotations", "enqueued_time"}
        self._values: Final[dict[str, list[Any]]] = {name: batch.column(name).to_pylist() for name in names}
        if options.payload == "json":
            given = self._values.get("content_type", [None] * batch.num_rows)
            self._values["content_type"] = [value or "application/json" for value in given]
        present = [index for index, (name, _) in enumerate(_FIELDS) if name in self._values]
        self._fields: Final = [
            (self._values.get(name), encoder) for name, encoder in _FIELDS[: present[-1] + 1 if present else 0]
        ]
        """Values and encoder of each field, up to the last one that has a column."""
        self._application: Final = self._values.get("properties")

    def is_text(self, name: str) -> bool:
        """Tell whether a column is a string."""
        return name in self._text

    def get(self, name: str, row: int) -> Any:
        """Return a value; None if it is null or there is no such column."""
        values = self._values.get(name)
        return None if values is None else values[row]

    def properties(self, row: int, duplicate_id: str | None) -> bytes:
        """Return the sections properties and application properties, each only if it is not empty."""
        content = bytearray()
        count = filled = 0
        for values, encoder in self._fields:
            value = None if values is None else values[row]
            count += 1
            if value is None:
                content += b"\x40"
            else:
                content += encoder(value)
                filled += 1
        out = _section(b"\x00\x53\x73", 0xC0, count, content) if filled else b""
        entries = None if self._application is None else self._application[row]
        if not entries and duplicate_id is None:
            return out
        content = bytearray()
        count = 0
        for key, value in entries or ():
            content += _string(key)
            content += _string(value) if type(value) is str else encode_value(value)
            count += 2
        if duplicate_id is not None:
            content += _string(DUPLICATE_ID) + _string(duplicate_id)
            count += 2
        return out + _section(b"\x00\x53\x74", 0xC1, count, content)


def _section(descriptor: bytes, kind: int, count: int, content: bytearray) -> bytes:
    """Return a list (0xC0) or map (0xC1) behind its descriptor."""
    size = len(content) + 1
    if size < 256 and count < 256:
        return descriptor + bytes((kind, size, count)) + content
    return descriptor + bytes((kind | 0x10,)) + (size + 3).to_bytes(4, "big") + count.to_bytes(4, "big") + content


def _string(value: str) -> bytes:
    octets = value.encode()
    size = len(octets)
    return b"\xa1" + bytes((size,)) + octets if size < 256 else b"\xb1" + size.to_bytes(4, "big") + octets


def _symbol(value: str) -> bytes:
    if not value.isascii():
        raise SendFailed(f"content type and content encoding are ASCII only, not {value!r}")
    return encode_value(Symbol(value))


def _octets(value: str | bytes) -> bytes:
    return encode_value(value.encode() if isinstance(value, str) else value)


def _time(moment: datetime) -> bytes:
    return encode_value(Timestamp(_ms(moment)))


def _uint(value: int) -> bytes:
    return encode_value(UInt(value))


# The fields of the properties section in their order (AMQP 1.0 §3.2.4), and how each column becomes one.
_FIELDS: Final[tuple[tuple[str, Callable[[Any], bytes]], ...]] = (
    ("message_id", _string),
    ("user_id", _octets),
    ("to", _string),
    ("subject", _string),
    ("reply_to", _string),
    ("correlation_id", _string),
    ("content_type", _symbol),
    ("content_encoding", _symbol),
    ("expiry_time", _time),
    ("creation_time", _time),
    ("group_id", _string),
    ("group_sequence", _uint),
)
_CONTENT_TYPE: Final = 6


def data_section(octets: Any) -> bytes:
    """Return octets as a data section."""
    size = len(octets)
    if size < 256:
        return b"\x00\x53\x75\xa0" + size.to_bytes(1, "big") + bytes(octets)
    return b"\x00\x53\x75\xb0" + size.to_bytes(4, "big") + bytes(octets)


def _text(value: str) -> bytes:
    """Return a string as an amqp-value, which JMS clients receive as a text message."""
    octets = value.encode()
    size = len(octets)
    if size < 256:
        return b"\x00\x53\x77\xa1" + size.to_bytes(1, "big") + octets
    return b"\x00\x53\x77\xb1" + size.to_bytes(4, "big") + octets


def _required(value: Any, name: str, row: int) -> Any:
    if value is None:
        raise SendFailed(f"row {row} of a batch has no {name}")
    return value


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def _json(value: object) -> object:
    """Return a JSON form of a value for which JSON has none. Raises SendFailed."""
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    raise SendFailed(f"payload=json cannot carry a {type(value).__name__}")
