"""One resource of management: a table of attributes and a table of operations.

A control checks no permissions of its caller beyond what the session checks; the endpoint has checked `manage`
before. Names follow Artemis (artemis-model §6.1): an attribute `MessageCount` can be read under that name, with a
lower-case first letter, or with the operations `getMessageCount` and `isMessageCount`.
"""

import difflib
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, ClassVar, Final

from attrs import frozen

from artemis_py.core.runtime.background import Steps
from artemis_py.errors import InvalidRequest, LimitExceeded

# Searching for similar names takes time quadratic in their length and linear in their number. Beyond these sizes a
# refusal proposes no name.
MAX_NAME_FOR_PROPOSAL: Final = 200
MAX_NAMES_FOR_PROPOSAL: Final = 1000

DESTRUCTIVE: Final = (
    *("remove", "purge", "destroy", "delete", "expire", "close"),
    *("commit", "rollback", "forget", "clear", "send"),
)
"""Verbs of operations that destroy something, or end what clients do."""

HARMLESS: Final = frozenset(
    ("get", "is", "list", "count", "browse", "move", "copy", "retry", "pause", "resume", "enable", "disable", "create")
)
"""Verbs that are never a misspelling of those."""

# Transposed, missing and doubled letters of a verb reach this; two different verbs do not ("retry" and "remove": 0.36).
SAME_VERB: Final = 0.7

_FIRST_WORD: Final = re.compile(r"[A-Za-z][a-z]*")

MAX_NAMES: Final = 10_000
"""Most names in one reply (about 1 MiB with names of ordinary length); longer lists come in pages."""


class Kind(Enum):
    """Kind of a parameter; the value is its description in error texts."""

    TEXT = "text"
    TEXT_OR_NULL = "text or null"
    FLAG = "true or false"
    NUMBER = "a whole number"
    OBJECT = "a JSON object, or text that contains one"
    TEXTS = "text with comma-separated words, or an array of texts"


@frozen
class Parameter:
    """One parameter of an operation, by position."""

    name: str
    kind: Kind

    def __str__(self) -> str:
        return f"{self.name}: {self.kind.value}"

    def accepts(self, value: object) -> bool:
        """Tell whether `value`, as parsed from JSON, is of this kind."""
        match self.kind:
            case Kind.TEXT:
                return isinstance(value, str)
            case Kind.TEXT_OR_NULL:
                return value is None or isinstance(value, str)
            case Kind.FLAG:
                return isinstance(value, bool)
            case Kind.NUMBER:
                return isinstance(value, int) and not isinstance(value, bool)
            case Kind.OBJECT:
                return isinstance(value, dict) or (isinstance(value, str) and value.lstrip().startswith("{"))
            case Kind.TEXTS:
                return isinstance(value, str) or (
                    isinstance(value, list) and all(isinstance(item, str) for item in value)
                )

    def convert(self, value: object) -> object:
        """Convert a value of this kind to what the operation takes. Raises InvalidRequest for broken JSON."""
        if self.kind is Kind.OBJECT and isinstance(value, str):
            parsed = parse_json(value, f"parameter {self.name}")
            if not isinstance(parsed, dict):
                raise InvalidRequest(f"parameter {self.name} must be {self.kind.value}")
            return parsed
        if self.kind is Kind.TEXTS and isinstance(value, str):
            return [word.strip() for word in value.split(",") if word.strip()]
        return value


class Operation:
    """One way to call an operation: its parameters in order, and the function to call with them."""

    def __init__(self, run: Callable[..., object], *parameters: Parameter) -> None:
        self.run: Final = run
        """Function that is called with the control and the converted parameters."""
        self.parameters: Final = parameters

    def accepts(self, values: Sequence[object]) -> bool:
        """Tell whether these values fit the parameters, one for one."""
        return len(values) == len(self.parameters) and all(
            parameter.accepts(value) for parameter, value in zip(self.parameters, values, strict=True)
        )

    def __str__(self) -> str:
        return "(" + ", ".join(str(parameter) for parameter in self.parameters) + ")"


