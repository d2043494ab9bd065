"""Replaces `${name}` and `${name:default}` in an XML file of Spring, as ActiveMQ does."""

import re
from collections.abc import Mapping
from typing import Final

from artemis_py.config.foreign_xml import ForeignElement

_REFERENCE: Final = re.compile(r"\$\{([^${}:]+)(?::-?([^${}]*))?\}")
# A value may refer to others, whose values refer to others: a chain of this length is a circle.
_DEEPEST: Final = 8


def replace_placeholders(element: ForeignElement, values: Mapping[str, str]) -> None:
    """Replace all references in texts and attributes; those without a value stay as they are."""
    element.text = replace(element.text, values)
    for name, text in element.attributes.items():
        element.attributes[name] = replace(text, values)
    for child in element.children:
        replace_placeholders(child, values)


def replace(text: str, values: Mapping[str, str]) -> str:
    """Replace the references in a text."""
    for _ in range(_DEEPEST):
        replaced = _REFERENCE.sub(lambda match: values.get(match[1].strip(), match[2] or match[0]), text)
        if replaced == text or "${" not in replaced:
            return replaced
        text = replaced
    return text


def unresolved(text: str) -> str | None:
    """Return the first name in a text that has no value."""
    match = _REFERENCE.search(text)
    return match[1] if match is not None else None
