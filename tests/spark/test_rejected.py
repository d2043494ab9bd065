"""What becomes of messages that the broker rejects or gives back: `onReject`, `errorAddress`, `maxMessageBytes`."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from proton import Message

from tests.interop.broker_process import BrokerProcess, Instance, start_broker
from tests.spark.conftest import ask, message_count, receive
from tests.spark.proxy import Proxy

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

import pyarrow as pa

from artemis_py.spark import sending
from artemis_py.spark.encoding import Encoded
from artemis_py.spark.errors import Refused, SendFailed
from artemis_py.spark.options import write_options
from artemis_py.spark.sending import Sender, StageName
from artemis_py.spark.sink import Sent, abort_epoch, commit_epoch, write_rows

SETTINGS = """
<address-setting match="full.#">
  <max-size-messages>5</max-size-messages>
  <address-full-policy>FAIL</address-full-policy>
</address-setting>
<address-setting match="none.#">
  <auto-create-addresses>false</auto-create-addresses>
</address-setting>
"""
NO_MESSAGE = b"\x00\x53\x74\xc1\x05\x02\xa1\x01k\xff" + b"\x00\x53\x77\xa1\x01x"
"""A property of a type that does not exist."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One that takes five messages an address below `full`, and no addresses below `none`."""
    process = start_broker(Instance(persistence="true", settings=SETTINGS), tmp_path_factory.mktemp("broker"))
    yield process
    process.stop()


def batch(columns: dict[str, list[Any]]) -> Iterator[Any]:
    yield pa.RecordBatch.from_pydict(columns)


@pytest.fixture
def write(broker: BrokerProcess, name: str) -> Callable[..., Sent]:
    """Writes as a task does; the error address is that of the test."""

    def run(columns: dict[str, list[Any]], url: str = broker.url, **options: str) -> Sent:
        given = {"url": url, "routingType": "anycast", "idempotence": "none", "onReject": "deadletter"}
        if options.get("onReject", "deadletter") == "deadletter":
            given["errorAddress"] = f"{name}.errors"
        return write_rows(write_options({**given, **options}), name, 0, batch(columns))

    return run


def marks(message: Message) -> tuple[Any, Any]:
    return message.annotations["x-opt-ORIG-ADDRESS"], message.annotations["x-opt-reject-reason"]


def test_rejected_messages_go_to_the_error_address(
    broker: BrokerProcess, name: str, write: Callable[..., Sent]
) -> None:
    """As they are, with where they should have gone and why they did not; neither late nor mortal."""
    address = f"full.{name}"
    ids = [str(number) for number in range(8)]
    columns = {"body": ids, "message_id": ids, "ttl_ms": [3_600_000] * 8, "priority": [7] * 8}

    sent = write(columns, address=address)

    assert (sent.accepted, sent.diverted, sent.dropped) == (8, 3, 0)
    assert [message.body for message in receive(broker, address, 5)] == ids[:5]
    errors = receive(broker, f"{name}.errors", 3)
    assert [(message.body, message.id, message.priority) for message in errors] == [(id, id, 7) for id in ids[5:]]
    assert {message.ttl for message in errors} == {0}
    assert {marks(message)[0] for message in errors} == {address}
    assert all("full" in marks(message)[1] for message in errors)


def test_what_was_rejected_appears_with_its_epoch(broker: BrokerProcess, name: str, write: Callable[..., Sent]) -> None:
    """All or nothing: neither the messages nor the rejected ones before the commit."""
    columns = {"body": ["good", "long" * 20, "good"], "address": [f"{name}.q"] * 3}

    sent = write(columns, idempotence="epoch", maxMessageBytes="40")
    queues = (f"{name}.q", f"{name}.errors")
    before = [message_count(broker, queue) for queue in queues]
    commit_epoch(write_options({"url": broker.url}), 0, [sent])

    assert before == [0, 0]
    assert [message_count(broker, queue) for queue in queues] == [2, 1]


def test_what_was_rejected_goes_with_an_epoch_that_is_aborted(
    broker: BrokerProcess, name: str, write: Callable[..., Sent]
) -> None:
    sent = write({"body": ["long" * 20]}, idempotence="epoch", maxMessageBytes="40", address=f"{name}.q")

    abort_epoch(write_options({"url": broker.url}), sent.writer, 0)

    assert sent.diverted == 1
    assert [queue for queue in ask(broker, "broker", "getQueueNames") if "staging" in queue] == []


