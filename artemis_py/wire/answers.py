"""Answers of one connection that promise durability: each is sent when the store has what it promises.

They are gathered while input is processed, and the store is asked once for all of them: one callback for each call of
the transport, however many messages it brought. Answers are sent in the order in which they were gathered.

Answers to a call that other nodes of a mesh must know of (a new subscription) also wait until these do, and those that
follow wait behind them.
"""

from collections import deque
from collections.abc import Callable
from functools import partial

from artemis_py.core.queues.storage import Storage
from artemis_py.core.runtime.announcement import Announcement, Announcements
from artemis_py.wire.outbox import Outbox


class Answers:
    """The answers of one connection that wait for the store."""

    __slots__ = ("_announcements", "_failed", "_gathered", "_is_over", "_outbox", "_storage", "_waiting", "asked")

    def __init__(
        self,
        storage: Storage,
        outbox: Outbox,
        is_over: Callable[[], bool],
        failed: Callable[[str], None],
        announcements: Announcements,
    ) -> None:
        """Create an empty collection; when `is_over` returns true the conversation is over and answers are discarded.

        `failed` is called with the reason if what was promised may never be durable. It must tell the peer that it
        is unknown whether a restart brings it back, and end the connection.
        """
        self._storage: Storage = storage
        self._outbox: Outbox = outbox
        self._is_over: Callable[[], bool] = is_over
        self._failed: Callable[[str], None] = failed
        self._gathered: list[Callable[[], None]] = []
        self._announcements: Announcements = announcements
        self._waiting: deque[tuple[list[Callable[[], None]], Announcement | None]] = deque()
        """Answers that are durable, and wait for other nodes or behind such answers."""
        self.asked: int = 0
        """Number of times the store was asked. While it stays the same, one answer may still cover further messages."""

    def when_durable(self, answer: Callable[[], None]) -> None:
        """Call `answer` once everything written to the store so far is durable; the next `ask_store` asks for that."""
        self._gathered.append(answer)

    def hold_output_from(self, offset: int) -> None:
        """Keep back the outbox's chunks from this index on until everything written to the store so far is durable."""
        self._outbox.put_gate(offset)
        self._gathered.append(self._outbox.open_gate)

    def ask_store(self) -> None:
        """Ask the store on behalf of all gathered answers. Call this at the end of each call of the transport."""
        if self._gathered:
            gathered = self._gathered
            self._gathered = []
            self.asked += 1
            announcement = self._announcements.fresh
            if announcement is None:
                self._storage.when_durable(partial(self._durable, gathered), self._fail)
            else:
                self._announcements.fresh = None
                self._storage.when_durable(partial(self._await, gathered, announcement), self._fail)

    def _durable(self, gathered: list[Callable[[], None]]) -> None:
        if self._waiting:
            self._waiting.append((gathered, None))
        else:
            self._give(gathered)

    def _await(self, gathered: list[Callable[[], None]], announcement: Announcement) -> None:
        """Give answers when other nodes know of what they promise."""
        if announcement.is_over:
            self._durable(gathered)
            return
        self._waiting.append((gathered, announcement))
        announcement.when_over(self._go_on)

    def _go_on(self) -> None:
        waiting = self._waiting
        while waiting and (waiting[0][1] is None or waiting[0][1].is_over):
            self._give(waiting.popleft()[0])

    def _give(self, gathered: list[Callable[[], None]]) -> None:
        if self._is_over():
            return
        for answer in gathered:
            answer()
        self._outbox.wake()

    def _fail(self, reason: str) -> None:
        if not self._is_over():
            self._failed(f"the store failed: {reason}; what was not answered may be stored or not")
