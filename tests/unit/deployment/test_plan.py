"""What has to change so that a broker becomes what a configuration says."""

from pathlib import Path
from typing import Any

import pytest
from attrs import evolve, fields

from artemis_py.config.broker_config import BrokerConfig, BrokerConnectionSection, LoginConfig
from artemis_py.config.embedded import embedded_config
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.names.syntax import WildcardSyntax
from artemis_py.core.runtime.access import Permission
from artemis_py.core.settings.address_settings import AddressSettings, DeletionPolicy
from artemis_py.core.settings.broker_connection_config import BrokerConnectionConfig
from artemis_py.core.settings.broker_settings import BrokerSettings
from artemis_py.core.settings.cluster_config import ClusterLogin
from artemis_py.core.settings.queue_config import AddressConfig, QueueConfig
from artemis_py.deployment.changes import (
    ChangeAcceptor,
    ChangeAddress,
    ChangeOption,
    ChangeQueue,
    CreateAddress,
    CreateQueue,
    DeleteAddress,
    DeleteQueue,
    KeepQueue,
    RemoveAddressSettings,
    RemovePermissions,
    SetAddressSettings,
    SetPermissions,
)
from artemis_py.deployment.plan import AT_RUN_TIME, EMPTY, plan
from artemis_py.security.authenticator import AnonymousAccess
from artemis_py.transport.config import AcceptorConfig, ConnectorConfig

ANYCAST = frozenset((RoutingType.ANYCAST,))
MULTICAST = frozenset((RoutingType.MULTICAST,))
RULE = {Permission.SEND: frozenset(("guests",))}
FORCE = AddressSettings(config_delete_queues=DeletionPolicy.FORCE, config_delete_addresses=DeletionPolicy.FORCE)


def queue(name: str = "q", address: str = "a", **options: Any) -> QueueConfig:
    options = {"routing_type": RoutingType.ANYCAST, "configuration_managed": True} | options
    return QueueConfig(name=name, address=address, **options)


def address(*queues: QueueConfig, name: str = "a", types: frozenset[RoutingType] = ANYCAST) -> AddressConfig:
    return AddressConfig(name=name, routing_types=types, queues=queues)


def config(**parts: Any) -> BrokerConfig:
    return evolve(embedded_config(), **parts)


def test_the_same_configuration_is_an_empty_plan() -> None:
    rich = config(addresses=(address(queue()),), security_settings={"#": RULE})

    assert plan(rich, rich).changes == ()


def test_nothing_needs_a_restart_to_start() -> None:
    """The start is the plan from nothing."""
    wanted = config(
        addresses=(address(queue()),),
        security_settings={"#": RULE},
        settings=BrokerSettings(name="b", wildcards=WildcardSyntax(delimiter="/")),
        home=Path("somewhere"),
    )

    start = plan(EMPTY, wanted)

    assert not start.needs_restart
    assert {type(change) for change in start.changes} == {
        ChangeOption,
        SetAddressSettings,
        SetPermissions,
        ChangeAcceptor,
        CreateAddress,
        CreateQueue,
    }
    assert start.reached([]) == wanted


# Another value of every kind that an option of the whole broker has.
OTHERS: dict[object, Any] = {
    AnonymousAccess.LOOPBACK: AnonymousAccess.NOWHERE,
    WildcardSyntax(): WildcardSyntax(delimiter="/"),
    ClusterLogin(): ClusterLogin(user="u", password="secret"),
}


def other(value: object) -> Any:
    match value:
        case bool():
            return not value
        case int():
            return value + 5
        case str():
            return f"{value}-2"
        case tuple():
            return (*value, "more")
        case Path():
            return value / "elsewhere"
        case dict():
            return {**value, "ann": "more"}
        case None:
            return "ab"
        case _:
            return OTHERS[value]


OPTIONS = [
    (owner, attribute.name)
    for owner in (BrokerConfig, BrokerSettings, LoginConfig)
    for attribute in fields(owner)
    if attribute.name
    not in (
        "acceptors",
        "address_settings",
        "addresses",
        "broker_connections",
        "diverts",
        "exchanges",
        "login",
        "places",
        "roles",
        "security_settings",
        "settings",
        "virtual_hosts",
        "warnings",
    )
]


