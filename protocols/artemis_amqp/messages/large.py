"""Large messages that arrive or are sent: the layer between a link and a body that is not in memory.

header | annotations | properties | application-properties | body ...
'------------------ in memory, for routing ---------------' '--- goes to the storage as it arrives
"""

from typing import Final

from artemis_amqp.engine.errors import MESSAGE_SIZE_EXCEEDED, Condition
from artemis_amqp.engine.handlers import DeliverySource, DeliveryStream
from artemis_amqp.engine.types import MalformedValue
from artemis_amqp.messages.arrival import Sections, leading_size, split_sections
from artemis_amqp.messages.outline import BodyOutline
from artemis_py.core.messages.large_body import LargeBody, LargeReader
from artemis_py.core.queues.storage import Storage
from artemis_py.errors import MalformedFrame, Refusal, StoreError
from artemis_py.logs import named_logger

logger = named_logger(__name__)

# The sections before the body are kept in memory with the message. JMS properties and tracing headers take a few KiB.
LEADING_LIMIT_BYTES: Final = 1024 * 1024

# Each of them has an open file. A client that sends more large messages at the same time uses more connections.
ARRIVING_LIMIT: Final = 64
"""Large messages that one connection may be sending at once."""


NO_SECTION: Final = "a delivery without any section is not a message"
"""Reason for refusing an empty delivery. One without a body is accepted, some clients send that (AMQP 1.0 §3.2)."""


class IncomingBody(DeliveryStream):
    """A large message that arrives: its first sections are collected and read, its body goes to the storage.

    An error is kept until the delivery is complete, because only then can it be refused; the rest is discarded.
    """

    def __init__(self, storage: Storage, refusal: Refusal | None = None) -> None:
        """Begin a message; with `refusal` it is refused when it is complete."""
        self._storage = storage
        self._leading = bytearray()
        self._needed = 1
        """Number of octets needed to tell the first sections from the body."""
        self._sections: Sections | None = None
        self._body: LargeBody | None = None
        self._outline = BodyOutline()
        self._error: Refusal | MalformedFrame | Condition | None = refusal
        self.is_open = True

    def append(self, data: bytes) -> int:
        """See `DeliveryStream`."""
        if not self.is_open or self._error is not None:
            return 0
        try:
            if self._body is not None:
                self._outline.follow(data)
                self._body.append(data)
                return 0
            self._leading += data
            if len(self._leading) >= self._needed:
                self._find_body()
        except (Refusal, MalformedFrame, Condition) as error:
            self._fail(error)
        return len(self._leading)

    def _find_body(self) -> None:
        """Read the first sections if all of them have arrived."""
        size = leading_size(self._leading)
        if size < 0:
            self._needed = -size
            if self._needed > LEADING_LIMIT_BYTES:
                text = f"more than {LEADING_LIMIT_BYTES} bytes of a large message before its body"
                raise Condition(MESSAGE_SIZE_EXCEEDED, text)
            return
        sections = split_sections(bytes(self._leading[:size]))
        start = bytes(self._leading[size:])
        self._outline.follow(start)
        body = self._body = self._storage.create_large(sections.durable)
        body.append(start)
        self._leading = bytearray()
        self._sections = sections

    def _fail(self, error: "Refusal | MalformedFrame | Condition") -> None:
        self._error = error
        self._leading = bytearray()
        if self._body is not None:
            self._body.release()
            self._body = None

    def finish(self) -> tuple[Sections, LargeBody | None]:
        """Return the sections of the complete message, and its body, which the caller must release.

        Raises the first error, if any: Refusal, MalformedFrame, Condition.
        """
        self.is_open = False
        if self._error is not None:
            raise self._error
        if self._body is None and not self._leading:
            raise MalformedValue(NO_SECTION)
        if self._body is None or self._sections is None:
            # No body section was found in it.
            return split_sections(bytes(self._leading)), None
        self._outline.finish()
        self._body.finish()
        body, self._body = self._body, None
        return self._sections, body

    def abandon(self) -> None:
        """See `DeliveryStream`."""
        self.is_open = False
        self._leading = bytearray()
        if self._body is not None:
            self._body.release()
            self._body = None


class OutgoingBody(DeliverySource):
    """A large body that is sent. Its message may be deleted from now on: a body that is open stays readable."""

    def __init__(self, body: LargeBody) -> None:
        """Open the body. Raises StoreError."""
        self._reader: LargeReader = body.reader()
        self._is_open = True

    def read(self, size: int) -> bytes:
        """See `DeliverySource`. The last octets are not returned if the checksum of the body is wrong."""
        if not self._is_open:
            return b""
        try:
            return self._reader.read(size)
        except StoreError as error:
            logger.error("delivery of a large message aborted: reason=%s", error)
            return b""

    def close(self) -> None:
        """See `DeliverySource`."""
        if self._is_open:
            self._is_open = False
            self._reader.close()
