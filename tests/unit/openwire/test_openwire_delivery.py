"""Messages as clients of OpenWire get them: untouched, changed by the broker, or converted."""

from uuid import UUID

import pytest

from artemis_openwire.engine.bodies import read_body
from artemis_openwire.engine.commands import (
    ActiveMQBytesMessage,
    ActiveMQMapMessage,
    ActiveMQMessage,
    ActiveMQObjectMessage,
    ActiveMQStreamMessage,
    ActiveMQTextMessage,
)
from artemis_openwire.engine.commands import Message as Command
from artemis_openwire.engine.message_fields import HEADER, MessageFields
from artemis_openwire.engine.rewriting import transcode
from artemis_openwire.engine.structures import ActiveMQDestination, ActiveMQQueue, ActiveMQTempQueue, ActiveMQTopic
from artemis_openwire.engine.values import Byte, Float, Long, Short
from artemis_openwire.messages.delivery import delivery_of, redirected
from artemis_py.core.messages.builtin_format import PlainFormat, plain_message
from artemis_py.core.messages.large_body import LargeBody
from artemis_py.core.messages.message import Message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.messages.widths import Binary32, Int8, Int16, Int32
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.errors import ProtocolError
from tests.core_harness import make_domain
from tests.openwire_messages import RUN, arrived, delivered, properties, text_id

AN_UUID = UUID("00112233-4455-6677-8899-aabbccddeeff")


def header_of(body: bytes, version: int, arrived_ms: int) -> bytes:
    """The header that the engine makes for these octets."""
    fields = MessageFields()
    fields.read(body, version)
    return fields.header(arrived_ms)


def foreign(view: MessageView, **fields: int) -> Message:
    """A message of no protocol that is delivered as those of all others are."""
    message = plain_message("orders", view)
    message.id = 9
    for name, value in fields.items():
        setattr(message, name, value)
    return message


# --- messages of OpenWire ---


@pytest.mark.parametrize("version", range(1, 13))
def test_untouched(version: int) -> None:
    """Not even copied."""
    message = arrived(version=version, priority=6, expiration=99, properties={"a": 1}, content=b"\0\0\0\2hi")

    header, body = delivery_of(message, RUN)

    assert header is message.annotations
    assert body is message.data
    assert message.encodings is None


@pytest.mark.parametrize("version", range(1, 13))
def test_expiry_and_priority_are_those_of_the_broker(version: int) -> None:
    """Settings may give a message another time of expiry, and a client discards what it takes for expired."""
    message = arrived(version=version, priority=6, expiration=99, content=b"\0\0\0\2hi")
    message.expires_ms = 0
    message.priority = 1

    received = delivered(message, version)

    assert (received.expiration, received.priority, received.content) == (0, 1, b"\0\0\0\2hi")
    assert received.destination == ActiveMQQueue(physical_name="orders")
    assert received.original_destination is None


def moved(message: Message, extra: dict[str, object]) -> Message:
    """The copy in a dead-letter or expiry queue."""
    copy = message.copy("DLQ")
    copy.extra = {"_AMQ_ORIG_ADDRESS": "orders", "_AMQ_ORIG_QUEUE": "orders", "_AMQ_ORIG_MESSAGE_ID": 77} | extra
    return copy


@pytest.mark.parametrize("version", range(1, 13))
def test_dead_letter(version: int) -> None:
    """Tools return it to its original destination (docs/openwire-differences.md)."""
    sent = ActiveMQTopic(physical_name="orders")
    message = arrived(version=version, destination=sent, expiration=99, properties={"a": 1, "b": Byte(2)})

    received = delivered(moved(message, {"dlqDeliveryFailureCause": "java.lang.Exception: poison"}), version)

    assert received.destination == ActiveMQQueue(physical_name="DLQ")
    assert received.original_destination == sent
    assert received.expiration == 0
    assert properties(received) == {
        "a": 1,
        "b": 2,
        "_AMQ_ORIG_ADDRESS": "orders",
        "_AMQ_ORIG_QUEUE": "orders",
        "_AMQ_ORIG_MESSAGE_ID": Long(77),
        "dlqDeliveryFailureCause": "java.lang.Exception: poison",
    }
    assert type(properties(received)["_AMQ_ORIG_MESSAGE_ID"]) is Long