@pytest.mark.parametrize(("owner", "name"), OPTIONS)
def test_every_option_of_the_broker_is_compared_and_has_its_class(owner: type, name: str) -> None:
    """Either a running broker takes it up, or the operator is told that it waits for a restart."""
    running = config()
    holder: Any = {BrokerConfig: running, BrokerSettings: running.settings, LoginConfig: running.login}[owner]
    before = getattr(holder, name)
    changed: Any = evolve(holder, **{name: other(before)})
    wanted = {
        BrokerConfig: changed,
        BrokerSettings: evolve(running, settings=changed),
        LoginConfig: evolve(running, login=changed),
    }[owner]

    found = plan(running, wanted)

    (change,) = [each for each in found.changes if isinstance(each, ChangeOption)]
    assert (change.owner, change.attribute, change.before, change.after) == (owner, name, before, other(before))
    assert change.needs_restart == (name not in AT_RUN_TIME)
    assert found.reached([]) == wanted
    assert found.reached(found.changes) == running


def test_all_that_is_taken_up_at_run_time_is_an_option() -> None:
    assert {name for _, name in OPTIONS} >= AT_RUN_TIME


def test_the_text_of_a_change_says_what_it_means() -> None:
    """Names as in broker.xml; a dry run shows these lines."""
    running = config(address_settings={"#": AddressSettings(max_delivery_attempts=3)})
    wanted = config(
        address_settings={"#": AddressSettings(max_delivery_attempts=5, dead_letter_address="DLA")},
        settings=BrokerSettings(name="b", global_max_size_bytes=5),
        addresses=(address(queue()),),
    )

    assert [str(change) for change in plan(running, wanted).changes] == [
        "core/name: localhost becomes b; needs a restart",
        "core/global-max-size: -1 becomes 5",
        'address-setting "#": dead-letter-address (unset) becomes DLA, max-delivery-attempts 3 becomes 5',
        'address "a": is created for ANYCAST',
        'queue "q": is created on address "a"',
    ]


def test_settings_and_permissions_are_compared_by_match() -> None:
    one, other_rule = AddressSettings(max_delivery_attempts=1), {Permission.CONSUME: frozenset(("r",))}
    running = config(address_settings={"a": one, "b": one}, security_settings={"a": RULE, "b": RULE})
    wanted = config(
        address_settings={"b": one, "c": one}, security_settings={"b": other_rule, "c": RULE}, places={"c": ("f", 1)}
    )

    found = plan(running, wanted)

    assert found.changes == (
        RemoveAddressSettings(match="a"),
        SetAddressSettings(match="c", before=AddressSettings(), after=one),
        RemovePermissions(match="a"),
        SetPermissions(match="b", grants=other_rule),
        SetPermissions(match="c", grants=RULE),
    )
    assert found.reached(found.changes) == evolve(running, places={"c": ("f", 1)})


def test_matches_in_another_syntax_wait_for_the_restart_that_brings_it() -> None:
    """A running broker would take `a/#` for the name of one address."""
    wanted = config(
        settings=BrokerSettings(wildcards=WildcardSyntax(delimiter="/")),
        address_settings={"a/#": AddressSettings()},
        security_settings={"a/#": RULE},
    )

    assert all(change.needs_restart for change in plan(config(), wanted).changes)


def test_acceptors_need_a_restart_unless_only_their_place_in_the_file_changed() -> None:
    one, two = AcceptorConfig(name="one", line=3), AcceptorConfig(name="two", port=2)
    running = config(acceptors=(one,))

    assert plan(running, config(acceptors=(evolve(one, line=7),))).changes == ()
    found = plan(running, config(acceptors=(two,)))
    assert [str(change) for change in found.changes] == [
        'acceptor "one": stops listening; needs a restart',
        'acceptor "two": listens on 127.0.0.1:2; needs a restart',
    ]
    assert found.reached(found.changes) == running


def test_queues_are_changed_in_place() -> None:
    running = config(addresses=(address(queue(filter="a = 1", max_consumers=3)),))
    wanted = config(addresses=(address(queue(filter="a = 2", max_consumers=None)),))

    (change,) = plan(running, wanted).changes

    assert isinstance(change, ChangeQueue)
    assert change.consequence == "filter a = 1 becomes a = 2, max_consumers 3 becomes (unset)"


def test_a_queue_that_a_client_made_becomes_one_of_the_configuration() -> None:
    running = config(addresses=(address(queue(configuration_managed=False)),))

    (change,) = plan(running, config(addresses=(address(queue()),))).changes

    assert isinstance(change, ChangeQueue)


