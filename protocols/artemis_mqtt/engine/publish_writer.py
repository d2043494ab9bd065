"""PUBLISH packets to the client, with the topic aliases that were agreed with it.

A packet goes out in pieces: its beginning up to the topic, its identifier, its properties, its payload. The payload is
the one that the broker received, for all subscribers alike, and the beginning is that of the packet before, as long as
the topic and the sizes stay the same: little is made for a copy of a message. All pieces that a turn collects are
joined once.

    first byte | remaining length | topic | identifier (QoS 1, 2) | size of properties, properties (version 5) | payload
    `------------ beginning -------------'
"""

from bisect import bisect_left
from typing import Final

from artemis_mqtt.engine.fields import write_packet_id, write_packet_ids, write_varint
from artemis_mqtt.engine.publish import PUBLISH_BYTE, alias_property, publish_start
from artemis_py.wire.outbox import Outbox

_EMPTY_TOPIC: Final = b"\x00\x00"
_NO_PROPERTIES: Final = b"\x00"

# Below this an alias saves nothing worth a place in the client's table: the property itself has three bytes.
_MIN_ALIASED_SIZE: Final = 8


def run_packets(pieces: list[bytes], tails: list[bytes], first_id: int, count: int) -> bytes:
    """Return the first of some packets of QoS 1 or 2, with identifiers from `first_id` on.

    `pieces` has the octets between the identifiers, `tails` those behind the identifier of each.
    """
    packets: list[bytes] = [b""] * (2 * count + 1)
    packets[:-1:2] = pieces if count == len(pieces) else pieces[:count]
    packets[1::2] = write_packet_ids(first_id, count)
    packets[2 * count] = tails[count - 1]
    return b"".join(packets)


class PublishWriter:
    """The messages that one client takes: how large they may be, and the aliases it knows."""

    __slots__ = (
        "_aliases",
        "_first",
        "_is_v5",
        "_length",
        "_max_aliases",
        "_outbox",
        "_start",
        "_topic_field",
        "max_packet_size",
    )

    def __init__(self, outbox: Outbox) -> None:
        self._outbox: Outbox = outbox
        self._is_v5: bool = False
        self.max_packet_size: int = 0
        """The largest packet the client takes; 0: any."""
        self._max_aliases: int = 0
        self._aliases: dict[bytes, int] = {}
        self._start: bytes = b""
        """Beginning of the packet before: what the three below make."""
        self._topic_field: bytes = b""
        self._first: int = 0
        """First byte of the packet before."""
        self._length: int = 0
        """Remaining Length of the packet before."""

    def begin(self, is_v5: bool, max_packet_size: int, max_aliases: int) -> None:
        """Take what CONNECT says about the packets that the client takes."""
        self._is_v5 = is_v5
        self.max_packet_size = max_packet_size
        self._max_aliases = max_aliases

    @property
    def has_aliases(self) -> bool:
        """Whether the client takes topic aliases, so that the topic of a packet depends on those before."""
        return self._max_aliases > 0

    def takes(self, size: int) -> bool:
        """Tell whether the client takes packets of so many octets."""
        return self.max_packet_size == 0 or size <= self.max_packet_size

    def send_packets(self, packets: bytes) -> None:
        """Send packets that were made for several clients; this one `takes` the largest, and takes no aliases.

        Of those that `run_packets` makes, no more than there is `room_for`.
        """
        self._outbox.write(packets)

    def room_for(self, sizes: list[int]) -> int:
        """Return how many packets may be sent: up to the one that fills the output. The output is not full yet.

        `sizes` are the octets of the packets up to and including each.
        """
        outbox = self._outbox
        count = len(sizes)
        room = outbox.limit - outbox.size
        return count if sizes[count - 1] <= room else bisect_left(sizes, room) + 1

    def send(
        self, topic_field: bytes, payload: bytes, qos: int, retain: bool, dup: bool, packet_id: int, properties: bytes
    ) -> bool:
        """Send one message; False: it is larger than the client takes, and was not sent [MQTT-3.1.2-24].

        `topic_field` is the topic as `topics.topic_field` encodes it; the same object for the same topic spares
        encoding. `packet_id` comes from `outgoing.add` (0 for QoS 0). `properties` are what `on_publish` gave, to which
        `publish.expiry_property` and `publish.subscription_identifier_property` may be appended; 3.x leaves them out.
        Topic aliases are added here.

        Long because it is called per message and receiver, and calls nothing for most of them.
        """
        outbox = self._outbox
        if outbox.is_closed:
            return True
        alias = 0
        field = topic_field
        if self._max_aliases:
            alias = self._aliases.get(topic_field, 0)
            if alias:
                field = _EMPTY_TOPIC
                properties = properties + alias_property(alias)
            elif len(topic_field) >= _MIN_ALIASED_SIZE and len(self._aliases) < self._max_aliases:
                properties = properties + alias_property(len(self._aliases) + 1)
                alias = -1
        first = PUBLISH_BYTE | qos << 1
        if retain:
            first |= 1
        if dup:
            first |= 8
        behind = len(payload)
        if qos:
            behind += 2
        block = _NO_PROPERTIES
        if self._is_v5:
            if properties:
                block = write_varint(len(properties)) + properties
            behind += len(block)
        length = len(field) + behind
        start = self._start
        if field is not self._topic_field or length != self._length or first != self._first:
            start = publish_start(first, length, field)
        size = len(start) + behind
        if self.max_packet_size and size > self.max_packet_size:
            return False
        self._start = start
        self._topic_field = field
        self._length = length
        self._first = first
        if alias < 0:
            # Only now does the client learn it.
            self._aliases[topic_field] = len(self._aliases) + 1
        chunks = outbox.chunks
        if not chunks:
            outbox.wake()
        chunks.append(start)
        if qos:
            chunks.append(write_packet_id(packet_id))
        if self._is_v5:
            chunks.append(block)
        chunks.append(payload)
        outbox.size += size
        return True
