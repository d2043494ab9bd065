"""A histogram with fixed bounds: how often a duration was at most this long."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from attrs import evolve

from artemis_py.management.metrics.exposition import Family, Sample, number


class Histogram:
    """Durations, counted by length."""

    def __init__(self, bounds: Sequence[float]) -> None:
        """Create it; `bounds` ascend, and an infinite one follows the last."""
        self._bounds: Final = tuple(bounds)
        self._counts: Final = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def samples_of(self, family: Family) -> Family:
        """Return a metric with what has been counted; each bucket includes the shorter ones."""
        samples: list[Sample] = []
        count = 0
        for bound, times in zip((*self._bounds, float("inf")), self._counts, strict=True):
            count += times
            samples.append(Sample(count, (("le", number(bound)),), "_bucket"))
        return evolve(family, samples=(*samples, Sample(count, suffix="_count"), Sample(self._sum, suffix="_sum")))
