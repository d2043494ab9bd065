"""What all tests share: where they find each other, one hypothesis profile, and tests that are coroutines."""

import asyncio
import inspect
import sys
from pathlib import Path

import pytest
from hypothesis import settings

REPOSITORY = Path(__file__).resolve().parents[1]

# Last, so that an installed artemis_py wins over the tree: tox tests the wheel. What the tests share with each
# other (`tests.interop.broker_process` and the like) is only here.
sys.path.append(str(REPOSITORY))

# No deadline: a loaded machine is not a failing test. Derandomized: a failure is the same on every machine.
settings.register_profile("artemis_py", deadline=None, derandomize=True, max_examples=100)
settings.load_profile("artemis_py")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True
