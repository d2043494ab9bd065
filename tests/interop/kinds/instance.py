"""The `broker.xml` for the programs: the same addresses, settings and diverts for every broker."""

from collections.abc import Iterable
from types import ModuleType
from typing import Final

from tests.interop.broker_process import Instance
from tests.interop.kinds import (
    consumer_priority,
    diverts,
    exclusive,
    groups,
    last_value,
    non_destructive,
    retroactive,
    ring,
)
from tests.interop.kinds.scenario import Parts

KINDS: Final[tuple[ModuleType, ...]] = (
    *(ring, last_value, non_destructive, exclusive, groups, consumer_priority, diverts, retroactive),
)
TRANSFORMER_OF_ARTEMIS: Final = "org.apache.activemq.artemis.core.server.transformer.AddHeadersTransformer"


def instance(kinds: Iterable[ModuleType], *, is_restarted: bool = False) -> Instance:
    """Return what the programs of these kinds need, before or after the restart."""
    parts: list[Parts] = [kind.PARTS for kind in kinds]
    settings = [
        part.settings_after_restart if is_restarted and part.settings_after_restart is not None else part.settings
        for part in parts
    ]
    diverts = "".join(part.diverts for part in parts)
    return Instance(
        persistence="true",
        core="<security-enabled>false</security-enabled>\n<message-expiry-scan-period>100</message-expiry-scan-period>\n"
        + (f"<diverts>{diverts}</diverts>\n" if diverts else ""),
        addresses="".join(part.addresses for part in parts),
        settings="".join(settings),
    )


def configuration(kinds: Iterable[ModuleType], *, is_restarted: bool = False) -> str:
    """Return the `broker.xml` for this broker."""
    return instance(kinds, is_restarted=is_restarted).configuration()


def configuration_of_artemis(kinds: Iterable[ModuleType], port: int, *, is_restarted: bool = False) -> str:
    """Return the file for Apache Artemis: it cannot choose a port and say which, and calls a transformer otherwise."""
    text = configuration(kinds, is_restarted=is_restarted).replace(diverts.ADD_PROPERTIES, TRANSFORMER_OF_ARTEMIS)
    return text.replace("127.0.0.1:0", f"127.0.0.1:{port}")
