"""Lexer of selectors: text -> tokens (artemis-model §3.12).

It knows what a name, a number or a string looks like, but not where it may stand.
"""

import re
from enum import Enum
from typing import Final

from attrs import frozen

from artemis_py.errors import InvalidFilter

LENGTH_LIMIT: Final = 32 * 1024
"""Characters of one selector (reliability §4)."""

INTEGER_LIMIT: Final = 1 << 64
"""Integers of a selector stay below this magnitude: the widest type of any protocol is AMQP's unsigned long."""

ANNOTATION_PREFIX: Final = "amqp.annotation."
"""Prefix of a message annotation, as Event Hubs writes it (amqp10 §11.1)."""

KEYWORDS: Final = frozenset(
    ["AND", "BETWEEN", "ESCAPE", "FALSE", "IN", "IS", "LIKE", "NOT", "NULL", "OR", "TRUE", "XPATH", "XQUERY"]
)


class Kind(Enum):
    """Kind of a token; the values are the words for it in error texts."""

    NAME = "a name"
    NUMBER = "a number"
    STRING = "a string"
    KEYWORD = "a keyword"
    SYMBOL = "an operator"
    END = "the end of the selector"


@frozen
class Token:
    """One word of a selector."""

    kind: Kind
    value: str | int | float
    """The name, the number, the contents of the string, the keyword in capitals or the operator."""
    offset: int
    """Offset of its first character in the text, from 0."""
    text: str
    """Text as it was written."""


# One alternative per kind of token. Every repetition is possessive, so nothing is ever tried twice: the time is linear
# in the text. A hyphen belongs to a name only before another letter or digit, so that `m.x--why` ends in a comment.
# Hyphens are part of names with certain prefixes, or of all names with `hyphenated_props:`.
_HYPHENATED: Final = r"(?:[A-Za-z0-9_$.]++|-(?=[A-Za-z0-9_$]))*+"
_PLAIN: Final = r"[A-Za-z0-9_$]*+(?:\.[A-Za-z0-9_$]++)*+"
_TOKEN: Final = r"""
    (?P<space>   \s++ | --[^\r\n]*+ | /\*(?:[^*]++|\*(?!/))*+\*/ )
  | (?P<name>    %s )
  | (?P<quoted>  "(?:[^"]++|"")*+" )
  | (?P<string>  '(?:[^']++|'')*+' )
  | (?P<float>   (?: [0-9]++\.[0-9]*+ | \.[0-9]++ )(?:[eE][+-]?[0-9]++)? | [0-9]++[eE][+-]?[0-9]++ )
  | (?P<integer> 0[xX][0-9a-fA-F]++[lL]? | [0-9]++[lL]? )
  | (?P<symbol>  <> | <= | >= | /(?!\*) | [=<>+\-*%%(),] )
"""
_ANNOTATION: Final = r"(?:amqp\.annotation\.|m\.)" + _HYPHENATED
_STANDARD: Final = re.compile(_TOKEN % f"{_ANNOTATION}|[A-Za-z_$]{_PLAIN}", re.VERBOSE | re.ASCII)
_ALL_HYPHENATED: Final = re.compile(_TOKEN % f"[A-Za-z_$]{_HYPHENATED}", re.VERBOSE | re.ASCII)

_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?")
_NUMBER_LENGTH_LIMIT: Final = 64


def invalid(offset: int, message: str) -> InvalidFilter:
    """Return the error for a mistake in a selector; positions in its text count from 1."""
    return InvalidFilter(f"selector, character {offset + 1}: {message}")


def tokenize(text: str, start: int, hyphenated: bool) -> list[Token]:
    """Return the tokens of `text` from `start` on, the last one of kind END. Raises InvalidFilter."""
    pattern = _ALL_HYPHENATED if hyphenated else _STANDARD
    tokens: list[Token] = []
    offset = start
    while offset < len(text):
        match = pattern.match(text, offset)
        if match is None:
            raise _unreadable(text, offset)
        kind = match.lastgroup
        word = match.group()
        if kind != "space":
            tokens.append(_token(kind, word, offset))
        offset = match.end()
    tokens.append(Token(Kind.END, "", len(text), ""))
    return tokens


def to_number(text: str) -> int | float | None:
    """Return the decimal number that a string contains, or None. Looks at a bounded number of characters."""
    if len(text) > _NUMBER_LENGTH_LIMIT or not _NUMBER.fullmatch(text):
        return None
    return float(text) if any(character in text for character in ".eE") else int(text)


def shorten(text: str) -> str:
    """Return a client's text for an error message: quoted, escaped and cut to the length of a line."""
    return ascii(text if len(text) <= 40 else text[:40] + "...")


def _token(kind: str | None, word: str, offset: int) -> Token:
    if kind == "name":
        keyword = word.upper()
        if keyword in KEYWORDS:
            return Token(Kind.KEYWORD, keyword, offset, word)
        if word.endswith("."):
            raise invalid(offset + len(word), "expected the rest of the name after the dot")
        return Token(Kind.NAME, word, offset, word)
    if kind == "quoted":
        return Token(Kind.NAME, word[1:-1].replace('""', '"'), offset, word)
    if kind == "string":
        return Token(Kind.STRING, word[1:-1].replace("''", "'"), offset, word)
    if kind == "float":
        return Token(Kind.NUMBER, float(word), offset, word)
    if kind == "integer":
        return Token(Kind.NUMBER, _integer(word, offset), offset, word)
    return Token(Kind.SYMBOL, word, offset, word)


def _integer(word: str, offset: int) -> int:
    """Read a decimal, `0x` hexadecimal or `0` octal number, with an optional `L` that has no effect."""
    digits = word.rstrip("lL")
    base = 16 if digits[:2] in ("0x", "0X") else 8 if digits[0] == "0" else 10
    # Octal needs the most digits for a value: 22. The length is checked first because int() of a long text is slow.
    too_large = len(digits.lstrip("0")) > 22
    try:
        value = INTEGER_LIMIT if too_large else int(digits, base)
    except ValueError:
        raise invalid(offset, f"{shorten(word)} starts with 0 and is not an octal number") from None
    if value >= INTEGER_LIMIT:
        raise invalid(offset, f"{shorten(word)} does not fit in 64 bits")
    return value


def _unreadable(text: str, offset: int) -> InvalidFilter:
    if text[offset] == "'":
        return invalid(offset, "the string has no closing '")
    if text[offset] == '"':
        return invalid(offset, 'the quoted name has no closing "')
    if text.startswith("/*", offset):
        return invalid(offset, "the comment has no closing */")
    return invalid(
        offset, f"{text[offset]!a} is not part of the language; put names with such characters in double quotes"
    )
