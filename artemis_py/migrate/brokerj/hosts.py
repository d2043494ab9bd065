"""A virtual host of Broker-J: exchanges, queues, bindings, policies for nodes that are created on demand."""

import re
from collections.abc import Mapping
from typing import Final

from artemis_py.core.routing.exchanges.exchanges import PREDECLARED
from artemis_py.core.settings.exchange_config import Destination, ExchangeType
from artemis_py.migrate.brokerj.reading import Reading
from artemis_py.migrate.exchanges import Topology, add_binding, add_exchange, is_writable, match_of, objection_to_queue
from artemis_py.migrate.findings import Outcome
from artemis_py.migrate.json_document import JsonObject
from artemis_py.migrate.target import Element

_TYPES: Final = frozenset(kind.value for kind in ExchangeType)
_ENDING: Final = frozenset(["DELETE_ON_NO_OUTBOUND_LINKS", "DELETE_ON_NO_LINKS"])
_FULL: Final[Mapping[str, str]] = {"REJECT": "FAIL", "PRODUCER_FLOW_CONTROL": "BLOCK", "FLOW_TO_DISK": "PAGE"}
_OF_EXCHANGES: Final = frozenset(["durableBindings", "alternateBinding", "unroutableMessageBehaviour", "bindings"])
_OF_QUEUES: Final = frozenset(
    [
        *("alternateBinding", "expiryPolicy", "maximumDeliveryAttempts", "maximumMessageTtl", "minimumMessageTtl"),
        *("maximumQueueDepthMessages", "maximumQueueDepthBytes", "overflowPolicy", "lvqKey", "maximumLiveConsumers"),
        *("ensureNondestructiveConsumers", "exclusive", "noLocal", "messageDurability", "messageGroupType"),
    ]
)
# A regular expression that means everything, or all names below one.
_EVERYTHING: Final = frozenset([".*", "^.*$", ".+"])
_BELOW: Final = re.compile(r"\^?([\w-]+(?:\\\.[\w-]+)*)\\\.\.[*+]\$?")
_LVQ_KEY: Final = "qpid.LVQ_key"


def read_host(reading: Reading, host: JsonObject) -> tuple[Topology, set[str]]:
    """Read a virtual host; return its exchanges and the names of its queues."""
    queues = {each.text("name") for each in host.objects("queues")}
    kept = {name for name in queues if objection_to_queue(name) is None}
    topology = Topology()
    for exchange in host.objects("exchanges"):
        _read_exchange(reading, topology, exchange)
    for exchange in host.objects("exchanges"):
        _read_bindings(reading, topology, exchange, kept)
    for queue in host.objects("queues"):
        _read_queue(reading, topology, queue, kept)
    _read_policies(reading, host)
    return topology, kept


def _read_exchange(reading: Reading, topology: Topology, exchange: JsonObject) -> None:
    name, kind = exchange.text("name"), exchange.text("type")
    if not is_writable(name) or (kind not in _TYPES and name not in PREDECLARED):
        text = f"the type {kind} is not known" if kind not in _TYPES else "the name has control characters"
        reading.tell("exchanges", exchange, name if is_writable(name) else "", Outcome.DROPPED, text)
        return
    topology.types[name] = kind
    lifetime = reading.text(exchange, "lifetimePolicy", "PERMANENT")
    rejects = reading.text(exchange, "unroutableMessageBehaviour") == "REJECT"
    is_predeclared = name in PREDECLARED
    says_something = rejects or "alternateBinding" in exchange or exchange.objects("durableBindings")
    if is_predeclared and not says_something:
        reading.tell("exchanges", exchange, name, Outcome.NEEDLESS, "it is predeclared here, too")
        return
    topology.elements[name] = add_exchange(
        reading.target,
        name,
        None if is_predeclared else kind,
        reading.tell("exchanges", exchange, name),
        durable=None if is_predeclared or exchange.flag("durable", True) else "false",
        auto_delete="true" if lifetime in _ENDING and not is_predeclared else None,
        unroutable="reject" if rejects else None,
    )
    if lifetime != "PERMANENT":
        reading.tell(
            "exchanges.lifetimePolicy",
            exchange,
            name,
            None,
            f"{lifetime}: {'`auto-delete`' if lifetime in _ENDING else 'it stays'}",
        )
    if "unroutableMessageBehaviour" in exchange:
        reading.tell("exchanges.unroutableMessageBehaviour", exchange, name)
    if exchange.objects("bindings") and "durableBindings" not in exchange:
        text = "bindings of releases before 7 are not read; start a Broker-J of 7 or later on it once"
        reading.tell("exchanges.bindings", exchange, name, Outcome.DROPPED, text)
    reading.tell_others("exchanges", exchange, name, _OF_EXCHANGES)


