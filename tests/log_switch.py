"""Stores that the tests make have a write-ahead log, as those of brokers have; with ARTEMIS_PY_TEST_LOG=0 none has."""

import os
from typing import Final

from attrs import evolve

from artemis_py.store.log.options import LogOptions
from artemis_py.store.log_start import LogSettings

SMALL_LOG: Final = LogSettings(files=LogOptions(file_bytes=1 << 16, min_files=1), longest_wait_s=0.0)
"""A log for a loop that the test turns by hand: every append is a job."""

IS_ON: Final = os.environ.get("ARTEMIS_PY_TEST_LOG") != "0"
LOG: Final = evolve(SMALL_LOG, most_looks=0) if IS_ON else None
"""Settings of the log of a store whose batches wait for nothing, as those of a store without one; None: it has none."""
