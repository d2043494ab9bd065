"""Two machines with a network of their own each, and later a cable between them: namespaces of Linux."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest

HOLD: Final = ("unshare", "--net", "sh", "-c", "echo there && exec cat")
"""Keeps a namespace until its input ends."""
TOOLS: Final = ("unshare", "nsenter", "ip")


def need_namespaces() -> None:
    """Skip the test where this user may not make networks, or the commands for that are missing."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not found")
    probe = ("unshare", "--net", "ip", "link", "add", "x", "type", "veth", "peer", "name", "y")
    if subprocess.run(probe, capture_output=True).returncode:
        pytest.skip("this user may not make a network")


class Machine:
    """A network namespace, in which not even the loopback interface is up."""

    def __init__(self, holder: "subprocess.Popen[str]") -> None:
        self._holder: Final = holder

    def enter(self, *command: str) -> tuple[str, ...]:
        """Return what runs a command there."""
        return ("nsenter", "--net", "--target", str(self._holder.pid), *command)

    def run(self, *command: str) -> None:
        """Run a command there, to its end."""
        subprocess.run(self.enter(*command), check=True)

    def connect(self, other: "Machine", address: str, other_address: str) -> None:
        """Lay a cable to another machine; each end has an address, with the length of its prefix."""
        self.run("ip", "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", str(other._holder.pid))
        for machine, own in ((self, address), (other, other_address)):
            machine.run("ip", "address", "add", own, "dev", "cable")
            for interface in ("lo", "cable"):
                machine.run("ip", "link", "set", interface, "up")


@contextmanager
def machine() -> Iterator[Machine]:
    """A machine that is there until the block ends."""
    with subprocess.Popen(HOLD, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "there\n"
        yield Machine(holder)
