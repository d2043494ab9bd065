"""Encoding of rows as messages, ready for a transfer frame, from the values of a batch's columns.

Most rows of a job have the same durability, priority and time to live, so that encoded headers are cached. Compiled: it
imports neither Arrow nor Spark; `batches` takes the values out of a batch and has checked their ranges.
"""

from struct import Struct
from typing import Any, Final

from artemis_amqp.client import Described, Symbol, Timestamp, UInt, ULong, encode_value, header_bytes
from artemis_amqp.engine.extensions import DELIVERY_DELAY, DELIVERY_TIME
from artemis_py.spark.errors import SendFailed
from artemis_py.spark.json_text import RowWriter
from artemis_py.spark.options import WriteOptions

DUPLICATE_ID: Final = "_AMQ_DUPL_ID"

DEFAULT_PRIORITY: Final = 4
MAX_CACHED_HEADERS: Final = 256
MAX_CACHED_KEYS: Final = 256

_OCTET: Final[list[bytes]] = [bytes((number,)) for number in range(256)]
_SHORT_STRING: Final[list[bytes]] = [b"\xa1" + octet for octet in _OCTET]
"""What a string of so many octets begins with."""
_SMALL_LONG: Final[list[bytes]] = [b"\x55" + _OCTET[number % 256] for number in range(-128, 128)]
"""Whole numbers from -128 on."""
_I64: Final = Struct(">q")

# How a column becomes a field of the properties section.
_TEXT: Final = 0
_OCTETS: Final = 1
_SYMBOL: Final = 2
_TIME: Final = 3
_UINT: Final = 4

_FIELDS: Final[list[tuple[str, int]]] = [
    ("message_id", _TEXT),
    ("user_id", _OCTETS),
    ("to", _TEXT),
    ("subject", _TEXT),
    ("reply_to", _TEXT),
    ("correlation_id", _TEXT),
    ("content_type", _SYMBOL),
    ("content_encoding", _SYMBOL),
    ("expiry_time", _TIME),
    ("creation_time", _TIME),
    ("group_id", _TEXT),
    ("group_sequence", _UINT),
]
"""Fields of the properties section in their order (AMQP 1.0 §3.2.4)."""

# Kinds of a payload.
DATA: Final = 0
TEXT: Final = 1
WHOLE: Final = 2
"""The value is the bare message."""


class Encoded:
    """One message, ready to send."""

    __slots__ = ("address", "bare", "head")

    def __init__(self, address: str | None, head: bytes, bare: bytes) -> None:
        self.address: str | None = address
        """Address of the message; None: that of the option."""
        self.head: bytes = head
        """Header and message annotations."""
        self.bare: bytes = bare


class Payloads:
    """The payloads of a batch: a column, or rows that are written as JSON."""

    def __init__(self, name: str, kind: int, values: list[Any] | None, rows: RowWriter | None) -> None:
        self._name: Final[str] = name
        self._values: Final[list[Any] | None] = values
        self._rows: Final[RowWriter | None] = rows
        self.kind: Final[int] = kind

    def section(self, row: int) -> bytes:
        """Return the body section of one row, or the bare message. Raises SendFailed if there is none."""
        if self._rows is not None:
            return data_section(self._rows.row(row))
        assert self._values is not None
        value = self._values[row]
        if value is None:
            raise SendFailed(f"row {row} of a batch has no {self._name}")
        if self.kind == TEXT:
            return text_section(value)
        return bytes(value) if self.kind == WHOLE else data_section(value)


