"""RabbitMQ: recognised by name, and not migrated."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NoReturn

from artemis_py.errors import ConfigError, Problem
from artemis_py.migrate.findings import Findings

_NAMES: Final = frozenset(["rabbitmq.conf", "rabbitmq.config", "advanced.config", "rabbitmq-env.conf"])
_ADVICE: Final = (
    "configurations of RabbitMQ are not migrated: its exchanges and bindings are not in this file, and its clients "
    "speak AMQP 0-9-1, which this broker does not. Run `artemis-py create`, declare addresses and queues in broker.xml "
    "(a fanout or topic exchange is a multicast address, a work queue an anycast one), and move the clients to "
    "AMQP 1.0, which RabbitMQ speaks as well, one by one"
)


def recognises(path: Path, data: bytes) -> bool:
    """Tell whether this is a configuration of RabbitMQ, by the file's name."""
    return path.name in _NAMES


def read(path: Path, values: Mapping[str, str], findings: Findings) -> NoReturn:
    """Say what to do instead: raises ConfigError."""
    raise ConfigError([Problem(str(path), 1, "file", _ADVICE)])
