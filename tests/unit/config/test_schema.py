"""The schema and the tables of options say the same.

Run this module (`python -m`) to write what the schema of `<core>` has of them.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest
from attrs import NOTHING
from lxml import etree

from artemis_py.config import known
from artemis_py.config.broker_config import LOGIN_OPTIONS, MAIN_OPTIONS, WILDCARD_OPTIONS
from artemis_py.config.exchanges import ARGUMENT_OPTIONS, BINDING_OPTIONS, EXCHANGE_OPTIONS
from artemis_py.config.reader import shipped_folder
from artemis_py.config.report import Report
from artemis_py.config.schema import SCHEMA_FILES, Schema
from artemis_py.core.settings.address_settings import ADDRESS_SETTINGS
from artemis_py.core.settings.bridge_config import BRIDGE_ELEMENTS
from artemis_py.core.settings.broker_connection_config import (
    BRIDGE_OPTIONS,
    BROKER_CONNECTION_OPTIONS,
    RECEIVER_OPTIONS,
)
from artemis_py.core.settings.broker_settings import BROKER_OPTIONS
from artemis_py.core.settings.cluster_config import CLUSTER_OPTIONS, DISCOVERY_OPTIONS, LOGIN_ELEMENTS
from artemis_py.core.settings.declaration import Kind, Option
from artemis_py.core.settings.divert_config import DIVERT_OPTIONS
from artemis_py.core.settings.queue_config import QUEUE_OPTIONS
from artemis_py.core.settings.queue_settings import Place
from artemis_py.core.settings.resource_limits import RESOURCE_LIMIT_OPTIONS
from artemis_py.core.settings.router_config import CACHE_OPTIONS, POOL_OPTIONS, ROUTER_OPTIONS
from artemis_py.core.settings.virtual_host_config import VIRTUAL_HOST_OPTIONS
from tests.unit.config.samples import QUEUE, SETTING, content, other_value, whole

SCHEMA: Final = shipped_folder() / "artemis-py-core.xsd"
EXCHANGES_SCHEMA: Final = shipped_folder() / "artemis-py-exchanges.xsd"
GENERATED: Final = re.compile(r"( *<!-- generated: ([\w -]+) -->\n).*?( *<!-- end -->)", re.DOTALL)
NUMBERS: Final = {-1: "count", 0: "xs:unsignedLong", 1: "xs:positiveInteger"}
TYPES: Final = {Kind.TEXT: "xs:token", Kind.PATTERN: "xs:token", Kind.BOOLEAN: "truth", Kind.BYTES: "size"}


def type_of(option: Option) -> str:
    """The type of the schema that has the values of an option."""
    match option.kind:
        case Kind.COUNT | Kind.MILLISECONDS:
            assert option.minimum is not None
            return NUMBERS.get(int(option.minimum), "xs:long")
        case Kind.TEXT if option.maximum == 1:
            return "character"
        case Kind.FACTOR:
            return "factor" if option.maximum is None else "share"
        case Kind() as kind:
            return TYPES[kind]
        case kind:
            return re.sub(r"\B([A-Z])", r"-\1", kind.__name__).lower()


def elements(options: Sequence[Option], indent: int = 6) -> str:
    """What an element may hold, and must hold where there is no default."""
    margin = " " * indent
    least = {each.name: "" if each.default is NOTHING else ' minOccurs="0"' for each in options}
    return "".join(
        f'{margin}<xs:element name="{each.name}" type="{type_of(each)}"{least[each.name]}/>\n' for each in options
    )


def words(option: Option) -> str:
    """A type for what is written for an enum's members."""
    names = "".join(f'      <xs:enumeration value="{name}"/>\n' for name in option.words)
    return (
        f'\n  <xs:simpleType name="{type_of(option)}">\n    <xs:restriction base="xs:token">\n{names}'
        "    </xs:restriction>\n  </xs:simpleType>\n"
    )


def attributes(options: Sequence[Option]) -> str:
    """What may be written into the first tag of an element; what must be depends on more than the schema knows."""
    return "".join(f'    <xs:attribute name="{each.name}" type="{type_of(each)}"/>\n' for each in options)


