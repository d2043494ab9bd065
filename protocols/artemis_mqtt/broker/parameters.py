"""MQTT parameters of an acceptor's URL."""

from collections.abc import Mapping
from typing import Final

from attrs import frozen

from artemis_mqtt.broker.addressing import is_reserved
from artemis_mqtt.engine.limits import ConnectionLimits
from artemis_py.core.settings.declaration import Kind, option, options_of
from artemis_py.protocol import ConnectionContext
from artemis_py.wire.parameters import InvalidParameter, read_parameters


@frozen(kw_only=True)
class Parameters:
    """MQTT parameters of one acceptor."""

    default_session_expiry_s: int = option(
        Kind.COUNT,
        -1,
        "Seconds that a session of MQTT 3.x without `clean session` outlives its connection; -1: for ever.",
        name="defaultMqttSessionExpiryInterval",
        minimum=-1,
        maximum=0xFFFFFFFE,
    )
    max_session_expiry_s: int = option(
        Kind.COUNT,
        -1,
        "Longest session expiry of MQTT 5 in seconds; the client is told. -1: as long as it wants.",
        name="mqttMaxSessionExpiryInterval",
        minimum=-1,
        maximum=0xFFFFFFFE,
    )
    server_keep_alive_s: int = option(
        Kind.COUNT,
        60,
        "Longest keep-alive of MQTT 5 in seconds; the client is told. 0: none needed, -1: as the client wants.",
        name="serverKeepAlive",
        minimum=-1,
        maximum=65535,
    )
    max_packet_size: int = option(
        Kind.COUNT,
        16 * 1024 * 1024,
        "Largest MQTT packet in bytes after the login; announced.",
        name="maximumPacketSize",
        minimum=512,
        maximum=268_435_455 + 5,
    )
    receive_maximum: int = option(
        Kind.COUNT,
        1000,
        "Messages of QoS 1 and 2 an MQTT 5 client may send ahead of their answers; announced.",
        name="receiveMaximum",
        minimum=1,
        maximum=65535,
    )
    topic_alias_maximum: int = option(
        Kind.COUNT,
        32,
        "Topic aliases of an MQTT 5 client, and of the broker towards it; 0: none.",
        name="topicAliasMaximum",
        minimum=0,
        maximum=65535,
    )
    max_in_flight: int = option(
        Kind.COUNT,
        1000,
        "Messages of QoS 1 and 2 sent ahead of the client's answers; the client's receive maximum lowers it.",
        name="defaultMaximumInFlightPublishMessages",
        minimum=1,
        maximum=65535,
    )
    max_topic_levels: int = option(
        Kind.COUNT, 128, "Levels of a topic name or filter.", name="mqttMaxTopicLevels", minimum=1
    )
    max_subscriptions: int = option(
        Kind.COUNT, 10_000, "Subscriptions of one MQTT session.", name="mqttMaxSubscriptions", minimum=1
    )
    shows_system_topics: bool = option(
        Kind.BOOLEAN,
        False,
        "Clients without a name may read `$SYS` as well, if the permissions of anonymous clients allow it.",
        name="mqttAnonymousSystemTopics",
    )
    allows_link_stealing: bool = option(
        Kind.BOOLEAN,
        True,
        "A client that connects with an identifier in use takes over its session; false: it is refused.",
        name="allowLinkStealing",
    )
    keeps_owners: bool = option(
        Kind.BOOLEAN,
        True,
        "A session belongs to the user that created it: other users are refused under its identifier, unless they may "
        "delete its queues. false: the session of another user ends. Not in Artemis.",
        name="mqttSessionOwner",
    )
    closes_on_refusal: bool = option(
        Kind.BOOLEAN,
        True,
        "Disconnect an MQTT 3.x client that publishes without permission; false: drop the message and acknowledge it.",
        name="closeMqttConnectionOnPublishAuthorizationFailure",
    )

    exchange: str = option(
        Kind.TEXT,
        "",
        "Topic exchange that topics go through, such as `amq.topic`; their levels are the words of routing keys. "
        "Empty: topics are addresses. Not in Artemis.",
        name="mqttExchange",
    )

    def limits(self, context: ConnectionContext) -> ConnectionLimits:
        """Return what the engine enforces."""
        return ConnectionLimits(
            max_packet_size=self.max_packet_size,
            receive_maximum=self.receive_maximum,
            topic_alias_maximum=self.topic_alias_maximum,
            max_outgoing_aliases=self.topic_alias_maximum,
            max_topic_levels=self.max_topic_levels,
            output_limit_bytes=context.output_limit_bytes,
        )


def exchange_of(parameters: Parameters, topic: str) -> str:
    """Return the exchange that a topic name or filter goes through; empty: it is an address."""
    return "" if is_reserved(topic) else parameters.exchange


@frozen(kw_only=True)
class BrokerParameters:
    """MQTT parameters of the whole broker, on whichever acceptor they are written."""

    max_sessions: int = option(
        Kind.COUNT,
        100_000,
        "MQTT sessions that outlive their connections, in each virtual host; -1: no limit.",
        name="mqttMaxSessions",
        minimum=-1,
    )
    max_retained: int = option(
        Kind.COUNT,
        1_000_000,
        "Topics whose last message is retained, in each virtual host; -1: no limit.",
        name="mqttMaxRetainedMessages",
        minimum=-1,
    )


BROKER_PARAMETERS: Final = options_of(BrokerParameters)
PARAMETERS: Final = (*options_of(Parameters), *BROKER_PARAMETERS)


class BrokerLimits:
    """The parameters that count for the whole broker.

    An acceptor that names a parameter sets it for all; acceptors that name the same one must agree.
    """

    def __init__(self) -> None:
        self.values: BrokerParameters = BrokerParameters()
        self._given: dict[str, dict[str, str]] = {}
        """Texts of each acceptor, by its name."""

    def read(self, acceptor: str, given: Mapping[str, str]) -> None:
        """Take what one acceptor says, in place of what it said before. Raises InvalidParameter."""
        wanted = {option.name: given[option.name] for option in BROKER_PARAMETERS if option.name in given}
        for name, text in wanted.items():
            for other, said in self._given.items():
                if other != acceptor and name in said and int(said[name]) != int(text):
                    message = (
                        f'is {text}, and {said[name]} on acceptor "{other}"; there is one value for the whole broker: '
                        "give it on one acceptor, or the same on both"
                    )
                    raise InvalidParameter(name, message)
        read_parameters(BrokerParameters, wanted)
        self._given[acceptor] = wanted
        merged = {name: text for said in self._given.values() for name, text in said.items()}
        self.values = read_parameters(BrokerParameters, merged)
