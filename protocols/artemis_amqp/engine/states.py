"""The states of a connection, and the headers that lead from one to the next; `connection` draws them."""

from enum import IntEnum
from typing import Final

AMQP_HEADER: Final = b"AMQP\x00\x01\x00\x00"
SASL_HEADER: Final = b"AMQP\x03\x01\x00\x00"
HEADER_SIZE: Final = 8

AMQP_FRAME: Final = 0
SASL_FRAME: Final = 1
"""Types of frames (AMQP 1.0 §2.3.1, §5.3.1)."""


class State(IntEnum):
    """State of a connection."""

    START = 0
    SASL = 1
    HEADER = 2
    OPENING = 3
    OPENED = 4
    DISCARDING = 5
    CLOSED = 6
