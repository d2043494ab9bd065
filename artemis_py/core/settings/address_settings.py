"""The settings of addresses, and how several matches are merged.

Each setting is declared in `ResolvedSettings`, except for the `default-...` settings of queues, each of which is
declared with its queue attribute (`queue_settings`). `AddressSettings`, for one match, has the fields of both.
"""

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from attrs import asdict, evolve, field, fields, frozen

from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.settings.declaration import Kind, Option, check_kinds, option, options_of, with_partial
from artemis_py.core.settings.queue_settings import RESOLVED_ATTRIBUTES, QueueSettings


class FullPolicy(Enum):
    """Policy for messages to an address that is at its limit (artemis-model §3.15)."""

    PAGE = "PAGE"
    DROP = "DROP"
    FAIL = "FAIL"
    BLOCK = "BLOCK"


class PageFullPolicy(Enum):
    """Policy for messages to an address that pages and has reached its page limit (artemis-model §3.15)."""

    DROP = "DROP"
    FAIL = "FAIL"


class DiskFullPolicy(Enum):
    """Policy for messages while the disk is nearly full (artemis-model §3.15)."""

    BLOCK = "BLOCK"
    DROP = "DROP"
    FAIL = "FAIL"


class SlowConsumerPolicy(Enum):
    """Policy for consumers that are too slow (docs/notifications.md#slow-consumers)."""

    NOTIFY = "NOTIFY"
    KILL = "KILL"


class SlowConsumerUnit(Enum):
    """Time that `slow-consumer-threshold` counts messages in."""

    MESSAGES_PER_SECOND = "MESSAGES_PER_SECOND"
    MESSAGES_PER_MINUTE = "MESSAGES_PER_MINUTE"
    MESSAGES_PER_HOUR = "MESSAGES_PER_HOUR"
    MESSAGES_PER_DAY = "MESSAGES_PER_DAY"


class DeletionPolicy(Enum):
    """Policy for addresses and queues that are no longer in the configuration (artemis-model §6.10)."""

    OFF = "OFF"
    FORCE = "FORCE"


