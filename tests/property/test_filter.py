"""Selectors against an evaluator that is too simple to be wrong, and against noise (artemis-model §3.12)."""

import re
from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from artemis_py.core.selectors.filter import parse_filter
from artemis_py.core.selectors.like import LikePattern
from artemis_py.errors import InvalidFilter
from tests.examples import examples

Tree = tuple[object, ...]


class Properties:
    """A message that is nothing but its properties."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self.values = values

    def lookup(self, name: str) -> object:
        return self.values.get(name)


names = st.sampled_from(["a", "b", "c.d", "none"])
small_numbers = st.integers(0, 4) | st.sampled_from([0.5, 2.0, 2.5])
strings = st.text(alphabet="ab_%'", max_size=4)
properties = st.fixed_dictionaries(
    {}, optional={name: small_numbers | strings | st.booleans() for name in ["a", "b", "c.d"]}
)

numbers: st.SearchStrategy[Tree] = st.recursive(
    st.tuples(st.just("name"), names) | st.tuples(st.just("literal"), small_numbers),
    lambda inner: (
        st.tuples(st.sampled_from(["+", "-", "*", "/", "%"]), inner, inner) | st.tuples(st.just("neg"), inner)
    ),
    max_leaves=4,
)
equals = st.sampled_from(["=", "<>"])
conditions: st.SearchStrategy[Tree] = st.recursive(
    st.tuples(st.just("name"), names)
    | st.tuples(st.just("literal"), st.booleans() | st.none())
    | st.tuples(st.sampled_from([">", ">=", "<", "<=", "=", "<>"]), numbers, numbers)
    | st.tuples(equals, st.tuples(st.just("name"), names), st.tuples(st.just("literal"), strings))
    | st.tuples(st.just("between"), st.booleans(), numbers, numbers, numbers)
    | st.tuples(st.just("in"), st.booleans(), names, st.lists(strings, min_size=1, max_size=3))
    | st.tuples(st.just("like"), st.booleans(), names, strings)
    | st.tuples(st.just("null"), st.booleans(), numbers),
    lambda inner: (
        st.tuples(st.sampled_from(["AND", "OR"]), inner, inner)
        | st.tuples(st.just("not"), inner)
        | st.tuples(st.just("null"), st.booleans(), inner)
    ),
    max_leaves=6,
)


def quote(text: object) -> str:
    return "'" + str(text).replace("'", "''") + "'"


def render(tree: Tree) -> str:
    """The tree as text, every operation in parentheses."""
    kind = tree[0]
    if kind == "name":
        return str(tree[1])
    if kind == "literal":
        value = tree[1]
        return quote(value) if isinstance(value, str) else "NULL" if value is None else str(value).upper()
    parts = [render(part) for part in tree[1:] if isinstance(part, tuple)]
    negation = "NOT " if tree[1] is True else ""
    if kind == "neg":
        return f"(- {parts[0]})"
    if kind == "not":
        return f"(NOT {parts[0]})"
    if kind == "between":
        return f"({parts[0]} {negation}BETWEEN {parts[1]} AND {parts[2]})"
    if kind == "null":
        return f"({parts[0]} IS {negation}NULL)"
    if kind == "like":
        return f"({tree[2]} {negation}LIKE {quote(tree[3])})"
    if kind == "in":
        assert isinstance(tree[3], list)
        return f"({tree[2]} {negation}IN ({','.join(map(quote, tree[3]))}))"
    return f"({parts[0]} {kind} {parts[1]})"


class Failure(Exception):
    """What cannot be evaluated."""


def evaluate(tree: Tree, found: Mapping[str, object]) -> object:
    """The meaning of a tree, straight from the tables of the reference."""
    kind = tree[0]
    if kind == "name":
        return found.get(str(tree[1]))
    if kind == "literal":
        return tree[1]
    if kind in ("AND", "OR"):
        return logic(tree, found)
    if kind == "in":
        value = found.get(str(tree[2]))
        assert isinstance(tree[3], list)
        return (value in tree[3]) != tree[1] if isinstance(value, str) else None
    if kind == "like":
        value = found.get(str(tree[2]))
        return None if value is None else (isinstance(value, str) and like(str(tree[3]), value)) != tree[1]
    parts = [evaluate(part, found) for part in tree[1:] if isinstance(part, tuple)]
    if kind == "null":
        return (parts[0] is None) != tree[1]
    if kind == "between":
        both = conjunction(compare(">=", parts[0], parts[1]), compare("<=", parts[0], parts[2]))
        return both if both is None else both != tree[1]
    if kind == "not":
        return None if parts[0] is None else parts[0] is not True
    if kind in (">", ">=", "<", "<=", "=", "<>"):
        return compare(str(kind), parts[0], parts[1])
    return arithmetic(str(kind), parts)


def logic(tree: Tree, found: Mapping[str, object]) -> bool | None:
    decisive = tree[0] == "OR"
    unknown = False
    for part in tree[1:]:
        assert isinstance(part, tuple)
        value = evaluate(part, found)
        if value is None:
            unknown = True
        elif (value is True) is decisive:
            return decisive
    return None if unknown else not decisive


def conjunction(left: bool | None, right: bool | None) -> bool | None:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def compare(word: str, left: object, right: object) -> bool | None:
    if left is None or right is None:
        return None
    same = kind_of(left) == kind_of(right)
    if word in ("=", "<>"):
        return (same and left == right) is (word == "=")
    assert isinstance(left, (int, float, str))
    assert isinstance(right, (int, float, str))
    order = (left > right) - (left < right) if same else 0  # type: ignore[operator]
    return same and {">": order > 0, ">=": order >= 0, "<": order < 0, "<=": order <= 0}[word]


def kind_of(value: object) -> str:
    return "bool" if isinstance(value, bool) else "number" if isinstance(value, (int, float)) else "string"


def arithmetic(word: str, parts: list[object]) -> object:
    if any(part is not None and kind_of(part) != "number" for part in parts[:1]):
        raise Failure
    if parts[0] is None:
        return None
    assert isinstance(parts[0], (int, float))
    if word == "neg":
        return -parts[0]
    if parts[1] is None:
        return None
    if kind_of(parts[1]) != "number":
        raise Failure
    left, right = parts[0], parts[1]
    assert isinstance(right, (int, float))
    if word in "+-*":
        return left + right if word == "+" else left - right if word == "-" else left * right
    if right == 0:
        raise Failure
    exact = isinstance(left, int) and isinstance(right, int)
    quotient = int(left / right)
    if word == "/":
        return quotient if exact else left / right
    return left - quotient * right


def like(pattern: str, value: str) -> bool:
    """Fine for short texts only."""
    expression = "".join({"%": ".*", "_": "."}.get(character, re.escape(character)) for character in pattern)
    return re.fullmatch(expression, value, re.DOTALL) is not None


@given(conditions, properties)
@settings(max_examples=examples(200))
def test_selector_means_what_the_tables_say(tree: Tree, found: dict[str, object]) -> None:
    """Three-valued logic, comparison, arithmetic and tests, nested at random."""
    try:
        expected = evaluate(tree, found)
    except Failure:
        expected = None
    selector = render(tree)

    assert parse_filter(selector).matches(Properties(found)) is (expected is True)


@given(conditions)
@settings(max_examples=examples(100))
def test_redundant_parentheses_change_nothing(tree: Tree) -> None:
    """Also around the whole, with comments and other spaces between."""
    selector = render(tree)
    found = Properties({"a": 1, "b": "a", "c.d": True})

    loose = "/*x*/ (\n" + selector.replace(" ", "  ") + " ) -- end"

    assert parse_filter(loose).matches(found) is parse_filter(selector).matches(found)


VOCABULARY = """
a b1 m.x-y amqp.annotation.x ( ) ( ) = <> < > <= >= + - * / % , AND OR NOT IS NULL TRUE FALSE IN LIKE ESCAPE BETWEEN
XPATH 1 2.5 0x1F 010 5L 'x' '!' 'a%_' "q" -- /* */ ' " convert_string_expressions: hyphenated_props: é .
"""
words = st.sampled_from(VOCABULARY.split())


@given(st.lists(words, max_size=30).map(" ".join) | st.lists(words, max_size=30).map("".join) | st.text(max_size=60))
@settings(max_examples=examples(200))
def test_any_text_is_a_selector_or_a_clear_refusal(text: str) -> None:
    """Nothing but InvalidFilter leaves the parser, and evaluation never raises."""
    try:
        compiled = parse_filter(text)
    except InvalidFilter as error:
        refusal = str(error)
    else:
        assert compiled.matches(Properties({"a": 1, "b1": "x", "m.x-y": True})) in (True, False)
        return

    assert re.match(r"selector, character \d+: ", refusal)


@given(st.text(alphabet="ab_%", max_size=8), st.text(alphabet="ab\n", max_size=10))
@settings(max_examples=examples(200))
def test_like_agrees_with_a_regular_expression(pattern: str, value: str) -> None:
    """The linear matcher finds what a backtracking one finds."""
    assert LikePattern(pattern, None).matches(value) is like(pattern, value)
