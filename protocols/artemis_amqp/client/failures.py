"""Why a client's connection or link is not there."""

from typing import Final

from artemis_amqp.engine.performatives import AmqpError
from artemis_py.errors import ArtemisError


class ClientError(ArtemisError):
    """A connection or link did not come about, or ended before we ended it."""

    def __init__(self, text: str, error: AmqpError | None = None, what: str = "") -> None:
        super().__init__(text)
        self.error: Final = error
        """The broker's reason; None if it gave none or there was no broker."""
        self.what: Final = what
        """What the broker did, in two words; empty if it was not the broker."""

    @property
    def condition(self) -> str | None:
        """The AMQP condition of the broker's reason."""
        return None if self.error is None else self.error.condition


class ConnectionFailed(ClientError):
    """No connection, or no more."""


class LinkFailed(ClientError):
    """The broker refused or detached a link."""


def reason_of(error: AmqpError | None, otherwise: str) -> str:
    """The broker's words; `otherwise` if it has none."""
    return otherwise if error is None else error.description or error.condition
