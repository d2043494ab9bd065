"""The identifier of a transaction branch (XA): a format, a global transaction id and a branch qualifier."""

from base64 import b64decode, b64encode
from struct import Struct
from typing import Final

from artemis_py.errors import InvalidRequest

MAX_ID_BYTES: Final = 64
"""Limit of XA for each of the two ids (MAXGTRIDSIZE, MAXBQUALSIZE)."""

# The global id has its length in the key, so that no two identifiers have the same one.
_HEAD: Final = Struct(">iB")
_NO_FORMAT: Final = -1


class Xid:
    """One identifier. Two with the same content are equal."""

    __slots__ = ("format_id", "global_id", "key", "qualifier")

    def __init__(self, format_id: int, global_id: bytes, qualifier: bytes) -> None:
        """Raises InvalidRequest for ids that XA does not allow."""
        if not 1 <= len(global_id) <= MAX_ID_BYTES or len(qualifier) > MAX_ID_BYTES:
            raise InvalidRequest(
                f"an xid has a global id of 1 to {MAX_ID_BYTES} octets and a qualifier of at most {MAX_ID_BYTES}, "
                f"not {len(global_id)} and {len(qualifier)}"
            )
        if not -(1 << 31) <= format_id < 1 << 31 or format_id == _NO_FORMAT:
            raise InvalidRequest(f"an xid has a format id of 32 bits that is not -1, not {format_id}")
        self.format_id: int = format_id
        self.global_id: bytes = global_id
        self.qualifier: bytes = qualifier
        self.key: bytes = _HEAD.pack(format_id, len(global_id)) + global_id + qualifier
        """All of it, as it is stored."""

    @property
    def text(self) -> str:
        """The key in base64, by which management names the branch."""
        return b64encode(self.key).decode()

    def __str__(self) -> str:
        return f"{self.format_id}:{self.global_id.hex()}:{self.qualifier.hex()}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Xid) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def xid_of_key(key: bytes) -> Xid:
    """Return the identifier with this key. Raises InvalidRequest."""
    if len(key) < _HEAD.size:
        raise InvalidRequest("this is not the key of an xid")
    format_id, length = _HEAD.unpack_from(key)
    end = _HEAD.size + length
    return Xid(format_id, key[_HEAD.size : end], key[end:])


def xid_of_text(text: str) -> Xid:
    """Return the identifier that management names so. Raises InvalidRequest."""
    try:
        key = b64decode(text, validate=True)
    except ValueError:
        raise InvalidRequest(f"{text[:200]!r} is not an xid in base64") from None
    return xid_of_key(key)
