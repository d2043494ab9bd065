"""Diverts of a broker.xml, with a broker that was started from it (artemis-model §3.2)."""

import pytest
from proton import Message

from tests.interop.broker_process import BrokerProcess, Instance, launch
from tests.interop.conftest import StartBroker
from tests.interop.proton.client import Client

INSTANCE = Instance(
    persistence="true",
    core="""
<security-enabled>false</security-enabled>
<diverts>
  <divert name="audit">
    <address>orders</address>
    <forwarding-address>orders.audit</forwarding-address>
    <exclusive>false</exclusive>
  </divert>
  <divert name="abroad">
    <routing-name>abroad</routing-name>
    <address>parcels</address>
    <forwarding-address>parcels.abroad</forwarding-address>
    <filter string="country &lt;&gt; 'NZ'"/>
    <exclusive>true</exclusive>
    <routing-type>ANYCAST</routing-type>
  </divert>
  <divert name="undeclared">
    <address>letters</address>
    <forwarding-address>parcels.abroad</forwarding-address>
  </divert>
</diverts>
""",
    addresses="""
<address name="orders"><anycast><queue name="orders"/></anycast></address>
<address name="orders.audit"><anycast><queue name="orders.audit"/></anycast></address>
<address name="parcels"><anycast><queue name="parcels"/></anycast></address>
<address name="parcels.abroad"><anycast><queue name="parcels.abroad"/></anycast></address>
""",
)


@pytest.fixture(scope="module")
def diverting(start: StartBroker) -> BrokerProcess:
    """The one broker of this module."""
    return start(INSTANCE)


def parcel(country: str) -> Message:
    """A message whose body and property are the country."""
    return Message(body=country, properties={"country": country})


def test_a_divert_copies_and_the_queue_gets_the_message_too(diverting: BrokerProcess) -> None:
    with Client(diverting.url) as client:
        client.send("orders", "one", "two")

        assert client.bodies("orders") == ["one", "two"]
        assert client.bodies("orders.audit") == ["one", "two"]


def test_a_copy_says_where_it_comes_from(diverting: BrokerProcess) -> None:
    """artemis-model §8; the original has no such note."""
    with Client(diverting.url) as client:
        client.send("orders", "m")
        copy, original = client.receive("orders.audit"), client.receive("orders")

    assert copy.annotations["x-opt-ORIG-ADDRESS"] == "orders"
    assert copy.annotations["x-opt-ORIG-QUEUE"] == "audit"
    assert not [name for name in original.annotations if "ORIG" in name]


def test_an_exclusive_divert_takes_what_its_filter_accepts(diverting: BrokerProcess) -> None:
    with Client(diverting.url) as client:
        client.send("parcels", *[parcel(country) for country in ("NZ", "FR", "NZ", "IT")])

        assert client.bodies("parcels") == ["NZ", "NZ"]
        assert client.bodies("parcels.abroad") == ["FR", "IT"]


def test_a_divert_makes_the_address_that_it_is_bound_to(diverting: BrokerProcess) -> None:
    """Nothing else declares it."""
    with Client(diverting.url) as client:
        client.sender("letters").send("m")

        assert client.bodies("parcels.abroad") == ["m"]


def test_diverts_are_there_after_a_restart(start: StartBroker) -> None:
    """They are made from the configuration; what they sent on is as durable as the original."""
    first = start(INSTANCE)
    with Client(first.url) as client:
        client.send("parcels", Message(body="before", durable=True, properties={"country": "FR"}))
    first.stop()
    second = launch(first.directory)
    try:
        with Client(second.url) as client:
            client.send("parcels", parcel("IT"))

            assert client.bodies("parcels.abroad") == ["before", "IT"]
            assert client.bodies("parcels") == []
    finally:
        second.stop()
