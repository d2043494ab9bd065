"""Which protocol a new connection speaks, told from its first bytes."""

from collections.abc import Sequence
from typing import Final

from artemis_py.protocol import ProtocolManager

# AMQP and its kin show themselves in 8 bytes, MQTT in its fixed header and protocol name, HTTP in its request line;
# nobody needs more than this, and a stranger gets no more buffered.
MAX_HEAD_BYTES: Final = 512


class UnknownProtocol(Exception):
    """No protocol of this acceptor begins like this."""


def recognise(managers: Sequence[ProtocolManager], head: bytes) -> ProtocolManager | None:
    """The manager whose protocol begins with `head`, the first one if several do; None: more bytes are needed.

    Raises UnknownProtocol if no protocol begins like this, or none was recognised within MAX_HEAD_BYTES.
    """
    is_open = False
    for manager in managers:
        match manager.matches(head):
            case True:
                return manager
            case None:
                is_open = True
    if not is_open or len(head) >= MAX_HEAD_BYTES:
        raise UnknownProtocol
    return None
