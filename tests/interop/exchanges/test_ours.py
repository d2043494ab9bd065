"""This broker does what `ours.json` says. After a change that is meant, set `ARTEMIS_PY_RECORD=1` to write the file."""

from pathlib import Path

import pytest

from tests.interop.exchanges.brokers import observed, ours
from tests.interop.exchanges.recorded import OURS
from tests.interop.kinds.recorded import compare


@pytest.mark.timeout(600)
def test_programs_see_what_is_recorded(tmp_path: Path) -> None:
    """All programs against one broker, which is restarted once."""
    folder = tmp_path / "broker"
    folder.mkdir()

    seen = observed(ours(folder))

    assert compare(seen, OURS) == []
