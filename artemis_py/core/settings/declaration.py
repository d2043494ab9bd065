"""Declarations of options: each once, as a field of an attrs class, with everything that other parts need to know.

`options_of` makes tables from such classes. The reader of broker.xml, the test of its schema, management, the command
line and the manual use these tables. The values come from elsewhere.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, Final, TypeAlias

from attrs import Attribute, field, fields, frozen

_Fields: TypeAlias = "list[Attribute[Any]]"

_OPTION: Final = "option"

FIRST_RELEASE: Final = "0.1.0"
"""`since` of everything that exists since the first release."""


class Kind(Enum):
    """Kind of an option whose text is not the name of an enum member; it decides how the text is read."""

    TEXT = "text"
    BOOLEAN = "true or false"
    COUNT = "whole number"
    BYTES = "bytes"
    MILLISECONDS = "milliseconds"
    SECONDS = "seconds"
    FACTOR = "decimal number"
    NAMES = "names, separated by commas"
    PATTERN = "regular expression"


_TYPES: Final[Mapping[Kind, tuple[type, ...]]] = {
    Kind.TEXT: (str,),
    Kind.BOOLEAN: (bool,),
    Kind.COUNT: (int,),
    Kind.BYTES: (int,),
    Kind.MILLISECONDS: (int,),
    Kind.SECONDS: (int, float),
    Kind.FACTOR: (int, float),
    Kind.NAMES: (tuple,),
    Kind.PATTERN: (str,),
}


@frozen(kw_only=True)
class Option:
    """One option."""

    name: str
    """Name of the XML element or attribute."""
    attribute: str
    """Name of the field that holds its value."""
    kind: Kind | type[Enum]
    default: object
    minimum: float | None
    """Smallest legal number, or fewest characters of a text."""
    maximum: float | None
    """Largest legal number, or most characters of a text."""
    help: str
    since: str
    """First release with this option."""
    by_value: bool = False
    """Whether members of an enum are written by their values; otherwise by their names, as Artemis does."""

    types: tuple[type, ...] = field(init=False, repr=False)
    """Types that its values may have."""

    @types.default
    def _types_of_kind(self) -> tuple[type, ...]:
        return _TYPES[self.kind] if isinstance(self.kind, Kind) else (self.kind,)

    @property
    def words(self) -> Mapping[str, Enum]:
        """Members of the enum by what is written for them; empty for an option of another kind."""
        if isinstance(self.kind, Kind):
            return {}
        return {str(each.value) if self.by_value else name: each for name, each in self.kind.__members__.items()}

    def holds(self, value: object) -> bool:
        """Tell whether a value is of this kind; bounds are checked where texts and JSON are read."""
        if type(value) in self.types:
            return True
        return isinstance(value, self.types) and not isinstance(value, bool)


# In Artemis -1 means "no limit", "never" or "not set".
_SMALLEST: Final[Mapping[Kind, float]] = {
    Kind.COUNT: -1,
    Kind.BYTES: -1,
    Kind.MILLISECONDS: -1,
    Kind.SECONDS: 0,
    Kind.FACTOR: 0,
}


def option(
    kind: Kind | type[Enum],
    default: object,
    help: str,
    name: str | None = None,
    minimum: float | None = None,
    maximum: float | None = None,
    since: str = FIRST_RELEASE,
    **more: object,
) -> Any:  # an attrs field, whatever the annotation beside it says
    """Declare a field as an option; without `name` its XML name is that of the attribute, with dashes.

    `more` has `by_value`, and the additional fields of a class derived from `Option`.
    """
    if minimum is None and isinstance(kind, Kind):
        minimum = _SMALLEST.get(kind)
    declared = {"name": name, "kind": kind, "minimum": minimum, "maximum": maximum, "help": help, "since": since}
    return field(default=default, metadata={_OPTION: declared | more})


def declarations_of(owner: type) -> list[dict[str, Any]]:
    """Return the parameters of an `Option` for each declared field of an attrs class, in order."""
    return [
        declared
        | {
            "name": declared["name"] or attribute.name.replace("_", "-"),
            "attribute": attribute.name,
            "default": attribute.default,
        }
        for attribute in fields(owner)
        if (declared := attribute.metadata.get(_OPTION)) is not None
    ]


def options_of(owner: type) -> tuple[Option, ...]:
    """Return the options declared in an attrs class, in order."""
    return tuple(Option(**declared) for declared in declarations_of(owner))


def with_partial(options: Iterable[str]) -> Callable[[type, _Fields], _Fields]:
    """Return an attrs `field_transformer` that gives a class a field for each of these options, None by default.

    A class of requested values, beside the class of values that apply, then need not list the same fields again. Its
    constructor calls `check_kinds`.
    """

    def add(owner: type, own: _Fields) -> _Fields:
        template: Attribute[Any] = fields(_Template).template
        return [*own, *(template.evolve(name=name, alias=name) for name in options)]

    return add


@frozen(kw_only=True)
class _Template:
    """Source of an `Attribute` to copy: attrs has no public way to make one, only to change one."""

    template: Any = None


def check_kinds(values: Mapping[str, object], options: Mapping[str, Option]) -> None:
    """Raise TypeError for a value that is not of the kind of its option.

    Not an attrs validator, which is called for each field: thousands of queues are created, and each sets few fields.
    """
    for name, value in values.items():
        declared = options.get(name)
        if declared is not None and value is not None and not declared.holds(value):
            raise TypeError(f"{name} is {value!r}, which is not of the kind of {declared.name}")
