"""Diverts that are to be created."""

from enum import Enum
from typing import Final

from attrs import NOTHING, frozen

from artemis_py.core.settings.declaration import Kind, option, options_of


class DivertType(Enum):
    """Routing type that a copy asks for."""

    PASS = "PASS"
    """The routing type of the message."""
    STRIP = "STRIP"
    """No routing type: the address that the copy goes to decides."""
    ANYCAST = "ANYCAST"
    MULTICAST = "MULTICAST"


@frozen(kw_only=True)
class DivertConfig:
    """A divert to be created (artemis-model §3.2)."""

    name: str
    """Unique among the queues and diverts of a broker."""
    address: str = option(Kind.TEXT, NOTHING, "What is sent to this address is copied.", minimum=1)
    forwarding_address: str = option(Kind.TEXT, NOTHING, "Where the copies go.", minimum=1)
    exclusive: bool = option(Kind.BOOLEAN, False, "Whether queues of the address get nothing of what is copied.")
    routing_type: DivertType = option(  # noqa: RUF009  it makes a field
        DivertType,
        DivertType.STRIP,
        "Routing type of the copies. PASS: that of the message; STRIP: none, so queues of both types get them.",
    )
    filter: str | None = None
    """Only messages that satisfy this selector are copied."""


DIVERT_OPTIONS: Final = options_of(DivertConfig)
"""The child elements of `<divert>` in broker.xml, beside its filter and its routing name."""
