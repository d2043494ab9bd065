"""Exchanges that are to be created (qpid-exchanges §2)."""

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

from attrs import asdict, fields_dict, frozen


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
