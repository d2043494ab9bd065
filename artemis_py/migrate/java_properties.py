"""Reads property files as Java does: `=`, `:` or space after the name, lines that continue, escapes."""

import re
from pathlib import Path
from typing import Final

from attrs import frozen

from artemis_py.errors import ConfigError, Problem

_ENTRY: Final = re.compile(r"((?:\\.|[^\\=:\s])+)(?:\s*[=:]\s*|\s+|$)(.*)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_NAMED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


@frozen
class Entry:
    """One property."""

    name: str
    value: str
    line: int


def read_java_properties(path: Path) -> list[Entry]:
    """Return the properties of a file. Raises ConfigError if it cannot be read."""
    return parse_java_properties(read_text(path))


def read_text(path: Path) -> str:
    """Return the text of a file in UTF-8 or Latin-1. Raises ConfigError if it cannot be read."""
    data = read_bytes(path)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def read_bytes(path: Path) -> bytes:
    """Return the content of a file. Raises ConfigError if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError([Problem(str(path), 0, "file", f"cannot be read: {error.strerror}")]) from error


def parse_java_properties(text: str) -> list[Entry]:
    """Return the properties of a text."""
    entries = []
    pending, first = "", 0
    for number, line in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        content = line.lstrip()
        if not pending and (not content or content[0] in "#!"):
            continue
        first = first or number
        if (len(content) - len(content.rstrip("\\"))) % 2:
            pending += content[:-1]
            continue
        match = _ENTRY.match(pending + content)
        if match is not None:
            entries.append(Entry(_plain(match[1]), _plain(match[2]).strip(), first))
        pending, first = "", 0
    return entries


def _plain(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code[1:], 16)) if len(code) == 5 else _NAMED.get(code, code)

    return _ESCAPE.sub(character, text)
