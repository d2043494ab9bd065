"""LIKE, and its worst cases (artemis-model §3.12, reliability §5.6)."""

import pytest

from artemis_py.core.selectors.like import GAP_PART_LIMIT, LikePattern


@pytest.mark.parametrize(
    ("pattern", "value", "expected"),
    [
        ("", "", True),
        ("", "a", False),
        ("a", "a", True),
        ("a", "ab", False),
        ("A", "a", False),
        ("_", "a", True),
        ("_", "", False),
        ("__", "a", False),
        ("%", "", True),
        ("%", "anything", True),
        ("%%", "", True),
        ("a%", "abc", True),
        ("a%", "ba", False),
        ("%c", "abc", True),
        ("%c", "abcd", False),
        ("%b%", "abc", True),
        ("%x%", "abc", False),
        ("a%c", "ac", True),
        ("ab%bc", "abc", False),
        ("a_c", "abc", True),
        ("a_c", "abbc", False),
        ("a_c%e_g", "abc--efg", True),
        ("%a_c%", "xabcx", True),
        ("%a_c%", "xaacax", True),
        ("%a_c%", "xabx", False),
        ("%_a", "a", False),
        ("%_a", "xa", True),
        ("%__%", "a", False),
        ("%__%", "ab", True),
        ("%_a_%", "ba", False),
        ("%_a_%", "abac", True),
        ("%_b_c_%d", "abxcyd", True),
        ("%_b_c_%d", "abxcd", False),
        ("%ab%ab%", "abab", True),
        ("%ab%ab%", "aab", False),
        ("%a%b%c%", "cabac", True),
        ("1_3", "1\n3", True),
        ("1%3", "1\n\n3", True),
        ("a.c", "abc", False),
        ("[a]*\\", "[a]*\\", True),
        ("_", "\U0001f600", True),
    ],
)
def test_pattern(pattern: str, value: str, expected: bool) -> None:
    """`_` is one character, `%` any number; newlines are characters, and nothing else is special."""
    assert LikePattern(pattern, None).matches(value) is expected


@pytest.mark.parametrize(
    ("pattern", "value", "expected"),
    [
        ("100!%", "100%", True),
        ("100!%", "1000", False),
        ("!_x%", "_xyz", True),
        ("!_x%", "axyz", False),
        ("!!%", "!abc", True),
        ("!a", "a", True),
        ("%!%%", "50% off", True),
        ("%!__", "a_b", True),
        ("%a!_b_c%", "xa_bxc", True),
    ],
)
def test_escaped_characters_are_literal(pattern: str, value: str, expected: bool) -> None:
    """SQL-92 ESCAPE."""
    assert LikePattern(pattern, "!").matches(value) is expected


def test_escape_may_be_a_wildcard_itself() -> None:
    """`LIKE '%%' ESCAPE '%'` asks for one percent sign."""
    assert LikePattern("%%", "%").matches("%")
    assert not LikePattern("%%", "%").matches("x")


def test_each_character_of_the_value_is_passed_once() -> None:
    """reliability §5.6: `%a_b%a_b...` against `aaa...` is the pattern that makes backtracking matchers exponential."""
    pattern = LikePattern("%" + "a_b%" * 1000 + "c", None)
    value = "aab" * 900 + "a" * 10_000 + "c"

    assert not pattern.matches(value)
    assert pattern.steps <= len(value)


def test_part_that_nearly_fits_everywhere_is_linear_too() -> None:
    """reliability §5.6: quadratic for a matcher that starts again at each character."""
    pattern = LikePattern("%" + "a" * 100 + "_" + "a" * 100 + "b%", None)
    value = "a" * 10_000

    assert not pattern.matches(value)
    assert pattern.steps == len(value)


def test_parts_without_gaps_need_no_automaton() -> None:
    """They are left to str.find."""
    pattern = LikePattern("__%" + "a%" * 1000 + "_%b_", None)

    assert pattern.matches("xx" + "a" * 1000 + "_bx")
    assert pattern.steps == 0


def test_part_with_gaps_is_bounded() -> None:
    """The automaton's integers stay small; parts at the ends of a pattern are compared in place and need no bound."""
    longest = "a" * (GAP_PART_LIMIT - 2) + "_b"
    assert LikePattern(f"%__{longest}__%", None).matches("xx" + "a" * (GAP_PART_LIMIT - 2) + "xbxx")
    assert LikePattern("a_" * 1000 + "%" + "_b" * 1000, None).matches("ax" * 1000 + "xb" * 1000)

    with pytest.raises(ValueError, match="at most 256 characters"):
        LikePattern(f"%a{longest}%", None)
