"""Two brokers of one mesh as the programs see them, Apache Artemis or this one."""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from proton import Delivery, Message, ProtonException, Timeout

from tests.interop.kinds.site import Site, text
from tests.interop.proton.client import Client, Receiver, Refused

QUIET_S: Final = 1.5
"""Nothing has come for this long: what is missing does not come by itself."""
MEET_TIMEOUT_S: Final = 120.0
RESEND_S: Final = 0.5
LOOK_S: Final = 0.02
"""How long one of several connections is worked on before the next one."""
CREDIT: Final = 1000

Fate = dict[str, Any]
"""What became of messages."""


class Pair:
    """Node `a`, where most programs send, and node `b`. Programs use addresses of their own."""

    def __init__(self, urls: Sequence[str], patience_s: float = QUIET_S) -> None:
        """`patience_s`: how long a program waits for the next message that has to come in its mesh.

        With a mesh that brings all of them a program ends as soon as they are there, so it may be long, and what a slow
        machine brings late is not taken for lost.
        """
        self.a, self.b = (Site(url) for url in urls)
        self.patience_s: Final = patience_s
        self._clients: list[Client] = []

    def connect(self, site: Site, container_id: str | None = None) -> Client:
        """Open a connection that ends with the program."""
        client = site.connect(container_id)
        self._clients.append(client)
        return client

    def consumer(
        self, site: Site, queue: str, credit: int = CREDIT, container_id: str | None = None, **options: Any
    ) -> Receiver:
        """Attach a consumer on a connection of its own; it is there when this returns."""
        receiver = self.connect(site, container_id).receiver(queue, **options)
        if credit:
            receiver.flow(credit)
        receiver.client.sync()
        return receiver

    def leave(self, receiver: Receiver) -> None:
        """End a consumer with its connection."""
        self._clients.remove(receiver.client)
        receiver.client.close()

    def disconnect(self) -> None:
        """End all connections."""
        for client in self._clients:
            try:
                client.close()
            except (ProtonException, OSError):
                continue  # its broker is gone
        self._clients = []
        for site in (self.a, self.b):
            try:
                site.disconnect()
            except (ProtonException, OSError):
                site.forget()

    def waiting(self, queue: str) -> int:
        """Messages of a queue at both brokers."""
        return sum(count(site, queue) for site in (self.a, self.b))

    def wait(self, condition: Callable[[], bool], *clients: Client) -> bool:
        """Work on connections until something holds that has to become true; whether it holds."""
        deadline = time.monotonic() + self.patience_s
        while not condition() and time.monotonic() < deadline:
            for client in clients:
                wait(client, condition, LOOK_S if len(clients) > 1 else self.patience_s)
        return condition()

    def take(self, *receivers: Receiver, count: int, sure: int | None = None) -> list[Any]:
        """Bodies of what comes to consumers, accepted: so many, and what is there besides, or until nothing comes.

        `sure`: so many have to come, by default all; for more it waits only `QUIET_S`, because in one of the meshes
        they never come.
        """
        return [body for bodies in self.take_each(*receivers, count=count, sure=sure) for body in bodies]

    def take_each(self, *receivers: Receiver, count: int, sure: int | None = None) -> list[list[Any]]:
        """The same by consumer; `count` and `sure` are those of all consumers together."""
        came: list[list[Any]] = [[] for _ in receivers]

        def number() -> int:
            return sum(map(len, came))

        def deadline() -> float:
            has_to_come = number() < (count if sure is None else sure)
            return time.monotonic() + (self.patience_s if has_to_come else QUIET_S)

        until = deadline()
        while number() < count and (rest := until - time.monotonic()) > 0:
            for bodies, receiver in zip(came, receivers, strict=True):
                wait(receiver.client, lambda: receiver.waiting > 0, LOOK_S if len(receivers) > 1 else rest)  # noqa: B023
                if receiver.waiting:
                    bodies += accept_all(receiver)
                    until = deadline()
        for bodies, receiver in zip(came, receivers, strict=True):
            receiver.client.sync()
            bodies += accept_all(receiver)
        return came

    def fate(
        self, queue: str, sent: Iterable[str], *receivers: Receiver, order: bool = True, sure: int | None = None
    ) -> Fate:
        """Let consumers take what comes, and return what became of messages.

        `stranded`: they wait although consumers have credit; `order`: whether they have one; `sure`: see `take`.
        """
        wanted = [*sent]
        came = self.take(*receivers, count=len(wanted), sure=sure)
        fate = fate_of(wanted, came, order)
        missing = len({*wanted} - {*came})
        waiting = self.waiting(queue) if missing else 0
        return fate | {"stranded": min(waiting, missing), "lost": max(0, missing - waiting)}

    def meet(self) -> None:
        """Return when messages go both ways, over the connection that there is now."""
        for number, (sender, taker) in enumerate(((self.a, self.b), (self.b, self.a))):
            receiver = self.consumer(taker, f"now.meet{number}")
            # What earlier meetings left waits at the taker, and says nothing.
            wanted = f"hello {time.monotonic()}"
            deadline = time.monotonic() + MEET_TIMEOUT_S
            while wanted not in accept_all(receiver):
                assert time.monotonic() < deadline, "the brokers did not meet"
                sender.send(f"now.meet{number}", wanted)
                wait(receiver.client, lambda: receiver.waiting > 0, RESEND_S)  # noqa: B023
        self.disconnect()


def fate_of(wanted: Sequence[str], came: Sequence[str], order: bool = True) -> Fate:
    """Return what came of what was sent."""
    fate: Fate = {"sent": len(wanted), "came": len({*came})}
    fate["doubled"] = len(came) - len({*came})
    if order and len(came) > 1:
        places = {body: place for place, body in enumerate(wanted)}
        numbers = [places[body] for body in came]
        fate["in order"] = numbers == sorted(numbers)
    return fate


def accept_all(receiver: Receiver) -> list[Any]:
    """Bodies of what has come."""
    return accept(receiver, receiver.waiting)


def accept(receiver: Receiver, number: int) -> list[Any]:
    """Bodies of the first ones of what has come."""
    bodies = []
    for _ in range(number):
        received = receiver.receive()
        bodies.append(received.body)
        received.delivery.update(Delivery.ACCEPTED)
        received.delivery.settle()
    receiver.client.sync()
    return bodies


def wait(client: Client, condition: Callable[[], bool], seconds: float) -> bool:
    """Work on a connection until something holds, at most so long; whether it holds."""
    try:
        client.connection.wait(condition, timeout=seconds)
    except Timeout:
        return condition()
    return True


def count(site: Site, queue: str) -> int:
    """Messages of a queue at one broker; none if it has no such queue."""
    try:
        return site.count(queue)
    except Refused:
        return 0


def numbered(number: int, name: str = "m") -> list[str]:
    """Bodies."""
    return [f"{name}{each}" for each in range(number)]


def coloured(number: int, colour: str) -> list[Message]:
    """Messages for selectors."""
    return [text(f"{colour}{each}", properties={"colour": colour}) for each in range(number)]
