"""PUBLISH packets to the client, with the topic aliases that were agreed with it."""

from typing import Final

from artemis_mqtt.engine.publish import alias_property, publish_head
from artemis_py.wire.outbox import Outbox

_EMPTY_TOPIC: Final = b"\x00\x00"

# Up to here a payload is copied behind its head, above it is a piece of output of its own.
_SMALL_PAYLOAD: Final = 512

# Below this an alias saves nothing worth a place in the client's table: the property itself has three bytes.
_MIN_ALIASED_SIZE: Final = 8


class PublishWriter:
    """The messages that one client takes: how large they may be, and the aliases it knows."""

    __slots__ = ("_aliases", "_is_v5", "_max_aliases", "_outbox", "max_packet_size")

    def __init__(self, outbox: Outbox) -> None:
        self._outbox: Outbox = outbox
        self._is_v5: bool = False
        self.max_packet_size: int = 0
        """The largest packet the client takes; 0: any."""
        self._max_aliases: int = 0
        self._aliases: dict[bytes, int] = {}

    def begin(self, is_v5: bool, max_packet_size: int, max_aliases: int) -> None:
        """Take what CONNECT says about the packets that the client takes."""
        self._is_v5 = is_v5
        self.max_packet_size = max_packet_size
        self._max_aliases = max_aliases

    def send(
        self, topic_field: bytes, payload: bytes, qos: int, retain: bool, dup: bool, packet_id: int, properties: bytes
    ) -> bool:
        """Send one message; False: it is larger than the client takes, and was not sent [MQTT-3.1.2-24].

        `topic_field` is the topic as `topics.topic_field` encodes it (keep it); `packet_id` comes from `outgoing.add`
        (0 for QoS 0). `properties` are what `on_publish` gave, to which `publish.expiry_property` and
        `publish.subscription_identifier_property` may be appended; 3.x leaves them out. Topic aliases are added here.
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
        size = len(payload)
        head = publish_head(self._is_v5, field, size, qos, retain, dup, packet_id, properties)
        if self.max_packet_size and len(head) + size > self.max_packet_size:
            return False
        if alias < 0:
            # Only now does the client learn it.
            self._aliases[topic_field] = len(self._aliases) + 1
        chunks = outbox.chunks
        if not chunks:
            outbox.wake()
        if size <= _SMALL_PAYLOAD:
            chunks.append(head + payload)
        else:
            chunks.append(head)
            chunks.append(payload)
        outbox.size += len(head) + size
        return True

    def send_encoded(self, packet: bytes) -> bool:
        """Send a QoS 0 PUBLISH as `publish.encode_publish` made it for this version; False: as in `send`."""
        outbox = self._outbox
        if outbox.is_closed:
            return True
        size = len(packet)
        if self.max_packet_size and size > self.max_packet_size:
            return False
        chunks = outbox.chunks
        if not chunks:
            outbox.wake()
        chunks.append(packet)
        outbox.size += size
        return True
