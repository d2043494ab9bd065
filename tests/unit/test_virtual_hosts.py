"""Virtual hosts of a whole broker: from broker.xml, over a reload, through management, and over a restart."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from artemis_py.broker import Broker
from artemis_py.cli.check import examine
from artemis_py.config.broker_config import BrokerConfig
from artemis_py.config.reader import parse, parse_all
from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.message import Message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.consumer import Sink
from artemis_py.core.queues.reference import Reference
from artemis_py.core.routing.domain import Domain
from artemis_py.core.runtime.access import Permission, Subject
from artemis_py.core.services.virtual_hosts import HostState, VirtualHost
from artemis_py.core.settings.virtual_host_config import VirtualHostConfig
from artemis_py.errors import HostStopped, LimitExceeded, NotAuthorized
from artemis_py.management.endpoint import OPERATION, RESOURCE, SUCCEEDED
from tests.line_protocol import LineProtocolManager

HOSTS: Final = """
<virtual-hosts xmlns="urn:artemis-py">
  <virtual-host name="red">
    <hostnames>red.example</hostnames>
    <max-queues>10</max-queues>
    <addresses xmlns="urn:activemq:core">
      <address name="q"><anycast><queue name="q"/></anycast></address>
    </addresses>
    <diverts xmlns="urn:activemq:core">
      <divert name="d"><address>q</address><forwarding-address>copy</forwarding-address></divert>
    </diverts>
    <address-settings xmlns="urn:activemq:core">
      <address-setting match="#"><max-delivery-attempts>3</max-delivery-attempts></address-setting>
    </address-settings>
    <security-settings xmlns="urn:activemq:core">
      <security-setting match="#"><permission type="send" roles="red"/></security-setting>
    </security-settings>
  </virtual-host>
  <virtual-host name="blue"/>
</virtual-hosts>
"""
DOUBT: Final = "is not a virtual-host of this file: until it is created, clients that name no other host are refused"
TAKEN: Final = "is a name of the virtual host in line"
CHILDREN: Final = (
    "address-settings, addresses, diverts, enabled, exchanges, hostnames, max-connections, max-queues, roles, "
    "security-settings"
)
MEMBERS: Final = "name, hostnames, enabled, max-connections, max-queues, roles"
CORE: Final = """
<address-settings><address-setting match="#"><max-delivery-attempts>7</max-delivery-attempts></address-setting>
</address-settings>
<security-settings>
  <security-setting match="#"><permission type="send" roles="app"/><permission type="manage" roles="app"/>
  </security-setting>
</security-settings>
<addresses><address name="q"><anycast><queue name="q"/></anycast></address></addresses>
"""


def document(hosts: str = HOSTS, persistent: bool = False, secure: bool = False, core: str = CORE) -> bytes:
    """A broker.xml."""
    acceptor = "<acceptors><acceptor name='a'>tcp://127.0.0.1:0</acceptor></acceptors>"
    flags = (
        f"<persistence-enabled>{str(persistent).lower()}</persistence-enabled>"
        f"<security-enabled>{str(secure).lower()}</security-enabled>"
    )
    text = (
        f'<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">{flags}{acceptor}{core}</core>'
        f"{hosts}</configuration>"
    )
    return text.encode()


def config(folder: Path, *arguments: Any, **options: Any) -> BrokerConfig:
    """A configuration in a folder with users' files."""
    for name in ("artemis-users.properties", "artemis-roles.properties"):
        (folder / name).touch()
    return parse(document(*arguments, **options), "broker.xml", folder, {})


def broker_of(config: BrokerConfig) -> Broker:
    """A broker without a real protocol."""
    return Broker(config, protocols=[LineProtocolManager])


def host(broker: Broker, name: str = "red") -> VirtualHost:
    """A host of a broker."""
    return broker.virtual_hosts.hosts.host(name)


def domain(broker: Broker, name: str = "red") -> Domain:
    """The domain of a host."""
    return host(broker, name).services.sessions.domain


def send(domain: Domain, address: str = "q") -> None:
    """A durable message."""
    message = plain_message(address, MessageView(body="m"), durable=True)
    domain.route(message, domain.addresses[address])