def _read_bindings(reading: Reading, topology: Topology, exchange: JsonObject, queues: set[str]) -> None:
    """Read the alternate and the bindings of an exchange, when all exchanges are known."""
    name = exchange.text("name")
    element = topology.elements.get(name)
    if element is None:
        return
    alternate = exchange.object("alternateBinding").text("destination")
    if alternate:
        destination = _destination(topology, queues, alternate, name)
        if destination is None or destination == Destination(name, is_queue=False):
            text = f"there is neither an exchange nor a queue {alternate}, or it was left out"
            reading.tell("exchanges.alternateBinding", exchange, name, Outcome.DROPPED, text)
        else:
            kind = "alternate-queue" if destination.is_queue else "alternate-exchange"
            element.attributes[kind] = destination.name
            reading.tell("exchanges.alternateBinding", exchange, name, None, f"`{kind}` {destination.name}")
    for binding in exchange.objects("durableBindings"):
        _read_binding(reading, topology, name, binding, queues)


def _read_binding(reading: Reading, topology: Topology, name: str, binding: JsonObject, queues: set[str]) -> None:
    to, key = binding.text("destination"), binding.text("bindingKey")
    rule, label = "bindings", f"{name} to {to}" if is_writable(to) else name
    destination = _destination(topology, queues, to, name)
    if destination is None:
        text = f"there is neither an exchange nor a queue {to}, or it was left out"
        reading.tell(rule, binding, label, Outcome.DROPPED, text)
        return
    kind = topology.types[name]
    arguments = {
        argument: value
        for argument, value in binding.object("arguments").items()
        if not _is_idle(argument) and (kind == "headers" or argument.lower().startswith("x-"))
    }
    mode = arguments.get("x-match")
    if kind != "headers":
        arguments.pop("x-match", None)
    elif mode is not None and str(mode).lower() not in ("all", "any"):
        arguments["x-match"] = "all"
    outcome, text = Outcome.KEPT, "`binding`"
    if kind == "topic" and key.endswith("."):
        outcome, text = Outcome.CHANGED, "empty words at the end of a key count here"
    origin = reading.origin(binding, "bindingKey", f'{rule} "{label}"')
    objection = add_binding(topology.elements[name], destination, key, arguments, origin)
    if objection is not None:
        reading.tell(rule, binding, label, Outcome.DROPPED, objection)
        return
    topology.bindings.setdefault(name, []).append((key, destination, bool(arguments)))
    reading.tell(rule, binding, label, outcome, text)


def _is_idle(argument: str) -> bool:
    """Tell whether an argument with `x-` means nothing to Broker-J."""
    known = ("x-match", "x-filter-jms-selector", "x-replacement-routing-key", "x-qpid-no-local")
    return argument.lower().startswith("x-") and argument.lower() not in known


def _destination(topology: Topology, queues: set[str], name: str, own: str) -> Destination | None:
    """Return what a name means to an exchange: an exchange, or else a queue; its own name means the queue."""
    if name in topology.types and name != own:
        return Destination(name, is_queue=False)
    return Destination(name, is_queue=True) if name in queues else None


# -- queues --------------------------------------------------------------------------------------------------------


def _read_queue(reading: Reading, topology: Topology, queue: JsonObject, queues: set[str]) -> None:
    name = queue.text("name")
    objection = objection_to_queue(name)
    if objection is not None:
        reading.tell("queues", queue, name if name.isprintable() else "", Outcome.DROPPED, objection)
        return
    origin = reading.tell("queues", queue, name)
    reading.target.address(name, "anycast", origin, name)
    element = reading.target.core.child("addresses").child("address", name=name).child("anycast")
    made = element.child("queue", name=name)
    if not queue.flag("durable", True):
        made.put("durable", "false", origin)
    lifetime = reading.text(queue, "lifetimePolicy", "PERMANENT")
    if lifetime != "PERMANENT":
        reading.tell("queues.lifetimePolicy", queue, name)
    _read_attributes(reading, queue, name, made)
    _read_depth(reading, queue, name, made)
    _read_times(reading, topology, queue, name)
    _read_alternate(reading, topology, queue, name, queues)
    reading.tell_others("queues", queue, name, _OF_QUEUES)


def _read_attributes(reading: Reading, queue: JsonObject, name: str, made: Element) -> None:
    kind = reading.text(queue, "type", "standard")
    if kind == "lvq" or "lvqKey" in queue:
        made.attributes["last-value-key"] = reading.text(queue, "lvqKey", _LVQ_KEY)
        reading.tell("queues.lvqKey", queue, name)
    if queue.flag("ensureNondestructiveConsumers"):
        made.attributes["non-destructive"] = "true"
        reading.tell("queues.ensureNondestructiveConsumers", queue, name)
    consumers = reading.number(queue, "maximumLiveConsumers")
    exclusive = reading.text(queue, "exclusive", "NONE")
    if exclusive != "NONE":
        outcome = None if exclusive == "LINK" else Outcome.DROPPED
        reading.tell("queues.exclusive", queue, name, outcome)
        consumers = 1 if exclusive == "LINK" else consumers
    if consumers:
        made.attributes["max-consumers"] = str(consumers)
        if "maximumLiveConsumers" in queue:
            reading.tell("queues.maximumLiveConsumers", queue, name)
    for member, usual in (("noLocal", "false"), ("messageDurability", "DEFAULT"), ("messageGroupType", "NONE")):
        if reading.text(queue, member, usual) != usual:
            reading.tell(f"queues.{member}", queue, name)


