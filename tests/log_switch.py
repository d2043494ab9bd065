"""ARTEMIS_PY_TEST_LOG=1 puts a write-ahead log in front of the stores that the tests make."""

import os
from typing import Final

from artemis_py.store.log.options import LogOptions
from artemis_py.store.log_start import LogSettings

SMALL_LOG: Final = LogSettings(files=LogOptions(file_bytes=1 << 16, min_files=1), longest_wait_s=0.0)
"""A log for a loop that the test turns by hand: every append is a job."""

IS_ON: Final = os.environ.get("ARTEMIS_PY_TEST_LOG") == "1"
LOG: Final = SMALL_LOG if IS_ON else None
"""Settings of the log of a store; None: it has no log."""
