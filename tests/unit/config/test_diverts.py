"""`<diverts>` of broker.xml: what is read, and what is said about mistakes (artemis-model §3.2)."""

import pytest

from artemis_py.config.known import DIVERT_ELEMENTS
from artemis_py.core.settings.declaration import Option
from artemis_py.core.settings.divert_config import DIVERT_OPTIONS, DivertConfig, DivertType
from tests.unit.config.samples import content, mistakes, other_value, read

NOT_YET = "known to Artemis, not supported by artemis_py yet; remove it"
WAY = "<address>a</address><forwarding-address>b</forwarding-address>"


def divert(inside: str = WAY, name: str = "d") -> str:
    """One divert."""
    return f'<divert name="{name}">{inside}</divert>'


def diverts(*texts: str) -> str:
    """The element with these diverts, each in a line of its own: the first is in line 5."""
    return "<diverts>\n" + "\n".join(texts) + "\n</diverts>"


def test_a_divert_has_defaults_for_all_but_its_addresses() -> None:
    config = read(diverts(divert()))

    assert config.diverts == (DivertConfig(name="d", address="a", forwarding_address="b"),)
    assert config.warnings == ()


def test_a_divert_is_read_as_it_is_written_for_artemis() -> None:
    """In the form of Artemis' own example: one that copies and one that takes over, each with a routing name."""
    config = read(
        """<addresses>
          <address name="orders"><anycast><queue name="orders"/></anycast></address>
          <address name="audit"><multicast/></address>
          <address name="prices"><multicast/></address>
        </addresses>
        <diverts>
           <divert name="order-divert">
              <routing-name>order-divert</routing-name>
              <address>orders</address>
              <forwarding-address>audit</forwarding-address>
              <exclusive>false</exclusive>
           </divert>

           <divert name="price-divert">
              <routing-name>price-divert</routing-name>
              <address>prices</address>
              <forwarding-address>prices.elsewhere</forwarding-address>
              <filter string="domain='New York'"/>
              <routing-type>PASS</routing-type>
              <exclusive>true</exclusive>
           </divert>
        </diverts>"""
    )

    assert config.diverts == (
        DivertConfig(name="order-divert", address="orders", forwarding_address="audit"),
        DivertConfig(
            name="price-divert",
            address="prices",
            forwarding_address="prices.elsewhere",
            filter="domain='New York'",
            routing_type=DivertType.PASS,
            exclusive=True,
        ),
    )


@pytest.mark.parametrize(
    "option", [each for each in DIVERT_OPTIONS if "address" not in each.name], ids=lambda it: it.name
)
def test_an_option_reaches_its_field(option: Option) -> None:
    text, value = other_value(option)

    (found,) = read(diverts(divert(f"{WAY}<{option.name}>{text}</{option.name}>"))).diverts

    assert getattr(found, option.attribute) == value != option.default


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        (
            "<forwarding-address>b</forwarding-address>",
            ["divert: has no address; write <address>…</address> inside"],
        ),
        (
            "<address>a</address>",
            ["divert: has no forwarding-address; write <forwarding-address>…</forwarding-address> inside"],
        ),
        (
            "<address/><forwarding-address>b</forwarding-address>",
            ["address: is empty; write a value"],
        ),
        (
            '<address name="a"><anycast/></address><forwarding-address>b</forwarding-address>',
            [
                "address: attribute name: is not an attribute of address; remove it",
                "anycast: address may contain only text; remove this element",
                "address: is empty; write a value",
            ],
        ),
        (
            "<address>a::q</address><forwarding-address>b::q</forwarding-address>",
            [
                'address: "a::q" contains ::, which separates an address from a queue; remove it',
                'forwarding-address: "b::q" contains ::, which separates an address from a queue; remove it',
            ],
        ),
        (
            "<address>a</address><forwarding-address>b, c</forwarding-address>",
            [
                (
                    'forwarding-address: "b, c" is a list, which artemis_py does not support yet; '
                    "write one divert for each address"
                )
            ],
        ),
        (
            f"{WAY}<routing-type>BOTH</routing-type>",
            ['routing-type: "BOTH" is unknown; use one of ANYCAST, MULTICAST, PASS, STRIP'],
        ),
        (
            f"{WAY}<exclusive>yes</exclusive>",
            ['exclusive: "yes" is neither true nor false; write one of the two in lower case'],
        ),
        (f"{WAY}<exclusiv>true</exclusiv>", ["exclusiv: is not an element of divert; did you mean exclusive?"]),
        (f"{WAY}<address>c</address>", ["address: is given twice in divert; keep one"]),
        (f"{WAY}<filter/>", ['filter: attribute string: is missing; write <filter string="…">']),
        (
            f"{WAY}<transformer-class-name>a.B</transformer-class-name>",
            [f"transformer-class-name: {NOT_YET}"],
        ),
        (f"{WAY}<transformer><class-name>a.B</class-name></transformer>", [f"transformer: {NOT_YET}"]),
        (f"{WAY}text", ['divert: has the text "text", but may contain only elements; remove the text']),
    ],
)
def test_what_is_wrong_with_a_divert_is_said_with_its_line(inside: str, expected: list[str]) -> None:
    assert mistakes(diverts(divert(inside))) == [f"broker.xml:5: {each}" for each in expected]


def test_a_filter_that_does_not_parse_is_a_mistake_with_its_position() -> None:
    (mistake,) = mistakes(diverts(divert(f'{WAY}\n<filter string="a ="/>')))

    assert mistake.startswith("broker.xml:6: filter: attribute string: selector, character 4: ")


@pytest.mark.parametrize("name", ["", " "])
def test_a_divert_needs_a_name(name: str) -> None:
    assert mistakes(diverts(divert(name=name))) == ["broker.xml:5: divert: attribute name: is empty; write a name"]
    assert mistakes(diverts(f"<divert>{WAY}</divert>")) == [
        'broker.xml:5: divert: attribute name: is missing; write <divert name="…">'
    ]


def test_names_are_shared_with_queues_and_other_diverts() -> None:
    """artemis-model §1.1: both are bindings. The order of the elements in the file does not matter."""
    queue = '<addresses><address name="a"><anycast><queue name="q"/></anycast></address></addresses>'

    assert mistakes(diverts(divert(name="q"), divert(), divert()) + queue) == [
        (
            'broker.xml:5: divert: there is a queue "q" on address "a"; '
            "queues and diverts share one set of names, choose another"
        ),
        (
            'broker.xml:7: divert: there is another divert "d"; '
            "queues and diverts share one set of names, choose another"
        ),
    ]


def test_a_routing_name_is_refused_only_where_it_would_change_something() -> None:
    """Diverts of one address that share it take turns in Artemis; another address has turns of its own."""
    named = f"{WAY}<routing-name>r</routing-name>"
    elsewhere = named.replace("<address>a", "<address>x")

    config = read(diverts(divert(named), divert(elsewhere, "e"), divert(name="f")))

    assert [each.name for each in config.diverts] == ["d", "e", "f"]
    assert mistakes(diverts(divert(named), divert(named, "e"))) == [
        (
            'broker.xml:6: routing-name: divert "d" of address "a" has "r" too: in Artemis the two take turns, which '
            "artemis_py does not support yet; give each its own routing name, or none"
        )
    ]


@pytest.mark.parametrize("name", sorted(DIVERT_ELEMENTS - content("core/diverts/divert").children.keys()))
def test_every_element_of_artemis_is_known(name: str) -> None:
    assert mistakes(diverts(divert(f"{WAY}<{name}/>"))) == [f"broker.xml:5: {name}: {NOT_YET}"]
