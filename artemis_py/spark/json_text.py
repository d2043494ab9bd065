"""Values of columns as JSON, written as Spark's `to_json` writes them.

Fields of an object that are null are left out; elements of a list and values of a map are null. Octets are base64,
decimals are numbers with all their digits, and times have milliseconds and the offset of the session's time zone. JSON
has no number for NaN and infinity, so these are texts. Each writer is for one type; `json_columns` chooses it. Arrow
and Spark are not imported, so that this can be compiled.
"""

from base64 import b64encode
from datetime import date, datetime
from json.encoder import encode_basestring
from struct import Struct
from typing import Any, Final

_F32: Final = Struct(">f")
_EPOCH: Final[int] = date(1970, 1, 1).toordinal()
_DIGITS_OF_FLOAT: Final = (6, 7, 8)
"""Digits with which a number of 32 bits may be distinguished from its neighbours; nine always do."""


class JsonWriter:
    """Writer of the values of one type, here of whole numbers, whose text is that of Python."""

    def text(self, value: Any) -> str:
        """Return a value that is not null as JSON."""
        return str(value)

    def key(self, value: Any) -> str:
        """Return a value as the key of a map, without quotes."""
        return self.text(value)

    def text_or_null(self, value: Any) -> str:
        """Return a value that may be null as JSON."""
        return "null" if value is None else self.text(value)


class BooleanWriter(JsonWriter):
    """Writer of true and false."""

    def text(self, value: Any) -> str:
        """See `JsonWriter`."""
        return "true" if value else "false"


class DoubleWriter(JsonWriter):
    """Writer of numbers of 64 bits."""

    def text(self, value: Any) -> str:
        """See `JsonWriter`."""
        number: float = value
        if number != number:
            return '"NaN"'
        if number in (float("inf"), float("-inf")):
            return '"Infinity"' if number > 0 else '"-Infinity"'
        return self.digits(number)

    def digits(self, number: float) -> str:
        """Return the shortest text that means a finite number."""
        return repr(number)


class FloatWriter(DoubleWriter):
    """Writer of numbers of 32 bits: 0.1 is 0.1, although Python's float of it has more digits."""

    def digits(self, number: float) -> str:
        """See `DoubleWriter`."""
        packed = _F32.pack(number)
        for count in _DIGITS_OF_FLOAT:
            text = f"{number:.{count}g}"
            if _F32.pack(float(text)) == packed:
                return text
        return f"{number:.9g}"


class TextWriter(JsonWriter):
    """Writer of strings."""

    def text(self, value: Any) -> str:
        """See `JsonWriter`."""
        return encode_basestring(value)

    def key(self, value: Any) -> str:
        """See `JsonWriter`."""
        return str(value)


class BinaryWriter(JsonWriter):
    """Writer of octets, as base64."""

    def text(self, value: Any) -> str:
        """See `JsonWriter`."""
        return f'"{b64encode(value).decode("ascii")}"'


class DateWriter(JsonWriter):
    """Writer of dates; as the key of a map, the number of days since 1970."""

    def text(self, value: Any) -> str:
        """See `JsonWriter`."""
        return f'"{value.isoformat()}"'

    def key(self, value: Any) -> str:
        """See `JsonWriter`."""
        day: date = value
        return str(day.toordinal() - _EPOCH)


class TimeWriter(JsonWriter):
    """Writer of timestamps, with an offset if they have a time zone."""

    def text(self, value: Any) -> str:
        """See `JsonWriter`."""
        moment: datetime = value
        text = moment.isoformat(timespec="milliseconds")
        return f'"{text[:-6]}Z"' if text.endswith("+00:00") else f'"{text}"'


class ListWriter(JsonWriter):
    """Writer of arrays."""

    def __init__(self, item: JsonWriter) -> None:
        self._item: Final = item

    def text(self, value: Any) -> str:
        """See `JsonWriter`."""
        item = self._item
        return "[" + ",".join([item.text_or_null(one) for one in value]) + "]"


class MapWriter(JsonWriter):
    """Writer of maps, which are lists of pairs in Arrow."""

    def __init__(self, key: JsonWriter, item: JsonWriter) -> None:
        self._key: Final = key
        self._item: Final = item

    def text(self, value: Any) -> str:
        """See `JsonWriter`."""
        parts: list[str] = []
        for key, item in value:
            parts.append(encode_basestring(self._key.key(key)) + ":" + self._item.text_or_null(item))
        return "{" + ",".join(parts) + "}"


class StructWriter(JsonWriter):
    """Writer of structs; fields that are null are left out."""

    def __init__(self, names: list[str], items: list[JsonWriter]) -> None:
        self._names: Final = names
        self._items: Final = items
        self._heads: Final = [encode_basestring(name) + ":" for name in names]

    def text(self, value: Any) -> str:
        """See `JsonWriter`."""
        fields: dict[str, Any] = value
        parts: list[str] = []
        for index, name in enumerate(self._names):
            item = fields[name]
            if item is not None:
                parts.append(self._heads[index] + self._items[index].text(item))
        return "{" + ",".join(parts) + "}"


class RowWriter:
    """Writer of the rows of a batch, from the values of its columns."""

    def __init__(self, names: list[str], writers: list[JsonWriter], columns: list[list[Any]]) -> None:
        self._heads: Final = [encode_basestring(name) + ":" for name in names]
        self._writers: Final = writers
        self._columns: Final = columns

    def row(self, row: int) -> bytes:
        """Return one row as an object in UTF-8."""
        parts: list[str] = []
        for index, values in enumerate(self._columns):
            value = values[row]
            if value is not None:
                parts.append(self._heads[index] + self._writers[index].text(value))
        return ("{" + ",".join(parts) + "}").encode()
