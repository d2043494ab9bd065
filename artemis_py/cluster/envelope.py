"""A message on its way between two brokers (mesh §5.6). Numbers are big-endian.

     0         1       2          6              8                10
    +---------+-------+----------+--------------+----------------+-----------+---------+------+---------
    | u8      | u8    | u32      | u16          | u16            | u16       | address | path | message
    | version | flags | attempts | queue length | address length | path      | queue   |      | as in
    |         |       |          |              |                | length    | UTF-8   | UTF-8| a store
    +---------+-------+----------+--------------+----------------+-----------+---------+------+---------

Flags: 1: durable; 2: a consumer has had it; 4: the queue is that of a shared subscription. A sender sets no other
flags; with 128 the message must not be taken by a broker that does not know why. The path names the nodes that handed
it over, the first of them first. A copy names no queue: the receiver's subscriptions of the address get it.
"""

from collections.abc import Mapping
from struct import Struct
from typing import Final

from artemis_py.core.messages.message import Message, MessageFormat
from artemis_py.core.messages.record import Bodies, MissingFormat, decode_message, encode_message
from artemis_py.core.queues.reference import PRIORITIES
from artemis_py.errors import DamagedValue, ProtocolError

_HEAD: Final = Struct(">BBIHHH")
_VERSION: Final = 1
_DURABLE: Final = 1
_ACQUIRED: Final = 2
_SHARED: Final = 4
_MANDATORY: Final = 128

PATH: Final = "mesh-path"
"""Property of a message that was handed over: the ids of the nodes that had it, separated by commas."""
MAX_PATH: Final = 32
"""Nodes of a path that are kept: a message that consumers draw to and fro for days must not grow."""


class Envelope:
    """A message, the queue that it is for, and where it has been."""

    __slots__ = (
        "address",
        "delivery_count",
        "is_shared",
        "message",
        "path",
        "path_alone",
        "path_text",
        "queue",
        "was_acquired",
    )

    def __init__(
        self,
        message: Message,
        address: str,
        queue: str,
        delivery_count: int,
        was_acquired: bool,
        path: tuple[str, ...],
        is_shared: bool = False,
    ) -> None:
        self.message: Message = message
        self.address: str = address
        """Address of the queue; the message may have been sent to another one."""
        self.queue: str = queue
        self.delivery_count: int = delivery_count
        self.was_acquired: bool = was_acquired
        self.path: tuple[str, ...] = path
        self.path_text: str = ",".join(path)
        """The path as a property of a message."""
        self.path_alone: dict[str, object] = {PATH: self.path_text}
        """Properties of a message that has no others, for all that come with this envelope."""
        self.is_shared: bool = is_shared
        """Whether the queue is that of a shared subscription, which must not be made again when it has ended."""


class Before:
    """What stands before a message, and what it means: what comes for one queue mostly differs in none of it."""

    def __init__(self, octets: bytes, address: str, queue: str, counts: tuple[int, int], path: tuple[str, ...]) -> None:
        """`counts`: number of attempts, and flags."""
        self.octets: bytes = octets
        self._address: str = address
        self._queue: str = queue
        self._delivery_count: int = counts[0]
        self._was_acquired: bool = counts[1] & _ACQUIRED != 0
        self._is_shared: bool = counts[1] & _SHARED != 0
        self.durable: bool = counts[1] & _DURABLE != 0
        self._path: tuple[str, ...] = path

    def around(self, message: Message) -> Envelope:
        """Return an envelope with this around a message."""
        return Envelope(
            message, self._address, self._queue, self._delivery_count, self._was_acquired, self._path, self._is_shared
        )


_LAST_READ: Final[list[Before]] = []


def path_of(message: Message) -> tuple[str, ...]:
    """Return the ids of the nodes that have handed this message over."""
    if message.extra is None:
        return ()
    path = message.extra.get(PATH)
    return tuple(path.split(",")) if isinstance(path, str) and path else ()


def longer_path(message: Message, node_id: str) -> tuple[str, ...]:
    """Return the path that a message has when a node hands it over: the last nodes of it."""
    return (*path_of(message), node_id)[-MAX_PATH:]


