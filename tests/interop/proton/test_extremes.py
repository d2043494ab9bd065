"""Names and numbers no store could write: refused in AMQP words, or kept in another form, and the broker goes on."""

from collections.abc import Iterator

import pytest
from proton import Message, symbol, ulong

from tests.interop.broker_process import BrokerProcess, Instance, launch, start_broker
from tests.interop.proton.client import Client, Refused
from tests.interop.proton.test_ranges import ask
from tests.interop.proton.test_subscriptions import TOPIC

LONGEST = "\N{ELEPHANT}" * 4096
"""The longest name, of four octets each."""


@pytest.fixture(scope="module")
def durable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with a store, which is whole at the end of each test."""
    process = start_broker(Instance(persistence="true"), tmp_path_factory.mktemp("broker"))
    yield process
    process.stop()


@pytest.fixture(autouse=True)
def _still_stores(durable: BrokerProcess) -> Iterator[None]:
    yield
    with Client(durable.url) as client:
        client.sender("proof").send(Message(body="stored", durable=True))
        assert client.bodies("proof") == ["stored"]


def test_a_name_that_is_too_long_is_an_invalid_field(durable: BrokerProcess) -> None:
    """Of an address, of a queue, and of what a subscription would be called."""
    with Client(durable.url) as client:
        for attempt in (
            lambda: client.sender(LONGEST + "x"),
            lambda: client.receiver(LONGEST + "x"),
            lambda: client.sender("a::" + LONGEST + "x"),
            lambda: client.receiver("news", TOPIC, name="s" * 5000, durable=True),
        ):
            with pytest.raises(Refused) as refusal:
                attempt()
            assert refusal.value.condition == "amqp:invalid-field"
        with pytest.raises(Refused, match="4096"):
            ask(client, "broker", "createQueue", {"name": "q" * 4097})


def test_the_longest_name_is_stored(tmp_path_factory: pytest.TempPathFactory) -> None:
    """It has 16 KiB; through two crashes, after which numbers are missing from the queue."""
    folder = tmp_path_factory.mktemp("broker")
    process = start_broker(Instance(persistence="true"), folder)
    for _ in range(2):
        client = Client(process.url)
        client.sender(LONGEST).send(Message(body="m", durable=True))
        process.kill()
        client.abort()
        process = launch(folder)
    with Client(process.url) as client:
        assert len(ask(client, "reader", "heads", {"queues": [LONGEST]})["queues"][0]["skipped"]) == 2
        assert client.bodies(LONGEST) == ["m", "m"]
    process.stop()


def test_a_time_that_never_comes_is_stored(durable: BrokerProcess, name: str) -> None:
    with Client(durable.url) as client:
        for form in ("time", "delay"):
            for value in (ulong(2**64 - 1), 2**63 - 1, 2**56):
                annotations = {symbol(f"x-opt-delivery-{form}"): value}
                client.sender(name).send(Message(body="never", durable=True, annotations=annotations))

        assert client.bodies(name) == []


def test_a_writer_with_a_long_name_is_refused(durable: BrokerProcess) -> None:
    with Client(durable.url) as client, pytest.raises(Refused, match="200 octets"):
        ask(client, "writer", "commitEpoch", "w" * 600, 0, {})


def test_a_long_duplicate_id_is_kept(durable: BrokerProcess, name: str) -> None:
    with Client(durable.url) as client:
        for body in ("1", "2"):
            message = Message(body=body, durable=True, annotations={symbol("_AMQ_DUPL_ID"): "d" * 60_000})
            client.sender(name).send(message)

        assert client.bodies(name) == ["1"]
