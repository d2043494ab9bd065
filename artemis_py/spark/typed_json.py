"""AMQP values as JSON, for the columns that keep types: `properties_json` and `body_json`.

Numbers, booleans, texts and null stay what they are, maps are objects, lists and arrays are lists. JSON has nothing for
the rest, which becomes text: octets in base64, timestamps as `2030-01-31T12:00:00.000Z`, UUIDs, decimals with all their
digits, and NaN and infinity. Keys of maps are text.
"""

import json
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import Final
from uuid import UUID

from artemis_amqp.client import Described, Timestamp
from artemis_amqp.engine.types import Array, Decimal32, Decimal64, Decimal128, Float32
from artemis_py.spark.json_text import FloatWriter

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FLOAT: Final = FloatWriter()
_YEARS: Final = 9999 - 1970
_LAST_MS: Final = _YEARS * 365 * 86_400_000
"""Later times, and those before 1970 by as much, are numbers of milliseconds: Python's years end at 9999."""


def json_text(value: object) -> str:
    """Return a decoded value as JSON."""
    return json.dumps(_tree(value), ensure_ascii=False, separators=(",", ":"))


def _tree(value: object) -> object:
    """Return a value with what JSON has. Long because there is a case for each kind of value."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Timestamp):
        return _time(int(value))
    if isinstance(value, int):
        return int(value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, float):
        if not isfinite(value):
            return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
        return float(_FLOAT.digits(value)) if isinstance(value, Float32) else value
    if isinstance(value, (Decimal32, Decimal64, Decimal128)):
        return str(value.to_decimal())
    if isinstance(value, bytes):
        return b64encode(value).decode("ascii")
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, dict):
        return {_key(key): _tree(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_tree(item) for item in value]
    if isinstance(value, Array):
        return [_tree(item) for item in value.items]
    return _tree(value.value) if isinstance(value, Described) else str(value)


def _key(key: object) -> str:
    tree = _tree(key)
    return tree if isinstance(tree, str) else json.dumps(tree, ensure_ascii=False)


def _time(milliseconds: int) -> object:
    if abs(milliseconds) > _LAST_MS:
        return milliseconds
    moment = _EPOCH + timedelta(milliseconds=milliseconds)
    return f"{moment.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"
