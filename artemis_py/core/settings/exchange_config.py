"""Exchanges that are to be created (qpid-exchanges §2)."""

import json
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

from attrs import asdict, field, fields_dict, frozen


class ExchangeType(Enum):
    """How an exchange chooses among its bindings."""

    DIRECT = "direct"
    """The binding key is the routing key."""
    TOPIC = "topic"
    """The binding key is a pattern of words that covers the routing key."""
    FANOUT = "fanout"
    """Every binding."""
    HEADERS = "headers"
    """The arguments of the binding fit the application properties of the message."""


class Unroutable(Enum):
    """What a client is told about a message that reached no queue, not even through the alternate."""

    DISCARD = "discard"
    """It is accepted, and discarded."""
    REJECT = "reject"


class ExchangeLifetime(Enum):
    """When an exchange is deleted by itself."""

    PERMANENT = "permanent"
    """Never."""
    LAST_BINDING = "last-binding"
    """With the last of its bindings. One that was never bound stays."""
    SESSION = "session"
    """With the session that declared it; such an exchange is not durable."""


@frozen
class Destination:
    """A queue or an exchange by its name, as the alternate of an exchange."""

    name: str
    is_queue: bool

    def __str__(self) -> str:
        return f"{'queue' if self.is_queue else 'exchange'} '{self.name}'"


@frozen(kw_only=True)
class ExchangeConfig:
    """An exchange to be created."""

    name: str
    """Unique among the exchanges of a virtual host; a queue or an address may have the same name."""
    type: ExchangeType
    durable: bool = True
    """Whether it is there after a restart."""
    lifetime: ExchangeLifetime = ExchangeLifetime.PERMANENT
    alternate: Destination | None = None
    """What gets the messages that reach no queue."""
    unroutable: Unroutable = Unroutable.DISCARD
    configuration_managed: bool = False
    """Whether the configuration declares it; clients and administrators made the others."""


Scalar = str | int | float | bool | None
"""Value of an argument of a binding."""


@frozen(kw_only=True)
class BindingConfig:
    """A binding to be made."""

    exchange: str
    """Exchange at which it begins."""
    destination: Destination
    key: str = ""
    arguments: tuple[tuple[str, Scalar], ...] = ()
    """Arguments as clients give them, by name; no name comes twice."""
    is_declared: bool = field(default=True, eq=False)
    """Whether the configuration declares it; clients and administrators made the others."""
    line: int = field(default=0, eq=False)
    """Line of the file that declares it; 0 if none does."""

    @property
    def identity(self) -> tuple[str, str, Destination]:
        """What it is among the bindings of a host; arguments do not count (qpid-exchanges §3)."""
        return self.exchange, self.key, self.destination

    def is_like(self, other: "BindingConfig") -> bool:
        """Tell whether the arguments are the same; 1, 1.0 and true are different ones."""
        return json.dumps(dict(self.arguments), sort_keys=True) == json.dumps(dict(other.arguments), sort_keys=True)

    def __str__(self) -> str:
        return f"exchange '{self.exchange}' key '{self.key}' to {self.destination}"


@frozen(kw_only=True)
class DeclaredExchanges:
    """The exchanges and bindings of one virtual host, as a configuration has them."""

    exchanges: tuple[ExchangeConfig, ...] = ()
    bindings: tuple[BindingConfig, ...] = ()
    """Bindings of these exchanges and of predeclared ones."""
    file: str = field(default="", eq=False)
    lines: Mapping[str, int] = field(factory=dict, eq=False)
    """Line of each exchange in `file`, by name."""


NO_EXCHANGES: Final = DeclaredExchanges()


_ENUMS: Final[Mapping[str, type[Enum]]] = {
    "type": ExchangeType,
    "lifetime": ExchangeLifetime,
    "unroutable": Unroutable,
}


def exchange_record(config: ExchangeConfig) -> dict[str, Any]:
    """Return an exchange as values of JSON, by the names of its fields."""
    record = asdict(config)
    for name in _ENUMS:
        record[name] = record[name].value
    return record


def read_exchange(record: Mapping[str, Any]) -> ExchangeConfig:
    """Return the exchange of a record, without fields that this release does not know.

    Raises ValueError, TypeError, KeyError or AttributeError for one that `exchange_record` did not write.
    """
    values = {name: value for name, value in record.items() if name in fields_dict(ExchangeConfig)}
    for name, kind in _ENUMS.items():
        values[name] = kind(values[name])
    alternate = values.get("alternate")
    if alternate is not None:
        values["alternate"] = Destination(str(alternate["name"]), bool(alternate["is_queue"]))
    return ExchangeConfig(**values)
