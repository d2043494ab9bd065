"""The test tables of the reference, each row (qpid-exchanges §18), and what the types of exchanges match."""

from typing import Any

import pytest

from artemis_py.core.messages.message import Message
from artemis_py.core.messages.view import MessageView
from artemis_py.errors import InvalidFilter, InvalidRequest, ProtocolError
from tests.core_harness import make_domain, make_queue
from tests.unit.core.exchange_world import bind, make_queues, publish, reached

TOPIC = [
    ("*.stock.#", ["usd.stock", "eur.stock.db"], ["stock.nasdaq"]),
    ("a.*", ["a.b", "a.bb"], ["a", "a.b.c"]),
    ("a.#", ["a", "a.b", "a.b.c"], ["b"]),
    ("#", ["", "a", "a.b"], []),
    ("a.*.#.b", ["a.c.b", "a.c.d.b", "a.c.d.d.b"], ["a.b"]),
    ("a.*.#.b.c", ["a.a.b.c", "a.b.c.b.c"], ["a.c.b.b", "a.b.c.b"]),
    ("a.*.#.b.c.#.d", ["a.a.b.c.d"], ["a.c.b.b.c"]),
    ("a.#.*.#.d", ["a.a.b.c.d", "a.x.d"], ["a.d", "a.c.b.b.c"]),
    ("#.a", ["a", "x.a", "x.y.a"], ["a.x"]),
    ("a.b.c.d", ["a.b.c.d"], ["a.b.c"]),
    # Further rules of the reference: wildcards are whole words, and literal in a routing key; words are compared as
    # they are written; empty words count.
    ("a*", ["a*"], ["ab", "a.b"]),
    ("a.b#", ["a.b#"], ["a.b", "a.bc"]),
    ("a.b", [], ["a.*", "a.#", "A.b", "#"]),
    ("a.*.c", ["a.*.c", "a.#.c", "a..c"], ["a.c"]),
    ("", [""], ["a", "."]),
    ("*", ["", "a", "*"], ["a.b", "."]),
    ("a.", ["a."], ["a"]),
    (".a", [".a"], ["a"]),
    ("#.#", ["", "a", "a.b"], []),
    ("a.#.#.b", ["a.b", "a.x.b"], ["a"]),
    ("a.*.#", ["a.b", "a.b.c"], ["a"]),
    ("a.#.*", ["a.b", "a.b.c"], ["a"]),
    (r"a.\*", [r"a.\*"], ["a.b", "a.*"]),
]


# Names of the rows in docs/exchange-checklist.md; further ones are called after what they are about.
TOPIC_NAMES = [f"T{row}" if row <= 10 else f"further: {TOPIC[row - 1][0]}" for row in range(1, len(TOPIC) + 1)]


@pytest.mark.parametrize(("pattern", "matching", "others"), TOPIC, ids=TOPIC_NAMES)
def test_a_pattern_covers_routing_keys(pattern: str, matching: list[str], others: list[str]) -> None:
    """Asked twice, because the second answer comes from the cache."""
    domain = make_domain()
    make_queue(domain, "q")
    bind(domain, "amq.topic", pattern, "q")

    for _ in range(2):
        assert [key for key in matching if not reached(domain, "amq.topic", key)] == []
        assert [key for key in others if reached(domain, "amq.topic", key)] == []


HEADERS: list[tuple[dict[str, Any], bool, bool]] = [
    ({}, True, True),
    ({"A": 1}, True, True),
    ({"A": 2}, False, False),
    ({"A": 1, "B": "y"}, False, True),
    ({"C": None}, True, True),
    ({"C": ""}, True, True),
    ({"D": None}, False, False),
    ({"D": None, "B": "x"}, False, True),
    ({"x-foo": 9, "A": 1}, True, True),
    # Types: a text is no number, a truth value is none either, a decimal number is no whole one.
    ({"A": "1"}, False, False),
    ({"A": True}, False, False),
    ({"A": 1.0}, False, False),
    ({"B": "X"}, False, False),
    ({"a": 1}, False, False),
]