class RowEncoder:
    """Encoder of the rows of one batch; `columns` are the values that fields of the message are made of.

    Times are milliseconds since 1970. The ids of `idempotence=source` begin with `writer`.
    """

    # Long because it takes the columns apart once, so that a row needs no look-up.
    def __init__(
        self,
        options: WriteOptions,
        writer: str,
        columns: dict[str, list[Any]],
        payloads: Payloads,
        headers: dict[tuple[bool, int, int], bytes],
    ) -> None:
        self._payloads: Final[Payloads] = payloads
        self._is_whole: Final[bool] = payloads.kind == WHOLE
        self._has_address: Final[bool] = options.address is not None
        self._is_durable: Final[bool] = options.durable
        self._writer: Final[str] = writer
        self._headers: Final[dict[tuple[bool, int, int], bytes]] = headers
        self._keys: Final[dict[str, bytes]] = {}
        """Encoded keys of application properties: most rows have the same."""
        self._usual: Final[bytes] = header_bytes(options.durable, DEFAULT_PRIORITY, -1, False, 0)
        self._addresses: Final[list[Any] | None] = columns.get("address")
        self._durables: Final[list[Any] | None] = columns.get("durable")
        self._priorities: Final[list[Any] | None] = columns.get("priority")
        self._ttls: Final[list[Any] | None] = columns.get("ttl_ms")
        self._delays: Final[list[Any] | None] = columns.get("delay_ms")
        self._scheduled: Final[list[Any] | None] = columns.get("scheduled_time")
        self._application: Final[list[Any] | None] = columns.get("properties")
        self._content_type: Final[bytes] = (
            _symbol("application/json") if payloads.kind == DATA and (options.payload == "json") else b""
        )
        self._ids: list[Any] | None = None
        self._queues: list[Any] | None = None
        if options.idempotence == "column":
            self._ids = columns.get("duplicate_id")
        elif options.idempotence == "source":
            self._queues = columns["queue"]
            self._ids = columns["sequence"]
        self._names: Final[list[str]] = []
        self._kinds: Final[list[int]] = []
        self._fields: Final[list[list[Any] | None]] = []
        """Values of each field of the properties, up to the last one that has a column."""
        last = -1
        for index, (name, _) in enumerate(_FIELDS):
            if name in columns or (name == "content_type" and self._content_type):
                last = index
        for name, kind in _FIELDS[: last + 1]:
            self._names.append(name)
            self._kinds.append(kind)
            self._fields.append(columns.get(name))

    def message(self, row: int) -> Encoded:
        """Return the message of one row. Raises SendFailed for a row that cannot be sent."""
        body = self._payloads.section(row)
        address: str | None = None
        if not self._has_address:
            if self._addresses is not None:
                address = self._addresses[row]
            if address is None:
                raise SendFailed(f"row {row} of a batch has no address")
        duplicate_id = self._duplicate_id(row)
        if self._is_whole:
            return Encoded(address, self._head(row, duplicate_id), body)
        return Encoded(address, self._head(row, None), self._properties(row, duplicate_id) + body)

    def _duplicate_id(self, row: int) -> str | None:
        if self._ids is None:
            return None
        value = self._ids[row]
        if self._queues is not None:
            return f"{self._writer}:{self._queues[row]}:{value}"
        return None if value is None else str(value)

    def _head(self, row: int, duplicate_id: str | None) -> bytes:
        """Return header and annotations; the duplicate id is among the annotations if the bare message is fixed."""
        durable = None if self._durables is None else self._durables[row]
        priority = None if self._priorities is None else self._priorities[row]
        ttl_ms = None if self._ttls is None else self._ttls[row]
        header = self._usual
        if durable is not None or priority is not None or ttl_ms is not None:
            key = (
                self._is_durable if durable is None else bool(durable),
                DEFAULT_PRIORITY if priority is None else int(priority),
                -1 if ttl_ms is None else int(ttl_ms),
            )
            cached = self._headers.get(key)
            if cached is None:
                cached = header_bytes(key[0], key[1], key[2], False, 0)
                if len(self._headers) < MAX_CACHED_HEADERS:
                    self._headers[key] = cached
            header = cached
        delay = None if self._delays is None else self._delays[row]
        scheduled = None if self._scheduled is None else self._scheduled[row]
        if delay is None and scheduled is None and duplicate_id is None:
            return header
        annotations: dict[object, object] = {}
        if delay is not None:
            annotations[DELIVERY_DELAY] = delay
        if scheduled is not None:
            annotations[DELIVERY_TIME] = Timestamp(scheduled)
        if duplicate_id is not None:
            annotations[Symbol(DUPLICATE_ID)] = duplicate_id
        return header + encode_value(Described(ULong(0x72), annotations))

    def _properties(self, row: int, duplicate_id: str | None) -> bytes:
        """Return the sections properties and application properties, each only if it is not empty."""
        content: list[bytes] = []
        filled = False
        for index, values in enumerate(self._fields):
            kind = self._kinds[index]
            value = None if values is None else values[row]
            if value is None:
                if self._content_type and self._names[index] == "content_type":
                    content.append(self._content_type)
                    filled = True
                else:
                    content.append(b"\x40")
                continue
            filled = True
            if kind == _TEXT:
                content.append(_string(value))
            elif kind == _OCTETS:
                content.append(encode_value(value.encode() if isinstance(value, str) else value))
            elif kind == _TIME:
                content.append(encode_value(Timestamp(value)))
            elif kind == _UINT:
                content.append(encode_value(UInt(value)))
            else:
                if not value.isascii():
                    raise SendFailed(
                        f"row {row} of a batch: column {self._names[index]!r} is {value!r}, but it is ASCII only"
                    )
                content.append(_symbol(value))
        out = _section(b"\x00\x53\x73\xc0", b"\x00\x53\x73\xd0", len(self._fields), content) if filled else b""
        entries = None if self._application is None else self._application[row]
        if not entries and duplicate_id is None:
            return out
        return out + self._application_properties(entries, duplicate_id)

    def _application_properties(self, entries: list[Any] | None, duplicate_id: str | None) -> bytes:
        content: list[bytes] = []
        keys = self._keys
        if entries is not None:
            for key, value in entries:
                encoded = keys.get(key)
                if encoded is None:
                    encoded = _string(key)
                    if len(keys) < MAX_CACHED_KEYS:
                        keys[key] = encoded
                content.append(encoded)
                if isinstance(value, str):
                    content.append(_string(value))
                elif type(value) is int:
                    content.append(whole_number(value))
                else:
                    content.append(encode_value(value))
        if duplicate_id is not None:
            content.append(_string(DUPLICATE_ID))
            content.append(_string(duplicate_id))
        return _section(b"\x00\x53\x74\xc1", b"\x00\x53\x74\xd1", len(content), content)


