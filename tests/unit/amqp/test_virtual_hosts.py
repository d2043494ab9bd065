"""AMQP connections in virtual hosts: how they are chosen, what they keep apart, and how they end."""

from typing import Any

import pytest

from artemis_amqp.broker.sole import SOLE_CONNECTION
from artemis_amqp.engine.performatives import AmqpError, Attach, Close, Detach, Open, SaslInit, Source
from artemis_amqp.engine.performatives import frame as framed
from artemis_amqp.engine.states import AMQP_HEADER, SASL_HEADER
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.routing.domain import Domain
from artemis_py.core.settings.virtual_host_config import VirtualHostConfig
from artemis_py.protocol import ConnectionContext
from artemis_py.security.authenticator import OpenAuthenticator
from tests.amqp_broker import Broker, Peer, only
from tests.amqp_harness import read_frames
from tests.core_harness import make_queue, settle_down


def host(broker: Broker, name: str = "red", **options: object) -> Domain:
    """The domain of a new virtual host, with a queue "q"."""
    hosts = broker.host.hosts
    assert hosts is not None
    domain = hosts.create(VirtualHostConfig(name=name, **options)).services.sessions.domain  # type: ignore[arg-type]
    make_queue(domain, "q", RoutingType.ANYCAST)
    return domain


def refusal(peer_or_frames: Any) -> AmqpError:
    """The error that a connection ended with."""
    frames = peer_or_frames.greeting if isinstance(peer_or_frames, Peer) else peer_or_frames
    (close,) = [each for _, each, _ in frames if isinstance(each, Close)]
    assert close.error is not None
    error: AmqpError = close.error
    return error


def open_on(broker: Broker, acceptor_host: str, sasl_hostname: str | None, hostname: str | None) -> list[Any]:
    """What the broker answers to a connection to an acceptor with a virtual host."""
    context = ConnectionContext(
        connection_id=1,
        peer="p",
        is_loopback=True,
        authenticator=OpenAuthenticator(),
        virtual_host=acceptor_host,
        wake=lambda: None,
    )
    connection = broker.manager.connect(context)
    init = SaslInit(mechanism="PLAIN", initial_response=b"\0u\0p", hostname=sasl_hostname)
    opening = framed(0, Open(container_id="c", hostname=hostname))
    connection.receive_data(SASL_HEADER + framed(0, init, 1), 0.0)
    connection.data_to_send()
    connection.receive_data(AMQP_HEADER + opening, 0.0)
    settle_down(broker.domain)
    return [connection, *read_frames(connection.data_to_send())]


@pytest.mark.parametrize("hostname", ["red", "RED", "red.example", "vhost:red"])
def test_open_hostname_chooses_the_host(hostname: str) -> None:
    """By its name, another name of it, and as RabbitMQ's clients write it."""
    broker = Broker()
    broker.queue()
    red = host(broker, hostnames=("red.example",))

    peer = broker.connect(hostname=hostname)
    peer.send()
    peer.say(peer.transfer(b"m"))

    assert (red.queue("q").message_count, broker.count()) == (1, 0)


@pytest.mark.parametrize("hostname", ["other.example", "vhost:/", "vhost:default", None])
def test_the_default_host_is_for_everybody_else(hostname: str | None) -> None:
    """The name of a machine is not that of a virtual host."""
    broker = Broker()
    broker.queue()
    red = host(broker)

    peer = broker.connect(hostname=hostname)
    peer.send()
    peer.say(peer.transfer(b"m"))

    assert (red.queue("q").message_count, broker.count()) == (0, 1)


def test_a_virtual_host_that_does_not_exist_is_not_found() -> None:
    """A client that says that it means a virtual host is not let into another one."""
    broker = Broker()

    error = refusal(broker.connect(hostname="vhost:blue"))

    assert error.condition == "amqp:not-found"
    assert "blue" in (error.description or "")


@pytest.mark.parametrize(
    ("acceptor_host", "sasl_hostname", "hostname", "expected"),
    [
        ("red", None, None, "red"),
        ("red", None, "machine.example", "red"),
        ("red", None, "blue", "blue"),
        ("red", "blue", None, "blue"),
        ("", "red", None, "red"),
        ("", "red", "blue", "blue"),
        ("", "red", "machine.example", None),
        ("", None, None, None),
    ],
)
def test_who_decides(acceptor_host: str, sasl_hostname: str | None, hostname: str | None, expected: str | None) -> None:
    """The open, else the login, else the acceptor."""
    broker = Broker()
    domains = {"red": host(broker), "blue": host(broker, "blue"), None: broker.domain}

    connection, *_ = open_on(broker, acceptor_host, sasl_hostname, hostname)

    assert connection.core_session.domain is domains[expected]


