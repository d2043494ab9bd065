"""Reading from a time to a time, as far as the broker notes when messages arrive."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from proton import Message

from tests.interop.broker_process import BrokerProcess, Instance, start_broker
from tests.spark.conftest import send
from tests.spark.test_stream import finish, to_files

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from artemis_py.spark.errors import InvalidOption, Refused
from artemis_py.spark.options import read_options
from artemis_py.spark.planning import Planner
from artemis_py.spark.stream_source import stream_reader

NOTED = """
<address-setting match="noted.#">
  <enable-ingress-timestamp>true</enable-ingress-timestamp>
  <max-read-page-messages>5</max-read-page-messages>
</address-setting>
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One that notes when messages arrive, of some addresses."""
    process = start_broker(Instance(persistence="true", settings=NOTED), tmp_path_factory.mktemp("broker"))
    yield process
    process.stop()


def now_ms() -> int:
    return int(time.time() * 1000)


def between(broker: BrokerProcess, address: str) -> int:
    """Send ten, take the time, send ten; the time is that of none of them."""
    send(broker, address, [Message(body=str(i), durable=True, priority=i % 3 + 3) for i in range(10)])
    sent_ms = now_ms()
    while now_ms() <= sent_ms + 1:
        pass
    middle = now_ms()
    while now_ms() <= middle + 1:
        pass
    send(broker, address, [Message(body=str(i), durable=True, priority=i % 3 + 3) for i in range(10, 20)])
    return middle


def test_a_batch_begins_and_ends_at_a_time(spark: Any, broker: BrokerProcess, name: str) -> None:
    """The start is in it, the end is not, and a time behind all messages finds none."""
    address = f"noted.{name}"
    middle = between(broker, address)

    def bodies(**options: object) -> list[int]:
        reader = spark.read.format("amqp").options(url=broker.url, mode="browse", queue=address, **options)
        return sorted(int(row.body) for row in reader.schema("body string").load().collect())

    assert bodies(startingTimestamp=middle) == list(range(10, 20))
    assert bodies(endingTimestamp=middle) == list(range(10))
    assert bodies(startingTimestamp=middle, endingTimestamp=now_ms() + 60_000) == list(range(10, 20))
    assert bodies(startingTimestamp=now_ms() + 60_000) == []


def test_a_stream_begins_at_a_time(
    spark: Any, broker: BrokerProcess, name: str, tmp_path: Any, checkpoint: str
) -> None:
    address = f"noted.{name}"
    middle = between(broker, address)
    reader = spark.readStream.format("amqp").options(
        url=broker.url, mode="browse", queue=address, startingTimestamp=middle
    )

    finish(to_files(reader.schema("body string").load(), tmp_path), checkpoint)

    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted(int(row.body) for row in rows) == list(range(10, 20))


def test_a_broker_that_notes_no_times_says_which_setting_does(broker: BrokerProcess, name: str) -> None:
    send(broker, name, [Message(body="x")])
    planner = Planner(
        read_options({"url": broker.url, "mode": "browse", "queue": name, "startingTimestamp": "2020-01-01"})
    )

    with pytest.raises(Refused, match=f"when messages of '{name}' arrived .*needs enable-ingress-timestamp"):
        planner.start(planner.heads())


def test_more_queues_than_one_request_searches_are_searched(broker: BrokerProcess, name: str) -> None:
    """In requests of a hundred."""
    names = [f"noted.{name}.{number}" for number in range(103)]
    for each in names[-2:]:
        between(broker, each)
    for each in names[:-2]:
        send(broker, each, [Message(body="x", durable=True)])
    planner = Planner(
        read_options(
            {"url": broker.url, "mode": "browse", "addressPattern": f"noted.{name}.#", "startingTimestamp": "0"}
        )
    )

    start = planner.start(planner.heads())

    assert len(start.positions) == 103
    assert {position.next for position in start.positions.values()} == {1}


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("1700000000000", 1_700_000_000_000),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000),
        ("2023-11-14 22:13:20", 1_700_000_000_000),
        ("2023-11-14T23:13:20.5+01:00", 1_700_000_000_500),
    ],
)
def test_times_are_milliseconds_or_text(text: str, time_ms: int) -> None:
    """Without a zone they are in UTC."""
    assert read_options({"mode": "browse", "queue": "q", "startingTimestamp": text}).starting_timestamp_ms == time_ms


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"startingTimestamp": "yesterday"}, "milliseconds since 1970, or a time like"),
        ({"startingTimestamp": "0", "startingOffsets": "latest"}, "startingOffsets and startingTimestamp: give one"),
        ({"endingTimestamp": "0", "endingOffsets": "{}"}, "endingOffsets and endingTimestamp: give one"),
        ({"endingTimestamp": "0", "mode": "drain"}, "takes what is in the queues"),
    ],
)
def test_times_that_cannot_be_meant_are_refused(given: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidOption, match=reason):
        read_options({"mode": "browse", "queue": "q", **given})


def test_a_stream_has_no_end() -> None:
    options = read_options({"mode": "browse", "queue": "q", "endingTimestamp": "0"})

    with pytest.raises(InvalidOption, match="a stream has no end"):
        stream_reader(options, None)
