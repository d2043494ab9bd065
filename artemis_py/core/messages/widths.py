"""Numbers of a neutral view that are narrower than Python's.

JMS clients may read a short as an int and an int as a long, and not the other way round. A protocol whose numbers have
a width therefore gives it to the view, and one that has the same width writes it again. They behave like int and float,
so a protocol that knows no widths need not know these classes. A plain int or float says nothing about its width.
"""


class Int8(int):
    """An integer of 8 bits with a sign."""

    __slots__ = ()


class Int16(int):
    """An integer of 16 bits with a sign."""

    __slots__ = ()


class Int32(int):
    """An integer of 32 bits with a sign."""

    __slots__ = ()


class Binary32(float):
    """A number of 32 bits."""

    __slots__ = ()
