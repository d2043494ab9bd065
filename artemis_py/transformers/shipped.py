"""The transformers for properties, priority and expiry. Each factory checks its properties."""

from collections.abc import Mapping
from typing import Final

from artemis_py.core.messages.draft import MAX_PROPERTY_CHARS, Draft, Transformer
from artemis_py.core.messages.message import LATEST_MS

NO_EXPIRY: Final = -1


def add_properties(properties: Mapping[str, str]) -> Transformer:
    """Make a transformer that sets each key to its value, a text; what the message has under the key is replaced."""
    added = _named(properties, "set")
    for name, value in added.items():
        if len(value) > MAX_PROPERTY_CHARS:
            raise ValueError(f"the value of property '{name}' has more than {MAX_PROPERTY_CHARS} characters")

    def transform(draft: Draft) -> None:
        draft.properties.update(added)

    return transform


def remove_properties(properties: Mapping[str, str]) -> Transformer:
    """Make a transformer that removes the properties that the keys name; the values mean nothing."""
    names = list(_named(properties, "remove"))

    def transform(draft: Draft) -> None:
        for name in names:
            draft.properties.pop(name, None)

    return transform


def rename_properties(properties: Mapping[str, str]) -> Transformer:
    """Make a transformer that gives each property that a key names the name in the value.

    All take their new names together, so two can exchange names. What had the new name before is replaced.
    """
    names = _named(properties, "rename")
    for old, new in names.items():
        if not 0 < len(new) <= MAX_PROPERTY_CHARS:
            raise ValueError(f"the new name of property '{old}' is empty or too long")
    if len(set(names.values())) < len(names):
        raise ValueError("two properties get the same name")

    def transform(draft: Draft) -> None:
        moved = {names[old]: draft.properties.pop(old) for old in names if old in draft.properties}
        draft.properties.update(moved)

    return transform


def set_priority(properties: Mapping[str, str]) -> Transformer:
    """Make a transformer that sets the priority to `priority`, 0 to 9."""
    priority = _number(properties, "priority", 0, 9)

    def transform(draft: Draft) -> None:
        draft.priority = priority

    return transform


def set_expiry(properties: Mapping[str, str]) -> Transformer:
    """Make a transformer that has messages expire `expiry-delay` milliseconds after they were diverted; -1: never."""
    delay_ms = _number(properties, "expiry-delay", NO_EXPIRY, LATEST_MS)

    def transform(draft: Draft) -> None:
        draft.expires_ms = 0 if delay_ms == NO_EXPIRY else max(1, draft.now_ms + delay_ms)

    return transform


def _named(properties: Mapping[str, str], verb: str) -> dict[str, str]:
    """Return the properties, whose keys are names. Raises ValueError if there is none, or for an impossible name."""
    if not properties:
        raise ValueError(
            f'has nothing to {verb}; write a property whose key is the name: <property key="…" value="…"/>'
        )
    for name in properties:
        if not 0 < len(name) <= MAX_PROPERTY_CHARS:
            raise ValueError(f"the name of a property has 1 to {MAX_PROPERTY_CHARS} characters")
    return dict(properties)


def _number(properties: Mapping[str, str], key: str, least: int, most: int) -> int:
    """Return the value of the only property. Raises ValueError."""
    check_keys(properties, key)
    text = properties[key].strip()
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 20 and least <= int(text) <= most):
        raise ValueError(f"property '{key}' is \"{text}\"; it must be a whole number from {least} to {most}")
    return int(text)


def check_keys(properties: Mapping[str, str], *keys: str) -> None:
    """Raise ValueError unless exactly these keys are there."""
    for key in keys:
        if key not in properties:
            raise ValueError(f"needs a property '{key}'")
    for key in properties:
        if key not in keys:
            raise ValueError(f"has no property '{key}'; it takes {' and '.join(keys)}")
