"""MQTT as a protocol of the broker: the entry point `MQTT` of the group `artemis_py.protocols`."""

from collections.abc import Mapping, Sequence
from typing import Final

from artemis_mqtt.broker.addressing import CACHED_TOPICS, InvalidTopic, Names, from_key, to_topic
from artemis_mqtt.broker.copies import CommonPacket, Copies
from artemis_mqtt.broker.format import MqttFormat
from artemis_mqtt.broker.handler import ClientHandler
from artemis_mqtt.broker.parameters import PARAMETERS, BrokerLimits, Parameters
from artemis_mqtt.broker.pubrels import DeferredPubrels
from artemis_mqtt.broker.sessions import Sessions
from artemis_mqtt.broker.system_topics import SystemTopics
from artemis_mqtt.engine.topics import topic_field
from artemis_py.core.messages.message import MessageFormat
from artemis_py.core.settings.declaration import Option
from artemis_py.logs import LogBrake, named_logger
from artemis_py.protocol import ConnectionContext, Host, Siblings
from artemis_py.wire.parameters import read_parameters

_CONNECT: Final = 0x10
# The protocol name behind the fixed header: `MQTT`, or `MQIsdp` in 3.1 (MQTT 5.0 §3.1.2.1).
_NAMES: Final = (b"\x00\x04MQTT", b"\x00\x06MQIsdp")


class MqttProtocolManager:
    """State that all MQTT connections of a domain share; the transport knows that of the default domain."""

    name = "MQTT"
    parameters: Sequence[Option] = PARAMETERS
    # `mqttv3.1` is what some clients of 3.1 still ask for.
    websocket_subprotocols: Sequence[str] = ("mqtt", "mqttv3.1")
    greeting: bytes = b""

    def __init__(self, host: Host, first: "MqttProtocolManager | None" = None) -> None:
        """Create it for the domain of `host`; if that is not the default one, `first` is the manager of that."""
        self.host: Final = host
        syntax = host.options.wildcards
        self.names: Final = Names(syntax)
        # A message belongs to a format, which has one instance.
        self.format: MqttFormat = MqttFormat(syntax) if first is None else first.format
        self.formats: Sequence[MessageFormat] = (self.format,)
        # For what clients can have logged.
        brake: LogBrake = LogBrake(named_logger("artemis_mqtt")) if first is None else first.brake
        self.limits: BrokerLimits = BrokerLimits() if first is None else first.limits
        self.siblings: Final = Siblings(self, host, lambda other: MqttProtocolManager(other, self))
        """Managers of all domains: a client identifier belongs to another session in each of them."""
        if host.hosts is not None:
            host.hosts.before_clearing.append(lambda gone: self.siblings.of(gone.services).sessions.end_all())
        self.sessions: Sessions = Sessions(host, self.names, self.format, brake, self.limits)
        self.system_topics: Final = SystemTopics(self)
        self.brake: LogBrake = brake
        self.copies: Copies | None = None
        """The packets that a subscription was sent last, for others that get the same; as much as one write has."""
        self.common: Final = CommonPacket()
        """The same for the message of QoS 0 that was sent last."""
        self.deferred_pubrels: Final = DeferredPubrels(host.dispatcher)
        self._topic_fields: dict[str, bytes] = {}
        self._key_fields: dict[str, bytes] = {}

    def matches(self, head: bytes) -> bool | None:
        """Recognise a CONNECT: its first byte, one to four of length, then the protocol name."""
        if head[:1] != bytes((_CONNECT,)):
            return None if not head else False
        start = 1
        while start < min(len(head), 5) and head[start] >= 0x80:
            start += 1
        if start == 5:
            return False
        name = head[start + 1 : start + 9]
        if any(name.startswith(known) for known in _NAMES):
            return True
        return None if any(known.startswith(name) for known in _NAMES) else False

    def connect(self, context: ConnectionContext) -> ClientHandler:
        """Start a conversation."""
        parameters = context.parameters
        return ClientHandler(self, context, parameters if isinstance(parameters, Parameters) else Parameters())

    def read_parameters(self, acceptor: str, given: Mapping[str, str]) -> Parameters:
        """Parse an acceptor's parameters; some of them are the whole broker's. Raises InvalidParameter."""
        self.limits.read(acceptor, given)
        return read_parameters(Parameters, given)

    def start(self) -> None:
        """Take up the sessions of an earlier run."""
        for each in self.siblings.all():
            each.sessions.restore()

    def key_field(self, key: str) -> bytes:
        """Return the topic of a routing key as it stands in a PUBLISH; empty if it cannot stand there."""
        field = self._key_fields.get(key)
        if field is None:
            try:
                field = topic_field(from_key(key))
            except (InvalidTopic, ValueError):
                field = b""
            if len(self._key_fields) >= CACHED_TOPICS:
                self._key_fields.clear()
            self._key_fields[key] = field
        return field

    def topic_field(self, address: str) -> bytes:
        """Return the topic of an address as it stands in a PUBLISH; empty if it cannot stand there."""
        field = self._topic_fields.get(address)
        if field is None:
            try:
                field = topic_field(to_topic(address, self.names.syntax))
            except (InvalidTopic, ValueError):
                field = b""
            if len(self._topic_fields) >= CACHED_TOPICS:
                self._topic_fields.clear()
            self._topic_fields[address] = field
        return field
