"""Where the fields of a kept message are, found from its header, and the value of one property.

For what is asked about many messages: selectors, and deliveries. Offsets are found by passing over the fields before
them; nothing else is decoded. Each function may raise IndexError or MalformedFrame for octets that are no message.
Compiled.
"""

from struct import Struct
from typing import Final

from artemis_openwire.engine.fields import skip_destination, skip_octets, skip_string, skip_transaction
from artemis_openwire.engine.values import MAX_PROPERTIES, ValueReader
from artemis_py.errors import MalformedFrame

_I32: Final = Struct(">i")

# Octets of a value behind its type, by type; -2 and -4: a length of 2 or 4 octets first; -1: values within.
_SIZES: Final[tuple[int, ...]] = (0, 1, 1, 2, 2, 4, 8, 8, 4, -2, -4, -1, -1, -4)
_NESTED: Final = -1
_SHORT_LENGTH: Final = -2


def expiration_offset(header: bytes, body: bytes) -> int:
    """Return where the time of expiry stands; the octet behind it is the priority.

    Called for each delivery: the header has the offset of the broker's number in its octets 2 to 5
    (`message_fields.HEADER`).
    """
    number_at = header[2] << 24 | header[3] << 16 | header[4] << 8 | header[5]
    group_at = skip_transaction(body, number_at + 8)
    return skip_string(body, skip_string(body, group_at) + 4) + 1


def properties_offset(header: bytes, body: bytes) -> int:
    """Return where the field of the properties stands."""
    timestamp_at = skip_destination(body, expiration_offset(header, body) + 9)
    return skip_octets(body, skip_string(body, timestamp_at + 8))


def find_property(body: bytes, offset: int, name: bytes) -> object:
    """Return the value under an encoded name in the field of properties at `offset`; None if there is none.

    The last one counts if a name stands more than once, as in a decoded map.
    """
    if body[offset] == 0:
        return None
    end = skip_octets(body, offset)
    if end == offset + 5:
        return None
    count: int = _I32.unpack_from(body, offset + 5)[0]
    offset += 9
    size = len(name)
    start = stop = 0
    for _ in range(count):
        key_at = offset + 2
        value_at = key_at + (body[offset] << 8 | body[offset + 1])
        offset = _skip_value(body, value_at)
        if offset > end:
            raise MalformedFrame("a property is longer than the properties")
        if value_at - key_at == size and body.startswith(name, key_at):
            start = value_at
            stop = offset
    return None if stop == 0 else _decode(body[start:stop])


def _skip_value(body: bytes, offset: int) -> int:
    """Return where the value at `offset` ends, perhaps behind the end of the octets."""
    size = _SIZES[body[offset]]
    offset += 1
    if size >= 0:
        return offset + size
    if size == _SHORT_LENGTH:
        return offset + 2 + (body[offset] << 8 | body[offset + 1])
    if size == _NESTED:
        return _skip_nested(body, offset)
    length: int = _I32.unpack_from(body, offset)[0]
    if length < 0:
        raise MalformedFrame("a value of a negative length")
    return offset + 4 + length


def _skip_nested(body: bytes, offset: int) -> int:
    """Return where a map or list ends. It is decoded for that, which limits how deep it can be."""
    reader = ValueReader(body, MAX_PROPERTIES)
    reader.offset = offset - 1
    reader.value()
    return reader.offset


def _decode(octets: bytes) -> object:
    reader = ValueReader(octets, MAX_PROPERTIES)
    value = reader.value()
    if type(value) is str:
        return value
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    return str(value) if isinstance(value, str) else value
