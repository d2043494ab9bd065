"""Notifications of an assembled broker: what its parts report, and in which virtual host."""

import asyncio
from pathlib import Path
from typing import Final

import pytest
from attrs import evolve

from artemis_py.broker import Broker
from artemis_py.cluster.events import MeshStarted, MeshStopped, PeerDown, PeerUp
from artemis_py.config.broker_config import BrokerConfig
from artemis_py.config.reader import parse
from artemis_py.core.messages.widths import Int32
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.routing.domain import Domain
from artemis_py.core.runtime.access import Subject
from artemis_py.core.runtime.events import BindingAdded, ConsumerOpened, Event
from artemis_py.deployment.events import ConfigurationApplied, ConfigurationRejected
from artemis_py.deployment.notifications import OF_BROKER
from artemis_py.errors import ConfigError, Problem
from tests.core_harness import browse_all, make_queue
from tests.line_protocol import LineProtocolManager

ADDRESS: Final = "activemq.notifications"
TOLD: Final = (
    f'<addresses><address name="{ADDRESS}"><multicast><queue name="told"/></multicast></address>'
    '<address name="q"><anycast><queue name="q"/></anycast></address></addresses>'
)
HOST: Final = (
    '<virtual-hosts xmlns="urn:artemis-py"><virtual-host name="red">'
    + TOLD.replace("told", "told-of-red").replace("<addresses>", '<addresses xmlns="urn:activemq:core">')
    + "</virtual-host></virtual-hosts>"
)


def config(
    folder: Path, core: str = "", hosts: str = HOST, secure: bool = False, persistent: bool = False
) -> BrokerConfig:
    """A broker with a durable queue of notifications, and a virtual host with another one."""
    for name in ("artemis-users.properties", "artemis-roles.properties"):
        (folder / name).touch()
    flags = (
        f"<persistence-enabled>{str(persistent).lower()}</persistence-enabled>"
        f"<security-enabled>{str(secure).lower()}</security-enabled>{core}"
    )
    acceptor = "<acceptors><acceptor name='a'>tcp://127.0.0.1:0</acceptor></acceptors>"
    text = (
        f'<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">{flags}{acceptor}{TOLD}</core>'
        f"{hosts}</configuration>"
    )
    return parse(text.encode(), "broker.xml", folder, {})


def broker_of(config: BrokerConfig) -> Broker:
    """A broker without a real protocol."""
    return Broker(config, protocols=[LineProtocolManager])


def told(domain: Domain, queue: str = "told") -> list[str]:
    """Types of the notifications that wait."""
    return [str(each.message.view.properties["_AMQ_NotifType"]) for each in browse_all(domain.queues[queue])]


def last(domain: Domain) -> dict[str, object]:
    """The last notification."""
    return browse_all(domain.queues["told"])[-1].message.view.properties


