"""Delays between attempts."""

from random import Random

import pytest

from artemis_py.transport.backoff import JITTER, Backoff, RetryPolicy


def delays(policy: RetryPolicy, count: int, chance: float = 0.5) -> list[float | None]:
    """Of so many failures in a row; the usual chance adds nothing."""
    backoff = Backoff(policy, lambda: chance)
    return [backoff.failed() for _ in range(count)]


def test_delays_grow_up_to_a_limit() -> None:
    """As `retry-interval`, its multiplier and `max-retry-interval` say."""
    assert delays(RetryPolicy(first_s=1, multiplier=3, longest_s=10), 4) == [1, 3, 9, 10]
    assert delays(RetryPolicy(first_s=1, multiplier=1, longest_s=10), 3) == [1, 1, 1]
    assert delays(RetryPolicy(first_s=5, multiplier=2, longest_s=2), 2) == [2, 2]


def test_thousands_of_failures_are_no_failure_of_ours() -> None:
    """A broker may be away for months."""
    assert delays(RetryPolicy(first_s=1, multiplier=1000, longest_s=10), 5000)[-1] == 10


@pytest.mark.parametrize(("chance", "expected"), [(0.0, 0.8), (0.5, 1.0), (0.999999, 1.2)])
def test_chance_moves_a_delay_by_a_fifth(chance: float, expected: float) -> None:
    """Brokers that lost the same one do not come back at the same moment."""
    (delay,) = delays(RetryPolicy(first_s=1), 1, chance)
    assert delay == pytest.approx(expected, abs=1e-5)
    assert JITTER == 0.2


def test_a_seed_repeats_the_delays() -> None:
    """For simulations."""
    first, second = (Backoff(RetryPolicy(), Random(7).random) for _ in range(2))

    assert [first.failed() for _ in range(5)] == [second.failed() for _ in range(5)]


def test_success_begins_again() -> None:
    """With the shortest delay, and the number of attempts for those that worked once."""
    backoff = Backoff(
        RetryPolicy(first_s=1, multiplier=2, longest_s=9, first_attempts=2, later_attempts=3), lambda: 0.5
    )
    assert [backoff.failed(), backoff.failed()] == [1, None]

    backoff.succeeded()
    assert [backoff.failed() for _ in range(3)] == [1, 2, None]


def test_no_attempt_is_allowed_after_the_first() -> None:
    """`initial-connect-attempts` 0 and 1 are the same: the first one was made."""
    assert delays(RetryPolicy(first_attempts=0), 1) == [None]
    assert delays(RetryPolicy(first_attempts=1), 1) == [None]
