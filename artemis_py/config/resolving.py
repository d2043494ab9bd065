"""Resolves the address settings of a configuration as a running broker would."""

from artemis_py.config.broker_config import BrokerConfig
from artemis_py.core.names.syntax import MatchHierarchy
from artemis_py.core.settings.address_settings import AddressSettings
from artemis_py.core.settings.repository import SettingsRepository


def repository_of(config: BrokerConfig) -> SettingsRepository:
    """Return all address settings of `config`. Raises InvalidRequest for a match that is not legal."""
    repository = empty_repository(config)
    for match, settings in config.address_settings.items():
        repository.add(match, settings)
    return repository


def empty_repository(config: BrokerConfig) -> SettingsRepository:
    """Return a repository without settings, for the wildcards and markers of `config`."""
    settings = config.settings
    hierarchy: MatchHierarchy[AddressSettings] = MatchHierarchy(settings.wildcards, settings.literal_match_markers)
    return SettingsRepository(hierarchy, settings)
