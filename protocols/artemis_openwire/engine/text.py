"""Java's modified UTF-8, in which OpenWire encodes every text (openwire §4.1).

It differs from UTF-8 in two points: U+0000 has two octets (C0 80), and a character above U+FFFF is written as two
surrogates of three octets each. Clients that are not written in Java send ordinary UTF-8, so both forms are read.
"""

from typing import Final

from artemis_py.errors import MalformedFrame

MAX_TEXT_BYTES: Final = 65535
"""Octets of a text whose length has two octets."""

_LONG_NUL: Final = b"\xc0\x80"


def decode_text(raw: bytes) -> str:
    """Decode what a user wrote: half of a surrogate pair, which Java allows, becomes U+FFFD. Raises MalformedFrame."""
    if raw.isascii():
        return raw.decode("ascii")
    return _join_surrogates(_decode(raw), "replace")


def decode_name(raw: bytes) -> str:
    """Decode a name. Half of a surrogate pair raises MalformedFrame: replaced, it would be the name of others too."""
    if raw.isascii():
        return raw.decode("ascii")
    try:
        return _join_surrogates(_decode(raw), "strict")
    except UnicodeDecodeError:
        raise MalformedFrame("a name contains half of a surrogate pair") from None


def encode_text(text: str) -> bytes:
    """Encode a text as Java does."""
    if text.isascii():
        raw = text.encode("ascii")
    else:
        if max(text) > "\uffff":
            text = "".join([_split(character) if character > "\uffff" else character for character in text])
        raw = text.encode("utf-8", "surrogatepass")
    return raw.replace(b"\0", _LONG_NUL) if b"\0" in raw else raw


def utf16_length(text: str) -> int:
    """Return the length of a text as Java counts it."""
    return len(text) if text.isascii() else len(text.encode("utf-16-be", "surrogatepass")) // 2


def _decode(raw: bytes) -> str:
    """Decode without joining surrogates."""
    if _LONG_NUL in raw:
        # 0xC0 begins nothing else that is valid.
        raw = raw.replace(_LONG_NUL, b"\0")
    try:
        return raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise MalformedFrame("a text is not in modified UTF-8") from None


def _join_surrogates(text: str, errors: str) -> str:
    """Make characters of surrogate pairs."""
    if any("\ud800" <= character <= "\udfff" for character in text):
        return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", errors)
    return text


def _split(character: str) -> str:
    """Return the surrogate pair of a character."""
    offset = ord(character) - 0x10000
    return chr(0xD800 + (offset >> 10)) + chr(0xDC00 + (offset & 0x3FF))
