"""Reads JSON as it is, with the line of each member, so that a report can name it."""

import json
import re
from pathlib import Path
from typing import Any, Final

from artemis_py.errors import ConfigError, Problem

SIZE_LIMIT_BYTES: Final = 64 * 1024 * 1024
"""Bytes of a file. Definitions with 100,000 bindings have some 20 MiB."""
DEPTH_LIMIT: Final = 64

# Broker-J writes no comments, but allows them in files that people write.
_SPACE: Final = re.compile(r"(?:[ \t\r\n]|/\*.*?\*/|//[^\n]*)*", re.DOTALL)
_NUMBER: Final = re.compile(r"-?\d+(\.\d+)?([eE][-+]?\d+)?")
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_WORDS: Final = {"true": True, "false": False, "null": None}


class JsonObject(dict[str, Any]):
    """An object, with the line on which it begins and that of each member."""

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line
        self.lines: dict[str, int] = {}

    def text(self, name: str, default: str = "") -> str:
        """Return a member that is a text; the default for any other."""
        value = self.get(name)
        return value if isinstance(value, str) else default

    def flag(self, name: str, default: bool = False) -> bool:
        """Return a truth value, which may be written as a text; the default for anything else."""
        value = self.get(name, default)
        if isinstance(value, str):
            return {"true": True, "false": False}.get(value, default)
        return value if isinstance(value, bool) else default

    def object(self, name: str) -> "JsonObject":
        """Return a member that is an object; an empty one for any other."""
        value = self.get(name)
        return value if isinstance(value, JsonObject) else JsonObject(self.lines.get(name, self.line))

    def objects(self, name: str) -> list["JsonObject"]:
        """Return the objects in a member that is an array."""
        value = self.get(name)
        return [each for each in value if isinstance(each, JsonObject)] if isinstance(value, list) else []

    def line_of(self, name: str) -> int:
        """Return the line of a member; that of the object if it is not there."""
        return self.lines.get(name, self.line)


def parse_json(text: str, file: str) -> JsonObject:
    """Return the object that a text contains. Raises ConfigError, with one problem, for anything else."""
    reader = _Reader(text, file)
    value = reader.document()
    if not isinstance(value, JsonObject):
        raise reader.refused("is no JSON object")
    return value


def read_json(path: Path) -> JsonObject:
    """Return the object in a file. Raises ConfigError."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError([Problem(str(path), 0, "file", f"cannot be read: {error.strerror}")]) from error
    if len(data) > SIZE_LIMIT_BYTES:
        raise ConfigError([Problem(str(path), 0, "file", f"is larger than {SIZE_LIMIT_BYTES} bytes")])
    try:
        return parse_json(data.decode("utf-8-sig"), str(path))
    except UnicodeDecodeError:
        raise ConfigError([Problem(str(path), 0, "file", "is not UTF-8")]) from None


class _Reader:
    """Goes through a text once."""

    def __init__(self, text: str, file: str) -> None:
        self._text = text
        self._file = file
        self._offset = 0
        self._line = 1
        self._counted = 0

    def document(self) -> object:
        """Return the only value of the text."""
        value = self._value(0)
        self._skip()
        if self._offset < len(self._text):
            raise self.refused("has something after its end")
        return value

    def refused(self, text: str) -> ConfigError:
        """Return the error about the present place."""
        return ConfigError([Problem(self._file, self._here(), "JSON", text)])

    def _here(self) -> int:
        """Return the line of the present place."""
        self._line += self._text.count("\n", self._counted, self._offset)
        self._counted = self._offset
        return self._line

    def _skip(self) -> str:
        """Skip white space and comments; return the next character, or nothing at the end."""
        match = _SPACE.match(self._text, self._offset)
        assert match is not None, "no space is also a match"
        self._offset = match.end()
        return self._text[self._offset : self._offset + 1]

    def _value(self, depth: int) -> object:
        if depth > DEPTH_LIMIT:
            raise self.refused(f"is nested more than {DEPTH_LIMIT} deep")
        first = self._skip()
        if first == "{":
            return self._object(depth)
        if first == "[":
            return self._array(depth)
        if first == '"':
            return self._string()
        for word, value in _WORDS.items():
            if self._text.startswith(word, self._offset):
                self._offset += len(word)
                return value
        match = _NUMBER.match(self._text, self._offset)
        if match is None or len(match[0]) > 400:
            raise self.refused("has no value here")
        self._offset = match.end()
        return float(match[0]) if match[1] or match[2] else int(match[0])

    def _string(self) -> str:
        match = _STRING.match(self._text, self._offset)
        try:
            text = json.loads(match[0] if match is not None else "")
        except ValueError:
            raise self.refused("has a text that does not end, or with characters that are not allowed") from None
        self._offset += len(match[0]) if match is not None else 0
        return str(text)

    def _object(self, depth: int) -> JsonObject:
        made = JsonObject(self._here())
        self._offset += 1
        if self._skip() == "}":
            self._offset += 1
            return made
        while True:
            if self._skip() != '"':
                raise self.refused("has no name of a member here")
            line = self._here()
            name = self._string()
            if self._skip() != ":":
                raise self.refused("has no colon here")
            self._offset += 1
            made[name] = self._value(depth + 1)
            made.lines[name] = line
            if self._ends("}"):
                return made

    def _array(self, depth: int) -> list[object]:
        made: list[object] = []
        self._offset += 1
        if self._skip() == "]":
            self._offset += 1
            return made
        while True:
            made.append(self._value(depth + 1))
            if self._ends("]"):
                return made

    def _ends(self, closing: str) -> bool:
        """Skip a comma or the end of an object or array; tell whether it was the end."""
        found = self._skip()
        if found not in (",", closing) or not found:
            raise self.refused(f"has neither a comma nor {closing} here")
        self._offset += 1
        return found == closing
