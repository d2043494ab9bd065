"""What is installed: the distribution's name on the package index, its version, and how it was built."""

from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Final

DISTRIBUTION: Final = "artemis-py-broker"
"""Name to install by. On the package index, `artemis_py` is a program of other authors."""


@cache
def installed_version() -> str:
    """Return the version of this distribution; `unknown` if it runs from a source tree that is not installed."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "unknown"


def is_compiled() -> bool:
    """Tell whether the modules that every message passes through are compiled. All of them are, or none."""
    found = find_spec("artemis_py.core.queues.queue")
    return found is not None and found.origin is not None and found.origin.endswith(tuple(EXTENSION_SUFFIXES))
