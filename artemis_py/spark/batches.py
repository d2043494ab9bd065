"""Arrow batches as messages: which columns a sink takes, and their values for `encoding`.

A value that a field of a message cannot have is refused with its row and column before anything of the batch is sent:
a priority of 12 or a time to live of 60 days would otherwise become something else.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from artemis_amqp.client import Properties, Symbol, encode, header_bytes
from artemis_py.spark.columns import DERIVED
from artemis_py.spark.encoding import DATA, DEFAULT_PRIORITY, TEXT, WHOLE, Encoded, Payloads, RowEncoder, data_section
from artemis_py.spark.errors import InvalidOption, SendFailed
from artemis_py.spark.json_columns import not_json, row_writer
from artemis_py.spark.kafka_names import column_hint
from artemis_py.spark.options import WriteOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

_TEXTS: Final = (
    "message_id",
    "correlation_id",
    "to",
    "subject",
    "reply_to",
    "content_type",
    "content_encoding",
    "group_id",
)

_INTEGERS: Final = ("bigint", "int", "smallint", "tinyint")
_TIMES: Final = ("timestamp",)
_PROPERTY_VALUES: Final = ("string", "bigint", "int", "double", "boolean")

COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "body": ("binary", "string"),
    "message": ("binary",),
    **dict.fromkeys(_TEXTS, ("string",)),
    "user_id": ("string", "binary"),
    "group_sequence": _INTEGERS,
    "creation_time": _TIMES,
    "expiry_time": _TIMES,
    "durable": ("boolean",),
    "priority": _INTEGERS,
    "ttl_ms": _INTEGERS,
    "properties": tuple(f"map<string,{value}>" for value in _PROPERTY_VALUES),
    "address": ("string",),
    "duplicate_id": ("string",),
    "delay_ms": _INTEGERS,
    "scheduled_time": _TIMES,
}
"""Columns that a sink understands, and the types that each may have."""

OUTSIDE_OF_MESSAGE: Final = frozenset(
    ("address", "durable", "priority", "ttl_ms", "delay_ms", "scheduled_time", "duplicate_id", "queue", "sequence")
)
"""Columns that matter for a message that is sent as it is encoded."""

PAYLOAD_COLUMNS: Final = ("body", "message")

SOURCE_ONLY: Final = frozenset(
    ("queue", "sequence", "enqueued_time", "body_type", "delivery_count", "annotations", *DERIVED)
)
"""Columns of a source that a sink ignores, so that what a source reads can be written back."""

MAX_UINT: Final = 2**32 - 1
MAX_LONG: Final = 2**63 - 1

_RANGES: Final[dict[str, tuple[int, int, str]]] = {
    "priority": (0, 9, ""),
    "ttl_ms": (0, MAX_UINT, "; the column expiry_time has no such limit"),
    "group_sequence": (0, MAX_UINT, ""),
    "delay_ms": (0, MAX_LONG, ""),
    "scheduled_time": (0, MAX_LONG, ""),
    # For a broker, 0 means that a message has no end.
    "expiry_time": (1, MAX_LONG, ""),
}
"""Smallest and largest value of columns that are numbers, and what an error adds. Times are in milliseconds."""
_TOO_EARLY: Final = {"scheduled_time": "before 1970", "expiry_time": "not after the beginning of 1970"}


def check_columns(schema: "StructType", options: WriteOptions) -> None:
    """Raise InvalidOption for a frame that cannot be written: missing, unknown or wrongly typed columns."""
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    if options.payload in PAYLOAD_COLUMNS:
        if options.payload not in types:
            hint = column_hint("value") if "value" in types else ""
            raise InvalidOption(f"payload={options.payload} needs a column {options.payload!r}{hint}")
        unknown = [name for name in types if name not in COLUMNS and name not in SOURCE_ONLY]
        if unknown:
            raise InvalidOption(
                f"the sink has no use for the column {unknown[0]!r}; it takes {', '.join(COLUMNS)}; "
                f"payload=json sends columns of any name{column_hint(unknown[0])}"
            )
    _check_fields(schema, options)
    if options.address is None and (options.payload == "arrow" or "address" not in types):
        or_column = "" if options.payload == "arrow" else ", or a column of that name"
        raise InvalidOption(
            f"say where to send: the option address{or_column} (Spark does not pass the options of CREATE TABLE; use "
            "INSERT INTO table WITH (url = '…', address = '…') SELECT …)"
        )
    if options.idempotence in ("column", "source") and options.payload == "arrow":
        raise InvalidOption(f"idempotence={options.idempotence} is for rows; with payload=arrow a message has many")
    if options.idempotence == "column" and "duplicate_id" not in types:
        raise InvalidOption("idempotence=column needs a column 'duplicate_id'")
    if options.idempotence == "source" and not {"queue", "sequence"} <= types.keys():
        raise InvalidOption("idempotence=source needs the columns 'queue' and 'sequence' of the source")
    for name in field_columns(schema.names, options):
        legal = COLUMNS.get(name)
        if legal is not None and types[name] not in legal:
            raise InvalidOption(f"column {name!r} must be {' or '.join(legal)}, not {types[name]}")


def _check_fields(schema: "StructType", options: WriteOptions) -> None:
    """Raise InvalidOption if an object cannot have one of its columns, or a message none of its `fields`."""
    for name in options.fields:
        if name not in COLUMNS or name in PAYLOAD_COLUMNS:
            legal = ", ".join(column for column in COLUMNS if column not in PAYLOAD_COLUMNS)
            raise InvalidOption(f"option fields: a message has no field {name!r}; it has {legal}")
        if name not in schema.names:
            raise InvalidOption(f"option fields: there is no column {name!r}")
    if options.payload == "json":
        for field in schema.fields:
            refused = None if field.name in options.fields else not_json(field.dataType)
            if refused is not None:
                raise InvalidOption(
                    f"payload=json cannot write column {field.name!r}: JSON has no {refused}; cast it, or leave it out"
                )


def field_columns(names: list[str], options: WriteOptions) -> list[str]:
    """Return the columns that fields of the message, its address or its id are made of."""
    if options.payload == "arrow":
        return []
    needed = {name for name in COLUMNS if name not in PAYLOAD_COLUMNS}
    if options.payload == "json":
        needed = set(options.fields)
        if options.address is None:
            needed.add("address")
        if options.idempotence == "column":
            needed.add("duplicate_id")
    if options.idempotence == "source":
        needed |= {"queue", "sequence"}
    return [name for name in names if name in needed]


class Encoder:
    """Encoder of the batches of one query; the ids of `idempotence=source` begin with `writer`."""

    def __init__(self, options: WriteOptions, writer: str) -> None:
        self._options: Final = options
        self._writer: Final = writer
        self._headers: Final[dict[tuple[bool, int, int], bytes]] = {}

    def messages(self, batch: "pa.RecordBatch") -> Iterator[Encoded]:
        """Yield the messages of a batch, in the order of its rows. Raises SendFailed for a row that cannot be sent."""
        if self._options.payload == "arrow":
            yield self._one_message(batch)
            return
        names = field_columns(batch.schema.names, self._options)
        if self._options.payload == "message":
            # The bare message is fixed: the other columns cannot change it.
            names = [name for name in names if name in OUTSIDE_OF_MESSAGE]
        columns = {name: _values(batch, name) for name in names}
        rows = RowEncoder(self._options, self._writer, columns, self._payloads(batch), self._headers)
        message = rows.message
        for row in range(batch.num_rows):
            yield message(row)

    def _one_message(self, batch: "pa.RecordBatch") -> Encoded:
        """Return the whole batch as one message, an Arrow IPC stream."""
        import pyarrow as pa

        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        bare = encode(Properties(content_type=Symbol("application/vnd.apache.arrow.stream")))
        head = header_bytes(self._options.durable, DEFAULT_PRIORITY, -1, False, 0)
        return Encoded(None, head, bare + data_section(sink.getvalue().to_pybytes()))

    def _payloads(self, batch: "pa.RecordBatch") -> Payloads:
        import pyarrow.types as types

        payload = self._options.payload
        if payload == "json":
            names = [name for name in batch.schema.names if name not in self._options.fields]
            return Payloads("", DATA, None, row_writer(batch, names))
        column = batch.column(payload)
        if payload == "message":
            return Payloads("message", WHOLE, column.to_pylist(), None)
        is_text = types.is_string(column.type) or types.is_large_string(column.type)
        return Payloads("body", TEXT if is_text else DATA, column.to_pylist(), None)


def _values(batch: "pa.RecordBatch", name: str) -> list[Any]:
    """Return the values of a column; times in milliseconds. Raises SendFailed for a number that is out of range."""
    import pyarrow as pa
    import pyarrow.types as types

    column = batch.column(name)
    if types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms", column.type.tz), safe=False).cast(pa.int64())
    values: list[Any] = column.to_pylist()
    limits = _RANGES.get(name)
    if limits is not None:
        low, high, hint = limits
        if not _is_within(column, low, high):
            row = next(index for index, value in enumerate(values) if value is not None and not low <= value <= high)
            # As Arrow writes it, because Python has no dates before the year 1.
            (shown,) = batch.column(name).slice(row, 1).cast(pa.string()).to_pylist()
            reason = _TOO_EARLY.get(name, f"not from {low} to {high}{hint}")
            raise SendFailed(f"row {row} of a batch: column {name!r} is {shown}, {reason}")
    return values


def _is_within(column: Any, low: int, high: int) -> bool:
    import pyarrow.compute as compute

    ends = compute.min_max(column).as_py()
    return ends["min"] is None or (ends["min"] >= low and ends["max"] <= high)
