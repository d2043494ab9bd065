"""AMQP 1.0 as a protocol of the broker: the entry point `AMQP` of the group `artemis_py.protocols`."""

from collections.abc import Mapping, Sequence
from typing import Final

from attrs import Factory, field, frozen

from artemis_amqp.bridge.connection import BrokerEnd
from artemis_amqp.broker.handler import AmqpHandler
from artemis_amqp.broker.lifetimes import Lifetimes
from artemis_amqp.broker.producers import NEVER_LARGE
from artemis_amqp.broker.rabbit_addresses import Addresses
from artemis_amqp.broker.termini import Termini
from artemis_amqp.carrier.dialled import DialledPeer
from artemis_amqp.engine.limits import ConnectionLimits
from artemis_amqp.engine.states import SASL_HEADER
from artemis_amqp.messages.format import AMQP_FORMAT
from artemis_py.core.messages.large_body import DEFAULT_MIN_LARGE_BYTES
from artemis_py.core.messages.message import MessageFormat
from artemis_py.core.runtime.bridging import BridgeTerms
from artemis_py.core.runtime.carrier import Greeting
from artemis_py.core.settings.declaration import Kind, Option, option, options_of
from artemis_py.logs import LogBrake, named_logger
from artemis_py.protocol import ConnectionContext, Host, OutgoingContext, Siblings
from artemis_py.release import installed_version
from artemis_py.wire.parameters import read_parameters
from artemis_py.wire.prefixes import Prefixes

_HEAD: Final = b"AMQP"


@frozen(kw_only=True)
class Parameters:
    """One acceptor's AMQP parameters."""

    anycast_prefixes: str = option(
        Kind.TEXT, "", "Address prefixes that mean ANYCAST, comma separated.", name="anycastPrefix"
    )
    multicast_prefixes: str = option(
        Kind.TEXT, "", "Address prefixes that mean MULTICAST, comma separated.", name="multicastPrefix"
    )
    credits: int = option(Kind.COUNT, 1000, "Messages a producer may send ahead.", name="amqpCredits", minimum=1)
    wanted_low_credits: int = option(
        Kind.COUNT, 300, "Credit is topped up when this few are left.", name="amqpLowCredits", minimum=0
    )
    max_frame_size: int = option(
        Kind.COUNT, 131072, "Largest frame in bytes, both ways.", name="maxFrameSize", minimum=512
    )
    idle_timeout_ms: int = option(
        Kind.COUNT,
        60_000,
        "Milliseconds of silence after which a client is dropped; 0: never. Half of it is announced.",
        name="amqpIdleTimeout",
        minimum=0,
    )
    max_message_size: int = option(
        Kind.COUNT, 100 * 1024 * 1024, "Largest message in bytes; announced.", name="amqpMaxMessageSize", minimum=1
    )
    min_large_size: int = option(
        Kind.COUNT,
        DEFAULT_MIN_LARGE_BYTES,
        "Messages of this many bytes or more are kept in files and streamed, not held in memory; -1: none.",
        name="amqpMinLargeMessageSize",
        minimum=-1,
    )
    max_sessions: int = option(
        Kind.COUNT, 255, "Sessions of one connection.", name="amqpMaxSessions", minimum=1, maximum=65536
    )
    max_links: int = option(Kind.COUNT, 1024, "Links of one session.", name="amqpMaxLinks", minimum=1)
    detects_duplicates: bool = option(
        Kind.BOOLEAN,
        True,
        "Accept only one message with the same `_AMQ_DUPL_ID` (application property or message annotation).",
        name="amqpDuplicateDetection",
    )
    modified_when_full: bool = option(
        Kind.BOOLEAN,
        False,
        "Answer modified(delivery-failed) instead of rejected when an address is full.",
        name="amqpUseModifiedForTransientDeliveryErrors",
    )
    reject_counts_as_failed: bool = option(
        Kind.BOOLEAN,
        False,
        "A rejected message counts as a failed attempt instead of going to the dead-letter address at once.",
        name="amqpTreatRejectAsUnmodifiedDeliveryFailed",
    )
    addresses: Addresses = option(  # noqa: RUF009  `option` makes a field
        Addresses,
        Addresses.ARTEMIS,
        "`RABBITMQ`: addresses that begin with a slash are those of RabbitMQ 4, `/exchanges/…` and `/queues/…`. "
        "Not in Artemis.",
        name="amqpAddresses",
    )
    prefixes: Prefixes = field(
        init=False,
        default=Factory(lambda self: Prefixes.parse(self.anycast_prefixes, self.multicast_prefixes), takes_self=True),
    )

    @property
    def has_rabbit_addresses(self) -> bool:
        """Whether addresses that begin with a slash are those of RabbitMQ."""
        return self.addresses is Addresses.RABBITMQ

    @property
    def low_credits(self) -> int:
        """Threshold for topping up credit; kept below the full credit, or it would be topped up without end."""
        return min(self.wanted_low_credits, self.credits - 1)

    @property
    def large_size(self) -> int:
        """Size in bytes from which a message is large."""
        return NEVER_LARGE if self.min_large_size < 0 else max(1, self.min_large_size)

    def limits(self, context: ConnectionContext) -> ConnectionLimits:
        """Return the limits that the engine enforces on a connection."""
        override_ms = context.idle_timeout_override_ms
        idle_timeout_ms = self.idle_timeout_ms if override_ms is None else override_ms
        return ConnectionLimits(
            max_frame_size=self.max_frame_size,
            channel_max=self.max_sessions - 1,
            handle_max=self.max_links - 1,
            max_message_size=self.max_message_size,
            idle_timeout_s=idle_timeout_ms / 1000,
            output_limit_bytes=context.output_limit_bytes,
        )


