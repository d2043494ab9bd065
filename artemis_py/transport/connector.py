"""Keeps one connection to another broker: dials, and dials again when it is lost.

    IDLE --start--> DIALLING --connected--> LOGGING_IN --both opened--> OPEN
                       ^ '--fails--> WAITING <---- lost, fails ----'------'
                       '--deadline-----'  '--no attempts left--> GIVEN_UP

If there are several ways to reach the other broker, each attempt after a failure takes the next one.

Time is that of the broker's loop, so a test moves it by hand. Chance comes from outside, so a run can be repeated.
"""

import asyncio
import os
import socket
import ssl
from collections.abc import Callable, Sequence
from enum import Enum, auto
from math import inf
from typing import Final

from aiohappyeyeballs import AddrInfoType, start_connection
from attrs import evolve

from artemis_py.logs import LogBrake, named_logger
from artemis_py.transport.backoff import Backoff, RetryPolicy
from artemis_py.transport.config import ConnectorConfig
from artemis_py.transport.outgoing import ConnectorContext, Outgoing
from artemis_py.transport.sockets import set_buffers
from artemis_py.transport.tls import client_context

LOGGER: Final = named_logger(__name__)

# The second address of a host is tried when the first has not answered for so long (RFC 8305 §8).
NEXT_ADDRESS_S: Final = 0.25


class ConnectorState(Enum):
    """State of a connector."""

    IDLE = auto()
    DIALLING = auto()
    LOGGING_IN = auto()
    OPEN = auto()
    WAITING = auto()
    """The next attempt is planned."""
    GIVEN_UP = auto()
    """No attempt is planned, because all that are allowed have failed."""


