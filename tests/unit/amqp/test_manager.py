"""What an acceptor's parameters and its surroundings make of a connection's limits (artemis-model §4.1.1)."""

import pytest

from artemis_amqp.broker.manager import Parameters
from artemis_py.protocol import ConnectionContext
from artemis_py.security.authenticator import OpenAuthenticator
from artemis_py.wire.parameters import read_parameters


def context(idle_timeout_override_ms: int | None) -> ConnectionContext:
    """A connection of this machine."""
    return ConnectionContext(
        connection_id=1,
        peer="127.0.0.1:5000",
        is_loopback=True,
        authenticator=OpenAuthenticator(),
        wake=lambda: None,
        idle_timeout_override_ms=idle_timeout_override_ms,
    )


@pytest.mark.parametrize(
    ("parameters", "override_ms", "expected_s"),
    [
        ({}, None, 60.0),
        ({"amqpIdleTimeout": "5000"}, None, 5.0),
        ({"amqpIdleTimeout": "5000"}, 700, 0.7),
        ({"amqpIdleTimeout": "0"}, 700, 0.7),
        ({"amqpIdleTimeout": "5000"}, 0, 0.0),
    ],
)
def test_idle_timeout_of_the_broker_wins_over_the_acceptors(
    parameters: dict[str, str], override_ms: int | None, expected_s: float
) -> None:
    """artemis-model §6.4 `connection-ttl-override`; 0 means never."""
    limits = read_parameters(Parameters, parameters).limits(context(override_ms))

    assert limits.idle_timeout_s == expected_s
