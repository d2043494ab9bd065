"""Duplicate ids travel with messages: a node knows the ids of what it has taken over as if it was sent there.

A client that does not know whether its message arrived, and sends it again at another node, is recognised there if the
message has come to that node. If it comes later, there are two messages with one id. The node that has one of them
discards the other that is handed over to it, but only if it certainly keeps its own: two nodes that hand over their
messages to each other at the same time must not both discard.
"""

from typing import Final

from artemis_py.cluster.envelope import Envelope
from artemis_py.core.messages.message import Message
from artemis_py.core.routing.domain import Domain
from artemis_py.core.routing.duplicates import TRAVELLING_ID, readable
from artemis_py.core.runtime.events import Duplicate

MAX_LEFT: Final = 100_000
"""Ids of messages that were handed over in this run, of which so many are remembered; about 20 MiB. Beyond that nothing
is discarded any more: a second message is a nuisance, a lost one is not."""


class DuplicateIds:
    """What arrives under an id, and what leaves."""

    def __init__(self, domain: Domain) -> None:
        self.discarded: int = 0
        """Number of messages that were discarded because this node has one with the same id."""
        domain.duplicates.travel = True
        self._domain: Final = domain
        self._left: Final[set[str]] = set()
        """Addresses and ids of the messages that this node has handed over."""

    def leaves(self, message: Message) -> None:
        """Note that this node may have a message no longer."""
        if message.extra is None or len(self._left) >= MAX_LEFT:
            return
        text = message.extra.get(TRAVELLING_ID)
        if isinstance(text, str):
            self._left.add(text)

    def is_duplicate(self, envelope: Envelope, message: Message) -> bool:
        """Tell whether a message that is handed over is a second one, which is discarded then.

        It is one if this node took a message for this address under the same id in this run, and has handed over none.
        That cannot be the message itself, which would have left. Subscriptions of one address have messages of the same
        id by right.
        """
        text, id = self._read(message)
        if not id or envelope.is_shared or envelope.address != message.address:
            return False
        domain = self._domain
        address = domain.addresses.get(envelope.address)
        if (
            address is None
            or not domain.duplicates.knows(address, id)
            or not domain.duplicates.of(address).is_of_this_run(id)
            or text in self._left
            or len(self._left) >= MAX_LEFT
        ):
            return False
        self.discarded += 1
        domain.events.emit(Duplicate(address.name, readable(id)))
        return True

    def remember(self, message: Message) -> None:
        """Remember the id of a message that was taken over, in the commit that stores the message."""
        _, id = self._read(message)
        if not id:
            return
        address = self._domain.addresses.get(message.address)
        if address is not None:
            self._domain.duplicates.add(address, id, message.durable)

    def _read(self, message: Message) -> tuple[str, bytes]:
        """Return what a message carries, and its id; both empty if it has none, or was moved to another address."""
        text = None if message.extra is None else message.extra.get(TRAVELLING_ID)
        if not isinstance(text, str):
            return "", b""
        digits, _, name = text.partition(" ")
        try:
            id = bytes.fromhex(digits)
        except ValueError:
            return "", b""
        return (text, id) if name == message.address else ("", b"")
