"""Exchanges of a configuration: the plan, and a broker that follows it."""

from pathlib import Path
from typing import Any

from attrs import evolve

from artemis_py.broker import Broker
from artemis_py.cli.check import examine
from artemis_py.config.broker_config import BrokerConfig
from artemis_py.config.embedded import embedded_config
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.routing.domain import Domain
from artemis_py.core.settings.address_settings import AddressSettings, DeletionPolicy
from artemis_py.core.settings.exchange_config import (
    BindingConfig,
    DeclaredExchanges,
    Destination,
    ExchangeConfig,
    ExchangeLifetime,
    ExchangeType,
    Scalar,
    Unroutable,
)
from artemis_py.core.settings.queue_config import AddressConfig, QueueConfig
from artemis_py.deployment.plan import plan
from artemis_py.errors import Problem
from tests.core_harness import settle_down
from tests.line_protocol import LineProtocolManager
from tests.unit.core.exchange_world import reached

LINE = [LineProtocolManager]
FORCE = {"#": AddressSettings(config_delete_queues=DeletionPolicy.FORCE, config_delete_addresses=DeletionPolicy.FORCE)}


def exchange(name: str, kind: str = "direct", **values: Any) -> ExchangeConfig:
    return ExchangeConfig(name=name, type=ExchangeType(kind), configuration_managed=True, **values)


def to_queue(name: str) -> Destination:
    return Destination(name, is_queue=True)


def binding(source: str, key: str, queue: str, **arguments: Scalar) -> BindingConfig:
    return BindingConfig(exchange=source, destination=to_queue(queue), key=key, arguments=tuple(arguments.items()))


def queues(*names: str) -> tuple[AddressConfig, ...]:
    anycast = RoutingType.ANYCAST
    return tuple(
        AddressConfig(
            name=name,
            routing_types=frozenset((anycast,)),
            queues=(QueueConfig(name=name, address=name, routing_type=anycast, configuration_managed=True),),
        )
        for name in names
    )


def config(*parts: ExchangeConfig | BindingConfig, **values: Any) -> BrokerConfig:
    """With the queues `a` and `b`, and these exchanges and bindings."""
    made = DeclaredExchanges(
        exchanges=tuple(part for part in parts if isinstance(part, ExchangeConfig)),
        bindings=tuple(part for part in parts if isinstance(part, BindingConfig)),
    )
    parts_of_file: dict[str, Any] = {"exchanges": made, "addresses": queues("a", "b")}
    return evolve(embedded_config(), **parts_of_file | values)


def reload(broker: Broker, wanted: BrokerConfig) -> list[Problem]:
    """Do it; afterwards nothing is left to do but what was refused."""
    problems = broker.deployment.apply(plan(broker.deployment.running(wanted), wanted))
    settle_down(broker.domain)
    return problems


def changes(broker: Broker, wanted: BrokerConfig) -> list[str]:
    return [str(change) for change in plan(broker.deployment.running(wanted), wanted).changes]


def bound(domain: Domain, name: str) -> set[tuple[str, str]]:
    """Keys and destinations of an exchange."""
    return {(key, to) for key, _, to in domain.exchanges.exchange(name).bindings}


async def test_a_broker_starts_with_its_exchanges_and_a_reload_finds_no_difference() -> None:
    """Two of them are each other's alternate."""
    wanted = config(
        exchange("x", alternate=Destination("y", is_queue=False)),
        exchange("y", "fanout", alternate=Destination("x", is_queue=False), unroutable=Unroutable.REJECT),
        exchange("amq.topic", "topic", alternate=to_queue("b")),
        binding("x", "k", "a"),
        binding("y", "", "b"),
        binding("amq.topic", "a.*", "a"),
    )
    async with Broker(wanted, LINE) as broker:
        domain = broker.domain
        assert reached(domain, "x", "k") == {"a"}
        assert reached(domain, "x", "other") == {"b"}
        assert reached(domain, "amq.topic", "b") == {"b"}
        assert domain.exchanges.exchange("y").rejects
        assert changes(broker, wanted) == []


async def test_exchanges_change_while_the_broker_runs() -> None:
    async with Broker(config(), LINE) as broker:
        domain = broker.domain
        assert reload(broker, config(exchange("x"), binding("x", "k", "a"))) == []
        assert reached(domain, "x", "k") == {"a"}

        wanted = config(exchange("x", alternate=to_queue("b")), binding("x", "l", "a"), binding("x", "m", "b"))
        assert changes(broker, wanted) == [
            "exchange \"x\": alternate (unset) becomes queue 'b'",
            "binding of x with key \"l\": leads to queue 'a'",
            "binding of x with key \"m\": leads to queue 'b'",
            "binding of x with key \"k\": no longer leads to queue 'a'",
        ]
        assert reload(broker, wanted) == []
        assert bound(domain, "x") == {("l", "a"), ("m", "b")}
        assert reached(domain, "x", "k") == {"b"}


