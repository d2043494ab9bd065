"""What can be set about addresses, queues and the broker, and which setting wins.

Every option is declared once, as a field with its XML name, kind, default and meaning; the reader of broker.xml,
the test of its schema and the documentation are driven by `options_of`. Values come from elsewhere.
"""

import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final

from attrs import asdict, evolve, field, fields, frozen

from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.names.syntax import MatchHierarchy, WildcardSyntax, parse_fqqn

_OPTION: Final = "option"


class FullPolicy(Enum):
    """What happens to a message for an address that is at its limit (reference §3.15)."""

    PAGE = "PAGE"
    DROP = "DROP"
    FAIL = "FAIL"
    BLOCK = "BLOCK"


class PageFullPolicy(Enum):
    """What happens to a message for an address that pages and has reached its page limit (reference §3.15)."""

    DROP = "DROP"
    FAIL = "FAIL"


class DiskFullPolicy(Enum):
    """What happens to a message while the disk is nearly full (reference §3.15)."""

    BLOCK = "BLOCK"
    DROP = "DROP"
    FAIL = "FAIL"


class Kind(Enum):
    """How the text of an option is read, where it is not the name of an enum's member."""

    TEXT = "text"
    BOOLEAN = "true or false"
    COUNT = "whole number"
    BYTES = "bytes"
    MILLISECONDS = "milliseconds"
    SECONDS = "seconds"
    FACTOR = "decimal number"
    NAMES = "names, separated by commas"


@frozen(kw_only=True)
class Option:
    """One thing that can be set in broker.xml."""

    name: str
    """Of the XML element or attribute."""
    attribute: str
    """Of the class that holds its value."""
    kind: Kind | type[Enum]
    default: object
    minimum: float | None
    """Smallest legal number, or fewest characters of a text."""
    maximum: float | None
    """Largest legal number, or most characters of a text."""
    help: str


# -1 is how Artemis says "no limit", "never" or "not set".
_SMALLEST: Final[Mapping[Kind, float]] = {
    Kind.COUNT: -1,
    Kind.BYTES: -1,
    Kind.MILLISECONDS: -1,
    Kind.SECONDS: 0,
    Kind.FACTOR: 0,
}


def option(
    kind: Kind | type[Enum],
    default: object,
    help: str,
    name: str | None = None,
    minimum: float | None = None,
    maximum: float | None = None,
) -> Any:  # an attrs field, whatever the annotation beside it says
    """Declare a field that broker.xml can set; without `name` its XML name is the attribute's, with dashes."""
    if minimum is None and isinstance(kind, Kind):
        minimum = _SMALLEST.get(kind)
    return field(
        default=default, metadata={_OPTION: {"name": name, "kind": kind, "min": minimum, "max": maximum, "help": help}}
    )


def options_of(owner: type) -> tuple[Option, ...]:
    """The options declared in an attrs class, in order."""
    return tuple(
        Option(
            name=declared["name"] or attribute.name.replace("_", "-"),
            attribute=attribute.name,
            kind=declared["kind"],
            default=attribute.default,
            minimum=declared["min"],
            maximum=declared["max"],
            help=declared["help"],
        )
        for attribute in fields(owner)
        if (declared := attribute.metadata.get(_OPTION)) is not None
    )


