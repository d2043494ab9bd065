"""Diverts of a configuration: the plan, and a broker that follows it."""

from typing import Any

import pytest
from attrs import evolve

from artemis_py.broker import Broker
from artemis_py.config.broker_config import BrokerConfig
from artemis_py.config.embedded import embedded_config
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.routing.divert import Divert, create_divert
from artemis_py.core.settings.address_settings import AddressSettings, DeletionPolicy
from artemis_py.core.settings.divert_config import DivertConfig, DivertType
from artemis_py.core.settings.queue_config import AddressConfig, QueueConfig
from artemis_py.deployment.changes import CreateAddress, CreateQueue, DeleteAddress, DeleteQueue
from artemis_py.deployment.diverts import ChangeDivert, CreateDivert, RemoveDivert
from artemis_py.deployment.plan import EMPTY, plan
from artemis_py.errors import ConfigError, Problem
from tests.core_harness import send, settle_down
from tests.line_protocol import LineProtocolManager

LINE = [LineProtocolManager]
FORCE = {"#": AddressSettings(config_delete_queues=DeletionPolicy.FORCE, config_delete_addresses=DeletionPolicy.FORCE)}


def divert(name: str = "d", address: str = "a", to: str = "b", **values: Any) -> DivertConfig:
    return DivertConfig(name=name, address=address, forwarding_address=to, **values)


def address(name: str, *queues: str) -> AddressConfig:
    """An address with queues, by default one of its own name."""
    anycast = RoutingType.ANYCAST
    configs = [
        QueueConfig(name=queue, address=name, routing_type=anycast, configuration_managed=True)
        for queue in queues or (name,)
    ]
    return AddressConfig(name=name, routing_types=frozenset((anycast,)), queues=tuple(configs))


def config(*diverts: DivertConfig, **parts: Any) -> BrokerConfig:
    """With the addresses and queues `a` and `b`."""
    parts = {"addresses": (address("a"), address("b"))} | parts
    return evolve(embedded_config(), diverts=diverts, **parts)


# The plan.


def test_the_start_makes_diverts_after_their_addresses() -> None:
    start = plan(EMPTY, config(divert()))

    kinds = [type(change) for change in start.changes if isinstance(change, CreateAddress | CreateQueue | CreateDivert)]
    assert kinds == [CreateAddress, CreateQueue, CreateAddress, CreateQueue, CreateDivert]
    assert not start.needs_restart
    assert start.reached([]) == config(divert())


def test_diverts_are_compared_by_name() -> None:
    changed = divert("changed", exclusive=True)
    running = config(divert("same"), divert("gone"), divert("changed"))
    wanted = config(divert("new"), changed, divert("same"))

    found = plan(running, wanted)

    assert found.changes == (
        RemoveDivert(divert=divert("gone")),
        CreateDivert(divert=divert("new")),
        ChangeDivert(before=divert("changed"), divert=changed),
    )
    assert not found.needs_restart
    assert found.reached([]) == wanted
    assert set(found.reached(found.changes).diverts) == set(running.diverts)


def test_the_text_of_a_change_says_what_it_means() -> None:
    """Names as in broker.xml; a dry run shows these lines."""
    running = config(divert("gone"), divert("changed", filter="x = 1"))
    wanted = config(
        divert("copies"),
        divert("takes", exclusive=True),
        divert("changed", address="b", to="a", exclusive=True, routing_type=DivertType.PASS),
    )

    assert [str(change) for change in plan(running, wanted).changes] == [
        'divert "gone": messages of address "a" no longer go to "b"',
        'divert "copies": copies messages of address "a" to "b"',
        'divert "takes": takes messages from address "a" to "b"',
        (
            'divert "changed": filter x = 1 becomes (unset), address a becomes b, forwarding-address b becomes a, '
            "exclusive False becomes True, routing-type STRIP becomes PASS"
        ),
    ]


def test_a_divert_gives_its_name_to_a_queue_and_the_other_way_round() -> None:
    """They share one set of names, so removals come first and diverts last."""
    running = config(divert("x"), addresses=(address("a", "y"),), address_settings=FORCE)
    wanted = config(divert("y"), addresses=(address("a", "x"),), address_settings=FORCE)

    kinds = [type(change) for change in plan(running, wanted).changes]

    assert kinds == [RemoveDivert, DeleteQueue, CreateQueue, CreateDivert]


