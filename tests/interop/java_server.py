"""A Java server of somebody else, as a process: it is there when its port answers, and its log says why when not."""

import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

HOST: Final = "127.0.0.1"
START_TIMEOUT_S: Final = 180
STOP_TIMEOUT_S: Final = 30
RETRY_S: Final = 0.1


def free_port() -> int:
    """One that nobody has now: these servers cannot choose one and tell."""
    with socket.create_server((HOST, 0)) as free:
        port: int = free.getsockname()[1]
        return port


@contextmanager
def running(
    command: Sequence[str], port: int, folder: Path, environment: Mapping[str, str] | None = None
) -> Iterator["subprocess.Popen[bytes]"]:
    """From the first connection that it takes to its end; what it prints is in `server.log` of the folder."""
    log = folder / "server.log"
    with open(log, "wb") as output:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=output)
    try:
        _wait_for(process, port, log)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            socket.create_connection((HOST, port), timeout=1).close()
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                text = log.read_text(errors="replace")
                raise AssertionError(f"{process.args!r} did not start\n{text}") from None
            time.sleep(RETRY_S)
