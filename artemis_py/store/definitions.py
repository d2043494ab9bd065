"""Addresses and queues as the store keeps them: JSON objects, so that a field can be added without a new format."""

import json
from enum import Enum
from typing import Final

from attrs import asdict, fields_dict, frozen

from artemis_py.core.addresses.address import Address
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.queue import Queue
from artemis_py.core.settings.declaration import Kind
from artemis_py.core.settings.queue_config import QUEUE_ATTRIBUTES, QueueConfig
from artemis_py.errors import DamagedValue
from artemis_py.store import schema


@frozen(kw_only=True)
class AddressRecord:
    """A stored address."""

    name: str
    routing_types: frozenset[RoutingType]
    auto_created: bool
    internal: bool
    paused: bool
    creator: str | None = None
    host: int = 0
    """Id of its virtual host."""


RECOVERED_PREFIX: Final = "recovered-"
"""Prefix of the names of queues whose own name is lost; their id follows."""


@frozen(kw_only=True)
class QueueRecord:
    """A stored queue."""

    config: QueueConfig
    paused: bool
    host: int = 0
    """Id of its virtual host."""


_ENUMS: Final[dict[str, type[Enum]]] = {
    each.attribute: each.kind for each in QUEUE_ATTRIBUTES if not isinstance(each.kind, Kind)
}
"""Fields of a queue whose values are names of an enum."""


def address_record(address: Address) -> bytes:
    """Return an address as it is stored."""
    return write_address(
        AddressRecord(
            name=address.name,
            routing_types=address.routing_types,
            auto_created=address.auto_created,
            internal=address.internal,
            paused=address.paused,
            creator=address.creator,
            host=address.host,
        )
    )


def write_address(record: AddressRecord) -> bytes:
    """Return the JSON of an address."""
    values = asdict(record) | {"routing_types": sorted(each.name for each in record.routing_types)}
    if not record.host:
        # What belongs to the default host is stored as it was before there were others.
        del values["host"]
    return _dump(values)


def read_address(content: bytes) -> AddressRecord:
    """Return the address of a record. Raises DamagedValue."""
    try:
        record = json.loads(content)
        return AddressRecord(
            name=record["name"],
            routing_types=frozenset(RoutingType[name] for name in record["routing_types"]),
            auto_created=record["auto_created"],
            internal=record["internal"],
            paused=record["paused"],
            # Earlier releases did not write the creator.
            creator=record.get("creator"),
            host=int(record.get("host", 0)),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedValue(f"it is not an address: {error}") from error


def queue_record(queue: Queue) -> bytes:
    """Return a queue as it is stored: only the settings it was given; `default-…` settings still decide the others."""
    config = queue.config.changed(routing_type=queue.routing_type)
    return write_queue(QueueRecord(config=config, paused=queue.paused, host=queue.address.host))


def write_queue(record: QueueRecord) -> bytes:
    """Return the JSON of a queue."""
    values = {"paused": record.paused, "config": asdict(record.config)}
    return _dump(values | {"host": record.host} if record.host else values)


def read_queue(content: bytes) -> QueueRecord:
    """Return the queue of a record, without fields that this release does not know. Raises DamagedValue."""
    try:
        record = json.loads(content)
        known = fields_dict(QueueConfig)
        config = {name: value for name, value in record["config"].items() if name in known}
        for name, kind in _ENUMS.items():
            if config.get(name) is not None:
                config[name] = kind[config[name]]
        host = int(record.get("host", 0))
        return QueueRecord(config=QueueConfig(**config), paused=record["paused"], host=host)
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedValue(f"it is not a queue: {error}") from error


def queue_name(key: bytes, value: bytes) -> str | None:
    """Return the name of a stored queue; None if its definition is damaged."""
    try:
        return read_queue(schema.unseal(key, value)).config.name
    except DamagedValue:
        return None


def recovered_name(queue_id: int) -> str:
    """Return the name for a queue whose definition is lost."""
    return f"{RECOVERED_PREFIX}{queue_id}"


def recovered_queue(id: int) -> tuple[bytes, bytes]:
    """Return key and value of a queue for messages whose own queue is lost; no producer sends to its address."""
    key, name = schema.U32.pack(id), recovered_name(id)
    config = QueueConfig(name=name, address=name, routing_type=RoutingType.ANYCAST)
    return key, schema.seal(key, write_queue(QueueRecord(config=config, paused=False)))


def recovered_address(queue_id: int, id: int) -> tuple[bytes, bytes]:
    """Return key and value of the address of a recovered queue."""
    key = schema.U32.pack(id)
    record = AddressRecord(
        name=recovered_name(queue_id),
        routing_types=frozenset((RoutingType.ANYCAST,)),
        auto_created=False,
        internal=False,
        paused=False,
    )
    return key, schema.seal(key, write_address(record))


def _dump(record: dict[str, object]) -> bytes:
    return json.dumps(_plain(record), separators=(",", ":")).encode()


def _plain(value: object) -> object:
    """Replace enums by their names, which stay readable; JSON would write an IntEnum as its number."""
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value
