"""Connection routers: keys, policies, caches, pools and quorums (artemis-model §5.10)."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from attrs import evolve

from artemis_py.cluster.routers import cache as caches
from artemis_py.cluster.routers.cache import RouteCache
from artemis_py.cluster.routers.policies import policy_of
from artemis_py.cluster.routers.pools import DialledPool
from artemis_py.cluster.routers.router import ConnectionRouter
from artemis_py.core.runtime.access import Subject
from artemis_py.core.runtime.referrals import HERE, Alternative, Newcomer, Route
from artemis_py.core.runtime.timers import Timer, Timers
from artemis_py.core.settings.router_config import CacheConfig, KeyType, PoolConfig, RouterConfig, RoutingPolicy
from artemis_py.store.memory import MemoryStore

CLIENT = Newcomer(
    protocol="AMQP",
    client_id="client-7",
    subject=Subject("eve", frozenset(("staff", "admins"))),
    peer="10.1.2.3:45678",
    server_name="eu.example",
)
ALL = tuple(Alternative(node_id=name, name=name, host=f"{name}.example", port=5672) for name in "abcde")


class Members:
    """A pool of which the test decides who is there."""

    def __init__(self, *brokers: Alternative, local: str = "") -> None:
        self.there: Sequence[Alternative] = brokers
        self.local = local
        self.counts: Counter[str] = Counter()

    def brokers(self) -> Sequence[Alternative]:
        return self.there

    def is_local(self, broker: Alternative) -> bool:
        return broker.node_id == self.local

    def connections(self, broker: Alternative) -> int:
        return self.counts[broker.node_id]

    def chosen(self, broker: Alternative) -> None:
        self.counts[broker.node_id] += 1


class Kept(MemoryStore):
    """A store whose records can be read again."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[bytes, bytes] = {}

    def save_record(self, space: str, key: bytes, value: bytes | None) -> None:
        assert space == caches.ROUTES
        self.kept.pop(key, None)
        if value is not None:
            self.kept[key] = value

    def load_records(self, space: str) -> list[tuple[bytes, bytes]]:
        return list(self.kept.items())


class World:
    """A router, its pool and its time."""

    def __init__(
        self, *brokers: Alternative, local: str = "", storage: MemoryStore | None = None, **options: Any
    ) -> None:
        self.members = Members(*brokers, local=local)
        self.timers = Timers()
        self.now_ms = 1_000_000
        values: dict[str, Any] = {"policy": RoutingPolicy.CONSISTENT_HASH, "pool": PoolConfig()} | options
        config = RouterConfig(name="r", **values)
        choose = None if config.policy is None else policy_of(config.policy, self.members.connections, 0)
        self.cache = None
        if config.cache is not None:
            self.cache = RouteCache("r", config.cache, storage or MemoryStore(), lambda: self.now_ms)
            self.cache.load()
        pool = None if config.pool is None else self.members
        self.router = ConnectionRouter(config, pool, choose, self.cache, self.after)
        self.decided: list[Route] = []

    def after(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        """Plan a call."""
        return self.timers.at(self.now_ms + delay_ms, callback)

    def pass_time(self, ms: int) -> None:
        """Timers come."""
        self.now_ms += ms
        self.timers.run(self.now_ms)

    def route(self, newcomer: Newcomer = CLIENT, **changes: Any) -> Route | None:
        """What is decided at once."""
        before = len(self.decided)
        self.router.route(evolve(newcomer, **changes), self.decided.append)
        return self.decided[-1] if len(self.decided) > before else None

    def node(self, client_id: str) -> str:
        """Where a client goes; empty: it stays."""
        route = self.route(client_id=client_id)
        assert route is not None
        assert not route.refusal
        return route.others[0].node_id if route.others else ""


def of_client_ids(*brokers: Alternative, **options: Any) -> World:
    """A router whose keys are client ids."""
    return World(*brokers, key_type=KeyType.CLIENT_ID, **options)


# -- keys ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key_type", "expected"),
    [
        (KeyType.CLIENT_ID, "client-7"),
        (KeyType.SNI_HOST, "eu.example"),
        (KeyType.SOURCE_IP, "10.1.2.3"),
        (KeyType.USER_NAME, "eve"),
        (KeyType.ROLE_NAME, "admins"),
    ],
)
def test_a_key_is_a_property_of_the_client(key_type: KeyType, expected: str) -> None:
    """Of several roles it is the first in the alphabet."""
    assert World(key_type=key_type).router.key_of(CLIENT) == expected


