"""One resource of management: a table of attributes and a table of operations.

The door has checked `manage` before; a control checks the permissions of each row (`rights`), and the session those on
addresses and queues. Names follow Artemis (artemis-model §6.1): an attribute `MessageCount` can be read under that
name, with a lower-case first letter, or with the operations `getMessageCount` and `isMessageCount`.
"""

import difflib
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, ClassVar, Final, Self

from attrs import frozen

from artemis_py.core.runtime.access import Permission
from artemis_py.core.runtime.background import Steps
from artemis_py.errors import InvalidRequest, LimitExceeded, Refusal
from artemis_py.management.rights import Rights

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
    OBJECT_OR_NULL = "a JSON object, text that contains one, or null"
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
            case Kind.OBJECT | Kind.OBJECT_OR_NULL:
                if value is None:
                    return self.kind is Kind.OBJECT_OR_NULL
                return isinstance(value, dict) or (isinstance(value, str) and value.lstrip().startswith("{"))
            case Kind.TEXTS:
                return isinstance(value, str) or (
                    isinstance(value, list) and all(isinstance(item, str) for item in value)
                )

    def convert(self, value: object) -> object:
        """Convert a value of this kind to what the operation takes. Raises InvalidRequest for broken JSON."""
        if self.kind in (Kind.OBJECT, Kind.OBJECT_OR_NULL) and isinstance(value, str):
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


class Row:
    """One operation: the permission that it needs, and the ways to call it."""

    def __init__(
        self, permission: Permission | None, ways: tuple[Operation, ...], content: Permission | None = None
    ) -> None:
        self.permission: Final = permission
        """`view` or `edit`; None for operations of ordinary clients, which check the permissions on each queue."""
        self.ways: Final = ways
        self.content: Final = content
        """Permission that it needs on the queue of the resource, because it tells what is in messages."""


def view(*ways: Operation) -> Row:
    """Return an operation that changes nothing."""
    return Row(Permission.VIEW, ways)


def edit(*ways: Operation) -> Row:
    """Return an operation that changes something."""
    return Row(Permission.EDIT, ways)


def browsing(row: Row) -> Row:
    """Return an operation that needs the permission to browse the queue as well."""
    return Row(row.permission, row.ways, Permission.BROWSE)


def free(*ways: Operation) -> Row:
    """Return an operation that needs no permission to manage."""
    return Row(None, ways)


class NoSuchResource(InvalidRequest):
    """There is no resource of this name, or the client may not know of it."""


