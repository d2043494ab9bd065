"""Logins with tokens: a right one is let in at once, a wrong one counts as any login that failed."""

from collections.abc import Callable
from typing import Final

from attrs import frozen

from artemis_py.core.runtime.access import Subject
from artemis_py.protocol import LoginOutcome, LoginResult
from artemis_py.security.logins import Attempt, LoginService
from artemis_py.security.tokens import Token, Tokens, WrongToken

BEARER: Final = "bearer"
"""Name in the log of a login with a token."""


@frozen
class TokenLogin:
    """Result of a login with a token."""

    result: LoginResult
    token: Token | None = None
    """The token, if it was right."""


class TokenLogins:
    """Logs programs in with tokens."""

    def __init__(
        self, tokens: Tokens, logins: LoginService | None, enter: Callable[[], object], plan: Callable[[], None]
    ) -> None:
        """Create it; `logins` is None without `security-enabled`, where users are whoever they say they are.

        `enter` and `plan` are those of the broker's turn: tokens need the time, and the store is told of their use.
        """
        self._tokens: Final = tokens
        self._logins: Final = logins
        self._enter: Final = enter
        self._plan: Final = plan

    @property
    def is_ready(self) -> bool:
        """Whether a token that is not known is wrong: before, the store has not been read."""
        return self._tokens.is_restored

    def login(self, text: str, peer: str, done: Callable[[TokenLogin], None]) -> None:
        """Check a token; `done` is called before this returns, or later if the address of the peer guesses."""
        self._enter()
        found, logins = self._tokens.check(text), self._logins
        if isinstance(found, Token) and logins is not None and not logins.users.exists(found.owner):
            found = WrongToken(found.owner, f"the owner of token {found.id} was removed")
        if isinstance(found, Token):
            token = found
            self._tokens.note_use(token)
            self._plan()
            if logins is None:
                return done(TokenLogin(LoginResult(LoginOutcome.OK, Subject(token.owner)), token))
            return logins.succeed(logins.users.subject(token.owner), lambda result: done(TokenLogin(result, token)))
        if logins is None:
            return done(TokenLogin(LoginResult(LoginOutcome.BAD_CREDENTIALS)))
        return logins.refuse(Attempt(found.owner, peer, BEARER), found.reason, lambda result: done(TokenLogin(result)))
