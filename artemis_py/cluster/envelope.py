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

    __slots__ = ("address", "delivery_count", "is_shared", "message", "path", "queue", "was_acquired")

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
        self.is_shared: bool = is_shared
        """Whether the queue is that of a shared subscription, which must not be made again when it has ended."""


class _Known:
    """What stood before the last message, and what it means: what comes for one queue mostly differs in none of it."""

    def __init__(self, octets: bytes, envelope: Envelope) -> None:
        self.octets: bytes = octets
        self.address: str = envelope.address
        self.queue: str = envelope.queue
        self.delivery_count: int = envelope.delivery_count
        self.was_acquired: bool = envelope.was_acquired
        self.path: tuple[str, ...] = envelope.path
        self.is_shared: bool = envelope.is_shared
        self.durable: bool = envelope.message.durable

    def holds(self, message: Message) -> Envelope:
        """Return an envelope with the same around another message."""
        return Envelope(
            message, self.address, self.queue, self.delivery_count, self.was_acquired, self.path, self.is_shared
        )


_LAST_KNOWN: Final[list[_Known]] = []


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
        self.octets: bytes = _octets_before(envelope)

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
    last = _LAST_WRITTEN[0] if len(_LAST_WRITTEN) > 0 else None
    if last is None or not last.fits(envelope):
        last = _Written(envelope)
        _LAST_WRITTEN[:] = [last]
    return encode_message(envelope.message, last.octets)


def _octets_before(envelope: Envelope) -> bytes:
    queue = envelope.queue.encode()
    address = envelope.address.encode()
    path = ",".join(envelope.path).encode()
    flags = (_DURABLE if envelope.message.durable else 0) | (_ACQUIRED if envelope.was_acquired else 0)
    if envelope.is_shared:
        flags |= _SHARED
    head = _HEAD.pack(_VERSION, flags, envelope.delivery_count, len(queue), len(address), len(path))
    return b"".join((head, address, queue, path))


def decode_envelope(content: bytes, formats: Mapping[str, MessageFormat], bodies: Bodies | None = None) -> Envelope:
    """Return an envelope; `bodies` finds the body of a large message. Raises ProtocolError."""
    known = _LAST_KNOWN[0] if len(_LAST_KNOWN) > 0 else None
    if known is not None and content.startswith(known.octets):
        return known.holds(_decode_message(content[len(known.octets) :], formats, bodies, known.durable))
    if len(content) < _HEAD.size:
        raise ProtocolError("a message between brokers is cut off")
    version, flags, delivery_count, queue_length, address_length, path_length = _HEAD.unpack_from(content)
    if version != _VERSION or flags & _MANDATORY:
        raise ProtocolError("a message between brokers needs a later version: upgrade this broker first")
    queue_offset = _HEAD.size + address_length
    path_offset = queue_offset + queue_length
    message_offset = path_offset + path_length
    message = _decode_message(content[message_offset:], formats, bodies, bool(flags & _DURABLE))
    try:
        address = content[_HEAD.size : queue_offset].decode()
        queue = content[queue_offset:path_offset].decode()
        path = content[path_offset:message_offset].decode()
    except ValueError as cause:
        raise ProtocolError(f"a message between brokers is malformed: {cause}") from cause
    if not address:
        raise ProtocolError("a message between brokers names no address")
    names = tuple(path.split(",")) if path else ()
    found = Envelope(message, address, queue, delivery_count, bool(flags & _ACQUIRED), names, bool(flags & _SHARED))
    _LAST_KNOWN[:] = [_Known(content[:message_offset], found)]
    return found


def _decode_message(
    content: bytes, formats: Mapping[str, MessageFormat], bodies: Bodies | None, durable: bool
) -> Message:
    """Return the message of an envelope. Raises ProtocolError."""
    try:
        message = decode_message(content, formats, bodies, durable)
    except (DamagedValue, ValueError) as cause:
        raise ProtocolError(f"a message between brokers is malformed: {cause}") from cause
    if message.priority >= PRIORITIES or not (message.extra is None or isinstance(message.extra, dict)):
        raise ProtocolError("a message between brokers has a priority or properties that make no sense")
    if isinstance(message.format, MissingFormat):
        raise ProtocolError(
            f"a message between brokers is in the format '{message.format.name}', which is not known here"
        )
    return message