async def test_hosts_of_the_file_have_what_it_says(tmp_path: Path) -> None:
    """Each with its own addresses, diverts, settings and permissions."""
    async with broker_of(config(tmp_path, secure=True)) as broker:
        red, blue = domain(broker), domain(broker, "blue")

        assert (set(red.queues), set(blue.queues), set(broker.domain.queues)) == ({"q"}, set(), {"q"})
        assert list(red.others) == ["d"]
        assert list(broker.domain.others) == []
        attempts = [each.settings.resolve("q").max_delivery_attempts for each in (broker.domain, red, blue)]
        assert attempts == [7, 3, 10]
        users = [Subject("u", frozenset((role,))) for role in ("app", "red")]
        allowed = [
            [each.access.allows(user, Permission.SEND, "q") for user in users] for each in (broker.domain, red, blue)
        ]
        assert allowed == [[True, False], [False, True], [False, False]]
        assert broker.host.domains.find("RED.example") is host(broker).services
        assert host(broker).config == VirtualHostConfig(
            name="red", hostnames=("red.example",), max_queues=10, declared=True
        )


async def test_exchanges_of_the_file_are_in_their_host(tmp_path: Path) -> None:
    """They bind the host's queues, and follow a reload."""

    def with_exchange(name: str) -> BrokerConfig:
        binding = '<binding key="*.eu" queue="q"/>'
        exchanges = f'<exchanges><exchange name="{name}" type="topic">{binding}</exchange></exchanges>'
        return config(tmp_path, HOSTS.replace("</virtual-host>", f"{exchanges}</virtual-host>", 1))

    async with broker_of(with_exchange("orders")) as broker:
        red = domain(broker)
        assert broker.domain.exchanges.find("orders") is None
        message = plain_message("", MessageView(body="m"))
        assert red.publishing.publish(message, red.exchanges.exchange("orders"), "a.eu") == 1
        assert red.queues["q"].message_count == 1

        reloaded = broker.reload(with_exchange("bills"))

        assert 'virtual-host "red", exchange "bills": is created' in "\n".join(map(str, reloaded.plan.changes))
        assert red.exchanges.exchange("bills").bindings
        assert not red.exchanges.exchange("orders").bindings


async def test_a_file_without_hosts_has_none(tmp_path: Path) -> None:
    """Nothing is made for anybody else."""
    async with broker_of(config(tmp_path, "")) as broker:
        assert len(broker.virtual_hosts.hosts) == 0
        assert broker.host.domains.all() == [broker.services]


async def test_hosts_and_their_messages_survive_a_restart(tmp_path: Path) -> None:
    """A message of each host is in the queue of its host; a host that was made by management is there, too."""
    async with broker_of(config(tmp_path, persistent=True)) as broker:
        with broker.in_turn():
            broker.virtual_hosts.hosts.create(VirtualHostConfig(name="green"))
            send(domain(broker))
            send(broker.domain)
            send(broker.domain)

    async with broker_of(config(tmp_path, persistent=True)) as broker:
        counts = [each.queues["q"].message_count for each in (broker.domain, domain(broker))]
        assert counts == [2, 1]
        assert [each.name for each in broker.virtual_hosts.hosts.all()] == ["red", "blue", "green"]
        assert not host(broker, "green").config.declared


async def test_a_reload_adds_changes_and_stops_hosts(tmp_path: Path) -> None:
    """What is no longer in the file keeps its messages; nothing is deleted by a file that lacks it."""
    changed = HOSTS.replace("<max-queues>10", "<max-queues>20").replace('name="blue"', 'name="green"')
    changed = changed.replace("<max-delivery-attempts>3", "<max-delivery-attempts>4").replace(
        "</addresses>", '<address name="new"><multicast/></address></addresses>'
    )
    async with broker_of(config(tmp_path)) as broker:
        send(domain(broker))

        reloaded = broker.reload(config(tmp_path, changed))

        assert [str(each) for each in reloaded.plan.changes] == [
            'virtual-host "red": max-queues 10 becomes 20',
            'virtual-host "red", address-setting "#": max-delivery-attempts 3 becomes 4',
            'virtual-host "red", address "new": is created for MULTICAST',
            'virtual-host "green": is created',
            'virtual-host "blue": is stopped; what it has stays until it is deleted',
        ]
        assert reloaded.problems == []
        assert domain(broker).max_queues == 20
        assert domain(broker).addresses["q"].settings.max_delivery_attempts == 4
        assert "new" in domain(broker).addresses
        assert domain(broker).queues["q"].message_count == 1
        assert [each.state for each in (host(broker, name) for name in ("red", "green", "blue"))] == [
            HostState.ACTIVE,
            HostState.ACTIVE,
            HostState.STOPPED,
        ]

        again = broker.reload(config(tmp_path, changed))
        assert [str(each) for each in again.plan.changes] == []


