"""What a client may do with exchanges: send through them, and declare, bind and delete them.

An exchange has the permissions of its name: SEND to publish, CONSUME to bind something to it, CREATE_ADDRESS and
DELETE_ADDRESS for the exchange itself. What is bound to an exchange, or is its alternate, needs SEND.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from artemis_py.core.addresses.address import Address
from artemis_py.core.messages.message import Message
from artemis_py.core.names.syntax import FQQN_SEPARATOR
from artemis_py.core.queues.dispatcher import QUEUE_PARTS
from artemis_py.core.routing.exchanges.arguments import Scalar
from artemis_py.core.routing.exchanges.exchange import Exchange
from artemis_py.core.routing.exchanges.exchanges import DEFAULT_EXCHANGE
from artemis_py.core.routing.transaction import Transaction
from artemis_py.core.runtime.access import Permission
from artemis_py.core.sessions.inlet import Inlet
from artemis_py.core.sessions.producer import Producer
from artemis_py.core.settings.exchange_config import Destination, ExchangeConfig, ExchangeLifetime, ExchangeType
from artemis_py.errors import ExchangeDeleted, InvalidRequest, NoSuchQueue

if TYPE_CHECKING:
    from artemis_py.core.sessions.session import Session


@mypyc_attr(allow_interpreted_subclasses=True)
class RoutingKeys:
    """Finds the routing key of a message whose producer has none for all of them."""

    def key_of(self, message: Message, exchange: str) -> str:
        """Return the routing key of a message that is sent to `exchange`."""
        return ""


class ExchangeInlet(Inlet):
    """Sends messages through an exchange."""

    def __init__(
        self, session: "Session", exchange: Exchange, key: str | None, keys: RoutingKeys, rejects: bool | None
    ) -> None:
        super().__init__()
        self._session: Session = session
        self._exchange: Exchange = exchange
        self._key: str | None = key
        """Routing key of all messages; None: `_keys` finds that of each."""
        self._keys: RoutingKeys = keys
        self._rejects: bool | None = rejects
        """Whether a message that reaches no queue is refused; None: the exchange decides."""
        self.address = exchange.address

    def send(self, message: Message, transaction: Transaction | None, duplicate_id: bytes) -> int:
        """Publish a message. Raises ExchangeDeleted if the exchange is gone, and what `Publishing.publish` raises."""
        exchange = self._exchange
        if exchange.is_deleted:
            self.prepare()
            exchange = self._exchange
        key = self._key
        if key is None:
            key = self._keys.key_of(message, exchange.name)
        rejects = exchange.rejects if self._rejects is None else self._rejects
        publishing = self._session.domain.publishing
        if duplicate_id:
            count = publishing.publish_once(message, exchange, key, transaction, rejects, duplicate_id)
        else:
            count = publishing.publish(message, exchange, key, transaction, rejects)
        # Credit waits for the address that is full, which may be that of a queue.
        blocking = publishing.blocking
        self.address = exchange.address if blocking is None else blocking
        return count

    def prepare(self) -> Address:
        """Find the exchange again if it was deleted and declared again. Raises ExchangeDeleted."""
        if self._exchange.is_deleted:
            name = self._exchange.name
            exchange = self._session.domain.exchanges.find(name)
            if exchange is None:
                raise ExchangeDeleted(f"exchange '{name}' was deleted")
            self._exchange = exchange
            self.address = exchange.address
        return self._exchange.address

    def when_gone(self, call: Callable[[str], None]) -> None:
        """Run `call` with the reason when the exchange is deleted."""
        self._exchange.watchers[self] = call

    def let_go(self) -> None:
        """Watch the exchange no longer."""
        self._exchange.watchers.pop(self, None)


class DefaultExchangeInlet(Inlet):
    """Sends messages to the queues that their routing keys name, which are not created for them."""

    def __init__(self, session: "Session", key: str | None, keys: RoutingKeys, rejects: bool) -> None:
        super().__init__()
        self._session: Session = session
        self._key: str | None = key
        """Routing key of all messages; None: `_keys` finds that of each."""
        self._keys: RoutingKeys = keys
        self._rejects: bool = rejects

    def send(self, message: Message, transaction: Transaction | None, duplicate_id: bytes) -> int:
        """Publish a message. Raises NotAuthorized, and what `Publishing.publish` raises."""
        key = self._key
        if key is None:
            key = self._keys.key_of(message, DEFAULT_EXCHANGE)
        session = self._session
        publishing = session.domain.publishing
        queue = publishing.queue_for(key)
        # Credit waits for the address of the queue.
        self.address = None if queue is None else queue.address
        if queue is None or not duplicate_id:
            return publishing.publish_to_queue(message, key, transaction, session, self._rejects)
        if session.domain.is_duplicate(queue.address, duplicate_id, transaction):
            return 0
        message.stored_first = True
        count = publishing.publish_to_queue(message, key, transaction, session, self._rejects)
        session.domain.remember(queue.address, duplicate_id, message, transaction)
        return count


def open_exchange_producer(
    session: "Session", exchange: Exchange, key: str | None, keys: RoutingKeys, rejects: bool | None = None
) -> Producer:
    """Open a producer for an exchange; `key` is the routing key of all messages, None: `keys` finds that of each.

    `rejects` decides what becomes of a message that reaches no queue; None: the exchange does. Raises NotAuthorized.
    """
    session.check(Permission.SEND, exchange.name)
    return Producer(session, exchange.name, "", ExchangeInlet(session, exchange, key, keys, rejects))


def open_exchange_of_name(
    session: "Session", name: str, key: str | None, keys: RoutingKeys, rejects: bool | None = None
) -> Producer:
    """Open a producer for the exchange of this name, as `open_exchange_producer`. Raises NoSuchExchange as well."""
    return open_exchange_producer(session, session.domain.exchanges.exchange(name), key, keys, rejects)


def check_topic_exchange(session: "Session", name: str) -> None:
    """Raise InvalidRequest for an exchange of another type, whose keys are no patterns; NoSuchExchange."""
    kind = session.domain.exchanges.exchange(name).config.type
    if kind is not ExchangeType.TOPIC:
        raise InvalidRequest(f"exchange '{name}' is of the type {kind.value}; topics need a topic exchange")


def open_named_exchange(
    session: "Session", text: str, keys: RoutingKeys, rejects: bool | None, wants_queue: bool
) -> tuple[Producer, bool] | None:
    """Open a producer for the exchange that `exchange` or `exchange/key` means; None if the text means none.

    The second value tells whether a message that reaches no queue is refused. A client that `wants_queue` does not mean
    the exchange if a queue or an address has the whole text as its name. Raises NotAuthorized.
    """
    domain = session.domain
    found = None if FQQN_SEPARATOR in text else domain.exchanges.named_in(text)
    if found is None or (wants_queue and (text in domain.queues or text in domain.addresses)):
        return None
    exchange, key = found
    is_refused = exchange.rejects if rejects is None else rejects
    return open_exchange_producer(session, exchange, key, keys, rejects), is_refused


def open_default_producer(session: "Session", keys: RoutingKeys, rejects: bool) -> Producer:
    """Open a producer for the default exchange. The permission is checked for each message, for its queue."""
    return Producer(session, DEFAULT_EXCHANGE, "", DefaultExchangeInlet(session, None, keys, rejects))


def open_queue_producer(session: "Session", name: str, rejects: bool, must_exist: bool) -> Producer:
    """Open a producer for the default exchange that has the name of a queue as the routing key of all messages.

    Raises NotAuthorized; NoSuchQueue if there is no such queue and it `must_exist`.
    """
    queue = session.domain.publishing.queue_for(name)
    inlet = DefaultExchangeInlet(session, name, RoutingKeys(), rejects)
    if queue is None:
        if must_exist:
            raise NoSuchQueue(f"queue '{name}' does not exist")
        return Producer(session, DEFAULT_EXCHANGE, name, inlet)
    session.check(Permission.SEND, queue.address.name, name)
    inlet.address = queue.address
    return Producer(session, queue.address.name, name, inlet)


def declare_exchange(session: "Session", config: ExchangeConfig) -> Exchange:
    """Create an exchange. Raises NotAuthorized, LimitExceeded, and what `Exchanges.declare` raises."""
    _check_config(session, config)
    domain = session.domain
    domain.dispatcher.check_tables(f"exchange '{config.name}'", QUEUE_PARTS)
    exchange = domain.exchanges.declare(config)
    if config.lifetime is ExchangeLifetime.SESSION:
        session.own_exchange(exchange)
    return exchange


def update_exchange(session: "Session", exchange: Exchange, config: ExchangeConfig) -> None:
    """Change an exchange. Raises NotAuthorized, and what `Exchanges.update` raises."""
    _check_config(session, config)
    session.domain.exchanges.update(exchange, config)


def delete_exchange(session: "Session", exchange: Exchange, if_unused: bool = False) -> None:
    """Delete an exchange. Raises NotAuthorized, and what `Exchanges.delete` raises."""
    session.check(Permission.DELETE_ADDRESS, exchange.name)
    session.check_reach(exchange.name)
    session.domain.exchanges.delete(exchange, if_unused)


def bind(
    session: "Session",
    source: Exchange,
    key: str,
    destination: Destination,
    arguments: Mapping[str, Scalar] | None = None,
    replace: bool = False,
) -> bool:
    """Bind something to an exchange. Raises NotAuthorized, LimitExceeded, and what `Exchanges.bind` raises."""
    session.check(Permission.CONSUME, source.name)
    _check_destination(session, destination)
    session.domain.dispatcher.check_tables(f"a binding of exchange '{source.name}'", QUEUE_PARTS)
    return session.domain.exchanges.bind(source, key, destination, arguments, replace)


def unbind(session: "Session", source: Exchange, key: str, destination: Destination) -> bool:
    """Remove a binding. Raises NotAuthorized."""
    session.check(Permission.CONSUME, source.name)
    _check_destination(session, destination)
    return session.domain.exchanges.unbind(source, key, destination)


def _check_config(session: "Session", config: ExchangeConfig) -> None:
    session.check(Permission.CREATE_ADDRESS, config.name)
    session.check_reach(config.name)
    if config.alternate is not None:
        _check_destination(session, config.alternate)


def _check_destination(session: "Session", destination: Destination) -> None:
    """Raise NotAuthorized if a client may not send to a destination; NoSuchQueue if it is a queue that is not there."""
    session.check_reach(destination.name)
    if not destination.is_queue:
        session.check(Permission.SEND, destination.name)
        return
    queue = session.domain.queue(destination.name)
    session.check_reach(queue.address.name)
    session.check(Permission.SEND, queue.address.name, queue.name)
