"""Login: credentials, and what becomes of another connection of the same name (openwire §12.1)."""

from typing import TYPE_CHECKING, Final

from artemis_openwire.engine import errors
from artemis_openwire.engine.commands import ConnectionInfo
from artemis_openwire.engine.structure import Throwable
from artemis_py.core.runtime.access import Subject
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
        if info.connection_id is None or not info.connection_id.value:
            self._refuse(errors.STATE, "a connection needs an id")
            return
        if not info.client_id:
            self._refuse(errors.CLIENT_ID, "a connection needs a client id")
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
            self._refuse(errors.RESOURCES, "too many logins at once")
        elif result.outcome is not LoginOutcome.OK or result.subject is None:
            user = self._info.user_name
            self._refuse(errors.SECURITY, "anonymous access is not allowed" if not user else "wrong name or password")
        elif self._make_room(result.subject):
            handler.admitted(result.subject, self._info)
        handler.ask_store()
        handler.wake()

    def _make_room(self, subject: Subject) -> bool:
        """End other connections that this one replaces; False: one of them stays, and the client was refused.

        Neither a client id nor a connection id is a secret, so nobody ends the connection of another user.
        """
        handler, info = self._handler, self._info
        clients = handler.manager.clients
        assert info.connection_id is not None
        assert info.connection_id.value is not None
        assert info.client_id is not None
        predecessor = clients.with_connection_id(info.connection_id.value)
        if predecessor is not None and predecessor is not handler:
            if not predecessor.belongs_to(subject):
                self._refuse(errors.STATE, "the connection id is in use")
                return False
            predecessor.replace("its client has connected again")
        other = clients.with_client_id(info.client_id)
        if other is None or other is handler:
            return True
        may_replace = info.failover_reconnect or handler.parameters.allows_link_stealing
        if not may_replace or not other.belongs_to(subject):
            text = f"client id '{info.client_id}' is in use, by a connection from {other.context.peer}"
            self._refuse(errors.CLIENT_ID, text)
            return False
        other.replace("another connection took over its client id")
        return True

    def _refuse(self, class_name: str, text: str) -> None:
        handler = self._handler
        template = "connection refused: peer=%s user=%s client=%s reason=%s"
        handler.brake.info(
            handler.source, template, handler.context.peer, self._info.user_name, self._info.client_id, text
        )
        handler.engine.refuse(Throwable(class_name, text))
