"""MQTT connections in virtual hosts: user names and acceptors choose them, sessions belong to one of them."""

from pathlib import Path

import pytest

from artemis_mqtt.engine import reasons
from artemis_mqtt.engine.packets import Disconnect
from artemis_mqtt.engine.properties import Properties
from artemis_py.core.settings.virtual_host_config import VirtualHostConfig
from tests.core_harness import settle_down
from tests.mqtt_site import Client, Site, connected, lasting


def site_with(*names: str, folder: Path | None = None, **options: object) -> Site:
    """A broker with virtual hosts."""
    site = Site(folder)
    for name in names:
        site.hosts.create(VirtualHostConfig(name=name, **options))  # type: ignore[arg-type]
    site.commit()
    return site


def payloads(client: Client) -> list[bytes]:
    """What it received."""
    return [bytes(each[2]) for each in client.packets() if isinstance(each, tuple) and each[0] == "publish"]


@pytest.mark.parametrize(
    ("username", "expected"),
    [
        ("red:alice", ("red", "alice")),
        ("RED:alice", ("red", "alice")),
        ("alice", ("default", "alice")),
        ("blue:alice", ("default", "blue:alice")),
        ("red:", ("default", "red:")),
        (":alice", ("default", ":alice")),
        ("/:alice", ("default", "alice")),
        ("a:b:alice", ("default", "a:b:alice")),
    ],
)
def test_the_user_name_chooses_the_host(username: str, expected: tuple[str, str]) -> None:
    """`host:user` as with RabbitMQ, if there is such a host; any other colon belongs to the name of the user."""
    site = site_with("red")

    client = connected(site, username=username, password=b"p")

    assert client.handler.core is not None
    is_red = client.handler.core.domain is site.hosts.host("red").services.sessions.domain
    assert ("red" if is_red else "default", client.handler.core.subject.user) == expected


def test_the_acceptor_chooses_the_host_of_other_clients() -> None:
    """A user name that names a host goes before it."""
    site = site_with("red", "blue")
    clients = [Client(site, virtual_host="red") for _ in range(2)]

    clients[0].connect("a")
    clients[1].connect("b", username="blue:bob", password=b"p")

    domains = [site.hosts.host(name).services.sessions.domain for name in ("red", "blue")]
    assert [each.handler.core and each.handler.core.domain for each in clients] == domains


def test_an_acceptor_of_a_missing_host_refuses() -> None:
    """Its clients do not land in another host."""
    answer = Client(site_with(), virtual_host="red").connect()

    assert answer.reason == reasons.NOT_AUTHORIZED


def test_topics_sessions_and_retained_messages_are_apart() -> None:
    """The same topic and client identifier in two hosts."""
    site = site_with("red")
    default, red = connected(site, "c"), connected(site, "c", username="red:alice", password=b"p")
    for client, text in ((default, b"default"), (red, b"red")):
        client.subscribe("t/#")
        client.publish("t/1", text)
        client.publish("t/kept", text + b" kept", retain=True)

    assert [payloads(default), payloads(red)] == [[b"default", b"default kept"], [b"red", b"red kept"]]
    late = connected(site, "late", username="red:alice", password=b"p")
    late.subscribe("t/#")
    assert payloads(late) == [b"red kept"]


def test_sessions_of_a_host_survive_a_restart(tmp_path: Path) -> None:
    """With their subscriptions, and those of another host under the same client identifier."""
    with site_with("red", folder=tmp_path) as site:
        for username, topic in ((None, "of/default"), ("red:alice", "of/red")):
            password = None if username is None else b"p"
            client = lasting(site, "c", username=username, password=password)
            client.subscribe(topic, qos=1)
            client.leave()
        site.commit()

    with Site(tmp_path) as site:
        managers = site.manager.siblings.all()
        found = [each.sessions.get("c") for each in managers]
        assert [list(each.subscriptions) for each in found if each is not None] == [["of/default"], ["of/red"]]
        sender = connected(site, "s", username="red:alice", password=b"p")
        sender.publish("of/red", b"m", qos=1, packet_id=1)
        sender.packets()
        client = lasting(site, "c", username="red:alice", password=b"p")
        assert payloads(client) == [b"m"]


@pytest.mark.parametrize("version", [4, 5])
def test_a_stopped_host_disconnects_and_refuses(version: int) -> None:
    """In the words of each version; the others stay connected."""
    site = site_with("red")
    inside = connected(site, "in", version, username="red:alice", password=b"p")
    outside = connected(site, "out", version)

    site.hosts.stop("red")
    site.turn()

    told = [each.reason for each in inside.packets() if isinstance(each, Disconnect)]
    assert told == ([reasons.ADMINISTRATIVE_ACTION] if version == 5 else [])
    assert inside.handler.closed
    assert not outside.handler.closed
    answer = Client(site, version).connect("again", username="red:alice", password=b"p")
    assert answer.reason == (reasons.SERVER_UNAVAILABLE if version == 5 else reasons.SERVER_UNAVAILABLE_3)
    site.hosts.start("red")
    connected(site, "in", version, username="red:alice", password=b"p")


def test_more_connections_than_a_host_allows_are_refused() -> None:
    """With the reason for a quota."""
    site = site_with("red", max_connections=1)
    connected(site, "a", username="red:alice", password=b"p")

    answer = Client(site).connect("b", username="red:alice", password=b"p")

    assert answer.reason == reasons.QUOTA_EXCEEDED


def test_deleting_a_host_ends_its_sessions(tmp_path: Path) -> None:
    """And gives back what they count in the memory of the broker; a will is not published any more."""
    with site_with(folder=tmp_path) as site:
        site.hosts.begin()
        tables = site.domain.dispatcher.tables
        empty = tables.size_bytes
        site.hosts.create(VirtualHostConfig(name="red"))
        for number in range(5):
            client = lasting(site, f"c{number}", username="red:alice", password=b"p")
            client.subscribe(f"t/{number}", qos=1)
            client.subscribe("$share/group/t/#", qos=1)
        client.publish("kept", b"m", retain=True)
        site.commit()
        manager = site.manager.siblings.named("red")
        assert manager is not None

        site.hosts.delete("red")
        for _ in range(20):
            site.pass_time(0.02)
            settle_down(site.domain)
            site.commit()
            client.handler.data_to_send()

        assert site.hosts.leaving() == []
        assert len(manager.sessions) == 0
        assert tables.size_bytes == empty
        assert site.domain.dispatcher.account.size_bytes == 0

    with Site(tmp_path) as site:
        assert len(site.hosts) == 0
        assert [len(each.sessions) for each in site.manager.siblings.all()] == [0]


def test_a_user_name_with_colons_is_as_before_without_hosts() -> None:
    """Nothing changes for a broker that has no virtual hosts."""
    site = Site()

    client = connected(site, username="tenant:alice", password=b"p", properties=Properties())

    assert client.handler.core is not None
    assert client.handler.core.subject.user == "tenant:alice"
