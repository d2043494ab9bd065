"""The assembled broker, spoken to in a fourth protocol over real sockets of this machine."""

import asyncio
import gc
import logging
import os
import signal
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from artemis_py.broker import Broker
from artemis_py.cli.serving import serve
from artemis_py.config import BrokerConfig, LoginConfig
from artemis_py.config.embedded import embedded_config
from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.message import Message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.consumer import FAILED
from artemis_py.core.runtime.access import Permission
from artemis_py.core.runtime.events import ConnectionClosed, ConnectionOpened, Event
from artemis_py.core.settings.address_settings import AddressSettings
from artemis_py.core.settings.queue_config import AddressConfig, QueueConfig
from artemis_py.deployment.protocols import installed_protocols
from artemis_py.errors import ConfigError, StoreError
from artemis_py.protocol import ManagerFactory
from artemis_py.transport.config import AcceptorConfig
from tests.core_harness import attach, make_queue, make_session, send
from tests.line_protocol import LineProtocolManager

LINE: Sequence[ManagerFactory] = [LineProtocolManager]


class Client:
    """One client of the line protocol."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, broker: Broker, greeting: str = "LINE alice") -> "Client":
        host, port = broker.url("line").removeprefix("line://").split(":")
        client = cls(*await asyncio.open_connection(host, int(port)))
        client.say(greeting)
        return client

    def say(self, line: str) -> None:
        self.writer.write(line.encode() + b"\n")

    async def hear(self) -> str:
        return (await self.reader.readline()).decode().removesuffix("\n")

    def leave(self) -> None:
        self.writer.close()


def secured(folder: Path) -> BrokerConfig:
    """Nobody has a password here; anonymous guests come in."""
    (folder / "artemis-users.properties").write_text("")
    (folder / "artemis-roles.properties").write_text("")
    return evolve(embedded_config(), security_enabled=True, login=LoginConfig(folder=folder))


async def test_listeners_of_a_broker_are_told_of_its_connections() -> None:
    """Those that listen to the core need not ask the transport."""
    told: list[Event] = []
    async with Broker(protocols=LINE) as broker:
        broker.host.events.subscribe(told.append, ConnectionOpened, ConnectionClosed)
        client = await Client.connect(broker)
        client.say("QUIT")
        assert [await client.hear() for _ in range(3)] == ["HELLO alice", "BYE as you wish", ""]
        client.leave()

    assert [type(event) for event in told] == [ConnectionOpened, ConnectionClosed]


async def test_embedded_broker_moves_a_message() -> None:
    """Embedding: no configuration, no files, a free port, and the first send lands in a queue."""
    async with Broker(protocols=LINE) as broker:
        client = await Client.connect(broker)
        client.say("SEND orders first")
        client.say("TAKE orders 1")

        assert [await client.hear() for _ in range(3)] == ["HELLO alice", "SENT 1", "MESSAGE first"]
        client.leave()


def kept(folder: Path, **changes: Any) -> BrokerConfig:
    """An embedded broker that keeps what it is told to keep."""
    return evolve(embedded_config(), home=folder, **({"persistence_enabled": True} | changes))


def durable(body: str) -> Message:
    """A message that asks to be kept."""
    return plain_message("orders", MessageView(body=body), durable=True)


async def test_durable_messages_and_queues_survive_a_restart(tmp_path: Path) -> None:
    """P1, P10: addresses, queues and messages are there again, and what was consumed is not."""
    orders = QueueConfig(name="orders", address="orders", routing_type=RoutingType.ANYCAST)
    async with Broker(kept(tmp_path), protocols=LINE) as broker:
        domain = broker.domain
        domain.create_address("orders", frozenset((RoutingType.ANYCAST,)))
        domain.create_queue(orders)
        for body in ("one", "two"):
            domain.route(durable(body), domain.addresses["orders"])
        client = await Client.connect(broker)
        client.say("TAKE orders 1")
        assert [await client.hear() for _ in range(2)] == ["HELLO alice", "MESSAGE one"]
        client.leave()

    async with Broker(kept(tmp_path), protocols=LINE) as broker:
        client = await Client.connect(broker)
        client.say("TAKE orders 1")
        assert [await client.hear() for _ in range(2)] == ["HELLO alice", "MESSAGE two"]
        client.leave()


async def test_a_missing_journal_folder_is_an_error_if_it_may_not_be_made(tmp_path: Path) -> None:
    """`create-journal-dir` false: the disk that should be mounted there is not."""
    with pytest.raises(StoreError, match="data/journal does not exist, and create-journal-dir is false"):
        await Broker(kept(tmp_path, create_journal_dir=False), protocols=LINE).start()

    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("limits", "is_full"),
    [
        ({"min_disk_free_bytes": 1 << 62}, True),
        ({"min_disk_free_bytes": 0}, False),
        ({"max_disk_usage": 0}, True),
        ({"max_disk_usage": 0, "min_disk_free_bytes": 0}, False),
        ({"max_disk_usage": 100}, False),
        ({"persistence_enabled": False, "max_disk_usage": 0}, False),
    ],
)
async def test_the_disk_is_looked_at_before_anybody_connects(
    tmp_path: Path, limits: dict[str, Any], is_full: bool
) -> None:
    """`min-disk-free` counts before `max-disk-usage`; without a store there is no disk to fill."""
    async with Broker(kept(tmp_path, **limits), protocols=LINE) as broker:
        assert broker.domain.account.disk_is_full is is_full


async def test_a_broker_that_does_not_wait_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Both `journal-sync-…` options false."""
    config = kept(tmp_path, journal_sync_transactional=False, journal_sync_non_transactional=False)
    async with Broker(config, protocols=LINE):
        pass
    async with Broker(kept(tmp_path, journal_sync_transactional=False), protocols=LINE):
        pass

    warnings = [record.message for record in caplog.records if "journal-sync" in record.message]
    assert warnings == ["journal-sync options are off: a crash loses what was confirmed just before it"]


