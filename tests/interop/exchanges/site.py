"""A broker with exchanges as the programs see it: its clients, its addresses, and how its exchanges are managed.

Every broker has management and addresses of its own; what the programs send and receive is the same for all.
"""

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from attrs import frozen
from proton import Data, Delivery, Endpoint, Link, Message, Session
from proton.reactor import LinkOption

from tests.interop.kinds.site import Site, text
from tests.interop.proton.client import Client, Refused, Sender

TIMEOUT_S: Final = 60
OUTCOMES: Final = {Delivery.ACCEPTED: "accepted", Delivery.RELEASED: "released", Delivery.MODIFIED: "modified"}
REFUSED: Final = "refused"
Arguments = Mapping[str, object]


class SessionEnded(Refused):
    """A broker ended the session because it refused a link in it."""


class Missing(Exception):
    """A broker has no such thing; the text says what."""


@frozen(kw_only=True)
class Wanted:
    """An exchange to be declared."""

    name: str
    type: str
    durable: bool = False
    alternate: str | None = None
    alternate_queue: str | None = None
    rejects: bool = False
    """Refuse what cannot be delivered."""
    ends: bool = False
    """Delete it with its last binding."""


class PeerClient(Client):
    """A client that notices the end of its session: RabbitMQ ends it where others refuse a link."""

    @property
    def ended_session(self) -> Session | None:
        """The session, if the broker has ended it."""
        return self.connection.conn.session_head(Endpoint.REMOTE_CLOSED)

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Work on the connection until `condition` holds. Raises SessionEnded, or proton.Timeout."""
        super().wait(lambda: condition() or self.ended_session is not None, what)
        if not condition():
            session = self.ended_session
            error = None if session is None else session.remote_condition
            raise SessionEnded(error.name if error else None, error.description if error else None)


class _Outcomes(LinkOption):  # type: ignore[misc]
    """Says that a sender understands every outcome: Broker-J detaches it instead of a rejection if it does not."""

    def apply(self, link: Link) -> None:
        link.source.outcomes.put_array(False, Data.SYMBOL)
        link.source.outcomes.enter()
        for outcome in ("accepted", "rejected", "released", "modified"):
            link.source.outcomes.put_symbol(f"amqp:{outcome}:list")
        link.source.outcomes.exit()


class Peer(Site):
    """One of the brokers. What it does not have raises Missing."""

    pid = 0
    """Id of its process; 0 if nobody asks for it."""

    @property
    def client(self) -> Client:
        """A connection for everything but links whose end matters; a new one if the broker ended its session."""
        if isinstance(self._shared, PeerClient) and self._shared.ended_session is not None:
            self.disconnect()
        if self._shared is None:
            self._shared = self.connect()
        return self._shared

    def connect(self, container_id: str | None = None) -> PeerClient:
        """Open a connection of its own; use it as a context manager."""
        return PeerClient(self.url, container_id)

    def sender(self, target: str | None, capabilities: Iterable[str] = (), **options: Any) -> Sender:
        """Attach a sender that understands every outcome. Raises Refused."""
        return self.client.sender(target, tuple(capabilities), options=[_Outcomes()], **options)

    def exchange(self, name: str, key: str | None = None) -> str:
        """Return the address of an exchange for senders, with or without a routing key."""
        return name if key is None else f"{name}/{key}"

    def subscription(self, name: str, key: str | None = None) -> str:
        """Return the address of an exchange for receivers."""
        return Peer.exchange(self, name, key)

    def queue(self, name: str) -> str:
        """Return the address of a queue, for both."""
        return name

    def by_default(self, key: str) -> str:
        """Return the address of the default exchange with a routing key."""
        return self.queue(key)

    def named(self, name: str) -> str:
        """Return the address that has nothing but a name, whatever it names."""
        return name

    def declare(self, name: str, type: str, **wanted: Any) -> None:
        """Create an exchange. Raises Refused."""
        self._declare(Wanted(name=name, type=type, **wanted))

    def _declare(self, wanted: Wanted) -> None:
        raise NotImplementedError

    def set_alternate(self, name: str, alternate: str | None) -> None:
        """Change the alternate of an exchange to another exchange. Raises Refused."""
        raise NotImplementedError

    def set_rejects(self, name: str, rejects: bool) -> None:
        """Change what an exchange does with messages that reach no queue. Raises Refused."""
        raise NotImplementedError

    def delete(self, name: str) -> None:
        """Delete an exchange. Raises Refused."""
        raise NotImplementedError

    def check_transactions(self) -> None:
        """Raise Missing if clients cannot have transactions."""

    def make_queue(self, name: str, durable: bool = False, limit: int | None = None) -> None:
        """Create a queue; beyond a limit it refuses messages. Raises Refused."""
        raise NotImplementedError

    def delete_queue(self, name: str) -> None:
        """Delete a queue. Raises Refused."""
        raise NotImplementedError

    def bind(
        self, exchange: str, key: str, name: str, *, chain: bool = False, replace: bool = False, **arguments: object
    ) -> None:
        """Bind a queue, or an exchange; `_` in a name of an argument is `-` behind `x`. Raises Refused."""
        self._bind(exchange, key, name, chain, replace, _arguments(arguments))

    def bind_headers(self, exchange: str, name: str, arguments: Arguments, key: str = "") -> None:
        """Bind a queue with arguments as they are. Raises Refused."""
        self._bind(exchange, key, name, False, False, arguments)

    def _bind(self, exchange: str, key: str, name: str, chain: bool, replace: bool, arguments: Arguments) -> None:
        raise NotImplementedError

    def unbind(self, exchange: str, key: str, name: str, *, chain: bool = False) -> None:
        """Remove all bindings of a queue or an exchange with this key. Raises Refused."""
        raise NotImplementedError

    def bindings(self, exchange: str) -> list[str]:
        """Return what is bound: `key > name`, sorted."""
        raise NotImplementedError

    def exchanges(self) -> list[str]:
        """Return the names of all exchanges but the default one, sorted."""
        raise NotImplementedError

    # -- the same for all

    def queues(self, *names: str, durable: bool = False) -> None:
        """Create queues."""
        for name in names:
            self.make_queue(name, durable)

    def outcome(
        self, target: str | None, body: str = "m", /, *, capabilities: Iterable[str] = (), **fields: Any
    ) -> str:
        """Send one message on a link of its own; what becomes of it, in a word and a condition."""
        try:
            sender = self.sender(target, capabilities)
        except Refused as refused:
            return refusal_of(refused)
        seen = outcome_of(sender, body, **fields)
        if seen in OUTCOMES.values() or seen.startswith("rejected"):
            sender.close()
        return seen

    def publish(self, exchange: str, keys: Iterable[str], **fields: Any) -> None:
        """Send a message for each routing key; it is the body and the subject."""
        sender = self.client.sender(self.exchange(exchange))
        for key in keys:
            sender.send(text(key, subject=key or None, **fields))
        sender.close()

    def got(self, queue: str) -> list[Any]:
        """Take all messages of a queue; their bodies."""
        return self.client.bodies(self.queue(queue))

    def reached(self, *queues: str) -> dict[str, list[Any]]:
        """Take all messages of queues; their bodies by queue."""
        return {queue: self.got(queue) for queue in queues}

    def attempt(self, step: Callable[[], object]) -> str:
        """Say whether an operation of management succeeds."""
        try:
            step()
        except Refused:
            return REFUSED
        return "done"

    def _http(self, method: str, url: str, body: object = None, user: str | None = None) -> Any:
        """Ask a management over HTTP for JSON. Raises Refused."""
        request = Request(url, method=method, data=None if body is None else json.dumps(body).encode())
        request.add_header("Content-Type", "application/json")
        if user is not None:
            request.add_header("Authorization", "Basic " + base64.b64encode(user.encode()).decode())
        try:
            with urlopen(request, timeout=TIMEOUT_S) as answer:
                content = answer.read()
        except HTTPError as error:
            raise Refused(str(error.code), error.read().decode(errors="replace")) from None
        return json.loads(content) if content else None


def _arguments(named: Mapping[str, object]) -> dict[str, object]:
    """Return arguments of a binding for names of Python: `x_match` is `x-match`."""
    return {name.replace("_", "-") if name.startswith("x_") else name: value for name, value in named.items()}


def refusal_of(refused: Refused) -> str:
    """Say how a broker refused a link."""
    return f"{'session ends' if isinstance(refused, SessionEnded) else 'no link'} ({refused.condition})"


def outcome_of(sender: Sender, body: str = "m", /, **fields: Any) -> str:
    """Send one message on a link; what becomes of it, in a word and a condition."""
    try:
        delivery = sender.start(Message(body=body, durable=True, **fields))
        state = sender.wait(delivery)
        delivery.settle()
    except SessionEnded as ended:
        return refusal_of(ended)
    except Refused as refused:
        is_closed = sender.link.state & Endpoint.REMOTE_CLOSED
        return f"{'detached' if is_closed else 'rejected'} ({refused.condition or 'no condition'})"
    return OUTCOMES[state]
