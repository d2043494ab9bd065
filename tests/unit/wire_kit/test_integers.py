"""Integers in octets, as `struct` reads them."""

import struct

import pytest
from hypothesis import given
from hypothesis.strategies import binary

from artemis_py.wire.integers import OCTETS, read_u16, read_u32


@given(binary(min_size=4, max_size=20))
def test_numbers_are_read_as_struct_reads_them(data: bytes) -> None:
    """At each offset at which there are octets enough, and at no other."""
    for offset in range(len(data) - 3):
        assert read_u32(data, offset) == struct.unpack_from(">I", data, offset)[0]
        assert read_u16(data, offset) == struct.unpack_from(">H", data, offset)[0]
    with pytest.raises(IndexError):
        read_u32(data, len(data) - 3)
    with pytest.raises(IndexError):
        read_u16(data, len(data) - 1)


def test_each_octet_is_there() -> None:
    """In order."""
    assert b"".join(OCTETS) == bytes(range(256))
