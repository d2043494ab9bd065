"""A large body: the part of a message that is too large for memory, with a count of its holders.

A message with a large body keeps in memory only the part before it (`Message.data`), and a handle to the body. Several
messages may share one body: a dead letter has the same octets as the original message. The core counts holders; the
storage decides where the octets are and how they become durable.
"""

from typing import Final

from artemis_py.errors import StoreError

DEFAULT_MIN_LARGE_BYTES: Final = 102_400
"""Messages from this size on are large, unless their acceptor says otherwise (artemis-model §3.17)."""

LOADED_BODY_LIMIT_BYTES: Final = 64 * 1024 * 1024
"""The largest body that is loaded into memory, for other protocols and to be looked at. For a moment a converter has
two or three copies of it, which a process of a few hundred MiB can afford."""


class LargeReader:
    """Reads one body from its start, even after the body's last holder has released it."""

    def read(self, size: int) -> bytes:
        """Return the next `size` octets, fewer at the end.

        Raises StoreError if they cannot be read, or at the end if the whole body differs from what was written.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Stop reading; harmless if already closed."""
        raise NotImplementedError


class LargeBody:
    """One body. Its creator is its first holder; it is deleted with its last."""

    def __init__(self, id: int, size: int = 0, checksum: int = 0, holders: int = 1) -> None:
        self.id: Final = id
        """Unique among the bodies of a storage."""
        self.size: int = size
        """Bytes appended so far."""
        self.checksum: int = checksum
        """CRC-32 of the bytes appended so far."""
        self.holders: int = holders

    def append(self, data: bytes) -> None:
        """Append the next octets. Raises StoreError; then the body can only be released."""
        raise NotImplementedError

    def finish(self) -> None:
        """Complete the body. Raises StoreError if it cannot be kept; then it can only be released."""
        raise NotImplementedError

    def reader(self) -> LargeReader:
        """Return a reader of a finished body. Raises StoreError if the body is gone."""
        raise NotImplementedError

    def hold(self) -> None:
        """Add a holder."""
        self.holders += 1

    def release(self) -> None:
        """Remove a holder; without any the body is deleted."""
        self.holders -= 1
        if self.holders == 0:
            self.discard()

    def discard(self) -> None:
        """Delete the body: no message needs it any more."""
        raise NotImplementedError

    def load(self) -> bytes:
        """Return the whole body. Raises StoreError, also if it is larger than `LOADED_BODY_LIMIT_BYTES`."""
        if self.size > LOADED_BODY_LIMIT_BYTES:
            raise StoreError(f"a body of {self.size} bytes; at most {LOADED_BODY_LIMIT_BYTES} are loaded into memory")
        reader = self.reader()
        try:
            return reader.read(self.size)
        finally:
            reader.close()
