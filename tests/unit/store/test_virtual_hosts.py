"""Virtual hosts in the store: apart from each other, back after a restart, and gone when they are deleted."""

import json
from pathlib import Path
from typing import Final

import pytest

from artemis_py.core.messages.builtin_format import PLAIN_FORMAT, plain_message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.routing.domain import Domain
from artemis_py.core.services.virtual_hosts import SPACE, HostState
from artemis_py.core.settings.exchange_config import Destination, ExchangeConfig, ExchangeType
from artemis_py.core.settings.virtual_host_config import VirtualHostConfig
from artemis_py.errors import HostExists, InvalidRequest, NoSuchHost
from artemis_py.store import schema
from tests.core_harness import make_queue, settle_down
from tests.unit.store.world import World, bodies

PLAIN: Final = {PLAIN_FORMAT.name: PLAIN_FORMAT}


def host(world: World, name: str = "red", **options: object) -> Domain:
    """The domain of a virtual host, which is made if it is not there."""
    existing = world.hosts.find(name)
    if existing is None:
        existing = world.hosts.create(VirtualHostConfig(name=name, **options))  # type: ignore[arg-type]
    return existing.services.sessions.domain


def send(domain: Domain, address: str, *texts: str) -> None:
    """Durable messages through an address of a host."""
    for text in texts:
        message = plain_message(address, MessageView(body=text), durable=True)
        domain.route(message, domain.addresses[address])


def retain(world: World, domain: Domain, address: str, text: str) -> None:
    """A retained message, as MQTT has it."""
    services = world.services if domain is world.domain else world.hosts.host("red").services
    message = plain_message(address, MessageView(body=text), durable=True)
    message.address = address
    services.retained.put(message)


def values(world: World, database: bytes) -> dict[bytes, bytes]:
    """What a database holds on disk."""
    with world.environment.begin() as transaction:
        cursor = transaction.cursor(db=world.environment.database(database))
        return {bytes(key): bytes(value) for key, value in cursor}


def format_of(world: World) -> int:
    """The number of the store's format, without what a log adds while it may be needed."""
    version = int(schema.U32.unpack(values(world, schema.META)[schema.FORMAT_KEY])[0])
    return version if world.store._folding is None else version - schema.LOGGED


def test_the_same_names_in_two_hosts_come_back_apart(tmp_path: Path) -> None:
    """Queues, messages, the numbers of messages, and what is remembered of each."""
    with World(tmp_path) as world:
        for domain, text in ((world.domain, "default"), (host(world), "red"), (host(world, "blue"), "blue")):
            make_queue(domain, "q")
            send(domain, "q", text, f"{text} again")
        world.settle()
        world.audit()

    with World(tmp_path) as world:
        found = [bodies(domain.queues["q"]) for domain in (world.domain, host(world), host(world, "blue"))]

    assert found == [["default", "default again"], ["red", "red again"], ["blue", "blue again"]]


def test_nothing_changes_for_a_store_without_hosts(tmp_path: Path) -> None:
    """What the default host has is stored as before, and earlier releases open the store."""
    with World(tmp_path) as world:
        make_queue(world.domain, "q")
        world.settle()

        definitions = [*values(world, schema.ADDRESSES).values(), *values(world, schema.QUEUES).values()]
        assert [each for each in definitions if b"host" in each] == []
        assert format_of(world) == schema.FORMAT_VERSION
        assert values(world, schema.RECORDS) == {}


def test_a_store_with_hosts_is_not_opened_by_earlier_releases(tmp_path: Path) -> None:
    """They would read the queues of a host as those of the broker. The default host's own values stay as they were."""
    with World(tmp_path) as world:
        make_queue(world.domain, "q")
        world.settle()
        before = [values(world, name) for name in (schema.ADDRESSES, schema.QUEUES)]
        make_queue(host(world), "q")
        world.settle()

        after = [values(world, name) for name in (schema.ADDRESSES, schema.QUEUES)]
        assert format_of(world) == schema.HOSTS_FORMAT > schema.FORMAT_VERSION
        for old, new in zip(before, after, strict=True):
            assert {key: value for key, value in new.items() if key in old} == old
            assert len([value for value in new.values() if b'"host":1' in value]) == 1

    with World(tmp_path) as world:
        assert format_of(world) == schema.HOSTS_FORMAT


