"""Selectors that are refused, and what the client is told (artemis-model §3.12, reliability §4)."""

import sys

import pytest

from artemis_py.core.selectors.filter import parse_filter
from artemis_py.core.selectors.lexer import LENGTH_LIMIT, to_number
from artemis_py.core.selectors.parser import DEPTH_LIMIT
from artemis_py.errors import InvalidFilter


class Nothing:
    """A message without properties."""

    def lookup(self, name: str) -> object:
        return None


@pytest.mark.parametrize(
    ("selector", "character", "message"),
    [
        ("a =", 4, "expected a name, a literal or (, found the end of the selector"),
        ("= 1", 1, "expected a name, a literal or (, found '='"),
        ("a 1", 3, "expected an operator, found '1'"),
        ("a = 1 b", 7, "expected an operator, found 'b'"),
        ("a = 1 NOT", 10, "expected LIKE, IN or BETWEEN, found the end of the selector"),
        ("a = 1 NOT OR", 11, "expected LIKE, IN or BETWEEN, found 'OR'"),
        ("a = 1 TRUE", 7, "expected an operator, found 'TRUE'"),
        ("(a = 1", 7, "expected ), found the end of the selector"),
        ("a = 1)", 6, "expected an operator, found ')'"),
        ("()", 2, "expected a name, a literal or (, found ')'"),
        ("a = NULL", 3, "nothing is = NULL; use IS NULL or IS NOT NULL"),
        ("NULL <> a", 6, "nothing is <> NULL"),
        ("a > 'x'", 3, "> cannot compare strings, only = and <> can"),
        ("'x' <= a", 5, "<= cannot compare strings"),
        ("a < TRUE", 3, "< cannot compare conditions"),
        ("a >= NULL", 3, ">= cannot compare conditions"),
        ("(a = 1) > 2", 9, "> cannot compare conditions"),
        ("NOT a > 1", 7, "NOT binds more tightly than >; write NOT (...)"),
        ("NOT a BETWEEN 1 AND 2", 7, "NOT binds more tightly than BETWEEN; write NOT (...)"),
        ("a BETWEEN 'x' AND 2", 3, "BETWEEN cannot compare strings"),
        ("a NOT BETWEEN 1 AND 'y'", 3, "BETWEEN cannot compare strings"),
        ("a BETWEEN 1", 12, "expected AND with the second bound of BETWEEN, found the end"),
        ("a BETWEEN 1 OR 2", 13, "expected AND with the second bound of BETWEEN, found 'OR'"),
        ("a BETWEEN 1 = 2 AND 3", 13, "expected AND with the second bound of BETWEEN, found '='"),
        ("(a BETWEEN 1)", 13, "expected AND with the second bound of BETWEEN, found ')'"),
        ("a IS 1", 6, "expected NULL, found '1'"),
        ("a IS 'NULL'", 6, "expected NULL"),
        ("a LIKE b", 8, "expected a string with the pattern, found 'b'"),
        ("a LIKE 'b' ESCAPE 1", 19, "expected a string with the escape character, found '1'"),
        ("a LIKE 'b' ESCAPE 'xx'", 19, "the escape of LIKE must be one character"),
        ("a LIKE 'b!' ESCAPE '!'", 8, "the LIKE pattern ends with its escape character"),
        ("a IN 'x'", 6, "expected (, found"),
        ("a IN ()", 7, "expected a string, found ')'"),
        ("a IN (1)", 7, "expected a string, found '1'"),
        ("a IN ('x' 'y')", 11, "expected ), found"),
        ("1 IN ('x')", 3, "the left side of IN must be a name"),
        ("NOT a IN ('x')", 7, "the left side of IN must be a name; NOT belongs right before IN"),
        ("1", 1, "expected a condition"),
        ("a + 1", 1, "expected a condition"),
        ("'x'", 1, "expected a condition"),
        ("a AND 1", 3, "expected a condition"),
        ("1 OR a", 3, "expected a condition"),
        ("NOT 1", 1, "expected a condition"),
        ("'a' + 'b' = 'ab'", 5, "+ needs numbers on both sides"),
        ("-'a' = 1", 1, "- needs numbers"),
        ("+TRUE = 1", 1, "+ needs numbers"),
        ("a * (b = 1) = 1", 3, "* needs numbers"),
        ("XPATH '//a'", 1, "XPATH is not supported"),
        ("a = 1 AND xquery '//a'", 11, "XQUERY is not supported"),
        ("a = 'x", 5, "the string has no closing '"),
        ("a = 'x''", 5, "the string has no closing '"),
        ('"a = 1', 1, 'the quoted name has no closing "'),
        ("a = 1 /* x", 7, "the comment has no closing */"),
        ("a == 1", 4, "expected a name, a literal or (, found '='"),
        ("a != 1", 3, "'!' is not part of the language"),
        ("[a] = 1", 1, "'[' is not part of the language; put names with such characters in double quotes"),
        ("größe = 1", 3, r"'\xf6' is not part of the language"),
        ("a = 1\x00", 6, r"'\x00' is not part of the language"),
        ("a = 08", 5, "'08' starts with 0 and is not an octal number"),
        ("a = 18446744073709551616", 5, "'18446744073709551616' does not fit in 64 bits"),
        ("a = 0x10000000000000000", 5, "'0x10000000000000000' does not fit in 64 bits"),
        ("a = 5x", 6, "expected an operator, found 'x'"),
        ("a = 1.2.3", 8, "expected an operator, found '.3'"),
        ("a = 0x", 6, "expected an operator, found 'x'"),
        ("m. = 1", 3, "expected the rest of the name after the dot"),
        ("a. = 1", 2, "'.' is not part of the language"),
    ],
)
def test_error_names_the_character_and_what_was_expected(selector: str, character: int, message: str) -> None:
    """Every refusal of the grammar, artemis-model §3.12."""
    with pytest.raises(InvalidFilter) as caught:
        parse_filter(selector)

    assert str(caught.value).startswith(f"selector, character {character}: {message}")


