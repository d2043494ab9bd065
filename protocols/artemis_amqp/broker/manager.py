"""AMQP 1.0 as a protocol of the broker: the entry point `AMQP` of the group `artemis_py.protocols`."""

from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from attrs import frozen

from artemis_amqp.broker.addressing import Prefixes
from artemis_amqp.broker.handler import AmqpHandler
from artemis_amqp.broker.lifetimes import Lifetimes
from artemis_amqp.broker.producers import NEVER_LARGE
from artemis_amqp.broker.termini import Termini
from artemis_amqp.engine.connection import SASL_HEADER
from artemis_amqp.engine.limits import ConnectionLimits
from artemis_amqp.messages.format import AMQP_FORMAT
from artemis_py.core.messages.large_body import DEFAULT_MIN_LARGE_BYTES
from artemis_py.core.messages.message import MessageFormat
from artemis_py.core.routing.post_office import PostOffice
from artemis_py.logs import LogBrake, named_logger
from artemis_py.protocol import ConnectionContext, Parameter

_HEAD: Final = b"AMQP"

PARAMETERS: Final = (
    Parameter(name="anycastPrefix", kind=str, default="", help="Address prefixes that mean ANYCAST, comma separated."),
    Parameter(
        name="multicastPrefix", kind=str, default="", help="Address prefixes that mean MULTICAST, comma separated."
    ),
    Parameter(name="amqpCredits", kind=int, default=1000, help="Messages a producer may send ahead.", minimum=1),
    Parameter(
        name="amqpLowCredits", kind=int, default=300, help="Credit is topped up when this few are left.", minimum=0
    ),
    Parameter(name="maxFrameSize", kind=int, default=131072, help="Largest frame in bytes, both ways.", minimum=512),
    Parameter(
        name="amqpIdleTimeout",
        kind=int,
        default=60_000,
        help="Milliseconds of silence after which a client is dropped; 0: never. Half of it is announced.",
        minimum=0,
    ),
    Parameter(
        name="amqpMaxMessageSize",
        kind=int,
        default=100 * 1024 * 1024,
        help="Largest message in bytes; announced.",
        minimum=1,
    ),
    Parameter(
        name="amqpMinLargeMessageSize",
        kind=int,
        default=DEFAULT_MIN_LARGE_BYTES,
        help="Messages of so many bytes or more are kept in files and streamed, not held in memory; -1: none.",
        minimum=-1,
    ),
    Parameter(
        name="amqpMaxSessions", kind=int, default=255, help="Sessions of one connection.", minimum=1, maximum=65536
    ),
    Parameter(name="amqpMaxLinks", kind=int, default=1024, help="Links of one session.", minimum=1),
    Parameter(
        name="amqpDuplicateDetection",
        kind=bool,
        default=True,
        help="Take a message under the same `_AMQ_DUPL_ID` (application property or message annotation) only once.",
    ),
    Parameter(
        name="amqpUseModifiedForTransientDeliveryErrors",
        kind=bool,
        default=False,
        help="Answer modified(delivery-failed) instead of rejected when an address is full.",
    ),
    Parameter(
        name="amqpTreatRejectAsUnmodifiedDeliveryFailed",
        kind=bool,
        default=False,
        help="A rejected message counts as a failed attempt instead of going to the dead-letter address at once.",
    ),
)


@frozen(kw_only=True)
class Parameters:
    """One acceptor's AMQP parameters."""

    prefixes: Prefixes
    credits: int
    low_credits: int
    max_frame_size: int
    idle_timeout_ms: int
    max_message_size: int
    large_size: int
    """From so many bytes on a message is large."""
    max_sessions: int
    max_links: int
    detects_duplicates: bool
    modified_when_full: bool
    reject_counts_as_failed: bool

    def limits(self, context: ConnectionContext) -> ConnectionLimits:
        """What the engine enforces."""
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


def read_parameters(given: Mapping[str, str]) -> Parameters:
    """From an acceptor's URL, already checked against `PARAMETERS`."""

    def text(name: str) -> str:
        return given.get(name, "")

    def default(name: str) -> object:
        return next(parameter.default for parameter in PARAMETERS if parameter.name == name)

    def number(name: str) -> int:
        return int(given.get(name, str(default(name))))

    def flag(name: str) -> bool:
        return given.get(name, str(default(name))).lower() == "true"

    return Parameters(
        prefixes=Prefixes.parse(text("anycastPrefix"), text("multicastPrefix")),
        credits=number("amqpCredits"),
        low_credits=min(number("amqpLowCredits"), number("amqpCredits") - 1),
        max_frame_size=number("maxFrameSize"),
        idle_timeout_ms=number("amqpIdleTimeout"),
        max_message_size=number("amqpMaxMessageSize"),
        large_size=NEVER_LARGE if number("amqpMinLargeMessageSize") < 0 else max(1, number("amqpMinLargeMessageSize")),
        max_sessions=number("amqpMaxSessions"),
        max_links=number("amqpMaxLinks"),
        detects_duplicates=flag("amqpDuplicateDetection"),
        modified_when_full=flag("amqpUseModifiedForTransientDeliveryErrors"),
        reject_counts_as_failed=flag("amqpTreatRejectAsUnmodifiedDeliveryFailed"),
    )


class AmqpProtocolManager:
    """What all AMQP connections of a broker share."""

    name = "AMQP"
    formats: Sequence[MessageFormat] = (AMQP_FORMAT,)
    parameters: Sequence[Parameter] = PARAMETERS
    websocket_subprotocols: Sequence[str] = ("amqp",)
    greeting: bytes = SASL_HEADER

    def __init__(self, postoffice: PostOffice) -> None:
        self.postoffice: Final = postoffice
        self.lifetimes: Final = Lifetimes(postoffice)
        self.termini: Final = Termini(postoffice.hub.timers, lambda: postoffice.now_ms)
        self.version: Final = _version()
        self.brake: Final = LogBrake(named_logger("artemis_amqp"))
        """For what clients can have logged."""
        self._containers: dict[str, list[AmqpHandler]] = {}

    def start(self) -> None:
        """Everything that outlives a connection is in the core."""

    def matches(self, head: bytes) -> bool | None:
        """All of AMQP's protocol headers begin alike."""
        if len(head) < len(_HEAD):
            return None if _HEAD.startswith(head) else False
        return head.startswith(_HEAD)

    def connect(self, context: ConnectionContext) -> AmqpHandler:
        """Start a conversation."""
        return AmqpHandler(self, context, read_parameters(context.parameters))

    def remember(self, handler: AmqpHandler) -> None:
        """The connection is open."""
        self._containers.setdefault(handler.container_id, []).append(handler)

    def forget(self, handler: AmqpHandler) -> None:
        """The connection is gone."""
        handlers = self._containers.get(handler.container_id)
        if handlers is not None and handler in handlers:
            handlers.remove(handler)
            if not handlers:
                del self._containers[handler.container_id]

    def connections_of(self, container_id: str, other_than: AmqpHandler) -> list[AmqpHandler]:
        """Open connections of a container."""
        return [
            handler
            for handler in self._containers.get(container_id, ())
            if handler is not other_than and handler.logged_in and not handler.closed
        ]


def _version() -> str:
    try:
        return version("artemis_py")
    except PackageNotFoundError:
        return "unknown"
