"""What selectors mean (artemis-model §3.12, amqp10 §11.1)."""

from collections.abc import Mapping

import pytest

from artemis_py.core.selectors.filter import CACHED_LENGTH_LIMIT, Filter, parse_filter
from artemis_py.errors import MalformedFrame


class Properties:
    """A message that is nothing but its properties."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self.values = values

    def lookup(self, name: str) -> object:
        return self.values.get(name)


class Damaged:
    """A message whose bytes cannot be read."""

    def lookup(self, name: str) -> object:
        raise MalformedFrame("cut short")


class Small(int):
    """Stands for the integer types of a protocol."""


ORDER: Mapping[str, object] = {
    "colour": "red",
    "size": 5,
    "weight": 2.5,
    "ready": True,
    "late": False,
    "text": "it's 100%\nnew",
    "seven": "7",
    "yes": "TRUE",
    "small": Small(3),
    "raw": b"red",
    "big": 2**63,
    "in": 1,
    "a-b": 1,
    "amqp.subject": "order",
    "m.x-opt-key": "k",
    "amqp.annotation.x-opt-sequence-number": 6,
    "amqp.annotation.x-opt-offset": "6",
}


def passes(selector: str) -> bool:
    return parse_filter(selector).matches(Properties(ORDER))


def truth(selector: str) -> bool | None:
    """Three-valued, made visible by asking for the opposite too."""
    if passes(selector):
        return True
    return False if passes(f"NOT ({selector})") else None


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("colour = 'red'", True),
        ("colour = 'Red'", False),
        ("colour <> 'blue'", True),
        ("size = 5", True),
        ("size = 5.0", True),
        ("size > 4 AND size < 6", True),
        ("4 < size", True),
        ("5 <= size AND 5 >= size AND NOT (5 > size) AND NOT (5 < size)", True),
        ("weight >= 2.5", True),
        ("weight <= 2", False),
        ("small > 2", True),
        ("big > 9223372036854775807", True),
        ("size > weight", True),
        ("colour > seven", True),
        ("ready", True),
        ("late", False),
        ("ready = TRUE", True),
        ("ready <> FALSE", True),
        ("late = false", True),
        ("(size = 5) = ready", True),
        ("size = 5 = TRUE", True),
        ("TRUE = ready", True),
    ],
)
def test_comparisons(selector: str, expected: bool) -> None:
    """artemis-model §3.12: numbers widen, booleans are equal or not, chains associate to the left."""
    assert truth(selector) is expected


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("size = '5'", False),
        ("size <> '5'", True),
        ("colour = 5", False),
        ("colour <> 5", True),
        ("colour > 5", False),
        ("ready = 1", False),
        ("ready > 0", False),
        ("ready >= late", True),
        ("ready > size", False),
        ("seven > size", False),
        ("raw = 'red'", False),
        ("raw = colour", False),
        ("weight = colour", False),
    ],
)
def test_values_of_unlike_kinds_are_different_and_without_order(selector: str, expected: bool) -> None:
    """artemis-model §3.12: a string never equals a number; True is not 1."""
    assert truth(selector) is expected


@pytest.mark.parametrize(
    "selector",
    [
        "none = 1",
        "none <> 1",
        "none = 'x'",
        "none > 1",
        "none > weight",
        "weight > none",
        "none = other",
        "none",
        "NOT none",
        "NULL",
        "none LIKE '%'",
        "none NOT LIKE '%'",
        "none IN ('a')",
        "none NOT IN ('a')",
        "size IN ('5')",
        "size NOT IN ('5')",
        "none BETWEEN 1 AND 2",
        "size BETWEEN none AND 6",
        "none + 1 = 1",
        "1 - none = 1",
        "none + none + 1 = 1",
        "-none = 1",
        "+none = 1",
        "ready AND none",
        "none AND ready",
        "late OR none",
        "none OR late",
        "ready AND none AND ready",
    ],
)
def test_what_depends_on_a_missing_property_is_unknown(selector: str) -> None:
    """artemis-model §3.12: three-valued; null never matches, not even its opposite."""
    assert truth(selector) is None


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("late AND none", False),
        ("none AND late", False),
        ("none AND ready AND late", False),
        ("ready OR none", True),
        ("none OR ready", True),
        ("none OR late OR ready", True),
        ("size BETWEEN none AND 4", False),
        ("size BETWEEN 6 AND none", False),
        ("none IS NULL", True),
        ("none IS NOT NULL", False),
        ("size IS NULL", False),
        ("size IS NOT NULL", True),
        ("none + 1 IS NULL", True),
        ("(none = 1) IS NULL", True),
        ("ready AND late OR ready", True),
        ("ready OR ready AND late", True),
        ("(ready OR ready) AND late", False),
    ],
)
def test_logic_knows_an_answer_where_one_side_decides(selector: str, expected: bool) -> None:
    """SQL-92 truth tables; AND is tighter than OR."""
    assert truth(selector) is expected


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("NOT ready", False),
        ("NOT NOT ready", True),
        ("NOT colour", True),
        ("NOT size = 5", False),
        ("NOT (size = 5)", False),
        ("NOT size = FALSE", False),
        ("NOT size = TRUE", True),
        ("NOT ready OR ready", True),
        ("NOT none IS NULL", True),
        ("NOT colour LIKE 'r%'", False),
    ],
)
def test_not_is_as_tight_as_a_sign(selector: str, expected: bool) -> None:
    """artemis-model §3.12 and §7.1: `NOT a = 1` is `(NOT a) = 1`; a property that is no boolean counts as false."""
    assert truth(selector) is expected


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("size BETWEEN 5 AND 6", True),
        ("size BETWEEN 4 AND 5", True),
        ("size BETWEEN 6 AND 7", False),
        ("size NOT BETWEEN 6 AND 7", True),
        ("size BETWEEN 2 + 2 AND 3 * 2 AND ready", True),
        ("size BETWEEN 6 AND 7 OR ready", True),
        ("size BETWEEN (1) AND weight * 2", True),
        ("size + 1 BETWEEN 6 AND 6", True),
        ("colour BETWEEN 1 AND 2", False),
        ("size BETWEEN 1 AND 9 = TRUE", True),
        ("size BETWEEN 1 AND 9 IS NOT NULL", True),
        ("size BETWEEN 1 AND (size BETWEEN 1 AND 9 AND 5 = 5) OR TRUE", None),
    ],
)
def test_between_includes_its_bounds(selector: str, expected: bool | None) -> None:
    """artemis-model §3.12; its AND is no logic."""
    if expected is None:
        with pytest.raises(Exception, match="cannot compare conditions"):
            parse_filter(selector)
    else:
        assert truth(selector) is expected


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("colour IN ('blue', 'red')", True),
        ("colour IN ('blue')", False),
        ("colour NOT IN ('blue')", True),
        ("(colour) IN ('red') AND ready", True),
        ("colour IN ('red') = TRUE", True),
    ],
)
def test_in_looks_for_a_string_in_a_list(selector: str, expected: bool) -> None:
    """artemis-model §3.12."""
    assert truth(selector) is expected


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("1 + 2 * 3 = 7", True),
        ("(1 + 2) * 3 = 9", True),
        ("10 - 3 - 2 = 5", True),
        ("12 / 3 / 2 = 2", True),
        ("1 + 6 / 3 = 3", True),
        ("1 + 7 % 4 = 4", True),
        ("7 / 2 = 3", True),
        ("-7 / 2 = -3", True),
        ("7 / -2 = -3", True),
        ("7.0 / 2 = 3.5", True),
        ("7 % 3 = 1", True),
        ("-7 % 3 = -1", True),
        ("7 % -3 = 1", True),
        ("-7.5 % 2 = -1.5", True),
        ("2 * 7 % 4 = 2", True),
        ("size - weight = 2.5", True),
        ("-size = -5", True),
        ("- -size = 5", True),
        ("+size = 5", True),
        ("+size * 2 = 10", True),
        ("-weight < 0", True),
        ("2 * -size = -10", True),
    ],
)
def test_arithmetic(selector: str, expected: bool) -> None:
    """artemis-model §3.12: `* / %` before `+ -`, left to right; integers divide towards zero, as in Java."""
    assert truth(selector) is expected


@pytest.mark.parametrize(
    "selector",
    [
        "size / 0 = 0",
        "size % 0 = 0",
        "weight / 0 = 0",
        "weight % 0 = 0",
        "colour + 1 = 1",
        "1 + colour = 1",
        "-colour = 1",
        "+colour = 'red'",
        "ready + 1 = 2",
        "big * big > 0",
        "big + big > 0",
        "1e308 * 10 % 2 = 0",
    ],
)
def test_failed_evaluation_makes_the_whole_selector_false(selector: str) -> None:
    """artemis-model §3.12, evaluation failure: false, whatever NOT or OR stands around it."""
    assert truth(selector) is None
    assert not passes(f"{selector} OR TRUE")
    assert passes(f"TRUE OR {selector}")


def test_damaged_message_does_not_match() -> None:
    """artemis-model §3.12, evaluation failure; one bad message must not stop a queue."""
    assert not parse_filter("a = 1").matches(Damaged())
    assert not parse_filter("NOT (a = 1)").matches(Damaged())


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("size = 5L AND size = 5l AND size = 05 AND size = 0x5 AND size = 0X05L", True),
        ("010 = 8", True),
        ("0x1F = 31", True),
        ("0 = 0L", True),
        ("18446744073709551615 > big", True),
        ("0xFFFFFFFFFFFFFFFF = 18446744073709551615", True),
        ("weight = 2.5 AND weight = 25e-1 AND weight = .25E1 AND weight = 2.5e+0", True),
        ("size = 5.", True),
        ("text = 'it''s 100%\nnew'", True),
        ("'' = ''", True),
        ("true AND TRUE AND True", True),
        ("null IS Null", True),
    ],
)
def test_literals(selector: str, expected: bool) -> None:
    """artemis-model §3.12: decimal with optional L, hex, octal, floats, strings with doubled quotes."""
    assert truth(selector) is expected


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("colour = 'red' -- and the rest is silence", True),
        ("-- first\ncolour = 'red'", True),
        ("colour /* which */ = /**/ 'red' /* ** / */", True),
        ("size --1 = 4\n= 5", True),
        (" \t\r\n size\n=\n5 ", True),
        ("size>4and(ready)or(late)", True),
        ("colour lIkE 'r%' AnD nOt (none iS nUlL) Or colour iN('red')", True),
    ],
)
def test_comments_space_and_case_of_keywords_do_not_matter(selector: str, expected: bool) -> None:
    """artemis-model §3.12: keywords are case-insensitive; both kinds of comments."""
    assert truth(selector) is expected


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("Colour = 'red'", None),
        ("\"colour\" = 'red'", True),
        ('"in" = 1', True),
        ('"a-b" = 1', True),
        ('"a""b" IS NULL', True),
        ("amqp.subject = 'order'", True),
        ("m.x-opt-key = 'k'", True),
        ("\"m.x-opt-key\" = 'k'", True),
        ("$a IS NULL AND _b IS NULL AND c$1_ IS NULL", True),
        ("notready IS NULL AND inn IS NULL", True),
        ("a.in IS NULL", True),
        ("size-1 = 4", True),
        ("m.x-opt-key--comment\n = 'k'", True),
        ("m.x-opt-key - 1 = 1", None),
    ],
)
def test_names(selector: str, expected: bool | None) -> None:
    """artemis-model §3.12 identifiers; dotted names; hyphens belong to names after `m.` and `amqp.annotation.`."""
    assert truth(selector) is expected


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("amqp.annotation.x-opt-sequence-number > 5", True),
        ("amqp.annotation.x-opt-sequence-number > '5'", True),
        ("amqp.annotation.x-opt-sequence-number >= '6'", True),
        ("amqp.annotation.x-opt-sequence-number > '6'", False),
        ("'5' < amqp.annotation.x-opt-sequence-number", True),
        ("amqp.annotation.x-opt-sequence-number = '6'", True),
        ("amqp.annotation.x-opt-sequence-number <> '6'", False),
        ("amqp.annotation.x-opt-sequence-number = 'six'", False),
        ("amqp.annotation.x-opt-sequence-number BETWEEN '6' AND '7.5'", True),
        ("amqp.annotation.x-opt-offset = '6'", True),
        ("amqp.annotation.none = '6'", None),
        ("amqp.annotation.none > '6'", None),
    ],
)
def test_annotations_may_be_compared_with_a_quoted_number(selector: str, expected: bool | None) -> None:
    """amqp10 §11.1: Event Hubs' clients write `> '5'`."""
    assert truth(selector) is expected


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("seven > 5", True),
        ("seven = 7", True),
        ("seven = 7.0", True),
        ("7 = seven", True),
        ("seven <> 8", True),
        ("seven BETWEEN 6 AND 8", True),
        ("size < seven", True),
        ("yes = TRUE", True),
        ("yes = ready", True),
        ("colour = 5", False),
        ("colour = TRUE", False),
        ("text = TRUE", False),
        ("colour > 5", False),
        ("colour = 'red'", True),
        ("size = '5'", True),
        ("seven = '7.0'", False),
        ("none > 5", None),
    ],
)
def test_convert_prefix_reads_strings_as_what_they_are_compared_with(selector: str, expected: bool | None) -> None:
    """artemis-model §3.12, prefixes."""
    prefix = "convert_string_expressions:"
    properties = Properties(ORDER)

    positive = parse_filter(prefix + selector).matches(properties)
    negative = parse_filter(f"{prefix} NOT ({selector})").matches(properties)

    assert (positive, negative) == (expected is True, expected is False)
    assert parse_filter(f"{prefix}no_{prefix}{selector}").matches(properties) is passes(selector)


