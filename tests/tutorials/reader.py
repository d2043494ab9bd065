"""Somebody who follows a tutorial to the letter: a folder, terminals, and a look at what is printed.

The one difference to the page is in the ports, because a machine that runs tests may have a broker of its own: free
ones take the place of the usual ones, in commands, files and output alike.
"""

import codecs
import os
import pty
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import termios
import threading
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

import pytest

from tests.interop.broker_process import REPOSITORY
from tests.tutorials.page import Command, File, Interrupt, Shown, Step, steps

TUTORIALS: Final = REPOSITORY / "docs" / "tutorials"

COMMAND_S: Final = 240
"""For a command that ends; Maven and Spark may be slow."""
OUTPUT_S: Final = 60
"""For a line of a command that keeps running."""
COLUMNS: Final = 80
BLANK: Final = re.compile(r"^[ \t]*\n", re.MULTILINE)
OVERWRITTEN: Final = re.compile(r"[^\n]*\r(?=[^\r\n])")
COLOURS: Final = re.compile(r"\x1b\[[\d;]*m")
PORTS: Final = {"61616": "ARTEMIS_PY_PORT", "5672": "ARTEMIS_PY_AMQP_PORT", "1883": "ARTEMIS_PY_MQTT_PORT"}
MODULES: Final = {"python": "", "artemis-py": "-P -m artemis_py.cli", "pip": "-P -m pip", "pytest": "-P -m pytest"}
"""What the Python that runs the tests is called in tutorials, and its arguments then; -P, because programs of their own
do not look for modules in the current folder."""
FIRST_PORT: Final = 20_000
PORT_COUNT: Final = 12_000
"""Linux gives ports from 32768 on to connections, macOS and others from 49152 on."""
BUILT_IN: Final = {"echo", "exec", "until"}
NOT_INHERITED: Final = ("ARTEMIS_PY_", "JDK_JAVA_OPTIONS", "PYTEST_", "TOX_")
"""Java tells on standard error that it has options of its own."""


def lasting_port() -> int:
    """A port that is free, and stays so while a broker is down: no system gives it to an outgoing connection."""
    while True:
        with (
            suppress(OSError),
            socket.create_server(("127.0.0.1", FIRST_PORT + secrets.randbelow(PORT_COUNT))) as found,
        ):
            port: int = found.getsockname()[1]
            return port


def programs_of_this_python(folder: Path) -> Path:
    """A folder for the path of a shell, with the commands that an active virtual environment has."""
    folder.mkdir()
    for name, arguments in MODULES.items():
        program = folder / name
        program.write_text(f'#!/bin/sh\nexec {sys.executable} {arguments} "$@"\n', encoding="utf-8")
        program.chmod(0o755)
    return folder


def program(command: Command) -> str:
    """Its first word that is no variable."""
    return next(word for word in command.text.split() if "=" not in word)


def missing(page: Path) -> list[str]:
    """The programs that a page needs and this machine lacks."""
    wanted = {program(step) for step in steps(page) if isinstance(step, Command)}
    return sorted(name for name in wanted - MODULES.keys() - BUILT_IN if shutil.which(name) is None)


def pattern_of(output: str) -> str:
    """The output that a page shows, as a regular expression."""
    return "".join(
        r"(?:.*\n)*?" if line.strip() == "..." else ".*".join(map(re.escape, line.rstrip().split("..."))) + r"[ \t]*\n"
        for line in output.splitlines()
        if line.strip()
    )


def shown(printed: str) -> str:
    """The words on a screen: no colours, no empty lines, and nothing of a progress bar that was overwritten."""
    return BLANK.sub("", OVERWRITTEN.sub("", COLOURS.sub("", printed).replace("\r\n", "\n")))