class Control:
    """One resource as management sees it; subclasses fill the two tables."""

    # The functions take the control itself, and its class differs from table to table.
    attributes: ClassVar[Mapping[str, Callable[[Any], object]]] = {}
    operations: ClassVar[Mapping[str, tuple[Operation, ...]]] = {}

    def __init__(self, resource: str) -> None:
        self.resource: Final = resource
        """Name of the resource as the client gave it; error texts begin with it."""

    def read(self, name: str) -> object:
        """Return the value of an attribute. Raises InvalidRequest if there is none of this name."""
        attribute = self.attributes.get(name[:1].upper() + name[1:])
        if attribute is None:
            raise InvalidRequest(f"{self.resource} has no attribute {name!r}{proposal(name, self.attributes)}")
        return attribute(self)

    def read_many(self, names: Iterable[str]) -> Steps:
        """Return the values of attributes by the names that were given: work in slices, if there is much to add up.

        Raises InvalidRequest if there is none of a name.
        """
        yield from ()
        return {name: self.read(name) for name in names}

    def invoke(self, name: str, values: Sequence[object]) -> object:
        """Run an operation. Raises InvalidRequest for an unknown name or wrong parameters, or any other Refusal."""
        ways = self.operations.get(name)
        if ways is None:
            getter = name.removeprefix("get") if name.startswith("get") else name.removeprefix("is")
            if getter != name and getter in self.attributes:
                if values:
                    raise InvalidRequest(f"{name} of {self.resource} takes no parameters")
                return self.attributes[getter](self)
            names = [*self.operations, *(f"get{attribute}" for attribute in self.attributes)]
            safe = [each for each in names if not is_worse(each, name)]
            raise InvalidRequest(f"{self.resource} has no operation {name!r}{proposal(name, safe)}")
        for way in ways:
            if way.accepts(values):
                converted = [p.convert(value) for p, value in zip(way.parameters, values, strict=True)]
                return way.run(self, *converted)
        legal = " or ".join(f"{name}{way}" for way in ways)
        raise InvalidRequest(f"{name} of {self.resource} does not take these parameters; it takes {legal}")


def is_worse(proposed: str, name: str) -> bool:
    """Tell whether an operation destroys something, although `name`, which was asked for, does not sound like it.

    `name` sounds like it if it begins with the same verb, or a misspelling of it.
    """
    verb = next((verb for verb in DESTRUCTIVE if proposed.startswith(verb)), None)
    if verb is None:
        return False
    beginning = (_FIRST_WORD.match(name) or [name])[0].lower()
    return beginning in HARMLESS or difflib.SequenceMatcher(None, beginning, verb).ratio() < SAME_VERB


def proposal(name: str, names: Iterable[str]) -> str:
    """Return the end of an error text that proposes the most similar names; empty if none is similar."""
    candidates = list(names)
    if len(name) > MAX_NAME_FOR_PROPOSAL or len(candidates) > MAX_NAMES_FOR_PROPOSAL:
        return ""
    by_small = {candidate.lower(): candidate for candidate in candidates}
    near = [by_small[found] for found in difflib.get_close_matches(name.lower(), by_small)]
    return f"; did you mean {' or '.join(near)}?" if near else ""


def bounded_names(names: Collection[str], paged: str) -> list[str]:
    """Sort names for one reply. Raises LimitExceeded, naming the operation `paged`, if there are too many."""
    if len(names) > MAX_NAMES:
        raise LimitExceeded(f"{len(names)} names are more than the {MAX_NAMES} of one reply: use {paged}")
    return sorted(names)


def parse_json(text: str, what: str) -> object:
    """Parse JSON from a client. Raises InvalidRequest with a text that begins with `what`."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise InvalidRequest(f"{what} is nested too deeply") from None
    except ValueError as error:
        raise InvalidRequest(f"{what} is not JSON: {error}") from None


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not a JSON number")
