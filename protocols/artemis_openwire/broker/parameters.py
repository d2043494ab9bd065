"""OpenWire parameters of an acceptor's URL (artemis-model §4.3.1)."""

from typing import Final

from attrs import Factory, field, frozen

from artemis_openwire.broker.virtual_topics import PARAMETER, VirtualTopics, parse_virtual_topics
from artemis_openwire.engine.limits import ConnectionLimits
from artemis_py.core.messages.large_body import DEFAULT_MIN_LARGE_BYTES
from artemis_py.core.settings.declaration import Kind, option, options_of
from artemis_py.protocol import ConnectionContext

_NEVER_LARGE: Final = 1 << 31
"""No frame has as many octets."""


@frozen(kw_only=True)
class Parameters:
    """OpenWire parameters of one acceptor."""

    max_inactivity_ms: int = option(
        Kind.COUNT,
        30_000,
        "Milliseconds of silence after which an OpenWire client is dropped, unless it asks for less; 0: never.",
        name="maxInactivityDuration",
        minimum=0,
    )
    initial_delay_ms: int = option(
        Kind.COUNT,
        10_000,
        "Milliseconds after the first exchange in which silence means nothing, unless the client asks for less.",
        name="maxInactivityDurationInitalDelay",
        minimum=0,
    )
    sends_keep_alive: bool = option(
        Kind.BOOLEAN,
        True,
        "Send OpenWire clients signs of life; false: an idle client gives the broker up.",
        name="useKeepAlive",
    )
    max_frame_size: int = option(
        Kind.COUNT,
        100 * 1024 * 1024,
        "Largest OpenWire message in bytes; announced.",
        name="openwireMaxFrameSize",
        minimum=64 * 1024,
        maximum=(1 << 31) - 1,
    )
    min_large_size: int = option(
        Kind.COUNT,
        DEFAULT_MIN_LARGE_BYTES,
        "Size in bytes from which the content of an OpenWire message is kept in a file and not in memory; -1: never. "
        "Not in Artemis.",
        name="openwireMinLargeMessageSize",
        minimum=-1,
    )
    sends_advisories: bool = option(
        Kind.BOOLEAN,
        True,
        "Tell OpenWire clients that subscribe to `ActiveMQ.Advisory` topics what they are about. Without it clients "
        "cannot reply to temporary destinations unless they set `watchTopicAdvisories=false`.",
        name="supportAdvisory",
    )
    detects_duplicates: bool = option(
        Kind.BOOLEAN,
        True,
        "Accept a durable message of a failover client once, even if the client sends it again after a reconnection.",
        name="openwireUseDuplicateDetectionOnFailover",
    )
    allows_link_stealing: bool = option(
        Kind.BOOLEAN,
        False,
        "A connection with a client id in use ends the other connection of the same user; false: it is refused. "
        "Not in Artemis.",
        name="openwireAllowLinkStealing",
    )
    updates_clients: bool = option(
        Kind.BOOLEAN,
        True,
        "Tell OpenWire clients with the failover transport which other brokers they may use, when they log in and when "
        "there are more; in Artemis false.",
        name="updateClusterClients",
    )
    updates_on_remove: bool = option(
        Kind.BOOLEAN,
        False,
        "Tell them too when there are fewer: clients then have no URIs of brokers that are only away for a while.",
        name="updateClusterClientsOnRemove",
    )
    rebalances_clients: bool = option(
        Kind.BOOLEAN,
        False,
        "Have them spread over all brokers: with each update, a client goes to one of the list.",
        name="rebalanceClusterClients",
    )
    virtual_topic_wildcards: str = option(
        Kind.TEXT,
        "",
        "Queues that are subscriptions of topics, as `filter;words` separated by commas: `Consumer.*.>;2`.",
        name=PARAMETER,
    )
    virtual_topics: VirtualTopics = field(
        init=False, default=Factory(lambda self: parse_virtual_topics(self.virtual_topic_wildcards), takes_self=True)
    )

    def limits(self, context: ConnectionContext) -> ConnectionLimits:
        """Return what the engine enforces."""
        override_ms = context.idle_timeout_override_ms
        return ConnectionLimits(
            max_inactivity_ms=self.max_inactivity_ms if override_ms is None else override_ms,
            initial_delay_ms=self.initial_delay_ms,
            sends_keep_alive=self.sends_keep_alive,
            max_frame_size=self.max_frame_size,
            large_size=_NEVER_LARGE if self.min_large_size < 0 else max(1, self.min_large_size),
            output_limit_bytes=context.output_limit_bytes,
        )


PARAMETERS: Final = options_of(Parameters)
