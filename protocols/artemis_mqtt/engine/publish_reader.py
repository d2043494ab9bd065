"""PUBLISH packets of the client, read straight from their octets: they come per message."""

from typing import Final

from artemis_mqtt.engine.delivery import MAX_PACKET_ID
from artemis_mqtt.engine.fields import decode_text, read_varint
from artemis_mqtt.engine.flight import IncomingFlight
from artemis_mqtt.engine.handler import MessageHandler
from artemis_mqtt.engine.publish import NO_EXPIRY, split_properties
from artemis_mqtt.engine.reasons import (
    RECEIVE_MAXIMUM_EXCEEDED,
    TOPIC_ALIAS_INVALID,
    PacketError,
    malformed,
    protocol_error,
)
from artemis_mqtt.engine.topics import check_topic

_DUP: Final = 8

# Topics of a client whose decoded form is kept: 256 KiB at most per connection, and enough for what one client sends to
# over and over. A client with more topics pays for decoding them.
_KNOWN_TOPICS: Final = 1024
_KNOWN_TOPIC_SIZE: Final = 256


class PublishReader:
    """The messages that one client sends: topics and aliases it used, answers that are due."""

    __slots__ = (
        "_aliases",
        "_handler",
        "_max_topic_levels",
        "_receive_maximum",
        "_topic_alias_maximum",
        "_topics",
        "incoming",
        "is_v5",
        "unanswered",
    )

    def __init__(self, handler: MessageHandler, max_topic_levels: int, topic_alias_maximum: int) -> None:
        self._handler: MessageHandler = handler
        self.incoming: IncomingFlight = handler.incoming
        self.is_v5: bool = False
        self._receive_maximum: int = MAX_PACKET_ID
        self.unanswered: int = 0
        """QoS 1 and 2 messages of this connection for which the last answer is due."""
        self._max_topic_levels: int = max_topic_levels
        self._topic_alias_maximum: int = topic_alias_maximum
        self._topics: dict[bytes, str] = {}
        self._aliases: dict[int, str] = {}

    def begin(self, handler: MessageHandler, receive_maximum: int) -> None:
        """Take the handler of a client that was accepted, and how many messages it may have unanswered."""
        self._handler = handler
        self.incoming = handler.incoming
        self._receive_maximum = receive_maximum

    def read(self, first: int, data: bytes, offset: int, end: int) -> None:
        """Read one PUBLISH and hand it over. Raises PacketError.

        Long because it is one pass over a packet's fields in their order, without a call for any of the usual ones.
        """
        topic_start = offset + 2
        if topic_start > end:
            raise malformed("the packet ends within a field")
        offset = topic_start + (data[offset] << 8 | data[offset + 1])
        if offset > end:
            raise malformed("a field is longer than what is left of its packet")
        raw = data[topic_start:offset]
        topic = self._topics.get(raw)
        if topic is None:
            topic = self._learn_topic(raw)
        qos = first >> 1 & 3
        packet_id = 0
        if qos:
            if offset + 2 > end:
                raise malformed("the packet ends within a field")
            packet_id = data[offset] << 8 | data[offset + 1]
            offset += 2
            if qos == 3 or packet_id == 0:
                raise malformed("PUBLISH with QoS 3 [MQTT-3.3.1-4] or packet identifier 0")
        elif first & _DUP:
            raise malformed("PUBLISH with QoS 0 and DUP")
        properties = b""
        expiry_s = NO_EXPIRY
        if self.is_v5:
            if offset < end and data[offset] == 0:
                offset += 1
                if not topic:
                    raise protocol_error("PUBLISH has neither a topic nor an alias")
            else:
                size, offset = read_varint(data, offset, end)
                stop = offset + size
                if stop > end:
                    raise malformed("the properties are longer than their packet")
                properties, expiry_s, alias = split_properties(data, offset, stop, self._max_topic_levels)
                offset = stop
                if alias or not topic:
                    topic = self._resolve_alias(topic, alias)
        if qos and not self._is_new(qos, packet_id):
            self._handler.on_duplicate(packet_id)
            return
        self._handler.on_publish(
            topic, data[offset:end], qos, first & 1 != 0, first & _DUP != 0, packet_id, properties, expiry_s
        )

    def _is_new(self, qos: int, packet_id: int) -> bool:
        """Count a message that is to be answered; False: it has QoS 2 and was received before."""
        self.unanswered += 1
        if self.unanswered > self._receive_maximum:
            raise PacketError(RECEIVE_MAXIMUM_EXCEEDED, f"more than {self._receive_maximum} in flight")
        if qos == 2:
            received = self.incoming.received
            if packet_id in received:
                return False
            received.add(packet_id)
        return True

    def _learn_topic(self, raw: bytes) -> str:
        """Decode and check a topic name that is not known yet."""
        if not raw and self.is_v5:
            return ""
        topic = decode_text(raw)
        check_topic(topic, self._max_topic_levels)
        if len(raw) <= _KNOWN_TOPIC_SIZE:
            if len(self._topics) >= _KNOWN_TOPICS:
                self._topics.clear()
            self._topics[raw] = topic
        return topic

    def _resolve_alias(self, topic: str, alias: int) -> str:
        """Return the topic that `alias` stands for, or from now on stands for (MQTT 5.0 §3.3.2.3.4)."""
        if alias == 0:
            raise protocol_error("PUBLISH has neither a topic nor an alias")
        if alias > self._topic_alias_maximum:
            raise PacketError(TOPIC_ALIAS_INVALID, f"topic alias {alias} is above the maximum")
        if topic:
            self._aliases[alias] = topic
            return topic
        known = self._aliases.get(alias)
        if known is None:
            raise PacketError(TOPIC_ALIAS_INVALID, f"topic alias {alias} is not set")
        return known
