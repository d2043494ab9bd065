"""JSON lines: an export of one entry a line, in which every octet of every message comes back.

    {"artemis-py-export": 1}
    {"address": {"name": …, "routing_types": […], …}}                              as the store keeps it
    {"queue": {"config": {"name": …, "address": …, …}, "paused": …}, "next_sequence": …}
    {"message": {…}}                                                               shared by references that follow
    {"reference": {"queue": …, "sequence": …, "message": {…}}}                     or "message": the id of a shared one
    {"duplicate": {"address": …, "number": …, "id": "<base64>"}}
    {"end": <lines before this one>}

A message is {"id", "format", "address", "data": "<base64>"} and what differs from nothing of "annotations" (base64),
"priority" (4), "expires_ms", "delivery_time_ms", "routing_type" (-1), "producer", "extra". Data and annotations are the
octets of its protocol, neither decoded nor changed. The last line is there to tell a whole file from a cut one.
"""

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, Final

from artemis_py.core.message import DEFAULT_PRIORITY, Message, MessageFormat
from artemis_py.data.entries import AddressEntry, DuplicateEntry, Entry, MessageEntry, QueueEntry, ReferenceEntry
from artemis_py.errors import ArtemisError
from artemis_py.store.definitions import read_address, read_queue, write_address, write_queue
from artemis_py.store.schema import MissingFormat

VERSION: Final = 1
LONGEST_LINE_BYTES: Final = 1 << 31
"""Longer ones are no line of ours: a message of 100 MiB, the largest that is taken, is 134 MiB in base64."""

HEADER: Final = "artemis-py-export"
_MESSAGE_DEFAULTS: Final = {
    "priority": DEFAULT_PRIORITY,
    "expires_ms": 0,
    "delivery_time_ms": 0,
    "routing_type": -1,
    "producer": "",
}


class MalformedLine(ArtemisError):
    """A line, counted from 1, that is not what an export has there."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line: Final = line


def write_header() -> bytes:
    """The first line."""
    return _line({HEADER: VERSION})


def write_end(lines: int) -> bytes:
    """The last line, after so many."""
    return _line({"end": lines})


def write_entry(entry: Entry) -> bytes:
    """One entry as a line."""
    match entry:
        case AddressEntry():
            return _line({"address": json.loads(write_address(entry.record))})
        case QueueEntry():
            return _line({"queue": json.loads(write_queue(entry.record)), "next_sequence": entry.next_sequence})
        case MessageEntry():
            return _line({"message": _message(entry.message)})
        case ReferenceEntry():
            reference: dict[str, object] = {"queue": entry.queue, "sequence": entry.sequence}
            if entry.delivery_count or entry.due_ms:
                reference |= {"delivery_count": entry.delivery_count, "due_ms": entry.due_ms}
            reference["message"] = entry.message if isinstance(entry.message, int) else _message(entry.message)
            return _line({"reference": reference})
        case DuplicateEntry():
            id = base64.b64encode(entry.id).decode()
            return _line({"duplicate": {"address": entry.address, "number": entry.number, "id": id}})


def read_entries(stream: BinaryIO, formats: Mapping[str, MessageFormat]) -> Iterator[tuple[int, Entry]]:
    """Entries with the numbers of their lines. Raises MalformedLine, at the end too if the file was cut."""
    number = 0
    while text := stream.readline(LONGEST_LINE_BYTES):
        number += 1
        try:
            line = json.loads(text)
            if number == 1:
                _check_header(line)
            elif "end" in line:
                _check_end(line["end"], number - 1, stream.read(1))
                return
            else:
                yield number, _entry(line, formats)
        except (ValueError, TypeError, KeyError, RecursionError, ArtemisError, binascii.Error) as error:
            if isinstance(error, MalformedLine):
                raise
            reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            raise MalformedLine(number, f"it is no line of an export: {reason}") from error
    raise MalformedLine(number + 1, "the file ends without its last line; it was cut off")


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
        "data": base64.b64encode(message.data).decode(),
    }
    if message.annotations:
        written["annotations"] = base64.b64encode(message.annotations).decode()
    for name, default in _MESSAGE_DEFAULTS.items():
        if getattr(message, name) != default:
            written[name] = getattr(message, name)
    if message.extra:
        written["extra"] = message.extra
    return written


def _entry(line: Any, formats: Mapping[str, MessageFormat]) -> Entry:
    match line:
        case {"address": record}:
            return AddressEntry(record=read_address(json.dumps(record).encode()))
        case {"queue": record, "next_sequence": int(next_sequence)} if next_sequence > 0:
            return QueueEntry(record=read_queue(json.dumps(record).encode()), next_sequence=next_sequence)
        case {"message": message}:
            return MessageEntry(message=_read_message(message, formats))
        case {"reference": {"queue": str(queue), "sequence": int(sequence), "message": message} as rest}:
            return ReferenceEntry(
                queue=queue,
                sequence=_number(sequence, "sequence"),
                message=message if isinstance(message, int) else _read_message(message, formats),
                delivery_count=_number(rest.get("delivery_count", 0), "delivery_count"),
                due_ms=_number(rest.get("due_ms", 0), "due_ms"),
            )
        case {"duplicate": {"address": str(address), "number": int(number), "id": str(id)}}:
            return DuplicateEntry(address=address, number=_number(number, "number"), id=_octets(id))
    raise ValueError("it has none of the forms that a line can have")


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
    return message


def _octets(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _number(value: object, name: str) -> int:
    if type(value) is not int or not 0 <= value < 1 << 56:
        raise ValueError(f"{name} is no number, or too large")
    return value
