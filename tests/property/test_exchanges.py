"""Exchanges of any kind, chained, in circles, with alternates, deleted in between, and restarted, against a model.

The model knows bindings and nothing of tables, tries or caches: it looks at each of them for each message.
"""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from attrs import define, evolve, field
from hypothesis import event, given, settings
from hypothesis import strategies as st

from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.routing.exchanges.exchanges import PREDECLARED
from artemis_py.core.routing.exchanges.explaining import Explanation
from artemis_py.core.settings.exchange_config import (
    Destination,
    ExchangeConfig,
    ExchangeLifetime,
    ExchangeType,
)
from artemis_py.errors import ExchangeExists, InUse, InvalidRequest, NoSuchExchange, NoSuchQueue, Refusal
from artemis_py.storetools.check import check_folder
from tests.core_harness import make_domain, make_message, make_queue
from tests.examples import examples
from tests.unit.store.world import World

NAMES = ["e", "f", "g"]
SOURCES = [*NAMES, *PREDECLARED]
QUEUES = ["q", "r", "e"]
"""One has the name of an exchange."""
KEYS = ["a", "a.b", "b.b.a"]
PATTERNS = [*KEYS, "#", "a.#", "*.b", "#.b.#"]
PROPERTIES = [{}, {"A": 1}, {"A": 2, "B": "x"}, {"A": 1, "B": "x"}]
ARGUMENTS: list[dict[str, Any]] = [
    {},
    {"A": 1},
    {"A": 1, "B": "x"},
    {"A": 2, "B": None, "x-match": "any"},
    {"B": "", "x-filter-jms-selector": "A = 1"},
    {"x-filter-jms-selector": "A = 1"},
    {"x-replacement-routing-key": "a"},
    {"x-replacement-routing-key": "a.b", "x-filter-jms-selector": "A = 1"},
]


def covers(pattern: list[str], words: list[str]) -> bool:
    """Whether a pattern covers words."""
    if not pattern:
        return not words
    if pattern[0] == "#":
        return covers(pattern[1:], words) or (bool(words) and covers(pattern, words[1:]))
    return bool(words) and pattern[0] in ("*", words[0]) and covers(pattern[1:], words[1:])


def fits(arguments: dict[str, Any], properties: dict[str, Any]) -> bool:
    """Whether properties fit the arguments of a binding to a headers exchange."""
    results = [
        name in properties and (value in (None, "") or properties[name] == value)
        for name, value in arguments.items()
        if not name.startswith("x-")
    ]
    return not results or (any(results) if arguments.get("x-match") == "any" else all(results))


@define
class Bound:
    """A binding."""

    source: str
    key: str
    to: Destination
    arguments: dict[str, Any]

    def matches(self, kind: ExchangeType, key: str, properties: dict[str, Any]) -> bool:
        """Whether it leads a message on."""
        if "x-filter-jms-selector" in self.arguments and properties.get("A") != 1:
            return False
        match kind:
            case ExchangeType.DIRECT:
                return self.key == key
            case ExchangeType.TOPIC:
                return covers(self.key.split("."), key.split("."))
            case ExchangeType.HEADERS:
                return fits(self.arguments, properties)
        return True