def test_the_address_of_a_divert_counts_as_declared() -> None:
    """FORCE would delete it at each start otherwise, with the queues that clients have made on it."""
    wanted = config(divert(), divert("e", to="c"), addresses=(), address_settings=FORCE)
    there = AddressConfig(name="a", routing_types=frozenset(RoutingType))
    running = evolve(wanted, addresses=(there, address("c")))

    assert plan(running, wanted).changes == (DeleteAddress(name="c"),)
    start = [change for change in plan(EMPTY, wanted).changes if isinstance(change, CreateAddress)]
    assert start == [CreateAddress(name="a", routing_types=frozenset(RoutingType))]


# A broker.


def reload(broker: Broker, wanted: BrokerConfig) -> list[Problem]:
    """Do it, in a turn."""
    problems = broker.deployment.apply(plan(broker.deployment.running(wanted), wanted))
    settle_down(broker.domain)
    return problems


def arrivals(broker: Broker) -> dict[str, int]:
    """How many messages each queue gets of one that is sent to `a`."""
    domain = broker.domain
    before = {queue.name: queue.message_count for queue in domain.queues.values()}
    send(domain, "a", "m")
    return {queue.name: queue.message_count - before[queue.name] for queue in domain.queues.values()}


async def test_a_broker_starts_with_its_diverts_and_a_reload_finds_no_difference() -> None:
    wanted = config(divert())
    async with Broker(wanted, LINE) as broker:
        assert arrivals(broker) == {"a": 1, "b": 1}
        assert plan(broker.deployment.running(wanted), wanted).changes == ()


async def test_diverts_come_change_and_go_while_the_broker_runs() -> None:
    """A divert has no messages to lose, so it needs no FORCE to go."""
    three = (address("a"), address("b"), address("c"))
    steps = [
        (config(addresses=three), {"a": 1, "b": 0, "c": 0}),
        (config(divert(), addresses=three), {"a": 1, "b": 1, "c": 0}),
        (config(divert(exclusive=True), addresses=three), {"a": 0, "b": 1, "c": 0}),
        (config(divert(exclusive=True, to="c"), addresses=three), {"a": 0, "b": 0, "c": 1}),
        (config(divert(address="b", to="c"), addresses=three), {"a": 1, "b": 0, "c": 0}),
        (config(addresses=three), {"a": 1, "b": 0, "c": 0}),
    ]
    async with Broker(steps[0][0], LINE) as broker:
        for wanted, expected in steps:
            assert reload(broker, wanted) == []
            assert arrivals(broker) == expected
            assert plan(broker.deployment.running(wanted), wanted).changes == ()


async def test_a_divert_that_went_with_its_address_is_made_again() -> None:
    """An administrator deleted the address; the configuration still has the divert."""
    wanted = config(divert())
    async with Broker(wanted, LINE) as broker:
        broker.domain.delete_address("a", force=True)

        assert reload(broker, wanted) == []

        assert arrivals(broker) == {"a": 1, "b": 1}


async def test_diverts_made_by_code_stay_unless_the_configuration_has_one_of_the_name() -> None:
    """As those that management makes stay in Artemis."""
    async with Broker(config(), LINE) as broker:
        create_divert(broker.domain, divert("mine"))
        create_divert(broker.domain, divert("taken over"))

        assert reload(broker, config(divert("taken over", exclusive=True, filter="x = 1"))) == []
        assert set(broker.domain.others) == {"mine", "taken over"}
        assert broker.domain.others["taken over"].supersedes

        assert reload(broker, config()) == []
        assert set(broker.domain.others) == {"mine"}


async def test_diverts_of_administrators_stay_unless_the_settings_of_their_address_say_force() -> None:
    """artemis-model §3.2."""
    forced = {"a": AddressSettings(config_delete_diverts=DeletionPolicy.FORCE)}
    async with Broker(config(), LINE) as broker:
        diverts = broker.services.diverts
        diverts.create(divert("on a"))
        diverts.create(divert("on b", address="b", to="c"))
        create_divert(broker.domain, divert("of code"))
        wanted = config(divert())
        assert reload(broker, wanted) == []
        assert set(broker.domain.others) == {"on a", "on b", "of code", "d"}

        wanted = evolve(wanted, address_settings={**wanted.address_settings, **forced})
        shown = plan(broker.deployment.running(wanted), wanted)
        assert [change.divert.name for change in shown.changes if isinstance(change, RemoveDivert)] == ["on a"]
        assert reload(broker, wanted) == []

        assert set(broker.domain.others) == {"on b", "of code", "d"}
        assert plan(broker.deployment.running(wanted), wanted).changes == ()


