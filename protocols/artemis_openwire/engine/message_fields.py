"""One message, read from its octets: where each field begins, and its value when it is asked for (openwire §9.1).

    code, command id, answer wanted | producer | destination | transaction | original destination
    | message id: text, producer, number | broker's number | ... | content | properties | ...
    | redelivery counter | ... | time in, time out | first of its group | ...

`body` is the frame without its size, and is what the broker keeps: a message goes to consumers of OpenWire as it came,
except for the few fields that `dispatch_writer` puts in. From one message of a producer to the next only the numbers
change, so everything in front of them is compared with the last message in one step instead of being read. Compiled.
"""

from struct import Struct
from typing import Final

from artemis_openwire.engine.codec import read_nested, skip_nested
from artemis_openwire.engine.fields import (
    CONSUMER_ID,
    MESSAGE_ID,
    PRODUCER_ID,
    answer_id_of,
    read_i32,
    read_i64,
    read_octets,
    skip_brokers,
    skip_client_id,
    skip_destination,
    skip_octets,
    skip_string,
    skip_transaction,
    wrong_type,
)
from artemis_openwire.engine.structure import Structure
from artemis_openwire.engine.structures import ActiveMQDestination, MessageId
from artemis_openwire.engine.text import decode_text
from artemis_openwire.engine.values import read_map
from artemis_py.errors import MalformedFrame

FIRST_CODE: Final = 23
LAST_CODE: Final = 29
_BLOB: Final = 29

HEADER: Final = Struct(">B?IIIq")
"""What is kept beside `body`: the version; whether there is a subject of an advisory, whose fields differ with
versions; offsets of the broker's number, the redelivery counter and the times (0: there are none); time of arrival."""

WINDOW_OVERHEAD: Final = 1024
"""Octets that a message counts for in a producer's window, beyond its properties and its content (openwire §9.2)."""

_HEAD_AT: Final = 6
"""Where the producer stands: behind code, command id and the flag that an answer is wanted."""

# Heads up to this size are remembered: two names of a connection, some 40 octets each, and a destination.
_MAX_KNOWN_HEAD: Final = 1024


