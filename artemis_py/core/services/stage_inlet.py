"""The inlet of a stage: replaces the inlet of an address for a producer whose messages wait for their epoch."""

from typing import TYPE_CHECKING, Final

from artemis_py.core.addresses.address import Address
from artemis_py.core.messages.message import Message
from artemis_py.core.routing.transaction import Transaction
from artemis_py.core.sessions.inlet import Inlet
from artemis_py.errors import InvalidRequest

if TYPE_CHECKING:
    from artemis_py.core.services.staging import Stage, Staging


class StageInlet(Inlet):
    """Stages messages that would have gone to an address."""

    def __init__(self, staging: "Staging", stage: "Stage", target: Inlet) -> None:
        """Create an inlet; `target` is that of the address to which the epoch will be routed."""
        super().__init__()
        self._staging: Final = staging
        self._stage: Final = stage
        self._target: Final = target
        self._holder: Final = stage.holder
        self.address = target.address

    def send(self, message: Message, transaction: Transaction | None, duplicate_id: bytes) -> int:
        """Stage a message. Duplicate ids are ignored: a repeated message is in an attempt that no commit names."""
        if transaction is not None:
            raise InvalidRequest("a stage takes no transactions: its epoch is a transaction already")
        address = self.address
        if address is None or address.is_deleted:
            address = self.prepare()
        assert address is not None
        self._staging.take(self._stage, message, address)
        return 1

    def refused(self) -> None:
        """Count a refused message in the stage; see `Staging.refuse`."""
        self._staging.refuse(self._stage)

    def prepare(self) -> Address | None:
        """Make sure that the address of the epoch exists."""
        self.address = self._target.prepare()
        return self.address

    def hold(self) -> None:
        """Keep the address of the epoch in use."""
        self._target.hold()

    def let_go(self) -> None:
        """Undo `hold`, and let the stage expire unless another link fills it."""
        self._target.let_go()
        self._staging.release(self._stage, self._holder)
