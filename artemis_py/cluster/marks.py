"""The taker's half of channels: the last number that is durably here (mesh §5.5).

    records   mesh-marks, channel u64, id of the origin's node   ->   u64 number

A mark changes in the commit that stores the message of that number, so after any crash it says what is here.
"""

from struct import Struct
from typing import Final

from mypy_extensions import mypyc_attr

from artemis_py.core.queues.storage import Storage
from artemis_py.errors import ProtocolError

MARKS: Final = "mesh-marks"
"""Space of the records of marks."""

MAX_CHANNELS: Final = 64
"""Channels of one peer: it has one per run, and closes those of earlier runs when it has their marks."""

_NUMBER: Final = Struct(">Q")


@mypyc_attr(allow_interpreted_subclasses=True)
class Marks:
    """Marks of all channels from all peers."""

    def __init__(self, storage: Storage) -> None:
        self._storage: Final = storage
        self._marks: Final[dict[str, dict[int, int]]] = {}
        """Marks by origin and channel."""

    def load(self) -> None:
        """Read what an earlier run left."""
        for key, value in self._storage.load_records(MARKS):
            if len(key) > _NUMBER.size and len(value) == _NUMBER.size:
                origin = key[_NUMBER.size :].decode(errors="replace")
                self._marks.setdefault(origin, {})[_NUMBER.unpack_from(key)[0]] = _NUMBER.unpack(value)[0]

    def of(self, origin: str) -> tuple[tuple[int, int], ...]:
        """Return channels and marks of one origin."""
        return tuple(self._marks.get(origin, {}).items())

    def get(self, origin: str, channel: int) -> int:
        """Return the mark of a channel; 0 if nothing of it was taken."""
        return self._marks.get(origin, {}).get(channel, 0)

    def check(self, origin: str, channel: int) -> None:
        """Raise ProtocolError if this origin has too many channels for another one."""
        known = self._marks.get(origin, {})
        if channel not in known and len(known) >= MAX_CHANNELS:
            raise ProtocolError(f"the peer has more than {MAX_CHANNELS} channels")

    def set(self, origin: str, channel: int, number: int) -> None:
        """Move a mark, in the same commit as the message of this number."""
        self._marks.setdefault(origin, {})[channel] = number
        self._storage.save_record(MARKS, _key(origin, channel), _NUMBER.pack(number))

    def forget(self, origin: str, channel: int) -> None:
        """Forget a channel that its origin has closed."""
        if self._marks.get(origin, {}).pop(channel, None) is not None:
            self._storage.save_record(MARKS, _key(origin, channel), None)

    def forget_all(self, origin: str) -> None:
        """Forget all channels of an origin."""
        for channel in list(self._marks.get(origin, {})):
            self.forget(origin, channel)
        self._marks.pop(origin, None)


def _key(origin: str, channel: int) -> bytes:
    return _NUMBER.pack(channel) + origin.encode()
