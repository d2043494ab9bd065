"""A driver of Spark as a process of its own, which is killed with everything that it has started.

Nothing here depends on the speed of the machine. Limits of time are there only to end a test that hangs, and a driver
that Spark itself gives up because the machine is busy is started again.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

WAIT_S: Final = 3600.0
"""For whatever is waited for: starting Spark takes ten seconds, on a busy machine minutes."""
TEST_S: Final = 4 * WAIT_S
"""Of each test that kills drivers."""
POLL_INTERVAL_S: Final = 0.005
STARVED: Final = "Python worker failed to connect back"
"""Why a query ends if a worker in Python was not there after ten seconds: Spark has no setting for these."""


class DriverEnded(AssertionError):
    """A driver ended by itself, or nothing happened for too long; the text has the end of its log."""


class Driver:
    """A command that starts Spark, and its log, to which later ones append."""

    def __init__(self, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> None:
        """Start it; `environment`: more of it."""
        self._command: Final = list(command)
        self._log: Final = log
        self._environment: Final = os.environ | dict(environment or {})
        self.starved = 0
        """How often it was started again."""
        self._start()

    def _start(self) -> None:
        with open(self._log, "ab") as log:
            self._offset = log.tell()
            # Its session is what is killed: Spark's workers leave the process group.
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                start_new_session=True,
            )

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        """Return when it is so. Raises DriverEnded."""
        deadline = time.monotonic() + WAIT_S
        while not is_so():
            if self._has_ended():
                raise DriverEnded(f"it ended with {self._process.returncode}: {self._complaint()}")
            if time.monotonic() > deadline:
                raise DriverEnded(f"nothing happens: {self._complaint()}")
            time.sleep(POLL_INTERVAL_S)

    def finish(self) -> None:
        """Let it come to its end, which must be a good one. Raises DriverEnded."""
        deadline = time.monotonic() + WAIT_S
        while not self._has_ended():
            if time.monotonic() > deadline:
                raise DriverEnded(f"it does not end: {self._complaint()}")
            time.sleep(POLL_INTERVAL_S)
        if self._process.returncode != 0:
            raise DriverEnded(f"it ended with {self._process.returncode}: {self._complaint()}")

    def kill(self) -> None:
        """End it and everything that it has started, all stopped first so that none sees another die."""
        while members := _members(self._process.pid):
            for deadly in (signal.SIGSTOP, signal.SIGKILL):
                for member in members:
                    try:
                        os.kill(member, deadly)
                    except ProcessLookupError:
                        continue
            if self._process.poll() is None:
                self._process.wait()
        self._process.wait()

    def _has_ended(self) -> bool:
        """Tell whether it has ended; one that Spark gave up because the machine is busy is started again."""
        if self._process.poll() is None:
            return False
        if self._process.returncode == 0 or STARVED not in self._text():
            return True
        self.kill()
        self.starved += 1
        self._start()
        return False

    def _text(self) -> str:
        return self._log.read_bytes()[self._offset :].decode(errors="replace")

    def _complaint(self) -> str:
        return self._text()[-4000:]


def _members(session: int) -> list[int]:
    members = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[3]) == session and fields[0] not in "ZX":
            members.append(int(path.parent.name))
    return members
