"""`<diverts>` of broker.xml: what is read, and what is said about mistakes (artemis-model §3.2)."""

import pytest

from artemis_py.core.settings.declaration import Option
from artemis_py.core.settings.divert_config import DIVERT_OPTIONS, DivertConfig, DivertType, TransformerConfig
from tests.unit.config.samples import mistakes, other_value, read

NOT_YET = "known to Artemis, not supported by artemis_py yet; remove it"
WAY = "<address>a</address><forwarding-address>b</forwarding-address>"


def divert(inside: str = WAY, name: str = "d") -> str:
    """One divert."""
    return f'<divert name="{name}">{inside}</divert>'


def diverts(*texts: str) -> str:
    """The element with these diverts, each in a line of its own: the first is in line 5."""
    return "<diverts>\n" + "\n".join(texts) + "\n</diverts>"


def transformer(name: str, **properties: str) -> str:
    """The element."""
    inside = "".join(f'<property key="{key}" value="{value}"/>' for key, value in properties.items())
    return f"<transformer><class-name>{name}</class-name>{inside}</transformer>"


def unknown(name: str) -> str:
    """What is said about a name that nothing has announced."""
    known = "add-properties, json-to-properties, remove-properties, rename-properties, set-expiry, set-priority"
    return f"transformer '{name}' is not installed; there is {known}"


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
        DivertConfig(name="order-divert", routing_name="order-divert", address="orders", forwarding_address="audit"),
        DivertConfig(
            name="price-divert",
            routing_name="price-divert",
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
            "<address>a</address><forwarding-address>b, c,</forwarding-address>",
            ['forwarding-address: "b, c," has a comma without an address beside it; remove it'],
        ),
        (
            "<address>a</address><forwarding-address>b, c, b</forwarding-address>",
            ['forwarding-address: "b" is named twice; name it once'],
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
        (f"{WAY}<transformer-class-name>a.B</transformer-class-name>", [f"transformer-class-name: {unknown('a.B')}"]),
        (f"{WAY}<transformer><class-name>a.B</class-name></transformer>", [f"class-name: {unknown('a.B')}"]),
        (f"{WAY}<transformer-class-name/>", ["transformer-class-name: is empty; write the name of a transformer"]),
        (f"{WAY}<transformer/>", ["transformer: has no class-name; write <class-name>…</class-name> inside"]),
        (
            f"{WAY}{transformer('set-priority')}<transformer-class-name>a</transformer-class-name>",
            ["transformer: is given beside transformer-class-name; keep one of the two"],
        ),
        (
            f"{WAY}{transformer('set-priority')}",
            ["class-name: transformer 'set-priority': needs a property 'priority'"],
        ),
        (
            f"{WAY}{transformer('set-priority', priority='10')}",
            [
                (
                    "class-name: transformer 'set-priority': property 'priority' is \"10\"; "
                    "it must be a whole number from 0 to 9"
                )
            ],
        ),
        (
            f"{WAY}{transformer('set-expiry', delay='1')}",
            ["class-name: transformer 'set-expiry': needs a property 'expiry-delay'"],
        ),
        (
            f"{WAY}{transformer('json-to-properties', id='$.a[*]')}",
            [
                (
                    'class-name: transformer \'json-to-properties\': the path "$.a[*]" is not understood from "[*]"; '
                    "steps are .name, ['name'] and [0]"
                )
            ],
        ),
        (
            f"{WAY}<transformer><class-name>add-properties</class-name><property key='a'/></transformer>",
            [
                'property: attribute value: is missing; write <property value="…">',
                (
                    "class-name: transformer 'add-properties': has nothing to set; write a property whose key is the "
                    'name: <property key="…" value="…"/>'
                ),
            ],
        ),
        (
            (
                f"{WAY}<transformer><class-name>add-properties</class-name><property key='a' value='1'/>"
                "<property key='a' value='2'/></transformer>"
            ),
            ['property: there is another property "a"; keep one'],
        ),
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


def warnings(core: str) -> list[str]:
    """What is said about a usable file."""
    return [str(warning) for warning in read(core).warnings]


def test_lists_routing_names_and_transformers_are_read() -> None:
    inside = (
        "<address>a</address><forwarding-address> b ,c</forwarding-address><routing-name>r</routing-name>"
        f"{transformer('add-properties', colour='red', size='9')}"
    )

    (found,) = read(diverts(divert(inside))).diverts

    assert found.forwarding_addresses == ("b", "c")
    assert found.routing_name == "r"
    assert found.transformer == TransformerConfig("add-properties", (("colour", "red"), ("size", "9")))


@pytest.mark.parametrize("name", ["Add", "Remove"])
def test_the_transformers_of_artemis_are_read_as_ours(name: str) -> None:
    """Their class names mean nothing but that."""
    text = transformer(f"org.apache.activemq.artemis.core.server.transformer.{name}HeadersTransformer", x="1")

    (found,) = read(diverts(divert(f"{WAY}{text}"))).diverts

    assert found.transformer == TransformerConfig(f"{name.lower()}-properties", (("x", "1"),))


def way(source: str, to: str, more: str = "") -> str:
    """The inside of a divert."""
    return f"<address>{source}</address><forwarding-address>{to}</forwarding-address>{more}"


@pytest.mark.parametrize(
    ("ways", "expected"),
    [
        ([way("a", "b"), way("b", "c"), way("c", "d")], []),
        ([way("a", "a")], ['5: divert: the divert "d0" leads back to itself; a message goes through it once']),
        (
            [way("x", "a"), way("a", "b,y"), way("b", "c"), way("c", "z, a")],
            ["6: divert: the diverts d1 -> d2 -> d3 -> d1 form a circle; a message goes through each of them once"],
        ),
        (
            [way("a.#", "a.b"), way("q", "q.r"), way("q.*", "q")],
            [
                '5: divert: the divert "d0" leads back to itself; a message goes through it once',
                "6: divert: the diverts d1 -> d2 -> d1 form a circle; a message goes through each of them once",
            ],
        ),
        ([way("#", "$sys.a")], []),
        (
            [way("a", "b.#")],
            [
                (
                    '5: forwarding-address: "b.#" is a wildcard address: copies go to this one address, '
                    "not to those it matches"
                )
            ],
        ),
        (
            [way("a", to, "<exclusive>true</exclusive><routing-name>r</routing-name>") for to in ("b", "c")],
            [
                (
                    '6: routing-name: exclusive diverts take no turns: "d0" has this routing name too, '
                    "and both get all messages"
                )
            ],
        ),
        ([way("a", to, "<routing-name>r</routing-name>") for to in ("b", "c")], []),
    ],
)
def test_what_is_strange_about_diverts_is_pointed_out(ways: list[str], expected: list[str]) -> None:
    texts = [divert(inside, f"d{number}") for number, inside in enumerate(ways)]

    assert warnings(diverts(*texts)) == [f"broker.xml:{each}" for each in expected]