HEADERS_NAMES = ["H1", "H2", "H3", "H4", "H5 null", "H5 empty", "H6", "H7", "H8", *map(str, HEADERS[9:])]


@pytest.mark.parametrize(("arguments", "is_all", "is_any"), HEADERS, ids=HEADERS_NAMES)
def test_headers_are_compared(arguments: dict[str, Any], is_all: bool, is_any: bool) -> None:
    """Of the message {A=1, B=x, C=null}."""
    domain = make_domain()
    for mode in ("all", "any", "none given"):
        make_queue(domain, mode)
        bind(domain, "amq.match", "", mode, arguments | ({} if mode == "none given" else {"x-match": mode}))

    names = reached(domain, "amq.match", A=1, B="x", C=None)

    assert names == {name for name, fits in (("all", is_all), ("any", is_any), ("none given", is_all)) if fits}


@pytest.mark.parametrize(("mode", "fits"), [("all", True), ("all-with-x", False), ("any-with-x", True), ("ANY", True)])
def test_names_that_begin_with_x_count_if_asked_for(mode: str, fits: bool) -> None:
    """As in RabbitMQ; `x-match` itself never does."""
    domain = make_domain()
    make_queue(domain, "q")
    bind(domain, "amq.match", "", "q", {"X-Match": mode, "x-foo": 9, "A": 1})

    x_foo: dict[str, Any] = {"x-foo": 9}
    assert bool(reached(domain, "amq.match", A=1)) is fits
    assert reached(domain, "amq.match", A=1, **x_foo) == {"q"}


def test_a_message_without_properties_has_none_to_compare() -> None:
    """An empty list of criteria fits it, presence does not; the reference makes an exception here that we do not."""
    domain = make_domain()
    make_queues(domain, "all any present")
    bind(domain, "amq.match", "", "all", {"x-match": "all"})
    bind(domain, "amq.match", "", "any", {"x-match": "any"})
    bind(domain, "amq.match", "", "present", {"A": None})

    assert reached(domain, "amq.match") == {"all", "any"}


def test_many_bindings_of_one_queue_to_a_headers_exchange_are_one_copy() -> None:
    """Under different keys, which a headers exchange ignores, and each binding ends by itself."""
    domain = make_domain()
    make_queue(domain, "q")
    bind(domain, "amq.match", "1", "q", {"A": 1})
    bind(domain, "amq.match", "2", "q", {"B": "x", "A": 1, "x-match": "any"})

    assert reached(domain, "amq.match", A=1, B="x") == {"q"}
    domain.exchanges.unbind(domain.exchanges.exchange("amq.match"), "2", domain.exchanges.destination("q"))
    assert reached(domain, "amq.match", B="x") == set()
    assert reached(domain, "amq.match", A=1) == {"q"}


class DamagedFormat:
    """Messages that cannot be decoded."""

    name = "damaged"

    def view(self, message: Message) -> MessageView:
        raise ProtocolError("damaged")

    def lookup(self, message: Message, name: str) -> object:
        return None


def test_headers_that_cannot_be_read_are_none() -> None:
    """The client's message is routed all the same."""
    domain = make_domain()
    make_queues(domain, "one all")
    bind(domain, "amq.match", "", "one", {"A": 1})
    bind(domain, "amq.match", "", "all")

    publish(domain, "amq.match", message=Message(DamagedFormat(), "", b"?"))

    assert [domain.queue(name).message_count for name in ("one", "all")] == [0, 1]


def test_a_direct_exchange_compares_keys() -> None:
    """Exactly, upper and lower case being different; several queues may have the same key."""
    domain = make_domain()
    make_queues(domain, "a b c")
    bind(domain, "amq.direct", "k", "a")
    bind(domain, "amq.direct", "k", "b")
    bind(domain, "amq.direct", "K", "c")
    bind(domain, "amq.direct", "", "c")

    assert reached(domain, "amq.direct", "k") == {"a", "b"}
    assert reached(domain, "amq.direct", "K") == {"c"}
    assert reached(domain, "amq.direct", "") == {"c"}
    assert reached(domain, "amq.direct", "*") == set()


