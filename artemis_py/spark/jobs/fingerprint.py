"""Fingerprints of messages: the shape of a body without its values, and a short hash of shape and properties.

A million dead letters are mostly a handful of repeated mistakes; messages of one mistake look alike. Pure: knows
neither Spark nor a broker.
"""

import hashlib
import json
from collections.abc import Iterable
from typing import Final

from artemis_amqp.client import MalformedValue, plain, read_value

MAX_DEPTH: Final = 4
MAX_KEYS: Final = 32
"""Keys of one object; in larger objects, which are used as tables, keys are data and not part of the shape."""
MAX_PARSED_BYTES: Final = 1024 * 1024

_MAGIC: Final = (
    (b"\x1f\x8b", "gzip"),
    (b"PK\x03\x04", "zip"),
    (b"%PDF", "pdf"),
    (b"\x89PNG", "png"),
    (b"\xff\xd8\xff", "jpeg"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"Obj\x01", "avro"),
    (b"PAR1", "parquet"),
    (b"\xac\xed\x00\x05", "java object"),
)


def shape(body: bytes | None, body_type: str | None) -> str:
    """Return the structure of a body: `{"id": number, "items": [text]}`, `xml <order>`, `text`, `gzip`, `empty`."""
    if not body:
        return "empty"
    if body_type in ("value", "sequence"):
        return _shape_of_value(body)
    for magic, name in _MAGIC:
        if body.startswith(magic):
            return name
    start = body[:256].lstrip()
    if start[:1] in (b"{", b"[") and len(body) <= MAX_PARSED_BYTES:
        try:
            return _shape_of(json.loads(body), 0)
        except (ValueError, RecursionError):
            return "broken json"
    if start[:1] == b"<":
        return f"xml {_root(start)}"
    try:
        body[:256].decode("utf-8", "strict")
    except UnicodeDecodeError as error:
        # A character that is cut at the end of these octets is no sign of binary data.
        return "text" if error.start >= 253 else "binary"
    return "text" if b"\0" not in body[:256] else "binary"


def fingerprint(content_type: str | None, keys: Iterable[str], body_shape: str) -> str:
    """Return ten hexadecimal digits, equal for messages of the same format, properties' names and shape of body."""
    text = "\n".join((content_type or "", *sorted(keys), "", body_shape))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:10]


def sample(body: bytes | None, body_type: str | None, size: int = 160) -> str:
    """Return the readable beginning of a body: as text as far as it is text, otherwise in hexadecimal."""
    if not body:
        return ""
    if body_type in ("value", "sequence"):
        value = _decoded(body)
        return sample(value, "data", size) if isinstance(value, bytes) else repr(value)[:size]
    try:
        return body[: 4 * size].decode("utf-8", "strict")[:size]
    except UnicodeDecodeError as error:
        return body[:32].hex() if error.start < min(len(body), 4 * size) - 3 else body[: error.start].decode()[:size]


def _shape_of_value(body: bytes) -> str:
    try:
        value = _decoded(body)
    except MalformedValue:
        return "binary"
    # Some clients send octets as a value, not as data.
    return shape(value, "data") if isinstance(value, bytes) else _shape_of(value, 0)


def _decoded(body: bytes) -> object:
    value, _ = read_value(body, 0, len(body))
    return plain(value)


def _shape_of(value: object, depth: int) -> str:
    if isinstance(value, dict):
        if depth >= MAX_DEPTH or len(value) > MAX_KEYS:
            return "{…}"
        return "{" + ", ".join(f"{key}: {_shape_of(value[key], depth + 1)}" for key in sorted(value, key=str)) + "}"
    if isinstance(value, (list, tuple)):
        if depth >= MAX_DEPTH:
            return "[…]"
        return "[" + " | ".join(sorted({_shape_of(item, depth + 1) for item in value[:MAX_KEYS]})) + "]"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    return "binary" if isinstance(value, bytes) else "text"


def _root(start: bytes) -> str:
    """Return the root element's name, if it is within `start`."""
    for part in start.split(b"<")[1:]:
        name = part.split(b">")[0].split()[:1]
        if name and not name[0].startswith((b"?", b"!")):
            return f"<{name[0].decode('utf-8', 'replace').rstrip('/')}>"
    return "<?>"
