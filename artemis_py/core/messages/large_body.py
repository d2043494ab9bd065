"""A large body: the part of a message that is too large for memory, and who still needs it.

A message whose body is large keeps in memory only what stands before it (`Message.data`), and a handle to the rest.
Several messages may share one body: a dead letter has the same octets as what it was made of. The core counts
holders; where the octets are, and what makes them durable, is the storage's business.
"""

from typing import Final

from artemis_py.errors import StoreError

DEFAULT_MIN_LARGE_BYTES: Final = 102_400
"""Messages from this size on are large, unless their acceptor says otherwise (artemis-model §3.17)."""

LOADED_BODY_LIMIT_BYTES: Final = 64 * 1024 * 1024
"""The largest body that is brought into memory, for other protocols and for whoever looks at the body: a converter
holds it two or three times for a moment, which a process of a few hundred MiB can afford."""


class LargeReader:
    """Reads one body from its start. It stays readable when the body's last holder lets go meanwhile."""

    def read(self, size: int) -> bytes:
        """The next octets, `size` of them unless the end is nearer.

        Raises StoreError if they cannot be read, or at the end if all of them together are not what was written.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Read no more; harmless the second time."""
        raise NotImplementedError


class LargeBody:
    """One body. Whoever creates it is its first holder; it goes with its last."""

    def __init__(self, id: int, size: int = 0, checksum: int = 0, holders: int = 1) -> None:
        self.id: Final = id
        """Unique among the bodies of a storage."""
        self.size: int = size
        """Bytes taken so far."""
        self.checksum: int = checksum
        """CRC-32 of them."""
        self.holders: int = holders

    def append(self, data: bytes) -> None:
        """Take the next octets. Raises StoreError; then the body can only be released."""
        raise NotImplementedError

    def finish(self) -> None:
        """Nothing more comes. Raises StoreError if what came cannot be kept; then the body can only be released."""
        raise NotImplementedError

    def reader(self) -> LargeReader:
        """Read a finished body. Raises StoreError if it is not there any more."""
        raise NotImplementedError

    def hold(self) -> None:
        """One more needs it."""
        self.holders += 1

    def release(self) -> None:
        """One less needs it; without any it is given up."""
        self.holders -= 1
        if self.holders == 0:
            self.discard()

    def discard(self) -> None:
        """No message needs it any more."""
        raise NotImplementedError

    def load(self) -> bytes:
        """All of it. Raises StoreError, also if it is larger than `LOADED_BODY_LIMIT_BYTES`."""
        if self.size > LOADED_BODY_LIMIT_BYTES:
            raise StoreError(f"a body of {self.size} bytes; at most {LOADED_BODY_LIMIT_BYTES} are loaded into memory")
        reader = self.reader()
        try:
            return reader.read(self.size)
        finally:
            reader.close()
