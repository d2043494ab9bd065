"""Victims of faults: processes that run a module of the tests, which a fault kills at a chosen system call.

An interpreter takes longer to start and to import the broker than most victims live, and a test has dozens of them. So
one process imports what a victim needs, and each victim is a fork of it:

    test ── one line of JSON: arguments, variables ──► parent ── fork ──► victim
         ◄─ how it ended ───────────────────────────

What a victim prints goes into files, because a victim that is killed leaves what it has printed there.
"""

import atexit
import importlib
import json
import os
import random
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from tests.crash.processes import command_of


@frozen
class Ended:
    """What came of a victim."""

    code: int
    """Its exit code, or the signal that ended it, negative."""
    stdout: str
    stderr: str


class Parent:
    """The process that forks the victims of one module."""

    def __init__(self, module: str, preload: str) -> None:
        """`preload`: a library that the victims are loaded with; empty: none."""
        self._folder: Final = tempfile.TemporaryDirectory(prefix="victims-")
        environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        if preload:
            environment["LD_PRELOAD"] = preload
        self._process: Final = subprocess.Popen(
            command_of("tests.crash.victims", module),
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, arguments: list[str], variables: Mapping[str, str]) -> Ended:
        """Fork a victim, and wait for its end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        outputs = [Path(self._folder.name) / name for name in ("stdout", "stderr")]
        request = {"arguments": arguments, "variables": variables, "outputs": [*map(str, outputs)]}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the parent of the victims has ended"
        return Ended(int(answer), *(output.read_text(encoding="utf-8") for output in outputs))

    def end(self) -> None:
        """A victim that still runs ends with it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.kill()
        self._process.wait()
        self._folder.cleanup()


_PARENTS: Final[dict[tuple[str, str], Parent]] = {}


def run_module(module: str, *arguments: str, **variables: str) -> Ended:
    """Run a module of the tests as a program. `variables`: of its environment, besides those of this process."""
    preload = variables.pop("LD_PRELOAD", "")
    parent = _PARENTS.get((module, preload))
    if parent is None:
        parent = _PARENTS[(module, preload)] = Parent(module, preload)
        atexit.register(parent.end)
    return parent.run([*arguments], variables)


# -- in the parent --------------------------------------------------------------------------------------------------


def serve(module: str) -> None:
    """Answer requests until there are none. Returns in each victim as well, when that has come to its end."""
    importlib.import_module(module)
    del sys.modules[module]  # a victim runs it by the name of a program
    for line in sys.stdin:
        request = json.loads(line)
        victim = os.fork()
        if not victim:
            _live(module, request)
            return
        _, status = os.waitpid(victim, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _live(module: str, request: Mapping[str, Any]) -> None:
    for descriptor, path in enumerate(request["outputs"], 1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), descriptor)
    os.environ.update(request["variables"])
    random.seed()
    sys.argv[1:] = request["arguments"]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    serve(sys.argv[1])