def test_hyphenated_prefix_makes_hyphens_part_of_names() -> None:
    """artemis-model §3.12, prefixes: one can follow the other, in any order, and be taken back."""
    assert passes("hyphenated_props:a-b = 1")
    assert passes("hyphenated_props:convert_string_expressions:a-b = 1 AND seven = 7")
    assert passes("convert_string_expressions:hyphenated_props: a-b = 1 AND seven = 7")
    assert passes("hyphenated_props:no_hyphenated_props:size-2 = 3")
    assert passes("hyphenated_props:size - 2 = 3")
    assert not passes("hyphenated_props:size-2 = 3")


@pytest.mark.parametrize("selector", ["", "  \n", "hyphenated_props: "])
def test_blank_selector_matches_everything(selector: str) -> None:
    """An empty filter is no filter, as in Artemis."""
    assert passes(selector)


def test_filters_of_equal_text_are_equal() -> None:
    """Queues are compared and found again by their filter."""
    long = "colour = 'red'".ljust(CACHED_LENGTH_LIMIT + 1)

    assert parse_filter("a = 1") == parse_filter("a = 1")
    assert parse_filter("a = 1") != parse_filter("a  = 1")
    assert parse_filter("a = 1") != "a = 1"
    assert len({parse_filter("a = 1"), Filter("a = 1", lambda source: None)}) == 1
    assert parse_filter(long) == parse_filter(long)
    assert parse_filter(long) is not parse_filter(long)
    assert parse_filter("a = 1") is parse_filter("a = 1")
    assert repr(parse_filter("a = 1")) == "Filter('a = 1')"
    assert parse_filter("a = 1").text == "a = 1"
