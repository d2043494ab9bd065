"""Unsigned integers in octets, most significant first.

Without `struct`: once compiled, a call of it takes twenty times as long as reading here, because it makes an object of
each number. An offset too near the end raises IndexError.
"""

from typing import Final

OCTETS: Final = [bytes((octet,)) for octet in range(256)]
"""Each octet. A number that counts up is written quickest as the octets that it had before and its last one."""


def read_u16(data: bytes, offset: int) -> int:
    """Return the number in the two octets at `offset`."""
    return data[offset] << 8 | data[offset + 1]


def read_u32(data: bytes, offset: int) -> int:
    """Return the number in the four octets at `offset`."""
    return data[offset] << 24 | data[offset + 1] << 16 | data[offset + 2] << 8 | data[offset + 3]
