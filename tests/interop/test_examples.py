"""The examples do what they say, against a broker as an operator runs it."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.interop.broker_process import REPOSITORY, BrokerProcess

EXAMPLES: Final = REPOSITORY / "examples"
TIMEOUT_S: Final = 60.0

OUTPUT: Final = {
    "send_receive.py": "Hello\n",
    "request_reply.py": "hello -> HELLO\nworld -> WORLD\n",
    "publish_subscribe.py": "everything: sun\neverything: storm\neverything: rain\nwarnings: storm\n",
}
"""What each script prints."""


def run(*arguments: str | Path, folder: Path | None = None) -> "subprocess.CompletedProcess[str]":
    """Run Python as a user would, in `folder`; it finds modules where this process finds them."""
    command = [sys.executable, *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, env=environment, cwd=folder)


def test_every_example_is_tested() -> None:
    """A script without an expected output would go unnoticed when it breaks."""
    scripts = {path.name for path in EXAMPLES.glob("*.py")}

    assert scripts == set(OUTPUT)


@pytest.mark.parametrize("name", OUTPUT)
def test_example_prints_what_its_docstring_promises(name: str, broker: BrokerProcess) -> None:
    """README sends newcomers here first."""
    done = run(EXAMPLES / name, broker.url)

    assert (done.returncode, done.stdout, done.stderr) == (0, OUTPUT[name], "")


def test_the_service_that_is_tested_with_a_broker_passes(tmp_path: Path) -> None:
    """With the fixture that comes with the distribution."""
    folder = EXAMPLES / "embed_in_tests"
    arguments = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", f"--rootdir={folder}", folder)
    # Not in the checkout: `-m` puts the current folder first, and half of the broker would come from there.
    done = run(*arguments, folder=tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout
