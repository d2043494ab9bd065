"""README's first commands, as printed, on a machine without a C compiler; needs a package index, and skips without one.

The copy of the repository has no build of another run, and the programs on the path are a few of the system's. `CC`
names a compiler that fails, because some machines have one without Python's headers.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from tests.tutorials.reader import Reader

REPOSITORY: Final = Path(__file__).resolve().parents[2]
LEFT_OUT: Final = shutil.ignore_patterns(
    ".git", ".tox", ".venv", ".*_cache", "__pycache__", "node_modules", "target", "build", "*.egg-info", "*.so"
)
TOOLS: Final = ("bash", "cat", "cp", "env", "false", "ls", "mkdir", "mv", "rm", "sed", "sh", "uname")
INSTALL_S: Final = 300
ANSWER_S: Final = 60

pytestmark = pytest.mark.timeout(2 * INSTALL_S)


def printed(start: str) -> str:
    """The one command of README that begins with this text."""
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    (command,) = re.findall(rf"^    ({re.escape(start)}.*)$", readme, re.MULTILINE)
    assert isinstance(command, str)
    return command


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables of a shell on a machine without a compiler, where ports are free."""
    programs = tmp_path_factory.mktemp("programs")
    (programs / "python3").symlink_to(Path(sys.base_prefix) / "bin" / "python3")
    for tool in TOOLS:
        found = shutil.which(tool)
        assert found is not None, tool
        (programs / tool).symlink_to(found)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ARTEMIS_PY_", "PYTHON", "TOX"))}
    ports = {"ARTEMIS_PY_PORT": "0", "ARTEMIS_PY_AMQP_PORT": "0", "ARTEMIS_PY_MQTT_PORT": "0"}
    return kept | ports | {"PATH": str(programs), "CC": "false"}


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Path:
    """A copy of the repository."""
    folder = tmp_path_factory.mktemp("fresh") / "artemis_py"
    probe = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder.parent), "click"]
    if subprocess.run(probe, capture_output=True).returncode != 0:
        pytest.skip("no package index can be reached")
    shutil.copytree(REPOSITORY, folder, ignore=LEFT_OUT)
    return folder


@pytest.fixture(scope="module")
def url(clone: Path, environment: dict[str, str]) -> Iterator[str]:
    """The broker that README's first command installs and starts."""
    begun = time.monotonic()
    lines: list[str] = []
    with subprocess.Popen(
        ["/bin/sh", "-c", printed("python3 -m venv .venv && .venv/bin/pip install . && ")],
        cwd=clone,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as shell:
        assert shell.stdout is not None
        for line in shell.stdout:
            lines.append(line)
            if line == "ready\n":
                break
        try:
            assert lines[-1:] == ["ready\n"], "".join(lines)
            print(f"an empty clone became a broker in {time.monotonic() - begun:.0f} s")
            (port,) = [line.rpartition(":")[2].strip() for line in lines if line.startswith("listening: artemis ")]
            yield f"amqp://127.0.0.1:{port}"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGTERM)  # the shell and the broker
            shell.stdout.read()


def run(command: str, clone: Path, environment: dict[str, str], **variables: str) -> str:
    """What a command of the shell prints; it must succeed."""
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=clone,
        env=environment | variables,
        capture_output=True,
        text=True,
        timeout=ANSWER_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_first_message_passes(url: str, clone: Path, environment: dict[str, str]) -> None:
    """As README has it, in a second terminal."""
    run(printed(".venv/bin/artemis-py producer"), clone, environment, ARTEMIS_PY_URL=url)
    received = run(printed(".venv/bin/artemis-py consumer"), clone, environment, ARTEMIS_PY_URL=url)

    assert received == "order 1\n"


def test_the_first_hour_passes_as_printed(url: str, clone: Path, environment: dict[str, str], tmp_path: Path) -> None:
    """Install, send, look, break, mend: the page begins with the same command as README, and goes on from there."""
    page = REPOSITORY / "docs" / "tutorials" / "first-hour.md"
    (install,) = re.findall(r"^    (python3 .*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert printed(install).startswith(install)

    with Reader(tmp_path, clone / ".venv" / "bin", {"PATH": environment["PATH"]}) as reader:
        reader.follow(page)


def test_it_is_pure_python_and_says_so(url: str, clone: Path, environment: dict[str, str]) -> None:
    """Nothing on this machine could compile; what has C code came as a wheel."""
    told = run(".venv/bin/artemis-py --version", clone, environment)
    installed = run(".venv/bin/pip list --format freeze", clone, environment).lower()

    assert "(pure Python; " in told
    assert "artemis-py-broker==" in installed
    assert "proton" not in installed
