"""How many examples a property test tries."""

import os


def examples(count: int) -> int:
    """Return how many to try where `count` are tried on the compiled build: a third of them on the pure one.

    The examples are the same on both builds, and so is most of what they find. They are what takes longest there.
    """
    return count // 3 if os.environ.get("ARTEMIS_PY_TESTED_BUILD") == "pure" else count
