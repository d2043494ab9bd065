"""When the disk counts as full: numbers in, decisions out."""

import logging
from pathlib import Path

import pytest

from artemis_py.store.disk import DiskLevel, DiskLimit, DiskMonitor, DiskSpace, space_of

FOLDER = Path("/data")


@pytest.mark.parametrize(
    ("limit", "free", "level"),
    [
        (DiskLimit(), 0, DiskLevel.ROOM),
        (DiskLimit(max_usage_percent=90), 100, DiskLevel.ROOM),
        (DiskLimit(max_usage_percent=90), 99, DiskLevel.FULL),
        (DiskLimit(max_usage_percent=90), 50, DiskLevel.FULL),
        (DiskLimit(max_usage_percent=90), 49, DiskLevel.EXHAUSTED),
        (DiskLimit(max_usage_percent=100), 0, DiskLevel.ROOM),
        (DiskLimit(max_usage_percent=0), 999, DiskLevel.FULL),
        (DiskLimit(min_free_bytes=10, max_usage_percent=90), 10, DiskLevel.ROOM),
        (DiskLimit(min_free_bytes=10, max_usage_percent=90), 9, DiskLevel.FULL),
        (DiskLimit(min_free_bytes=10, max_usage_percent=90), 4, DiskLevel.EXHAUSTED),
        (DiskLimit(min_free_bytes=5000), 1000, DiskLevel.EXHAUSTED),
    ],
)
def test_the_limit_is_a_percentage_or_a_number_of_bytes(limit: DiskLimit, free: int, level: DiskLevel) -> None:
    """`min-disk-free` counts before `max-disk-usage` (artemis-model §3.15)."""
    assert limit.level(DiskSpace(total=1000, free=free)) is level


def test_each_change_is_told_once_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Down, further down, and back."""
    frees = iter([50, 9, 8, 4, 9, 10, 11])
    told: list[tuple[bool, bool]] = []
    monitor = DiskMonitor(
        FOLDER,
        DiskLimit(min_free_bytes=10),
        lambda is_full, is_exhausted: told.append((is_full, is_exhausted)),
        lambda folder: DiskSpace(100, next(frees)),
    )
    with caplog.at_level(logging.INFO):
        for _ in range(7):
            monitor.scan()

    assert told == [(True, False), (True, True), (True, False), (False, False)]
    assert [record.message.split(":")[0] for record in caplog.records] == [
        "disk is nearly full, producers wait",
        "disk is nearly full, messages are refused",
        "disk is nearly full, producers wait",
        "disk has room again",
    ]
    assert monitor.used_part == pytest.approx(0.89)


def test_a_disk_that_cannot_be_looked_at_stays_as_it_was(caplog: pytest.LogCaptureFixture) -> None:
    """A failing look is no reason to stop, nor to go on filling it."""
    answers = iter([DiskSpace(100, 1)])

    def look(folder: Path) -> DiskSpace:
        space = next(answers, None)
        if space is None:
            raise FileNotFoundError(2, "gone")
        return space

    monitor = DiskMonitor(FOLDER, DiskLimit(min_free_bytes=2), lambda *_: None, look)
    monitor.scan()
    monitor.scan()

    assert monitor.level is DiskLevel.FULL
    assert "disk cannot be checked: folder=/data reason=gone" in caplog.text


def test_a_real_disk_has_a_size(tmp_path: Path) -> None:
    """What the system says."""
    space = space_of(tmp_path)

    assert 0 <= space.free <= space.total
    assert 0 <= space.used_part <= 1
