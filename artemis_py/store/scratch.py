"""Room on disk for messages that need not survive: messages that are not durable, above the limits of memory.

An LMDB environment that is never synced, used by the loop alone. Its file has no name any more once it is open, so the
room is given back however the process ends. Keys are those of the store. A value has three parts:

    last-value key    an octet, then the key; the octet is 0 if there is no key, otherwise its length plus one
    durability        an octet: whether the message is durable (in a queue that is not)
    message           see `core.messages.record`

For each last-value key there is another value: under the u32 queue id, an octet 0xfe and the key are the key of the
reference and u64 the size of its message in memory.

Spilled messages gather and are written some hundreds at a time, at the latest before anything is read.
"""

import shutil
import tempfile
from collections import deque
from pathlib import Path
from typing import Final

import lmdb

from artemis_py.core.messages.message import MessageFormat
from artemis_py.core.messages.record import decode_with_durability, encode_with_durability
from artemis_py.core.queues.page import Page, PageRequest, Place
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.reference import Reference
from artemis_py.logs import named_logger
from artemis_py.store import schema
from artemis_py.store.environment import FILE_NAME, INITIAL_MAP_BYTES, MAPPED_BYTES
from artemis_py.store.failure import reason_of

LOGGER: Final = named_logger(__name__)

# One write of so many messages costs 2 us each, and blocks the loop for a millisecond.
GATHERED_MESSAGES: Final = 500
GATHERED_BYTES: Final = 1 << 20

# Dropped messages that are deleted at a time, in some 2 ms.
SWEPT_MESSAGES: Final = 2000

# Bytes of the file that one look-up touches, approximately.
TOUCHED_BYTES: Final = 4096

_INDEX_RANK: Final = 0xFE
_INDEX: Final = bytes((_INDEX_RANK,))