@frozen(kw_only=True)
class ResolvedSettings:
    """The settings that apply to one address; delays are milliseconds. Defaults are Artemis' (reference §2.1)."""

    dead_letter_address: str | None = option(
        Kind.TEXT,
        None,
        "Where a message goes that cannot be delivered. Unset: it is dropped with a warning. An empty element "
        "switches off what a broader match has set.",
    )
    auto_create_dead_letter_resources: bool = option(
        Kind.BOOLEAN,
        False,
        "Create the dead-letter address on demand, with a queue of its own for each address that messages came from.",
    )
    dead_letter_queue_prefix: str = option(Kind.TEXT, "DLQ.", "Begins the names of auto-created dead-letter queues.")
    dead_letter_queue_suffix: str = option(Kind.TEXT, "", "Ends the names of auto-created dead-letter queues.")
    expiry_address: str | None = option(
        Kind.TEXT,
        None,
        "Where a message goes that has expired. Unset: it is dropped. An empty element switches off what a broader "
        "match has set.",
    )
    auto_create_expiry_resources: bool = option(
        Kind.BOOLEAN,
        False,
        "Create the expiry address on demand, with a queue of its own for each address that messages came from.",
    )
    expiry_queue_prefix: str = option(Kind.TEXT, "EXP.", "Begins the names of auto-created expiry queues.")
    expiry_queue_suffix: str = option(Kind.TEXT, "", "Ends the names of auto-created expiry queues.")
    expiry_delay: int = option(
        Kind.MILLISECONDS, -1, "Time to live given to messages that have none; -1: none is given."
    )
    min_expiry_delay: int = option(
        Kind.MILLISECONDS, -1, "A shorter time to live is raised to this; -1: no lower bound."
    )
    max_expiry_delay: int = option(
        Kind.MILLISECONDS, -1, "A longer time to live, or none, is cut to this; -1: no upper bound."
    )
    no_expiry: bool = option(
        Kind.BOOLEAN, False, "Messages never expire, whatever their producer says; beats the other expiry settings."
    )
    redelivery_delay: int = option(
        Kind.MILLISECONDS, 0, "Wait before a message goes out again after a failed delivery.", minimum=0
    )
    redelivery_delay_multiplier: float = option(
        Kind.FACTOR, 1.0, "The wait is multiplied by this after each further failure."
    )
    redelivery_collision_avoidance_factor: float = option(
        Kind.FACTOR, 0.0, "Random share of the wait that is added or taken away, 0 to 1.", maximum=1
    )
    max_redelivery_delay: int = option(
        Kind.MILLISECONDS, -1, "The wait never grows beyond this; -1: ten times `redelivery-delay`."
    )
    max_delivery_attempts: int = option(
        Kind.COUNT, 10, "Deliveries before a message goes to the dead-letter address; 0 or -1: no limit."
    )
    max_size_bytes: int = option(
        Kind.BYTES, -1, "Memory for the messages of all queues of the address together; -1: no limit."
    )
    max_size_messages: int = option(Kind.COUNT, -1, "Messages in all queues of the address together; -1: no limit.")
    max_size_bytes_reject_threshold: int = option(
        Kind.BYTES, -1, "With BLOCK: from this size on even producers that still have credit are refused; -1: off."
    )
    address_full_policy: FullPolicy = option(  # noqa: RUF009  `option` makes a field
        FullPolicy,
        FullPolicy.PAGE,
        "What happens to messages for an address that is at its limit, or when `global-max-size` is reached. PAGE: "
        "they go to disk, and the limits are about memory only; DROP: they are dropped; FAIL: they are refused; "
        "BLOCK: producers get no more credit.",
    )
    page_limit_bytes: int = option(
        Kind.BYTES, -1, "With PAGE: what the queues of the address may have on disk only; -1: no limit."
    )
    page_limit_messages: int = option(Kind.COUNT, -1, "The same in messages, each counted once for each queue.")
    page_full_policy: PageFullPolicy = option(  # noqa: RUF009  `option` makes a field
        PageFullPolicy,
        PageFullPolicy.FAIL,
        "What happens to messages when a page limit is reached. DROP: they are dropped; FAIL: they are refused.",
    )
    max_read_page_messages: int = option(
        Kind.COUNT,
        4000,
        "Waiting messages that a queue keeps in memory, of those that it can have on disk; fewer while nobody consumes "
        "or memory is short. -1: no limit. Artemis has none because it does not always page.",
    )
    max_read_page_bytes: int = option(
        Kind.BYTES, 4 * 1024 * 1024, "The same in bytes, with what Python needs for them. -1: no limit."
    )
    disk_full_policy: DiskFullPolicy = option(  # noqa: RUF009  `option` makes a field
        DiskFullPolicy,
        DiskFullPolicy.BLOCK,
        "What happens to messages while the disk is nearly full (`min-disk-free`): producers get no more credit, or "
        "messages are discarded, or refused.",
    )
    default_exclusive_queue: bool = option(
        Kind.BOOLEAN, False, "Queues that do not say otherwise feed one consumer at a time."
    )
    default_consumers_before_dispatch: int = option(
        Kind.COUNT, 0, "Consumers a queue waits for before it delivers, unless it says otherwise.", minimum=0
    )
    default_delay_before_dispatch: int = option(
        Kind.MILLISECONDS,
        -1,
        "With the setting before: deliver after this time even if consumers are missing; -1: wait for them.",
    )
    default_purge_on_no_consumers: bool = option(
        Kind.BOOLEAN,
        False,
        "Queues keep messages only while somebody consumes. Does not reach queues declared in broker.xml, as in "
        "Artemis: they say it themselves.",
    )
    default_max_consumers: int = option(
        Kind.COUNT, -1, "Consumers that may share a queue, unless it says otherwise; -1: no limit."
    )
    default_address_routing_type: RoutingType = option(  # noqa: RUF009  `option` makes a field
        RoutingType,
        RoutingType.MULTICAST,
        "Routing type of an address created on demand by a client that asks for none.",
    )
    default_queue_routing_type: RoutingType = option(  # noqa: RUF009  `option` makes a field
        RoutingType, RoutingType.MULTICAST, "Routing type of a queue created without one."
    )
    send_to_dla_on_no_route: bool = option(
        Kind.BOOLEAN, False, "A message that no queue takes goes to the dead-letter address instead of nowhere."
    )
    auto_create_queues: bool = option(Kind.BOOLEAN, True, "Create a queue when a client first asks for it.")
    auto_create_addresses: bool = option(
        Kind.BOOLEAN, True, "Create an address, or add a routing type to it, when a client first asks for it."
    )
    auto_delete_queues: bool = option(
        Kind.BOOLEAN, True, "Delete queues that were created on demand once they are unused."
    )
    auto_delete_created_queues: bool = option(
        Kind.BOOLEAN, False, "Do the same to queues that a client or an administrator created by name."
    )
    auto_delete_queues_delay: int = option(
        Kind.MILLISECONDS, 0, "A queue must have been without consumers for so long.", minimum=0
    )
    auto_delete_queues_message_count: int = option(
        Kind.COUNT, 0, "A queue with more messages than this is kept; -1: the number does not matter."
    )
    auto_delete_queues_skip_usage_check: bool = option(
        Kind.BOOLEAN, False, "Delete even queues that nobody ever used; the delay then counts from their creation."
    )
    auto_delete_addresses: bool = option(
        Kind.BOOLEAN, True, "Delete addresses that were created on demand once they have no queue."
    )
    auto_delete_addresses_delay: int = option(
        Kind.MILLISECONDS, 0, "An address must have been without queues for so long.", minimum=0
    )
    auto_delete_addresses_skip_usage_check: bool = option(
        Kind.BOOLEAN, False, "Delete even addresses that never had a queue."
    )
    enable_ingress_timestamp: bool = option(
        Kind.BOOLEAN,
        False,
        "Note on each message when it arrived: in AMQP the annotation `x-opt-ingress-time`, milliseconds since 1970.",
    )

    id_cache_size: int = option(
        Kind.COUNT,
        -1,
        "How many of the last duplicate ids (`_AMQ_DUPL_ID`) the address remembers; 0: none, so duplicates are taken; "
        "-1: the broker's `id-cache-size`.",
    )

    changes_messages: bool = field(init=False)
    """Whether any setting changes what passes through: most addresses have none, and routing asks per message."""

    @changes_messages.default
    def _any_that_changes_messages(self) -> bool:
        return (
            self.no_expiry
            or self.expiry_delay >= 0
            or self.min_expiry_delay >= 0
            or self.max_expiry_delay >= 0
            or self.enable_ingress_timestamp
        )