def _section(short: bytes, long: bytes, count: int, content: list[bytes]) -> bytes:
    """Return a list or map behind its descriptor and constructor: one octet or four for its size and its count."""
    octets = b"".join(content)
    size = len(octets) + 1
    if size < 256 and count < 256:
        return short + _OCTET[size] + _OCTET[count] + octets
    return long + (size + 3).to_bytes(4, "big") + count.to_bytes(4, "big") + octets


def _string(value: str) -> bytes:
    octets = value.encode()
    size = len(octets)
    return _SHORT_STRING[size] + octets if size < 256 else b"\xb1" + size.to_bytes(4, "big") + octets


def whole_number(value: int) -> bytes:
    """Return a number of at most 64 bits as a long, in its shorter form if there is one; as `encode_value` does."""
    return _SMALL_LONG[value + 128] if -128 <= value < 128 else b"\x81" + _I64.pack(value)


def _symbol(value: str) -> bytes:
    return encode_value(Symbol(value))


def data_section(octets: bytes) -> bytes:
    """Return octets as a data section."""
    size = len(octets)
    if size < 256:
        return b"\x00\x53\x75\xa0" + bytes((size,)) + octets
    return b"\x00\x53\x75\xb0" + size.to_bytes(4, "big") + octets


def text_section(value: str) -> bytes:
    """Return a string as an amqp-value, which JMS clients receive as a text message."""
    return b"\x00\x53\x77" + _string(value)