async def test_arguments_of_a_binding_change() -> None:
    """1 and true are equal for Python, and not for a headers exchange."""
    match = exchange("amq.match", "headers")
    async with Broker(config(match, binding("amq.match", "", "a", n=1)), LINE) as broker:
        assert reached(broker.domain, "amq.match", n=1) == {"a"}

        assert reload(broker, config(match, binding("amq.match", "", "a", n=True))) == []

        assert reached(broker.domain, "amq.match", n=1) == set()
        assert reached(broker.domain, "amq.match", n=True) == {"a"}


async def test_what_clients_made_stays() -> None:
    """Also in an exchange that the configuration does not have any more."""
    start = config(exchange("x"), binding("x", "k", "a"))
    async with Broker(start, LINE) as broker:
        exchanges = broker.domain.exchanges
        exchanges.declare(ExchangeConfig(name="mine", type=ExchangeType.DIRECT))
        exchanges.bind(exchanges.exchange("mine"), "k", to_queue("a"))
        exchanges.bind(exchanges.exchange("x"), "own", to_queue("b"))
        exchanges.bind(exchanges.exchange("amq.direct"), "own", to_queue("b"))

        assert changes(broker, start) == []
        assert reload(broker, config()) == []

        assert bound(broker.domain, "x") == {("own", "b")}
        assert bound(broker.domain, "mine") == {("k", "a")}
        assert bound(broker.domain, "amq.direct") == {("own", "b")}


async def test_force_deletes_exchanges_that_the_configuration_had() -> None:
    """Those of clients stay; alternates of others do not prevent it."""
    start = config(exchange("x"), exchange("y", alternate=Destination("x", is_queue=False)))
    async with Broker(start, LINE) as broker:
        exchanges = broker.domain.exchanges
        exchanges.declare(
            ExchangeConfig(name="mine", type=ExchangeType.DIRECT, alternate=Destination("x", is_queue=False))
        )

        assert reload(broker, config(address_settings=FORCE)) == []

        assert (exchanges.find("x"), exchanges.find("y")) == (None, None)
        assert exchanges.exchange("mine").config.alternate is None


async def test_a_predeclared_exchange_becomes_as_it_was() -> None:
    predeclared = exchange("amq.fanout", "fanout", alternate=to_queue("b"), unroutable=Unroutable.REJECT)
    async with Broker(config(predeclared), LINE) as broker:
        assert reload(broker, config()) == []

        config_now = broker.domain.exchanges.exchange("amq.fanout").config
        assert config_now == ExchangeConfig(name="amq.fanout", type=ExchangeType.FANOUT)


async def test_the_configuration_takes_over_what_clients_made() -> None:
    async with Broker(config(), LINE) as broker:
        exchanges = broker.domain.exchanges
        source = exchanges.declare(ExchangeConfig(name="x", type=ExchangeType.DIRECT))
        exchanges.bind(source, "k", to_queue("a"), {"n": 1})
        exchanges.bind(source, "own", to_queue("a"))
        wanted = config(exchange("x", unroutable=Unroutable.REJECT), binding("x", "k", "a"))

        assert reload(broker, wanted) == []
        assert exchanges.exchange("x") is source
        assert source.rejects
        assert source.bindings[("k", True, "a")].arguments == {}
        assert changes(broker, wanted) == []

        assert reload(broker, config()) == []
        assert bound(broker.domain, "x") == {("own", "a")}


async def test_a_queue_goes_with_the_exchange_that_had_it_as_alternate() -> None:
    """In one reload, although the alternate of an exchange cannot be deleted."""
    start = config(exchange("x", alternate=to_queue("b")), binding("x", "k", "b"))
    async with Broker(start, LINE) as broker:
        wanted = config(exchange("x"), binding("x", "k", "a"), addresses=queues("a"), address_settings=FORCE)

        assert reload(broker, wanted) == []

        assert set(broker.domain.queues) == {"a"}
        assert bound(broker.domain, "x") == {("k", "a")}
        assert changes(broker, wanted) == []


async def test_an_exchange_that_ends_with_its_last_binding_survives_the_exchange_of_its_bindings() -> None:
    ending = exchange("x", lifetime=ExchangeLifetime.LAST_BINDING)
    async with Broker(config(ending, binding("x", "k", "b")), LINE) as broker:
        source = broker.domain.exchanges.exchange("x")
        assert reload(broker, config(ending, binding("x", "l", "b"))) == []
        assert broker.domain.exchanges.exchange("x") is source

        # Its only queue is deleted, and the exchange with it, before it gets its next binding.
        wanted = config(ending, binding("x", "l", "a"), addresses=queues("a"), address_settings=FORCE)
        assert reload(broker, wanted) == []
        assert bound(broker.domain, "x") == {("l", "a")}


