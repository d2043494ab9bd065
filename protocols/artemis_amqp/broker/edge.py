"""What the transport calls for each read and each write of an AMQP connection.

Apart from the rest of `handler`, which says what frames mean to the broker, so that it can be compiled: with many
connections a read has few messages, and then these calls are a good part of what each message costs.
"""

from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from artemis_amqp.carrier.end import PeerEnd
from artemis_amqp.engine.connection import AmqpConnection
from artemis_py.wire.answers import Answers
from artemis_py.wire.partial_input import PartialInput

if TYPE_CHECKING:
    from artemis_amqp.broker.manager import AmqpProtocolManager


@mypyc_attr(allow_interpreted_subclasses=True)
class Edge:
    """The transport's side of one AMQP connection, as far as each call passes through it; see `ProtocolConnection`."""

    def __init__(
        self, manager: "AmqpProtocolManager", engine: AmqpConnection, answers: Answers, partial_input: PartialInput
    ) -> None:
        self.manager: AmqpProtocolManager = manager
        """Manager of the domain that the client opened; of the default one before."""
        self.engine: Final[AmqpConnection] = engine
        self.answers: Final[Answers] = answers
        self.partial_input: Final[PartialInput] = partial_input
        self.mesh_peer: PeerEnd | None = None
        """What takes the place of a session if the other side is a broker; the engine then calls it, and not us."""
        self._is_lost: bool = False

    @property
    def closed(self) -> bool:
        """Whether the connection is closed and nothing more will be sent."""
        return self.engine.closed or (self.mesh_peer is not None and self.mesh_peer.is_over)

    @property
    def is_over(self) -> bool:
        """Whether no answer can reach the client any more."""
        return self._is_lost or self.engine.closed

    @property
    def has_input(self) -> bool:
        """Whether frames wait for a later iteration of the loop."""
        return self.engine.has_input

    def receive_data(self, data: bytes, now: float) -> None:
        """Process received bytes; the store is asked once per call for all answers that wait for it."""
        self.engine.receive_data(data, now)
        _finish_call(self)

    def work(self, now: float) -> None:
        """Process frames that had to wait for a later iteration of the loop."""
        self.engine.work(now)
        _finish_call(self)

    def refuse_rest(self) -> None:
        """Close the connection: memory has no room for the rest of a message."""
        raise NotImplementedError

    def data_to_send(self) -> bytes:
        """Return the output and forget it."""
        return self.engine.data_to_send()

    def next_deadline(self) -> float | None:
        """Return when a heartbeat is due or the client has been silent for too long; None: never."""
        return self.engine.next_deadline()

    def handle_deadline(self, now: float) -> None:
        """Send a heartbeat that is due, or close the connection after the idle time-out."""
        self.engine.handle_deadline(now)


def _finish_call(edge: Edge) -> None:
    """Do what follows each read. Not a method: of a class that may be derived from, it would be called by its name."""
    engine = edge.engine
    if not edge.partial_input.update(engine.kept_bytes) and not (engine.closed or engine.has_input):
        edge.refuse_rest()
    edge.manager.lifetimes.run()
    edge.answers.ask_store()
    if edge.mesh_peer is not None:
        edge.mesh_peer.tell_news()
