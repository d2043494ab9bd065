"""Messages that wait in a queue and have no references yet.

A copy for one of many subscribers waits only for the next visit of the dispatcher, and then goes to the one consumer
that there is. Until then the message alone is enough. A reference that is made at the visit was in no list, and lies in
memory beside the one before it, which the same client is about to acknowledge as well.

Whatever else looks at the queue finds a reference for each message: the backlog makes them before it shows its lists.
"""

from typing import TYPE_CHECKING, Final, cast

from artemis_py.core.messages.message import Message
from artemis_py.core.queues.reference import Reference

if TYPE_CHECKING:
    from artemis_py.core.queues.queue import Queue

# Places of messages that are gone are removed when there are so many of them, and half of all.
_LEAST_PLACES: Final = 64


class Unlisted:
    """The newest messages of one queue."""

    __slots__ = ("_first", "_messages", "_taken", "count")

    def __init__(self) -> None:
        self._messages: list[Message | None] = []
        """The messages; None in the places of the first `_taken`."""
        self._taken: int = 0
        self._first: int = 0
        """Sequence that belongs to the first place; those of the others follow."""
        self.count: int = 0

    def add(self, message: Message, sequence: int) -> None:
        """Add the newest message; its sequence follows that of the message before it."""
        if self.count == 0:
            self._first = sequence
        self._messages.append(message)
        self.count += 1

    def take(self, queue: "Queue") -> Reference:
        """Remove the first message, and return a reference to it."""
        messages = self._messages
        taken = self._taken
        message = messages[taken]
        assert message is not None
        reference = Reference(message, queue)
        reference.sequence = self._first + taken
        messages[taken] = None
        taken += 1
        self.count -= 1
        if self.count == 0:
            self._messages = []
            self._taken = 0
        else:
            self._trim(taken)
        return reference

    def first(self, count: int) -> tuple[list[Message], int]:
        """Return the first `count` messages, which stay, and the sequence of the first one."""
        taken = self._taken
        return cast(list[Message], self._messages[taken : taken + count]), self._first + taken

    def remove(self, count: int) -> None:
        """Remove the first `count` messages."""
        messages = self._messages
        self.count -= count
        if self.count == 0:
            self._messages = []
            self._taken = 0
            return
        taken = self._taken
        messages[taken : taken + count] = [None] * count
        self._trim(taken + count)

    def _trim(self, taken: int) -> None:
        """Note that so many places are used up, and remove them if they are half of all."""
        if taken >= _LEAST_PLACES and 2 * taken >= len(self._messages):
            # No more are moved than were taken since the last time.
            self._first += taken
            del self._messages[:taken]
            taken = 0
        self._taken = taken

    def take_all(self, queue: "Queue") -> list[Reference]:
        """Remove all messages, and return references to them."""
        found: list[Reference] = []
        while self.count > 0:
            found.append(self.take(queue))
        return found
