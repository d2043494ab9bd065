"""Decoding of deliveries to columns of Python values: one pass over each message, for the columns that a query wants.

Decides what each column contains (docs/spark.md has the table); knows neither Arrow nor Spark, so that it can be
compiled and tested without them. A message that cannot be decoded raises MalformedFrame: the broker checked it on
arrival.
"""

from struct import Struct
from typing import Final

from artemis_amqp.client import MalformedValue, Symbol, Timestamp, ULong, encode_value, plain, read_value, skip_value
from artemis_amqp.engine.extensions import ADDRESS, ENQUEUED_TIME, INGRESS_TIME, SEQUENCE_NUMBER
from artemis_py.spark.typed_json import json_text

HEADER_COLUMNS: Final = ("durable", "priority", "ttl_ms", "delivery_count")
TEXT_COLUMNS: Final = (
    "message_id",
    "correlation_id",
    "user_id",
    "to",
    "subject",
    "reply_to",
    "content_type",
    "content_encoding",
    "group_id",
)
PROPERTIES_COLUMNS: Final = (*TEXT_COLUMNS, "group_sequence", "creation_time", "expiry_time")

# The columns of the properties' fields, in the order of the fields (AMQP 1.0 §3.2.4).
_FIELDS: Final = (
    "message_id",
    "user_id",
    "to",
    "subject",
    "reply_to",
    "correlation_id",
    "content_type",
    "content_encoding",
    "expiry_time",
    "creation_time",
    "group_id",
    "group_sequence",
)
_FIRST_TIME: Final = 8
_LAST_TIME: Final = 9
_GROUP_SEQUENCE: Final = 11

_DEFAULT_PRIORITY: Final = 4

_Header = tuple[object, object, object, object]
"""Values of HEADER_COLUMNS."""
_NO_HEADER: Final[_Header] = (False, _DEFAULT_PRIORITY, None, 0)

_HEADER: Final = 0x70
_MESSAGE_ANNOTATIONS: Final = 0x72
_PROPERTIES: Final = 0x73
_APPLICATION_PROPERTIES: Final = 0x74
_DATA: Final = 0x75
_SEQUENCE: Final = 0x76
_VALUE: Final = 0x77

_CODES: Final[dict[str, int]] = {
    "amqp:header:list": _HEADER,
    "amqp:delivery-annotations:map": 0x71,
    "amqp:message-annotations:map": _MESSAGE_ANNOTATIONS,
    "amqp:properties:list": _PROPERTIES,
    "amqp:application-properties:map": _APPLICATION_PROPERTIES,
    "amqp:data:binary": _DATA,
    "amqp:amqp-sequence:list": _SEQUENCE,
    "amqp:amqp-value:*": _VALUE,
    "amqp:footer:map": 0x78,
}

_I64: Final = Struct(">q")
_U32: Final = Struct(">I")

# The octets with which our broker begins the annotations: map8, size, count, the key, the code of a long.
_SEQUENCE_KEY: Final = encode_value(SEQUENCE_NUMBER) + b"\x81"
_SEQUENCE_AT: Final = 3
_SEQUENCE_END: Final = _SEQUENCE_AT + len(_SEQUENCE_KEY)
_SEQUENCE_TEXT: Final = str(SEQUENCE_NUMBER)


def printed(value: object) -> str | None:
    """Return an id, property or annotation as text: octets as UTF-8 or hexadecimal, booleans as true and false."""
    if value is None or type(value) is str:
        return value
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return value.hex()
    return str(plain(value))