async def test_a_file_without_a_host_stops_it_at_the_start(tmp_path: Path) -> None:
    """As at a reload; a host that is in the file again is not started by that, an operator may have stopped it."""
    async with broker_of(config(tmp_path, persistent=True)):
        pass
    async with broker_of(config(tmp_path, "", persistent=True)) as broker:
        assert [each.state for each in broker.virtual_hosts.hosts.all()] == [HostState.STOPPED] * 2
    async with broker_of(config(tmp_path, persistent=True)) as broker:
        assert [each.state for each in broker.virtual_hosts.hosts.all()] == [HostState.STOPPED] * 2
        assert host(broker).config.declared


async def test_an_operator_stops_a_host_for_longer_than_a_run(tmp_path: Path) -> None:
    """The file says that it is enabled; that counts when the file changes."""
    async with broker_of(config(tmp_path, persistent=True)) as broker:
        with broker.in_turn():
            broker.virtual_hosts.hosts.stop("red")

    disabled = HOSTS.replace(
        '<virtual-host name="blue"/>', '<virtual-host name="blue"><enabled>false</enabled></virtual-host>'
    )
    async with broker_of(config(tmp_path, disabled, persistent=True)) as broker:
        assert [host(broker, name).state for name in ("red", "blue")] == [HostState.STOPPED] * 2
        broker.reload(config(tmp_path, persistent=True))
        assert [host(broker, name).state for name in ("red", "blue")] == [HostState.STOPPED, HostState.ACTIVE]


async def test_options_of_the_broker_reach_its_hosts(tmp_path: Path) -> None:
    """An option that changes at run time changes in every host."""
    limited = CORE + "<id-cache-size>5</id-cache-size>"
    async with broker_of(config(tmp_path)) as broker:
        with broker.in_turn():
            broker.virtual_hosts.hosts.create(VirtualHostConfig(name="green"))

        broker.reload(config(tmp_path, core=limited))

        everybody = [broker.domain, *[domain(broker, name) for name in ("red", "blue", "green")]]
        assert [each.options.id_cache_size for each in everybody] == [5] * 4


def test_mistakes_are_named_by_line(tmp_path: Path) -> None:
    """All of them in one pass."""
    hosts = """
<virtual-hosts xmlns="urn:artemis-py">
  <virtual-host name="red"><max-queues>many</max-queues></virtual-host>
  <virtual-host name="RED"/>
  <virtual-host name="default"/>
  <virtual-host name="a:b"/>
  <virtual-host name="blue"><hostnames>red, blue.example</hostnames><colour>blue</colour></virtual-host>
  <virtual-host name="green"><addresses/></virtual-host>
  <virtual-host/>
</virtual-hosts>"""
    _, report = parse_all(document(hosts), "broker.xml", tmp_path, {})
    first = document("").decode().count("\n") + 1

    found = sorted(str(each).removeprefix("broker.xml:") for each in report.problems)

    assert [each.replace(each.split(":")[0], str(int(each.split(":")[0]) - first), 1) for each in found] == [
        '2: max-queues: "many" is not a whole number; write a number without a unit',
        f'3: virtual-host: attribute name: "RED" {TAKEN} {first + 2} already; choose another',
        "4: virtual-host: attribute name: 'default' means the default host; choose another name",
        "5: virtual-host: attribute name: the name of virtual host 'a:b' may not contain ':'",
        f"6: colour: is not an element of virtual-host; use one of {CHILDREN}",
        f'6: hostnames: "red" is a name of the virtual host in line {first + 2} already; choose another',
        '7: addresses: is in the wrong XML namespace; it belongs to xmlns="urn:activemq:core"',
        '8: virtual-host: attribute name: is missing; write <virtual-host name="…">',
    ]


async def test_roles_decide_who_may_connect(tmp_path: Path) -> None:
    """Where permissions are checked at all."""
    hosts = HOSTS.replace("<max-queues>10</max-queues>", "<roles>red</roles>")
    async with broker_of(config(tmp_path, hosts, secure=True)) as broker:
        sessions = host(broker).services.sessions
        sessions.open(Subject("rita", frozenset(("red",)))).close()
        with pytest.raises(NotAuthorized):
            sessions.open(Subject("ben", frozenset(("app",))))


async def test_limits_are_those_of_a_host(tmp_path: Path) -> None:
    """Connections and queues of other hosts do not count."""
    async with broker_of(config(tmp_path)) as broker:
        hosts = broker.virtual_hosts.hosts
        hosts.update("blue", VirtualHostConfig(name="blue", max_connections=1))
        one = host(broker, "blue").services.sessions.open(Subject(None))
        with pytest.raises(LimitExceeded):
            host(broker, "blue").services.sessions.open(Subject(None))
        host(broker).services.sessions.open(Subject(None)).close()
        one.close()
        host(broker, "blue").services.sessions.open(Subject(None)).close()


