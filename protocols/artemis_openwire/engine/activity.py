"""What the passing of time does to a connection: signs of life in both directions (openwire §12.5), and a late end.

After an initial delay there are two checks: each interval, whether the client was heard since the last one, and each
third of it, whether it was sent anything. A refused client is closed a little later than it is told so. Compiled.
"""

from typing import Final

_NEVER: Final = float("inf")
_KEEP_ALIVES: Final = 3
"""Signs of life within the time after which silence counts."""

# Seconds between a refused login and the end of the socket: a Java client that meets the end first reports a broken
# connection in place of the reason (openwire §12.1).
REFUSAL_LINGER_S: Final = 2.0


class Activity:
    """The checks of one connection."""

    def __init__(self) -> None:
        self.has_heard: bool = False
        """Whether octets have come from the client since the last check."""
        self.has_sent: bool = False
        """Whether octets were sent to it."""
        self.interval_s: float = 0.0
        self.hears_at: float = _NEVER
        """When it is checked next that the client was heard."""
        self.sends_at: float = _NEVER
        """When it is checked next that it was sent something."""
        self.is_unread: bool = False
        """Whether the client was not read from for some time since the last check: its silence then means nothing."""
        self.closes_at: float = -1.0
        """When a refused client is closed; -1: that is not known yet."""

    def begin(self, now: float, interval_s: float, delay_s: float, sends: bool) -> None:
        """Check from `delay_s` on, every `interval_s`; 0: never. `sends`: whether we give signs of life as well."""
        if interval_s > 0.0:
            self.interval_s = interval_s
            self.hears_at = now + delay_s + interval_s
            if sends:
                self.sends_at = now + min(delay_s, interval_s / _KEEP_ALIVES)

    @property
    def next_check(self) -> float | None:
        """When the next check is due."""
        due = min(self.hears_at, self.sends_at)
        return None if due == _NEVER else due

    def is_silent(self, now: float, stays_unread: bool = False) -> bool:
        """Check whether the client was heard, if that is due. `stays_unread`: nobody reads from it now."""
        if now < self.hears_at:
            return False
        is_excused = self.has_heard or stays_unread
        self.has_heard = False
        self.hears_at = now + self.interval_s
        if is_excused:
            return False
        was_unread = self.is_unread
        self.is_unread = False
        return not was_unread

    def has_to_send(self, now: float) -> bool:
        """Check whether the client was sent anything, if that is due."""
        if now < self.sends_at:
            return False
        sent = self.has_sent
        self.has_sent = False
        self.sends_at = now + self.interval_s / _KEEP_ALIVES
        return not sent

    def has_lingered(self, now: float) -> bool:
        """Tell whether a refused client has had time to read why; the first question sets when it has."""
        if self.closes_at < 0.0:
            self.closes_at = now + REFUSAL_LINGER_S
            return False
        return now >= self.closes_at
