"""New messages, encoded field by field: for what comes from other protocols, and for advisories. Compiled.

The result has the form in which messages are kept (`message_fields`), in version 12; `dispatch_writer` makes the form
of an older version where a consumer needs it.
"""

from struct import Struct
from typing import Final

from artemis_openwire.engine.codec import bytes_field, string_field
from artemis_openwire.engine.message_fields import HEADER
from artemis_openwire.engine.structure import LAST_VERSION

_HEAD: Final = b"\0\0\0\0\0"
_NULL: Final = b"\0"
_MESSAGE_ID: Final = b"\x01\x6e"
_TRUE: Final = b"\1"
_NUMBERS: Final = Struct(">qq")
_NUMBER: Final = Struct(">q")
_SEQUENCE: Final = Struct(">i")
_EXPIRY_AND_PRIORITY: Final = Struct(">qb")
_COUNTER_AND_PATH: Final = bytes(5)
_ARRIVAL: Final = bytes(8)
# From another broker or not, droppable, and an array of brokers that is null.
_FLAGS: Final = bytes(3)
_TIMES_AND_FIRST: Final = bytes(17)


class MessageDraft:
    """The fields of a new message; those that are not set are what JMS has for them."""

    def __init__(self, code: int, producer_field: bytes, number: int, destination_field: bytes) -> None:
        """Begin the producer's `number`th message, of a type by its code. The fields are encoded (`write_nested`)."""
        self.code: int = code
        self.producer_field: bytes = producer_field
        self.number: int = number
        self.destination_field: bytes = destination_field
        self.text_id: str | None = None
        """The message's id in the protocol that it comes from, which applications then see."""
        self.persistent: bool = False
        self.priority: int = 4
        self.expiration_ms: int = 0
        self.timestamp_ms: int = 0
        self.correlation_id: str | None = None
        self.reply_to_field: bytes = _NULL
        self.jms_type: str | None = None
        self.group_id: str | None = None
        self.group_sequence: int = 0
        self.user_id: str | None = None
        self.content: bytes | None = None
        self.properties: bytes | None = None
        self.structure_field: bytes = _NULL
        """The subject of an advisory, encoded for version 12."""

    def encode(self, arrived_ms: int) -> tuple[bytes, bytes]:
        """Return the header and the body to keep. Raises ValueError for a text of more than 65,535 octets."""
        head = b"".join(
            (
                bytes((self.code,)),
                _HEAD,
                self.producer_field,
                self.destination_field,
                _NULL,
                _NULL,
                _MESSAGE_ID,
                string_field(self.text_id),
                self.producer_field,
            )
        )
        middle = b"".join(
            (
                _NUMBERS.pack(self.number, 0),
                _NULL,
                string_field(self.group_id),
                _SEQUENCE.pack(self.group_sequence),
                string_field(self.correlation_id),
                _TRUE if self.persistent else _NULL,
                _EXPIRY_AND_PRIORITY.pack(self.expiration_ms, self.priority),
                self.reply_to_field,
                _NUMBER.pack(self.timestamp_ms),
                string_field(self.jms_type),
                bytes_field(self.content),
                bytes_field(self.properties),
                self.structure_field,
                _NULL,
                _NULL,
            )
        )
        tail = b"".join((_COUNTER_AND_PATH, _ARRIVAL, string_field(self.user_id), _FLAGS))
        counter_at = len(head) + len(middle)
        times_at = counter_at + len(tail)
        has_subject = self.structure_field != _NULL
        header = HEADER.pack(LAST_VERSION, has_subject, len(head) + 8, counter_at, times_at, arrived_ms)
        return header, head + middle + tail + _TIMES_AND_FIRST
