"""Whether broker.xml has changed since it was read."""

import os
from pathlib import Path

import pytest

from artemis_py.cli.serving import refresh_period_s
from artemis_py.config.broker_config import BrokerConfig
from artemis_py.deployment.file_watch import FileWatch
from artemis_py.security.watch import SETTLE_S


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file."""
    path = tmp_path / "broker.xml"
    path.write_text("one", encoding="utf-8")
    os.utime(path, ns=(10_000, 10_000))
    return path


def older(path: Path) -> None:
    os.utime(path, ns=(5_000, 5_000))


def newer(path: Path) -> None:
    os.utime(path, ns=(20_000, 20_000))


def longer(path: Path) -> None:
    path.write_text("longer", encoding="utf-8")
    os.utime(path, ns=(10_000, 10_000))


def another(path: Path) -> None:
    other = path.with_name("other")
    other.write_text("two", encoding="utf-8")
    os.utime(other, ns=(10_000, 10_000))
    other.replace(path)


def gone(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("change", [older, newer, longer, another, gone])
def test_any_change_counts_once_it_has_settled(path: Path, change: object) -> None:
    """An older time, the same time with another size, another file with the same name."""
    watch = FileWatch(path)
    assert watch.look() is None
    change(path)  # type: ignore[operator]

    assert watch.look() == SETTLE_S
    assert watch.look() == 0
    watch.note()
    assert watch.look() is None


def test_a_file_that_is_still_written_is_not_read(path: Path) -> None:
    watch = FileWatch(path)
    newer(path)
    assert watch.look() == SETTLE_S
    longer(path)
    assert watch.look() == SETTLE_S
    older(path)
    assert watch.look() == SETTLE_S
    assert watch.look() == 0


def test_what_is_as_it_was_read_has_not_changed(path: Path) -> None:
    """Somebody has undone the change before it was read."""
    watch = FileWatch(path)
    newer(path)
    assert watch.look() == SETTLE_S
    os.utime(path, ns=(10_000, 10_000))

    assert watch.look() is None


@pytest.mark.parametrize(("period_ms", "expected"), [(-1, None), (0, None), (1, 0.001), (5000, 5.0)])
def test_the_period(period_ms: int, expected: float | None) -> None:
    """As in Artemis -1 is off, and so is 0."""
    assert refresh_period_s(BrokerConfig(configuration_file_refresh_period_ms=period_ms)) == expected
