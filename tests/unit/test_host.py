"""What a protocol from outside gets of the broker: `Host`."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from artemis_py.broker import Broker
from artemis_py.core.messages.message import MessageFormat
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.runtime.access import Subject
from artemis_py.core.runtime.event_facts import ClientFacts
from artemis_py.core.runtime.events import AddressAdded, Event, SessionOpened
from artemis_py.core.services.domains import Domains
from artemis_py.core.sessions.subscriptions import SubscriptionSpec
from artemis_py.core.settings.declaration import Option
from artemis_py.protocol import ConnectionContext, Host, ProtocolConnection
from tests.core_harness import Recorder, make_domain, make_host, make_message, settle_down
from tests.line_protocol import LineConnection
from tests.unit.store.world import World


class Counting:
    """A protocol of another package: it counts its starts in the store, and listens to what happens."""

    name = "COUNTING"
    formats: Sequence[MessageFormat] = ()
    parameters: Sequence[Option] = ()
    websocket_subprotocols: Sequence[str] = ()
    greeting = b""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.starts = 0
        self.heard: list[Event] = []
        host.events.subscribe(self.heard.append, AddressAdded, SessionOpened)

    def read_parameters(self, acceptor: str, given: Mapping[str, str]) -> None:
        return None

    def start(self) -> None:
        records = self.host.records("counting")
        self.starts = int(dict(records.load()).get(b"starts", b"0")) + 1
        records.save(b"starts", str(self.starts).encode())

    def matches(self, head: bytes) -> bool | None:
        return False

    def connect(self, context: ConnectionContext) -> ProtocolConnection:
        return LineConnection(self.host, context)


def test_a_protocol_keeps_records_through_restarts(tmp_path: Path) -> None:
    """In a space of its own."""
    for count in (1, 2):
        with World(tmp_path) as world:
            manager = Counting(Host(Domains(world.services)))
            manager.start()
            world.settle()
        assert manager.starts == count


def test_a_protocol_acts_through_sessions() -> None:
    """With the rights of those that it has let in; it hears of it as every listener does."""
    domain = make_domain()
    manager = Counting(make_host(domain))
    session = manager.host.sessions.open(Subject("ann"), "c1", "192.0.2.1:5", "COUNTING")
    subscription = session.subscribe(SubscriptionSpec("news"))
    recorder = Recorder()
    session.consume(subscription.queue, recorder).grant(10)

    session.producer("news", RoutingType.MULTICAST).send(make_message("1"))
    manager.host.deposit(make_message("2"), subscription.queue)
    settle_down(domain)

    assert recorder.bodies() == ["1", "2"]
    opened = SessionOpened(session.id, ClientFacts("ann", "c1", "COUNTING", "192.0.2.1:5"))
    assert manager.heard == [opened, AddressAdded("news", True)]
    assert manager.host.now_ms == domain.dispatcher.now_ms
    assert manager.host.domains.find("any.example").sessions.domain is domain


async def test_a_broker_takes_a_protocol_from_outside() -> None:
    """A class and its name in a list, or in the entry points of a package, is all there is to say."""
    made: list[Counting] = []

    def factory(host: Host) -> Counting:
        made.append(Counting(host))
        return made[-1]

    async with Broker(protocols=[factory]) as broker:
        assert broker.url("counting").startswith("counting://127.0.0.1:")

    assert [manager.starts for manager in made] == [1]
