"""Property files: lines of `name = value`, as the users and roles files are written.

A line that starts with `#` or `!` is a comment. Space around names and values is removed; a backslash keeps the
character after it as it is (`\\ `, `\\=`, `\\\\`), and `\\uXXXX` is a character by its number. Lines are not continued.
"""

from pathlib import Path
from typing import Final

from attrs import frozen

from artemis_py.errors import ConfigError, Problem

_HEX: Final = frozenset("0123456789abcdefABCDEF")


@frozen
class Entry:
    """One line; `value` keeps its escapes, because it may be a list."""

    name: str
    value: str
    line: int


def read_properties(path: Path) -> list[Entry]:
    """Return the entries of a file in UTF-8. Raises ConfigError with every mistake, or why it cannot be read."""
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise ConfigError([Problem(str(path), 1, "file", f"cannot be read: {error.strerror}")]) from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError([Problem(str(path), line, "file", "is not written in UTF-8")]) from error
    return parse_properties(text, str(path))


def parse_properties(text: str, file: str) -> list[Entry]:
    """Return the entries of a text; error messages call it `file`. Raises ConfigError with every mistake."""
    entries: list[Entry] = []
    problems: list[Problem] = []
    lines_by_name: dict[str, int] = {}
    # splitlines would be wrong: a password may contain what Unicode calls a line separator.
    for line, content in enumerate(text.split("\n"), 1):
        content = _strip(content)
        if not content or content[0] in "#!":
            continue
        try:
            entry = _entry(content, line)
        except ValueError as error:
            problems.append(Problem(file, line, "line", str(error)))
            continue
        if entry.name in lines_by_name:
            first = lines_by_name[entry.name]
            problems.append(Problem(file, line, entry.name, f"is already in line {first}; write each name only once"))
        lines_by_name.setdefault(entry.name, line)
        entries.append(entry)
    if problems:
        raise ConfigError(problems)
    return entries


def split_list(value: str) -> list[str]:
    """Return the items between the commas of a value, unescaped; `\\,` is a comma in an item. Skip empty items."""
    items = (unescape(_strip(item)) for item in _split(value, ",", -1))
    return [item for item in items if item]


def unescape(text: str) -> str:
    """Return the text with its escapes replaced. Raises ValueError for an incomplete escape."""
    plain: list[str] = []
    index = 0
    while index < len(text):
        character = text[index]
        index += 1
        if character == "\\":
            if index == len(text):
                raise ValueError("ends with a backslash; write \\\\ for a backslash")
            character = text[index]
            index += 1
            if character == "u":
                digits = text[index : index + 4]
                if len(digits) < 4 or not _HEX.issuperset(digits):
                    raise ValueError("\\u must be followed by four hexadecimal digits")
                character = chr(int(digits, 16))
                index += 4
        plain.append(character)
    return "".join(plain)


def _entry(content: str, line: int) -> Entry:
    parts = _split(content, "=", 1)
    if len(parts) == 1:
        raise ValueError("expected `name = value`")
    name = unescape(_strip(parts[0]))
    if not name:
        raise ValueError("there is no name before the `=`")
    value = _strip(parts[1])
    unescape(value)
    return Entry(name, value, line)


def _strip(text: str) -> str:
    """Return the text without the space around it, but keep an escaped space at its end."""
    stripped = text.strip()
    backslashes = len(stripped) - len(stripped.rstrip("\\"))
    following = text.lstrip()[len(stripped) :][:1]
    return stripped + following if backslashes % 2 and following in (" ", "\t") else stripped


def _split(text: str, separator: str, limit: int) -> list[str]:
    """Split at separators that follow no backslash, at most `limit` times (-1: no limit)."""
    parts: list[str] = []
    start = index = 0
    while index < len(text) and len(parts) != limit:
        if text[index] == "\\":
            index += 2
            continue
        if text[index] == separator:
            parts.append(text[start:index])
            start = index + 1
        index += 1
    parts.append(text[start:])
    return parts
