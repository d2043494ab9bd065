"""Log lines that strangers provoke."""

import pytest

from artemis_py.transport.brake import INTERVAL_S, LogBrake


def test_flood_of_one_kind_gives_one_line_in_an_interval(caplog: pytest.LogCaptureFixture) -> None:
    """reliability §4, hardening 11: one log line, rate-limited; the next one says how many were left out."""
    brake = LogBrake()
    for number in range(100):
        brake.warn("connection refused", f"peer={number}", now=number / 100)
    brake.warn("connection refused", "peer=last", now=INTERVAL_S)

    assert [record.message for record in caplog.records] == [
        "connection refused: peer=0",
        "connection refused: peer=last (99 more since the last such line)",
    ]


def test_kinds_do_not_silence_each_other(caplog: pytest.LogCaptureFixture) -> None:
    """A flood of one must not hide another."""
    brake = LogBrake()
    brake.warn("connection refused", "peer=a", now=0.0)
    brake.warn("login took too long", "peer=b", now=0.0)

    assert len(caplog.records) == 2