class Replies(Sink):
    """What a client of management is answered."""

    def __init__(self) -> None:
        self.answers: list[tuple[bool, Any]] = []

    def deliver(self, reference: Reference) -> None:
        view = reference.message.view
        self.answers.append((view.properties[SUCCEEDED] is True, json.loads(str(view.body))[0]))


def ask(broker: Broker, host_name: str | None, resource: str, operation: str, *parameters: object) -> tuple[bool, Any]:
    """What management answers in a host."""
    services = broker.services if host_name is None else host(broker, host_name).services
    with broker.in_turn():
        session = services.sessions.open(Subject("admin"))
        queue = session.create_temporary_queue(RoutingType.ANYCAST)
        replies = Replies()
        consumer = session.consume(queue, replies)
        consumer.grant(10)
        view = MessageView(
            reply_to=queue.name, properties={RESOURCE: resource, OPERATION: operation}, body=json.dumps(parameters)
        )
        request: Message = plain_message("activemq.management", view)
        session.producer("activemq.management").send(request)
        while broker.domain.dispatcher.run():
            pass
        session.close()
    (answer,) = replies.answers
    return answer


async def test_management_creates_changes_stops_starts_and_deletes(tmp_path: Path) -> None:
    """And shows each of it."""
    async with broker_of(config(tmp_path)) as broker:
        ok, created = ask(
            broker, None, "broker", "createVirtualHost", {"name": "green", "max-queues": 5, "hostnames": ["g.example"]}
        )
        assert (ok, json.loads(created)["maxQueues"], json.loads(created)["state"]) == (True, 5, "ACTIVE")
        assert ask(broker, None, "broker", "listVirtualHostNames") == (True, ["blue", "default", "green", "red"])
        assert ask(broker, None, "virtualhost.Green", "getHostnames") == (True, ["g.example"])
        assert ask(broker, None, "broker", "updateVirtualHost", {"name": "green", "max-connections": 3})[0]
        assert ask(broker, None, "virtualhost.green", "getMaxConnections") == (True, 3)
        assert ask(broker, None, "virtualhost.green", "getMaxQueues") == (True, 5)
        assert ask(broker, None, "broker", "stopVirtualHost", "green") == (True, True)
        assert ask(broker, None, "broker", "stopVirtualHost", "green", "again") == (True, False)
        assert ask(broker, None, "virtualhost.green", "getState") == (True, "STOPPED")
        with pytest.raises(HostStopped):
            host(broker, "green").services.sessions.open(Subject(None))
        assert ask(broker, None, "broker", "startVirtualHost", "green") == (True, True)
        assert ask(broker, None, "broker", "deleteVirtualHost", "green") == (True, None)
        ok, text = ask(broker, None, "virtualhost.green", "getState")
        assert (ok, text) == (False, "virtual host 'green' does not exist")


@pytest.mark.parametrize(
    ("operation", "parameter", "text"),
    [
        ("createVirtualHost", {"name": "red"}, "there is a virtual host for 'red' already"),
        ("createVirtualHost", {"name": "default"}, "'default' means the default host; choose another name"),
        ("createVirtualHost", {"max-queues": 1}, "a text is needed for 'name'"),
        ("createVirtualHost", {"name": "x", "max-queues": "1"}, "'max-queues' cannot be \"1\""),
        ("createVirtualHost", {"name": "x", "max-queues": -2}, "'max-queues' cannot be -2"),
        ("createVirtualHost", {"name": "x", "enabled": 1}, "'enabled' cannot be 1"),
        ("createVirtualHost", {"name": "x", "roles": [1]}, "'roles' cannot be [1]"),
        (
            "createVirtualHost",
            {"name": "x", "max-queue": 1},
            f"member 'max-queue' is unknown; did you mean max-queues?; known: {MEMBERS}",
        ),
        ("deleteVirtualHost", "rid", "virtual host 'rid' does not exist; did you mean red?"),
        (
            "stopVirtualHost",
            "default",
            "the default host is the broker itself; it is neither stopped nor changed nor deleted",
        ),
    ],
)
async def test_management_refuses_what_cannot_be(tmp_path: Path, operation: str, parameter: object, text: str) -> None:
    """With the reason."""
    async with broker_of(config(tmp_path)) as broker:
        assert ask(broker, None, "broker", operation, parameter) == (False, text)