def test_first_destination_is_the_original_one() -> None:
    """However often it is moved."""
    first = ActiveMQTopic(physical_name="VirtualTopic.A")

    received = delivered(moved(arrived(original_destination=first), {}))

    assert received.original_destination == first


def test_expired_message() -> None:
    """It says when it had to expire (docs/openwire-differences.md)."""
    received = delivered(moved(arrived(expiration=99), {"_AMQ_ACTUAL_EXPIRY": 120}))

    found = properties(received)
    assert (found["originalExpiration"], found["_AMQ_ACTUAL_EXPIRY"]) == (Long(99), Long(120))
    assert type(found["originalExpiration"]) is Long
    assert received.expiration == 0


def test_expired_message_without_a_time_of_its_own() -> None:
    """A setting of its address let it expire."""
    assert "originalExpiration" not in properties(delivered(moved(arrived(), {"_AMQ_ACTUAL_EXPIRY": 120})))


def test_notes_of_other_protocols_do_not_show() -> None:
    """AMQP consumers may add annotations to any message."""
    message = arrived(properties={"a": 1})
    message.extra = {"m.x-opt-reason": "text", "x-opt-other": 5}

    assert properties(delivered(message)) == {"a": 1}


def test_changed_message_is_written_once() -> None:
    """For all its receivers."""
    message = arrived()
    message.priority = 8

    first, second = delivery_of(message, RUN), delivery_of(message, RUN)

    assert first[1] is second[1]
    assert first[0] is second[0]


def test_damaged_properties_of_a_dead_letter() -> None:
    """The broker cannot add to them."""
    with pytest.raises(ProtocolError):
        delivery_of(moved(arrived(marshalled_properties=b"\0\0\0\5"), {}), RUN)


def test_header_fits_the_changed_message() -> None:
    """Or the next delivery would be put together wrongly."""
    message = moved(arrived(properties={"a": 1}, arrived_ms=4321), {})

    header, body = delivery_of(message, RUN)

    assert header == header_of(body, 12, 4321)
    assert HEADER.unpack(header)[-1] == 4321


def test_redirected() -> None:
    """A consumer of a virtual topic receives from its queue what was sent to the topic."""
    sent = ActiveMQTopic(physical_name="VirtualTopic.A")
    queue = ActiveMQQueue(physical_name="Consumer.B.VirtualTopic.A")
    message = arrived(destination=sent, content=b"\0\0\0\2hi", properties={"a": 1})

    header, body = redirected(*delivery_of(message, RUN), queue)

    copy = Message(message.format, "", body, header)
    received = delivered(copy)
    assert (received.destination, received.original_destination) == (queue, sent)
    assert (received.content, properties(received)) == (b"\0\0\0\2hi", {"a": 1})


# --- messages of others ---


def test_fields() -> None:
    """openwire §9.4, artemis-model §4.1.6."""
    view = MessageView(
        message_id="m1",
        correlation_id="c1",
        user_id=b"user",
        to="ignored",
        subject="type",
        reply_to="answers",
        creation_time_ms=12,
        group_id="group",
        group_sequence=7,
        reply_to_group_id="rg",
        content_type="a/b",
        content_encoding="gzip",
        properties={"a": 1},
        annotations={"x-opt-a": 5, "x-opt-list": [1]},
        body="text",
    )
    message = plain_message("orders", view, durable=True, priority=7)
    message.expires_ms = 99

    received = delivered(message)

    assert isinstance(received, ActiveMQTextMessage)
    assert (received.correlation_id, received.user_id, received.type) == ("c1", "user", "type")
    assert (received.timestamp, received.expiration, received.priority, received.persistent) == (12, 99, 7, True)
    assert (received.group_id, received.group_sequence) == ("group", 7)
    assert received.reply_to == ActiveMQQueue(physical_name="answers")
    assert received.destination == ActiveMQQueue(physical_name="orders")
    assert properties(received) == {
        "JMS_AMQP_MA_x-opt-a": 5,
        "JMS_AMQP_ContentType": "a/b",
        "JMS_AMQP_ContentEncoding": "gzip",
        "JMS_AMQP_REPLYTO_GROUP_ID": "rg",
        "a": 1,
    }


