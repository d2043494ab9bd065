"""A fourth protocol, written as a package outside of this repository would write it.

Lines of text over the core's sessions; it uses only what `artemis_py.protocol` and the core offer to everybody:

    LINE alice          -> HELLO alice            log in; without a name: anonymously
    SEND address text   -> SENT 1                 or REFUSED and the reason
    TAKE queue count    -> MESSAGE text ...       each acknowledged as it is written
    ECHO text           -> text
    FLOOD count         -> count bytes
    QUIT                -> BYE, and the end

A minute of silence ends the conversation. FAIL raises, which no connection may do: a planted bug.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from attrs import frozen

from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.message import MessageFormat
from artemis_py.core.messages.view import MessageView
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.consumer import ACCEPTED, Consumer, Sink
from artemis_py.core.queues.reference import Reference
from artemis_py.core.runtime.access import Subject
from artemis_py.core.sessions.session import Session
from artemis_py.core.settings.declaration import Kind, Option, option, options_of
from artemis_py.errors import Refusal
from artemis_py.protocol import ConnectionContext, Host, LoginOutcome, LoginResult, ProtocolConnection
from artemis_py.wire.parameters import read_parameters

MAX_LINE_BYTES: Final = 4096
SILENCE_LIMIT_S: Final = 60.0


@frozen(kw_only=True)
class LineParameters:
    """What an acceptor's URL may say about lines."""

    greeting: str = option(Kind.TEXT, "HELLO", "First word of the answer to a login.", name="lineGreeting")


class LineProtocolManager:
    """What the entry point names."""

    name = "LINE"
    formats: Sequence[MessageFormat] = ()
    parameters: Sequence[Option] = options_of(LineParameters)

    def __init__(self, host: Host) -> None:
        self._host = host
        self.opened: list[LineConnection] = []

    websocket_subprotocols: Sequence[str] = ("line",)
    greeting: bytes = b""

    def read_parameters(self, acceptor: str, given: Mapping[str, str]) -> LineParameters:
        return read_parameters(LineParameters, given)

    def start(self) -> None:
        pass

    def matches(self, head: bytes) -> bool | None:
        wanted = b"LINE "
        return True if head.startswith(wanted) else None if wanted.startswith(head) else False

    def connect(self, context: ConnectionContext) -> ProtocolConnection:
        connection = LineConnection(self._host, context)
        self.opened.append(connection)
        return connection


class LineConnection(Sink):
    """One client; also the sink of its consumers."""

    def __init__(self, host: Host, context: ConnectionContext) -> None:
        self.context = context
        self.closed = False
        self.waits_for_answer = False
        """After a goodbye, as AMQP does."""
        self.has_input = False
        self.is_paused = False
        self.lost_count = 0
        self._host = host
        self._session: Session | None = None
        self._consumers: list[Consumer] = []
        self._received = b""
        self._output = bytearray()
        self._heard_at = 0.0

    @property
    def logged_in(self) -> bool:
        return self._session is not None

    def receive_data(self, data: bytes, now: float) -> None:
        self._heard_at = now
        self._received += data
        if not self.has_input:
            self._work()

    def work(self, now: float) -> None:
        self._heard_at = now
        self._work()

    def _work(self) -> None:
        meter = self._host.meter
        self.has_input = False
        while not self.closed and b"\n" in self._received:
            if meter.work >= meter.end:
                self.has_input = True
                return
            meter.work += 1
            line, _, self._received = self._received.partition(b"\n")
            self._obey(line.decode())
        if len(self._received) > MAX_LINE_BYTES:
            self.shutdown("line too long")

    def data_to_send(self) -> bytes:
        data = bytes(self._output)
        self._output.clear()
        return data

    def next_deadline(self) -> float | None:
        return self._heard_at + SILENCE_LIMIT_S

    def handle_deadline(self, now: float) -> None:
        self.shutdown("silence")

    def pause(self) -> None:
        self.is_paused = True
        for consumer in self._consumers:
            consumer.block()

    def resume(self) -> None:
        self.is_paused = False
        for consumer in self._consumers:
            consumer.unblock()

    def shutdown(self, reason: str) -> None:
        self._say(f"BYE {reason}")
        self.closed = not self.waits_for_answer
        self.has_input = False

    def connection_lost(self) -> None:
        self.lost_count += 1
        if self._session is not None:
            self._session.close(failed=not self.closed)

    def deliver(self, reference: Reference) -> None:
        self._say(f"MESSAGE {reference.message.view.body}")
        assert reference.consumer is not None
        reference.consumer.settle(reference, ACCEPTED)
        self.context.wake()

    def drained(self) -> None:
        """This protocol does not drain."""

    def ended(self, reason: str) -> None:
        self._say(f"ENDED {reason}")
        self.context.wake()

    def _say(self, text: str) -> None:
        self._output += text.encode() + b"\n"

    def _obey(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        if self._session is None:
            if word == "LINE":
                self.context.authenticator.login(rest or None, None, self.context, self._logged_in)
            return
        match word:
            case "SEND":
                self._send(self._session, *rest.split(" ", 1))
            case "TAKE":
                self._take(self._session, *rest.split(" "))
            case "ECHO":
                self._say(rest)
            case "FLOOD":
                self._output += b"x" * int(rest)
            case "QUIT":
                self.shutdown("as you wish")
            case "FAIL":
                raise RuntimeError("a planted bug")

    def _logged_in(self, result: LoginResult) -> None:
        if result.outcome is LoginOutcome.OK:
            subject = result.subject or Subject(None)
            self._session = self._host.sessions.open(subject, peer=self.context.peer, protocol="LINE")
            parameters = self.context.parameters
            greeting = parameters.greeting if isinstance(parameters, LineParameters) else "HELLO"
            self._say(f"{greeting} {subject.name}")
        else:
            self.shutdown(result.outcome.value)
        self.context.wake()

    def _send(self, session: Session, address: str, text: str) -> None:
        try:
            producer = session.producer(address, RoutingType.ANYCAST)
            self._say(f"SENT {producer.send(plain_message(address, MessageView(body=text)))}")
        except Refusal as refusal:
            self._say(f"REFUSED {refusal}")

    def _take(self, session: Session, queue: str, count: str) -> None:
        try:
            consumer = session.consume(session.queue_to_consume(queue), self)
        except Refusal as refusal:
            self._say(f"REFUSED {refusal}")
        else:
            self._consumers.append(consumer)
            consumer.grant(int(count))
