"""A message as it goes out: as it came, or changed where the broker has changed it, or converted (openwire §9.4).

The result is what `DispatchWriter.send` takes: a header and a body. Compiled.
"""

from typing import Final

from artemis_openwire.engine.codec import write_nested
from artemis_openwire.engine.composing import MessageDraft
from artemis_openwire.engine.fields import read_i64
from artemis_openwire.engine.message_fields import MessageFields
from artemis_openwire.engine.rewriting import Changes, rewrite
from artemis_openwire.engine.structure import LAST_VERSION
from artemis_openwire.engine.structures import ActiveMQDestination, ActiveMQQueue, ActiveMQTopic, ProducerId
from artemis_openwire.engine.values import Long, amend_map, write_map
from artemis_openwire.messages.conversion import TOPIC_KINDS, body_of, fits, properties_of
from artemis_openwire.messages.format import OPENWIRE_FORMAT, read_fields
from artemis_openwire.messages.layout import expiration_offset
from artemis_openwire.messages.names import (
    ACTUAL_EXPIRY,
    BROKER_PREFIX,
    DESTINATION_KIND,
    FAILURE_CAUSE,
    ORIGINAL_ADDRESS,
    ORIGINAL_EXPIRATION,
    ORIGINAL_ROUTING_TYPE,
    REPLY_TO_KIND,
)
from artemis_py.core.addresses.address import Address
from artemis_py.core.messages.jms_ids import jms_id
from artemis_py.core.messages.message import VALIDATED_USER, Message, validated_user
from artemis_py.core.names.routing_type import RoutingType

# What this package keeps in `Message.encodings`, so that it is made once for all receivers.
HEADER: Final = "OpenWire header"
BODY: Final = "OpenWire"

_NUMBERS: Final = (1 << 31) - 1
"""Numbers of one producer that is made up: clients look for repetitions in tables that fail beyond that."""

_ANYCAST: Final = 1
_MULTICAST: Final = 0


def delivery_of(message: Message, connection: str) -> tuple[bytes, bytes]:
    """Return the header and the body of a message, converted once if another protocol wrote it.

    Messages of other protocols and of the broker get ids as if they came from a producer of `connection`, which should
    be a name of its own for each run of the broker: clients discard an id that they have seen, and the core's numbers
    of messages that were not durable may come again after a restart. Raises ProtocolError if the message cannot be
    converted or is damaged, StoreError if its body is too large for memory or cannot be read. A large message of
    OpenWire shows content of no octets: the content is in `Message.large`.
    """
    extra = message.extra
    # The user is in the message: it was put there when the message arrived.
    if (
        message.format is OPENWIRE_FORMAT
        and (extra is None or (len(extra) == 1 and VALIDATED_USER in extra))
        and _is_as_sent(message)
    ):
        return message.annotations, message.data
    if message.large is not None and message.format is not OPENWIRE_FORMAT:
        # Its body must not stay in memory.
        return _compose(message, connection)
    encodings = message.encodings
    if encodings is None:
        encodings = message.encodings = {}
    body = encodings.get(BODY)
    if body is None:
        header, body = _amend(message) if message.format is OPENWIRE_FORMAT else _compose(message, connection)
        encodings[HEADER] = header
        encodings[BODY] = body
    return encodings[HEADER], body


def redirected(header: bytes, body: bytes, destination: ActiveMQDestination) -> tuple[bytes, bytes]:
    """Return a delivery with another destination; the first one stays in it as the original.

    For consumers of virtual topics, which receive from a queue what was sent to a topic. Raises MalformedFrame.
    """
    fields = MessageFields()
    fields.read(body, header[0])
    original = fields.original_destination or fields.destination
    return rewrite(header, body, Changes(destination=destination, original_destination=original))


def _is_as_sent(message: Message) -> bool:
    """Tell whether priority and expiry are still the producer's."""
    body = message.data
    offset = expiration_offset(message.annotations, body)
    return body[offset + 8] == message.priority and read_i64(body, offset) == message.expires_ms


def _amend(message: Message) -> tuple[bytes, bytes]:
    """Return a message of OpenWire with what the broker has changed.

    One that was moved names the address it is at now as its destination, and keeps the first as the original one:
    tools that return dead letters look there. One that expired names when it had to.
    """
    fields = read_fields(message)
    extra = message.extra or {}
    added = _additions(extra)
    if ACTUAL_EXPIRY in extra and fields.expiration_ms > 0:
        added[ORIGINAL_EXPIRATION] = Long(fields.expiration_ms)
    destination: ActiveMQDestination | None = None
    original: ActiveMQDestination | None = None
    if ORIGINAL_ADDRESS in extra:
        destination = _destination_of(message, None)
        original = fields.original_destination or fields.destination
    changes = Changes(
        destination=destination,
        original_destination=original,
        expiration_ms=message.expires_ms,
        priority=message.priority,
        properties=amend_map(fields.marshalled_properties, (), added) if added else None,
    )
    return rewrite(message.annotations, message.data, changes)


