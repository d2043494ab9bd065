"""What management does to single messages of a queue: copy or move them, send them back, expire, kill or list them.

A message is moved in one commit of the store: after a crash it is in one of the two queues, never in both or neither.
Each goes to its new queue within the limits of the address there. One that the queue does not take stays where it is.
"""

from typing import Final

from artemis_py.core.addresses.address import Address
from artemis_py.core.messages.message import Message
from artemis_py.core.queues.outcomes import BY_ADMINISTRATOR
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.reference import Reference
from artemis_py.core.queues.settlement import forget
from artemis_py.core.queues.treating import Treatment
from artemis_py.core.routing.domain import Domain
from artemis_py.core.routing.undeliverable import ORIGIN_NOTES, note_origin
from artemis_py.core.runtime.access import Permission
from artemis_py.core.sessions.session import Session
from artemis_py.errors import AddressFull


class Remove(Treatment):
    """Discards messages."""

    def __init__(self) -> None:
        super().__init__(removes=True)

    def begin(self, reference: Reference) -> bool:
        """Take every message."""
        return True

    def end(self, reference: Reference) -> None:
        """Count it, and forget it."""
        reference.queue.messages_killed += 1
        forget(reference)


class Count(Treatment):
    """Changes nothing: the selection counts."""

    def __init__(self) -> None:
        super().__init__(removes=False)

    def begin(self, reference: Reference) -> bool:
        """Take every message."""
        return True


class Expire(Remove):
    """Sends messages to the expiry address, as if their time were over."""

    def end(self, reference: Reference) -> None:
        """Expire it."""
        reference.queue.expiry.end(reference)


class Kill(Remove):
    """Sends messages to the dead-letter address."""

    def end(self, reference: Reference) -> None:
        """Kill it."""
        reference.queue.messages_killed += 1
        reference.queue.routing.dead_letter(reference, BY_ADMINISTRATOR)
        forget(reference)


class Copy(Remove):
    """Puts copies of messages into another queue."""

    def __init__(self, domain: Domain, target: Queue) -> None:
        super().__init__()
        self.removes = False
        self._domain: Final = domain
        self._target: Final = target

    def begin(self, reference: Reference) -> bool:
        """Copy it; False if the other queue does not take it. Raises AddressFull."""
        message, target = reference.message, self._target
        copy = message.copy(target.address.name)
        if message.extra is None or ORIGIN_NOTES[0] not in message.extra:
            # The notes of the first death stay, so that it can still be sent back.
            note_origin(copy, message, reference.queue.name)
        copy.expires_ms = message.expires_ms
        return put(self._domain, copy, target)


class Move(Copy):
    """Moves messages to another queue."""

    def __init__(self, domain: Domain, target: Queue) -> None:
        super().__init__(domain, target)
        self.removes = True


class Retry(Remove):
    """Sends dead letters and expired messages back where they came from."""

    def __init__(self, domain: Domain, session: Session) -> None:
        super().__init__()
        self._domain: Final = domain
        self._session: Final = session
        self._checked: Final[set[str]] = set()

    def begin(self, reference: Reference) -> bool:
        """Send it back to the queue it came from, or if that is gone, to its address; False if nothing takes it there.

        Raises NotAuthorized or AddressFull.
        """
        message = reference.message
        notes = message.extra or {}
        name, queue_name = notes.get(ORIGIN_NOTES[0]), notes.get(ORIGIN_NOTES[1])
        if not isinstance(name, str):
            return False
        if name not in self._checked:
            self._session.check(Permission.SEND, name)
            self._checked.add(name)
        copy = message.copy(name)
        copy.extra = {key: value for key, value in notes.items() if key not in ORIGIN_NOTES} or None
        routing_type = notes.get("_AMQ_ORIG_ROUTING_TYPE")
        if isinstance(routing_type, int):
            copy.routing_type = routing_type
        queue = self._domain.queues.get(queue_name) if isinstance(queue_name, str) else None
        if queue is reference.queue:
            return False
        if queue is not None:
            return put(self._domain, copy, queue)
        address = self._domain.addresses.get(name)
        if address is None or not self._domain.routers.of(address).select(copy):
            return False
        check_room(address)
        copy.stored_first = True
        return self._domain.route(copy, address, sender=self._session) > 0


def put(domain: Domain, copy: Message, target: Queue) -> bool:
    """Put a copy into one queue, within the limits of its address; False if the queue does not take it.

    Raises AddressFull.
    """
    if not target.keeps or not target.accepts(copy):
        return False
    check_room(target.address)
    copy.stored_first = True
    if not domain.admit(copy, target.address):
        raise AddressFull(f"address '{target.address.name}' is full")
    target.take(copy)
    return True


def check_room(address: Address) -> None:
    """Raise AddressFull if producers of an address have to wait."""
    if address.must_wait:
        raise AddressFull(f"no message goes to '{address.name}' now: {address.wait_reason}")