def test_what_is_no_message_travels_in_the_body_of_one(
    broker: BrokerProcess, name: str, write: Callable[..., Sent]
) -> None:
    write({"message": [NO_MESSAGE, b"\x00\x53\x77\xa1\x01y"]}, payload="message", address=f"{name}.q")

    (error,) = receive(broker, f"{name}.errors", 1)
    assert bytes(error.body) == NO_MESSAGE
    assert marks(error)[0] == f"{name}.q"
    assert marks(error)[1].endswith("is not a format code")
    assert [message.body for message in receive(broker, f"{name}.q", 1)] == ["y"]


def test_an_address_of_a_row_that_is_refused_stops_that_row_alone(
    broker: BrokerProcess, name: str, write: Callable[..., Sent]
) -> None:
    rows = {"body": ["1", "2", "3", "4"], "address": [f"{name}.q", f"none.{name}", f"{name}.q", f"none.{name}"]}

    sent = write(rows)

    assert sent.diverted == 2
    assert [message.body for message in receive(broker, f"{name}.q", 2)] == ["1", "3"]
    errors = receive(broker, f"{name}.errors", 2)
    assert [message.body for message in errors] == ["2", "4"]
    assert {marks(message)[0] for message in errors} == {f"none.{name}"}
    assert all("does not exist" in marks(message)[1] for message in errors)


def test_an_address_of_the_job_that_is_refused_ends_it(name: str, write: Callable[..., Sent]) -> None:
    """Nothing is wrong with the rows."""
    with pytest.raises(Refused, match="does not exist"):
        write({"body": ["1"]}, address=f"none.{name}")


def test_an_error_address_that_rejects_as_well_ends_the_job(name: str, write: Callable[..., Sent]) -> None:
    with pytest.raises(SendFailed, match=rf"the error address full\.{name}\.errors rejected a message as well: .*full"):
        write({"body": ["x" * 100] * 9}, address=f"{name}.q", maxMessageBytes="50", errorAddress=f"full.{name}.errors")


@pytest.mark.parametrize(("policy", "dropped"), [("fail", None), ("drop", 2)])
def test_a_message_that_is_too_long_is_rejected_before_it_is_sent(
    broker: BrokerProcess, name: str, write: Callable[..., Sent], policy: str, dropped: int | None
) -> None:
    columns = {"body": ["short", "long" * 20, "long" * 30]}
    options = {"address": f"{name}.q", "onReject": policy, "maxMessageBytes": "40"}

    if dropped is None:
        with pytest.raises(SendFailed, match=r"message 2 of the task has \d+ bytes, maxMessageBytes is 40"):
            write(columns, **options)
    else:
        sent = write(columns, **options)
        assert (sent.accepted, sent.dropped, sent.diverted) == (1, dropped, 0)


# -- time -----------------------------------------------------------------------------------------------------------


class Clock:
    """The clock of a sender, which can be put forward."""

    def __init__(self) -> None:
        self.ahead_s = 0.0
        self.sleep = time.sleep

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead_s


