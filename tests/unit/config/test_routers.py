"""Connection routers in broker.xml: what is read, and what cannot work (artemis-model §5.10)."""

from typing import Any

import pytest

from artemis_py.core.settings.router_config import (
    CACHE_OPTIONS,
    POOL_OPTIONS,
    ROUTER_OPTIONS,
    CacheConfig,
    KeyType,
    PoolConfig,
    RouterConfig,
    RoutingPolicy,
)
from tests.unit.config.samples import mistakes, other_value, read

TLS = "?sslEnabled=true"
PEERS = (
    '<connectors><connector name="a">tcp://a.example:1</connector><connector name="b">tcp://b.example:1</connector>'
    f'<connector name="safe">tcp://c.example:1{TLS}</connector></connectors>'
)
STATIC = "<static-connectors><connector-ref>a</connector-ref><connector-ref>b</connector-ref></static-connectors>"
HASH = '<policy name="CONSISTENT_HASH"/>'
LOCAL = "<local-target-enabled>true</local-target-enabled>"
POOL = f"<pool>{STATIC}</pool>"


def routers(inside: str, acceptor: str = "tcp://h:1?protocols=AMQP;router=r", name: str = "r") -> str:
    """A router, and an acceptor that uses one called r."""
    return (
        f'<acceptors><acceptor name="x">{acceptor}</acceptor></acceptors>{PEERS}'
        f'<connection-routers><connection-router name="{name}">{inside}</connection-router></connection-routers>'
    )


def router(inside: str) -> RouterConfig:
    """What a file has."""
    config = read(routers(inside))
    assert config.acceptors[0].router == "r"
    assert config.warnings == ()
    (found,) = config.routers
    return found


@pytest.mark.parametrize("option", ROUTER_OPTIONS, ids=lambda option: option.name)
def test_an_element_reaches_its_field(option: Any) -> None:
    """Of the router itself."""
    text, value = other_value(option)
    if option.name == "key-type":
        text, value = "USER_NAME", KeyType.USER_NAME
    local = "" if option.name == "local-target-filter" else "<local-target-filter>x</local-target-filter>"

    assert getattr(router(f"<{option.name}>{text}</{option.name}>{local}"), option.attribute) == value


@pytest.mark.parametrize("option", POOL_OPTIONS, ids=lambda option: option.name)
def test_an_element_of_a_pool_reaches_its_field(option: Any) -> None:
    """Of its pool."""
    text, value = ("2", 2) if option.name == "quorum-size" else other_value(option)
    if option.name == "local-connector":
        text = value = "a"
    own = '<policy name="ROUND_ROBIN"/>'
    pool = router(f"{own}<pool><{option.name}>{text}</{option.name}>{STATIC}</pool>").pool

    assert isinstance(pool, PoolConfig)
    assert getattr(pool, option.attribute) == value
    assert pool.static_connectors == ("a", "b")


@pytest.mark.parametrize("option", CACHE_OPTIONS, ids=lambda option: option.name)
def test_an_element_of_a_cache_reaches_its_field(option: Any) -> None:
    """Of its cache; an empty one has the defaults."""
    text, value = other_value(option)
    cache = router(f"{HASH}{POOL}<cache><{option.name}>{text}</{option.name}></cache>").cache

    assert isinstance(cache, CacheConfig)
    assert getattr(cache, option.attribute) == value
    assert router(f"{HASH}{POOL}<cache/>").cache == CacheConfig()
    assert router(HASH + POOL).cache is None


def test_a_policy_has_a_name_and_perhaps_a_number() -> None:
    """CONSISTENT_HASH_MODULO has groups."""
    found = router(f'<policy name="CONSISTENT_HASH_MODULO"><property key="modulo" value="100"/></policy>{POOL}')

    assert (found.policy, found.modulo) == (RoutingPolicy.CONSISTENT_HASH_MODULO, 100)


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        ("", "would refuse all clients"),
        (HASH, "no pool to choose from"),
        (POOL, "no way to choose from it"),
        (f'<policy name="RANDOM"/>{POOL}', "RANDOM: "),
        (f'<policy name="CONSISTENT_HASH_MODULO"/>{POOL}', "needs a number of groups"),
        (
            f'<policy name="CONSISTENT_HASH_MODULO"><property key="modulo" value="-1"/></policy>{POOL}',
            "is no number of groups",
        ),
        (f'<policy name="LEAST_CONNECTIONS"/>{POOL}', "LEAST_CONNECTIONS needs a pool by cluster-connection"),
        (f"{HASH}<pool/>", "has one source of brokers"),
        (f"{HASH}<pool>{STATIC}<cluster-connection>m</cluster-connection></pool>", "has one source of brokers"),
        (f"{HASH}<pool><cluster-connection>m</cluster-connection></pool>", '"m" is not there; there is none'),
        (
            f'{HASH}<pool><discovery-group-ref discovery-group-name="g"/></pool>',
            '"g" is not there; there is none',
        ),
        (
            f"{HASH}<pool><static-connectors><connector-ref>z</connector-ref></static-connectors></pool>",
            '"z" is not there; there is a, b, safe',
        ),
        (f"{HASH}<pool><quorum-size>3</quorum-size>{STATIC}</pool>", "quorum-size 3 is never reached"),
        (
            f"{HASH}<pool>{LOCAL}{STATIC}</pool>",
            "CONSISTENT_HASH needs the name by which other routers know this broker",
        ),
        (
            f"{HASH}<pool>{LOCAL}<local-connector>a</local-connector><quorum-size>3</quorum-size>{STATIC}</pool>",
            "quorum-size 3 is never reached: the pool has 2 brokers",
        ),
        ("<key-filter>(</key-filter><local-target-filter>x</local-target-filter>", "is no regular expression"),
        (f"<key-type>SNI_HOST</key-type>{HASH}{POOL}", "asks for the name in the TLS handshake"),
        (
            f"{HASH}<pool><static-connectors><connector-ref>safe</connector-ref></static-connectors></pool>",
            'clients would never be sent to "safe": the connector has TLS, and the acceptor has not',
        ),
    ],
)
def test_what_cannot_work_is_a_mistake(inside: str, expected: str) -> None:
    """One message, which names it."""
    found = mistakes(routers(inside))

    assert len(found) == 1
    assert expected in found[0]


def test_an_acceptor_names_a_router_that_exists() -> None:
    """And a router that nobody names does nothing."""
    text = routers(HASH + POOL, name="other")
    (found,) = mistakes(text)
    config = read(text.replace(";router=r", ""))

    assert 'there is no connection router "r"; <connection-routers> has other' in found
    assert ['"other" does nothing' in str(each) for each in config.warnings] == [True]


def test_mqtt_clients_are_a_warning() -> None:
    """Hardly any follows."""
    (warning,) = read(routers(HASH + POOL, acceptor="tcp://h:1?router=r")).warnings

    assert "MQTT clients that another broker should serve are refused" in str(warning)
