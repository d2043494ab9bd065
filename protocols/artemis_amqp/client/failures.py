"""Exceptions for a client's connections and links that failed."""

from typing import Final

from artemis_amqp.engine.performatives import AmqpError
from artemis_py.errors import ArtemisError


class ClientError(ArtemisError):
    """A connection or link could not be opened, or ended before we ended it."""

    def __init__(self, text: str, error: AmqpError | None = None, what: str = "") -> None:
        super().__init__(text)
        self.error: Final = error
        """The broker's reason; None if it gave none or no broker was reached."""
        self.what: Final = what
        """Two words for what the broker did; empty if the failure is not the broker's."""

    @property
    def condition(self) -> str | None:
        """AMQP condition of the broker's reason."""
        return None if self.error is None else self.error.condition


class ConnectionFailed(ClientError):
    """The connection could not be opened, or is lost."""


class LinkFailed(ClientError):
    """The broker refused or detached a link."""

    def __init__(self, text: str, error: AmqpError | None, what: str, address: str | None) -> None:
        super().__init__(text, error, what)
        self.address: Final = address
        """Address that the link was attached to; None if the broker was to choose one."""


def reason_of(error: AmqpError | None, otherwise: str) -> str:
    """Return the broker's description or condition; `otherwise` if it gave no error."""
    return otherwise if error is None else error.description or error.condition
