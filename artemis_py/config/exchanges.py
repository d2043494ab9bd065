"""Reads `<exchanges>` of broker.xml: exchanges, their alternates and bindings (qpid-exchanges §1 to §3).

Everything that they refer to must be in the same file, so that the broker can start with an empty store.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Final

from attrs import NOTHING, Factory, define, evolve, frozen

from artemis_py.config.document import in_own
from artemis_py.config.elements import Elements
from artemis_py.config.report import Place
from artemis_py.config.values import parse_value, suggest
from artemis_py.core.routing.circles import ways_back
from artemis_py.core.routing.exchanges.arguments import (
    MATCH,
    REPLACEMENT,
    SELECTOR,
    check_arguments,
    check_key,
    criteria_of,
    selector_of,
)
from artemis_py.core.routing.exchanges.exchanges import PREDECLARED, check_exchange_name
from artemis_py.core.routing.exchanges.patterns import check_words
from artemis_py.core.settings.declaration import Kind, Option, option, options_of
from artemis_py.core.settings.exchange_config import (
    BindingConfig,
    DeclaredExchanges,
    Destination,
    ExchangeConfig,
    ExchangeLifetime,
    ExchangeType,
    Scalar,
    Unroutable,
)
from artemis_py.core.settings.queue_config import AddressConfig
from artemis_py.errors import InvalidFilter, InvalidRequest


class MatchMode(Enum):
    """Value of the argument `x-match` of a binding."""

    ALL = "all"
    ANY = "any"
    ALL_WITH_X = "all-with-x"
    ANY_WITH_X = "any-with-x"


class ArgumentType(Enum):
    """Type of the value of an argument."""

    TEXT = "text"
    INTEGER = "integer"
    DECIMAL = "decimal"
    BOOLEAN = "boolean"


@frozen(kw_only=True)
class ExchangeElement:
    """`<exchange>` as written, beside its name; `ExchangeConfig` is made from it."""

    type: ExchangeType = option(  # noqa: RUF009  `option` makes a field
        ExchangeType,
        NOTHING,
        "How it chooses among its bindings; not needed for a predeclared one.",
        by_value=True,
    )
    durable: bool = option(
        Kind.BOOLEAN, True, "Whether it survives a restart with what clients bind to it; this file makes it again."
    )
    auto_delete: bool = option(
        Kind.BOOLEAN, False, "Whether it is deleted with its last binding, until the next reload or start."
    )
    alternate_queue: str | None = option(
        Kind.TEXT, None, "Queue that gets the messages that reach no other queue.", minimum=1
    )
    alternate_exchange: str | None = option(
        Kind.TEXT, None, "Exchange that gets them instead; only one of the two.", minimum=1
    )
    unroutable: Unroutable = option(  # noqa: RUF009
        Unroutable,
        Unroutable.DISCARD,
        "What becomes of messages that reach no queue at all, unless their producer says it.",
        by_value=True,
    )


EXCHANGE_OPTIONS: Final = options_of(ExchangeElement)


@frozen(kw_only=True)
class BindingElement:
    """`<binding>` as written; `BindingConfig` is made from it."""

    key: str = option(Kind.TEXT, "", "Routing key of a direct exchange, pattern of a topic exchange; others ignore it.")
    queue: str | None = option(Kind.TEXT, None, "Queue that it leads to.", minimum=1)
    exchange: str | None = option(Kind.TEXT, None, "Exchange that it leads to; one of the two is needed.", minimum=1)
    replacement_key: str | None = option(Kind.TEXT, None, "Routing key that the exchange it leads to gets.")
    match: MatchMode = option(  # noqa: RUF009
        MatchMode,
        MatchMode.ALL,
        "Headers exchanges: whether a message needs all arguments or any. With `-with-x` those that begin with `x-` "
        "are compared, too.",
        by_value=True,
    )


BINDING_OPTIONS: Final = options_of(BindingElement)


@frozen(kw_only=True)
class ArgumentElement:
    """`<argument>` as written, beside its name."""

    value: str | None = option(
        Kind.TEXT, None, "Value that the property must have; unset: it must be there, with any value."
    )
    type: ArgumentType = option(  # noqa: RUF009
        ArgumentType, ArgumentType.TEXT, "Type of the value. A number never equals a text.", by_value=True
    )


ARGUMENT_OPTIONS: Final = options_of(ArgumentElement)


@frozen(kw_only=True)
class _Values:
    """How values of each type but text are read."""

    integer: int = option(Kind.COUNT, 0, "", minimum=-(10**18))
    decimal: float = option(Kind.FACTOR, 0.0, "", minimum=-(10**15))
    boolean: bool = option(Kind.BOOLEAN, False, "")


_VALUES: Final = {each.name: each for each in options_of(_Values)}

_WRITTEN: Final = {
    MATCH: 'the attribute match="…" of the binding',
    SELECTOR: '<filter string="…"/>',
    REPLACEMENT: 'the attribute replacement-key="…" of the binding',
}
"""How the arguments with a meaning of their own are written."""


def read_exchanges(
    parent: Any, elements: Elements, addresses: Iterable[AddressConfig], internal_prefix: str
) -> DeclaredExchanges:
    """Return what the `<exchanges>` in an element says; `addresses` are those of the same virtual host."""
    reader = _Reader(elements, {queue.name: queue.durable for each in addresses for queue in each.queues})
    for element in parent.iterfind(f"{in_own('exchanges')}/{in_own('exchange')}"):
        reader.read(element, internal_prefix)
    return reader.finish()


@define(eq=False)
class _Found:
    """An exchange that was read; its alternate and bindings wait until all exchanges are known."""

    element: Any
    config: ExchangeConfig
    alternate: Destination | None
    bindings: list[BindingConfig] = Factory(list)


class _Reader:
    """Reads one exchange after the other, then what leads from one to another."""

    def __init__(self, elements: Elements, queues: Mapping[str, bool]) -> None:
        """Create it; `queues` tells of each queue whether it is durable."""
        self._elements: Final = elements
        self._report: Final = elements.report
        self._queues: Final = queues
        self._found: Final[dict[str, _Found]] = {}

    # -- exchanges ---------------------------------------------------------------------------------------------

    def read(self, element: Any, internal_prefix: str) -> None:
        """Read one exchange without what it leads to."""
        name = self._elements.name(element)
        values = self._elements.attributes(element, EXCHANGE_OPTIONS)
        if name is None or not self._may_be_called(name, element, internal_prefix):
            return
        kind = self._type(name, element, values)
        if kind is None:
            return
        is_ending = values.get("auto_delete", False)
        config = ExchangeConfig(
            name=name,
            type=kind,
            durable=values.get("durable", True),
            lifetime=ExchangeLifetime.LAST_BINDING if is_ending else ExchangeLifetime.PERMANENT,
            unroutable=values.get("unroutable", Unroutable.DISCARD),
            configuration_managed=True,
        )
        if name in PREDECLARED and (is_ending or not config.durable):
            part = "auto-delete" if is_ending else "durable"
            self._problem(element, f'"{name}" is predeclared: it is durable and never deleted; remove this', part)
        alternate = self._destination(element, values, "alternate_queue", "alternate_exchange")
        self._found[name] = _Found(element, config, alternate)

    def _may_be_called(self, name: str, element: Any, internal_prefix: str) -> bool:
        """Tell whether an exchange may have a name; report why not."""
        if name in self._found:
            line = self._found[name].element.sourceline
            self._problem(element, f'exchange "{name}" is in line {line} already; put all its bindings there')
            return False
        if name.startswith(internal_prefix):
            text = f'"{name}" begins with internal-naming-prefix "{internal_prefix}": clients cannot use it'
            self._report.warning(self._report.place(element, "attribute name"), f"{text}; choose another")
        if name in PREDECLARED:
            return True
        try:
            check_exchange_name(name)
        except InvalidRequest as error:
            known = f"; predeclared are {', '.join(PREDECLARED)}" if "reserved" in str(error) else ""
            self._problem(element, f"{error}{known}", "name")
            return False
        return True

    def _type(self, name: str, element: Any, values: Mapping[str, Any]) -> ExchangeType | None:
        kind: ExchangeType | None = values.get("type")
        fixed = PREDECLARED.get(name)
        if fixed is not None:
            if kind not in (None, fixed):
                self._problem(element, f'"{name}" is predeclared with type {fixed.value}; remove this', "type")
            return fixed
        if kind is None and element.get("type") is None:
            types = ", ".join(each.value for each in ExchangeType)
            self._problem(element, f"is missing; write one of {types}", "type")
        return kind

    def _destination(self, element: Any, values: Mapping[str, Any], queue: str, exchange: str) -> Destination | None:
        """Return the queue or the exchange that is named, if only one is."""
        names = [name for name in (queue, exchange) if values.get(name)]
        if len(names) == 2:
            written = [name.replace("_", "-") for name in names]
            self._problem(element, f"is given beside {written[0]}; keep one of the two", written[1])
            return None
        return Destination(values[names[0]], names[0] == queue) if names else None

    # -- what they lead to -------------------------------------------------------------------------------------

    def finish(self) -> DeclaredExchanges:
        """Return everything, after reading what leads from one to another."""
        for found in self._found.values():
            self._set_alternate(found)
            self._read_bindings(found)
        self._warn_of_circles()
        return DeclaredExchanges(
            exchanges=tuple(found.config for found in self._found.values()),
            bindings=tuple(binding for found in self._found.values() for binding in found.bindings),
            file=self._report.file,
            lines={name: found.element.sourceline for name, found in self._found.items()},
        )

    def _set_alternate(self, found: _Found) -> None:
        alternate, config = found.alternate, found.config
        if alternate is None:
            return
        part = "alternate-queue" if alternate.is_queue else "alternate-exchange"
        if not alternate.is_queue and alternate.name == config.name:
            self._problem(found.element, "an exchange cannot be its own alternate; name another", part)
        elif not self._exists(alternate, found.element, part):
            return
        elif config.durable and not self._is_durable(alternate):
            text = f"{alternate} is not durable, but the exchange is; make it durable, or the exchange not"
            self._problem(found.element, text, part)
        else:
            found.config = evolve(config, alternate=alternate)

    def _exists(self, destination: Destination, element: Any, part: str) -> bool:
        """Tell whether the file has a queue or exchange; report it if not."""
        name = destination.name
        if destination.is_queue:
            if name not in self._queues:
                text = f'there is no queue "{name}" in <addresses>; {self._proposal(name, self._queues)}'
                self._problem(element, text, part)
            return name in self._queues
        if name in self._found or name in PREDECLARED:
            return True
        names = [*self._found, *PREDECLARED]
        self._problem(element, f'there is no exchange "{name}" in <exchanges>; {self._proposal(name, names)}', part)
        return False

    def _proposal(self, name: str, names: Iterable[str]) -> str:
        near = suggest(name, names)
        return near if near.startswith("did you mean") else "declare it there"

    def _is_durable(self, destination: Destination) -> bool:
        if destination.is_queue:
            return self._queues[destination.name]
        return destination.name in PREDECLARED or self._found[destination.name].config.durable

    def _read_bindings(self, found: _Found) -> None:
        lines: dict[object, int] = {}
        for element in found.element.iterfind(in_own("binding")):
            binding = self._binding(element, found.config)
            if binding is None:
                continue
            first = lines.setdefault(binding.identity, element.sourceline)
            if first != element.sourceline:
                text = f"line {first} binds {binding.destination} with this key already; put all arguments into one"
                self._problem(element, text)
            else:
                found.bindings.append(binding)

    def _binding(self, element: Any, source: ExchangeConfig) -> BindingConfig | None:
        """Return a binding; None if there is something wrong with it."""
        count = len(self._report.problems)
        values = self._elements.attributes(element, BINDING_OPTIONS)
        destination = self._destination(element, values, "queue", "exchange")
        if destination is not None:
            self._exists(destination, element, "queue" if destination.is_queue else "exchange")
        elif len(self._report.problems) == count:
            self._problem(element, 'leads nowhere; write queue="…" or exchange="…"')
        key: str = element.get("key", "")
        self._check_key(element, "key", key, source.type)
        arguments = self._arguments(element, source, values)
        if destination is None or len(self._report.problems) > count:
            return None
        return BindingConfig(
            exchange=source.name,
            destination=destination,
            key=key,
            arguments=tuple(arguments.items()),
            line=element.sourceline,
        )

    def _check_key(self, element: Any, part: str, key: str, kind: ExchangeType) -> None:
        """Report a key that cannot be one; warn of one that looks as if it meant something else."""
        try:
            check_key(part, key)
            if kind is ExchangeType.TOPIC:
                check_words(part, key)
        except InvalidRequest as error:
            self._problem(element, str(error), part)
            return
        words = key.split(".")
        text = ""
        if kind is ExchangeType.TOPIC and any(len(word) > 1 and ("*" in word or "#" in word) for word in words):
            text = f'in "{key}", * and # are wildcards only as whole words between dots'
        elif kind is ExchangeType.DIRECT and ("*" in words or "#" in words):
            text = f'a direct exchange knows no patterns: "{key}" is one routing key; patterns need type="topic"'
        if text:
            self._report.warning(self._report.place(element, f"attribute {part}"), text)

    # -- arguments ---------------------------------------------------------------------------------------------

    def _arguments(self, element: Any, source: ExchangeConfig, values: Mapping[str, Any]) -> dict[str, Scalar]:
        """Return the arguments as a client would give them."""
        arguments: dict[str, Scalar] = {}
        is_headers = source.type is ExchangeType.HEADERS
        if "match" in values:
            arguments[MATCH] = values["match"].value
            if not is_headers:
                self._ignored(element, "attribute match")
        self._read_selector(element, arguments)
        if "replacement_key" in values:
            arguments[REPLACEMENT] = element.get("replacement-key")
            if values.get("exchange") is None:
                text = "has no effect: only an exchange looks at routing keys, and this leads to a queue"
                self._report.warning(self._report.place(element, "attribute replacement-key"), text)
        for child in element.iterfind(in_own("argument")):
            self._read_argument(child, arguments)
            if not is_headers:
                self._ignored(child)
        try:
            checked = check_arguments(arguments)
            if is_headers:
                criteria_of(checked)
        except InvalidRequest as error:
            self._problem(element, str(error))
            return {}
        return checked

    def _ignored(self, element: Any, part: str = "") -> None:
        text = "has no effect: only headers exchanges compare arguments"
        self._report.warning(self._report.place(element, part), text)

    def _read_selector(self, element: Any, arguments: dict[str, Scalar]) -> None:
        filters = element.findall(in_own("filter"))
        for other in filters[1:]:
            self._problem(other, "is given twice in binding; keep one")
        text = filters[0].get("string", "") if filters else ""
        if not text.strip():
            return
        arguments[SELECTOR] = text
        try:
            selector_of(arguments)
        except (InvalidFilter, InvalidRequest) as error:
            self._problem(filters[0], str(error), "string")

    def _read_argument(self, element: Any, arguments: dict[str, Scalar]) -> None:
        name = self._elements.name(element)
        values = self._elements.attributes(element, ARGUMENT_OPTIONS)
        if name is None:
            return
        written = _WRITTEN.get(name.lower())
        if written is not None:
            self._problem(element, f'"{name}" is not an argument here; write {written}', "name")
        elif name in arguments:
            self._problem(element, f'there is another argument "{name}"; keep one', "name")
        elif "value" not in values:
            arguments[name] = None
        else:
            kind: ArgumentType = values.get("type", ArgumentType.TEXT)
            try:
                arguments[name] = _value(_VALUES.get(kind.value), element.get("value"))
            except ValueError as error:
                self._problem(element, str(error), "value")

    # -- circles -----------------------------------------------------------------------------------------------

    def _warn_of_circles(self) -> None:
        names = list(dict.fromkeys([*self._found, *PREDECLARED]))
        numbers = {name: number for number, name in enumerate(names)}
        following: list[Sequence[int]] = [() for _ in names]
        for name, found in self._found.items():
            ends = [binding.destination for binding in found.bindings]
            if found.config.alternate is not None:
                ends.append(found.config.alternate)
            following[numbers[name]] = sorted({numbers[end.name] for end in ends if not end.is_queue})
        for way in ways_back(following):
            text = f"the exchanges {' -> '.join(names[each] for each in way)} form a circle"
            if len(way) == 2:
                text = f'exchange "{names[way[0]]}" leads back to itself'
            place = self._report.place(self._found[names[way[0]]].element)
            self._report.warning(place, f"{text}; a message enters each exchange once with the same routing key")

    def _problem(self, element: Any, text: str, part: str = "") -> None:
        place: Place = self._report.place(element, f"attribute {part}" if part else "")
        if not self._report.has_problem_at(place):  # a variable without a value, for example
            self._report.problem(place, text)


def _value(kind: Option | None, text: str) -> Scalar:
    """Return the value of an argument; without a kind it is a text. Raises ValueError."""
    if kind is None:
        return text
    value = parse_value(kind, text)
    assert isinstance(value, int | float), "the other kinds are numbers and truth values"
    return value
