"""A store that keeps nothing: `persistence-enabled=false`, and the embedded broker."""

import shutil
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path

from artemis_py.core.addresses.address import Address
from artemis_py.core.messages.large_body import LargeBody
from artemis_py.core.queues.page import Page, PageRequest
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.reference import Reference
from artemis_py.core.queues.storage import UNLIMITED, check_record_key
from artemis_py.errors import StoreError
from artemis_py.store.large import LargeFiles


class MemoryStore:
    """Fulfils `Storage` without a disk: what was put is as durable at once as it will ever be."""

    is_durable = False
    definitions = 0
    batch = 0
    committed = 0

    def __init__(self) -> None:
        self._files: LargeFiles | None = None
        """Large messages are in files here too; the folder comes with the first of them."""

    def put(self, reference: Reference) -> None:
        """Nothing to remember; the queue itself holds the message."""

    def create_large(self, durable: bool) -> LargeBody:
        """A file in the system's temporary folder, gone at the end of the process; see `Storage`."""
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
        """Nothing was remembered."""

    def is_written(self, reference: Reference) -> bool:
        """Nothing ever is."""
        return False

    def drop(
        self, queue: Queue, rank: int, after: int, upto: int, kept: frozenset[int], count: int, size_bytes: int
    ) -> None:
        """Nothing was remembered."""

    def read(self, queue: Queue, request: PageRequest) -> Page | None:
        """There is nothing that is not in memory."""
        return None

    def update(self, reference: Reference, due_ms: int) -> None:
        """Nothing was remembered."""

    def save_address(self, address: Address) -> None:
        """The post office has it."""

    def forget_address(self, address: Address) -> None:
        """Nothing was remembered."""

    def save_queue(self, queue: Queue) -> None:
        """The post office has it."""

    def forget_queue(self, queue: Queue) -> None:
        """Nothing was remembered."""

    def save_duplicate(self, address: Address, number: int, id: bytes) -> None:
        """The address has it."""

    def forget_duplicate(self, address: Address, number: int) -> None:
        """Nothing was remembered."""

    def load_duplicates(self, address: Address) -> list[tuple[int, bytes]]:
        """There was no earlier run."""
        return []

    def save_record(self, space: str, key: bytes, value: bytes | None) -> None:
        """Its owner has it; a key that is too long is refused as by a store on disk."""
        check_record_key(space, key)

    def load_records(self, space: str) -> list[tuple[bytes, bytes]]:
        """There was no earlier run."""
        return []

    def reserve(self, queue: Queue) -> int:
        """Without a restart no number comes twice."""
        return UNLIMITED

    def hurry(self, reference: Reference) -> None:
        """Nothing waits: no reference has a batch."""

    def when_durable(self, callback: Callable[[], None], failed: Callable[[str], None] | None = None) -> None:
        """Run `callback` at once."""
        callback()
