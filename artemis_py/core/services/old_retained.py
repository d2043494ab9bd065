"""Reads the retained messages of stores that development builds of 0.1.0 wrote, up to 22 November 2026.

Those builds had a record of their own for them, in space "retained"; a start replaces it (`RetainedMessages.load`). An
export of such a store contains it, too, so an import can bring it back at any time.

    +---------+---------+----------+--------+---------+----------+-------------+
    | u64     | u8      | u8       | u16    | u16     | u16      | u32         |
    | expires | durable | priority | format | address | producer | annotations |
    | ms      |         |          | length | length  | length   | length      |
    +---------+---------+----------+--------+---------+----------+-------------+
    followed by format, address and producer in UTF-8, annotations, and data
"""

from collections.abc import Mapping
from struct import Struct
from typing import Final

from artemis_py.core.messages.message import Message, MessageFormat
from artemis_py.core.messages.record import MissingFormat
from artemis_py.errors import DamagedValue

OLD_SPACE: Final = "retained"

_HEAD: Final = Struct(">QBBHHHI")


def read_old_retained(value: bytes, formats: Mapping[str, MessageFormat]) -> Message:
    """Return the message of an old record. Raises DamagedValue, or ValueError for text that is no UTF-8."""
    if len(value) < _HEAD.size:
        raise DamagedValue("it is too short for a retained message")
    expires_ms, durable, priority, *lengths = _HEAD.unpack_from(value)
    parts: list[bytes] = []
    offset = _HEAD.size
    for length in lengths:
        parts.append(value[offset : offset + length])
        offset += length
    if offset > len(value):
        raise DamagedValue("it is too short for its message")
    name, address, producer = parts[0].decode(), parts[1].decode(), parts[2].decode()
    return Message(
        formats.get(name) or MissingFormat(name),
        address,
        value[offset:],
        parts[3],
        bool(durable),
        priority,
        expires_ms,
        producer=producer,
    )
