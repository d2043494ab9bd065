"""A store with exchanges whose bindings come and go under load until it dies: `python -m … folder [fault]`.

Each step is one change and one message, which become durable together. It prints the number of each step that is.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.routing.exchanges.kept import KeptExchanges
from artemis_py.core.settings.exchange_config import Destination, ExchangeConfig, ExchangeLifetime, ExchangeType
from tests.core_harness import make_queue
from tests.unit.store.world import World, bodies

STEPS: Final = 14
QUEUES: Final = ("a", "b", "c")


def steps(world: World) -> Iterator[int]:
    """Change something, send something, and yield the number of the step before anything of it is stored."""
    domain = world.domain
    exchanges = domain.exchanges
    for number in range(STEPS):
        if number == 0:
            exchanges.declare(ExchangeConfig(name="e", type=ExchangeType.FANOUT))
            for name in QUEUES:
                make_queue(domain, name)
        elif number % 4 == 1:
            exchanges.declare(ExchangeConfig(name="f", type=ExchangeType.TOPIC, lifetime=ExchangeLifetime.LAST_BINDING))
            exchanges.bind(exchanges.exchange("e"), "", Destination("f", False))
            exchanges.bind(exchanges.exchange("f"), "#", Destination("c", True), {"step": number})
            exchanges.bind(exchanges.exchange("e"), str(number), Destination("a", True))
        elif number % 4 == 2:
            exchanges.bind(exchanges.exchange("e"), "", Destination("b", True))
            exchanges.bind(exchanges.exchange("f"), "#", Destination("c", True), {"step": number}, replace=True)
        elif number % 4 == 3:
            # The bindings of `c` go with it, and `f` with the last of them.
            domain.delete_queue("c")
            make_queue(domain, "c")
        else:
            exchanges.unbind(exchanges.exchange("e"), "", Destination("b", True))
        message = plain_message("", MessageView(body=str(number)), True)
        domain.publishing.publish(message, exchanges.exchange("e"), "k")
        yield number


def state(world: World) -> object:
    """What is there: exchanges, bindings, and the messages of each queue."""
    exchanges = world.domain.exchanges
    bindings = sorted(
        repr((each.name, binding.identity, binding.arguments))
        for each in exchanges
        for binding in each.bindings.values()
    )
    messages = [(name, bodies(world.queue(name))) for name in QUEUES if name in world.domain.queues]
    return sorted(each.name for each in exchanges), bindings, messages


def main(folder: Path) -> None:
    """What is printed leaves the process at once."""
    world = World(folder)
    for number in steps(world):
        world.domain.storage.when_durable(lambda number=number: print(number, flush=True))  # type: ignore[misc]
        world.settle()


def late_bindings() -> None:
    """A planted fault: what is forgotten is forgotten in a later commit."""
    forget = KeptExchanges.forget_binding

    def forget_later(self: KeptExchanges, binding: object) -> None:
        self._records.when_durable(lambda: forget(self, binding))  # type: ignore[arg-type]

    setattr(KeptExchanges, "forget_binding", forget_later)  # noqa: B010  mypy forbids assigning to a function


if __name__ == "__main__":
    if "late-bindings" in sys.argv[2:]:
        late_bindings()
    main(Path(sys.argv[1]))
