"""A broker with exchanges as the programs see it: its clients, its addresses, and how its exchanges are managed.

Every broker has management and addresses of its own; what the programs send and receive is the same for all.
"""

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

from attrs import frozen
from proton import Data, Delivery, Endpoint, Link, Message, Session
from proton.reactor import LinkOption

from tests.interop.kinds.site import Site, text
from tests.interop.proton.client import Client, Refused, Sender

TIMEOUT_S: Final = 20
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
    """Its process, if a program measures that."""

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


class Ours(Peer):
    """This broker, managed over AMQP."""

    def queue(self, name: str) -> str:
        return f"{name}::{name}"

    def by_default(self, key: str) -> str:
        return f"::{key}"

    def _declare(self, wanted: Wanted) -> None:
        request = {
            "name": wanted.name,
            "type": wanted.type,
            "durable": wanted.durable,
            "unroutable": "reject" if wanted.rejects else "discard",
            "lifetime": "last-binding" if wanted.ends else "permanent",
            "alternate-exchange": wanted.alternate,
            "alternate-queue": wanted.alternate_queue,
        }
        self.manage("broker", "createExchange", json.dumps(request))

    def set_alternate(self, name: str, alternate: str | None) -> None:
        self.manage("broker", "updateExchange", json.dumps({"name": name, "alternate-exchange": alternate}))

    def set_rejects(self, name: str, rejects: bool) -> None:
        unroutable = "reject" if rejects else "discard"
        self.manage("broker", "updateExchange", json.dumps({"name": name, "unroutable": unroutable}))

    def delete(self, name: str) -> None:
        self.manage("broker", "deleteExchange", name)

    def make_queue(self, name: str, durable: bool = False, limit: int | None = None) -> None:
        # The limit of this broker is that of an address: broker.xml has it, for names that begin with `limited.`.
        assert limit is None or name.startswith("limited.")
        self.manage("broker", "createQueue", json.dumps({"name": name, "routing-type": "ANYCAST", "durable": durable}))

    def delete_queue(self, name: str) -> None:
        self.manage("broker", "destroyQueue", name, True)

    def _bind(self, exchange: str, key: str, name: str, chain: bool, replace: bool, arguments: Arguments) -> None:
        request = {"exchange": exchange, "key": key, "arguments": dict(arguments), "replace": replace}
        self.manage("broker", "bindExchange", json.dumps({**request, _member(chain): name}))

    def unbind(self, exchange: str, key: str, name: str, *, chain: bool = False) -> None:
        self.manage("broker", "unbindExchange", json.dumps({"exchange": exchange, "key": key, _member(chain): name}))

    def bindings(self, exchange: str) -> list[str]:
        wanted = {"field": "exchange", "operation": "EQUALS", "value": exchange}
        rows = json.loads(self.manage("broker", "listExchangeBindings", json.dumps(wanted)))["data"]
        return sorted(f"{_key(row['key'])} > {row['queue'] or row['destinationExchange']}" for row in rows)

    def exchanges(self) -> list[str]:
        names: list[str] = self.manage("broker", "listExchangeNames")
        return sorted(names)


def _key(key: str) -> str:
    """Return a key for a list of bindings."""
    return key or "''"


def _member(chain: bool) -> str:
    """Return the member of a request for management that names what is bound."""
    return "destination-exchange" if chain else "queue"


class BrokerJ(Peer):
    """Apache Qpid Broker-J, managed over HTTP."""

    def __init__(self, url: str, management: str) -> None:
        super().__init__(url)
        self._management: Final = f"{management}/api/latest"

    def by_default(self, key: str) -> str:
        # It has no address; what has no exchange goes through it.
        return key

    def _declare(self, wanted: Wanted) -> None:
        alternate = wanted.alternate or wanted.alternate_queue
        attributes = {
            "type": wanted.type,
            "durable": wanted.durable,
            "unroutableMessageBehaviour": "REJECT" if wanted.rejects else "DISCARD",
            "lifetimePolicy": "DELETE_ON_NO_OUTBOUND_LINKS" if wanted.ends else "PERMANENT",
            "alternateBinding": None if alternate is None else {"destination": alternate},
        }
        self._http("PUT", self._of("exchange", wanted.name), attributes)

    def set_alternate(self, name: str, alternate: str | None) -> None:
        binding = None if alternate is None else {"destination": alternate}
        self._http("POST", self._of("exchange", name), {"alternateBinding": binding})

    def set_rejects(self, name: str, rejects: bool) -> None:
        behaviour = "REJECT" if rejects else "DISCARD"
        self._http("POST", self._of("exchange", name), {"unroutableMessageBehaviour": behaviour})

    def delete(self, name: str) -> None:
        self._http("DELETE", self._of("exchange", name))

    def make_queue(self, name: str, durable: bool = False, limit: int | None = None) -> None:
        limited = {} if limit is None else {"maximumQueueDepthMessages": limit, "overflowPolicy": "REJECT"}
        self._http("PUT", self._of("queue", name), {"durable": durable, **limited})

    def delete_queue(self, name: str) -> None:
        self._http("DELETE", self._of("queue", name))

    def _bind(self, exchange: str, key: str, name: str, chain: bool, replace: bool, arguments: Arguments) -> None:
        body = {"destination": name, "bindingKey": key, "arguments": arguments, "replaceExistingArguments": replace}
        self._http("POST", self._of("exchange", exchange) + "/bind", body)

    def unbind(self, exchange: str, key: str, name: str, *, chain: bool = False) -> None:
        self._http("POST", self._of("exchange", exchange) + "/unbind", {"destination": name, "bindingKey": key})

    def bindings(self, exchange: str) -> list[str]:
        bound = self._http("GET", self._of("exchange", exchange))["bindings"]
        return sorted(f"{_key(one['bindingKey'])} > {one['destination']}" for one in bound)

    def exchanges(self) -> list[str]:
        return sorted(one["name"] for one in self._http("GET", f"{self._management}/exchange"))

    def _of(self, category: str, name: str) -> str:
        return f"{self._management}/{category}/default/default/{quote(name, safe='')}"


