"""The client side of the commands: the broker's URL, the login, and what its errors mean for a user.

Proton is the client library; it is imported by the commands that connect, not by `--help`.
"""

import functools
import signal
import ssl
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, Final
from urllib.parse import urlsplit

import click
from attrs import frozen
from proton import Condition, Endpoint, Event, SSLDomain, SSLException, Terminus, symbol
from proton.handlers import MessagingHandler
from proton.reactor import Container

from artemis_py.cli.errors import Failed, NotConnected

DEFAULT_PORT: Final = 61616
"""Port of the shipped configuration; also used for a URL without a port."""
DEFAULT_URL: Final = f"amqp://127.0.0.1:{DEFAULT_PORT}"
TIMEOUT_S: Final = 10.0
"""Time for the broker to answer an open, a close or a management request; after that it counts as unreachable."""
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

    def connect_arguments(self) -> dict[str, Any]:
        """Return Proton's arguments besides the URL. Raises click's UsageError for certificates it cannot read."""
        arguments: dict[str, Any] = {"reconnect": False, "allowed_mechs": "ANONYMOUS"}
        if self.user is not None:
            arguments |= {"user": self.user, "password": self.password or "", "allowed_mechs": "PLAIN"}
        if self.url.startswith("amqps:"):
            arguments["ssl_domain"] = self._trusted()
        return arguments

    def _trusted(self) -> SSLDomain:
        """Return TLS settings that always verify the broker's certificate and its name."""
        certificates = self.ca or ssl.get_default_verify_paths().cafile
        domain = SSLDomain(SSLDomain.MODE_CLIENT)
        try:
            domain.set_trusted_ca_db(certificates)
            domain.set_peer_authentication(SSLDomain.VERIFY_PEER_NAME)
        except SSLException:
            raise click.UsageError(f"cannot read certificates from {certificates}; name a PEM file with --ca") from None
        return domain


def target_options(command: Callable[..., object]) -> Callable[..., object]:
    """Add the options for the broker's URL and the login; the command gets them as one `target`."""

    @functools.wraps(command)
    def with_target(url: str, user: str | None, password: str | None, ca: str | None, **arguments: Any) -> object:
        if user is not None and password is None:
            password = click.prompt(f"Password of {user}", hide_input=True, err=True)
        return command(target=Target(url=url, user=user, password=password, ca=ca), **arguments)

    wrapped: Callable[..., object] = with_target
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
    """Split `queue://X`, `topic://X` or plain `X` into the address and the capability that asks for a routing type."""
    for capability in ("queue", "topic"):
        prefix = f"{capability}://"
        if text.startswith(prefix):
            return text.removeprefix(prefix), capability
    return text, None


def want(terminus: Terminus, capability: str | None) -> None:
    """Ask for a routing type, if a capability is given."""
    if capability is not None:
        terminus.capabilities.put_object(symbol(capability))


def refusal(condition: Condition | None, what: str) -> Failed:
    """Return the error for something that the broker refused."""
    if condition is None:
        return Failed(f"{what}: the broker gave no reason")
    text = condition.description or condition.name
    if condition.name == "amqp:unauthorized-access":
        return Failed(f"{what}: not authorised: {text}")
    if condition.name == "amqp:not-found":
        return Failed(f"{what}: not found: {text}")
    return Failed(f"{what}: {text} ({condition.name})")


def transport_failure(condition: Condition | None, url: str) -> click.ClickException:
    """Return the error for a connection that could not be opened, or broke."""
    text = "the connection was closed" if condition is None else str(condition.description or condition.name)
    if condition is not None and condition.name == "amqp:unauthorized-access":
        return Failed(f"{url}: login refused: {text}")
    return NotConnected(f"{url}: {text}")


def remote_condition(endpoint: Endpoint | None) -> Condition | None:
    """Return why the other side closed an endpoint."""
    return None if endpoint is None else endpoint.remote_condition


def transport_condition(event: Event) -> Condition | None:
    """Return why the transport of an event ended."""
    return None if event.transport is None else event.transport.condition


def delivery_condition(event: Event) -> Condition | None:
    """Return why the other side rejected a delivery."""
    return None if event.delivery is None else event.delivery.remote.condition


def unread(count: int) -> Failed:
    """Return the error for messages whose delivery the broker began and then aborted, in AMQP's words."""
    return Failed(f"{count} messages were aborted by the broker, which cannot read them: its log says why")


