"""Management of connections to other brokers: a resource for each, and their list."""

import json
from typing import Any

import pytest
from attrs import evolve

from artemis_py.core.runtime.bridging import Bridge, BridgeState
from artemis_py.core.settings.broker_connection_config import BrokerConnectionConfig
from artemis_py.management.endpoint import ManagementEndpoint
from artemis_py.management.metrics.broker_metrics import _connections
from tests.unit.management.world import MANAGEMENT, World


class Connection:
    """One with a sender and a receiver."""

    uri = "tcp://far:5672"
    is_connected = True
    state = "open"
    last_error = ""
    connected_since_ms = 5

    def __init__(self, name: str) -> None:
        self.options = BrokerConnectionConfig(name=name, user="edge", password="geheim", retry_interval_ms=7)
        self.is_started = True
        sender = Bridge("orders", "there", is_sender=True)
        sender.state, sender.passed, sender.pending, sender.refused = BridgeState.OPEN, 3, 2, 1
        sender.reason = "rejected"
        receiver = Bridge("in", "in", is_sender=False)
        receiver.passed = 4
        self.bridges = (sender, receiver)

    def passed(self, is_sender: bool) -> int:
        """With bridges that are gone."""
        return 10 + sum(each.passed for each in self.bridges if each.is_sender == is_sender)

    def start(self) -> None:
        """Make it."""
        self.is_started = True

    def stop(self) -> None:
        """End it."""
        self.is_started = False


def world(*connections: Connection) -> World:
    """A broker with these connections."""
    made = World()
    made.facts = evolve(made.facts, broker_connections=lambda: connections, bridged=lambda sends: 20 if sends else 30)
    made.services.sessions.register_endpoint(MANAGEMENT, ManagementEndpoint(made.services, made.facts))
    return made


def test_a_connection_has_attributes_and_bridges() -> None:
    """Those of Artemis, and what is ours; not the password."""
    asked = world(Connection("c.1"))

    def get(name: str) -> Any:
        return asked.call("brokerconnection.c.1", f"get{name}")

    assert [get(name) for name in ("Name", "Uri", "User", "Protocol", "RetryInterval", "ReconnectAttempts")] == [
        "c.1",
        "tcp://far:5672",
        "edge",
        "AMQP",
        7,
        -1,
    ]
    assert [get(name) for name in ("Connected", "Open", "State", "ConnectedSince", "LastError")] == [
        True,
        True,
        "open",
        5,
        "",
    ]
    assert (get("MessagesForwarded"), get("MessagesReceived")) == (13, 14)
    assert json.loads(get("Bridges"))[0] == {
        "kind": "sender",
        "queue": "orders",
        "remoteAddress": "there",
        "state": "open",
        "messages": 3,
        "pending": 2,
        "refused": 1,
        "lastError": "rejected",
    }


def test_connections_are_listed_started_and_stopped() -> None:
    """By the broker, as in Artemis, and by themselves."""
    one, other = Connection("one"), Connection("other")
    asked = world(one, other)
    asked.call("broker", "stopBrokerConnection", "one")
    asked.call("brokerconnection.other", "stop")

    assert (one.is_started, other.is_started) == (False, False)
    rows = json.loads(asked.call("broker", "listBrokerConnections"))
    assert [(row["name"], row["started"], row["connected"], row["bridgesOpen"]) for row in rows] == [
        ("one", False, True, 1),
        ("other", False, True, 1),
    ]
    assert asked.call("broker", "getBrokerConnectionNames") == ["one", "other"]
    asked.call("broker", "startBrokerConnection", "one")
    asked.call("brokerconnection.other", "start")
    assert (one.is_started, other.is_started) == (True, True)


def test_a_connection_that_does_not_exist_is_refused() -> None:
    """With a name that is similar."""
    asked = world(Connection("central"))

    assert asked.refusal("brokerconnection.centrl", "stop") == (
        "broker connection 'centrl' does not exist; did you mean central?"
    )
    assert asked.refusal("broker", "stopBrokerConnection", "x") == "broker connection 'x' does not exist"
    assert world().call("broker", "getBrokerConnectionNames") == []


@pytest.mark.parametrize(("connections", "expected"), [((), {}), ((Connection("a"),), {"connected": 1})])
def test_metrics_count_connections_and_messages(connections: tuple[Connection, ...], expected: dict[str, int]) -> None:
    """The messages of connections that are gone count on."""
    families = _connections(world(*connections).facts)
    values = {
        family.name: {labels[0][1]: each.value for each in family.samples for labels in [each.labels]}
        for family in families
    }

    assert values["broker_connections"] == {"connected": 0, "away": 0, "stopped": 0} | expected
    assert values["bridge_messages"] == {"out": 20, "in": 30}
