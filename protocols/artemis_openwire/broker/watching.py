"""Consumers of advisories: what they watch, and what waits for room in the output."""

from collections import deque
from typing import TYPE_CHECKING, Final

from artemis_openwire.broker.destinations import matches
from artemis_openwire.engine.dispatch_writer import DispatchWriter
from artemis_openwire.engine.names import TEMP_QUEUE, TEMP_TOPIC
from artemis_openwire.engine.structures import ConsumerId

if TYPE_CHECKING:
    from artemis_openwire.broker.handler import ClientHandler

# Advisories that wait for a client that does not read. They are shared by all watchers, and a client that falls behind
# by more cannot be helped by older ones.
MAX_PENDING: Final = 10_000


class Watcher:
    """One consumer on topics of advisories; they are not acknowledged, and no window holds them back."""

    def __init__(self, handler: "ClientHandler", id: ConsumerId, patterns: list[str]) -> None:
        self.id: Final = id
        self.is_closed: bool = False
        self._handler: Final = handler
        self._patterns: Final = patterns
        self._writer: Final[DispatchWriter] = handler.engine.dispatch_writer(id)
        self._number: int = handler.manager.numbering.begin()
        self._pending: deque[tuple[bytes, bytes, bytes]] = deque()
        self._has_lost: bool = False

    def wants(self, topic: str) -> bool:
        """Tell whether a topic is among those that are watched."""
        return any(matches(pattern, topic) for pattern in self._patterns)

    @property
    def watches_clients(self) -> bool:
        """Whether it may be told of more than temporary destinations, which every client library watches."""
        return any(pattern not in (TEMP_QUEUE, TEMP_TOPIC) for pattern in self._patterns)

    def send(self, header: bytes, body: bytes, destination_field: bytes) -> None:
        """Send an advisory, behind those that wait."""
        if self.is_closed:
            return
        if len(self._pending) >= MAX_PENDING:
            if not self._has_lost:
                self._has_lost = True
                template = "advisories lost, the client does not read: peer=%s client=%s"
                handler = self._handler
                handler.brake.warning(handler.source, template, handler.context.peer, handler.client_id)
            return
        self._pending.append((header, body, destination_field))
        self.find_room()

    def find_room(self) -> None:
        """Write what waits, as far as there is room."""
        pending = self._pending
        while pending and self._handler.engine.can_send:
            header, body, field = pending.popleft()
            self._number += 1
            self._writer.send(header, body, field, self._number, 0, self._handler.host.now_ms, False)