async def test_queues_of_the_configuration_are_changed_to_what_it_says_now(tmp_path: Path) -> None:
    """artemis-model §6.4: messages stay, attributes follow broker.xml, a queue that is in it no more stays."""

    def config(*queues: QueueConfig) -> BrokerConfig:
        address = AddressConfig(name="a", routing_types=frozenset((RoutingType.ANYCAST,)), queues=queues)
        return kept(tmp_path, addresses=(address,))

    def queue(name: str, **options: object) -> QueueConfig:
        options = {"routing_type": RoutingType.ANYCAST, "configuration_managed": True} | options
        return QueueConfig(name=name, address="a", **options)

    async with Broker(config(queue("x"), queue("y", max_consumers=1)), protocols=LINE) as broker:
        domain = broker.domain
        domain.route(durable("m"), domain.addresses["a"])

    async with Broker(config(queue("x", max_consumers=7)), protocols=LINE) as broker:
        domain = broker.domain
        assert set(domain.queues) == {"x", "y"}
        assert domain.queues["x"].settings.max_consumers == 7
        assert domain.queues["y"].settings.max_consumers == 1
        assert domain.queues["x"].message_count + domain.queues["y"].message_count == 1


async def test_a_queue_that_cannot_become_what_broker_xml_says_stays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its messages would be lost with it; the operator is told."""

    def config(address: str) -> BrokerConfig:
        queue = QueueConfig(name="q", address=address, routing_type=RoutingType.ANYCAST)
        types = frozenset((RoutingType.ANYCAST,))
        return kept(tmp_path, addresses=(AddressConfig(name=address, routing_types=types, queues=(queue,)),))

    async with Broker(config("a"), protocols=LINE):
        pass
    async with Broker(config("b"), protocols=LINE) as broker:
        assert broker.domain.queues["q"].address.name == "a"

    assert "stored queue differs from broker.xml and stays as it is: name=q address=a" in caplog.text


async def test_a_second_broker_on_the_same_folder_does_not_start(tmp_path: Path) -> None:
    """Issue 3: locked, with a clear error, and the first goes on."""
    async with Broker(kept(tmp_path), protocols=LINE) as first:
        with pytest.raises(StoreError, match="used by another broker"):
            await Broker(kept(tmp_path), protocols=LINE).start()
        client = await Client.connect(first)
        client.say("SEND orders first")
        assert [await client.hear() for _ in range(2)] == ["HELLO alice", "SENT 1"]
        client.leave()


async def test_two_brokers_in_one_process_share_nothing() -> None:
    """No global state."""
    async with Broker(protocols=LINE) as one, Broker(protocols=LINE) as other:
        client = await Client.connect(one)
        client.say("SEND orders first")
        assert [await client.hear() for _ in range(2)] == ["HELLO alice", "SENT 1"]

        assert "orders" in one.domain.queues
        assert "orders" not in other.domain.queues
        assert one.url("line") != other.url("line")
        client.leave()


async def test_a_seed_repeats_what_chance_decides() -> None:
    """Identifiers and the delays of redeliveries are the same in each run of a simulation, and nowhere else."""

    async def run(seed: int | None) -> tuple[str, str, int]:
        # Shorter than whatever else the broker plans to do.
        settings = {"#": AddressSettings(redelivery_delay=800, redelivery_collision_avoidance_factor=0.2)}
        async with Broker(evolve(embedded_config(), address_settings=settings), LINE, seed=seed) as broker:
            domain = broker.domain
            queue = make_session(domain).create_temporary_queue(RoutingType.ANYCAST)
            recorder, consumer = attach(domain, make_queue(domain))
            send(domain, "q", "m")
            consumer.settle(recorder.take()[0], FAILED)
            dispatcher = domain.dispatcher
            return broker.node_id, queue.name, (dispatcher.next_steady_ms() or 0) - dispatcher.steady_ms

    one, same, other, unseeded = await run(1), await run(1), await run(2), await run(None)

    assert one == same
    assert [first == second for first, second in zip(one, other, strict=True)] == [False, False, False]
    assert one[:2] != unseeded[:2]


async def test_stopped_broker_leaves_nothing_behind() -> None:
    """P14: no task, thread or socket; a program may start and stop brokers all day."""
    async with Broker(protocols=LINE):
        pass  # what the event loop itself opens on first use is not counted
    threads = threading.active_count()
    tasks = len(asyncio.all_tasks())
    descriptors = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0
    for _ in range(3):
        async with Broker(protocols=LINE) as broker:
            client = await Client.connect(broker)
            await client.hear()
            client.leave()
            await client.writer.wait_closed()
        del client, broker
    gc.collect()

    assert threading.active_count() == threads
    assert len(asyncio.all_tasks()) == tasks
    assert (len(os.listdir("/proc/self/fd")) if descriptors else 0) == descriptors


async def test_stop_says_goodbye_to_clients() -> None:
    """Graceful stop: the reason in the protocol's words, and the end."""
    broker = Broker(protocols=LINE)
    await broker.start()
    client = await Client.connect(broker)
    assert await client.hear() == "HELLO alice"
    stopping = asyncio.ensure_future(broker.stop())

    assert await client.hear() == "BYE the broker stops"
    assert await client.hear() == ""
    client.leave()
    await stopping
    await broker.stop()


