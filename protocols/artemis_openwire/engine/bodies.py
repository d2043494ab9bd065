"""Bodies of messages: what `content` means for each kind, compressed or not (openwire §9.3).

The broker passes bodies on as they are. It decodes one only for a consumer of another protocol.
"""

import zlib
from struct import Struct
from typing import Final

from artemis_openwire.engine.commands import (
    ActiveMQBytesMessage,
    ActiveMQMapMessage,
    ActiveMQObjectMessage,
    ActiveMQStreamMessage,
    ActiveMQTextMessage,
)
from artemis_openwire.engine.text import decode_text, encode_text
from artemis_openwire.engine.values import MAX_BODY_VALUES, read_map, read_values
from artemis_py.errors import MalformedFrame

_I32: Final = Struct(">i")


def read_body(code: int, content: bytes | None, compressed: bool, max_bytes: int) -> object:
    """Decode the body of a message of type `code`; a compressed one may have `max_bytes` at most.

    A text is a str or None, a map a dict, a stream a list. Octets are bytes, and so is a serialised Java object, which
    nothing here looks into. Raises MalformedFrame.
    """
    if content is not None and compressed:
        content = inflate(code, content, max_bytes)
    if code == ActiveMQTextMessage.code:
        return read_text(content)
    if code == ActiveMQMapMessage.code:
        return read_map(content, MAX_BODY_VALUES)
    if code == ActiveMQStreamMessage.code:
        return read_values(content)
    if code in (ActiveMQBytesMessage.code, ActiveMQObjectMessage.code):
        return content or b""
    return content


def inflate(code: int, content: bytes, max_bytes: int) -> bytes:
    """Decompress a body. Raises MalformedFrame if it is damaged, or larger than `max_bytes`."""
    wanted = max_bytes + 1
    has_size = code == ActiveMQBytesMessage.code
    if has_size:
        # Only this kind has its uncompressed size in front. The Java client compresses its whole buffer, so what comes
        # behind the size is no part of the body.
        wanted = _I32.unpack_from(content)[0] if len(content) >= 4 else -1
        content = content[4:]
        if wanted < 0:
            raise MalformedFrame("a compressed body without its size")
        if wanted > max_bytes:
            raise MalformedFrame(f"a compressed body has more than {max_bytes} octets")
        if wanted == 0:
            return b""
    unpacker = zlib.decompressobj()
    try:
        found = unpacker.decompress(content, wanted)
    except zlib.error as error:
        raise MalformedFrame(f"a compressed body is damaged: {error}") from None
    if len(found) > max_bytes:
        raise MalformedFrame(f"a compressed body has more than {max_bytes} octets")
    if not unpacker.eof and (not has_size or len(found) < wanted):
        raise MalformedFrame("a compressed body is cut off")
    return found


def read_text(content: bytes | None) -> str | None:
    """Decode the body of a text message; None if it has no text. Raises MalformedFrame."""
    if content is None:
        return None
    if len(content) < 4:
        raise MalformedFrame("a text message without the length of its text")
    size = _I32.unpack_from(content)[0]
    if size == -1:
        return None
    if size != len(content) - 4:
        raise MalformedFrame(f"a text of {size} octets in {len(content) - 4}")
    return decode_text(content[4:])


def write_text(text: str | None) -> bytes | None:
    """Encode the body of a text message."""
    if text is None:
        return None
    raw = encode_text(text)
    return _I32.pack(len(raw)) + raw
