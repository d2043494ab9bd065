"""Filters of a source that clients and brokers agree on beyond the specification (Apache's registered descriptors)."""

from typing import Final

from artemis_amqp.engine.types import Described, Symbol, ULong

SELECTOR_CODE: Final = 0x0000468C00000004
NO_LOCAL_CODE: Final = 0x0000468C00000003


def selector_filter(text: str) -> dict[Symbol, object]:
    """Return a source's filter map that asks for a selector."""
    return {Symbol("apache.org:selector-filter:string"): Described(ULong(SELECTOR_CODE), text)}
