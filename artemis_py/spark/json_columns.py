"""Which columns can be written as JSON, and the writer for each type of Arrow."""

from typing import TYPE_CHECKING, Any, Final

from artemis_py.spark.errors import SendFailed
from artemis_py.spark.json_text import (
    BinaryWriter,
    BooleanWriter,
    DateWriter,
    DoubleWriter,
    FloatWriter,
    JsonWriter,
    ListWriter,
    MapWriter,
    RowWriter,
    StructWriter,
    TextWriter,
    TimeWriter,
)

if TYPE_CHECKING:
    import pyarrow as pa

_SIMPLE: Final = frozenset(
    (
        "boolean",
        "tinyint",
        "smallint",
        "int",
        "bigint",
        "float",
        "double",
        "string",
        "binary",
        "date",
        "timestamp",
        "timestamp_ntz",
        "void",
    )
)
_SIMPLE_TYPE_NAMES: Final = frozenset(("decimal", "char", "varchar"))
_KEYS: Final = frozenset(["boolean", "tinyint", "smallint", "int", "bigint", "string", "date", "void"])


def not_json(kind: Any) -> str | None:
    """Return the name of the type, in a type of Spark, that cannot be written as JSON; None if all of it can be."""
    name = kind.simpleString()
    if name in _SIMPLE or kind.typeName() in _SIMPLE_TYPE_NAMES:
        return None
    if kind.typeName() == "array":
        return not_json(kind.elementType)
    if kind.typeName() == "map":
        key = kind.keyType.simpleString()
        return not_json(kind.valueType) if key in _KEYS else f"map with keys of type {key}"
    if kind.typeName() == "struct":
        return next((found for field in kind.fields if (found := not_json(field.dataType)) is not None), None)
    return str(name)


def writer_of(kind: "pa.DataType") -> JsonWriter:
    """Return the writer of a type, which `not_json` has let pass."""
    import pyarrow.types as types

    if types.is_struct(kind):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        return StructWriter([field.name for field in fields], [writer_of(field.type) for field in fields])
    if types.is_map(kind):
        return MapWriter(writer_of(kind.key_type), writer_of(kind.item_type))
    if types.is_list(kind) or types.is_large_list(kind):
        return ListWriter(writer_of(kind.value_type))
    if types.is_string(kind) or types.is_large_string(kind):
        return TextWriter()
    if types.is_binary(kind) or types.is_large_binary(kind):
        return BinaryWriter()
    if types.is_boolean(kind):
        return BooleanWriter()
    if types.is_float64(kind):
        return DoubleWriter()
    if types.is_float32(kind):
        return FloatWriter()
    if types.is_date(kind):
        return DateWriter()
    # What is left are whole numbers and decimals, whose text in Python is that of JSON, and columns of nulls.
    return TimeWriter() if types.is_timestamp(kind) else JsonWriter()


def row_writer(batch: "pa.RecordBatch", names: list[str]) -> RowWriter:
    """Return the writer of a batch's rows, with these columns in the object. Raises SendFailed for an extreme date."""
    columns = [batch.column(name) for name in names]
    values = [_values(column, name) for column, name in zip(columns, names, strict=True)]
    return RowWriter(names, [writer_of(column.type) for column in columns], values)


def _values(column: Any, name: str) -> list[Any]:
    try:
        values: list[Any] = column.to_pylist()
    except OverflowError:
        row = next(row for row, value in enumerate(column) if not _is_python(value))
        raise SendFailed(
            f"row {row} of a batch: column {name!r} has a date or time that is not in the years 1 to 9999"
        ) from None
    return values


def _is_python(value: Any) -> bool:
    """Tell whether Python has a value like this one of Arrow: its dates begin with the year 1."""
    try:
        value.as_py()
    except OverflowError:
        return False
    return True