async def test_an_exchange_of_another_type_stays_as_it_is() -> None:
    """With the bindings of clients; those of the file would mean something else."""
    async with Broker(config(exchange("x"), binding("x", "k", "a")), LINE) as broker:
        source = broker.domain.exchanges.exchange("x")
        wanted = config(exchange("x", "topic", unroutable=Unroutable.REJECT), binding("x", "a.#", "a"))

        assert changes(broker, wanted)[0] == (
            'exchange "x": stays a durable direct exchange, so that its bindings are kept; delete it to get it as '
            "configured; bindings that the configuration has for a topic exchange are not made"
        )
        assert reload(broker, wanted) == []
        assert broker.domain.exchanges.exchange("x") is source
        assert (bound(broker.domain, "x"), source.rejects) == ({("k", "a")}, True)

        broker.domain.exchanges.delete(source)
        assert reload(broker, wanted) == []
        assert reached(broker.domain, "x", "a.b") == {"a"}


# What is written into a file, and a store between two starts.

FILE = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
<security-enabled>false</security-enabled>
<acceptors><acceptor name="a">tcp://127.0.0.1:0</acceptor></acceptors>
<addresses><address name="a"><anycast><queue name="a"/></anycast></address></addresses>
</core>
<exchanges xmlns="urn:artemis-py">
{}
</exchanges></configuration>"""
DIRECT = '<exchange name="x" type="direct"><binding key="k" queue="a"/></exchange>'


def stored(folder: Path, *parts: ExchangeConfig | BindingConfig, **values: Any) -> BrokerConfig:
    return config(*parts, persistence_enabled=True, home=folder, **values)


async def test_a_reload_makes_again_what_clients_have_undone(tmp_path: Path) -> None:
    """A client replaces a binding and removes another one; both belong to the file, also after a restart."""
    wanted = stored(tmp_path, exchange("x", "headers"), binding("x", "k", "a"), binding("x", "l", "a"))
    async with Broker(wanted, LINE) as broker:
        exchanges = broker.domain.exchanges
        source = exchanges.exchange("x")
        exchanges.bind(source, "k", to_queue("a"), {"n": 1}, replace=True)
        exchanges.unbind(source, "l", to_queue("a"))
        exchanges.update(source, evolve(source.config, unroutable=Unroutable.REJECT))

        assert reload(broker, wanted) == []
        assert source.bindings[("k", True, "a")].arguments == {}
        assert (bound(broker.domain, "x"), source.rejects) == ({("k", "a"), ("l", "a")}, False)

        exchanges.bind(source, "k", to_queue("a"), {"n": 1}, replace=True)
    async with Broker(stored(tmp_path, exchange("x", "headers")), LINE) as broker:
        assert bound(broker.domain, "x") == set()


async def test_what_left_the_file_between_two_starts_is_removed(tmp_path: Path) -> None:
    """What clients made is not; the store tells which is which."""
    async with Broker(stored(tmp_path, exchange("x"), binding("x", "k", "a")), LINE) as broker:
        source = broker.domain.exchanges.exchange("x")
        broker.domain.exchanges.bind(source, "own", to_queue("a"))
    async with Broker(stored(tmp_path, exchange("x"), binding("x", "l", "a")), LINE) as broker:
        assert bound(broker.domain, "x") == {("own", "a"), ("l", "a")}
    async with Broker(stored(tmp_path), LINE) as broker:
        assert bound(broker.domain, "x") == {("own", "a")}
    async with Broker(stored(tmp_path, address_settings=FORCE), LINE) as broker:
        assert broker.domain.exchanges.find("x") is None


async def test_check_compares_the_file_with_the_store(tmp_path: Path) -> None:
    file = tmp_path / "etc" / "broker.xml"
    file.parent.mkdir()
    file.write_text(FILE.format(DIRECT))
    before = examine(file)
    async with Broker(stored(tmp_path, exchange("x")), LINE):
        pass
    same = examine(file)
    file.write_text(FILE.format(DIRECT.replace("direct", "topic")))
    differs = examine(file)

    assert (before.problems, same.problems, differs.problems) == ([], [], [])
    assert (before.warnings, same.warnings) == ([], [])
    (warning,) = differs.warnings
    assert str(warning).startswith(
        f'{file}:7: exchange: "x" is in the store, and stays a durable direct exchange, so that its bindings are kept'
    )