PARAMETERS: Final = options_of(Parameters)


class AmqpProtocolManager:
    """State that all AMQP connections of a domain share; the transport knows that of the default domain."""

    name = "AMQP"
    formats: Sequence[MessageFormat] = (AMQP_FORMAT,)
    parameters: Sequence[Option] = PARAMETERS
    websocket_subprotocols: Sequence[str] = ("amqp",)
    greeting: bytes = SASL_HEADER

    def __init__(self, host: Host) -> None:
        self.host: Final = host
        self.lifetimes: Final = Lifetimes(host)
        self.termini: Final = Termini(host.after)
        self.version: Final = installed_version()
        self.brake: Final = LogBrake(named_logger("artemis_amqp"))
        """Rate limit for log lines that clients can cause."""
        self._containers: dict[str, list[AmqpHandler]] = {}
        self.siblings: Final = Siblings(self, host, AmqpProtocolManager)
        """Managers of all domains: links and containers of the same name in two of them have nothing in common."""

    def read_parameters(self, acceptor: str, given: Mapping[str, str]) -> Parameters:
        """Parse an acceptor's parameters. Raises InvalidParameter."""
        return read_parameters(Parameters, given)

    def start(self) -> None:
        """Do nothing: everything that outlives a connection is in the core."""

    def matches(self, head: bytes) -> bool | None:
        """Tell whether a connection that begins with these octets is AMQP; None: too few to tell."""
        if len(head) < len(_HEAD):
            return None if _HEAD.startswith(head) else False
        return head.startswith(_HEAD)

    def connect(self, context: ConnectionContext) -> AmqpHandler:
        """Return the handler of a new connection."""
        parameters = context.parameters
        return AmqpHandler(self, context, parameters if isinstance(parameters, Parameters) else Parameters())

    def dial(self, context: OutgoingContext, greeting: Greeting) -> DialledPeer:
        """Return our side of a connection to another broker of a mesh."""
        return DialledPeer(context, greeting, greeting.client_id or self.host.options.name, self.host.meter)

    def dial_bridges(self, context: OutgoingContext, terms: BridgeTerms) -> BrokerEnd:
        """Return our side of a connection to another broker, of any make."""
        return BrokerEnd(context, terms, self.host)

    def remember(self, handler: AmqpHandler) -> None:
        """Register a connection that is open."""
        self._containers.setdefault(handler.container_id, []).append(handler)

    def forget(self, handler: AmqpHandler) -> None:
        """Remove a connection that is gone."""
        handlers = self._containers.get(handler.container_id)
        if handlers is not None and handler in handlers:
            handlers.remove(handler)
            if not handlers:
                del self._containers[handler.container_id]

    def connections_of(self, container_id: str, other_than: AmqpHandler) -> list[AmqpHandler]:
        """Return the open connections of a container, without `other_than`."""
        return [
            handler
            for handler in self._containers.get(container_id, ())
            if handler is not other_than and handler.logged_in and not handler.closed
        ]
