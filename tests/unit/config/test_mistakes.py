"""Every kind of mistake: what is said about it, word for word, and in which line."""

from pathlib import Path

import pytest
from lxml import etree

from artemis_py.config import parse
from artemis_py.config.known import QUEUE_ATTRIBUTES
from artemis_py.config.reader import shipped_folder
from artemis_py.config.report import Report
from artemis_py.config.schema import Schema
from artemis_py.config.verdicts import CORE
from tests.unit.config.samples import FILE, QUEUE, content, mistakes, read, whole


def in_setting(text: str) -> str:
    """An address setting with this inside."""
    return f'<address-settings><address-setting match="a">{text}</address-setting></address-settings>'


def in_queue(text: str) -> str:
    """A queue with these attributes."""
    return f'<addresses><address name="a"><anycast><queue name="q" {text}/></anycast></address></addresses>'


def test_every_queue_attribute_of_artemis_is_supported() -> None:
    """artemis-model §2.2."""
    assert content(QUEUE).attributes.keys() >= QUEUE_ATTRIBUTES


@pytest.mark.parametrize(
    ("core", "expected"),
    [
        (
            "<global-max-sise>1</global-max-sise>",
            "global-max-sise: is not an element of core; did you mean global-max-size?",
        ),
        ("<xyzzy/>", "xyzzy: is not an element of core; docs/configuration.md lists the legal ones"),
        (
            "<addresses><adress/></addresses>",
            "adress: is not an element of addresses; did you mean address?",
        ),
        (
            '<addresses><address name="a"><anycast/><xyzzy/></address></addresses>',
            "xyzzy: is not an element of address; use one of anycast, multicast",
        ),
        (
            in_setting("<max-size-byte>1</max-size-byte>"),
            "max-size-byte: is not an element of address-setting; did you mean max-size-bytes?",
        ),
        (
            "<max-size-bytes>1</max-size-bytes>",
            "max-size-bytes: does not belong in core; move it into address-setting",
        ),
        ("<name>a<b/></name>", "b: name may contain only text; remove this element"),
        (
            (
                '<security-settings><security-setting match="a"><permission type="send" roles="r"><x/></permission>'
                "</security-setting></security-settings>"
            ),
            "x: permission may contain only attributes; remove this element",
        ),
        ("<name>a</name><name>b</name>", "name: is given twice in core; keep one"),
        (
            '<global-max-size xmlns="urn:other">1</global-max-size>',
            'global-max-size: is in the wrong XML namespace; it belongs to xmlns="urn:activemq:core"',
        ),
        (
            '<xi:include xmlns:xi="http://www.w3.org/2001/XInclude" href="/etc/passwd"/>',
            "include: other files are not included; write everything into this one",
        ),
        (
            in_queue('exclusve="true"'),
            "queue: attribute exclusve: is not an attribute of queue; did you mean exclusive?",
        ),
        ("<acceptors kind='x'/>", "acceptors: attribute kind: is not an attribute of acceptors; remove it"),
        (
            "<acceptors><acceptor>tcp://h:1</acceptor></acceptors>",
            'acceptor: attribute name: is missing; write <acceptor name="…">',
        ),
        (
            "<addresses>x<!-- y --> z</addresses>",
            'addresses: has the text "x z", but may contain only elements; remove the text',
        ),
    ],
)
def test_what_may_not_stand_there(core: str, expected: str) -> None:
    """Structure is in the schema; the words are not libxml2's."""
    assert mistakes(core) == [f"broker.xml:4: {expected}"]


@pytest.mark.parametrize(
    ("core", "expected"),
    [
        (
            "<security-enabled>yes</security-enabled>",
            'security-enabled: "yes" is neither true nor false; write one of the two in lower case',
        ),
        (
            "<global-max-size>10X</global-max-size>",
            'global-max-size: "10X" is not a size; write bytes, or a number with K, M or G such as 10M',
        ),
        ("<global-max-size>-2</global-max-size>", "global-max-size: -2 is too small; write -1 or more"),
        (
            "<transaction-timeout>5s</transaction-timeout>",
            'transaction-timeout: "5s" is not a whole number; write a number of milliseconds without a unit',
        ),
        (
            "<global-max-messages>1.5</global-max-messages>",
            'global-max-messages: "1.5" is not a whole number; write a number without a unit',
        ),
        (
            in_setting("<redelivery-delay-multiplier>two</redelivery-delay-multiplier>"),
            'redelivery-delay-multiplier: "two" is not a number; write one such as 1.5',
        ),
        (
            in_setting("<redelivery-collision-avoidance-factor>1.1</redelivery-collision-avoidance-factor>"),
            "redelivery-collision-avoidance-factor: 1.1 is too large; write 1 or less",
        ),
        (
            in_setting("<redelivery-delay>-1</redelivery-delay>"),
            "redelivery-delay: -1 is too small; write 0 or more",
        ),
        (
            in_setting("<address-full-policy>page</address-full-policy>"),
            'address-full-policy: "page" is unknown; did you mean PAGE?',
        ),
        (
            in_setting("<default-queue-routing-type>QUEUE</default-queue-routing-type>"),
            'default-queue-routing-type: "QUEUE" is unknown; use one of ANYCAST, MULTICAST',
        ),
        ("<name/>", "name: is empty; write a value, or remove it to get the default"),
        ("<literal-match-markers>(</literal-match-markers>", 'literal-match-markers: "(" has 1 characters; write 2'),
        (
            in_queue('max-consumers="many"'),
            'queue: attribute max-consumers: "many" is not a whole number; write a number without a unit',
        ),
        (
            "<persistence-enabled>true</persistence-enabled>",
            "persistence-enabled: is given twice in core; keep one",
        ),
        (
            "<wildcard-addresses><delimiter>..</delimiter></wildcard-addresses>",
            'delimiter: ".." has 2 characters; write 1',
        ),
        (
            "<wildcard-addresses><delimiter>#</delimiter></wildcard-addresses>",
            (
                "wildcard-addresses: delimiter, any-words and single-word must be three different characters other "
                "than a backslash, not '#', '#' and '*'"
            ),
        ),
        (
            (
                '<security-settings><security-setting match="a"><permission type="sendd" roles="r"/></security-setting>'
                "</security-settings>"
            ),
            "permission: attribute type: sendd: did you mean send?",
        ),
    ],
)
def test_what_is_no_value(core: str, expected: str) -> None:
    """The text says what would be right."""
    assert mistakes(core) == [f"broker.xml:4: {expected}"]


