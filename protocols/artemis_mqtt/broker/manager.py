"""MQTT as a protocol of the broker: the entry point `MQTT` of the group `artemis_py.protocols`."""

from collections.abc import Mapping, Sequence
from typing import Final

from attrs import frozen

from artemis_mqtt.broker.addressing import CACHED_TOPICS, InvalidTopic, Names, to_topic
from artemis_mqtt.broker.format import MqttFormat
from artemis_mqtt.broker.handler import ClientHandler
from artemis_mqtt.broker.sessions import Sessions
from artemis_mqtt.broker.system_topics import SystemTopics
from artemis_mqtt.engine.limits import ConnectionLimits
from artemis_mqtt.engine.topics import topic_field
from artemis_py.core.messages.message import MessageFormat
from artemis_py.core.routing.post_office import PostOffice
from artemis_py.logs import LogBrake, named_logger
from artemis_py.protocol import ConnectionContext, Parameter

_CONNECT: Final = 0x10
# The protocol name behind the fixed header: `MQTT`, or `MQIsdp` in 3.1 (§3.1.2.1).
_NAMES: Final = (b"\x00\x04MQTT", b"\x00\x06MQIsdp")

PARAMETERS: Final = (
    Parameter(
        name="defaultMqttSessionExpiryInterval",
        kind=int,
        default=-1,
        help="Seconds that a session of MQTT 3.x without `clean session` outlives its connection; -1: for ever.",
        minimum=-1,
        maximum=0xFFFFFFFE,
    ),
    Parameter(
        name="mqttMaxSessionExpiryInterval",
        kind=int,
        default=-1,
        help="Longest session expiry of MQTT 5 in seconds; the client is told. -1: as long as it wants.",
        minimum=-1,
        maximum=0xFFFFFFFE,
    ),
    Parameter(
        name="serverKeepAlive",
        kind=int,
        default=60,
        help="Longest keep-alive of MQTT 5 in seconds; the client is told. 0: none needed, -1: as the client wants.",
        minimum=-1,
        maximum=65535,
    ),
    Parameter(
        name="maximumPacketSize",
        kind=int,
        default=16 * 1024 * 1024,
        help="Largest MQTT packet in bytes after the login; announced.",
        minimum=512,
        maximum=268_435_455 + 5,
    ),
    Parameter(
        name="receiveMaximum",
        kind=int,
        default=1000,
        help="Messages of QoS 1 and 2 an MQTT 5 client may send ahead of their answers; announced.",
        minimum=1,
        maximum=65535,
    ),
    Parameter(
        name="topicAliasMaximum",
        kind=int,
        default=32,
        help="Topic aliases of an MQTT 5 client, and of the broker towards it; 0: none.",
        minimum=0,
        maximum=65535,
    ),
    Parameter(
        name="defaultMaximumInFlightPublishMessages",
        kind=int,
        default=1000,
        help="Messages of QoS 1 and 2 sent ahead of the client's answers; the client's receive maximum lowers it.",
        minimum=1,
        maximum=65535,
    ),
    Parameter(name="mqttMaxTopicLevels", kind=int, default=128, help="Levels of a topic name or filter.", minimum=1),
    Parameter(
        name="mqttMaxSubscriptions", kind=int, default=10_000, help="Subscriptions of one MQTT session.", minimum=1
    ),
    Parameter(
        name="mqttMaxSessions",
        kind=int,
        default=100_000,
        help="MQTT sessions that outlive their connections, in the whole broker; -1: no limit.",
        minimum=-1,
    ),
    Parameter(
        name="mqttMaxRetainedMessages",
        kind=int,
        default=1_000_000,
        help="Topics whose last message is retained, in the whole broker; -1: no limit.",
        minimum=-1,
    ),
    Parameter(
        name="mqttAnonymousSystemTopics",
        kind=bool,
        default=False,
        help="Clients without a name may read `$SYS` as well, if the permissions of anonymous clients allow it.",
    ),
    Parameter(
        name="allowLinkStealing",
        kind=bool,
        default=True,
        help="Who connects under an identifier in use takes its session over; false: is refused.",
    ),
    Parameter(
        name="mqttSessionOwner",
        kind=bool,
        default=True,
        help="A session belongs to the user that made it: others are refused under its identifier, unless they may "
        "delete its queues. false: the session of another user ends. Not in Artemis.",
    ),
    Parameter(
        name="closeMqttConnectionOnPublishAuthorizationFailure",
        kind=bool,
        default=True,
        help="Disconnect an MQTT 3.x client that publishes what it may not; false: drop it, and acknowledge.",
    ),
)