class Rows:
    """Columns of a batch that is being built; call `add` once per delivery."""

    def __init__(self, wanted: frozenset[str]) -> None:
        self._header: bool = not wanted.isdisjoint(HEADER_COLUMNS)
        self._enqueued: bool = "enqueued_time" in wanted
        self._address: bool = "address" in wanted
        self._annotations: bool = "annotations" in wanted
        self._properties: bool = not wanted.isdisjoint(PROPERTIES_COLUMNS)
        self._application: bool = "properties" in wanted
        self._body: bool = "body" in wanted
        self._body_type: bool = "body_type" in wanted
        self._message: bool = "message" in wanted
        self._typed_properties: bool = "properties_json" in wanted
        self._error: bool = "error" in wanted
        self._typed_body: bool = "body_json" in wanted
        self.count: int = 0
        self.size: int = 0
        """Number of octets of all deliveries."""
        self.sequences: list[int] = []
        """Sequence number of each row; -1: the peer gives no numbers."""
        self.addresses: dict[int, str] = {}
        """Addresses by row, of messages that say where they were sent to."""
        self._row: int = 0
        """Number of the row that is being decoded, from 0."""
        self.reading: int = -1
        """Number of the message that is being decoded, as soon as it is known."""
        self.columns: dict[str, list[object]] = {name: [] for name in wanted if name != "address"}
        """Values by column; maps are in `keys`, `items` and `ends`. Timestamps are microseconds since 1970."""
        self.keys: dict[str, list[str]] = {}
        self.items: dict[str, list[str | None]] = {}
        self.ends: dict[str, list[int]] = {}
        """Ends of the entries of each row, by map column; begins with 0."""
        for name in ("annotations", "properties"):
            if name in wanted:
                self.keys[name] = []
                self.items[name] = []
                self.ends[name] = [0]
        self._slots: list[list[object] | None] = [self.columns.get(name) for name in _FIELDS]
        """Columns of the properties' fields; None for those that the query does not want."""
        self._header_slots: list[list[object] | None] = [self.columns.get(name) for name in HEADER_COLUMNS]
        self._headers: dict[bytes, _Header] = {}
        """Headers of this batch by their octets: most messages have the same."""
        self._body_types: list[object] = self.columns.get("body_type", [])
        self._bodies: list[object] = self.columns.get("body", [])
        self._times: list[object] = self.columns.get("enqueued_time", [])

    def add(self, payload: bytes) -> None:
        """Decode one delivery. Raises MalformedFrame; only `add_failed` can follow then.

        Long because the loop handles each kind of section in place: it runs once per message.
        """
        self._row = self.count
        self.reading = -1
        end = len(payload)
        offset = 0
        bare_start = -1
        sequence = -1
        enqueued: object = None
        header = _NO_HEADER
        properties = 0
        application = 0
        annotations = 0
        is_number_only = False
        body: object = None
        body_type: object = None
        parts: list[bytes] | None = None
        bodies: list[int] | None = [] if self._typed_body else None
        while offset < end:
            start = offset
            if offset + 4 <= end and payload[offset] == 0x00 and payload[offset + 1] == 0x53:
                code = payload[offset + 2]
                at = offset + 3
            else:
                code, at = _section_at(payload, offset, end)
            offset = _end_of(payload, at, end)
            if code == _MESSAGE_ANNOTATIONS:
                if (
                    offset >= at + _SEQUENCE_END + 8
                    and payload[at] == 0xC1
                    and payload[at + _SEQUENCE_AT : at + _SEQUENCE_END] == _SEQUENCE_KEY
                ):
                    sequence = _I64.unpack_from(payload, at + _SEQUENCE_END)[0]
                    is_number_only = payload[at + 2] == 2
                    if (self._enqueued or self._address) and payload[at + 2] > 2:
                        found = _map_at(payload, at, offset)
                        enqueued = _enqueued(found)
                        self._note_address(found)
                else:
                    found = _map_at(payload, at, offset)
                    self._note_address(found)
                    number = found.get(SEQUENCE_NUMBER)
                    sequence = int(number) if isinstance(number, int) else -1
                    enqueued = _enqueued(found)
                    is_number_only = False
                annotations = at
                self.reading = sequence
            elif code >= _PROPERTIES:
                if bare_start < 0:
                    bare_start = start
                if code == _PROPERTIES:
                    properties = at
                elif code == _APPLICATION_PROPERTIES:
                    application = at
                elif bodies is not None and code <= _VALUE:
                    bodies.append(at)
                if code == _DATA:
                    if self._body:
                        octets = _octets(payload, at, offset)
                        if body is None:
                            body = octets
                        elif parts is None:
                            assert isinstance(body, bytes)
                            parts = [body, octets]
                        else:
                            parts.append(octets)
                    body_type = "data"
                elif code == _VALUE:
                    octets_code = payload[at]
                    if octets_code == 0xA1 or octets_code == 0xB1:
                        body_type = "string"
                        body = _octets(payload, at, offset)
                    else:
                        body_type = "value"
                        body = None if octets_code == 0x40 else payload[at:offset]
                elif code == _SEQUENCE:
                    body_type = "sequence"
                    body = payload[at:offset] if body is None else _joined(body, payload[at:offset])
            elif code == _HEADER and self._header:
                octets = payload[at:offset]
                cached = self._headers.get(octets)
                if cached is None:
                    cached = self._headers[octets] = _header_at(payload, at, offset)
                header = cached
        if parts is not None:
            body = b"".join(parts)
        self.count += 1
        self.size += end
        self.sequences.append(sequence)
        if self._body:
            self._bodies.append(body)
        if self._enqueued:
            self._times.append(enqueued)
        if self._body_type:
            self._body_types.append(body_type)
        if self._header:
            self._add_header(header)
        if self._properties:
            self._add_properties(payload, properties)
        if self._application:
            self._add_map("properties", payload, application)
        if self._typed_properties:
            typed = json_text(_map_at(payload, application, end)) if application else None
            self.columns["properties_json"].append(typed)
        if self._error:
            self.columns["error"].append(None)
        if bodies is not None:
            self.columns["body_json"].append(_typed(payload, bodies, body_type))
        if self._annotations and is_number_only:
            self.keys["annotations"].append(_SEQUENCE_TEXT)
            self.items["annotations"].append(str(sequence))
            self.ends["annotations"].append(len(self.keys["annotations"]))
        elif self._annotations:
            self._add_map("annotations", payload, annotations)
        if self._message:
            self.columns["message"].append(payload[bare_start:] if bare_start >= 0 else b"")

    def add_failed(self, payload: bytes, reason: str) -> None:
        """Add a row for a delivery for which `add` has raised: its number and octets are known, and the reason."""
        self._cut(self._row)
        for name, column in self.columns.items():
            if name not in self.ends:
                column.append(reason if name == "error" else payload if name == "message" else None)
        for ends in self.ends.values():
            ends.append(ends[-1])
        self.sequences.append(self.reading)
        self.count = self._row + 1
        self.size += len(payload)

    def _cut(self, count: int) -> None:
        """Remove what an incomplete row has left behind the first `count` rows."""
        del self.sequences[count:]
        self.addresses.pop(count, None)
        for name, column in self.columns.items():
            del column[count:]
            ends = self.ends.get(name)
            if ends is not None:
                del ends[count + 1 :]
                del self.keys[name][ends[-1] :]
                del self.items[name][ends[-1] :]

    def _note_address(self, annotations: dict[object, object]) -> None:
        address = annotations.get(ADDRESS)
        if address is not None and self._address:
            self.addresses[self.count] = str(address)

    def _add_header(self, header: _Header) -> None:
        durable, priority, ttl_ms, delivery_count = self._header_slots
        if durable is not None:
            durable.append(header[0])
        if priority is not None:
            priority.append(header[1])
        if ttl_ms is not None:
            ttl_ms.append(header[2])
        if delivery_count is not None:
            delivery_count.append(header[3])

    def _add_properties(self, data: bytes, at: int) -> None:
        """Add the fields of the properties section whose list is at `at`; 0: there is none."""
        count, offset, stop = _items_at(data, at, 0xC0)
        for index in range(len(_FIELDS)):
            slot = self._slots[index]
            value: object = None
            if index < count:
                code = data[offset] if offset < stop else 0
                if code == 0x40:
                    offset += 1
                elif code == 0xA1 or code == 0xA3:
                    # Nearly every field is a short text.
                    start = offset + 2
                    offset = start + data[offset + 1]
                    if slot is not None:
                        value = str(data[start:offset], "utf-8", "replace")
                elif slot is None:
                    offset = skip_value(data, offset, stop, 2)
                else:
                    value, offset = read_value(data, offset, stop, 2)
                    if _FIRST_TIME <= index <= _LAST_TIME:
                        value = _microseconds(value)
                    elif index == _GROUP_SEQUENCE:
                        value = int(value) if isinstance(value, int) else None
                    else:
                        value = printed(value)
            if slot is not None:
                slot.append(value)
        if offset > stop:
            raise MalformedValue(f"the properties at octet {at} are cut short")

    def _add_map(self, name: str, data: bytes, at: int) -> None:
        """Add the entries of the map at `at`, as text; 0: there is none."""
        keys = self.keys[name]
        items = self.items[name]
        count, offset, stop = _items_at(data, at, 0xC1)
        for _ in range(count >> 1):
            key, offset = _text_at(data, offset, stop)
            item, offset = _text_at(data, offset, stop)
            keys.append("" if key is None else key)
            items.append(item)
        if offset != stop:
            raise MalformedValue(f"the map at octet {at} does not add up")
        self.ends[name].append(len(keys))