async def test_each_host_is_managed_by_itself(tmp_path: Path) -> None:
    """Its `broker` is this host; other hosts are administered in the default one."""
    async with broker_of(config(tmp_path)) as broker:
        send(domain(broker))

        assert "q" in ask(broker, "red", "broker", "getQueueNames")[1]
        assert ask(broker, "red", "queue.q", "getMessageCount") == (True, 1)
        assert ask(broker, None, "queue.q", "getMessageCount") == (True, 0)
        assert ask(broker, None, "virtualhost.red", "getTotalMessageCount") == (True, 1)
        assert ask(broker, "red", "broker", "createAddress", "new", "ANYCAST")[0]
        assert "new" in domain(broker).addresses
        assert "new" not in broker.domain.addresses
        assert ask(broker, "red", "broker", "deleteVirtualHost", "blue") == (
            False,
            "virtual hosts are managed in the default host; connect without naming another one",
        )


def test_an_acceptor_of_an_unknown_host_is_doubtful(tmp_path: Path) -> None:
    """The host may be created later; until then its clients are refused."""
    text = document().replace(b"tcp://127.0.0.1:0", b"tcp://127.0.0.1:0?virtualHost=green")
    config, report = parse_all(text, "broker.xml", tmp_path, {})

    assert config.acceptors[0].virtual_host == "green"
    assert [each.message for each in report.warnings] == [f'parameter virtualHost: "green" {DOUBT}']
    _, report = parse_all(text.replace(b"=green", b"=RED"), "broker.xml", tmp_path, {})
    assert report.warnings == []


async def test_events_of_a_host_are_logged_under_its_name(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The logger of a line says which host it is about."""
    async with broker_of(config(tmp_path)) as broker:
        send(domain(broker))

    assert [each.name for each in caplog.records if "reached no queue" in each.message] == [
        "artemis_py.management.event_log.red"
    ]


def test_check_finds_what_would_be_lost_in_a_host(tmp_path: Path) -> None:
    """A dead-letter address without a queue, named with its line."""
    hosts = HOSTS.replace(
        "<max-delivery-attempts>3", "<dead-letter-address>DLQ</dead-letter-address><max-delivery-attempts>3"
    )
    (tmp_path / "broker.xml").write_bytes(document(hosts))

    findings = examine(tmp_path / "broker.xml")

    assert findings.problems == []
    line = document(hosts).decode().split("DLQ")[0].count("\n") + 1
    assert [(each.line, "DLQ" in each.message) for each in findings.warnings] == [(line, True)]


def test_check_finds_what_a_start_would_refuse(tmp_path: Path) -> None:
    """With the name of the host: here its queue has no place, because of its own limit."""
    hosts = HOSTS.replace("<max-queues>10", "<max-queues>0")
    (tmp_path / "broker.xml").write_bytes(document(hosts))

    (problem,) = examine(tmp_path / "broker.xml").problems

    assert (problem.element, problem.message) == (
        'virtual-host "red", queue "q"',
        "there are 0 queues, and max-queues is 0",
    )


async def test_a_host_that_no_file_declares_has_the_settings_of_the_broker(tmp_path: Path) -> None:
    """And its permissions; they follow a reload, and end when the file declares the host."""
    user, other = Subject("u", frozenset(("app",))), Subject("o", frozenset(("red",)))
    declared = HOSTS.replace('name="red"', 'name="green"')
    changed = CORE.replace("<max-delivery-attempts>7", "<max-delivery-attempts>8")

    def found(broker: Broker) -> tuple[int, bool, bool]:
        green = domain(broker, "green")
        may = [green.access.allows(each, Permission.SEND, "q") for each in (user, other)]
        return green.settings.resolve("q").max_delivery_attempts, may[0], may[1]

    async with broker_of(config(tmp_path, secure=True, persistent=True)) as broker:
        with broker.in_turn():
            broker.virtual_hosts.hosts.create(VirtualHostConfig(name="green"))
        assert found(broker) == (7, True, False)
        broker.reload(config(tmp_path, core=changed, secure=True, persistent=True))
        assert found(broker) == (8, True, False)
        assert domain(broker).settings.resolve("q").max_delivery_attempts == 3
    async with broker_of(config(tmp_path, secure=True, persistent=True)) as broker:
        assert found(broker) == (7, True, False)
        broker.reload(config(tmp_path, declared, secure=True, persistent=True))
        assert found(broker) == (3, False, True)
        assert broker.domain.settings.resolve("q").max_delivery_attempts == 7


def test_roles_of_a_host_are_roles_of_the_file(tmp_path: Path) -> None:
    """Those that nobody has are doubtful, as in a permission (`check`)."""
    found = config(tmp_path, HOSTS.replace("<max-queues>10</max-queues>", "<roles>painters</roles>"))

    assert {"painters", "red", "app"} <= set(found.roles)
