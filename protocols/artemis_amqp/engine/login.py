"""Protocol headers and SASL, which precede the open of a connection, for both sides (AMQP 1.0 §2.2, §5.3)."""

from typing import TYPE_CHECKING, Final

from artemis_amqp.engine import errors
from artemis_amqp.engine.handlers import ClientLogin
from artemis_amqp.engine.performatives import (
    AmqpError,
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
    frame,
    read_performative,
)
from artemis_amqp.engine.states import AMQP_HEADER, SASL_FRAME, SASL_HEADER, State
from artemis_amqp.engine.types import Symbol

if TYPE_CHECKING:
    from artemis_amqp.engine.connection import AmqpConnection

_SASL_SYS: Final = 2
"""Outcome of a login that failed for another reason than the credentials."""


class LoginPhase:
    """The headers and the login of one connection."""

    def __init__(self, connection: "AmqpConnection") -> None:
        self._connection: AmqpConnection = connection
        self.is_required: bool = False
        """Whether a client must log in: a header that skips SASL is then answered with that of SASL (AMQP 1.0 §2.2)."""
        self.refused_header: bytes = b""
        """The client's header, if it was answered with ours and the end."""
        self._awaits_init: bool = True
        self._awaits_response: bool = False
        """With `_awaits_init`: which SASL frame is due from a client, if any."""
        self._credentials: tuple[str, bytes | None, str | None] | None = None
        self._client: ClientLogin | None = None
        self._hostname: str | None = None

    def start(self, mechanism: str | None, initial_response: bytes | None, hostname: str | None = None) -> None:
        """Client: send the first header; without a mechanism there is no SASL layer."""
        if mechanism is None:
            self._connection.state = State.HEADER
            self._connection.outbox.write(AMQP_HEADER)
        else:
            self._credentials = (mechanism, initial_response, hostname)
            self._connection.outbox.write(SASL_HEADER)

    def start_with(self, login: ClientLogin, hostname: str | None = None) -> None:
        """Client: send the first header; `login` chooses among the mechanisms of the server and answers it."""
        self._client = login
        self._hostname = hostname
        self._connection.outbox.write(SASL_HEADER)

    def offer(self, mechanisms: list[str]) -> None:
        """Server: offer these mechanisms."""
        self._connection.outbox.write(
            frame(
                0,
                SaslMechanisms(sasl_server_mechanisms=tuple([Symbol(mechanism) for mechanism in mechanisms])),
                SASL_FRAME,
            )
        )

    def challenge(self, data: bytes) -> None:
        """Server: send a challenge. After the end of the connection this and the other answers do nothing."""
        if self._connection.outbox.is_closed:
            return
        self._awaits_response = True
        self._connection.outbox.write(frame(0, SaslChallenge(challenge=data), SASL_FRAME))
        self._connection.go_on()

    def finish(self, code: int, data: bytes) -> None:
        """Server: send the outcome of the login; any code but 0 ends the connection."""
        if self._connection.outbox.is_closed:
            return
        self._connection.outbox.write(frame(0, SaslOutcome(code=code, additional_data=data or None), SASL_FRAME))
        if code == 0:
            self._connection.state = State.HEADER
            self._connection.go_on()
        else:
            self._connection.end()

    def receive_header(self, header: bytes) -> None:
        """Process a protocol header (AMQP 1.0 §2.2). One that we do not support is answered with ours, and the end."""
        if self._connection.is_client:
            self._receive_server_header(header)
            return
        if header == SASL_HEADER and self._connection.state == State.START:
            self._connection.outbox.write(SASL_HEADER)
            self._connection.state = State.SASL
            self._connection.handler.on_sasl_header()
        elif header == AMQP_HEADER and (self._connection.state == State.HEADER or not self.is_required):
            self._connection.outbox.write(AMQP_HEADER)
            self._connection.state = State.OPENING
        else:
            self._connection.outbox.write(AMQP_HEADER if self._connection.state == State.HEADER else SASL_HEADER)
            self.refused_header = header
            self._connection.handler.on_close(None)
            self._connection.end()

    def _receive_server_header(self, header: bytes) -> None:
        if self._connection.state == State.START and header == SASL_HEADER:
            self._connection.state = State.SASL
        elif self._connection.state == State.HEADER and header == AMQP_HEADER:
            self._connection.state = State.OPENING
            self._connection.handler.wake()
        else:
            self._connection.handler.on_error(
                AmqpError(errors.NOT_IMPLEMENTED, f"the peer answers with header {header!r}")
            )
            self._connection.end()

    def receive_frame(self, data: bytes, body: int, stop: int) -> None:
        performative, offset = read_performative(data, body, stop)
        if offset != stop:
            self._connection.fail(errors.FRAMING_ERROR, "octets after a SASL frame")
        elif self._connection.is_client:
            self._receive_as_client(performative)
        elif isinstance(performative, SaslInit) and self._awaits_init:
            self._awaits_init = False
            self._connection.waits_for_handler = True
            self._connection.handler.on_sasl_init(
                performative.mechanism, performative.initial_response, performative.hostname
            )
        elif isinstance(performative, SaslResponse) and self._awaits_response:
            self._awaits_response = False
            self._connection.waits_for_handler = True
            self._connection.handler.on_sasl_response(performative.response)
        else:
            self._connection.fail(errors.NOT_ALLOWED, f"no {type(performative).__name__} is due")

    def _receive_as_client(self, performative: object) -> None:
        if isinstance(performative, SaslMechanisms) and self._credentials is not None:
            mechanism, response, hostname = self._credentials
            self._credentials = None
            self._send_init(mechanism, response, hostname)
        elif isinstance(performative, SaslMechanisms) and self._client is not None and self._awaits_init:
            self._awaits_init = False
            offered = performative.sasl_server_mechanisms
            choice = self._client.begin(offered)
            if choice is None:
                self._end_as_client(f"the server offers only {', '.join(offered) or 'nothing'} to log in")
            else:
                self._send_init(choice[0], choice[1], self._hostname)
        elif isinstance(performative, SaslChallenge) and self._client is not None and not self._awaits_init:
            response = self._client.respond(performative.challenge)
            if response is None:
                self._end_as_client("the server breaks the rules of the login")
            else:
                self._connection.outbox.write(frame(0, SaslResponse(response=response), SASL_FRAME))
        elif isinstance(performative, SaslOutcome) and performative.code == 0:
            if self._client is not None and not self._client.complete(performative.additional_data or b""):
                self._end_as_client("the server did not prove that it knows the password")
                return
            self._connection.state = State.HEADER
            self._connection.outbox.write(AMQP_HEADER)
        else:
            self._end_as_client("the login failed")

    def _send_init(self, mechanism: str, response: bytes | None, hostname: str | None) -> None:
        init = SaslInit(mechanism=mechanism, initial_response=response, hostname=hostname)
        self._connection.outbox.write(frame(0, init, SASL_FRAME))

    def _end_as_client(self, text: str) -> None:
        self._connection.handler.on_error(AmqpError(errors.UNAUTHORIZED_ACCESS, text))
        self._connection.end()

    def tell_failure(self) -> None:
        """Server: send the outcome of a login that cannot continue; there is no close before open (AMQP 1.0 §5.3.2)."""
        self._connection.outbox.write(frame(0, SaslOutcome(code=_SASL_SYS), SASL_FRAME))
