"""Two brokers of one mesh: real sockets and stores in one loop, and a network between them that fails."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from artemis_py.broker import Broker
from artemis_py.cluster.peer import PeerState
from artemis_py.config.broker_config import VirtualHostSection
from artemis_py.config.embedded import embedded_config
from artemis_py.core.settings.cluster_config import ClusterConfig, ClusterLogin, DiscoveryConfig
from artemis_py.core.settings.virtual_host_config import VirtualHostConfig
from artemis_py.deployment.meshes import BrokerMesh, endpoint_of
from artemis_py.testing.network import Relay
from artemis_py.transport.config import AcceptorConfig, ConnectorConfig
from tests.transport.test_connector import until
from tests.unit.test_virtual_hosts import ask

QUICK: dict[str, Any] = {"retry_interval_ms": 10, "max_retry_interval_ms": 50}


def free_port() -> int:
    """A port that nobody uses now."""
    import socket

    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def member(folder: Path, name: str, port: int, *others: int, own: int = 0, **options: Any) -> Broker:
    """A broker of the mesh that dials these ports; `own` is the port that others are told."""
    connectors = [ConnectorConfig(name="own", host="127.0.0.1", port=own or port)]
    connectors += [ConnectorConfig(name=f"to-{each}", host="127.0.0.1", port=each) for each in others]
    cluster = ClusterConfig(
        name=options.pop("cluster", "mesh"),
        connector="own",
        static_connectors=tuple(each.name for each in connectors[1:]),
        **(QUICK | options.pop("options", {})),
    )
    config = embedded_config()
    values: dict[str, Any] = {
        "persistence_enabled": True,
        "home": folder / name,
        "settings": evolve(config.settings, name=name),
        "acceptors": (AcceptorConfig(name="a", port=port),),
        "connectors": tuple(connectors),
        "clusters": (cluster,),
        "cluster_login": ClusterLogin(user="mesh", password="secret"),
    }
    (folder / name).mkdir(exist_ok=True)
    return Broker(evolve(config, **(values | options)))


@asynccontextmanager
async def started(*brokers: Broker) -> AsyncIterator[None]:
    """All of them run."""
    for broker in brokers:
        await broker.start()
    try:
        yield
    finally:
        for broker in reversed(brokers):
            await broker.stop()


def mesh_of(broker: Broker) -> BrokerMesh:
    """The mesh of a broker."""
    assert broker.mesh is not None
    return broker.mesh


def up(broker: Broker) -> set[str]:
    """Names of the brokers that messages may go to."""
    peers = mesh_of(broker).mesh.peers.values()
    return {peer.hello.node_name for peer in peers if peer.state is PeerState.UP and peer.hello}


async def test_two_brokers_find_each_other_and_keep_one_connection(tmp_path: Path) -> None:
    """Both dial at once; one connection stays, and the other dial rests (C14)."""
    first, second = free_port(), free_port()
    a, b = member(tmp_path, "a", first, second), member(tmp_path, "b", second, first)
    async with started(a, b):
        await until(lambda: up(a) == {"b"} and up(b) == {"a"})
        await asyncio.sleep(0.3)

        assert (up(a), up(b)) == ({"b"}, {"a"})
        assert len(a.connections) == len(b.connections) == 1


async def test_the_first_attempt_is_made_as_soon_as_the_start_is_stored(tmp_path: Path) -> None:
    """There is no second one here: a broker that tried too early would join after `max-retry-interval` only."""
    first, second = free_port(), free_port()
    hour = {"retry_interval_ms": 3_600_000, "max_retry_interval_ms": 3_600_000}
    a, b = member(tmp_path, "a", first), member(tmp_path, "b", second, first, options=hour)
    async with started(a):
        # It refuses others until its own start is stored.
        await until(lambda: mesh_of(a).mesh.is_ready)
        async with started(b):
            await until(lambda: up(a) == {"b"} and up(b) == {"a"})


async def test_the_log_says_who_comes_and_goes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """With the names of the brokers, and what is in doubt."""
    caplog.set_level("INFO")
    first, second = free_port(), free_port()
    # Nobody listens where b is told that a is, so there is no second connection whose end is told instead.
    a, b = member(tmp_path, "a", first, second, own=free_port()), member(tmp_path, "b", second)
    async with started(a):
        async with started(b):
            await until(lambda: up(a) == {"b"} and up(b) == {"a"})
        await until(lambda: not up(a))

    assert "broker joined: mesh=mesh name=b " in caplog.text
    assert "broker away, what is on its way to it waits: mesh=mesh name=b " in caplog.text
    assert "messages=0 reason=closed by the peer: the broker stops" in caplog.text


async def test_a_broker_in_its_own_list_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """By its node id, since a relay or a name may hide that it is this one (C12)."""
    port = free_port()
    relay = Relay()
    a = member(tmp_path, "a", port, await relay.port("127.0.0.1", port))
    async with started(a):
        await until(lambda: "leads to this broker itself" in caplog.text)
        await asyncio.sleep(0.1)
        await relay.close()

        assert len(a.connections) == 0
        assert caplog.text.count("leads to this broker itself") == 1


async def test_one_that_is_known_names_the_others(tmp_path: Path) -> None:
    """Each of five knows one other only; all are connected in the end (C13)."""
    ports = [free_port() for _ in range(5)]
    brokers = [member(tmp_path, f"n{index}", ports[index], ports[index - 1]) for index in range(5)]
    async with started(*brokers):
        names = {f"n{index}" for index in range(5)}
        await until(lambda: all(up(each) == names - {each.config.settings.name} for each in brokers))


async def test_direct_connections_only_are_those_of_the_list(tmp_path: Path) -> None:
    """A chain stays a chain (C13)."""
    ports = [free_port() for _ in range(3)]
    options: dict[str, Any] = {"options": {"direct_connections_only": True}}
    a = member(tmp_path, "a", ports[0], **options)
    b = member(tmp_path, "b", ports[1], ports[0], **options)
    c = member(tmp_path, "c", ports[2], ports[1], **options)
    async with started(a, b, c):
        await until(lambda: up(b) == {"a", "c"})
        await asyncio.sleep(0.3)

        assert (up(a), up(c)) == ({"b"}, {"b"})


async def test_another_mesh_is_refused_and_not_asked_again_at_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Both logs name the reason (C15)."""
    first, second = free_port(), free_port()
    a, b = member(tmp_path, "a", first, second), member(tmp_path, "b", second, cluster="other")
    async with started(a, b):
        (dial,) = mesh_of(a).dials.values()
        await until(lambda: dial.refusal)
        await asyncio.sleep(0.3)

        assert dial.refusal == "closed by the peer: this broker is in mesh 'other', the other one is not"
        assert caplog.text.count("another broker refuses this one") == 1
        assert caplog.text.count("broker refused") == 1
        assert dial.connector.planned_at - asyncio.get_running_loop().time() > 1


