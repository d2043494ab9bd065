"""Filters of a query that say what need not be read."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from proton import Message

from tests.interop.broker_process import BrokerProcess, Instance, start_broker
from tests.spark.conftest import Reader, send
from tests.spark.test_times import NOTED, between

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)
from pyspark.sql.types import LongType, StructField, StructType

from artemis_py.spark.options import read_options
from artemis_py.spark.pushdown import Cut
from artemis_py.spark.receiving import Range
from artemis_py.spark.source import PushdownRangeReader, RangePartition, batch_reader

SCHEMA = StructType([StructField("sequence", LongType())])
FLAG = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One that notes when messages arrive, of some addresses."""
    process = start_broker(Instance(persistence="true", settings=NOTED), tmp_path_factory.mktemp("broker"))
    yield process
    process.stop()


@pytest.fixture
def pushing(spark: Any) -> Iterator[None]:
    """Spark pushes filters while a test runs."""
    spark.conf.set(FLAG, "true")
    yield
    spark.conf.unset(FLAG)


def planned(broker: BrokerProcess, queues: str, *filters: Filter) -> list[tuple[str, int, int]]:
    """What is read under these filters."""
    options = read_options({"url": broker.url, "mode": "browse", "queue": queues, "pushdown": "true"})
    reader = batch_reader(options, SCHEMA)
    assert isinstance(reader, PushdownRangeReader)
    assert list(reader.pushFilters(list(filters))) == list(filters)
    parts = [partition.part for partition in reader.partitions() if isinstance(partition, RangePartition)]
    return [(part.queue, part.start, part.stop) for part in parts]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([EqualTo(("sequence",), 4)], [("a", 4, 5), ("b", 4, 5)]),
        ([GreaterThan(("sequence",), 4), LessThanOrEqual(("sequence",), 6)], [("a", 5, 7), ("b", 5, 7)]),
        ([GreaterThanOrEqual(("sequence",), 4), LessThan(("sequence",), 6)], [("a", 4, 6), ("b", 4, 6)]),
        ([In(("sequence",), (3, 8))], [("a", 3, 9), ("b", 3, 9)]),
        ([GreaterThan(("sequence",), 99)], []),
        ([EqualTo(("queue",), "b")], [("b", 1, 11)]),
        ([In(("address",), ("b", "c")), EqualTo(("queue",), "a")], []),
        ([EqualTo(("queue",), "a"), In(("queue",), ("a", "b"))], [("a", 1, 11)]),
        ([IsNotNull(("sequence",)), Not(EqualTo(("queue",), "a"))], [("a", 1, 11), ("b", 1, 11)]),
        ([EqualTo(("sequence", "part"), 4)], [("a", 1, 11), ("b", 1, 11)]),
        ([GreaterThan(("enqueued_time",), "text"), In(("sequence",), (None, 3))], [("a", 1, 11), ("b", 1, 11)]),
    ],
)
def test_filters_narrow_what_is_read(filters: list[Filter], expected: list[tuple[str, int, int]]) -> None:
    """And what is not understood leaves it as it was."""
    parts = [Range(address=name, queue=name, queue_id=1, start=1, stop=11) for name in "ab"]
    cut = Cut()
    for filter in filters:
        cut = cut.narrowed(filter)

    assert [(part.queue, part.start, part.stop) for part in cut.apply(parts)] == expected


def test_times_are_looked_up(broker: BrokerProcess, name: str) -> None:
    """In milliseconds, outwards: Spark looks at each message again."""
    address = f"noted.{name}"
    middle = datetime.fromtimestamp(between(broker, address) / 1000, UTC)

    assert planned(broker, address, GreaterThan(("enqueued_time",), middle)) == [(address, 11, 21)]
    assert planned(broker, address, LessThan(("enqueued_time",), middle)) == [(address, 1, 11)]
    assert planned(broker, address, EqualTo(("enqueued_time",), middle)) == []


def test_times_that_are_not_noted_leave_nothing_out(broker: BrokerProcess, name: str) -> None:
    send(broker, name, [Message(body="x")])

    assert planned(broker, name, GreaterThan(("enqueued_time",), datetime.now(UTC))) == [(name, 1, 2)]


def test_a_query_reads_what_it_wants_and_no_more(broker: BrokerProcess, read: Reader, pushing: None, name: str) -> None:
    """Results are those without it."""
    one, two = f"noted.{name}.1", f"noted.{name}.2"
    send(broker, one, [Message(body="x") for _ in range(10)])
    middle = between(broker, two)
    frame = read(mode="browse", queue=f"{one},{two}", pushdown=True, columns="queue,sequence,enqueued_time")
    instant = datetime.fromtimestamp(middle / 1000, UTC).isoformat()

    some = frame.where(f"queue = '{two}' AND sequence BETWEEN 3 AND 8 AND sequence % 2 = 0")
    late = frame.where(f"enqueued_time > '{instant}'")

    assert some.rdd.getNumPartitions() == 1
    assert sorted(row.sequence for row in some.collect()) == [4, 6, 8]
    assert late.rdd.getNumPartitions() == 1
    assert sorted((row.queue, row.sequence) for row in late.collect()) == [(two, n) for n in range(11, 21)]


def test_spark_says_which_setting_is_missing(broker: BrokerProcess, read: Reader, name: str) -> None:
    send(broker, name, [Message(body="x")])

    with pytest.raises(Exception, match=rf"PushdownRangeReader.*{FLAG}"):
        read(mode="browse", queue=name, pushdown=True).count()
