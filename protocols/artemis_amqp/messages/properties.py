"""Changes of application properties in a bare message, for transformers of diverts.

The bare message is otherwise the producer's: the octets of its other sections stay as they are, and so do those of the
properties that do not change.
"""

from typing import Final

from artemis_amqp.engine.codec import read_value, skip_value, write_compound, write_value
from artemis_amqp.messages.sections import APPLICATION_PROPERTIES, items_at, read_application_properties, section_at
from artemis_py.core.messages.changes import REMOVED, Changes

_DESCRIPTOR: Final = b"\x00\x53\x74"


def typed_properties(bare: bytes) -> dict[str, object]:
    """Return the application properties, each with the class of its AMQP type. Raises MalformedValue."""
    return {str(key): value for key, value in read_application_properties(bare).items()}


def with_properties(bare: bytes, changes: Changes) -> bytes:
    """Return a bare message, or what precedes its body, with other application properties. Raises MalformedValue."""
    end = len(bare)
    start = stop = 0
    content = bytearray()
    count = 0
    while start < end:
        code, body = section_at(bare, start, end)
        if code >= APPLICATION_PROPERTIES:
            stop = start
            if code == APPLICATION_PROPERTIES:
                count = _keep(bare, body, end, changes, content)
                stop = skip_value(bare, body, end, 1)
            break
        start = stop = skip_value(bare, body, end, 1)
    for name, value in changes.items():
        if value is not REMOVED:
            write_value(content, name)
            write_value(content, value)
            count += 2
    section = bytearray()
    if count:
        section += _DESCRIPTOR
        write_compound(section, 0xC1, count, content)
    return bare[:start] + bytes(section) + bare[stop:]


def _keep(bare: bytes, body: int, end: int, changes: Changes, content: bytearray) -> int:
    """Append the items of the section whose value is at `body`, but for those that change; return their number."""
    count, offset, stop = items_at(0xC1, bare, body, end)
    kept = 0
    for _ in range(count >> 1):
        key, value_offset = read_value(bare, offset, stop, 2)
        following = skip_value(bare, value_offset, stop, 2)
        if str(key) not in changes:
            content += bare[offset:following]
            kept += 2
        offset = following
    return kept