@pytest.mark.parametrize(
    ("core", "expected"),
    [
        (
            '<addresses><address name="a"/></addresses>',
            'address: address "a" has no routing type; write <anycast/> or <multicast/> inside',
        ),
        (
            '<addresses><address name=" "><anycast/></address></addresses>',
            "address: attribute name: is empty; write a name",
        ),
        (
            '<addresses><address name="a::b"><anycast/></address></addresses>',
            'address: "a::b" contains ::, which separates an address from a queue; remove it',
        ),
        (
            '<addresses><address name="a"><anycast/></address><address name="a"><multicast/></address></addresses>',
            'address: address "a" is declared twice; put all its queues into one element',
        ),
        (
            (
                '<addresses><address name="a"><anycast><queue name="q"/></anycast></address>'
                '<address name="b"><anycast><queue name="q"/></anycast></address></addresses>'
            ),
            (
                'queue: there is a queue "q" on address "a"; names of queues are unique in the whole broker, '
                "choose another"
            ),
        ),
        (
            '<address-settings><address-setting match="a.#.b"/></address-settings>',
            "address-setting: attribute match: match 'a.#.b': '#' is only allowed as the last word of a match",
        ),
        (
            '<acceptors><acceptor name="a">tcp://h:1</acceptor><acceptor name="a">tcp://h:2</acceptor></acceptors>',
            'acceptor: there is another acceptor called "a"; give each its own name',
        ),
        (
            '<acceptors><acceptor name="a">tcp://h:1</acceptor><acceptor name="b">tcp://h:1</acceptor></acceptors>',
            "acceptor: port 1 is taken by acceptor a; choose another port",
        ),
    ],
)
def test_what_does_not_fit_together(core: str, expected: str) -> None:
    """Names of addresses, queues, matches and acceptors."""
    assert mistakes(core) == [f"broker.xml:4: {expected}"]


def test_a_filter_that_does_not_parse_is_a_mistake_with_its_position() -> None:
    """The selector's own message is passed on."""
    (mistake,) = mistakes(
        '<addresses><address name="a"><anycast><queue name="q"><filter string="a ="/></queue></anycast></address>'
        "</addresses>"
    )

    assert mistake.startswith("broker.xml:4: filter: attribute string: selector, character 4: ")


def test_two_acceptors_may_leave_their_port_to_the_system() -> None:
    """Port 0 is a different port each time."""
    config = read(
        '<acceptors><acceptor name="a">tcp://h:0</acceptor><acceptor name="b">tcp://h:0</acceptor></acceptors>'
    )

    assert [acceptor.port for acceptor in config.acceptors] == [0, 0]


@pytest.mark.parametrize(
    ("core", "element", "attribute"),
    [
        ("<addresses><address><anycast/></address></addresses>", "address", "name"),
        ('<addresses><address name="a"><anycast><queue/></anycast></address></addresses>', "queue", "name"),
        ("<address-settings><address-setting/></address-settings>", "address-setting", "match"),
        ('<security-settings><role-mapping to="a"/></security-settings>', "role-mapping", "from"),
        ('<security-settings><role-mapping from="a"/></security-settings>', "role-mapping", "to"),
        (
            (
                '<security-settings><security-setting match="a"><permission roles="r"/></security-setting>'
                "</security-settings>"
            ),
            "permission",
            "type",
        ),
    ],
)
def test_what_must_be_there_is_missed_once(core: str, element: str, attribute: str) -> None:
    """Nothing else follows from it."""
    assert mistakes(core) == [
        f'broker.xml:4: {element}: attribute {attribute}: is missing; write <{element} {attribute}="…">'
    ]


