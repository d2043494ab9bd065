"""How much memory a broker may use by default."""

import os
from pathlib import Path

import pytest

from artemis_py.config.memory import half_of_memory

MACHINE = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def test_half_of_the_machine_without_a_container(tmp_path: Path) -> None:
    """No control groups, as on macOS."""
    assert half_of_memory(tmp_path) == MACHINE // 2


@pytest.mark.parametrize("name", ["memory.max", "memory/memory.limit_in_bytes"])
def test_half_of_the_containers_limit(tmp_path: Path, name: str) -> None:
    """Both versions of control groups."""
    (tmp_path / "memory").mkdir()
    (tmp_path / name).write_text("64000\n")

    assert half_of_memory(tmp_path) == 32000


@pytest.mark.parametrize("text", ["max\n", f"{MACHINE * 4}\n", "9223372036854771712\n"])
def test_a_limit_above_the_machine_is_none(tmp_path: Path, text: str) -> None:
    """The words of version 2 and the number of version 1 for no limit."""
    (tmp_path / "memory.max").write_text(text)

    assert half_of_memory(tmp_path) == MACHINE // 2
