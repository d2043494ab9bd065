"""Outgoing deliveries with consecutive packet identifiers that the client answers in their order: a run.

A client has to answer in the order in which it received the messages [MQTT-4.6.0-2], and receives many in one read. For
a run the session keeps three numbers instead of an object for each delivery. The first answer that comes in another
order makes deliveries of all runs (`DeliveryTable.unfold`).

    identifiers:   first_id ...        PUBREL sent | ... PUBREC received | ... PUBLISH sent
                   `---- released ----------------'                     |                  |
                   `---- received ---------------------------------------'                  |
                   `---- count -------------------------------------------------------------'

Answers are compared with what is expected in one step for many of them: the octets of all acknowledgements of a kind,
in the order of their identifiers, are made once for all clients.
"""

from typing import Final

from mypy_extensions import mypyc_attr

from artemis_mqtt.engine.delivery import MAX_PACKET_ID, Delivery
from artemis_mqtt.engine.fields import ONE_BYTE

# All answers are compared at once if they are no more than these: more would be too much if it is in vain.
_MOST_AT_ONCE: Final = 1024

# Otherwise so many are compared first, then twice as many each time.
_FIRST_STEP: Final = 4

_octets: Final[dict[bytes, bytes]] = {}
"""All acknowledgements that begin with these two octets, in the order of their identifiers; 256 KiB for each kind."""


@mypyc_attr(allow_interpreted_subclasses=True)
class DeliveryRun:
    """Deliveries of one QoS that were sent on this connection; the session's oldest ones come first."""

    def __init__(self, qos: int, first_id: int) -> None:
        self.qos: int = qos
        self.first_id: int = first_id
        """Packet identifier of the first delivery that is not over."""
        self.count: int = 0
        """Number of deliveries that are not over."""
        self.received: int = 0
        """Number of them, from the first, that PUBREC came for."""
        self.released: int = 0
        """Number of them, from the first, that PUBREL was sent for."""

    def unfold(self) -> list[Delivery]:
        """Return deliveries instead of this run, in its order."""
        raise NotImplementedError

    def end(self, count: int) -> None:
        """Note that the first deliveries are over."""
        self.first_id += count
        self.count -= count
        if self.qos == 2:
            self.received -= count
            self.released -= count


def all_acks(head: bytes) -> bytes:
    """Return the acknowledgements of all packet identifiers from 1 on; `head` is their first two octets."""
    octets = _octets.get(head)
    if octets is None:
        count = MAX_PACKET_ID + 1
        made = bytearray((head + b"\0\0") * count)
        made[2::4] = b"".join([octet * 256 for octet in ONE_BYTE])
        made[3::4] = b"".join(ONE_BYTE) * 256
        octets = _octets[head] = bytes(made[4:])
    return octets


def count_acks(data: bytes, offset: int, head: bytes, packet_id: int, most: int) -> int:
    """Return how many acknowledgements from `offset` on are those of `packet_id` and those that follow it, in order.

    There are `most` acknowledgements of four octets in `data`, or more.
    """
    octets = all_acks(head)
    start = 4 * (packet_id - 1)
    if most <= _MOST_AT_ONCE:
        # Most often a read has these answers and no others. The last one tells more than the first, which is right.
        size = 4 * most
        end, stop = offset + size, start + size
        if data[end - 1] == octets[stop - 1] and data[offset:end] == octets[start:stop]:
            return most
    step = min(_FIRST_STEP, most)
    count = 0
    is_growing = True
    while step > 0:
        size = 4 * step
        if data[offset : offset + size] == octets[start : start + size]:
            count += step
            offset += size
            start += size
            if is_growing:
                step *= 2
            step = min(step, most - count)
        else:
            is_growing = False
            step >>= 1
    return count
