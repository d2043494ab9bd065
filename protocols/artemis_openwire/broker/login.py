"""Login: credentials, and what becomes of another connection of the same name (openwire §12.1)."""

from functools import partial
from typing import TYPE_CHECKING, Final

from artemis_openwire.broker.referral import redirecting_control
from artemis_openwire.engine import errors
from artemis_openwire.engine.commands import ConnectionInfo
from artemis_openwire.engine.structure import Throwable
from artemis_py.core.runtime.access import Subject
from artemis_py.core.runtime.referrals import Route
from artemis_py.errors import Refusal
from artemis_py.protocol import LoginOutcome, LoginResult

if TYPE_CHECKING:
    from artemis_openwire.broker.handler import ClientHandler

_EXTERNAL: Final = "EXTERNAL"


class Login:
    """The login of one client."""

    def __init__(self, handler: "ClientHandler", info: ConnectionInfo) -> None:
        self._handler: Final = handler
        self._info: Final = info

    def begin(self) -> None:
        """Check the names and the credentials."""
        handler, info = self._handler, self._info
        if handler.no_host is not None:
            self._refuse(errors.throwable_of(handler.no_host))
            return
        if info.connection_id is None or not info.connection_id.value:
            self._refuse(Throwable(errors.STATE, "a connection needs an id"))
            return
        if not info.client_id:
            self._refuse(Throwable(errors.CLIENT_ID, "a connection needs a client id"))
            return
        authenticator, context = handler.context.authenticator, handler.context
        user = info.user_name or None
        if user is None and _EXTERNAL in authenticator.mechanisms(context):
            exchange = authenticator.begin(_EXTERNAL, context)
            if exchange is not None:
                exchange.respond(b"", lambda challenge: None, self._checked)
                return
        authenticator.login(user, info.password, context, self._checked)

    def _checked(self, result: LoginResult) -> None:
        """Let the client in, or refuse it."""
        handler = self._handler
        if handler.is_over():
            return
        if result.outcome is LoginOutcome.BUSY:
            self._refuse(Throwable(errors.RESOURCES, "too many logins at once"))
        elif result.outcome is not LoginOutcome.OK or result.subject is None:
            user = self._info.user_name
            text = "anonymous access is not allowed" if not user else "wrong name or password"
            self._refuse(Throwable(errors.SECURITY, text))
        else:
            client_id = self._info.client_id or ""
            handler.host.route(
                handler.context, "OPENWIRE", client_id, result.subject, partial(self._routed, result.subject)
            )
        handler.ask_store()
        handler.wake()

    def _routed(self, subject: Subject, route: Route) -> None:
        """Let a client in that is served here; tell another one where, or why nowhere."""
        handler, info = self._handler, self._info
        if handler.is_over():
            return
        if not route.others and not route.refusal:
            self._enter(subject)
        elif route.others and handler.follows(info):
            template = "connection routed: peer=%s user=%s client=%s to=%s"
            to = route.others[0].endpoint
            handler.brake.info(handler.source, template, handler.context.peer, subject.name, info.client_id, to)
            handler.engine.redirect(redirecting_control(route.others))
        elif route.others:
            text = f"another broker serves this client: {route.others[0].endpoint} (failover: follows this)"
            self._refuse(Throwable(errors.IO, text))
        else:
            self._refuse(Throwable(errors.IO, route.refusal))
        handler.ask_store()
        handler.wake()

    def _enter(self, subject: Subject) -> None:
        """Let the client in as soon as its names are free, unless they belong to somebody else."""
        handler, info = self._handler, self._info
        assert info.connection_id is not None
        assert info.connection_id.value is not None
        assert info.client_id is not None
        clients = handler.manager.clients
        predecessor = clients.with_connection_id(info.connection_id.value)
        other = clients.with_client_id(info.client_id)
        earlier = predecessor or other
        replaced = None if earlier is None or earlier.exchange is None else earlier.exchange.core
        try:
            handler.services.sessions.check_entry(subject, replaced=replaced)
        except Refusal as refusal:
            # Before another connection ends in favour of this one.
            self._refuse(errors.throwable_of(refusal))
            return
        if predecessor is not None:
            self._take_over(predecessor, subject, Throwable(errors.STATE, "the connection id is in use"), True)
            return
        if other is not None:
            text = f"client id '{info.client_id}' is in use, by a connection from {other.context.peer}"
            may_replace = info.failover_reconnect or handler.parameters.allows_link_stealing
            self._take_over(other, subject, Throwable(errors.CLIENT_ID, text), may_replace)
            return
        try:
            handler.admitted(subject, info)
        except Refusal as refusal:
            self._refuse(errors.throwable_of(refusal))

    def _take_over(self, other: "ClientHandler", subject: Subject, refusal: Throwable, may_replace: bool) -> None:
        """Wait for the end of a connection with one of our names, which is replaced if that is allowed.

        Neither a client id nor a connection id is a secret, so nobody ends the connection of another user.
        """
        if other.is_leaving:
            other.when_left(partial(self._again, subject))
        elif may_replace and other.belongs_to(subject):
            other.replace("its client has connected again", partial(self._again, subject))
        else:
            self._refuse(refusal)

    def _again(self, subject: Subject) -> None:
        """Try again: somebody else may have been faster."""
        handler = self._handler
        if not handler.is_over():
            self._enter(subject)
            handler.ask_store()
            handler.wake()

    def _refuse(self, reason: Throwable) -> None:
        handler, info = self._handler, self._info
        template = "connection refused: peer=%s user=%s client=%s reason=%s"
        handler.brake.info(
            handler.source, template, handler.context.peer, info.user_name, info.client_id, reason.message
        )
        handler.engine.refuse(reason)
