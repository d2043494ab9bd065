"""Answers of one connection that promise something: they go out when the store has what they promise.

They are gathered while input is worked through, and the store is asked once for all of them: one callback for each call
of the transport, however many messages it brought. Answers keep the order in which they were gathered.
"""

from collections.abc import Callable
from functools import partial

from artemis_py.core.queues.storage import Storage
from artemis_py.wire.outbox import Outbox


class Answers:
    """The answers of one connection that wait for the store."""

    __slots__ = ("_failed", "_gathered", "_is_over", "_outbox", "_storage", "asked")

    def __init__(
        self, storage: Storage, outbox: Outbox, is_over: Callable[[], bool], failed: Callable[[str], None]
    ) -> None:
        """`is_over` tells whether the conversation is over: answers are dropped then.

        `failed` is called with the reason if what was promised may never be durable. The peer must be told that nobody
        knows whether a restart brings it back, and the connection must end.
        """
        self._storage: Storage = storage
        self._outbox: Outbox = outbox
        self._is_over: Callable[[], bool] = is_over
        self._failed: Callable[[str], None] = failed
        self._gathered: list[Callable[[], None]] = []
        self.asked: int = 0
        """How often the store was asked. An answer that collects for others may do so while this stays the same."""

    def when_durable(self, answer: Callable[[], None]) -> None:
        """Call `answer` when what was put into the store so far is durable; the next `ask_store` asks for it."""
        self._gathered.append(answer)

    def hold_output_from(self, offset: int) -> None:
        """Send what was written from this index in the outbox's chunks on, and all behind it, when it is durable."""
        self._outbox.put_gate(offset)
        self._gathered.append(self._outbox.open_gate)

    def ask_store(self) -> None:
        """Ask the store for all that was gathered. To be called at the end of each call of the transport."""
        if self._gathered:
            gathered = self._gathered
            self._gathered = []
            self.asked += 1
            self._storage.when_durable(partial(self._give, gathered), self._fail)

    def _give(self, gathered: list[Callable[[], None]]) -> None:
        if self._is_over():
            return
        for answer in gathered:
            answer()
        self._outbox.wake()

    def _fail(self, reason: str) -> None:
        if not self._is_over():
            self._failed(f"the store failed: {reason}; what was not answered may be stored or not")
