"""Queues of RabbitMQ, with the arguments that they have themselves or from policies."""

from collections.abc import Callable, Mapping
from typing import Final

from attrs import Factory, define

from artemis_py.migrate.exchanges import Topology, match_of, objection_to_queue
from artemis_py.migrate.findings import Origin, Outcome
from artemis_py.migrate.json_document import JsonObject
from artemis_py.migrate.rabbitmq.definitions import Argument, Definitions, number
from artemis_py.migrate.rabbitmq.table import TABLE
from artemis_py.migrate.target import Element

_QUORUM_LIMIT: Final = 20
"""Deliveries that a quorum queue of RabbitMQ 4 allows again, if nothing else is said."""


@define(eq=False)
class _Queue:
    """A queue while it is read."""

    definitions: Definitions
    name: str
    line: int
    arguments: dict[str, Argument]
    element: Element

    def tell(self, member: str, outcome: Outcome | None = None, text: str | None = None) -> None:
        line = self.arguments[member].line if member in self.arguments else self.line
        self.definitions.tell(f"queues.{member}", line, self.name, outcome, text)

    def origin(self, member: str) -> Origin:
        line = self.arguments[member].line if member in self.arguments else self.line
        return self.definitions.origin(line, f'queues "{self.name}".{member}')

    def put(self, setting: str, value: str, member: str) -> None:
        self.definitions.target.setting(match_of(self.name), setting, value, self.origin(member))

    def text(self, member: str) -> str | None:
        found = self.arguments.get(member)
        return found.value if found is not None and isinstance(found.value, str) else None

    def number(self, member: str) -> int | None:
        """Return a whole number; report anything else."""
        found = number(self.arguments[member].value)
        if found is None:
            self.tell(member, Outcome.DROPPED, "is not a whole number")
        return found


@define(eq=False)
class Queues:
    """The queues that are migrated."""

    names: set[str] = Factory(set)
    lives: dict[str, int] = Factory(dict)
    """Time to live in milliseconds, by queue."""
    waiting: list[_Queue] = Factory(list)
    """Queues whose dead letters have to wait until all bindings are known."""


def read_queues(definitions: Definitions) -> Queues:
    """Read the queues with all but their dead letters."""
    queues = Queues()
    for each in definitions.of_host("queues"):
        name, line = each.text("name"), each.line_of("name")
        objection = objection_to_queue(name)
        if objection is not None:
            definitions.tell("queues", line, name if name.isprintable() else "", Outcome.DROPPED, objection)
            continue
        queues.names.add(name)
        target = definitions.target
        target.address(name, "anycast", definitions.origin(line, f'queues "{name}"'), name)
        address = target.core.child("addresses").child("address", name=name)
        element = address.child("anycast").child("queue", name=name)
        if not each.flag("durable", True):
            element.put("durable", "false", definitions.origin(each.line_of("durable"), f'queues "{name}".durable'))
        definitions.tell("queues", line, name)
        if each.flag("auto_delete"):
            definitions.tell("queues.auto_delete", each.line_of("auto_delete"), name)
        _read_arguments(queues, _Queue(definitions, name, line, definitions.arguments("queues", each), element), each)
    return queues


def _read_arguments(queues: Queues, queue: _Queue, declared: JsonObject) -> None:
    kind = declared.text("type") or queue.text("x-queue-type") or "classic"
    if kind == "stream":
        text = "a stream becomes an ordinary queue: what is consumed is gone, and there are no offsets"
        queue.tell("x-queue-type", Outcome.DROPPED, text)
    elif "x-queue-type" in queue.arguments:
        queue.tell("x-queue-type")
    if kind == "quorum" and "x-delivery-limit" not in queue.arguments:
        queue.arguments["x-delivery-limit"] = Argument(_QUORUM_LIMIT, queue.line)
    for member in queue.arguments:
        handler = _HANDLERS.get(member)
        if handler is not None:
            handler(queues, queue, member)
        elif member in ("x-queue-type", "x-overflow", "x-dead-letter-exchange", "x-dead-letter-routing-key"):
            continue
        elif f"queues.{member}" in TABLE.rules:
            queue.tell(member)
        else:
            text = f"the argument {member} has no meaning here"
            queue.definitions.findings.add(queue.origin(member), Outcome.DROPPED, text)
    _read_lengths(queue)
    if "x-dead-letter-exchange" in queue.arguments:
        queues.waiting.append(queue)


def _read_life(queues: Queues, queue: _Queue, member: str) -> None:
    found = queue.number(member)
    if found is not None:
        queues.lives[queue.name] = found
        queue.put("max-expiry-delay", str(found), member)


def _read_limit(queues: Queues, queue: _Queue, member: str) -> None:
    found = queue.number(member)
    if found is not None:
        queue.put("max-delivery-attempts", str(found + 1), member)
        queue.tell(member)


def _read_single(queues: Queues, queue: _Queue, member: str) -> None:
    if queue.arguments[member].value is True:
        queue.element.attributes["exclusive"] = "true"
        queue.tell(member)


_HANDLERS: Final[Mapping[str, Callable[[Queues, _Queue, str], None]]] = {
    "x-message-ttl": _read_life,
    "x-delivery-limit": _read_limit,
    "x-single-active-consumer": _read_single,
    "x-max-length": lambda queues, queue, member: None,
    "x-max-length-bytes": lambda queues, queue, member: None,
}


