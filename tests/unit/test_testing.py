"""Brokers for test suites: queues, the clock, faults, the network, and the plugin of pytest."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from paho.mqtt import client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from proton import ConnectionException, Message, ProtonException, symbol
from proton.utils import BlockingConnection, LinkDetached

from artemis_py.errors import ConfigError, LimitExceeded
from artemis_py.testing import RunningBroker, running_broker
from tests.interop.mqtt.paho_client import close_sockets

DAY_S = 24 * 3600.0
CONFIGURATION = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
  <security-enabled>false</security-enabled>
  <acceptors><acceptor name="all">tcp://0.0.0.0:61616</acceptor></acceptors>
  <addresses><address name="orders"><anycast><queue name="orders"/></anycast></address></addresses>
</core></configuration>"""

pytest_plugins = ["pytester"]


@pytest.fixture(scope="module")
def shared() -> Iterator[RunningBroker]:
    """One broker for the tests that leave nothing behind."""
    with running_broker() as broker:
        yield broker


@pytest.fixture
def broker(shared: RunningBroker) -> RunningBroker:
    """The shared broker, emptied."""
    shared.reset()
    return shared


def send(url: str, address: str, *bodies: str, **fields: object) -> None:
    """Send messages, one after the other."""
    connection = BlockingConnection(url, timeout=60)
    sender = connection.create_sender(address)
    for body in bodies:
        sender.send(Message(body=body, **fields))
    connection.close()


def receive(url: str, address: str) -> object:
    """Receive and accept a message."""
    connection = BlockingConnection(url, timeout=60)
    receiver = connection.create_receiver(address)
    body = receiver.receive(timeout=60).body
    receiver.accept()
    connection.close()
    return body


def test_a_queue_is_looked_into(broker: RunningBroker) -> None:
    """Without removing anything."""
    send(broker.url(), "orders", "one", "two", properties={"kind": "book"}, priority=7, id="m")

    queue = broker.queue("orders")
    assert queue.exists
    assert queue.count == 2
    assert [message.body for message in queue.peek()] == ["one", "two"]
    assert [message.body for message in queue.peek(1)] == ["one"]
    first = queue.peek()[0]
    assert (first.properties, first.priority, first.address, first.message_id) == ({"kind": "book"}, 7, "orders", "m")
    assert queue.consumers == 0
    assert receive(broker.url(), "orders") == "one"
    assert queue.count == 1
    assert queue.acknowledged == 1


def test_a_queue_that_does_not_exist_is_empty(broker: RunningBroker) -> None:
    """A test may ask before anything was sent."""
    queue = broker.queue("nothing")

    assert (queue.exists, queue.count, queue.peek(), queue.acknowledged) == (False, 0, [], 0)
    queue.wait_until_empty()


def test_messages_are_waited_for(broker: RunningBroker) -> None:
    """Also for those of another thread."""
    sending = threading.Timer(0.05, send, (broker.url(), "orders", "one", "two"))
    sending.start()

    broker.queue("orders").wait_for(2)

    assert broker.queue("orders").count == 2
    sending.join()


def test_a_wait_in_vain_says_what_there_is(broker: RunningBroker) -> None:
    """The message of the failed test is all that its reader has."""
    send(broker.url(), "orders", "one")

    with pytest.raises(AssertionError, match=r"queue 'orders' should have 2 messages within 0.05 s: 1 messages"):
        broker.queue("orders").wait_for(2, timeout_s=0.05)
    with pytest.raises(AssertionError, match=r"'other' should have 1 messages .* it does not exist"):
        broker.queue("other").wait_for(1, timeout_s=0.01)


def test_a_message_expires_when_the_clock_is_moved(broker: RunningBroker) -> None:
    """Nobody waits for it."""
    send(broker.url(), "orders", "soon gone", ttl=DAY_S / 2)
    send(broker.url(), "orders", "stays", ttl=DAY_S * 2)

    broker.clock.advance(DAY_S)

    assert [message.body for message in broker.queue("orders").peek()] == ["stays"]
    assert broker.clock.ahead_s == DAY_S


