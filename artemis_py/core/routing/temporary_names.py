"""Names of temporary addresses: how they are made, and who has those that are not here.

One broker makes random names, and a name that it does not know is like any other. In a mesh a name says which broker
made it: what is sent there goes to that broker, and nobody makes an ordinary address of such a name.
"""

from collections.abc import Callable

from artemis_py.core.addresses.binding import Binding
from artemis_py.core.messages.message import Message
from artemis_py.core.runtime.entropy import Entropy


class RemoteAddress(Binding):
    """A temporary address of another broker: takes messages for it. Its `address` counts them, and has no queues."""

    def check(self, message: Message | None = None) -> None:
        """Raise a Refusal if messages, or this one, cannot get there."""
        raise NotImplementedError

    def when_gone(self, call: Callable[[str], None]) -> None:
        """Run `call` with the reason when the address is gone, until `let_go`."""
        raise NotImplementedError

    def let_go(self, call: Callable[[str], None]) -> None:
        """Undo `when_gone`; harmless if it did not happen."""
        raise NotImplementedError


class TemporaryNames:
    """Random names of one broker; a mesh has others."""

    def __init__(self, entropy: Entropy) -> None:
        self._entropy: Entropy = entropy

    def new(self) -> str:
        """Return a name that nobody can guess."""
        return self._entropy.uuid()

    def find(self, name: str) -> RemoteAddress | None:
        """Return the address of this name if another broker has it, as far as its name tells."""
        return None

    def check_free(self, name: str, user: str | None) -> None:
        """Raise AddressExists if a client of another user has a temporary address of this name at another broker."""

    def check_unused(self, name: str) -> None:
        """Raise NoSuchAddress for the name of a temporary address, which is not created again for a client."""
