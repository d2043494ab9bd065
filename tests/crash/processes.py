"""How the crash tests start their processes: modules of the tests, on the broker that is installed."""

import sys
from pathlib import Path

from tests.interop.broker_process import REPOSITORY
from tests.log_switch import IS_ON

# `python -m` puts the current folder first: started in a checkout beside an installed wheel, half of the broker would
# come from each. So the checkout, which only has to provide `tests`, comes last.
_RUN = (
    "import runpy, sys; sys.path.append(sys.argv[1]); del sys.argv[:2]; "
    "runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
)


def command_of(module: str, *arguments: str) -> list[str]:
    """The command that runs a module."""
    return [sys.executable, "-P", "-c", _RUN, str(REPOSITORY), module, *arguments]


def failing(shim: Path, folder: Path, fault: str, at: int) -> dict[str, str]:
    """The variables that plan one fault in the store in `folder`; with a log its files count as well."""
    planned = {"LD_PRELOAD": str(shim), "STORE_FAULT": fault, "STORE_FAULT_AT": str(at)}
    return planned | ({"STORE_FILES": str(folder)} if IS_ON else {})


def calls_of_store(stop: int, step: int = 1) -> range:
    """The system calls to try, up to `stop` of a store without a log.

    A log is made with some twenty, and a commit makes two there before it makes three in LMDB's file.
    """
    return range(1, 2 * stop + 20, 2 * step) if IS_ON else range(1, stop, step)
