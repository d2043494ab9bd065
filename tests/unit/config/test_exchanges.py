"""`<exchanges>` of broker.xml: what is read, and what is said about mistakes (qpid-exchanges §1 to §3)."""

import pytest

from artemis_py.core.settings.exchange_config import (
    BindingConfig,
    DeclaredExchanges,
    Destination,
    ExchangeConfig,
    ExchangeLifetime,
    ExchangeType,
    Unroutable,
)
from tests.unit.config.samples import mistakes, read

QUEUES = """<addresses>
  <address name="eu"><anycast><queue name="eu"/></anycast></address>
  <address name="lost"><anycast><queue name="lost"><durable>false</durable></queue></anycast></address>
</addresses>"""


def exchanges(*lines: str) -> str:
    """The element with these lines; the first is in line 10 of the file."""
    return '<exchanges xmlns="urn:artemis-py">\n' + "\n".join(lines) + "\n</exchanges>"


def declared(*lines: str) -> DeclaredExchanges:
    return read(QUEUES, exchanges(*lines)).exchanges


def refused(*lines: str) -> list[str]:
    return mistakes(QUEUES, exchanges(*lines))


def warned(*lines: str) -> list[str]:
    return [str(warning) for warning in read(QUEUES, exchanges(*lines)).warnings]


def queue(name: str) -> Destination:
    return Destination(name, is_queue=True)


def test_an_exchange_has_defaults_for_all_but_its_type() -> None:
    found = declared('<exchange name="e" type="direct"/>')

    assert found.exchanges == (ExchangeConfig(name="e", type=ExchangeType.DIRECT, configuration_managed=True),)
    assert (found.bindings, found.lines, found.file) == ((), {"e": 10}, "broker.xml")


def test_everything_that_can_be_said_about_an_exchange_is_read() -> None:
    found = declared(
        '<exchange name="e" type="topic" durable="false" auto-delete="true" alternate-queue="lost"',
        '  unroutable="reject">',
        '  <binding key="*.eu.#" queue="eu"><filter string="amount &gt; 5"/></binding>',
        '  <binding key="a" exchange="amq.match" replacement-key="b"/>',
        "</exchange>",
        '<exchange name="amq.match" alternate-exchange="amq.fanout">',
        '  <binding queue="eu" match="any">',
        '    <argument name="n" value="5" type="integer"/><argument name="d" value="-1.5" type="decimal"/>',
        '    <argument name="t" value=" x "/><argument name="b" value="true" type="boolean"/><argument name="there"/>',
        "  </binding>",
        "</exchange>",
    )

    assert found.exchanges == (
        ExchangeConfig(
            name="e",
            type=ExchangeType.TOPIC,
            durable=False,
            lifetime=ExchangeLifetime.LAST_BINDING,
            alternate=queue("lost"),
            unroutable=Unroutable.REJECT,
            configuration_managed=True,
        ),
        ExchangeConfig(
            name="amq.match",
            type=ExchangeType.HEADERS,
            alternate=Destination("amq.fanout", is_queue=False),
            configuration_managed=True,
        ),
    )
    arguments = (("x-match", "any"), ("n", 5), ("d", -1.5), ("t", " x "), ("b", True), ("there", None))
    assert found.bindings == (
        BindingConfig(
            exchange="e", destination=queue("eu"), key="*.eu.#", arguments=(("x-filter-jms-selector", "amount > 5"),)
        ),
        BindingConfig(
            exchange="e",
            destination=Destination("amq.match", is_queue=False),
            key="a",
            arguments=(("x-replacement-routing-key", "b"),),
        ),
        BindingConfig(exchange="amq.match", destination=queue("eu"), arguments=arguments),
    )
    assert [binding.line for binding in found.bindings] == [12, 13, 16]


def test_two_exchanges_may_lead_to_each_other_whatever_their_order() -> None:
    found = declared('<exchange name="a" type="fanout" alternate-exchange="b"/>', '<exchange name="b" type="fanout"/>')

    assert found.exchanges[0].alternate == Destination("b", is_queue=False)