class Terminal:
    """A command in a terminal of 80 columns, and what it printed there."""

    def __init__(self, text: str, folder: Path, environment: Mapping[str, str]) -> None:
        self.text = text
        self._printed = ""
        self._more = threading.Condition()
        self._screen, keyboard = pty.openpty()
        termios.tcsetwinsize(keyboard, (24, COLUMNS))
        # A shell that starts the tests in its background has them ignore SIGINT, and the command would inherit that.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            self._process = subprocess.Popen(
                ["bash", "-c", text],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=keyboard,
                stderr=keyboard,
                start_new_session=True,
            )
        finally:
            signal.signal(signal.SIGINT, before)
            os.close(keyboard)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        with suppress(OSError):  # EIO: nobody has the terminal any more
            while data := os.read(self._screen, 65536):
                with self._more:
                    self._printed = shown(self._printed + decoder.decode(data))
                    self._more.notify()

    def expect(self, output: str, where: str) -> None:
        """Wait for this output; what was printed up to it is not looked at again."""
        pattern = re.compile(rf"^{pattern_of(output)}", re.MULTILINE)
        with self._more:
            self._more.wait_for(lambda: pattern.search(self._printed) is not None, OUTPUT_S)
            found = pattern.search(self._printed)
            assert found is not None, f"{where}: expected\n{output}\nprinted\n{self._printed}"
            self._printed = self._printed[found.end() :]

    def finish(self, timeout_s: float) -> tuple[int, str]:
        """Wait for the end; the exit code and all that was printed."""
        try:
            code = self._process.wait(timeout_s)
        finally:
            self._kill()
        self._reader.join()
        os.close(self._screen)
        return code, self._printed

    def interrupt(self) -> None:
        """Press Ctrl-C, and wait for the end."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGINT)
        self.finish(OUTPUT_S)

    def _kill(self) -> None:
        """End what is left of the command, also what it started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


class Reader:
    """Follows pages in one folder; `with` ends what they left running."""

    def __init__(self, folder: Path, programs: Path, variables: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self._ports = {usual: str(lasting_port()) for usual in PORTS}
        kept = {name: value for name, value in os.environ.items() if not name.startswith(NOT_INHERITED)}
        self._environment = kept | {
            **{name: self._ports[usual] for usual, name in PORTS.items()},
            "ARTEMIS_PY_URL": f"amqp://127.0.0.1:{self._ports['61616']}",
            "TERM": "dumb",
            # What a page installs must be there already: the environment of the tests stays as it is.
            "PIP_NO_INDEX": "1",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PYTHONUNBUFFERED": "1",
            **(variables or {}),
            "PATH": f"{programs}{os.pathsep}{(variables or os.environ).get('PATH', os.environ['PATH'])}",
        }
        self._running: list[Terminal] = []

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *_: object) -> None:
        with ExitStack() as stack:  # each of them, whatever happens to the others
            for running in self._running:
                stack.callback(running.interrupt)

    def follow(self, page: Path, *, without: tuple[str, ...] = ()) -> None:
        """Do all that a page says, and compare what is printed; leave out commands of these programs."""
        for step in steps(page):
            if not isinstance(step, Command) or program(step) not in without:
                self._take(step, f"{page.name}:{step.line}")

    def _take(self, step: Step, where: str) -> None:
        match step:
            case File(name=name, text=text):
                path = self.folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(self._with_our_ports(text), encoding="utf-8")
            case Command(keeps_running=True):
                running = self._start(step.text)
                self._running.append(running)
                running.expect(self._with_our_ports(step.output), where)
            case Command():
                self._run(step, where)
            case Shown(command=command, output=output):
                self._running_one(command, where).expect(self._with_our_ports(output), where)
            case Interrupt(command=command):
                running = self._running_one(command, where)
                self._running.remove(running)
                running.interrupt()

    def _run(self, step: Command, where: str) -> None:
        terminal = self._start(step.text)
        try:
            code, printed = terminal.finish(COMMAND_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{where}: not done after {COMMAND_S} s: {step.text}") from None
        if printed and not printed.endswith("\n"):
            printed += "\n"
        expected = self._with_our_ports(step.output)
        assert (code != 0) == step.fails, f"{where}: exit code {code}\n{printed}"
        assert re.fullmatch(pattern_of(expected), printed), f"{where}: expected\n{expected}\nprinted\n{printed}"

    def _start(self, text: str) -> Terminal:
        return Terminal(self._with_our_ports(text), self.folder, self._environment)

    def _running_one(self, command: str, where: str) -> Terminal:
        found = [running for running in self._running if command in running.text]
        assert found, f"{where}: nothing that is running contains {command}"
        return found[-1]

    def _with_our_ports(self, text: str) -> str:
        return re.sub(r"\b(61616|5672|1883)\b", lambda port: self._ports[port[1]], text)


def follow_whole(name: str, folder: Path) -> None:
    """Do all that a tutorial says, in this folder; skip the test if a program is missing that the page needs."""
    page = TUTORIALS / name
    if absent := missing(page):
        pytest.skip(f"docs/tutorials/{name} is not run: {', '.join(absent)} not installed")
    with Reader(folder, programs_of_this_python(folder / "bin")) as reader:
        reader.follow(page)
