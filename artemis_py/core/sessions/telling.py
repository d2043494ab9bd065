"""What listeners are told of sessions and their consumers; nothing is made that nobody listens to."""

from typing import TYPE_CHECKING

from artemis_py.core.queues.consumer import Consumer
from artemis_py.core.runtime.event_facts import ClientFacts
from artemis_py.core.runtime.events import ConsumerClosed, ConsumerOpened, SessionClosed, SessionOpened

if TYPE_CHECKING:
    from artemis_py.core.sessions.session import Session


def facts_of(session: "Session") -> ClientFacts:
    """Return who the client of a session is."""
    return ClientFacts(
        session.subject.user,
        session.client_id,
        session.protocol,
        session.peer,
        session.certificate,
        session.is_present,
    )


def tell_opened(session: "Session") -> None:
    """Tell that a session was opened."""
    events = session.domain.events
    if events.wants(SessionOpened):
        events.emit(SessionOpened(session.id, facts_of(session)))


def tell_closed(session: "Session") -> None:
    """Tell that a session has ended."""
    events = session.domain.events
    if events.wants(SessionClosed):
        events.emit(SessionClosed(session.id, facts_of(session), session.farewell))


def tell_consumer_opened(session: "Session", consumer: Consumer) -> None:
    """Tell that a consumer or browser has attached."""
    events = session.domain.events
    if events.wants(ConsumerOpened):
        queue = consumer.queue
        events.emit(
            ConsumerOpened(
                consumer.id,
                queue.name,
                queue.address.name,
                session.id,
                consumer.is_browser,
                None if consumer.filter is None else consumer.filter.text,
                len(queue.consumers),
                facts_of(session),
            )
        )


def tell_consumer_closed(session: "Session", consumer: Consumer) -> None:
    """Tell that a consumer or browser has detached, and why."""
    events = session.domain.events
    if events.wants(ConsumerClosed):
        queue = consumer.queue
        events.emit(
            ConsumerClosed(
                consumer.id,
                queue.name,
                queue.address.name,
                session.id,
                consumer.is_browser,
                None if consumer.filter is None else consumer.filter.text,
                len(queue.consumers),
                facts_of(session),
                "its queue was deleted" if queue.is_deleted else session.farewell or "closed",
            )
        )
