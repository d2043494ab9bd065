"""Several messages that go to a peer in one transfer. Numbers are big-endian.

     0         1        5
    +---------+--------+-------
    | u8      | u32    | runs
    | version | count  |
    +---------+--------+-------

    run:  | u32 count | envelope without its message | u32 length of each message | messages, as in a store

The messages of a run differ in nothing that stands before them in an envelope (`envelope`); none has a body that comes
in pieces. A block has the number of its last message, so that its confirmation covers all of them.
"""

from collections.abc import Mapping
from struct import Struct, pack, unpack_from
from typing import Final

from artemis_py.cluster.envelope import Envelope, check_message, octets_before, read_before, read_message
from artemis_py.core.messages.message import Message, MessageFormat
from artemis_py.core.messages.record import decode_like_last, encode_message, middle_of
from artemis_py.errors import ProtocolError

BLOCK_BYTES: Final = 32 * 1024
"""Octets of messages from which a block is complete: what a transfer costs no longer counts, and a block of usual
messages is one frame."""

_HEAD: Final = Struct(">BI")
_COUNT: Final = Struct(">I")
_VERSION: Final = 2
_NO_ID: Final = bytes(8)


class Block:
    """A block that is being written."""

    def __init__(self) -> None:
        self.count: int = 0
        """Number of messages."""
        self.size_bytes: int = 0
        """Octets of the messages."""
        self._parts: Final[list[bytes]] = []
        self._before: bytes = b""
        """What stands before the messages of the last run."""
        self._messages: list[bytes] = []
        """Messages of the last run, in parts."""
        self._sizes: list[int] = []

    def surround(self, envelope: Envelope) -> None:
        """Let the messages that are added from now on have this envelope around them."""
        before = octets_before(envelope)
        if before != self._before:
            self._end_run()
            self._before = before

    def add(self, message: Message) -> None:
        """Add a message."""
        middle = middle_of(message)
        if middle is None:
            octets = encode_message(message)
            size = len(octets)
            self._messages.append(octets)
        else:
            # The same as above, without the id, which means nothing to the peer, and without a copy.
            annotations, data = message.annotations, message.data
            size = len(_NO_ID) + len(middle) + len(annotations) + len(data)
            messages = self._messages
            messages.append(_NO_ID)
            messages.append(middle)
            if annotations:
                messages.append(annotations)
            messages.append(data)
        self._sizes.append(size)
        self.count += 1
        self.size_bytes += size

    def octets(self) -> bytes:
        """End the block and return it."""
        self._end_run()
        return b"".join((_HEAD.pack(_VERSION, self.count), *self._parts))

    def _end_run(self) -> None:
        sizes = self._sizes
        if sizes:
            self._parts.append(_COUNT.pack(len(sizes)))
            self._parts.append(self._before)
            self._parts.append(pack(f">{len(sizes)}I", *sizes))
            self._parts.extend(self._messages)
            self._messages = []
            self._sizes = []


class Run:
    """Messages that came together, with the same envelope around each."""

    def __init__(self, envelope: Envelope, messages: list[Message]) -> None:
        self.envelope: Final = envelope
        """The envelope around the first of them."""
        self.messages: Final = messages


def read_block(content: bytes, formats: Mapping[str, MessageFormat]) -> list[Run]:
    """Return the messages of a transfer: a block, or a single envelope. Raises ProtocolError."""
    if not content or content[0] != _VERSION:
        before = read_before(content, 0)
        single = read_message(content[len(before.octets) :], formats, None, before.durable)
        return [Run(before.around(single), [single])]
    if len(content) < _HEAD.size:
        raise ProtocolError("a block of messages is cut off")
    runs: list[Run] = []
    left: int = _HEAD.unpack_from(content)[1]
    offset = _HEAD.size
    end = len(content)
    while offset < end:
        if offset + _COUNT.size > end:
            raise ProtocolError("a block of messages is cut off")
        count: int = _COUNT.unpack_from(content, offset)[0]
        offset += _COUNT.size
        before = read_before(content, offset)
        sizes_offset = offset + len(before.octets)
        offset = sizes_offset + count * _COUNT.size
        if not 0 < count <= left or offset > end:
            raise ProtocolError("a block of messages has another number of messages than it says")
        left -= count
        messages: list[Message] = []
        sizes: tuple[int, ...] = unpack_from(f">{count}I", content, sizes_offset)
        for size in sizes:
            stop = offset + size
            if stop > end:
                raise ProtocolError("a block of messages is cut off")
            message = decode_like_last(content, offset, stop, formats, before.durable)
            if message is None:
                message = read_message(content[offset:stop], formats, None, before.durable)
            else:
                check_message(message)
            messages.append(message)
            offset = stop
        runs.append(Run(before.around(messages[0]), messages))
    if left or not runs:
        raise ProtocolError("a block of messages has another number of messages than it says")
    return runs
