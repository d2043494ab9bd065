"""Counters: numbers that are unique in a broker, whatever domain they are for.

They belong to what domains share. A store finds a message and a queue by its number alone, and a log line names a
session by it, so two domains on one dispatcher take theirs from the same counters.
"""


class Numbers:
    """The next number of each kind. Whoever takes one adds one."""

    __slots__ = ("id", "message_id", "queue_id")

    def __init__(self) -> None:
        self.id: int = 1
        """Sessions, consumers and transactions."""
        self.message_id: int = 1
        self.queue_id: int = 1

    def new_id(self) -> int:
        """Take the number of a session, a consumer or a transaction."""
        number = self.id
        self.id = number + 1
        return number

    def new_message_id(self) -> int:
        """Take the number of a message."""
        number = self.message_id
        self.message_id = number + 1
        return number

    def go_on_from(self, message_id: int, queue_id: int) -> None:
        """Number new messages and queues from these on, or higher: the store knows what earlier runs have taken."""
        self.message_id = max(self.message_id, message_id)
        self.queue_id = max(self.queue_id, queue_id)
