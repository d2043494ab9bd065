"""Parses the text of values, and explains what is wrong with it."""

import difflib
import re
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final, TypeVar

from attrs import NOTHING

from artemis_py.core.settings.declaration import Kind, Option

Number = TypeVar("Number", int, float)

_INTEGER: Final = re.compile(r"-?[0-9]{1,18}")
_DECIMAL: Final = re.compile(r"-?([0-9]{1,15}(\.[0-9]{0,15})?|\.[0-9]{1,15})")
_SIZE: Final = re.compile(r"(-?[0-9]{1,18}) ?(?:([KMG])(?:I?B)?)?", re.IGNORECASE)
_MULTIPLES: Final = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}

# A longer list of alternatives does not help; the documentation has it.
_LIST_LIMIT: Final = 12


def parse_value(option: Option, text: str) -> object:
    """Parse the value of an option. Raises ValueError with a text that says what would be right."""
    kind = option.kind
    text = text.strip()
    if not isinstance(kind, Kind):
        return _member(option.words, text)
    match kind:
        case Kind.TEXT:
            return _text(option, text)
        case Kind.NAMES:
            return split_names(text)
        case Kind.PATTERN:
            return _pattern(text)
        case Kind.BOOLEAN:
            if text not in ("true", "false"):
                raise ValueError(f'"{text}" is neither true nor false; write one of the two in lower case')
            return text == "true"
        case Kind.BYTES:
            return _checked(option, _size(text), text)
        case Kind.FACTOR:
            if not _DECIMAL.fullmatch(text):
                raise ValueError(f'"{text}" is not a number; write one such as 1.5')
            return _checked(option, float(text), text)
        case _:
            return _checked(option, _integer(kind, text), text)


def split_names(text: str) -> tuple[str, ...]:
    """Return the names of a comma-separated list, without the blanks around them."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def suggest(name: str, legal: Iterable[str]) -> str:
    """Return the end of a message about an illegal name: a suggestion of the name that was meant."""
    names = sorted(legal)
    by_lower_case = {each.lower(): each for each in names}
    near = difflib.get_close_matches(name.lower(), by_lower_case, n=1)
    if near:
        return f"did you mean {by_lower_case[near[0]]}?"
    if not names:
        return "remove it"
    if len(names) <= _LIST_LIMIT:
        return f"use one of {', '.join(names)}"
    return "docs/configuration.md lists the legal ones"


def _text(option: Option, text: str) -> str:
    if option.minimum is not None and len(text) < option.minimum and not text:
        default = "" if option.default is NOTHING else ", or remove it to get the default"
        raise ValueError(f"is empty; write a value{default}")
    if option.minimum is not None and option.minimum == option.maximum and len(text) != option.minimum:
        raise ValueError(f'"{text}" has {len(text)} characters; write {option.minimum:g}')
    return text


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f'"{text}" is not a regular expression of Python: {error}') from None
    return text


def _member(words: Mapping[str, Enum], text: str) -> Enum:
    try:
        return words[text]
    except KeyError:
        raise ValueError(f'"{text}" is unknown; {suggest(text, words)}') from None


def _integer(kind: Kind, text: str) -> int:
    if not _INTEGER.fullmatch(text):
        unit = "" if kind is Kind.COUNT else f" of {kind.value}"
        raise ValueError(f'"{text}" is not a whole number; write a number{unit} without a unit')
    return int(text)


def _size(text: str) -> int:
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(f'"{text}" is not a size; write bytes, or a number with K, M or G such as 10M')
    return int(match[1]) * _MULTIPLES[(match[2] or "").upper()]


def _checked(option: Option, value: Number, text: str) -> Number:
    if option.minimum is not None and value < option.minimum:
        raise ValueError(f"{text} is too small; write {option.minimum:g} or more")
    if option.maximum is not None and value > option.maximum:
        raise ValueError(f"{text} is too large; write {option.maximum:g} or less")
    return value
