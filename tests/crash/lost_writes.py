"""What a loss of power leaves of a file: from the log of the calls that wrote and synced it.

A write is certain when a sync followed it, or when it synced itself. Of those that are not, the disk may have done any,
in any order, and may be within one of them: a sector of 512 bytes is old or new, never mixed.
"""

import random
from struct import Struct
from typing import Final

from attrs import frozen

SECTOR_BYTES: Final = 512
_HEAD: Final = Struct("=cQQQ")


@frozen
class Call:
    """One call: W write, D write that syncs itself, S sync, A: step `offset` was confirmed."""

    kind: str
    offset: int
    data: bytes
    at: float
    """When it was done: seconds of the monotonic clock."""


def read_calls(log: bytes) -> list[Call]:
    """The calls of a log, in order."""
    calls = []
    position = 0
    while position < len(log):
        kind, offset, length, nanoseconds = _HEAD.unpack_from(log, position)
        position += _HEAD.size
        calls.append(Call(kind.decode(), offset, log[position : position + length], nanoseconds / 1e9))
        position += length
    return calls


def lose_writes(calls: list[Call], lots: random.Random) -> bytes:
    """A content that the file may have after a loss of power behind the last of these calls."""
    synced = max((index for index, call in enumerate(calls) if call.kind == "S"), default=-1)
    content = bytearray()
    for index, call in enumerate(calls):
        if call.kind == "D" or (call.kind == "W" and index < synced):
            put(content, call.offset, call.data)
        elif call.kind == "W":
            lot = lots.random()
            if lot < 0.4:
                put(content, call.offset, call.data)
            elif lot < 0.6:
                for start in range(0, len(call.data), SECTOR_BYTES):
                    if lots.random() < 0.5:
                        put(content, call.offset + start, call.data[start : start + SECTOR_BYTES])
    return bytes(content)


def put(content: bytearray, offset: int, data: bytes) -> None:
    """Write into a file; a hole before it reads as zeros."""
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data