def test_records_of_hosts_are_apart(tmp_path: Path) -> None:
    """Exchanges, bindings, retained messages and duplicate ids of one name."""
    with World(tmp_path) as world:
        for domain, text in ((world.domain, "default"), (host(world), "red")):
            queue = make_queue(domain, "q")
            exchange = domain.exchanges.declare(ExchangeConfig(name="e", type=ExchangeType.DIRECT))
            domain.exchanges.bind(exchange, text, Destination("q", is_queue=True))
            retain(world, domain, "topic", text)
            domain.duplicates.add(queue.address, text.encode(), True)
        world.settle()

    with World(tmp_path) as world:
        for services, text in ((world.services, "default"), (world.hosts.host("red").services, "red")):
            domain = services.sessions.domain
            services.retained.load(PLAIN)
            assert domain.exchanges.restore() == []
            assert [binding.key for binding in domain.exchanges.exchange("e").bindings.values()] == [text]
            message = services.retained.get("topic")
            assert message is not None
            assert message.view.body == text
            known = domain.duplicates.of(domain.addresses["q"])
            assert [each in known for each in (b"default", b"red")] == [text == "default", text == "red"]


def test_skipped_sequences_belong_to_the_queue_of_their_host(tmp_path: Path) -> None:
    """A crash leaves a gap in each queue; they are not told the gap of another one of their name."""
    with World(tmp_path) as world:
        make_queue(world.domain, "q")
        make_queue(host(world), "q")
        send(host(world), "q", "a", "b", "c")
        world.settle()

    with World(tmp_path) as world:
        red, default = host(world).queues["q"], world.domain.queues["q"]
        assert (default.skipped[0][0], red.skipped[0][0]) == (1, 4)


def test_states_options_and_numbers_survive(tmp_path: Path) -> None:
    """A stopped host stays stopped, and the number of a deleted host is not used again."""
    with World(tmp_path) as world:
        host(world, "red", hostnames=("red.example",), max_queues=3)
        host(world, "blue")
        world.hosts.stop("red")
        world.hosts.begin()
        world.hosts.delete("blue")
        world.settle()

    with World(tmp_path) as world:
        red = world.hosts.host("RED")
        assert (red.state, red.config.max_queues) == (HostState.STOPPED, 3)
        assert world.hosts.find("blue") is None
        assert world.hosts.leaving() == []
        host(world, "green")
        assert world.hosts.host("green").id == 3


def fill(world: World, queues: int = 30) -> None:
    """A host with queues, messages, exchanges, retained messages; and the same in the default host."""
    for domain in (world.domain, host(world)):
        for number in range(queues):
            make_queue(domain, f"q{number}")
            send(domain, f"q{number}", "a", "b")
        make_queue(domain, "copy", RoutingType.MULTICAST, address="t")
        make_queue(domain, "copy2", RoutingType.MULTICAST, address="t")
        send(domain, "t", "shared")
        exchange = domain.exchanges.declare(ExchangeConfig(name="e", type=ExchangeType.TOPIC))
        for number in range(queues):
            domain.exchanges.bind(exchange, f"k.{number}", Destination(f"q{number}", is_queue=True))
        retain(world, domain, "topic", "kept")
    world.settle()


def tables(world: World) -> dict[bytes, int]:
    """How much of everything there is, without what only goes up."""
    names = (
        schema.ADDRESSES,
        schema.QUEUES,
        schema.MARKS,
        schema.REFERENCES,
        schema.COUNTS,
        schema.MESSAGES,
        schema.SHARES,
        schema.DUPLICATES,
        schema.DROPS,
    )
    return {name: world.count(name) for name in names}


def records_of_hosts(world: World) -> list[bytes]:
    """The keys of what hosts have recorded."""
    return [key for key in values(world, schema.RECORDS) if key.startswith(b"@")]


def test_deleting_a_host_leaves_nothing_of_it(tmp_path: Path) -> None:
    """Neither on disk nor in the accounts of the broker; and nothing of the default host goes with it."""
    with World(tmp_path) as world:
        world.hosts.begin()
        # A host has been made before, so that the record of the last number is there.
        host(world, "other")
        world.hosts.delete("other")
        world.settle()
        empty = world.domain.dispatcher.tables.size_bytes
        fill(world)
        world.domain.exchanges.delete(world.domain.exchanges.exchange("e"))
        for name in list(world.domain.addresses):
            world.domain.delete_address(name, force=True)
        world.services.retained.remove("topic")

        deleted = world.hosts.delete("red")
        for _ in range(100):
            world.settle()
            world.domain.dispatcher.steady_ms += 10
            world.domain.dispatcher.handle_deadlines()

        assert world.hosts.leaving() == []
        assert deleted.services.sessions.domain.queues == {}
        assert set(tables(world).values()) == {0}
        assert records_of_hosts(world) == []
        assert [key for key in values(world, schema.RECORDS) if key.startswith(SPACE.encode())] == [
            schema.record_key(SPACE, b"last")
        ]
        assert world.domain.dispatcher.tables.size_bytes == empty
        assert world.domain.dispatcher.account.size_bytes == 0


