"""Offsets of fields in a frame, found without decoding them: for messages and acknowledgements, which come often.

Each function takes the offset at which a field begins and returns the one at which it ends. None compares it with the
end of the frame: reading behind the end raises IndexError, and callers compare the last offset with the length.
Compiled.
"""

from struct import Struct
from typing import Final

from artemis_py.errors import MalformedFrame
from artemis_py.wire.integers import read_u32

NO_ANSWER: Final = 1 << 40
"""The answer id of a command that asked for none; ids of commands have 32 bits."""

MAX_BROKERS: Final = 1024
"""Elements of an array of brokers in a message."""

QUEUE: Final = 100
TEMP_TOPIC: Final = 103
MESSAGE_ID: Final = 110
LOCAL_TRANSACTION: Final = 111
XA_TRANSACTION: Final = 112
CONNECTION_ID: Final = 120
CONSUMER_ID: Final = 122
PRODUCER_ID: Final = 123
BROKER_ID: Final = 124

I64: Final = Struct(">q")


def answer_id_of(body: bytes) -> int:
    """Return what the answer to a command names: its id, or NO_ANSWER."""
    return NO_ANSWER if body[5] == 0 else read_i32(body, 1)


def read_i32(body: bytes, offset: int) -> int:
    """Read a number of 32 bits."""
    value = read_u32(body, offset)
    return value if value < 1 << 31 else value - (1 << 32)


def read_i64(body: bytes, offset: int) -> int:
    """Read a number of 64 bits."""
    return read_i32(body, offset) << 32 | read_u32(body, offset + 4)


def read_octets(body: bytes, offset: int) -> bytes | None:
    """Read a field of octets."""
    return None if body[offset] == 0 else body[offset + 5 : skip_octets(body, offset)]


def skip_string(body: bytes, offset: int) -> int:
    """Pass over a text."""
    if body[offset] == 0:
        return offset + 1
    return offset + 3 + (body[offset + 1] << 8 | body[offset + 2])


def skip_octets(body: bytes, offset: int) -> int:
    """Pass over octets."""
    if body[offset] == 0:
        return offset + 1
    size = body[offset + 1] << 24 | body[offset + 2] << 16 | body[offset + 3] << 8 | body[offset + 4]
    if size > len(body):
        raise MalformedFrame("a field is longer than its frame")
    return offset + 5 + size


def skip_destination(body: bytes, offset: int) -> int:
    """Pass over a queue or topic."""
    if body[offset] == 0:
        return offset + 1
    if body[offset + 1] < QUEUE or body[offset + 1] > TEMP_TOPIC:
        raise wrong_type(body[offset + 1], "a destination")
    return skip_string(body, offset + 2)


def skip_client_id(body: bytes, offset: int, code: int) -> int:
    """Pass over the name of a consumer or producer: a connection and two numbers."""
    if body[offset] == 0:
        return offset + 1
    if body[offset + 1] != code:
        raise wrong_type(body[offset + 1], f"type {code}")
    return skip_string(body, offset + 2) + 16


def skip_transaction(body: bytes, offset: int) -> int:
    """Pass over the name of a transaction."""
    if body[offset] == 0:
        return offset + 1
    code = body[offset + 1]
    if code == XA_TRANSACTION:
        return skip_octets(body, skip_octets(body, offset + 6))
    if code != LOCAL_TRANSACTION:
        raise wrong_type(code, "a transaction")
    offset += 10
    if body[offset] == 0:
        return offset + 1
    if body[offset + 1] != CONNECTION_ID:
        raise wrong_type(body[offset + 1], "a connection")
    return skip_string(body, offset + 2)


def skip_message_id(body: bytes, offset: int, version: int) -> int:
    """Pass over the name of a message up to its two numbers, or over null."""
    if body[offset] == 0:
        return offset + 1
    if body[offset + 1] != MESSAGE_ID:
        raise wrong_type(body[offset + 1], "a message id")
    offset += 2
    if version >= 10:
        offset = skip_string(body, offset)
    return skip_client_id(body, offset, PRODUCER_ID)


def skip_brokers(body: bytes, offset: int) -> int:
    """Pass over an array of brokers."""
    if body[offset] == 0:
        return offset + 1
    count = body[offset + 1] << 8 | body[offset + 2]
    if count > MAX_BROKERS:
        raise MalformedFrame(f"an array of {count} brokers; {MAX_BROKERS} are the most")
    offset += 3
    for _ in range(count):
        if body[offset] == 0:
            offset += 1
            continue
        if body[offset + 1] != BROKER_ID:
            raise wrong_type(body[offset + 1], "a broker")
        offset = skip_string(body, offset + 2)
    return offset


def wrong_type(code: int, expected: str) -> MalformedFrame:
    """Return the error for a structure in the place of another one."""
    return MalformedFrame(f"a structure of type {code} in the place of {expected}")
