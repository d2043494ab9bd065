"""Starting and stopping the process, and what a configuration of its own changes for clients."""

import signal
import socket
from pathlib import Path

import pytest
from proton import ConnectionException, Message

from tests.interop.broker_process import BrokerProcess, Instance, start_broker
from tests.interop.conftest import StartBroker
from tests.interop.proton.client import Client
from tests.interop.proton.test_transactions import Coordinator, retire

ENDED = (ConnectionException, OSError)

OPENING = b"AMQP\x00\x01\x00\x00" + bytes.fromhex("00000013 02000000 005310 c0 06 01 a103 726177")
"""Protocol header and an open with the container-id `raw`."""


def test_clients_are_told_when_the_broker_stops(start: StartBroker) -> None:
    """A graceful stop says so in the protocol's words: `amqp:connection:forced` (AMQP 1.0 §2.8.16), exit code 0."""
    broker = start(Instance())
    client = Client(broker.url)
    receiver = client.receiver("q")
    receiver.flow(10)
    client.sync()
    broker.process.send_signal(signal.SIGTERM)
    with pytest.raises(ENDED):
        client.wait(lambda: False, "the end of the connection")
    condition = client.connection.conn.remote_condition

    assert broker.process.wait(30) == 0
    assert condition is not None
    assert condition.name == "amqp:connection:forced"
    broker.check_log()


def test_broker_stops_while_a_client_is_silent(start: StartBroker) -> None:
    """A client that never answers cannot hold the stop up: `stop` has a limit and checks the exit code."""
    broker = start(Instance())
    client = Client(broker.url)
    client.send("q", Message(body=bytes(1_000_000)))
    receiver = client.receiver("q")
    receiver.flow(1)
    client.sync()

    broker.stop()


def test_broker_stops_without_clients(start: StartBroker) -> None:
    """The plain case: `stop` checks exit code and log."""
    start(Instance()).stop()


def test_two_brokers_run_side_by_side(start: StartBroker) -> None:
    """Port 0 twice: no state is shared."""
    one, two = start(Instance()), start(Instance())
    with Client(one.url) as first, Client(two.url) as second:
        first.send("q", "one")
        second.send("q", "two")

        assert one.port != two.port
        assert first.bodies("q") == ["one"]
        assert second.bodies("q") == ["two"]


def test_lost_clients_leave_no_trace(start: StartBroker) -> None:
    """A hundred connections that vanish in the middle of work: the next one is served."""
    unlimited = '<address-setting match="q"><max-delivery-attempts>-1</max-delivery-attempts></address-setting>'
    broker = start(Instance(settings=unlimited))  # each message is on its way to every client that gets lost
    for index in range(100):
        client = Client(broker.url)
        client.sender("q").start(str(index), settled=True)
        client.sync()
        client.receiver("q").flow(10)
        client.sync()
        client.abort()
    with Client(broker.url) as client:
        bodies = [client.receive("q").body for _ in range(100)]

    assert sorted(bodies, key=int) == [str(index) for index in range(100)]


@pytest.mark.parametrize("settings", ["<address-setting match='x'><nonsense>1</nonsense></address-setting>"])
def test_broken_configuration_does_not_start(tmp_path: Path, settings: str) -> None:
    """The mistake is named with its file and line, and nothing is started."""
    with pytest.raises(AssertionError, match=r"broker\.xml:\d+: .*nonsense"):
        start_broker(Instance(settings=settings), tmp_path / "instance")


def test_prefixes_decide_the_routing_type(start: StartBroker) -> None:
    """artemis-model §1.6: `anycastPrefix` and `multicastPrefix` are cut off and fix the type."""
    broker: BrokerProcess = start(Instance(parameters="protocols=AMQP;anycastPrefix=queue://;multicastPrefix=topic://"))
    with Client(broker.url) as client:
        first, second = client.receiver("topic://news"), client.receiver("topic://news")
        client.send("topic://news", "m")
        client.send("queue://orders", "o")

        assert [first.bodies(), second.bodies()] == [["m"], ["m"]]
        assert client.bodies("orders") == ["o"]


