"""Fixtures for pytest, which finds this module by an entry point (`pytest11`)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from artemis_py.testing.running import RunningBroker, running_broker

_OPTION = "artemis_broker_xml"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the option of the configuration file."""
    parser.addini(_OPTION, "broker.xml for the fixtures of artemis_py, relative to the configuration of pytest")


def _broker_xml(config: pytest.Config) -> Path | None:
    name = config.getini(_OPTION)
    if not name:
        return None
    folder = config.rootpath if config.inipath is None else config.inipath.parent
    return folder / str(name)


@pytest.fixture
def artemis_broker(request: pytest.FixtureRequest) -> Iterator[RunningBroker]:
    """A broker for one test."""
    with running_broker(_broker_xml(request.config)) as broker:
        yield broker


@pytest.fixture(scope="session")
def artemis_session_broker(request: pytest.FixtureRequest) -> Iterator[RunningBroker]:
    """A broker for all tests of the session; `reset` empties it."""
    with running_broker(_broker_xml(request.config)) as broker:
        yield broker