class Conversation(MessagingHandler):  # type: ignore[misc]
    """A connection that runs until its work is done, fails, times out or is interrupted.

    Subclasses open their link in `begin` and call `finish`; `run` returns when the connection is closed, and raises
    the first failure.
    """

    def __init__(self, target: Target, **options: Any) -> None:
        super().__init__(**options)
        self.target: Final = target
        self.connection: Any = None
        self.failure: click.ClickException | None = None
        self.is_open = False
        self.is_finished = False
        self.was_interrupted = False
        self.opened_at = self.finished_at = 0.0
        self._container: Any = None
        self._deadline = 0.0
        """Time by which the broker must answer our open, and later our close."""

    def begin(self, event: Event) -> None:
        """Create links; the connection is open."""
        raise NotImplementedError

    def tick(self) -> None:
        """Do what is due; called every TICK_S from the open of the connection until the work is finished."""

    def run(self) -> None:
        """Run until the work is done. Raises Failed or NotConnected."""
        before = signal.signal(signal.SIGINT, self._interrupt)
        try:
            Container(self).run()
        finally:
            signal.signal(signal.SIGINT, before)
        if self.failure is not None:
            raise self.failure

    def finish(self) -> None:
        """Close the connection and wait for the broker's close."""
        if not self.is_finished:
            self.is_finished = True
            self.finished_at = time.monotonic()
            self._deadline = time.monotonic() + TIMEOUT_S
            if self.connection is not None:
                self.connection.close()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the connection was opened, until the work was finished."""
        return (self.finished_at or time.monotonic()) - self.opened_at if self.is_open else 0.0

    def fail(self, failure: click.ClickException) -> None:
        """Record the first failure and stop."""
        if self.failure is None and not self.is_finished:
            self.failure = failure
        self.finish()

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self.was_interrupted:  # twice: at once
            sys.exit(130)
        self.was_interrupted = True

    def on_start(self, event: Event) -> None:
        """Connect."""
        self._container = event.container
        self._deadline = time.monotonic() + TIMEOUT_S
        self.connection = self._container.connect(self.target.url, **self.target.connect_arguments())
        self._timer = self._container.schedule(TICK_S, self)

    def on_timer_task(self, event: Event) -> None:
        """Check deadlines and Ctrl-C, then call the subclass's `tick`."""
        if not (self.is_open and not self.is_finished) and time.monotonic() > self._deadline:
            self.fail(NotConnected(f"{self.target.url}: no answer within {TIMEOUT_S:.0f} s"))
            self._container.stop()
            return
        if self.was_interrupted:
            self.finish()
        self._timer = self._container.schedule(TICK_S, self)
        if self.is_open and not self.is_finished:
            self.tick()

    def _end(self) -> None:
        """Stop the loop: the connection is gone."""
        self._timer.cancel()
        self._container.stop()

    def on_connection_closed(self, event: Event) -> None:
        """Stop the loop: both sides have closed the connection."""
        self._end()

    def on_connection_opened(self, event: Event) -> None:
        """Start the work, once."""
        if not self.is_open:
            self.is_open = True
            self.opened_at = time.monotonic()
            self.begin(event)

    def on_connection_error(self, event: Event) -> None:
        """Fail: the broker closed the connection with a reason."""
        self.fail(refusal(remote_condition(event.connection), self.target.url))

    def on_session_error(self, event: Event) -> None:
        """Fail: the broker ended the session with a reason."""
        self.fail(refusal(remote_condition(event.session), self.target.url))

    def on_link_error(self, event: Event) -> None:
        """Fail: the broker refused or detached the link with a reason."""
        link: Any = event.link
        terminus = link.target if link.is_sender else link.source
        self.fail(refusal(remote_condition(link), terminus.address or "link"))

    def on_link_closing(self, event: Event) -> None:
        """Fail: the broker detached the link without a reason."""
        if not self.is_finished:
            self.fail(Failed(f"{self.target.url}: the broker detached the link"))

    def on_connection_closing(self, event: Event) -> None:
        """Fail: the broker closed the connection without a reason."""
        if not self.is_finished:
            self.fail(NotConnected(f"{self.target.url}: the broker closed the connection"))

    def on_disconnected(self, event: Event) -> None:
        """Stop the loop, and fail if the work was not finished: the socket was closed."""
        if not self.is_finished:
            self.fail(transport_failure(transport_condition(event), self.target.url))
        self._end()

    def on_transport_error(self, event: Event) -> None:
        """Fail without a close: the socket or login was refused, or the framing was broken."""
        self.fail(transport_failure(transport_condition(event), self.target.url))
        self._end()
