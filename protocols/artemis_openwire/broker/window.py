"""A consumer's window: how many messages it may have unacknowledged (openwire §14.3)."""


class Window:
    """The window of one consumer. What the application has seen without acknowledging it enlarges the window."""

    __slots__ = ("extension", "prefetch", "pulls")

    def __init__(self, prefetch: int) -> None:
        self.prefetch: int = max(prefetch, 0)
        """Messages that may wait at the client; 0: it asks for each one."""
        self.extension: int = 0
        self.pulls: int = 0
        """Messages that a client without prefetch has asked for."""

    def room(self, dispatched: int) -> int:
        """Return how many more messages may be sent while so many are not acknowledged."""
        return self.pulls if self.prefetch == 0 else self.prefetch + self.extension - dispatched

    def extend(self, count: int, dispatched: int) -> None:
        """Note messages that the application has, and that stay unacknowledged; there are no more than `dispatched`."""
        if self.prefetch > 0:
            self.extension = min(self.extension + max(count, 0), dispatched)

    def shrink(self, count: int) -> None:
        """Undo `extend` for messages that are acknowledged now."""
        if self.extension > 0:
            self.extension = max(0, self.extension - count)
