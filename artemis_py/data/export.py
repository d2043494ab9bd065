"""`data export`: the entries of a store as a file, written aside and put in its place when it is whole.

Memory stays flat whatever the store holds, and a broker may run meanwhile: what is written is one moment of its store.
"""

import os
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import BinaryIO, Final

from attrs import define, field

from artemis_py.core.message import MessageFormat
from artemis_py.data.bodies import opened_with_bodies
from artemis_py.data.entries import Entries
from artemis_py.data.lines import write_end, write_entry, write_header
from artemis_py.data.snapshot import Progress
from artemis_py.data.xml_writer import XmlWriter
from artemis_py.errors import StoreError
from artemis_py.store.environment import sync_folder

PART_SUFFIX: Final = ".part"


class FileFormat(Enum):
    """How an export is written."""

    JSONL = "jsonl"
    """`data.lines`: everything, octet for octet."""
    XML = "xml"
    """As `artemis data exp` writes it: what Artemis can take in."""


@define
class Exported:
    """What came of it."""

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
    """Write all that a store holds to a file, which must not exist yet. Raises StoreError.

    `formats` are those of the messages, by name; JSON lines need none. Large bodies are below `folder` unless their
    folder is named.
    """
    if target.exists():
        raise StoreError(f"{target} is there already; an export overwrites nothing")
    part = target.with_name(target.name + PART_SUFFIX)
    exported = Exported()
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