def test_a_key_may_have_spaces_at_its_ends() -> None:
    """It must be what clients send."""
    (binding,) = declared('<exchange name="amq.direct"><binding key=" a " queue="eu"/></exchange>').bindings

    assert binding.key == " a "


MISTAKES = [
    ('<exchange name="e"/>', "exchange: attribute type: is missing; write one of direct, topic, fanout, headers"),
    ('<exchange type="direct"/>', 'exchange: attribute name: is missing; write <exchange name="…">'),
    ('<exchange name="" type="direct"/>', "exchange: attribute name: is empty; write a name"),
    ('<exchange name="e" type="TOPIC"/>', 'exchange: attribute type: "TOPIC" is unknown; did you mean topic?'),
    (
        '<exchange name="e" type="x-delayed"/>',
        'exchange: attribute type: "x-delayed" is unknown; use one of direct, fanout, headers, topic',
    ),
    ('<exchange name="e" type="direct" kind="x"/>', "exchange: attribute kind: is not an attribute of exchange; "),
    (
        '<exchange name="amq.mine" type="direct"/>',
        (
            "exchange: attribute name: exchange 'amq.mine': names that begin with 'amq.' or 'qpid.' are reserved; "
            "predeclared are amq.direct, amq.topic, amq.fanout, amq.match"
        ),
    ),
    ('<exchange name="a/b" type="direct"/>', "may not contain '/' or '::'"),
    ('<exchange name="amq.topic" type="direct"/>', '"amq.topic" is predeclared with type topic; remove this'),
    ('<exchange name="amq.topic" durable="false"/>', "attribute durable: "),
    ('<exchange name="amq.topic" auto-delete="true"/>', "attribute auto-delete: "),
    (
        '<exchange name="e" type="direct"/><exchange name="e" type="direct"/>',
        'exchange: exchange "e" is in line 10 already; put all its bindings there',
    ),
    ('<exchange name="e" type="direct" alternate-queue="no"/>', 'there is no queue "no" in <addresses>; declare it'),
    ('<exchange name="e" type="direct" alternate-queue="euu"/>', "did you mean eu?"),
    ('<exchange name="e" type="direct" alternate-exchange="eu"/>', 'there is no exchange "eu" in <exchanges>; '),
    ('<exchange name="e" type="direct" alternate-exchange="e"/>', "an exchange cannot be its own alternate"),
    (
        '<exchange name="e" type="direct" alternate-queue="lost"/>',
        (
            "exchange: attribute alternate-queue: queue 'lost' is not durable, but the exchange is; make it durable, "
            "or the exchange not"
        ),
    ),
    (
        '<exchange name="e" type="direct" alternate-queue="eu" alternate-exchange="amq.topic"/>',
        "exchange: attribute alternate-exchange: is given beside alternate-queue; keep one of the two",
    ),
]

BINDINGS = [
    ('<binding key="a"/>', 'binding: leads nowhere; write queue="…" or exchange="…"'),
    ('<binding queue="eu" exchange="amq.topic"/>', "binding: attribute exchange: is given beside queue; keep one"),
    ('<binding queue="no"/>', 'binding: attribute queue: there is no queue "no" in <addresses>; declare it there'),
    ('<binding exchange="no"/>', 'attribute exchange: there is no exchange "no" in <exchanges>; declare it there'),
    ('<binding queue="eu"/>\n<binding queue="eu"/>', "binding: line 11 binds queue 'eu' with this key already; "),
    (f'<binding queue="eu" key="{"a" * 4097}"/>', "the key has 4097 characters; 4096 are allowed"),
    (f'<binding queue="eu" key="{"a." * 256}"/>', "the key has 257 words; a topic exchange allows 256"),
    ('<binding queue="eu"><filter string="a ="/></binding>', "filter: attribute string: "),
    (
        '<binding queue="eu"><filter string="a"/><filter string="b"/></binding>',
        "filter: is given twice in binding; keep one",
    ),
    ('<binding queue="eu"><filter/></binding>', 'filter: attribute string: is missing; write <filter string="…">'),
    ('<binding queue="eu" match="some"/>', 'attribute match: "some" is unknown; use one of all, all-with-x, any, any'),
    (
        '<binding queue="eu"><argument name="x-match" value="all"/></binding>',
        'argument: attribute name: "x-match" is not an argument here; write the attribute match="…" of the binding',
    ),
    ('<binding queue="eu"><argument name="x-filter-jms-selector" value="a"/></binding>', "write <filter string="),
    ('<binding queue="eu"><argument name="x-qpid-no-local" value="true"/></binding>', "is not supported"),
    (
        '<binding queue="eu"><argument name="a"/><argument name="a"/></binding>',
        'argument: attribute name: there is another argument "a"; keep one',
    ),
    (
        '<binding queue="eu"><argument name="a" value="x" type="integer"/></binding>',
        'argument: attribute value: "x" is not a whole number',
    ),
    ('<binding queue="eu"><argument name="a" value="x" type="boolean"/></binding>', "is neither true nor false"),
    ('<binding queue="eu"><argument name="a" value="x" type="number"/></binding>', '"number" is unknown'),
]