ADDRESS_SETTINGS: Final = options_of(ResolvedSettings)
"""Every address setting this broker knows, in the order of the documentation."""


@frozen(kw_only=True)
class AddressSettings:
    """What one `<address-setting match>` says; None leaves the word to the next broader match.

    The names are those of `ResolvedSettings`, which explains them.
    """

    dead_letter_address: str | None = None
    auto_create_dead_letter_resources: bool | None = None
    dead_letter_queue_prefix: str | None = None
    dead_letter_queue_suffix: str | None = None
    expiry_address: str | None = None
    auto_create_expiry_resources: bool | None = None
    expiry_queue_prefix: str | None = None
    expiry_queue_suffix: str | None = None
    expiry_delay: int | None = None
    min_expiry_delay: int | None = None
    max_expiry_delay: int | None = None
    no_expiry: bool | None = None
    redelivery_delay: int | None = None
    redelivery_delay_multiplier: float | None = None
    redelivery_collision_avoidance_factor: float | None = None
    max_redelivery_delay: int | None = None
    max_delivery_attempts: int | None = None
    max_size_bytes: int | None = None
    max_size_messages: int | None = None
    max_size_bytes_reject_threshold: int | None = None
    address_full_policy: FullPolicy | None = None
    page_limit_bytes: int | None = None
    page_limit_messages: int | None = None
    page_full_policy: PageFullPolicy | None = None
    max_read_page_messages: int | None = None
    max_read_page_bytes: int | None = None
    disk_full_policy: DiskFullPolicy | None = None
    default_exclusive_queue: bool | None = None
    default_consumers_before_dispatch: int | None = None
    default_delay_before_dispatch: int | None = None
    default_purge_on_no_consumers: bool | None = None
    default_max_consumers: int | None = None
    default_address_routing_type: RoutingType | None = None
    default_queue_routing_type: RoutingType | None = None
    send_to_dla_on_no_route: bool | None = None
    auto_create_queues: bool | None = None
    auto_create_addresses: bool | None = None
    auto_delete_queues: bool | None = None
    auto_delete_created_queues: bool | None = None
    auto_delete_queues_delay: int | None = None
    auto_delete_queues_message_count: int | None = None
    auto_delete_queues_skip_usage_check: bool | None = None
    auto_delete_addresses: bool | None = None
    auto_delete_addresses_delay: int | None = None
    auto_delete_addresses_skip_usage_check: bool | None = None
    enable_ingress_timestamp: bool | None = None
    id_cache_size: int | None = None


