"""Settings of sockets that the broker listens on, or makes: the transport's part of their URLs (artemis-model §6.5).

Parameters that a protocol reads are not known here; they are kept as text for that protocol.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from attrs import Factory, field, frozen

from artemis_py.core.settings.declaration import Kind, option, options_of

DEFAULT_PORT: Final = 61616
"""Artemis' main port; the default of an acceptor URL."""


TLS_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
"""Versions of TLS that are safe, the older one first."""


@frozen(kw_only=True)
class TlsConfig:
    """Certificates of one acceptor; all files are PEM."""

    key_store_path: Path
    """File with the broker's certificate and the rest of its chain, and the private key unless it has its own file."""
    key_store_password: str | None = field(default=None, repr=False)
    """Password of the private key, if the key is encrypted."""
    private_key_path: Path | None = None
    trust_store_path: Path | None = None
    """File with the certificates that may sign those of clients."""
    need_client_auth: bool = False
    """Whether a client without a certificate is refused."""
    enabled_protocols: tuple[str, ...] = TLS_VERSIONS
    """Versions that clients may use, of `TLS_VERSIONS`."""


@frozen(kw_only=True)
class AcceptorConfig:
    """One listening socket: an `<acceptor>` of broker.xml."""

    name: str
    host: str = "127.0.0.1"
    """Name or IP address to listen on, IPv6 without brackets."""
    port: int = DEFAULT_PORT
    """TCP port; 0 lets the operating system choose."""
    protocols: tuple[str, ...] = option(
        Kind.NAMES,
        (),
        "Protocols of this acceptor, recognised by their first bytes; unset: all that are installed.",
        name="protocols",
    )
    tcp_no_delay: bool = option(
        Kind.BOOLEAN, True, "Send small packets at once instead of waiting for more.", name="tcpNoDelay"
    )
    # 1024 is what servers commonly ask for; the kernel reduces it to its own limit (net.core.somaxconn on Linux).
    backlog: int = option(
        Kind.COUNT, 1024, "Connections the operating system keeps until the broker takes them.", minimum=1
    )
    tcp_send_buffer_size: int = option(
        Kind.BYTES,
        -1,
        "Bytes that the operating system keeps until a client takes them, within its own limits; -1: it decides.",
        name="tcpSendBufferSize",
        minimum=-1,
    )
    tcp_receive_buffer_size: int = option(
        Kind.BYTES,
        -1,
        "The same for bytes of a client that the broker has not read yet.",
        name="tcpReceiveBufferSize",
        minimum=-1,
    )
    connections_allowed: int = option(
        Kind.COUNT, -1, "Open connections; further ones are closed at once. -1: no limit.", name="connectionsAllowed"
    )
    # This leaves a fifth of the room for strangers (`connections`) to other addresses, and lets a fleet of clients
    # behind one address still log in some hundreds at a time.
    strangers_per_address: int = option(
        Kind.COUNT,
        400,
        "Connections of one peer address that are not logged in; the oldest of them makes room for the next. -1: no "
        "limit. Not in Artemis.",
        name="strangersPerAddress",
        minimum=-1,
    )
    virtual_host: str = option(
        Kind.TEXT,
        "",
        "Virtual host of clients that name none, or whose host is no virtual host. Not in Artemis.",
        name="virtualHost",
    )
    router: str = option(
        Kind.TEXT,
        "",
        "Connection router that decides which broker serves a client that connects here; unset: this one.",
    )
    # One deadline from accept to logged in, however slowly bytes trickle in (reliability §4).
    handshake_timeout_s: int = option(
        Kind.SECONDS, 10, "A client must be logged in within this time.", name="handshake-timeout", minimum=1
    )
    # SCRAM-SHA-256 must be asked for: clients prefer it, and fail with users whose stored password has no keys for it.
    sasl_mechanisms: tuple[str, ...] = option(
        Kind.NAMES,
        ("PLAIN", "ANONYMOUS"),
        "Ways to log in that are offered here; also SCRAM-SHA-256 and EXTERNAL. ANONYMOUS is offered only where "
        "`anonymous-access` allows it.",
        name="saslMechanisms",
    )
    tls: TlsConfig | None = None
    """Certificates of the acceptor; None: connections are not encrypted."""
    parameters: Mapping[str, str] = Factory(dict)
    """Other parameters of the URL, as text, for the protocols."""
    file: str = ""
    line: int = 0
    """Line of `file` that declares the acceptor, for messages about its parameters."""


ACCEPTOR_OPTIONS: Final = options_of(AcceptorConfig)
"""Parameters of an acceptor URL that the transport itself reads, without those of TLS."""


@frozen(kw_only=True)
class TlsParameters:
    """TLS part of an acceptor URL as written; `TlsConfig` is made from it once its files are found."""

    ssl_enabled: bool = option(Kind.BOOLEAN, False, "Encrypt connections with TLS.", name="sslEnabled")
    key_store_path: str | None = option(
        Kind.TEXT,
        None,
        "PEM file with the broker's certificate and chain, and its private key unless `privateKeyPath` is set.",
        name="keyStorePath",
    )
    key_store_password: str | None = option(
        Kind.TEXT, None, "Opens the private key if it is encrypted.", name="keyStorePassword"
    )
    private_key_path: str | None = option(
        Kind.TEXT, None, "PEM file with the private key. Not in Artemis.", name="privateKeyPath"
    )
    trust_store_path: str | None = option(
        Kind.TEXT, None, "PEM file with the certificates that may sign those of clients.", name="trustStorePath"
    )
    need_client_auth: bool = option(
        Kind.BOOLEAN, False, "Refuse clients that show no certificate.", name="needClientAuth"
    )
    enabled_protocols: tuple[str, ...] = option(
        Kind.NAMES,
        TLS_VERSIONS,
        "Versions of TLS that clients may use. Older ones are not safe and left out.",
        name="enabledProtocols",
    )


