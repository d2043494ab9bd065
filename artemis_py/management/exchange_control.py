"""Management of exchanges: the resource `exchange.<name>`, and the operations of the broker that concern them.

Artemis has no exchanges, so the names are ours. Permissions for exchanges and queues are checked as for any client.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar, Final

from attrs import evolve

from artemis_py.core.routing.exchanges.binding import ExchangeBinding
from artemis_py.core.routing.exchanges.exchange import Exchange
from artemis_py.core.sessions.exchanges import bind, declare_exchange, delete_exchange, unbind, update_exchange
from artemis_py.core.settings.exchange_config import (
    Destination,
    ExchangeConfig,
    ExchangeLifetime,
    ExchangeType,
    Unroutable,
)
from artemis_py.errors import InvalidRequest
from artemis_py.management.control import (
    Control,
    Kind,
    NoSuchResource,
    Operation,
    Parameter,
    Row,
    bounded_names,
    edit,
    view,
)
from artemis_py.management.exchange_explanation import EXPLAINED, explained
from artemis_py.management.json_members import check_members, choice_of, flag_of, key_of, text_of

if TYPE_CHECKING:
    from artemis_py.management.broker_control import BrokerControl

_DECLARED: Final = ("name", "type", "durable", "lifetime", "alternate-queue", "alternate-exchange", "unroutable")
_CHANGEABLE: Final = ("name", "alternate-queue", "alternate-exchange", "unroutable")
_BOUND: Final = ("exchange", "key", "queue", "destination-exchange", "arguments", "replace")
_UNBOUND: Final = ("exchange", "key", "queue", "destination-exchange")


def _alternate(exchange: Exchange, is_queue: bool) -> str | None:
    alternate = exchange.config.alternate
    return alternate.name if alternate is not None and alternate.is_queue is is_queue else None


EXCHANGE_COLUMNS: Final[Mapping[str, Callable[[Exchange], object]]] = {
    "name": lambda exchange: exchange.name,
    "type": lambda exchange: exchange.config.type.value,
    "durable": lambda exchange: exchange.is_durable,
    "lifetime": lambda exchange: exchange.config.lifetime.value,
    "alternateQueue": lambda exchange: _alternate(exchange, True),
    "alternateExchange": lambda exchange: _alternate(exchange, False),
    "unroutable": lambda exchange: exchange.config.unroutable.value,
    "predeclared": lambda exchange: exchange.is_predeclared,
    "configurationManaged": lambda exchange: exchange.config.configuration_managed,
    "bindings": lambda exchange: len(exchange.bindings),
    "routedMessages": lambda exchange: exchange.address.routed,
    "unroutedMessages": lambda exchange: exchange.address.unrouted,
}
"""Columns of `listExchanges`, and members of the JSON that changes return."""

BINDING_COLUMNS: Final[Mapping[str, Callable[[ExchangeBinding], object]]] = {
    "exchange": lambda binding: binding.source.name,
    "key": lambda binding: binding.key,
    "queue": lambda binding: binding.identity[2] if binding.identity[1] else None,
    "destinationExchange": lambda binding: None if binding.identity[1] else binding.identity[2],
    "arguments": lambda binding: binding.arguments,
    "durable": lambda binding: binding.is_stored,
    "configurationManaged": lambda binding: binding.is_declared,
}
"""Columns of `listExchangeBindings`."""


def _attribute(value: Callable[[Exchange], object]) -> Callable[["ExchangeControl"], object]:
    """Return a column as an attribute of the resource."""
    return lambda control: value(control.exchange)


class ExchangeControl(Control):
    """One exchange, for the duration of one request."""

    def __init__(self, exchange: Exchange) -> None:
        super().__init__(f"exchange.{exchange.name}")
        self.exchange = exchange

    attributes: ClassVar = {
        **{
            name[0].upper() + name[1:]: _attribute(value)
            for name, value in EXCHANGE_COLUMNS.items()
            if name != "bindings"
        },
        "BindingCount": lambda control: len(control.exchange.bindings),
        "MessageCount": lambda control: control.exchange.address.account.message_count,
        "MessageBytes": lambda control: control.exchange.address.account.size_bytes,
    }


# -- operations of the broker --------------------------------------------------------------------------------------


def all_exchanges(control: "BrokerControl") -> list[Exchange]:
    """Return the exchanges of the domain."""
    return list(control.domain.exchanges)


def all_bindings(control: "BrokerControl") -> Iterator[ExchangeBinding]:
    """Yield the bindings of all exchanges."""
    for exchange in control.domain.exchanges:
        yield from exchange.bindings.values()


def exchange_names(control: "BrokerControl") -> list[str]:
    """Return the names of all exchanges, sorted. Raises LimitExceeded beyond MAX_NAMES."""
    names = bounded_names([exchange.name for exchange in control.domain.exchanges], "listExchanges")
    return control.seen_names("exchange", names)


def find_exchange(control: "BrokerControl", name: str) -> Exchange:
    """Return an exchange. Raises NoSuchResource, which proposes similar names."""
    exchange = control.domain.exchanges.find(name)
    if exchange is None:
        raise no_such_exchange(control, name)
    return exchange


def no_such_exchange(control: "BrokerControl", name: str) -> NoSuchResource:
    """Return the refusal of an exchange that does not exist; it proposes similar names."""
    near = control.proposed("exchange", name, [each.name for each in control.domain.exchanges])
    return NoSuchResource(f"exchange '{name}' does not exist{near}")


def create(control: "BrokerControl", wanted: Mapping[str, object]) -> str:
    """Declare the exchange that a JSON object describes."""
    check_members(wanted, _DECLARED)
    lifetime = choice_of(wanted, "lifetime", ExchangeLifetime) or ExchangeLifetime.PERMANENT
    if lifetime is ExchangeLifetime.SESSION:
        raise InvalidRequest("an exchange that is made by management cannot end with a session")
    kind = choice_of(wanted, "type", ExchangeType)
    if kind is None:
        raise InvalidRequest("an exchange needs a 'type': direct, topic, fanout or headers")
    config = ExchangeConfig(
        name=text_of(wanted, "name"),
        type=kind,
        durable=flag_of(wanted, "durable", True),
        lifetime=lifetime,
        alternate=_destination(wanted, "alternate-queue", "alternate-exchange"),
        unroutable=choice_of(wanted, "unroutable", Unroutable) or Unroutable.DISCARD,
    )
    return _described(declare_exchange(control.session, config))


def update(control: "BrokerControl", wanted: Mapping[str, object]) -> str:
    """Change the members that a JSON object has; null takes the alternate away."""
    check_members(wanted, _CHANGEABLE)
    exchange = find_exchange(control, text_of(wanted, "name"))
    config = exchange.config
    if "alternate-queue" in wanted or "alternate-exchange" in wanted:
        config = evolve(config, alternate=_destination(wanted, "alternate-queue", "alternate-exchange"))
    unroutable = choice_of(wanted, "unroutable", Unroutable)
    if unroutable is not None:
        config = evolve(config, unroutable=unroutable)
    update_exchange(control.session, exchange, config)
    return _described(exchange)


def delete(control: "BrokerControl", name: str, if_unused: bool = False) -> None:
    """Delete an exchange with its bindings."""
    delete_exchange(control.session, find_exchange(control, name), if_unused)


def bind_from(control: "BrokerControl", wanted: Mapping[str, object]) -> bool:
    """Bind a queue or an exchange; False if it is bound with this key, and is not to be replaced."""
    check_members(wanted, _BOUND)
    arguments = wanted.get("arguments")
    if arguments is not None and not isinstance(arguments, dict):
        raise InvalidRequest("'arguments' of a binding must be a JSON object")
    return bind(
        control.session,
        find_exchange(control, text_of(wanted, "exchange")),
        key_of(wanted),
        _bound_destination(wanted),
        arguments or {},
        flag_of(wanted, "replace", False),
    )


def unbind_from(control: "BrokerControl", wanted: Mapping[str, object]) -> bool:
    """Remove a binding; False if there is none."""
    check_members(wanted, _UNBOUND)
    exchange = find_exchange(control, text_of(wanted, "exchange"))
    return unbind(control.session, exchange, key_of(wanted), _bound_destination(wanted))


def explain(control: "BrokerControl", wanted: Mapping[str, object]) -> str:
    """Return what would become of the message that a JSON object describes; nothing is sent."""
    check_members(wanted, EXPLAINED)
    name = wanted.get("exchange")
    exchange = find_exchange(control, name) if isinstance(name, str) and name else None
    return json.dumps(explained(control.session, exchange, wanted), ensure_ascii=False)


def _described(exchange: Exchange) -> str:
    return json.dumps({name: value(exchange) for name, value in EXCHANGE_COLUMNS.items()}, ensure_ascii=False)


# -- destinations -----------------------------------------------------------------------------------------------------


def _destination(wanted: Mapping[str, object], queue: str, exchange: str) -> Destination | None:
    """Return the queue or the exchange that is named; None if neither is."""
    named = [name for name in (queue, exchange) if wanted.get(name) is not None]
    if len(named) == 2:
        raise InvalidRequest(f"either {queue!r} or {exchange!r} is allowed, not both")
    return Destination(text_of(wanted, named[0]), named[0] == queue) if named else None


def _bound_destination(wanted: Mapping[str, object]) -> Destination:
    destination = _destination(wanted, "queue", "destination-exchange")
    if destination is None:
        raise InvalidRequest("a binding needs a 'queue' or a 'destination-exchange'")
    return destination


_NAME: Final = Parameter("name", Kind.TEXT)
_EXCHANGE: Final = Parameter("exchange", Kind.OBJECT)
_BINDING: Final = Parameter("binding", Kind.OBJECT)

EXCHANGE_OPERATIONS: Final[Mapping[str, Row]] = {
    "listExchangeNames": view(Operation(exchange_names)),
    "createExchange": edit(Operation(create, _EXCHANGE)),
    "updateExchange": edit(Operation(update, _EXCHANGE)),
    "deleteExchange": edit(Operation(delete, _NAME), Operation(delete, _NAME, Parameter("ifUnused", Kind.FLAG))),
    "bindExchange": edit(Operation(bind_from, _BINDING)),
    "unbindExchange": edit(Operation(unbind_from, _BINDING)),
    "explainPublish": view(Operation(explain, Parameter("message", Kind.OBJECT))),
}
"""Operations of the resource `broker`."""
