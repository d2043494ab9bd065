"""Connections of this broker to others that are no members of its mesh: `<broker-connections>`."""

from typing import Final

from attrs import field, frozen

from artemis_py.core.settings.declaration import Kind, option, options_of


@frozen(kw_only=True)
class BridgeConfig:
    """One `<sender>` or `<receiver>`: queues whose messages go to the other broker, or come from there."""

    is_sender: bool
    address_match: str = option(
        Kind.TEXT, "", "Queues of all addresses that this match covers, those that are created later too."
    )
    queue_name: str = option(Kind.TEXT, "", "One queue, in place of `address-match`.")
    remote_address: str = option(
        Kind.TEXT,
        "",
        "Name at the other broker; `{address}` and `{queue}` stand for those of this broker. Unset: the address, and "
        "for a receiver whose queue has another name than its address, `{address}::{queue}`. Not in Artemis.",
    )
    use_duplicate_detection: bool = option(
        Kind.BOOLEAN,
        True,
        "For a sender: give each message an `_AMQ_DUPL_ID` unless it has one, by which Artemis and this broker know "
        "what they have taken before a connection was lost. Not in Artemis.",
    )
    filter: str | None = None
    """Selector of the messages that go to the other broker; None: all do."""
    file: str = field(default="", eq=False)
    line: int = field(default=0, eq=False)
    """Line of `file` that declares it."""

    @property
    def element(self) -> str:
        """Name of its element."""
        return "sender" if self.is_sender else "receiver"


BRIDGE_OPTIONS: Final = options_of(BridgeConfig)
"""Attributes of `<sender>`."""
RECEIVER_OPTIONS: Final = tuple([each for each in BRIDGE_OPTIONS if each.attribute != "use_duplicate_detection"])
"""Attributes of `<receiver>`."""


@frozen(kw_only=True, repr=False)
class BrokerConnectionConfig:
    """One `<amqp-connection>`, without the URI; times are milliseconds."""

    name: str
    user: str = option(Kind.TEXT, "", "User to log in as; unset: the certificate counts, or the login is anonymous.")
    password: str = option(Kind.TEXT, "", "The password of that user.")
    retry_interval_ms: int = option(
        Kind.MILLISECONDS,
        5_000,
        "Time before a connection, or a sender or receiver that was refused, is tried again.",
        name="retry-interval",
        minimum=1,
    )
    reconnect_attempts: int = option(
        Kind.COUNT, -1, "Attempts to connect until it is given up; -1: no limit.", minimum=-1
    )
    auto_start: bool = option(
        Kind.BOOLEAN, True, "Whether it is made when the broker starts, or only when an administrator starts it."
    )
    initial_connect_attempts: int | None = None
    """Attempts to connect for the first time, in place of `reconnect_attempts`; None: those."""
    retry_interval_multiplier: float = 1.0
    """Factor by which the time between attempts grows with each failure."""
    max_retry_interval_ms: int = 0
    """Longest time between two attempts; 0: it does not grow."""
    bridges: tuple[BridgeConfig, ...] = ()

    def __repr__(self) -> str:
        """Leave out the password: what has changed goes to the log."""
        return f"{self.name} as {self.user or 'nobody'}"


BROKER_CONNECTION_OPTIONS: Final = options_of(BrokerConnectionConfig)
"""Attributes of `<amqp-connection>`, without its name and its URI."""