TLS_OPTIONS: Final = options_of(TlsParameters)
"""TLS parameters of an acceptor URL; file names are relative to the folder of broker.xml."""


@frozen(kw_only=True)
class ConnectorTls:
    """TLS of connections that the broker makes; all files are PEM."""

    trust_store_path: Path | None = None
    """File with the certificates that may sign those of other brokers; None: those that the system trusts."""
    key_store_path: Path | None = None
    """File with this broker's certificate, chain and key, for brokers that ask for one; None: it shows none."""
    key_store_password: str | None = field(default=None, repr=False)
    private_key_path: Path | None = None
    enabled_protocols: tuple[str, ...] = TLS_VERSIONS
    verify_host: bool = True
    """Whether the certificate must be made for the host name."""
    sni_host: str | None = None
    """Name that the other side is asked for and checked against, in place of the host."""


@frozen(kw_only=True)
class ConnectorConfig:
    """A way to reach a broker: a `<connector>` of broker.xml (mesh §2.1)."""

    name: str
    host: str
    """Name or IP address, IPv6 without brackets."""
    port: int = DEFAULT_PORT
    tcp_no_delay: bool = option(
        Kind.BOOLEAN, True, "Send small packets at once instead of waiting for more.", name="tcpNoDelay"
    )
    tcp_send_buffer_size: int = option(
        Kind.BYTES,
        -1,
        "Bytes that the operating system keeps until the other broker takes them; -1: it decides.",
        name="tcpSendBufferSize",
        minimum=-1,
    )
    tcp_receive_buffer_size: int = option(
        Kind.BYTES, -1, "The same for bytes that this broker has not read yet.", name="tcpReceiveBufferSize", minimum=-1
    )
    local_address: str | None = option(
        Kind.TEXT, None, "Address of this machine to connect from; unset: the system chooses.", name="localAddress"
    )
    local_port: int = option(
        Kind.COUNT,
        0,
        "Port of this machine to connect from; 0: the system chooses.",
        name="localPort",
        minimum=0,
        maximum=65535,
    )
    # A machine that is gone does not answer at all; ten seconds are some tries of TCP.
    connect_timeout_ms: int = option(
        Kind.MILLISECONDS,
        10_000,
        "Time until a connection is made, with TLS; in Artemis 30,000.",
        name="connect-timeout-millis",
        minimum=1,
    )
    sasl_mechanisms: tuple[str, ...] = option(
        Kind.NAMES,
        (),
        "SASL mechanisms to log in with: EXTERNAL, SCRAM-SHA-256, PLAIN, ANONYMOUS. Unset: the strongest that the "
        "other broker offers, but PLAIN only with TLS or on this machine. In Artemis for acceptors only.",
        name="saslMechanisms",
    )
    tls: ConnectorTls | None = None
    """TLS of the connections; None: they are not encrypted."""
    file: str = field(default="", eq=False)
    line: int = field(default=0, eq=False)
    """Line of `file` that declares the connector, for messages about its files."""

    @property
    def endpoint(self) -> str:
        """Host and port as text."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """URL without parameters, as other brokers and clients are told."""
        return f"tcp://{self.endpoint}"


CONNECTOR_OPTIONS: Final = options_of(ConnectorConfig)
"""Parameters of a connector URL, without those of TLS."""


@frozen(kw_only=True)
class ConnectorTlsParameters:
    """TLS part of a connector URL as written; `ConnectorTls` is made from it once its files are found."""

    ssl_enabled: bool = option(Kind.BOOLEAN, False, "Encrypt connections with TLS.", name="sslEnabled")
    trust_store_path: str | None = option(
        Kind.TEXT,
        None,
        "PEM file with the certificates that may sign those of other brokers; unset: those that the system trusts.",
        name="trustStorePath",
    )
    key_store_path: str | None = option(
        Kind.TEXT,
        None,
        "PEM file with this broker's certificate, chain and key, to log in with (EXTERNAL).",
        name="keyStorePath",
    )
    key_store_password: str | None = option(
        Kind.TEXT, None, "Opens the private key if it is encrypted.", name="keyStorePassword"
    )
    private_key_path: str | None = option(
        Kind.TEXT, None, "PEM file with the private key. Not in Artemis.", name="privateKeyPath"
    )
    verify_host: bool = option(
        Kind.BOOLEAN, True, "Whether the certificate of the other broker must name its host.", name="verifyHost"
    )
    sni_host: str | None = option(
        Kind.TEXT, None, "Name to ask for and to check, in place of the host.", name="sniHost"
    )
    enabled_protocols: tuple[str, ...] = option(
        Kind.NAMES, TLS_VERSIONS, "Versions of TLS that may be used.", name="enabledProtocols"
    )


CONNECTOR_TLS_OPTIONS: Final = options_of(ConnectorTlsParameters)
"""TLS parameters of a connector URL; file names are relative to the folder of broker.xml."""
