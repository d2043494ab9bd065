"""The names of this package in one place, as they were before it was split."""

from artemis_py.core.settings.address_settings import (
    ADDRESS_SETTINGS,
    AddressSettings,
    DeletionPolicy,
    DiskFullPolicy,
    FullPolicy,
    PageFullPolicy,
    ResolvedSettings,
    merge,
)
from artemis_py.core.settings.broker_settings import BROKER_OPTIONS, DEFAULT_BROKER_SETTINGS, BrokerSettings
from artemis_py.core.settings.declaration import Kind, Option, option, options_of
from artemis_py.core.settings.queue_config import QUEUE_OPTIONS, AddressConfig, QueueConfig
from artemis_py.core.settings.repository import SettingsRepository

__all__ = [
    "ADDRESS_SETTINGS",
    "BROKER_OPTIONS",
    "DEFAULT_BROKER_SETTINGS",
    "QUEUE_OPTIONS",
    "AddressConfig",
    "AddressSettings",
    "BrokerSettings",
    "DeletionPolicy",
    "DiskFullPolicy",
    "FullPolicy",
    "Kind",
    "Option",
    "PageFullPolicy",
    "QueueConfig",
    "ResolvedSettings",
    "SettingsRepository",
    "merge",
    "option",
    "options_of",
]
