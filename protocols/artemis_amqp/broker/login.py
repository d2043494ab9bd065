"""Login of a client: SASL, open, and what happens to other connections of its container."""

from typing import TYPE_CHECKING, Final

from artemis_amqp.broker import referral, sole
from artemis_amqp.broker.producer_end import DELAYED_DELIVERY
from artemis_amqp.carrier import names
from artemis_amqp.engine import errors, extensions
from artemis_amqp.engine.performatives import AmqpError, Open
from artemis_amqp.engine.types import Symbol
from artemis_py.core.runtime.access import Subject
from artemis_py.core.runtime.carrier import PeerRefused
from artemis_py.core.runtime.referrals import HERE, Route
from artemis_py.errors import Refusal
from artemis_py.protocol import LoginOutcome, LoginResult, SaslExchange

if TYPE_CHECKING:
    from artemis_amqp.broker.handler import AmqpHandler

OFFERED: Final = (
    sole.SOLE_CONNECTION,
    DELAYED_DELIVERY,
    Symbol("SHARED-SUBS"),
    Symbol("ANONYMOUS-RELAY"),
    extensions.STAGE,
    extensions.SEQUENCE_RANGE,
)
_ESTABLISHMENT_FAILED: Final = Symbol("amqp:connection-establishment-failed")
_ANONYMOUS: Final = "ANONYMOUS"
_OPEN_OCTETS: Final = 400
"""Octets of our open besides the brokers that it names, and the name of this one."""

# SASL outcome codes (AMQP 1.0 §5.3.3.6).
_SASL_OK: Final = 0
_SASL_AUTH: Final = 1
_SASL_SYS_TEMP: Final = 4


