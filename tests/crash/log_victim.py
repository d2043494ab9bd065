"""A write-ahead log that works until it dies: `python -m tests.crash.log_victim folder last [fault]`.

It continues with what it finds up to the batch `last`, prints `append n` when batch n was appended, and `cut n` before
it cuts up to n, which LMDB is then meant to have; the file `folded` beside the log has that number. If the log fails
it prints the reason and tries to go on, which must append nothing. Files and pool are so small that the steps make,
grow, change, use again and delete files.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from artemis_py.store.log.log import WriteAheadLog
from artemis_py.store.log.options import SMALLEST_FILE_BYTES, LogOptions
from tests.crash.lost_writes import note_call

STORE: Final = b"store-identifier"
OPTIONS: Final = LogOptions(file_bytes=2 * SMALLEST_FILE_BYTES, min_files=1, pool_files=4)
SIZES: Final = (40_000, 60_000, 100, 122_000, 1, 90_000, 140_000, 70_000)
"""Sizes of the batches: some fit into a file with others, some fill one, some are too large for a common one."""
CUT_BEHIND: Final = 4
"""How many batches LMDB is behind."""


def payload(number: int) -> list[bytes]:
    """The parts of a batch."""
    size = SIZES[number % len(SIZES)]
    data = (b"%d," % number * size)[:size]
    return [data[:50], data[50 : size // 2], data[size // 2 :]]


def folded(folder: Path) -> int:
    """Number of the last batch that LMDB would have."""
    file = folder / "folded"
    return int(file.read_text()) if file.exists() else 0


def say(word: str, number: int) -> None:
    """Tell what has happened, also in the log of the system calls if there is one."""
    print(word, number, flush=True)
    log = os.environ.get("STORE_LOG")
    if log is not None:
        note_call(Path(log), {"append": "A", "cut": "C"}[word], number)


def main(folder: Path, last: int) -> None:
    """All steps; what is printed leaves the process at once."""
    log = WriteAheadLog.open(folder / "log", STORE, OPTIONS)
    assert all(data == b"".join(payload(number)) for number, data in log.read(folded(folder)))
    for number in range(log.last + 1, last + 1):
        try:
            log.append(number, payload(number))
        except OSError as error:
            print(error, flush=True)
            continue
        say("append", number)
        if number % 2 == 0 and number - CUT_BEHIND > folded(folder):
            (folder / "folded.new").write_text(str(number - CUT_BEHIND))
            (folder / "folded.new").rename(folder / "folded")
            say("cut", number - CUT_BEHIND)
            log.cut(number - CUT_BEHIND)
    log.close()


def late_sync() -> None:
    """A planted fault: each sync is made when the next batch is written."""
    write, sync = os.pwritev, os.fdatasync
    waiting: list[int] = []

    def write_late(file: int, parts: list[bytes], offset: int) -> int:
        if file in waiting:
            sync(file)
        waiting.clear()
        return write(file, parts, offset)

    setattr(os, "pwritev", write_late)  # noqa: B010
    setattr(os, "fdatasync", waiting.append)  # noqa: B010


def early_cut() -> None:
    """A planted fault: what is cut is more than LMDB has."""
    cut = WriteAheadLog.cut
    setattr(WriteAheadLog, "cut", lambda self, upto: cut(self, upto + CUT_BEHIND))  # noqa: B010


def no_folder_sync() -> None:
    """A planted fault: the name of a new file may be lost."""
    sync = os.fsync
    setattr(os, "fsync", lambda file: None if Path(f"/proc/self/fd/{file}").is_dir() else sync(file))  # noqa: B010


def forgetful() -> None:
    """A planted fault: after a failed write or sync the log takes more."""
    append = WriteAheadLog.append

    def forget(self: WriteAheadLog, number: int, parts: list[bytes]) -> None:
        self._failure = None
        append(self, self.last + 1, payload(self.last + 1))

    setattr(WriteAheadLog, "append", forget)  # noqa: B010


FAULTS: Final[dict[str, Callable[[], None]]] = {
    "late-sync": late_sync,
    "early-cut": early_cut,
    "no-folder-sync": no_folder_sync,
    "forgetful": forgetful,
}

if __name__ == "__main__":
    for fault in sys.argv[3:]:
        FAULTS[fault]()
    main(Path(sys.argv[1]), int(sys.argv[2]))