def test_a_reminder_in_24_hours_comes_at_once(broker: RunningBroker) -> None:
    """A delivery delay, with a consumer that waits for it."""
    connection = BlockingConnection(broker.url(), timeout=60)
    receiver = connection.create_receiver("reminders", credit=1)
    sender = connection.create_sender("reminders")
    begin = time.monotonic()
    sender.send(Message(body="call back", annotations={symbol("x-opt-delivery-delay"): int(DAY_S * 1000)}))
    assert broker.queue("reminders").scheduled == 1

    broker.clock.advance(DAY_S - 1)
    assert broker.queue("reminders").scheduled == 1
    broker.clock.advance(1)

    assert receiver.receive(timeout=60).body == "call back"
    assert time.monotonic() - begin < 60
    connection.close()


def test_a_clock_does_not_go_back(broker: RunningBroker) -> None:
    """Brokers rely on that."""
    with pytest.raises(ValueError, match="forward"):
        broker.clock.advance(-1)


def test_the_nth_message_is_refused(broker: RunningBroker) -> None:
    """And no other one."""
    connection = BlockingConnection(broker.url(), timeout=60)
    sender = connection.create_sender("orders")
    with broker.faults.refuse("orders", nth=2, refusal=LimitExceeded("the shop is full")) as fault:
        sender.send(Message(body="1"))
        with pytest.raises(ProtonException):
            sender.send(Message(body="2"))
        sender.send(Message(body="3"))
        assert fault.refused == 1
    sender.send(Message(body="4"))
    connection.close()

    assert [message.body for message in broker.queue("orders").peek()] == ["1", "3", "4"]


def test_messages_are_counted_from_one(broker: RunningBroker) -> None:
    """A wrong script is an error of the test."""
    with pytest.raises(ValueError, match="from 1"), broker.faults.refuse("orders", nth=0):
        pass


def test_consumers_are_ended(broker: RunningBroker) -> None:
    """What they had returns to the queue."""
    send(broker.url(), "orders", "one")
    connection = BlockingConnection(broker.url(), timeout=60)
    receiver = connection.create_receiver("orders", credit=1)
    assert receiver.receive(timeout=60).body == "one"

    assert broker.faults.end_consumers("orders", "by the script") == 1

    with pytest.raises(LinkDetached, match=r"resource-deleted.*by the script"):
        receiver.receive(timeout=60)
    connection.close()
    assert [message.body for message in broker.queue("orders").peek()] == ["one"]


def test_consumers_are_ended_with_a_condition(broker: RunningBroker) -> None:
    """A client acts on conditions: it attaches again after one, and gives up after another."""
    connection = BlockingConnection(broker.url(), timeout=60)
    receiver = connection.create_receiver("orders", credit=1)

    assert broker.faults.end_consumers("orders", "moved elsewhere", "amqp:link:detach-forced") == 1

    with pytest.raises(LinkDetached, match=r"amqp:link:detach-forced.*moved elsewhere"):
        receiver.receive(timeout=60)
    again = connection.create_receiver("orders", credit=1)
    send(broker.url(), "orders", "one")
    assert again.receive(timeout=60).body == "one"
    connection.close()


def test_a_lost_answer_leaves_the_message(broker: RunningBroker) -> None:
    """The client does not know, and sends again: a duplicate that it has to deal with."""
    connection = BlockingConnection(broker.network.url("amqp"), timeout=60)
    sender = connection.create_sender("orders")
    failures: list[Exception] = []

    def send_one() -> None:
        try:
            sender.send(Message(body="once"))
        except ConnectionException as error:
            failures.append(error)

    sending = threading.Thread(target=send_one)
    with broker.network.held_answers():
        sending.start()
        broker.queue("orders").wait_for(1)
        assert broker.network.cut() == 1
    sending.join(10)

    assert failures
    assert broker.queue("orders").count == 1


def test_a_network_is_down(broker: RunningBroker) -> None:
    """New connections fail until it is up again."""
    url = broker.network.url("amqp")
    with broker.network.down(), pytest.raises(ConnectionException):
        BlockingConnection(url, timeout=60)

    send(url, "orders", "one")
    assert broker.queue("orders").count == 1


def test_a_reset_leaves_nothing(broker: RunningBroker) -> None:
    """Clients find the broker where it was."""
    url = broker.url()
    send(url, "orders", "one")
    broker.clock.advance(5)

    broker.reset()

    assert broker.url() == url
    assert broker.queue_names == []
    assert broker.clock.ahead_s == 0
    send(url, "orders", "two")
    assert broker.queue("orders").count == 1


