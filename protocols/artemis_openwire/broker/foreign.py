"""Clients of other protocols, as watchers of advisories are told about them.

They are followed only while somebody watches more than temporary destinations. Each session is told as a connection,
each of its queues as a consumer, each sender that stays attached as a producer; publishers of MQTT are none.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from artemis_openwire.engine.commands import ConnectionInfo, ConsumerInfo, ProducerInfo
from artemis_openwire.engine.structures import (
    ActiveMQDestination,
    ActiveMQQueue,
    ActiveMQTopic,
    ConnectionId,
    ConsumerId,
    ProducerId,
)
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.consumer import Consumer
from artemis_py.core.runtime.events import (
    ConsumerClosed,
    ConsumerOpened,
    Event,
    ProducerClosed,
    ProducerOpened,
    SessionClosed,
    SessionOpened,
)
from artemis_py.core.sessions.producer import Producer
from artemis_py.core.sessions.session import Session
from artemis_py.protocol import Host

if TYPE_CHECKING:
    from artemis_openwire.broker.advisories import Advisories

_OWN: Final = "OPENWIRE"


class Foreign:
    """The clients of other protocols that watchers have been told of."""

    def __init__(self, advisories: "Advisories", host: Host, name: str) -> None:
        """`name` is that of this run of the broker; connections get names below it."""
        self._advisories: Final = advisories
        self._host: Final = host
        self._name: Final = name
        self._sessions: Final[dict[int, ConnectionInfo]] = {}
        self._consumers: Final[dict[int, tuple[ConsumerInfo, ConsumerId]]] = {}
        self._producers: Final[dict[int, tuple[ProducerInfo, ProducerId]]] = {}
        self._is_followed: bool = False

    def follow(self) -> None:
        """Tell of what happens from now on."""
        if not self._is_followed:
            self._is_followed = True
            kinds = (SessionOpened, SessionClosed, ConsumerOpened, ConsumerClosed, ProducerOpened, ProducerClosed)
            self._host.events.subscribe(self._on_event, *kinds)

    def leave(self) -> None:
        """Forget everything: nobody watches."""
        if self._is_followed:
            self._is_followed = False
            self._host.events.unsubscribe(self._on_event)
            for id in list(self._sessions):
                self._session_closed(id)
            for id in list(self._consumers):
                self._consumer_closed(id)
            for id in list(self._producers):
                self._producer_closed(id)

    def walk(self) -> Iterator[None]:
        """Find what is there, a client in each step; watchers are told of it afterwards."""
        for session in list(self._host.sessions.opened.values()):
            self._session_opened(session, False)
            for consumer in list(session.consumers.values()):
                self._consumer_opened(session, consumer, False)
            for producer in list(session.held_producers):
                self._producer_opened(session, producer, False)
            yield None

    def _on_event(self, event: Event) -> None:
        match event:
            case SessionClosed():
                self._session_closed(event.id)
            case ConsumerClosed():
                self._consumer_closed(event.id)
            case ProducerClosed():
                self._producer_closed(event.id)
            case SessionOpened():
                session = self._host.sessions.opened.get(event.id)
                if session is not None:
                    self._session_opened(session)
            case ConsumerOpened():
                session = self._host.sessions.opened.get(event.session_id)
                if session is not None and event.id in session.consumers:
                    self._consumer_opened(session, session.consumers[event.id])
            case ProducerOpened():
                session = self._host.sessions.opened.get(event.session_id)
                if session is not None:
                    for producer in session.held_producers:
                        if producer.id == event.id:
                            self._producer_opened(session, producer)

    # -- one client ------------------------------------------------------------------------------------------------

    def _connection(self, session: Session) -> str:
        return f"{self._name}:{session.id}"

    def _session_opened(self, session: Session, tells: bool = True) -> None:
        if session.protocol == _OWN or session.id in self._sessions:
            return
        info = self._sessions[session.id] = ConnectionInfo(
            connection_id=ConnectionId(value=self._connection(session)),
            client_id=session.client_id,
            user_name=session.subject.user,
            client_ip=session.peer,
        )
        self._advisories.connected(info, tells)

    def _session_closed(self, id: int) -> None:
        info = self._sessions.pop(id, None)
        if info is not None:
            self._advisories.disconnected(info)

    def _consumer_opened(self, session: Session, consumer: Consumer, tells: bool = True) -> None:
        if session.protocol == _OWN or consumer.id in self._consumers:
            return
        queue = consumer.queue
        destination: ActiveMQDestination = ActiveMQTopic(physical_name=queue.address.name)
        if queue.routing_type is RoutingType.ANYCAST:
            destination = ActiveMQQueue(physical_name=queue.name)
        id = ConsumerId(connection_id=self._connection(session), session_id=1, value=consumer.id)
        info = ConsumerInfo(
            consumer_id=id, destination=destination, browser=consumer.is_browser, client_id=session.client_id
        )
        self._consumers[consumer.id] = info, id
        self._advisories.consumer_added(info, id, tells)

    def _consumer_closed(self, id: int) -> None:
        found = self._consumers.pop(id, None)
        if found is not None:
            self._advisories.consumer_removed(*found)

    def _producer_opened(self, session: Session, producer: Producer, tells: bool = True) -> None:
        if session.protocol == _OWN or producer.id in self._producers:
            return
        address = producer.address
        is_topic = address is not None and RoutingType.ANYCAST not in address.routing_types
        destination = ActiveMQTopic if is_topic else ActiveMQQueue
        id = ProducerId(connection_id=self._connection(session), session_id=1, value=producer.id)
        info = ProducerInfo(producer_id=id, destination=destination(physical_name=producer.name))
        self._producers[producer.id] = info, id
        self._advisories.producer_added(info, id, tells)

    def _producer_closed(self, id: int) -> None:
        found = self._producers.pop(id, None)
        if found is not None:
            self._advisories.producer_removed(*found)