def _additions(extra: dict[str, object]) -> dict[str, object]:
    """Return those of the broker's own properties that clients see as properties."""
    return {
        name: Long(value) if isinstance(value, int) and not isinstance(value, bool) else value
        for name, value in extra.items()
        if (name.startswith(BROKER_PREFIX) or name == FAILURE_CAUSE) and name != VALIDATED_USER
    }


def _compose(message: Message, connection: str) -> tuple[bytes, bytes]:
    """Return a message that another protocol or the broker wrote.

    Texts that no field can hold are left out. Long because it names each of the fields.
    """
    view = message.view
    code, content = body_of(view)
    number = message.id - 1 if message.id > 0 else 0
    producer = ProducerId(connection_id=connection, session_id=-1, value=number // _NUMBERS)
    extra = message.extra or {}
    is_moved = ORIGINAL_ADDRESS in extra
    kind = view.annotations.get(DESTINATION_KIND)
    destination = _destination_of(message, None if is_moved else kind)
    draft = MessageDraft(
        code,
        write_nested(producer, LAST_VERSION),
        number % _NUMBERS + 1,
        write_nested(destination, LAST_VERSION),
    )
    draft.text_id = _fitting(jms_id(view.message_id))
    draft.persistent = message.durable
    draft.priority = message.priority
    draft.expiration_ms = message.expires_ms
    draft.timestamp_ms = max(view.creation_time_ms or 0, 0)
    draft.correlation_id = _fitting(jms_id(view.correlation_id, is_correlation=True))
    if view.reply_to and fits(view.reply_to):
        # A temporary one as well: a client sends only to those temporary ones that advisories have told it about.
        is_topic = view.annotations.get(REPLY_TO_KIND) in TOPIC_KINDS
        reply_to = (
            ActiveMQTopic(physical_name=view.reply_to) if is_topic else ActiveMQQueue(physical_name=view.reply_to)
        )
        draft.reply_to_field = write_nested(reply_to, LAST_VERSION)
    draft.jms_type = _fitting(view.subject)
    draft.group_id = _fitting(view.group_id)
    if view.group_sequence is not None:
        # Other protocols number the messages of a group without a sign.
        draft.group_sequence = (view.group_sequence + (1 << 31)) % (1 << 32) - (1 << 31)
    user = validated_user(message)
    if user is not None:
        draft.user_id = _fitting(user)
    elif view.user_id is not None:
        draft.user_id = _fitting(view.user_id.decode("utf-8", "replace"))
    draft.content = content
    properties = properties_of(view, _additions(extra))
    if properties:
        draft.properties = write_map(properties)
    header, body = draft.encode(draft.timestamp_ms)
    if is_moved:
        return rewrite(header, body, Changes(original_destination=_original_of(extra, kind)))
    return header, body


def _original_of(extra: dict[str, object], kind: object) -> ActiveMQDestination:
    """Return where a message was sent that the broker has moved."""
    routing_type = extra.get(ORIGINAL_ROUTING_TYPE)
    is_topic = kind in TOPIC_KINDS if routing_type is None else routing_type == _MULTICAST
    return _destination(str(extra[ORIGINAL_ADDRESS]), is_topic)


def _fitting(text: str | None) -> str | None:
    return text if text is not None and fits(text) else None


def _destination_of(message: Message, kind: object) -> ActiveMQDestination:
    """Return where a message is: a topic if it was sent to one, or if its address has only subscribers."""
    routing_type = message.routing_type
    origin = message.origin
    if routing_type == _MULTICAST:
        is_topic = True
    elif routing_type == _ANYCAST:
        is_topic = False
    elif kind is not None:
        is_topic = kind in TOPIC_KINDS
    else:
        is_topic = isinstance(origin, Address) and RoutingType.ANYCAST not in origin.routing_types
    return _destination(message.address, is_topic)


def _destination(name: str, is_topic: bool) -> ActiveMQDestination:
    return ActiveMQTopic(physical_name=name) if is_topic else ActiveMQQueue(physical_name=name)
