"""The states of a driver, from accepted to lost."""

from enum import Enum, auto


class State(Enum):
    """State of a driver."""

    NEW = auto()
    ENCRYPTING = auto()
    DETECTING = auto()
    OPEN = auto()
    LINGERING = auto()
    """The last bytes are on their way; what arrives is discarded."""
    DRAINING = auto()
    """The socket is gone, and what had arrived before is still being processed."""
    LOST = auto()
