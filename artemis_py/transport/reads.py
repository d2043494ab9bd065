"""How much is read from a connection at once: the more connections send much, the less from each.

What the connections of one turn have sent passes through the broker several times: it is parsed, routed, delivered and
written. With 256 KiB from each of eight connections, what is to be delivered has left the processor's caches by then,
and a message costs nearly twice as much as with one connection. So all that is read in a turn is kept to what a single
connection may send.
"""

from typing import Final

# What asyncio reads from a socket at most; a connection that is alone is quickest with that.
MOST_BYTES: Final = 256 * 1024

# What connections that send at the same time may be read together, unless that is less than the least for each.
SHARED_BYTES: Final = 256 * 1024

# A read of this size is worth its system call: it has some hundred small messages, or thirty of 1 KiB. With half of
# both sizes messages of 1 KiB cost up to a fifth more (`benchmarks/README.md`).
LEAST_BYTES: Final = 32 * 1024


class Reads:
    """The size of the coming reads, from what was read in the turn before."""

    def __init__(self) -> None:
        self.size_bytes: int = MOST_BYTES
        self._large = 0
        """Number of reads in this turn that were as large as the least size or larger."""

    def note(self, transport: object, size_bytes: int) -> None:
        """Note a read of a transport, and set the size of its next one if it has such a thing: TLS has none."""
        if size_bytes >= LEAST_BYTES:
            self._large += 1
        if getattr(transport, "max_size", self.size_bytes) != self.size_bytes:
            transport.max_size = self.size_bytes  # type: ignore[attr-defined]

    def end_turn(self) -> None:
        """Choose the size of the reads of the coming turn."""
        large = self._large
        self._large = 0
        self.size_bytes = MOST_BYTES if large < 2 else max(SHARED_BYTES // large, LEAST_BYTES)