def _read_depth(reading: Reading, queue: JsonObject, name: str, made: Element) -> None:
    """Read how long a queue may become, and what happens then."""
    policy = reading.text(queue, "overflowPolicy", "NONE")
    sizes = (("maximumQueueDepthMessages", "max-size-messages"), ("maximumQueueDepthBytes", "max-size-bytes"))
    is_limited = False
    for member, setting in sizes:
        found = reading.number(queue, member)
        if found is None or found < 0:
            continue
        if policy == "NONE":
            reading.tell(f"queues.{member}", queue, name, Outcome.NEEDLESS, "the overflow policy is NONE")
        elif policy == "RING" and member == "maximumQueueDepthMessages" and found:
            made.attributes["ring-size"] = str(found)
            reading.tell(f"queues.{member}", queue, name, None, f"`ring-size` {found}")
        elif policy in _FULL:
            origin = reading.tell(f"queues.{member}", queue, name, None, f"`{setting}` {found}")
            reading.target.setting(match_of(name), setting, str(found), origin)
            is_limited = True
        else:
            reading.tell(
                f"queues.{member}", queue, name, Outcome.DROPPED, "a ring counts messages, and has at least one"
            )
    if is_limited:
        origin = reading.origin(queue, "overflowPolicy", f'queues "{name}".overflowPolicy')
        reading.target.setting(match_of(name), "address-full-policy", _FULL[policy], origin)
    if policy != "NONE":
        reading.tell("queues.overflowPolicy", queue, name)


def _read_times(reading: Reading, topology: Topology, queue: JsonObject, name: str) -> None:
    for member, setting in (("maximumMessageTtl", "max-expiry-delay"), ("minimumMessageTtl", "min-expiry-delay")):
        found = reading.number(queue, member)
        if found is None or found <= 0:
            continue
        through = topology.leading_to(name)
        text = f"`{setting}` {found} of the address"
        if through:
            text += f"; it does not apply to what comes through {', '.join(through)}"
        outcome = Outcome.DROPPED if through else Outcome.KEPT
        origin = reading.tell(f"queues.{member}", queue, name, outcome, text)
        reading.target.setting(match_of(name), setting, str(found), origin)
    found = reading.number(queue, "maximumDeliveryAttempts")
    if found is not None:
        origin = reading.tell("queues.maximumDeliveryAttempts", queue, name)
        reading.target.setting(match_of(name), "max-delivery-attempts", str(found or -1), origin)


def _read_alternate(reading: Reading, topology: Topology, queue: JsonObject, name: str, queues: set[str]) -> None:
    alternate = queue.object("alternateBinding").text("destination")
    if not alternate:
        return
    rule = "queues.alternateBinding"
    outcome, reached = Outcome.KEPT, {alternate} & queues
    if alternate in topology.types:
        certain = topology.reached(alternate, None)
        ends = [each for _, each, _ in topology.bindings.get(alternate, ())]
        reached = {each.name for each in ends if each.is_queue} if certain is None else certain
        outcome = Outcome.CHANGED
    reached = reached - {name}
    if len(reached) != 1:
        text = "no queue" if not reached else f"several queues ({', '.join(sorted(reached))})"
        reading.tell(rule, queue, name, Outcome.DROPPED, f"{text} would get what goes to {alternate}")
        return
    (address,) = reached
    origin = reading.tell(rule, queue, name, outcome, f"`dead-letter-address` {address}")
    reading.target.setting(match_of(name), "dead-letter-address", address, origin)
    if reading.text(queue, "expiryPolicy") == "ROUTE_TO_ALTERNATE":
        reading.target.setting(
            match_of(name), "expiry-address", address, reading.tell("queues.expiryPolicy", queue, name)
        )


def _read_policies(reading: Reading, host: JsonObject) -> None:
    """Read what is created on demand: nothing unless a policy says so."""
    target = reading.target
    origin = reading.origin(host, "nodeAutoCreationPolicies", "nodeAutoCreationPolicies")
    settings = ("auto-create-queues", "auto-create-addresses")
    for setting in settings:
        target.setting("#", setting, "false", origin)
    for policy in host.objects("nodeAutoCreationPolicies"):
        pattern = reading.text(policy, "pattern") or reading.text(policy, "patterns")
        below = _BELOW.fullmatch(pattern)
        match = "#" if pattern in _EVERYTHING else f"{below[1]}.#".replace("\\.", ".") if below else ""
        makes_queues = reading.text(policy, "nodeType", "queue").lower() == "queue"
        if not match or not makes_queues:
            text = (
                f"nodes that {pattern} means are not created on demand: only queues are, with a pattern such as a\\..*"
            )
            reading.tell("nodeAutoCreationPolicies", policy, pattern, Outcome.DROPPED, text)
            continue
        for setting in settings:
            target.setting(match, setting, "true", origin)
        reading.tell("nodeAutoCreationPolicies", policy, pattern, None, f"`auto-create-queues` for {match}")
