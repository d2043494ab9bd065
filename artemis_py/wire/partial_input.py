"""Packets and deliveries that a connection has received only in part.

A peer may begin a message of many megabytes on each of its connections and never end it. The part it has sent counts in
the broker's account, as messages do, and is refused at the same limit at which everything else is refused.
"""

from typing import Final

from artemis_py.core.runtime.accounts import GLOBAL_REJECT_FACTOR, MemoryAccount

# Smaller parts are not counted: nearly every read ends within a packet, and a connection costs more than that anyway.
COUNTED_BYTES: Final = 16 * 1024


class PartialInput:
    """The unfinished packets and deliveries of one connection."""

    __slots__ = ("_account", "_counted_bytes")

    def __init__(self, account: MemoryAccount) -> None:
        self._account: MemoryAccount = account
        self._counted_bytes: int = 0

    def update(self, size_bytes: int) -> bool:
        """Count this many bytes from now on; return False if they have grown while memory allows nothing more."""
        if size_bytes < COUNTED_BYTES:
            size_bytes = 0
        more = size_bytes - self._counted_bytes
        if more == 0:
            return True
        self._counted_bytes = size_bytes
        account = self._account
        if more < 0:
            account.vacate(-more)
            return True
        account.occupy(more)
        return account.max_bytes < 0 or account.size_bytes < GLOBAL_REJECT_FACTOR * account.max_bytes