async def turns() -> None:
    """A few iterations of the loop: what is planned is done."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_the_broker_reports_its_acceptors_from_the_start(tmp_path: Path) -> None:
    """A durable queue of an earlier run, or of the file, hears of the first thing that clients can see."""
    async with broker_of(config(tmp_path)) as broker:
        await turns()

        assert told(broker.domain) == ["ACCEPTOR_STARTED"]
        found = last(broker.domain)
        assert (found["name"], found["host"], found["port"]) == ("a", "127.0.0.1", broker.acceptor_facts()[0].port)
        assert browse_all(broker.domain.queues["told"])[0].message.durable


async def test_they_survive_a_restart(tmp_path: Path) -> None:
    """Whoever comes back later hears that the broker was stopped."""
    async with broker_of(config(tmp_path, persistent=True)):
        await turns()
    async with broker_of(config(tmp_path, persistent=True)) as broker:
        await turns()

        assert told(broker.domain) == ["ACCEPTOR_STARTED", "ACCEPTOR_STOPPED", "ACCEPTOR_STARTED"]
        ports = [each.message.view.properties["port"] for each in browse_all(broker.domain.queues["told"])]
        assert [type(each) for each in ports] == [Int32] * 3


async def test_a_reload_is_reported(tmp_path: Path) -> None:
    """With what was done, and what was not."""
    async with broker_of(config(tmp_path)) as broker:
        wanted = evolve(config(tmp_path, "<global-max-messages>9</global-max-messages><name>new</name>"))
        broker.reload(wanted)
        await turns()

        found = last(broker.domain)
        assert found["_AMQ_NotifType"] == "CONFIGURATION_APPLIED"
        assert (found["artemis_py_Changes"], found["artemis_py_Waiting"], found["artemis_py_Problems"]) == (1, 1, 0)

        broker.reload_refused([Problem("broker.xml", 7, "core", "no")])
        await turns()
        found = last(broker.domain)
        assert (found["_AMQ_NotifType"], found["artemis_py_Problems"]) == ("CONFIGURATION_REJECTED", 1)
        assert "broker.xml:7" in str(found["_AMQ_Reason"])


async def test_session_notifications_can_be_left_out_by_a_reload(tmp_path: Path) -> None:
    async with broker_of(config(tmp_path)) as broker:
        wanted = config(tmp_path, "<suppress-session-notifications>true</suppress-session-notifications>")
        reloaded = broker.reload(wanted)
        with broker.in_turn():
            broker.services.sessions.open(Subject("ann"), "c", "192.0.2.1:5", "LINE").close()
        await turns()

        assert (reloaded.made, reloaded.waiting) == (1, 0)
        assert told(broker.domain)[-2:] == ["CONNECTION_CREATED", "CONNECTION_DESTROYED"]


async def test_a_full_disk_is_reported(tmp_path: Path) -> None:
    """By the monitor that makes producers wait."""
    async with broker_of(config(tmp_path, persistent=True)) as broker:
        broker.reload(config(tmp_path, "<min-disk-free>999999999G</min-disk-free>", persistent=True))
        assert broker._disk is not None
        with broker.in_turn():
            broker._disk.scan()
        await turns()

        assert last(broker.domain)["_AMQ_NotifType"] == "DISK_FULL"
        assert 0 <= float(str(last(broker.domain)["artemis_py_UsedPart"])) <= 1


async def test_a_failed_store_is_reported_all_the_same(tmp_path: Path) -> None:
    """It takes nothing more, so the report of it is not durable."""
    async with broker_of(config(tmp_path)) as broker:
        with broker.in_turn():
            broker.domain.storage_failed("EIO")
        await turns()

        assert told(broker.domain)[-1] == "STORE_FAILED"
        assert not browse_all(broker.domain.queues["told"])[-1].message.durable


async def test_a_failed_login_is_reported(tmp_path: Path) -> None:
    """A client without a name is not admitted with security; it is told nothing else."""
    denied = '<login xmlns="urn:artemis-py"><anonymous-access>NOWHERE</anonymous-access></login>'
    async with broker_of(config(tmp_path, hosts=denied, secure=True)) as broker:
        reader, writer = await asyncio.open_connection("127.0.0.1", broker.acceptor_facts()[0].port)
        writer.write(b"LINE \n")
        await reader.read()
        writer.close()
        await turns()

        (found,) = [
            each.message.view.properties
            for each in browse_all(broker.domain.queues["told"])
            if each.message.view.properties["_AMQ_NotifType"] == "SECURITY_AUTHENTICATION_VIOLATION"
        ]
        assert "anonymous clients are not admitted" in str(found["_AMQ_Reason"])


async def test_each_virtual_host_has_an_address_of_its_own(tmp_path: Path) -> None:
    """A host reports what is in it; what concerns the broker is reported in the default one."""
    async with broker_of(config(tmp_path)) as broker:
        hosts = broker.virtual_hosts.hosts
        red = hosts.host("red").services.sessions
        with broker.in_turn():
            red.open(Subject("ann"), "c", "192.0.2.1:5", "LINE").close()
        await turns()

        assert told(red.domain, "told-of-red") == [
            "CONNECTION_CREATED",
            "SESSION_CREATED",
            "SESSION_CLOSED",
            "CONNECTION_DESTROYED",
        ]
        assert told(broker.domain) == ["ACCEPTOR_STARTED"]


async def test_hosts_that_come_later_report_until_they_are_deleted(tmp_path: Path) -> None:
    async with broker_of(config(tmp_path)) as broker:
        hosts = broker.virtual_hosts.hosts
        with broker.in_turn():
            blue = hosts.create(evolve(hosts.host("red").config, name="blue", declared=False))
        domain = blue.services.sessions.domain
        make_queue(domain, "told-of-blue", RoutingType.MULTICAST, address=ADDRESS)
        assert domain.events.wants(ConsumerOpened)

        with broker.in_turn():
            hosts.delete("blue")
        assert not domain.events.wants(BindingAdded)
        for _ in range(200):
            await asyncio.sleep(0)

        assert domain.addresses == {}


@pytest.mark.parametrize(
    ("event", "type", "properties"),
    [
        (MeshStarted("m"), "CLUSTER_CONNECTION_STARTED", {"name": "m"}),
        (MeshStopped("m"), "CLUSTER_CONNECTION_STOPPED", {"name": "m"}),
        (
            PeerUp("m", "n1", "other", "192.0.2.1:5"),
            "PEER_UP",
            {
                "artemis_py_Mesh": "m",
                "artemis_py_Node": "n1",
                "artemis_py_Name": "other",
                "_AMQ_RemoteAddress": "192.0.2.1:5",
            },
        ),
        (
            PeerDown("m", "n1", "other", "lost", 3),
            "PEER_DOWN",
            {
                "artemis_py_Mesh": "m",
                "artemis_py_Node": "n1",
                "artemis_py_Name": "other",
                "_AMQ_Reason": "lost",
                "artemis_py_Count": 3,
            },
        ),
        (
            ConfigurationApplied(1, 2, ("a", "b")),
            "CONFIGURATION_APPLIED",
            {"artemis_py_Changes": 1, "artemis_py_Waiting": 2, "artemis_py_Problems": 2, "_AMQ_Reason": "a; b"},
        ),
        (
            ConfigurationRejected(("a",)),
            "CONFIGURATION_REJECTED",
            {"artemis_py_Problems": 1, "_AMQ_Reason": "a"},
        ),
    ],
)
def test_what_the_whole_broker_reports(event: Event, type: str, properties: dict[str, object]) -> None:
    (found,) = OF_BROKER[event.__class__](event)

    assert (found.type, found.properties) == (type, properties)


@pytest.mark.parametrize(("name", "text"), [("activemq.management", "is the management-address, too"), ("a::b", "::")])
def test_some_names_cannot_be_the_address(tmp_path: Path, name: str, text: str) -> None:
    """Requests are taken in place of queues, so nobody would get notifications there; the other is a queue's name."""
    core = f"<management-notification-address>{name}</management-notification-address>"

    with pytest.raises(ConfigError) as refused:
        config(tmp_path, core)

    assert "broker.xml:1: management-notification-address: " in str(refused.value)
    assert text in str(refused.value)