class ScratchStore:
    """Room on disk in an unsynced LMDB environment; fulfils `Scratch`."""

    def __init__(self, folder: Path | None = None, map_bytes: int = INITIAL_MAP_BYTES) -> None:
        """Keep the settings; `folder` is made when it is needed, None is the system's temporary folder."""
        self._folder: Final = folder
        self._map_bytes: Final = map_bytes
        self._env: lmdb.Environment | None = None
        self._formats: Final[dict[str, MessageFormat]] = {}
        self._gathered: dict[bytes, bytes] = {}
        self._gathered_bytes = 0
        self._removed: set[bytes] = set()
        self._dropped: Final[deque[tuple[bytes, bytes]]] = deque()
        """First and last keys of ranges that are still to be deleted."""
        self._touched_bytes = 0
        self.is_usable = True
        """Whether the disk works; once it has failed, messages can be read, but none is added."""

    def close(self) -> None:
        """Give back the room on disk."""
        if self._env is not None:
            self._env.close()
            self._env = None
        self._gathered = {}
        self._removed = set()

    # -- in and out ------------------------------------------------------------------------------------------

    def spill(self, reference: Reference, rank: int) -> None:
        """See `Scratch`."""
        message = reference.message
        self._formats[message.format.name] = message.format
        value = encode_with_durability(message)
        place = schema.position_key(reference.queue.id, rank, reference.sequence)
        last_key = reference.key
        if last_key is None:
            value = b"\x00" + value
        else:
            value = bytes((len(last_key) + 1,)) + last_key + value
            index_key = _index_key(reference.queue, last_key)
            self._gathered[index_key] = place + schema.U64.pack(message.size)
            self._removed.discard(index_key)
        self._gathered[place] = value
        self._gathered_bytes += len(value)
        if len(self._gathered) >= GATHERED_MESSAGES or self._gathered_bytes >= GATHERED_BYTES:
            self._write()

    def remove(self, reference: Reference, rank: int) -> None:
        """See `Scratch`."""
        self._remove(schema.position_key(reference.queue.id, rank, reference.sequence))
        if reference.key is not None:
            # No newer one has this key: that would have removed this one.
            self._remove(_index_key(reference.queue, reference.key))

    def find_last(self, queue: Queue, key: bytes) -> Place | None:
        """See `Scratch`."""
        index_key = _index_key(queue, key)
        value = self._gathered.get(index_key)
        if value is None and self._env is not None and index_key not in self._removed:
            try:
                with self._env.begin() as transaction:
                    found = transaction.get(index_key)
                    value = None if found is None else bytes(found)
            except lmdb.Error as error:
                self._fail(error)
            self._touch(TOUCHED_BYTES)
        if value is None:
            return None
        place = value[: -schema.U64.size]
        size = schema.U64.unpack_from(value, len(place))[0]
        return Place(schema.read_rank(place[: schema.RANK_KEY_BYTES])[1], schema.read_position(place), size)

    def remove_at(self, queue: Queue, place: Place, key: bytes) -> None:
        """See `Scratch`."""
        self._remove(schema.position_key(queue.id, place.rank, place.sequence))
        self._remove(_index_key(queue, key))

    def _remove(self, key: bytes) -> None:
        if self._gathered.pop(key, None) is None or key[schema.U32.size] == _INDEX_RANK:
            # An older entry of the index may be on disk as well.
            self._removed.add(key)
            if len(self._removed) >= GATHERED_MESSAGES:
                self._write()

    def drop(self, queue: Queue, rank: int, upto: int) -> None:
        """See `Scratch`."""
        self._write()
        prefix, last = schema.rank_key(queue.id, rank), schema.position_key(queue.id, rank, upto)
        self._gathered = {
            key: value for key, value in self._gathered.items() if not (key.startswith(prefix) and key <= last)
        }
        self._dropped.append((prefix, last))

    def sweep(self) -> bool:
        """See `Scratch`."""
        if self._env is None or not self.is_usable:
            self._dropped.clear()
        if not self._dropped or self._env is None:
            return False
        first, last = self._dropped[0]
        left = SWEPT_MESSAGES
        try:
            with self._env.begin(write=True) as transaction:
                cursor = transaction.cursor()
                found = cursor.set_range(first)
                keyed: list[tuple[bytes, bytes]] = []
                while found and left > 0:
                    place = bytes(cursor.key())
                    if not place or place > last:
                        # Without a key: the last value was deleted.
                        break
                    last_key = _split(bytes(cursor.value()))[0]
                    if last_key is not None:
                        keyed.append((place, place[: schema.U32.size] + _INDEX + last_key))
                    found = cursor.delete()
                    left -= 1
                # Not in the loop: that would move the cursor.
                for place, index_key in keyed:
                    if bytes(transaction.get(index_key, b"")).startswith(place):
                        transaction.delete(index_key)
        except lmdb.Error as error:
            self._fail(error)
            return False
        self._touch(256 * SWEPT_MESSAGES)
        if left > 0:
            self._dropped.popleft()
        return bool(self._dropped)

    def read(self, queue: Queue, request: PageRequest) -> Page | None:
        """See `Pages`."""
        self._write()
        first = schema.position_key(queue.id, request.rank, request.after + 1)
        last = schema.position_key(queue.id, request.rank, request.upto)
        try:
            found, end = self._read(first, last, request.max_messages, request.max_bytes)
        except lmdb.Error as error:
            self._fail(error)
            return None
        if self._gathered:
            # This happens only after the disk failed.
            found += [(key, value) for key, value in self._gathered.items() if first <= key <= end]
            found.sort()
        page = Page()
        page.end = request.upto if end == last else schema.read_position(end)
        for key, value in found:
            position = schema.read_position(key)
            if position not in request.skipped:
                last_key, message = _split(value)
                reference = Reference(decode_with_durability(message, self._formats), queue)
                reference.sequence = position
                reference.key = last_key
                page.references.append(reference)
        return page

    def _read(
        self, first: bytes, last: bytes, max_messages: int, max_bytes: int
    ) -> tuple[list[tuple[bytes, bytes]], bytes]:
        """Return keys and values of a range, and the key up to which it was read. Raises lmdb.Error."""
        found: list[tuple[bytes, bytes]] = []
        size = 0
        if self._env is None:
            return found, last
        with self._env.begin() as transaction:
            cursor = transaction.cursor()
            more = cursor.set_range(first)
            while more:
                key = bytes(cursor.key())
                if key > last:
                    break
                if found and (len(found) >= max_messages or size >= max_bytes):
                    return found, found[-1][0]
                if key not in self._removed:
                    value = bytes(cursor.value())
                    size += len(value)
                    found.append((key, value))
                more = cursor.next()
        self._touch(size)
        return found, last

    # -- writing ---------------------------------------------------------------------------------------------

    def _write(self) -> None:
        """Write the gathered messages, and delete the removed ones."""
        if not self.is_usable or not (self._gathered or self._removed):
            return
        try:
            if self._env is None:
                self._env = self._open()
            self._write_to(self._env)
        except (lmdb.Error, OSError) as error:
            self._fail(error)
            return
        self._touch(2 * self._gathered_bytes + 256 * len(self._removed))
        self._gathered = {}
        self._gathered_bytes = 0
        self._removed = set()

    def _write_to(self, env: lmdb.Environment) -> None:
        while True:
            try:
                with env.begin(write=True) as transaction:
                    for key, value in self._gathered.items():
                        transaction.put(key, value)
                    for key in self._removed:
                        transaction.delete(key)
                return
            except lmdb.MapFullError:
                env.set_mapsize(2 * env.info()["map_size"])

    def _open(self) -> lmdb.Environment:
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
        folder = tempfile.mkdtemp(prefix="scratch-", dir=self._folder)
        try:
            return lmdb.open(folder, map_size=self._map_bytes, sync=False, metasync=False, lock=False, readahead=False)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _touch(self, size: int) -> None:
        """Count touched bytes, and map the file again if there are too many.

        Touched pages of the map count as memory of the process until then.
        """
        self._touched_bytes += size
        if self._touched_bytes > MAPPED_BYTES and self._env is not None:
            self._touched_bytes = 0
            self._env.set_mapsize(self._env.info()["map_size"])

    def _fail(self, error: Exception) -> None:
        if self.is_usable:
            self.is_usable = False
            folder = self._folder or Path(tempfile.gettempdir())
            LOGGER.error("no more messages go to scratch files: reason=%s", reason_of(error, folder / FILE_NAME))


def _index_key(queue: Queue, last_key: bytes) -> bytes:
    """Return the key under which the place of a last-value key is."""
    return schema.U32.pack(queue.id) + _INDEX + last_key


def _split(value: bytes) -> tuple[bytes | None, bytes]:
    """Return the last-value key of a spilled reference, None if it has none, and its message."""
    end = value[0]
    return (None, value[1:]) if end == 0 else (value[1:end], value[end:])
