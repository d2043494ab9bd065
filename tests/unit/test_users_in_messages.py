"""The validated user in the formats of the protocols: where its clients see it, and what they cannot put there."""

from collections.abc import Callable
from typing import Any

import pytest

from artemis_amqp.engine.codec import encode_value, read_value
from artemis_amqp.engine.performatives import Properties as AmqpProperties
from artemis_amqp.engine.performatives import encode
from artemis_amqp.engine.types import Symbol
from artemis_amqp.messages.arrival import split_sections
from artemis_amqp.messages.delivery import annotations_bytes
from artemis_amqp.messages.encoding import encoded
from artemis_amqp.messages.format import AMQP_FORMAT
from artemis_amqp.messages.sections import read_properties as read_amqp_properties
from artemis_mqtt.broker.format import MqttFormat, converted, renamed, retained_copy
from artemis_mqtt.engine.packets import PacketType
from artemis_mqtt.engine.properties import Properties, read_properties, write_properties
from artemis_openwire.messages.delivery import delivery_of
from artemis_openwire.messages.format import read_fields
from artemis_py.core.messages.message import (
    MESSAGE_OVERHEAD_BYTES,
    ROUTING_KEY,
    VALIDATED_USER,
    Message,
    validated_user,
)
from artemis_py.core.names.syntax import WildcardSyntax
from artemis_py.core.routing.domain import Domain
from artemis_py.core.runtime.access import Permission, Subject
from artemis_py.core.sessions.session import Session
from artemis_py.core.sessions.validated_user import ValidatedUser
from artemis_py.errors import NotAuthorized
from artemis_py.storetools.core_message import to_core
from tests.core_harness import make_domain
from tests.openwire_messages import RUN, arrived, delivered, properties

SYNTAX = WildcardSyntax()
MQTT = MqttFormat(SYNTAX)
FORGED = {VALIDATED_USER: "eve", "JMSXUserID": "eve", "colour": "red"}


class Locked:
    """Access control that allows nothing."""

    def allows(self, subject: Subject, permission: Permission, address: str, queue: str | None = None) -> bool:
        return False


def named(message: Message, user: str | None = "ann") -> Message:
    """The message after a client with this user has sent it."""
    domain: Domain = make_domain()
    domain.access = Locked()
    ValidatedUser(user, True, False).put_on(message, Session(domain, Subject(user)))
    assert message.size == len(message.data) + len(message.annotations) + MESSAGE_OVERHEAD_BYTES
    return message


def amqp(user_id: bytes | None = None, application: dict[str, Any] | None = None, body: bytes = b"m") -> Message:
    """A message of AMQP, with an annotation that only the broker may set."""
    payload = b"\x00\x53\x72" + encode_value({Symbol("x-opt-VALIDATED-USER"): "eve", Symbol("x-opt-a"): 1})
    if user_id is not None:
        payload += encode(AmqpProperties(user_id=user_id))
    if application is not None:
        payload += b"\x00\x53\x74" + encode_value(application)
    sections = split_sections(payload + b"\x00\x53\x75" + encode_value(body))
    return Message(AMQP_FORMAT, "a", sections.bare, sections.annotations_raw)


def mqtt(*user_properties: tuple[str, str]) -> Message:
    """A message of MQTT."""
    return Message(MQTT, "a", b"m", b"\x01" + write_properties(Properties(user_properties=user_properties)))


def openwire(**fields: Any) -> Message:
    """A message of OpenWire."""
    return arrived(content=b"\0\0\0\1m", **fields)


def annotations_of(message: Message) -> dict[str, object]:
    """What a client of AMQP finds among the annotations."""
    section = annotations_bytes(encoded(message)[0], 1, message.extra)
    value, _ = read_value(section, 3, len(section), 1)
    assert isinstance(value, dict)
    return {str(key): each for key, each in value.items()}


def user_properties_of(annotations: bytes) -> list[tuple[str, str]]:
    """User properties of a message as it goes to clients of MQTT."""
    return list(read_properties(annotations, 1, len(annotations), PacketType.PUBLISH).user_properties)


# --- AMQP ---


def test_amqp_clients_find_the_user_among_the_annotations() -> None:
    """The bare message is the same octet for octet (AMQP 1.0 §3.2)."""
    before = amqp()
    bare = before.data
    found = annotations_of(named(before))

    assert found["x-opt-VALIDATED-USER"] == "ann"
    assert found["x-opt-a"] == 1
    assert encoded(before)[1] == bare


def test_an_annotation_alone_is_kept_encoded_for_each_user() -> None:
    for user in ("ann", "bob", "ann", "x" * 500, ""):
        message = Message(AMQP_FORMAT, "a", b"\x00\x53\x77\x40")
        message.extra = {VALIDATED_USER: user}
        assert annotations_of(message) == {"x-opt-sequence-number": 1, "x-opt-VALIDATED-USER": user}
        message.extra = {ROUTING_KEY: user}
        assert annotations_of(message) == {"x-opt-sequence-number": 1, "x-opt-ROUTING-KEY": user}


def test_the_annotation_cannot_be_sent() -> None:
    """Whether the option is on or not."""
    assert "x-opt-VALIDATED-USER" not in annotations_of(amqp())
    assert "x-opt-VALIDATED-USER" not in annotations_of(named(amqp(), None))