@pytest.mark.parametrize("wanted", [queue(address="b"), queue(durable=False), queue(last_value_key="k")])
def test_a_queue_that_cannot_become_what_is_wanted_stays(wanted: QueueConfig) -> None:
    """Its messages would be lost with it."""
    addresses = (address(name=wanted.address), address(name="a")) if wanted.address != "a" else (address(),)
    wanted_addresses = tuple(
        evolve(each, queues=(wanted,)) if each.name == wanted.address else each for each in addresses
    )
    found = plan(config(addresses=(address(queue()),)), config(addresses=wanted_addresses))

    assert isinstance(found.changes[-1], KeepQueue)
    assert not any(isinstance(change, ChangeQueue | CreateQueue | DeleteQueue) for change in found.changes)


def test_routing_types_follow_unless_a_queue_needs_them() -> None:
    both = ANYCAST | MULTICAST
    assert plan(config(addresses=(address(types=both),)), config(addresses=(address(),))).changes == (
        ChangeAddress(name="a", routing_types=ANYCAST),
    )
    bound = address(queue("topic", routing_type=RoutingType.MULTICAST, configuration_managed=False), types=both)
    assert plan(config(addresses=(bound,)), config(addresses=(address(),))).changes == ()


# Deletions.


def test_nothing_is_deleted_unless_the_settings_say_so() -> None:
    """artemis-model §6.10: OFF keeps everything."""
    running = config(addresses=(address(queue()), address(name="b")))

    assert plan(running, config()).changes == ()


def test_queues_of_the_configuration_go_where_force_says_so() -> None:
    """Those of clients stay, and those of addresses under another match."""
    running = config(
        addresses=(
            address(queue("gone"), queue("stays"), queue("client's", configuration_managed=False)),
            address(queue("other", "b"), name="b"),
        )
    )
    settings = {"a": AddressSettings(config_delete_queues=DeletionPolicy.FORCE)}
    wanted = config(addresses=(address(queue("stays")),), address_settings=settings)

    changes = plan(evolve(running, address_settings=settings), wanted).changes

    assert changes == (DeleteQueue(name="gone", address="a"),)


def test_addresses_go_with_all_their_queues_where_force_says_so() -> None:
    """Also those that clients made by name, as in Artemis."""
    running = config(addresses=(address(queue(configuration_managed=False)), address(name="b")))
    wanted = config(addresses=(address(name="b"),), address_settings={"#": FORCE})

    changes = plan(evolve(running, address_settings={"#": FORCE}), wanted).changes

    assert changes == (DeleteAddress(name="a"),)


def test_a_queue_moves_when_its_old_address_is_deleted() -> None:
    """Names of queues are unique in the broker, so the deletion comes first."""
    running = config(addresses=(address(queue()),), address_settings={"#": FORCE})
    wanted = config(addresses=(address(queue(address="b"), name="b"),), address_settings={"#": FORCE})

    assert plan(running, wanted).changes == (
        DeleteAddress(name="a"),
        CreateAddress(name="b", routing_types=ANYCAST),
        CreateQueue(queue=queue(address="b")),
    )


def section(name: str, port: int, password: str = "secret") -> BrokerConnectionSection:
    """A connection to another broker."""
    options = BrokerConnectionConfig(name=name, user="u", password=password)
    return BrokerConnectionSection(options=options, ways=(ConnectorConfig(name=name, host="far", port=port),))


def test_connections_to_other_brokers_come_go_and_change_without_a_restart() -> None:
    """What is told has no password in it, and one that was missed stays as it was."""
    running = config(broker_connections=(section("stays", 1), section("goes", 2), section("changes", 3)))
    wanted = config(broker_connections=(section("stays", 1), section("changes", 3, "other"), section("comes", 4)))
    found = plan(running, wanted)

    assert [str(each) for each in found.changes] == [
        'amqp-connection "goes": ends; what its senders have not sent stays in its queues',
        'amqp-connection "changes": ends, and is made again, to tcp://far:3',
        'amqp-connection "comes": is made to tcp://far:4',
    ]
    assert not found.needs_restart
    assert found.reached([]) == wanted
    missed = found.reached(found.changes)
    assert {each.options.name: each for each in missed.broker_connections} == {
        each.options.name: each for each in running.broker_connections
    }
