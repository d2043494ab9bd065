"""One binding of an exchange: a key, a destination, and arguments."""

from typing import TYPE_CHECKING

from artemis_py.core.queues.queue import Queue
from artemis_py.core.routing.exchanges.arguments import (
    Criteria,
    Scalar,
    criteria_of,
    replacement_of,
    selector_of,
)
from artemis_py.core.routing.exchanges.patterns import check_words
from artemis_py.core.runtime.accounts import ARGUMENT_BYTES, NAME_FACTOR, WORD_BYTES
from artemis_py.core.selectors.filter import Filter

if TYPE_CHECKING:
    from artemis_py.core.routing.exchanges.exchange import Exchange

Identity = tuple[str, bool, str]
"""Key, whether the destination is a queue, and its name: what a binding is within its exchange (qpid-exchanges §3)."""


class ExchangeBinding:
    """Leads from an exchange to a queue or to another exchange; it is replaced, not changed."""

    __slots__ = (
        "arguments",
        "criteria",
        "exchange",
        "filter",
        "identity",
        "is_declared",
        "key",
        "queue",
        "replacement",
        "source",
    )

    def __init__(
        self,
        source: "Exchange",
        key: str,
        queue: Queue | None,
        exchange: "Exchange | None",
        arguments: dict[str, Scalar],
    ) -> None:
        """Make a binding to one of the two, with arguments that `check_arguments` returned.

        Raises InvalidFilter, InvalidRequest.
        """
        if source.has_patterns:
            check_words("binding key", key)
        self.source: Exchange = source
        self.key: str = key
        self.queue: Queue | None = queue
        self.exchange: Exchange | None = exchange
        self.arguments: dict[str, Scalar] = arguments
        self.filter: Filter | None = selector_of(arguments)
        self.replacement: str | None = replacement_of(arguments)
        """Routing key for the exchange that it leads to; None: the one it came with."""
        self.criteria: Criteria | None = criteria_of(arguments) if source.is_headers else None
        name = queue.name if queue is not None else "" if exchange is None else exchange.name
        self.is_declared: bool = False
        """Whether the configuration declares it, and not a client."""
        self.identity: Identity = (key, queue is not None, name)

    @property
    def is_stored(self) -> bool:
        """Whether both ends are there after a restart."""
        if not self.source.is_durable:
            return False
        if self.queue is not None:
            return self.queue.is_stored
        return self.exchange is not None and self.exchange.is_durable

    def table_bytes(self, each: int) -> int:
        """Return the bytes that it takes, if a binding without texts takes `each`."""
        chars = len(self.key) + (0 if self.replacement is None else len(self.replacement))
        for name, value in self.arguments.items():
            chars += ARGUMENT_BYTES + len(name) + (len(value) if isinstance(value, str) else 0)
        words = self.key.count(".") if self.source.has_patterns else 0
        return each + NAME_FACTOR * chars + WORD_BYTES * words

    @property
    def destination(self) -> str:
        """Name of the destination, in words."""
        return f"{'queue' if self.identity[1] else 'exchange'} '{self.identity[2]}'"
