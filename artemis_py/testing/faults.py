"""Faults of the broker and of its disk, by script. `network` has those between client and broker."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from artemis_py.broker import Broker
from artemis_py.core.addresses.address import Address
from artemis_py.core.addresses.binding import Binding
from artemis_py.core.messages.message import Message
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.errors import InvalidRequest, Refusal

_NAME: Final = "artemis_py.testing"


class _Refusing(Binding):
    """Refuses some messages of an address, and takes none: it is asked before anything gets a message.

    It is bound to the wildcard address of all addresses, because its own may not exist yet, and is to be created by the
    client as ever.
    """

    def __init__(self, everything: Address, address: str, first: int, count: int, refusal: Refusal) -> None:
        super().__init__(f"{_NAME}.{id(self)}", everything, RoutingType.MULTICAST)
        self.takes_any_type = self.supersedes = self.is_accessory = True
        self._address: Final = address
        self._first: Final = first
        self._last: Final = first + count - 1
        self._refusal: Final = refusal
        self._asked = 0
        self.refused = 0

    def accepts(self, message: Message) -> bool:
        if message.address != self._address:
            return False
        self._asked += 1
        if self._first <= self._asked <= self._last:
            self.refused += 1
            raise self._refusal
        return False

    def take(self, message: Message) -> None:
        raise AssertionError("it accepts nothing")


class Refusals:
    """Messages of an address that are refused, while the block runs."""

    def __init__(self, binding: _Refusing) -> None:
        self._binding: Final = binding

    @property
    def refused(self) -> int:
        """Number of messages that were refused so far."""
        return self._binding.refused


class Faults:
    """Makes one broker fail as a test asks; each fault is a context manager and ends with its block."""

    def __init__(self, ask: Callable[[Callable[[Broker], Any]], Any]) -> None:
        self._ask: Final = ask

    @contextmanager
    def refuse(
        self, address: str, nth: int = 1, count: int = 1, refusal: Refusal | str = "refused by the test"
    ) -> Iterator[Refusals]:
        """Refuse the `nth` message for an address, counted from 1 at the begin of the block, and the next ones.

        `count` messages are refused in all, as the protocol of the client says it: an AMQP message is rejected, an MQTT
        publication gets a reason code. `refusal` is the reason, or an exception of `artemis_py.errors`. Messages of
        other protocols' clients count too. Raises ValueError for numbers below 1,
        and without the routing of wildcard addresses.
        """
        if nth < 1 or count < 1:
            raise ValueError("messages are counted from 1")
        reason = InvalidRequest(refusal) if isinstance(refusal, str) else refusal

        def begin(broker: Broker) -> _Refusing:
            domain = broker.domain
            if not domain.options.wildcards.routing_enabled:
                raise ValueError("refusals need the routing of wildcard addresses, which the configuration disables")
            all_names = domain.options.wildcards.any_words
            everything = domain.addresses.get(all_names)
            if everything is None:
                everything = domain.create_address(all_names, frozenset(RoutingType), auto_created=True)
            binding = _Refusing(everything, address, nth, count, reason)
            domain.bind(binding)
            return binding

        binding = self._ask(begin)
        try:
            yield Refusals(binding)
        finally:
            self._ask(lambda broker: broker.domain.unbind(binding))

    def end_consumers(
        self, queue: str, reason: str = "ended by the test", condition: str = "amqp:resource-deleted"
    ) -> int:
        """End all consumers of a queue; return how many there were. The queue stays, and gets back what they had.

        An AMQP link is detached with the condition. Clients of other protocols are told that the queue was deleted.
        """

        def end(broker: Broker) -> int:
            found = broker.domain.queues.get(queue)
            consumers = [] if found is None else list(found.consumers)
            for consumer in consumers:
                consumer.close(False)
                consumer.sink.forced(condition, reason)
            return len(consumers)

        return int(self._ask(end))

    @contextmanager
    def stalled_disk(self) -> Iterator[None]:
        """Let no commit of the store end: nothing durable is confirmed until the end of the block.

        Raises ValueError for a broker without a store (`running_broker(persistent=True)`).
        """
        go_on = threading.Event()

        def stall(broker: Broker) -> None:
            if broker.store_worker is None:
                raise ValueError("a broker that keeps everything in memory has no disk: use persistent=True")
            broker.store_worker.submit(lambda: _wait(go_on), _ignore)

        self._ask(stall)
        try:
            yield
        finally:
            go_on.set()


def _wait(event: threading.Event) -> None:
    event.wait()


def _ignore(result: object) -> None:
    """The outcome of waiting."""
