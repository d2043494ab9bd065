"""MQTT's message format: the octets of a message that MQTT brought, and messages of other protocols as MQTT.

`Message.data` is the payload. `Message.annotations` is one octet of flags, then the properties as they came
(MQTT 5.0 §3.3.2.3: payload format indicator, content type, response topic, correlation data, user properties), without
expiry and alias:

      7 6 5 4     3          2             1 0
    +---------+----------+-----------+---------------+
    |    0    | retained | published | QoS it was    |
    |         |  copy    | as retain | published with|
    +---------+----------+-----------+---------------+
"""

import json
from typing import Final
from uuid import UUID

from attrs import evolve

from artemis_mqtt.broker.addressing import InvalidTopic, to_address, to_topic
from artemis_mqtt.engine.packets import PacketType
from artemis_mqtt.engine.properties import NO_PROPERTIES, Properties, read_properties, write_properties
from artemis_py.core.messages.builtin_format import PLAIN_FORMAT
from artemis_py.core.messages.changes import REMOVED, Changes
from artemis_py.core.messages.message import VALIDATED_USER, Message, keep_user, validated_user
from artemis_py.core.messages.view import MessageView
from artemis_py.core.names.syntax import WildcardSyntax
from artemis_py.errors import ProtocolError

QOS_MASK: Final = 0x03
RETAIN: Final = 0x04
"""Flag: the publisher set RETAIN."""
RETAINED_COPY: Final = 0x08
"""Flag: the message was retained before the subscription began (MQTT 5.0 §3.3.1.3)."""

FOREIGN_FLAGS: Final = 2
"""Messages of other protocols go out with the QoS of the subscription (artemis-model §4.2.5)."""

QOS_ANNOTATION: Final = "x-opt-mqtt-qos"
RETAIN_ANNOTATION: Final = "x-opt-mqtt-retain"

REPLY_TO_KIND: Final = "x-opt-jms-reply-to"
"""Annotation that tells clients of JMS what a reply-to is."""
TOPIC_KIND: Final = 1

_JSON: Final = "application/json"

GROUP_ID: Final = "JMSXGroupID"
"""User property that names the message group, as it is called in JMS."""
GROUP_SEQUENCE: Final = "JMSXGroupSeq"
GROUP_ID_OCTETS: Final = GROUP_ID.encode()

_USER_NAMES: Final = (VALIDATED_USER, "JMSXUserID")
"""User properties in which receivers may look for the user that sent a message."""
_USER_OCTETS: Final = [name.encode() for name in _USER_NAMES]

_LAST_USER: Final[list[tuple[str, bytes]]] = [("", b"")]
"""The user of the last message, and the property that names it: most messages have the same as the one before."""

# What this package keeps in `Message.encodings`, made once for all receivers: a message of another protocol as MQTT.
ANNOTATIONS: Final = "MQTT annotations"
PAYLOAD: Final = "MQTT"


