"""How the crash tests start their processes: modules of the tests, on the broker that is installed."""

import sys

from tests.interop.broker_process import REPOSITORY

# `python -m` puts the current folder first: started in a checkout beside an installed wheel, half of the broker would
# come from each. So the checkout, which only has to provide `tests`, comes last.
_RUN = (
    "import runpy, sys; sys.path.append(sys.argv[1]); del sys.argv[:2]; "
    "runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
)


def command_of(module: str, *arguments: str) -> list[str]:
    """The command that runs a module."""
    return [sys.executable, "-P", "-c", _RUN, str(REPOSITORY), module, *arguments]
