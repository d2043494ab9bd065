"""The log of what the core decides: it tells its listener, and this one writes it down."""

import logging
import time
from collections.abc import Callable
from typing import Final

from artemis_py.core.access import Permission, Subject
from artemis_py.transport.brake import LogBrake

LOGGER: Final = logging.getLogger(__name__)

# One user's denials must not hide another's, nor one address the next. A client that cycles through names still writes
# no more than 2 lines a second.
DISTINCT_LINES: Final = 20


class EventLog:
    """Fulfils `core.events.Listener`. What clients can provoke at will is logged at a bounded rate or as DEBUG."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._brake = LogBrake(LOGGER)

    def address_created(self, name: str, auto_created: bool) -> None:
        LOGGER.debug("address created: name=%s auto_created=%s", name, auto_created)

    def address_deleted(self, name: str, reason: str) -> None:
        LOGGER.debug("address deleted: name=%s reason=%s", name, reason)

    def queue_created(self, name: str, address: str, auto_created: bool) -> None:
        LOGGER.debug("queue created: name=%s address=%s auto_created=%s", name, address, auto_created)

    def queue_deleted(self, name: str, address: str, reason: str) -> None:
        LOGGER.debug("queue deleted: name=%s address=%s reason=%s", name, address, reason)

    def unrouted(self, address: str) -> None:
        """A newcomer's most common surprise (reference §9.1): a topic without subscribers keeps nothing."""
        remedy = "an anycast queue would have kept it for later consumers"
        self._brake.warn("message reached no queue", f"address={address}; {remedy}", self._now(), DISTINCT_LINES)

    def dropped(self, queue: str, reason: str, count: int) -> None:
        """The core bounds how often it tells this, and no message is left out of its numbers (`core.discards`)."""
        LOGGER.warning("messages discarded: queue=%s count=%d reason=%s", queue, count, reason)

    def duplicate(self, address: str, id: str) -> None:
        self._brake.warn("duplicate not routed", f"address={address} id={id}", self._now(), DISTINCT_LINES)

    def address_full(self, address: str, policy: str, size_bytes: int) -> None:
        LOGGER.warning("address is full: name=%s policy=%s size_bytes=%d", address, policy, size_bytes)

    def address_has_room(self, address: str) -> None:
        LOGGER.info("address has room again: name=%s", address)

    def limit_reached(self, text: str, peer: str) -> None:
        self._brake.warn("limit reached", f"{text}; peer={peer}", self._now(), DISTINCT_LINES)

    def denied(self, subject: Subject, permission: Permission, address: str, queue: str | None, peer: str) -> None:
        where = f"address={address}" if queue is None else f"address={address} queue={queue}"
        detail = f"user={subject.name} permission={permission.value} {where} peer={peer}"
        self._brake.warn("permission denied", detail, self._now(), DISTINCT_LINES)
