"""Advisories: messages on which the broker reports to OpenWire clients, without queues (openwire §15.5).

A client library needs those about temporary destinations; the others are for applications. Nothing is made of an
event that nobody watches. A watcher that comes later is told first of everything that is there.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from attrs import evolve

from artemis_openwire.broker.foreign import Foreign
from artemis_openwire.broker.subscriptions import routing_type_of
from artemis_openwire.broker.watching import Watcher
from artemis_openwire.engine.codec import write_nested
from artemis_openwire.engine.commands import ConnectionInfo, ConsumerInfo, DestinationInfo, ProducerInfo, RemoveInfo
from artemis_openwire.engine.composing import MessageDraft
from artemis_openwire.engine.names import ADVISORY_PREFIX, TEMP_QUEUE, TEMP_TOPIC, destinations_of, is_advisory
from artemis_openwire.engine.structure import LAST_VERSION, Structure
from artemis_openwire.engine.structures import (
    ActiveMQDestination,
    ActiveMQQueue,
    ActiveMQTempDestination,
    ActiveMQTempQueue,
    ActiveMQTempTopic,
    ActiveMQTopic,
    ConnectionId,
    ConsumerId,
    ProducerId,
)
from artemis_openwire.engine.values import write_map
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.runtime.background import SLICE_UNITS, Steps
from artemis_py.core.runtime.events import (
    AddressAdded,
    AddressRemoved,
    Event,
    QueueAdded,
    QueueRemoved,
    RemoteTemporaryAdded,
    RemoteTemporaryRemoved,
)
from artemis_py.protocol import Host

if TYPE_CHECKING:
    from artemis_openwire.broker.manager import OpenWireProtocolManager

_MESSAGE: Final = 23
_TYPE: Final = "Advisory"
CONNECTION: Final = ADVISORY_PREFIX + "Connection"
QUEUE: Final = ADVISORY_PREFIX + "Queue"
TOPIC: Final = ADVISORY_PREFIX + "Topic"
_CONSUMER: Final = ADVISORY_PREFIX + "Consumer."
_PRODUCER: Final = ADVISORY_PREFIX + "Producer."

Fact = tuple[str, Structure, dict[str, object]]
"""Topic, subject and properties of an advisory."""


def _about(prefix: str, destination: ActiveMQDestination) -> str:
    """Return the topic on which the broker reports about clients of a destination."""
    kind = "Queue." if routing_type_of(destination) is RoutingType.ANYCAST else "Topic."
    return f"{prefix}{kind}{destination.physical_name}"


class Presence:
    """Consumers or producers that are there, by the topic on which the broker reports about them."""

    def __init__(self, count_property: str) -> None:
        self._count_property: Final = count_property
        self._by_topic: dict[str, dict[Structure, Structure]] = {}

    def add(self, topic: str, id: Structure, info: Structure) -> Fact:
        """Add one; return what is told of it."""
        present = self._by_topic.setdefault(topic, {})
        present[id] = info
        return topic, info, {self._count_property: len(present)}

    def remove(self, topic: str, id: Structure) -> Fact:
        """Remove one; return what is told of it."""
        present = self._by_topic.get(topic, {})
        present.pop(id, None)
        if not present:
            self._by_topic.pop(topic, None)
        return topic, RemoveInfo(object_id=id), {self._count_property: len(present)}

    def facts(self) -> Iterator[Fact]:
        """Return what is told to a watcher that comes later."""
        for topic, present in list(self._by_topic.items()):
            for info in list(present.values()):
                yield topic, info, {self._count_property: len(present)}


class Advisories:
    """Knows who watches what, and what there is to tell."""

    def __init__(self, manager: "OpenWireProtocolManager", host: Host) -> None:
        self._manager: Final = manager
        self._host: Final = host
        self._watchers: list[Watcher] = []
        self._temporary: dict[ActiveMQDestination, DestinationInfo] = {}
        self._connections: dict[str, ConnectionInfo] = {}
        self._consumers: Final = Presence("consumerCount")
        self._producers: Final = Presence("producerCount")
        self._foreign: Final = Foreign(self, host, manager.run_name)
        self._count: int = 0
        host.events.subscribe(self._on_event, AddressAdded, AddressRemoved, QueueAdded, QueueRemoved)
        host.events.subscribe(self._on_remote, RemoteTemporaryAdded, RemoteTemporaryRemoved)

    # -- watchers --------------------------------------------------------------------------------------------------

    def watch(self, watcher: Watcher) -> None:
        """Tell a watcher what there is, and from now on what happens."""
        self._watchers.append(watcher)
        if watcher.watches_clients:
            self._foreign.follow()
        self._host.background.start(self._replay(watcher))

    def leave(self, watcher: Watcher) -> None:
        """Tell a watcher nothing more."""
        watcher.is_closed = True
        if watcher in self._watchers:
            self._watchers.remove(watcher)
            if watcher.watches_clients and not any(each.watches_clients for each in self._watchers):
                self._foreign.leave()

    def _replay(self, watcher: Watcher) -> Steps:
        """Tell what there is, in slices: there may be any number of queues."""
        meter = self._host.meter
        end = meter.work + SLICE_UNITS
        if watcher.watches_clients:
            for _ in self._foreign.walk():
                meter.work += 1
                if meter.work >= end:
                    yield None
                    end = meter.work + SLICE_UNITS
        for topic, subject, properties in self._facts(watcher):
            if watcher.is_closed:
                break
            meter.work += 1
            if watcher.wants(topic):
                self._tell(topic, subject, properties, [watcher])
            if meter.work >= end:
                yield None
                end = meter.work + SLICE_UNITS
        return None

    def _facts(self, watcher: Watcher) -> Iterator[Fact]:
        """Return what may be told to a new watcher."""
        for info in list(self._temporary.values()):
            assert info.destination is not None
            yield _temporary_topic(info.destination), info, {}
        for connection in list(self._connections.values()):
            yield CONNECTION, connection, {}
        if watcher.wants(QUEUE) or watcher.wants(TOPIC):
            yield from self._destinations()
        yield from self._consumers.facts()
        yield from self._producers.facts()

    def _destinations(self) -> Iterator[Fact]:
        for name in [address.name for address in self._host.sessions.addresses()]:
            queue, topic = self._queue_of(name), self._topic_of(name)
            if queue is not None:
                yield QUEUE, DestinationInfo(destination=queue), {}
            if topic is not None:
                yield TOPIC, DestinationInfo(destination=topic), {}

    # -- what happens ----------------------------------------------------------------------------------------------

    def temporary_added(self, destination: ActiveMQDestination, connection_id: str) -> None:
        """Tell of a temporary destination: a client sends only to those that it has been told of."""
        info = DestinationInfo(destination=destination, connection_id=ConnectionId(value=connection_id))
        self._temporary[destination] = info
        self._publish(_temporary_topic(destination), info)

    def temporary_removed(self, destination: ActiveMQDestination) -> None:
        """Tell that a temporary destination is gone."""
        info = self._temporary.pop(destination, None)
        if info is not None:
            self._publish(_temporary_topic(destination), evolve(info, operation_type=1))

    def _on_remote(self, event: Event) -> None:
        """Tell of the temporary destinations of clients of other brokers, whose names begin with the connection."""
        match event:
            case RemoteTemporaryAdded(name, is_queue):
                self.temporary_added(_temporary(name, is_queue), name.rpartition(":")[0])
            case RemoteTemporaryRemoved(name, is_queue):
                self.temporary_removed(_temporary(name, is_queue))

    def connected(self, info: ConnectionInfo, tells: bool = True) -> None:
        """Tell of a client that has logged in, without its password; `tells` false: only later watchers."""
        if info.connection_id is not None and info.connection_id.value is not None:
            public = evolve(info, password=None)
            self._connections[info.connection_id.value] = public
            if tells:
                self._publish(CONNECTION, public)

    def disconnected(self, info: ConnectionInfo) -> None:
        """Tell that a client is gone."""
        if info.connection_id is not None and info.connection_id.value is not None:
            self._connections.pop(info.connection_id.value, None)
            self._publish(CONNECTION, RemoveInfo(object_id=info.connection_id))

    def consumer_added(self, info: ConsumerInfo, id: ConsumerId, tells: bool = True) -> None:
        """Tell of a consumer."""
        for topic in self._topics(_CONSUMER, info.destination):
            fact = self._consumers.add(topic, id, info)
            if tells:
                self._publish(*fact)

    def consumer_removed(self, info: ConsumerInfo, id: ConsumerId) -> None:
        """Tell that a consumer is gone."""
        for topic in self._topics(_CONSUMER, info.destination):
            self._publish(*self._consumers.remove(topic, id))

    def producer_added(self, info: ProducerInfo, id: ProducerId, tells: bool = True) -> None:
        """Tell of a producer."""
        for topic in self._topics(_PRODUCER, info.destination):
            fact = self._producers.add(topic, id, info)
            if tells:
                self._publish(*fact)

    def producer_removed(self, info: ProducerInfo, id: ProducerId) -> None:
        """Tell that a producer is gone."""
        for topic in self._topics(_PRODUCER, info.destination):
            self._publish(*self._producers.remove(topic, id))

    def _topics(self, prefix: str, destination: ActiveMQDestination | None) -> list[str]:
        """Return the topics on which the clients of a destination are reported; none for advisories themselves."""
        if destination is None:
            return []
        return [_about(prefix, part) for part in destinations_of(destination) if not is_advisory(part)]

    def _on_event(self, event: Event) -> None:
        """Tell of queues and topics, whatever the protocol that created them."""
        if not self._watchers:
            return
        match event:
            case AddressAdded() | QueueAdded():
                self._told(event.name, 0)
            case AddressRemoved():
                self._publish_if(TOPIC, ActiveMQTopic(physical_name=event.name), 1)
            case QueueRemoved():
                if event.name == event.address:
                    self._publish_if(QUEUE, ActiveMQQueue(physical_name=event.name), 1)

    def _told(self, name: str, operation: int) -> None:
        queue, topic = self._queue_of(name), self._topic_of(name)
        if queue is not None:
            self._publish_if(QUEUE, queue, operation)
        elif topic is not None:
            self._publish_if(TOPIC, topic, operation)

    def _publish_if(self, topic: str, destination: ActiveMQDestination, operation: int) -> None:
        if destination not in self._temporary and not self._is_internal(destination.physical_name or ""):
            self._publish(topic, DestinationInfo(destination=destination, operation_type=operation))

    def _is_internal(self, name: str) -> bool:
        return name.startswith(self._host.options.internal_naming_prefix)

    def _queue_of(self, name: str) -> ActiveMQQueue | None:
        """Return the queue of an address for queues, if it is one that others may know of."""
        queue = self._host.sessions.find_queue(name)
        if queue is None or queue.internal or queue.temporary or self._is_internal(name):
            return None
        return ActiveMQQueue(physical_name=name) if queue.routing_type is RoutingType.ANYCAST else None

    def _topic_of(self, name: str) -> ActiveMQTopic | None:
        """Return the topic of this name, if it is one that others may know of."""
        address = self._host.sessions.find_address(name)
        if address is None or address.internal or address.temporary or self._is_internal(name):
            return None
        return ActiveMQTopic(physical_name=name) if RoutingType.MULTICAST in address.routing_types else None

    # -- messages --------------------------------------------------------------------------------------------------

    def _publish(self, topic: str, subject: Structure, properties: Mapping[str, object] | None = None) -> None:
        watchers = [watcher for watcher in self._watchers if watcher.wants(topic)]
        if watchers:
            self._tell(topic, subject, properties or {}, watchers)

    def _tell(self, topic: str, subject: Structure, properties: Mapping[str, object], watchers: list[Watcher]) -> None:
        """Write one message for all of them."""
        info = self._manager.info
        assert info.broker_id is not None
        self._count += 1
        producer = ProducerId(connection_id=info.broker_id.value, session_id=-1, value=1)
        field = write_nested(ActiveMQTopic(physical_name=topic), LAST_VERSION)
        draft = MessageDraft(_MESSAGE, write_nested(producer, LAST_VERSION), self._count, field)
        draft.jms_type = _TYPE
        draft.timestamp_ms = self._host.now_ms
        draft.structure_field = write_nested(subject, LAST_VERSION)
        named = {
            "originBrokerId": info.broker_id.value,
            "originBrokerName": info.broker_name,
            "originBrokerURL": info.broker_url or "",
        }
        draft.properties = write_map({**named, **properties})
        header, body = draft.encode(self._host.now_ms)
        for watcher in watchers:
            watcher.send(header, body, field)


def _temporary(name: str, is_queue: bool) -> ActiveMQTempDestination:
    return ActiveMQTempQueue(physical_name=name) if is_queue else ActiveMQTempTopic(physical_name=name)


def _temporary_topic(destination: ActiveMQDestination) -> str:
    return TEMP_QUEUE if isinstance(destination, ActiveMQTempQueue) else TEMP_TOPIC
