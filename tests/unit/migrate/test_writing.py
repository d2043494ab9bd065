"""What a migration makes of its target before it writes it."""

from pathlib import Path

import pytest

from artemis_py.config.document import LAST_LINE
from artemis_py.errors import ConfigError, Problem
from artemis_py.migrate.findings import NOWHERE, Findings
from artemis_py.migrate.target import Element, Target
from artemis_py.migrate.writing import settle


def test_nothing_is_taken_out_of_a_file_whose_lines_cannot_be_told() -> None:
    """libxml2 says 65,535 for all lines after that one, and something else would go."""
    target = Target()
    for number in range(LAST_LINE // 3):
        target.setting(f"a{number}", "expiry-delay", "1", NOWHERE)

    def refuse(file: Path) -> None:
        raise ConfigError([Problem(str(file), LAST_LINE, "expiry-delay", "is wrong")])

    with pytest.raises(ConfigError, match="cannot be told apart beyond 65535"):
        settle(target, Findings(), refuse)
    assert len(target.settings()) == LAST_LINE // 3


def test_a_child_is_found_however_it_came_and_not_after_it_has_gone() -> None:
    parent = Element("exchange")
    one = parent.child("binding", key="a")
    other = Element("binding", NOWHERE, {"queue": "q", "key": "b"})
    parent.children.append(other)

    assert parent.child("binding", key="a") is one
    assert parent.child("binding", key="b") is other
    assert parent.child("binding", key="b", queue="q") is other
    assert parent.child("binding") is one
    parent.children.remove(one)
    assert parent.child("binding", key="a") is not one
    assert [each.attributes.get("key") for each in parent.children] == ["b", "a"]
