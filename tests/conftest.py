"""What all tests share: where they find each other, one hypothesis profile, tests that are coroutines, and which builds
are tested."""

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

from tests.examples import examples  # noqa: E402  found by the line above

# Tests that run the broker as a process of its own, read the source and the manual, build distributions, or call what
# compiled modules have no part in: tox.ini says why one build is enough for them.
ONE_BUILD = tuple(
    REPOSITORY / "tests" / name
    for name in (
        "cli",
        "cluster/test_large_storm.py",
        "cluster/test_newcomer_storm.py",
        "cluster/test_storm.py",
        "crash",
        "interop",
        "tutorials",
        "test_architecture.py",
        "test_building.py",
        "test_citations.py",
        "test_install_lines.py",
        "test_options_are_read.py",
        "unit/config/test_web.py",
        "unit/management/http",
        "unit/management/metrics",
        "unit/management/test_console_files.py",
        "unit/migrate",
        "unit/test_manpages.py",
        "unit/test_manual.py",
        "unit/test_manual_commands.py",
        "unit/test_zeroconf.py",
    )
)

# No deadline: a loaded machine is not a failing test. Derandomized: a failure is the same on every machine.
settings.register_profile("artemis_py", deadline=None, derandomize=True, max_examples=examples(100))
settings.load_profile("artemis_py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what runs on one build only, except where a test asks for each."""
    for item in items:
        if any(item.path.is_relative_to(path) for path in ONE_BUILD) and item.get_closest_marker("each_build") is None:
            item.add_marker("one_build")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True
