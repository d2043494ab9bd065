"""A peer made with Proton that a broker connects to: it keeps what comes, and answers as a test says."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from proton import Condition, Delivery, Endpoint, Event, Message, Terminus, symbol
from proton.handlers import MessagingHandler
from proton.reactor import ApplicationEvent, Container, EventInjector

from tests.interop.proton.client import plain

PATIENCE_S: Final = 30.0
REJECTED: Final[int] = Delivery.REJECTED
RELEASED: Final[int] = Delivery.RELEASED
MODIFIED: Final[int] = Delivery.MODIFIED
ACCEPTED: Final[int] = Delivery.ACCEPTED

Answer = Callable[[int, Message], "int | str | None"]
"""Takes the number of a delivery, from 0, and its message; returns an outcome, the condition of a rejection, `drop` to
end the connection, or None for no answer."""


def accept(number: int, message: Message) -> int:
    """Take everything."""
    return ACCEPTED


class Peer(MessagingHandler):  # type: ignore[misc]
    """One listening peer, which runs in a thread of its own."""

    def __init__(self, answer: Answer, credit: int, refused: frozenset[str]) -> None:
        super().__init__(prefetch=0, auto_accept=False, auto_settle=False)
        self._answer: Final = answer
        self._credit: Final = credit
        self._refused: Final = refused
        self._listener: Any = None
        self._injector: Final = EventInjector()
        self._container: Final = Container(self)
        self._changed: Final = threading.Condition()
        self.bodies: Final[list[Any]] = []
        """Bodies of all deliveries, in order."""
        self.messages: Final[list[Message]] = []
        self.targets: Final[list[str]] = []
        """Addresses of the links on which the broker wanted to send, in order."""
        self.connections = 0
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: Final[int] = free.getsockname()[1]

    def wait(self, is_so: Callable[[], bool]) -> None:
        """Wait until something is so."""
        with self._changed:
            assert self._changed.wait_for(is_so, PATIENCE_S), (self.bodies[-5:], self.targets, self.connections)

    def _note(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def on_start(self, event: Event) -> None:
        """Listen."""
        event.container.selectable(self._injector)
        self._listener = event.container.listen(f"127.0.0.1:{self.port}")
        self._note()

    def on_connection_opening(self, event: Event) -> None:
        """Count."""
        self.connections += 1
        self._note()

    def on_link_opening(self, event: Event) -> None:
        """Take what the broker wants to send, and give it credit."""
        link = event.link
        if not link.is_receiver:
            return
        address = link.remote_target.address
        self.targets.append(address)
        link.source.copy(link.remote_source)
        if address in self._refused:
            link.target.type = Terminus.UNSPECIFIED
            link.open()
            self._injector.trigger(ApplicationEvent("refuse", subject=link))
        else:
            link.target.copy(link.remote_target)
            link.open()
            link.flow(self._credit)
        self._note()

    def on_refuse(self, event: Event) -> None:
        """End a link that was just attached: in the same turn Proton does not tell the broker."""
        link = event.subject
        link.condition = Condition(symbol("amqp:not-found"), "as the test wants it")
        link.close()
        link.free()

    def on_finish(self, event: Event) -> None:
        """End all, in the thread that serves."""
        self._listener.close()
        self._container.stop()

    def on_message(self, event: Event) -> None:
        """Keep it, and answer."""
        delivery, message = event.delivery, event.message
        number = len(self.bodies)
        self.bodies.append(plain(message.body))
        self.messages.append(message)
        answer = self._answer(number, message)
        if answer == "drop":
            event.connection.condition = Condition(symbol("amqp:connection:forced"), "as the test wants it")
            event.connection.close()
        elif isinstance(answer, str):
            delivery.local.condition = Condition(symbol(answer), "as the test wants it")
            self._settle(event, REJECTED)
        elif answer is not None:
            if answer == MODIFIED:
                delivery.local.failed = True
            self._settle(event, answer)
        self._note()

    def _settle(self, event: Event, outcome: int) -> None:
        event.delivery.update(outcome)
        event.delivery.settle()
        if event.link.state & Endpoint.LOCAL_ACTIVE:
            event.link.flow(1)

    def run(self) -> None:
        """Serve until `stop`."""
        self._container.run()

    def stop(self) -> None:
        """End."""
        self._injector.trigger(ApplicationEvent("finish"))


@contextmanager
def peer(answer: Answer = accept, credit: int = 100, refused: frozenset[str] = frozenset()) -> Iterator[Peer]:
    """A peer that answers like this, refuses links to some addresses, and gives this credit."""
    one = Peer(answer, credit, refused)
    thread = threading.Thread(target=one.run, name="bridge-peer", daemon=True)
    thread.start()
    one.wait(lambda: one._listener is not None)
    try:
        yield one
    finally:
        one.stop()
        thread.join(PATIENCE_S)
