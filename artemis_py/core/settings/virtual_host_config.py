"""Virtual hosts that are to be created (qpid-exchanges §12)."""

from collections.abc import Mapping
from typing import Any, Final

from attrs import asdict, fields_dict, frozen

from artemis_py.core.names.syntax import is_unicode
from artemis_py.core.settings.declaration import Kind, option, options_of
from artemis_py.errors import InvalidRequest

DEFAULT_NAMES: Final = ("default", "/")
"""Names that mean the default host; no other may have them."""

MAX_HOST_NAME: Final = 255
"""Most characters of a name; the same as for a host name in DNS."""

_NOT_ALLOWED: Final = frozenset(":,;?&=<>\"' \t\r\n")


@frozen(kw_only=True)
class VirtualHostConfig:
    """A virtual host to be created; its addresses and settings are made in it afterwards."""

    name: str
    """Unique in the broker, whatever the case of its letters."""
    hostnames: tuple[str, ...] = option(
        Kind.NAMES,
        (),
        "Further names for clients that name the host they connect to (`open.hostname` of AMQP); its own name always "
        "counts.",
    )
    enabled: bool = option(
        Kind.BOOLEAN, True, "Whether clients may connect. A change in the file stops or starts the host."
    )
    max_connections: int = option(Kind.COUNT, -1, "Clients that may be connected at a time; -1: no limit.")
    max_queues: int = option(
        Kind.COUNT, -1, "Queues, including those of subscriptions and without the broker's own; -1: no limit."
    )
    roles: tuple[str, ...] = option(
        Kind.NAMES, (), "Roles that may connect; unset: all users. Permissions are in `security-settings` of the host."
    )
    declared: bool = False
    """Whether broker.xml declares it, and not a management operation."""


VIRTUAL_HOST_OPTIONS: Final = options_of(VirtualHostConfig)
"""Options of a virtual host."""


def check_host_name(name: str) -> None:
    """Raise InvalidRequest for a name that a virtual host may not have."""
    if not name or len(name) > MAX_HOST_NAME or not is_unicode(name) or not name.isprintable():
        raise InvalidRequest(f"the name of a virtual host has 1 to {MAX_HOST_NAME} printable characters")
    if name.lower() in DEFAULT_NAMES:
        raise InvalidRequest(f"'{name}' means the default host; choose another name")
    wrong = [character for character in name if character in _NOT_ALLOWED]
    if wrong:
        # MQTT clients write `host:user`, and acceptors `virtualHost=host;…`.
        raise InvalidRequest(f"the name of virtual host '{name}' may not contain {wrong[0]!r}")


def host_record(config: VirtualHostConfig) -> dict[str, Any]:
    """Return a virtual host as values of JSON, by the names of its fields."""
    return asdict(config)


def read_host(record: Mapping[str, Any]) -> VirtualHostConfig:
    """Return the virtual host of a record, without fields that this release does not know.

    Raises ValueError, TypeError or KeyError for one that `host_record` did not write.
    """
    values = {name: value for name, value in record.items() if name in fields_dict(VirtualHostConfig)}
    for name in ("hostnames", "roles"):
        values[name] = tuple(values.get(name, ()))
    return VirtualHostConfig(**values)
