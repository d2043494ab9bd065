"""Values by patterns of addresses: the same ones as the router of an address finds."""

import pytest

from artemis_py.cluster.patterns import Patterns
from artemis_py.core.names.syntax import WildcardSyntax

PATTERNS = ["a", "a.b", "a.*", "a.#", "#", "*.b", "$SYS.#"]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("a", ["a", "a.#", "#"]),
        ("a.b", ["a.b", "a.*", "a.#", "#", "*.b"]),
        ("a.b.c", ["a.#", "#"]),
        ("$SYS.x", ["$SYS.#"]),
        ("a.*", ["a.*", "a.#", "#"]),
        ("", ["#"]),
    ],
)
def test_names_are_found_as_routing_finds_them(name: str, found: list[str]) -> None:
    """Wildcards in the first word do not cover what is reserved; a pattern covers itself."""
    patterns: Patterns[str] = Patterns(WildcardSyntax())
    for pattern in PATTERNS:
        patterns.add(pattern, pattern)

    assert sorted(patterns.match(name)) == sorted(found)
    for pattern in PATTERNS:
        patterns.remove(pattern, pattern)
    assert patterns.match(name) == []


def test_without_routing_by_wildcards_patterns_are_names() -> None:
    """`<wildcard-addresses>` may switch it off."""
    patterns: Patterns[str] = Patterns(WildcardSyntax(routing_enabled=False))
    patterns.add("a.*", "wild")

    assert patterns.match("a.b") == []
    assert patterns.match("a.*") == ["wild"]
