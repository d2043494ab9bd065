"""A blocking AMQP connection for a task or the driver.

Decides which server of the list to use, how to log in, and which failures are worth a retry; `receiving`, `sending` and
`management` use the links. Proton's engine from Python costs 7 to 11 microseconds of CPU per message received and 8 per
message sent; ours is compiled, costs a tenth of that, and is installed with the connector anyway.
"""

import logging
import os
import socket
import ssl
import time
from collections.abc import Callable
from typing import Final, TypeVar
from uuid import uuid4

from artemis_amqp.client import AmqpError, ConnectionLimits, errors
from artemis_amqp.client.blocking import BlockingClient
from artemis_amqp.client.failures import ClientError
from artemis_py.spark.errors import ConnectionLost, Elsewhere, Gone, InvalidOption, Refused
from artemis_py.spark.options import ConnectionOptions, Server

logger = logging.getLogger(__name__)

MAX_RETRY_DELAY_S: Final = 30.0

# Conditions that may be gone at the next attempt: the broker stops or is full, or another client took a link over.
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


def failed(error: AmqpError | None, what: str) -> ConnectionLost | Refused:
    """Return the exception for something that the broker ended; its class says whether a retry may succeed."""
    if error is None:
        return ConnectionLost(f"{what}: the broker gave no reason")
    text = f"{what}: {error.description or error.condition} ({error.condition})"
    if error.condition in (errors.NOT_FOUND, errors.RESOURCE_DELETED):
        return Gone(text)
    return ConnectionLost(text) if error.condition in _PASSING else Refused(text)


class Connection(BlockingClient):
    """One open connection with one session; use it as a context manager, from one thread only."""

    def __init__(self, server: Server, options: ConnectionOptions) -> None:
        """Connect, log in and open. Raises ConnectionLost, Refused, InvalidOption."""
        self._server: Final = server
        deadline = time.monotonic() + options.connect_timeout_s
        limits = ConnectionLimits(max_frame_size=options.max_frame_bytes, idle_timeout_s=options.idle_timeout_s)
        name = f"spark-{uuid4()}"
        super().__init__(_connect(server, options), limits, name, server.host, options.connect_timeout_s)
        try:
            self.login(*_login(options), server.host, deadline)
        except BaseException:
            self.abort()
            raise

    def __repr__(self) -> str:
        return f"Connection({self._server})"

    def translated(self, failure: ClientError) -> ConnectionLost | Refused:
        """Return the connector's exception; its class says whether a retry may succeed."""
        if failure.what:
            return failed(failure.error, f"{self._server}: {failure.what}")
        if failure.error is not None:
            return failed(failure.error, str(self._server))
        return ConnectionLost(f"{self._server}: {failure}")


def _login(options: ConnectionOptions) -> tuple[str, bytes]:
    """Return SASL mechanism and initial response. Raises InvalidOption if the password cannot be read."""
    mechanism = options.sasl or ("anonymous" if options.user is None else "plain")
    if mechanism == "plain":
        return "PLAIN", f"\0{options.user}\0{options.password()}".encode()
    # With EXTERNAL an empty name means that of the certificate (RFC 4422, appendix A).
    return mechanism.upper(), b""


def _connect(server: Server, options: ConnectionOptions) -> socket.socket:
    """Return a connected, non-blocking socket, with TLS for an amqps server. Raises ConnectionLost, InvalidOption."""
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
    """Return the TLS context with its checks and our certificate. Raises InvalidOption for files it cannot read."""
    try:
        context = ssl.create_default_context(cafile=options.tls_ca)
        if options.tls_cert is not None:
            context.load_cert_chain(options.tls_cert, options.tls_key)
    except ssl.SSLError as error:
        raise InvalidOption(f"options tls.ca, tls.cert, tls.key: {error}") from None
    except OSError as error:
        files = [name for name in (options.tls_ca, options.tls_cert, options.tls_key) if name is not None]
        missing = next((name for name in files if not os.path.isfile(name)), ", ".join(files))
        raise InvalidOption(f"options tls.ca, tls.cert, tls.key: {missing}: {error.strerror}") from None
    if options.tls_verify != "hostname":
        context.check_hostname = False
    if options.tls_verify == "none":
        context.verify_mode = ssl.CERT_NONE
    return context


class Broker:
    """Servers of a query: connects to the first one that answers, and starts again when a connection breaks."""

    def __init__(self, options: ConnectionOptions) -> None:
        self._options: Final = options
        self._servers: Final = list(options.servers)

    def connect(self) -> Connection:
        """Try each server once. Raises ConnectionLost with every server's reason, Refused, InvalidOption."""
        reasons: list[str] = []
        for _ in range(len(self._servers)):
            try:
                return Connection(self._servers[0], self._options)
            except ConnectionLost as error:
                reasons.append(str(error))
                self._servers.append(self._servers.pop(0))
        raise ConnectionLost("; ".join(reasons))

    def pass_over(self) -> None:
        """Begin with the next server of the list: the first one answers, but is not the one that is meant."""
        self._servers.append(self._servers.pop(0))

    def run(self, work: Callable[[Connection], Result]) -> Result:
        """Call `work` with a new connection, and again with another one if the connection fails.

        `work` must be safe to repeat from the beginning. Raises what it raises, ConnectionLost after the last try.
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
