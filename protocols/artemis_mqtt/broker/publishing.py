"""Messages that a client publishes: their address, their form in the core, and what is retained."""

from typing import Final

from artemis_mqtt.broker.addressing import Names, is_reserved, to_key
from artemis_mqtt.broker.format import GROUP_ID_OCTETS, MqttFormat, renamed
from artemis_mqtt.broker.parameters import BrokerLimits
from artemis_mqtt.broker.system_topics import is_system_topic
from artemis_py.core.addresses.address import Address
from artemis_py.core.messages.message import MESSAGE_OVERHEAD_BYTES, Message
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.dispatcher import Dispatcher
from artemis_py.core.routing.routes import NO_TYPE
from artemis_py.core.services.retained import RetainedMessages
from artemis_py.core.sessions.exchanges import RoutingKeys, check_topic_exchange, open_exchange_of_name
from artemis_py.core.sessions.producer import Producer
from artemis_py.core.sessions.session import Session
from artemis_py.errors import LimitExceeded, NotAuthorized
from artemis_py.protocol import Host

# Producers kept ready, by topic. Each costs about 1 KiB and saves a permission check per message.
PRODUCER_CACHE_LIMIT: Final = 256

_MULTICAST: Final = 0
"""`RoutingType.MULTICAST`."""

PRIORITY: Final = 4
"""MQTT has none: all messages have the usual one."""

# The octet of flags, by QoS and retain (`format`).
_FLAGS: Final = [bytes((value,)) for value in range(8)]


class Publisher:
    """The sending side of one client, or of its will."""

    def __init__(
        self,
        session: Session,
        host: Host,
        names: Names,
        format: MqttFormat,
        limits: BrokerLimits,
        exchange: str = "",
    ) -> None:
        self._session: Session = session
        self._dispatcher: Dispatcher = host.dispatcher
        self._retained: RetainedMessages = host.retained
        self._names: Names = names
        self._format: MqttFormat = format
        self._limits: BrokerLimits = limits
        self._client_id: str = session.client_id
        self._exchange: str = exchange
        """Exchange that topics go through; empty: they are addresses."""
        self._producers: dict[str, Producer] = {}
        self.full: Address | None = None
        """Address of the last message if its producers must wait; the caller resets it."""

    def publish(self, topic: str, payload: bytes, qos: int, retain: bool, properties: bytes, expiry_s: int) -> int:
        """Route one message, and retain it if it asks for that; returns how many queues got it. Raises Refusal."""
        producer = self._producers.get(topic)
        address = None if producer is None else producer.inlet.address
        kept_bytes = len(payload) + len(properties) + 1 if retain and payload else 0
        if producer is None or address is None or address.is_deleted:
            producer = self._make_producer(topic, kept_bytes)
            address = producer.inlet.address
        routing_type = NO_TYPE
        if (
            address is not None
            and not address.bindings
            and RoutingType.ANYCAST not in address.routing_types
            and not address.is_exchange
        ):
            # Only subscriptions with wildcards can get it: saying so spares the core to look for a queue to create.
            routing_type = _MULTICAST
        if kept_bytes:
            self._check_retained(self._retained_name(topic, producer), kept_bytes)
        message = Message(
            self._format,
            "",
            payload,
            _FLAGS[qos | 4 if retain else qos] + properties,
            qos > 0,
            PRIORITY,
            0 if expiry_s < 0 else self._dispatcher.now_ms + 1000 * expiry_s,
            0,
            routing_type,
            self._client_id,
        )
        # The client repeats it if a crash takes it back, so a subscriber that saw it would see it twice.
        message.stored_first = qos == 2
        if properties and GROUP_ID_OCTETS in properties:
            message.has_group = True
        count = producer.send(message)
        address = producer.inlet.address
        if address is not None and (address.account.is_full or self._dispatcher.account.is_full) and address.must_wait:
            self.full = address
        if retain and address is not None:
            name = self._retained_name(topic, producer)
            if not payload:
                self._retained.remove(name)
            elif name == message.address:
                self._retained.put(message)
            else:
                self._retained.put(renamed(message, name))
        return count

    def forget_rights(self) -> None:
        """Check each topic again: the client's rights changed."""
        self._producers.clear()

    def _make_producer(self, topic: str, kept_bytes: int) -> Producer:
        """Make a producer: an unknown address becomes MULTICAST; the types of a known one decide
        (artemis-model §4.2.4). `kept_bytes` is the size of what will be retained, 0 if nothing will.
        """
        if is_system_topic(topic):
            raise NotAuthorized(f"'{topic}' is reserved for the broker")
        name = self._names.address(topic)
        if kept_bytes:
            # Before the address is created: a flood that is refused would leave an address for each topic.
            self._check_retained(name, kept_bytes)
        session = self._session
        if self._exchange and not is_reserved(topic):
            check_topic_exchange(session, self._exchange)
            # What reaches no queue is discarded, whatever the exchange says: MQTT 3 has no way to refuse a message.
            producer = open_exchange_of_name(session, self._exchange, to_key(topic), RoutingKeys(), rejects=False)
        else:
            producer = session.producer(name, new_type=RoutingType.MULTICAST)
        if len(self._producers) >= PRODUCER_CACHE_LIMIT:
            self._producers.clear()
        self._producers[topic] = producer
        return producer

    def _retained_name(self, topic: str, producer: Producer) -> str:
        """Return the name under which the last message of a topic is retained: that of the topic as an address."""
        return self._names.address(topic) if self._exchange else producer.name

    def _check_retained(self, name: str, size: int) -> None:
        self._retained.check_room(name, size + MESSAGE_OVERHEAD_BYTES)
        limit = self._limits.values.max_retained
        if 0 <= limit <= self._retained.count and self._retained.get(name) is None:
            raise LimitExceeded(f"the broker keeps {self._retained.count} retained messages, which is the limit")
