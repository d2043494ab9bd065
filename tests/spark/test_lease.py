"""One query per subscription: of two each would acknowledge what the other has not read."""

from pathlib import Path
from typing import Any

import pytest

from tests.interop.broker_process import BrokerProcess
from tests.spark.conftest import ask, message_count, send
from tests.spark.test_stream import finish, numbered, source, subscribe, to_files

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import LongType, StructField, StructType

from artemis_py.spark.errors import Refused
from artemis_py.spark.options import read_options
from artemis_py.spark.stream_source import RangeStreamReader, stream_reader

SCHEMA = StructType([StructField("sequence", LongType())])


def reader(broker: BrokerProcess, address: str, **options: str) -> RangeStreamReader:
    """The source as the driver has it."""
    given = {"url": broker.url, "address": address, "subscription": "lake", **options}
    return stream_reader(read_options(given), SCHEMA)


def begun(one: RangeStreamReader) -> dict[str, Any]:
    """Behind the first batch, which is empty, and before the next."""
    start = one.initialOffset()
    one.latestOffset(start, ReadAllAvailable())
    return start


def test_the_second_query_is_refused_and_told_which_is_the_first(
    spark: Any, broker: BrokerProcess, name: str, tmp_path: Path, checkpoint: str
) -> None:
    """It fails before it acknowledges anything; the first goes on."""
    queue = subscribe(broker, name)
    send(broker, name, numbered(0, 10))
    first = reader(broker, name)
    start = begun(first)
    first.latestOffset(start, ReadAllAvailable())

    with pytest.raises(Exception, match=f"queue '{queue}' is leased to reader {start['reader']} of user"):
        finish(to_files(source(spark, broker, name), tmp_path), checkpoint)
    assert message_count(broker, queue) == 10
    first.latestOffset(start, ReadAllAvailable())


def test_a_query_that_is_started_again_goes_on_at_once(broker: BrokerProcess, name: str) -> None:
    """Its process was killed: the reader is in its checkpoint."""
    subscribe(broker, name)
    first = reader(broker, name)
    start = begun(first)
    first.latestOffset(start, ReadAllAvailable())
    send(broker, name, numbered(0, 10))

    end = reader(broker, name).latestOffset(start, ReadAllAvailable())

    assert end["reader"] == start["reader"]
    assert end["q"] != start["q"]


def test_a_run_that_ends_makes_room(
    spark: Any, broker: BrokerProcess, name: str, tmp_path: Path, checkpoint: str
) -> None:
    subscribe(broker, name)
    send(broker, name, numbered(0, 10))
    finish(to_files(source(spark, broker, name), tmp_path), checkpoint)
    second = reader(broker, name)

    second.latestOffset(begun(second), ReadAllAvailable())


def test_a_query_that_fails_makes_room(broker: BrokerProcess, name: str) -> None:
    """Spark stops a reader after an error."""
    queue = subscribe(broker, name)
    first = reader(broker, name)
    start = begun(first)
    first.latestOffset(start, ReadAllAvailable())
    first.stop()
    second = reader(broker, name)
    taken = begun(second)
    second.latestOffset(taken, ReadAllAvailable())

    with pytest.raises(Refused, match=f"leased to reader {taken['reader']}"):
        first.latestOffset(start, ReadAllAvailable())
    first.stop()
    assert ask(broker, "reader", "release", {"queues": [queue], "holder": taken["reader"]}) == 1


@pytest.mark.parametrize("options", [{"ack": "none"}, {"subscription": "river"}])
def test_who_is_in_nobodys_way_is_not_refused(broker: BrokerProcess, name: str, options: dict[str, str]) -> None:
    """A query that acknowledges nothing, or has a subscription of its own."""
    subscribe(broker, name)
    first = reader(broker, name)
    first.latestOffset(begun(first), ReadAllAvailable())

    second = reader(broker, name, **options)

    second.latestOffset(begun(second), ReadAllAvailable())
