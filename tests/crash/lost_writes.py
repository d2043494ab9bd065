"""What a loss of power leaves of a file: from the log of the calls that wrote and synced it.

A write is certain when a sync followed it, or when it synced itself. Of those that are not, the disk may have done any,
in any order, and may be within one of them: a sector of 512 bytes is old or new, never mixed. A name that was given,
changed or taken away is certain when its folder was synced after that.
"""

import random
from pathlib import Path
from struct import Struct
from typing import Final

from attrs import frozen

SECTOR_BYTES: Final = 512
_HEAD: Final = Struct("=cQQQQ")


@frozen
class Call:
    """One call: W write, D write that syncs itself, S sync, G new size `offset`, R rename, U unlink.

    Victims add others: A: step `offset` was confirmed.
    """

    kind: str
    offset: int
    data: bytes
    at: float
    """When it was done: seconds of the monotonic clock."""
    path: str = ""
    """The file's; after a rename, `data` is the new one."""


def read_calls(log: bytes) -> list[Call]:
    """The calls of a log, in order."""
    calls = []
    position = 0
    while position < len(log):
        kind, offset, length, nanoseconds, path_length = _HEAD.unpack_from(log, position)
        start = position + _HEAD.size + path_length
        path = log[position + _HEAD.size : start].decode()
        calls.append(Call(kind.decode(), offset, log[start : start + length], nanoseconds / 1e9, path))
        position = start + length
    return calls


def note_call(log: Path, kind: str, offset: int) -> None:
    """Add to the log of the calls what a victim knows itself."""
    with log.open("ab") as file:
        file.write(_HEAD.pack(kind.encode(), offset, 0, 0, 0))


def lose_writes(calls: list[Call], lots: random.Random) -> bytes:
    """A content that the file may have after a loss of power behind the last of these calls."""
    synced = max((index for index, call in enumerate(calls) if call.kind == "S"), default=-1)
    content = bytearray()
    for index, call in enumerate(calls):
        if call.kind == "D" or (call.kind in "WG" and index < synced):
            put(content, call.offset, call.data)
        elif call.kind in "WG":
            lot = lots.random()
            if lot < 0.4:
                put(content, call.offset, call.data)
            elif lot < 0.6:
                for start in range(0, len(call.data), SECTOR_BYTES):
                    if lots.random() < 0.5:
                        put(content, call.offset + start, call.data[start : start + SECTOR_BYTES])
    return bytes(content)


def lose_files(calls: list[Call], lots: random.Random) -> dict[str, bytes]:
    """The files, by path, that there may be after a loss of power behind the last of these calls."""
    current: dict[str, int] = {}
    """Which file had a name; a file is a number."""
    after: dict[str, int] = {}
    """Which file has a name then."""
    calls_of: list[list[Call]] = []
    folders_synced = {call.path: index for index, call in enumerate(calls) if call.kind == "S"}
    for index, call in enumerate(calls):
        # A new name is as durable as the folder that it is in.
        folder = str(Path(call.data.decode() if call.kind == "R" else call.path).parent)
        is_kept = index < folders_synced.get(folder, -1) or lots.random() < 0.5
        if call.kind in "WDG" and call.path not in current:
            current[call.path] = len(calls_of)
            calls_of.append([])
            if is_kept:
                after[call.path] = current[call.path]
        elif call.kind in "RU":
            file = current.pop(call.path)
            if is_kept and after.get(call.path) == file:
                del after[call.path]
            if call.kind == "R":
                current[call.data.decode()] = file
                if is_kept:
                    after[call.data.decode()] = file
        if call.kind in "WDGS" and call.path in current:
            calls_of[current[call.path]].append(call)
    return {path: lose_writes(calls_of[file], lots) for path, file in after.items()}


def put(content: bytearray, offset: int, data: bytes) -> None:
    """Write into a file; a hole before it reads as zeros."""
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data