@define
class Model:
    """What there should be."""

    exchanges: dict[str, ExchangeConfig] = field(
        factory=lambda: {name: ExchangeConfig(name=name, type=kind) for name, kind in PREDECLARED.items()}
    )
    queues: dict[str, bool] = field(factory=dict)
    """Whether each is durable."""
    bindings: list[Bound] = field(factory=list)

    def there(self, to: Destination) -> bool:
        return to.name in (self.queues if to.is_queue else self.exchanges)

    def durable(self, to: Destination) -> bool:
        return self.queues[to.name] if to.is_queue else self.exchanges[to.name].durable

    def declare(self, config: ExchangeConfig) -> type[Refusal] | None:
        if config.name in self.exchanges:
            return ExchangeExists
        return self.point(config)

    def point(self, config: ExchangeConfig) -> type[Refusal] | None:
        """Have this exchange, if it may have its alternate."""
        alternate = config.alternate
        if alternate is not None and alternate == Destination(config.name, False):
            return InvalidRequest
        if alternate is not None and not self.there(alternate):
            return NoSuchQueue if alternate.is_queue else NoSuchExchange
        if alternate is not None and config.durable and not self.durable(alternate):
            return InvalidRequest
        self.exchanges[config.name] = config
        return None

    def bind(self, bound: Bound, replace: bool) -> type[Refusal] | bool:
        if not self.there(bound.to):
            return NoSuchQueue if bound.to.is_queue else NoSuchExchange
        for each in self.bindings:
            if (each.source, each.key, each.to) == (bound.source, bound.key, bound.to):
                if replace:
                    each.arguments = bound.arguments
                return replace
        self.bindings.append(bound)
        return True

    def remove(self, gone: Callable[[Bound], bool]) -> bool:
        """Remove bindings, and what ends with them."""
        removed = [each for each in self.bindings if gone(each)]
        self.bindings = [each for each in self.bindings if not gone(each)]
        for name in {each.source for each in removed}:
            config = self.exchanges.get(name)
            if config is not None and config.lifetime is ExchangeLifetime.LAST_BINDING:
                if not self.is_alternate(Destination(name, False)) and not any(
                    each.source == name for each in self.bindings
                ):
                    self.drop(Destination(name, False))
        return bool(removed)

    def is_alternate(self, to: Destination) -> bool:
        return any(each.alternate == to for each in self.exchanges.values())

    def delete(self, to: Destination) -> type[Refusal] | None:
        if not self.there(to):
            return NoSuchQueue if to.is_queue else NoSuchExchange
        if not to.is_queue and to.name in PREDECLARED:
            return InvalidRequest
        if self.is_alternate(to):
            return InUse
        self.drop(to)
        return None

    def drop(self, to: Destination) -> None:
        if to.is_queue:
            del self.queues[to.name]
        else:
            del self.exchanges[to.name]
        self.remove(lambda each: each.to == to or (not to.is_queue and each.source == to.name))

    def restart(self) -> None:
        """What is durable stays. No binding is removed by anybody, so no exchange ends."""
        self.bindings = [
            each for each in self.bindings if self.exchanges[each.source].durable and self.durable(each.to)
        ]
        self.queues = {name: durable for name, durable in self.queues.items() if durable}
        self.exchanges = {name: config for name, config in self.exchanges.items() if config.durable}

    def route(
        self,
        name: str,
        key: str,
        properties: dict[str, Any],
        seen: dict[tuple[str, str], set[str]],
        order: int,
        alternates: bool | None = None,
    ) -> set[str]:
        """Queues that a message reaches; `alternates` false: without any alternate, true: with all of them."""
        if (name, key) in seen:
            return seen[name, key]
        found = seen[name, key] = set()
        result: set[str] = set()
        ways = [
            (each.to, each.arguments.get("x-replacement-routing-key", key))
            for each in self.bindings[::order]
            if each.source == name and each.matches(self.exchanges[name].type, key, properties)
        ]
        for to, with_key in ways:
            result |= {to.name} if to.is_queue else self.route(to.name, with_key, properties, seen, order, alternates)
        other = self.exchanges[name].alternate
        if other is not None and alternates is not False and (alternates or not result):
            result |= (
                {other.name} if other.is_queue else self.route(other.name, key, properties, seen, order, alternates)
            )
        found |= result
        return result

    def agrees(self, reached: set[str], name: str, key: str, properties: dict[str, Any]) -> bool:
        """Whether a message may reach these queues."""
        first, last = [self.route(name, key, properties, {}, order) for order in (1, -1)]
        if first == last:
            return reached == first
        # Alternates within a circle: one of them is asked, and which depends on where the message comes in.
        event("alternates within a circle")
        least = self.route(name, key, properties, {}, 1, alternates=False)
        return least <= reached <= self.route(name, key, properties, {}, 1, alternates=True) | first | last


def destinations() -> st.SearchStrategy[Destination]:
    return st.one_of(
        st.builds(Destination, st.sampled_from(QUEUES), st.just(True)),
        st.builds(Destination, st.sampled_from(SOURCES), st.just(False)),
    )