@frozen(kw_only=True)
class Parameters:
    """One acceptor's MQTT parameters."""

    default_session_expiry_s: int
    max_session_expiry_s: int
    server_keep_alive_s: int
    max_packet_size: int
    receive_maximum: int
    topic_alias_maximum: int
    max_in_flight: int
    max_topic_levels: int
    max_subscriptions: int
    max_sessions: int
    max_retained: int
    shows_system_topics: bool
    allows_link_stealing: bool
    keeps_owners: bool
    closes_on_refusal: bool

    def limits(self, context: ConnectionContext) -> ConnectionLimits:
        """What the engine enforces."""
        return ConnectionLimits(
            max_packet_size=self.max_packet_size,
            receive_maximum=self.receive_maximum,
            topic_alias_maximum=self.topic_alias_maximum,
            max_outgoing_aliases=self.topic_alias_maximum,
            max_topic_levels=self.max_topic_levels,
            output_limit_bytes=context.output_limit_bytes,
        )


_DEFAULTS: Final = {parameter.name: str(parameter.default) for parameter in PARAMETERS}


def read_parameters(given: Mapping[str, str]) -> Parameters:
    """From an acceptor's URL, already checked against `PARAMETERS`."""

    def number(name: str) -> int:
        return int(given.get(name, _DEFAULTS[name]))

    def flag(name: str) -> bool:
        return given.get(name, _DEFAULTS[name]).lower() == "true"

    return Parameters(
        default_session_expiry_s=number("defaultMqttSessionExpiryInterval"),
        max_session_expiry_s=number("mqttMaxSessionExpiryInterval"),
        server_keep_alive_s=number("serverKeepAlive"),
        max_packet_size=number("maximumPacketSize"),
        receive_maximum=number("receiveMaximum"),
        topic_alias_maximum=number("topicAliasMaximum"),
        max_in_flight=number("defaultMaximumInFlightPublishMessages"),
        max_topic_levels=number("mqttMaxTopicLevels"),
        max_subscriptions=number("mqttMaxSubscriptions"),
        max_sessions=number("mqttMaxSessions"),
        max_retained=number("mqttMaxRetainedMessages"),
        shows_system_topics=flag("mqttAnonymousSystemTopics"),
        allows_link_stealing=flag("allowLinkStealing"),
        keeps_owners=flag("mqttSessionOwner"),
        closes_on_refusal=flag("closeMqttConnectionOnPublishAuthorizationFailure"),
    )


class MqttProtocolManager:
    """What all MQTT connections of a broker share."""

    name = "MQTT"
    parameters: Sequence[Parameter] = PARAMETERS
    # `mqttv3.1` is what some clients of 3.1 still ask for.
    websocket_subprotocols: Sequence[str] = ("mqtt", "mqttv3.1")
    greeting: bytes = b""

    def __init__(self, postoffice: PostOffice) -> None:
        self.postoffice: Final = postoffice
        syntax = postoffice.options.wildcards
        self.names: Final = Names(syntax)
        self.format: Final = MqttFormat(syntax)
        self.formats: Sequence[MessageFormat] = (self.format,)
        # For what clients can have logged.
        brake = LogBrake(named_logger("artemis_mqtt"))
        self.sessions: Final = Sessions(postoffice, self.names, self.format, brake)
        self.system_topics: Final = SystemTopics(self)
        self.brake: Final = brake
        self._topic_fields: dict[str, bytes] = {}

    def matches(self, head: bytes) -> bool | None:
        """A CONNECT: its first byte, one to four of length, then the protocol name."""
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
        return ClientHandler(self, context, read_parameters(context.parameters))

    def start(self) -> None:
        """Take up the sessions of an earlier run."""
        self.sessions.restore()

    def topic_field(self, address: str) -> bytes:
        """The topic of an address as it stands in a PUBLISH; empty if it cannot stand there."""
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
