"""The states of a driver, from accepted to lost."""

from enum import Enum, auto


class State(Enum):
    """What the driver is busy with."""

    NEW = auto()
    ENCRYPTING = auto()
    DETECTING = auto()
    OPEN = auto()
    LINGERING = auto()
    """The last bytes are on their way, what arrives is thrown away."""
    DRAINING = auto()
    """The socket is gone, and what had arrived before is still to be worked through."""
    LOST = auto()
