"""Management of the connections of clients: operations of the resource `broker`, named as in Artemis."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from artemis_py.core.sessions.session import Session
from artemis_py.errors import InvalidRequest
from artemis_py.management.control import Kind, Operation, Parameter, Row, edit
from artemis_py.peers import address_of

if TYPE_CHECKING:
    from artemis_py.management.broker_control import BrokerControl

REASON: Final = "closed by an administrator"


def _close(control: "BrokerControl", is_meant: Callable[[Session], bool]) -> int:
    """Close connections; return how many. The connection of the request stays, because it waits for the answer."""
    found = [each for each in control.sessions.opened.values() if is_meant(each) and each is not control.session]
    return sum(each.disconnect(REASON) for each in found)


def _close_one(control: "BrokerControl", number: int) -> bool:
    """Close the connection with this number; False if there is none. Raises InvalidRequest for the request's own."""
    if number == control.session.id:
        raise InvalidRequest("this is the connection of the request itself")
    return _close(control, lambda session: session.id == number) > 0


def _close_named(control: "BrokerControl", text: str) -> bool:
    """Close a connection whose number is text, as in Artemis."""
    if not text.isascii() or not text.isdigit():
        raise InvalidRequest("a connection's ID is a number: see listConnections")
    return _close_one(control, int(text))


def _close_of_user(control: "BrokerControl", user: str) -> bool:
    """Close all connections of a user; False if there are none."""
    return _close(control, lambda session: session.subject.user == user) > 0


def _close_from(control: "BrokerControl", host: str) -> bool:
    """Close all connections from a network address, with or without a port; False if there are none."""
    return _close(control, lambda session: host in (session.peer, address_of(session.peer))) > 0


CONNECTION_OPERATIONS: Final[Mapping[str, Row]] = {
    "closeConnectionWithID": edit(
        Operation(_close_one, Parameter("ID", Kind.NUMBER)),
        Operation(_close_named, Parameter("ID", Kind.TEXT)),
    ),
    "closeConnectionsForUser": edit(Operation(_close_of_user, Parameter("userName", Kind.TEXT))),
    "closeConnectionsForAddress": edit(Operation(_close_from, Parameter("ipAddress", Kind.TEXT))),
}
