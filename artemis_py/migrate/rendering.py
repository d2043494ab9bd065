"""Writes the text of a broker.xml, and knows which element each line comes from."""

from collections.abc import Iterator
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from artemis_py.config.document import CORE_NAMESPACE, OWN_NAMESPACE, ROOT_NAMESPACE
from artemis_py.migrate.target import Acceptor, Element, Target

_INDENT: Final = "  "
_HEAD: Final = (
    '<?xml version="1.0" encoding="UTF-8"?>',
    "<!-- Written by artemis-py migrate; migration-report.txt says where each part comes from. -->",
    f'<configuration xmlns="{ROOT_NAMESPACE}"',
    '               xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"',
    '               xsi:schemaLocation="urn:activemq artemis-py.xsd">',
)

# Written only if they have children.
_GROUPS: Final = frozenset(["addresses", "address-settings", "diverts", "security-settings"])

Line = tuple[str, Element | Acceptor | None]
"""A line of the file and what it comes from."""


def render(target: Target) -> list[Line]:
    """Return the lines of the file."""
    core = Element("core", attributes={"xmlns": CORE_NAMESPACE})
    acceptors = Element("acceptors")
    by_element: dict[Element, Acceptor] = {}
    for acceptor in target.acceptors:
        made = acceptors.add("acceptor", acceptor.origin, acceptor.url(), name=acceptor.name)
        by_element[made] = acceptor
    plain = [each for each in target.core.children if not each.children and each.name not in _GROUPS]
    groups = [each for each in target.core.children if each.children]
    core.children = [*plain, *([acceptors] if acceptors.children else []), *groups]
    parts = [core]
    if target.exchanges.children:
        attributes = {"xmlns": OWN_NAMESPACE}
        parts.append(Element("exchanges", attributes=attributes, children=target.exchanges.children))
    if target.login.children:
        parts.append(Element("login", attributes={"xmlns": OWN_NAMESPACE}, children=target.login.children))
    lines: list[Line] = [(line, None) for line in _HEAD]
    for part in parts:
        lines += [(text, by_element.get(element, element)) for text, element in _lines(part, 1)]
    return [*lines, ("</configuration>", None)]


def _lines(element: Element, depth: int) -> Iterator[tuple[str, Element]]:
    attributes = "".join(f" {name}={quoteattr(value)}" for name, value in element.attributes.items())
    begin = f"{_INDENT * depth}<{element.name}{attributes}"
    if element.children:
        yield f"{begin}>", element
        for child in element.children:
            yield from _lines(child, depth + 1)
        yield f"{_INDENT * depth}</{element.name}>", element
    elif element.text:
        yield f"{begin}>{escape(element.text)}</{element.name}>", element
    else:
        yield f"{begin}/>", element
