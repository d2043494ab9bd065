"""What OpenWire clients are told of other brokers (openwire §12.1, mesh §7.1, §7.2)."""

from typing import Any

import pytest
from attrs import evolve

from artemis_openwire.engine.commands import ConnectionControl, ExceptionResponse, ShutdownInfo
from artemis_py.core.runtime.referrals import Alternative
from tests.openwire_site import Client, Site

A = Alternative(node_id="a", name="A", host="a.example", port=61616, protocols=frozenset(("OPENWIRE",)))
B = evolve(A, node_id="b", name="B", host="b.example")
C = evolve(A, node_id="c", name="C", host="c.example")
ALONE = ConnectionControl(connected_brokers="", reconnect_to="")


def client_of(site: Site, name: str = "c1", version: int = 12, follows: bool = True, **parameters: Any) -> Client:
    """One that is managed, as those of Java are."""
    client = Client(site, name, version, **parameters)
    client.negotiate()
    client.done(client.info(manageable=True, fault_tolerant=follows))
    return client


def site(*brokers: Alternative) -> Site:
    """A broker, called A, that knows others."""
    here = Site()
    here.host.referrals.told(brokers, [A])
    return here


def names(control: Any) -> set[str]:
    """The hosts of a list."""
    assert isinstance(control, ConnectionControl)
    return {uri.partition("://")[2].partition(".")[0] for uri in (control.connected_brokers or "").split(",")}


def test_the_login_names_other_brokers() -> None:
    """A client with the failover transport tries them before its own."""
    here = site(B)
    assert client_of(here).received() == [ConnectionControl(connected_brokers="tcp://b.example:61616", reconnect_to="")]


@pytest.mark.parametrize(
    "options", [{"follows": False}, {"version": 5}, {"updateClusterClients": "false"}], ids=["deaf", "old", "off"]
)
def test_some_are_told_nothing(options: Any) -> None:
    """Without the failover transport, in an old version, and where the acceptor says so."""
    here = site(B)
    client = client_of(here, **options)
    control = client.received()
    here.host.referrals.told([B, C], [A])

    assert [(each.connected_brokers or "") for each in control] == [""]
    assert client.received() == []


def test_clients_hear_of_a_broker_more() -> None:
    """C52, without moving: the new list replaces the old one."""
    here = site()
    client = client_of(here)
    assert client.received() == [ALONE]
    here.host.referrals.told([B], [A])
    (first,) = client.received()
    here.host.referrals.told([B, C], [A])
    (second,) = client.received()

    assert (names(first), names(second)) == ({"b"}, {"b", "c"})
    assert not second.rebalance_connection


@pytest.mark.parametrize(("option", "expected"), [("false", []), ("true", [{"b"}])])
def test_clients_hear_of_a_broker_less_if_wanted(option: str, expected: list[set[str]]) -> None:
    """It may be away for a moment only, and a client that knows its address finds it again."""
    here = site(B, C)
    client = client_of(here, updateClusterClientsOnRemove=option)
    client.received()
    here.host.referrals.told([B], [A])

    assert [names(each) for each in client.received()] == expected


def test_clients_are_spread_if_wanted() -> None:
    """C52: they connect again to one of all brokers, this one among them, and the list is the same everywhere."""
    here, there = site(B), Site()
    there.host.referrals.told([A], [B])
    client = client_of(here, rebalanceClusterClients="true")
    (login,) = client.received()
    here.host.referrals.told([B, C], [A])
    (update,) = client.received()
    (elsewhere,) = client_of(there, rebalanceClusterClients="true").received()

    assert login.rebalance_connection
    assert update.rebalance_connection
    assert names(update) == {"a", "b", "c"}
    assert login.connected_brokers == elsewhere.connected_brokers


def test_a_client_that_follows_is_sent_away() -> None:
    """It connects again to the others, this one not among them; one that would not go stays."""
    here = site(B)
    client, deaf = client_of(here), client_of(here, "c2", follows=False)
    client.received()
    deaf.received()
    for each in (client, deaf):
        each.handler.refer(only_followers=False)

    uri = "tcp://b.example:61616"
    assert client.received() == [ConnectionControl(connected_brokers=uri, reconnect_to="")]
    assert client.handler.closed
    assert not deaf.handler.closed
    assert here.manager.clients.with_connection_id("c1") is None


def test_a_newcomer_is_told_where_to_go() -> None:
    """Before it is logged in; without the failover transport as an error."""
    here = site(evolve(B, is_encrypted=False))
    here.host.referrals.leave()
    client, deaf = Client(here), Client(here, "c2")
    for each in (client, deaf):
        each.negotiate()
    client.tell(client.info(fault_tolerant=True), answered=True)
    answer = deaf.ask(deaf.info())

    (control,) = client.received()
    assert (control.connected_brokers, client.handler.closed) == ("tcp://b.example:61616", True)
    assert isinstance(answer, ExceptionResponse)
    assert answer.exception is not None
    assert "another broker serves this client: b.example:61616" in (answer.exception.message or "")
    assert here.manager.clients.all() == []


@pytest.mark.parametrize("leaves", [False, True])
def test_the_goodbye_of_a_broker(leaves: bool) -> None:
    """One that only stops will be back."""
    here = site(B)
    client = client_of(here)
    client.received()
    if leaves:
        here.host.referrals.leave()
    client.handler.shutdown("the broker stops")
    (goodbye,) = client.received()

    assert isinstance(goodbye, ConnectionControl if leaves else ShutdownInfo)


def test_a_telling_of_many_clients_takes_many_turns() -> None:
    """A turn of the loop is bounded, whatever the number of clients."""
    here = site()
    clients = [client_of(here, f"c{number}") for number in range(120)]
    for each in clients:
        each.received()
    before = here.host.meter.work
    here.host.referrals.told([B], [A])
    first = here.host.meter.work - before
    here.turn()

    assert first < 120 * 10
    assert all(names(control) == {"b"} for each in clients for control in each.received())
