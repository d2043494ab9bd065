"""Figures of the operating system, read from files as Linux writes them."""

import os
from pathlib import Path

import pytest

from artemis_py.management.metrics import process
from artemis_py.management.metrics.process import ProcessFigures
from tests.unit.management.metrics.world import values_of

# A name may have spaces and brackets. After it come the state and 19 numbers up to the start, in ticks, and after two
# more the pages in RAM (proc(5)).
STAT = f"42 (a) b) S {' '.join(['0'] * 18)} {500 * os.sysconf('SC_CLK_TCK')} 999 10 0\n"


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    (tmp_path / "self" / "fd").mkdir(parents=True)
    for name in ("0", "1", "2"):
        (tmp_path / "self" / "fd" / name).touch()
    (tmp_path / "self" / "stat").write_text(STAT)
    (tmp_path / "stat").write_text("cpu 1 2 3\nbtime 1700000000\n")
    return tmp_path


def test_figures_of_linux(proc: Path) -> None:
    values = values_of(ProcessFigures(proc).families())

    assert values["process_start_time_seconds"] == 1_700_000_500
    assert values["process_resident_memory_bytes"] == 10 * os.sysconf("SC_PAGE_SIZE")
    assert values["process_cpu_seconds"] > 0


def test_open_files_are_counted_where_the_system_does_not_tell_their_number(
    proc: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before Linux 6.2 the size of the folder is 0."""
    monkeypatch.setattr(process, "_size_of", lambda folder: 0)

    assert values_of(ProcessFigures(proc).families())["process_open_fds"] == 3


def test_open_files_as_the_system_tells_them(proc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To list ten thousand takes 30 ms."""
    monkeypatch.setattr(process, "_size_of", lambda folder: 10_006)

    assert values_of(ProcessFigures(proc).families())["process_open_fds"] == 10_006


def test_what_the_system_does_not_tell_is_left_out(tmp_path: Path) -> None:
    values = values_of(ProcessFigures(tmp_path).families())

    assert "process_cpu_seconds" in values
    assert "process_start_time_seconds" not in values
