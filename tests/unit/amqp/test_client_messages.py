"""Whole messages of the client side, read and written; Proton is the referee."""

from typing import Any
from uuid import UUID

import proton
import pytest

from artemis_amqp.client import MalformedValue
from artemis_amqp.client.messages import Message, decode_message, encode_message
from artemis_py.core.messages.view import MessageView

FULL = Message(
    content=MessageView(
        message_id=7,
        to="orders",
        subject="s",
        reply_to="answers",
        correlation_id="c",
        content_type="text/plain",
        group_id="g",
        properties={"n": 5, "flag": True, "name": "x", "share": 0.5},
        annotations={"x-opt-note": "here"},
        body="text",
    ),
    durable=True,
    priority=7,
    ttl_ms=60_000,
)


def test_what_is_encoded_is_decoded() -> None:
    assert decode_message(encode_message(FULL)) == FULL


def test_proton_reads_what_is_encoded() -> None:
    read: Any = proton.Message()
    read.decode(encode_message(FULL))

    assert (read.id, read.address, read.subject, read.reply_to, read.correlation_id) == (
        7,
        "orders",
        "s",
        "answers",
        "c",
    )
    assert (read.durable, read.priority, read.ttl, read.content_type, read.group_id) == (
        True,
        7,
        60.0,
        "text/plain",
        "g",
    )
    assert (read.properties, read.annotations, read.body) == (
        {"n": 5, "flag": True, "name": "x", "share": 0.5},
        {"x-opt-note": "here"},
        "text",
    )


@pytest.mark.parametrize(
    "body", ["text", b"octets", None, 5, 1.5, True, [1, "a", [2]], {"k": [b"\x00"]}, UUID(int=1), proton.symbol("s")]
)
def test_a_body_that_proton_wrote_is_read(body: Any) -> None:
    written: Any = proton.Message(body=body, durable=True)
    written.inferred = isinstance(body, bytes)
    message = decode_message(bytes(written.encode()))

    assert message.content.body == body
    assert message.durable


def test_annotations_that_a_broker_sets_itself_are_read_too() -> None:
    written: Any = proton.Message(body="x", annotations={proton.symbol("x-opt-sequence-number"): 3})

    assert decode_message(bytes(written.encode())).content.annotations == {"x-opt-sequence-number": 3}


def test_octets_that_are_no_message_are_refused() -> None:
    with pytest.raises(MalformedValue):
        decode_message(b"\x00\x53\x99\x40")


def test_a_text_that_is_not_utf_8_is_refused() -> None:
    """As an argument of a command may be."""
    with pytest.raises(ValueError, match="surrogates"):
        encode_message(Message(content=MessageView(body="\udcff")))