def test_error_counts_from_the_start_of_the_text_with_its_prefix() -> None:
    """A position a user can find again."""
    with pytest.raises(InvalidFilter, match="character 24: expected a name"):
        parse_filter(" hyphenated_props:a-b =")


def test_error_quotes_a_clients_text_shortened_and_escaped() -> None:
    """amqp10 §21: nothing of a client's goes unescaped into a log."""
    with pytest.raises(InvalidFilter) as caught:
        parse_filter("a " + '"' + "\n\x1b" * 100 + '"')

    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 250


def test_selector_may_be_as_long_as_the_limit_and_no_longer() -> None:
    """reliability §4: selector 32 KiB."""
    assert parse_filter("a IS NULL".ljust(LENGTH_LIMIT)).matches(Nothing())
    with pytest.raises(InvalidFilter, match="longer than 32768 characters"):
        parse_filter("a IS NULL".ljust(LENGTH_LIMIT + 1))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("(", ")"),
        ("NOT (", ")"),
        ("NOT ", ""),
        ("TRUE AND (FALSE OR ", ")"),
        ("(", ") IS NULL"),
        ("(", ") = TRUE"),
        ("TRUE = (", ")"),
        ("1 < 2 = (", ")"),
    ],
)
def test_nesting_beyond_the_limit_is_refused(before: str, after: str) -> None:
    """reliability §4: depth 100; never Python's recursion limit."""
    shallow = DEPTH_LIMIT // 3
    parse_filter(before * shallow + "a IS NULL" + after * shallow).matches(Nothing())

    for count in (DEPTH_LIMIT + 1, 3000 // len(before + after)):
        with pytest.raises(InvalidFilter, match="more than 100 levels"):
            parse_filter(before * count + "a IS NULL" + after * count)


def test_deepest_legal_selector_needs_few_stack_frames() -> None:
    """No RecursionError, in parsing or evaluation, also for a caller that is deep in the stack already."""
    depth = DEPTH_LIMIT // 2 - 3
    text = "TRUE AND (FALSE OR " * depth + "a + -(1 + 1) IS NULL" + ")" * depth

    def at_depth(left: int) -> bool:
        return at_depth(left - 1) if left else parse_filter(text).matches(Nothing())

    assert at_depth(sys.getrecursionlimit() // 3)


@pytest.mark.parametrize("word", [" AND ", " OR ", " + ", " * ", " = 1 AND "])
def test_chains_of_one_operator_are_not_deep(word: str) -> None:
    """Ten thousand alternatives in one selector are legal, within its length."""
    operands = "a" + (word + "a") * (LENGTH_LIMIT // len(word + "a") - 10)

    assert not parse_filter(operands + " = 1").matches(Nothing())


@pytest.mark.parametrize("operator", ["=", "<>", "IS NULL", "LIKE 'x'"])
def test_long_chains_of_comparisons_are_deep(operator: str) -> None:
    """Each is an operand of the next."""
    operand = "" if "L" in operator else " a"
    with pytest.raises(InvalidFilter, match="more than 100 levels"):
        parse_filter("a" + f" {operator}{operand}" * 101)


@pytest.mark.parametrize(
    "text",
    [
        "'" * 30_001,
        '"' * 30_001,
        "/*" * 16_000,
        "-" * 32_000,
        "a." * 16_000,
        "9" * 32_000,
        "1e" * 16_000,
        "1." * 16_000,
        "0x" + "f" * 32_000,
        "m." + "-" * 32_000,
        "a-" * 16_000,
        "hyphenated_props:" * 1_900 + "=",
    ],
)
def test_hostile_text_is_refused_not_chewed(text: str) -> None:
    """reliability §5.6: the lexer reads each character once; repetition of its parts gives errors, not time."""
    with pytest.raises(InvalidFilter):
        parse_filter(text)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("5", 5),
        ("-5", -5),
        ("+5", 5),
        ("5.5", 5.5),
        (".5", 0.5),
        ("5e1", 50.0),
        ("", None),
        (" 5", None),
        ("5_0", None),
        ("0x5", None),
        ("\u0665", None),
        ("nan", None),
        ("9" * 65, None),
    ],
)
def test_strings_that_hold_a_number(text: str, number: float | None) -> None:
    """What Python reads as a number beyond that, SQL does not."""
    assert to_number(text) == number