class Control:
    """One resource as management sees it; subclasses fill the two tables."""

    # The functions take the control itself, and its class differs from table to table.
    attributes: ClassVar[Mapping[str, Callable[[Any], object]]] = {}
    operations: ClassVar[Mapping[str, Row]] = {}

    def __init__(self, resource: str) -> None:
        self.resource: Final = resource
        """Name of the resource as the client gave it; error texts begin with it."""
        self.rights: Rights | None = None
        self._missing: Callable[[], Refusal] | None = None

    def guard(self, rights: Rights, missing: Callable[[], Refusal] | None = None) -> Self:
        """Check these rights from now on; `missing` makes the refusal of a resource that does not exist."""
        if rights.are_checked:
            self.rights = rights
            self._missing = missing
        return self

    # -- rights ----------------------------------------------------------------------------------------------

    def may(self, name: str) -> bool:
        """Tell whether the client may call this operation, or read the attribute of this getter."""
        asked, permission = self._asked(name)
        return self.rights is None or permission is None or self.rights.may(self.resource, asked, permission)

    def hides(self, *names: str) -> bool:
        """Tell whether the client is not to know that the resource exists: it may not see it, nor call one of these."""
        return not self._is_seen() and not all(self.may(name) for name in names)

    def lacking(self, name: str) -> tuple[Permission, str] | None:
        """Return the permission that the client lacks for an operation, and on what; None if it may call it."""
        if not self.may(name):
            assert self.rights is not None
            asked, permission = self._asked(name)
            assert permission is not None
            return self.rights.needed(asked, permission), self.rights.name_of(self.resource, asked)
        row = self.operations.get(name)
        if row is not None and row.content is not None:
            address = self.lacks_content(row.content)
            return None if address is None else (row.content, address)
        return None

    def check_known(self) -> None:
        """Raise what a missing resource causes if the client may neither see this one nor do anything with it."""
        if not any(map(self.may, self.operations)) and not any(map(self.may_read, self.attributes)):
            self._check_seen()

    def may_read(self, attribute: str) -> bool:
        """Tell whether the client may read an attribute; the name may have a small first letter."""
        return self.may(getter(attribute))

    def readable(self, may_be_none: bool = False) -> list[str]:
        """Return the names of the attributes that the client may read. Raises what `read` raises if there are none."""
        if self.rights is None:
            return list(self.attributes)
        found = [name for name in self.attributes if self.may_read(name)]
        if self.attributes and not found and not may_be_none:
            self._check(getter(next(iter(self.attributes))))
        return found

    def seen(self, kind: str) -> Callable[[str], bool] | None:
        """Return what tells by their names which resources of a kind the client may know of; None if it may all."""
        return None if self.rights is None else self.rights.seen(kind)

    def seen_names(self, kind: str, names: Iterable[str]) -> list[str]:
        """Return the names of those resources of a kind that the client may know of."""
        is_seen = self.seen(kind)
        return [name for name in names if is_seen is None or is_seen(name)]

    def sees(self, kind: str, name: str) -> bool:
        """Tell whether the client may know of a resource of this kind and name."""
        return self.rights is None or self.rights.sees(kind, name)

    def proposed(self, kind: str, name: str, names: Collection[str]) -> str:
        """Return the end of an error text that proposes the most similar names that the client may know of."""
        return proposal(name, self.seen_names(kind, names)) if len(names) <= MAX_NAMES_FOR_PROPOSAL else ""

    def _asked(self, name: str) -> tuple[str, Permission | None]:
        """Return the name on which the permission is granted, and the permission that the row has."""
        row = self.operations.get(name)
        if row is not None:
            return name, row.permission
        attribute = attribute_of(name)
        return getter(attribute) if attribute in self.attributes else name, Permission.VIEW

    def _is_seen(self) -> bool:
        kind, _, name = self.resource.partition(".")
        # There always is a broker.
        return self.rights is None or self._missing is None or self.rights.sees(kind, name)

    def _check(self, name: str) -> None:
        """Raise NotAuthorized if the client may not call an operation or getter, or what a missing resource causes."""
        if self.may(name):
            return
        assert self.rights is not None
        asked, permission = self._asked(name)
        assert permission is not None
        if self._is_seen():
            self.rights.check(self.resource, asked, permission)
        self.rights.report(self.resource, asked, permission)
        self._check_seen()

    def _check_seen(self) -> None:
        """Raise what a missing resource causes if the client may not know of this one."""
        if not self._is_seen():
            assert self._missing is not None
            raise self._missing()

    # -- reading and calling ---------------------------------------------------------------------------------

    def read(self, name: str) -> object:
        """Return the value of an attribute. Raises InvalidRequest if there is none of this name, or NotAuthorized."""
        return self._attribute(name)(self)

    def read_many(self, names: Iterable[str]) -> Steps:
        """Return the values of attributes by the names that were given: work in slices, if there is much to add up.

        Raises InvalidRequest if there is none of a name, or NotAuthorized.
        """
        return self._values({name: self._attribute(name) for name in names})

    def check_content(self, permission: Permission) -> None:
        """Raise NotAuthorized, and report it, if the client lacks a permission on what the resource contains."""

    def lacks_content(self, permission: Permission) -> str | None:
        """Return the address on which the client lacks a permission on what the resource contains, or None."""
        return None

    def _values(self, wanted: Mapping[str, Callable[[Any], object]]) -> Steps:
        yield from ()
        return {name: attribute(self) for name, attribute in wanted.items()}

    def _attribute(self, name: str) -> Callable[[Any], object]:
        attribute = self.attributes.get(name[:1].upper() + name[1:])
        if attribute is None:
            self._check_seen()
            raise InvalidRequest(f"{self.resource} has no attribute {name!r}{proposal(name, self.attributes)}")
        self._check(getter(name))
        return attribute

    def invoke(self, name: str, values: Sequence[object]) -> object:
        """Run an operation. Raises InvalidRequest for an unknown name or wrong parameters, or any other Refusal."""
        row = self.operations.get(name)
        if row is None:
            attribute = attribute_of(name)
            if attribute in self.attributes:
                self._check(name)
                if values:
                    raise InvalidRequest(f"{name} of {self.resource} takes no parameters")
                return self.attributes[attribute](self)
            self._check_seen()
            names = [*self.operations, *(f"get{attribute}" for attribute in self.attributes)]
            safe = [each for each in names if not is_worse(each, name)]
            raise InvalidRequest(f"{self.resource} has no operation {name!r}{proposal(name, safe)}")
        self._check(name)
        if row.content is not None:
            self.check_content(row.content)
        for way in row.ways:
            if way.accepts(values):
                converted = [p.convert(value) for p, value in zip(way.parameters, values, strict=True)]
                return way.run(self, *converted)
        legal = " or ".join(f"{name}{way}" for way in row.ways)
        raise InvalidRequest(f"{name} of {self.resource} does not take these parameters; it takes {legal}")


FLAGS: Final = frozenset(
    (
        *("AutoCreated", "AutoDelete", "ConfigurationManaged", "Declared", "Durable", "DuplicateDetection", "Enabled"),
        *("Exclusive", "GroupRebalance", "GroupRebalancePauseDispatch", "Internal", "LastValue", "Managed"),
        *("NonDestructive", "Paused", "Predeclared", "PurgeOnNoConsumers", "RetroactiveResource", "Started"),
        "Temporary",
    )
)
"""Attributes that are true or false: as in Artemis their getters begin with `is`, those of all others with `get`."""


def getter(attribute: str) -> str:
    """Return the getter of an attribute, on which the permission to read it is granted; it may begin small."""
    full = attribute[:1].upper() + attribute[1:]
    return f"{'is' if full in FLAGS else 'get'}{full}"


def attribute_of(name: str) -> str:
    """Return the attribute that an operation of this name would read; empty if it is no getter."""
    prefix = next((each for each in ("get", "is") if name.startswith(each)), name)
    return name.removeprefix(prefix)


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
