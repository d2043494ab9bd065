"""Reads the `<virtual-hosts>` of broker.xml: their names and options. `reader` reads what they contain."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from artemis_py.config.document import OWN_NAMESPACE
from artemis_py.config.elements import Elements
from artemis_py.config.report import Place, Report
from artemis_py.core.settings.virtual_host_config import (
    DEFAULT_NAMES,
    VIRTUAL_HOST_OPTIONS,
    VirtualHostConfig,
    check_host_name,
)
from artemis_py.errors import InvalidRequest
from artemis_py.transport.config import AcceptorConfig

_PATH: Final = f"{{{OWN_NAMESPACE}}}virtual-hosts/{{{OWN_NAMESPACE}}}virtual-host"


def read_virtual_hosts(root: Any, elements: Elements) -> Iterator[tuple[Any, VirtualHostConfig]]:
    """Yield the elements of virtual hosts, with their options; names must differ, whatever the case of letters."""
    report = elements.report
    taken: dict[str, int] = {}
    for element in root.iterfind(_PATH):
        name = elements.name(element)
        values = elements.children(element, VIRTUAL_HOST_OPTIONS)
        if name is None:
            continue
        is_legal = _take(name, report.place(element, "attribute name"), taken, report)
        hostnames = element.find(f"{{{OWN_NAMESPACE}}}hostnames")
        kept = [
            each
            for each in values.get("hostnames", ())
            if each.lower() != name.lower() and _take(each, report.place(hostnames), taken, report)
        ]
        if is_legal:
            yield element, VirtualHostConfig(name=name, declared=True, **(values | {"hostnames": tuple(kept)}))


def check_acceptor_hosts(acceptors: Sequence[AcceptorConfig], names: Sequence[str], report: Report) -> None:
    """Warn of acceptors whose virtual host is none of `names`, which the file declares."""
    known = {name.lower() for name in (*names, *DEFAULT_NAMES)}
    for acceptor in acceptors:
        if acceptor.virtual_host and acceptor.virtual_host.lower() not in known:
            place = Place(file=acceptor.file, line=acceptor.line, element="acceptor", part="parameter virtualHost")
            report.warning(
                place,
                f'"{acceptor.virtual_host}" is not a virtual-host of this file: until it is created, clients that name '
                "no other host are refused",
            )


def _take(name: str, place: Place, taken: dict[str, int], report: Report) -> bool:
    """Note a name of a host, unless it is not allowed or another one has it; this is reported."""
    try:
        check_host_name(name)
    except InvalidRequest as error:
        report.problem(place, str(error))
        return False
    first = taken.get(name.lower())
    if first is not None:
        report.problem(place, f'"{name}" is a name of the virtual host in line {first} already; choose another')
        return False
    taken[name.lower()] = place.line
    return True
