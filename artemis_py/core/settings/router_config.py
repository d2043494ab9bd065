"""Connection routers: which broker serves which client (artemis-model §5.10)."""

from enum import Enum
from typing import Final

from attrs import frozen

from artemis_py.core.settings.declaration import Kind, option, options_of


class KeyType(Enum):
    """Property of a client that is its key."""

    CLIENT_ID = "CLIENT_ID"
    """Container id, client identifier, or client id."""
    SNI_HOST = "SNI_HOST"
    """Name that it asked for in the TLS handshake."""
    SOURCE_IP = "SOURCE_IP"
    USER_NAME = "USER_NAME"
    ROLE_NAME = "ROLE_NAME"
    """The first of its user's roles that the key filter finds something in, in alphabetical order."""


class RoutingPolicy(Enum):
    """How a broker of the pool is chosen."""

    FIRST_ELEMENT = "FIRST_ELEMENT"
    ROUND_ROBIN = "ROUND_ROBIN"
    LEAST_CONNECTIONS = "LEAST_CONNECTIONS"
    CONSISTENT_HASH = "CONSISTENT_HASH"
    CONSISTENT_HASH_MODULO = "CONSISTENT_HASH_MODULO"

    @property
    def is_hash(self) -> bool:
        """Whether the key decides."""
        return self in (RoutingPolicy.CONSISTENT_HASH, RoutingPolicy.CONSISTENT_HASH_MODULO)


@frozen(kw_only=True)
class CacheConfig:
    """The `<cache>` of a router: brokers that keys were given."""

    persisted: bool = option(Kind.BOOLEAN, False, "Keep the cache in the store, through restarts.")
    timeout_ms: int = option(
        Kind.MILLISECONDS, -1, "Time after which an entry is forgotten; -1 or 0: never.", name="timeout"
    )


@frozen(kw_only=True)
class PoolConfig:
    """The `<pool>` of a router: brokers that it chooses from, of one of three sources."""

    cluster_connection: str | None = None
    """Name of a mesh, whose members are the pool."""
    static_connectors: tuple[str, ...] = ()
    """Names of connectors to the brokers."""
    discovery_group: str | None = None
    """Name of the discovery group that finds the brokers."""
    check_period_ms: int = option(
        Kind.MILLISECONDS,
        5_000,
        "How often the brokers of static connectors and discovery groups are dialled to see whether they are there.",
        name="check-period",
        minimum=1,
    )
    quorum_size: int = option(
        Kind.COUNT, 1, "Brokers that must be there; with fewer of them no client is let in.", minimum=1
    )
    quorum_timeout_ms: int = option(
        Kind.MILLISECONDS, 3_000, "How long a client waits for that number.", name="quorum-timeout", minimum=0
    )
    local_target_enabled: bool = option(Kind.BOOLEAN, False, "Whether this broker belongs to the pool.")
    local_connector: str | None = option(
        Kind.TEXT,
        None,
        "Connector under which the routers of other brokers know this one. Needed by the hash policies with static "
        "connectors and discovery groups; not in Artemis.",
    )


@frozen(kw_only=True)
class RouterConfig:
    """One `<connection-router>`."""

    name: str
    key_type: KeyType = option(  # noqa: RUF009  it makes a field
        KeyType,
        KeyType.SOURCE_IP,
        "What a client's key is: CLIENT_ID, SNI_HOST, SOURCE_IP, USER_NAME or ROLE_NAME.",
    )
    key_filter: str = option(
        Kind.TEXT,
        "",
        "Regular expression; what it finds in the key is used instead, and NULL if it finds nothing.",
    )
    local_target_filter: str = option(
        Kind.TEXT, "", "Regular expression; clients whose whole key matches are served here."
    )
    policy: RoutingPolicy | None = None
    modulo: int = 0
    """Number of groups of keys (CONSISTENT_HASH_MODULO); all keys of a group go to one broker."""
    cache: CacheConfig | None = None
    pool: PoolConfig | None = None
    file: str = ""
    line: int = 0
    """Line of `file` that declares the router, for messages about it."""


ROUTER_OPTIONS: Final = options_of(RouterConfig)
"""The child elements of `<connection-router>` in broker.xml that have one value."""

POOL_OPTIONS: Final = options_of(PoolConfig)

CACHE_OPTIONS: Final = options_of(CacheConfig)
