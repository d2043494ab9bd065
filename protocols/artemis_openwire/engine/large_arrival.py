"""A large message that arrives: its content goes to a file as it comes, the rest stays in memory.

    producer | destination | ... | content: 1, size | octets ...            | properties | ...
    '------------- in memory --------------------' '- to the large body --' '- in memory -----'

What is kept is the frame with content of no octets, so that everything else in it is found where it always is.
"""

from collections.abc import Callable
from typing import Final

from artemis_openwire.engine.message_fields import MessageFields
from artemis_py.core.messages.large_body import LargeBody
from artemis_py.errors import MalformedFrame, Refusal

LEADING_LIMIT_BYTES: Final = 1024 * 1024
"""Octets in front of the content: names and texts, each of 64 KiB at most. A frame with more stays as it is."""

EMPTY_CONTENT: Final = b"\1\0\0\0\0"

_FIRST_LOOK: Final = 256

Create = Callable[[bool], LargeBody]
"""Makes a body, durable or not. Raises Refusal."""


class LargeArrival:
    """The frame of one message, of which no octet is a command of its own."""

    def __init__(self, length: int, version: int, threshold: int, create: Create) -> None:
        """Begin a frame of `length` octets; content from `threshold` octets on goes to a body."""
        self._length: Final = length
        self._version: Final = version
        self._threshold: Final = threshold
        self._create: Final = create
        self._remaining: int = length
        self._leading: bytearray = bytearray()
        """What stands in front of the content; all of the frame if the content is small."""
        self._needed: int = _FIRST_LOOK
        """Octets with which to look for the content again."""
        self._is_found: bool = False
        self._content_left: int = 0
        self._rest: bytearray = bytearray()
        self.body: LargeBody | None = None
        """The content, which the caller must release; None if it is small, or was refused."""
        self.refusal: Refusal | None = None
        """Why the message must be refused, once it has arrived."""

    @property
    def is_complete(self) -> bool:
        """Whether all of the frame has arrived."""
        return self._remaining == 0

    @property
    def kept_bytes(self) -> int:
        """Octets in memory."""
        return len(self._leading) + len(self._rest)

    def take(self, data: bytes, offset: int) -> int:
        """Take the octets from `offset` on that belong to the frame; return where it ends. Raises MalformedFrame."""
        end = min(len(data), offset + self._remaining)
        self._remaining -= end - offset
        if self._is_found:
            self._take_found(data[offset:end])
        else:
            self._leading += memoryview(data)[offset:end]
            if len(self._leading) >= self._needed or self._remaining == 0:
                self._look()
        return end

    def _take_found(self, data: bytes) -> None:
        size = min(len(data), self._content_left)
        if size:
            self._content_left -= size
            self._append(data if size == len(data) else data[:size])
            if self._content_left == 0 and self.body is not None:
                self._try(self.body.finish)
        if size < len(data):
            self._rest += memoryview(data)[size:]

    def _look(self) -> None:
        """Find the content, if its beginning is here. Raises MalformedFrame if it ends behind the frame."""
        fields = MessageFields()
        size = fields.find_content(bytes(self._leading), self._version)
        if size is None:
            self._needed = 2 * len(self._leading) if len(self._leading) < LEADING_LIMIT_BYTES else self._length
            return
        if size < self._threshold:
            self._needed = self._length
            return
        start = fields.content_at + len(EMPTY_CONTENT)
        if start + size > self._length:
            raise MalformedFrame("the content of a message is longer than its frame")
        found = bytes(self._leading[start:])
        self._leading = self._leading[: fields.content_at] + EMPTY_CONTENT
        self._is_found = True
        self._content_left = size
        try:
            self.body = self._create(fields.persistent)
        except Refusal as refusal:
            self.refusal = refusal
        self._take_found(found)

    def _append(self, data: bytes) -> None:
        body = self.body
        if body is not None:
            self._try(lambda: body.append(data))

    def _try(self, action: Callable[[], None]) -> None:
        """Store something; if that fails, what follows is discarded, and the message refused at its end."""
        try:
            action()
        except Refusal as refusal:
            self.refusal = refusal
            self.release()

    def frame(self) -> bytes:
        """Return the complete frame, without the content if that is in a body or was refused."""
        return bytes(self._leading + self._rest)

    def release(self) -> None:
        """Let go of the body: it is the caller's, or nobody's."""
        body, self.body = self.body, None
        if body is not None:
            body.release()
