"""Reads the `<diverts>` of broker.xml (artemis-model §3.2)."""

from collections.abc import Iterable, Iterator
from typing import Any

from artemis_py.config.document import in_core
from artemis_py.config.elements import Elements
from artemis_py.core.settings.divert_config import DIVERT_OPTIONS, DivertConfig
from artemis_py.core.settings.queue_config import AddressConfig


def read_diverts(core: Any, elements: Elements, addresses: Iterable[AddressConfig]) -> Iterator[DivertConfig]:
    """Yield the diverts; their names must differ from each other and from those of the queues in `addresses`."""
    report = elements.report
    taken = {
        queue.name: f'a queue "{queue.name}" on address "{queue.address}"'
        for address in addresses
        for queue in address.queues
    }
    turns: dict[tuple[str, str], str] = {}
    for element in core.iterfind(f"{in_core('diverts')}/{in_core('divert')}"):
        name = elements.name(element)
        values = elements.children(element, DIVERT_OPTIONS)
        selector = elements.filter(element)
        _check_addresses(element, values, elements)
        if name is None or not values.keys() >= {"address", "forwarding_address"}:
            continue
        if name in taken:
            text = f"there is {taken[name]}; queues and diverts share one set of names, choose another"
            report.problem(report.place(element), text)
            continue
        taken[name] = f'another divert "{name}"'
        _check_turns(element, (values["address"], name), turns, elements)
        yield DivertConfig(name=name, filter=selector, **values)


def _check_addresses(divert: Any, values: dict[str, Any], elements: Elements) -> None:
    """Report names that an address cannot have, and a list of addresses, which Artemis takes."""
    for child in ("address", "forwarding-address"):
        name = values.get(child.replace("-", "_"))
        if name is None:
            continue
        place = elements.report.place(divert.find(in_core(child)))
        elements.check_separator(name, place)
        if child == "forwarding-address" and "," in name:
            text = f'"{name}" is a list, which artemis_py does not support yet; write one divert for each address'
            elements.report.problem(place, text)


def _check_turns(divert: Any, key: tuple[str, str], turns: dict[tuple[str, str], str], elements: Elements) -> None:
    """Report a routing name that another divert of the address has; a routing name of its own changes nothing.

    `key` has the divert's address and name; `turns` has the name of a divert by address and routing name.
    """
    element = divert.find(in_core("routing-name"))
    routing_name = "" if element is None else (element.text or "").strip()
    if not routing_name:
        return
    address, name = key
    other = turns.setdefault((address, routing_name), name)
    if other != name:
        elements.report.problem(
            elements.report.place(element),
            f'divert "{other}" of address "{address}" has "{routing_name}" too: in Artemis the two take turns, which '
            "artemis_py does not support yet; give each its own routing name, or none",
        )
