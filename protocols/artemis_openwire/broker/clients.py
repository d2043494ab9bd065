"""The open connections, by client id and by connection id."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from artemis_openwire.broker.handler import ClientHandler


class Clients:
    """Clients that have logged in."""

    def __init__(self) -> None:
        self._by_client_id: dict[str, ClientHandler] = {}
        self._by_connection_id: dict[str, ClientHandler] = {}

    def with_client_id(self, client_id: str) -> "ClientHandler | None":
        """Return the client of this id."""
        return self._by_client_id.get(client_id)

    def with_connection_id(self, connection_id: str) -> "ClientHandler | None":
        """Return the client whose connection has this name."""
        return self._by_connection_id.get(connection_id)

    def all(self) -> "list[ClientHandler]":
        """Return all clients."""
        return list(self._by_connection_id.values())

    def add(self, handler: "ClientHandler") -> None:
        """Register a client; its two names are free."""
        self._by_client_id[handler.client_id] = handler
        self._by_connection_id[handler.connection_id] = handler

    def remove(self, handler: "ClientHandler") -> None:
        """Forget a client."""
        if self._by_client_id.get(handler.client_id) is handler:
            del self._by_client_id[handler.client_id]
        if self._by_connection_id.get(handler.connection_id) is handler:
            del self._by_connection_id[handler.connection_id]
