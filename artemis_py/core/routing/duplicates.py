"""Duplicate detection: the ids under which an address recently took messages (artemis-model §3.13).

A producer that does not know whether a message arrived sends it again under the same id, and the address takes it
once. Only the number of ids is limited, not their age. An id counts once its message is in the queues. A transaction
claims the ids of its messages at the commit, so the first transaction to commit gets an id, and a rollback never
costs another producer a message.
"""

from collections import deque
from hashlib import sha256
from typing import TYPE_CHECKING, Final
from uuid import UUID

from artemis_py.core.queues.storage import Storage
from artemis_py.core.settings.broker_settings import BrokerSettings

if TYPE_CHECKING:
    from artemis_py.core.addresses.address import Address

DUPLICATE_ID: Final = "_AMQ_DUPL_ID"
"""The property or annotation that carries a producer's id."""

TRAVELLING_ID: Final = "mesh-duplicate-id"
"""The broker's property of a message that may go to another broker: id in hexadecimal, a space, and the address that
took it under this id."""

# Longer ids are kept as their SHA-256, so a full cache of the default size takes about 3 MiB whatever clients send.
# UUIDs and the ids that brokers and frameworks generate (host, process, number) are shorter.
LONGEST_KEPT: Final = 64

# What an id counts in the broker's account: a UUID as text takes 183 bytes with its places in a queue and a set, and a
# digest takes no more.
ID_BYTES: Final = 192

_TEXT: Final = b"t"
_OCTETS: Final = b"b"
_DIGEST: Final = b"#"


def duplicate_id(value: object) -> bytes:
    """Return the form of a producer's id that the core compares; empty if `value` is not an id.

    A text never equals octets; a UUID or number is compared as text. An empty value is not an id, so that a client that
    sets the property without having an id does not lose its second message.
    """
    if isinstance(value, bytes):
        kind, octets = _OCTETS, value
    elif isinstance(value, (str, int, UUID)):
        kind, octets = _TEXT, str(value).encode(errors="surrogatepass")
    else:
        return b""
    if not octets:
        return b""
    if len(octets) > LONGEST_KEPT:
        return _DIGEST + sha256(kind + octets).digest()
    return kind + octets


def readable(id: bytes) -> str:
    """Return an id for the log: its text, or the octets in hexadecimal."""
    if id.startswith(_TEXT):
        return ascii(id[1:].decode(errors="replace"))
    return ("sha256:" if id.startswith(_DIGEST) else "0x") + id[1:].hex()


class DuplicateCache:
    """The last ids of one address, numbered in order of arrival; the oldest give way."""

    def __init__(self, address: "Address", storage: Storage | None) -> None:
        """Load the ids that `storage` has for the address; None: nothing is stored."""
        self._address: Address = address
        self._storage: Storage | None = storage
        self._ids: deque[bytes] = deque()
        """The ids; an empty one stands for a number whose id was not stored."""
        self._known: set[bytes] = set()
        self._next_number: int = 0
        self._first_number: int = 0
        """Number of the first id that was added in this run."""
        if storage is not None:
            for number, id in storage.load_duplicates(address):
                self._restore(number, id)
            self._first_number = self._next_number

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, id: bytes) -> bool:
        return id in self._known

    def add(self, id: bytes, durable: bool, size: int) -> None:
        """Remember an id, durably if its message is `durable`, and forget all but the last `size`."""
        if id in self._known:
            return
        storage = self._storage
        if storage is not None and durable and size > 0:
            storage.save_duplicate(self._address, self._next_number, id)
        self._append(id)
        self._shorten(size)

    def is_of_this_run(self, id: bytes) -> bool:
        """Tell whether an id is known, and was not read from the store. It costs as much as there are ids."""
        if id not in self._known:
            return False
        return self._next_number - len(self._ids) + self._ids.index(id) >= self._first_number

    def remove(self, id: bytes) -> None:
        """Forget one id, because its message was not sent after all. It costs as much as there are ids."""
        if id not in self._known:
            return
        self._known.discard(id)
        index = self._ids.index(id)
        # Its number stays taken.
        self._ids[index] = b""
        if self._storage is not None:
            self._storage.forget_duplicate(self._address, self._next_number - len(self._ids) + index)

    def clear(self) -> int:
        """Forget all ids; return how many there were."""
        count = len(self._known)
        self._shorten(0)
        return count

    def give_back(self) -> None:
        """Forget all ids in memory, because the address was deleted; the store forgets them with the address."""
        self._address.broker_account.vacate(ID_BYTES * len(self._ids))
        self._ids.clear()
        self._known.clear()

    def _append(self, id: bytes) -> None:
        self._ids.append(id)
        self._address.broker_account.occupy(ID_BYTES)
        self._next_number += 1
        if id:
            self._known.add(id)

    def _shorten(self, size: int) -> None:
        while len(self._ids) > size:
            number = self._next_number - len(self._ids)
            id = self._ids.popleft()
            self._address.broker_account.vacate(ID_BYTES)
            self._known.discard(id)
            if self._storage is not None:
                self._storage.forget_duplicate(self._address, number)

    def _restore(self, number: int, id: bytes) -> None:
        """Add an id from the store. They come in order; missing numbers belong to messages that were not stored."""
        if not self._ids:
            self._next_number = number
        while self._next_number < number:
            self._append(b"")
        self._append(id)


class Duplicates:
    """The caches of all addresses of one domain, each created when a producer first sends an id."""

    def __init__(self, storage: Storage, options: BrokerSettings) -> None:
        self._storage: Storage = storage
        self._options: BrokerSettings = options
        self._caches: dict[Address, DuplicateCache] = {}
        self.travel: bool = False
        """Whether messages carry their ids, because they may go to other brokers."""

    def of(self, address: "Address") -> DuplicateCache:
        """Return the cache of an address, which is read from the store on first use."""
        cache = self._caches.get(address)
        if cache is None:
            is_stored = self._options.persist_id_cache and not address.temporary
            cache = self._caches[address] = DuplicateCache(address, self._storage if is_stored else None)
        return cache

    def knows(self, address: "Address", id: bytes) -> bool:
        """Tell whether an address that still exists has taken a message under this id."""
        cache = self._caches.get(address)
        return cache is not None and not address.is_deleted and id in cache

    def add(self, address: "Address", id: bytes, durable: bool) -> None:
        """Remember an id for an address, unless the address was deleted."""
        if not address.is_deleted:
            self.of(address).add(id, durable, self.size_of(address))

    def remove(self, address: "Address", id: bytes) -> None:
        """Forget an id that an address remembers for a message that is not sent after all."""
        if not address.is_deleted:
            self.of(address).remove(id)

    def size_of(self, address: "Address") -> int:
        """Return how many ids an address remembers."""
        size = address.settings.id_cache_size
        return self._options.id_cache_size if size < 0 else size

    def forget(self, address: "Address") -> None:
        """Forget the ids of an address that is deleted."""
        cache = self._caches.pop(address, None)
        if cache is not None:
            cache.give_back()
