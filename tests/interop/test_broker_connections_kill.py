"""`kill -9` of either broker while messages go from one to the other: none is lost, doubled or out of order."""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner
from proton import Message

from artemis_py.cli import main
from artemis_py.cli.client import Target
from artemis_py.cli.manage import call
from tests.interop.broker_process import BrokerProcess, Instance, launch
from tests.interop.proton.client import Client

MESSAGES: Final = 10_000
FETCHED: Final = 500
KILLS: Final = 3
"""Of the broker that sends, of the same at work, and of the one that takes."""
QUEUES: Final = "".join(f'<address name="{name}"><anycast><queue name="{name}"/></anycast></address>' for name in "st")
NO_SECURITY: Final = "<security-enabled>false</security-enabled>"
PATIENCE_S: Final = 90

pytestmark = pytest.mark.timeout(300)


def free_port() -> int:
    """A port that nobody uses now; the brokers keep theirs through kills."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def begin(folder: Path, port: int, core: str = "") -> BrokerProcess:
    """A broker with a store, on this port."""
    Instance(core=NO_SECURITY + core, persistence="true", addresses=QUEUES).write(folder)
    file = folder / "etc" / "broker.xml"
    file.write_text(file.read_text().replace("tcp://127.0.0.1:0?", f"tcp://127.0.0.1:{port}?"))
    return launch(folder)


def fill(broker: BrokerProcess, queue: str, count: int) -> list[str]:
    """Send messages, which are stored when this returns; their bodies."""
    arguments = ["producer", "--url", broker.url, "--destination", f"queue://{queue}", "--message", "{n}"]
    done = CliRunner().invoke(main, [*arguments, "--message-count", str(count)])
    assert done.exit_code == 0, done.output
    return [str(number) for number in range(1, count + 1)]


def fill_with_ids(broker: BrokerProcess, queue: str, count: int) -> list[str]:
    """The same, for messages by whose ids a broker knows those that it has."""
    bodies = [str(number) for number in range(count)]
    with Client(broker.url) as client:
        sender = client.sender(queue)
        sent = [
            sender.start(Message(body=body, durable=True, properties={"_AMQ_DUPL_ID": f"{queue} {body}"}))
            for body in bodies
        ]
        for each in sent:
            sender.wait(each)
    return bodies


def ask(broker: BrokerProcess, resource: str, operation: str) -> Any:
    """The result of an operation."""
    return call(Target(url=broker.url, user=None, password=None), resource, operation)


def drained(broker: BrokerProcess, queue: str) -> list[object]:
    """What is in a queue, in order."""
    found: list[object] = []
    with Client(broker.url) as client:
        receiver = client.receiver(queue)
        while batch := receiver.bodies():
            found += batch
    return found


@contextmanager
def two(folder: Path, core: str) -> Iterator[dict[str, BrokerProcess]]:
    """Two brokers; `core` of the first has {port} for the port of the second. What still runs at the end is killed."""
    brokers = {"there": begin(folder / "there", free_port())}
    try:
        brokers["here"] = begin(folder / "here", free_port(), core.format(port=brokers["there"].port))
        yield brokers
    finally:
        for each in brokers.values():
            if each.process.poll() is None:
                each.kill()


def test_nothing_is_lost_doubled_or_out_of_order_if_either_broker_is_killed(tmp_path: Path) -> None:
    """In turn, while `s` is sent and `t` is received. The messages of `t` have ids of their producer."""
    connection = (
        '<broker-connections><amqp-connection name="c" uri="tcp://127.0.0.1:{port}" retry-interval="20" '
        'auto-start="false"><sender queue-name="s"/><receiver queue-name="t"/></amqp-connection></broker-connections>'
    )
    with two(tmp_path, connection) as brokers:

        def count(name: str, queue: str) -> int:
            return int(ask(brokers[name], f"queue.{queue}", "getMessageCount"))

        fetched = fill_with_ids(brokers["there"], "t", FETCHED)
        sent = fill(brokers["here"], "s", MESSAGES)
        file = brokers["here"].directory / "etc" / "broker.xml"
        file.write_text(file.read_text().replace('auto-start="false"', 'auto-start="true"'))
        killed = 0
        end = time.monotonic() + PATIENCE_S
        while (came := count("there", "s")) < MESSAGES or count("here", "s"):
            assert time.monotonic() < end, f"{came} of {MESSAGES} messages came"
            # The first kill has the connection begin, the others find it at work.
            if killed < KILLS and came > MESSAGES * (killed - 1) // KILLS:
                victim = ("here", "there")[killed and (killed + 1) % 2]
                brokers[victim].kill()
                brokers[victim] = launch(brokers[victim].directory)
                killed += 1
        while count("there", "t") or count("here", "t") < FETCHED:
            assert time.monotonic() < end, "not all messages of t came"

        assert killed == KILLS
        assert drained(brokers["there"], "s") == sent
        assert drained(brokers["here"], "t") == fetched
        for each in brokers.values():
            each.stop()
