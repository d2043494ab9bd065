"""A build of a former commit, in an environment of its own beside this one's packages."""

import io
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
from pathlib import Path
from typing import Final

import pytest

from tests.interop.broker_process import REPOSITORY

BEFORE: Final = os.environ.get("ARTEMIS_PY_MESH_BEFORE", "")
"""The commit to build; by default the one before the last change of what is shipped."""
SHIPPED: Final = ("artemis_py", "protocols", "conf", "setup.cfg", "setup.py")
BUILD_TIMEOUT_S: Final = 200


def former_commit() -> str:
    """Return the commit whose build is to be replaced. Skips, and says why, where there is none."""
    if not (REPOSITORY / ".git").exists() or shutil.which("git") is None:
        pytest.skip("this tree is no clone: there is no former commit to build")
    name = BEFORE
    if not name:
        name = f"{_git('log', '-1', '--format=%H', '--', *SHIPPED)}^"
    return _git("rev-parse", "--verify", f"{name}^{{commit}}")


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=REPOSITORY, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"git does not know the former commit: {done.stderr.strip()}")
    return done.stdout.strip()


def build(commit: str, folder: Path) -> str:
    """Install a commit, without compiled modules; return the interpreter that runs it."""
    pytest.importorskip("pip", reason="pip is not installed")
    source, environment = folder / "source", folder / "environment"
    archive = subprocess.run(["git", "archive", commit], cwd=REPOSITORY, capture_output=True, check=True)
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
        tar.extractall(source, filter="data")
    venv.create(environment)
    packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(environment), "platbase": str(environment)}))
    options = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
    subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, "--target", packages, source],
        env=os.environ | {"ARTEMIS_PY_PURE": "1"},
        check=True,
        timeout=BUILD_TIMEOUT_S,
    )
    # What it depends on is what this environment has; its own packages come first.
    folders = [each for each in sys.path if Path(each).name in ("site-packages", "dist-packages")]
    (packages / "beside.pth").write_text("".join(f"{each}\n" for each in folders), encoding="utf-8")
    python = str(environment / "bin" / "python")
    code = "import artemis_py; print(artemis_py.__file__)"
    shown = subprocess.run([python, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.startswith(str(packages)), shown
    return python