class MqttFormat:
    """The `MessageFormat` of MQTT, one per broker."""

    def __init__(self, syntax: WildcardSyntax) -> None:
        self.syntax: Final = syntax
        """Wildcard syntax in which a response topic becomes an address."""

    @property
    def name(self) -> str:
        """Name that is stored with each message."""
        return "mqtt"

    def view(self, message: Message) -> MessageView:
        """Decode the properties, and the payload if it says that it is text."""
        annotations = message.annotations
        flags = annotations[0] if annotations else 0
        properties = _properties(annotations)
        view = MessageView(
            to=message.address,
            content_type=properties.content_type,
            correlation_id=_correlation_id(properties.correlation_data),
            reply_to=_reply_to(properties.response_topic, self.syntax),
            body=_body(message.data, properties),
            annotations={QOS_ANNOTATION: flags & QOS_MASK, RETAIN_ANNOTATION: bool(flags & RETAIN)},
        )
        for name, value in properties.user_properties:
            # If a name stands more than once, the first counts, as it does for an MQTT client that looks it up.
            view.properties.setdefault(name, value)
        if validated_user(message) is not None:
            # Other protocols have other places for it.
            view.properties.pop(VALIDATED_USER, None)
        view.group_id = _group_id(view)
        view.group_sequence = _group_sequence(view)
        if view.reply_to is not None:
            # A JMS client would send its reply to a queue of this name otherwise, where the requester does not look.
            view.annotations[REPLY_TO_KIND] = TOPIC_KIND
        return view

    def lookup(self, message: Message, name: str) -> object:
        """Return the value that a selector finds under `name`: a user property, or a field under its name in JMS."""
        if name == "JMSCorrelationID":
            correlation = message.view.correlation_id
            return correlation.decode("utf-8", "replace") if isinstance(correlation, bytes) else correlation
        if name == "JMSReplyTo":
            return message.view.reply_to
        if name in (GROUP_ID, "AMQGroupID"):
            return message.view.group_id
        if name == GROUP_SEQUENCE:
            return message.view.group_sequence
        return message.view.properties.get(name)

    def read_properties(self, message: Message) -> dict[str, object]:
        """Return the user properties."""
        return dict(message.view.properties)

    def with_properties(self, message: Message, changes: Changes) -> tuple[bytes, bytes]:
        """Return the payload, and annotations with other user properties, which are text in MQTT.

        A changed name stands once then, even if it came more than once.
        """
        annotations = message.annotations
        properties = _properties(annotations)
        kept = [item for item in properties.user_properties if item[0] not in changes]
        added = [_user_property(item) for item in changes.items() if item[1] is not REMOVED]
        written = evolve(properties, user_properties=(*kept, *[item for item in added if item[0]]))
        return message.data, (annotations[:1] or b"\x00") + write_properties(written)

    def set_user(self, message: Message, user: str | None) -> None:
        """Name the user in a user property, in place of any that the client sent."""
        annotations = message.annotations
        if any(name in annotations for name in _USER_OCTETS):
            properties = _properties(annotations)
            kept = tuple(item for item in properties.user_properties if item[0] not in _USER_NAMES)
            annotations = annotations[:1] + write_properties(evolve(properties, user_properties=kept))
        annotations += b"" if user is None else user_property(user)
        message.size += len(annotations) - len(message.annotations)
        message.annotations = annotations


def user_property(user: str) -> bytes:
    """Return the user property that names the user that sent a message; empty if MQTT has no such text."""
    last, octets = _LAST_USER[0]
    if user != last:
        text = _text(user)
        properties = NO_PROPERTIES if text is None else Properties(user_properties=((VALIDATED_USER, text),))
        octets = write_properties(properties)
        _LAST_USER[0] = user, octets
    return octets


def _group_id(view: MessageView) -> str | None:
    """Take the group id out of the application properties: in other protocols it is a field of its own."""
    group_id = view.properties.pop(GROUP_ID, None)
    return group_id if isinstance(group_id, str) and group_id else None


def _group_sequence(view: MessageView) -> int | None:
    """Take the number in the group out of the application properties; a text that is no such number is ignored."""
    text = view.properties.pop(GROUP_SEQUENCE, None)
    if not isinstance(text, str):
        return None
    try:
        number = int(text)
    except ValueError:
        return None
    return number if -(1 << 31) <= number < 1 << 32 else None


def _properties(annotations: bytes) -> Properties:
    if len(annotations) < 2:
        return NO_PROPERTIES
    return read_properties(annotations, 1, len(annotations), PacketType.PUBLISH)


def _correlation_id(data: bytes | None) -> str | bytes | None:
    """Return printable octets as text, because many clients of other protocols cannot send octets back.

    In MQTT both are the same.
    """
    if data is None:
        return None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return data
    return text if text.isprintable() else data


def _reply_to(topic: str | None, syntax: WildcardSyntax) -> str | None:
    return None if topic is None else to_address(topic, syntax)


def _body(payload: bytes, properties: Properties) -> object:
    if properties.payload_format_indicator == 1:
        try:
            return payload.decode("utf-8")
        except UnicodeDecodeError:
            return payload
    return payload


def from_view(view: MessageView, syntax: WildcardSyntax) -> tuple[bytes, bytes]:
    """Return annotations and payload for a message of another protocol. Raises ProtocolError if that is impossible."""
    body = view.body
    is_text = False
    content_type = view.content_type
    if body is None:
        payload = b""
    elif isinstance(body, bytes | bytearray | memoryview):
        payload = bytes(body)
    elif isinstance(body, str):
        payload, is_text = _utf8(body), True
    else:
        try:
            text = json.dumps(body, ensure_ascii=False, default=_json_value)
        except (TypeError, ValueError, RecursionError) as error:
            raise ProtocolError(f"the body cannot be written as JSON: {error}") from error
        payload, is_text = _utf8(text), True
        content_type = content_type or _JSON
    named = dict(view.properties)
    if view.group_id is not None:
        named[GROUP_ID] = view.group_id
    if view.group_sequence is not None:
        # As in JMS, where it is a signed number: -1 closes the group. AMQP has no sign, and OpenWire has one.
        named[GROUP_SEQUENCE] = (view.group_sequence + (1 << 31)) % (1 << 32) - (1 << 31)
    properties = Properties(
        payload_format_indicator=1 if is_text else None,
        content_type=_text(content_type),
        response_topic=_response_topic(view.reply_to, syntax),
        correlation_data=_octets(view.correlation_id),
        user_properties=tuple(
            (name, value) for name, value in (_user_property(item) for item in named.items()) if name
        ),
    )
    return bytes((FOREIGN_FLAGS,)) + write_properties(properties), payload


