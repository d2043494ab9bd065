"""The options of the log; the names in broker.xml are Artemis'."""

from typing import Final

from attrs import field, frozen, validators

SMALLEST_FILE_BYTES: Final = 64 << 10
"""Below this the files would hold few batches, and be changed all the time."""


@frozen(kw_only=True)
class LogOptions:
    """How the log uses the disk."""

    file_bytes: int = field(default=10 << 20, validator=validators.ge(SMALLEST_FILE_BYTES))
    """`journal-file-size`: size in bytes up to which a file grows. A batch that needs more gets a file of its own."""
    min_files: int = field(default=0, validator=validators.ge(0))
    """`journal-min-files`: files that are made at the start, with their full size; others are made when needed."""
    pool_files: int = field(default=10, validator=validators.ge(-1))
    """`journal-pool-files`: files that stay, to be used again, after a peak; -1: all."""
    sync: bool = True
    """Whether `append` waits until the disk has the batch."""