def test_the_schema_has_the_last_word_about_values() -> None:
    """Should the tables ever let a value pass that the schema does not, it is still refused."""
    report = Report("broker.xml")
    root = etree.fromstring(whole("<security-enabled>maybe</security-enabled><global-max-size>x</global-max-size>"))
    sizes = root.find("{*}core/{*}global-max-size")
    report.problem(report.place(sizes), "is no size")

    Schema(shipped_folder()).check_values(root, report)

    assert [str(problem) for problem in report.problems] == [
        "broker.xml:4: global-max-size: is no size",
        "broker.xml:4: security-enabled: the schema does not allow this value; see docs/configuration.md",
    ]


def test_all_mistakes_are_told_at_once_by_line() -> None:
    """Whoever mends a file wants to start it once, not five times."""
    core = """<acceptors>
      <acceptor name="a">http://x</acceptor>
    </acceptors>
    <federations><federation/></federations>
    <address-settings>
      <address-setting match="a.#.b">
        <max-size-bytes>x</max-size-bytes>
        <nonsense/>
      </address-setting>
    </address-settings>
    <ha-policy><replication/></ha-policy>
    <global-max-size>y</global-max-size>"""

    assert mistakes(core, ARTEMIS_PY_CORE_NAM="n") == [
        "broker.xml:5: acceptor: scheme http: only tcp is supported",
        f"broker.xml:7: federations: is not supported by artemis_py: {CORE['federations'].reason}",
        (
            "broker.xml:9: address-setting: attribute match: match 'a.#.b': '#' is only allowed as the last word "
            "of a match"
        ),
        'broker.xml:10: max-size-bytes: "x" is not a size; write bytes, or a number with K, M or G such as 10M',
        "broker.xml:11: nonsense: is not an element of address-setting; docs/configuration.md lists the legal ones",
        f"broker.xml:14: ha-policy: is not supported by artemis_py: {CORE['ha-policy'].reason}",
        'broker.xml:15: global-max-size: "y" is not a size; write bytes, or a number with K, M or G such as 10M',
        (
            "environment:0: ARTEMIS_PY_CORE_NAM: replaces nothing in this configuration; "
            "did you mean ARTEMIS_PY_CORE_NAME?"
        ),
    ]


def test_messages_are_kept_unless_the_file_says_otherwise() -> None:
    """As in Artemis."""
    data = whole().replace(b"<persistence-enabled>false</persistence-enabled>", b"")

    config = parse(data, FILE, Path(), {})

    assert config.persistence_enabled
    assert not read().persistence_enabled
    assert not config.warnings


@pytest.mark.parametrize(("folder", "home"), [("orders/etc", "orders"), ("orders", "orders")])
def test_data_is_kept_in_the_folder_of_the_instance(folder: str, home: str) -> None:
    """An instance has etc/ and data/ beside each other."""
    assert read(folder=Path(folder)).home == Path(home)


@pytest.mark.parametrize(
    ("outer", "inner"), [("address-settings", "address-setting"), ("security-settings", "security-setting")]
)
def test_the_first_of_two_equal_matches_counts_and_the_second_is_a_warning(outer: str, inner: str) -> None:
    """artemis-model §1.8, other rules."""
    content = {
        "address-setting": ("<max-size-messages>1</max-size-messages>", "<max-size-messages>2</max-size-messages>"),
        "security-setting": ('<permission type="send" roles="a"/>', '<permission type="send" roles="b"/>'),
    }[inner]
    config = read(
        f'<{outer}>\n<{inner} match="a">{content[0]}</{inner}>\n<{inner} match="a">{content[1]}</{inner}>\n</{outer}>'
    )

    settings, permissions = config.address_settings.get("a"), config.security_settings.get("a")
    assert settings is None or settings.max_size_messages == 1
    assert permissions is None or set(permissions.values()) == {frozenset(["a"])}
    assert [str(warning) for warning in config.warnings] == [
        f'broker.xml:6: {inner}: attribute match: "a" is in line 5 already, which takes effect; remove this one'
    ]


def test_the_second_of_two_equal_matches_is_still_checked() -> None:
    """It does not count, but who mends the match finds its mistakes next."""
    core = in_setting("").replace("</address-settings>", "") + (
        '<address-setting match="a"><no-expiry>x</no-expiry></address-setting></address-settings>'
    )

    assert mistakes(core) == [
        'broker.xml:4: no-expiry: "x" is neither true nor false; write one of the two in lower case'
    ]


def test_half_of_the_sync_options_is_a_warning() -> None:
    """They share their commits, so one alone changes nothing."""
    half = read("<journal-sync-non-transactional>false</journal-sync-non-transactional>")
    both = read(
        "<journal-sync-non-transactional>false</journal-sync-non-transactional>"
        "<journal-sync-transactional>false</journal-sync-transactional>"
    )

    assert ["differ; only both false have an effect" in str(warning) for warning in half.warnings] == [True]
    assert both.warnings == ()
