"""What is known of a peer for as long as it is connected, besides its queues: its plans, and facts for operators."""


class Visit:
    """Facts about one connection to another broker."""

    __slots__ = ("clock_difference_ms", "is_leaving", "offers", "since_ms")

    def __init__(self) -> None:
        self.is_leaving: bool = False
        """Whether the peer is being drained, or has left: it gets nothing more."""
        self.offers: dict[tuple[str, str], None] = {}
        """Addresses and queues of the peer from which this broker is to take everything."""
        self.since_ms: int = 0
        """Time at which messages could be handed over first, in milliseconds since 1970; 0: not yet."""
        self.clock_difference_ms: int = 0
        """How far the clock of the peer was ahead when it said hello; the time on the way counts as its delay."""
