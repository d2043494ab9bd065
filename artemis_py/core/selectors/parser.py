"""The grammar of selectors: tokens -> tree (artemis-model §3.12).

    or  >  and  >  = <> IS [NOT] NULL  >  > >= < <= [NOT] LIKE, BETWEEN, IN  >  + -  >  * / %  >  unary + - NOT

from loosest to tightest; every level associates to the left. `NOT` is as tight as a sign, as in Artemis:
`NOT a = 1` is `(NOT a) = 1`, so the error texts here suggest parentheses.

The parser keeps its own stacks instead of calling itself, so that no text can exhaust Python's stack. The tree is
at most `DEPTH_LIMIT` deep, because chains of one operator (`a AND b AND c`) are one node.
"""

from typing import Final

from attrs import define, field, frozen

from artemis_py.core.selectors.lexer import ANNOTATION_PREFIX, Kind, Token, invalid, shorten, to_number, tokenize
from artemis_py.core.selectors.like import LikePattern
from artemis_py.errors import InvalidFilter

DEPTH_LIMIT: Final = 100
"""Levels of parentheses, and of operators within each other (reliability §4)."""


@frozen
class Literal:
    """A constant; None is NULL."""

    value: str | int | float | bool | None
    depth: int = 1


@frozen
class Name:
    """A property, or one of the special names."""

    name: str
    depth: int = 1


@frozen
class Not:
    """Negation of a condition."""

    operand: "Node"
    depth: int


@frozen
class Negate:
    """Unary minus."""

    operand: "Node"
    depth: int


@define
class Logic:
    """Two or more conditions joined by AND, or by OR."""

    word: str
    operands: list["Node"]
    depth: int


@define
class Arithmetic:
    """A value and operations on it from left to right; none for a unary plus, which only requires a number."""

    level: int
    first: "Node"
    rest: list[tuple[str, "Node"]]
    depth: int


@frozen
class Comparison:
    """`=`, `<>`, `<`, `<=`, `>` or `>=`."""

    operator: str
    left: "Node"
    right: "Node"
    depth: int


@frozen
class Between:
    """A test for a range that includes both bounds."""

    operand: "Node"
    low: "Node"
    high: "Node"
    negated: bool
    depth: int


@frozen
class Like:
    """Comparison with a pattern."""

    operand: "Node"
    pattern: LikePattern
    negated: bool
    depth: int


@frozen
class In:
    """A name whose value is one of some strings."""

    name: str
    values: frozenset[str]
    negated: bool
    depth: int = 1


@frozen
class IsNull:
    """The one test that is never unknown."""

    operand: "Node"
    negated: bool
    depth: int


Node = Literal | Name | Not | Negate | Logic | Arithmetic | Comparison | Between | Like | In | IsNull

_OR: Final = 1
_AND: Final = 2
_EQUALITY: Final = 3
_RELATION: Final = 4
_SUM: Final = 5
_PRODUCT: Final = 6
_UNARY: Final = 7

_BINARY: Final = {
    "OR": _OR,
    "AND": _AND,
    "=": _EQUALITY,
    "<>": _EQUALITY,
    ">": _RELATION,
    ">=": _RELATION,
    "<": _RELATION,
    "<=": _RELATION,
    "+": _SUM,
    "-": _SUM,
    "*": _PRODUCT,
    "/": _PRODUCT,
    "%": _PRODUCT,
}

# Entries of the operator stack that wait for a word of their own; looser operators must not pass them.
_PARENTHESIS: Final = -1
_BETWEEN: Final = 0


@define
class _Pending:
    """An operator whose right side is still being read."""

    level: int
    word: str
    token: Token
    negated: bool = False
    """Whether it is NOT BETWEEN."""
    low: Node | None = None
    """The first bound of BETWEEN."""


def parse(text: str, start: int, hyphenated: bool) -> Node:
    """Return the tree of `text` from `start` on. Raises InvalidFilter, naming the position and what was expected."""
    return _Parser(tokenize(text, start, hyphenated)).parse()


def is_condition(node: Node) -> bool:
    """Tell whether a node is a condition by its form; a name may be anything."""
    if isinstance(node, Literal):
        return node.value is None or isinstance(node.value, bool)
    return isinstance(node, (Not, Logic, Comparison, Between, Like, In, IsNull))


