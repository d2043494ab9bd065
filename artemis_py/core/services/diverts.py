"""Diverts that administrators make at run time: they are kept in the store, until an administrator removes them.

Records in the space `diverts`, a JSON object each, by the name of the divert. Beyond 256 octets the key is 0xff and the
SHA-256 of the name.
"""

import json
from hashlib import sha256
from typing import Final

from artemis_py.core.routing.divert import (
    Divert,
    DivertKeeper,
    check_divert,
    create_divert,
    remove_divert,
    update_divert,
)
from artemis_py.core.routing.domain import Domain
from artemis_py.core.routing.names import check_address_name
from artemis_py.core.settings.divert_config import DivertConfig, divert_record, read_divert
from artemis_py.errors import Refusal

SPACE: Final = "diverts"
_LONGEST_KEY: Final = 256


class ManagedDiverts(DivertKeeper):
    """Makes, changes and removes diverts, and keeps those that it made."""

    def __init__(self, domain: Domain) -> None:
        self._domain: Final = domain

    def check(self, config: DivertConfig) -> None:
        """Raise what `create` or `update` would raise, before the address of a divert is created for it."""
        check_address_name(config.address)
        check_divert(self._domain, config)

    def create(self, config: DivertConfig) -> Divert:
        """Make a divert that a restart brings back. Raises what `create_divert` raises."""
        divert = create_divert(self._domain, config)
        self._keep(divert)
        return divert

    def update(self, divert: Divert, config: DivertConfig) -> Divert:
        """Change a divert; return the one that is bound then. Raises what `update_divert` raises.

        The change is kept if the divert is. One of broker.xml is as the file says after the next reload or start.
        """
        is_kept = divert.keeper is not None
        changed = update_divert(self._domain, divert, config)
        if is_kept:
            self._keep(changed)
        return changed

    def remove(self, divert: Divert) -> None:
        """Remove a divert. One of broker.xml comes back with the next reload or start."""
        remove_divert(self._domain, divert)

    def divert_removed(self, divert: Divert) -> None:
        """Forget a divert that was unbound, or that broker.xml has now."""
        divert.keeper = None
        self._domain.records.save_record(SPACE, _key(divert.name), None)

    def restore(self) -> list[str]:
        """Make the diverts of an earlier run; return what is wrong with those that cannot be made, which stay stored.

        A divert whose transformer is not installed any more is made, and fails for each message.
        """
        problems: list[str] = []
        for key, value in self._domain.records.load_records(SPACE):
            try:
                config = read_divert(json.loads(value))
                divert = create_divert(self._domain, config, is_restored=True)
            except Refusal as refusal:
                problems.append(f"divert {config.name}: {refusal}")
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                problems.append(f"record {key.hex()} is not a divert: {error!r}")
            else:
                divert.keeper = self
        return problems

    def _keep(self, divert: Divert) -> None:
        divert.keeper = self
        self._domain.records.save_record(SPACE, _key(divert.name), json.dumps(divert_record(divert.config)).encode())


def _key(name: str) -> bytes:
    key = name.encode()
    return key if len(key) <= _LONGEST_KEY else b"\xff" + sha256(key).digest()
