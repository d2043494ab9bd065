"""The inlet of a producer that sends to a temporary address of another broker: a reply to one of its clients."""

from collections.abc import Callable

from artemis_py.core.messages.message import Message
from artemis_py.core.routing.domain import Domain
from artemis_py.core.routing.temporary_names import RemoteAddress
from artemis_py.core.routing.transaction import Transaction
from artemis_py.core.sessions.inlet import Inlet


class RemoteInlet(Inlet):
    """Hands messages to a binding that knows the way."""

    def __init__(self, domain: Domain, remote: RemoteAddress) -> None:
        super().__init__()
        self._domain: Domain = domain
        self._remote: RemoteAddress = remote
        self._call: Callable[[str], None] | None = None
        self.address = remote.address

    def send(self, message: Message, transaction: Transaction | None, duplicate_id: bytes) -> int:
        """Take a message on its way; a transaction does that at its commit. Raises NoSuchAddress, AddressFull."""
        domain, remote = self._domain, self._remote
        remote.check(message)
        address = remote.address
        if duplicate_id and domain.is_duplicate(address, duplicate_id, transaction):
            return 0
        if not domain.admit(message, address):
            return 0
        if transaction is None:
            remote.take(message)
        else:
            transaction.send(message, [remote])
        if duplicate_id:
            domain.remember(address, duplicate_id, message, transaction)
        return 1

    def when_gone(self, call: Callable[[str], None]) -> None:
        """Run `call` when the other broker says that the address is gone."""
        self._call = call
        self._remote.when_gone(call)

    def let_go(self) -> None:
        """Undo `when_gone`."""
        if self._call is not None:
            self._remote.let_go(self._call)
            self._call = None
