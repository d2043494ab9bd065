"""Selectors: text -> predicate (artemis-model §3.12).

This is the SQL-92 subset of JMS as Artemis reads it. A text is parsed once into a tree (`selectors.parser`), and the
tree is compiled into nested functions; nothing is ever passed to `eval`. Conditions are true, false or unknown (None)
by the rules of SQL, and only true lets a message pass. A `Lookup` decides where values come from and what names mean.

The cost of an evaluation is linear in the selector and in the values that it looks at: no operator builds a number
larger than 64 bits, and LIKE reads each character once (`selectors.like`).
"""

import math
import operator
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, Protocol

from artemis_py.core.selectors.lexer import ANNOTATION_PREFIX, INTEGER_LIMIT, LENGTH_LIMIT, invalid, to_number
from artemis_py.core.selectors.parser import (
    Arithmetic,
    Between,
    Comparison,
    In,
    IsNull,
    Like,
    Literal,
    Logic,
    Name,
    Negate,
    Node,
    Not,
    parse,
)
from artemis_py.errors import ProtocolError


class Lookup(Protocol):
    """Source of the values for a filter: a message, or one queue's reference to it."""

    def lookup(self, name: str) -> object:
        """Return the value under `name`; None if there is none."""


Truth = bool | None
Condition = Callable[[Lookup], Truth]
Value = Callable[[Lookup], object]
Order = Callable[[Any, Any], bool]
"""Compares two values; the arguments are Any because the caller has checked that they have an order."""

# Many consumers use the same few selectors. The limits keep the worst case at some 40 MB.
CACHE_LIMIT: Final = 256
CACHED_LENGTH_LIMIT: Final = 1024

_CONVERT_PREFIX: Final = "convert_string_expressions:"
_HYPHENATED_PREFIX: Final = "hyphenated_props:"

_ORDERS: Final[dict[str, Order]] = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
_MIRRORED: Final = {">": "<", ">=": "<=", "<": ">", "<=": ">=", "=": "=", "<>": "<>"}


class Filter:
    """A compiled selector; immutable, and equal to every other one with the same text."""

    __slots__ = ("_condition", "text")

    def __init__(self, text: str, condition: Condition) -> None:
        """Initialize a filter; use `parse_filter` instead."""
        self.text: Final[str] = text
        """Text as the client wrote it."""
        self._condition: Condition = condition

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Filter) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Filter({self.text!r})"

    def matches(self, source: Lookup) -> bool:
        """Tell whether the selector is true for `source`.

        If a part cannot be evaluated (a string in a sum, a division by zero, a result beyond 64 bits, a message whose
        bytes are damaged), the whole selector is false, as in Artemis. Never raises.
        """
        try:
            return self._condition(source) is True
        except (ArithmeticError, ProtocolError):
            return False


def parse_filter(text: str) -> Filter:
    """Compile a selector; a blank one matches everything.

    Raises InvalidFilter, whose text names the position (from 1) and what was expected there.
    """
    return _parse_remembered(text) if len(text) <= CACHED_LENGTH_LIMIT else _parse(text)


def _parse(text: str) -> Filter:
    if len(text) > LENGTH_LIMIT:
        raise invalid(LENGTH_LIMIT, f"longer than {LENGTH_LIMIT} characters")
    start, convert, hyphenated = _read_prefixes(text)
    if not text[start:].strip():
        return Filter(text, lambda source: True)
    return Filter(text, _Compiler(convert).condition(parse(text, start, hyphenated)))


_parse_remembered = lru_cache(maxsize=CACHE_LIMIT)(_parse)
"""Cached `_parse`, which is pure, so sharing results between the brokers of one process is safe."""


def _read_prefixes(text: str) -> tuple[int, bool, bool]:
    """Return where the selector proper starts, and the two switches that may precede it; the last of each counts."""
    start = len(text) - len(text.lstrip())
    convert = hyphenated = False
    while True:
        for prefix in (_CONVERT_PREFIX, _HYPHENATED_PREFIX):
            for negation in ("", "no_"):
                if text.startswith(negation + prefix, start):
                    start += len(negation + prefix)
                    if prefix == _CONVERT_PREFIX:
                        convert = not negation
                    else:
                        hyphenated = not negation
                    break
            else:
                continue
            break
        else:
            return start, convert, hyphenated


