"""Brokers as clients reach them: what a hello says, and what clients of a running mesh are told (mesh §7.2)."""

import asyncio
from pathlib import Path

import pytest
from attrs import evolve

from artemis_py.broker import Broker
from artemis_py.cluster.clients import MAX_URLS, read_urls, write_url
from artemis_py.cluster.hello import read_hello
from artemis_py.config.embedded import embedded_config
from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.runtime.access import Subject
from artemis_py.core.runtime.referrals import Alternative, Newcomer, Route
from artemis_py.core.settings.cluster_config import ClusterConfig
from artemis_py.core.settings.queue_config import QueueConfig
from artemis_py.core.settings.router_config import KeyType, PoolConfig, RouterConfig, RoutingPolicy
from artemis_py.transport.config import AcceptorConfig, ConnectorConfig
from tests.cluster.node import Node
from tests.cluster.simulation import Simulation
from tests.cluster.test_brokers import free_port, member, mesh_of, started, up
from tests.transport.test_connector import until

PLAIN = Alternative(node_id="n", name="x", host="h.example", port=5672)


@pytest.mark.parametrize(
    "broker",
    [
        PLAIN,
        evolve(PLAIN, host="::1", is_encrypted=True),
        evolve(PLAIN, protocols=frozenset(("AMQP", "MQTT")), is_encrypted=True),
    ],
)
def test_an_address_survives_the_wire(broker: Alternative) -> None:
    """As a URL of a connector."""
    assert read_urls("n", "x", [write_url(broker)]) == [broker]


@pytest.mark.parametrize(
    "url",
    [
        "",
        "amqp://h:1",
        "tcp://h",
        "tcp://h:0",
        "tcp://h:65536",
        "tcp://:1",
        "tcp://a,tcp://b:1",
        "tcp://h b:1",
        "tcp://h\n:1",
        "tcp://user@h:1",
        "tcp://h:1#x",
        "tcp://[h]:1",
        f"tcp://{'h' * 254}:1",
    ],
)
def test_an_address_that_is_none_is_passed_over(url: str) -> None:
    """Protocols write it into URIs and lists."""
    assert read_urls("n", "x", [url, write_url(PLAIN)]) == [PLAIN]


def test_a_broker_has_some_addresses() -> None:
    """And not any number."""
    urls = [f"tcp://h{number}:1" for number in range(100)]

    assert len(read_urls("n", "x", urls)) == MAX_URLS


def test_a_hello_of_an_older_broker_has_none(sim: Simulation) -> None:
    """It is in the mesh all the same."""
    node = Node(sim, "A", sim.folder / "A", ClusterConfig(name="m"), sim.settings)
    sim.run_for(1_000)
    hello, _ = node.mesh.connect()
    said = hello.as_map()
    del said["clients"]

    assert read_hello(said).clients == ()


def told(broker: Broker, protocol: str = "AMQP", is_encrypted: bool = False) -> set[tuple[str, int]]:
    """Hosts and ports that clients of a broker are told."""
    return {(each.host, each.port) for each in broker.host.referrals.for_client(protocol, is_encrypted, "c")}


async def test_clients_are_told_of_brokers_that_are_up(tmp_path: Path) -> None:
    """C51, C52: they come and go; nothing is told of a broker that is away."""
    one, two = free_port(), free_port()
    a, b = member(tmp_path, "A", one), member(tmp_path, "B", two, one)
    async with started(a):
        assert told(a) == set()
        async with started(b):
            await until(lambda: bool(up(a)) and bool(up(b)))
            assert (told(a), told(b)) == ({("127.0.0.1", two)}, {("127.0.0.1", one)})
            assert told(a, "MQTT") == {("127.0.0.1", two)}
            assert told(a, is_encrypted=True) == set()
        await until(lambda: not up(a))
        assert told(a) == set()


async def test_clients_are_told_the_addresses_for_clients(tmp_path: Path) -> None:
    """Which are configured: `client-connectors`, with the protocols of the acceptors of their ports."""
    one, two, mqtt = free_port(), free_port(), free_port()
    a = member(tmp_path, "A", one)
    config = member(tmp_path, "B", two, one).config
    outside = ConnectorConfig(name="out", host="b.example.org", port=443)
    only_mqtt = ConnectorConfig(name="mqtt", host="b.example.org", port=mqtt)
    b = Broker(
        evolve(
            config,
            acceptors=(*config.acceptors, AcceptorConfig(name="m", port=mqtt, protocols=("MQTT",))),
            connectors=(*config.connectors, outside, only_mqtt),
            clusters=(evolve(config.clusters[0], client_connectors=("out", "mqtt")),),
        )
    )
    async with started(a, b):
        await until(lambda: bool(up(a)))

        # Nothing listens on 443, so something forwards it, and nobody knows what.
        assert told(a, "AMQP") == {("b.example.org", 443)}
        assert told(a, "MQTT") == {("b.example.org", 443), ("b.example.org", mqtt)}


