"""A command's connection to a broker: log in, attach, exchange until the work is done, close.

Knows what failures mean for the user of a command: each is an exception of `errors`, with its exit code. A command does
not reconnect.
"""

import signal
import socket
import ssl
import sys
import time
from collections import deque
from collections.abc import Callable
from types import FrameType
from typing import Any, Final, NoReturn, Self
from urllib.parse import urlsplit
from uuid import uuid4

import click

from artemis_amqp.client import (
    ACCEPTED_CODE,
    Accepted,
    AmqpError,
    ConnectionLimits,
    DeliveryStream,
    MalformedValue,
    Modified,
    ReceiverLink,
    ReceiverLinkHandler,
    SenderLink,
    SenderLinkHandler,
    Source,
    Symbol,
    encode,
    errors,
)
from artemis_amqp.client import Target as Terminus
from artemis_amqp.client.blocking import BlockingClient
from artemis_amqp.client.failures import ClientError, LinkFailed
from artemis_amqp.client.messages import Message, decode_message
from artemis_amqp.engine.extensions import CREATED, OPERATOR
from artemis_py.cli.client import TICK_S, Target
from artemis_py.cli.errors import Failed, NotConnected
from artemis_py.cli.render import say

UNSETTLED: Final = 0
ACCEPTED_STATE: Final = encode(Accepted())
STREAMED_BYTES: Final = 1024 * 1024
"""Size from which a delivery is collected by `Inbox`: the engine limits the number of frames of shorter ones."""


class Connection(BlockingClient):
    """One open connection of a command; use it as a context manager.

    Within the `with` block the first Ctrl-C sets `was_interrupted`, so that the command ends cleanly, and a second one
    ends the process at once.
    """

    def __init__(self, target: Target, is_operator: bool = False) -> None:
        """Connect, log in and open. Raises Failed, NotConnected, click's UsageError for certificates.

        With `is_operator`, also to a broker that is being drained.
        """
        self._target: Final = target
        self.was_interrupted = False
        self._handler_before: Any = None
        self.created: str | None = None
        """The name that the broker created something for, because a receiver asked for what did not exist."""
        deadline = time.monotonic() + target.timeout_s
        host = urlsplit(target.url).hostname or ""
        name = f"artemis-py-{uuid4()}"
        connected = _connected(target, host)
        # The time-outs of a command apply to whatever the broker does not answer, its close included.
        hostname = host if target.vhost is None else f"vhost:{target.vhost}"
        desired = (OPERATOR,) if is_operator else ()
        super().__init__(connected, ConnectionLimits(), name, hostname, target.timeout_s, target.timeout_s, desired)
        try:
            if target.user is None:
                self.login("ANONYMOUS", b"", host, deadline)
            else:
                self.login("PLAIN", f"\0{target.user}\0{target.password or ''}".encode(), host, deadline)
        except BaseException:
            self.abort()
            raise
        self.opened_at: Final = time.monotonic()

    def translated(self, failure: ClientError) -> click.ClickException:
        """Return the command's exception for a failure."""
        url = self._target.url
        if isinstance(failure, LinkFailed):
            if failure.error is None:
                return Failed(f"{url}: the broker detached the link")
            return refusal(failure.error, failure.address or "link")
        if failure.what and failure.error is not None:
            return refusal(failure.error, url)
        if failure.condition == errors.UNAUTHORIZED_ACCESS:
            advice = "; the broker wants a user: --user" if self._target.user is None else ""
            return Failed(f"{url}: login refused: {failure}{advice}")
        return NotConnected(f"{url}: {failure}")

    def wait(self, is_done: Callable[[], bool], deadline: float, what: str) -> None:
        """Exchange octets until `is_done`. Raises NotConnected after a time-out in which the broker said nothing.

        Not at the deadline: a login takes several answers, and each may need most of the time-out on a slow link.
        """
        target, asked_at = self._target, time.monotonic()
        while not is_done():
            left = max(asked_at, self.heard_at) + target.timeout_s - time.monotonic()
            if left <= 0:
                raise NotConnected(f"{target.url}: no answer within {target.timeout_s:g} s; --timeout allows more")
            self.exchange(left)

    @property
    def elapsed_s(self) -> float:
        """Seconds since the connection was opened."""
        return time.monotonic() - self.opened_at

    def __enter__(self) -> Self:
        self._handler_before = signal.signal(signal.SIGINT, self._interrupt)
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            self.close()
        finally:
            signal.signal(signal.SIGINT, self._handler_before)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self.was_interrupted:  # twice: at once
            sys.exit(130)
        self.was_interrupted = True

    def attach_receiver(self, source: Source) -> tuple[ReceiverLink, Source]:
        """Attach a link whose deliveries this side settles; return it with the source that the broker granted.

        The caller sets its handler and grants credit. Raises Failed, NotConnected.
        """
        link, answer = self.attach(source, Terminus(), False, UNSETTLED)
        assert isinstance(link, ReceiverLink)
        link.large_size = STREAMED_BYTES
        created = (answer.properties or {}).get(CREATED)
        self.created = created if isinstance(created, str) else None
        return link, answer.source or source

    def attach_sender(self, address: str, capability: str | None) -> SenderLink:
        """Attach a link to send on; the caller sets its handler. Raises Failed, NotConnected."""
        link, _ = self.attach(
            Source(), Terminus(address=address, capabilities=capabilities(capability)), True, UNSETTLED
        )
        assert isinstance(link, SenderLink)
        return link

    def accept(self, link: ReceiverLink, delivery_id: int) -> None:
        """Accept a message; the broker is told with the next output."""
        link.session.settle_incoming(delivery_id, delivery_id, ACCEPTED_STATE, True)

    def turn(self, link: ReceiverLink | SenderLink) -> None:
        """Exchange octets, for at most a tick. Raises Failed, NotConnected if link or connection has ended."""
        self.exchange(TICK_S)
        self.check(link)


