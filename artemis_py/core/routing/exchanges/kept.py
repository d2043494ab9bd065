"""Exchanges and bindings as the store keeps them: those that are durable at both ends.

Records in the spaces `exchanges` and `bindings`, a JSON object each. The keys are the SHA-256 of what they are about,
because names and routing keys may be longer than a key of the store.
"""

import json
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from artemis_py.core.queues.storage import RecordStorage
from artemis_py.core.routing.exchanges.arguments import Scalar, check_arguments
from artemis_py.core.routing.exchanges.binding import ExchangeBinding, Identity
from artemis_py.core.routing.exchanges.exchange import Exchange
from artemis_py.core.settings.exchange_config import (
    Destination,
    ExchangeConfig,
    exchange_record,
    read_exchange,
)
from artemis_py.errors import DamagedValue, Refusal

if TYPE_CHECKING:
    from artemis_py.core.routing.exchanges.exchanges import Exchanges

EXCHANGES: Final = "exchanges"
BINDINGS: Final = "bindings"


class StoredBinding:
    """A binding as it is read."""

    __slots__ = ("arguments", "destination", "is_declared", "key", "source")

    def __init__(
        self, source: str, key: str, destination: Destination, arguments: dict[str, Scalar], is_declared: bool
    ) -> None:
        self.source: str = source
        self.key: str = key
        self.destination: Destination = destination
        self.arguments: dict[str, Scalar] = arguments
        self.is_declared: bool = is_declared


def exchange_key(name: str) -> bytes:
    """Return the key of an exchange."""
    return sha256(name.encode()).digest()


def binding_key(source: str, identity: Identity) -> bytes:
    """Return the key of a binding."""
    return sha256(json.dumps([source, *identity]).encode()).digest()


def read_stored_exchange(key: bytes, value: bytes) -> ExchangeConfig:
    """Return the exchange of a record. Raises DamagedValue."""
    try:
        config = read_exchange(json.loads(value))
        found = exchange_key(config.name)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedValue(f"it is not an exchange: {error!r}") from error
    if found != key:
        raise DamagedValue(f"it is exchange '{config.name}' under the key of another one")
    return config


def read_stored_binding(key: bytes, value: bytes) -> StoredBinding:
    """Return the binding of a record. Raises DamagedValue."""
    try:
        record = json.loads(value)
        destination = Destination(str(record["destination"]), bool(record["is_queue"]))
        arguments = check_arguments(record["arguments"])
        is_declared = record.get("declared") is True
        binding = StoredBinding(str(record["exchange"]), str(record["key"]), destination, arguments, is_declared)
        found = binding_key(binding.source, (binding.key, destination.is_queue, destination.name))
    except (ValueError, KeyError, TypeError, AttributeError, Refusal) as error:
        raise DamagedValue(f"it is not a binding: {error!r}") from error
    if found != key:
        raise DamagedValue(f"it is a binding of exchange '{binding.source}' under the key of another one")
    return binding


class KeptExchanges:
    """Writes and reads the records of one domain."""

    def __init__(self, records: RecordStorage) -> None:
        self._records: RecordStorage = records

    def keep_exchange(self, exchange: Exchange) -> None:
        """Keep an exchange as it is now."""
        value = json.dumps(exchange_record(exchange.config), separators=(",", ":")).encode()
        self._records.save_record(EXCHANGES, exchange_key(exchange.name), value)

    def forget_exchange(self, exchange: Exchange) -> None:
        """Forget an exchange that was deleted."""
        if exchange.is_durable:
            self._records.save_record(EXCHANGES, exchange_key(exchange.name), None)

    def keep_binding(self, binding: ExchangeBinding) -> None:
        """Keep a binding."""
        key, is_queue, destination = binding.identity
        record = {
            "exchange": binding.source.name,
            "key": key,
            "is_queue": is_queue,
            "destination": destination,
            "arguments": binding.arguments,
        }
        if binding.is_declared:
            record["declared"] = True
        value = json.dumps(record, separators=(",", ":")).encode()
        self._records.save_record(BINDINGS, binding_key(binding.source.name, binding.identity), value)

    def forget_binding(self, binding: ExchangeBinding) -> None:
        """Forget a binding that was removed."""
        self._records.save_record(BINDINGS, binding_key(binding.source.name, binding.identity), None)

    def restore(self, exchanges: "Exchanges") -> list[str]:
        """Make all exchanges, then their alternates and bindings; return what is wrong with the others."""
        problems: list[str] = []
        configs: list[tuple[Exchange, ExchangeConfig]] = []
        # All records are read first: what is made may be saved again, and then they could not be read any more.
        stored = self._records.load_records(EXCHANGES)
        bound = self._records.load_records(BINDINGS)
        for key, value in stored:
            try:
                config = read_stored_exchange(key, value)
                configs.append((exchanges.restored(config), config))
            except (DamagedValue, Refusal) as error:
                problems.append(f"exchange of record {key.hex()}: {error}")
        for exchange, config in configs:
            try:
                exchanges.restored_alternate(exchange, config)
            except Refusal as refusal:
                problems.append(f"alternate of exchange '{config.name}': {refusal}")
        for key, value in bound:
            try:
                binding = read_stored_binding(key, value)
                exchanges.bind(
                    exchanges.exchange(binding.source),
                    binding.key,
                    binding.destination,
                    binding.arguments,
                    is_restored=True,
                    is_declared=binding.is_declared,
                )
            except (DamagedValue, Refusal) as error:
                problems.append(f"binding of record {key.hex()}: {error}")
        return problems
