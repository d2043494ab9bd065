"""The short form of the crash test, and the proof that it can fail."""

from pathlib import Path

from tests.crash.run import CrashRun


def test_nothing_acknowledged_is_lost_by_kill_9(tmp_path: Path) -> None:
    """P1 to P6, P9 and P11, R1: mixed load, three kills at random moments."""
    report = CrashRun(tmp_path / "run", seed=3).run(rounds=3)

    assert report.violations == [], str(report)
    assert report.acknowledged > 100


def test_a_broker_that_acknowledges_before_the_commit_is_caught(tmp_path: Path) -> None:
    """V1: the test's own test."""
    report = CrashRun(tmp_path / "run", seed=3, fault="acknowledge-before-commit").run(rounds=3)

    assert report.lost > 0, str(report)


def test_a_broker_that_does_not_store_duplicate_ids_is_caught(tmp_path: Path) -> None:
    """V1, P11."""
    report = CrashRun(tmp_path / "run", seed=3, fault="duplicate-ids-not-stored").run(rounds=3)

    assert any(violation.startswith("P11") for violation in report.violations), str(report)