def tell_created(connection: Connection) -> None:
    """Warn of a queue that was created because it did not exist: its name may be misspelt."""
    if connection.created is not None:
        say(f"Warning: '{connection.created}' did not exist, and was created; is the name right?", err=True)


def capabilities(capability: str | None) -> tuple[Symbol, ...]:
    """Return the capabilities that ask for a routing type, if one is given."""
    return () if capability is None else (Symbol(capability),)


def refusal(error: AmqpError | None, what: str) -> Failed:
    """Return the error for something that the broker refused."""
    if error is None:
        return Failed(f"{what}: the broker gave no reason")
    text = error.description or error.condition
    if error.condition == errors.UNAUTHORIZED_ACCESS:
        return Failed(f"{what}: not authorised: {text}")
    if error.condition == errors.NOT_FOUND:
        return Failed(f"{what}: not found: {text}")
    return Failed(f"{what}: {text} ({error.condition})")


def is_accepted(state: object) -> bool:
    """Tell whether an outcome says that the broker took the message."""
    return state == ACCEPTED_CODE or isinstance(state, Accepted)


def given_back(state: object, what: str) -> Failed:
    """Return the error for a message that the broker neither accepted nor rejected."""
    reason = "modified" if isinstance(state, Modified) else "released"
    return Failed(f"{what} was not accepted: the broker {reason} it")


class _Collected(DeliveryStream):
    """The octets of a long delivery. They are not counted as incomplete: the user of the command asked for them."""

    def __init__(self) -> None:
        self._parts: Final[list[bytes]] = []

    def append(self, data: bytes) -> int:
        self._parts.append(bytes(data))
        return 0

    def abandon(self) -> None:
        self._parts.clear()

    def octets(self) -> bytes:
        """Return all of them."""
        return b"".join(self._parts)


class Inbox(ReceiverLinkHandler):
    """Deliveries that arrived and that the command has not taken yet: those of one exchange."""

    def __init__(self) -> None:
        self._arrived: Final[deque[tuple[int, bytes]]] = deque()

    def __bool__(self) -> bool:
        return bool(self._arrived)

    def take(self) -> tuple[int, Message]:
        """Return the next message and its delivery-id. Raises Failed if it is not well-formed."""
        delivery_id, payload = self._arrived.popleft()
        try:
            return delivery_id, decode_message(payload)
        except MalformedValue as error:
            raise Failed(f"a message of the broker cannot be read: {error}") from None

    def on_transfer(self, link: ReceiverLink, delivery: Any) -> None:
        """Keep a delivery."""
        self._arrived.append((delivery.delivery_id, delivery.payload))

    def open_stream(self, link: ReceiverLink) -> _Collected:
        """Collect a long delivery."""
        return _Collected()

    def on_stream(self, link: ReceiverLink, delivery: Any, stream: DeliveryStream) -> None:
        """Keep a long delivery."""
        assert isinstance(stream, _Collected)
        self._arrived.append((delivery.delivery_id, stream.octets()))

    def on_settled(self, link: ReceiverLink, delivery_id: int, tag: bytes) -> None:
        """Do nothing: called only with rcv-settle-mode second, which is not asked for."""


class Outcomes(SenderLinkHandler):
    """The broker's outcomes of messages, in the order in which they arrive, until the command takes them."""

    def __init__(self) -> None:
        self.arrived: Final[deque[object]] = deque()

    def on_credit(self, link: SenderLink) -> None:
        """Do nothing: commands look at the credit in each turn."""

    def on_disposition(self, link: SenderLink, delivery_id: int, token: object, state: object, settled: bool) -> None:
        """Keep an outcome."""
        self.arrived.append(state)


def _connected(target: Target, host: str) -> socket.socket:
    """Return a connected, non-blocking socket, with TLS for an amqps URL."""
    context = target.tls() if target.url.startswith("amqps:") else None
    try:
        connected = socket.create_connection((host, urlsplit(target.url).port), target.timeout_s)
    except (OSError, UnicodeError) as error:  # the latter for a name that no host can have
        _not_connected(target, error)
    try:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context is not None:
            connected = context.wrap_socket(connected, server_hostname=host)
        connected.setblocking(False)
    except OSError as error:
        connected.close()
        _not_connected(target, error)
    return connected


def _not_connected(target: Target, error: OSError | UnicodeError) -> NoReturn:
    if isinstance(error, TimeoutError):
        raise NotConnected(f"{target.url}: no answer within {target.timeout_s:g} s; --timeout allows more") from None
    if isinstance(error, ssl.SSLCertVerificationError):
        text = f"the broker's certificate is not trusted: {error.verify_message}; --ca names the file to trust"
        raise NotConnected(f"{target.url}: {text}") from None
    reason = error.strerror if isinstance(error, OSError) else None
    raise NotConnected(f"{target.url}: {reason or error}") from None
