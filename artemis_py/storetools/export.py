"""`data export`: the entries of a store as a file, written under another name and renamed when it is whole.

Memory stays flat whatever the size of the store, and a broker may run in the meantime: the file shows one moment of its
store.
"""

import os
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO, Final

import lmdb
from attrs import define, field

from artemis_py.core.messages.message import MessageFormat
from artemis_py.errors import StoreError
from artemis_py.store.condition import NothingKnown
from artemis_py.store.environment import FILE_NAME, INITIAL_MAP_BYTES, map_size_for, sync_folder
from artemis_py.store.failure import reason_of
from artemis_py.store.scan import scan
from artemis_py.storetools.bodies import bodies_folder, opened_with_bodies
from artemis_py.storetools.copies import folded
from artemis_py.storetools.entries import Entries
from artemis_py.storetools.lines import write_end, write_entry, write_header
from artemis_py.storetools.snapshot import Progress
from artemis_py.storetools.xml_writer import XmlWriter

PART_SUFFIX: Final = ".part"
MAY_BE_OLD: Final = (
    "note: messages that were consumed and queues that were deleted before may be among what was found in the file"
)


class FileFormat(Enum):
    """Format of an export."""

    JSONL = "jsonl"
    """JSON lines (`storetools.lines`): everything, octet for octet."""
    XML = "xml"
    """XML as `artemis data exp` writes it: what Artemis can import."""


@define
class Exported:
    """Result of an export."""

    entries: int = 0
    left_out: list[str] = field(factory=list)
    """Damaged pages and values, and messages that the format cannot express: one line each."""


def export_folder(
    folder: Path,
    target: Path,
    file_format: FileFormat,
    formats: Mapping[str, MessageFormat],
    progress: Progress = lambda done, total: None,
    large_messages_folder: Path | None = None,
) -> Exported:
    """Write everything in a store to a file, which must not exist yet. Raises StoreError.

    If the store is damaged, that is what can be read of it; if no page leads to any data, it is what is found anywhere
    in the file (`scan`).

    `formats` are those of the messages, by name; JSON lines need none. Large bodies are below `folder` unless their
    folder is named.
    """
    if target.exists():
        raise StoreError(f"{target} exists already; an export overwrites nothing")
    bodies = bodies_folder(folder, large_messages_folder)
    try:
        with folded(folder, target.parent) as (whole, left_out):
            return _export(whole, target, file_format, formats, progress, bodies, left_out)
    except NothingKnown as error:
        unknown = error
    except OSError as error:
        raise StoreError(f"{error.filename or target} cannot be written: {error.strerror}") from error
    try:
        # The values found are sorted beside the target, where there has to be room for them anyway.
        with TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as found:
            file = folder / FILE_NAME
            if not scan(file, Path(found), map_size_for(file, 2 * INITIAL_MAP_BYTES)):
                raise unknown
            left_out = [f"damaged: {unknown}", MAY_BE_OLD]
            return _export(Path(found), target, file_format, formats, progress, bodies, left_out)
    except (lmdb.Error, OSError) as error:
        raise StoreError(f"{target} cannot be written: {reason_of(error, target)}") from error


def _export(
    folder: Path,
    target: Path,
    file_format: FileFormat,
    formats: Mapping[str, MessageFormat],
    progress: Progress,
    large_messages_folder: Path | None,
    left_out: list[str],
) -> Exported:
    part = target.with_name(target.name + PART_SUFFIX)
    exported = Exported(left_out=left_out)
    try:
        with opened_with_bodies(folder, large_messages_folder) as (snapshot, bodies), part.open("wb") as stream:
            exported.left_out.extend(f"damaged: {problem}" for problem in snapshot.problems)
            is_jsonl = file_format is FileFormat.JSONL
            entries = Entries(snapshot, bodies, formats, exported.left_out.append, are_bodies_apart=is_jsonl)
            write = _write_lines if is_jsonl else _write_xml
            write(entries, stream, exported, progress)
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(target)
        sync_folder(target.parent)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise StoreError(f"{target} cannot be written: {error.strerror}") from error
    except StoreError:
        part.unlink(missing_ok=True)
        raise
    return exported


def _write_lines(entries: Entries, stream: BinaryIO, exported: Exported, progress: Progress) -> None:
    stream.write(write_header())
    lines = 1
    for entry in entries:
        for line in write_entry(entry):
            stream.write(line)
            lines += 1
        exported.entries += 1
        progress(exported.entries, entries.total)
    stream.write(write_end(lines))


def _write_xml(entries: Entries, stream: BinaryIO, exported: Exported, progress: Progress) -> None:
    writer = XmlWriter(stream, entries.shared, exported.left_out.append)
    for entry in entries:
        writer.write(entry)
        exported.entries += 1
        progress(exported.entries, entries.total)
    writer.end()