class Connector:
    """One connection of one `ConnectorConfig`, again and again."""

    def __init__(
        self,
        context: ConnectorContext,
        policy: RetryPolicy,
        random: Callable[[], float],
        alternatives: Sequence[ConnectorConfig] = (),
    ) -> None:
        """Create an idle connector; `random` returns numbers in [0, 1). Raises ConfigError for files of TLS.

        `alternatives` are other ways to the other broker, or to others that will do as well.
        """
        self._context = context
        self._contexts: Final = [context, *[evolve(context, config=each) for each in alternatives]]
        self._way = 0
        self._tls = {each.config: client_context(each.config) for each in self._contexts}
        self._policy: Final = policy
        self._backoff: Final = Backoff(policy, random)
        self._brake: Final = LogBrake(LOGGER)
        self._attempt: asyncio.Task[None] | None = None
        self._driver: Outgoing | None = None
        self._rest_until = -inf
        self._explanation = ""
        self._told_reason = ""
        """Reason of the last failed attempt. It is logged again only when another attempt fails for another reason."""
        self.state = ConnectorState.IDLE
        self.planned_at = inf
        """When the next attempt is due; written by the turn's deadlines."""
        self.last_failure = ""
        """Reason of the last failure, for people; empty while there was none."""

    @property
    def config(self) -> ConnectorConfig:
        """Configuration of the connector: that of the way in use."""
        return self._context.config

    def start(self) -> None:
        """Dial, unless that is being done or the connection is there."""
        if self.state in (ConnectorState.IDLE, ConnectorState.WAITING, ConnectorState.GIVEN_UP):
            self._context.turn.forget(self)
            self._dial()

    def stop(self, reason: str) -> None:
        """Dial no more, and end the connection."""
        self.state = ConnectorState.IDLE
        self._context.turn.forget(self)
        if self._attempt is not None:
            self._attempt.cancel()
        driver, self._driver = self._driver, None
        if driver is not None:
            driver.shutdown(reason)

    async def wait_stopped(self) -> None:
        """Wait until an attempt that `stop` has cancelled has closed its socket."""
        if self._attempt is not None:
            await asyncio.wait((self._attempt,))

    @property
    def is_attempting(self) -> bool:
        """Whether an attempt to connect has not ended, perhaps one that was cancelled."""
        return self._attempt is not None and not self._attempt.done()

    def explain(self, reason: str) -> None:
        """Have the end of the present connection told with this reason: the protocol knows more than the socket."""
        self._explanation = reason

    def rest(self, seconds: float) -> None:
        """Have the next attempt made no sooner than in so many seconds: the other side refused us for good reasons."""
        self._rest_until = asyncio.get_running_loop().time() + seconds

    def renew_certificates(self) -> None:
        """Read the files of TLS again, for attempts from now on. Raises ConfigError; the old ones stay in use then."""
        self._tls = {each.config: client_context(each.config) for each in self._contexts}

    def handle_deadline(self, now: float) -> None:
        """Dial: the delay is over."""
        if self.state is ConnectorState.WAITING:
            self._dial()

    # -- steps -------------------------------------------------------------------------------------------------

    def _dial(self) -> None:
        """Make an attempt, if it is wanted."""
        if not self._context.may_dial():
            self.state = ConnectorState.WAITING
            now = asyncio.get_running_loop().time()
            self._context.turn.plan_deadline(self, now + self._policy.longest_s)
            return
        self.state = ConnectorState.DIALLING
        self._attempt = asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        """Make one attempt to connect; it ends in a driver, or in a failure."""
        config = self._context.config
        loop = asyncio.get_running_loop()
        driver = Outgoing(self._context, self._opened, self._ended)
        self._driver = driver
        try:
            async with asyncio.timeout(config.connect_timeout_ms / 1000):
                # Not by `create_connection` alone: that of uvloop tries one address after the other.
                addresses = await loop.getaddrinfo(config.host, config.port, type=socket.SOCK_STREAM)
                sock = await start_connection(
                    addresses,
                    local_addr_infos=await self._local_addresses(loop),
                    happy_eyeballs_delay=NEXT_ADDRESS_S,
                    loop=loop,
                )
                set_buffers(sock, config.tcp_send_buffer_size, config.tcp_receive_buffer_size)
                await loop.create_connection(
                    lambda: driver, sock=sock, ssl=self._tls[config], server_hostname=self._server_hostname()
                )
        except TimeoutError:
            self._failed(f"no answer within {config.connect_timeout_ms} ms")
        except ssl.SSLCertVerificationError as error:
            self._failed(f"the certificate of the other side is not accepted: {error.verify_message}")
        except OSError as error:
            self._failed(_reason(error))
        except ValueError as error:  # the resolver refuses a host name that is too long, or has an empty part
            self._failed(str(error))
        else:
            self._attempt = None
            if self.state is ConnectorState.DIALLING:
                self.state = ConnectorState.LOGGING_IN

    def _server_hostname(self) -> str | None:
        tls = self._context.config.tls
        if tls is None:
            return None
        return tls.sni_host or self._context.config.host

    async def _local_addresses(self, loop: asyncio.AbstractEventLoop) -> Sequence[AddrInfoType] | None:
        """Return what the socket is bound to before it connects; None leaves that to the system."""
        config = self._context.config
        if config.local_address is None and not config.local_port:
            return None
        # Without an address of its own, any of this machine (AI_PASSIVE) and not only the loopback.
        return await loop.getaddrinfo(
            config.local_address, config.local_port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )

    def _opened(self) -> None:
        """Note that both sides are logged in (called by the driver)."""
        self.state = ConnectorState.OPEN
        self._backoff.succeeded()
        self.last_failure = self._told_reason = ""
        LOGGER.info("connected to another broker: connector=%s address=%s", self.config.name, self.config.endpoint)

    def _ended(self, reason: str) -> None:
        """Plan the next attempt: the connection is over (called by the driver)."""
        reason, self._explanation = self._explanation or reason, ""
        if self.state is ConnectorState.IDLE:
            return
        is_told = self.state is ConnectorState.OPEN
        if is_told and self._context.may_dial():
            LOGGER.warning(
                "connection to another broker lost: connector=%s address=%s reason=%s",
                self.config.name,
                self.config.endpoint,
                reason,
            )
        self._failed(reason, is_told)

    def _failed(self, reason: str, is_told: bool = False) -> None:
        self._attempt = None
        self._driver = None
        self.last_failure = reason
        if self.state is ConnectorState.IDLE:
            return
        delay = self._backoff.failed()
        name, address = self.config.name, self.config.endpoint
        self._way = (self._way + 1) % len(self._contexts)
        self._context = self._contexts[self._way]
        if delay is None:
            self.state = ConnectorState.GIVEN_UP
            template = "another broker is not dialled any more: connector=%s address=%s attempts=%d reason=%s"
            LOGGER.error(template, name, address, self._backoff.failures, reason)
            return
        is_news = (self._backoff.failures == 1 and not is_told) or self._told_reason not in ("", reason)
        if is_news and self._context.may_dial():
            # The attempts that follow mostly say the same; `last_failure` has the newest reason.
            template = "another broker cannot be reached: connector=%s address=%s reason=%s"
            self._brake.warning(name, template, name, address, reason)
        self._told_reason = "" if is_told else reason
        self.state = ConnectorState.WAITING
        now = asyncio.get_running_loop().time()
        self._context.turn.plan_deadline(self, max(now + delay, self._rest_until))


def _reason(error: OSError) -> str:
    """Return why a socket could not be connected: asyncio's text has the address, which is told beside it."""
    if isinstance(error, ConnectionError) and error.errno is not None:
        return os.strerror(error.errno)
    return str(error.strerror or error)
