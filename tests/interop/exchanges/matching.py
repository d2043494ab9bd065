"""Which messages a binding matches: direct, topic, fanout and headers exchanges."""

from collections.abc import Iterable, Mapping
from typing import Final

from proton import Message, int32, symbol, uint, ulong

from tests.interop.exchanges.site import Peer
from tests.interop.kinds.scenario import Seen
from tests.interop.kinds.site import text

HEADERS: Final[Mapping[str, Mapping[str | object, object]]] = {
    "none": {},
    "int 1": {"n": int32(1)},
    "long 1": {"n": 1},
    "uint 1": {"n": uint(1)},
    "ulong 1": {"n": ulong(1)},
    "double 1.0": {"n": 1.0},
    "text 1": {"n": "1"},
    "true": {"n": True},
    "null": {"n": None},
    "empty": {"n": ""},
    "a": {"s": "a"},
    "symbol a": {"s": symbol("a")},
    "A": {"s": "A"},
    "int 1 and a": {"n": int32(1), "s": "a"},
    "int 2 and a": {"n": int32(2), "s": "a"},
    "x-n 1": {"x-n": int32(1)},
    "other": {"o": int32(5)},
}
"""Application properties of messages, by the name of the message."""


def _patterns(site: Peer, exchange: str, patterns: Iterable[str], keys: Iterable[str]) -> Seen:
    """Send each key to a topic exchange; the keys that each pattern gets."""
    site.declare(exchange, "topic")
    queues = {pattern: f"{exchange}.{number}" for number, pattern in enumerate(patterns)}
    bound = {}
    for pattern, queue in queues.items():
        site.queues(queue)
        bound[pattern] = site.attempt(lambda pattern=pattern, queue=queue: site.bind(exchange, pattern, queue))  # type: ignore[misc]
    site.publish(exchange, keys)
    return {
        f"`{pattern}`": site.got(queue) if bound[pattern] == "done" else bound[pattern]
        for pattern, queue in queues.items()
    }


def _headers(site: Peer, exchange: str, bindings: Mapping[str, Mapping[str, object]]) -> Seen:
    """Send all kinds of messages to a headers exchange; those that each binding gets."""
    site.declare(exchange, "headers")
    queues = {name: f"{exchange}.{number}" for number, name in enumerate(bindings)}
    bound = {}
    for name, queue in queues.items():
        site.queues(queue)
        arguments = bindings[name]
        bound[name] = site.attempt(
            lambda queue=queue, arguments=arguments: site.bind_headers(exchange, queue, arguments)  # type: ignore[misc]
        )
    sender = site.client.sender(site.exchange(exchange))
    for name, properties in HEADERS.items():
        sender.send(text(name, properties=dict(properties) or None))
    sender.close()
    return {name: _matched(site.got(queue)) if bound[name] == "done" else bound[name] for name, queue in queues.items()}


def _matched(got: list[str]) -> list[str] | str:
    """Return the names of messages, shorter if they are all or all but one."""
    others = [name for name in HEADERS if name not in got]
    if not others:
        return "all"
    return f"all but {others[0]}" if len(others) == 1 else got


def direct(site: Peer) -> Seen:
    """Keys that look alike are sent to a direct exchange."""
    site.declare("m.direct", "direct")
    site.queues("m.a", "m.A", "m.a.b", "m.star", "m.empty")
    for key, queue in (("a", "m.a"), ("A", "m.A"), ("a.b", "m.a.b"), ("*", "m.star"), ("", "m.empty")):
        site.bind("m.direct", key, queue)
    site.publish("m.direct", ("a", "A", "a.b", "a ", "*", "#", ""))

    return {
        f"`{key}`": site.got(queue)
        for key, queue in (("a", "m.a"), ("A", "m.A"), ("a.b", "m.a.b"), ("*", "m.star"), ("", "m.empty"))
    }


def fanout(site: Peer) -> Seen:
    """Two queues are bound to a fanout exchange, one of them with a key, and one with two."""
    site.declare("m.fanout", "fanout")
    site.queues("m.one", "m.two")
    site.bind("m.fanout", "", "m.one")
    site.bind("m.fanout", "k", "m.two")
    site.bind("m.fanout", "l", "m.two")
    site.publish("m.fanout", ("", "k", "x"))

    return site.reached("m.one", "m.two")


