"""A blocking AMQP connection for a task or the driver: our engine's client side over one socket.

Decides which server of the list is talked to and how long anything is waited for; what goes over links is up to
`receiving`, `sending` and `management`. Proton's engine from Python costs 7 to 11 microseconds of CPU a message
received and 8 sent, this one is compiled and costs a tenth of it; it is installed with the connector anyway.
"""

import logging
import select
import socket
import ssl
import time
from collections.abc import Callable
from typing import Final, TypeVar
from uuid import uuid4

from artemis_amqp.engine import errors
from artemis_amqp.engine.connection import AmqpConnection
from artemis_amqp.engine.limits import ConnectionLimits
from artemis_amqp.engine.link import Link
from artemis_amqp.engine.performatives import AmqpError, Attach, Begin, Close, Detach, End, Open, Source, Target
from artemis_amqp.engine.receiver import ReceiverLink
from artemis_amqp.engine.session import AmqpSession
from artemis_amqp.engine.states import State
from artemis_amqp.engine.types import Symbol
from artemis_py.spark.errors import ConnectionLost, Elsewhere, Gone, InvalidOption, Refused
from artemis_py.spark.options import ConnectionOptions, Server

logger = logging.getLogger(__name__)

READ_BYTES: Final = 256 * 1024
"""Of one read of the socket: hundreds of frames are then worked through at once."""
MAX_RETRY_DELAY_S: Final = 30.0
GOODBYE_S: Final = 2.0

# Conditions that another attempt may not meet again: the broker stops, is full, or somebody took a link over.
_PASSING: Final = frozenset(
    (
        errors.CONNECTION_FORCED,
        errors.RESOURCE_LIMIT_EXCEEDED,
        errors.RESOURCE_LOCKED,
        errors.STOLEN,
        errors.DETACH_FORCED,
        errors.INTERNAL_ERROR,
    )
)

Result = TypeVar("Result")


def failure(error: AmqpError | None, what: str) -> ConnectionLost | Refused:
    """The exception for something the broker ended, by whether it is worth another try."""
    if error is None:
        return ConnectionLost(f"{what}: the broker gave no reason")
    text = f"{what}: {error.description or error.condition} ({error.condition})"
    if error.condition in (errors.NOT_FOUND, errors.RESOURCE_DELETED):
        return Gone(text)
    return ConnectionLost(text) if error.condition in _PASSING else Refused(text)