class _Written:
    """What was written before the last message: what goes out of one queue mostly differs in none of it."""

    def __init__(self, envelope: Envelope) -> None:
        self._address: str = envelope.address
        self._queue: str = envelope.queue
        self._delivery_count: int = envelope.delivery_count
        self._was_acquired: bool = envelope.was_acquired
        self._path: tuple[str, ...] = envelope.path
        self._is_shared: bool = envelope.is_shared
        self._durable: bool = envelope.message.durable
        self.octets: bytes = _encode_before(envelope)

    def fits(self, envelope: Envelope) -> bool:
        """Tell whether the same stands before another message."""
        return (
            envelope.delivery_count == self._delivery_count
            and envelope.was_acquired == self._was_acquired
            and envelope.is_shared == self._is_shared
            and envelope.message.durable == self._durable
            and envelope.queue == self._queue
            and envelope.address == self._address
            and envelope.path == self._path
        )


_LAST_WRITTEN: Final[list[_Written]] = []


def encode_envelope(envelope: Envelope) -> bytes:
    """Return the octets of an envelope."""
    return encode_message(envelope.message, octets_before(envelope))


def octets_before(envelope: Envelope) -> bytes:
    """Return what stands before the message."""
    last = _LAST_WRITTEN[0] if len(_LAST_WRITTEN) > 0 else None
    if last is None or not last.fits(envelope):
        last = _Written(envelope)
        _LAST_WRITTEN[:] = [last]
    return last.octets


def _encode_before(envelope: Envelope) -> bytes:
    queue = envelope.queue.encode()
    address = envelope.address.encode()
    path = envelope.path_text.encode()
    flags = (_DURABLE if envelope.message.durable else 0) | (_ACQUIRED if envelope.was_acquired else 0)
    if envelope.is_shared:
        flags |= _SHARED
    head = _HEAD.pack(_VERSION, flags, envelope.delivery_count, len(queue), len(address), len(path))
    return b"".join((head, address, queue, path))


def decode_envelope(content: bytes, formats: Mapping[str, MessageFormat], bodies: Bodies | None = None) -> Envelope:
    """Return an envelope; `bodies` finds the body of a large message. Raises ProtocolError."""
    before = read_before(content, 0)
    return before.around(read_message(content[len(before.octets) :], formats, bodies, before.durable))


def read_before(content: bytes, offset: int) -> Before:
    """Return what stands before the message of the envelope that begins at `offset`. Raises ProtocolError."""
    last = _LAST_READ[0] if len(_LAST_READ) > 0 else None
    if last is not None and content.startswith(last.octets, offset):
        return last
    address_offset = offset + _HEAD.size
    if len(content) < address_offset:
        raise ProtocolError("a message between brokers is cut off")
    version, flags, delivery_count, queue_length, address_length, path_length = _HEAD.unpack_from(content, offset)
    if version != _VERSION or flags & _MANDATORY:
        raise ProtocolError("a message between brokers needs a later version: upgrade this broker first")
    queue_offset = address_offset + address_length
    path_offset = queue_offset + queue_length
    end = path_offset + path_length
    if len(content) < end:
        raise ProtocolError("a message between brokers is cut off")
    try:
        address = content[address_offset:queue_offset].decode()
        queue = content[queue_offset:path_offset].decode()
        path = content[path_offset:end].decode()
    except ValueError as cause:
        raise ProtocolError(f"a message between brokers is malformed: {cause}") from cause
    if not address:
        raise ProtocolError("a message between brokers names no address")
    names = tuple(path.split(",")) if path else ()
    before = Before(content[offset:end], address, queue, (delivery_count, flags), names)
    _LAST_READ[:] = [before]
    return before


def read_message(content: bytes, formats: Mapping[str, MessageFormat], bodies: Bodies | None, durable: bool) -> Message:
    """Return the message of an envelope. Raises ProtocolError."""
    try:
        message = decode_message(content, formats, bodies, durable)
    except (DamagedValue, ValueError) as cause:
        raise ProtocolError(f"a message between brokers is malformed: {cause}") from cause
    check_message(message)
    return message


def check_message(message: Message) -> None:
    """Raise ProtocolError for a message that makes no sense here, or that nobody here can read."""
    if message.priority >= PRIORITIES or not (message.extra is None or isinstance(message.extra, dict)):
        raise ProtocolError("a message between brokers has a priority or properties that make no sense")
    if isinstance(message.format, MissingFormat):
        raise ProtocolError(
            f"a message between brokers is in the format '{message.format.name}', which is not known here"
        )
