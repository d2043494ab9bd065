"""AMQP 1.0 values as Python values (AMQP 1.0 §1.6).

Six AMQP types are Python's own: null is None, boolean bool, long int, double float, string str, binary bytes; uuid is
`uuid.UUID`, list is list and map is dict. Every other type has a class here, a subclass of the Python type it behaves
like: `UInt(5) == 5`, yet it is written as a uint again. Ranges are checked when a value is written.
"""

from collections.abc import Iterable
from decimal import Decimal
from typing import ClassVar, Final

from attrs import field, frozen

from artemis_py.errors import MalformedFrame


class MalformedValue(MalformedFrame):
    """Bytes that AMQP 1.0 does not allow at their place."""

    condition: ClassVar[str] = "amqp:decode-error"
    """The error condition to answer with (AMQP 1.0 §2.8.15)."""


class InvalidField(MalformedValue):
    """A well-formed value that its field may not have."""

    condition: ClassVar[str] = "amqp:invalid-field"


class Symbol(str):
    """A name from a constrained domain, ASCII only. Equals the string of the same characters in Python, not in AMQP."""

    __slots__ = ()


class UByte(int):
    """An integer from 0 to 2**8 - 1."""

    __slots__ = ()


class UShort(int):
    """An integer from 0 to 2**16 - 1."""

    __slots__ = ()


class UInt(int):
    """An integer from 0 to 2**32 - 1."""

    __slots__ = ()


class ULong(int):
    """An integer from 0 to 2**64 - 1."""

    __slots__ = ()


class Byte(int):
    """An integer from -2**7 to 2**7 - 1."""

    __slots__ = ()


class Short(int):
    """An integer from -2**15 to 2**15 - 1."""

    __slots__ = ()


class Int(int):
    """An integer from -2**31 to 2**31 - 1. A plain Python int is AMQP's 64-bit long."""

    __slots__ = ()


class Timestamp(int):
    """Milliseconds since 1970-01-01 UTC, negative before that."""

    __slots__ = ()


class Float32(float):
    """A number of IEEE 754 binary32. A plain Python float is AMQP's double."""

    __slots__ = ()


class Char(str):
    """One Unicode character."""

    __slots__ = ()


def _read_decimal(data: bytes, exponent_bits: int, bias: int, precision: int) -> Decimal:
    """Return the number that IEEE 754-2008 bytes in binary integer encoding stand for (IEEE 754-2008 §3.5.2 of that
    standard).
    """
    width = len(data) * 8
    bits = int.from_bytes(data, "big")
    sign = bits >> (width - 1)
    if (bits >> (width - 5)) & 0xF == 0xF:
        if (bits >> (width - 6)) & 1:
            return Decimal("NaN")
        return Decimal("-Infinity" if sign else "Infinity")
    exponent_mask = (1 << exponent_bits) - 1
    coefficient_bits = width - 1 - exponent_bits
    if (bits >> (width - 3)) & 3 == 3:
        # Two bits say that the coefficient has an implied leading 100, the exponent follows them.
        coefficient_bits -= 2
        coefficient = (4 << coefficient_bits) | (bits & ((1 << coefficient_bits) - 1))
    else:
        coefficient = bits & ((1 << coefficient_bits) - 1)
    exponent = ((bits >> coefficient_bits) & exponent_mask) - bias
    if coefficient >= 10**precision:
        # The standard reads an encoding beyond the precision as zero.
        coefficient = 0
    return Decimal((sign, tuple(int(digit) for digit in str(coefficient)), exponent))


class Decimal32(bytes):
    """An IEEE 754-2008 decimal32 as its four octets: brokers carry it and seldom look inside."""

    __slots__ = ()

    def to_decimal(self) -> Decimal:
        """Return the number; needs exactly four octets."""
        return _read_decimal(self, 8, 101, 7)


class Decimal64(bytes):
    """An IEEE 754-2008 decimal64 as its eight octets."""

    __slots__ = ()

    def to_decimal(self) -> Decimal:
        """Return the number; needs exactly eight octets."""
        return _read_decimal(self, 10, 398, 16)


class Decimal128(bytes):
    """An IEEE 754-2008 decimal128 as its sixteen octets."""

    __slots__ = ()

    def to_decimal(self) -> Decimal:
        """Return the number; needs exactly sixteen octets."""
        return _read_decimal(self, 14, 6176, 34)


@frozen
class Described:
    """A value with the descriptor that says what it means (AMQP 1.0 §1.2)."""

    descriptor: object
    """Normally a ULong or a Symbol."""
    value: object


# Element types as `Array.code` names them: the widest format code of each type.
NULL: Final = 0x40
BOOLEAN: Final = 0x56
UBYTE: Final = 0x50
USHORT: Final = 0x60
UINT: Final = 0x70
ULONG: Final = 0x80
BYTE: Final = 0x51
SHORT: Final = 0x61
INT: Final = 0x71
LONG: Final = 0x81
FLOAT: Final = 0x72
DOUBLE: Final = 0x82
DECIMAL32: Final = 0x74
DECIMAL64: Final = 0x84
DECIMAL128: Final = 0x94
CHAR: Final = 0x73
TIMESTAMP: Final = 0x83
UUID: Final = 0x98
BINARY: Final = 0xB0
STRING: Final = 0xB1
SYMBOL: Final = 0xB3
LIST: Final = 0xD0
MAP: Final = 0xD1
ARRAY: Final = 0xF0


def _as_tuple(values: Iterable[object]) -> tuple[object, ...]:
    return tuple(values)


@frozen
class Array:
    """Values that share one constructor (AMQP 1.0 §1.6.24)."""

    code: int
    """The element type, one of the constants above."""
    items: tuple[object, ...] = field(default=(), converter=_as_tuple)
    """The elements, of exactly the Python type of `code`, without the descriptors they share."""
    descriptors: tuple[object, ...] = field(default=(), converter=_as_tuple)
    """Descriptors of every element, outermost first; normally none or one."""
