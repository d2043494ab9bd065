"""How many examples a property test tries."""

import os
from typing import Final

SHARE: Final = float(os.environ.get("ARTEMIS_PY_EXAMPLES", "0.5"))
"""Part of the examples that are tried: half of them take long enough for each change. 1 tries all."""

PURE_SHARE: Final = 0.4
"""Part of these on the pure build. The examples are the same on both builds, and so is most of what they find."""


def examples(count: int) -> int:
    """Return how many to try where a test has chosen `count`."""
    is_pure = os.environ.get("ARTEMIS_PY_TESTED_BUILD") == "pure"
    return max(int(count * SHARE * (PURE_SHARE if is_pure else 1)), 1)
