"""Arguments of a binding: a selector, another routing key, and what a headers exchange compares (qpid-exchanges §3)."""

from collections.abc import Mapping
from typing import Final

from artemis_py.core.names.syntax import is_unicode
from artemis_py.core.selectors.filter import Filter, parse_filter
from artemis_py.core.settings.exchange_config import Scalar as Scalar
from artemis_py.errors import InvalidRequest

SELECTOR: Final = "x-filter-jms-selector"
REPLACEMENT: Final = "x-replacement-routing-key"
MATCH: Final = "x-match"
NO_LOCAL: Final = "x-qpid-no-local"

MAX_KEY_CHARS: Final = 4096
"""Characters of a routing key or a binding key. AMQP 0-9-1 allows 255 octets, and AMQP 1.0 any number."""
MAX_ARGUMENTS: Final = 256
"""Arguments of one binding; each is compared with a header."""
MAX_ARGUMENTS_CHARS: Final = 65_536
"""Characters of all names and texts in the arguments of one binding."""

# Whether one criterion is enough, and whether names that begin with `x-` are criteria too.
_MODES: Final[Mapping[str, tuple[bool, bool]]] = {
    "all": (False, False),
    "any": (True, False),
    "all-with-x": (False, True),
    "any-with-x": (True, True),
}

Value = tuple[str, str | int | float]
"""A value that two numbers of different width, or a symbol and a string, have in common."""


def comparable(value: object) -> Value | None:
    """Return what makes two values equal: whole numbers by value, whatever their width; texts as texts.

    None for null, octets, lists and maps, which equal nothing here.
    """
    if isinstance(value, bool):
        return "truth", int(value)
    if isinstance(value, int):
        return "whole", int(value)
    if isinstance(value, float):
        return "decimal", float(value)
    if isinstance(value, str):
        return "text", str(value)
    return None


class Criteria:
    """What a headers exchange compares with the application properties of a message."""

    __slots__ = ("equal", "is_any", "present")

    def __init__(self, is_any: bool, equal: dict[str, Value], present: list[str]) -> None:
        self.is_any: bool = is_any
        """Whether one of them is enough."""
        self.equal: dict[str, Value] = equal
        """Properties that must have a value, by name."""
        self.present: list[str] = present
        """Properties that must be there, with any value or null."""

    def fit(self, headers: dict[str, Value | None]) -> bool:
        """Tell whether headers with these comparable values fit. Without criteria all headers do."""
        if self.is_any:
            for name, wanted in self.equal.items():
                if headers.get(name) == wanted:
                    return True
            for name in self.present:
                if name in headers:
                    return True
            return not self.equal and not self.present
        for name, wanted in self.equal.items():
            if headers.get(name) != wanted:
                return False
        return all(name in headers for name in self.present)

    def missing(self, headers: dict[str, Value | None]) -> list[str]:
        """Return which criteria headers do not meet, in words."""
        found: list[str] = []
        for name, wanted in self.equal.items():
            if name not in headers:
                found.append(f"there is no '{name}', {_words(wanted)} is wanted")
            elif headers[name] != wanted:
                found.append(f"'{name}' is {_words(headers[name])}, {_words(wanted)} is wanted")
        for name in self.present:
            if name not in headers:
                found.append(f"there is no '{name}'")
        return found


def _words(value: Value | None) -> str:
    """Return a value in words, with its kind, because values of two kinds are never equal."""
    if value is None:
        return "null, octets, a list or a map"
    kind, content = value
    if kind == "truth":
        return "true" if content else "false"
    return f"the text '{content}'" if kind == "text" else f"the {kind} number {content}"


def selector_of(arguments: Mapping[str, Scalar]) -> Filter | None:
    """Return the selector in the arguments; None if there is none. Raises InvalidFilter, InvalidRequest."""
    text = arguments.get(SELECTOR)
    if text is None:
        return None
    if not isinstance(text, str):
        raise InvalidRequest(f"argument '{SELECTOR}' of a binding is a text, not {text!r}")
    return parse_filter(text) if text.strip() else None


def replacement_of(arguments: Mapping[str, Scalar]) -> str | None:
    """Return the routing key that the destination gets in place of the message's; None for the message's."""
    key = arguments.get(REPLACEMENT)
    if key is None:
        return None
    check_key("replacement routing key", str(key))
    return str(key)


def criteria_of(arguments: Mapping[str, Scalar]) -> Criteria:
    """Return what a headers exchange compares. Raises InvalidRequest for an unknown `x-match`."""
    mode: Scalar = "all"
    for name, value in arguments.items():
        if name.lower() == MATCH:
            mode = value
    known = _MODES.get(mode.lower()) if isinstance(mode, str) else None
    if known is None:
        raise InvalidRequest(f"argument '{MATCH}' of a binding is {', '.join(_MODES)}, not {mode!r}")
    is_any, takes_x = known
    equal: dict[str, Value] = {}
    present: list[str] = []
    for name, value in arguments.items():
        lower = name.lower()
        if lower in (MATCH, SELECTOR, REPLACEMENT) or (lower.startswith("x-") and not takes_x):
            continue
        wanted = comparable(value)
        if wanted is None or value == "":
            present.append(name)
        else:
            equal[name] = wanted
    return Criteria(is_any, equal, present)


def check_arguments(arguments: Mapping[str, object]) -> dict[str, Scalar]:
    """Return a copy of the arguments of a binding. Raises InvalidRequest for what cannot be stored or is not done."""
    if len(arguments) > MAX_ARGUMENTS:
        raise InvalidRequest(f"a binding has {len(arguments)} arguments; {MAX_ARGUMENTS} are allowed")
    checked: dict[str, Scalar] = {}
    chars = 0
    for name, value in arguments.items():
        if value is not None and not isinstance(value, str | int | float):
            raise InvalidRequest(f"argument '{name}' of a binding is {value!r}: texts, numbers and truth values may be")
        chars += len(name) + (len(value) if isinstance(value, str) else 8)
        if not is_unicode(name) or (isinstance(value, str) and not is_unicode(value)):
            raise InvalidRequest(f"argument {name!r} of a binding has half of a surrogate pair, which cannot be stored")
        if name == NO_LOCAL and value:
            raise InvalidRequest(f"'{NO_LOCAL}' is not supported: use a selector that excludes the sender")
        checked[str(name)] = _plain(value)
    if chars > MAX_ARGUMENTS_CHARS:
        raise InvalidRequest(f"the arguments of a binding take {chars} characters; {MAX_ARGUMENTS_CHARS} are allowed")
    return checked


def _plain(value: str | int | float | None) -> Scalar:
    """Return a value without the class that says how wide it was on the wire: JSON keeps none."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    return int(value) if isinstance(value, int) else float(value)


def check_key(what: str, key: str) -> None:
    """Raise InvalidRequest for a key that is too long or cannot be stored; `what` is its name in the text."""
    if len(key) > MAX_KEY_CHARS:
        raise InvalidRequest(f"the {what} has {len(key)} characters; {MAX_KEY_CHARS} are allowed")
    if not is_unicode(key):
        raise InvalidRequest(f"the {what} has half of a surrogate pair, which cannot be stored: {key!r}")
