"""Scopes of meshes: lists of prefixes."""

from itertools import product

import pytest

from artemis_py.core.settings.cluster_config import Scope, parse_scope


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("", ["a", "$SYS"], []),
        ("eu", ["eu", "eu.a", "europe"], ["e", "us", "a.eu"]),
        ("eu, us ,", ["eu.a", "us.a"], ["uk"]),
        ("!test", ["a", "tes"], ["test", "test.a"]),
        ("eu,!eu.test", ["eu", "eu.tes", "eu.a"], ["eu.test", "eu.testing", "us"]),
        ("!eu.test,eu.test.a", [], ["eu.test.a", "eu", "us"]),
        ("a_b,50%", ["a_b.c", "50%.x"], ["axb", "50", "500"]),
        ("a.*,b.#", ["a.*.c"], ["a.b", "b.a"]),
    ],
)
def test_a_scope_covers_addresses_by_prefix(text: str, inside: list[str], outside: list[str]) -> None:
    """No character is a wildcard, and an exclusion wins over every inclusion (mesh §2.3)."""
    scope = parse_scope(text)

    assert [scope.covers(address) for address in inside] == [True] * len(inside)
    assert [scope.covers(address) for address in outside] == [False] * len(outside)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("", "", ""),
        ("eu", "", "eu"),
        ("eu", "us", None),
        ("eu", "eu.a,us", "eu.a"),
        ("eu,us", "us,eu", "eu"),
        ("eu", "!eu", None),
        ("eu", "!eu.a", "eu"),
        ("!eu", "!us", ""),
        ("!eu", "eu.a", None),
        ("eu,!eu.a", "eu.a", None),
        ("eu.ab", "!eu.a,eu", None),
    ],
)
def test_the_overlap_of_two_scopes_is_an_address_of_both(one: str, other: str, expected: str | None) -> None:
    """Two meshes that share an address would deliver its messages twice."""
    scopes = [parse_scope(one), parse_scope(other)]

    assert scopes[0].overlap(scopes[1]) == expected
    assert scopes[1].overlap(scopes[0]) == expected


def test_overlap_agrees_with_what_the_scopes_cover() -> None:
    """Over all short addresses of two letters, and all lists of two prefixes."""
    prefixes = ["", *("".join(letters) for size in (1, 2) for letters in product("ab", repeat=size))]
    lists = [(text,) for text in prefixes[1:]] + [()]
    scopes = [Scope(includes, excludes) for includes in lists for excludes in lists]
    addresses = ["".join(letters) for size in range(1, 5) for letters in product("abc", repeat=size)]

    for one, other in product(scopes, repeat=2):
        shared = any(one.covers(address) and other.covers(address) for address in addresses)
        assert (one.overlap(other) is not None) == shared, (one, other)


def test_a_scope_is_written_as_it_is_read() -> None:
    """In reports, and to peers."""
    assert str(parse_scope(" eu , !eu.test,us")) == "eu,us,!eu.test"
    assert parse_scope(str(parse_scope("eu,!a,us"))) == parse_scope("eu,us,!a")


def test_an_exclusion_of_nothing_is_a_mistake() -> None:
    """It would exclude every address."""
    with pytest.raises(ValueError, match="needs a prefix"):
        parse_scope("eu,!")