class Connection:
    """One open connection with one session; use it as a context manager. It belongs to one thread."""

    def __init__(self, server: Server, options: ConnectionOptions) -> None:
        """Connect, log in and open. Raises ConnectionLost, Refused, InvalidOption."""
        self._server: Final = server
        self._options: Final = options
        self._failure: ConnectionLost | Refused | None = None
        self._is_opened = False
        self.offered: tuple[Symbol, ...] = ()
        """What the broker can do beyond the specification."""
        self._is_open_sent = False
        self._unwritten = b""
        self._attached: Final[dict[Link, Attach]] = {}
        self._detached: Final[dict[Link, ConnectionLost | Refused]] = {}
        deadline = time.monotonic() + options.connect_timeout_s
        self._socket = _connect(server, options)
        self.engine: Final = AmqpConnection(
            self,
            ConnectionLimits(max_frame_size=options.max_frame_bytes, idle_timeout_s=options.idle_timeout_s),
            is_client=True,
        )
        try:
            self.engine.login.start(*_login(options), server.host)
            self.wait(lambda: self._is_opened, deadline, "no answer to the login")
            self.session: Final = self.engine.channels.begin()
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Connection({self._server})"

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
        """Attach a link and wait for the broker's answer. Raises Refused with its reason, ConnectionLost."""
        address = target.address if is_sender else source.address
        link = self.session.attach(
            name or str(uuid4()), source, target, is_sender, snd_settle_mode, properties=properties
        )
        deadline = time.monotonic() + self._options.connect_timeout_s
        self.wait(
            lambda: link in self._attached or link in self._detached, deadline, f"no answer to the attach of {address}"
        )
        self.check(link)
        return link, self._attached[link]

    def check(self, link: Link) -> None:
        """Raises Refused or ConnectionLost if the broker ended this link."""
        ended = self._detached.get(link)
        if ended is not None:
            raise ended

    def detach(self, link: Link, closes: bool) -> None:
        """Let go of a link; `closes` ends what it stands for, too."""
        link.detach(closed=closes)
        self._attached.pop(link, None)

    # -- the loop ----------------------------------------------------------------------------------------------

    def wait(self, is_done: Callable[[], bool], deadline: float, what: str) -> None:
        """Exchange bytes until `is_done`. Raises ConnectionLost, with `what`, at the deadline (monotonic seconds)."""
        while not is_done():
            left = deadline - time.monotonic()
            if left <= 0:
                raise ConnectionLost(f"{self._server}: {what} within its time")
            self.exchange(left)

    def exchange(self, timeout_s: float) -> None:
        """Send what is to be sent, and take in what comes; waits at most `timeout_s` for either.

        Raises ConnectionLost or Refused when the connection has ended.
        """
        if self._failure is not None:
            raise self._failure
        if not self._unwritten:
            self._unwritten = self.engine.data_to_send()
        now = time.monotonic()
        deadline = self.engine.next_deadline()
        if deadline is not None:
            if deadline <= now:
                self.engine.handle_deadline(now)
                deadline = self.engine.next_deadline()
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
            self._fail(ConnectionLost(f"{self._server}: {error}"))

    def _has_decrypted(self) -> bool:
        """Whether TLS holds octets that no `select` knows of."""
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
            self._fail(ConnectionLost(f"{self._server}: the broker closed the connection"))
            return
        self.engine.receive_data(data, time.monotonic())

    def close(self) -> None:
        """Say goodbye, for at most two seconds."""
        deadline = time.monotonic() + GOODBYE_S
        try:
            if self._failure is None:
                self.engine.close()
                self.wait(lambda: self.engine.closed or self._failure is not None, deadline, "no goodbye")
        except (ConnectionLost, Refused):
            pass  # What mattered was settled before: there is nobody left to be told.
        finally:
            self._failure = ConnectionLost(f"{self._server}: closed")
            self._socket.close()

    def _fail(self, reason: ConnectionLost | Refused) -> None:
        """The first reason counts."""
        if self._failure is None:
            self._failure = reason

    # -- called by the engine ------------------------------------------------------------------------------------

    def wake(self) -> None:
        """There is output: the next `exchange` sends it; our open follows as soon as the login allows."""
        if self.engine.state == State.OPENING and not self._is_open_sent:
            self._is_open_sent = True
            self.engine.send_open(self.engine.our_open(f"spark-{uuid4()}", hostname=self._server.host))

    def on_sasl_header(self) -> None:
        """Servers only."""

    def on_sasl_init(self, mechanism: str, initial_response: bytes | None, hostname: str | None) -> None:
        """Servers only."""

    def on_sasl_response(self, data: bytes) -> None:
        """Servers only."""

    def on_open(self, opening: Open) -> None:
        """The broker lets us in, unless it closes at once."""
        self._is_opened = True
        self.offered = opening.offered_capabilities

    def on_begin(self, session: AmqpSession, begin: Begin) -> None:
        """Nothing to decide."""

    def on_attach(self, link: Link, attach: Attach) -> None:
        """The broker answers; with a null terminus it is about to refuse."""
        if (attach.source if isinstance(link, ReceiverLink) else attach.target) is not None:
            self._attached[link] = attach

    def on_detach(self, link: Link, detach: Detach) -> None:
        """The broker refuses or ends a link."""
        self._detached[link] = failure(detach.error, f"{self._server}: link refused")

    def on_end(self, session: AmqpSession, end: End) -> None:
        """The broker ends the session."""
        self._fail(failure(end.error, f"{self._server}: session ended"))

    def on_close(self, close: Close | None) -> None:
        """The broker closes."""
        self._fail(failure(None if close is None else close.error, f"{self._server}: connection closed"))

    def on_error(self, error: AmqpError) -> None:
        """The broker broke the protocol, or refused the login."""
        self._fail(failure(error, str(self._server)))

    def on_writable(self) -> None:
        """There is room for output again."""
        self.session.tell_senders()


