"""Large messages: whatever the frames, in files that come and go, shared, in transactions, and with bounded memory."""

import hashlib
import time
from pathlib import Path

import pytest
from proton import Message

from artemis_amqp.messages.large import ARRIVING_LIMIT
from benchmarks import large
from tests.interop.broker_process import BrokerProcess, Instance, launch, start_broker
from tests.interop.conftest import StartBroker
from tests.interop.proton.client import Client, Refused
from tests.interop.proton.test_transactions import Coordinator, post

THRESHOLD = 102_400
WAIT_S = 60.0


def body_of(size: int) -> bytes:
    """Octets in which a piece that is lost, doubled or moved shows."""
    return b"".join(hashlib.sha256(b"%d" % number).digest() for number in range(size // 32 + 1))[:size]


BODY = body_of(300_000)


def files_of(broker: BrokerProcess) -> list[Path]:
    """The files of an instance's large messages."""
    return sorted((broker.directory / "data" / "large-messages").glob("*.body"))


def wait_for_files(broker: BrokerProcess, count: int) -> None:
    """Deleting comes after the commit, which comes after the answer."""
    deadline = time.monotonic() + WAIT_S
    while len(files_of(broker)) != count:
        assert time.monotonic() < deadline, f"{len(files_of(broker))} files, not {count}"
        time.sleep(0.01)


@pytest.fixture(scope="module")
def stored(start: StartBroker) -> BrokerProcess:
    """A broker with a store."""
    return start(Instance(persistence="true", parameters="protocols=AMQP;amqpMaxMessageSize=2000000"))


@pytest.mark.parametrize("size", [THRESHOLD - 300, THRESHOLD, THRESHOLD + 1, 131_072, 1_000_000])
@pytest.mark.parametrize("max_frame_size", [512, 65_536, 1_000_000])
def test_the_bare_message_comes_as_it_went(broker: BrokerProcess, name: str, size: int, max_frame_size: int) -> None:
    """AMQP 1.0 §3.2: no intermediary changes it."""
    message = Message(body=body_of(size), subject="s", properties={"colour": "red", "number": 7}, id="id-1")
    with Client(broker.url, max_frame_size=max_frame_size) as client:
        client.sender(name).send(message)
        received = client.receiver(name).receive()

        assert bytes(message.encode()).endswith(received.bare)
        assert received.message.properties == {"colour": "red", "number": 7}
        assert received.body == body_of(size)


@pytest.mark.parametrize("durable", [True, False])
def test_a_file_goes_with_its_last_reference(stored: BrokerProcess, name: str, durable: bool) -> None:
    """Three subscribers share one file, and each gets all of it."""
    with Client(stored.url, "subscriber") as client:
        names = [f"{name}-{number}" for number in range(3)]
        receivers = [client.receiver(name, ("topic",), durable=True, name=each) for each in names]
        client.sender(name, ("topic",)).send(Message(body=BODY, durable=durable))
        received = [receiver.receive() for receiver in receivers]
        count = len(files_of(stored))
        bodies = [one.body for one in received]
        for one in received:
            one.accept()
        wait_for_files(stored, 0)

    assert count == 1
    assert bodies == [BODY] * 3


def test_a_dead_letter_has_the_body_too(stored: BrokerProcess, name: str) -> None:
    """A move shares the file: it is there once, and goes with the dead letter."""
    with Client(stored.url) as client:
        client.sender(name).send(Message(body=BODY, durable=True))
        client.receiver(name).receive().reject()
        count = len(files_of(stored))
        dead = client.receiver("DLQ").receive()
        body = dead.body
        dead.accept()
        wait_for_files(stored, 0)

    assert (count, body) == (1, BODY)


def test_selectors_see_properties_of_large_messages(broker: BrokerProcess, name: str) -> None:
    """What stands before the body is in memory."""
    with Client(broker.url) as client:
        sender = client.sender(name)
        for colour in ("red", "blue"):
            sender.send(Message(body=BODY, properties={"colour": colour}))
        received = client.receiver(name, selector="colour = 'blue' AND AMQSize > 300000").receive()

        assert received.message.properties == {"colour": "blue"}
        assert received.body == BODY


def test_a_settled_delivery_is_complete_although_its_message_is_gone(stored: BrokerProcess, name: str) -> None:
    """A message is acknowledged when its delivery begins; its file stays readable."""
    with Client(stored.url, max_frame_size=512) as client:
        client.sender(name).send(Message(body=BODY, durable=True))
        body = client.receiver(name, settled=True).receive().body
        wait_for_files(stored, 0)

    assert body == BODY


def test_a_message_beyond_the_limit_leaves_no_file(stored: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §2.7.3, max-message-size: the link ends, also if half of it was written already."""
    with Client(stored.url) as client:
        sender = client.sender(name)
        with pytest.raises(Refused, match="amqp:link:message-size-exceeded"):
            sender.send(Message(body=bytes(3_000_000), durable=True))
        wait_for_files(stored, 0)


def test_what_is_not_finished_leaves_no_file(stored: BrokerProcess, name: str) -> None:
    """Aborted, detached, or its connection lost in the middle."""
    for end in ("abort", "detach", "lose"):
        client = Client(stored.url)
        sender = client.sender(name)
        client.wait(lambda sender=sender: sender.link.credit > 0, "credit")  # type: ignore[misc]
        delivery = sender.link.delivery("half")
        sender.link.stream(bytes(Message(body=BODY, durable=True).encode())[:-1000])
        client.sync()
        wait_for_files(stored, 1)
        if end == "abort":
            delivery.abort()
            client.sync()
            sender.send(Message(body="next"))
            client.close()
        elif end == "detach":
            sender.close()
            client.close()
        else:
            client.abort()
        wait_for_files(stored, 0)


def test_a_malformed_large_message_is_refused(stored: BrokerProcess, name: str) -> None:
    """Its section says that more comes; nobody gets it, and the link goes on."""
    with Client(stored.url) as client:
        sender = client.sender(name)
        with pytest.raises(Refused, match=r"amqp:decode-error.*cut short"):
            sender.send(bytes(Message(body=BODY, durable=True).encode())[:-10])
        wait_for_files(stored, 0)
        sender.send(Message(body=BODY, durable=True))
        client.receiver(name).receive().accept()
        wait_for_files(stored, 0)


def test_so_many_large_messages_may_arrive_at_once(stored: BrokerProcess, name: str) -> None:
    """Each has a file open: one too many is refused when it is complete, the others are not disturbed."""
    message = bytes(Message(body=BODY, durable=True).encode())
    with Client(stored.url) as client:
        senders = [client.sender(name) for _ in range(ARRIVING_LIMIT + 1)]
        deliveries = []
        for sender in senders:
            client.wait(lambda sender=sender: sender.link.credit > 0, "credit")  # type: ignore[misc]
            deliveries.append(sender.link.delivery("half"))
            sender.link.stream(message[:-1000])
        client.sync()
        wait_for_files(stored, ARRIVING_LIMIT)
        for sender in senders:
            sender.link.stream(message[-1000:])
            sender.link.advance()
        for sender, delivery in list(zip(senders, deliveries, strict=True))[:-1]:
            sender.wait(delivery)
        with pytest.raises(Refused, match=f"{ARRIVING_LIMIT} large messages arrive"):
            senders[-1].wait(deliveries[-1])
        client.receiver(name).bodies()
        wait_for_files(stored, 0)


def test_transactions_commit_and_roll_back_large_messages(stored: BrokerProcess, name: str) -> None:
    """What is rolled back leaves no file, what is committed is complete."""
    with Client(stored.url) as client:
        sender = client.sender(name)
        coordinator = Coordinator(client)
        for fail in (True, False):
            transaction = coordinator.declare()
            sender.wait(post(sender, transaction, Message(body=BODY, durable=True)))
            coordinator.discharge(transaction, fail=fail)
        wait_for_files(stored, 1)
        received = client.receiver(name).receive()
        body = received.body
        received.accept()
        wait_for_files(stored, 0)

    assert body == BODY


def test_other_links_of_the_session_go_between(broker: BrokerProcess, name: str) -> None:
    """A large message to one receiver does not hold up the next one: it comes before the end of the large one."""
    big = body_of(20_000_000)
    with Client(broker.url, max_frame_size=4096) as client:
        client.sender(name).send(Message(body=big))
        slow, quick = client.receiver(name), client.receiver(name + "-quick")
        quick.flow(1)
        client.sync()
        slow.flow(1)
        client.sender(name + "-quick").start(Message(body="quick"))
        first = quick.receive().body
        before = slow.waiting
        last = slow.receive().body

    assert (first, before) == ("quick", 0)
    assert last == big


def test_an_acknowledged_large_message_survives_a_kill_and_an_unfinished_one_leaves_nothing(tmp_path: Path) -> None:
    """P1, and no file is left behind: the start says what it removed."""
    broker = start_broker(Instance(persistence="true"), tmp_path)
    with Client(broker.url) as client:
        client.sender("q").send(Message(body=BODY, durable=True))
        client.sender("q").send(Message(body=BODY, durable=False))
        sender = client.sender("q")
        client.wait(lambda: sender.link.credit > 0, "credit")
        sender.link.delivery("half")
        sender.link.stream(bytes(Message(body=BODY, durable=True).encode())[:-1000])
        client.sync()
        wait_for_files(broker, 3)
        broker.kill()
        client.connection.disconnected = True
    broker = launch(tmp_path)
    try:
        removed = files_of(broker)
        with Client(broker.url) as client:
            taken = client.receiver("q").drain()
            bodies = [one.body for one in taken]
            taken[0].accept()
        wait_for_files(broker, 0)
        log = broker.log_text()
    finally:
        broker.stop()

    assert len(removed) == 1
    assert bodies == [BODY]
    assert "large messages that no message refers to were removed: count=2" in log


def test_a_message_of_64_mib_passes_through_little_memory(tmp_path: Path) -> None:
    """It is neither whole in memory nor in the output of a connection."""
    size = 64 << 20
    broker = start_broker(
        Instance(persistence="true", parameters=f"protocols=AMQP;amqpMaxMessageSize={2 * size}"), tmp_path
    )
    try:
        idle = large.peak_bytes(broker.process.pid)
        sent = large.send(broker.url, "q", size)
        received = large.receive(broker.url, "q")
        grown = large.peak_bytes(broker.process.pid) - idle
    finally:
        broker.stop()

    assert received == (size, sent)
    assert grown < 24 << 20