def test_nothing_is_set() -> None:
    """As little as a message can have."""
    received = delivered(foreign(MessageView()))

    assert type(received) is ActiveMQMessage
    assert received.marshalled_properties is None
    assert (received.correlation_id, received.group_id, received.type, received.reply_to) == (None, None, None, None)
    assert text_id(received) is None


@pytest.mark.parametrize(
    ("id", "value", "number"),
    [(1, 0, 1), (2, 0, 2), (2**31 - 1, 0, 2**31 - 1), (2**31, 1, 1), (2**33, 4, 4), (0, 0, 1)],
)
def test_ids_grow_slowly(id: int, value: int, number: int) -> None:
    """openwire §9.4: clients look for repetitions in tables that fail for numbers of more than 31 bits."""
    received = delivered(foreign(MessageView(), id=id)).message_id

    assert (received.producer_id.connection_id, received.producer_id.session_id) == (RUN, -1)
    assert (received.producer_id.value, received.producer_sequence_id) == (value, number)


@pytest.mark.parametrize(
    ("id", "text"),
    [
        ("ID:a", "ID:a"),
        ("a", "ID:AMQP_NO_PREFIX:a"),
        (AN_UUID, f"ID:AMQP_UUID:{AN_UUID}"),
        (b"\x0a\xff", "ID:AMQP_BINARY:0AFF"),
        (42, "ID:AMQP_ULONG:42"),
    ],
)
def test_ids_of_other_protocols(id: object, text: str) -> None:
    """An application copies the text into the correlation id of its answer, which then has the id again."""
    message = delivered(foreign(MessageView(message_id=id)))
    answer = arrived(correlation_id=text_id(message))

    assert text_id(message) == text
    assert answer.view.correlation_id == id


@pytest.mark.parametrize(
    ("body", "annotation", "kind", "expected"),
    [
        (None, None, ActiveMQMessage, None),
        (None, 1, ActiveMQObjectMessage, b""),
        (None, 2, ActiveMQMapMessage, {}),
        (None, 3, ActiveMQBytesMessage, b""),
        (None, 4, ActiveMQStreamMessage, []),
        (None, 5, ActiveMQTextMessage, None),
        (None, 77, ActiveMQMessage, None),
        ("", None, ActiveMQTextMessage, ""),
        ("hällo 😀\0", None, ActiveMQTextMessage, "hällo 😀\0"),
        (b"", None, ActiveMQBytesMessage, b""),
        (b"\xff\0", None, ActiveMQBytesMessage, b"\xff\0"),
        (bytearray(b"\xff"), None, ActiveMQBytesMessage, b"\xff"),
        ({}, None, ActiveMQMapMessage, {}),
        (
            {"a": [1, {"b": b"\0"}], 5: None, "": 1},
            None,
            ActiveMQMapMessage,
            {"a": [1, {"b": b"\0"}], "5": None, "": 1},
        ),
        ([], None, ActiveMQStreamMessage, []),
        ([1, "a", None, b"\0", True, 1.5], None, ActiveMQStreamMessage, [1, "a", None, b"\0", True, 1.5]),
        ([[1, AN_UUID], {"ä": b"\xff"}], None, ActiveMQStreamMessage, [f'[1, "{AN_UUID}"]', '{"ä": "ff"}']),
        ((1, 2), None, ActiveMQStreamMessage, [1, 2]),
        (5, None, ActiveMQTextMessage, "5"),
        (True, None, ActiveMQTextMessage, "true"),
        (False, None, ActiveMQTextMessage, "false"),
        (1.5, None, ActiveMQTextMessage, "1.5"),
        (AN_UUID, None, ActiveMQTextMessage, str(AN_UUID)),
    ],
)
def test_bodies(body: object, annotation: int | None, kind: type[Command], expected: object) -> None:
    """openwire §9.3; Java clients read no lists and maps in a stream."""
    annotations: dict[str, object] = {} if annotation is None else {"x-opt-jms-msg-type": annotation}
    message = foreign(MessageView(annotations=annotations))
    message.view.body = body

    received = delivered(message)

    assert type(received) is kind
    assert read_body(kind.code, received.content, False, 1000) == expected