class _Compiler:
    """Turns a tree into functions; the depth limit of the parser bounds the recursion of both."""

    def __init__(self, convert: bool) -> None:
        self._convert = convert
        """Whether strings are converted to the kind of the value that they are compared with."""

    def condition(self, node: Node) -> Condition:
        """Return a function that evaluates a node to true, false or unknown."""
        match node:
            case Literal(bool() | None as value):
                return lambda source: value
            case Not(operand):
                return _not(self.condition(operand))
            case Logic("AND", operands):
                return _all_of([self.condition(operand) for operand in operands])
            case Logic(_, operands):
                return _any_of([self.condition(operand) for operand in operands])
            case Comparison(word, left, right):
                return self._comparison(word, left, right)
            case Between(operand, low, high, negated):
                bounds = self.value(low), self.value(high)
                return _negated_if(negated, _between(self.value(operand), *bounds, self._order_of))
            case Like(operand, pattern, negated):
                return _negated_if(negated, _like(self.value(operand), pattern.matches))
            case In(name, values, negated):
                return _in(name, values, negated)
            case IsNull(operand, negated):
                return _is_null(self.value(operand), negated)
            case _:
                return _truth_of(self.value(node))

    def value(self, node: Node) -> Value:
        """Return a function that finds or computes a value; None is NULL."""
        match node:
            case Name(name):
                return lambda source: source.lookup(name)
            case Literal(value):
                return lambda source: value
            case Negate(operand):
                return _negate(self.value(operand))
            case Arithmetic(_, first, rest):
                return _arithmetic(self.value(first), [(_STEPS[word], self.value(operand)) for word, operand in rest])
            case _:
                return self.condition(node)

    def _comparison(self, word: str, left: Node, right: Node) -> Condition:
        if isinstance(left, Literal) and not isinstance(right, Literal):
            word, left, right = _MIRRORED[word], right, left
        if word in ("=", "<>"):
            return _negated_if(word == "<>", self._equality(left, right))
        order = _ORDERS[word]
        if isinstance(left, Name) and isinstance(right, Literal) and not self._convert:
            return _name_ordered(left.name, order, right.value)
        return _ordered(self.value(left), self.value(right), order, self._order_of)

    def _equality(self, left: Node, right: Node) -> Condition:
        if isinstance(left, Name) and isinstance(right, Literal):
            wanted = right.value
            if isinstance(wanted, str) and left.name.startswith(ANNOTATION_PREFIX):
                return _annotation_equals(left.name, wanted, to_number(wanted))
            if isinstance(wanted, str) and not self._convert:
                return _name_equals(left.name, wanted)
        return _equals(self.value(left), self.value(right), self._equal)

    def _equal(self, left: object, right: object) -> bool:
        if self._convert:
            left, right = _converted(left, right), _converted(right, left)
        return (isinstance(left, bool) is isinstance(right, bool)) and left == right

    def _order_of(self, order: Order, left: object, right: object) -> bool:
        """Apply `order` to values of one kind; false for values of different kinds, such as a string and a number."""
        if self._convert:
            left, right = _converted(left, right), _converted(right, left)
        if isinstance(left, bool) or isinstance(right, bool):
            return isinstance(left, bool) and isinstance(right, bool) and order(left, right)
        if isinstance(left, (int, float)) and isinstance(right, (int, float)):
            return order(left, right)
        return isinstance(left, str) and isinstance(right, str) and order(left, right)


def _converted(value: object, other: object) -> object:
    """Convert a string to the kind of `other` if it is the text of such a value (`convert_string_expressions:`)."""
    if not isinstance(value, str):
        return value
    if isinstance(other, bool):
        return {"true": True, "false": False}.get(value[:5].lower(), value) if len(value) <= 5 else value
    if isinstance(other, (int, float)):
        number = to_number(value)
        return value if number is None else number
    return value


def _all_of(conditions: list[Condition]) -> Condition:
    """Return the AND of conditions: false beats unknown, unknown beats true."""

    def both(source: Lookup) -> Truth:
        left = first(source)
        if left is False:
            return False
        right = second(source)
        return right if left or right is False else None

    def all_of(source: Lookup) -> Truth:
        result: Truth = True
        for condition in conditions:
            truth = condition(source)
            if truth is False:
                return False
            if truth is None:
                result = None
        return result

    first, second = conditions[:2]
    return both if len(conditions) == 2 else all_of


def _any_of(conditions: list[Condition]) -> Condition:
    """Return the OR of conditions: true beats unknown, unknown beats false."""

    def any_of(source: Lookup) -> Truth:
        result: Truth = False
        for condition in conditions:
            truth = condition(source)
            if truth:
                return True
            if truth is None:
                result = None
        return result

    return any_of


def _not(condition: Condition) -> Condition:
    def inverted(source: Lookup) -> Truth:
        truth = condition(source)
        return None if truth is None else not truth

    return inverted


def _negated_if(negated: bool, condition: Condition) -> Condition:
    return _not(condition) if negated else condition


