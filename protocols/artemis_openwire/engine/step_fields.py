"""One step of a local transaction, read from its octets (openwire §15.1). Compiled.

code, command id, answer wanted | connection | transaction: its number, and the connection again | step

A client of small transactions sends two of them for each. From one to the next only the number and the step change, so
the first is read as any other command, and later ones are compared with it.
"""

from typing import Final

from artemis_openwire.engine.codec import write_nested
from artemis_openwire.engine.commands import TransactionInfo
from artemis_openwire.engine.fields import skip_string
from artemis_openwire.engine.structures import LocalTransactionId

BEGIN: Final = 0
COMMIT_ONE_PHASE: Final = 2
ROLLBACK: Final = 4

_CONNECTION_AT: Final = 6

# Steps up to this size are remembered: two names of a connection, some 40 octets each.
_MAX_KNOWN: Final = 1024


class StepFields:
    """One step; the same object reads one after the other."""

    def __init__(self) -> None:
        self.key: bytes = b""
        """The transaction as a field, to look it up by."""
        self.step: int = 0
        """BEGIN, COMMIT_ONE_PHASE or ROLLBACK."""
        self._size: int = -1
        """Size of the step that is known; -1: none is."""
        self._key_at: int = 0
        self._before: bytes = b""
        """What stands in front of the number of the transaction, and behind it."""
        self._behind: bytes = b""

    def learn(self, body: bytes, command: TransactionInfo, version: int) -> None:
        """Remember a step that was read as `command`, if it is one of a local transaction."""
        self._size = -1
        if not isinstance(command.transaction_id, LocalTransactionId) or len(body) > _MAX_KNOWN:
            return
        key = write_nested(command.transaction_id, version)
        key_at = _CONNECTION_AT + 1 if body[_CONNECTION_AT] == 0 else skip_string(body, _CONNECTION_AT + 2)
        end = len(body) - 1
        if body[key_at:end] != key:
            # Encoded in a way of its own: it has to be decoded each time.
            return
        self._size = len(body)
        self._key_at = key_at
        self._before = body[_CONNECTION_AT : key_at + 2]
        self._behind = body[key_at + 10 : end]

    def read(self, body: bytes) -> bool:
        """Read a step that is like the one known; False if it is not."""
        if len(body) != self._size:
            return False
        key_at = self._key_at
        end = len(body) - 1
        if body[_CONNECTION_AT : key_at + 2] != self._before or body[key_at + 10 : end] != self._behind:
            return False
        self.key = body[key_at:end]
        self.step = body[end]
        return self.step in (BEGIN, COMMIT_ONE_PHASE, ROLLBACK)
