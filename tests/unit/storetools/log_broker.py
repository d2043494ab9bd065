"""A store with a write-ahead log in a process of its own, because LMDB opens a store only once in a process.

`python -m tests.unit.storetools.log_broker folder` reads lines of JSON, ["append", message, ...] or ["fold"], and
answers each with an empty line.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.core_harness import settle_down
from tests.crash.processes import command_of
from tests.log_switch import SMALL_LOG
from tests.unit.store.world import World


def append(world: World, *messages: str) -> None:
    """Have messages appended to the log, and nothing folded."""
    world.send("q", *messages)
    settle_down(world.domain)
    world.store._commit()
    world.hands.work()


def fold(world: World) -> None:
    """Have LMDB get everything."""
    world.store._fold()
    while world.hands.jobs:
        world.hands.work()


class LogBroker:
    """The process."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def append(self, *messages: str) -> None:
        """See above; they are in the log when this returns."""
        self._do("append", *messages)

    def fold(self) -> None:
        """See above."""
        self._do("fold")

    def _do(self, *words: str) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(words), file=self._process.stdin, flush=True)
        assert self._process.stdout.readline() == "\n"


@contextmanager
def log_broker(folder: Path) -> Iterator[LogBroker]:
    """Start it, and kill it in the end."""
    command = command_of(__name__, str(folder))
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield LogBroker(process)
    finally:
        process.kill()
        process.communicate()


def main(folder: Path) -> None:
    """Until it is killed."""
    with World(folder, log=SMALL_LOG) as world:
        world.queue()
        for line in sys.stdin:
            word, *messages = json.loads(line)
            if word == "fold":
                fold(world)
            else:
                append(world, *messages)
            print(flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
