"""Messages as PUBLISH packets for many subscribers: what is the same in all copies is made once.

Subscribers of a topic are visited one after the other, and most of them get the same messages. Their packets differ in
the packet identifier only, so a copy is a list in which identifiers alternate with pieces that all copies share:

    start of 1st | id | payload of 1st, start of 2nd | id | payload of 2nd, start of 3rd | id | payload of 3rd

In version 5 the properties stand before the payload.

Subscribers that came at the same time and get the same messages are at the same identifiers, too. For them the octets
are the same, and joined once.

Messages of QoS 0 have no identifiers, and are passed on one by one: `CommonPacket` has the octets of the last one.
"""

from typing import TYPE_CHECKING, Final

from artemis_mqtt.broker.format import QOS_MASK, RETAIN, RETAINED_COPY
from artemis_mqtt.engine.fields import write_varint
from artemis_mqtt.engine.publish import PUBLISH_BYTE, encode_publish, publish_start
from artemis_mqtt.engine.publish_writer import run_packets
from artemis_py.core.messages.message import Message

if TYPE_CHECKING:
    from artemis_mqtt.broker.deliveries import Outlet, Subscription

_NO_PROPERTIES: Final = b"\x00"

# Larger ones are not kept for the next subscriber: their pieces, and the octets they were joined to, would stay in
# memory, and no account counts them. To make them again is little beside sending them.
_KEPT_BYTES: Final = 1 << 18

# Payload and properties of a message whose packet is made for all. A larger one would be in memory twice, until the
# next message of QoS 0 comes, and no account counts it.
_COMMON_BYTES: Final = 1 << 12


class CommonPacket:
    """The message of QoS 0 that was sent last, and its packet from the second subscriber on that gets the same."""

    __slots__ = ("_identifier", "_is_v5", "message", "octets")

    def __init__(self) -> None:
        self.message: Message | None = None
        """The message, if its packet may be made."""
        self.octets: bytes = b""
        """The packet; empty: there is none yet."""
        self._is_v5: bool = False
        self._identifier: bytes = b""

    def begin(self, message: Message) -> None:
        """Note that a message goes to its first subscriber."""
        annotations = message.annotations
        is_small = len(annotations) + len(message.data) <= _COMMON_BYTES
        self.message = message if is_small and annotations[0] & (RETAIN | RETAINED_COPY) == 0 else None
        self.octets = b""

    def is_for(self, outlet: "Outlet", subscription: "Subscription") -> bool:
        """Tell whether `octets` are what a subscription gets of the message; made for the first that asks."""
        if subscription.has_keys or outlet.writer.has_aliases:
            return False
        if not self.octets:
            self._make(outlet, subscription)
        return (
            len(self.octets) > 0
            and self._is_v5 == outlet.is_v5
            and self._identifier == subscription.identifier
            and outlet.writer.takes(len(self.octets))
        )

    def _make(self, outlet: "Outlet", subscription: "Subscription") -> None:
        message = self.message
        field = b"" if message is None else outlet.topic_field(message.address)
        if message is None or not field:
            return
        self._is_v5 = outlet.is_v5
        self._identifier = subscription.identifier
        properties = message.annotations[1:] + self._identifier
        self.octets = encode_publish(self._is_v5, field, message.data, 0, False, False, 0, properties)


class Copies:
    """Consecutive messages as packets for the subscriptions that ask for the same QoS and version."""

    __slots__ = (
        "_count",
        "_first_id",
        "_messages",
        "_most_qos",
        "_packets",
        "_pieces",
        "_tails",
        "count",
        "identifier",
        "is_v5",
        "largest",
        "qos",
        "sizes",
    )

    def __init__(self, outlet: "Outlet", subscription: "Subscription", messages: list[Message]) -> None:
        """Take messages up to the first one that goes out otherwise: with another QoS, with RETAIN, or converted."""
        self._messages: list[Message] = messages
        self._most_qos: int = subscription.qos
        self.is_v5: bool = outlet.is_v5
        self.identifier: bytes = subscription.identifier
        self.qos: int = 0
        """QoS of all packets."""
        self.count: int = 0
        """Number of packets; 0: the first message goes out otherwise."""
        self._pieces: list[bytes] = []
        """What is before the identifier of each packet, from the payload of the packet before on."""
        self._tails: list[bytes] = []
        """What is behind the identifier of each packet."""
        self.sizes: list[int] = []
        """Octets of the packets up to and including each."""
        self.largest: int = 0
        """Octets of the largest packet."""
        self._packets: bytes = b""
        """The packets that were asked for last: so many, from this identifier on."""
        self._first_id: int = 0
        self._count: int = 0
        self._encode(outlet)

    def are_for(self, outlet: "Outlet", subscription: "Subscription", messages: list[Message]) -> bool:
        """Tell whether they are what this subscription gets if these messages are delivered to it."""
        return (
            self.is_v5 == outlet.is_v5
            and self._most_qos == subscription.qos
            and self.identifier == subscription.identifier
            and self._messages == messages
        )

    @property
    def may_be_kept(self) -> bool:
        """Whether other subscribers may get the same, and few bytes are kept for them."""
        return self.count == len(self._messages) and self.sizes[self.count - 1] <= _KEPT_BYTES

    def packets(self, first_id: int, count: int) -> bytes:
        """Return the first packets, with identifiers from `first_id` on."""
        if first_id != self._first_id or count != self._count:
            self._packets = run_packets(self._pieces, self._tails, first_id, count)
            self._first_id = first_id
            self._count = count
        return self._packets

    def _encode(self, outlet: "Outlet") -> None:
        most = self._most_qos
        limit = outlet.engine.outbox.limit
        address: str | None = None
        field = b""
        start = b""
        start_length = -1
        tail = b""
        size = 0
        for message in self._messages:
            if message.format is not outlet.format or size >= limit:
                break
            annotations = message.annotations
            flags = annotations[0]
            qos = min(flags & QOS_MASK, most)
            if qos == 0 or flags & (RETAIN | RETAINED_COPY) or (self.count and qos != self.qos):
                break
            if message.address is not address:
                address = message.address
                field = outlet.topic_field(address)
                start_length = -1
            if not field:
                break
            self.qos = qos
            before = tail
            tail = message.data
            if self.is_v5:
                properties = annotations[1:] + self.identifier
                tail = write_varint(len(properties)) + properties + tail if properties else _NO_PROPERTIES + tail
            length = len(field) + 2 + len(tail)
            if length != start_length:
                start = publish_start(PUBLISH_BYTE | qos << 1, length, field)
                start_length = length
            self._pieces.append(before + start)
            self._tails.append(tail)
            packet_size = len(start) + 2 + len(tail)
            self.largest = max(self.largest, packet_size)
            size += packet_size
            self.sizes.append(size)
            self.count += 1