@define
class _Parser:
    tokens: list[Token]
    index: int = 0
    operands: list[Node] = field(factory=list)
    operators: list[_Pending] = field(factory=list)
    open_parentheses: int = 0

    def parse(self) -> Node:
        while True:
            self._read_operand()
            if self._read_operators():
                return self._condition(self.operands.pop(), self.tokens[0])

    def _next(self) -> Token:
        token = self.tokens[self.index]
        if token.kind is not Kind.END:
            self.index += 1
        return token

    def _take(self, word: str) -> bool:
        """Skip a keyword or symbol if it comes next; return False if it does not."""
        token = self.tokens[self.index]
        if token.value != word or token.kind not in (Kind.KEYWORD, Kind.SYMBOL):
            return False
        self.index += 1
        return True

    def _expect(self, word: str) -> None:
        if not self._take(word):
            raise _unexpected(self.tokens[self.index], word)

    def _read_operand(self) -> None:
        """Read everything up to and including one name or literal."""
        while True:
            token = self._next()
            if token.kind in (Kind.NUMBER, Kind.STRING):
                return self.operands.append(Literal(token.value))
            if token.kind is Kind.NAME:
                return self.operands.append(Name(str(token.value)))
            if token.kind is Kind.KEYWORD and token.value in ("TRUE", "FALSE", "NULL"):
                return self.operands.append(Literal(None if token.value == "NULL" else token.value == "TRUE"))
            self._read_before_operand(token)

    def _read_before_operand(self, token: Token) -> None:
        word = str(token.value)
        if token.kind is Kind.SYMBOL and word == "(":
            self.open_parentheses += 1
            if self.open_parentheses > DEPTH_LIMIT:
                raise _too_deep(token)
            self.operators.append(_Pending(_PARENTHESIS, word, token))
        elif (token.kind is Kind.SYMBOL and word in "+-") or (token.kind is Kind.KEYWORD and word == "NOT"):
            self.operators.append(_Pending(_UNARY, word, token))
        elif token.kind is Kind.KEYWORD and word in ("XPATH", "XQUERY"):
            raise invalid(token.offset, f"{word} is not supported: selectors do not look into message bodies")
        else:
            raise _unexpected(token, "a name, a literal or (")

    def _read_operators(self) -> bool:
        """Read everything after an operand, up to where the next operand starts (False) or to the end (True)."""
        while True:
            token = self._next()
            word = str(token.value)
            if token.kind is Kind.END:
                self._reduce(_OR, token)
                if self.operators:
                    raise _unexpected(token, ")")
                return True
            if token.kind not in (Kind.SYMBOL, Kind.KEYWORD):
                raise _unexpected(token, "an operator")
            if word == "AND" and self._is_second_bound():
                return False
            level = _BINARY.get(word)
            if level is not None:
                self._reduce(level, token)
                self.operators.append(_Pending(level, word, token))
                return False
            if word == ")":
                self._close(token)
            elif self._read_test(token):
                return False

    def _is_second_bound(self) -> bool:
        """Tell whether this AND belongs to the BETWEEN that is being read; if so, keep the first bound."""
        self._reduce(_SUM, self.tokens[self.index - 1])
        if not self.operators or self.operators[-1].level != _BETWEEN:
            return False
        pending = self.operators[-1]
        pending.level = _RELATION
        pending.low = self.operands.pop()
        return True

    def _close(self, token: Token) -> None:
        self._reduce(_OR, token)
        if not self.operators:
            raise _unexpected(token, "an operator")
        self.operators.pop()
        self.open_parentheses -= 1

    def _read_test(self, token: Token) -> bool:
        """Read IS NULL, LIKE or IN, which end here (False), or BETWEEN, whose bounds follow (True)."""
        if token.value == "IS":
            self._reduce(_EQUALITY, token)
            negated = self._take("NOT")
            self._expect("NULL")
            operand = self.operands.pop()
            self.operands.append(IsNull(operand, negated, _above(token, operand)))
            return False
        negated = token.value == "NOT"
        word = self._next() if negated else token
        if word.kind is not Kind.KEYWORD or word.value not in ("LIKE", "IN", "BETWEEN"):
            raise _unexpected(word, "LIKE, IN or BETWEEN" if negated else "an operator")
        self._reduce(_RELATION, token)
        if word.value == "BETWEEN":
            self.operators.append(_Pending(_BETWEEN, "BETWEEN", token, negated))
            return True
        operand = self.operands.pop()
        if word.value == "LIKE":
            self.operands.append(self._like(token, operand, negated))
        else:
            self.operands.append(self._in(token, operand, negated))
        return False

    def _like(self, token: Token, operand: Node, negated: bool) -> Node:
        pattern = self._string("a string with the pattern")
        escape = None
        if self._take("ESCAPE"):
            quoted = self._string("a string with the escape character")
            escape = str(quoted.value)
            if len(escape) != 1:
                raise invalid(quoted.offset, "the escape of LIKE must be one character")
        try:
            compiled = LikePattern(str(pattern.value), escape)
        except ValueError as error:
            raise invalid(pattern.offset, str(error)) from None
        return Like(operand, compiled, negated, _above(token, operand))

    def _in(self, token: Token, operand: Node, negated: bool) -> Node:
        if not isinstance(operand, Name):
            raise invalid(token.offset, "the left side of IN must be a name; NOT belongs right before IN")
        self._expect("(")
        values = {str(self._string("a string").value)}
        while self._take(","):
            values.add(str(self._string("a string").value))
        self._expect(")")
        return In(operand.name, frozenset(values), negated)

    def _string(self, expected: str) -> Token:
        token = self._next()
        if token.kind is not Kind.STRING:
            raise _unexpected(token, expected)
        return token

    def _reduce(self, level: int, token: Token) -> None:
        """Complete the operators that are at least as tight as `level`."""
        while self.operators and self.operators[-1].level >= level:
            self._complete(self.operators.pop())
        if self.operators and self.operators[-1].level == _BETWEEN and level < _SUM and token.value != "AND":
            raise _unexpected(token, "AND with the second bound of BETWEEN")

    def _complete(self, pending: _Pending) -> None:
        right = self.operands.pop()
        token = pending.token
        if pending.level == _UNARY:
            self.operands.append(self._unary(pending.word, right, token))
            return
        left = self.operands.pop()
        if pending.level == _EQUALITY:
            self.operands.append(self._equality(pending, left, right))
        elif pending.level in (_SUM, _PRODUCT):
            self.operands.append(self._arithmetic(pending, left, right))
        elif pending.level != _RELATION:
            self.operands.append(self._logic(pending, left, right))
        elif pending.low is not None:
            self.operands.append(self._between(pending, left, pending.low, right))
        else:
            left, right = _unquote(left, right), _unquote(right, left)
            self._check_ordered(left, pending)
            self._check_ordered(right, pending)
            self.operands.append(Comparison(pending.word, left, right, _above(token, left, right)))

    def _unary(self, word: str, operand: Node, token: Token) -> Node:
        if word == "NOT":
            return Not(self._condition(operand, token), _above(token, operand))
        self._check_number(operand, token)
        if isinstance(operand, Literal) and isinstance(operand.value, (int, float)):
            return Literal(-operand.value) if word == "-" else operand
        depth = _above(token, operand)
        return Negate(operand, depth) if word == "-" else Arithmetic(_UNARY, operand, [], depth)

    def _equality(self, pending: _Pending, left: Node, right: Node) -> Node:
        for side in (left, right):
            if isinstance(side, Literal) and side.value is None:
                raise invalid(pending.token.offset, f"nothing is {pending.word} NULL; use IS NULL or IS NOT NULL")
        return Comparison(pending.word, left, right, _above(pending.token, left, right))

    def _arithmetic(self, pending: _Pending, left: Node, right: Node) -> Node:
        self._check_number(left, pending.token)
        self._check_number(right, pending.token)
        if isinstance(left, Arithmetic) and left.level == pending.level:
            left.rest.append((pending.word, right))
            left.depth = max(left.depth, _above(pending.token, right))
            return left
        return Arithmetic(pending.level, left, [(pending.word, right)], _above(pending.token, left, right))

    def _logic(self, pending: _Pending, left: Node, right: Node) -> Node:
        left = self._condition(left, pending.token)
        right = self._condition(right, pending.token)
        if isinstance(left, Logic) and left.word == pending.word:
            left.operands.append(right)
            left.depth = max(left.depth, _above(pending.token, right))
            return left
        return Logic(pending.word, [left, right], _above(pending.token, left, right))

    def _between(self, pending: _Pending, operand: Node, low: Node, high: Node) -> Node:
        low, high = _unquote(low, operand), _unquote(high, operand)
        for side in (operand, low, high):
            self._check_ordered(side, pending)
        return Between(operand, low, high, pending.negated, _above(pending.token, operand, low, high))

    def _condition(self, node: Node, token: Token) -> Node:
        if not is_condition(node) and not isinstance(node, Name):
            raise invalid(token.offset, "expected a condition, found a value that is neither true nor false")
        return node

    def _check_number(self, node: Node, token: Token) -> None:
        if is_condition(node) or (isinstance(node, Literal) and isinstance(node.value, str)):
            raise invalid(token.offset, f"{token.text} needs numbers on both sides")

    def _check_ordered(self, node: Node, pending: _Pending) -> None:
        word, offset = pending.word, pending.token.offset
        if isinstance(node, Not):
            raise invalid(offset, f"NOT binds more tightly than {word}; write NOT (...)")
        if is_condition(node):
            raise invalid(offset, f"{word} cannot compare conditions, TRUE, FALSE or NULL")
        if isinstance(node, Literal) and isinstance(node.value, str):
            raise invalid(offset, f"{word} cannot compare strings, only = and <> can")


def _unquote(node: Node, other: Node) -> Node:
    """Return the number in a string that is compared with an annotation, as Azure's clients write offsets."""
    if isinstance(node, Literal) and isinstance(node.value, str):
        if isinstance(other, Name) and other.name.startswith(ANNOTATION_PREFIX):
            number = to_number(node.value)
            return node if number is None else Literal(number)
    return node


def _above(token: Token, *nodes: Node) -> int:
    """Return the depth of a node above these. Raises InvalidFilter if it is over DEPTH_LIMIT."""
    depth = 1 + max(node.depth for node in nodes)
    if depth > DEPTH_LIMIT:
        raise _too_deep(token)
    return depth


def _too_deep(token: Token) -> InvalidFilter:
    return invalid(token.offset, f"expressions are nested more than {DEPTH_LIMIT} levels deep")


def _unexpected(token: Token, expected: str) -> InvalidFilter:
    found = token.kind.value if token.kind is Kind.END else shorten(token.text)
    return invalid(token.offset, f"expected {expected}, found {found}")