def topic_words(site: Peer) -> Seen:
    """Patterns with `*` and `#`, and the routing keys that they match."""
    patterns = ("a", "*", "#", "a.*", "a.#", "*.b", "#.b", "*.stock.#", "a.*.b", "*.*", "A.*", "a*", "a.b#")
    keys = (
        "a",
        "b",
        "a.b",
        "a.bb",
        "a.b.c",
        "a.x.b",
        "x.a.b",
        "usd.stock",
        "eur.stock.db",
        "stock.nasdaq",
        "ab",
        "A.b",
    )
    return _patterns(site, "m.words", patterns, keys)


def topic_hash_in_the_middle(site: Peer) -> Seen:
    """Patterns with `#` between words, and more than one of them."""
    patterns = ("a.#.b", "a.#.*", "a.*.#", "a.*.#.b", "a.*.#.b.c", "#.b.#", "a.#.#.b", "a.*.#.b.c.#.d", "a.#.*.#.d")
    keys = (
        *("a.b", "a.c.b", "a.c.d.b", "a", "a.x", "a.x.y", "b", "x.b.y", "a.a.b.c", "a.b.c.b.c", "a.c.b.b"),
        *("a.a.b.c.d", "a.x.d", "a.d"),
    )
    return _patterns(site, "m.middle", patterns, keys)


def topic_empty_words(site: Peer) -> Seen:
    """Dots at the beginning, at the end and beside each other, and no words at all."""
    patterns = ("", "*", "#", "a", "a.", ".a", "a.*", "*.a", "a.#", "#.a", "a..b", "a.*.b", "*.*", ".")
    keys = ("", "a", "a.", ".a", "a..b", ".", "a.b", "a.b.")
    return _patterns(site, "m.empty-words", patterns, keys)


def topic_wildcards_in_keys(site: Peer) -> Seen:
    """Routing keys that have the words `*` and `#` themselves."""
    return _patterns(site, "m.wild", ("a.b", "a.*", "a.#", "*"), ("a.*", "a.#", "*", "#"))


def headers_all(site: Peer) -> Seen:
    """Bindings of a headers exchange that want all of their arguments, and the messages that they match."""
    match = {"x-match": "all"}
    return _headers(
        site,
        "m.all",
        {
            "no arguments": {},
            "`all` only": match,
            "n = 1": {**match, "n": 1},
            "n = 1.0": {**match, "n": 1.5 - 0.5},
            "n = '1'": {**match, "n": "1"},
            "n = true": {**match, "n": True},
            "n = null": {**match, "n": None},
            "n = ''": {**match, "n": ""},
            "s = 'a'": {**match, "s": "a"},
            "n = 1, s = 'a'": {**match, "n": 1, "s": "a"},
            "n = 1 without `x-match`": {"n": 1, "s": "a"},
            "n = 1, x-other = 5": {**match, "n": 1, "x-other": 5},
            "x-n = 1": {**match, "x-n": 1},
        },
    )


def headers_any(site: Peer) -> Seen:
    """Bindings of a headers exchange that want one of their arguments, and the messages that they match."""
    match = {"x-match": "any"}
    return _headers(
        site,
        "m.any",
        {
            "`any` only": match,
            "n = 1, s = 'a'": {**match, "n": 1, "s": "a"},
            "n = null, s = 'a'": {**match, "n": None, "s": "a"},
            "n = 2, s = 'b'": {**match, "n": 2, "s": "b"},
            "x-n = 1, s = 'a'": {**match, "x-n": 1, "s": "a"},
        },
    )


def headers_with_x(site: Peer) -> Seen:
    """Other values of `x-match`: with arguments that begin with `x-`, in capitals, and unknown."""
    return _headers(
        site,
        "m.with-x",
        {
            "all-with-x, x-n = 1": {"x-match": "all-with-x", "x-n": 1},
            "any-with-x, x-n = 1, s = 'a'": {"x-match": "any-with-x", "x-n": 1, "s": "a"},
            "ANY, n = 1, s = 'a'": {"x-match": "ANY", "n": 1, "s": "a"},
            "some, n = 1": {"x-match": "some", "n": 1},
        },
    )


def headers_and_routing_keys(site: Peer) -> Seen:
    """A headers exchange with a key in the binding; messages with other keys."""
    site.declare("m.keyed", "headers")
    site.queues("m.keyed")
    site.bind_headers("m.keyed", "m.keyed", {"x-match": "all", "n": 1}, key="k")
    sender = site.client.sender(site.exchange("m.keyed"))
    for subject in ("k", "other"):
        sender.send(Message(body=subject, subject=subject, properties={"n": int32(1)}))
    sender.close()

    return {"got": site.got("m.keyed")}
