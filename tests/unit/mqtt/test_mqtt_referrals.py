"""Server Reference: what MQTT clients are told of other brokers (MQTT 5.0 §4.11, mesh §7.2)."""

import pytest
from attrs import evolve

from artemis_mqtt.engine.packets import Disconnect
from artemis_py.core.runtime.referrals import Alternative
from tests.mqtt_site import Client, Site, connected

B = Alternative(node_id="b", name="B", host="b.example", port=1883, protocols=frozenset(("MQTT",)))
IPV6 = evolve(B, node_id="c", host="::1")


def site(*brokers: Alternative) -> Site:
    """A broker that knows others."""
    here = Site()
    here.manager.host.referrals.told(brokers)
    return here


def test_a_newcomer_is_told_where_to_go() -> None:
    """C53: 0x9C with `host:port`; version 3 has only "server unavailable"."""
    here = site(B)
    here.manager.host.referrals.leave()
    new, old = Client(here, 5).connect(), Client(here, 4).connect("old")

    assert (new.reason, new.properties.server_reference) == (0x9C, "b.example:1883")
    assert (old.reason, old.properties.server_reference) == (3, None)


def test_a_broker_that_will_not_be_back_says_so() -> None:
    """0x9D, and all brokers, separated by blanks."""
    here = site(B, IPV6)
    here.manager.host.referrals.leave(for_good=True)
    answer = Client(here).connect()

    assert answer.reason == 0x9D
    assert sorted((answer.properties.server_reference or "").split(" ")) == ["[::1]:1883", "b.example:1883"]


def test_a_session_is_not_made_for_a_client_that_goes_elsewhere() -> None:
    """Nothing of it is left here."""
    here = site(B)
    here.manager.host.referrals.leave()
    client = Client(here)
    client.connect("elsewhere", clean_start=False)

    assert here.manager.sessions.get("elsewhere") is None
    assert client.handler.closed


@pytest.mark.parametrize("version", [4, 5])
def test_clients_stay_until_all_must_go(version: int) -> None:
    """No client is known to follow; at the goodbye of a broker that leaves, version 5 gets a reference."""
    here = site(B)
    client = connected(here, version=version)
    client.handler.refer(only_followers=True)
    assert not client.handler.closed
    client.handler.refer(only_followers=False)

    assert client.handler.closed
    found = client.packets()
    if version == 5:
        (goodbye,) = found
        assert isinstance(goodbye, Disconnect)
        assert (goodbye.reason, goodbye.properties.server_reference) == (0x9C, "b.example:1883")
    else:
        assert found == []


@pytest.mark.parametrize(("leaves", "expected"), [(False, 0x8B), (True, 0x9D)])
def test_the_goodbye_of_a_broker(leaves: bool, expected: int) -> None:
    """One that only stops will be back, so its clients should try again there."""
    here = site(B)
    client = connected(here)
    if leaves:
        here.manager.host.referrals.leave(for_good=True)
    client.handler.shutdown("the broker stops")
    (goodbye,) = client.packets()

    assert goodbye.reason == expected