ENUMS: Final = {
    each.kind: each
    for each in (
        *(*ADDRESS_SETTINGS, *QUEUE_OPTIONS, *DIVERT_OPTIONS, *CLUSTER_OPTIONS, *ROUTER_OPTIONS),
        *BRIDGE_ELEMENTS,
    )
    if not isinstance(each.kind, Kind)
}
EXPECTED: Final = {
    "options of the broker": elements((*MAIN_OPTIONS, *BROKER_OPTIONS), indent=8),
    "login to other brokers": elements(LOGIN_ELEMENTS, indent=8),
    "elements of a cluster connection": elements(CLUSTER_OPTIONS),
    "attributes of a broker connection": attributes(BROKER_CONNECTION_OPTIONS),
    "attributes of a sender": attributes(BRIDGE_OPTIONS),
    "attributes of a receiver": attributes(RECEIVER_OPTIONS),
    "elements of a bridge": elements(BRIDGE_ELEMENTS),
    "elements of a discovery group": elements(DISCOVERY_OPTIONS),
    "elements of a connection router": elements(ROUTER_OPTIONS),
    "elements of a router cache": elements(CACHE_OPTIONS),
    "elements of a router pool": elements(POOL_OPTIONS),
    "limits of a user": elements(RESOURCE_LIMIT_OPTIONS),
    "wildcards": elements(WILDCARD_OPTIONS),
    "address settings": elements(ADDRESS_SETTINGS),
    "elements of a queue": elements([each for each in QUEUE_OPTIONS if each.place is Place.ELEMENT]),
    "elements of a divert": elements(DIVERT_OPTIONS),
    "attributes of a queue": attributes([each for each in QUEUE_OPTIONS if each.place is Place.ATTRIBUTE]),
    "words of settings": "".join(words(option) for option in ENUMS.values()),
}
EXPECTED_OF_EXCHANGES: Final = {
    "attributes of an exchange": attributes(EXCHANGE_OPTIONS),
    "attributes of a binding": attributes(BINDING_OPTIONS),
    "attributes of an argument": attributes(ARGUMENT_OPTIONS),
    "words of exchanges": "".join(
        words(each) for each in (*EXCHANGE_OPTIONS, *BINDING_OPTIONS, *ARGUMENT_OPTIONS) if each.words
    ),
}
PARTS: Final = {SCHEMA: EXPECTED, EXCHANGES_SCHEMA: EXPECTED_OF_EXCHANGES}

CONTAINERS = {
    "acceptors",
    "address-settings",
    "addresses",
    "bridges",
    "broker-connections",
    "cluster-connections",
    "connection-routers",
    "connectors",
    "discovery-groups",
    "diverts",
    "resource-limit-settings",
    "security-settings",
    "wildcard-addresses",
}
CLUSTER_PARTS = {
    "address",
    "client-connectors",
    "connector-ref",
    "discovery-group-ref",
    "forward-when-no-consumers",
    "static-connectors",
}
ROUTER = "core/connection-routers/connection-router"
SOURCES = {"cluster-connection", "discovery-group-ref", "static-connectors"}


@pytest.mark.parametrize(("schema", "part"), [(schema, part) for schema, parts in PARTS.items() for part in parts])
def test_the_schema_has_what_is_declared(schema: Path, part: str) -> None:
    """To mend it, run this module."""
    found = {match[2]: match[0] for match in GENERATED.finditer(schema.read_text(encoding="utf-8"))}

    assert found[part].split("\n", 1)[1].rpartition("\n")[0] + "\n" == PARTS[schema][part]


def names(options: tuple[Option, ...]) -> set[str]:
    """Of elements or attributes."""
    return {option.name for option in options}


