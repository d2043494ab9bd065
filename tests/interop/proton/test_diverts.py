"""Diverts of a broker.xml, with a broker that was started from it (artemis-model §3.2)."""

import json

import pytest
from proton import Message

from artemis_py.cli.client import Target
from artemis_py.cli.manage import call
from tests.interop.broker_process import BrokerProcess, Instance, launch
from tests.interop.conftest import StartBroker
from tests.interop.proton.client import Client, Refused

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


USERS = """
ann = ann-secret
boss = boss-secret
"""

GUARDED = Instance(
    core="""
<security-enabled>true</security-enabled>
<security-settings>
  <security-setting match="#">
    <permission type="createAddress" roles="bosses"/>
    <permission type="createDurableQueue" roles="bosses"/>
    <permission type="createNonDurableQueue" roles="bosses,writers"/>
    <permission type="deleteNonDurableQueue" roles="bosses,writers"/>
    <permission type="send" roles="bosses"/>
    <permission type="consume" roles="bosses"/>
    <permission type="browse" roles="bosses"/>
  </security-setting>
  <security-setting match="in">
    <permission type="send" roles="bosses,writers"/><permission type="consume" roles="bosses"/>
  </security-setting>
  <security-setting match="other">
    <permission type="send" roles="bosses,writers"/><permission type="consume" roles="bosses"/>
  </security-setting>
</security-settings>
<diverts>
  <divert name="audit-in"><address>in</address><forwarding-address>audit</forwarding-address></divert>
  <divert name="new">
    <address>other</address><forwarding-address>audit, made</forwarding-address><routing-type>ANYCAST</routing-type>
  </divert>
</diverts>
""",
    addresses="""
<address name="in"><anycast><queue name="in"/></anycast></address>
<address name="other"><anycast><queue name="other"/></anycast></address>
<address name="audit"><anycast><queue name="audit"/></anycast></address>
""",
    users=USERS,
    roles="bosses = boss\nwriters = ann\n",
)


def test_what_a_divert_creates_needs_the_rights_of_the_sender(start: StartBroker) -> None:
    """A copy for an address that exists needs none: the administrator who made the divert decided. As in Artemis."""
    broker = start(GUARDED)
    login = {"allowed_mechs": "PLAIN"}
    with (
        Client(broker.url, user="ann", password="ann-secret", **login) as ann,
        Client(broker.url, user="boss", password="boss-secret", **login) as boss,
    ):
        ann.send("in", "audited")
        with pytest.raises(Refused) as refused:
            ann.sender("other").send("refused")
        boss.send("other", "taken")

        assert refused.value.condition == "amqp:unauthorized-access"
        assert "divert 'new': user 'ann' lacks permission 'createAddress' on 'made'" in str(refused.value)
        assert boss.bodies("audit") == ["audited", "taken"]
        assert boss.bodies("other") == ["taken"]
        assert boss.bodies("made") == ["taken"]


def test_a_divert_that_an_administrator_made_is_there_after_a_kill(start: StartBroker) -> None:
    """It was confirmed, so it is on disk. The configuration does not have it and leaves it alone."""
    first = start(INSTANCE)
    wanted = {"name": "mine", "address": "orders", "forwarding-address": "orders.mine", "routing-type": "ANYCAST"}
    created = json.loads(call(Target(url=first.url, user=None, password=None), "broker", "createDivert", wanted))
    assert created["managed"]
    first.kill()
    second = launch(first.directory)
    try:
        with Client(second.url) as client:
            client.send("orders", "m")

            assert client.bodies("orders.mine") == ["m"]
            assert client.bodies("orders.audit") == ["m"]
    finally:
        second.stop()


CIRCLE = """
<security-enabled>false</security-enabled>
<diverts>
  <divert name="there"><address>a</address><forwarding-address>b</forwarding-address></divert>
  <divert name="back"><address>b</address><forwarding-address>a</forwarding-address></divert>
</diverts>
"""


def test_a_circle_is_in_the_log_at_the_start_and_when_a_message_goes_round(start: StartBroker) -> None:
    broker = start(Instance(core=CIRCLE, addresses='<address name="a"><anycast><queue name="a"/></anycast></address>'))
    text = broker.log_text()
    assert "the diverts there -> back -> there form a circle" in text
    assert "a message is not diverted again" not in text

    with Client(broker.url) as client:
        client.send("a", "1", "2")
        assert client.bodies("a") == ["1", "1", "2", "2"]

    assert broker.log_text().count("a message is not diverted again: divert=there way=there -> back -> there") == 1