@pytest.mark.parametrize(
    ("content_type", "encoding", "octets", "expected"),
    [
        ("text/plain", None, "ä".encode(), "ä"),
        ("text/plain; charset=UTF-8", None, "ä".encode(), "ä"),
        ('text/plain; a=b; charset="iso-8859-1"', None, b"\xe4", "ä"),
        ("text/plain;charset=utf-16", None, "ä".encode("utf-16"), "ä"),
        ("application/json", None, b"{}", "{}"),
        ("Application/Soap+XML", None, b"<a/>", "<a/>"),
        ("application/x+json", None, b"{}", "{}"),
        ("text/plain", "gzip", b"text", b"text"),
        ("text/plain", None, b"\xff", b"\xff"),
        ("text/plain; charset=unknown", None, b"a", b"a"),
        ("text/plain; charset=idna", None, b"a", b"a"),
        ("application/octet-stream", None, b"text", b"text"),
        ("image/png", None, b"text", b"text"),
        ("", None, b"text", b"text"),
    ],
)
def test_octets_that_are_text(content_type: str, encoding: str | None, octets: bytes, expected: object) -> None:
    """artemis-model §4.1.6."""
    view = MessageView(content_type=content_type, content_encoding=encoding, body=octets)

    received = delivered(foreign(view))

    assert read_body(received.code, received.content, False, 1000) == expected


def test_octets_that_are_a_text_for_a_client_that_said_otherwise() -> None:
    """A JMS client that sent a BytesMessage meant one."""
    view = MessageView(content_type="text/plain", annotations={"x-opt-jms-msg-type": 3}, body=b"text")

    assert isinstance(delivered(foreign(view)), ActiveMQBytesMessage)


@pytest.mark.parametrize("odd", [None, "5", [5], {"a": 5}, b"5", 1.5, -1, 2**70])
@pytest.mark.parametrize("body", [None, b"x", "x"])
def test_annotations_of_jms_may_be_anything(odd: object, body: bytes | str | None) -> None:
    """Any client of AMQP may write them."""
    names = ("x-opt-jms-msg-type", "x-opt-jms-dest", "x-opt-jms-reply-to")
    message = foreign(MessageView(reply_to="r", body=body))
    message.view.annotations.update(dict.fromkeys(names, odd))

    received = delivered(message)

    assert received.destination == ActiveMQQueue(physical_name="orders")
    assert received.reply_to == ActiveMQQueue(physical_name="r")
    assert type(received) is {None: ActiveMQMessage, b"x": ActiveMQBytesMessage, "x": ActiveMQTextMessage}[body]


def test_object_stays_opaque() -> None:
    """Whatever its octets are."""
    view = MessageView(content_type="application/x-java-serialized-object", body=b"anything")

    received = delivered(foreign(view))

    assert isinstance(received, ActiveMQObjectMessage)
    assert received.content == b"anything"