def merge(layers: list[AddressSettings]) -> ResolvedSettings:
    """Fill each setting from the first layer that has it, the most specific layer being first."""
    values: dict[str, Any] = {}
    for layer in reversed(layers):
        values |= {name: value for name, value in asdict(layer).items() if value is not None}
    resolved = ResolvedSettings(**values)
    if resolved.max_redelivery_delay < 0:
        resolved = evolve(resolved, max_redelivery_delay=10 * resolved.redelivery_delay)
    # An empty name is how a narrow match takes back the address that a broader one gave.
    return evolve(
        resolved,
        dead_letter_address=resolved.dead_letter_address or None,
        expiry_address=resolved.expiry_address or None,
    )


@frozen(kw_only=True)
class QueueConfig:
    """A queue to be created. None takes the address' `default-…` setting; delays are milliseconds (reference §2.2)."""

    name: str
    address: str
    routing_type: RoutingType | None = None
    durable: bool = option(Kind.BOOLEAN, True, "Whether the queue and its durable messages survive a restart.")
    filter: str | None = None
    user: str | None = option(Kind.TEXT, None, "Who the queue belongs to; in this file for information only.")
    """Of a durable subscription: the only user that may consume from it, but for those that may delete it."""
    max_consumers: int | None = option(
        Kind.COUNT, None, "Consumers that may share the queue; -1: no limit, 0: nobody may consume."
    )
    exclusive: bool | None = option(Kind.BOOLEAN, None, "Feed one consumer at a time.")
    purge_on_no_consumers: bool | None = option(
        Kind.BOOLEAN, None, "Keep messages only while somebody consumes; false when missing."
    )
    consumers_before_dispatch: int | None = option(
        Kind.COUNT, None, "Consumers to wait for before the first delivery.", minimum=0
    )
    delay_before_dispatch_ms: int | None = option(
        Kind.MILLISECONDS,
        None,
        "Deliver after this time even if consumers are missing; -1: wait for them.",
        name="delay-before-dispatch",
    )
    enabled: bool = option(Kind.BOOLEAN, True, "A disabled queue is passed over by new messages.")
    auto_delete: bool | None = None
    """None: decided by the `auto-delete-…` settings of the address (reference §2.4)."""
    auto_delete_delay_ms: int | None = None
    auto_delete_message_count: int | None = None
    configuration_managed: bool = False
    """Declared in broker.xml: never deleted on its own."""
    temporary: bool = False
    internal: bool = False
    auto_created: bool = False
    creator: str | None = None
    """The user whose client had it created on demand (`creations`)."""


QUEUE_OPTIONS: Final = options_of(QueueConfig)
"""The attributes and child elements of `<queue>` in broker.xml, beside its name and filter."""


@frozen(kw_only=True)
class AddressConfig:
    """An address of broker.xml with its queues."""

    name: str
    routing_types: frozenset[RoutingType]
    queues: tuple[QueueConfig, ...] = ()


# Names that clients and brokers make up for temporary resources: a UUID, or OpenWire's ID:host-port-time-n:n:n.
_MADE_UP_NAME: Final = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|ID:.+-\d+-\d+-\d+:\d+:\d+", re.IGNORECASE
)


