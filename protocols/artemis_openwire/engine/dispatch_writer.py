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
        version, has_subject, number_at, counter_at, times_at, arrived_ms = HEADER.unpack(header)
        if version != self._version and (has_subject or layout_of(version) != self._layout):
            header, body = transcode(header, body, self._version)
            version, _, number_at, counter_at, times_at, arrived_ms = HEADER.unpack(header)
        head = self._head + destination_field + _PRESENT + body[:number_at] + _NUMBER.pack(sequence)
        counter = _COUNTER.pack(redeliveries)
        if times_at == 0:
            tail = counter + body[counter_at + 4 :] + counter
        else:
            rest = times_at + 16
            times = _TIMES.pack(arrived_ms, now_ms)
            if is_first_of_group and version >= 10:
                times = times + _PRESENT
                rest += 1
            tail = counter + body[counter_at + 4 : times_at] + times + body[rest:] + counter
        start = number_at + 8
        size = len(head) + counter_at - start + len(tail)
        if size > self._max_frame_size:
            return False
        if counter_at - start > _LARGE:
            outbox.write(_SIZE.pack(size) + head)
            outbox.write(memoryview(body)[start:counter_at])
            outbox.write(tail)
        else:
            outbox.write_pieces(_SIZE.pack(size) + head, body[start:counter_at], tail, size + 4)
        return True

    def send_nothing(self) -> None:
        """Say that there is no message: the end of what a browser sees, or of what a pull waited for."""
        body = self._head + _NULL + _NULL + _COUNTER.pack(0)
        self._outbox.write(_SIZE.pack(len(body)) + body)