def _items_at(data: bytes, at: int, kind: int) -> tuple[int, int, int]:
    """Return count, start and stop of the list (0xC0) or map (0xC1) at `at`, whose outline was checked before."""
    code = data[at]
    if at == 0 or code == 0x45:
        return 0, 0, 0
    if code == kind:
        return data[at + 2], at + 3, at + 2 + data[at + 1]
    if code == kind | 0x10 and at + 9 <= len(data):
        size: int = _U32.unpack_from(data, at + 1)[0]
        count: int = _U32.unpack_from(data, at + 5)[0]
        return count, at + 9, at + 5 + size
    raise MalformedValue(f"0x{code:02x} at octet {at} does not fit its section")


def _header_at(data: bytes, at: int, stop: int) -> _Header:
    """Return the header whose list is at `at`; what it does not say has its default. Raises MalformedValue."""
    value, _ = read_value(data, at, stop, 1)
    fields = value + [None] * (5 - len(value)) if isinstance(value, list) else [None] * 5
    return (
        False if fields[0] is None else fields[0],
        _DEFAULT_PRIORITY if fields[1] is None else fields[1],
        fields[2],
        0 if fields[4] is None else fields[4],
    )


def _text_at(data: bytes, offset: int, stop: int) -> tuple[str | None, int]:
    """Return the value at `offset` as text, and the offset behind it. The usual types take no call."""
    code = data[offset] if offset + 2 <= stop else 0
    if code == 0xA1 or code == 0xA3:
        end = offset + 2 + data[offset + 1]
        return str(data[offset + 2 : end], "utf-8", "replace"), end
    if code == 0x55 or code == 0x54:
        number = data[offset + 1]
        return str(number if number < 128 else number - 256), offset + 2
    if code == 0x81 and offset + 9 <= stop:
        return str(_I64.unpack_from(data, offset + 1)[0]), offset + 9
    value, end = read_value(data, offset, stop, 2)
    return printed(value), end


