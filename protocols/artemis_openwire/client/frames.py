"""Frames that a client sends and receives for every message: encoded once, with a few fields put in each time."""

from struct import Struct
from typing import Final

from artemis_openwire.engine.ack_fields import STANDARD
from artemis_openwire.engine.codec import write_frame, write_nested
from artemis_openwire.engine.commands import Message
from artemis_openwire.engine.fields import CONSUMER_ID, read_i32, skip_client_id, skip_destination
from artemis_openwire.engine.message_fields import MessageFields
from artemis_openwire.engine.structures import ActiveMQDestination, ConsumerId, TransactionId
from artemis_py.errors import MalformedFrame

_SIZE: Final = Struct(">i")
_COMMAND: Final = Struct(">iB")
_NUMBER: Final = Struct(">q")
_ACK: Final = Struct(">iBiB")
_ACK_CODE: Final = 22
_NULL: Final = b"\0"
_CONSUMER_AT: Final = 6


class MessageTemplate:
    """A message that is sent again and again, each time under another number."""

    def __init__(self, message: Message, version: int) -> None:
        """Encode `message`, which needs an id. Raises MalformedFrame without one."""
        frame = write_frame(message, version)
        fields = MessageFields()
        fields.read(frame[4:], version)
        number_at = 4 + fields.number_at
        self._start: bytes = frame[:5]
        self._head: bytes = frame[10:number_at]
        self._tail: bytes = frame[number_at + 8 :]

    def frame(self, command_id: int, wants_answer: bool, number: int) -> bytes:
        """Return the message as the producer's `number`th."""
        return b"".join(
            (self._start, _COMMAND.pack(command_id, wants_answer), self._head, _NUMBER.pack(number), self._tail)
        )


class AckTemplate:
    """Acknowledgements of one consumer."""

    def __init__(
        self,
        consumer: ConsumerId,
        destination: ActiveMQDestination,
        version: int,
        kind: int = STANDARD,
        transaction: TransactionId | None = None,
    ) -> None:
        """Encode what is the same in all of them."""
        names = [write_nested(name, version) for name in (destination, transaction, consumer)]
        self._head: bytes = b"".join(names) + bytes((kind,))
        self._tail: bytes = _NULL if version >= 7 else b""

    def frame(self, command_id: int, wants_answer: bool, first: bytes, last: bytes, count: int) -> bytes:
        """Return an acknowledgement from the first to the last message, each as `Dispatch.message_id` has it."""
        body = b"".join((self._head, first, last, _SIZE.pack(count), self._tail))
        return _ACK.pack(len(body) + 6, _ACK_CODE, command_id, wants_answer) + body


class Dispatch:
    """One delivery, read from its octets; the same object reads one after the other."""

    def __init__(self) -> None:
        self.body: bytes = b""
        self.message: MessageFields = MessageFields()
        """The message, if there is one."""
        self._destination_at: int = 0
        self._message_at: int = 0

    def read(self, body: bytes, version: int) -> None:
        """Find the fields. Raises MalformedFrame."""
        self.body = body
        try:
            self._destination_at = skip_client_id(body, _CONSUMER_AT, CONSUMER_ID)
            self._message_at = skip_destination(body, self._destination_at)
            if self.has_message:
                self.message.read(body[self._message_at + 1 : -4], version)
            elif len(body) != self._message_at + 5:
                raise MalformedFrame("the fields of a dispatch do not end where its frame does")
        except IndexError:
            raise MalformedFrame("a dispatch is shorter than its fields") from None

    @property
    def consumer_key(self) -> bytes:
        """The consumer as a field, to look it up by."""
        return self.body[_CONSUMER_AT : self._destination_at]

    @property
    def has_message(self) -> bool:
        """Whether there is a message; without one, a browser has seen all, or a pull found nothing."""
        return self.body[self._message_at] != 0

    @property
    def message_id(self) -> bytes:
        """The id of the message as a field, for its acknowledgement; empty without a message."""
        if not self.has_message:
            return b""
        message = self.message
        return message.body[message.message_id_at : message.original_transaction_at]

    @property
    def redeliveries(self) -> int:
        """How often the message was delivered before."""
        return read_i32(self.body, len(self.body) - 4)
