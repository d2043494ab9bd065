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

from artemis_py.config.report import Report, local_name
from artemis_py.config.values import suggest
from artemis_py.config.verdicts import ELEMENTS, Effect, values_of

SCHEMA_FILES: Final = (
    "artemis-py.xsd",
    "artemis-py-core.xsd",
    "artemis-py-own.xsd",
    "artemis-py-login.xsd",
    "artemis-py-exchanges.xsd",
    "artemis-py-virtual-hosts.xsd",
    "artemis-py-web.xsd",
)

_XSD: Final = "{http://www.w3.org/2001/XMLSchema}"
_ELEMENT: Final = f"{_XSD}element"
_ATTRIBUTE: Final = f"{_XSD}attribute"
_ALL: Final = f"{_XSD}all"
_TYPE: Final = f"{_XSD}complexType"
_XINCLUDE: Final = "{http://www.w3.org/2001/XInclude}"
# Tells editors where the schema is; legal on any element.
_SCHEMA_LOCATION: Final = "{http://www.w3.org/2001/XMLSchema-instance}schemaLocation"


@frozen(kw_only=True)
class Content:
    """Content that an element may have at one place; elements of the same name elsewhere may have another."""

    name: str
    namespace: str
    may_repeat: bool
    """Whether its parent may have several of it."""
    is_required: bool
    """Whether its parent must have it."""
    children: Mapping[str, "Content"]
    attributes: Mapping[str, bool]
    """Names of attributes, and whether they are required."""
    has_text: bool

    def walk(self) -> Iterator["Content"]:
        """Yield it and everything below it, in the order of the schema."""
        yield self
        for child in self.children.values():
            yield from child.walk()


class Schema:
    """The shipped schema."""

    def __init__(self, folder: Path) -> None:
        """Read the schema files in `folder`. They are part of the installation, so no errors are handled."""
        self._schema: Final = etree.XMLSchema(file=str(folder / SCHEMA_FILES[0]))
        self.root: Final = _root(folder)

    def check_structure(self, root: Any, report: Report) -> None:
        """Report everything misplaced in a tree whose root element is the right one, and remove it from the tree."""
        self._check(root, self.root, report)

    def check_values(self, root: Any, report: Report) -> None:
        """Report values that the schema objects to, unless a better message was reported already."""
        if self._schema.validate(root):
            return
        for verdict in self._schema.error_log:
            place = report.place(root.getroottree().xpath(verdict.path)[0])
            if not report.has_problem_in(place):
                report.problem(place, "the schema does not allow this value; see docs/configuration.md")

    def _check(self, element: Any, content: Content, report: Report) -> None:
        _check_attributes(element, content, report)
        text = " ".join(
            (element.text or "").split() + [word for child in element for word in (child.tail or "").split()]
        )
        if text and not content.has_text:
            report.problem(
                report.place(element), f'has the text "{text}", but may contain only elements; remove the text'
            )
        there = {local_name(child) for child in element}
        for name in content.children:
            if content.children[name].is_required and name not in there:
                report.problem(report.place(element), f"has no {name}; write <{name}>…</{name}> inside")
        seen: set[str] = set()
        for child in list(element):
            name = local_name(child)
            if name not in content.children and not child.tag.startswith(_XINCLUDE):
                verdict = ELEMENTS.get(content.name, {}).get(name)
                if verdict is not None:
                    verdict.tell(values_of(child), report.place(child), report)
                    if verdict.effect is not Effect.RENAMED:
                        element.remove(child)
                        continue
                    name = verdict.reason
                    child.tag = f"{{{content.children[name].namespace}}}{name}"
            wrong = self._wrong(child, content, name in seen)
            if wrong is None:
                seen.add(name)
                self._check(child, content.children[name], report)
            else:
                report.problem(report.place(child), wrong)
                element.remove(child)

    def _wrong(self, child: Any, parent: Content, is_second: bool) -> str | None:
        """Return what is wrong with a child, or None."""
        name = local_name(child)
        if child.tag.startswith(_XINCLUDE):
            return "other files are not included; write everything into this one"
        content = parent.children.get(name)
        if content is not None:
            if child.tag != f"{{{content.namespace}}}{name}":
                return f'is in the wrong XML namespace; it belongs to xmlns="{content.namespace}"'
            if is_second and not content.may_repeat:
                return f"is given twice in {parent.name}; keep one"
            return None
        if not parent.children:
            what = "text" if parent.has_text else "attributes"
            return f"{parent.name} may contain only {what}; remove this element"
        home = next((other.name for other in self.root.walk() if name in other.children), None)
        if home is not None:
            return f"does not belong in {parent.name}; move it into {home}"
        return f"is not an element of {parent.name}; {suggest(name, parent.children)}"


