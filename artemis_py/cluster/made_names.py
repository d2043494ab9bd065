"""Names of temporary addresses that say which node made them: UUIDs of version 8 (RFC 9562).

     0                6        8        10                            16
    +----------------+--------+--------+-----------------------------+
    | short id of    | 8,     | 2 bits | 62 random bits, which       |
    | the node       | check  | 10     | nobody can guess            |
    +----------------+--------+--------+-----------------------------+

The short id is the beginning of a hash of the node id. The check, 12 bits of a hash of all other octets, tells such a
name from other UUIDs of this version, which applications may use for what they want.
"""

from hashlib import sha256
from struct import Struct
from typing import Final
from uuid import RFC_4122, UUID

SHORT_BYTES: Final = 6

_VERSION: Final = 8
_VERSION_INDEX: Final = 14
"""Where the version is in the text of a UUID."""
_TEXT_CHARS: Final = 36
_VARIANT: Final = 0b10 << 62
_RANDOM: Final = (1 << 62) - 1
_CHECK: Final = Struct(">H")
_LOW: Final = Struct(">Q")


def short_id(node_id: str) -> bytes:
    """Return the short id of a node."""
    return sha256(node_id.encode()).digest()[:SHORT_BYTES]


def make_name(short: bytes, random: UUID) -> str:
    """Return the name of a new temporary address of a node, with the random bits of a UUID."""
    low = _LOW.pack(_VARIANT | random.int & _RANDOM)
    return str(UUID(bytes=short + _check(short, low) + low))


def node_in(name: str) -> bytes:
    """Return the short id of the node that made a name; empty if no node did."""
    if len(name) != _TEXT_CHARS or name[_VERSION_INDEX] != str(_VERSION):
        return b""
    try:
        uuid = UUID(name)
    except ValueError:
        return b""
    short, check, low = uuid.bytes[:6], uuid.bytes[6:8], uuid.bytes[8:]
    if str(uuid) != name or uuid.variant != RFC_4122 or check != _check(short, low):
        return b""
    return short


def _check(short: bytes, low: bytes) -> bytes:
    """Return the version and the check."""
    digest: int = _CHECK.unpack_from(sha256(short + low).digest())[0]
    return _CHECK.pack(_VERSION << 12 | digest & 0xFFF)
