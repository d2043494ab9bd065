"""Addresses of RabbitMQ 4 (version 2), on acceptors with `amqpAddresses=RABBITMQ` (qpid-exchanges §16.1).

    /exchanges/:exchange/:routing-key     target
    /exchanges/:exchange                  target; the routing key is empty
    /queues/:queue                        target or source; the queue must exist

Each segment is percent-encoded. Addresses that do not begin with a slash mean what they mean on other acceptors.
"""

from enum import Enum
from typing import Final
from urllib.parse import unquote_to_bytes

from attrs import frozen

from artemis_py.core.names.syntax import FQQN_SEPARATOR
from artemis_py.errors import InvalidRequest

_EXCHANGES: Final = "exchanges"
_QUEUES: Final = "queues"
_DEFAULT_EXCHANGES: Final = ("", "amq.default")
"""Names that RabbitMQ's default exchange has elsewhere; an address of a queue is what reaches it."""
_HEXADECIMAL: Final = frozenset("0123456789abcdefABCDEF")


class Addresses(Enum):
    """Addresses that an acceptor understands."""

    ARTEMIS = "artemis"
    RABBITMQ = "rabbitmq"
    """Those of RabbitMQ 4 as well."""


@frozen
class RabbitTarget:
    """What a target means: an exchange with a routing key, or else the queue of this name."""

    exchange: str | None
    key: str
    """Routing key, or name of the queue."""


def read_target(address: str) -> RabbitTarget | None:
    """Return what the address of a target means; None if it is none of RabbitMQ's. Raises InvalidRequest."""
    match _segments(address):
        case None:
            return None
        case [kind, queue] if kind == _QUEUES and queue:
            return RabbitTarget(None, queue)
        case [kind, exchange] if kind == _EXCHANGES and exchange not in _DEFAULT_EXCHANGES:
            return RabbitTarget(exchange, "")
        case [kind, exchange, key] if kind == _EXCHANGES and exchange not in _DEFAULT_EXCHANGES:
            return RabbitTarget(exchange, key)
        case [kind, *_] if kind == _EXCHANGES:
            raise InvalidRequest(
                f"'{address}' is no address of a target: it is /exchanges/:exchange/:routing-key or "
                "/exchanges/:exchange, percent-encoded, and not the default exchange"
            )
        case _:
            raise InvalidRequest(f"'{address}' is no address of a target: those are /exchanges/… and /queues/:queue")


def read_source(address: str) -> str | None:
    """Return the fully qualified name of the queue that a source means; None if it is none of RabbitMQ's addresses.

    Raises InvalidRequest.
    """
    match _segments(address):
        case None:
            return None
        case [kind, queue] if kind == _QUEUES and queue:
            return FQQN_SEPARATOR + queue
        case _:
            raise InvalidRequest(f"'{address}' is no address of a source: it is /queues/:queue, percent-encoded")


def _segments(address: str) -> list[str] | None:
    """Return what stands between the slashes, decoded; None if there is none in front. Raises InvalidRequest."""
    if not address.startswith("/"):
        return None
    kind, *others = address[1:].split("/")
    return [kind, *(_decoded(each, address) for each in others)]


def _decoded(segment: str, address: str) -> str:
    for part in segment.split("%")[1:]:
        if len(part) < 2 or not _HEXADECIMAL.issuperset(part[:2]):
            raise InvalidRequest(f"'{address}' has a % without two hexadecimal digits; a % itself is written as %25")
    try:
        return unquote_to_bytes(segment).decode()
    except UnicodeError:
        raise InvalidRequest(f"'{address}' is not percent-encoded UTF-8") from None