def test_an_address_of_ipv6_has_no_brackets() -> None:
    """Nor a port."""
    assert World().router.key_of(evolve(CLIENT, peer="[2001:db8::1]:5")) == "2001:db8::1"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"key_type": KeyType.CLIENT_ID, "key_filter": "^.{3}"}, "cli"),
        ({"key_type": KeyType.CLIENT_ID, "key_filter": "[0-9]+$"}, "7"),
        ({"key_type": KeyType.CLIENT_ID, "key_filter": "x"}, "NULL"),
        ({"key_type": KeyType.ROLE_NAME, "key_filter": "^st"}, "st"),
    ],
)
def test_a_filter_takes_a_part_of_the_key(options: dict[str, Any], expected: str) -> None:
    """What it finds first; of the roles the first with such a part."""
    assert World(**options).router.key_of(CLIENT) == expected


def test_a_client_without_a_key_has_the_key_null() -> None:
    """Anonymous, without TLS."""
    nobody = evolve(CLIENT, subject=Subject(None), server_name=None)

    assert {World(key_type=each).router.key_of(nobody) for each in (KeyType.USER_NAME, KeyType.SNI_HOST)} == {"NULL"}


# -- what becomes of a client ----------------------------------------------------------------------------------------


def test_a_key_that_the_local_filter_matches_is_served_here() -> None:
    """The whole key, whatever the pool."""
    world = of_client_ids(*ALL, local_target_filter="client-.|NULL")

    assert world.node("client-7") == ""
    assert world.node("client-77") != ""


def test_without_a_pool_all_others_are_refused() -> None:
    """With the reason."""
    world = of_client_ids(local_target_filter="x", pool=None, policy=None)

    assert world.route(client_id="x") == HERE
    refused = world.route(client_id="y")
    assert refused is not None
    assert "use another one" in refused.refusal


def test_a_chosen_broker_may_be_this_one() -> None:
    """Then the client is not sent anywhere."""
    world = of_client_ids(*ALL, local="a")
    found = {world.node(f"c{number}") for number in range(100)}

    assert found == {"", "b", "c", "d", "e"}


def test_a_broker_that_cannot_serve_the_client_is_passed_over() -> None:
    """Another protocol or other encryption; this one serves whoever has come."""
    mqtt = evolve(ALL[0], protocols=frozenset(("MQTT",)))
    secure = evolve(ALL[1], is_encrypted=True)
    world = of_client_ids(mqtt, secure, ALL[2])
    nobody = of_client_ids(mqtt, secure).route()
    here = of_client_ids(mqtt, secure, local="b").route()

    assert {world.node(f"c{number}") for number in range(50)} == {"c"}
    assert nobody is not None
    assert "none of the brokers" in nobody.refusal
    assert here == HERE


def test_a_broker_with_several_addresses_counts_once() -> None:
    """Each client gets one that it can use."""
    plain, secure = ALL[0], evolve(ALL[0], port=5671, is_encrypted=True)
    world = of_client_ids(plain, secure, pool=PoolConfig(quorum_size=2))
    assert world.route() is None
    world.members.there = [plain, secure, ALL[1]]
    world.router.pool_changed()

    (route,) = world.decided
    assert route.others[0].is_encrypted is False


# -- policies --------------------------------------------------------------------------------------------------------


def test_the_first_broker_is_the_first() -> None:
    """Of the pool's order."""
    world = of_client_ids(*ALL[2:], *ALL[:2], policy=RoutingPolicy.FIRST_ELEMENT)

    assert [world.node(f"c{number}") for number in range(3)] == ["c", "c", "c"]


def test_brokers_take_turns() -> None:
    """Whatever the key."""
    world = of_client_ids(*ALL, policy=RoutingPolicy.ROUND_ROBIN)

    assert Counter(world.node("same") for _ in range(50)) == dict.fromkeys("abcde", 10)


def test_the_broker_with_the_fewest_clients_is_chosen() -> None:
    """Those that are sent there count before it has said so itself."""
    world = of_client_ids(*ALL[:3], policy=RoutingPolicy.LEAST_CONNECTIONS)
    world.members.counts.update({"a": 10, "b": 4, "c": 5})
    found = [world.node(f"c{number}") for number in range(12)]

    assert found[0] == "b"
    assert sorted(world.members.counts.values()) == [10, 10, 11]


def test_a_key_stays_with_its_broker() -> None:
    """A broker less moves its own keys only, and they come back with it."""
    world = of_client_ids(*ALL)
    before = {f"c{number}": world.node(f"c{number}") for number in range(400)}
    world.members.there = [each for each in ALL[::-1] if each.node_id != "c"]
    after = {key: world.node(key) for key in before}
    world.members.there = ALL

    assert set(before.values()) == set("abcde")
    assert all(after[key] == node for key, node in before.items() if node != "c")
    assert {after[key] for key, node in before.items() if node == "c"} == set("abde")
    assert {key: world.node(key) for key in before} == before


