"""What every type of OpenWire shares: its code, and how its fields are declared.

A type is an attrs class whose fields are declared with `wire`, in the order in which they are encoded. `codec` walks
through the declarations; the classes themselves are in `structures` and `commands`.

    @frozen(kw_only=True)
    class SessionInfo(BaseCommand):
        code: ClassVar[int] = 4
        session_id: SessionId | None = wire("sessionId", NESTED, "SessionId")
"""

from typing import Any, ClassVar, Final

from attrs import field, frozen

FIRST_VERSION: Final = 1
LAST_VERSION: Final = 12

# Kinds of fields (openwire §4).
BOOLEAN: Final = "boolean"
BYTE: Final = "byte"
INT: Final = "int"
LONG: Final = "long"
STRING: Final = "string"
BYTES: Final = "bytes"
OCTETS_8: Final = "octets8"
THROWABLE: Final = "throwable"
NESTED: Final = "nested"
"""A structure of a given type, or null."""
ARRAY: Final = "array"
"""Structures of a given type, each of which may be null, or null."""

_DEFAULTS: Final[dict[str, object]] = {BOOLEAN: False, BYTE: 0, INT: 0, LONG: 0}


@frozen
class Wire:
    """Declaration of one field."""

    name: str
    """Its name in the protocol's own tables."""
    kind: str
    of: str
    """Name of the type of a structure, or of the elements of an array."""
    since: int
    until: int

    def is_in(self, version: int) -> bool:
        """Tell whether a version has the field."""
        return self.since <= version <= self.until


def wire(
    name: str, kind: str, of: str = "", since: int = FIRST_VERSION, until: int = LAST_VERSION, default: object = None
) -> Any:
    """Declare a field; one that its version does not have gets `default`."""
    if default is None:
        default = _DEFAULTS.get(kind)
    return field(default=default, metadata={Wire: Wire(name, kind, of, since, until)})


@frozen(kw_only=True)
class Structure:
    """Anything that is encoded with a code in front of it."""

    code: ClassVar[int] = -1
    """Code of the type on the wire; -1: it is never sent itself."""
    since: ClassVar[int] = FIRST_VERSION
    """First version that has the type."""


@frozen
class Throwable:
    """An error as Java knows it. The class is a name for the other side, and nothing is made of it here."""

    class_name: str | None
    message: str | None