@pytest.mark.parametrize(("line", "expected"), MISTAKES)
def test_what_cannot_be_an_exchange(line: str, expected: str) -> None:
    (found,) = refused(line)

    assert found.startswith("broker.xml:10: ")
    assert expected in found


@pytest.mark.parametrize(("line", "expected"), BINDINGS)
def test_what_cannot_be_a_binding(line: str, expected: str) -> None:
    (found, *others) = refused('<exchange name="e" type="topic">', line, "</exchange>")

    assert others == []
    assert found.startswith(f"broker.xml:{10 + len(line.splitlines())}: ")
    assert expected in found


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            '<exchange name="e" type="topic"><binding key="a*.b" queue="eu"/></exchange>',
            'binding: attribute key: in "a*.b", * and # are wildcards only as whole words between dots',
        ),
        ('<exchange name="e" type="direct"><binding key="a.#" queue="eu"/></exchange>', "knows no patterns"),
        (
            '<exchange name="e" type="fanout"><binding queue="eu"><argument name="a"/></binding></exchange>',
            "argument: has no effect: only headers exchanges compare arguments",
        ),
        ('<exchange name="e" type="fanout"><binding queue="eu" match="any"/></exchange>', "attribute match: has no"),
        (
            '<exchange name="e" type="fanout"><binding queue="eu" replacement-key="x"/></exchange>',
            "has no effect: only an exchange looks at routing keys",
        ),
        (
            '<exchange name="e" type="fanout"><binding exchange="e"/></exchange>',
            (
                'exchange: exchange "e" leads back to itself; a message enters each exchange once with the same '
                "routing key"
            ),
        ),
        (
            (
                '<exchange name="a" type="fanout"><binding exchange="b"/></exchange>'
                '<exchange name="b" type="fanout" alternate-exchange="a"/>'
            ),
            "exchange: the exchanges a -> b -> a form a circle; ",
        ),
        ('<exchange name="$.artemis.internal.e" type="fanout"/>', "begins with internal-naming-prefix"),
    ],
)
def test_what_is_doubtful(line: str, expected: str) -> None:
    """Legal, and mostly not what was meant."""
    (found,) = warned(line)

    assert found.startswith("broker.xml:10: ")
    assert expected in found


def test_all_mistakes_are_reported_at_once() -> None:
    found = refused(
        '<exchange name="e">',
        "</exchange>",
        '<exchange name="f" type="direct">',
        '  <binding queue="no"/>',
        '  <binding exchange="no"/>',
        "</exchange>",
    )

    assert [each.split(":")[1] for each in found] == ["10", "13", "14"]


def test_a_variable_stands_for_a_part() -> None:
    after = exchanges('<exchange name="${X}" type="direct"><binding key="${K:k}" queue="eu"/></exchange>')
    found = read(QUEUES, after, X="e").exchanges

    assert [(each.exchange, each.key) for each in found.bindings] == [("e", "k")]
