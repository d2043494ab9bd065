"""The tutorial of this client, run as printed."""

from pathlib import Path

import pytest

from tests.tutorials.reader import follow_whole


@pytest.mark.timeout(900)
def test_page_does_what_it_prints(tmp_path: Path) -> None:
    """From the first command to the last, in one folder."""
    follow_whole("javascript.md", tmp_path)
