"""Membership of this broker in meshes of brokers: who belongs to one, what it covers, and how patient it is."""

from enum import Enum
from typing import Final

from attrs import frozen

from artemis_py.core.settings.declaration import Kind, option, options_of
from artemis_py.core.settings.queue_settings import QueueSettings

MAX_HOPS: Final = 8
"""Longest way of a message through a mesh: its envelope counts the nodes on the way in few octets (mesh §2.2)."""


class LoadBalancing(Enum):
    """Which node of a mesh gets a message that was sent to another (mesh §2.2)."""

    OFF = "OFF"
    """Messages of anycast queues stay at the node that took them."""
    STRICT = "STRICT"
    """All nodes that have the queue take turns, with consumers or without."""
    ON_DEMAND = "ON_DEMAND"
    """Consumers at all nodes share the messages as if they were at one."""
    OFF_WITH_REDISTRIBUTION = "OFF_WITH_REDISTRIBUTION"
    """Messages stay while a consumer at their node wants them, and move after the redistribution delay."""


@frozen
class Scope:
    """Addresses that a mesh covers: those with one of some prefixes, without those with one of others.

    Prefixes are compared character by character: `eu` covers `europe`, and no character is a wildcard.
    """

    includes: tuple[str, ...] = ()
    """Prefixes of covered addresses; empty: everything that is not excluded."""
    excludes: tuple[str, ...] = ()

    def covers(self, address: str) -> bool:
        """Tell whether the mesh has this address."""
        return not address.startswith(self.excludes) and (not self.includes or address.startswith(self.includes))

    def overlap(self, other: "Scope") -> str | None:
        """Return the shortest prefix below which both scopes cover addresses; empty: everywhere, None: nowhere."""
        candidates = {
            max(mine, theirs, key=len)
            for mine in self.includes or ("",)
            for theirs in other.includes or ("",)
            if mine.startswith(theirs) or theirs.startswith(mine)
        }
        # Excluded prefixes that are longer than a candidate leave other addresses below it.
        shared = [prefix for prefix in candidates if not prefix.startswith((*self.excludes, *other.excludes))]
        return min(shared, key=lambda prefix: (len(prefix), prefix), default=None)

    def __str__(self) -> str:
        return ",".join([*self.includes, *[f"!{prefix}" for prefix in self.excludes]])


