"""The client's side of one connection with one session, without a socket, a clock or a loop.

    start(...)  -->  is_open  -->  begin()  -->  attach(...)  -->  attached[link]  or  detached[link]
                                                  '--> send, settle, grant: methods of the engine's links
    failure: why the conversation is over

`asyncio_client` and `blocking` pass bytes and time to `engine` and take its output. After each call of the engine they
look at the attributes here if `has_news` is set.
"""

from collections.abc import Callable
from typing import Final
from uuid import uuid4

from artemis_amqp.client.failures import ConnectionFailed, LinkFailed, reason_of
from artemis_amqp.engine.connection import AmqpConnection
from artemis_amqp.engine.limits import ConnectionLimits
from artemis_amqp.engine.link import Link
from artemis_amqp.engine.performatives import AmqpError, Attach, Begin, Close, Detach, End, Open, Source, Target
from artemis_amqp.engine.session import AmqpSession
from artemis_amqp.engine.states import State
from artemis_amqp.engine.types import Symbol


class Conversation:
    """The broker's answers to one client so far."""

    def __init__(
        self,
        container_id: str,
        limits: ConnectionLimits,
        woken: Callable[[], None],
        hostname: str | None = None,
        desired: tuple[Symbol, ...] = (),
    ) -> None:
        """Begin; `woken` is called when there is output and there was none before.

        `hostname` and the `desired` capabilities go into our open.
        """
        self._desired: Final = desired
        self._container_id: Final = container_id
        self._hostname: Final = hostname
        self._woken: Final = woken
        self._is_open_sent = False
        self._session: AmqpSession | None = None
        self.is_open = False
        """Whether the broker opened; it may close right after that."""
        self.offered: tuple[Symbol, ...] = ()
        """Capabilities that the broker offers beyond the specification."""
        self.failure: ConnectionFailed | None = None
        """Reason why the conversation is over, the first one if there are several; None while it lasts."""
        self.attached: Final[dict[Link, Attach]] = {}
        """Links that the broker attached, with its answers."""
        self.detached: Final[dict[Link, LinkFailed]] = {}
        """Links that the broker refused or ended, with its reasons."""
        self._addresses: Final[dict[Link, str | None]] = {}
        """Addresses of the links, as they were asked for."""
        self.has_news = False
        """Whether one of the attributes above has changed; the code that reads them resets it."""
        self.engine: Final = AmqpConnection(self, limits, is_client=True)

    # -- for the client ----------------------------------------------------------------------------------------

    def start(self, mechanism: str, initial_response: bytes, host: str) -> None:
        """Begin to log in; our open is sent automatically."""
        self.engine.login.start(mechanism, initial_response, host)

    def begin(self) -> None:
        """Begin the session."""
        self._session = self.engine.channels.begin()

    @property
    def session(self) -> AmqpSession:
        """The session, once it has begun."""
        assert self._session is not None
        return self._session

    def attach(
        self,
        source: Source | None,
        target: Target | None,
        is_sender: bool,
        snd_settle_mode: int,
        name: str | None = None,
        properties: dict[Symbol, object] | None = None,
    ) -> Link:
        """Attach a link, under a unique name if none is given; the broker's answer appears in `attached`.

        Without a terminus on the broker's side, the attach asks what the broker remembers of the link.
        """
        link = self.session.attach(
            name or str(uuid4()), source, target, is_sender, snd_settle_mode, properties=properties
        )
        terminus = target if is_sender else source
        self._addresses[link] = None if terminus is None else terminus.address
        return link

    def detach(self, link: Link, closes: bool) -> None:
        """Detach a link; `closes` also ends its terminus."""
        link.detach(closed=closes)
        self.attached.pop(link, None)
        self._addresses.pop(link, None)

    def check(self, link: Link) -> None:
        """Raise LinkFailed if the broker ended this link."""
        ended = self.detached.get(link)
        if ended is not None:
            raise ended

    def fail(self, failure: ConnectionFailed) -> None:
        """End the conversation for the reason given."""
        self.has_news = True
        if self.failure is None:
            self.failure = failure

    # -- called by the engine ----------------------------------------------------------------------------------

    def wake(self) -> None:
        """Report output, and send our open as soon as the headers allow it."""
        self._woken()
        if self.engine.state == State.OPENING and not self._is_open_sent:
            self._is_open_sent = True
            opening = self.engine.our_open(
                self._container_id, desired_capabilities=self._desired, hostname=self._hostname
            )
            self.engine.send_open(opening)

    def on_sasl_header(self) -> None:
        """Do nothing: called on servers only."""

    def on_sasl_init(self, mechanism: str, initial_response: bytes | None, hostname: str | None) -> None:
        """Do nothing: called on servers only."""

    def on_sasl_response(self, data: bytes) -> None:
        """Do nothing: called on servers only."""

    def on_open(self, opening: Open) -> None:
        """Record the broker's open; a broker that refuses us closes right after it."""
        self.has_news = True
        self.is_open = True
        self.offered = opening.offered_capabilities

    def on_begin(self, session: AmqpSession, begin: Begin) -> None:
        """Do nothing: there is nothing to decide."""

    def on_attach(self, link: Link, attach: Attach) -> None:
        """Record the broker's answer; with a null terminus it is about to refuse the link."""
        if (attach.source if link.is_receiver else attach.target) is not None:
            self.has_news = True
            self.attached[link] = attach

    def on_detach(self, link: Link, detach: Detach) -> None:
        """Record that the broker refuses or ends a link."""
        self.has_news = True
        text = reason_of(detach.error, "the broker detached the link")
        self.detached[link] = LinkFailed(text, detach.error, "link refused", self._addresses.pop(link, None))

    def on_end(self, session: AmqpSession, end: End) -> None:
        """Fail: the broker ends the session."""
        self.fail(ConnectionFailed(reason_of(end.error, "the broker ended the session"), end.error, "session ended"))

    def on_close(self, close: Close | None) -> None:
        """Fail: the broker closes."""
        error = None if close is None else close.error
        self.fail(ConnectionFailed(reason_of(error, "the broker closed the connection"), error, "connection closed"))

    def on_error(self, error: AmqpError) -> None:
        """Fail: the broker broke the protocol, or refused the login."""
        self.fail(ConnectionFailed(reason_of(error, "the conversation failed"), error))

    def on_writable(self) -> None:
        """Let links that waited for room in the output send again."""
        if self._session is not None:
            self._session.tell_senders()
