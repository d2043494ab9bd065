"""Outcomes of deliveries. Plain ints, because they are compared per message in compiled code."""

from typing import Final

ACCEPTED: Final = 0
"""Done: the message leaves the queue."""
RELEASED: Final = 1
"""Never looked at: back to its place, the attempt does not count."""
FAILED: Final = 2
"""The attempt failed: it counts, and may lead to the dead-letter address."""
REJECTED: Final = 3
"""No consumer can process it: to the dead-letter address at once."""
