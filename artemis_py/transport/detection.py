"""Recognises the protocol of a new connection by its first bytes."""

from collections.abc import Sequence
from typing import Final

from artemis_py.protocol import ProtocolManager

# AMQP and its relatives are recognised by 8 bytes, MQTT by its fixed header and protocol name, HTTP by its request
# line. No protocol needs more than this, and no more is buffered for a stranger.
MAX_HEAD_BYTES: Final = 512


class UnknownProtocol(Exception):
    """No protocol of this acceptor begins like this."""


def recognise(managers: Sequence[ProtocolManager], head: bytes) -> ProtocolManager | None:
    """Return the first manager whose protocol begins with `head`; None if more bytes are needed.

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