@pytest.mark.parametrize(
    "message",
    [
        lambda: amqp(b"eve"),
        lambda: amqp(application={VALIDATED_USER: "eve"}),
        lambda: amqp(application={"JMSXUserID": "eve"}),
        lambda: amqp(application={"JMSXUserID": 5}),
    ],
)
@pytest.mark.parametrize("user", ["ann", None])
def test_an_amqp_message_that_names_another_user_is_refused(message: Callable[[], Message], user: str | None) -> None:
    """It could not be changed, and JMS clients would take it for the truth."""
    with pytest.raises(NotAuthorized, match="names another user"):
        named(message(), user)


@pytest.mark.parametrize(
    "message",
    [
        lambda: amqp(b"ann"),
        lambda: amqp(b""),
        lambda: amqp(application={VALIDATED_USER: "ann", "JMSXUserID": "ann"}),
        lambda: amqp(application={"other": 1}, body=b"JMSXUserID"),
        lambda: amqp(application={"name": "JMSXUserID"}),
    ],
)
def test_other_amqp_messages_are_not(message: Callable[[], Message]) -> None:
    assert validated_user(named(message())) == "ann"


def test_selectors_find_the_user_of_a_message_that_names_none() -> None:
    message = named(amqp())

    assert message.lookup("JMSXUserID") == message.lookup(VALIDATED_USER) == "ann"
    assert message.lookup("amqp.user_id") is None


# --- MQTT ---


def test_mqtt_clients_find_the_user_in_a_user_property() -> None:
    message = named(mqtt(("a", "1")))

    assert user_properties_of(message.annotations) == [("a", "1"), (VALIDATED_USER, "ann")]
    assert message.view.properties == {"a": "1"}
    late = retained_copy(message)
    assert user_properties_of(late.annotations)[-1] == (VALIDATED_USER, "ann")
    assert validated_user(late) == validated_user(renamed(message, "b")) == "ann"


@pytest.mark.parametrize("user", ["ann", None])
def test_what_an_mqtt_client_says_of_its_user_is_replaced(user: str | None) -> None:
    message = named(mqtt(*FORGED.items()), user)
    expected = [("colour", "red")] + ([] if user is None else [(VALIDATED_USER, user)])

    assert user_properties_of(message.annotations) == expected


def test_mqtt_without_properties() -> None:
    """Version 3 has none; subscribers with version 5 see the user all the same."""
    message = named(Message(MQTT, "a", b"m", b"\x01"))

    assert user_properties_of(message.annotations) == [(VALIDATED_USER, "ann")]


# --- OpenWire ---


@pytest.mark.parametrize("version", [1, 3, 12])
def test_openwire_clients_find_the_user_in_its_field(version: int) -> None:
    message = named(openwire(version=version, user_id="eve", properties={"colour": "red"}))
    received = delivered(message, version)

    assert received.user_id == "ann"
    assert properties(received) == {"colour": "red"}
    assert delivery_of(message, RUN) == (message.annotations, message.data)


@pytest.mark.parametrize("user", ["ann", None])
def test_what_an_openwire_client_says_of_its_user_is_replaced(user: str | None) -> None:
    received = delivered(named(openwire(user_id="eve", properties=dict(FORGED)), user))

    assert (received.user_id, properties(received)) == (user, {"colour": "red"})


def test_a_dead_letter_of_openwire_has_its_user_once() -> None:
    message = named(openwire())
    message.set_extra("_AMQ_ORIG_ADDRESS", "orders")
    received = delivered(message)

    assert received.user_id == "ann"
    assert properties(received) == {"_AMQ_ORIG_ADDRESS": "orders"}


# --- from one protocol to another ---


@pytest.mark.parametrize("message", [lambda: mqtt(*FORGED.items()), lambda: openwire(user_id="eve")])
def test_to_amqp(message: Callable[[], Message]) -> None:
    """`user-id` is what JMS clients call `JMSXUserID`; this bare message is ours."""
    found = named(message())

    assert annotations_of(found)["x-opt-VALIDATED-USER"] == "ann"
    assert read_amqp_properties(encoded(found)[1]).user_id == b"ann"
    assert b"eve" not in encoded(found)[1]


@pytest.mark.parametrize("message", [lambda: amqp(), lambda: openwire(user_id="eve")])
def test_to_mqtt(message: Callable[[], Message]) -> None:
    found = named(message())

    assert (VALIDATED_USER, "ann") in user_properties_of(converted(found, SYNTAX)[0])
    assert b"eve" not in converted(found, SYNTAX)[0]


@pytest.mark.parametrize("message", [lambda: amqp(), lambda: mqtt(*FORGED.items())])
def test_to_openwire(message: Callable[[], Message]) -> None:
    found = named(message())
    found.id = 3
    received = delivered(found)

    assert received.user_id == "ann"
    assert VALIDATED_USER not in properties(received)
    assert "JMSXUserID" not in properties(received)


@pytest.mark.parametrize("message", [lambda: amqp(), lambda: mqtt(*FORGED.items()), lambda: openwire(user_id="eve")])
def test_to_the_files_of_artemis(message: Callable[[], Message]) -> None:
    """An export has it where Artemis looks, once."""
    values = [each.value for each in to_core(named(message())).properties if each.name == VALIDATED_USER]

    assert values == ["ann"]


def test_without_the_option_a_name_of_openwire_stays_the_clients() -> None:
    """As before: nothing is looked at."""
    assert delivered(openwire(user_id="eve")).user_id == "eve"
    assert read_fields(openwire(user_id="eve")).user_id == "eve"