async def test_a_broker_that_leaves_sends_clients_away(tmp_path: Path) -> None:
    """One call: those that follow go at once, and newcomers are sent on; until it stays."""
    one, two = free_port(), free_port()
    a, b = member(tmp_path, "A", one), member(tmp_path, "B", two, one)
    async with started(a, b):
        await until(lambda: bool(up(a)) and bool(up(b)))
        assert a.clients is not None
        referred: list[bool] = []

        class Client:
            """Somebody who is connected."""

            def refer(self, only_followers: bool) -> None:
                referred.append(only_followers)

            def user_removed(self, reason: str) -> None: ...

            def closed_by_operator(self, reason: str) -> None: ...

            def rights_changed(self) -> None: ...

        session = a.services.sessions.open(Subject("u"))
        session.client = Client()
        with a.in_turn():
            a.clients.send_away(for_good=True)
        assert referred == [True]
        assert a.host.referrals.is_leaving_for_good
        a.clients.keep()
        assert not a.host.referrals.is_leaving
        session.close()


async def test_a_drain_sends_clients_to_the_other_brokers(tmp_path: Path) -> None:
    """And these name it no more; who operates it is not sent away, and a drain that is stopped is forgotten."""
    one, two = free_port(), free_port()
    a, b = member(tmp_path, "A", one), member(tmp_path, "B", two, one)
    async with started(a, b):
        await until(lambda: bool(up(a)) and told(b) == {("127.0.0.1", one)})
        referred: list[str] = []

        class Client:
            """Somebody who is connected, and cannot be sent to another broker."""

            def __init__(self, name: str) -> None:
                self.name = name

            def refer(self, only_followers: bool) -> None:
                referred.append(f"{self.name} {only_followers}")

            def user_removed(self, reason: str) -> None: ...

            def closed_by_operator(self, reason: str) -> None:
                referred.append(f"{self.name} ends")

            def rights_changed(self) -> None: ...

        app = a.services.sessions.open(Subject("app"))
        ops = a.services.sessions.open(Subject("ops"), is_operator=True)
        app.client, ops.client = Client("app"), Client("ops")
        # A message that stays, so that the broker does.
        with a.in_turn():
            a.domain.create_address("kept", frozenset((RoutingType.ANYCAST,)))
            a.domain.create_queue(QueueConfig(name="kept", address="kept", exclusive=True))
            app.producer("kept").send(plain_message("kept", MessageView(body="x")))
            mesh_of(a).drain(1)
        await until(lambda: "app ends" in referred)
        assert referred == ["app True", "app False", "app ends"]
        assert a.host.referrals.is_leaving
        await until(lambda: told(b) == set() and up(b) == {"A"})

        with a.in_turn():
            mesh_of(a).stop_drain()
        assert not a.host.referrals.is_leaving
        await until(lambda: told(b) == {("127.0.0.1", one)})
        app.close()
        ops.close()


async def test_brokers_tell_each_other_how_many_clients_they_have(tmp_path: Path) -> None:
    """When they meet; a router with LEAST_CONNECTIONS of the mesh chooses by it."""
    one, two = free_port(), free_port()
    b = member(tmp_path, "B", two)
    async with started(b):
        sessions = [b.services.sessions.open(Subject("u")) for _ in range(3)]
        assert b.clients is not None
        with b.in_turn():
            b.clients._tell_load()
        a = member(tmp_path, "A", one, two)
        async with started(a):
            await until(lambda: bool(up(a)))
            mesh = mesh_of(a).mesh
            await until(lambda: mesh.loads.get(b.node_id) == 3)
        for session in sessions:
            session.close()


def by_user(**pool: object) -> RouterConfig:
    """A router by the hash of the user."""
    return RouterConfig(
        name="r",
        key_type=KeyType.USER_NAME,
        policy=RoutingPolicy.CONSISTENT_HASH,
        pool=PoolConfig(**pool),  # type: ignore[arg-type]
    )


async def test_independent_brokers_are_dialled(tmp_path: Path) -> None:
    """A broker that accepts connections belongs to the pool, one that is cut off does not."""
    one, two = free_port(), free_port()
    config = embedded_config()
    other = Broker(evolve(config, acceptors=(AcceptorConfig(name="a", port=two),)))
    router = by_user(static_connectors=("other",), check_period_ms=20, quorum_timeout_ms=0)
    broker = Broker(
        evolve(
            config,
            acceptors=(AcceptorConfig(name="a", port=one, router="r"),),
            connectors=(ConnectorConfig(name="other", host="127.0.0.1", port=two),),
            routers=(router,),
        )
    )
    found: list[Route] = []
    newcomer = Newcomer(protocol="AMQP", client_id="c", subject=Subject("u"), peer="1.2.3.4:5")

    async def goes() -> tuple[int, ...]:
        """The port of the broker where a client goes."""
        found.clear()
        await asyncio.sleep(0.01)
        routed = broker._acceptors[0]._context.router
        assert routed is not None
        with broker.in_turn():
            routed.route(newcomer, found.append)
        await until(lambda: bool(found))
        return tuple(each.port for each in found[0].others)

    async with started(broker):
        assert await goes() == ()
        async with started(other):
            while await goes() != (two,):
                pass
        while await goes() == (two,):
            pass
