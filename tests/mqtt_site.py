"""A core that speaks MQTT, and its clients: no sockets, and a turn or a commit happens when the test says so."""

from pathlib import Path
from typing import Any

from artemis_mqtt.broker.handler import ClientHandler
from artemis_mqtt.broker.manager import MqttProtocolManager
from artemis_mqtt.engine.packets import MQTT_5, Connack, Connect, Suback, Subscribe, Subscription
from artemis_mqtt.engine.properties import NO_PROPERTIES, Properties
from artemis_py.core.messages.builtin_format import PLAIN_FORMAT
from artemis_py.core.names.syntax import MatchHierarchy
from artemis_py.core.queues.dispatcher import Dispatcher
from artemis_py.core.queues.storage import Scratch, Storage
from artemis_py.core.routing.domain import Domain
from artemis_py.core.runtime.access import AccessControl
from artemis_py.core.settings.address_settings import AddressSettings
from artemis_py.core.settings.broker_settings import BrokerSettings
from artemis_py.core.settings.repository import SettingsRepository
from artemis_py.protocol import Authenticator, ConnectionContext, Host
from artemis_py.security.authenticator import OpenAuthenticator
from artemis_py.store.lmdb import LmdbStore
from artemis_py.store.memory import MemoryStore
from artemis_py.store.recovery import recover
from tests import mqtt_harness as wire
from tests.core_harness import START_MS, make_hosts, make_services, step_through
from tests.log_switch import LOG
from tests.unit.store.world import SMALL_MAP_BYTES, Handmade


class Site:
    """One run of a broker; with a folder what is committed survives it."""

    def __init__(
        self,
        folder: Path | None = None,
        access: AccessControl | None = None,
        now_ms: int = START_MS,
        settings: AddressSettings | None = None,
        options: BrokerSettings | None = None,
        scratch: Scratch | None = None,
    ) -> None:
        options = BrokerSettings() if options is None else options
        hierarchy: MatchHierarchy[AddressSettings] = MatchHierarchy(options.wildcards)
        repository = SettingsRepository(hierarchy, options)
        if settings is not None:
            repository.add("#", settings)
        self.hands = Handmade()
        self._store = None if folder is None else LmdbStore(folder, SMALL_MAP_BYTES, log=LOG)
        storage: Storage = MemoryStore() if self._store is None else self._store
        self.domain = Domain(repository, Dispatcher(storage, scratch, options), options, access)
        self.domain.dispatcher.now_ms = now_ms
        self.services = make_services(self.domain)
        self.hosts = make_hosts(self.services)
        self.manager = MqttProtocolManager(Host(self.hosts.domains, self.hosts))
        if self._store is not None:
            formats = {PLAIN_FORMAT.name: PLAIN_FORMAT} | {one.name: one for one in self.manager.formats}
            recover(self._store, self.domain, formats, self.hosts)
            assert self.domain.exchanges.restore() == []
            self._store.start(
                self.hands, self.hands, self.domain.dispatcher.storage_failed, self.domain.dispatcher.stored
            )
            self.services.retained.load(formats)
        self.manager.start()

    def __enter__(self) -> "Site":
        return self

    def __exit__(self, *_: object) -> None:
        self.crash()

    def crash(self) -> None:
        """What was not committed is gone."""
        if self._store is not None:
            environment, self._store._environment = self._store._environment, None
            if environment is not None:
                environment.close()
                if self._store._folding is not None:
                    self._store._folding.log.close()

    def turn(self) -> None:
        """Deliver what can be delivered, without any commit."""
        while self.domain.dispatcher.run():
            pass

    def commit(self) -> None:
        """Let everything that was put become durable."""
        while self.hands.planned or self.hands.jobs:
            self.hands.turn()
            while self.hands.jobs:
                self.hands.work()

    def pass_time(self, seconds: float) -> None:
        """Let time pass, and happen what was planned for it."""
        step_through(self.domain.dispatcher, int(seconds * 1000))