async def test_a_divert_of_an_administrator_gives_way_to_a_queue_of_its_name() -> None:
    """Else a broker whose file has the queue could not start, and nobody could delete the divert."""
    async with Broker(config(), LINE) as broker:
        broker.services.diverts.create(divert("new"))

        assert reload(broker, config(addresses=(address("a"), address("b"), address("new")))) == []

        assert broker.domain.others == {}
        assert "new" in broker.domain.queues


@pytest.mark.parametrize("is_same", [True, False])
async def test_the_configuration_takes_over_a_divert_of_an_administrator(is_same: bool) -> None:
    """Even one that is the same: it goes when it is no longer in the file."""
    async with Broker(config(), LINE) as broker:
        made = broker.services.diverts.create(divert())
        assert made.keeper is broker.services.diverts

        assert reload(broker, config(divert(exclusive=not is_same))) == []
        assert made.keeper is None

        assert reload(broker, config()) == []
        assert broker.domain.others == {}


async def test_what_an_administrator_did_to_a_divert_of_the_file_lasts_until_it_is_read_again() -> None:
    wanted = config(divert(), divert("e", to="a", address="b", filter="x = 1"))
    async with Broker(wanted, LINE) as broker:
        diverts = broker.services.diverts
        first, second = [each for each in broker.domain.others.values() if isinstance(each, Divert)]
        diverts.update(first, evolve(first.config, exclusive=True))
        diverts.remove(second)
        assert arrivals(broker) == {"a": 0, "b": 1}

        assert reload(broker, wanted) == []

        assert {name: each.supersedes for name, each in broker.domain.others.items()} == {"d": False, "e": False}


async def test_a_circle_through_a_divert_of_an_administrator_is_named_at_the_start(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with Broker(config(divert("there"), divert("self", "c", "c")), LINE) as broker:
        broker.services.diverts.create(divert("back", address="b", to="a"))
        broker.deployment.warn_of_circles()

    lines = [record.getMessage() for record in caplog.records if "circle" in record.getMessage()]
    assert lines == ["diverts form a circle, a message goes through each of them once: there -> back -> there"]


async def test_what_is_refused_is_as_it_was_and_is_planned_again() -> None:
    """The name belongs to a queue that a client has made; the filter of code was never read."""
    async with Broker(config(divert()), LINE) as broker:
        broker.domain.create_queue(QueueConfig(name="made", address="a", routing_type=RoutingType.ANYCAST))
        wanted = config(divert("made"), divert(filter="x ="))

        problems = reload(broker, wanted)

        assert [problem.element for problem in problems] == ['divert "made"', 'divert "d"']
        assert "queue 'made' exists already, on address 'a'" in problems[0].message
        assert broker.deployment.config.diverts == (divert(),)
        assert arrivals(broker)["b"] == 1
        assert [type(each) for each in plan(broker.deployment.running(wanted), wanted).changes] == [
            CreateDivert,
            ChangeDivert,
        ]


async def test_a_plan_is_applied_to_what_is_there_when_it_is_applied() -> None:
    """Code removed one divert and made another since the plan was shown."""
    async with Broker(config(divert("goes"), divert("changes")), LINE) as broker:
        domain = broker.domain
        wanted = config(divert("changes", exclusive=True), divert("comes", exclusive=True))
        shown = plan(broker.deployment.running(wanted), wanted)
        domain.unbind(domain.others["goes"])
        domain.unbind(domain.others["changes"])
        create_divert(domain, divert("comes"))

        assert broker.deployment.apply(shown) == []

        assert {name: each.supersedes for name, each in domain.others.items()} == {"changes": True, "comes": True}


async def test_a_divert_that_cannot_be_made_ends_the_start() -> None:
    with pytest.raises(ConfigError, match=r'divert "a": queue .a. exists already'):
        await Broker(config(divert("a")), LINE).start()