QUEUE = st.tuples(st.just("queue"), st.sampled_from(QUEUES), st.sampled_from([True, True, False]))
DECLARE = st.tuples(
    st.just("declare"),
    st.builds(
        lambda name, kind, durable, lifetime, alternate: ExchangeConfig(
            name=name, type=kind, durable=durable, lifetime=lifetime, alternate=alternate
        ),
        st.sampled_from(NAMES),
        st.sampled_from(ExchangeType),
        st.sampled_from([True, True, False]),
        st.sampled_from([ExchangeLifetime.PERMANENT, ExchangeLifetime.LAST_BINDING]),
        st.one_of(st.none(), destinations()),
    ),
)
STEPS = st.one_of(
    QUEUE,
    DECLARE,
    st.tuples(st.just("point"), st.sampled_from(SOURCES), destinations()),
    *[
        st.tuples(
            st.just("bind"),
            st.sampled_from(SOURCES),
            st.sampled_from(PATTERNS),
            destinations(),
            st.sampled_from(ARGUMENTS),
            st.booleans(),
        )
    ]
    * 4,
    st.tuples(st.just("unbind"), st.integers(0, 20)),
    st.tuples(st.just("delete"), destinations()),
    *[st.tuples(st.just("publish"), st.sampled_from(KEYS), st.sampled_from(PROPERTIES))] * 4,
    st.tuples(st.just("restart")),
)


def outcome(call: Callable[[], object]) -> object:
    """What a call returns, or the class of what it raises."""
    try:
        return call()
    except Refusal as refusal:
        return type(refusal)