def test_a_fanout_exchange_ignores_keys() -> None:
    """Which are still the identity of its bindings: two of them are needed to unbind this queue."""
    domain = make_domain()
    make_queues(domain, "a b")
    bind(domain, "amq.fanout", "1", "a")
    bind(domain, "amq.fanout", "2", "a")
    bind(domain, "amq.fanout", "", "b")

    assert reached(domain, "amq.fanout", "whatever") == {"a", "b"}
    domain.exchanges.unbind(domain.exchanges.exchange("amq.fanout"), "1", domain.exchanges.destination("a"))
    assert reached(domain, "amq.fanout") == {"a", "b"}


@pytest.mark.parametrize("exchange", ["amq.direct", "amq.topic", "amq.fanout", "amq.match"])
def test_a_selector_decides_about_its_binding(exchange: str) -> None:
    """It is evaluated for each message; another binding of the same queue is not affected, and a blank one is none."""
    domain = make_domain()
    make_queues(domain, "red both blank")
    bind(domain, exchange, "k", "red", {"x-filter-jms-selector": "colour = 'red'"})
    bind(domain, exchange, "k", "both", {"x-filter-jms-selector": "colour = 'red'"})
    bind(domain, exchange, "k", "blank", {"x-filter-jms-selector": " "})
    if exchange != "amq.direct":
        bind(domain, exchange, "#", "both")

    assert reached(domain, exchange, "k", colour="red") == {"red", "both", "blank"}
    assert reached(domain, exchange, "k", colour="blue") == (
        {"blank"} if exchange == "amq.direct" else {"both", "blank"}
    )


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"x-filter-jms-selector": "colour ="}, InvalidFilter, "selector|position"),
    ({"x-filter-jms-selector": 7}, InvalidRequest, "is a text"),
    ({"x-qpid-no-local": True}, InvalidRequest, "not supported"),
    ({"a": [1]}, InvalidRequest, "may be"),
    ({"a": b"x"}, InvalidRequest, "may be"),
    ({"a": "\ud800"}, InvalidRequest, "surrogate"),
    ({str(number): number for number in range(257)}, InvalidRequest, "256"),
    ({"a": "x" * 70_000}, InvalidRequest, "65536"),
    ({"x-replacement-routing-key": "x" * 5000}, InvalidRequest, "4096"),
]


@pytest.mark.parametrize(("arguments", "error", "text"), BAD)
def test_arguments_that_cannot_be_used_are_refused(
    arguments: dict[str, Any], error: type[Exception], text: str
) -> None:
    """And nothing is bound."""
    domain = make_domain()
    make_queue(domain, "q")

    with pytest.raises(error, match=text):
        bind(domain, "amq.direct", "k", "q", arguments)

    assert reached(domain, "amq.direct", "k") == set()


@pytest.mark.parametrize("mode", ["some", "", 1, None, True])
def test_an_unknown_match_mode_is_refused(mode: Any) -> None:
    """The reference takes it for `all`; here a mistake is named."""
    domain = make_domain()
    make_queue(domain, "q")

    with pytest.raises(InvalidRequest, match="x-match"):
        bind(domain, "amq.match", "", "q", {"x-match": mode})


@pytest.mark.parametrize("key", ["x" * 4097, "\ud800"])
def test_keys_that_cannot_be_stored_are_refused(key: str) -> None:
    """The binding keys, and the routing keys too, which are stored with their messages."""
    domain = make_domain()
    make_queue(domain, "q")
    bind(domain, "amq.fanout", "", "q")

    with pytest.raises(InvalidRequest, match="binding key"):
        bind(domain, "amq.fanout", key, "q")
    with pytest.raises(InvalidRequest, match="routing key"):
        publish(domain, "amq.fanout", key)

    assert domain.queue("q").message_count == 0
