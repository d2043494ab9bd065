"""One session for the run, one broker for each module. Without Java or PySpark the tests are skipped, and say so."""

import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest
from proton import Message
from proton.utils import BlockingConnection

from artemis_py.spark.errors import MissingRequirement
from artemis_py.spark.requirements import check_java, check_packages
from tests.interop.broker_process import BrokerProcess, Instance, start_broker

COUNTER: Final = count(1)


TIMEOUT_S: Final = 600
"""Of each test: Spark takes ten seconds to start, on a busy machine a minute, and a test that is interrupted in a call
to the JVM takes the session of all others with it."""


CLIENT_TIMEOUT_S: Final = 300
"""Of each call of a client beside Spark, which may leave it hardly any of the machine."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The limit of the other tests is too short for these."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A session on two cores, with the source registered."""
    try:
        check_packages()
        check_java()
    except MissingRequirement as missing:
        pytest.skip(str(missing))
    # Workers beside the driver would take the first python3 on the path.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from artemis_py.spark.session import session

    with tempfile.TemporaryDirectory() as folder:
        running = session(
            "tests",
            {
                "spark.master": "local[2]",
                "spark.ui.enabled": "false",
                "spark.sql.shuffle.partitions": "2",
                "spark.sql.warehouse.dir": folder,
                "spark.local.dir": folder,
                "spark.driver.bindAddress": "127.0.0.1",
                "spark.driver.host": "127.0.0.1",
                "spark.python.authenticate.socketTimeout": "300s",
            },
        )
        running.sparkContext.setLogLevel("ERROR")
        yield running
        running.stop()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that keeps messages on disk."""
    process = start_broker(Instance(persistence="true"), tmp_path_factory.mktemp("broker"))
    yield process
    process.stop()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """An address that no other test uses."""
    node: str = request.node.name
    return re.sub(r"[^a-z0-9]+", "-", node.removeprefix("test_").lower()).strip("-") + f"-{next(COUNTER)}"


def send(broker: BrokerProcess, address: str, messages: list[Message]) -> None:
    """Send with Proton, each message accepted."""
    connection = BlockingConnection(broker.url, timeout=CLIENT_TIMEOUT_S)
    sender = connection.create_sender(address)
    for message in messages:
        sender.send(message)
    connection.close()


def receive(broker: BrokerProcess, address: str, number: int) -> list[Message]:
    """Receive with Proton, and accept."""
    connection = BlockingConnection(broker.url, timeout=CLIENT_TIMEOUT_S)
    receiver = connection.create_receiver(address, credit=number)
    messages = []
    for _ in range(number):
        messages.append(receiver.receive(timeout=CLIENT_TIMEOUT_S))
        receiver.accept()
    connection.close()
    return messages


def ask(broker: BrokerProcess, resource: str, operation: str, *parameters: object) -> Any:
    """A management operation."""
    connection = BlockingConnection(broker.url, timeout=CLIENT_TIMEOUT_S)
    replies = connection.create_receiver(None, dynamic=True)
    requests = connection.create_sender("activemq.management")
    properties = {"_AMQ_ResourceName": resource, "_AMQ_OperationName": operation}
    requests.send(
        Message(body=json.dumps(parameters), reply_to=replies.link.remote_source.address, properties=properties)
    )
    reply = replies.receive(timeout=CLIENT_TIMEOUT_S)
    connection.close()
    assert reply.properties["_AMQ_OperationSucceeded"], reply.body
    return json.loads(reply.body)[0]


def message_count(broker: BrokerProcess, queue: str) -> int:
    """How many messages a queue holds."""
    return int(ask(broker, f"queue.{queue}", "countMessages"))


Reader = Callable[..., Any]


@pytest.fixture
def read(spark: Any, broker: BrokerProcess) -> Reader:
    """A batch read with these options."""

    def frame(schema: str | None = None, **options: object) -> Any:
        reader = spark.read.format("amqp").option("url", broker.url)
        for key, value in options.items():
            reader = reader.option(key, str(value))
        return (reader if schema is None else reader.schema(schema)).load()

    return frame


@pytest.fixture
def write(broker: BrokerProcess) -> Callable[..., None]:
    """A batch write with these options."""

    def run(frame: Any, mode: str = "append", **options: object) -> None:
        writer = frame.write.format("amqp").option("url", broker.url)
        for key, value in options.items():
            writer = writer.option(key, str(value))
        writer.mode(mode).save()

    return run


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    """A folder for a query's checkpoint."""
    return str(tmp_path / "checkpoint")
