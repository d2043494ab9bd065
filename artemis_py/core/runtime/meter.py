"""Meter of the work done, which tells when one client has used its share of a turn of the loop.

Work is counted where it is done. One unit is the work of routing a small message to one queue: some 2 µs compiled, 10
in pure Python. Units do not depend on time, so the same input is divided into the same turns on any machine.
"""

from typing import Final

UNLIMITED: Final = 1 << 60
"""More work than a broker ever does. Compiled code compares numbers below 2 ** 62 without making an object."""

PASSED_SHIFT: Final = 3
"""2 ** PASSED_SHIFT messages that queues pass on, and do not hold, count as one unit."""

ANSWERED_SHIFT: Final = 4
"""2 ** ANSWERED_SHIFT messages that a client acknowledges as a run count as one unit."""

# Units of work that is done once for a name; measured with `benchmarks/fairness.py`.
ADDRESS_UNITS: Final = 10
"""Creating or deleting an address."""
QUEUE_UNITS: Final = 20
"""Creating, changing or deleting a queue, including what is written to the store and the log for it."""
BINDING_UNITS: Final = 5
"""Making or removing a binding of an exchange, including what is written to the store for it."""
CONSUMER_UNITS: Final = 5
"""Attaching or detaching a consumer."""
LINK_UNITS: Final = 10
"""Reading a client's request to open or close a link, and answering it."""


class Meter:
    """Counts the work of a broker: increased where work is done, compared with `end` where input is read."""

    __slots__ = ("end", "work")

    def __init__(self) -> None:
        self.work: int = 0
        """Units done since the start; never decreases."""
        self.end: int = UNLIMITED
        """Value of `work` at which readers of input stop between two packets; the transport sets it for each share."""
