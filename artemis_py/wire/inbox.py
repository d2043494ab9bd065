"""Input of one connection that was received and is not processed yet.

A read ends anywhere in the stream. Data that an engine cannot use yet waits here, for one of four reasons: the rest of
a packet has not arrived (`needed` says how much), the share of the turn is used up (`is_cut_short`), the last packet
asks for work that is done in steps (`steps`), or the engine itself waits, as it does during a login.

    receive_data:  data = inbox.add(data, waits)        b"": kept for later
                   offset = read whole packets of data  with `step` behind each of them
                   inbox.keep(data[offset:])
    work:          the same with inbox.take()
"""

from collections.abc import Iterator

from artemis_py.core.runtime.meter import Meter


class Inbox:
    """The fragments of one connection, in the order in which they came."""

    __slots__ = ("_chunks", "_meter", "is_cut_short", "needed", "size", "steps")

    def __init__(self, meter: Meter, needed: int) -> None:
        """Create an empty inbox; `needed` is the number of octets that the engine needs first."""
        self._meter: Meter = meter
        self._chunks: list[bytes] = []
        self.size: int = 0
        """Octets kept here."""
        self.needed: int = needed
        """Octets that the engine needs before it can continue. The engine sets it wherever it stops reading."""
        self.is_cut_short: bool = False
        """Whether the share of this turn ended before the work did. The engine sets it where it stops for that."""
        self.steps: Iterator[None] | None = None
        """Remaining work for the packet that was read last."""

    @property
    def has_rest(self) -> bool:
        """Whether there is anything left to process."""
        return self.is_cut_short or len(self._chunks) > 0

    def add(self, data: bytes, waits: bool) -> bytes:
        """Take received data, and return the data to process now; b"" if it is kept for later.

        `waits`: the engine itself waits, for its handler or because it reads nothing for a while.
        """
        if self._chunks:
            if waits or self.is_cut_short or self.size + len(data) < self.needed:
                self.keep(data)
                return b""
            self._chunks.append(data)
            return self.take()
        if waits or self.is_cut_short:
            self.keep(data)
            return b""
        return data

    def keep(self, data: bytes) -> None:
        """Keep data that could not be processed."""
        self._chunks.append(data)
        self.size += len(data)

    def take(self) -> bytes:
        """Return all kept data in one piece. The caller passes the unprocessed rest to `keep`."""
        chunks = self._chunks
        self._chunks = []
        self.size = 0
        self.is_cut_short = False
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def step(self) -> bool:
        """Do more of `steps`; return False if they need more than the share of this turn.

        Also returns True if a step ended the conversation and with it the input: the engine has to check for that.
        """
        steps = self.steps
        meter = self._meter
        assert steps is not None
        for _ in steps:
            if self.steps is not steps:
                return True
            if meter.work >= meter.end:
                self.is_cut_short = True
                return False
        self.steps = None
        return True

    def drop(self) -> None:
        """Discard everything: the conversation is over."""
        self._chunks = []
        self.size = 0
        self.steps = None
        self.is_cut_short = False
