"""The brokers with their addresses and their management."""

import json
from typing import Any, Final
from urllib.parse import quote

from tests.interop.exchanges.site import Arguments, Missing, Peer, Wanted


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
