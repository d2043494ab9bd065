"""Numbers that stand for "no limit", which are compared for every message."""

import pytest

from artemis_py.core.queues.storage import UNLIMITED
from artemis_py.core.runtime.accounts import MemoryAccount
from artemis_py.core.runtime.meter import Meter

SMALL = 1 << 62
"""mypyc keeps smaller integers in a machine word (CPyTagged); it compares larger ones as Python objects."""


@pytest.mark.parametrize(
    "number",
    [
        MemoryAccount().full_bytes,
        MemoryAccount().full_messages,
        MemoryAccount().tight_bytes,
        MemoryAccount().overdrawn_bytes,
        Meter().end,
        UNLIMITED,
    ],
)
def test_a_limit_that_is_never_reached_is_cheap_to_compare(number: int) -> None:
    """Every address without `max-size-messages` has one; 2 ** 62 was an object at each comparison."""
    assert 1 << 59 < number < SMALL