@pytest.mark.parametrize(
    ("element", "expected"),
    [
        ("core", names(MAIN_OPTIONS) | names(BROKER_OPTIONS) | names(LOGIN_ELEMENTS) | CONTAINERS),
        ("core/cluster-connections/cluster-connection", names(CLUSTER_OPTIONS) | CLUSTER_PARTS),
        ("core/broker-connections/amqp-connection", {"receiver", "sender"}),
        ("core/bridges/bridge", names(BRIDGE_ELEMENTS) | {"filter", "static-connectors"}),
        (ROUTER, names(ROUTER_OPTIONS) | {"cache", "policy", "pool"}),
        (f"{ROUTER}/cache", names(CACHE_OPTIONS)),
        (f"{ROUTER}/pool", names(POOL_OPTIONS) | SOURCES),
        ("core/discovery-groups/discovery-group", names(DISCOVERY_OPTIONS) | {"dns", "zeroconf"}),
        (SETTING, names(ADDRESS_SETTINGS)),
        ("core/diverts/divert", names(DIVERT_OPTIONS) | {"filter", "transformer", "transformer-class-name"}),
        ("core/wildcard-addresses", names(WILDCARD_OPTIONS)),
        ("login", names(LOGIN_OPTIONS)),
        ("exchanges", {"exchange"}),
        ("exchanges/exchange", {"binding"}),
        ("exchanges/exchange/binding", {"filter", "argument"}),
        (
            "virtual-hosts/virtual-host",
            names(VIRTUAL_HOST_OPTIONS)
            | {"addresses", "diverts", "exchanges", "address-settings", "security-settings"},
        ),
    ],
)
def test_an_element_may_hold_what_is_read_from_it(element: str, expected: set[str]) -> None:
    """No element that nobody reads, and no option that nobody can write."""
    assert set(content(element).children) == expected


def test_a_queue_may_hold_what_is_read_from_it() -> None:
    """Half of its options are attributes, as in Artemis."""
    queue = content(QUEUE)

    assert set(queue.attributes) | set(queue.children) == names(QUEUE_OPTIONS) | {"name", "filter"}


@pytest.mark.parametrize(
    ("element", "options"),
    [
        ("exchanges/exchange", EXCHANGE_OPTIONS),
        ("exchanges/exchange/binding", BINDING_OPTIONS),
        ("exchanges/exchange/binding/argument", ARGUMENT_OPTIONS),
        ("core/broker-connections/amqp-connection/sender", BRIDGE_OPTIONS),
        ("core/broker-connections/amqp-connection/receiver", RECEIVER_OPTIONS),
    ],
)
def test_attributes_of_exchanges_are_those_that_are_read(element: str, options: tuple[Option, ...]) -> None:
    """All of them are attributes, as there are many bindings in a file."""
    assert set(content(element).attributes) - {"name"} == names(options)


@pytest.mark.parametrize(
    ("legal", "known_names"),
    [
        (set(content("core").children), known.CORE_ELEMENTS),
        (set(content(SETTING).children), known.ADDRESS_SETTINGS),
        (set(content(QUEUE).attributes), known.QUEUE_ATTRIBUTES),
        (set(content("core/diverts/divert").children), known.DIVERT_ELEMENTS),
        (set(content("core/cluster-connections/cluster-connection").children), known.CLUSTER_ELEMENTS),
        (set(content("core/discovery-groups/discovery-group").children), known.DISCOVERY_ELEMENTS),
        (set(content("core/broker-connections/amqp-connection").attributes), known.AMQP_CONNECTION_NAMES),
        (set(content("core/broker-connections/amqp-connection").children), known.AMQP_CONNECTION_NAMES),
        (set(content("core/bridges/bridge").children), known.BRIDGE_ELEMENTS),
        (set(content(ROUTER).children), known.ROUTER_ELEMENTS),
        (set(content(f"{ROUTER}/pool").children), known.ROUTER_POOL_ELEMENTS),
        (set(content("core/resource-limit-settings/resource-limit-setting").children), known.RESOURCE_LIMIT_ELEMENTS),
    ],
)
def test_we_have_no_names_that_artemis_has_not(legal: set[str], known_names: frozenset[str]) -> None:
    """What is our own has a namespace of its own, or is written down as ours."""
    assert legal - known.OWN_NAMES <= known_names
    assert not known.OWN_NAMES & known_names


