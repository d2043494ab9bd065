"""What all tests share: how they find the broker they test, and one hypothesis profile."""

import sys
from pathlib import Path

from hypothesis import settings

REPOSITORY = Path(__file__).resolve().parents[1]

# Last, so that an installed artemis_py wins over the tree: tox tests the wheel. What the tests share with each
# other (`tests.interop.broker_process` and the like) is only here.
sys.path.append(str(REPOSITORY))

# No deadline: a loaded machine is not a failing test. Derandomized: a failure is the same on every machine.
settings.register_profile("artemis_py", deadline=None, derandomize=True, max_examples=100)
settings.load_profile("artemis_py")
