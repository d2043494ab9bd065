"""Messages as octets: what is encoded is decoded, whichever messages were encoded before."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from artemis_amqp.messages.format import AMQP_FORMAT
from artemis_openwire.messages.format import OPENWIRE_FORMAT
from artemis_py.core.messages import record
from artemis_py.core.messages.message import Message
from artemis_py.core.messages.record import MissingFormat, decode_message, encode_message
from artemis_py.errors import DamagedValue

FORMATS = {format.name: format for format in (AMQP_FORMAT, OPENWIRE_FORMAT)}
# Few values of each, so that many messages have the same as the one before, and others differ in one field only.
MESSAGES = st.builds(
    lambda fields, id, has_group, extra: _message(fields, id, has_group, extra),
    st.tuples(
        st.sampled_from(list(FORMATS.values())),
        st.sampled_from(["orders", "invoices"]),
        st.binary(max_size=3),
        st.sampled_from([b"", b"a", b"b", b"ab"]),
        st.just(True),
        st.sampled_from([0, 4, 9]),
        st.sampled_from([0, 1, 1 << 40]),
        st.sampled_from([0, 5]),
        st.sampled_from([-1, 0, 1]),
        st.sampled_from(["", "someone"]),
    ),
    st.integers(1, (1 << 63) - 1),
    st.booleans(),
    st.sampled_from([None, None, {"a": 1}, {"a": True}, {"a": "1"}, {"a": "é"}, {"b": "1"}, {"a": "1", "b": "1"}]),
)


def _message(fields: tuple[object, ...], id: int, has_group: bool, extra: dict[str, object] | None) -> Message:
    message = Message(*fields)  # type: ignore[arg-type]
    message.id = id
    message.has_group = has_group
    message.extra = None if extra is None else dict(extra)
    return message


def _state(message: Message) -> tuple[object, ...]:
    return (
        *(message.format, message.address, message.data, message.annotations, message.durable, message.priority),
        *(message.expires_ms, message.delivery_time_ms, message.routing_type, message.producer),
        *(message.id, message.has_group, message.extra),
    )


@given(st.lists(MESSAGES, min_size=1, max_size=12))
def test_a_message_is_stored_as_if_it_were_the_first(messages: list[Message]) -> None:
    """What is kept from one message to the next changes nothing."""
    for message in messages:
        found = encode_message(message, b"before")

        record._LAST.clear()
        record._LAST_WITH_EXTRA.clear()
        assert found == encode_message(message, b"before")
        assert _state(decode_message(found[6:], FORMATS, None)) == _state(message)


def test_extra_may_change_after_a_message_was_stored() -> None:
    """The next one is compared with what was written, and not with what the former one has now."""
    messages = [Message(AMQP_FORMAT, "orders", b"") for _ in range(2)]
    for message in messages:
        message.set_extra("a", "1")
    encode_message(messages[0])
    for message in messages:
        message.set_extra("a", "2")

    found = encode_message(messages[1])

    assert decode_message(found, FORMATS, None).extra == {"a": "2"}


def test_a_cut_message_is_damaged_although_one_like_it_was_decoded() -> None:
    """What is kept from one message to the next says how long the annotations are."""
    octets = encode_message(Message(AMQP_FORMAT, "orders", b"", b"annotations"))
    decode_message(octets, FORMATS, None)

    for length in range(len(octets)):
        with pytest.raises(DamagedValue):
            decode_message(octets[:length], FORMATS, None)


def test_a_format_is_looked_up_where_the_caller_says() -> None:
    """The same octets, decoded with other formats."""
    octets = encode_message(Message(AMQP_FORMAT, "orders", b""))
    assert decode_message(octets, FORMATS, None).format is AMQP_FORMAT

    assert isinstance(decode_message(octets, {}, None).format, MissingFormat)
