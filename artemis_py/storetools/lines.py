"""JSON lines: an export of one entry a line, from which every octet of every message can be restored.

    {"artemis-py-export": 1}
    {"address": {"name": …, "routing_types": […], …}}                              as in the store
    {"queue": {"config": {"name": …, "address": …, …}, "paused": …}, "id": …, "next_sequence": …}
    {"body": {"id": …, "size": …, "checksum": …}}                                  large, of messages that follow
    {"octets": "<base64>"}                                                         a piece of it; as many as needed
    {"message": {…}}                                                               shared by references that follow
    {"reference": {"queue": …, "sequence": …, "message": {…}}}                     or "message": the id of a shared one
    {"duplicate": {"address": …, "number": …, "id": "<base64>"}}
    {"record": {"space": …, "key": "<base64>", "value": "<base64>"}}               of a protocol: sessions, retained
    {"end": <lines before this one>}

What belongs to a virtual host other than the default one has its number as "host": in the objects of an address, queue,
reference and duplicate. The hosts are records of the space "virtual-hosts", and their own records have spaces with "@".

A message is {"id", "format", "address", "data": "<base64>"}, and those of the following that differ from their default:
"annotations" (base64), "priority" (4), "expires_ms", "delivery_time_ms", "routing_type" (-1), "producer", "extra",
"large": the id of the body that continues its data. Data, annotations and bodies are the octets of its protocol,
neither decoded nor changed. The size of a body is in octets, its checksum is CRC-32. The last line tells a whole file
from one that was cut.
"""

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO, Final
from zlib import crc32

from artemis_py.core.messages.large_body import LargeBody
from artemis_py.core.messages.message import DEFAULT_PRIORITY, Message, MessageFormat
from artemis_py.core.messages.record import MissingFormat
from artemis_py.errors import ArtemisError
from artemis_py.store.definitions import read_address, read_queue, write_address, write_queue
from artemis_py.storetools.entries import (
    AddressEntry,
    BodyEntry,
    DuplicateEntry,
    Entry,
    MessageEntry,
    QueueEntry,
    RecordEntry,
    ReferenceEntry,
)

VERSION: Final = 1
LONGEST_LINE_BYTES: Final = 1 << 31
"""Limit of a line; a message of 100 MiB, the largest that is accepted, has only 134 MiB in base64."""

HEADER: Final = "artemis-py-export"
_MESSAGE_DEFAULTS: Final = {
    "priority": DEFAULT_PRIORITY,
    "expires_ms": 0,
    "delivery_time_ms": 0,
    "routing_type": -1,
    "producer": "",
}