@pytest.mark.parametrize(
    ("value", "expected", "kind"),
    [
        (None, None, type(None)),
        (True, True, bool),
        (5, 5, int),
        (2**31, 2**31, Long),
        (-(2**63), -(2**63), Long),
        (2**63, str(2**63), str),
        (Int8(5), 5, Byte),
        (Int16(5), 5, Short),
        (Int32(5), 5, int),
        (Binary32(0.5), 0.5, Float),
        (1.5, 1.5, float),
        ("ä", "ä", str),
        (b"\xff", b"\xff", bytes),
        (AN_UUID, str(AN_UUID), str),
        ([1, "a"], [1, "a"], list),
        ({"a": {"b": 1}}, {"a": {"b": 1}}, dict),
    ],
)
def test_types_of_properties(value: object, expected: object, kind: type) -> None:
    """openwire §9.4: one of the primitive types."""
    message = foreign(MessageView())
    message.view.properties["p"] = value

    found = properties(delivered(message))["p"]

    assert found == expected
    assert type(found) is kind


def test_what_no_field_can_hold_is_left_out() -> None:
    """The rest of the message arrives."""
    long = "x" * 65536
    view = MessageView(
        message_id=long,
        correlation_id=long,
        subject="😀" * 11000,
        reply_to=long,
        group_id=long,
        user_id=b"x" * 70000,
        properties={"": 1, long: 2, "\0" * 32768: 3, "a": long, "n" * 65535: 4},
        body={long: 1, "b": long},
    )

    received = delivered(foreign(view))

    assert (received.correlation_id, received.type, received.group_id, received.reply_to) == (None, None, None, None)
    assert (text_id(received), received.user_id) == (None, None)
    assert properties(received) == {"a": long, "n" * 65535: 4}
    assert read_body(received.code, received.content, False, 1000) == {"b": long}


def nest(levels: int) -> object:
    """Lists within each other."""
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


def test_nesting_has_a_limit() -> None:
    """A body that is too deep cannot be converted; a property becomes null."""
    message = foreign(MessageView())
    message.view.body = {"a": nest(31)}
    message.view.properties.update({"a": nest(31), "b": nest(32)})

    received = delivered(message)

    assert read_body(received.code, received.content, False, 1000) == {"a": nest(31)}
    assert properties(received) == {"a": nest(31), "b": None}
    for body in ({"a": nest(32)}, [nest(32)]):
        deeper = foreign(MessageView())
        deeper.view.body = body
        with pytest.raises(ProtocolError, match="no form"):
            delivery_of(deeper, RUN)


@pytest.mark.parametrize(("sequence", "expected"), [(0, 0), (5, 5), (2**31, -(2**31)), (2**32 - 1, -1), (-1, -1)])
def test_numbers_of_a_group(sequence: int, expected: int) -> None:
    """-1 closes the group; AMQP numbers without a sign."""
    assert delivered(foreign(MessageView(group_id="g", group_sequence=sequence))).group_sequence == expected


@pytest.mark.parametrize(
    ("routing_type", "kind", "expected"),
    [
        (-1, None, ActiveMQQueue),
        (-1, 0, ActiveMQQueue),
        (-1, 1, ActiveMQTopic),
        (-1, 2, ActiveMQQueue),
        (-1, 3, ActiveMQTopic),
        (0, 0, ActiveMQTopic),
        (1, 1, ActiveMQQueue),
    ],
)
def test_destination(routing_type: int, kind: int | None, expected: type[ActiveMQDestination]) -> None:
    """Where the message was sent, as its producer or its address has it."""
    annotations: dict[str, object] = {} if kind is None else {"x-opt-jms-dest": kind}

    received = delivered(foreign(MessageView(annotations=annotations), routing_type=routing_type))

    assert received.destination == expected(physical_name="orders")


@pytest.mark.parametrize(("kind", "expected"), [(0, ActiveMQQueue), (1, ActiveMQTopic), (2, ActiveMQQueue)])
def test_reply_to_is_never_temporary(kind: int, expected: type[ActiveMQDestination]) -> None:
    """A client refuses to send to a temporary destination that no advisory has told it about."""
    view = MessageView(reply_to="r", annotations={"x-opt-jms-reply-to": kind})

    assert delivered(foreign(view)).reply_to == expected(physical_name="r")


