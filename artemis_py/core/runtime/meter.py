"""How much work was done, and when one client has had its share of a turn.

Work is counted where it is done, in units of what it takes to route a small message to one queue: some 2 µs compiled,
10 in pure Python. The count says nothing of time, so that the same input makes the same turns on any machine.
"""

from typing import Final

UNLIMITED: Final = 1 << 62

# What is done once for a name, in units; measured with `benchmarks/fairness.py`.
ADDRESS_UNITS: Final = 10
"""An address is made or deleted."""
QUEUE_UNITS: Final = 20
"""A queue is made, changed or deleted, with what is written to the store and the log for it."""
CONSUMER_UNITS: Final = 5
"""A consumer comes or goes."""
LINK_UNITS: Final = 10
"""A protocol reads what a client wants to open or close, and answers."""


class Meter:
    """Counts the work of a broker. Raised where work is done, compared where input is read."""

    __slots__ = ("end", "work")

    def __init__(self) -> None:
        self.work: int = 0
        """Units done since the start; only grows."""
        self.end: int = UNLIMITED
        """Whoever reads input stops between two packets once `work` is here; the transport sets it for each share."""