class History:
    """The same steps, done to a domain on a store and to the model."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.model = Model()
        self.world = self._start()

    def _start(self) -> World:
        world = World(self.folder)
        assert world.domain.exchanges.restore() == []
        return world

    def do(self, step: Any) -> None:
        name, *rest = step
        getattr(self, name)(*rest)

    def queue(self, name: str, durable: bool) -> None:
        if name not in self.model.queues:
            make_queue(self.world.domain, name, durable=durable)
            self.model.queues[name] = durable

    def declare(self, config: ExchangeConfig) -> None:
        found = outcome(lambda: self.world.domain.exchanges.declare(config))
        expected = self.model.declare(config)
        assert (found if isinstance(found, type) else None) == expected

    def bind(self, source: str, key: str, to: Destination, arguments: dict[str, Any], replace: bool) -> None:
        exchange = self.world.domain.exchanges.find(source)
        assert (exchange is not None) is (source in self.model.exchanges)
        if exchange is not None:
            found = outcome(lambda: self.world.domain.exchanges.bind(exchange, key, to, arguments, replace))
            assert found == self.model.bind(Bound(source, key, to, arguments), replace)

    def unbind(self, number: int) -> None:
        if self.model.bindings:
            one = self.model.bindings[number % len(self.model.bindings)]
            exchanges = self.world.domain.exchanges
            assert exchanges.unbind(exchanges.exchange(one.source), one.key, one.to)
            assert self.model.remove(lambda each: each is one)

    def delete(self, to: Destination) -> None:
        domain = self.world.domain
        if to.is_queue:
            found = outcome(lambda: domain.delete_queue(to.name))
        else:
            found = outcome(lambda: domain.exchanges.delete(domain.exchanges.exchange(to.name)))
        assert found == self.model.delete(to)

    def point(self, name: str, to: Destination) -> None:
        """Give an exchange another alternate."""
        exchange = self.world.domain.exchanges.find(name)
        if exchange is not None:
            config = evolve(exchange.config, alternate=to)
            found = outcome(lambda: self.world.domain.exchanges.update(exchange, config))
            assert found == self.model.point(config)

    def publish(self, key: str, properties: dict[str, Any]) -> None:
        """Send to each exchange."""
        for name in list(self.model.exchanges):
            self.publish_to(name, key, properties)

    def publish_to(self, name: str, key: str, properties: dict[str, Any]) -> None:
        domain = self.world.domain
        before = {queue.name: queue.message_count for queue in domain.queues.values()}
        message = plain_message("", MessageView(properties=properties, body="m"), True)
        count = domain.publishing.publish(message, domain.exchanges.exchange(name), key)
        gained = {queue.name: queue.message_count - before[queue.name] for queue in domain.queues.values()}
        reached = {queue for queue, more in gained.items() if more}
        assert count == len(reached) == sum(gained.values())
        assert self.model.agrees(reached, name, key, properties)
        explanation = Explanation(message, domain.meter, domain.exchanges, None)
        explanation.run(domain.exchanges.exchange(name), key)
        assert set(explanation.paths) == reached

    def restart(self) -> None:
        self.world.settle()
        self.world.audit()
        self.world.crash()
        assert check_folder(self.folder) == []
        self.world = self._start()
        self.model.restart()
        self.compare()

    def compare(self) -> None:
        """The same exchanges and bindings."""
        exchanges = self.world.domain.exchanges
        assert {each.name: each.config for each in exchanges} == self.model.exchanges
        found = [
            (each.name, binding.key, binding.identity[1:], binding.arguments)
            for each in exchanges
            for binding in each.bindings.values()
        ]
        expected = [
            (each.source, each.key, (each.to.is_queue, each.to.name), each.arguments) for each in self.model.bindings
        ]
        assert sorted(found, key=repr) == sorted(expected, key=repr)
        led = sum(len(exchanges.bindings_of(queue)) for queue in self.world.domain.queues.values())
        assert led == sum(each.to.is_queue for each in self.model.bindings)


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(DECLARE, min_size=3, max_size=6), st.lists(STEPS, min_size=40, max_size=80))
def test_exchanges_do_what_the_model_does(declared: list[Any], steps: list[Any]) -> None:
    """After every step, and over restarts."""
    folder = Path(tempfile.mkdtemp(prefix="exchange-"))
    history = History(folder)
    try:
        for step in [*[("queue", name, True) for name in QUEUES], *declared, *steps]:
            history.do(step)
            history.compare()
        history.restart()
    finally:
        history.world.crash()
        shutil.rmtree(folder)


GRAPH = ["v", "w", "x", "y", "z"]


@settings(max_examples=examples(1000), deadline=None)
@given(st.integers(0, 1 << 32))
def test_exchanges_that_lead_to_each_other_do_what_the_model_does(seed: int) -> None:
    """Fanout exchanges only, at random: denser than the histories above, and than what hypothesis would draw."""
    random = Random(seed)
    ways = [(one, other) for one in GRAPH for other in GRAPH if random.random() < 0.2]
    with_queue = random.sample(GRAPH, random.randint(0, 2))
    alternates = {name: random.choice([*GRAPH, "spare"]) for name in GRAPH if random.random() < 0.4}
    domain, model = make_domain(), Model()
    for name in [*sorted(with_queue), "spare"]:
        make_queue(domain, f"queue of {name}")
        model.queues[f"queue of {name}"] = True
    for name in GRAPH:
        config = ExchangeConfig(name=name, type=ExchangeType.FANOUT)
        domain.exchanges.declare(config)
        model.declare(config)
    leads = [(name, Destination(f"queue of {name}", True)) for name in sorted(with_queue)]
    for source, to in leads + [(source, Destination(name, False)) for source, name in ways]:
        domain.exchanges.bind(domain.exchanges.exchange(source), "", to)
        model.bind(Bound(source, "", to, {}), False)
    for name, other in alternates.items():
        if other != name:
            to = Destination("queue of spare", True) if other == "spare" else Destination(other, False)
            exchange = domain.exchanges.exchange(name)
            domain.exchanges.update(exchange, evolve(exchange.config, alternate=to))
            model.point(exchange.config)
    for name in GRAPH:
        before = {queue.name: queue.message_count for queue in domain.queues.values()}
        domain.publishing.publish(make_message(), domain.exchanges.exchange(name), "")
        reached = {queue.name for queue in domain.queues.values() if queue.message_count > before[queue.name]}
        assert model.agrees(reached, name, "", {})


@given(st.sampled_from(PATTERNS), st.lists(st.sampled_from(["a", "b", "", "*"]), min_size=1, max_size=5))
def test_the_model_of_patterns_is_sound(pattern: str, words: list[str]) -> None:
    """`#` alone covers everything, and a text without wildcards itself only."""
    assert covers(["#"], words)
    if "*" not in pattern and "#" not in pattern:
        assert covers(pattern.split("."), words) is (pattern.split(".") == words)
