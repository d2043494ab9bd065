"""Brokers to run commands against, and the commands as processes of their own."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, Final

import pytest
from attrs import frozen

from artemis_py.security.passwords import HashCost, hash_password
from tests.interop.broker_process import BrokerProcess, Instance, start_broker

COUNTER: Final = count(1)
COMMAND_TIMEOUT_S: Final = 60

CHEAP: Final = HashCost(memory_kib=8, passes=1, scram_iterations=4096)

SECURITY: Final = """
<security-settings>
  <security-setting match="#">
    <permission type="createAddress" roles="ops,app"/>
    <permission type="deleteAddress" roles="ops,app"/>
    <permission type="createDurableQueue" roles="ops"/>
    <permission type="deleteDurableQueue" roles="ops"/>
    <permission type="createNonDurableQueue" roles="ops,app"/>
    <permission type="deleteNonDurableQueue" roles="ops,app"/>
    <permission type="send" roles="ops,app"/>
    <permission type="consume" roles="ops,app"/>
    <permission type="browse" roles="ops"/>
    <permission type="manage" roles="ops"/>
  </security-setting>
</security-settings>
"""


@frozen
class Outcome:
    """What a command did."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """Its standard output, as the one JSON document it must be."""
        assert self.code == 0, self.err
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        """Its standard output by lines; the command must have succeeded."""
        assert self.code == 0, self.err
        return self.out.splitlines()


Command = Callable[..., Outcome]


def run_command(*arguments: str, **variables: str) -> Outcome:
    """Run `artemis-py`, the one that is installed, with these arguments and environment variables."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ARTEMIS_PY_")}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "artemis_py.cli", *arguments],
        env=environment | variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=COMMAND_TIMEOUT_S,
        check=False,
    )
    # Whatever goes wrong is told in words.
    assert "Traceback" not in done.stderr, done.stderr
    return Outcome(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="session")
def broker_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that lets everybody do everything."""
    process = start_broker(Instance(), tmp_path_factory.mktemp("broker"))
    yield process
    process.stop()


@pytest.fixture(scope="session")
def guarded_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with a user `olga` who may do everything and a user `paul` who may send and receive."""
    users = "\n".join(f"{name} = {hash_password(f'{name}-secret', CHEAP)}" for name in ("olga", "paul"))
    instance = Instance(core=SECURITY, users=users + "\n", roles="ops = olga\napp = paul\n")
    process = start_broker(instance, tmp_path_factory.mktemp("guarded"))
    yield process
    process.stop()


@pytest.fixture
def artemis(broker_process: BrokerProcess) -> Command:
    """Run a client command against the open broker."""

    def run(*arguments: str, **variables: str) -> Outcome:
        return run_command(*arguments, ARTEMIS_PY_URL=broker_process.url, **variables)

    return run


@pytest.fixture
def guarded(guarded_process: BrokerProcess) -> Command:
    """Run a client command as a user of the guarded broker: the first argument is the name."""

    def run(user: str, *arguments: str, **variables: str) -> Outcome:
        login = {"ARTEMIS_PY_USER": user, "ARTEMIS_PY_PASSWORD": f"{user}-secret"}
        return run_command(*arguments, ARTEMIS_PY_URL=guarded_process.url, **(login | variables))

    return run


@pytest.fixture
def name() -> str:
    """A name that no other test uses."""
    return f"cli.n{next(COUNTER)}"