def parse_scope(text: str) -> Scope:
    """Return the scope that a list such as `eu,us,!us.test` means. Raises ValueError for an empty exclusion."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    excludes = [name[1:].strip() for name in names if name.startswith("!")]
    if not all(excludes):
        raise ValueError("a ! needs a prefix behind it, such as !test.")
    return Scope(tuple([name for name in names if not name.startswith("!")]), tuple(excludes))


def need_of_one_broker(settings: QueueSettings) -> str:
    """Return for what a queue cannot be spread over a mesh, behind the word "that"; empty if it can be."""
    kinds = {
        "is exclusive": settings.exclusive,
        "keeps last values": settings.last_value,
        "is non-destructive": settings.non_destructive,
        "has a ring-size": settings.ring_size >= 0,
        "has max-consumers": settings.max_consumers >= 0,
        "has purge-on-no-consumers": settings.purge_on_no_consumers,
    }
    return next((kind for kind, is_set in kinds.items() if is_set), "")


@frozen(kw_only=True)
class ClusterConfig:
    """One `<cluster-connection>`: this broker as a member of one mesh; times are milliseconds (mesh §2.2)."""

    name: str
    """Name of the mesh; all members use the same."""
    connector: str = ""
    """Name of the connector that other members and clients are told to use for this broker."""
    static_connectors: tuple[str, ...] = ()
    """Names of connectors to other members, perhaps with this broker itself among them."""
    client_connectors: tuple[str, ...] = ()
    """Names of connectors that clients of other members are told to use for this broker; empty: `connector`."""
    direct_connections_only: bool = False
    """Whether only the nodes behind `static_connectors` are connected to, and not those that they name."""
    discovery_group: str | None = None
    """Name of the discovery group that finds other members, in place of `static_connectors`."""
    scope: Scope = Scope()
    check_period_ms: int = option(
        Kind.MILLISECONDS,
        30_000,
        "Silence after which a peer gets no further messages until it speaks again.",
        name="check-period",
        minimum=1,
    )
    connection_ttl_ms: int = option(
        Kind.MILLISECONDS,
        60_000,
        "Silence after which a connection between brokers counts as broken; half of it is announced as idle time-out.",
        name="connection-ttl",
        minimum=1,
    )
    call_timeout_ms: int = option(
        Kind.MILLISECONDS,
        30_000,
        "Time for login, opening and the exchange of what both brokers have; then the connection is tried again.",
        name="call-timeout",
        minimum=1,
    )
    retry_interval_ms: int = option(
        Kind.MILLISECONDS,
        500,
        "Time before a connection is tried again, more or less by a fifth.",
        name="retry-interval",
        minimum=1,
    )
    retry_interval_multiplier: float = option(
        Kind.FACTOR, 1.0, "Factor by which that time grows with each failure.", minimum=1
    )
    max_retry_interval_ms: int = option(
        Kind.MILLISECONDS, 2_000, "Longest time between two attempts.", name="max-retry-interval", minimum=1
    )
    initial_connect_attempts: int = option(
        Kind.COUNT, -1, "Attempts to reach a broker for the first time; -1: no limit.", minimum=-1
    )
    reconnect_attempts: int = option(
        Kind.COUNT,
        -1,
        "Attempts to reach a broker again; -1: no limit. What is stored for it is kept in any case.",
        minimum=-1,
    )
    load_balancing: LoadBalancing = option(  # noqa: RUF009  it makes a field
        LoadBalancing,
        LoadBalancing.ON_DEMAND,
        "Which broker gets messages of anycast queues: OFF, STRICT, ON_DEMAND or OFF_WITH_REDISTRIBUTION.",
        name="message-load-balancing",
    )
    max_hops: int = option(
        Kind.COUNT,
        1,
        "How many brokers away a message may go; 1: only to brokers that this one is connected to, 0: nowhere.",
        minimum=0,
        maximum=MAX_HOPS,
    )
    confirmation_window_size_bytes: int = option(
        Kind.BYTES,
        10 * 1024 * 1024,
        "Bytes of messages that may be on their way to a broker without its confirmation, on each channel.",
        name="confirmation-window-size",
        minimum=1,
    )
    producer_window_size_bytes: int = option(
        Kind.BYTES,
        1024 * 1024,
        "Bytes of messages that a broker takes ahead of its store; then it gives no credit. -1: no limit.",
        name="producer-window-size",
        minimum=-1,
    )
    client_id: str = option(Kind.TEXT, "", "Text that the other brokers show beside connections of this one.")
    consumer_priority_adjustment: int = option(
        Kind.COUNT,
        0,
        "Added to the priority of consumers at other brokers; -1 prefers those of this one. Not in Artemis.",
        minimum=-1_000,
        maximum=1_000,
    )
    standing_grant: int = option(
        Kind.COUNT,
        10,
        "Messages of a queue that a peer may hand over before it was told to; 0: none. Not in Artemis.",
        minimum=0,
        maximum=10_000,
    )
    interest_detail: int = option(
        Kind.COUNT,
        16,
        "Different selectors of a queue that other brokers are told of; with more, they are told that it wants "
        "everything. Not in Artemis.",
        minimum=1,
        maximum=1_000,
    )


CLUSTER_OPTIONS: Final = options_of(ClusterConfig)
"""The child elements of `<cluster-connection>` in broker.xml that have one value."""


@frozen(kw_only=True, repr=False)
class ClusterLogin:
    """Elements of `<core>` with which this broker logs in to others; all brokers of a mesh have the same."""

    user: str = option(
        Kind.TEXT,
        "",
        "User with which this broker logs in to the others of its mesh; not needed with certificates on both sides.",
        name="cluster-user",
    )
    password: str = option(Kind.TEXT, "", "The password of that user.", name="cluster-password")

    @property
    def is_complete(self) -> bool:
        """Whether there are a name and a password."""
        return bool(self.user and self.password)

    def __repr__(self) -> str:
        """Name the user only: what has changed goes to the log."""
        return f"{self.user or 'no user'} with {'a' if self.password else 'no'} password"


LOGIN_ELEMENTS: Final = options_of(ClusterLogin)


@frozen(kw_only=True)
class DiscoveryConfig:
    """One `<discovery-group>`: where hosts and ports of other members may be found (mesh §2.4)."""

    name: str
    dns_name: str = ""
    """Name to look up: of SRV records if it begins with an underscore, else of addresses. Empty: nothing is."""
    dns_port: int | None = None
    """Port of the brokers at those addresses; None for SRV records, which have ports."""
    zeroconf_group: str | None = None
    """Group that brokers announce on the local network; None: they are looked up in the DNS."""
    zeroconf_interface: str | None = None
    """Address of this machine on that network; None: all networks of this machine."""
    refresh_timeout_ms: int = option(
        Kind.MILLISECONDS,
        10_000,
        "Longest time until the name is looked up again; sooner if its records say so.",
        name="refresh-timeout",
        minimum=1,
    )


DISCOVERY_OPTIONS: Final = options_of(DiscoveryConfig)
"""The child elements of `<discovery-group>` in broker.xml that have one value."""
