"""Small changes to encoded messages before a job sends them again.

A bare message is passed on octet for octet (AMQP 1.0 §3.2), except for two things: an id for which the broker would
drop the second copy as a duplicate and, if requested, its times. Annotations belong to the broker or to the client;
those that describe an earlier stay in a queue are removed.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from attrs import evolve

from artemis_amqp.client import (
    Byte,
    Described,
    Properties,
    Symbol,
    ULong,
    encode,
    encode_value,
    header_bytes,
    read_application_properties,
    read_properties,
    read_value,
    skip_value,
)
from artemis_amqp.engine import extensions
from artemis_py.spark.encoding import DUPLICATE_ID

_PROPERTIES: Final = 0x73
_APPLICATION_PROPERTIES: Final = 0x74
_CODES: Final = {"amqp:properties:list": _PROPERTIES, "amqp:application-properties:map": _APPLICATION_PROPERTIES}

# Prefixes of annotations in which a broker described a queue that the message has left.
_OF_THE_BROKER: Final = (
    extensions.SEQUENCE_NUMBER,
    extensions.ORIGINAL,
    extensions.DEATH,
    extensions.ACTUAL_EXPIRY,
    extensions.ENQUEUED_TIME,
    extensions.INGRESS_TIME,
    extensions.DELIVERY_TIME,
    extensions.DELIVERY_DELAY,
    extensions.ROUTING_TYPE,
    "x-opt-redrive",
    "x-opt-replayed",
    "x-opt-reject",
    DUPLICATE_ID,
)
# The JMS mapping of AMQP writes these as bytes; JMS clients use them to tell a text message from an object.
_BYTES: Final = frozenset(("x-opt-jms-msg-type", extensions.JMS_DESTINATION, "x-opt-jms-reply-to"))


def head(durable: bool, priority: int, annotations: Mapping[str, object]) -> bytes:
    """Return header and message annotations of a message without earlier attempts and time to live."""
    entries: dict[object, object] = {Symbol(name): value for name, value in annotations.items()}
    return header_bytes(durable, min(max(priority, 0), 9), -1, False, 0) + encode_value(Described(ULong(0x72), entries))


def clients_annotations(printed: Mapping[str, str | None]) -> dict[str, object]:
    """Return the annotations that a client wrote, of those that a source printed; as text, except for those of JMS."""
    return {
        name: Byte(int(value)) if name in _BYTES else value
        for name, value in printed.items()
        if value is not None and not name.startswith(_OF_THE_BROKER)
    }


def without_duplicate_id(bare: bytes) -> bytes:
    """Return the message without the application property `_AMQ_DUPL_ID`, for which a broker would drop it."""
    if DUPLICATE_ID.encode() not in bare:
        return bare
    for code, start, stop in _sections(bare):
        if code == _APPLICATION_PROPERTIES:
            entries = read_application_properties(bare)
            if entries.pop(DUPLICATE_ID, None) is None:
                return bare
            section = encode_value(Described(ULong(_APPLICATION_PROPERTIES), entries)) if entries else b""
            return bare[:start] + section + bare[stop:]
    return bare


def with_new_times(bare: bytes, now_ms: int) -> bytes:
    """Return the message created at `now_ms` (since 1970); its time to expiry is kept, or removed if it is unknown."""
    old = read_properties(bare)
    expiry = None
    if old.absolute_expiry_time is not None and old.creation_time is not None:
        expiry = now_ms + max(old.absolute_expiry_time - old.creation_time, 0)
    section = encode(_timed(old, now_ms, expiry))
    for code, start, stop in _sections(bare):
        if code == _PROPERTIES:
            return bare[:start] + section + bare[stop:]
        break
    return section + bare


def _timed(properties: Properties, creation_ms: int, expiry_ms: int | None) -> Properties:
    return evolve(properties, creation_time=creation_ms, absolute_expiry_time=expiry_ms)


def _sections(bare: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield code, beginning and end of each section."""
    offset, end = 0, len(bare)
    while offset < end:
        descriptor, body = read_value(bare, offset + 1, end, 1)
        stop = skip_value(bare, body, end, 1)
        code = _CODES.get(str(descriptor), 0) if isinstance(descriptor, Symbol) else descriptor
        assert isinstance(code, int)
        yield code, offset, stop
        offset = stop
