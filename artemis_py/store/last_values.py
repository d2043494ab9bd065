"""The index of last-value queues: which reference has a key. `schema` draws its entries.

An entry is written with its reference and deleted with it, in the same commits. An entry whose reference does not exist
means nothing.
"""

from struct import Struct
from typing import Any, Final

from artemis_py.errors import DamagedValue
from artemis_py.store import schema

MARK: Final = b"last"
"""First octets of the content of an entry, by which entries are recognized in a damaged file."""
_PLACE: Final = Struct(">QQ")
_PLACE_OFFSET: Final = schema.CONTENT_OFFSET + len(MARK)


def entry_key(queue_id: int, last_key: bytes) -> bytes:
    """Return the key of an entry."""
    return schema.U32.pack(queue_id) + last_key


def entry_value(key: bytes, handle: int, size_bytes: int) -> bytes:
    """Return the value that says which reference has a last-value key, and the size of its message in memory."""
    return schema.seal(key, MARK + _PLACE.pack(schema.plain_handle(handle), size_bytes))


def read_entry(key: bytes, value: bytes) -> tuple[int, int]:
    """Return handle and size of the reference that has a last-value key. Raises DamagedValue."""
    content = schema.unseal(key, value)
    if len(content) != len(MARK) + _PLACE.size or not content.startswith(MARK):
        raise DamagedValue("it is not a last value")
    handle, size_bytes = _PLACE.unpack_from(content, len(MARK))
    return handle, size_bytes


def place_of(key: bytes, handle: int) -> bytes:
    """Return the key of the reference that an entry names."""
    return schema.place_key(schema.U32.unpack_from(key)[0], handle, 0)


def names(value: bytes, handle: int) -> bool:
    """Tell whether an entry names this reference; its checksum is not examined."""
    return value[_PLACE_OFFSET : _PLACE_OFFSET + schema.U64.size] == schema.U64.pack(schema.plain_handle(handle))


class Found:
    """The entry of a key, and whether it can be used."""

    def __init__(self, value: bytes) -> None:
        self.value: bytes = value
        self.handle: int = 0
        """Handle of the reference; 0 if there is no such reference."""
        self.size_bytes: int = 0
        self.damage: str = ""
        """Why the entry cannot be read; empty if it can."""


def look_up(databases: dict[bytes, Any], transaction: Any, key: bytes) -> Found | None:
    """Return the entry under a key; None if there is none. Raises lmdb.Error."""
    value = transaction.get(key, db=databases[schema.LAST_VALUES])
    if value is None:
        return None
    found = Found(bytes(value))
    try:
        handle, size_bytes = read_entry(key, found.value)
    except DamagedValue as error:
        found.damage = str(error)
        return found
    if transaction.get(place_of(key, handle), db=databases[schema.REFERENCES]) is not None:
        found.handle = handle
        found.size_bytes = size_bytes
    return found