def _response_topic(address: str | None, syntax: WildcardSyntax) -> str | None:
    if not address:
        return None
    try:
        return to_topic(address, syntax)
    except InvalidTopic:
        return None


# What a field of MQTT can hold (MQTT 5.0 §1.5.4, §1.5.6).
_MAX_OCTETS: Final = 65535


def _utf8(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ProtocolError(f"the text is not Unicode: {error}") from error


def _text(value: str | None) -> str | None:
    """Return a text that fits, else None: MQTT cannot represent the others, so such a field is left out."""
    if value is None or "\0" in value or len(value.encode("utf-8", "replace")) > _MAX_OCTETS:
        return None
    return value.encode("utf-8", "replace").decode("utf-8")


def _octets(value: object) -> bytes | None:
    if value is None:
        return None
    octets = bytes(value) if isinstance(value, bytes | bytearray) else str(value).encode("utf-8", "replace")
    return octets if len(octets) <= _MAX_OCTETS else None


def _user_property(item: tuple[str, object]) -> tuple[str, str]:
    """Return an application property as two texts; an empty name if it cannot be represented."""
    name, value = item
    if isinstance(value, bool):
        text: str | None = "true" if value else "false"
    elif isinstance(value, bytes):
        text = value.hex()
    elif isinstance(value, dict | list):
        # OpenWire's properties may be maps and lists.
        text = json.dumps(value, ensure_ascii=False, default=_json_value)
    else:
        text = "" if value is None else str(value)
    written, text = _text(name), _text(text)
    return ("", "") if written is None or text is None else (written, text)


def _json_value(value: object) -> object:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"no JSON for {type(value).__name__}")


def marked(annotations: bytes, name: str) -> bytes:
    """Return the annotations with the user property `name`, true, at the end; as they are if MQTT has no such name."""
    if _text(name) is None:
        return annotations
    return annotations + write_properties(Properties(user_properties=((name, "true"),)))


def converted(message: Message, syntax: WildcardSyntax) -> tuple[bytes, bytes]:
    """Convert a message that another protocol wrote to annotations and payload, once for all receivers.

    A large one, and one that decodes to far more than it is, are converted each time, because the result must not stay
    in memory. Raises ProtocolError, and StoreError
    if a body is too large for memory or cannot be read.
    """
    if message.large is not None:
        return _with_user(message, from_view(message.view, syntax))
    if message.format is PLAIN_FORMAT and message.view.body is None:
        # All that the broker has to say is in the properties (a notification), which MQTT 3 does not have.
        view = evolve(message.view, body=dict(message.view.properties))
        return from_view(view, syntax)
    encodings = message.encodings
    if encodings is None:
        encodings = message.encodings = {}
    payload = encodings.get(PAYLOAD)
    if payload is None:
        view = message.view
        written = _with_user(message, from_view(view, syntax))
        if not view.is_kept:
            return written
        encodings[ANNOTATIONS], payload = written
        encodings[PAYLOAD] = payload
    return encodings[ANNOTATIONS], payload


def _with_user(message: Message, written: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
    """Return annotations and payload with the user property that names the validated user, if it is known."""
    user = validated_user(message)
    return written if user is None else (written[0] + user_property(user), written[1])


def renamed(message: Message, address: str) -> Message:
    """Return the message under another address; its octets are shared."""
    copy = Message(
        message.format,
        address,
        message.data,
        message.annotations,
        message.durable,
        message.priority,
        message.expires_ms,
        producer=message.producer,
    )
    copy.has_group = message.has_group
    keep_user(message, copy)
    return copy


def retained_copy(message: Message) -> Message:
    """Return the message as a late subscriber gets it: its octets are shared, its flags say what it is."""
    annotations = message.annotations
    flags = (annotations[0] if annotations else 0) | RETAINED_COPY
    copy = Message(
        message.format,
        message.address,
        message.data,
        bytes((flags,)) + annotations[1:],
        message.durable,
        message.priority,
        message.expires_ms,
        producer=message.producer,
    )
    copy.has_group = message.has_group
    keep_user(message, copy)
    return copy
