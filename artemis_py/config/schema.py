"""Applies the schema, which decides where each element may stand, and explains mistakes in plain words.

libxml2 reports nothing about an element's children after the first unexpected one, and its messages are for experts.
So the shipped schema is first read as data, to find every misplaced element, attribute and text; then libxml2
validates the rest and can object only to values.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from attrs import frozen
from lxml import etree

from artemis_py.config import known
from artemis_py.config.report import Report, local_name
from artemis_py.config.values import suggest

SCHEMA_FILES: Final = ("artemis-py.xsd", "artemis-py-core.xsd", "artemis-py-login.xsd")

_XSD: Final = "{http://www.w3.org/2001/XMLSchema}"
_XINCLUDE: Final = "{http://www.w3.org/2001/XInclude}"
# Tells editors where the schema is; legal on any element.
_SCHEMA_LOCATION: Final = "{http://www.w3.org/2001/XMLSchema-instance}schemaLocation"


@frozen(kw_only=True)
class Content:
    """Content that one element may have."""

    namespace: str
    children: Mapping[str, bool]
    """Names of child elements, and whether they may be repeated."""
    attributes: Mapping[str, bool]
    """Names of attributes, and whether they are required."""
    has_text: bool


class Schema:
    """The shipped schema."""

    def __init__(self, folder: Path) -> None:
        """Read the schema files in `folder`. They are part of the installation, so no errors are handled."""
        self._schema: Final = etree.XMLSchema(file=str(folder / SCHEMA_FILES[0]))
        self.contents: Final[Mapping[str, Content]] = {
            name: content for file in SCHEMA_FILES for name, content in _contents(etree.parse(str(folder / file)))
        }

    def check_structure(self, element: Any, report: Report) -> None:
        """Report everything misplaced in the whole tree below `element`, and remove it from the tree."""
        content = self.contents[local_name(element)]
        self._check_attributes(element, content, report)
        text = " ".join(
            (element.text or "").split() + [word for child in element for word in (child.tail or "").split()]
        )
        if text and not content.has_text:
            report.problem(report.place(element), f'has the text "{text}", but holds elements only; remove the text')
        seen: set[str] = set()
        for child in list(element):
            name = local_name(child)
            if name in known.WITHOUT_MEANING and local_name(element) == "core":
                report.warning(report.place(child), f"has no effect in artemis_py: {known.WITHOUT_MEANING[name]}")
                element.remove(child)
                continue
            wrong = self._wrong(child, content, name in seen)
            if wrong is None:
                seen.add(name)
                self.check_structure(child, report)
            else:
                report.problem(report.place(child), wrong)
                element.remove(child)

    def check_values(self, root: Any, report: Report) -> None:
        """Report values that the schema objects to, unless a better message was reported already."""
        if self._schema.validate(root):
            return
        for verdict in self._schema.error_log:
            place = report.place(root.getroottree().xpath(verdict.path)[0])
            if not report.has_problem_in(place):
                report.problem(place, "the schema does not allow this value; see docs/configuration.md")

    def _wrong(self, child: Any, parent: Content, is_second: bool) -> str | None:
        """Return what is wrong with a child, or None."""
        name, parent_name = local_name(child), local_name(child.getparent())
        if child.tag.startswith(_XINCLUDE):
            return "other files are not included; write everything into this one"
        if name in parent.children:
            namespace = self.contents[name].namespace
            if child.tag != f"{{{namespace}}}{name}":
                return f'is in the wrong XML namespace; it belongs to xmlns="{namespace}"'
            if is_second and not parent.children[name]:
                return f"stands in {parent_name} a second time; keep one"
            return None
        if name in known.CHILDREN.get(parent_name, ()):
            return known.unsupported(name)
        if not parent.children:
            what = "a text" if parent.has_text else "attributes"
            return f"{parent_name} holds {what} only; remove this element"
        home = next((other for other, content in self.contents.items() if name in content.children), None)
        if home is not None:
            return f"does not belong into {parent_name}; move it into {home}"
        return f"is no element of {parent_name}; {suggest(name, parent.children)}"

    def _check_attributes(self, element: Any, content: Content, report: Report) -> None:
        name = local_name(element)
        for attribute in element.attrib:
            if attribute in content.attributes or attribute == _SCHEMA_LOCATION:
                continue
            if attribute in known.ATTRIBUTES.get(name, ()):
                message = known.unsupported(attribute)
            else:
                message = f"is no attribute of {name}; {suggest(attribute, content.attributes)}"
            report.problem(report.place(element, f"attribute {attribute}"), message)
            del element.attrib[attribute]
        for attribute, is_required in content.attributes.items():
            if is_required and attribute not in element.attrib:
                message = f'is missing; write <{name} {attribute}="…">'
                report.problem(report.place(element, f"attribute {attribute}"), message)


def _contents(document: Any) -> Iterator[tuple[str, Content]]:
    """Yield the content of each element declared in one schema file; the types of children are all named."""
    schema = document.getroot()
    named = {definition.get("name"): definition for definition in schema.iterchildren(f"{_XSD}complexType")}
    for element in schema.iter(f"{_XSD}element"):
        if element.get("ref") is not None:
            continue
        definition = element.find(f"{_XSD}complexType")
        if definition is None:
            definition = named.get(element.get("type"))
        yield element.get("name"), _content(definition, schema.get("targetNamespace"))


def _content(definition: Any, namespace: str) -> Content:
    if definition is None:  # a simple type
        return Content(namespace=namespace, children={}, attributes={}, has_text=True)
    return Content(
        namespace=namespace,
        children={
            (child.get("name") or child.get("ref").partition(":")[2]): "unbounded"
            in (child.get("maxOccurs"), child.getparent().get("maxOccurs"))
            for child in definition.iter(f"{_XSD}element")
        },
        attributes={
            attribute.get("name"): attribute.get("use") == "required"
            for attribute in definition.iter(f"{_XSD}attribute")
        },
        has_text=definition.find(f"{_XSD}simpleContent") is not None,
    )