class MessageFields:
    """One message; the same object reads one message after the other."""

    # Long because it declares every offset.
    def __init__(self) -> None:
        self.body: bytes = b""
        self.version: int = 0
        self._head: bytes = b""
        """What stood between `_HEAD_AT` and the producer's number in the last message; offsets in there still hold."""
        self._destination: ActiveMQDestination | None = None
        self._producer_key: bytes = b""
        self._transaction_key: bytes = b""
        self._header: bytes = b""
        """The last header, and what it says: messages that arrive together mostly have the same."""
        self._header_number_at: int = 0
        self._header_counter_at: int = 0
        self._header_times_at: int = 0
        self._header_arrived_ms: int = 0
        self._properties: dict[str, object] | None = None
        # Offsets in the order of the fields.
        self.destination_at: int = 0
        self.transaction_at: int = 0
        self.original_destination_at: int = 0
        self.message_id_at: int = 0
        self.id_producer_at: int = 0
        self.number_at: int = 0
        """Where the producer's number of the message stands."""
        self.original_transaction_at: int = 0
        self.group_id_at: int = 0
        self.correlation_id_at: int = 0
        self.expiration_at: int = 0
        self.reply_to_at: int = 0
        self.timestamp_at: int = 0
        self.content_at: int = 0
        self.properties_at: int = 0
        self.structure_at: int = 0
        self.target_at: int = 0
        self.counter_at: int = 0
        """Where the redelivery counter stands."""
        self.arrival_at: int = 0
        self.droppable_at: int = 0
        """Where the fields begin that not all versions have."""
        self.times_at: int = 0
        """Where the times of arrival and dispatch stand; 0: the version has none."""
        self.first_at: int = 0
        """Where it stands whether the message is the first of its group; 0: the version does not have it."""
        self.blob_at: int = 0
        """Where the fields of a blob message begin; the end of `body` for others."""

    def read(self, body: bytes, version: int) -> None:
        """Find the fields of a message. Raises MalformedFrame; the object is then of no use until the next `read`."""
        self.body = body
        self._properties = None
        head = self._head
        self._head = b""
        try:
            if version != self.version or not head or not body.startswith(head, _HEAD_AT):
                self.version = version
                self._destination = None
                self._read_head(body)
                head = body[_HEAD_AT : self.number_at] if self.number_at <= _MAX_KNOWN_HEAD else b""
            end = self._read_tail(body, self._read_middle(body, self.number_at + 16))
        except IndexError:
            raise MalformedFrame("a message is shorter than its fields") from None
        if end != len(body):
            raise MalformedFrame("the fields of a message do not end where its frame does")
        self._head = head

    def find_content(self, body: bytes, version: int) -> int | None:
        """Find the content of a message that has arrived in part; return its size, 0 for null.

        None: its beginning is not there yet, or the octets are no message. `content_at` and the fields in front of it
        may be asked for then, and nothing else.
        """
        self.body = body
        self.version = version
        try:
            self._read_head(body)
            self._skip_to_content(body, self.number_at + 16)
            at = self.content_at
            return 0 if body[at] == 0 else body[at + 1] << 24 | body[at + 2] << 16 | body[at + 3] << 8 | body[at + 4]
        except (IndexError, MalformedFrame):
            return None

    def _read_head(self, body: bytes) -> None:
        """Find what stands in front of the producer's number."""
        self.destination_at = skip_client_id(body, _HEAD_AT, PRODUCER_ID)
        self.transaction_at = skip_destination(body, self.destination_at)
        self.original_destination_at = skip_transaction(body, self.transaction_at)
        offset = self.message_id_at = skip_destination(body, self.original_destination_at)
        if body[offset] == 0:
            raise MalformedFrame("a message without an id")
        if body[offset + 1] != MESSAGE_ID:
            raise wrong_type(body[offset + 1], "a message id")
        offset += 2
        if self.version >= 10:
            offset = skip_string(body, offset)
        self.id_producer_at = offset
        self.number_at = skip_client_id(body, offset, PRODUCER_ID)
        self._producer_key = body[_HEAD_AT : self.destination_at]
        has_transaction = body[self.transaction_at] != 0
        self._transaction_key = body[self.transaction_at : self.original_destination_at] if has_transaction else b""

    def _read_middle(self, body: bytes, offset: int) -> int:
        """Find the fields from the numbers to the redelivery counter, which are the same in all versions."""
        offset = self._skip_to_content(body, offset)
        self.properties_at = offset = skip_octets(body, offset)
        self.structure_at = offset = skip_octets(body, offset)
        offset = offset + 1 if body[offset] == 0 else skip_nested(body, offset, self.version)
        self.target_at = offset
        self.counter_at = offset = skip_client_id(body, offset, CONSUMER_ID) + 1
        return offset

    def _skip_to_content(self, body: bytes, offset: int) -> int:
        """Find the fields from the numbers to the content."""
        self.original_transaction_at = offset
        self.group_id_at = offset = skip_transaction(body, offset)
        self.correlation_id_at = offset = skip_string(body, offset) + 4
        self.expiration_at = offset = skip_string(body, offset) + 1
        self.reply_to_at = offset = offset + 9
        self.timestamp_at = offset = skip_destination(body, offset)
        self.content_at = offset = skip_string(body, offset + 8)
        return offset

    def _read_tail(self, body: bytes, offset: int) -> int:
        """Find the fields from the redelivery counter on; the versions differ in the last ones."""
        version = self.version
        self.arrival_at = offset = skip_brokers(body, offset + 4)
        self.droppable_at = offset = skip_string(body, offset + 8) + 1
        self.times_at = self.first_at = 0
        if version >= 3:
            self.times_at = offset = skip_brokers(body, offset + 1)
            offset += 16
            if version >= 10:
                self.first_at = offset
                offset += 1
        elif version == 2:
            offset += 1
        self.blob_at = offset
        if body[0] == _BLOB:
            if version < 3:
                raise MalformedFrame(f"a blob message in version {version}")
            offset = skip_string(body, skip_string(body, offset)) + 1
        return offset

    def header(self, arrived_ms: int) -> bytes:
        """Return what has to be kept beside `body` so that `dispatch_writer` need not read it again."""
        number_at = self.number_at + 8
        has_subject = self.body[self.structure_at] != 0
        header = self._header
        if (
            not has_subject
            and self._header_arrived_ms == arrived_ms
            and self._header_counter_at == self.counter_at
            and self._header_number_at == number_at
            and self._header_times_at == self.times_at
            and header[0] == self.version
        ):
            return header
        header = HEADER.pack(self.version, has_subject, number_at, self.counter_at, self.times_at, arrived_ms)
        if not has_subject:
            self._header = header
            self._header_number_at = number_at
            self._header_counter_at = self.counter_at
            self._header_times_at = self.times_at
            self._header_arrived_ms = arrived_ms
        return header

    # -- what the broker asks for every message ------------------------------------------------------------------

    @property
    def code(self) -> int:
        """Which of the seven kinds it is: its type code."""
        return self.body[0]

    @property
    def answer_id(self) -> int:
        """What `OpenWireConnection.respond` needs for the answer."""
        return answer_id_of(self.body)

    @property
    def producer_key(self) -> bytes:
        """The producer as a field, to look it up by; the same object for as long as it stays the same."""
        return self._producer_key

    @property
    def destination(self) -> ActiveMQDestination | None:
        """The destination; the same object for as long as it stays the same. None: the client has left it out."""
        if self._destination is None:
            found = read_nested(self.body[self.destination_at : self.transaction_at], self.version)
            assert found is None or isinstance(found, ActiveMQDestination)
            self._destination = found
        return self._destination

    @property
    def transaction_key(self) -> bytes:
        """The transaction as a field, to look it up by; empty without one."""
        return self._transaction_key

    @property
    def message_key(self) -> bytes:
        """The producer and number of the message, by which two messages are the same."""
        return self.body[self.id_producer_at : self.number_at + 8]

    @property
    def producer_number(self) -> int:
        """The number of the message at its producer (`producerSequenceId`)."""
        return read_i64(self.body, self.number_at)

    @property
    def persistent(self) -> bool:
        """Whether it survives a restart."""
        return self.body[self.expiration_at - 1] != 0

    @property
    def expiration_ms(self) -> int:
        """When it expires, in milliseconds since 1970; 0: never."""
        return read_i64(self.body, self.expiration_at)

    @property
    def priority(self) -> int:
        """Its priority: 0 to 9, if the client keeps the rules."""
        value = self.body[self.reply_to_at - 1]
        return value if value < 128 else value - 256

    @property
    def window_size(self) -> int:
        """Octets that it takes of its producer's window, and that a ProducerAck returns (openwire §9.2)."""
        content = self.properties_at - self.content_at
        properties = self.structure_at - self.properties_at
        return WINDOW_OVERHEAD + max(content - 5, 0) + max(properties - 5, 0)

    @property
    def group_id(self) -> str | None:
        """Its group (JMSXGroupID)."""
        return self._text(self.group_id_at)

    @property
    def group_sequence(self) -> int:
        """Its number in the group (JMSXGroupSeq); -1 closes the group."""
        return read_i32(self.body, self.correlation_id_at - 4)

    # -- the rest ------------------------------------------------------------------------------------------------

    @property
    def transaction(self) -> Structure | None:
        """The transaction."""
        return read_nested(self.body[self.transaction_at : self.original_destination_at], self.version)

    @property
    def original_destination(self) -> ActiveMQDestination | None:
        """Where it was sent, if a broker has sent it elsewhere."""
        found = read_nested(self.body[self.original_destination_at : self.message_id_at], self.version)
        assert found is None or isinstance(found, ActiveMQDestination)
        return found

    @property
    def message_id(self) -> MessageId:
        """Its id, with the number that the last broker gave it."""
        found = read_nested(self.body[self.message_id_at : self.original_transaction_at], self.version)
        assert isinstance(found, MessageId)
        return found

    @property
    def correlation_id(self) -> str | None:
        """JMSCorrelationID."""
        return self._text(self.correlation_id_at)

    @property
    def reply_to(self) -> ActiveMQDestination | None:
        """JMSReplyTo."""
        found = read_nested(self.body[self.reply_to_at : self.timestamp_at], self.version)
        assert found is None or isinstance(found, ActiveMQDestination)
        return found

    @property
    def timestamp_ms(self) -> int:
        """When it was sent, in milliseconds since 1970 (JMSTimestamp)."""
        return read_i64(self.body, self.timestamp_at)

    @property
    def jms_type(self) -> str | None:
        """JMSType."""
        return self._text(self.timestamp_at + 8)

    @property
    def content(self) -> bytes | None:
        """The body, as `bodies` explains it."""
        return read_octets(self.body, self.content_at)

    @property
    def marshalled_properties(self) -> bytes | None:
        """The properties as they are encoded."""
        return read_octets(self.body, self.properties_at)

    @property
    def properties(self) -> dict[str, object]:
        """The properties, decoded when first asked for; treat them as read-only. Raises MalformedFrame."""
        found = self._properties
        if found is None:
            found = self._properties = read_map(self.marshalled_properties)
        return found

    @property
    def data_structure(self) -> Structure | None:
        """What an advisory is about."""
        return read_nested(self.body[self.structure_at : self.target_at], self.version)

    @property
    def compressed(self) -> bool:
        """Whether the content is compressed."""
        return self.body[self.counter_at - 1] != 0

    @property
    def redelivery_counter(self) -> int:
        """How often it was delivered before, as its sender has it."""
        return read_i32(self.body, self.counter_at)

    @property
    def user_id(self) -> str | None:
        """The user that sent it, if a broker has put it in (JMSXUserID)."""
        return self._text(self.arrival_at + 8)

    @property
    def blob_fields(self) -> bytes:
        """URL, type and owner of the body of a blob message, as fields."""
        return self.body[self.blob_at :]

    def _text(self, offset: int) -> str | None:
        body = self.body
        return None if body[offset] == 0 else decode_text(body[offset + 3 : skip_string(body, offset)])