async def test_configured_addresses_are_there_at_start() -> None:
    """Before the first client can come."""
    queue = QueueConfig(name="q", address="a", routing_type=RoutingType.ANYCAST)
    address = AddressConfig(name="a", routing_types=frozenset((RoutingType.ANYCAST,)), queues=(queue,))
    async with Broker(evolve(embedded_config(), addresses=(address,)), LINE) as broker:
        assert broker.domain.queues["q"].address.name == "a"


async def test_management_address_answers() -> None:
    """The command line administers over it; security lets everybody manage here, since it is off."""
    async with Broker(protocols=LINE) as broker:
        client = await Client.connect(broker)
        client.say(f"SEND {broker.config.settings.management_address} nonsense")

        assert await client.hear() == "HELLO alice"
        assert (await client.hear()).split()[0] in ("SENT", "REFUSED")
        assert broker.config.settings.management_address not in broker.domain.addresses
        client.leave()


async def test_facts_tell_the_real_port() -> None:
    """Port 0 in the configuration, the chosen one in management; nothing once it is closed."""
    broker = Broker(protocols=LINE)
    async with broker:
        (facts,) = broker.acceptor_facts()
        assert broker.url("line") == f"line://127.0.0.1:{facts.port}"
        assert facts.protocols == ("LINE", "WS")

    assert broker.acceptor_facts() == []