@pytest.mark.parametrize("option", ADDRESS_SETTINGS, ids=lambda option: option.name)
def test_libxml2_agrees_about_legal_values(option: Option) -> None:
    """Editors complete and check with it."""
    schema = etree.XMLSchema(file=str(shipped_folder() / SCHEMA_FILES[0]))
    text, _ = other_value(option)
    element = f"<{option.name}>{text}</{option.name}>"
    setting = f'<address-settings><address-setting match="#">{element}</address-setting></address-settings>'

    assert schema.validate(etree.fromstring(whole(setting))), schema.error_log


OWN_SCHEMA = """<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" xmlns="urn:activemq"
    targetNamespace="urn:activemq" elementFormDefault="qualified">
  <xs:element name="configuration">
    <xs:complexType><xs:all>
      <xs:element name="places" type="places"/>
      <xs:element name="journey" type="journey"/>
    </xs:all></xs:complexType>
  </xs:element>
  <xs:complexType name="places">
    <xs:sequence><xs:element name="place" type="place" maxOccurs="unbounded"/></xs:sequence>
  </xs:complexType>
  <xs:complexType name="place">
    <xs:all><xs:element name="house" type="xs:token" minOccurs="0"/></xs:all>
    <xs:attribute name="name" type="xs:token" use="required"/>
  </xs:complexType>
  <xs:complexType name="journey">
    <xs:all>
      <xs:element name="place" type="xs:token"/>
      <xs:element name="stay">
        <xs:complexType><xs:all><xs:element name="night" type="xs:token"/></xs:all></xs:complexType>
      </xs:element>
    </xs:all>
  </xs:complexType>
</xs:schema>"""


def checked(folder: Path, text: str) -> Report:
    """What is said about a text by our own schema, written to this folder."""
    (folder / SCHEMA_FILES[0]).write_text(OWN_SCHEMA)
    for name in SCHEMA_FILES[1:]:
        (folder / name).write_text('<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"/>')
    report = Report("broker.xml")
    Schema(folder).check_structure(etree.fromstring(text), report)
    return report


def test_what_an_element_may_hold_depends_on_where_it_stands(tmp_path: Path) -> None:
    """As `<address>` is a container within `<addresses>`, and a text within `<divert>`."""
    report = checked(
        tmp_path,
        """<configuration xmlns="urn:activemq">
        <places><place name="a"/><place name="b">text</place><place name="c"><house>x</house></place></places>
        <journey>
          <place name="a">text</place>
          <stay>
            <night>text</night>
            <place>text</place>
          </stay>
          <night>text</night>
        </journey>
        </configuration>""",
    )

    assert [str(problem) for problem in report.problems] == [
        'broker.xml:2: place: has the text "text", but may contain only elements; remove the text',
        "broker.xml:4: place: attribute name: is not an attribute of place; remove it",
        "broker.xml:7: place: does not belong in stay; move it into places",
        "broker.xml:9: night: does not belong in journey; move it into stay",
    ]


def test_an_element_that_must_be_there_is_missed_by_name(tmp_path: Path) -> None:
    """Once, and not if it is there with a mistake in it."""
    report = checked(
        tmp_path,
        """<configuration xmlns="urn:activemq">
        <journey>
          <place xmlns="urn:other">text</place>
          <stay/>
        </journey>
        </configuration>""",
    )

    assert [str(problem) for problem in report.problems] == [
        "broker.xml:1: configuration: has no places; write <places>…</places> inside",
        'broker.xml:3: place: is in the wrong XML namespace; it belongs to xmlns="urn:activemq"',
        "broker.xml:4: stay: has no night; write <night>…</night> inside",
    ]


def write_schema() -> None:
    """Put what is declared into the schema."""
    for path, parts in PARTS.items():
        schema = path.read_text(encoding="utf-8")
        filled = GENERATED.sub(lambda found, parts=parts: found[1] + parts[found[2]] + found[3], schema)  # type: ignore[misc]
        path.write_text(filled, encoding="utf-8")


if __name__ == "__main__":
    write_schema()
