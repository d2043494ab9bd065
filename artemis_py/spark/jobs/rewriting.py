"""Encoded messages with small changes, as a job must make them before it sends a message again.

A bare message is passed on octet for octet (AMQP 1.0 §3.2) but for two things: an id that would make the broker take
the second sending for a duplicate of the first, and, if asked for, its times. Annotations are the broker's and the
client's own; those that tell of an earlier stay in a queue do not go along.
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

# What a broker wrote about a queue that the message is not in any more.
_OF_THE_BROKER: Final = (
    extensions.SEQUENCE_NUMBER,
    extensions.ORIGINAL,
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
# The JMS mapping of AMQP writes these as bytes; by them JMS clients know a text message from an object.
_BYTES: Final = frozenset(("x-opt-jms-msg-type", extensions.JMS_DESTINATION, "x-opt-jms-reply-to"))


def head(durable: bool, priority: int, annotations: Mapping[str, object]) -> bytes:
    """Header and message annotations of a message that begins anew: no attempts, no time to live."""
    entries: dict[object, object] = {Symbol(name): value for name, value in annotations.items()}
    return header_bytes(durable, min(max(priority, 0), 9), -1, False, 0) + encode_value(Described(ULong(0x72), entries))


def clients_annotations(printed: Mapping[str, str | None]) -> dict[str, object]:
    """Of the annotations that a source printed those that a client wrote; texts, but for the ones of JMS."""
    return {
        name: Byte(int(value)) if name in _BYTES else value
        for name, value in printed.items()
        if value is not None and not name.startswith(_OF_THE_BROKER)
    }


def without_duplicate_id(bare: bytes) -> bytes:
    """The message without the application property `_AMQ_DUPL_ID`: by it a broker would drop what it had before."""
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
    """Created now, in milliseconds since 1970; an expiry is as far ahead as it was, or goes if that is not known."""
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
    """Code, begin and end of each section."""
    offset, end = 0, len(bare)
    while offset < end:
        descriptor, body = read_value(bare, offset + 1, end, 1)
        stop = skip_value(bare, body, end, 1)
        code = _CODES.get(str(descriptor), 0) if isinstance(descriptor, Symbol) else descriptor
        assert isinstance(code, int)
        yield code, offset, stop
        offset = stop