async def test_scheduled_message_is_delivered_when_it_is_due() -> None:
    """The core's deadlines are driven by the broker's timer, without a byte from anybody."""
    async with Broker(protocols=LINE) as broker:
        client = await Client.connect(broker)
        client.say("TAKE q 1")
        assert await client.hear() == "HELLO alice"
        while "q" not in broker.domain.queues:
            await asyncio.sleep(0)
        message = plain_message("q", MessageView(body="later"))
        message.delivery_time_ms = broker.domain.dispatcher.now_ms + 20
        broker.domain.route(message, broker.domain.address("q"))
        client.say("ECHO meanwhile")

        assert [await client.hear() for _ in range(2)] == ["meanwhile", "MESSAGE later"]
        client.leave()


# Security.


async def test_permissions_of_the_configuration_are_checked(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Denials reach the client and, with user, permission and address, the log."""
    rules = {"open.#": {Permission.SEND: frozenset(("guests",))}}
    queue = QueueConfig(name="open.q", address="open.q", routing_type=RoutingType.ANYCAST)
    address = AddressConfig(name="open.q", routing_types=frozenset((RoutingType.ANYCAST,)), queues=(queue,))
    config = evolve(secured(tmp_path), security_settings=rules, addresses=(address,))

    async with Broker(config, LINE) as broker:
        client = await Client.connect(broker, "LINE ")
        client.say("SEND open.q hello")
        client.say("SEND closed.q hello")

        assert await client.hear() == "HELLO anonymous"
        assert await client.hear() == "SENT 1"
        denial = await client.hear()
        assert denial == "REFUSED user 'anonymous' lacks permission 'send' on 'closed.q'"
        client.leave()
    assert any(
        record.levelno == logging.WARNING and "permission=send address=closed.q" in record.getMessage()
        for record in caplog.records
    )


async def test_wrong_password_is_refused_in_a_later_turn(tmp_path: Path) -> None:
    """Passwords are hashed beside the loop; the answer still comes, once."""
    async with Broker(secured(tmp_path), LINE) as broker:
        client = await Client.connect(broker, "LINE mallory")

        assert await client.hear() == "BYE bad credentials"
        assert await client.hear() == ""
        client.leave()


async def test_missing_users_file_stops_the_start(tmp_path: Path) -> None:
    """Nothing is started, everything wrong is said."""
    config = evolve(embedded_config(), security_enabled=True, login=LoginConfig(folder=tmp_path / "missing"))
    broker = Broker(config, LINE)
    with pytest.raises(ConfigError, match="artemis-users"):
        await broker.start()

    assert broker.acceptor_facts() == []


# Protocols.


async def test_fourth_protocol_is_found_through_its_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A protocol in a package of its own, without touching a line here."""
    metadata = tmp_path / "line_protocol-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: line-protocol\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        "[artemis_py.protocols]\nLINE = tests.line_protocol:LineProtocolManager\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    config = evolve(embedded_config(), acceptors=(AcceptorConfig(name="line", port=0, protocols=("LINE",)),))

    assert LineProtocolManager in installed_protocols()
    async with Broker(config, installed_protocols()) as broker:
        client = await Client.connect(broker)
        assert await client.hear() == "HELLO alice"
        client.leave()


def test_broken_protocol_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator learns which entry point it is."""
    metadata = tmp_path / "broken-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[artemis_py.protocols]\nBROKEN = no_such_module_anywhere:Manager\n")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(ConfigError, match="BROKEN: no_such_module_anywhere:Manager cannot be loaded"):
        installed_protocols()


async def test_all_mistakes_of_all_acceptors_are_said_at_once() -> None:
    """Parameters are the protocols' own, so only now it is known that they are wrong."""
    config = evolve(
        embedded_config(),
        acceptors=(
            AcceptorConfig(name="one", port=0, parameters={"lineGreting": "HI"}),
            AcceptorConfig(name="two", port=0, protocols=("MORSE",)),
        ),
    )
    with pytest.raises(ConfigError) as caught:
        await Broker(config, LINE).start()

    assert len(caught.value.problems) == 2


async def test_failed_start_closes_what_was_open() -> None:
    """The second acceptor's port is taken: the first one's is free again."""
    async with Broker(protocols=LINE) as occupant:
        port = occupant.acceptor_facts()[0].port
        acceptors = (AcceptorConfig(name="one", port=0), AcceptorConfig(name="two", port=port))
        broker = Broker(evolve(embedded_config(), acceptors=acceptors), LINE)
        with pytest.raises(ConfigError, match="cannot listen"):
            await broker.start()

        assert broker.acceptor_facts() == []
        assert len(asyncio.all_tasks()) == 1


async def test_url_of_a_protocol_nobody_speaks() -> None:
    """A clear error rather than a port of something else."""
    async with Broker(protocols=LINE) as broker:
        with pytest.raises(LookupError, match="mqtt"):
            broker.url("mqtt")


@pytest.mark.parametrize("host", ["0.0.0.0", "localhost"])
async def test_url_is_one_that_clients_can_connect_to(host: str) -> None:
    """The wildcard address is for listening, not for connecting."""
    config = evolve(embedded_config(), acceptors=(AcceptorConfig(name="a", host=host, port=0),))
    async with Broker(config, LINE) as broker:
        client = await Client.connect(broker)
        assert await client.hear() == "HELLO alice"
        client.leave()


# Serving.


def serving(graceful: bool = False, timeout_ms: int = -1) -> BrokerConfig:
    return evolve(embedded_config(), graceful_shutdown_enabled=graceful, graceful_shutdown_timeout_ms=timeout_ms)


@pytest.fixture
def line_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("artemis_py.broker.installed_protocols", lambda: LINE)


@pytest.mark.usefixtures("line_is_installed")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_serve_ends_at_a_signal(number: signal.Signals) -> None:
    """Graceful stop on SIGTERM, and on Ctrl-C."""
    brokers: list[Broker] = []

    def ready(broker: Broker) -> None:
        brokers.append(broker)
        os.kill(os.getpid(), number)

    await serve(serving, ready)

    assert brokers[0].acceptor_facts() == []


@pytest.mark.usefixtures("line_is_installed")
async def test_graceful_shutdown_waits_for_clients_until_the_second_signal() -> None:
    """`graceful-shutdown-enabled` without a timeout: clients go on, and a second signal ends the wait."""
    started: asyncio.Future[Broker] = asyncio.get_running_loop().create_future()
    serving_task = asyncio.ensure_future(serve(lambda: serving(graceful=True), started.set_result))
    broker = await started
    client = await Client.connect(broker)
    assert await client.hear() == "HELLO alice"
    os.kill(os.getpid(), signal.SIGTERM)
    while broker.acceptor_facts():
        await asyncio.sleep(0)
    client.say("ECHO still served")

    assert await client.hear() == "still served"
    os.kill(os.getpid(), signal.SIGTERM)
    assert await client.hear() == "BYE the broker stops"
    client.leave()
    await serving_task


async def test_graceful_shutdown_ends_with_the_last_client() -> None:
    """Nobody is told to go: they leave by themselves."""
    broker = Broker(serving(graceful=True), LINE)
    await broker.start()
    client = await Client.connect(broker)
    assert await client.hear() == "HELLO alice"
    stopping = asyncio.ensure_future(broker.stop())
    client.say("QUIT")

    assert await client.hear() == "BYE as you wish"
    client.leave()
    await stopping


async def test_graceful_shutdown_has_a_timeout() -> None:
    """`graceful-shutdown-timeout`: then the goodbye comes anyway."""
    broker = Broker(serving(graceful=True, timeout_ms=1), LINE)
    await broker.start()
    client = await Client.connect(broker)
    assert await client.hear() == "HELLO alice"
    stopping = asyncio.ensure_future(broker.stop())

    assert await client.hear() == "BYE the broker stops"
    client.leave()
    await stopping


async def test_a_stopped_broker_leaves_nothing_behind_in_the_program(tmp_path: Path) -> None:
    """A process that ends lets its memory lie; a program that embedded a broker goes on, and gets it back."""
    config = evolve(embedded_config(), persistence_enabled=True, home=tmp_path)
    async with Broker(config, LINE) as broker:
        client = await Client.connect(broker)
        await client.hear()
        client.say("SEND q hello")
        await client.hear()
        gone = weakref.ref(broker)
    client.leave()
    del broker

    for _ in range(3):
        await asyncio.sleep(0)
        gc.collect()

    assert gone() is None
