"""Counters: numbers that are unique in a broker, across all of its domains.

A store finds a message or a queue by its number alone, and a log line names a session by it. So two domains on one
dispatcher share the counters.
"""


class Numbers:
    """The next number of each kind. Code that takes one directly must add one."""

    __slots__ = ("id", "message_id", "queue_id")

    def __init__(self) -> None:
        self.id: int = 1
        """Next number for sessions, consumers and transactions."""
        self.message_id: int = 1
        self.queue_id: int = 1

    def new_id(self) -> int:
        """Take the next number for a session, a consumer or a transaction."""
        number = self.id
        self.id = number + 1
        return number

    def new_message_id(self) -> int:
        """Take the next number for a message."""
        number = self.message_id
        self.message_id = number + 1
        return number

    def go_on_from(self, message_id: int, queue_id: int) -> None:
        """Start new numbers of messages and queues at these, or higher; the store knows what earlier runs have used."""
        self.message_id = max(self.message_id, message_id)
        self.queue_id = max(self.queue_id, queue_id)