async def test_a_copied_store_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Two brokers with one node id would confirm each other's messages (C15)."""
    import shutil

    first, second = free_port(), free_port()
    async with started(member(tmp_path, "a", first)):
        pass
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    a, b = member(tmp_path, "a", first), member(tmp_path, "b", second, first)
    async with started(a, b):
        await until(lambda: "the data folder was copied" in caplog.text)

        assert (up(a), up(b)) == (set(), set())


async def test_a_member_is_dialled_again_after_a_restart(tmp_path: Path) -> None:
    """A node that knows nobody is told of members by its own store."""
    first, second = free_port(), free_port()
    a, b = member(tmp_path, "a", first, second), member(tmp_path, "b", second)
    async with started(a, b):
        await until(lambda: up(a) == {"b"} and up(b) == {"a"})
    a, b = member(tmp_path, "a", first), member(tmp_path, "b", second)
    async with started(b, a):
        await until(lambda: up(a) == {"b"} and up(b) == {"a"})


async def test_brokers_that_are_found_are_dialled(tmp_path: Path) -> None:
    """With the TLS and times of this broker's own connector; what is no longer found is dialled no longer."""
    first, second, third = free_port(), free_port(), free_port()
    groups = (DiscoveryConfig(name="g", dns_name="127.0.0.1", dns_port=second),)
    a = member(tmp_path, "a", first, options={"discovery_group": "g"}, discovery_groups=groups)
    b = member(tmp_path, "b", second)
    async with started(a, b):
        await until(lambda: up(a) == {"b"})
        mesh = mesh_of(a)
        mesh._found(frozenset({("127.0.0.1", third)}))
        assert set(mesh.dials) == {("127.0.0.1", second), ("127.0.0.1", third)}, "a broker answered at the first"
        mesh._found(frozenset())
        assert set(mesh.dials) == {("127.0.0.1", second)}


async def test_the_mesh_is_in_the_default_virtual_host(tmp_path: Path) -> None:
    """A broker may dial a name that is that of a virtual host. That host neither has nor sees the mesh."""
    contents = evolve(embedded_config(), acceptors=())
    red = VirtualHostSection(
        options=VirtualHostConfig(name="red", hostnames=("127.0.0.1",)), contents=contents, file="", line=0
    )
    first, second = free_port(), free_port()
    a, b = member(tmp_path, "a", first, second), member(tmp_path, "b", second, virtual_hosts=(red,))
    async with started(a, b):
        await until(lambda: up(a) == {"b"} and up(b) == {"a"})

        assert ask(b, None, "broker", "listMembers")[0]
        assert ask(b, "red", "broker", "listMembers") == (False, "this broker belongs to no mesh")
        assert ask(b, "red", "broker", "explainQueue", "q") == (False, "this broker belongs to no mesh")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("tcp://h:1", ("h", 1)),
        ("tcp://[::1]:65535", ("::1", 65535)),
        ("http://h:1", None),
        ("tcp://h", None),
        ("tcp://:1", None),
        ("tcp://h:0", None),
        ("tcp://h:65536", None),
        ("tcp://h:1234567890", None),
        ("tcp://h:x", None),
        ("tcp://" + "h" * 300 + ":1", None),
        ("", None),
    ],
)
def test_a_url_that_a_peer_tells_is_taken_with_care(url: str, expected: tuple[str, int] | None) -> None:
    """It is dialled: nonsense must not end anything here."""
    assert endpoint_of(url) == expected
