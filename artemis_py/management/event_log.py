"""The log of what the core decides: it tells its listener, and this one writes it down."""

import time
from collections.abc import Callable
from typing import Final

from artemis_py.core.runtime.access import Permission, Subject
from artemis_py.logs import LogBrake, named_logger
from artemis_py.peers import address_of

LOGGER: Final = named_logger(__name__)


class EventLog:
    """Fulfils `events.Listener`. What clients can provoke at will is logged at a bounded rate or as DEBUG."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._brake = LogBrake(LOGGER, now)

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
        template = "message reached no queue: address=%s; an anycast queue would have kept it for later consumers"
        self._brake.warning(address, template, address)

    def dropped(self, queue: str, reason: str, count: int) -> None:
        """The core bounds how often it tells this, and no message is left out of its numbers (`discards`)."""
        LOGGER.warning("messages discarded: queue=%s count=%d reason=%s", queue, count, reason)

    def duplicate(self, address: str, id: str) -> None:
        self._brake.warning(address, "duplicate not routed: address=%s id=%s", address, id)

    def address_full(self, address: str, policy: str, size_bytes: int) -> None:
        template = "address is full: name=%s policy=%s size_bytes=%d"
        self._brake.warning(address, template, address, policy, size_bytes)

    def address_has_room(self, address: str) -> None:
        self._brake.info(address, "address has room again: name=%s", address)

    def limit_reached(self, text: str, peer: str) -> None:
        self._brake.warning(address_of(peer), "limit reached: %s; peer=%s", text, peer)

    def denied(self, subject: Subject, permission: Permission, address: str, queue: str | None, peer: str) -> None:
        where: tuple[str, ...] = (address,) if queue is None else (address, queue)
        template = "permission denied: user=%s permission=%s address=%s" + (" queue=%s" if queue is not None else "")
        self._brake.warning(subject.name, template + " peer=%s", subject.name, permission.value, *where, peer)