def test_groups_of_keys_stay_together() -> None:
    """CONSISTENT_HASH_MODULO 2 has two groups, and so at most two brokers; the local filter sees the number."""
    options: dict[str, Any] = {"policy": RoutingPolicy.CONSISTENT_HASH_MODULO, "modulo": 2}
    found = Counter(of_client_ids(*ALL, **options).node(f"c{number}") for number in range(60))
    local = of_client_ids(*ALL, local_target_filter="0", **options)
    half = [local.node(f"c{number}") == "" for number in range(60)]

    assert 1 <= len(found) <= 2
    assert 10 < sum(half) < 50


# -- quorum ----------------------------------------------------------------------------------------------------------


def test_a_client_waits_for_the_quorum() -> None:
    """Until the broker is there that lacked."""
    world = of_client_ids(ALL[0], pool=PoolConfig(quorum_size=2, quorum_timeout_ms=3000))
    assert world.route() is None
    world.pass_time(2999)
    world.router.pool_changed()
    assert world.decided == []
    world.members.there = ALL[:2]
    world.router.pool_changed()
    assert len(world.decided) == 1
    assert world.decided[0].others
    world.pass_time(10_000)

    assert len(world.decided) == 1


def test_a_client_does_not_wait_for_ever() -> None:
    """It is told why."""
    world = of_client_ids(ALL[0], pool=PoolConfig(quorum_size=2, quorum_timeout_ms=3000))
    world.route()
    world.pass_time(3000)
    world.members.there = ALL
    world.router.pool_changed()

    assert [each.refusal for each in world.decided] == ["fewer than 2 brokers are there: try again later"]


# -- cache -----------------------------------------------------------------------------------------------------------


def turning(storage: MemoryStore | None = None, **cache: Any) -> World:
    """Without the cache, each client would go to the next broker."""
    config = CacheConfig(**cache)
    return of_client_ids(*ALL, policy=RoutingPolicy.ROUND_ROBIN, cache=config, storage=storage)


def test_a_cache_remembers_the_broker_of_a_key() -> None:
    """As long as that broker is there."""
    world = turning()
    first = world.node("c")
    assert {world.node("c") for _ in range(20)} == {first}
    world.members.there = [each for each in ALL if each.node_id != first]
    second = world.node("c")
    world.members.there = ALL

    assert second != first
    assert world.node("c") == second


def test_an_entry_of_the_cache_ends() -> None:
    """After its time."""
    world = turning(timeout_ms=1000)
    first = world.node("c")
    world.pass_time(999)
    assert world.node("c") == first
    world.pass_time(1)

    assert world.node("c") != first


@pytest.mark.parametrize("persisted", [True, False])
def test_a_cache_survives_a_restart_if_wanted(persisted: bool) -> None:
    """Another router's entries are not ours; damaged ones are passed over."""
    storage = Kept()
    before = turning(storage, persisted=persisted)
    found = {key: before.node(key) for key in ("c", "d", "e")}
    storage.save_record(caches.ROUTES, b"other\0x", b'["a", 1]')
    storage.save_record(caches.ROUTES, b"r\0broken", b"{")
    after = turning(storage, persisted=persisted)

    assert ({key: after.node(key) for key in reversed(found)} == found) is persisted


def test_a_cache_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The key that was not asked for longest goes, from the store too."""
    monkeypatch.setattr(caches, "MAX_ENTRIES", 3)
    storage = Kept()
    world = turning(storage, persisted=True)
    for key in ("a", "b", "c", "a", "d"):
        world.node(key)

    assert storage.kept.keys() == {b"r\0a", b"r\0c", b"r\0d"}


# -- pools that are dialled ------------------------------------------------------------------------------------------


def test_a_dialled_pool_has_what_answers() -> None:
    """In the order of the configuration; this broker last, and once, if the list names it too."""
    own = ALL[1]
    pool = DialledPool(own, with_itself=True)
    pool.want(ALL[:3])
    assert list(pool.brokers()) == [own]
    assert [pool.answered(each, True) for each in (ALL[2], ALL[0], ALL[0], ALL[4])] == [True, True, False, False]
    assert list(pool.brokers()) == [ALL[0], ALL[2], own]
    assert [pool.is_local(each) for each in pool.brokers()] == [False, False, True]
    assert pool.answered(ALL[0], False)
    pool.want(ALL[:1])

    assert list(pool.brokers()) == [own]


def test_a_broker_does_not_send_clients_to_itself() -> None:
    """If it is in the list, and does not belong to the pool, it is passed over."""
    pool = DialledPool(ALL[1], with_itself=False)
    pool.want(ALL[:2])

    assert pool.wanted == (ALL[0],)
    assert [pool.answered(each, True) for each in ALL[:2]] == [True, False]
    assert list(pool.brokers()) == [ALL[0]]
