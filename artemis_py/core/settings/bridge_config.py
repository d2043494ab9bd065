"""The `<bridge>` of Artemis, as it is written: a broker connection is made from it."""

from enum import Enum
from typing import Final

from attrs import frozen

from artemis_py.core.settings.declaration import Kind, option, options_of


class RoutingTypeOfBridge(Enum):
    """What becomes of the routing type of messages."""

    PASS = "PASS"
    """They keep it."""
    STRIP = "STRIP"
    ANYCAST = "ANYCAST"
    MULTICAST = "MULTICAST"


@frozen(kw_only=True, repr=False)
class BridgeElements:
    """The elements of one `<bridge>`; times are milliseconds."""

    queue_name: str = option(Kind.TEXT, "", "Queue whose messages go to the other broker.")
    forwarding_address: str = option(Kind.TEXT, "", "Address that they are sent to there; unset: that of the queue.")
    user: str = option(Kind.TEXT, "", "User to log in as; unset: the certificate counts, or the login is anonymous.")
    password: str = option(Kind.TEXT, "", "The password of that user.")
    retry_interval_ms: int = option(
        Kind.MILLISECONDS, 2_000, "Time before a connection is tried again.", name="retry-interval", minimum=1
    )
    retry_interval_multiplier: float = option(
        Kind.FACTOR, 1.0, "Factor by which that time grows with each failure.", minimum=1
    )
    max_retry_interval_ms: int = option(
        Kind.MILLISECONDS, 2_000, "Longest time between two attempts.", name="max-retry-interval", minimum=1
    )
    initial_connect_attempts: int = option(
        Kind.COUNT, -1, "Attempts to reach the other broker for the first time; -1: no limit.", minimum=-1
    )
    reconnect_attempts: int = option(Kind.COUNT, -1, "Attempts to reach it again; -1: no limit.", minimum=-1)
    use_duplicate_detection: bool = option(
        Kind.BOOLEAN,
        True,
        "Give each message an `_AMQ_DUPL_ID` unless it has one, by which the other broker knows what it has taken.",
    )
    routing_type: RoutingTypeOfBridge = option(  # noqa: RUF009  it makes a field
        RoutingTypeOfBridge, RoutingTypeOfBridge.PASS, "Only PASS: messages keep their routing type."
    )
    concurrency: int = option(Kind.COUNT, 1, "Only 1, which keeps the order of messages.", minimum=1)

    def __repr__(self) -> str:
        """Leave out the password."""
        return f"bridge of {self.queue_name}"


BRIDGE_ELEMENTS: Final = options_of(BridgeElements)
"""Elements of `<bridge>` that have one value."""