def _login(options: ConnectionOptions) -> tuple[str, bytes]:
    """SASL mechanism and initial response. Raises InvalidOption if the password cannot be read."""
    mechanism = options.sasl or ("anonymous" if options.user is None else "plain")
    if mechanism == "plain":
        return "PLAIN", f"\0{options.user}\0{options.password()}".encode()
    # With EXTERNAL an empty name means that of the certificate (RFC 4422, appendix A).
    return mechanism.upper(), b""


def _connect(server: Server, options: ConnectionOptions) -> socket.socket:
    """A socket that does not block, with TLS if the server is named so. Raises ConnectionLost, InvalidOption."""
    context = tls_context(options) if server.tls else None
    try:
        plain = socket.create_connection((server.host, server.port), options.connect_timeout_s)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected = plain
        if context is not None:
            try:
                connected = context.wrap_socket(plain, server_hostname=server.host)
            except BaseException:
                plain.close()
                raise
        connected.setblocking(False)
        return connected
    except ssl.SSLCertVerificationError as error:
        raise Refused(f"{server}: the broker's certificate is not trusted: {error.verify_message}") from None
    except OSError as error:
        raise ConnectionLost(f"{server}: {error}") from None


def tls_context(options: ConnectionOptions) -> ssl.SSLContext:
    """What the broker's certificate must satisfy, and our own. Raises InvalidOption for files it cannot read."""
    try:
        context = ssl.create_default_context(cafile=options.tls_ca)
        if options.tls_cert is not None:
            context.load_cert_chain(options.tls_cert, options.tls_key)
    except (OSError, ssl.SSLError) as error:
        raise InvalidOption(f"options tls.ca, tls.cert, tls.key: {error}") from None
    if options.tls_verify != "hostname":
        context.check_hostname = False
    if options.tls_verify == "none":
        context.verify_mode = ssl.CERT_NONE
    return context


class Broker:
    """The servers of a query: connects to the first that answers, and starts over when a connection breaks."""

    def __init__(self, options: ConnectionOptions) -> None:
        self._options: Final = options
        self._servers: Final = list(options.servers)

    def connect(self) -> Connection:
        """One round through the list. Raises ConnectionLost with every server's reason, Refused, InvalidOption."""
        reasons: list[str] = []
        for _ in range(len(self._servers)):
            try:
                return Connection(self._servers[0], self._options)
            except ConnectionLost as error:
                reasons.append(str(error))
                self._servers.append(self._servers.pop(0))
        raise ConnectionLost("; ".join(reasons))

    def pass_over(self) -> None:
        """Begin with the next server of the list: the first one answers, and is not the one that is meant."""
        self._servers.append(self._servers.pop(0))

    def run(self, work: Callable[[Connection], Result]) -> Result:
        """Call `work` with a new connection, again with another while the connection is what fails.

        Whatever `work` does must bear being begun anew. Raises what it raises, ConnectionLost after the last try.
        """
        delay_s = self._options.retry_delay_s
        for left in range(self._options.retries, -1, -1):
            try:
                with self.connect() as connection:
                    return work(connection)
            except ConnectionLost as error:
                if left == 0:
                    raise
                if isinstance(error, Elsewhere):
                    self.pass_over()
                logger.warning("connection lost, trying again in %.1f s: %s", delay_s, error)
            time.sleep(delay_s)
            delay_s = min(2 * delay_s, MAX_RETRY_DELAY_S)
        raise AssertionError("the last try returns or raises")
