"""Randomness that is drawn by key and not from one stream: without one event, all others stay as they were."""

from hashlib import blake2b
from typing import TypeVar

T = TypeVar("T")


class Keyed:
    """The random numbers of one seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def number(self, *key: object) -> float:
        """A number in [0, 1) that depends on nothing but the seed and the key."""
        text = repr((self.seed, *key)).encode()
        return int.from_bytes(blake2b(text, digest_size=7).digest(), "big") / (1 << 56)

    def between(self, low: int, high: int, *key: object) -> int:
        """A whole number from `low` up to and including `high`."""
        return low + int(self.number(*key) * (high - low + 1))

    def chance(self, probability: float, *key: object) -> bool:
        """True with this probability."""
        return self.number(*key) < probability

    def choice(self, values: list[T], *key: object) -> T:
        """One of the values."""
        return values[int(self.number(*key) * len(values))]
