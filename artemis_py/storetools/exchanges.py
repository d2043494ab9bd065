"""Reads the exchanges of a store from outside, to compare a configuration with them."""

from pathlib import Path

from artemis_py.core.routing.exchanges.kept import EXCHANGES, read_stored_exchange
from artemis_py.core.settings.exchange_config import ExchangeConfig
from artemis_py.errors import DamagedValue
from artemis_py.store import schema
from artemis_py.store.environment import FILE_NAME
from artemis_py.storetools.snapshot import opened


def stored_exchanges(folder: Path) -> dict[str, ExchangeConfig]:
    """Return the stored exchanges by name, without damaged ones; none if there is no store. Raises StoreError."""
    found: dict[str, ExchangeConfig] = {}
    if not (folder / FILE_NAME).exists():
        return found
    with opened(folder) as snapshot:
        for key, value in snapshot.items(schema.RECORDS, schema.record_key(EXCHANGES, b"")):
            try:
                config = read_stored_exchange(schema.read_record_key(key)[1], schema.unseal(key, value))
            except DamagedValue:
                continue  # the start sets it aside, and `data check` names it
            found[config.name] = config
    return found
