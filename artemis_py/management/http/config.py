"""The `<web>` element: where the broker answers HTTP, and what it answers."""

from typing import Final
from urllib.parse import urlsplit

from attrs import field, frozen

from artemis_py.core.settings.declaration import Kind, option, options_of
from artemis_py.security.authenticator import AnonymousAccess
from artemis_py.transport.config import AcceptorConfig

DEFAULT_PORT: Final = 8161
DEFAULT_BIND: Final = f"http://127.0.0.1:{DEFAULT_PORT}"


@frozen(kw_only=True)
class WebConfig:
    """HTTP of one broker."""

    bind: str = option(
        Kind.TEXT,
        DEFAULT_BIND,
        "Where to listen: `http://host:port`, or `https://host:port?keyStorePath=…` with the TLS parameters of an "
        "acceptor.",
        minimum=1,
    )
    console: bool = option(Kind.BOOLEAN, True, "Whether the pages of the console are served, under `/console/`.")
    metrics: bool = option(Kind.BOOLEAN, True, "Whether `/metrics` answers.")
    anonymous_metrics: AnonymousAccess = option(  # noqa: RUF009  `option` makes a field
        AnonymousAccess,
        AnonymousAccess.LOOPBACK,
        "From where metrics can be read without a login: from this machine only, from everywhere, or not at all.",
    )
    jolokia: bool = option(
        Kind.BOOLEAN, True, "Whether `/console/jolokia` answers programs that were written for Artemis."
    )
    # The text of `bind` is what can change; the line where it is written does not matter.
    acceptor: AcceptorConfig = field(eq=False)
    """Socket that `bind` describes. Programs that use TLS give it; ValueError says so."""

    @acceptor.default
    def _socket_of_bind(self) -> AcceptorConfig:
        url = urlsplit(self.bind)
        if url.scheme != "http" or not url.hostname:
            raise ValueError(f"{self.bind} is not http://host:port: give the acceptor, with its TLS")
        return AcceptorConfig(name="web", host=url.hostname, port=DEFAULT_PORT if url.port is None else url.port)

    def __str__(self) -> str:
        # The parameters of a URL may hold a password.
        return self.bind.partition("?")[0]


WEB_OPTIONS: Final = options_of(WebConfig)
"""Elements of `<web>`."""