class RabbitMq(Peer):
    """RabbitMQ 4, managed over HTTP.

    An address with a routing key is one of its newer ones. Those do not know the subject as a routing key, and
    receivers cannot subscribe with them; the older ones, which begin with `/exchange/`, still do both.
    """

    def __init__(self, url: str, management: str) -> None:
        super().__init__(url)
        self._management: Final = f"{management}/api"

    def exchange(self, name: str, key: str | None = None) -> str:
        if key is None:
            return f"/exchange/{name}"
        return f"/exchanges/{quote(name, safe='')}/{quote(key, safe='')}"

    def subscription(self, name: str, key: str | None = None) -> str:
        # The older addresses are taken as they are; the newer ones are percent-encoded.
        return f"/exchange/{name}/{key or ''}"

    def queue(self, name: str) -> str:
        return f"/queues/{quote(name, safe='')}"

    def named(self, name: str) -> str:
        raise Missing("an address says whether it is a queue or an exchange")

    def _declare(self, wanted: Wanted) -> None:
        if wanted.alternate_queue is not None:
            raise Missing("an alternate is an exchange")
        if wanted.rejects:
            raise Missing("an exchange has no policy for what reaches no queue")
        arguments = {} if wanted.alternate is None else {"alternate-exchange": wanted.alternate}
        attributes = {"type": wanted.type, "durable": wanted.durable, "auto_delete": wanted.ends}
        self._request("PUT", f"exchanges/%2F/{quote(wanted.name, safe='')}", {**attributes, "arguments": arguments})

    def set_alternate(self, name: str, alternate: str | None) -> None:
        raise Missing("an exchange is not changed once it is declared")

    def set_rejects(self, name: str, rejects: bool) -> None:
        raise Missing("an exchange has no policy for what reaches no queue")

    def check_transactions(self) -> None:
        raise Missing("AMQP 1.0 has no transactions")

    def delete(self, name: str) -> None:
        self._request("DELETE", f"exchanges/%2F/{quote(name, safe='')}")

    def make_queue(self, name: str, durable: bool = False, limit: int | None = None) -> None:
        arguments = {} if limit is None else {"x-max-length": limit, "x-overflow": "reject-publish"}
        self._request("PUT", f"queues/%2F/{quote(name, safe='')}", {"durable": durable, "arguments": arguments})

    def delete_queue(self, name: str) -> None:
        self._request("DELETE", f"queues/%2F/{quote(name, safe='')}")

    def _bind(self, exchange: str, key: str, name: str, chain: bool, replace: bool, arguments: Arguments) -> None:
        if replace:
            raise Missing("arguments belong to a binding and are not replaced")
        for argument in arguments:
            if argument in ("x-filter-jms-selector", "x-replacement-routing-key"):
                raise Missing(f"a binding has no {argument}")
        self._request("POST", self._between(exchange, name, chain), {"routing_key": key, "arguments": arguments})

    def unbind(self, exchange: str, key: str, name: str, *, chain: bool = False) -> None:
        between = self._between(exchange, name, chain)
        for one in self._request("GET", between):
            if one["routing_key"] == key:
                self._request("DELETE", f"{between}/{quote(one['properties_key'], safe='')}")

    def bindings(self, exchange: str) -> list[str]:
        bound = self._request("GET", f"exchanges/%2F/{quote(exchange, safe='')}/bindings/source")
        return sorted(f"{_key(one['routing_key'])} > {one['destination']}" for one in bound)

    def exchanges(self) -> list[str]:
        return sorted(one["name"] for one in self._request("GET", "exchanges/%2F") if one["name"])

    def version(self) -> str:
        """Return the version of the broker."""
        return str(self._request("GET", "overview")["rabbitmq_version"])

    def _between(self, exchange: str, name: str, chain: bool) -> str:
        return f"bindings/%2F/e/{quote(exchange, safe='')}/{'e' if chain else 'q'}/{quote(name, safe='')}"

    def _request(self, method: str, path: str, body: object = None) -> Any:
        return self._http(method, f"{self._management}/{path}", body, "guest:guest")


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
