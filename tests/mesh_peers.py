"""Two brokers in memory and a mesh that writes down what it hears: for tests of what carries the mesh."""

from collections.abc import Mapping
from typing import Any, Final

from artemis_py.core.runtime.access import Subject
from artemis_py.core.runtime.carrier import (
    Greeting,
    Lane,
    PeerConnection,
    PeerLimits,
    PeerLogin,
    PeerRefused,
    Welcome,
)
from artemis_py.protocol import ConnectionContext, OutgoingContext, ProtocolConnection
from artemis_py.security.authenticator import OpenAuthenticator
from tests.amqp_broker import Broker


class Notes:
    """A listener that writes everything down, and confirms messages if it is told to."""

    def __init__(self, confirms: bool = False) -> None:
        self.heard: list[tuple[Any, ...]] = []
        self.connection: PeerConnection | None = None
        self.refusal: PeerRefused | None = None
        self.confirms = confirms
        self.reads = 0

    def opened(self, connection: PeerConnection, hello: Mapping[str, object]) -> None:
        """The beginning."""
        self.heard.append(("opened", dict(hello)))
        if self.refusal is not None:
            raise self.refusal
        self.connection = connection

    def control(self, records: bytes) -> None:
        """Records."""
        self.heard.append(("control", records))

    def message(self, lane: Lane, number: int, message: bytes) -> None:
        """A message."""
        self.heard.append((lane, number, message))
        if self.confirms and self.connection is not None:
            self.connection.accept(lane, number)

    def has_read(self) -> None:
        """The end of a read with messages."""
        self.reads += 1

    def accepted(self, lane: Lane, number: int) -> None:
        """Confirmations."""
        self.heard.append(("accepted", lane, number))

    def has_room(self) -> None:
        """Room."""
        self.heard.append(("room",))

    def lost(self, reason: str) -> None:
        """The end."""
        self.heard.append(("lost", reason))

    def take(self) -> list[tuple[Any, ...]]:
        """What was heard since the last call."""
        heard, self.heard = self.heard, []
        return heard

    @property
    def there(self) -> PeerConnection:
        """The connection, which has opened."""
        assert self.connection is not None
        return self.connection


class OneMesh:
    """A mesh with one listener for all that come."""

    def __init__(self, listener: Notes, limits: PeerLimits | None = None) -> None:
        self.listener: Final = listener
        self.limits: Final = limits or PeerLimits()
        self.refusal: PeerRefused | None = None
        self.subjects: Final[list[Subject]] = []
        self.answer: Mapping[str, object] = {"node": "server"}

    def welcome(self, hello: Mapping[str, object], subject: Subject) -> Welcome:
        """Let them in."""
        self.subjects.append(subject)
        if self.refusal is not None:
            raise self.refusal
        return Welcome(hello=self.answer, listener=self.listener, limits=self.limits)


class Pair:
    """A broker that dials another: two ends of one connection, between which the test passes octets."""

    def __init__(self, limits: PeerLimits | None = None, mesh: bool = True, **greeting: Any) -> None:
        self.here: Final = Notes()
        self.there: Final = Notes()
        self.broker: Final = Broker()
        self.mesh: Final = OneMesh(self.there, limits)
        self.broker.host.mesh = self.mesh if mesh else None
        context = ConnectionContext(
            connection_id=1, peer="127.0.0.1:5", is_loopback=True, authenticator=OpenAuthenticator(), wake=self._wake
        )
        self.server: Final[ProtocolConnection] = self.broker.manager.connect(context)
        outgoing = OutgoingContext(
            connection_id=2,
            peer="127.0.0.1:6",
            host="there",
            is_loopback=True,
            is_encrypted=False,
            has_certificate=False,
            wake=self._wake,
        )
        values: dict[str, Any] = {
            "hello": {"node": "client"},
            "login": PeerLogin(user="mesh", password="secret"),
        } | greeting
        hello = values.pop("hello")
        limits = limits or PeerLimits()
        self.client: Final[ProtocolConnection] = Broker().manager.dial(
            outgoing, Greeting(hello=lambda: hello, listener=self.here, limits=limits, **values)
        )
        self.now = 0.0

    def _wake(self) -> None:
        pass

    def run(self) -> None:
        """Pass octets on until neither side has any."""
        while self.step():
            pass

    def step(self) -> int:
        """Pass on what each side has; return how much it was."""
        there, back = self.client.data_to_send(), self.server.data_to_send()
        if there:
            self.server.receive_data(there, self.now)
        if back:
            self.client.receive_data(back, self.now)
        return len(there) + len(back)
