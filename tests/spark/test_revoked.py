"""What is taken away from a query while it runs: its queue, its permission, its user, its broker, its checkpoint.

The broker takes over changed files of users and roles by itself; who is logged in keeps the roles he came with. A query
makes new connections all the time, so it learns of it with the next batch at the latest.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from proton import Message

from tests.interop.broker_process import BrokerProcess, Instance, launch, start_broker
from tests.spark.conftest import ask, message_count, receive, send
from tests.spark.test_failures import TEXT, bodies, browse, start, whole

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

import pyarrow as pa
from attrs import evolve
from pyspark.sql.streaming.datasource import ReadAllAvailable

from artemis_py.spark.errors import DataLoss, Refused
from artemis_py.spark.options import read_options, write_options
from artemis_py.spark.planning import Planner
from artemis_py.spark.reading import read_range
from artemis_py.spark.sink import Sent, commit_epoch, write_rows
from artemis_py.spark.stream_source import stream_reader

# A role for each permission, so that one of them can be taken.
KINDS: Final = ("send", "browse", "consume", "createNonDurableQueue", "createDurableQueue", "createAddress")
GRANTS: Final = "".join(f'<permission type="{kind}" roles="{kind}s"/>' for kind in KINDS)
ASKERS: Final = GRANTS.replace('"sends"', '"askers"')
SECURITY: Final = f"""
<security-settings>
  <security-setting match="#">{GRANTS}</security-setting>
  <security-setting match="activemq.management">{ASKERS}</security-setting>
</security-settings>
"""
LOGIN: Final = {"user": "u", "password": "secret-1", "retryDelay": "100ms"}
WAIT_S: Final = 60.0


def batch(start: int, stop: int, padding: int = 0) -> Any:
    return pa.RecordBatch.from_pydict({"body": [f"{number:06d}" + padding * "x" for number in range(start, stop)]})


def numbers(texts: list[Any]) -> list[int]:
    return [int(text[:6]) for text in texts]


# -- the queue -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fails", [True, False])
def test_a_queue_that_is_deleted_while_it_is_read_is_a_loss(broker: BrokerProcess, name: str, fails: bool) -> None:
    """What was handed out before stays good; the rest is gone, and said so."""
    target = write_options({"url": broker.url, "address": name, "routingType": "anycast", "idempotence": "none"})
    write_rows(target, "w", 0, iter([batch(0, 20_000, 500)]))
    options = evolve(browse(broker, name, credit="100"), fail_on_data_loss=fails)
    part = whole(options)
    batches = read_range(options, TEXT, part)
    found = bodies(iter([next(batches)]))

    ask(broker, "broker", "destroyQueue", name, True)

    if fails:
        with pytest.raises(
            DataLoss, match=rf"{name}::{name} \(queue id {part.queue_id}\) \[1, 20001\) can no longer be read"
        ):
            found += [body for left in batches for body in left.column("body").to_pylist()]
    else:
        found += bodies(batches)
    assert numbers(found) == list(range(len(found)))
    assert len(found) < 20_000


# -- the user and its permissions ------------------------------------------------------------------------------------


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A user `u` who may do all that a query needs."""
    roles = "".join(f"{kind}s = u\n" for kind in (*KINDS, "asker"))
    instance = Instance(persistence="true", core=SECURITY, users="u = secret-1\n", roles=roles)
    process = start_broker(instance, tmp_path)
    yield process
    process.kill()


def revoke(broker: BrokerProcess, kind: str | None = None) -> None:
    """Take a permission, or the user, and wait until the broker has seen it."""
    etc = broker.directory / "etc"
    if kind is None:
        (etc / "artemis-users.properties").write_text("other = secret-2\n", encoding="utf-8")
    else:
        roles = etc / "artemis-roles.properties"
        roles.write_text(roles.read_text(encoding="utf-8").replace(f"{kind}s = u", f"{kind}s = other"))
    broker.reload()
    deadline = time.monotonic() + WAIT_S
    while "users reloaded" not in broker.log_text():
        assert time.monotonic() < deadline, broker.log_text()
        time.sleep(0.05)


def write_secure(broker: BrokerProcess, epoch: int, **options: str) -> Sent:
    given = {"url": broker.url, "address": "orders", "routingType": "multicast", **LOGIN, **options}
    return write_rows(write_options(given), "w", epoch, iter([batch(0, 10)]))


@pytest.mark.parametrize("kind", ["browse", "consume"])
def test_a_stream_whose_permission_goes_is_told_which_and_where(secure: BrokerProcess, kind: str) -> None:
    """In a task that reads, and beside the driver: refused by name, and not tried for ever."""
    options = read_options({"url": secure.url, "address": "orders", "subscription": "lake", **LOGIN})
    reader = stream_reader(options, TEXT)
    begin = reader.initialOffset()
    commit_epoch(write_options({"url": secure.url, **LOGIN}), 0, [write_secure(secure, 0)])
    reader.latestOffset(begin, ReadAllAvailable())
    end = reader.latestOffset(begin, ReadAllAvailable())
    (part,) = reader.partitions(begin, end)

    revoke(secure, kind)

    if kind == "browse":
        where = r"lake\.orders:global \(queue id \d+\) \[1, 11\) cannot be read from 1 on: "
        with pytest.raises(Refused, match=rf"{where}.*'u' lacks permission 'browse'"):
            list(reader.read(part))
    else:
        with pytest.raises(Refused, match=rf"orders.*'u' lacks permission '{kind}'"):
            reader.latestOffset(end, ReadAllAvailable())