def _truth_of(value: Value) -> Condition:
    """Return a condition for a property used as one; a value that is not a boolean is false."""

    def truth_of(source: Lookup) -> Truth:
        found = value(source)
        return None if found is None else found is True

    return truth_of


def _is_null(value: Value, negated: bool) -> Condition:
    return lambda source: (value(source) is None) is not negated


def _name_equals(name: str, wanted: str) -> Condition:
    def name_equals(source: Lookup) -> Truth:
        found = source.lookup(name)
        return None if found is None else found == wanted

    return name_equals


def _annotation_equals(name: str, text: str, number: int | float | None) -> Condition:
    """Compare an annotation with a text, read as a number if the annotation is one: Azure's clients quote numbers."""

    def annotation_equals(source: Lookup) -> Truth:
        found = source.lookup(name)
        if found is None:
            return None
        if isinstance(found, (int, float)) and not isinstance(found, bool):
            return found == number
        return found == text

    return annotation_equals


def _equals(left: Value, right: Value, equal: Callable[[object, object], bool]) -> Condition:
    def equals(source: Lookup) -> Truth:
        one = left(source)
        other = right(source)
        return None if one is None or other is None else equal(one, other)

    return equals


def _name_ordered(name: str, order: Order, bound: object) -> Condition:
    """Return a condition on the order of a property and a bound; the parser allows only numbers as bounds."""

    def name_ordered(source: Lookup) -> Truth:
        found = source.lookup(name)
        kind = found.__class__
        if kind is int or kind is float:
            return order(found, bound)
        if found is None:
            return None
        return isinstance(found, (int, float)) and kind is not bool and order(found, bound)

    return name_ordered


def _ordered(left: Value, right: Value, order: Order, order_of: Callable[[Order, object, object], bool]) -> Condition:
    def ordered(source: Lookup) -> Truth:
        one = left(source)
        other = right(source)
        return None if one is None or other is None else order_of(order, one, other)

    return ordered


def _between(value: Value, low: Value, high: Value, order_of: Callable[[Order, object, object], bool]) -> Condition:
    """Return the condition `value >= low AND value <= high`, with `value` computed once."""

    def between(source: Lookup) -> Truth:
        found = value(source)
        least = low(source)
        most = high(source)
        if found is None:
            return None
        above = None if least is None else order_of(operator.ge, found, least)
        below = None if most is None else order_of(operator.le, found, most)
        if above is False or below is False:
            return False
        return above and below

    return between


def _like(value: Value, fits: Callable[[str], bool]) -> Condition:
    def like(source: Lookup) -> Truth:
        found = value(source)
        return None if found is None else isinstance(found, str) and fits(found)

    return like


def _in(name: str, values: frozenset[str], negated: bool) -> Condition:
    def is_in(source: Lookup) -> Truth:
        found = source.lookup(name)
        # A value of another kind is unknown too: neither IN nor NOT IN a list of strings applies to it.
        return (found in values) is not negated if isinstance(found, str) else None

    return is_in


Step = Callable[[int | float, int | float], int | float]


def _divide(left: int | float, right: int | float) -> int | float:
    """Divide; the quotient of two integers is an integer, rounded towards zero."""
    if isinstance(left, int) and isinstance(right, int):
        quotient = abs(left) // abs(right)
        return quotient if (left < 0) is (right < 0) else -quotient
    return left / right


def _remainder(left: int | float, right: int | float) -> int | float:
    """Return the remainder of `_divide`, which has the sign of the left side."""
    if isinstance(left, int) and isinstance(right, int):
        remainder = abs(left) % abs(right)
        return -remainder if left < 0 else remainder
    if right == 0 or math.isinf(left):
        raise ZeroDivisionError
    return math.fmod(left, right)


_STEPS: Final[dict[str, Step]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divide,
    "%": _remainder,
}


def _number(value: object) -> int | float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    raise ArithmeticError("not a number")


def _arithmetic(first: Value, rest: list[tuple[Step, Value]]) -> Value:
    """Return a function that computes from left to right; one NULL makes the result NULL."""

    def arithmetic(source: Lookup) -> object:
        found = first(source)
        result = None if found is None else _number(found)
        for step, operand in rest:
            found = operand(source)
            if result is None or found is None:
                result = None
                continue
            result = step(result, _number(found))
            if isinstance(result, int) and not -INTEGER_LIMIT < result < INTEGER_LIMIT:
                raise OverflowError("beyond 64 bits")
        return result

    return arithmetic


def _negate(value: Value) -> Value:
    def negate(source: Lookup) -> object:
        found = value(source)
        return None if found is None else -_number(found)

    return negate
