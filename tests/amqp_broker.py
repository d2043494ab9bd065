"""AMQP connections to a broker in memory, without sockets: frames in, frames out, and the queues to look at."""

import re
from itertools import count
from typing import Any, Final

from attrs import evolve

from artemis_amqp.broker.manager import AmqpProtocolManager
from artemis_amqp.engine.performatives import (
    Accepted,
    Attach,
    Begin,
    Coordinator,
    Declare,
    Declared,
    Discharge,
    Disposition,
    Flow,
    Open,
    SaslInit,
    Source,
    Target,
    TransactionalState,
    Transfer,
    encode,
    frame,
)
from artemis_amqp.engine.states import AMQP_HEADER, SASL_HEADER
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.routing.domain import Domain
from artemis_py.core.settings.address_settings import AddressSettings
from artemis_py.protocol import ConnectionContext
from artemis_py.security.authenticator import OpenAuthenticator
from tests.amqp_harness import Frame, frame_with, read_frames
from tests.core_harness import make_domain, make_host, make_queue, settle_down

WINDOW: Final = 1000
_BODY: Final = re.compile(rb"\x00\x53(?:\x77\xa1|\x75\xa0).", re.DOTALL)


class Broker:
    """A domain in memory, and AMQP's part of it."""

    def __init__(
        self, settings: dict[str, AddressSettings] | None = None, domain: Domain | None = None, **parameters: str
    ) -> None:
        """`parameters` are those of the acceptor."""
        self.domain: Final = make_domain(settings) if domain is None else domain
        self.host: Final = make_host(self.domain)
        self.manager: Final = AmqpProtocolManager(self.host)
        self.parameters: Final = self.manager.read_parameters("amqp", parameters)
        self._ids: Final = count(1)

    def queue(self, name: str = "q", **options: object) -> None:
        """Make an ANYCAST queue."""
        make_queue(self.domain, name, RoutingType.ANYCAST, **options)

    def connect(self, container: str = "c", user: str | None = None, **opening: Any) -> "Peer":
        """A connection that is open, with a session on channel 0; of a user, or anonymous without a login."""
        return Peer(self, next(self._ids), container, user, opening)

    def waiting(self, name: str = "q") -> int:
        """Messages of a queue that anybody may have."""
        return self.domain.queue(name).waiting_count

    def count(self, name: str = "q") -> int:
        """All messages of a queue."""
        return self.domain.queue(name).message_count


