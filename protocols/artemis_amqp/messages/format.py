"""The `MessageFormat` of AMQP: a message's neutral view, and the values that selectors compare.

`Message.data` is the bare message, `Message.annotations` the kept message annotations of `sections`.
"""

from typing import Final
from uuid import UUID

from attrs import fields

from artemis_amqp.engine.performatives import Properties
from artemis_amqp.messages.conversion import plain, to_view
from artemis_amqp.messages.properties import typed_properties, with_properties
from artemis_amqp.messages.sections import read_annotation, read_application_property, read_property
from artemis_py.core.messages.changes import Changes
from artemis_py.core.messages.jms_ids import jms_id
from artemis_py.core.messages.message import VALIDATED_USER, Message
from artemis_py.core.messages.view import MessageView
from artemis_py.errors import MalformedFrame, NotAuthorized

_FIELD_NAMES: Final = tuple(attribute.name for attribute in fields(Properties))
_FIELD_INDEXES: Final = {name: index for index, name in enumerate(_FIELD_NAMES)}

_MESSAGE_ID: Final = _FIELD_INDEXES["message_id"]
_CORRELATION_ID: Final = _FIELD_INDEXES["correlation_id"]
_USER_ID: Final = _FIELD_INDEXES["user_id"]

_JMS_FIELDS: Final = {
    "AMQUserID": _MESSAGE_ID,
    "JMSMessageID": _MESSAGE_ID,
    "JMSCorrelationID": _CORRELATION_ID,
    "JMSType": _FIELD_INDEXES["subject"],
    "JMSReplyTo": _FIELD_INDEXES["reply_to"],
    "JMSXUserID": _USER_ID,
    "AMQGroupID": _FIELD_INDEXES["group_id"],
    "JMSXGroupID": _FIELD_INDEXES["group_id"],
    "JMSXGroupSeq": _FIELD_INDEXES["group_sequence"],
    "AMQTimestamp": _FIELD_INDEXES["creation_time"],
    "JMSTimestamp": _FIELD_INDEXES["creation_time"],
}
"""Names that JMS clients and Artemis give to fields of the properties section."""


class AmqpFormat:
    """The `MessageFormat` of AMQP 1.0."""

    @property
    def name(self) -> str:
        """Name that is stored with each message."""
        return "amqp"

    def view(self, message: Message) -> MessageView:
        """Return the decoded message. Raises MalformedValue if its octets are damaged."""
        return to_view(message.annotations, message.content())

    def lookup(self, message: Message, name: str) -> object:
        """Return the value that a selector finds under `name`; None if it is missing or damaged.

        Fields of the properties section by their JMS names or as `amqp.<field>`, message annotations as `m.<key>` or
        `amqp.annotation.<key>`; every other name is an application property. Decodes only that value.
        """
        try:
            index = _JMS_FIELDS.get(name)
            if index is not None:
                return _jms_value(message.data, index)
            if name.startswith("amqp."):
                return _amqp_value(message, name[5:])
            if name.startswith("m."):
                return plain(read_annotation(message.annotations, name[2:]))
            return plain(read_application_property(message.data, name))
        except MalformedFrame:
            return None

    def read_properties(self, message: Message) -> dict[str, object]:
        """Return the application properties with their AMQP types. Raises MalformedValue."""
        return typed_properties(message.data)

    def with_properties(self, message: Message, changes: Changes) -> tuple[bytes, bytes]:
        """Return the bare message with other application properties, and the same annotations."""
        return with_properties(message.data, changes), message.annotations

    def set_user(self, message: Message, user: str | None) -> None:
        """Check that the bare message, which no intermediary may change, names no other user (AMQP 1.0 §3.2.4).

        Receivers find the user among the annotations. Raises NotAuthorized, MalformedValue.
        """
        bare = message.data
        claim = read_property(bare, _USER_ID)
        if isinstance(claim, bytes) and len(claim) > 0 and (user is None or claim != user.encode()):
            raise _claimed("the property user-id", user)
        for name, octets in _USER_NAMES:
            # Messages without the property cost no more than this search, which is in C.
            if bare.find(octets) >= 0:
                value = read_application_property(bare, name)
                if value is not None and plain(value) != user:
                    raise _claimed(f"the application property {name}", user)


_USER_NAMES: Final = [(name, name.encode()) for name in (VALIDATED_USER, "JMSXUserID")]
"""Application properties in which receivers may look for a user."""


def _claimed(where: str, user: str | None) -> NotAuthorized:
    whose = "the client has none" if user is None else f"the client's user is '{user}'"
    return NotAuthorized(f"{where} names another user: {whose}")


def _jms_value(bare: bytes, index: int) -> object:
    value = read_property(bare, index)
    if index == _MESSAGE_ID:
        return jms_id(value)
    if index == _CORRELATION_ID:
        return jms_id(value, is_correlation=True)
    return _text_or_plain(value)


def _text_or_plain(value: object) -> object:
    """Return octets as text, None if they are not UTF-8: selectors cannot compare octets."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return None
    return plain(value)


def _amqp_value(message: Message, field: str) -> object:
    """Return the value of `amqp.<field>`: header and properties by their names in AMQP, with underscores."""
    if field.startswith("annotation."):
        return plain(read_annotation(message.annotations, field[11:]))
    if field == "durable":
        return message.durable
    if field == "priority":
        return message.priority
    index = _FIELD_INDEXES.get(field)
    if index is None:
        return plain(read_application_property(message.data, f"amqp.{field}"))
    value = read_property(message.data, index)
    return str(value) if isinstance(value, UUID) else _text_or_plain(value)


AMQP_FORMAT: Final = AmqpFormat()
