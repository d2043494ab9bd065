"""Reads the `<diverts>` of broker.xml (artemis-model §3.2)."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from artemis_py.config.document import in_core
from artemis_py.config.elements import Elements
from artemis_py.config.report import Place
from artemis_py.core.names.syntax import WildcardSyntax
from artemis_py.core.routing.circles import circles
from artemis_py.core.settings.divert_config import DIVERT_OPTIONS, DivertConfig, TransformerConfig
from artemis_py.core.settings.queue_config import AddressConfig
from artemis_py.errors import InvalidRequest
from artemis_py.transformers.installed import installed_transformers, transformer_name

_NO_CLASS: Final = "has no class-name; write <class-name>…</class-name> inside"


def read_diverts(
    core: Any, elements: Elements, addresses: Iterable[AddressConfig], syntax: WildcardSyntax
) -> tuple[DivertConfig, ...]:
    """Return the diverts; their names must differ from each other and from those of the queues in `addresses`."""
    reader = _Reader(elements, syntax)
    taken = {
        queue.name: f'a queue "{queue.name}" on address "{queue.address}"'
        for address in addresses
        for queue in address.queues
    }
    diverts = tuple(reader.read(core, taken))
    for way in circles(diverts, syntax):
        text = f"the diverts {' -> '.join(way)} form a circle; a message goes through each of them once"
        if len(way) == 2:
            text = f'the divert "{way[0]}" leads back to itself; a message goes through it once'
        elements.report.warning(reader.places[way[0]], text)
    return diverts


class _Reader:
    """Reads one divert after the other."""

    def __init__(self, elements: Elements, syntax: WildcardSyntax) -> None:
        self._elements: Final = elements
        self._report: Final = elements.report
        self._syntax: Final = syntax
        self._turns: Final[dict[tuple[str, str], str]] = {}
        """Names of exclusive diverts by address and routing name."""
        self.places: Final[dict[str, Place]] = {}
        """Place of each divert, by name."""

    def read(self, core: Any, taken: dict[str, str]) -> Iterator[DivertConfig]:
        """Yield the diverts that are complete; `taken` says what each name belongs to."""
        for element in core.iterfind(f"{in_core('diverts')}/{in_core('divert')}"):
            name = self._elements.name(element)
            values = self._elements.children(element, DIVERT_OPTIONS)
            selector = self._elements.filter(element)
            transformer = self._transformer(element)
            self._check_addresses(element, values)
            if name is None or not values.keys() >= {"address", "forwarding_address"}:
                continue
            if name in taken:
                text = f"there is {taken[name]}; queues and diverts share one set of names, choose another"
                self._report.problem(self._report.place(element), text)
                continue
            taken[name] = f'another divert "{name}"'
            self.places[name] = self._report.place(element)
            values["routing_name"] = values.get("routing_name") or None
            config = DivertConfig(name=name, filter=selector, transformer=transformer, **values)
            self._check_turns(element, config)
            yield config

    def _check_addresses(self, divert: Any, values: dict[str, Any]) -> None:
        """Report names that an address cannot have, and forwarding addresses that mean something else than expected."""
        for child in ("address", "forwarding-address"):
            text = values.get(child.replace("-", "_"))
            if text is None:
                continue
            place = self._report.place(divert.find(in_core(child)))
            self._elements.check_separator(text, place)
            if child == "address":
                continue
            names = [name.strip() for name in text.split(",")]
            if not all(names):
                self._report.problem(place, f'"{text}" has a comma without an address beside it; remove it')
            for name in dict.fromkeys(name for name in names if names.count(name) > 1 and name):
                self._report.problem(place, f'"{name}" is named twice; name it once')
            for name in names:
                if self._syntax.routing_enabled and self._syntax.is_wild(name):
                    text = f'"{name}" is a wildcard address: copies go to this one address, not to those it matches'
                    self._report.warning(place, text)

    def _check_turns(self, divert: Any, config: DivertConfig) -> None:
        """Warn of exclusive diverts that look as if they took turns."""
        if not config.exclusive or not config.routing_name:
            return
        other = self._turns.setdefault((config.address, config.routing_name), config.name)
        if other != config.name:
            text = f'exclusive diverts take no turns: "{other}" has this routing name too, and both get all messages'
            self._report.warning(self._report.place(divert.find(in_core("routing-name"))), text)

    def _transformer(self, divert: Any) -> TransformerConfig | None:
        """Return the transformer of a divert, after making it once to see whether it can be made."""
        short, full = divert.find(in_core("transformer-class-name")), divert.find(in_core("transformer"))
        if short is not None and full is not None:
            text = "is given beside transformer-class-name; keep one of the two"
            self._report.problem(self._report.place(full), text)
            return None
        named = short if full is None else full.find(in_core("class-name"))
        if named is None:
            if full is not None:
                self._report.problem(
                    self._report.place(full), "has no class-name; write <class-name>…</class-name> inside"
                )
            return None
        name = (named.text or "").strip()
        place = self._report.place(named)
        if not name:
            self._report.problem(place, "is empty; write the name of a transformer")
            return None
        if self._report.has_problem_at(place):  # a variable without a value
            return None
        config = TransformerConfig(transformer_name(name), self._properties(full))
        try:
            installed_transformers().make(config)
        except InvalidRequest as error:
            self._report.problem(place, str(error))
            return None
        return config

    def _properties(self, transformer: Any) -> tuple[tuple[str, str], ...]:
        properties: dict[str, str] = {}
        for each in () if transformer is None else transformer.iterfind(in_core("property")):
            key, value = each.get("key"), each.get("value")
            if key is None or value is None:  # the schema reports that
                continue
            if key in properties:
                self._report.problem(self._report.place(each), f'there is another property "{key}"; keep one')
            properties[key] = value
        return tuple(properties.items())
