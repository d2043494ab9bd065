"""What other nodes of a mesh must know before a client is answered; without a mesh nothing waits for it."""

from collections.abc import Callable


class Announcement:
    """A change that other nodes are being told."""

    def __init__(self) -> None:
        self.is_over: bool = False
        """Whether nobody need wait any more."""
        self.is_late: bool = False
        """Whether it ends, or has ended, although a node does not know of the change."""
        self._calls: list[Callable[[], None]] = []

    def when_over(self, call: Callable[[], None]) -> None:
        """Call `call` at the end, which has not come yet."""
        self._calls.append(call)

    def end(self) -> None:
        """Let those that wait continue."""
        self.is_over = True
        calls, self._calls = self._calls, []
        for call in calls:
            call()


class Announcements:
    """The announcement that was opened since an answer last asked for it."""

    __slots__ = ("fresh",)

    def __init__(self) -> None:
        self.fresh: Announcement | None = None
        """What the next answers have to wait for; the connection that takes it resets it."""
