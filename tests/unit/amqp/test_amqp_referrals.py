"""What AMQP clients are told of other brokers (amqp10 §15.3, mesh §7.2)."""

from collections.abc import Callable
from typing import Any

import pytest

from artemis_amqp.engine import errors, extensions
from artemis_amqp.engine.performatives import AmqpError, Close, Open
from artemis_amqp.engine.types import Symbol
from artemis_py.core.runtime.referrals import Alternative, Newcomer, Route
from artemis_py.core.settings.virtual_host_config import VirtualHostConfig
from artemis_py.protocol import ConnectionContext
from artemis_py.security.authenticator import OpenAuthenticator
from tests.amqp_broker import Broker, Peer, only
from tests.amqp_harness import Frame, read_frames

LIST = Symbol("failover-server-list")
FAILED = Symbol("amqp:connection-establishment-failed")
B = Alternative(node_id="b", name="B", host="b.example", port=5672, protocols=frozenset(("AMQP",)))
JMS = {"properties": {Symbol("product"): "QpidJMS"}}


def told(frames: list[Frame]) -> list[tuple[object, object]]:
    """Hosts and ports in an open."""
    brokers = (only(frames, Open).properties or {}).get(LIST, [])
    return [(each[Symbol("network-host")], each[Symbol("port")]) for each in brokers]


def closed(frames: list[Frame]) -> AmqpError:
    """The error of the close."""
    error = only(frames, Close).error
    assert isinstance(error, AmqpError)
    return error


def test_the_open_names_other_brokers() -> None:
    """As they are when the client opens; without any, nothing is said."""
    broker = Broker()
    assert LIST not in (only(broker.connect().greeting, Open).properties or {})
    broker.host.referrals.told([B])

    assert told(broker.connect().greeting) == [("b.example", 5672)]


def test_the_list_fits_into_the_clients_frames() -> None:
    """A client that takes 512 octets is told of as many brokers as fit, and of the others in another life."""
    broker = Broker()
    brokers = [
        Alternative(node_id=f"n{number}", name="", host=f"{'h' * 100}{number}.example", port=5672)
        for number in range(20)
    ]
    broker.host.referrals.told(brokers)
    few, some, all_of_them = [
        told(broker.connect(f"c{size}", max_frame_size=size).greeting) for size in (512, 1024, 65536)
    ]

    assert (len(few), len(all_of_them)) == (0, 16)
    assert 1 <= len(some) < 16


def test_another_virtual_host_has_no_other_brokers() -> None:
    """The mesh has queues of the default host only."""
    broker = Broker()
    assert broker.host.hosts is not None
    broker.host.hosts.create(VirtualHostConfig(name="tenant"))
    broker.host.referrals.told([B])

    assert told(broker.connect(hostname="vhost:tenant").greeting) == []


class Routing:
    """A router that answers when the test wants."""

    def __init__(self) -> None:
        self.asked: list[tuple[Newcomer, Callable[[Route], None]]] = []

    def route(self, newcomer: Newcomer, decided: Callable[[Route], None]) -> None:
        """Later."""
        self.asked.append((newcomer, decided))


def routed(broker: Broker, router: Routing, **opening: object) -> Peer:
    """A client of an acceptor with this router, which waits for its open."""

    class Routed(Peer):
        def __init__(self) -> None:
            super().__init__(broker, 1, "c", "u", dict(opening))

        def begin(self, channel: int) -> None:
            """Not yet."""

    connect = broker.manager.connect

    def with_router(context: ConnectionContext) -> object:
        return connect(
            ConnectionContext(
                connection_id=context.connection_id,
                peer="1.2.3.4:5",
                is_loopback=True,
                authenticator=OpenAuthenticator(),
                parameters=context.parameters,
                server_name="s",
                router=router,
                wake=context.wake,
            )
        )

    broker.manager.connect = with_router  # type: ignore[method-assign,assignment]
    return Routed()


def test_a_routed_client_is_redirected() -> None:
    """Open, which says that it failed, then close with host and port; the router knew what there is to know."""
    broker, router = Broker(), Routing()
    peer = routed(broker, router)
    ((newcomer, decided),) = router.asked
    decided(Route((B,)))
    frames = read_frames(peer.connection.data_to_send())

    assert (newcomer.protocol, newcomer.client_id, newcomer.subject.user) == ("AMQP", "c", "u")
    assert (newcomer.peer, newcomer.server_name, newcomer.is_encrypted) == ("1.2.3.4:5", "s", False)
    assert (only(frames, Open).properties or {})[FAILED] is True
    assert (closed(frames).condition, closed(frames).info) == (
        errors.REDIRECT,
        {"network-host": "b.example", "port": 5672},
    )
    assert not peer.connection.logged_in


def test_a_routed_client_is_refused_with_the_reason() -> None:
    """Nobody serves it."""
    router = Routing()
    peer = routed(Broker(), router)
    router.asked[0][1](Route(refusal="fewer than 2 brokers are there"))
    error = closed(read_frames(peer.connection.data_to_send()))

    assert (error.condition, error.description) == (errors.CONNECTION_FORCED, "fewer than 2 brokers are there")


def test_a_routed_client_is_served_here_or_gone() -> None:
    """Whenever the decision comes; when the client has left before, nothing happens."""
    router = Routing()
    here, gone = routed(Broker(), router), routed(Broker(), router)
    assert read_frames(here.connection.data_to_send()) == []
    gone.connection.connection_lost()
    for _, decided in router.asked:
        decided(Route())

    assert only(read_frames(here.connection.data_to_send()), Open).container_id
    assert here.connection.logged_in
    assert not gone.connection.logged_in


@pytest.mark.parametrize(
    "opening", [JMS, {"desired_capabilities": (Symbol("artemis:redirect"),)}], ids=["jms", "capability"]
)
def test_a_client_that_follows_is_sent_away(opening: dict[str, Any]) -> None:
    """At once, and only if there is another broker; others stay until all must go."""
    broker = Broker()
    follower, stays = broker.connect("a", **opening), broker.connect("b")
    follower.connection.refer(only_followers=True)
    assert follower.hear() == []
    broker.host.referrals.told([B])
    follower.connection.refer(only_followers=True)
    stays.connection.refer(only_followers=True)

    assert closed(follower.hear()).condition == errors.REDIRECT
    assert stays.hear() == []
    stays.connection.refer(only_followers=False)
    assert closed(stays.hear()).condition == errors.REDIRECT


@pytest.mark.parametrize("is_leaving", [True, False])
def test_a_goodbye_names_another_broker_if_this_one_leaves(is_leaving: bool) -> None:
    """A broker that only stops will be back."""
    broker = Broker()
    broker.host.referrals.told([B])
    peer = broker.connect()
    if is_leaving:
        broker.host.referrals.leave()
    peer.connection.shutdown("the broker stops")

    expected = errors.REDIRECT if is_leaving else errors.CONNECTION_FORCED
    assert closed(peer.hear()).condition == expected


def test_who_operates_a_broker_that_leaves_is_let_in() -> None:
    """Others are sent on: only this broker can answer about itself."""
    broker = Broker()
    broker.host.referrals.told([B])
    broker.host.referrals.leave()
    sent_on = broker.connect("app")
    operator = broker.connect("ops", desired_capabilities=(extensions.OPERATOR,))

    assert closed(sent_on.greeting).condition == errors.REDIRECT
    assert not operator.connection.closed
