"""Lookup of the settings that apply to an address: those of all its matches, merged."""

from collections.abc import Callable
from typing import Final

from artemis_py.core.names.syntax import MatchHierarchy, parse_fqqn
from artemis_py.core.settings.address_settings import ADDRESS_SETTINGS, AddressSettings, ResolvedSettings, merge
from artemis_py.core.settings.broker_settings import DEFAULT_BROKER_SETTINGS, BrokerSettings


class SettingsRepository:
    """All address settings of the broker, by match, and their merged values by address.

    Addresses with the same matches share one `ResolvedSettings`, so a hundred thousand addresses need only a few.
    """

    def __init__(
        self, hierarchy: MatchHierarchy[AddressSettings], options: BrokerSettings = DEFAULT_BROKER_SETTINGS
    ) -> None:
        self._hierarchy: Final = hierarchy
        self._options: Final = options
        self._merged: Final[dict[tuple[int, ...], ResolvedSettings]] = {}
        hierarchy.on_change(self._merged.clear)

    def add(self, match: str, settings: AddressSettings) -> bool:
        """Add a match; return False and change nothing if it exists. Raises InvalidRequest for an illegal match."""
        return self._hierarchy.add(match, settings)

    def put(self, match: str, settings: AddressSettings) -> None:
        """Add or replace a match. Raises InvalidRequest for an illegal match."""
        self._hierarchy.put(match, settings)

    def remove(self, match: str) -> bool:
        """Remove a match; return False if it did not exist."""
        return self._hierarchy.remove(match)

    def on_change(self, callback: Callable[[], None]) -> None:
        """Run `callback` after each change, when `resolve` already returns the new settings."""
        self._hierarchy.on_change(callback)

    def layers(self) -> list[AddressSettings]:
        """Return the settings of each match, in no order that matters."""
        return [layer for _, layer in self._hierarchy.items()]

    def values(self, address: str) -> dict[str, tuple[object, str | None]]:
        """Return the value of each setting of an address and the match that it comes from, by attribute.

        The match is None where the default applies. It looks at all matches, so it is for people, not for messages.
        """
        layers = self._hierarchy.resolve(self._options.name_in_matches(parse_fqqn(address)[0]))
        names = {id(layer): match for match, layer in self._hierarchy.items()}
        found: dict[str, tuple[object, str | None]] = {}
        for each in ADDRESS_SETTINGS:
            given = [(getattr(layer, each.attribute), names.get(id(layer))) for layer in layers]
            found[each.attribute] = next((one for one in given if one[0] is not None), (each.default, None))
        return found

    def resolve(self, address: str) -> ResolvedSettings:
        """Return the settings of an address, merged field by field from the most specific match to the broadest.

        In a fully qualified queue name only the address counts (artemis-model §1.8).
        """
        layers = self._hierarchy.resolve(self._options.name_in_matches(parse_fqqn(address)[0]))
        key = tuple([id(layer) for layer in layers])  # the hierarchy keeps them alive until the next change
        resolved = self._merged.get(key)
        if resolved is None:
            resolved = self._merged[key] = merge(layers)
        return resolved