def _read_lengths(queue: _Queue) -> None:
    """Read both lengths and what happens beyond them."""
    overflow = queue.text("x-overflow") or "drop-head"
    rejects = overflow.startswith("reject-publish")
    has_limit = False
    if "x-max-length" in queue.arguments:
        found = queue.number("x-max-length")
        if found is not None and rejects:
            queue.put("max-size-messages", str(found), "x-max-length")
            queue.tell("x-max-length", Outcome.KEPT, f"`max-size-messages` {found}")
            has_limit = True
        elif found:
            queue.element.attributes["ring-size"] = str(found)
            lost = "; removed messages are no dead letters" if "x-dead-letter-exchange" in queue.arguments else ""
            queue.tell("x-max-length", Outcome.CHANGED if lost else Outcome.KEPT, f"`ring-size` {found}{lost}")
        elif found == 0:
            queue.tell("x-max-length", Outcome.DROPPED, "a ring has at least one message")
    if "x-max-length-bytes" in queue.arguments:
        found = queue.number("x-max-length-bytes")
        if found is not None and rejects:
            queue.put("max-size-bytes", str(found), "x-max-length-bytes")
            queue.tell("x-max-length-bytes", Outcome.CHANGED, f"`max-size-bytes` {found}, with what Python needs")
            has_limit = True
        elif found is not None:
            text = "a ring counts messages, not bytes; further messages go to disk"
            queue.tell("x-max-length-bytes", Outcome.DROPPED, text)
    if has_limit:
        queue.put("address-full-policy", "FAIL", "x-overflow")
    if "x-overflow" in queue.arguments:
        if overflow == "reject-publish-dlx":
            queue.tell("x-overflow", Outcome.CHANGED, "refused messages are no dead letters")
        else:
            queue.tell("x-overflow")


def finish_queues(definitions: Definitions, queues: Queues, topology: Topology) -> None:
    """Read what depends on bindings: dead letters, and times to live of what comes through exchanges."""
    for queue in queues.waiting:
        _read_dead_letters(definitions, queues, topology, queue)
    limited: set[str] = set()
    for exchange, bindings in topology.bindings.items():
        ends = [each for _, each, _ in bindings]
        lives = {queues.lives.get(each.name) if each.is_queue else None for each in ends}
        life = lives.pop() if len(lives) == 1 else None
        if life is not None and queues.lives.get(exchange, life) == life:
            limited.add(exchange)
            origin = topology.elements[exchange].origin
            definitions.target.setting(match_of(exchange), "max-expiry-delay", str(life), origin)
    for name in queues.lives:
        line = definitions.target.settings()[match_of(name)].child("max-expiry-delay").origin.line
        others = [exchange for exchange in topology.leading_to(name) if exchange not in limited]
        outcome = Outcome.CHANGED
        text = "`max-expiry-delay` of the address"
        through = [exchange for exchange in topology.leading_to(name) if exchange in limited]
        if through:
            text += f", and of what comes through {', '.join(through)}"
        if others:
            outcome = Outcome.DROPPED
            text += f"; what comes through {', '.join(others)} does not expire: other queues get it, too"
        definitions.tell("queues.x-message-ttl", line, name, outcome, text)


def _read_dead_letters(definitions: Definitions, queues: Queues, topology: Topology, queue: _Queue) -> None:
    member = "x-dead-letter-exchange"
    exchange, key = queue.text(member), queue.text("x-dead-letter-routing-key")
    if exchange is None:
        queue.tell(member, Outcome.DROPPED, "is not a text")
        return
    outcome = Outcome.KEPT
    note = ""
    if exchange == "":
        reached = {key or queue.name} & queues.names
    else:
        certain = topology.reached(exchange, key)
        reached = set() if certain is None else certain - {queue.name}
        if certain is None:
            ends = [each for _, each, _ in topology.bindings.get(exchange, ())]
            reached = {each.name for each in ends if each.is_queue} - {queue.name}
            outcome, note = Outcome.CHANGED, ", whatever their routing key and headers"
    if not reached:
        queue.tell(member, Outcome.DROPPED, f"no queue would get dead letters from exchange '{exchange}'")
        return
    address = next(iter(reached))
    if len(reached) > 1:
        outcome = Outcome.CHANGED
        address = _shared_address(definitions, exchange, sorted(reached), queue.origin(member))
        if not address:
            queue.tell(member, Outcome.DROPPED, f"several queues get them: {', '.join(sorted(reached))}")
            return
    for setting in ("dead-letter-address", "expiry-address"):
        queue.put(setting, address, member)
    text = f"`dead-letter-address` and `expiry-address` {address}{note}"
    if len(reached) > 1:
        text += f", from where a divert leads to {', '.join(sorted(reached))}"
    queue.tell(member, outcome, text)
    if "x-dead-letter-routing-key" in queue.arguments:
        queue.tell("x-dead-letter-routing-key")


def _shared_address(definitions: Definitions, exchange: str, queues: list[str], origin: Origin) -> str:
    """Return an address from which a divert leads to several queues; empty if a name does not allow it."""
    name = f"{exchange}.dead-letters"
    taken = {each.attributes.get("name") for each in definitions.target.core.child("addresses").children}
    if name in taken or any("," in queue for queue in queues):
        return ""
    divert = definitions.target.core.child("diverts").child("divert", name=name)
    divert.origin = origin
    divert.put("address", name, origin)
    divert.put("forwarding-address", ",".join(queues), origin)
    return name
