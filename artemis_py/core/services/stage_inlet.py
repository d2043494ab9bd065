"""The inlet of a stage: takes the place of an address in a producer whose messages wait for their epoch."""

from typing import TYPE_CHECKING, Final

from artemis_py.core.addresses.address import Address
from artemis_py.core.messages.message import Message
from artemis_py.core.routing.transaction import Transaction
from artemis_py.core.sessions.inlet import Inlet
from artemis_py.errors import InvalidRequest

if TYPE_CHECKING:
    from artemis_py.core.services.staging import Stage, Staging


class StageInlet(Inlet):
    """Stages what would have gone to an address."""

    def __init__(self, staging: "Staging", stage: "Stage", target: Inlet) -> None:
        """`target`: the inlet of the address that the epoch will be routed to."""
        super().__init__()
        self._staging: Final = staging
        self._stage: Final = stage
        self._target: Final = target
        self.address = target.address

    def send(self, message: Message, transaction: Transaction | None, duplicate_id: bytes) -> int:
        """Stage a message. A duplicate id counts for nothing: what is sent twice is in an attempt that is not named."""
        if transaction is not None:
            raise InvalidRequest("a stage takes no transactions: its epoch is one")
        address = self.address
        if address is None or address.is_deleted:
            address = self.prepare()
        assert address is not None
        self._staging.take(self._stage, message, address)
        return 1

    def refused(self) -> None:
        """Count it in the stage: see `Staging.refuse`."""
        self._staging.refuse(self._stage)

    def prepare(self) -> Address | None:
        """Make sure that the address of the epoch is there."""
        self.address = self._target.prepare()
        return self.address

    def hold(self) -> None:
        """Keep that address in use."""
        self._target.hold()

    def let_go(self) -> None:
        """Undo `hold`."""
        self._target.let_go()
