"""How far a connection to another broker is (mesh §5.4).

    LOGIN      dialled or accepted; the other side has not said who it is
    FENCING    an older connection to the same broker is forgotten; what it brought is being committed
    RESUMING   the marks are told; claims of the former connection are settled by the peer's marks, and committed
    SYNCING    both sides tell what they have
    UP         messages may be handed over
    CLOSED     nothing of this connection counts any more; claims are in doubt until the peer has told its marks again

A connection that is UP is suspect while the peer is silent: it gets no more messages until it speaks.
"""

from enum import Enum


class PeerState(Enum):
    """How far a connection is."""

    LOGIN = "login"
    FENCING = "fencing"
    RESUMING = "resuming"
    SYNCING = "syncing"
    UP = "up"
    CLOSED = "closed"
