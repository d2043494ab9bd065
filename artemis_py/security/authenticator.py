"""The logins that an acceptor offers to a peer; fulfils `protocol.Authenticator`."""

import base64
import secrets
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final

from artemis_py.core.runtime.access import Subject
from artemis_py.logs import named_logger
from artemis_py.protocol import ConnectionContext, LoginOutcome, LoginResult, SaslExchange
from artemis_py.security.logins import Attempt, LoginService
from artemis_py.security.passwords import SCRAM_NAME
from artemis_py.security.sasl import (
    ANONYMOUS,
    EXTERNAL,
    PLAIN,
    AnonymousExchange,
    ExternalExchange,
    PlainExchange,
    ScramExchange,
)

LOGGER: Final = named_logger(__name__)

MECHANISMS: Final = (EXTERNAL, SCRAM_NAME, PLAIN, ANONYMOUS)
"""All implemented mechanisms, strongest first."""

PASSWORD_LOGIN: Final = "password"
"""Name in the log of a login without SASL."""


class AnonymousAccess(Enum):
    """Places from which clients may log in without a name and password."""

    LOOPBACK = "LOOPBACK"
    EVERYWHERE = "EVERYWHERE"
    NOWHERE = "NOWHERE"


def make_nonce() -> str:
    """Return 144 random bits in the form that SCRAM requires: printable and without a comma."""
    return base64.b64encode(secrets.token_bytes(18)).decode("ascii")


class AcceptorAuthenticator:
    """Logs users in with a mechanism that the acceptor offers and that is safe enough for their connection."""

    def __init__(
        self,
        logins: LoginService,
        mechanisms: Sequence[str],
        anonymous_access: AnonymousAccess = AnonymousAccess.LOOPBACK,
        anonymous_roles: frozenset[str] = frozenset(),
        nonce: Callable[[], str] = make_nonce,
    ) -> None:
        """Create it; `mechanisms` are those of the acceptor's configuration, in any order."""
        self._logins = logins
        self._mechanisms = tuple(name for name in MECHANISMS if name in mechanisms)
        self._anonymous_access = anonymous_access
        self._anonymous = Subject(None, anonymous_roles)
        self._nonce = nonce
        self._has_warned = False

    def mechanisms(self, context: ConnectionContext) -> Sequence[str]:
        """Return the mechanisms, strongest first. As in Artemis, PLAIN needs no TLS, but logs a warning without it."""
        offered = [name for name in self._mechanisms if self._is_offered(name, context)]
        if PLAIN in offered:
            self._warn(context)
        return offered

    def begin(self, mechanism: str, context: ConnectionContext) -> SaslExchange | None:
        if mechanism not in self._mechanisms or not self._is_offered(mechanism, context):
            return None
        match mechanism:
            case "ANONYMOUS":
                return AnonymousExchange(self._anonymous)
            case "PLAIN":
                return PlainExchange(self._logins, context.peer)
            case "EXTERNAL":
                return ExternalExchange(self._logins, context.peer, context.certificate_subject or "")
            case _:
                return ScramExchange(self._logins, context.peer, self._nonce)

    def login(
        self, user: str | None, password: str | None, context: ConnectionContext, done: Callable[[LoginResult], None]
    ) -> None:
        """Check a login without SASL; a name without a password is a wrong password.

        A client without a name needs ANONYMOUS, and one with a name needs PLAIN, among the mechanisms offered.
        """
        attempt = Attempt(user, context.peer, PASSWORD_LOGIN)
        if user is None:
            if ANONYMOUS in self._mechanisms and self._is_offered(ANONYMOUS, context):
                done(LoginResult(LoginOutcome.OK, self._anonymous))
            else:
                self._logins.fail(attempt, "anonymous clients are not admitted from this address", done)
        elif PLAIN not in self._mechanisms:
            self._logins.fail(attempt, "PLAIN is not offered by this acceptor", done)
        else:
            self._warn(context)
            self._logins.check_password(attempt, password or "", done)

    def _is_offered(self, mechanism: str, context: ConnectionContext) -> bool:
        if mechanism == ANONYMOUS:
            if self._anonymous_access is AnonymousAccess.LOOPBACK:
                return context.is_loopback
            return self._anonymous_access is AnonymousAccess.EVERYWHERE
        if mechanism == EXTERNAL:
            return context.is_encrypted and bool(context.certificate_subject)
        return True

    def _warn(self, context: ConnectionContext) -> None:
        """Warn of passwords in clear text, once per acceptor."""
        if self._has_warned or context.is_encrypted or context.is_loopback:
            return
        self._has_warned = True
        LOGGER.warning("passwords cross the network in clear text: peer=%s; use TLS (docs/security.md)", context.peer)


class OpenAuthenticator:
    """Authenticator for `security-enabled=false`: accepts every name without checking its password."""

    def mechanisms(self, context: ConnectionContext) -> Sequence[str]:
        return PLAIN, ANONYMOUS

    def begin(self, mechanism: str, context: ConnectionContext) -> SaslExchange | None:
        match mechanism:
            case "ANONYMOUS":
                return AnonymousExchange(Subject(None))
            case "PLAIN":
                return _TrustingExchange()
            case _:
                return None

    def login(
        self, user: str | None, password: str | None, context: ConnectionContext, done: Callable[[LoginResult], None]
    ) -> None:
        done(LoginResult(LoginOutcome.OK, Subject(user)))


class _TrustingExchange:
    """PLAIN without a check of the password."""

    def respond(
        self, data: bytes | None, challenge: Callable[[bytes], None], done: Callable[[LoginResult], None]
    ) -> None:
        if data is None:
            return challenge(b"")
        parts = data.decode("utf-8", "replace").split("\0")
        user = parts[1] if len(parts) == 3 else ""
        return done(LoginResult(LoginOutcome.OK, Subject(user or None)))
