"""The formats that can be migrated. A further one is a package like its neighbours, and a line in `SOURCES`."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from attrs import frozen

from artemis_py.errors import ConfigError, Problem
from artemis_py.migrate.activemq import source as activemq
from artemis_py.migrate.artemis import source as artemis
from artemis_py.migrate.brokerj import source as brokerj
from artemis_py.migrate.findings import Findings
from artemis_py.migrate.mosquitto import source as mosquitto
from artemis_py.migrate.rabbitmq import configuration as rabbitmq_configuration
from artemis_py.migrate.rabbitmq import source as rabbitmq
from artemis_py.migrate.target import Target


@frozen
class Source:
    """A format: how it is recognised, and how it is read."""

    name: str
    files: tuple[str, ...]
    """Names of the file within a folder."""
    recognises: Callable[[Path, bytes], bool]
    """Function that tells by the name and the content of a file whether it is of this format."""
    read: Callable[[Path, Mapping[str, str], Findings], Target]
    """Function that reads a file, with values for `${name}`. Raises ConfigError."""


SOURCES: Final = (
    Source("ActiveMQ Classic", ("conf/activemq.xml", "activemq.xml"), activemq.recognises, activemq.read),
    Source("Apache Artemis", ("etc/broker.xml", "broker.xml"), artemis.recognises, artemis.read),
    Source("Qpid Broker-J", ("config.json",), brokerj.recognises, brokerj.read),
    Source("RabbitMQ", ("definitions.json",), rabbitmq.recognises, rabbitmq.read),
    Source(
        "RabbitMQ",
        ("rabbitmq.conf", "rabbitmq.config", "advanced.config"),
        rabbitmq_configuration.recognises,
        rabbitmq_configuration.read,
    ),
    Source("mosquitto", ("mosquitto.conf",), mosquitto.recognises, mosquitto.read),
)
"""In the order in which they are tried; the last has no mark of its own but its words."""

_SHOWN: Final = (
    "an activemq.xml, a folder of an Artemis instance, a mosquitto.conf, a config.json of Broker-J, or definitions "
    "that rabbitmqctl exported"
)


def find(place: Path) -> tuple[Source, Path]:
    """Return the format of a file or folder, and the file to read. Raises ConfigError if there is none."""
    if place.is_dir():
        for source in SOURCES:
            for name in source.files:
                if (place / name).is_file():
                    return source, place / name
        raise _unknown(place, f"holds no configuration that is known here; give {_SHOWN}")
    try:
        data = place.read_bytes()
    except OSError as error:
        raise _unknown(place, f"cannot be read: {error.strerror}") from error
    for source in SOURCES:
        if source.recognises(place, data):
            return source, place
    raise _unknown(place, f"is no configuration that is known here; give {_SHOWN}")


def _unknown(place: Path, text: str) -> ConfigError:
    return ConfigError([Problem(str(place), 0, "file", text)])
