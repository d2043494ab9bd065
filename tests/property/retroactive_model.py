"""The simple model of a retroactive address and its queues: lists, and copies that are made at once."""

from attrs import define, field

from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.reference import Reference


@define(frozen=True)
class Sent:
    """A message in the model."""

    body: str
    routing_type: int
    colour: str
    priority: int
    durable: bool
    expires_ms: int
    due_ms: int = 0


@define
class ModelQueue:
    """A queue in the model: what waits, in the order in which it came."""

    routing_type: RoutingType
    colour: str | None
    durable: bool
    waiting: list[Sent] = field(factory=list)

    def takes(self, sent: Sent) -> bool:
        return self.colour in (None, sent.colour) and sent.routing_type in (-1, int(self.routing_type))


@define
class Model:
    """The address `a` and its queues."""

    size: int = 3
    history: int = 0
    """Number of the history; a setting of 0 ends one, and a transaction that has sent to it does not fill the next."""
    rings: dict[RoutingType, list[Sent]] = field(factory=lambda: {each: [] for each in RoutingType})
    queues: dict[str, ModelQueue] = field(factory=dict)

    def route(self, sent: Sent) -> tuple[int, list[ModelQueue]]:
        """Return where a message goes: the history of now, and these queues."""
        return self.history if self.size else -1, [queue for queue in self.queues.values() if queue.takes(sent)]

    def take(self, sent: Sent, history: int, queues: list[ModelQueue]) -> None:
        for routing_type, ring in self.rings.items():
            if self.size and history == self.history and sent.routing_type in (-1, int(routing_type)):
                ring.append(sent)
                del ring[: -self.size]
        for queue in queues:
            queue.waiting.append(sent)

    def create(self, name: str, routing_type: RoutingType, colour: str | None, durable: bool, now_ms: int) -> None:
        queue = self.queues[name] = ModelQueue(routing_type, colour, durable)
        queue.waiting = [sent for sent in self.rings[routing_type] if queue.takes(sent) and is_alive(sent, now_ms)]

    def resize(self, size: int) -> None:
        self.history += size == 0
        self.size = size
        for ring in self.rings.values():
            del ring[: max(0, len(ring) - size)]

    def expire(self, now_ms: int) -> None:
        for waiting in [*self.rings.values(), *[queue.waiting for queue in self.queues.values()]]:
            waiting[:] = [sent for sent in waiting if is_alive(sent, now_ms)]

    def lose(self) -> None:
        """Forget what does not survive a restart."""
        self.queues = {name: queue for name, queue in self.queues.items() if queue.durable}
        for waiting in [*self.rings.values(), *[queue.waiting for queue in self.queues.values()]]:
            waiting[:] = [sent for sent in waiting if sent.durable]

    def copy(self) -> "Model":
        queues = {
            name: ModelQueue(each.routing_type, each.colour, each.durable, list(each.waiting))
            for name, each in self.queues.items()
        }
        return Model(self.size, self.history, {kind: list(ring) for kind, ring in self.rings.items()}, queues)


def body_of(reference: Reference) -> str:
    return str(reference.message.view.body)


def is_alive(sent: Sent, now_ms: int) -> bool:
    return sent.expires_ms == 0 or sent.expires_ms > now_ms
