"""A store whose virtual hosts come and go under load until it dies: `python -m … folder [fault]`.

Each step is one change of hosts and one message for each of them, which become durable together; what a deleted host
has is deleted in later commits. It prints the number of each step that is durable.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.routing.domain import Domain
from artemis_py.core.services import virtual_hosts
from artemis_py.core.services.virtual_hosts import VirtualHost, VirtualHosts
from artemis_py.core.settings.exchange_config import Destination, ExchangeConfig, ExchangeType
from artemis_py.core.settings.virtual_host_config import VirtualHostConfig
from tests.core_harness import make_queue
from tests.unit.store.world import World, bodies

STEPS: Final = 12
QUEUES: Final = ("a", "b")
SPARE: Final = 40


def fill(domain: Domain, spare: int = 0) -> None:
    """Queues, an exchange and its bindings; more queues, so that deleting them takes several slices."""
    for number in range(spare):
        make_queue(domain, f"spare{number}")
    exchange = domain.exchanges.declare(ExchangeConfig(name="e", type=ExchangeType.FANOUT))
    for name in QUEUES:
        make_queue(domain, name)
        domain.exchanges.bind(exchange, "", Destination(name, True))


def send(domain: Domain, text: str) -> None:
    """A message for both queues."""
    domain.publishing.publish(plain_message("", MessageView(body=text), True), domain.exchanges.exchange("e"), "")


def steps(world: World) -> Iterator[int]:
    """Change something, send something, and yield the number of the step before anything of it is stored."""
    hosts = world.hosts
    hosts.begin()
    for number in range(STEPS):
        if number == 0:
            fill(world.domain)
        elif number % 4 == 1:
            # Under the name of the host that was deleted two steps before.
            fill(hosts.create(VirtualHostConfig(name="red", max_queues=100 + number)).services.sessions.domain, SPARE)
        elif number % 4 == 2:
            hosts.stop("red")
        elif number % 4 == 3:
            hosts.delete("red")
        else:
            fill(hosts.create(VirtualHostConfig(name=f"blue{number}")).services.sessions.domain)
        for services in hosts.restored():
            send(services.sessions.domain, str(number))
        yield number


def state(world: World) -> object:
    """What is there: hosts with their states, and the messages of each queue of each host."""
    found = [
        (host.name, host.state.value, host.config.max_queues, contents(host.services.sessions.domain))
        for host in world.hosts.all()
    ]
    return contents(world.domain), sorted(found)


def contents(domain: Domain) -> object:
    """The messages of each queue."""
    return [(name, bodies(queue)) for name, queue in sorted(domain.queues.items())]


def main(folder: Path) -> None:
    """What is printed leaves the process at once."""
    world = World(folder)
    for number in steps(world):
        world.domain.storage.when_durable(lambda number=number: print(number, flush=True))  # type: ignore[misc]
        settle(world)


def settle(world: World) -> None:
    """Let everything happen, with a commit after each turn: a deletion then takes several."""
    is_busy = True
    while is_busy:
        is_busy = world.domain.dispatcher.run() or bool(world.hands.planned)
        world.hands.turn()
        while world.hands.jobs:
            world.hands.work()


def early_record() -> None:
    """A planted fault: the record of a deleted host is forgotten at once, before what it has is deleted."""

    def forget(self: VirtualHosts, host: VirtualHost) -> None:
        key = virtual_hosts._KEY.pack(host.id)
        self._dispatcher.storage.save_record(virtual_hosts.SPACE, key, None)

    leave = VirtualHosts.delete

    def delete(self: VirtualHosts, name: str) -> VirtualHost:
        host = leave(self, name)
        forget(self, host)
        return host

    setattr(VirtualHosts, "delete", delete)  # noqa: B010  mypy forbids assigning to a function


if __name__ == "__main__":
    if "early-record" in sys.argv[2:]:
        early_record()
    main(Path(sys.argv[1]))
