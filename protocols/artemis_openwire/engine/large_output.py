"""Large bodies that are sent in the middle of frames, read from their files piece by piece.

output:  beginning of a frame | end of the frame, other frames ...
                              ^ gate, which is opened when the body was read to its end
"""

from collections import deque
from typing import Final

from artemis_py.core.messages.large_body import LargeBody, LargeReader
from artemis_py.wire.outbox import Outbox

PIECE_BYTES: Final = 256 * 1024
"""What is read at a time; as much as a socket usually takes."""


class _Output:
    """One body."""

    def __init__(self, body: LargeBody) -> None:
        self.left: int = body.size
        self.reader: Final[LargeReader] = body.reader()


class LargeOutputs:
    """The bodies of one connection, in the order in which they are sent; each is in front of a gate of the output."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox: Final = outbox
        self._outputs: Final[deque[_Output]] = deque()
        self._opened: _Output | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no body is being sent."""
        return not self._outputs

    def open(self, body: LargeBody) -> None:
        """Open a body, which stays readable even if its message is deleted; `add` follows. Raises StoreError."""
        self._opened = _Output(body)

    def add(self, beginning: bytes, end: bytes) -> None:
        """Send the frame around the body that was opened."""
        opened = self._opened
        assert opened is not None, "it was opened"
        self._opened = None
        self._outbox.write(beginning)
        self._outputs.append(opened)
        self._outbox.put_gate(len(self._outbox.chunks))
        self._outbox.write(end)

    def read(self) -> bytes:
        """Return the next piece, if everything in front of it was taken. Raises StoreError for a damaged body."""
        outbox = self._outbox
        if not outbox.has_gate_first:
            return b""
        output = self._outputs[0]
        data = output.reader.read(min(PIECE_BYTES, output.left))
        output.left -= len(data)
        if output.left == 0:
            self._outputs.popleft().reader.close()
            outbox.open_gate()
            # Deliveries may follow.
            outbox.was_full = True
        return data

    def release(self) -> None:
        """Send nothing more of them, nor of what is behind them: the conversation is over."""
        if self._outputs:
            self._outbox.drop_gated()
        while self._outputs:
            self._outputs.popleft().reader.close()