def _section_at(data: bytes, offset: int, end: int) -> tuple[int, int]:
    """Return the code of the section at `offset`, which has an unusual form, and the offset of its value."""
    if offset + 4 > end or data[offset] != 0x00:
        raise MalformedValue(f"no message section at octet {offset}")
    descriptor, at = read_value(data, offset + 1, end, 1)
    if isinstance(descriptor, ULong):
        return int(descriptor), at
    if isinstance(descriptor, Symbol):
        return _CODES.get(str(descriptor), 0), at
    raise MalformedValue(f"the section at octet {offset} has neither a number nor a name")


def _end_of(data: bytes, at: int, end: int) -> int:
    """Return the offset behind the value at `at`; the usual forms of a section take no call."""
    if at + 5 <= end:
        code = data[at]
        if code == 0xC0 or code == 0xC1 or code == 0xA0 or code == 0xA1:
            stop = at + 2 + data[at + 1]
            if stop <= end:
                return stop
        elif code == 0xB0 or code == 0xB1 or code == 0xD0 or code == 0xD1:
            size: int = _U32.unpack_from(data, at + 1)[0]
            stop = at + 5 + size
            if stop <= end:
                return stop
    return skip_value(data, at, end, 1)


def _octets(data: bytes, at: int, stop: int) -> bytes:
    """Return the octets of a binary or string at `at`."""
    if data[at] & 0xF0 == 0xA0:
        return data[at + 2 : stop]
    return data[at + 5 : stop]


def _joined(body: object, more: bytes) -> bytes:
    assert isinstance(body, bytes)
    return body + more


def _map_at(data: bytes, at: int, end: int) -> dict[object, object]:
    value, _ = read_value(data, at, end, 1)
    if not isinstance(value, dict):
        raise MalformedValue(f"the section value at octet {at} is not a map")
    return value


def _enqueued(annotations: dict[object, object]) -> object:
    return _microseconds(annotations.get(ENQUEUED_TIME, annotations.get(INGRESS_TIME)))


def _typed(payload: bytes, bodies: list[int], body_type: object) -> str | None:
    """Return the body as JSON, from the offsets of its sections; None without one."""
    if not bodies:
        return None
    values: list[object] = []
    for at in bodies:
        value, _ = read_value(payload, at, len(payload), 1)
        values.append(value)
    if body_type == "sequence":
        return json_text([item for value in values if isinstance(value, list) for item in value])
    if body_type == "data":
        return json_text(b"".join([value for value in values if isinstance(value, bytes)]))
    return json_text(values[0])


def _microseconds(value: object) -> int | None:
    """Return a time in microseconds, as Spark counts, from AMQP's milliseconds."""
    return int(value) * 1000 if isinstance(value, (Timestamp, int)) else None
