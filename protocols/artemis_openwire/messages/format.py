"""The `MessageFormat` of OpenWire: a message's neutral view, and the values that selectors compare.

`Message.data` is the message as its producer sent it, `Message.annotations` the header of `message_fields`.
"""

from collections.abc import Callable
from typing import Final

from artemis_openwire.engine.message_fields import FIRST_CODE, HEADER, LAST_CODE, MessageFields
from artemis_openwire.engine.names import message_id_text, qualified_name
from artemis_openwire.engine.rewriting import Changes as FieldChanges
from artemis_openwire.engine.rewriting import rewrite
from artemis_openwire.engine.structures import ActiveMQDestination
from artemis_openwire.engine.text import encode_text
from artemis_openwire.engine.values import amend_map
from artemis_openwire.messages.conversion import to_value, to_view
from artemis_openwire.messages.layout import find_property, properties_offset
from artemis_openwire.messages.names import GROUP_ID, GROUP_SEQUENCE, USER_ID
from artemis_py.core.messages.changes import REMOVED, Changes
from artemis_py.core.messages.message import VALIDATED_USER, Message
from artemis_py.core.messages.view import MessageView
from artemis_py.errors import MalformedFrame


class OpenWireFormat:
    """The `MessageFormat` of OpenWire."""

    @property
    def name(self) -> str:
        """Name that is stored with each message."""
        return "openwire"

    def view(self, message: Message) -> MessageView:
        """Return the decoded message.

        Raises MalformedFrame if its octets are damaged, or decompressed too large, StoreError if its content is too
        large for memory.
        """
        fields = read_fields(message)
        content = fields.content if message.large is None else message.large.load()
        return to_view(fields, message.address, content)

    def lookup(self, message: Message, name: str) -> object:
        """Return the value that a selector finds under `name`; None if it is missing or damaged.

        Fields by their names in JMS; every other name is a property. Decodes only that value.
        """
        try:
            field = _FIELDS.get(name)
            if field is not None:
                value = field(read_fields(message))
                if value is not None or name not in _ALSO_PROPERTIES:
                    return value
            offset = properties_offset(message.annotations, message.data)
            return find_property(message.data, offset, encode_text(_ALSO_PROPERTIES.get(name, name)))
        except (MalformedFrame, IndexError):
            return None

    def read_properties(self, message: Message) -> dict[str, object]:
        """Return the properties with the classes of their types in OpenWire. Raises MalformedFrame."""
        return dict(read_fields(message).properties)

    def with_properties(self, message: Message, changes: Changes) -> tuple[bytes, bytes]:
        """Return the message with other properties, and its header.

        Raises MalformedFrame if the properties are damaged, ValueError for a value that does not fit.
        """
        fields = read_fields(message)
        removed = [name for name, value in changes.items() if value is REMOVED]
        added = {name: to_value(value) for name, value in changes.items() if value is not REMOVED}
        properties = amend_map(fields.marshalled_properties, removed, added)
        header, body = rewrite(message.annotations, message.data, FieldChanges(properties=properties))
        return body, header

    def set_user(self, message: Message, user: str | None) -> None:
        """Name the user in the field for it, as ActiveMQ does with `populateJMSXUserID` (openwire §9.1).

        Properties in which other clients would look for a user are removed. Raises MalformedFrame.
        """
        fields = read_fields(message)
        named = fields.body.find
        begin, end = fields.properties_at, fields.structure_at
        properties: bytes | None = None
        if any(named(octets, begin, end) >= 0 for octets in _USER_OCTETS):
            properties = amend_map(fields.marshalled_properties, _USER_NAMES, {})
        if properties is None and fields.user_id == user:
            return
        changes = FieldChanges(user_id=user, drops_user=user is None, properties=properties)
        header, body = rewrite(message.annotations, message.data, changes)
        message.size += len(body) - len(message.data)
        message.annotations = header
        message.data = body


_USER_NAMES: Final = (VALIDATED_USER, USER_ID)
_USER_OCTETS: Final = [encode_text(name) for name in _USER_NAMES]


def read_fields(message: Message) -> MessageFields:
    """Find the fields of a message that OpenWire brought. Raises MalformedFrame."""
    body = message.data
    header = message.annotations
    if len(header) != HEADER.size or not body or not FIRST_CODE <= body[0] <= LAST_CODE:
        raise MalformedFrame("not a message of OpenWire as it is kept")
    fields = MessageFields()
    fields.read(body, header[0])
    return fields


def _text_of(destination: ActiveMQDestination | None) -> str | None:
    return None if destination is None else qualified_name(destination)


def _message_id(fields: MessageFields) -> object:
    return message_id_text(fields.message_id)


def _correlation_id(fields: MessageFields) -> object:
    return fields.correlation_id


def _destination(fields: MessageFields) -> object:
    return _text_of(fields.original_destination or fields.destination)


def _reply_to(fields: MessageFields) -> object:
    return _text_of(fields.reply_to)


def _type(fields: MessageFields) -> object:
    return fields.jms_type


def _timestamp(fields: MessageFields) -> object:
    return fields.timestamp_ms


def _user_id(fields: MessageFields) -> object:
    return fields.user_id


def _group_id(fields: MessageFields) -> object:
    return fields.group_id


def _group_sequence(fields: MessageFields) -> object:
    return None if fields.group_id is None else fields.group_sequence


_FIELDS: Final[dict[str, Callable[[MessageFields], object]]] = {
    "AMQGroupID": _group_id,
    "AMQTimestamp": _timestamp,
    "AMQUserID": _message_id,
    "JMSCorrelationID": _correlation_id,
    "JMSDestination": _destination,
    "JMSMessageID": _message_id,
    "JMSReplyTo": _reply_to,
    "JMSTimestamp": _timestamp,
    "JMSType": _type,
    USER_ID: _user_id,
    GROUP_ID: _group_id,
    GROUP_SEQUENCE: _group_sequence,
}
"""Names in JMS of the fields of a message (openwire §9.1)."""

_ALSO_PROPERTIES: Final = {GROUP_ID: GROUP_ID, "AMQGroupID": GROUP_ID, GROUP_SEQUENCE: GROUP_SEQUENCE}
"""Fields that clients which are not written in Java set as properties."""

OPENWIRE_FORMAT: Final = OpenWireFormat()
