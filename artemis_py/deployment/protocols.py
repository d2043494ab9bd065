"""Finds the protocols that are installed, through the entry points of their packages.

The core imports no protocol: a separate package adds one by announcing it (`docs/architecture.md`).
"""

from importlib.metadata import entry_points
from typing import Final

from artemis_py.errors import ConfigError, Problem
from artemis_py.protocol import ManagerFactory

ENTRY_POINTS: Final = "artemis_py.protocols"
"""Group of entry points in which a package announces its protocols."""


def installed_protocols() -> list[ManagerFactory]:
    """Load the protocols that installed packages announce, by name. Raises ConfigError with all that fail to load."""
    factories: list[ManagerFactory] = []
    problems: list[Problem] = []
    for entry_point in sorted(entry_points(group=ENTRY_POINTS), key=lambda entry_point: entry_point.name):
        try:
            factories.append(entry_point.load())
        except (ImportError, AttributeError) as error:
            text = f"{entry_point.value} cannot be loaded: {error}; reinstalling its package may help"
            problems.append(Problem(ENTRY_POINTS, 0, entry_point.name, text))
    if problems:
        raise ConfigError(problems)
    return factories
