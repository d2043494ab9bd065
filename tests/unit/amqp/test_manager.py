"""What an acceptor's parameters and its surroundings make of a connection's limits (artemis-model §4.1.1)."""

import pytest

from artemis_amqp.broker.manager import Parameters
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.protocol import ConnectionContext
from artemis_py.security.authenticator import OpenAuthenticator
from artemis_py.wire.parameters import read_parameters
from tests.amqp_broker import Broker
from tests.core_harness import make_domain, make_queue, make_services


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


def test_a_connection_is_in_the_domain_of_the_host_that_it_opens() -> None:
    """AMQP 1.0 §2.7.1, hostname: a namespace of its own, and the default one for hosts without one."""
    broker = Broker()
    broker.queue()
    blue = make_domain(beside=broker.domain)
    make_queue(blue, "q", RoutingType.ANYCAST)
    broker.host.domains.add("blue.example", make_services(blue))

    for host in ("Blue.example", "red.example", None):
        peer = broker.connect(hostname=host)
        peer.send()
        peer.say(peer.transfer(b"m"))

    assert blue.queue("q").message_count == 1
    assert broker.count() == 2