class MalformedLine(ArtemisError):
    """A line, counted from 1, that does not belong there in an export."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line: Final = line


def write_header() -> bytes:
    """Return the first line."""
    return _line({HEADER: VERSION})


def write_end(lines: int) -> bytes:
    """Return the last line, which follows `lines` others."""
    return _line({"end": lines})


def write_entry(entry: Entry) -> Iterator[bytes]:
    """Yield the lines of an entry: one, or several for a body."""
    match entry:
        case AddressEntry():
            yield _line({"address": json.loads(write_address(entry.record))})
        case QueueEntry():
            queue = json.loads(write_queue(entry.record))
            yield _line({"queue": queue, "id": entry.id, "next_sequence": entry.next_sequence})
        case BodyEntry():
            yield _line({"body": {"id": entry.id, "size": entry.size, "checksum": entry.checksum}})
            for piece in entry.pieces:
                yield _line({"octets": _text(piece)})
        case MessageEntry():
            yield _line({"message": _message(entry.message)})
        case ReferenceEntry():
            reference: dict[str, object] = {"queue": entry.queue, "sequence": entry.sequence}
            if entry.host:
                reference["host"] = entry.host
            if entry.delivery_count or entry.due_ms:
                reference |= {"delivery_count": entry.delivery_count, "due_ms": entry.due_ms}
            if entry.amendment:
                reference["amendment"] = _text(entry.amendment)
            reference["message"] = entry.message if isinstance(entry.message, int) else _message(entry.message)
            yield _line({"reference": reference})
        case DuplicateEntry():
            duplicate = {"address": entry.address, "number": entry.number, "id": _text(entry.id)}
            yield _line({"duplicate": duplicate | ({"host": entry.host} if entry.host else {})})
        case RecordEntry():
            yield _line({"record": {"space": entry.space, "key": _text(entry.key), "value": _text(entry.value)}})


def read_entries(stream: BinaryIO, formats: Mapping[str, MessageFormat]) -> Iterator[tuple[int, Entry]]:
    """Yield entries with the numbers of their lines. Raises MalformedLine, also at the end if the file was cut."""
    yield from _Reader(stream, formats).entries()


class _Reader:
    """One pass through a file; knows the sizes of the bodies so far."""

    def __init__(self, stream: BinaryIO, formats: Mapping[str, MessageFormat]) -> None:
        self._stream = stream
        self._formats = formats
        self._number = 0
        self._bodies: dict[int, tuple[int, int]] = {}

    def entries(self) -> Iterator[tuple[int, Entry]]:
        """See `read_entries`."""
        line = self._next()
        with self._named():
            _check_header(line)
        while True:
            line = self._next()
            with self._named():
                if "end" in line:
                    _check_end(line["end"], self._number - 1, self._stream.read(1))
                    return
                entry = self._entry(line)
            yield self._number, entry
            if isinstance(entry, BodyEntry):
                for _ in entry.pieces:
                    pass

    def _next(self) -> Any:
        self._number += 1
        text = self._stream.readline(LONGEST_LINE_BYTES)
        if not text:
            raise MalformedLine(self._number, "the file ends without its last line; it was cut off")
        with self._named():
            return json.loads(text)

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Turn any error in a line into MalformedLine with its number."""
        try:
            yield
        except MalformedLine:
            raise
        except (ValueError, TypeError, KeyError, RecursionError, ArtemisError, binascii.Error) as error:
            reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            raise MalformedLine(self._number, f"it is not a line of an export: {reason}") from error

    def _entry(self, line: Any) -> Entry:
        match line:
            case {"address": record}:
                return AddressEntry(record=read_address(json.dumps(record).encode()))
            case {"queue": record, "id": int(id), "next_sequence": int(next_sequence)} if id > 0 < next_sequence:
                queue = read_queue(json.dumps(record).encode())
                return QueueEntry(id=_number(id, "id", 32), record=queue, next_sequence=next_sequence)
            case {"body": body}:
                return self._body(body)
            case {"message": message}:
                return MessageEntry(message=self._message(message))
            case {"reference": {"queue": str(queue), "sequence": int(sequence), "message": message} as rest}:
                return ReferenceEntry(
                    queue=queue,
                    host=_number(rest.get("host", 0), "host", 32),
                    sequence=_number(sequence, "sequence"),
                    message=message if isinstance(message, int) else self._message(message),
                    delivery_count=_number(rest.get("delivery_count", 0), "delivery_count", 32),
                    due_ms=_number(rest.get("due_ms", 0), "due_ms"),
                    amendment=_octets(rest["amendment"]) if "amendment" in rest else b"",
                )
            case {"duplicate": {"address": str(address), "number": int(number), "id": str(id)} as rest}:
                host = _number(rest.get("host", 0), "host", 32)
                return DuplicateEntry(address=address, host=host, number=_number(number, "number"), id=_octets(id))
            case {"record": {"space": str(space), "key": str(key), "value": str(value)}} if "\0" not in space:
                return RecordEntry(space=space, key=_octets(key), value=_octets(value))
        raise ValueError("it has none of the forms that a line can have")

    def _body(self, written: Any) -> BodyEntry:
        id = _number(written["id"], "id")
        if id in self._bodies:
            raise ValueError(f"body {id} was there before")
        size, checksum = _number(written["size"], "size"), _number(written["checksum"], "checksum", 32)
        self._bodies[id] = (size, checksum)
        return BodyEntry(id=id, size=size, checksum=checksum, pieces=self._pieces(size, checksum))

    def _pieces(self, left: int, checksum: int) -> Iterator[bytes]:
        """Yield the octets of the lines that follow. Raises MalformedLine if their size or checksum is wrong."""
        found = 0
        while left:
            line = self._next()
            with self._named():
                piece = _octets(line["octets"])
                found = crc32(piece, found)
                left -= len(piece)
                if left < 0 or not piece:
                    raise ValueError("a body does not have the size that was announced")
            yield piece
        with self._named():
            if found != checksum:
                raise ValueError("a body does not have the checksum that was announced")

    def _message(self, written: Any) -> Message:
        message = _read_message(written, self._formats)
        if "large" in written:
            id = _number(written["large"], "large")
            if id not in self._bodies:
                raise ValueError(f"body {id} is not in the file before this")
            message.large = LargeBody(id, *self._bodies[id], holders=0)
        return message


