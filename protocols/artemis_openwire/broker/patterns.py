"""Consumers on patterns of queues: they take from every queue whose name matches, and from those that come later.

A pattern of topics needs nothing of this: it is a subscription of its own.
"""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from artemis_openwire.broker.destinations import is_wild, matches
from artemis_openwire.broker.exchange_names import SCHEME
from artemis_openwire.broker.subscriptions import Reading, routing_type_of
from artemis_openwire.engine.structures import ActiveMQDestination, ActiveMQTempDestination
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.names.syntax import FQQN_SEPARATOR
from artemis_py.core.queues.queue import Queue
from artemis_py.core.runtime.access import Permission
from artemis_py.core.runtime.events import Event, QueueAdded
from artemis_py.core.selectors.filter import Filter
from artemis_py.core.sessions.subscriptions import Subscription
from artemis_py.errors import Refusal
from artemis_py.protocol import Host

if TYPE_CHECKING:
    from artemis_openwire.broker.consumers import ClientConsumer

# Queues of one consumer. Each is a consumer of the core, and every time the window fills up all of them are told.
MAX_QUEUES: Final = 1024

# Names that are compared before other clients are served: about 1 ms.
_NAMES_PER_STEP: Final = 500


def is_pattern(destination: ActiveMQDestination) -> bool:
    """Tell whether a destination stands for any number of queues."""
    name = destination.physical_name or ""
    return (
        routing_type_of(destination) is RoutingType.ANYCAST
        and not isinstance(destination, ActiveMQTempDestination)
        and FQQN_SEPARATOR not in name
        and not name.startswith(SCHEME)
        and is_wild(name)
    )


class PatternReader:
    """One consumer on one pattern."""

    def __init__(self, consumer: "ClientConsumer", pattern: ActiveMQDestination, filter: Filter | None) -> None:
        self.consumer: Final = consumer
        self._pattern: Final = pattern
        self._filter: Final = filter
        self._has_warned: bool = False

    def wants(self, name: str) -> bool:
        """Tell whether the pattern covers a name."""
        return matches(self._pattern.physical_name or "", name)

    def attach(self, queue: Queue) -> None:
        """Take from a queue as well, if it is one for clients and the client may."""
        consumer = self.consumer
        core = consumer.exchange.core
        is_for_clients = queue.routing_type is RoutingType.ANYCAST and not queue.internal and not queue.temporary
        if consumer.is_closed or queue.is_deleted or not is_for_clients:
            return
        if consumer.is_browser and consumer.has_started:
            # It has seen what there was.
            return
        permission = Permission.BROWSE if consumer.is_browser else Permission.CONSUME
        if consumer.exchange.handler.host.options.wildcards.is_wild(queue.name) or consumer.reads(queue):
            return
        if not core.may(permission, queue.address.name, queue.name):
            return
        try:
            if len(consumer.sources) < MAX_QUEUES:
                consumer.add(Reading(Subscription(queue), self._filter, is_wild=True), self._pattern)
            else:
                self._warn(f"a consumer takes from at most {MAX_QUEUES} queues")
        except Refusal as refusal:
            self._warn(str(refusal))

    def _warn(self, reason: str) -> None:
        if not self._has_warned:
            self._has_warned = True
            handler = self.consumer.exchange.handler
            template = "queue left out of a pattern: client=%s pattern=%s reason=%s"
            handler.brake.warning(handler.source, template, handler.client_id, self._pattern.physical_name, reason)


class QueuePatterns:
    """All consumers on patterns."""

    def __init__(self, host: Host) -> None:
        self._host: Final = host
        self._readers: list[PatternReader] = []
        host.events.subscribe(self._on_event, QueueAdded)

    def begin(self, reader: PatternReader) -> Iterator[None]:
        """Attach to the queues that exist, in steps, and from now on to those that are created."""
        self._readers.append(reader)
        for count, queue in enumerate(list(self._host.sessions.queues())):
            if reader.wants(queue.name):
                reader.attach(queue)
            if count % _NAMES_PER_STEP == _NAMES_PER_STEP - 1:
                self._host.meter.work += _NAMES_PER_STEP
                yield None

    def end(self, consumer: "ClientConsumer") -> None:
        """Attach a consumer to nothing more."""
        self._readers = [reader for reader in self._readers if reader.consumer is not consumer]

    def _on_event(self, event: Event) -> None:
        """Attach to a new queue, a little later: a listener must not change the core."""
        assert isinstance(event, QueueAdded)
        for reader in self._readers:
            if reader.wants(event.name):
                self._host.after(0, partial(self._attach, reader, event.name))

    def _attach(self, reader: PatternReader, name: str) -> None:
        queue = self._host.sessions.find_queue(name)
        if queue is not None:
            reader.attach(queue)
