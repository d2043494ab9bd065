"""OpenWire connections in virtual hosts: the acceptor or the host of the URL chooses one."""

from typing import Any

import pytest

from artemis_openwire.engine.codec import write_frame
from artemis_openwire.engine.commands import ConnectionError as ConnectionFailure
from artemis_openwire.engine.commands import ExceptionResponse
from artemis_py.core.settings.virtual_host_config import VirtualHostConfig
from tests.openwire_harness import wire_format
from tests.openwire_site import Client, Site, queue, topic


def site_with(*names: str, **options: object) -> Site:
    """A broker with virtual hosts."""
    site = Site()
    for name in names:
        site.hosts.create(VirtualHostConfig(name=name, **options))  # type: ignore[arg-type]
    return site


def negotiated(site: Site, name: str, hostname: str, virtual_host: str = "") -> Client:
    """A client whose URL has this host."""
    client = Client(site, name, virtual_host=virtual_host)
    client.handler.receive_data(write_frame(wire_format(client.version, Host=hostname), 1), 0.0)
    client.received()
    return client


def test_the_acceptor_chooses_the_host() -> None:
    """Queues of one name in two hosts; the client ids are those of each host, too."""
    site = site_with("red")
    default, red = Client(site, "c1").log_in(), Client(site, "c2", virtual_host="red").log_in(client_id="client c1")

    default.send(queue("q"), "default")
    red.send(queue("q"), "red")
    red.consume(queue("q"))

    assert red.texts() == ["red"]
    assert site.domain.queues["q"].message_count == 1


def test_advisories_stay_in_their_host() -> None:
    """A client is not told of the clients of another host."""
    site = site_with("red")
    watcher = Client(site, "w").log_in()
    watcher.consume(topic("ActiveMQ.Advisory.Connection"))
    watcher.dispatches()

    Client(site, "r", virtual_host="red").log_in()
    assert watcher.dispatches() == []
    Client(site, "d").log_in()
    assert len(watcher.dispatches()) == 1


@pytest.mark.parametrize(
    ("hostname", "acceptor_host", "expected"),
    [("red", "", "red"), ("RED", "blue", "red"), ("machine", "blue", "blue"), ("machine", "", None)],
)
def test_the_host_of_the_url_goes_first(hostname: str, acceptor_host: str, expected: str | None) -> None:
    """Clients send it with their wire format."""
    site = site_with("red", "blue")

    client = negotiated(site, "c", hostname, acceptor_host)
    client.done(client.info())

    found = None if client.handler.services.sessions.domain is site.domain else client.handler.services
    assert found is (None if expected is None else site.hosts.host(expected).services)


def error_of(client: Client) -> Any:
    """What a client is told that may not come in."""
    answer = client.ask(client.info())
    assert isinstance(answer, ExceptionResponse)
    return answer.exception


def test_an_acceptor_of_a_missing_host_refuses() -> None:
    """Its clients do not land in another host."""
    error = error_of(negotiated(site_with(), "c", "machine", "red"))

    assert "red" in error.message


def test_a_stopped_host_closes_its_connections_and_refuses() -> None:
    """With an IOException, on which failover clients try again."""
    site = site_with("red")
    inside, outside = Client(site, "c1", virtual_host="red").log_in(), Client(site, "c2").log_in()

    site.hosts.stop("red")
    site.turn()

    told = [each.exception for each in inside.received() if isinstance(each, ConnectionFailure)]
    assert [each.class_name for each in told if each is not None] == ["java.io.IOException"]
    assert inside.handler.closed
    assert not outside.handler.closed
    assert error_of(negotiated(site, "c3", "red")).class_name == "java.io.IOException"
    site.hosts.start("red")
    Client(site, "c1", virtual_host="red").log_in()


def test_more_connections_than_a_host_allows_are_refused() -> None:
    """As for any other resource."""
    site = site_with("red", max_connections=1)
    Client(site, "c1", virtual_host="red").log_in()

    error = error_of(negotiated(site, "c2", "red"))

    assert error.class_name == "javax.jms.ResourceAllocationException"
