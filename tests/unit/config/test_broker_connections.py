"""Connections to other brokers and bridges: what is read, and what cannot work."""

from typing import Any

import pytest

from artemis_py.config.broker_config import BrokerConnectionSection
from artemis_py.core.settings.bridge_config import BRIDGE_ELEMENTS
from artemis_py.core.settings.broker_connection_config import BROKER_CONNECTION_OPTIONS
from artemis_py.core.settings.declaration import Option
from tests.unit.config.samples import mistakes, other_value, read

ADDRESSES = '<addresses><address name="a.b"><anycast><queue name="q"/></anycast></address></addresses>'
SENDER = '<sender queue-name="q"/>'
ANOTHER = '<amqp-connection name="c" uri="tcp://h:1"><sender queue-name="r"/></amqp-connection>'


def connections(inside: str = SENDER, uri: str = "tcp://far.example:5672", name: str = "c", more: str = "") -> str:
    """Elements of one connection, in line 4."""
    return (
        f'<broker-connections><amqp-connection name="{name}" uri="{uri}" {more}>{inside}</amqp-connection>'
        f"</broker-connections>{ADDRESSES}"
    )


def one(core: str) -> BrokerConnectionSection:
    """The only connection of a file."""
    (found,) = read(core).broker_connections
    return found


def warnings(core: str) -> list[str]:
    """What is said of a file that is accepted."""
    return [str(each) for each in read(core).warnings]


@pytest.mark.parametrize("option", BROKER_CONNECTION_OPTIONS, ids=lambda option: option.name)
def test_every_attribute_is_read(option: Option) -> None:
    """With its default if it is missing."""
    text, value = other_value(option)
    login = {"user": 'password="p"', "password": 'user="u"'}.get(option.name, "")
    given = one(connections(more=f'{option.name}="{text}" {login}')).options

    assert getattr(given, option.attribute) == value
    assert getattr(one(connections()).options, option.attribute) == option.default


def test_senders_and_receivers_say_which_queues_and_where() -> None:
    """One by its name, or all of a match."""
    inside = (
        '<sender address-match="x.#" remote-address="y.{address}" use-duplicate-detection="false"/>'
        '<receiver queue-name="in"/>'
    )
    sender, receiver = one(connections(inside)).options.bridges

    assert (sender.is_sender, sender.address_match, sender.queue_name) == (True, "x.#", "")
    assert (sender.remote_address, sender.use_duplicate_detection) == ("y.{address}", False)
    assert (receiver.is_sender, receiver.queue_name, receiver.remote_address) == (False, "in", "")
    assert (sender.element, receiver.element) == ("sender", "receiver")


def test_a_uri_has_alternatives_each_with_its_parameters() -> None:
    """After `#`, and as in Artemis after commas; a comma may also be in a parameter."""
    uri = "tcp://one:1?saslMechanisms=PLAIN,ANONYMOUS#tcp://two:2?tcpNoDelay=false,tcp://three"
    found = one(connections(uri=uri))

    assert [(each.host, each.port, each.tcp_no_delay) for each in found.ways] == [
        ("one", 1, True),
        ("two", 2, False),
        ("three", 61616, True),
    ]
    assert found.ways[0].sasl_mechanisms == ("PLAIN", "ANONYMOUS")
    assert found.uri == "tcp://one:1#tcp://two:2#tcp://three:61616"
    assert {each.name for each in found.ways} == {"c"}


@pytest.mark.parametrize(
    ("core", "expected"),
    [
        (connections("<sender/>"), "sender: needs one of address-match and queue-name"),
        (
            connections('<receiver queue-name="q" address-match="#"/>'),
            "receiver: needs one of address-match and queue-",
        ),
        (connections('<sender queue-name="a::q"/>'), 'sender: attribute queue-name: "a::q" contains ::'),
        (
            connections('<sender queue-name="q" remote-address="x.{adress}"/>'),
            "sender: attribute remote-address: {adress} stands for nothing; write {address} or {queue}",
        ),
        (connections(uri="amqp://h:1"), "amqp-connection: attribute uri: scheme amqp: only tcp is supported"),
        (connections(uri="tcp://u@h:1"), 'amqp-connection: attribute uri: "tcp://u@h:1" is not of the form'),
        (connections(uri="tcp://h:1?trustAll=true"), "parameter trustAll: is not supported by artemis_py: any broker"),
        (connections(more='user="u"'), "amqp-connection: has no password; write both user and"),
        (connections(more='password="p"'), "amqp-connection: has no user; write both user and password, or none"),
        (
            connections().replace("</broker-connections>", f"{ANOTHER}</broker-connections>"),
            'amqp-connection: there is another connection called "c"; give each its own name',
        ),
    ],
)
def test_what_cannot_work_is_a_mistake(core: str, expected: str) -> None:
    """With the line and what would be right."""
    found = mistakes(core)

    assert len(found) == 1
    assert found[0].startswith("broker.xml:4: ")
    assert expected in found[0]


