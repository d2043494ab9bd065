"""Consumers with selectors at the other broker; `redistribution-delay` 0."""

from tests.interop.kinds.scenario import Seen
from tests.interop.mesh.pair import Pair, coloured

RED = "colour = 'red'"
BLUE = "colour = 'blue'"


def _names(colour: str, number: int = 5) -> list[str]:
    return [f"{colour}{each}" for each in range(number)]


def selector_elsewhere(pair: Pair) -> Seen:
    """A consumer of red is at b; 5 red and 5 blue messages are sent at a."""
    red = pair.consumer(pair.b, "now.sel", selector=RED)
    pair.a.send("now.sel", *coloured(5, "red"), *coloured(5, "blue"))
    return pair.fate("now.sel", _names("red"), red)


def unwanted_elsewhere(pair: Pair) -> Seen:
    """A consumer of red is at b; 5 red and 5 blue messages are sent at a; then a consumer of all comes to a."""
    red = pair.consumer(pair.b, "now.sel2", selector=RED)
    pair.a.send("now.sel2", *coloured(5, "red"), *coloured(5, "blue"))
    pair.take(red, count=5)
    return pair.fate("now.sel2", _names("blue"), pair.consumer(pair.a, "now.sel2"))


def waiting_messages(pair: Pair) -> Seen:
    """5 blue and 5 red messages wait at a; then a consumer of red comes to b."""
    pair.a.send("now.sel3", *coloured(5, "blue"), *coloured(5, "red"))
    return pair.fate("now.sel3", _names("red"), pair.consumer(pair.b, "now.sel3", selector=RED))


def second_selector_comes(pair: Pair) -> Seen:
    """A consumer of red is at b; 5 blue messages are sent at a; then a consumer of blue comes to b."""
    pair.consumer(pair.b, "now.sel4", selector=RED)
    pair.a.send("now.sel4", *coloured(5, "blue"))
    return pair.fate("now.sel4", _names("blue"), pair.consumer(pair.b, "now.sel4", selector=BLUE))


def selector_beside_plain(pair: Pair) -> Seen:
    """At b are a consumer of red and one without selector, which leaves; 5 blue at a; it comes again."""
    pair.consumer(pair.b, "now.sel5", selector=RED)
    pair.leave(pair.consumer(pair.b, "now.sel5"))
    pair.a.send("now.sel5", *coloured(5, "blue"))
    return pair.fate("now.sel5", _names("blue"), pair.consumer(pair.b, "now.sel5"))


def local_consumer_wants_others(pair: Pair) -> Seen:
    """A consumer of blue is at a, one of red at b; 5 of each are sent at a."""
    blue = pair.consumer(pair.a, "now.sel6", selector=BLUE)
    red = pair.consumer(pair.b, "now.sel6", selector=RED)
    pair.a.send("now.sel6", *coloured(5, "red"), *coloured(5, "blue"))
    return pair.fate("now.sel6", [*_names("red"), *_names("blue")], red, blue, order=False)


def each_sent_where_unwanted(pair: Pair) -> Seen:
    """A consumer of blue is at a, one of red at b; 5 red wait at a and 5 blue at b since before they came."""
    pair.a.send("now.sel7", *coloured(5, "red"))
    pair.b.send("now.sel7", *coloured(5, "blue"))
    blue = pair.consumer(pair.a, "now.sel7", selector=BLUE)
    red = pair.consumer(pair.b, "now.sel7", selector=RED)
    return pair.fate("now.sel7", [*_names("red"), *_names("blue")], red, blue, order=False)


def wanted_behind_unwanted(pair: Pair) -> Seen:
    """A consumer of blue is at a without credit; 5 blue and 5 red wait at a; a consumer of red comes to b."""
    pair.consumer(pair.a, "now.sel8", credit=0, selector=BLUE)
    pair.a.send("now.sel8", *coloured(5, "blue"), *coloured(5, "red"))
    return pair.fate("now.sel8", _names("red"), pair.consumer(pair.b, "now.sel8", selector=RED))