def test_rows_that_take_long_are_no_silence_of_the_broker(
    broker: BrokerProcess, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two batches of a task there may be hours of computing."""
    clock = Clock()
    monkeypatch.setattr(sending, "time", clock)
    options = write_options({"url": broker.url, "address": name, "routingType": "anycast", "idempotence": "none"})
    sender = Sender(options)
    for _ in range(2):
        sender.send(Encoded(address=None, head=b"", bare=bare) for bare in values("abc"))
        sender.flush()
        clock.ahead_s += 2 * options.send_timeout_s
    sender.close()

    assert message_count(broker, name) == 6


def test_a_rate_is_kept_across_a_broken_connection(broker: BrokerProcess, name: str) -> None:
    """Which breaks while there is nothing to do but to wait."""
    proxy = Proxy(broker.port)
    given = {"url": proxy.url, "address": name, "routingType": "anycast", "idempotence": "none", "retryDelay": "10ms"}
    sender = Sender(write_options({**given, "maxMessagesPerSecond": "2"}))
    try:
        sender.send([Encoded(address=None, head=b"", bare=values("a")[0])])
        proxy.cut()
        sender.send([Encoded(address=None, head=b"", bare=values("b")[0])])
        sender.flush()
    finally:
        sender.close()
        proxy.close()

    assert {message.body for message in receive(broker, name, 2)} == {"a", "b"}


# -- a connection that breaks while answers are on their way -------------------------------------------------------


def staged(broker: BrokerProcess) -> int:
    """Messages in all stages."""
    queues = [queue for queue in ask(broker, "broker", "getQueueNames") if queue.startswith("$artemis.staging")]
    return sum(message_count(broker, queue) for queue in queues)


A: bytes = b"\x00\x53\x77\xa1\x01a"


def break_while_answering(
    broker: BrokerProcess, name: str, bares: list[bytes], first: bytes = A, **options: str
) -> Sender:
    """Send the first message; then the others, of which the broker stores four, and of its answers none arrives."""
    proxy = Proxy(broker.port)
    given = {"url": proxy.url, "address": f"{name}.q", "routingType": "anycast", "retryDelay": "10ms"}
    sender = Sender(write_options({**given, **options}), StageName(name, 0, name))
    failures: list[BaseException] = []

    def send() -> None:
        try:
            sender.send(Encoded(address=None, head=b"", bare=bare) for bare in bares)
            sender.flush()
        except SendFailed as failure:
            failures.append(failure)

    try:
        sender.send([Encoded(address=None, head=b"", bare=first)])
        sender.flush()
        before = staged(broker)
        proxy.mute()
        thread = threading.Thread(target=send)
        thread.start()
        while staged(broker) < before + 4:
            pass
        proxy.cut()
        thread.join(60)
    finally:
        sender.close()
        proxy.close()
    if failures:
        raise failures[0]
    return sender


def values(text: str) -> list[bytes]:
    return [b"\x00\x53\x77\xa1\x01" + letter.encode() for letter in text]


@pytest.mark.parametrize("policy", ["fail", "drop"])
def test_what_a_stage_has_is_not_sent_again(broker: BrokerProcess, name: str, policy: str) -> None:
    sender = break_while_answering(broker, name, values("bcde"), onReject=policy)

    commit_epoch(write_options({"url": broker.url}), 0, [Sent(name, sender.accepted, sender.dropped, sender.staged)])

    assert sender.accepted == 5
    assert [message.body for message in receive(broker, f"{name}.q", 5)] == list("abcde")
    assert message_count(broker, f"{name}.q") == 0


@pytest.mark.parametrize("policy", ["fail", "drop"])
def test_a_stage_that_left_one_out_is_not_guessed_at(broker: BrokerProcess, name: str, policy: str) -> None:
    """The third was rejected, and the answer is lost: the first four would be taken for stored."""
    bares = [*values("bc"), NO_MESSAGE, *values("de")]

    with pytest.raises(SendFailed, match=r"of 5 messages for .*\.q the broker refused 1: nothing tells which"):
        break_while_answering(broker, name, bares, onReject=policy)


def test_what_was_left_out_before_does_not_matter(broker: BrokerProcess, name: str) -> None:
    """Its rejection was heard: what the stage has can be counted."""
    sender = break_while_answering(broker, name, values("bcde"), first=NO_MESSAGE, onReject="drop")

    commit_epoch(write_options({"url": broker.url}), 0, [Sent(name, sender.accepted, sender.dropped, sender.staged)])

    assert (sender.accepted, sender.dropped) == (4, 1)
    assert [message.body for message in receive(broker, f"{name}.q", 4)] == list("bcde")


# -- messages that are given back -----------------------------------------------------------------------------------


@pytest.fixture
def giving_back(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker that answers `modified` when an address is full."""
    parameters = "protocols=AMQP;amqpUseModifiedForTransientDeliveryErrors=true"
    process = start_broker(Instance(persistence="true", settings=SETTINGS, parameters=parameters), tmp_path)
    yield process
    process.stop()


def test_what_is_given_back_is_sent_again(giving_back: BrokerProcess, write: Callable[..., Sent]) -> None:
    """Until the address has room: none is lost, none comes twice."""
    ids = [str(number) for number in range(12)]
    done: list[Sent] = []
    options = {"address": "full.q", "onReject": "fail", "retryDelay": "50ms", "url": giving_back.url}
    thread = threading.Thread(target=lambda: done.append(write({"body": ids}, **options)))
    thread.start()

    found = [message.body for message in receive(giving_back, "full.q", 12)]
    thread.join(60)

    assert sorted(found, key=int) == ids
    assert done[0].accepted == 12


def test_what_is_given_back_for_ever_ends_the_job(giving_back: BrokerProcess, write: Callable[..., Sent]) -> None:
    with pytest.raises(SendFailed, match=r"given messages back .*sendTimeout.* 3 messages wait for full\.q"):
        write(
            {"body": ["x"] * 8},
            address="full.q",
            onReject="fail",
            sendTimeout="1s",
            retryDelay="50ms",
            url=giving_back.url,
        )