@pytest.mark.parametrize(
    ("sender", "receiver", "is_circle"),
    [
        ('queue-name="q"', 'queue-name="q"', True),
        ('queue-name="q"', 'address-match="a.#"', True),
        ('address-match="a.b"', 'address-match="a.*"', True),
        ('address-match="#"', 'queue-name="anything"', True),
        ('queue-name="other"', 'address-match="a.#"', False),
        ('queue-name="q"', 'queue-name="other"', False),
        ('address-match="a.#"', 'address-match="b.#"', False),
    ],
)
def test_a_circle_is_a_mistake_where_the_file_shows_it(sender: str, receiver: str, is_circle: bool) -> None:
    """The queue q is at the address a.b."""
    core = connections(f"<sender {sender}/><receiver {receiver}/>")

    found = mistakes(core) if is_circle else []

    assert bool(found) == is_circle
    assert all("messages would go there and come back without end" in each for each in found)
    if not is_circle:
        assert len(one(core).options.bridges) == 2


@pytest.mark.parametrize(
    ("uri", "is_told"),
    [
        ("tcp://far.example:1?saslMechanisms=PLAIN", True),
        ("tcp://far.example:1?saslMechanisms=SCRAM-SHA-256", False),
        ("tcp://far.example:1", False),
        ("tcp://127.0.0.1:1?saslMechanisms=PLAIN", False),
        ("tcp://localhost:1?saslMechanisms=PLAIN", False),
        ("tcp://far.example:1?sslEnabled=true;saslMechanisms=PLAIN", False),
    ],
)
def test_a_password_that_others_can_read_is_warned_of(uri: str, is_told: bool) -> None:
    """Only if PLAIN is asked for: otherwise it is not sent."""
    found = warnings(connections(uri=uri, more='user="u" password="p"'))

    assert [("without encryption, where others can read it" in each) for each in found] == [True] * is_told


def test_a_connection_without_a_sender_is_warned_of() -> None:
    """Artemis takes it."""
    assert warnings(connections("")) == [
        "broker.xml:4: amqp-connection: has no sender and no receiver: no message will pass"
    ]


def test_nothing_that_is_logged_has_a_password() -> None:
    """The configuration is shown where it changes."""
    section = one(connections(more='user="u" password="geheim"'))

    assert "geheim" not in repr(section)
    assert section.options.password == "geheim"


# --- bridges ---


def bridge(
    inside: str = "<queue-name>q</queue-name>",
    static: str = "<static-connectors><connector-ref>x</connector-ref></static-connectors>",
    name: str = "b",
) -> str:
    """A bridge, in line 4."""
    return (
        '<connectors><connector name="x">tcp://far:5672?tcpNoDelay=false</connector><connector name="y">tcp://b</connector>'
        f'</connectors><bridges><bridge name="{name}">{inside}{static}</bridge></bridges>'
    )


@pytest.mark.parametrize(
    "option",
    [each for each in BRIDGE_ELEMENTS if each.name not in ("routing-type", "concurrency")],
    ids=lambda option: option.name,
)
def test_every_element_of_a_bridge_is_read(option: Option) -> None:
    """Into a connection with one sender."""
    text, value = other_value(option)
    login = {"user": "<password>p</password>", "password": "<user>u</user>"}.get(option.name, "")
    inside = f"<{option.name}>{text}</{option.name}>{login}"
    if option.name != "queue-name":
        inside += "<queue-name>q</queue-name>"
    options = one(bridge(inside)).options
    (sender,) = options.bridges
    names: dict[str, Any] = {"forwarding_address": sender.remote_address, "queue_name": sender.queue_name}
    names["use_duplicate_detection"] = sender.use_duplicate_detection

    assert names.get(option.attribute, getattr(options, option.attribute, None)) == value


def test_a_bridge_goes_to_its_connectors_one_after_the_other() -> None:
    """In their order; they are shown under the name of the bridge."""
    both = "<static-connectors><connector-ref>x</connector-ref><connector-ref>y</connector-ref></static-connectors>"
    inside = "<queue-name>q</queue-name><filter string=\"a = 'b'\"/>"
    found = one(bridge(inside, both))

    assert [(each.name, each.host, each.tcp_no_delay) for each in found.ways] == [("b", "far", False), ("b", "b", True)]
    assert found.options.bridges[0].filter == "a = 'b'"


@pytest.mark.parametrize(
    ("core", "expected"),
    [
        (bridge(""), "bridge: has no queue-name; write <queue-name>…</queue-name> inside"),
        (bridge(static=""), "bridge: names no other broker; write <static-connectors> with a <connector-ref>"),
        (
            bridge(static="<static-connectors><connector-ref>z</connector-ref></static-connectors>"),
            'connector-ref: there is no connector "z"; <connectors> has x, y',
        ),
        (
            bridge("<queue-name>q</queue-name><concurrency>2</concurrency>"),
            "concurrency: only 1, which keeps the order of messages, is supported; write it, or remove the element",
        ),
        (
            bridge("<queue-name>q</queue-name><routing-type>STRIP</routing-type>"),
            "routing-type: only PASS is supported; write it, or remove the element",
        ),
        (bridge("<queue-name>q</queue-name><user>u</user>"), "bridge: has no password; write both user and password"),
        (
            bridge().replace(
                "</bridges>",
                '<bridge name="b"><queue-name>r</queue-name><static-connectors>'
                "<connector-ref>x</connector-ref></static-connectors></bridge></bridges>",
            ),
            'bridge: there is another bridge or connection called "b"; give each its own name',
        ),
    ],
)
def test_what_a_bridge_cannot_do_is_a_mistake(core: str, expected: str) -> None:
    """By its name."""
    (found,) = mistakes(core)

    assert found.startswith(f"broker.xml:4: {expected}")