@frozen(kw_only=True)
class ResolvedSettings:
    """Settings that apply to one address; delays are milliseconds. Defaults as in Artemis (artemis-model §2.1)."""

    dead_letter_address: str | None = option(
        Kind.TEXT,
        None,
        "Address for messages that cannot be delivered. Unset: they are dropped with a warning. An empty element "
        "switches off what a broader match has set.",
    )
    auto_create_dead_letter_resources: bool = option(
        Kind.BOOLEAN,
        False,
        "Create the dead-letter address on demand, with a queue of its own for each address that messages came from.",
    )
    dead_letter_queue_prefix: str = option(
        Kind.TEXT, "DLQ.", "Beginning of the names of auto-created dead-letter queues."
    )
    dead_letter_queue_suffix: str = option(Kind.TEXT, "", "End of the names of auto-created dead-letter queues.")
    expiry_address: str | None = option(
        Kind.TEXT,
        None,
        "Address for messages that have expired. Unset: they are dropped. An empty element switches off what a broader "
        "match has set.",
    )
    auto_create_expiry_resources: bool = option(
        Kind.BOOLEAN,
        False,
        "Create the expiry address on demand, with a queue of its own for each address that messages came from.",
    )
    expiry_queue_prefix: str = option(Kind.TEXT, "EXP.", "Beginning of the names of auto-created expiry queues.")
    expiry_queue_suffix: str = option(Kind.TEXT, "", "End of the names of auto-created expiry queues.")
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
        Kind.MILLISECONDS, 0, "Delay before a message is delivered again after a failed delivery.", minimum=0
    )
    redelivery_delay_multiplier: float = option(
        Kind.FACTOR, 1.0, "The delay is multiplied by this after each further failure."
    )
    redelivery_collision_avoidance_factor: float = option(
        Kind.FACTOR, 0.0, "Random share of the delay that is added or subtracted, 0 to 1.", maximum=1
    )
    max_redelivery_delay: int = option(
        Kind.MILLISECONDS, -1, "The delay never grows beyond this; -1: ten times `redelivery-delay`."
    )
    max_delivery_attempts: int = option(
        Kind.COUNT, 10, "Deliveries before a message goes to the dead-letter address; 0 or -1: no limit."
    )
    redistribution_delay: int | None = option(
        Kind.MILLISECONDS,
        None,
        "Time without a consumer here after which other brokers of a mesh may take waiting messages; -1: never. Unset: "
        "0, or 1000 with OFF_WITH_REDISTRIBUTION.",
        minimum=-1,
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
        "Waiting messages that a queue keeps in memory, of those that it can have on disk; fewer while it has no "
        "consumer or memory is short. -1: no limit. Artemis has none because it does not always page.",
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
    queue_defaults: QueueSettings = field(factory=QueueSettings)
    """Values for queues that have none of their own, from the settings that `QueueSettings` names."""
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
    auto_delete_queues_skip_usage_check: bool = option(
        Kind.BOOLEAN, False, "Delete even queues that were never used; the delay then counts from their creation."
    )
    auto_delete_addresses: bool = option(
        Kind.BOOLEAN, True, "Delete addresses that were created on demand once they have no queue."
    )
    auto_delete_addresses_delay: int = option(
        Kind.MILLISECONDS, 0, "How long an address must have been without queues.", minimum=0
    )
    auto_delete_addresses_skip_usage_check: bool = option(
        Kind.BOOLEAN, False, "Delete even addresses that never had a queue."
    )
    config_delete_queues: DeletionPolicy = option(  # noqa: RUF009  `option` makes a field
        DeletionPolicy,
        DeletionPolicy.OFF,
        "What happens to queues that broker.xml declared and no longer declares, at start and at a reload. OFF: they "
        "stay; FORCE: they are deleted with their messages, even if they have consumers.",
    )
    config_delete_addresses: DeletionPolicy = option(  # noqa: RUF009  `option` makes a field
        DeletionPolicy,
        DeletionPolicy.OFF,
        "The same for addresses that were not created on demand, with all their queues. As in Artemis, FORCE also "
        "deletes those that clients and administrators created by name.",
    )
    config_delete_diverts: DeletionPolicy = option(  # noqa: RUF009  `option` makes a field
        DeletionPolicy,
        DeletionPolicy.OFF,
        "What happens, at start and at a reload, to diverts of the address that administrators created and broker.xml "
        "does not have. OFF: they stay; FORCE: they are removed. Diverts that were in broker.xml are always removed.",
    )
    enable_ingress_timestamp: bool = option(
        Kind.BOOLEAN,
        False,
        "Note on each message when it arrived: in AMQP the annotation `x-opt-ingress-time`, milliseconds since 1970.",
    )
    retroactive_message_count: int = option(
        Kind.COUNT,
        0,
        "Messages of the address that are kept for queues that are created later: each begins with them. 0: none.",
        minimum=0,
    )
    id_cache_size: int = option(
        Kind.COUNT,
        -1,
        "How many of the last duplicate ids (`_AMQ_DUPL_ID`) the address remembers; 0: none, so duplicates are "
        "accepted; -1: the broker's `id-cache-size`.",
    )

    slow_consumer_threshold: int = option(
        Kind.COUNT,
        -1,
        "Messages in each second (or another unit) that a consumer must acknowledge, as long as it has so many; 0 or "
        "-1: any number (docs/notifications.md#slow-consumers).",
    )
    slow_consumer_threshold_measurement_unit: SlowConsumerUnit = option(  # noqa: RUF009  `option` makes a field
        SlowConsumerUnit, SlowConsumerUnit.MESSAGES_PER_SECOND, "Unit of `slow-consumer-threshold`."
    )
    slow_consumer_check_period: int = option(
        Kind.COUNT, 5, "Seconds between two looks at the consumers of the address.", minimum=1
    )
    slow_consumer_policy: SlowConsumerPolicy = option(  # noqa: RUF009  `option` makes a field
        SlowConsumerPolicy,
        SlowConsumerPolicy.NOTIFY,
        "What happens to a consumer that is too slow. NOTIFY: the log and a notification say so; KILL: its connection "
        "is ended.",
    )

    resolved_queues: dict[object, QueueSettings] = field(factory=dict, init=False, eq=False, repr=False)
    """Cache of `QueueConfig.resolved`: values for queues with these settings, by the values that the queues set."""

    changes_messages: bool = field(init=False)
    """Whether any setting changes messages; most addresses have none such, and routing asks for each message."""

    @changes_messages.default
    def _any_that_changes_messages(self) -> bool:
        return (
            self.no_expiry
            or self.expiry_delay >= 0
            or self.min_expiry_delay >= 0
            or self.max_expiry_delay >= 0
            or self.enable_ingress_timestamp
        )


QUEUE_DEFAULTS: Final[Mapping[str, str]] = {
    each.setting.attribute: each.attribute for each in RESOLVED_ATTRIBUTES.values() if each.setting is not None
}
"""Settings that give queues their default values, each with its attribute of the queue."""


def _in_order() -> list[Option]:
    """Return all settings in the order of the documentation; those of queues take the place of `queue_defaults`."""
    own = {each.attribute: each for each in options_of(ResolvedSettings)}
    of_queues = [each.setting for each in RESOLVED_ATTRIBUTES.values() if each.setting is not None]
    return [
        each
        for attribute in fields(ResolvedSettings)
        for each in (of_queues if attribute.name == "queue_defaults" else [own.get(attribute.name)])
        if each is not None
    ]


ADDRESS_SETTINGS: Final = tuple(_in_order())
"""Every address setting that this broker supports."""


_BY_FIELD: Final = {each.attribute: each for each in ADDRESS_SETTINGS}


@frozen(kw_only=True, init=False, field_transformer=with_partial(_BY_FIELD))
class AddressSettings:
    """Settings of one `<address-setting match>`; None leaves the decision to the next broader match.

    It has a field for each of ADDRESS_SETTINGS, which document them.
    """

    def __init__(self, **values: Any) -> None:
        """Raise TypeError for an unknown setting, and for a value that is not of its kind."""
        check_kinds(values, _BY_FIELD)
        self.__attrs_init__(**values)

    def changed(self, **changes: Any) -> "AddressSettings":
        """Return a copy with other values for some fields; raises as the constructor does."""
        return evolve(self, **changes)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Satisfy type checkers: the fields are known at run time only."""


def merge(layers: list[AddressSettings]) -> ResolvedSettings:
    """Take each setting from the first layer that has it; the most specific layer comes first."""
    values: dict[str, Any] = {}
    for layer in reversed(layers):
        values |= {name: value for name, value in asdict(layer).items() if value is not None}
    of_queues = {QUEUE_DEFAULTS[name]: values.pop(name) for name in list(values) if name in QUEUE_DEFAULTS}
    resolved = ResolvedSettings(queue_defaults=QueueSettings(**of_queues), **values)
    if resolved.max_redelivery_delay < 0:
        resolved = evolve(resolved, max_redelivery_delay=10 * resolved.redelivery_delay)
    # With an empty name, a narrow match switches off the address that a broader one has set.
    return evolve(
        resolved,
        dead_letter_address=resolved.dead_letter_address or None,
        expiry_address=resolved.expiry_address or None,
    )