def _check_header(line: Any) -> None:
    if HEADER not in line:
        raise ValueError(f'the first line of a file of JSON lines is {{"{HEADER}": {VERSION}}}')
    if line[HEADER] != VERSION:
        raise ValueError(f"it has version {line[HEADER]}, this release of artemis_py reads {VERSION}")


def _check_end(counted: Any, lines: int, rest: bytes) -> None:
    if counted != lines:
        raise ValueError(f"{counted} lines were written, {lines} are there")
    if rest:
        raise ValueError("something follows the last line")


def _line(value: dict[str, object]) -> bytes:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"


def _message(message: Message) -> dict[str, object]:
    written: dict[str, object] = {
        "id": message.id,
        "format": message.format.name,
        "address": message.address,
        "data": _text(message.data),
    }
    if message.annotations:
        written["annotations"] = _text(message.annotations)
    for name, default in _MESSAGE_DEFAULTS.items():
        if getattr(message, name) != default:
            written[name] = getattr(message, name)
    if message.extra:
        written["extra"] = message.extra
    if message.large is not None:
        written["large"] = message.large.id
    return written


def _read_message(written: Any, formats: Mapping[str, MessageFormat]) -> Message:
    values = {name: written.get(name, default) for name, default in _MESSAGE_DEFAULTS.items()}
    for name, default in _MESSAGE_DEFAULTS.items():
        if type(values[name]) is not type(default):
            raise ValueError(f"{name} has the wrong type")
    if not 0 <= values["priority"] <= 9 or values["routing_type"] not in (-1, 0, 1):
        raise ValueError("priority is 0 to 9, routing_type is -1, 0 or 1")
    name, address, extra = written["format"], written["address"], written.get("extra")
    if not isinstance(name, str) or not isinstance(address, str) or not isinstance(extra, dict | None):
        raise ValueError("format and address are texts, extra is an object")
    message = Message(
        formats.get(name) or MissingFormat(name),
        address,
        _octets(written["data"]),
        _octets(written.get("annotations", "")),
        True,
        values["priority"],
        _number(values["expires_ms"], "expires_ms"),
        _number(values["delivery_time_ms"], "delivery_time_ms"),
        values["routing_type"],
        values["producer"],
    )
    message.id = _number(written["id"], "id")
    message.extra = extra
    message.has_group = message.lookup("JMSXGroupID") is not None
    return message


def _text(octets: bytes) -> str:
    return base64.b64encode(octets).decode()


def _octets(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _number(value: object, name: str, bits: int = 56) -> int:
    if type(value) is not int or not 0 <= value < 1 << bits:
        raise ValueError(f"{name} is not a number, or is too large")
    return value
