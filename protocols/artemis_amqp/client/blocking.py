"""A blocking client over a connected socket, for one thread: log in, attach, then exchange."""

import select
import socket
import ssl
import time
from collections.abc import Callable
from typing import Final, Self

from artemis_amqp.client.conversation import Conversation
from artemis_amqp.client.failures import ClientError, ConnectionFailed
from artemis_amqp.engine.connection import AmqpConnection
from artemis_amqp.engine.limits import ConnectionLimits
from artemis_amqp.engine.link import Link
from artemis_amqp.engine.performatives import Attach, Source, Target
from artemis_amqp.engine.session import AmqpSession
from artemis_amqp.engine.types import Symbol

READ_BYTES: Final = 256 * 1024
"""Size of one read of the socket in bytes: hundreds of frames are then processed at once."""
GOODBYE_S: Final = 2.0
"""Seconds that `close` waits for the broker's own close, unless told otherwise."""


class BlockingClient:
    """One connection with one session; use it as a context manager, from one thread only.

    Failures are raised as ClientError, or as the exception that a subclass returns from `translated`.
    """

    def __init__(
        self,
        connected: socket.socket,
        limits: ConnectionLimits,
        container_id: str,
        hostname: str | None = None,
        answer_timeout_s: float = 30.0,
        goodbye_s: float = GOODBYE_S,
        desired: tuple[Symbol, ...] = (),
    ) -> None:
        """Take over a connected, non-blocking socket.

        `answer_timeout_s` limits the wait for an attach, `goodbye_s` that for the broker's close; `desired` are the
        capabilities in our open.
        """
        self._socket: Final = connected
        self._answer_timeout_s: Final = answer_timeout_s
        self._goodbye_s: Final = goodbye_s
        self._unwritten = b""
        self.heard_at = time.monotonic()
        """Time at which the broker's last octets came, or the client was made."""
        self._conversation: Final = Conversation(container_id, limits, _do_nothing, hostname, desired)

    def translated(self, failure: ClientError) -> Exception:
        """Return the exception to raise for a failure."""
        return failure

    @property
    def engine(self) -> AmqpConnection:
        """The engine of the connection."""
        return self._conversation.engine

    @property
    def session(self) -> AmqpSession:
        """The only session."""
        return self._conversation.session

    @property
    def offered(self) -> tuple[Symbol, ...]:
        """Capabilities that the broker offers beyond the specification."""
        return self._conversation.offered

    def login(self, mechanism: str, initial_response: bytes, host: str, deadline: float) -> None:
        """Log in, open and begin the session, until `deadline` (monotonic seconds)."""
        conversation = self._conversation
        conversation.start(mechanism, initial_response, host)
        self.wait(lambda: conversation.is_open, deadline, "no answer to the login")
        conversation.begin()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # -- links -------------------------------------------------------------------------------------------------

    def attach(
        self,
        source: Source,
        target: Target,
        is_sender: bool,
        snd_settle_mode: int,
        name: str | None = None,
        properties: dict[Symbol, object] | None = None,
    ) -> tuple[Link, Attach]:
        """Attach a link and wait for the broker's answer."""
        conversation = self._conversation
        link = conversation.attach(source, target, is_sender, snd_settle_mode, name, properties)
        address = target.address if is_sender else source.address
        self.wait(
            lambda: link in conversation.attached or link in conversation.detached,
            time.monotonic() + self._answer_timeout_s,
            f"no answer to the attach of {address}",
        )
        self.check(link)
        return link, conversation.attached[link]

    def check(self, link: Link) -> None:
        """Raise if the broker ended this link."""
        try:
            self._conversation.check(link)
        except ClientError as error:
            raise self.translated(error) from None

    def detach(self, link: Link, closes: bool) -> None:
        """Detach a link; `closes` also ends its terminus."""
        self._conversation.detach(link, closes)

    # -- the loop ----------------------------------------------------------------------------------------------

    def wait(self, is_done: Callable[[], bool], deadline: float, what: str) -> None:
        """Exchange bytes until `is_done`. Raises, with `what` as text, at the deadline (monotonic seconds)."""
        while not is_done():
            left = deadline - time.monotonic()
            if left <= 0:
                raise self.translated(ConnectionFailed(f"{what} in time"))
            self.exchange(left)

    def exchange(self, timeout_s: float) -> None:
        """Send output and process input; wait at most `timeout_s` for either.

        Raises when the connection has ended.
        """
        engine = self._conversation.engine
        if self._conversation.failure is not None:
            raise self.translated(self._conversation.failure)
        if not self._unwritten:
            self._unwritten = engine.data_to_send()
        now = time.monotonic()
        deadline = engine.next_deadline()
        if deadline is not None:
            if deadline <= now:
                engine.handle_deadline(now)
                deadline = engine.next_deadline()
            if deadline is not None:
                timeout_s = max(0.0, min(timeout_s, deadline - now))
        if self._has_decrypted():
            timeout_s = 0.0
        try:
            readable, writable, _ = select.select(
                [self._socket], [self._socket] if self._unwritten else [], [], timeout_s
            )
            if writable:
                self._write()
            if readable or self._has_decrypted():
                self._read()
        except OSError as error:
            self._conversation.fail(ConnectionFailed(str(error)))

    def _has_decrypted(self) -> bool:
        """Tell whether TLS has decrypted octets that `select` does not see."""
        return isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0

    def _write(self) -> None:
        try:
            sent = self._socket.send(self._unwritten)
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            return
        self._unwritten = self._unwritten[sent:]

    def _read(self) -> None:
        try:
            data = self._socket.recv(READ_BYTES)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        if not data:
            self._conversation.fail(ConnectionFailed("the broker closed the connection"))
            return
        self.heard_at = time.monotonic()
        self._conversation.engine.receive_data(data, self.heard_at)

    def close(self) -> None:
        """Close, waiting for the broker for a short time; a second call does nothing."""
        conversation = self._conversation
        deadline = time.monotonic() + self._goodbye_s
        try:
            if conversation.failure is None:
                conversation.engine.close()
                while not conversation.engine.closed and conversation.failure is None:
                    left = deadline - time.monotonic()
                    if left <= 0:
                        break
                    self.exchange(left)
        finally:
            self.abort()

    def abort(self) -> None:
        """Close the socket without an AMQP close."""
        self._conversation.fail(ConnectionFailed("closed"))
        self._socket.close()


def _do_nothing() -> None:
    """Do nothing: the next `exchange` sends the output."""