def test_topic_is_the_default_where_nothing_is_configured(start: StartBroker) -> None:
    """artemis-model §1.4: `default-address-routing-type` is MULTICAST when no setting says otherwise."""
    broker = start(
        Instance(
            settings="""<address-setting match="plain.#">
              <default-address-routing-type>MULTICAST</default-address-routing-type>
              <default-queue-routing-type>MULTICAST</default-queue-routing-type>
            </address-setting>"""
        )
    )
    with Client(broker.url) as client:
        client.send("plain.a", "nobody")
        subscriber = client.receiver("plain.a")
        client.send("plain.a", "m")

        assert subscriber.bodies() == ["m"]


def test_core_subscription_naming_is_an_option(start: StartBroker) -> None:
    """artemis-model §4.1.4: `amqp-use-core-subscription-naming`: client id and name with dots escaped."""
    broker = start(
        Instance(
            core="<security-enabled>false</security-enabled>"
            "<amqp-use-core-subscription-naming>true</amqp-use-core-subscription-naming>"
        )
    )
    with Client(broker.url, "c.1") as client, Client(broker.url) as other:
        client.sender("t", ("topic",)).close()
        client.receiver("t", ("topic",), name="s.1", durable=True).detach()
        client.send("t", "m", capabilities=("topic",))

        assert other.bodies("t::c\\.1.s\\.1") == ["m"]


def test_transaction_that_lasts_too_long_is_rolled_back(start: StartBroker) -> None:
    """artemis-model §3.18: `transaction-timeout`, looked for every `transaction-timeout-scan-period`."""
    broker = start(
        Instance(
            core="<security-enabled>false</security-enabled><transaction-timeout>200</transaction-timeout>"
            "<transaction-timeout-scan-period>50</transaction-timeout-scan-period>"
        )
    )
    with Client(broker.url) as client, Client(broker.url) as other:
        client.send("q", "m")
        transaction = Coordinator(client).declare()
        receiver = client.receiver("q")
        retire(receiver.receive(), transaction)
        receiver.close()

        assert other.receiver("q").receive().body == "m"


def test_message_above_the_links_maximum_ends_the_link(start: StartBroker) -> None:
    """AMQP 1.0 §2.7.3 max-message-size: the broker says what it takes; above it `amqp:link:message-size-exceeded`."""
    broker = start(Instance(parameters="protocols=AMQP;amqpMaxMessageSize=10000"))
    with Client(broker.url, max_frame_size=512) as client:
        other = client.sender("q")
        sender = client.sender("q")
        announced = sender.link.remote_max_message_size
        sender.start(Message(body=bytes(20_000)))
        refusal = sender.wait_closed()
        other.send(Message(body=bytes(9_000)))

        assert announced == 10_000
        assert refusal.condition == "amqp:link:message-size-exceeded"
        assert [len(body) for body in client.bodies("q")] == [9_000]


def test_silent_client_is_dropped(start: StartBroker) -> None:
    """AMQP 1.0 §2.4.5: silence beyond the announced idle time-out (half of it is announced) ends the connection."""
    broker = start(Instance(parameters="protocols=AMQP;amqpIdleTimeout=400"))
    with Client(broker.url) as client:
        announced = client.connection.conn.transport.remote_idle_timeout
    with socket.create_connection((broker.host, broker.port), 20) as silent:
        silent.sendall(OPENING)
        received = b""
        while data := silent.recv(65536):
            received += data

    assert announced == 0.2
    assert b"amqp:resource-limit-exceeded" in received


def test_idle_timeout_of_the_whole_broker_wins(start: StartBroker) -> None:
    """artemis-model §4.1.1: `connection-ttl-override` stands for every acceptor's own time-out."""
    broker = start(
        Instance(
            core="<security-enabled>false</security-enabled><connection-ttl-override>8000</connection-ttl-override>",
            parameters="protocols=AMQP;amqpIdleTimeout=60000",
        )
    )
    with Client(broker.url) as client:
        assert client.connection.conn.transport.remote_idle_timeout == 4.0
