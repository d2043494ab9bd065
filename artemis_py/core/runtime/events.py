"""What the core tells the world about its decisions; it never logs by itself.

The broker listens to write the log, and later to emit notifications.
"""

from typing import Protocol

from artemis_py.core.runtime.access import Permission, Subject


class Listener(Protocol):
    """Told about what an operator wants to know. Called in the middle of the core's work: return at once."""

    def address_created(self, name: str, auto_created: bool) -> None: ...

    def address_deleted(self, name: str, reason: str) -> None: ...

    def queue_created(self, name: str, address: str, auto_created: bool) -> None: ...

    def queue_deleted(self, name: str, address: str, reason: str) -> None: ...

    def unrouted(self, address: str) -> None:
        """The first message that no queue of this address wanted since its queues last changed."""

    def dropped(self, queue: str, reason: str, count: int) -> None:
        """So many messages were discarded for want of a dead-letter or expiry queue, or by policy (`discards`)."""

    def duplicate(self, address: str, id: str) -> None:
        """A message was not routed, for the address had taken one under the same id."""

    def address_full(self, address: str, policy: str, size_bytes: int) -> None:
        """The address went over its limit (told once until it has room again)."""

    def address_has_room(self, address: str) -> None:
        """The address is below its limit again."""

    def limit_reached(self, text: str, peer: str) -> None:
        """A client was refused what a limit does not allow; the text names user and limit."""

    def denied(self, subject: Subject, permission: Permission, address: str, queue: str | None, peer: str) -> None:
        """Somebody asked for what they may not do."""


class NoListener:
    """Nobody listens."""

    def address_created(self, name: str, auto_created: bool) -> None: ...

    def address_deleted(self, name: str, reason: str) -> None: ...

    def queue_created(self, name: str, address: str, auto_created: bool) -> None: ...

    def queue_deleted(self, name: str, address: str, reason: str) -> None: ...

    def unrouted(self, address: str) -> None: ...

    def dropped(self, queue: str, reason: str, count: int) -> None: ...

    def duplicate(self, address: str, id: str) -> None: ...

    def address_full(self, address: str, policy: str, size_bytes: int) -> None: ...

    def address_has_room(self, address: str) -> None: ...

    def limit_reached(self, text: str, peer: str) -> None: ...

    def denied(self, subject: Subject, permission: Permission, address: str, queue: str | None, peer: str) -> None: ...
