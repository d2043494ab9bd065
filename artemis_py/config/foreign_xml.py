"""Parses XML files of other programs into plain records, without entities, document types and the network.

A file for Spring may have a document type that names a DTD; it is not loaded. A file that declares entities is refused.
"""

from typing import Any

from attrs import Factory, define
from lxml import etree

from artemis_py.config.document import SIZE_LIMIT_BYTES
from artemis_py.config.report import local_name
from artemis_py.errors import ConfigError, Problem


@define(eq=False)
class ForeignElement:
    """An element of a file of another program; names have no namespaces."""

    name: str
    namespace: str
    line: int
    attributes: dict[str, str] = Factory(dict)
    text: str = ""
    """All text directly in the element, without the space around it."""
    children: list["ForeignElement"] = Factory(list)

    def find(self, name: str) -> "ForeignElement | None":
        """Return the first child of this name."""
        return next((child for child in self.children if child.name == name), None)


def parse_foreign(data: bytes, file: str) -> ForeignElement:
    """Return the root element. Raises ConfigError, with one problem, for anything but harmless XML."""
    if len(data) > SIZE_LIMIT_BYTES:
        raise _refused(file, 0, f"is larger than {SIZE_LIMIT_BYTES} bytes; nothing in it was read")
    # libxml2 itself limits the depth and the growth by entities.
    parser = etree.XMLParser(
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
    )
    try:
        root = etree.fromstring(data, parser)
    except etree.XMLSyntaxError as error:
        raise _refused(file, error.lineno or 0, f"is not well-formed XML: {error.msg}") from None
    declared = root.getroottree().docinfo.internalDTD
    if declared is not None and any(True for _ in declared.iterentities()):
        raise _refused(file, 1, "declares entities; write their texts in their places and remove the declarations")
    return _record(root)


def _refused(file: str, line: int, message: str) -> ConfigError:
    return ConfigError([Problem(file, line, "XML", message)])


def _record(element: Any) -> ForeignElement:
    children = [child for child in element if isinstance(child.tag, str)]
    text = " ".join(part.strip() for part in (element.text or "", *(child.tail or "" for child in children)))
    return ForeignElement(
        name=local_name(element),
        namespace=etree.QName(element).namespace or "",
        line=element.sourceline or 0,
        attributes={etree.QName(name).localname: value for name, value in element.attrib.items()},
        text=text.strip(),
        children=[_record(child) for child in children],
    )