@frozen(kw_only=True)
class BrokerSettings:
    """The core's own options; times are milliseconds. Defaults are Artemis' (reference §6.4)."""

    name: str = option(Kind.TEXT, "localhost", "The broker's name, shown to clients and in the log.", minimum=1)
    management_address: str = option(
        Kind.TEXT, "activemq.management", "Messages sent here are requests to the broker itself.", minimum=1
    )
    message_expiry_scan_period_ms: int = option(
        Kind.MILLISECONDS,
        30_000,
        "How often queues are searched for expired messages; 0 or -1: only when they are about to be delivered.",
        name="message-expiry-scan-period",
    )
    address_queue_scan_period_ms: int = option(
        Kind.MILLISECONDS,
        30_000,
        "How often unused addresses and queues are looked for; two passes must agree. 0 or -1: only at start.",
        name="address-queue-scan-period",
    )
    global_max_size_bytes: int = option(
        Kind.BYTES,
        -1,
        "Memory for the messages of all addresses together; -1: no limit. "
        "Unset: half of the memory this process may use.",
        name="global-max-size",
    )
    global_max_messages: int = option(Kind.COUNT, -1, "Messages of all addresses together; -1: no limit.")
    transaction_timeout_ms: int = option(
        Kind.MILLISECONDS, 300_000, "A transaction that stays open longer is rolled back.", name="transaction-timeout"
    )
    transaction_scan_period_ms: int = option(
        Kind.MILLISECONDS,
        1_000,
        "How often transactions are checked against that.",
        name="transaction-timeout-scan-period",
    )
    id_cache_size: int = option(
        Kind.COUNT,
        20_000,
        "How many of the last duplicate ids (`_AMQ_DUPL_ID`) each address remembers, unless its settings say "
        "otherwise; 0: none, so duplicates are taken.",
        minimum=0,
    )
    persist_id_cache: bool = option(
        Kind.BOOLEAN, True, "Store the ids of durable messages, each with its message, so that a restart knows them."
    )
    amqp_use_core_subscription_naming: bool = option(
        Kind.BOOLEAN,
        False,
        "Name AMQP subscription queues as Core clients do, so that both can share them.",
    )
    literal_match_markers: str | None = option(
        Kind.TEXT,
        None,
        "Two characters, such as `()`: an address-setting match between them means the address of exactly this name.",
        minimum=2,
        maximum=2,
    )
    uuid_namespace: str | None = option(
        Kind.TEXT,
        None,
        "Settings and permissions see temporary addresses (named by a UUID) below this name.",
        minimum=1,
    )
    wildcards: WildcardSyntax = field(factory=WildcardSyntax)

    def name_in_matches(self, name: str) -> str:
        """The name under which the matches of settings and permissions see an address or FQQN.

        A made-up name is put below `uuid_namespace`, so that one match covers all temporary resources
        (reference §1.8).
        """
        if self.uuid_namespace is None or not _MADE_UP_NAME.fullmatch(parse_fqqn(name)[0]):
            return name
        return f"{self.uuid_namespace}{self.wildcards.delimiter}{name}"


BROKER_OPTIONS: Final = options_of(BrokerSettings)
"""The elements below `<core>` that the core itself reads."""

DEFAULT_BROKER_SETTINGS: Final = BrokerSettings()


class SettingsRepository:
    """All address settings of the broker, and the answer to "what applies to this address?".

    Addresses under the same matches share one `ResolvedSettings`, so a hundred thousand addresses cost a handful.
    """

    def __init__(
        self, hierarchy: MatchHierarchy[AddressSettings], options: BrokerSettings = DEFAULT_BROKER_SETTINGS
    ) -> None:
        self._hierarchy: Final = hierarchy
        self._options: Final = options
        self._merged: Final[dict[tuple[int, ...], ResolvedSettings]] = {}
        hierarchy.on_change(self._merged.clear)

    def add(self, match: str, settings: AddressSettings) -> bool:
        """Add a match; False, and no change, if it is there already. Raises InvalidRequest for an illegal match."""
        return self._hierarchy.add(match, settings)

    def put(self, match: str, settings: AddressSettings) -> None:
        """Add or replace a match. Raises InvalidRequest for an illegal match."""
        self._hierarchy.put(match, settings)

    def remove(self, match: str) -> bool:
        """Take a match away; False if it was not there."""
        return self._hierarchy.remove(match)

    def on_change(self, callback: Callable[[], None]) -> None:
        """Run `callback` after each change, when `resolve` already gives the new answer."""
        self._hierarchy.on_change(callback)

    def resolve(self, address: str) -> ResolvedSettings:
        """The settings of an address, merged field by field from the most specific match to the broadest.

        Of a fully qualified queue name only the address counts (reference §1.8).
        """
        layers = self._hierarchy.resolve(self._options.name_in_matches(parse_fqqn(address)[0]))
        key = tuple([id(layer) for layer in layers])  # the hierarchy keeps them alive until the next change
        resolved = self._merged.get(key)
        if resolved is None:
            resolved = self._merged[key] = merge(layers)
        return resolved
