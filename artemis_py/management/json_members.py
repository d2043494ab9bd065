"""Members of the JSON objects that operations take: their kinds, and what is said about wrong ones."""

from collections.abc import Mapping
from enum import Enum
from typing import TypeVar

from artemis_py.errors import InvalidRequest
from artemis_py.management.control import proposal

E = TypeVar("E", bound=Enum)


def check_members(wanted: Mapping[str, object], known: tuple[str, ...]) -> None:
    """Raise InvalidRequest for a member that means nothing here."""
    for name in wanted:
        if name not in known:
            raise InvalidRequest(f"member {name[:200]!r} is unknown{proposal(name, known)}; known: {', '.join(known)}")


def text_of(wanted: Mapping[str, object], name: str) -> str:
    value = wanted.get(name)
    if not isinstance(value, str) or not value:
        raise InvalidRequest(f"a text is needed for {name!r}")
    return value


def key_of(wanted: Mapping[str, object]) -> str:
    key = wanted.get("key", "")
    if not isinstance(key, str):
        raise InvalidRequest("'key' must be a text")
    return key


def flag_of(wanted: Mapping[str, object], name: str, default: bool) -> bool:
    value = wanted.get(name, default)
    if not isinstance(value, bool):
        raise InvalidRequest(f"{name!r} must be true or false")
    return value


def choice_of(wanted: Mapping[str, object], name: str, kind: type[E]) -> E | None:
    """Return the member of an enum whose value is given; None if there is none."""
    value = wanted.get(name)
    if value is None:
        return None
    for each in kind:
        if each.value == value:
            return each
    raise InvalidRequest(f"{name!r} is {', '.join(str(each.value) for each in kind)}, not {value!r}")