def _check_attributes(element: Any, content: Content, report: Report) -> None:
    name = content.name
    for attribute in element.attrib:
        if attribute in content.attributes or attribute == _SCHEMA_LOCATION:
            continue
        message = f"is not an attribute of {name}; {suggest(attribute, content.attributes)}"
        report.problem(report.place(element, f"attribute {attribute}"), message)
        del element.attrib[attribute]
    for attribute, is_required in content.attributes.items():
        if is_required and attribute not in element.attrib:
            message = f'is missing; write <{name} {attribute}="…">'
            report.problem(report.place(element, f"attribute {attribute}"), message)


# What the schema files define: an element or type by its tag and its name with the namespace.
_Definitions = Mapping[tuple[str, str], Any]


def _root(folder: Path) -> Content:
    """Return the content of the root element, which is the one that the first schema file defines."""
    schemas = [etree.parse(str(folder / file)).getroot() for file in SCHEMA_FILES]
    definitions = {
        (each.tag, f"{{{schema.get('targetNamespace')}}}{each.get('name')}"): each
        for schema in schemas
        for each in schema.iterchildren(_ELEMENT, _TYPE)
    }
    return _content(schemas[0].find(_ELEMENT), definitions)


def _content(element: Any, definitions: _Definitions) -> Content:
    """Return the content of an element of the schema. No type contains itself, so this ends."""
    group = element.getparent()
    may_repeat = "unbounded" in (element.get("maxOccurs"), group.get("maxOccurs"))
    is_required = group.tag == _ALL and element.get("minOccurs") != "0"
    reference = element.get("ref")
    if reference is not None:
        element = definitions[_ELEMENT, _full_name(element, reference)]
    definition = element.find(_TYPE)
    if definition is None and element.get("type") is not None:
        definition = definitions.get((_TYPE, _full_name(element, element.get("type"))))
    children: dict[str, Content] = {}
    attributes: dict[str, bool] = {}
    has_text = True  # unless its type is a complex one
    if definition is not None:
        contents = [_content(child, definitions) for child in _parts(definition, _ELEMENT)]
        children = {child.name: child for child in contents}
        attributes = {each.get("name"): each.get("use") == "required" for each in _parts(definition, _ATTRIBUTE)}
        has_text = definition.find(f"{_XSD}simpleContent") is not None
    return Content(
        name=element.get("name"),
        namespace=element.getroottree().getroot().get("targetNamespace"),
        may_repeat=may_repeat,
        is_required=is_required,
        children=children,
        attributes=attributes,
        has_text=has_text,
    )


def _parts(definition: Any, tag: str) -> Iterator[Any]:
    """Yield the elements or attributes of a type, and not those of the elements in it."""
    for each in definition.iterchildren("*"):
        if each.tag == tag:
            yield each
        elif each.tag != _ELEMENT:
            yield from _parts(each, tag)


def _full_name(element: Any, text: str) -> str:
    """Return the name that a text such as `core:core` means, with its namespace."""
    prefix, _, name = text.rpartition(":")
    return f"{{{element.nsmap[prefix or None]}}}{name}"