def test_an_acceptor_of_a_missing_host_refuses() -> None:
    """It was deleted, or is not created yet: its clients do not land somewhere else."""
    broker = Broker()

    _, *frames = open_on(broker, "red", None, None)

    assert refusal(frames).condition == "amqp:not-found"


def test_links_of_the_same_name_in_two_hosts_have_nothing_in_common() -> None:
    """Container, name and direction identify a link within a host."""
    broker = Broker()
    broker.queue()
    host(broker)
    first = broker.connect("c")
    first.receive(name="link")

    second = broker.connect("c", hostname="red")
    answer = second.receive(name="link")

    assert only(answer, Attach).source is not None
    assert [each for _, each, _ in first.hear() if isinstance(each, Detach)] == []


def test_a_link_is_still_stolen_within_a_host() -> None:
    """The same container and name in one virtual host is one link."""
    broker = Broker()
    host(broker)
    first = broker.connect("c", hostname="red")
    first.receive(name="link")

    broker.connect("c", hostname="vhost:red").receive(name="link")

    detach = only(first.hear(), Detach)
    assert detach.error.condition == "amqp:link:stolen"


def test_sole_connections_count_within_a_host() -> None:
    """A container may have a sole connection in each host."""
    broker = Broker()
    host(broker)
    asked: dict[str, Any] = {"desired_capabilities": (SOLE_CONNECTION,)}
    first = broker.connect("c", **asked)

    second = broker.connect("c", hostname="red", **asked)

    assert [each for peer in (first, second) for _, each, _ in peer.greeting if isinstance(each, Close)] == []
    assert not first.connection.closed


def test_a_stopped_host_closes_its_connections_and_no_others() -> None:
    """With `connection:forced`, and the name of the host; messages stay."""
    broker = Broker()
    broker.queue()
    red = host(broker)
    inside, outside = broker.connect(hostname="red"), broker.connect()
    inside.send()
    inside.say(inside.transfer(b"m"))
    hosts = broker.host.hosts
    assert hosts is not None

    hosts.stop("red", "maintenance")
    error = refusal(inside.hear())

    assert (error.condition, error.description) == (
        "amqp:connection:forced",
        "virtual host 'red' is stopped: maintenance",
    )
    assert not outside.connection.closed
    assert refusal(broker.connect(hostname="red")).condition == "amqp:connection:forced"
    hosts.start("red")
    again = broker.connect(hostname="red")
    again.receive(Source(address="q"))
    assert red.queue("q").consumer_count == 1
    assert red.queue("q").message_count == 1


def test_more_connections_than_a_host_allows_are_refused() -> None:
    """As many as `max-connections` in this host; others do not count."""
    broker = Broker()
    host(broker, max_connections=1)
    first = broker.connect(hostname="red")
    for _ in range(3):
        broker.connect()

    assert refusal(broker.connect(hostname="red")).condition == "amqp:resource-limit-exceeded"

    first.connection.connection_lost()
    settle_down(broker.domain)
    assert not broker.connect(hostname="red").connection.closed


def test_more_queues_than_a_host_allows_are_refused() -> None:
    """Those that a client's sending creates, too."""
    broker = Broker()
    red = host(broker, max_queues=2)
    peer = broker.connect(hostname="red")

    first = only(peer.receive(Source(address="one"), name="1", handle=1), Attach)
    second = peer.receive(Source(address="two"), name="2", handle=2)

    assert first.source is not None
    assert only(second, Detach).error.condition == "amqp:resource-limit-exceeded"
    assert len(red.queues) == 2


def test_a_deleted_host_closes_its_connections() -> None:
    """And a client that names it then is told that there is none."""
    broker = Broker()
    red = host(broker)
    peer = broker.connect(hostname="red")
    peer.send()
    peer.say(peer.transfer(b"m"))
    hosts = broker.host.hosts
    assert hosts is not None
    hosts.begin()

    hosts.delete("red")
    error = refusal(peer.hear())
    for _ in range(5):
        broker.domain.dispatcher.steady_ms += 10
        broker.domain.dispatcher.handle_deadlines()
        settle_down(broker.domain)

    assert error.condition == "amqp:connection:forced"
    assert (red.queues, red.addresses, hosts.leaving()) == ({}, {}, [])
    assert refusal(broker.connect(hostname="vhost:red")).condition == "amqp:not-found"
    assert not broker.connect(hostname="red").connection.closed, "now the name of a machine, as any other"
