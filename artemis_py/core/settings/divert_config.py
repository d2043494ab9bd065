"""Diverts that are to be created."""

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

from attrs import NOTHING, asdict, fields_dict, frozen

from artemis_py.core.settings.declaration import Kind, option, options_of


class DivertType(Enum):
    """Routing type that a copy asks for."""

    PASS = "PASS"
    """The routing type of the message."""
    STRIP = "STRIP"
    """No routing type: the address that the copy goes to decides."""
    ANYCAST = "ANYCAST"
    MULTICAST = "MULTICAST"


@frozen
class TransformerConfig:
    """A transformer by the name under which a package announces it, and what it is told."""

    name: str
    properties: tuple[tuple[str, str], ...] = ()
    """Keys and values, in their order; no key comes twice."""

    def __str__(self) -> str:
        inside = ", ".join([f"{key}={value}" for key, value in self.properties])
        return f"{self.name}({inside})"


@frozen(kw_only=True)
class DivertConfig:
    """A divert to be created (artemis-model §3.2)."""

    name: str
    """Unique among the queues and diverts of a broker."""
    routing_name: str | None = option(
        Kind.TEXT, None, "Diverts of one address with the same routing name take turns. Unset: a name of its own."
    )
    address: str = option(Kind.TEXT, NOTHING, "What is sent to this address is copied.", minimum=1)
    forwarding_address: str = option(
        Kind.TEXT, NOTHING, "Where the copies go: an address, or several that are separated by commas.", minimum=1
    )
    exclusive: bool = option(Kind.BOOLEAN, False, "Whether queues of the address get nothing of what is copied.")
    routing_type: DivertType = option(  # noqa: RUF009  it makes a field
        DivertType,
        DivertType.STRIP,
        "Routing type of the copies. PASS: that of the message; STRIP: none, so queues of both types get them.",
    )
    filter: str | None = None
    """Only messages that satisfy this selector are copied."""
    transformer: TransformerConfig | None = None
    """What changes the copies before they are routed."""

    @property
    def forwarding_addresses(self) -> tuple[str, ...]:
        """The addresses that copies go to, each once."""
        names = [name.strip() for name in self.forwarding_address.split(",")]
        return tuple(dict.fromkeys([name for name in names if name]))


DIVERT_OPTIONS: Final = options_of(DivertConfig)
"""The child elements of `<divert>` in broker.xml, beside its filter and its transformer."""


def divert_record(config: DivertConfig) -> dict[str, Any]:
    """Return a divert as values of JSON, by the names of its fields."""
    record = asdict(config)
    record["routing_type"] = config.routing_type.name
    return record


def read_divert(record: Mapping[str, Any]) -> DivertConfig:
    """Return the divert of a record, without fields that this release does not know.

    Raises ValueError, TypeError, KeyError or AttributeError for one that `divert_record` did not write.
    """
    values = {name: value for name, value in record.items() if name in fields_dict(DivertConfig)}
    transformer = values.get("transformer")
    if transformer is not None:
        properties = tuple([(str(key), str(value)) for key, value in transformer["properties"]])
        values["transformer"] = TransformerConfig(transformer["name"], properties)
    values["routing_type"] = DivertType[values["routing_type"]]
    return DivertConfig(**values)
