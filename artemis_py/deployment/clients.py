"""The clients of a broker that is being drained: new ones are sent to others or refused, and the rest must leave."""

from typing import Final

from artemis_py.core.runtime.background import Steps
from artemis_py.core.runtime.timers import Timer
from artemis_py.core.sessions.sessions import Sessions

REASON: Final = "this broker is being drained: connect to another one of its mesh"
"""What clients are told, in the words of their protocol."""

CLIENTS_PER_TURN: Final = 50
"""Connections that are ended in one iteration: each gives back what it has."""


class Clients:
    """All clients of one domain but those that operate the broker."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions: Final = sessions
        self._timer: Timer | None = None

    @property
    def count(self) -> int:
        """How many are connected."""
        return sum(not each.is_operator and each.client is not None for each in self._sessions.opened.values())

    def send_away(self, grace_ms: int) -> None:
        """Refuse new clients, and end the connections of the others after a time; below 0: leave that to them."""
        sessions = self._sessions
        sessions.closed_because = REASON
        sessions.is_drained = True
        dispatcher = sessions.domain.dispatcher
        if grace_ms >= 0:
            self._timer = dispatcher.after(grace_ms, self._disconnect)

    def let_in(self) -> None:
        """Take new clients again."""
        self._sessions.closed_because = None
        self._sessions.is_drained = False
        if self._timer is not None:
            self._timer.cancel()

    def _disconnect(self) -> None:
        self._sessions.domain.dispatcher.slices.start(self._steps())

    def _steps(self) -> Steps:
        for number, session in enumerate(list(self._sessions.opened.values()), 1):
            if not self._sessions.is_drained:
                return None
            if not session.is_operator and session.client is not None:
                # In the words of its protocol for that, if there is a broker that it may use.
                session.client.refer(only_followers=False)
                session.disconnect(REASON)
            if not number % CLIENTS_PER_TURN:
                yield None
        return None
