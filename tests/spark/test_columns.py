"""Arrow batches of decoded columns: every type, and columns with one value in all rows."""

import pytest

pa = pytest.importorskip("pyarrow", reason="pip install 'artemis-py-broker[spark]'")
types = pytest.importorskip("pyspark.sql.types", reason="pip install 'artemis-py-broker[spark]'")

from artemis_py.spark.columns import BatchBuilder  # noqa: E402

SCHEMA = types.StructType(
    [
        types.StructField("subject", types.StringType()),
        types.StructField("durable", types.BooleanType()),
        types.StructField("priority", types.IntegerType()),
        types.StructField("expiry_time", types.TimestampType()),
        types.StructField("body", types.BinaryType()),
    ]
)


@pytest.mark.parametrize(
    "values",
    [
        [("s", True, 4, 5_000, b"b")] * 3,
        [(None, False, 4, None, None)] * 3,
        [("s", True, 4, 5_000, b"b"), ("t", False, 5, 6_000, b"c"), ("s", True, 4, 5_000, b"b")],
        [(None, False, 0, None, None), ("t", True, 4, 7_000, b"b"), (None, False, 0, None, None)],
        [],
    ],
)
def test_a_column_has_the_values_of_its_rows(values: list[tuple[object, ...]]) -> None:
    builder = BatchBuilder(SCHEMA, "a", "q")
    rows = builder.rows()
    for row in values:
        for name, value in zip(SCHEMA.names, row, strict=True):
            rows.columns[name].append(value)
    rows.count = len(values)

    batch = builder.build(rows)

    assert [field.type for field in batch.schema] == [
        pa.string(), pa.bool_(), pa.int32(), pa.timestamp("us", tz="UTC"), pa.binary()
    ]  # fmt: skip
    found = [
        column.cast(pa.int64()).to_pylist() if index == 3 else column.to_pylist() for index, column in enumerate(batch)
    ]
    assert list(zip(*found, strict=True)) == values