def test_a_sink_whose_permission_goes_is_told_which_and_where(secure: BrokerProcess) -> None:
    """While it writes, and when a batch that was written is committed: nothing of it appears."""
    planner = Planner(read_options({"url": secure.url, "address": "orders", "subscription": "lake", **LOGIN}))
    planner.heads()
    sent = write_secure(secure, 0)

    revoke(secure, "send")

    for options in ({}, {"idempotence": "none"}):
        with pytest.raises(Refused, match=r"lacks permission 'send' on .*orders"):
            write_secure(secure, 1, **options)
    with pytest.raises(
        Refused, match=r"epoch 0 of writer w cannot be committed: .*lacks permission 'send' on 'orders'"
    ):
        commit_epoch(write_options({"url": secure.url, **LOGIN}), 0, [sent])


def test_a_user_who_is_removed_can_do_nothing_more(secure: BrokerProcess) -> None:
    """The broker's words, and no word of the password."""
    sent = write_secure(secure, 0)

    revoke(secure)

    refused: list[Callable[[], object]] = [
        lambda: write_secure(secure, 1),
        lambda: commit_epoch(write_options({"url": secure.url, **LOGIN}), 0, [sent]),
        Planner(read_options({"url": secure.url, "address": "orders", "subscription": "lake", **LOGIN})).heads,
    ]
    for attempt in refused:
        with pytest.raises(Refused, match="login failed") as caught:
            attempt()
        assert "secret" not in str(caught.value)


def test_a_running_query_ends_with_the_reason(
    spark: Any, secure: BrokerProcess, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Through Spark, as its user sees it."""
    folder = tmp_path_factory.mktemp("query")
    source = spark.readStream.format("amqp").options(url=secure.url, address="orders", subscription="lake", **LOGIN)
    writer = source.load().writeStream.format("parquet").option("path", str(folder / "out"))
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
    query.processAllAvailable()

    revoke(secure, "createAddress")

    with pytest.raises(Exception, match=r"artemis_py\.spark\.errors\.Refused: orders: .*lacks permission"):
        query.awaitTermination(WAIT_S)
    assert not query.isActive


# -- the broker --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("idempotence", ["epoch", "source"])
def test_writing_goes_on_when_the_broker_is_started_again(tmp_path: Path, idempotence: str) -> None:
    """In the middle of a batch, with messages under way: each is there once."""
    broker = start(tmp_path)
    count = 20_000
    given = {"url": broker.url, "address": "q", "routingType": "anycast", "retries": "20", "retryDelay": "100ms"}
    options = write_options({**given, "idempotence": idempotence})

    def batches() -> Iterator[Any]:
        nonlocal broker
        for begin in range(0, count, 5000):
            if begin == 10_000:
                broker.kill()
                broker = launch(tmp_path)
            numbered = batch(begin, begin + 5000)
            sequences = pa.array(range(begin, begin + 5000))
            yield numbered.append_column("sequence", sequences).append_column("queue", pa.array(["s"] * 5000))

    try:
        commit_epoch(options, 0, [write_rows(options, "w", 0, batches())])
        found = numbers([message.body for message in receive(broker, "q", message_count(broker, "q"))])
    finally:
        broker.stop()
    assert found == list(range(count))


# -- the checkpoint ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fails", [True, False])
def test_a_checkpoint_that_was_rolled_back_is_a_loss(broker: BrokerProcess, name: str, fails: bool) -> None:
    """What it would read again was acknowledged: it says how many, or goes on with what is left."""
    given = {"url": broker.url, "address": name, "subscription": "lake", "failOnDataLoss": str(fails).lower()}
    reader = stream_reader(read_options(given), TEXT)
    begin = reader.initialOffset()
    send(broker, name, [Message(body=f"{number:06d}", durable=True) for number in range(5)])
    reader.latestOffset(begin, ReadAllAvailable())
    end = reader.latestOffset(begin, ReadAllAvailable())
    reader.latestOffset(end, ReadAllAvailable())
    send(broker, name, [Message(body="000005", durable=True)])

    again = stream_reader(read_options(given), TEXT)

    if fails:
        with pytest.raises(DataLoss, match=rf"lake\.{name}:global.*5 .*gone"):
            again.latestOffset(begin, ReadAllAvailable())
    else:
        last = again.latestOffset(begin, ReadAllAvailable())
        texts = [bodies(again.read(part)) for part in again.partitions(begin, last)]
        assert [numbers(text) for text in texts] == [[5]]
