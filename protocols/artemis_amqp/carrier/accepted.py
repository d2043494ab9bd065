"""The side that is dialled: the broker's AMQP handler passes a connection on once it has seen who it is."""

from collections.abc import Callable
from typing import Final

from artemis_amqp.carrier.end import PeerEnd
from artemis_amqp.engine.connection import AmqpConnection
from artemis_amqp.engine.performatives import AmqpError


class AcceptedPeer(PeerEnd):
    """A connection that another broker made."""

    def __init__(
        self, engine: AmqpConnection, peer: str, woken: Callable[[], None], failed: Callable[[AmqpError], None]
    ) -> None:
        """Take over an engine; `failed` is called when the other side broke the protocol."""
        super().__init__(engine, peer, is_dialled=False)
        self._woken: Final = woken
        self._failed: Final = failed

    def wake(self) -> None:
        """Tell the transport about output that was written outside of one of its calls."""
        self._woken()

    def on_error(self, error: AmqpError) -> None:
        """End, and tell the log."""
        self._failed(error)
        super().on_error(error)
