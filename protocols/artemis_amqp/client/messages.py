"""Whole messages, for programs that send or read a few: encoded from, and decoded to, a neutral view.

Programs that count microseconds write and read single sections instead.
"""

from typing import Final

from attrs import field, frozen

from artemis_amqp.engine.codec import encode_value
from artemis_amqp.engine.types import Described, Symbol, ULong
from artemis_amqp.messages.arrival import split_sections
from artemis_amqp.messages.conversion import from_view, plain, to_view, typed
from artemis_amqp.messages.delivery import header_bytes
from artemis_amqp.messages.sections import MESSAGE_ANNOTATIONS
from artemis_py.core.messages.message import DEFAULT_PRIORITY
from artemis_py.core.messages.view import MessageView

FOR_EVER: Final = -1
"""Time to live of a message that does not expire."""


@frozen(kw_only=True)
class Message:
    """A message and its header."""

    content: MessageView = field(factory=MessageView)
    durable: bool = False
    priority: int = DEFAULT_PRIORITY
    """Priority from 0 to 9."""
    ttl_ms: int = FOR_EVER
    """Milliseconds to live; -1: for ever."""
    delivery_count: int = 0
    """Number of earlier attempts to deliver it."""


def encode_message(message: Message) -> bytes:
    """Return the octets of a message: a body of bytes as data section, any other as amqp-value.

    What AMQP cannot represent in properties is left out, as `from_view` says. Raises TypeError or ValueError for any
    other value of no AMQP type or beyond its range.
    """
    head = header_bytes(message.durable, message.priority, message.ttl_ms, False, message.delivery_count)
    content = message.content
    if content.annotations:
        annotations = {Symbol(name): typed(value) for name, value in content.annotations.items()}
        head += encode_value(Described(ULong(MESSAGE_ANNOTATIONS), annotations))
    return head + from_view(content)[1]


def decode_message(payload: bytes) -> Message:
    """Return the message of a whole delivery. Raises MalformedValue."""
    sections = split_sections(payload)
    content = to_view(b"", sections.bare)
    # The decoded ones: `annotations_raw` is without those that a broker sets itself, such as the sequence number.
    content.annotations = {str(key): plain(value) for key, value in (sections.annotations or {}).items()}
    return Message(
        content=content,
        durable=sections.durable,
        priority=sections.priority,
        ttl_ms=sections.ttl_ms,
        delivery_count=sections.delivery_count,
    )
