"""The contents of broker.xml, in the form that the parts of the broker take."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from attrs import Factory, field, frozen

from artemis_py.core.runtime.access import Permission
from artemis_py.core.settings.address_settings import AddressSettings
from artemis_py.core.settings.broker_connection_config import BrokerConnectionConfig
from artemis_py.core.settings.broker_settings import DEFAULT_BROKER_SETTINGS, BrokerSettings
from artemis_py.core.settings.cluster_config import ClusterConfig, ClusterLogin, DiscoveryConfig
from artemis_py.core.settings.declaration import Kind, option, options_of
from artemis_py.core.settings.divert_config import DivertConfig
from artemis_py.core.settings.exchange_config import NO_EXCHANGES, DeclaredExchanges
from artemis_py.core.settings.queue_config import AddressConfig
from artemis_py.core.settings.resource_limits import ResourceLimit
from artemis_py.core.settings.router_config import RouterConfig
from artemis_py.core.settings.virtual_host_config import VirtualHostConfig
from artemis_py.errors import Problem
from artemis_py.management.http.config import WebConfig
from artemis_py.security.authenticator import AnonymousAccess
from artemis_py.transport.config import AcceptorConfig, ConnectorConfig


@frozen(kw_only=True)
class LoginConfig:
    """The `<login>` element: users, what Artemis keeps in login.config, and how much each user may create."""

    users_file: str = option(
        Kind.TEXT, "artemis-users.properties", "File with a line `name = password` for each user.", minimum=1
    )
    roles_file: str = option(
        Kind.TEXT, "artemis-roles.properties", "File with a line `role = user, user` for each role.", minimum=1
    )
    anonymous_access: AnonymousAccess = option(  # noqa: RUF009  `option` makes a field
        AnonymousAccess,
        AnonymousAccess.LOOPBACK,
        "From where clients may log in without a name: from this machine only, from everywhere, or not at all.",
    )
    anonymous_roles: tuple[str, ...] = option(
        Kind.NAMES, ("guests",), "Roles of clients that log in without a name; empty: none."
    )
    max_auto_created_per_user: int = option(
        Kind.COUNT,
        1_000_000,
        "How many addresses and queues clients of one user may have created on demand, together; further ones are "
        "refused until some are deleted. Clients without a name are one user. Not those created by name or for a "
        "subscription. -1: no limit.",
    )
    folder: Path = Path()
    """Folder that the two file names are relative to: the folder of broker.xml."""


LOGIN_OPTIONS: Final = options_of(LoginConfig)
"""Elements of `<login>`."""


@frozen(kw_only=True)
class WildcardElements:
    """`<wildcard-addresses>` as written; `WildcardSyntax` is made from it."""

    routing_enabled: bool = option(
        Kind.BOOLEAN, True, "Whether queues of a wildcard address receive what is sent to the addresses it matches."
    )
    enabled: bool = option(Kind.BOOLEAN, True, "Another name for `routing-enabled`.")
    delimiter: str = option(Kind.TEXT, ".", "Separates the words of an address.", minimum=1, maximum=1)
    any_words: str = option(Kind.TEXT, "#", "Matches any number of words, or none.", minimum=1, maximum=1)
    single_word: str = option(Kind.TEXT, "*", "Matches exactly one word.", minimum=1, maximum=1)


WILDCARD_OPTIONS: Final = options_of(WildcardElements)
"""Elements of `<wildcard-addresses>`."""


@frozen(kw_only=True)
class BrokerConfig:
    """One broker; times are milliseconds."""

    persistence_enabled: bool = option(
        Kind.BOOLEAN,
        True,
        "Whether durable messages, and the addresses and queues they are in, survive a restart. Without it everything "
        "is kept in memory.",
    )
    journal_directory: str = option(
        Kind.TEXT,
        "data/journal",
        "Folder of the store. A relative path starts at the folder of the instance: the one that contains `etc`, or "
        "that of `broker.xml` if this is not in a folder of this name.",
        minimum=1,
    )
    large_messages_directory: str = option(
        Kind.TEXT,
        "data/large-messages",
        "Folder of the large messages, a file each; relative like `journal-directory`. No other broker may use it.",
        minimum=1,
    )
    create_journal_dir: bool = option(
        Kind.BOOLEAN, True, "Create `journal-directory` if it is missing; if false, a missing one is an error."
    )
    journal_sync_transactional: bool = option(
        Kind.BOOLEAN,
        True,
        "Confirm a commit when it is on disk. With this and the next option false, nothing waits for the disk: all is "
        "stored as soon as possible, but a crash loses what was confirmed in the milliseconds before.",
    )
    journal_sync_non_transactional: bool = option(
        Kind.BOOLEAN,
        True,
        "Confirm durable messages and settlements when they are on disk. Both kinds share their commits: false has an "
        "effect only if the option before is false too, and the other way round.",
    )
    write_ahead_log: bool = option(
        Kind.BOOLEAN,
        True,
        "Whether a commit is appended to a log, with one write and one sync, and written into the store later, many "
        "commits at once. Most messages that are consumed soon are then never written into the store. If false, each "
        "commit is written into the store at once. Either value takes over what the other one left.",
    )
    write_ahead_log_max_size_bytes: int = option(
        Kind.BYTES,
        64 * 1024 * 1024,
        "Bytes in the log at which it is written into the store; at twice as many, commits wait until that is done.",
        name="write-ahead-log-max-size",
        minimum=1024 * 1024,
    )
    write_ahead_log_max_age_ms: int = option(
        Kind.MILLISECONDS,
        2_000,
        "How long a commit stays in the log only. After this time at most, `data export` and others see it.",
        name="write-ahead-log-max-age",
        minimum=1,
    )
    journal_file_size_bytes: int = option(
        Kind.BYTES,
        10 * 1024 * 1024,
        "Size up to which a file of the log grows, from 64 KiB. A commit that needs more gets a file of its own.",
        name="journal-file-size",
        minimum=64 * 1024,
    )
    journal_min_files: int = option(
        Kind.COUNT,
        0,
        "Files of the log that are made at the start, with their full size. 0: each is made when it is needed.",
        minimum=0,
    )
    journal_pool_files: int = option(
        Kind.COUNT, 10, "Files of the log that stay after a peak, to be used again; -1: all."
    )
    journal_buffer_timeout_ns: int = option(
        Kind.COUNT,
        3_333_333,
        "Nanoseconds for which a commit to the log waits at most while more comes, rounded up to milliseconds; if the "
        "event loop needs longer for an iteration, as many iterations. A commit of up to 64 changes never waits. 0: "
        "none does.",
        name="journal-buffer-timeout",
        minimum=0,
    )
    max_disk_usage: int = option(
        Kind.COUNT,
        -1,
        "Percentage of the disk under `journal-directory` above which producers are held back (`disk-full-policy`); "
        "-1: only `min-disk-free` counts.",
        maximum=100,
    )
    min_disk_free_bytes: int | None = option(
        Kind.BYTES,
        None,
        "Bytes of that disk that are kept free, instead of `max-disk-usage`; -1: off. Unset: 1 GiB if that is unset "
        "too. Below half of it messages are refused whatever the policy, or with DROP discarded.",
        name="min-disk-free",
    )
    disk_scan_period_ms: int = option(
        Kind.MILLISECONDS, 5_000, "How often the free space of the disk is checked.", name="disk-scan-period", minimum=1
    )
    paging_directory: str = option(
        Kind.TEXT,
        "data/paging",
        "Folder for messages that are not durable and do not fit into memory; relative like `journal-directory`. "
        "Nothing in it is kept. Without persistence-enabled it is the system's folder for temporary files.",
        minimum=1,
    )
    security_enabled: bool = option(
        Kind.BOOLEAN, True, "Whether permissions are checked; if not, every client may do everything."
    )
    connection_ttl_override_ms: int = option(
        Kind.MILLISECONDS,
        -1,
        "Silence after which a client counts as gone, whatever its protocol and acceptor say; 0: never, -1: off.",
        name="connection-ttl-override",
    )
    graceful_shutdown_enabled: bool = option(
        Kind.BOOLEAN, False, "When the broker stops, accept no new connections and wait for the clients to leave."
    )
    graceful_shutdown_timeout_ms: int = option(
        Kind.MILLISECONDS,
        -1,
        "How long to wait for them; -1: until the last has left.",
        name="graceful-shutdown-timeout",
    )
    configuration_file_refresh_period_ms: int = option(
        Kind.MILLISECONDS,
        -1,
        "How often `artemis-py run` looks whether this file has changed. It is read again, as on SIGHUP, when it has "
        "been quiet for a second. 0 or -1: on SIGHUP only.",
        name="configuration-file-refresh-period",
    )
    settings: BrokerSettings = DEFAULT_BROKER_SETTINGS
    acceptors: tuple[AcceptorConfig, ...] = ()
    addresses: tuple[AddressConfig, ...] = ()
    diverts: tuple[DivertConfig, ...] = ()
    exchanges: DeclaredExchanges = NO_EXCHANGES
    connectors: tuple[ConnectorConfig, ...] = ()
    clusters: tuple[ClusterConfig, ...] = ()
    """The mesh that this broker belongs to, if any."""
    broker_connections: "tuple[BrokerConnectionSection, ...]" = ()
    """Connections to brokers that are no members of the mesh."""
    discovery_groups: tuple[DiscoveryConfig, ...] = ()
    routers: tuple[RouterConfig, ...] = ()
    """Routers that acceptors may name, to send clients to other brokers."""
    cluster_login: ClusterLogin = ClusterLogin()  # noqa: RUF009  it is frozen
    address_settings: Mapping[str, AddressSettings] = Factory(dict)
    """Address settings by match, in the order of the file."""
    places: Mapping[str, tuple[str, int]] = Factory(dict)
    """File and line of each match of `address_settings`; empty if they do not come from a file."""
    roles: Mapping[str, tuple[str, int]] = Factory(dict)
    """Roles that permissions name, each with the file and line of the first permission that does."""
    security_settings: Mapping[str, Mapping[Permission, frozenset[str]]] = Factory(dict)
    """Roles that have each permission, by match, with role mappings applied. No role has a missing permission."""
    resource_limit_settings: Mapping[str, ResourceLimit] = Factory(dict)
    """Limits of single users, by name."""
    login: LoginConfig = LoginConfig()
    web: WebConfig | None = None
    """Where and what the broker answers over HTTP; None: nothing."""
    home: Path = Path()
    """Folder of the instance."""
    warnings: tuple[Problem, ...] = ()
    """Warnings about a usable file, to be logged at the start."""
    virtual_hosts: "tuple[VirtualHostSection, ...]" = ()


@frozen(kw_only=True)
class VirtualHostSection:
    """One virtual host."""

    options: VirtualHostConfig
    contents: BrokerConfig
    """Its addresses, diverts, settings and permissions; the options of the whole broker have no meaning here."""
    file: str = ""
    line: int = 0
    """Line of `file` that declares the host."""


@frozen(kw_only=True)
class BrokerConnectionSection:
    """One connection to another broker: an `<amqp-connection>`, or a `<bridge>`."""

    options: BrokerConnectionConfig
    ways: tuple[ConnectorConfig, ...]
    """Where the other broker is; all but the first are alternatives."""
    file: str = field(default="", eq=False)
    line: int = field(default=0, eq=False)
    """Line of `file` that declares it."""

    @property
    def uri(self) -> str:
        """Where the other broker is, without parameters."""
        return "#".join(each.url for each in self.ways)


MAIN_OPTIONS: Final = options_of(BrokerConfig)
"""Elements below `<core>` that do not belong to the broker's core."""