def test_reply_to_of_openwire_stays_temporary() -> None:
    """Its clients know it by advisories."""
    reply_to = ActiveMQTempQueue(physical_name="ID:h:1")

    assert delivered(arrived(reply_to=reply_to)).reply_to == reply_to


def test_broker_properties() -> None:
    """On messages of all protocols alike."""
    message = foreign(MessageView(properties={"_AMQ_ORIG_ADDRESS": "faked", "a": 1}))
    message.extra = {"_AMQ_ORIG_ADDRESS": "here", "m.x-opt-a": 5, "dlqDeliveryFailureCause": "why"}

    assert properties(delivered(message)) == {"_AMQ_ORIG_ADDRESS": "here", "a": 1, "dlqDeliveryFailureCause": "why"}


@pytest.mark.parametrize(
    ("kind", "routing_type", "expected"),
    [
        (None, None, ActiveMQQueue),
        (1, None, ActiveMQTopic),
        (None, 0, ActiveMQTopic),
        (None, 1, ActiveMQQueue),
        (1, 1, ActiveMQQueue),
        (0, 0, ActiveMQTopic),
    ],
)
def test_dead_letter_of_another_protocol(
    kind: int | None, routing_type: int | None, expected: type[ActiveMQDestination]
) -> None:
    """It is in a queue now, and names its original destination as others do."""
    message = plain_message("DLQ", MessageView(annotations={} if kind is None else {"x-opt-jms-dest": kind}, body="m"))
    message.extra = {"_AMQ_ORIG_ADDRESS": "orders"}
    if routing_type is not None:
        message.extra["_AMQ_ORIG_ROUTING_TYPE"] = routing_type

    received = delivered(message)

    assert received.destination == ActiveMQQueue(physical_name="DLQ")
    assert received.original_destination == expected(physical_name="orders")
    assert received.content == b"\0\0\0\1m"


def test_conversion_is_done_once() -> None:
    """For all receivers."""
    message = foreign(MessageView(body="text"))

    assert delivery_of(message, RUN)[1] is delivery_of(message, RUN)[1]


@pytest.mark.parametrize("version", range(1, 13))
def test_every_version_can_read_it(version: int) -> None:
    """The writer of deliveries makes the older forms."""
    message = foreign(MessageView(message_id="a", body="text", properties={"a": 1}, reply_to="r", group_id="g"))

    _, body = transcode(*delivery_of(message, RUN), version)

    received = delivered(Message(arrived().format, "", body, header_of(body, version, 0)), version)
    assert received.content == b"\0\0\0\4text"
    assert properties(received) == {"a": 1}


class Body(LargeBody):
    """A large body in memory."""

    def load(self) -> bytes:
        return b"x" * self.size

    def discard(self) -> None:
        """There is nothing."""


class LargeFormat(PlainFormat):
    """Needs the body for its view."""

    def view(self, message: Message) -> MessageView:
        return MessageView(body=message.content())


def test_large_body_is_not_kept() -> None:
    """A message whose body is on disk must not have it in memory as well."""
    message = Message(LargeFormat(), "orders", b"")
    message.large = Body(1, 200_000)

    assert delivered(message).content == b"x" * 200_000
    assert message.encodings is None


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        ((RoutingType.MULTICAST,), ActiveMQTopic),
        ((RoutingType.ANYCAST,), ActiveMQQueue),
        ((RoutingType.ANYCAST, RoutingType.MULTICAST), ActiveMQQueue),
    ],
)
def test_destination_of_an_address(types: tuple[RoutingType, ...], expected: type[ActiveMQDestination]) -> None:
    """What nobody has sent to a topic or a queue is where its address has one."""
    domain = make_domain()
    message = foreign(MessageView())
    message.origin = domain.create_address("orders", frozenset(types))

    assert delivered(message).destination == expected(physical_name="orders")
