"""What a user says about a broker: its URL, the login, a destination. `connection` connects to it."""

import functools
import re
import ssl
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlsplit

import click
from attrs import frozen

from artemis_py.cli.errors import Failed

DEFAULT_PORT: Final = 61616
"""Port of the shipped configuration; also used for a URL without a port."""
DEFAULT_URL: Final = f"amqp://127.0.0.1:{DEFAULT_PORT}"
TIMEOUT_S: Final = 10.0
"""Default of --timeout: time for the broker to open or close a connection, or to answer a request on an open one."""
TICK_S: Final = 0.1
"""Interval at which a running client checks its time-outs and Ctrl-C, and updates the progress bar."""


@frozen(kw_only=True)
class Target:
    """A broker and a login."""

    url: str
    user: str | None
    password: str | None
    ca: str | None = None
    """PEM file with the certificates that may sign the broker's; None: the operating system's."""
    timeout_s: float = TIMEOUT_S
    """Time for an open, a close or an answer; after that the broker counts as unreachable."""
    vhost: str | None = None
    """Virtual host to work in; None: the one that the broker chooses for the host in the URL, mostly the default."""

    def tls(self) -> ssl.SSLContext:
        """Return TLS settings that always verify the broker's certificate and its name.

        Raises click's UsageError for certificates that it cannot read.
        """
        try:
            return ssl.create_default_context(cafile=self.ca)
        except OSError:
            raise click.UsageError(f"cannot read certificates from {self.ca}; name a PEM file with --ca") from None


_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")

_TIMEOUT: Final = click.option(
    "--timeout",
    "timeout_s",
    envvar="ARTEMIS_PY_TIMEOUT",
    type=click.FloatRange(min=0, min_open=True),
    default=TIMEOUT_S,
    show_default=True,
    help="Seconds to wait for a connection, and then for each answer [env: ARTEMIS_PY_TIMEOUT].",
)


_VHOST: Final = click.option(
    "--vhost", envvar="ARTEMIS_PY_VHOST", metavar="NAME", help="Virtual host to work in [env: ARTEMIS_PY_VHOST]."
)


def target_options(command: Callable[..., object], has_hosts: bool = True) -> Callable[..., object]:
    """Add the options for the broker's URL and the login; the command gets them as one `target`.

    With `has_hosts` also the one for the virtual host.
    """

    # A command may have a --timeout with a meaning of its own, and gets its value then.
    has_timeout = any("--timeout" in parameter.opts for parameter in getattr(command, "__click_params__", ()))

    @functools.wraps(command)
    def with_target(url: str, user: str | None, password: str | None, ca: str | None, **arguments: Any) -> object:
        timeout_s = TIMEOUT_S if has_timeout else arguments.pop("timeout_s")
        if user is not None and password is None:
            password = click.prompt(f"Password of {user}", hide_input=True, err=True)
        vhost = arguments.pop("vhost") if has_hosts else None
        target = Target(url=url, user=user, password=password, ca=ca, timeout_s=timeout_s, vhost=vhost)
        return command(target=target, **arguments)

    wrapped: Callable[..., object] = with_target
    if not has_timeout:
        wrapped = _TIMEOUT(wrapped)
    if has_hosts:
        wrapped = _VHOST(wrapped)
    for option in (
        click.option("--ca", type=click.Path(exists=True, dir_okay=False), help="With amqps: PEM file to trust."),
        click.option("--password", envvar="ARTEMIS_PY_PASSWORD", help="Password [env: ARTEMIS_PY_PASSWORD]."),
        click.option("--user", envvar="ARTEMIS_PY_USER", help="User name; default: anonymous [env: ARTEMIS_PY_USER]."),
        click.option(
            "--url",
            envvar="ARTEMIS_PY_URL",
            default=DEFAULT_URL,
            show_default=True,
            callback=_checked_url,
            help="The broker, amqp://host:port [env: ARTEMIS_PY_URL].",
        ),
    ):
        wrapped = option(wrapped)
    return wrapped


def _checked_url(context: click.Context, parameter: click.Parameter, value: str) -> str:
    try:
        parts = urlsplit(value if "://" in value else f"amqp://{value}")
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise click.BadParameter(f"{error}; use amqp://host:port") from None
    if parts.scheme not in ("amqp", "amqps", "tcp") or not host or parts.username or parts.path.strip("/"):
        raise click.BadParameter("use amqp://host:port, or amqps://host:port for TLS; the user goes into --user")
    if ":" in host:
        host = f"[{host}]"
    return f"{'amqps' if parts.scheme == 'amqps' else 'amqp'}://{host}:{DEFAULT_PORT if port is None else port}"


def parse_destination(text: str) -> tuple[str, str | None]:
    """Split `queue://X`, `topic://X` or plain `X` into the address and the capability that asks for a routing type.

    Raises click's UsageError for another beginning with `://`: it would name an address that nobody means.
    """
    for capability in ("queue", "topic"):
        prefix = f"{capability}://"
        if text.startswith(prefix):
            return text.removeprefix(prefix), capability
    scheme = _SCHEME.match(text)
    if scheme is not None:
        raise click.UsageError(
            f"{scheme[0]!r} is no kind of destination: use queue://X, topic://X, X or address::queue"
        )
    return text, None


def unread(count: int) -> Failed:
    """Return the error for messages whose delivery the broker began and then aborted, in AMQP's words."""
    return Failed(f"{count} messages were aborted by the broker, which cannot read them: its log says why")


def default_host_options(command: Callable[..., object]) -> Callable[..., object]:
    """Add the same options as `target_options`, for a command that works in the default host only."""
    return target_options(command, has_hosts=False)
