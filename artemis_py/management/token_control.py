"""Management of the tokens of programs: operations of the resource `broker` in the default host; the names are ours.

A user makes tokens for himself: they have his roles, and nobody gets the rights of another one by making a token.
Whoever may manage the broker may revoke any token.
"""

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from attrs import frozen

from artemis_py.errors import InvalidRequest
from artemis_py.management.control import Kind, Operation, Parameter, Row, edit, proposal
from artemis_py.security.tokens import DEFAULT_DAYS, Scope, Token, Tokens, without_secrets

if TYPE_CHECKING:
    from artemis_py.management.broker_control import BrokerControl

CREATE: Final = "createToken"

_MEMBERS: Final = ("name", "scope", "days")
_SCOPES: Final = {scope.value: scope for scope in Scope}


@frozen
class Listed:
    """A token at the time of a list."""

    token: Token
    now_ms: int


TOKEN_COLUMNS: Final[Mapping[str, Callable[[Listed], object]]] = {
    "id": lambda listed: listed.token.id,
    "name": lambda listed: listed.token.name,
    "owner": lambda listed: listed.token.owner,
    "scope": lambda listed: listed.token.scope.value,
    "creationTime": lambda listed: listed.token.created_ms,
    "expirationTime": lambda listed: listed.token.ends_ms,
    "expired": lambda listed: listed.now_ms >= listed.token.ends_ms,
    "lastUsedTime": lambda listed: listed.token.used_ms,
}
"""Columns of `listTokens`; the last use is 0 for a token that was never used."""


def all_tokens(control: "BrokerControl") -> list[Listed]:
    """Return all tokens, without their secrets. Raises InvalidRequest."""
    now_ms = control.domain.dispatcher.now_ms
    return [Listed(token, now_ms) for token in _tokens(control)]


def create(control: "BrokerControl", wanted: Mapping[str, object]) -> str:
    """Make a token for the user who asks; the answer is the only one that ever has its secret."""
    tokens = _tokens(control)
    owner = control.session.subject.user
    if owner is None:
        raise InvalidRequest("a token belongs to a user: log in with a name and a password, or a certificate")
    for member in wanted:
        if member not in _MEMBERS:
            text = f"member {member[:200]!r} is unknown{proposal(member, _MEMBERS)}; known: {', '.join(_MEMBERS)}"
            raise InvalidRequest(text)
    name, days = wanted.get("name"), wanted.get("days", DEFAULT_DAYS)
    if not isinstance(name, str):
        raise InvalidRequest("a text is needed for 'name'")
    if not isinstance(days, int) or isinstance(days, bool):
        raise InvalidRequest("'days' must be a whole number")
    token, text = tokens.create(owner, name, _scope(wanted.get("scope", Scope.ALL.value)), days)
    shown = {column: value(Listed(token, token.created_ms)) for column, value in TOKEN_COLUMNS.items()}
    return json.dumps({"token": text, "durable": tokens.is_durable, **shown}, ensure_ascii=False)


def revoke(control: "BrokerControl", id: str) -> bool:
    """End a token for good; False if there is none of this id."""
    return _tokens(control).revoke(id)


def _scope(value: object) -> Scope:
    scope = _SCOPES.get(value) if isinstance(value, str) else None
    if scope is None:
        near = proposal(value, _SCOPES) if isinstance(value, str) else ""
        given = without_secrets(json.dumps(value, ensure_ascii=False))[:200]
        raise InvalidRequest(f"'scope' is one of {', '.join(_SCOPES)}, not {given}{near}")
    return scope


def _tokens(control: "BrokerControl") -> Tokens:
    if control.hosts is None or control.facts.tokens is None:
        raise InvalidRequest("tokens are managed in the default host; connect without naming another one")
    return control.facts.tokens


TOKEN_OPERATIONS: Final[Mapping[str, Row]] = {
    CREATE: edit(Operation(create, Parameter("token", Kind.OBJECT))),
    "revokeToken": edit(Operation(revoke, Parameter("id", Kind.TEXT))),
}
"""Operations of the resource `broker`."""
