"""One acknowledgement, read from its octets (openwire §14.3). Compiled.

code, command id, answer wanted | destination | transaction | consumer | type | first message id | last message id
| count | poison cause (version 7 and later)
"""

from typing import Final

from artemis_openwire.engine.codec import read_nested, read_throwable
from artemis_openwire.engine.fields import (
    CONSUMER_ID,
    answer_id_of,
    read_i32,
    read_i64,
    skip_client_id,
    skip_destination,
    skip_message_id,
    skip_string,
    skip_transaction,
)
from artemis_openwire.engine.structure import Structure, Throwable
from artemis_openwire.engine.structures import ActiveMQDestination
from artemis_py.errors import MalformedFrame

DELIVERED: Final = 0
"""The application has the messages, and has not acknowledged them: the window opens."""
POISON: Final = 1
"""The client gives the messages up: dead letters."""
STANDARD: Final = 2
REDELIVERED: Final = 3
"""The client delivers the messages again by itself."""
INDIVIDUAL: Final = 4
"""The last message only."""
UNMATCHED: Final = 5
"""Used between brokers."""
EXPIRED: Final = 6

_DESTINATION_AT: Final = 6

# Heads up to this size are remembered: the names of a destination and a consumer, some 100 octets together.
_MAX_KNOWN_HEAD: Final = 1024

# The same for whole acknowledgements.
_MAX_KNOWN_ACK: Final = 2048


class AckFields:
    """One acknowledgement; the same object reads one after the other."""

    def __init__(self) -> None:
        self.body: bytes = b""
        self.version: int = 0
        self._head: bytes = b""
        """What stood in front of the type in the last one: outside of transactions a consumer always sends the same."""
        self._size: int = -1
        """Size of the last one; -1: its offsets are of no use for the next."""
        self._start: bytes = b""
        """What stood in front of the number of its first message."""
        self._last_name: bytes = b""
        """The name of its last message without the numbers."""
        self._consumer_key: bytes = b""
        self._transaction_key: bytes = b""
        self.transaction_at: int = 0
        self.consumer_at: int = 0
        self.type_at: int = 0
        self._first_number_at: int = 0
        self._last_at: int = 0
        self._last_number_at: int = 0
        self._count_at: int = 0

    def read(self, body: bytes, version: int) -> None:
        """Find the fields. Raises MalformedFrame."""
        self.body = body
        if (
            len(body) == self._size
            and version == self.version
            and body[_DESTINATION_AT : self._first_number_at] == self._start
            and body[self._last_at : self._last_number_at] == self._last_name
            and (version < 7 or body[self._count_at + 4] == 0)
        ):
            # Only numbers have changed: one message after the other is acknowledged.
            return
        self._size = -1
        self._read_all(body, version)
        if len(body) <= _MAX_KNOWN_ACK and (version < 7 or body[self._count_at + 4] == 0):
            self._size = len(body)
            self._start = body[_DESTINATION_AT : self._first_number_at]
            self._last_name = body[self._last_at : self._last_number_at]

    def _read_all(self, body: bytes, version: int) -> None:
        """Find every field."""
        self.version = version
        head = self._head
        self._head = b""
        try:
            if not head or not body.startswith(head, _DESTINATION_AT):
                self.transaction_at = skip_destination(body, _DESTINATION_AT)
                self.consumer_at = skip_transaction(body, self.transaction_at)
                self.type_at = skip_client_id(body, self.consumer_at, CONSUMER_ID)
                head = body[_DESTINATION_AT : self.type_at] if self.type_at <= _MAX_KNOWN_HEAD else b""
                self._consumer_key = body[self.consumer_at : self.type_at]
                has_transaction = body[self.transaction_at] != 0
                self._transaction_key = body[self.transaction_at : self.consumer_at] if has_transaction else b""
            offset = self.type_at
            has_id = body[offset + 1] != 0
            self._first_number_at = offset = skip_message_id(body, offset + 1, version)
            self._last_at = offset = offset + 16 if has_id else offset
            has_id = body[offset] != 0
            self._last_number_at = offset = skip_message_id(body, offset, version)
            self._count_at = offset = offset + 16 if has_id else offset
            offset += 4
            if version >= 7:
                offset = offset + 1 if body[offset] == 0 else skip_string(body, skip_string(body, offset + 1))
        except IndexError:
            raise MalformedFrame("an acknowledgement is shorter than its fields") from None
        if offset != len(body):
            raise MalformedFrame("the fields of an acknowledgement do not end where its frame does")
        self._head = head

    @property
    def answer_id(self) -> int:
        """What `OpenWireConnection.respond` needs for the answer."""
        return answer_id_of(self.body)

    @property
    def consumer_key(self) -> bytes:
        """The consumer as a field, to look it up by; the same object for as long as it stays the same."""
        return self._consumer_key

    @property
    def transaction_key(self) -> bytes:
        """The transaction as a field, to look it up by; empty without one."""
        return self._transaction_key

    @property
    def type(self) -> int:
        """What it says: one of the constants of this module."""
        return self.body[self.type_at]

    @property
    def count(self) -> int:
        """How many messages it is about, as the client counts them."""
        return read_i32(self.body, self._count_at)

    @property
    def has_first(self) -> bool:
        """Whether it names the first message; without one it is about all up to the last."""
        return self.body[self.type_at + 1] != 0

    @property
    def first_key(self) -> bytes:
        """Producer and number of the first message, as `MessageFields.message_key` has them; empty without one."""
        return self._key(self.type_at + 1, self._first_number_at)

    @property
    def first_sequence(self) -> int:
        """The broker's number of the first message, as the dispatch had it; -1 without one."""
        return read_i64(self.body, self._first_number_at + 8) if self.has_first else -1

    @property
    def last_key(self) -> bytes:
        """Producer and number of the last message; empty without one."""
        return self._key(self._last_at, self._last_number_at)

    @property
    def last_sequence(self) -> int:
        """The broker's number of the last message; -1 without one."""
        return read_i64(self.body, self._last_number_at + 8) if self.body[self._last_at] else -1

    def _key(self, offset: int, number_at: int) -> bytes:
        if self.body[offset] == 0:
            return b""
        start = offset + 2 if self.version < 10 else skip_string(self.body, offset + 2)
        return self.body[start : number_at + 8]

    @property
    def destination(self) -> ActiveMQDestination | None:
        """The destination that the dispatch named."""
        found = read_nested(self.body[_DESTINATION_AT : self.transaction_at], self.version)
        assert found is None or isinstance(found, ActiveMQDestination)
        return found

    @property
    def transaction(self) -> Structure | None:
        """The transaction."""
        return read_nested(self.body[self.transaction_at : self.consumer_at], self.version)

    @property
    def poison_cause(self) -> Throwable | None:
        """Why the client gave the messages up, if its version can say so."""
        return None if self.version < 7 else read_throwable(self.body[self._count_at + 4 :], self.version)
