"""The Spark connector against Apache Artemis: what another broker can do for it, and what it says of the rest."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from proton import Message, symbol
from proton.reactor import SenderOption
from proton.utils import BlockingConnection

from tests.interop.peer.conftest import PASSWORD, USER
from tests.spark.test_stream import finish, to_files

pytestmark = pytest.mark.timeout(600)

Drain = Callable[..., Any]
Write = Callable[..., None]


class ToQueue(SenderOption):  # type: ignore[misc]
    """Without this capability Artemis makes an address whose messages go to subscribers only."""

    def apply(self, link: Any) -> None:
        link.target.capabilities.put_object(symbol("queue"))


@contextmanager
def connected(artemis: str) -> Iterator[BlockingConnection]:
    """Proton, as the client of somebody else."""
    connection = BlockingConnection(artemis, user=USER, password=PASSWORD, allow_insecure_mechs=True, timeout=30)
    yield connection
    connection.close()


def send(artemis: str, queue: str, messages: list[Message]) -> None:
    with connected(artemis) as connection:
        sender = connection.create_sender(queue, options=ToQueue())
        for message in messages:
            sender.send(message)


def receive(artemis: str, queue: str, number: int) -> list[Message]:
    with connected(artemis) as connection:
        receiver = connection.create_receiver(queue, credit=number)
        messages = []
        for _ in range(number):
            messages.append(receiver.receive(timeout=30))
            receiver.accept()
    return messages


@pytest.mark.parametrize("settle", ["after", "before"])
@pytest.mark.parametrize("tasks", [1, 2])
def test_what_was_written_is_drained_without_a_loss(
    spark: Any, drain: Drain, write: Write, name: str, settle: str, tasks: int
) -> None:
    """More than a round of credit. Of two tasks one can end while Artemis holds messages for the other: they stay."""
    numbered = spark.range(0, 5000, 1, 2).selectExpr("cast(id AS string) AS body")
    write(numbered, name, idempotence="none")

    taken = drain(name, "body string", minPartitions=tasks, settle=settle, credit=700).collect()
    left = drain(name, "body string").collect()

    assert sorted(int(row.body) for row in (*taken, *left)) == list(range(5000))
    assert tasks == 2 or not left


def test_types_survive_both_ways(spark: Any, artemis: str, drain: Drain, write: Write, name: str) -> None:
    """A property of each type that the map may have, and one message that Artemis keeps in a file of its own."""
    row = "'text' AS body, 'm-1' AS message_id, 'c-1' AS correlation_id, 'subject' AS subject, 7 AS priority"
    write(spark.sql(f"SELECT {row}, map('n', 5L) AS properties"), name, idempotence="none")
    write(spark.sql(f"SELECT {row}, map('d', 2.5D) AS properties"), name, idempotence="none")
    write(spark.sql(f"SELECT {row}, map('b', true) AS properties"), name, idempotence="none")
    write(spark.sql("SELECT cast(repeat('x', 300000) AS binary) AS body"), name, idempotence="none")

    first, second, third, large = receive(artemis, name, 4)

    assert (first.body, first.id, first.correlation_id, first.subject) == ("text", "m-1", "c-1", "subject")
    assert (first.priority, first.durable) == (7, True)
    assert [one.properties for one in (first, second, third)] == [{"n": 5}, {"d": 2.5}, {"b": True}]
    assert bytes(large.body) == b"x" * 300_000

    send(artemis, name, [first, large])
    (row, big) = sorted(drain(name).collect(), key=lambda row: len(row.body))
    assert (bytes(row.body), row.body_type, row.message_id, row.priority) == (b"text", "string", "m-1", 7)
    assert (row.properties, row.queue) == ({"n": "5"}, name)
    assert bytes(big.body) == b"x" * 300_000


def test_a_selector_takes_what_fits(artemis: str, drain: Drain, name: str) -> None:
    colours = [Message(body=str(i), properties={"colour": ("red", "blue")[i % 2]}) for i in range(10)]
    send(artemis, name, colours)

    red = drain(name, "body string", selector="colour = 'red'").collect()

    assert sorted(row.body for row in red) == ["0", "2", "4", "6", "8"]
    assert drain(name).count() == 5


def test_a_stream_spools_a_queue(
    spark: Any, login: dict[str, str], drain: Drain, write: Write, name: str, tmp_path: Path
) -> None:
    """Each message once, in its order, in batches with a limit."""
    write(spark.range(0, 2000, 1, 1).selectExpr("cast(id AS string) AS body"), name, idempotence="none")
    source = spark.readStream.format("amqp").options(
        **login, mode="spool", queue=name, spoolDir=str(tmp_path / "spool")
    )
    source = source.option("maxMessagesPerTrigger", "900").schema("sequence bigint, body string")

    batches = finish(to_files(source.load(), tmp_path), str(tmp_path / "checkpoint"))

    rows = spark.read.parquet(str(tmp_path / "out")).orderBy("sequence").collect()
    assert [int(row.body) for row in rows] == list(range(2000))
    assert [count for count in batches if count] == [900, 900, 200]
    assert drain(name).count() == 0


def test_rows_as_json(spark: Any, artemis: str, write: Write, name: str) -> None:
    write(spark.sql("SELECT 1 AS a, array('x', 'ü') AS b"), name, payload="json", idempotence="none")

    (message,) = receive(artemis, name, 1)

    assert json.loads(bytes(message.body)) == {"a": 1, "b": ["x", "ü"]}
    assert message.content_type == "application/json"


@pytest.mark.parametrize(("idempotence", "number"), [("none", 20), ("column", 10)])
def test_a_job_that_runs_twice(
    spark: Any, drain: Drain, write: Write, name: str, idempotence: str, number: int
) -> None:
    """Artemis knows ids of duplicate detection, by its own name of the property."""
    rows = spark.range(10).selectExpr("cast(id AS string) AS body", f"concat('{name}', id) AS duplicate_id")
    for _ in range(2):
        write(rows if idempotence == "column" else rows.drop("duplicate_id"), name, idempotence=idempotence)

    assert drain(name).count() == number


def test_without_a_word_about_idempotence_it_writes_at_least_once(
    spark: Any, drain: Drain, write: Write, name: str
) -> None:
    write(spark.sql("SELECT 'x' AS body"), name)

    assert drain(name).count() == 1


def test_what_it_has_not_is_refused_in_clear_words(spark: Any, login: dict[str, str], write: Write, name: str) -> None:
    """Neither stages nor numbers."""
    write(spark.sql("SELECT 'x' AS body"), name)

    def read(**options: str) -> None:
        spark.read.format("amqp").options(**login, **options).load().count()

    with pytest.raises(Exception, match=r"mode=browse needs a broker that numbers messages.*mode=drain"):
        read(mode="browse", queue=name)
    with pytest.raises(Exception, match=r"mode=subscription needs a broker that numbers messages.*mode=drain"):
        read(mode="subscription", subscription="s", address=name)
    with pytest.raises(Exception, match="no staged writes: idempotence=epoch is not possible"):
        write(spark.sql("SELECT 'x' AS body"), name, idempotence="epoch")


def test_a_wrong_password_is_told_at_once(spark: Any, login: dict[str, str], name: str) -> None:
    wrong = {**login, "password": "wrong", "mode": "drain", "queue": name}

    with pytest.raises(Exception, match=r"login|password") as raised:
        spark.read.format("amqp").options(**wrong).load().count()

    assert "'wrong'" not in str(raised.value)
