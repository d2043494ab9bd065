"""What is written in front of a message that goes to another broker."""

import pytest
from proton import Message, symbol

from artemis_amqp.messages.arrival import split_sections
from artemis_amqp.messages.delivery import forwarded_annotations, header_bytes, with_property


def forwarded(message: Message, extra: dict[str, object] | None = None) -> Message:
    """Proton reads what is sent on."""
    sections = split_sections(bytes(message.encode()))
    front, rest = with_property(sections.bare, "_AMQ_DUPL_ID", "id")
    made = Message()
    made.decode(
        header_bytes(True, 4, -1, False, 0) + forwarded_annotations(sections.annotations_raw, extra) + front + rest
    )
    return made


@pytest.mark.parametrize(
    "properties", [None, {}, {"a": 1, "b": "two"}, {f"k{number}": number for number in range(300)}]
)
def test_an_id_is_added_to_the_properties_of_a_message(properties: dict[str, object] | None) -> None:
    """All that was there stays, and so do the properties section and the body."""
    made = forwarded(Message(id="m", subject="s", body=["b"], properties=properties))

    assert made.properties == {**(properties or {}), "_AMQ_DUPL_ID": "id"}
    assert (made.id, made.subject, made.body) == ("m", "s", ["b"])


def test_annotations_are_those_that_came_and_the_brokers_own() -> None:
    """Without a sequence number, which the other broker gives."""
    message = Message(body="b")
    message.annotations = {symbol("x-opt-mine"): 1, symbol("x-opt-sequence-number"): 7}
    made = forwarded(message, {"_AMQ_ORIG_ADDRESS": "a", "mesh-duplicate-id": "hidden"})

    assert {str(key): value for key, value in made.annotations.items()} == {"x-opt-mine": 1, "x-opt-ORIG-ADDRESS": "a"}
    assert forwarded_annotations(b"", None) == b""
