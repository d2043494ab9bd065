"""Output of one connection, collected until the transport takes it.

Answers are always accepted; deliveries ask `has_room` or `ask_for_room` first, and stop at a limit while the peer reads
too slowly. Output may also have to wait for the store: a gate stands at an offset, and nothing behind it is sent before
the gate is opened, so output always keeps its order.

    chunks:  attached, 1st | attach answer, flow | detach answer     two gates: `take` returns what is before the first
                           ^ gate                ^ gate
"""

from collections.abc import Callable


class Outbox:
    """The chunks of one connection, in the order in which they are sent."""

    __slots__ = ("_gates", "chunks", "is_closed", "is_paused", "limit", "size", "wake", "was_full")

    def __init__(self, limit_bytes: int, wake: Callable[[], None]) -> None:
        """Create an empty outbox that calls `wake` when the first output is added."""
        self.limit: int = limit_bytes
        self.wake: Callable[[], None] = wake
        self.chunks: list[bytes | memoryview] = []
        """Code that writes per message appends here directly, adds to `size`, and calls `wake` if this was empty."""
        self.size: int = 0
        """Octets in `chunks`."""
        self.is_paused: bool = False
        self.was_full: bool = False
        """Whether a sender found no room, and has to be told when there is some."""
        self.is_closed: bool = False
        """Whether the last output has been written."""
        self._gates: list[int] = []
        """Indexes in `chunks`, ascending."""

    @property
    def has_room(self) -> bool:
        """Whether deliveries may be written."""
        return not self.is_paused and self.size < self.limit

    def ask_for_room(self) -> bool:
        """Tell whether deliveries may be written; if not, `was_full` remembers that a sender asked."""
        if self.is_paused or self.size >= self.limit:
            self.was_full = True
            return False
        return True

    def write(self, data: bytes | memoryview) -> None:
        """Collect output. After `close` it is discarded."""
        if self.is_closed:
            return
        if not self.chunks:
            self.wake()
        self.chunks.append(data)
        self.size += len(data)

    def write_pieces(self, first: bytes, second: bytes, third: bytes, size: int) -> None:
        """Collect one packet of `size` octets in three pieces, which are joined only when all output is taken.

        It saves two calls for each message. Must not be called after `close`.
        """
        chunks = self.chunks
        if not chunks:
            self.wake()
        chunks.append(first)
        chunks.append(second)
        chunks.append(third)
        self.size += size

    def take(self) -> bytes:
        """Return all output up to the first gate, which may be nothing. If there is any, `was_full` is reset."""
        chunks = self.chunks
        rest: list[bytes | memoryview] = []
        if self._gates:
            stop = self._gates[0]
            rest = chunks[stop:]
            chunks = chunks[:stop]
            self._gates = [offset - stop for offset in self._gates]
        if not chunks:
            return b""
        self.chunks = rest
        data = b"".join(chunks)
        self.size -= len(data)
        self.was_full = False
        return data

    def pause(self) -> None:
        """Have no room until `resume`, because the peer reads too slowly."""
        self.is_paused = True
        self.was_full = True

    def resume(self) -> bool:
        """Have room again; return False if it was not paused."""
        if not self.is_paused:
            return False
        self.is_paused = False
        self.was_full = False
        return True

    # -- output that waits for the store ------------------------------------------------------------------------------

    def put_gate(self, offset: int) -> None:
        """Keep back `chunks` from `offset` on, where a packet begins. Each gate needs one `open_gate`, in order."""
        if not self.is_closed:
            self._gates.append(offset)

    @property
    def has_gate_first(self) -> bool:
        """Whether nothing can be taken before the first gate is opened."""
        return len(self._gates) > 0 and self._gates[0] == 0

    def open_gate(self) -> None:
        """Open the gate that was put first."""
        if self._gates:
            self._gates.pop(0)
            if self.chunks:
                self.wake()

    def drop_gated(self) -> bool:
        """Discard the output behind gates at the end: it is not true yet. Return False if there is none."""
        if not self._gates:
            return False
        offset = self._gates[0]
        self.size -= sum([len(chunk) for chunk in self.chunks[offset:]])
        del self.chunks[offset:]
        self._gates = []
        return True

    def write_before_gates(self, data: bytes) -> bool:
        """Write a heartbeat if no other output can be taken, even in front of a gate; return False if some can.

        A slow disk must not make the peer believe that the broker is gone.
        """
        if not self.chunks:
            self.write(data)
        elif self._gates and self._gates[0] == 0 and not self.is_closed:
            self.chunks.insert(0, data)
            self.size += len(data)
            self._gates = [offset + 1 for offset in self._gates]
            self.wake()
        else:
            return False
        return True

    def close(self) -> None:
        """Accept no more output; what was collected is still sent."""
        self.is_closed = True