def test_a_stalled_disk_confirms_nothing() -> None:
    """Until it goes on."""
    with running_broker(persistent=True) as broker:
        send(broker.url(), "orders", "first", durable=True)
        connection = BlockingConnection(broker.url(), timeout=60)
        sender = connection.create_sender("orders")
        sent = threading.Event()

        def send_one() -> None:
            sender.send(Message(body="second", durable=True))
            sent.set()

        sending = threading.Thread(target=send_one)
        with broker.faults.stalled_disk():
            sending.start()
            broker.queue("orders").wait_for(2)
            assert not sent.wait(0.05)
        assert sent.wait(10)
        sending.join()
        connection.close()


def test_what_is_durable_survives_a_restart_and_no_reset() -> None:
    """On the same port."""
    with running_broker(persistent=True) as broker:
        url = broker.url()
        send(url, "orders", "kept", durable=True)
        broker.restart()
        assert broker.url() == url
        assert [message.body for message in broker.queue("orders").peek()] == ["kept"]
        broker.reset()
        assert broker.queue("orders").count == 0


def test_a_disk_that_is_not_there_cannot_stall(broker: RunningBroker) -> None:
    """The error says what to do."""
    with pytest.raises(ValueError, match="persistent=True"), broker.faults.stalled_disk():
        pass


def test_a_configuration_is_followed(tmp_path: Path) -> None:
    """As text and as a file; ports and folders are the kit's."""
    file = tmp_path / "broker.xml"
    file.write_text(CONFIGURATION)
    for given in (CONFIGURATION, file):
        with running_broker(given, persistent=False) as broker:
            assert broker.queue_names == ["orders"]
            assert broker.port() != 61616
    assert list(tmp_path.iterdir()) == [file]


def test_a_wrong_configuration_is_an_error_with_its_line() -> None:
    """And leaves no thread behind."""
    before = threading.active_count()
    with pytest.raises(ConfigError, match="adresses"), running_broker(CONFIGURATION.replace("addresses", "adresses")):
        pass
    assert threading.active_count() == before


def test_a_broker_that_was_left_answers_nothing() -> None:
    """A clear error instead of a time-out."""
    with running_broker() as broker:
        pass
    with pytest.raises(RuntimeError, match="does not run"):
        broker.url()


def test_the_fixtures_are_there(pytester: pytest.Pytester) -> None:
    """In a project that only has the distribution installed and an option in its ini file."""
    pytester.makeini("[pytest]\nartemis_broker_xml = etc/broker.xml\n")
    pytester.mkdir("etc").joinpath("broker.xml").write_text(
        CONFIGURATION.replace("<acceptors>", "<persistence-enabled>false</persistence-enabled><acceptors>")
    )
    pytester.makepyfile(
        """
        def test_one(artemis_broker, artemis_session_broker):
            assert artemis_broker.url() != artemis_session_broker.url()
            assert artemis_broker.queue_names == ["orders"]
            assert artemis_broker.queue("orders").count == 0
        """
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


def test_a_run_of_pytest_without_the_fixtures_does_not_import_a_broker(pytester: pytest.Pytester) -> None:
    """Everybody who has the distribution installed loads the plugin."""
    pytester.makepyfile("import sys\n\ndef test_it():\n    assert 'artemis_py.broker' not in sys.modules\n")
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


def test_a_session_of_mqtt_ends_when_its_time_is_over(broker: RunningBroker) -> None:
    """With everything that waited for its client."""
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id="sensor", protocol=mqtt.MQTTv5)
    lasts = Properties(PacketTypes.CONNECT)
    lasts.SessionExpiryInterval = int(DAY_S)
    subscribed = threading.Event()
    client.on_connect = lambda *_: client.subscribe("readings", 1)
    client.on_subscribe = lambda *_: subscribed.set()
    client.connect("127.0.0.1", broker.port("mqtt"), properties=lasts)
    client.loop_start()
    assert subscribed.wait(10)
    client.disconnect()
    client.loop_stop()
    close_sockets(client)
    name = next(name for name in broker.queue_names if "sensor" in name)
    while broker.queue(name).consumers:
        time.sleep(0.002)

    broker.clock.advance(DAY_S / 2)
    assert broker.queue(name).exists
    broker.clock.advance(DAY_S)

    assert not broker.queue(name).exists
