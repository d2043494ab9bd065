"""Management of connections to other brokers: the resource `brokerconnection.<name>`, and their list.

The names are those of Artemis where it has them; what is said of single senders and receivers is not in Artemis.
"""

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, ClassVar, Final

from artemis_py.core.runtime.bridging import Bridge
from artemis_py.management.control import Control, Kind, NoSuchResource, Operation, Parameter, Row, edit, view
from artemis_py.management.facts import BrokerConnectionFacts

if TYPE_CHECKING:
    from artemis_py.management.broker_control import BrokerControl

PROTOCOL: Final = "AMQP"
KIND: Final = "brokerconnection"
"""Kind of the resource, which comes before its name."""

BRIDGE_MEMBERS: Final[Mapping[str, Callable[[Bridge], object]]] = {
    "kind": lambda bridge: bridge.kind,
    "queue": lambda bridge: bridge.queue,
    "remoteAddress": lambda bridge: bridge.remote,
    "state": lambda bridge: bridge.state.value,
    "messages": lambda bridge: bridge.passed,
    "pending": lambda bridge: bridge.pending,
    "refused": lambda bridge: bridge.refused,
    "lastError": lambda bridge: bridge.reason,
}
"""What is said of a sender or receiver."""

CONNECTION_MEMBERS: Final[Mapping[str, Callable[[BrokerConnectionFacts], object]]] = {
    "name": lambda facts: facts.options.name,
    "protocol": lambda facts: PROTOCOL,
    "uri": lambda facts: facts.uri,
    "started": lambda facts: facts.is_started,
    "connected": lambda facts: facts.is_connected,
    "state": lambda facts: facts.state,
    "connectedSince": lambda facts: facts.connected_since_ms,
    "lastError": lambda facts: facts.last_error,
    "bridges": lambda facts: len(facts.bridges),
    "bridgesOpen": lambda facts: sum(bridge.state.value == "open" for bridge in facts.bridges),
    "messagesForwarded": lambda facts: facts.passed(True),
    "messagesReceived": lambda facts: facts.passed(False),
}
"""What is said of a connection in lists: the columns of `listBrokerConnections`."""


class BrokerConnectionControl(Control):
    """One connection."""

    def __init__(self, facts: BrokerConnectionFacts) -> None:
        super().__init__(f"brokerconnection.{facts.options.name}")
        self.facts = facts

    def bridges(self) -> str:
        """Return the senders and receivers in JSON text."""
        rows = [{name: value(bridge) for name, value in BRIDGE_MEMBERS.items()} for bridge in self.facts.bridges]
        return json.dumps(rows, ensure_ascii=False)

    attributes: ClassVar[Mapping[str, Callable[["BrokerConnectionControl"], object]]] = {
        "Name": lambda control: control.facts.options.name,
        "Uri": lambda control: control.facts.uri,
        "User": lambda control: control.facts.options.user,
        "Protocol": lambda control: PROTOCOL,
        "RetryInterval": lambda control: control.facts.options.retry_interval_ms,
        "ReconnectAttempts": lambda control: control.facts.options.reconnect_attempts,
        "Open": lambda control: control.facts.is_started,
        "Connected": lambda control: control.facts.is_connected,
        "State": lambda control: control.facts.state,
        "ConnectedSince": lambda control: control.facts.connected_since_ms,
        "LastError": lambda control: control.facts.last_error,
        "MessagesForwarded": lambda control: control.facts.passed(True),
        "MessagesReceived": lambda control: control.facts.passed(False),
        "Bridges": bridges,
    }

    operations: ClassVar[Mapping[str, Row]] = {
        "start": edit(Operation(lambda control: control.facts.start())),
        "stop": edit(Operation(lambda control: control.facts.stop())),
    }


def connection_names(control: "BrokerControl") -> list[str]:
    """Return the names of the connections to other brokers."""
    return control.seen_names(KIND, [each.options.name for each in control.facts.broker_connections()])


def find_connection(control: "BrokerControl", name: str) -> BrokerConnectionControl:
    """Return the resource of a connection. Raises NoSuchResource if there is none of this name."""
    for each in control.facts.broker_connections():
        if each.options.name == name:
            return BrokerConnectionControl(each)
    raise no_such_connection(control, name)


def no_such_connection(control: "BrokerControl", name: str) -> NoSuchResource:
    """Return the refusal of a connection that does not exist; it proposes similar names."""
    near = control.proposed(KIND, name, [each.options.name for each in control.facts.broker_connections()])
    return NoSuchResource(f"broker connection {name!r} does not exist{near}")


def _list(control: "BrokerControl") -> str:
    """Return the connections in JSON text."""
    names = frozenset(connection_names(control))
    rows = [
        {name: value(each) for name, value in CONNECTION_MEMBERS.items()}
        for each in control.facts.broker_connections()
        if each.options.name in names
    ]
    return json.dumps(rows, ensure_ascii=False)


NAME: Final = Parameter("name", Kind.TEXT)

CONNECTION_OPERATIONS: Final[Mapping[str, Row]] = {
    "listBrokerConnections": view(Operation(_list)),
    "startBrokerConnection": edit(Operation(lambda control, name: find_connection(control, name).facts.start(), NAME)),
    "stopBrokerConnection": edit(Operation(lambda control, name: find_connection(control, name).facts.stop(), NAME)),
}
"""Operations of the broker."""
