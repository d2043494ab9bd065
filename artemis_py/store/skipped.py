"""The records of the sequences that a queue may never have used, because a crash left them reserved."""

from collections.abc import Iterable
from hashlib import sha256
from typing import Final

from artemis_py.core.queues.storage import space_of
from artemis_py.errors import DamagedValue
from artemis_py.store import schema

SKIPPED: Final = "skipped"

LONGEST_NAME_IN_KEY: Final = 256
"""Limit in octets; the key of a longer queue name is its SHA-256, after an octet that no text begins with."""
_DIGEST: Final = b"\xff"


def skipped_key(queue_name: str, host: int) -> bytes:
    """Return the key of the record with the ranges that a queue of a virtual host skipped."""
    name = queue_name.encode()
    return schema.record_key(
        space_of(host, SKIPPED), name if len(name) <= LONGEST_NAME_IN_KEY else _DIGEST + sha256(name).digest()
    )


def write_ranges(ranges: Iterable[tuple[int, int]]) -> bytes:
    """Return the content of a record in space `SKIPPED`."""
    return b"".join(schema.U64.pack(start) + schema.U64.pack(stop) for start, stop in ranges)


def read_ranges(content: bytes) -> list[tuple[int, int]]:
    """Return the ranges that `write_ranges` wrote. Raises DamagedValue."""
    if len(content) % 16:
        raise DamagedValue("it is not a list of ranges")
    numbers = [schema.U64.unpack_from(content, at)[0] for at in range(0, len(content), 8)]
    return list(zip(numbers[::2], numbers[1::2], strict=True))
