"""Fixtures for pytest, which finds this module by an entry point (`pytest11`); docs/testing.md.

Every run of pytest imports it where artemis_py is installed, so it imports the broker only when a fixture is used.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from artemis_py.testing.running import RunningBroker

_OPTION: Final = "artemis_broker_xml"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the option of the configuration file."""
    parser.addini(_OPTION, "broker.xml for the fixtures of artemis_py, relative to the ini file")


def _run(config: pytest.Config) -> "Iterator[RunningBroker]":
    from artemis_py.testing.running import running_broker

    name = str(config.getini(_OPTION))
    folder = config.rootpath if config.inipath is None else config.inipath.parent
    with running_broker(folder / name if name else None) as broker:
        yield broker


@pytest.fixture
def artemis_broker(request: pytest.FixtureRequest) -> "Iterator[RunningBroker]":
    """A broker for one test."""
    yield from _run(request.config)


@pytest.fixture(scope="session")
def artemis_session_broker(request: pytest.FixtureRequest) -> "Iterator[RunningBroker]":
    """A broker for all tests of the session; `reset` empties it."""
    yield from _run(request.config)