@pytest.mark.parametrize("commits", [0, 1, 2, 3, 5, 8])
def test_a_crash_while_a_host_is_deleted(tmp_path: Path, commits: int) -> None:
    """The next start continues. The name is free from the first commit on, and the default host keeps everything."""
    with World(tmp_path) as world:
        world.hosts.begin()
        fill(world)
        before = tables(world)
        world.hosts.delete("red")
        for _ in range(commits):
            settle_down(world.domain)
            world.hands.turn()
            if world.hands.jobs:
                world.hands.work()
            world.domain.dispatcher.steady_ms += 10
            world.domain.dispatcher.handle_deadlines()

    with World(tmp_path) as world:
        existing = world.hosts.find("red")
        assert (existing is None) == (commits > 0)
        world.hosts.begin()
        if existing is not None:
            assert len(existing.services.sessions.domain.queues) == 32
            world.hosts.delete("red")
        for _ in range(50):
            world.settle()
            world.domain.dispatcher.steady_ms += 10
            world.domain.dispatcher.handle_deadlines()
        world.audit()

        assert world.hosts.leaving() == []
        assert records_of_hosts(world) == []
        assert len(world.domain.queues) == 32
        assert bodies(world.domain.queues["q7"]) == ["a", "b"]
        assert tables(world)[schema.QUEUES] == before[schema.QUEUES] // 2
        assert tables(world)[schema.REFERENCES] == before[schema.REFERENCES] // 2


def test_queues_of_a_host_whose_record_is_lost_are_kept(tmp_path: Path) -> None:
    """Under another name, and stopped: nobody knows whose messages these are."""
    with World(tmp_path) as world:
        make_queue(host(world), "q")
        send(host(world), "q", "m")
        world.settle()
        with world.environment.begin(write=True) as transaction:
            records = world.environment.database(schema.RECORDS)
            transaction.put(schema.record_key(SPACE, schema.U32.pack(1)), b"damaged", db=records)

    with World(tmp_path) as world:
        lost = world.hosts.host("recovered-1")
        assert lost.state is HostState.STOPPED
        assert bodies(lost.services.sessions.domain.queues["q"]) == ["m"]
        assert world.domain.queues == {}
        assert host(world, "red").host == 2


def test_two_records_of_one_name_are_two_hosts(tmp_path: Path) -> None:
    """Nothing of ours writes that; the second one gets its number into its name, and no message is lost."""
    with World(tmp_path) as world:
        host(world, "red")
        host(world, "blue")
        world.settle()
        with world.environment.begin(write=True) as transaction:
            records = world.environment.database(schema.RECORDS)
            key = schema.record_key(SPACE, schema.U32.pack(2))
            record = json.loads(schema.unseal(key, bytes(transaction.get(key, b"", db=records))))
            record["config"]["name"] = "Red"
            transaction.put(key, schema.seal(key, json.dumps(record).encode()), db=records)

    with World(tmp_path) as world:
        assert sorted(each.name for each in world.hosts.all()) == ["Red-2", "red"]


def test_names_are_checked(tmp_path: Path) -> None:
    """Each name of a host is that of one host, in any case."""
    with World(tmp_path) as world:
        host(world, "red", hostnames=("one.example",))
        for config, error in (
            (VirtualHostConfig(name="RED"), HostExists),
            (VirtualHostConfig(name="blue", hostnames=("One.Example",)), HostExists),
            (VirtualHostConfig(name="one.example"), HostExists),
            (VirtualHostConfig(name="default"), InvalidRequest),
            (VirtualHostConfig(name="/"), InvalidRequest),
            (VirtualHostConfig(name="a:b"), InvalidRequest),
            (VirtualHostConfig(name=""), InvalidRequest),
            (VirtualHostConfig(name="x" * 256), InvalidRequest),
            (VirtualHostConfig(name="a\x1b"), InvalidRequest),
        ):
            with pytest.raises(error):
                world.hosts.create(config)
        with pytest.raises(NoSuchHost):
            world.hosts.stop("blue")
        assert len(world.hosts) == 1
