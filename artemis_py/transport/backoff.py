"""When to try again what failed: longer after each failure, and never at the same moment as others."""

from collections.abc import Callable
from typing import Final

from attrs import frozen

JITTER: Final = 0.2
"""Largest part of a delay that chance adds or takes away: brokers that lost the same one return one by one."""


@frozen(kw_only=True)
class RetryPolicy:
    """Delays between attempts, and their number."""

    first_s: float = 0.5
    multiplier: float = 1.0
    longest_s: float = 2.0
    first_attempts: int = -1
    """Attempts until it works for the first time; -1: no limit."""
    later_attempts: int = -1
    """Attempts after it worked once; -1: no limit."""


class Backoff:
    """The failures of one thing in a row."""

    def __init__(self, policy: RetryPolicy, random: Callable[[], float]) -> None:
        """Begin without a failure; `random` returns numbers in [0, 1)."""
        self._policy: Final = policy
        self._random: Final = random
        self._has_worked = False
        self.failures = 0
        """Failures since it last worked."""

    def succeeded(self) -> None:
        """Begin again: it works."""
        self._has_worked = True
        self.failures = 0

    def failed(self) -> float | None:
        """Return the seconds to wait before the next attempt; None: there is none."""
        policy = self._policy
        self.failures += 1
        most = policy.later_attempts if self._has_worked else policy.first_attempts
        if 0 <= most <= self.failures:
            return None
        # A limit on the exponent: after some hundred failures the power would overflow.
        delay = min(policy.first_s * policy.multiplier ** min(self.failures - 1, 64), policy.longest_s)
        return delay * (1 + JITTER * (2 * self._random() - 1))
