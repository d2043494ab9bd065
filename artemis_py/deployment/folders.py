"""Where a broker keeps its files: the folders of a configuration, relative to that of the instance."""

from pathlib import Path

from artemis_py.config.broker_config import BrokerConfig


def journal_folder(config: BrokerConfig) -> Path:
    """Return the folder of the store."""
    return config.home / config.journal_directory


def large_messages_folder(config: BrokerConfig) -> Path:
    """Return the folder of the files of large messages."""
    return config.home / config.large_messages_directory


def paging_folder(config: BrokerConfig) -> Path | None:
    """Return the folder for messages that are not durable and do not fit into memory; None: a temporary folder."""
    return config.home / config.paging_directory if config.persistence_enabled else None