class Login:
    """The login of one client, from the first header to an open connection."""

    def __init__(self, handler: "AmqpHandler") -> None:
        context = handler.context
        self._handler: Final = handler
        self._engine: Final = handler.engine
        self._context: Final = context
        self.subject: Subject | None = None
        """The subject that logged in; None until then."""
        self._exchange: SaslExchange | None = None
        self._sole_policy: sole.Policy | None = None
        """Policy that the client asked for towards other connections of its container."""
        self.follows = False
        """Whether the client goes where a redirect says."""
        self._engine.login.is_required = _ANONYMOUS not in context.authenticator.mechanisms(context)

    @property
    def user(self) -> str | None:
        """Name of the user; None before the login or for an anonymous client."""
        return None if self.subject is None else self.subject.user

    def offer(self) -> None:
        """Offer the SASL mechanisms to a client that wants to authenticate."""
        self._engine.login.offer(list(self._context.authenticator.mechanisms(self._context)))

    def begin(self, mechanism: str, initial_response: bytes | None) -> None:
        """Begin the exchange of the mechanism that the client chose."""
        self._exchange = self._context.authenticator.begin(mechanism, self._context)
        if self._exchange is None:
            handler = self._handler
            template = "login refused: peer=%s mechanism=%s is not offered"
            handler.brake.info(handler.source, template, self._context.peer, mechanism)
            self._engine.login.finish(_SASL_AUTH, b"")
            return
        self._exchange.respond(initial_response, self._challenge, self._logged_in)

    def respond(self, data: bytes) -> None:
        """Pass the client's answer to a challenge on to the exchange."""
        if self._exchange is not None:
            self._exchange.respond(data, self._challenge, self._logged_in)

    def _challenge(self, data: bytes) -> None:
        if not self._handler.is_over:
            self._engine.login.challenge(data)
            self._handler.wake()

    def _logged_in(self, result: LoginResult) -> None:
        if self._handler.is_over:
            return
        self._exchange = None
        if result.outcome is LoginOutcome.OK:
            self.subject = result.subject
            self._engine.login.finish(_SASL_OK, result.data)
        else:
            code = _SASL_AUTH if result.outcome is LoginOutcome.BAD_CREDENTIALS else _SASL_SYS_TEMP
            self._engine.login.finish(code, b"")
        self._handler.answers.ask_store()
        self._handler.wake()

    def open(self, opening: Open) -> None:
        """Admit or refuse a client that opens; without SASL it needs anonymous access."""
        if self.subject is not None:
            self._admit(opening, self.subject)
            return

        def done(result: LoginResult) -> None:
            if self._handler.is_over:
                return
            if result.outcome is LoginOutcome.OK and result.subject is not None:
                self.subject = result.subject
                self._admit(opening, result.subject)
            else:
                self.refuse(AmqpError(errors.UNAUTHORIZED_ACCESS, "log in with SASL: anonymous access is not allowed"))
            self._handler.answers.ask_store()
            self._handler.wake()

        self._context.authenticator.login(None, None, self._context, done)

    def _admit(self, opening: Open, subject: Subject) -> None:
        """Find out which broker serves a client that has logged in."""
        handler = self._handler
        if names.asks(opening):
            self._admit_peer(opening, subject)
            return
        self.follows = referral.follows(opening)

        def routed(route: Route) -> None:
            if handler.is_over:
                return
            if self._stays(route, subject):
                self._let_in(opening, subject)
            handler.answers.ask_store()
            handler.wake()

        is_operator = extensions.OPERATOR in opening.desired_capabilities
        if handler.host.referrals.is_leaving and is_operator and handler.services.sessions.may_manage(subject):
            # It has something to do at this broker, and no messages.
            routed(HERE)
            return
        handler.host.route(self._context, "AMQP", handler.container_id, subject, routed)

    def _stays(self, route: Route, subject: Subject) -> bool:
        """Tell whether a client is served here; if not, it is told where it is served, or why nowhere."""
        if not route.others and not route.refusal:
            return True
        handler = self._handler
        where = route.others[0].endpoint if route.others else route.refusal
        template = "connection routed: peer=%s user=%s container=%s to=%s"
        handler.brake.info(handler.source, template, self._context.peer, subject.name, handler.container_id, where)
        if route.others:
            self.refuse(referral.redirect(route.others))
        else:
            self.refuse(AmqpError(errors.CONNECTION_FORCED, route.refusal))
        return False

    def _let_in(self, opening: Open, subject: Subject) -> None:
        """Open our side, unless the container may have only one connection and already has one."""
        handler = self._handler
        try:
            # Before another connection ends in favour of this one.
            handler.services.sessions.check_entry(subject, extensions.OPERATOR in opening.desired_capabilities)
        except Refusal as refusal:
            template = "connection refused: peer=%s user=%s container=%s reason=%s"
            handler.brake.info(
                handler.source, template, self._context.peer, subject.name, handler.container_id, refusal
            )
            self.refuse(errors.to_amqp(refusal))
            return
        others = handler.manager.connections_of(handler.container_id, handler)
        self._sole_policy = sole.wanted(opening)
        policy = sole.in_force(self._sole_policy, [other.login._sole_policy for other in others])
        if any(other.login.user != subject.user for other in others) and policy is not None:
            # A container-id is no secret: a client must not close the connections of another user with it.
            policy = sole.Policy.REFUSE
        if others and policy is sole.Policy.REFUSE:
            self.refuse(sole.taken(handler.container_id))
            return
        if policy is sole.Policy.CLOSE_EXISTING:
            for other in others:
                other.end(sole.taken_over())
        handler.admitted(subject, extensions.OPERATOR in opening.desired_capabilities)
        room = self._engine.peer_max_frame_size - _OPEN_OCTETS - len(handler.host.options.name.encode())
        brokers = referral.server_list(handler.alternatives(), room)
        self._engine.send_open(self._our_open(sole.answer(self._sole_policy) | brokers))
        template = "connection opened: peer=%s user=%s container=%s"
        handler.brake.info(handler.source, template, self._context.peer, subject.name, handler.container_id)

    def _admit_peer(self, opening: Open, subject: Subject) -> None:
        """Open our side to another broker, if the mesh lets it in (mesh §5.2)."""
        handler = self._handler
        mesh = handler.host.mesh
        if mesh is None:
            self.refuse(AmqpError(errors.NOT_IMPLEMENTED, "this broker belongs to no mesh"))
            return
        try:
            hello = names.hello_of(opening)
            welcome = mesh.welcome(hello, subject)
            properties = names.properties_of(welcome.hello)
        except PeerRefused as refusal:
            template = "broker refused: peer=%s user=%s container=%s reason=%s"
            handler.brake.warning(
                handler.source, template, self._context.peer, subject.name, handler.container_id, refusal
            )
            self.refuse(AmqpError(errors.RESOURCE_LOCKED if refusal.is_duplicate else errors.NOT_ALLOWED, str(refusal)))
            return
        peer = handler.carry(welcome.listener, welcome.limits)
        self._engine.send_open(self._our_open(properties, (*OFFERED, names.MESH)))
        peer.open(hello)

    def refuse(self, error: AmqpError) -> None:
        """Refuse a connection: open first, then close (amqp10 §5.1)."""
        self._engine.send_open(self._our_open({_ESTABLISHMENT_FAILED: True}))
        self._engine.close(error)

    def _our_open(self, extra: dict[Symbol, object], offered: tuple[Symbol, ...] = OFFERED) -> Open:
        properties: dict[Symbol, object] = {
            Symbol("product"): "artemis_py",
            Symbol("version"): self._handler.manager.version,
        }
        return self._engine.our_open(self._handler.host.options.name, offered, properties | extra)
