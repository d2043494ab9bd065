"""The columns of the source: their Spark types, which of them a query wants, and Arrow batches of them."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from artemis_py.spark.decoding import HEADER_COLUMNS, PROPERTIES_COLUMNS, Rows
from artemis_py.spark.errors import InvalidOption
from artemis_py.spark.kafka_names import column_hint

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

COLUMNS: Final[Mapping[str, str]] = {
    "address": "string",
    "queue": "string",
    "sequence": "bigint",
    "enqueued_time": "timestamp",
    "body": "binary",
    "body_type": "string",
    "message_id": "string",
    "correlation_id": "string",
    "user_id": "string",
    "to": "string",
    "subject": "string",
    "reply_to": "string",
    "content_type": "string",
    "content_encoding": "string",
    "group_id": "string",
    "group_sequence": "bigint",
    "creation_time": "timestamp",
    "expiry_time": "timestamp",
    "durable": "boolean",
    "priority": "int",
    "ttl_ms": "bigint",
    "delivery_count": "bigint",
    "properties": "map<string,string>",
    "annotations": "map<string,string>",
    "message": "binary",
    "properties_json": "string",
    "body_json": "string",
    "error": "string",
}
"""Types of the columns by name, as Spark's SQL spells them."""

DERIVED: Final = frozenset(("properties_json", "body_json", "error"))
"""Columns with another form of what others have, or with the reason why a message could not be decoded."""
NOT_BY_DEFAULT: Final = frozenset(("message", *DERIVED))
"""Columns that a query must ask for: they would transfer every octet a second time, or cost time for each message."""

_ALSO: Final[Mapping[str, str]] = {"body": "string"}
"""Other types that a query's own schema may give a column: octets are then read as UTF-8."""


def schema_text(names: Iterable[str] = ()) -> str:
    """Return the schema of a source; without `names`, the default columns. Raises InvalidOption for an unknown name."""
    chosen = tuple(names) or tuple(name for name in COLUMNS if name not in NOT_BY_DEFAULT)
    unknown = [name for name in chosen if name not in COLUMNS]
    if unknown:
        raise InvalidOption(
            f"option columns: there is no column {unknown[0]!r}; the columns are {', '.join(COLUMNS)}"
            f"{column_hint(unknown[0])}"
        )
    return ", ".join(f"`{name}` {COLUMNS[name]}" for name in chosen)


def check_schema(schema: "StructType") -> None:
    """Raise InvalidOption unless a query's own schema is a selection of our columns."""
    for field in schema.fields:
        wanted = field.dataType.simpleString()
        known = COLUMNS.get(field.name)
        if known is None:
            raise InvalidOption(
                f"the source has no column {field.name!r}; it has {', '.join(COLUMNS)}{column_hint(field.name)}"
            )
        if wanted not in (known, _ALSO.get(field.name)):
            raise InvalidOption(f"column {field.name!r} is {known}, not {wanted}")


class BatchBuilder:
    """Builder of Arrow batches in the schema of one query, for messages of one queue."""

    def __init__(self, schema: "StructType", address: str, queue: str) -> None:
        self.wanted: Final = frozenset(schema.names)
        self._constants: Final = {"address": address, "queue": queue}
        self._schema: Final = arrow_schema(schema)
        self.has_error: Final = "error" in self.wanted
        """Whether a message that cannot be decoded becomes a row with the reason."""
        self._has_text: Final = any(field.name == "body" and field.type == "string" for field in self._schema)

    def rows(self) -> Rows:
        """Return empty columns for the next batch."""
        return Rows(self.wanted & frozenset((*_DECODED, *HEADER_COLUMNS, *PROPERTIES_COLUMNS)))

    def row_without_text(self, rows: Rows) -> int | None:
        """Return the first row whose body should be text and is not UTF-8; None if there is no such row."""
        if not self._has_text:
            return None
        bodies = rows.columns["body"]
        if all(type(body) is bytes and body.isascii() for body in bodies):
            return None
        return next((row for row, body in enumerate(bodies) if isinstance(body, bytes) and not _is_text(body)), None)

    def set_aside_text(self, rows: Rows) -> None:
        """Replace bodies that should be text and are not UTF-8 by null, and note the reason in the column `error`."""
        bodies, errors = rows.columns["body"], rows.columns["error"]
        for row, body in enumerate(bodies):
            if isinstance(body, bytes) and not _is_text(body):
                bodies[row] = None
                errors[row] = "the body is not UTF-8"

    def build(self, rows: Rows) -> "pa.RecordBatch":
        """Return one batch; bodies that should be text must be UTF-8."""
        import pyarrow as pa

        arrays = [self._array(rows, field) for field in self._schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _array(self, rows: Rows, field: Any) -> "pa.Array":
        import pyarrow as pa

        name = field.name
        if name == "address" and rows.addresses:
            return pa.array([rows.addresses.get(row, self._constants[name]) for row in range(rows.count)], pa.string())
        if name in self._constants:
            return pa.repeat(pa.scalar(self._constants[name], pa.string()), rows.count)
        if name == "sequence":
            return pa.array([None if number < 0 else number for number in rows.sequences], pa.int64())
        if name in rows.ends:
            return pa.MapArray.from_arrays(
                pa.array(rows.ends[name], pa.int32()),
                pa.array(rows.keys[name], pa.string()),
                pa.array(rows.items[name], pa.string()),
                type=field.type,
            )
        if name == "body" and field.type == pa.string():
            return pa.array(rows.columns[name], pa.binary()).cast(pa.string())
        values = rows.columns[name]
        repeated = _repeated(values, field.type)
        return pa.array(values, field.type) if repeated is None else repeated


def _repeated(values: list[object], kind: Any) -> "pa.Array | None":
    """Return the array of a column with the same value in all rows, as many have; None if they differ."""
    import pyarrow as pa

    first = values[0] if values else None
    if not values or values[-1] is not first or values.count(first) < len(values):
        return None
    return pa.nulls(len(values), kind) if first is None else pa.repeat(pa.scalar(first, kind), len(values))


def _is_text(octets: bytes) -> bool:
    try:
        octets.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


_DECODED: Final = (
    "address",
    "enqueued_time",
    "body",
    "body_type",
    "properties",
    "annotations",
    "message",
    *sorted(DERIVED),
)


def arrow_schema(schema: "StructType") -> "pa.Schema":
    """Return the schema with which Spark compares the first batch: names, types, nullability."""
    import pyarrow as pa

    types = {
        "string": pa.string(),
        "bigint": pa.int64(),
        "int": pa.int32(),
        "boolean": pa.bool_(),
        "binary": pa.binary(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "map<string,string>": pa.map_(pa.field("key", pa.string(), nullable=False), pa.field("value", pa.string())),
    }
    return pa.schema(
        [pa.field(field.name, types[field.dataType.simpleString()], nullable=field.nullable) for field in schema.fields]
    )
