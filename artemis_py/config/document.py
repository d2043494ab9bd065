"""Parses bytes into an XML tree, without the dangerous features of XML.

No document type, hence no entities and no entity bombs; no XInclude, no network; limited size and depth
(reliability §5.5). Artemis allows entities.
"""

from typing import Any, Final, NoReturn

from lxml import etree

from artemis_py.config.report import Place, Report, local_name
from artemis_py.errors import ConfigError

# A broker.xml with a thousand addresses has about 200 KiB. A migration writes some 900 bytes for a queue with a binding
# and permissions of its own. libxml2 cannot tell lines beyond 65,535, which are some 3 MiB; five levels are in use.
SIZE_LIMIT_BYTES: Final = 4 * 1024 * 1024
LAST_LINE: Final = 65_535
"""Line that is told for all that come after it, too."""
DEPTH_LIMIT: Final = 64

ROOT_NAMESPACE: Final = "urn:activemq"
CORE_NAMESPACE: Final = "urn:activemq:core"
OWN_NAMESPACE: Final = "urn:artemis-py"


def in_core(name: str) -> str:
    """Return an element's name with the namespace of `<core>`, as lxml wants it."""
    return f"{{{CORE_NAMESPACE}}}{name}"


def in_own(name: str) -> str:
    """Return an element's name with the namespace of what Artemis does not have."""
    return f"{{{OWN_NAMESPACE}}}{name}"


def read_document(data: bytes, report: Report) -> Any:
    """Return the root element. Raises ConfigError, with one mistake, for anything but harmless XML."""
    if len(data) > SIZE_LIMIT_BYTES:
        _refuse(report, 0, f"is larger than {SIZE_LIMIT_BYTES} bytes; nothing in it was read")
    if not data.strip():
        _refuse(report, 0, "is empty; a configuration starts with <configuration>")
    try:
        _guard(data, report)
        # A second parser, because one with a custom target does not record line numbers.
        parser = etree.XMLParser(resolve_entities=False, no_network=True, remove_comments=True, remove_pis=True)
        root = etree.fromstring(data, parser)
    except etree.XMLSyntaxError as error:
        _refuse(report, error.lineno or 0, f"is not well-formed XML: {error.msg}")
    _check_root(root, report)
    report.raise_problems()
    return root


class _Refused(Exception):
    """The document contains something that is not allowed."""


class _Guard:
    """Parser target that builds nothing and stops at the first dangerous feature, before libxml2 acts on it."""

    def __init__(self) -> None:
        self._depth = 0

    def start(self, tag: str, attributes: object) -> None:
        self._depth += 1
        if self._depth > DEPTH_LIMIT:
            raise _Refused(f"elements are nested more than {DEPTH_LIMIT} deep; nothing in broker.xml needs that")

    def end(self, tag: str) -> None:
        self._depth -= 1

    def doctype(self, name: str, public_id: str | None, system_id: str | None) -> None:
        raise _Refused("document types and entities are not allowed; remove the <!DOCTYPE …>")

    def close(self) -> None:
        """Do nothing; lxml requires this method of every target."""


def _guard(data: bytes, report: Report) -> None:
    """Refuse dangerous features. Raises lxml's XMLSyntaxError if the data is not XML."""
    parser = etree.XMLParser(target=_Guard(), resolve_entities=False, no_network=True)
    line = 0
    try:
        for line, text in enumerate(data.splitlines(keepends=True), 1):  # noqa: B007  read when it is refused
            parser.feed(text)
        parser.close()
    except _Refused as error:
        _refuse(report, line, str(error))


def _refuse(report: Report, line: int, message: str) -> NoReturn:
    report.problem(Place(file=report.file, line=line, element="XML"), message)
    raise ConfigError(report.problems)


def _check_root(root: Any, report: Report) -> None:
    """Check the root element, because the schema reports all other mistakes only below a correct root."""
    if root.tag != f"{{{ROOT_NAMESPACE}}}configuration":
        what = "is not the root of a broker.xml" if local_name(root) != "configuration" else "is in the wrong namespace"
        report.problem(report.place(root), f'{what}; write <configuration xmlns="{ROOT_NAMESPACE}">')
    elif root.find(f"{{{CORE_NAMESPACE}}}core") is None:
        report.problem(report.place(root), f'has no core; write <core xmlns="{CORE_NAMESPACE}"> inside')