class Peer:
    """The test's end of one connection."""

    def __init__(self, broker: Broker, number: int, container: str, user: str | None, opening: dict[str, Any]) -> None:
        self.broker: Final = broker
        context = ConnectionContext(
            connection_id=number,
            peer="peer",
            is_loopback=True,
            authenticator=OpenAuthenticator(),
            parameters=broker.parameters,
            wake=self._wake,
        )
        self.connection: Final = broker.manager.connect(context)
        self._tags: Final = count(0)
        if user is not None:
            response = b"\0" + user.encode() + b"\0password"
            self.say(SASL_HEADER, frame(0, SaslInit(mechanism="PLAIN", initial_response=response), 1))
        self.greeting: Final = self.say(AMQP_HEADER, Open(container_id=container, **opening))
        """What the broker said to our open."""
        self.begin(0)

    def _wake(self) -> None:
        pass

    def begin(self, channel: int) -> None:
        """One more session."""
        self.say(Begin(next_outgoing_id=0, incoming_window=WINDOW, outgoing_window=WINDOW), channel=channel)

    def say(self, *parts: bytes | object, channel: int = 0) -> list[Frame]:
        """Send frames in one piece, and take the answers."""
        data = b"".join(part if isinstance(part, bytes) else frame(channel, part) for part in parts)
        self.connection.receive_data(data, 0.0)
        return self.hear()

    def hear(self) -> list[Frame]:
        """What the broker says now."""
        settle_down(self.broker.domain)
        return read_frames(self.connection.data_to_send())

    def receive(
        self, source: Source | None = None, name: str = "r", handle: int = 0, credit: int = 10, **fields: Any
    ) -> list[Frame]:
        """Attach as a receiver, of "q" if nothing else is said, with credit."""
        attach = Attach(name=name, handle=handle, role=True, source=source or Source(address="q"), target=Target())
        return self.say(evolve(attach, **fields), self.credit(handle, credit))

    def send(
        self, target: Target | Coordinator | None = None, name: str = "s", handle: int = 0, **fields: Any
    ) -> list[Frame]:
        """Attach as a sender, to "q" if nothing else is said."""
        target = Target(address="q") if target is None else target
        attach = Attach(name=name, handle=handle, role=False, source=Source(), target=target, initial_delivery_count=0)
        return self.say(evolve(attach, **fields))

    def credit(self, handle: int = 0, credit: int = 10, delivery_count: int = 0, **fields: Any) -> Flow:
        """A flow with credit."""
        flow = Flow(
            next_incoming_id=None,
            incoming_window=WINDOW,
            next_outgoing_id=self._next_outgoing_id(),
            outgoing_window=WINDOW,
            handle=handle,
            delivery_count=delivery_count,
            link_credit=credit,
        )
        return evolve(flow, **fields)

    def _next_outgoing_id(self) -> int:
        sessions = self.connection.engine.channels.by_peer
        return max(0, sessions[0].next_incoming_id) if 0 in sessions else 0

    def transfer(self, body: bytes, handle: int = 0, octets: bytes | None = None, **fields: Any) -> bytes:
        """A transfer of a message whose body is the text `body`, or of these octets."""
        number = next(self._tags)
        transfer = Transfer(handle=handle, delivery_id=number, delivery_tag=b"%d" % number)
        return frame_with(0, evolve(transfer, **fields), value(body) if octets is None else octets)

    def rest(self, state: object, handle: int = 0, aborted: bool = False) -> list[Frame]:
        """The last frame of a delivery that was begun, without octets."""
        return self.say(frame_with(0, Transfer(handle=handle, state=state, aborted=aborted), b""))

    def coordinator(self, handle: int = 9) -> None:
        """Attach a link that controls transactions."""
        self.send(Coordinator(), name="txn", handle=handle)

    def declare(self, handle: int = 9) -> bytes:
        """Begin a transaction; returns its id."""
        (state,) = [one.state for one in self.dispositions(self.say(self.command(Declare(), handle)))]
        assert isinstance(state, Declared)
        return state.txn_id

    def discharge(self, txn_id: bytes, fail: bool = False, handle: int = 9) -> list[Frame]:
        """End it."""
        return self.say(self.command(Discharge(txn_id=txn_id, fail=fail), handle))

    def command(self, command: object, handle: int = 9) -> bytes:
        """A transfer to the coordinator."""
        number = next(self._tags)
        transfer = Transfer(handle=handle, delivery_id=number, delivery_tag=b"%d" % number)
        return frame_with(0, transfer, b"\x00\x53\x77" + encode(command))

    def dispositions(self, frames: list[Frame]) -> list[Disposition]:
        """The dispositions among some frames."""
        return [performative for _, performative, _ in frames if isinstance(performative, Disposition)]


def value(body: bytes) -> bytes:
    """A message whose body is a text."""
    return b"\x00\x53\x77\xa1" + bytes((len(body),)) + body


def settled(first: int, state: object | None = None, last: int | None = None) -> Disposition:
    """A receiver settles deliveries, as accepted if nothing else is said."""
    return Disposition(role=True, first=first, last=last, settled=True, state=Accepted() if state is None else state)


def in_transaction(first: int, txn_id: bytes, outcome: object | None = None, is_settled: bool = True) -> Disposition:
    """A receiver retires a delivery in a transaction."""
    state = TransactionalState(txn_id=txn_id, outcome=Accepted() if outcome is None else outcome)
    return Disposition(role=True, first=first, settled=is_settled, state=state)


def only(frames: list[Frame], kind: type) -> Any:
    """The one frame of a kind."""
    (found,) = [performative for _, performative, _ in frames if type(performative) is kind]
    return found


def bodies(frames: list[Frame]) -> list[bytes]:
    """Bodies of the deliveries among some frames: short texts, or octets of the core's own messages."""
    return [_BODY.split(payload)[-1] for _, one, payload in frames if isinstance(one, Transfer)]