class Client:
    """One connection."""

    def __init__(
        self,
        site: Site,
        version: int = MQTT_5,
        authenticator: Authenticator | None = None,
        acceptor: str = "acceptor",
        virtual_host: str = "",
        **parameters: Any,
    ) -> None:
        self.site = site
        self.version = version
        context = ConnectionContext(
            connection_id=site.domain.new_id(),
            peer="peer",
            is_loopback=True,
            authenticator=authenticator or OpenAuthenticator(),
            parameters=site.manager.read_parameters(acceptor, parameters),
            virtual_host=virtual_host,
            wake=lambda: None,
            read=self._read,
        )
        self.is_read: bool = True
        """Whether the transport would read from this client."""
        self.handler: ClientHandler = site.manager.connect(context)
        self._behind: list[Any] = []
        """What came with the answer to CONNECT."""

    def _read(self, goes_on: bool) -> None:
        self.is_read = goes_on

    def send(self, *packets: bytes) -> None:
        """All of them in one read."""
        self.handler.receive_data(b"".join(packets), 0.0)

    def packets(self) -> list[Any]:
        """What the broker wrote until everything is durable and delivered."""
        found: list[Any] = []
        while True:
            before = len(found)
            found += self.packets_before_commit()
            self.site.commit()
            if len(found) == before and not self.site.hands.planned:
                more = self.packets_before_commit()
                if not more:
                    return found
                found += more

    def packets_before_commit(self) -> list[Any]:
        """What it wrote without anything having become durable."""
        found, self._behind = self._behind, []
        while True:
            self.site.turn()
            while self.handler.has_input:
                self.handler.work(0.0)
            data = self.handler.data_to_send()
            if not data:
                return found
            found += wire.read_server_packets(self.version, data)

    def connect(self, client_id: str = "client", **fields: Any) -> Connack:
        """Log in; returns the answer."""
        self.send(wire.connect(Connect(version=self.version, client_id=client_id, **fields)))
        self.site.commit()
        answer, *self._behind = self.packets_before_commit()
        assert isinstance(answer, Connack)
        return answer

    def subscribe(
        self, topic_filter: str, qos: int = 0, properties: Properties = NO_PROPERTIES, **options: Any
    ) -> tuple[int, ...]:
        """Subscribe; returns the codes. What was retained comes with `packets` later."""
        wanted = Subscription(topic_filter=topic_filter, qos=qos, **options)
        packet = Subscribe(packet_id=60000, subscriptions=(wanted,), properties=properties)
        self.send(wire.subscribe(self.version, packet))
        self.site.commit()
        data = self.handler.data_to_send()
        (answer,) = [one for one in wire.read_server_packets(self.version, data) if isinstance(one, Suback)]
        codes: tuple[int, ...] = answer.reasons
        return codes

    def publish(self, topic: str, payload: bytes = b"m", qos: int = 0, packet_id: int = 0, **options: Any) -> None:
        """One PUBLISH; its answer comes with `packets`."""
        self.send(wire.publish(self.version, topic, payload, qos, packet_id, **options))

    def ack(self, packet_type: int, packet_id: int, reason: int | None = None) -> None:
        """PUBACK, PUBREC, PUBREL or PUBCOMP."""
        self.send(wire.ack(packet_type, packet_id, reason))

    def lose(self) -> None:
        """The socket breaks."""
        self.handler.connection_lost()

    def leave(self) -> None:
        """DISCONNECT, then the socket closes."""
        self.send(wire.disconnect(self.version))
        self.lose()


def connected(site: Site, client_id: str = "client", version: int = MQTT_5, **fields: Any) -> Client:
    """A client that is logged in."""
    client = Client(site, version)
    assert client.connect(client_id, **fields).reason == 0
    return client


def lasting(site: Site, client_id: str = "client", expiry_s: int = 0xFFFFFFFF, **fields: Any) -> Client:
    """A client of version 5 whose session outlives its connection."""
    properties = Properties(session_expiry_interval=expiry_s)
    return connected(site, client_id, clean_start=False, properties=properties, **fields)
