"""The broker's own message format, core/plain.py."""

import uuid

import pytest

from artemis_py.core.messages.builtin_format import PLAIN_FORMAT, plain_message
from artemis_py.core.messages.message import Message
from artemis_py.core.messages.view import MessageView
from artemis_py.errors import MalformedFrame


def view_of_everything() -> MessageView:
    return MessageView(
        message_id=uuid.UUID(int=7),
        correlation_id=b"\x00\xff",
        user_id=b"me",
        to="a",
        subject="s",
        reply_to="r",
        content_type="text/plain",
        content_encoding="none",
        creation_time_ms=1,
        group_id="g",
        group_sequence=2,
        reply_to_group_id="h",
        properties={"text": "ü", "flag": True, "number": 2**63, "float": 1.5, "nothing": None},
        annotations={"x": [1, {"$bytes": "not a tag"}, {3: b"raw"}]},
        body={"nested": [None, {"k": uuid.UUID(int=1)}]},
    )


def test_bytes_of_a_message_give_the_same_view_back() -> None:
    """A restart has only the bytes."""
    written = plain_message("a", view_of_everything(), durable=True)
    read = Message(PLAIN_FORMAT, "a", written.data)

    assert read.view == view_of_everything()


def test_a_new_message_shows_the_view_it_was_built_from() -> None:
    view = view_of_everything()

    assert plain_message("a", view).view is view


def test_selectors_find_properties_before_header_names() -> None:
    message = plain_message("a", MessageView(subject="s", group_id="g", properties={"JMSType": "mine", "n": 1}))

    assert [message.lookup(name) for name in ("JMSType", "n", "JMSXGroupID", "missing")] == ["mine", 1, "g", None]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"[]",
        b'{"body": {"$bytes": "!"}}',
        b'{"body": {"$bytes": 1}}',
        b'{"body": {"$map": 5}}',
        b'{"body": {"$map": [[[], 1]]}}',
        b'{"body": {"$uuid": "x"}}',
        b'{"body": {"other": 1}}',
        b'{"other": 1}',
        b'{"properties": 1}',
        b'{"body": ' + b"[" * 100_000,
    ],
)
def test_damaged_bytes_are_a_protocol_error(data: bytes) -> None:
    """MessageFormat.view raises ProtocolError and nothing else."""
    with pytest.raises(MalformedFrame):
        assert Message(PLAIN_FORMAT, "a", data).view


def test_a_value_no_view_may_hold_is_refused() -> None:
    with pytest.raises(TypeError, match="object"):
        plain_message("a", MessageView(body=object()))
