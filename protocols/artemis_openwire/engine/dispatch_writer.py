"""Deliveries to one consumer: MessageDispatch around a message that stays as it is (openwire §14.2).

    size | code, command id 0, no answer | consumer | destination | 1
         | body up to the broker's number | the broker's number
         | body up to the redelivery counter | the counter
         | body up to the times | arrival, dispatch | first of its group | rest of body
         | the counter

Nothing of a message is decoded here. Compiled.
"""

from struct import Struct
from typing import Final

from artemis_openwire.engine.message_fields import HEADER
from artemis_openwire.engine.rewriting import layout_of, transcode
from artemis_py.wire.outbox import Outbox

_SIZE: Final = Struct(">i")
_NUMBER: Final = Struct(">q")
_COUNTER: Final = Struct(">i")
_TIMES: Final = Struct(">qq")
_HEAD: Final = b"\x15\0\0\0\0\0"
_NULL: Final = b"\0"
_PRESENT: Final = b"\1"
_OCTETS: Final[tuple[bytes, ...]] = tuple([bytes((value,)) for value in range(256)])

# A longer middle part, which is where the content is, is sent without being copied first.
_LARGE: Final = 16 * 1024


class DispatchWriter:
    """One consumer's deliveries."""

    def __init__(self, outbox: Outbox, version: int, max_frame_size: int, consumer_key: bytes) -> None:
        """Write for the consumer of a field as `write_nested` encodes it."""
        self._outbox: Outbox = outbox
        self._version: int = version
        self._layout: int = layout_of(version)
        self._max_frame_size: int = max_frame_size
        self._head: bytes = _HEAD + consumer_key
        # What was the same in the last delivery is not put together again.
        self._destination_field: bytes = b""
        self._prefix: bytes = b""
        """What precedes every message from this destination."""
        self._size: int = -1
        self._start: bytes = b""
        """Size and prefix of a delivery of `_size` octets."""
        self._header: bytes = b""
        """The last header, and what it says."""
        self._number_at: int = 0
        self._counter_at: int = 0
        self._times_at: int = 0
        self._arrived_ms: int = 0
        self._has_first: bool = False
        """Whether it has the field that says whether it is the first of its group."""
        self._ending: bytes = b""
        """The end of the last message from its redelivery counter on, as it came."""
        self._tail: bytes = b""
        """What was written in its place."""
        self._tail_ms: int = -1
        """Time at which `_tail` was put together; -1: there is none."""
        self._high: int = -1
        self._high_octets: bytes = b""
        """The last number of a delivery without its last octet, and its octets."""

    @property
    def max_frame_size(self) -> int:
        """The largest frame that the client takes."""
        return self._max_frame_size

    @property
    def head_size(self) -> int:
        """Number of octets in front of the destination, with the size of the frame."""
        return _SIZE.size + len(self._head)

    def send_to(
        self,
        outbox: Outbox,
        header: bytes,
        body: bytes,
        destination_field: bytes,
        sequence: int,
        redeliveries: int,
        now_ms: int,
        is_first_of_group: bool,
    ) -> None:
        """Write a delivery somewhere else than into the output."""
        own, self._outbox = self._outbox, outbox
        self.send(header, body, destination_field, sequence, redeliveries, now_ms, is_first_of_group)
        self._outbox = own

    # Long because a message is put together in one pass, without a call for any part of it.
    def send(
        self,
        header: bytes,
        body: bytes,
        destination_field: bytes,
        sequence: int,
        redeliveries: int,
        now_ms: int,
        is_first_of_group: bool,
    ) -> bool:
        """Send a message that was kept with its `header`; False: it is larger than the client takes, and was not sent.

        `destination_field` is the queue or topic it came from, encoded. `sequence` numbers the deliveries of this
        consumer; acknowledgements and RemoveInfo name it. `redeliveries` is how often the message was delivered before.
        """
        outbox = self._outbox
        if outbox.is_closed:
            return True
        if header is not self._header:
            body = self._read_header(header, body)
        if destination_field is not self._destination_field:
            self._destination_field = destination_field
            self._prefix = self._head + destination_field + _PRESENT
            self._size = -1
        counter_at = self._counter_at
        number_at = self._number_at
        is_plain = redeliveries == 0 and not is_first_of_group
        if (
            not is_plain
            or now_ms != self._tail_ms
            or len(body) - counter_at != len(self._ending)
            or not body.endswith(self._ending)
        ):
            self._write_tail(body, redeliveries, now_ms, is_first_of_group)
            if not is_plain:
                self._tail_ms = -1
        tail = self._tail
        size = len(self._prefix) + counter_at + len(tail)
        if size > self._max_frame_size:
            return False
        if size != self._size:
            self._size = size
            self._start = _SIZE.pack(size) + self._prefix
        if sequence >> 8 != self._high:
            self._high = sequence >> 8
            self._high_octets = _NUMBER.pack(sequence)[:7]
        chunks = outbox.chunks
        if not chunks:
            outbox.wake()
        # The chunks of a delivery are joined when all output is taken, and not before.
        chunks.append(self._start)
        chunks.append(body[:number_at])
        chunks.append(self._high_octets)
        chunks.append(_OCTETS[sequence & 255])
        if counter_at - number_at > _LARGE:
            chunks.append(memoryview(body)[number_at + 8 : counter_at])
        else:
            chunks.append(body[number_at + 8 : counter_at])
        chunks.append(tail)
        outbox.size += size + 4
        return True

    def _read_header(self, header: bytes, body: bytes) -> bytes:
        """Note what the header of a message says; return the message, written again if the client needs that."""
        self._header = header
        version, has_subject, number_at, counter_at, times_at, arrived_ms = HEADER.unpack(header)
        if version != self._version and (has_subject or layout_of(version) != self._layout):
            # This message has offsets of its own, which are of no use for others with the same header.
            self._header = b""
            header, body = transcode(header, body, self._version)
            version, _, number_at, counter_at, times_at, arrived_ms = HEADER.unpack(header)
        self._has_first = version >= 10
        self._number_at = number_at
        self._counter_at = counter_at
        self._times_at = times_at
        self._arrived_ms = arrived_ms
        self._tail_ms = -1
        return body

    def _write_tail(self, body: bytes, redeliveries: int, now_ms: int, is_first_of_group: bool) -> None:
        """Put together what stands behind the middle part of a message."""
        counter_at = self._counter_at
        times_at = self._times_at
        counter = _COUNTER.pack(redeliveries)
        if times_at == 0:
            self._tail = counter + body[counter_at + 4 :] + counter
        else:
            rest = times_at + 16
            times = _TIMES.pack(self._arrived_ms, now_ms)
            if is_first_of_group and self._has_first:
                times = times + _PRESENT
                rest += 1
            self._tail = counter + body[counter_at + 4 : times_at] + times + body[rest:] + counter
        self._ending = body[counter_at:]
        self._tail_ms = now_ms

    def send_nothing(self) -> None:
        """Say that there is no message: the end of what a browser sees, or of what a pull waited for."""
        body = self._head + _NULL + _NULL + _COUNTER.pack(0)
        self._outbox.write(_SIZE.pack(len(body)) + body)
