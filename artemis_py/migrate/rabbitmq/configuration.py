"""Configurations of RabbitMQ: recognised by name, and not migrated."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NoReturn

from artemis_py.errors import ConfigError, Problem
from artemis_py.migrate.findings import Findings

_NAMES: Final = frozenset(["rabbitmq.conf", "rabbitmq.config", "advanced.config", "rabbitmq-env.conf"])
_ADVICE: Final = (
    "configurations of RabbitMQ are not migrated: exchanges, queues, bindings and users are not in this file. Write "
    "them with `rabbitmqctl export_definitions definitions.json`, and migrate that file; broker.xml has ports and TLS"
)


def recognises(path: Path, data: bytes) -> bool:
    """Tell whether this is a configuration of RabbitMQ, by the file's name."""
    return path.name in _NAMES


def read(path: Path, values: Mapping[str, str], findings: Findings) -> NoReturn:
    """Say what to do instead: raises ConfigError."""
    raise ConfigError([Problem(str(path), 1, "file", _ADVICE)])
