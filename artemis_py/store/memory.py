"""A store that keeps nothing: for `persistence-enabled=false`, and for the embedded broker."""

import shutil
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path

from artemis_py.core.addresses.address import Address
from artemis_py.core.messages.large_body import LargeBody
from artemis_py.core.queues.arrival import Arrival
from artemis_py.core.queues.page import Page, PageRequest, Place
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.reference import Reference
from artemis_py.core.queues.storage import UNLIMITED, check_record_key
from artemis_py.errors import StoreError
from artemis_py.store.large import LargeFiles


class MemoryStore:
    """A store without a disk, which fulfils `Storage`: what was put is as durable at once as it will ever be."""

    is_durable = False
    definitions = 0
    batch = 0
    committed = 0

    def __init__(self) -> None:
        self._files: LargeFiles | None = None
        """Files of large messages, which are not kept in memory here either; created with the first of them."""

    def put(self, reference: Reference) -> None:
        """Do nothing: the queue itself has the message."""

    def put_stored(self, reference: Reference, source: Reference) -> None:
        """Do nothing: the queue itself has the message."""

    def move(self, source: Queue, rank: int, after: int, arrival: Arrival) -> None:
        """Do nothing: no reference was stored."""

    def inherit(self, source: Queue, rank: int, arrival: Arrival) -> None:
        """Do nothing: no reference was stored."""

    def create_large(self, durable: bool) -> LargeBody:
        """Create a file in the system's temporary folder, deleted at the end of the process; see `Storage`."""
        files = self._files
        if files is None:
            try:
                folder = Path(tempfile.mkdtemp(prefix="artemis-py-"))
            except OSError as error:
                raise StoreError(f"a large message cannot be stored: {error.filename}: {error.strerror}") from error
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            files = self._files = LargeFiles(folder)
        return files.create(durable=False)

    def remove(self, reference: Reference) -> None:
        """Do nothing: no reference was stored."""

    def find_last(self, queue: Queue, key: bytes) -> Place | None:
        """Return None: there are no messages outside memory."""
        return None

    def remove_at(self, queue: Queue, place: Place, key: bytes) -> None:
        """Do nothing: no reference was stored."""

    def is_written(self, reference: Reference) -> bool:
        """Return False: nothing is ever written."""
        return False

    def drop(
        self, queue: Queue, rank: int, after: int, upto: int, kept: frozenset[int], count: int, size_bytes: int
    ) -> None:
        """Do nothing: no reference was stored."""

    def read(self, queue: Queue, request: PageRequest) -> Page | None:
        """Return None: there are no messages outside memory."""
        return None

    def update(self, reference: Reference, due_ms: int) -> None:
        """Do nothing: no reference was stored."""

    def save_address(self, address: Address) -> None:
        """Do nothing: the domain has the address."""

    def forget_address(self, address: Address) -> None:
        """Do nothing: no address was stored."""

    def save_queue(self, queue: Queue) -> None:
        """Do nothing: the domain has the queue."""

    def forget_queue(self, queue: Queue) -> None:
        """Do nothing: no queue was stored."""

    def save_duplicate(self, address: Address, number: int, id: bytes) -> None:
        """Do nothing: the address has the id."""

    def forget_duplicate(self, address: Address, number: int) -> None:
        """Do nothing: no id was stored."""

    def load_duplicates(self, address: Address) -> list[tuple[int, bytes]]:
        """Return nothing: there was no earlier run."""
        return []

    def save_record(self, space: str, key: bytes, value: bytes | None) -> None:
        """Refuse a key that is too long, as a store on disk does; the record's owner has the value."""
        check_record_key(space, key)

    def load_records(self, space: str) -> list[tuple[bytes, bytes]]:
        """Return nothing: there was no earlier run."""
        return []

    def forget_spaces(self, host: int, after: bytes, limit: int) -> bytes | None:
        """Return None: there is no record."""
        return None

    def mark_hosts(self) -> None:
        """Do nothing: there is no file that another release could open."""

    def reserve(self, queue: Queue) -> int:
        """Return a number that is never reached: without a restart no number is used twice."""
        return UNLIMITED

    def hurry(self, reference: Reference) -> None:
        """Do nothing: no reference has a batch to wait for."""

    def hasten(self) -> None:
        """Do nothing: nothing is written."""

    def when_durable(self, callback: Callable[[], None], failed: Callable[[str], None] | None = None) -> None:
        """Run `callback` at once."""
        callback()
