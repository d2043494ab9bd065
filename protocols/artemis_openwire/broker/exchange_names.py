"""Destinations that mean an exchange: `exchange://name/key`, as a queue or a topic.

What follows the slash is the routing key of all messages, or the binding key of a subscription, in the words of
exchanges (`#` and not `>`). Without it each message has its own routing key.
"""

from typing import Final

from attrs import frozen

from artemis_py.core.messages.message import Message
from artemis_py.core.sessions.exchanges import RoutingKeys, open_exchange_of_name
from artemis_py.core.sessions.producer import Producer
from artemis_py.core.sessions.session import Session

SCHEME: Final = "exchange://"
_KEY_PROPERTIES: Final = ("routing_key", "routing-key")


@frozen
class ExchangeName:
    """An exchange, and perhaps a key."""

    exchange: str
    key: str | None


class MessageKeys(RoutingKeys):
    """Finds the routing key in a message: a property, else its JMSType, else none."""

    def key_of(self, message: Message, exchange: str) -> str:
        """Return the routing key of a message."""
        for name in (*_KEY_PROPERTIES, "JMSType"):
            value = message.lookup(name)
            if isinstance(value, str):
                return value
        return ""


KEYS: Final = MessageKeys()


def read_exchange_name(name: str) -> ExchangeName | None:
    """Return what a physical name means; None if it is the name of an address."""
    if not name.startswith(SCHEME):
        return None
    exchange, _, key = name[len(SCHEME) :].partition("/")
    return ExchangeName(exchange, key or None)


def exchange_name_of(exchange: str, key: str) -> str:
    """Return the physical name of an exchange with a key."""
    return f"{SCHEME}{exchange}/{key}"


def open_exchange(session: Session, wanted: ExchangeName) -> Producer:
    """Open a producer for an exchange; what reaches no queue is refused if the exchange says so. Raises Refusal."""
    return open_exchange_of_name(session, wanted.exchange, wanted.key, KEYS)
