"""Whatever a file contains, it is a configuration or a list of mistakes."""

import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from artemis_py.config import BrokerConfig, parse
from artemis_py.config.reader import shipped_folder
from artemis_py.errors import ConfigError, Problem

SHIPPED = (shipped_folder() / "broker.xml").read_bytes()
# Comments are half of the file, and damage in them changes nothing.
BARE = re.sub(rb"<!--.*?-->", b"", SHIPPED, flags=re.DOTALL)
WORDS = st.sampled_from(
    [
        b"",
        b"<",
        b">",
        b"/>",
        b'"',
        b"&amp;",
        b"&",
        b"${",
        b"${A}",
        b"::",
        b"#",
        b"-1",
        b"\x00",
        b"\xff",
        b"<core>",
        b"]]>",
    ]
)


def outcome(data: bytes) -> BrokerConfig | list[Problem]:
    """Anything else that is raised fails the test."""
    try:
        return parse(data, "broker.xml", Path(), {})
    except ConfigError as error:
        return error.problems


@given(st.lists(st.tuples(st.integers(0, len(BARE) - 1), st.integers(0, 9), WORDS), min_size=1, max_size=4))
def test_a_file_with_pieces_overwritten_is_read_or_refused(damage: list[tuple[int, int, bytes]]) -> None:
    """From a valid file, because noise alone would end at the first character."""
    data = BARE
    for offset, length, piece in damage:
        data = data[:offset] + piece + data[offset + length :]

    assert outcome(data)


LINES = [line for line in BARE.splitlines() if line.strip().startswith(b"<") and b"</" in line]


@given(st.lists(st.sampled_from(LINES), max_size=6), st.integers(0, len(BARE.splitlines()) - 1))
def test_elements_in_other_places_are_read_or_refused(moved: list[bytes], line: int) -> None:
    """Well-formed, but not what the schema has in mind."""
    lines = BARE.splitlines()

    assert outcome(b"\n".join([*lines[:line], *moved, *lines[line:]]))


def test_the_file_is_valid_before_it_is_damaged() -> None:
    """Otherwise the tests before would show little."""
    assert isinstance(outcome(BARE), BrokerConfig)
