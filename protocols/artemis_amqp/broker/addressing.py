"""AMQP's names in terms of the address model (artemis-model §1.4, §1.6, §4.1.3, §4.1.4).

Pure functions from the fields of an attach to an address, a routing type, a queue name and the filters in force.
"""

from typing import Final

from attrs import field, frozen

from artemis_amqp.broker.rabbit_addresses import read_source
from artemis_amqp.engine.extensions import SEQUENCE_RANGE
from artemis_amqp.engine.filters import NO_LOCAL_CODE, SELECTOR_CODE
from artemis_amqp.engine.performatives import Source
from artemis_amqp.engine.types import Described, Symbol
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.selectors.filter import Filter, parse_filter
from artemis_py.core.sessions.subscriptions import without_own
from artemis_py.errors import InvalidFilter, InvalidRequest
from artemis_py.wire.prefixes import Prefixes

QUEUE_CAPABILITIES: Final = frozenset(("queue", "temporary-queue"))
TOPIC_CAPABILITIES: Final = frozenset(("topic", "temporary-topic"))
SHARED: Final = "shared"
GLOBAL: Final = "global"

# Filters are recognised by their descriptor; the key they stand under is the client's (amqp10 §11).
_SELECTOR_DESCRIPTORS: Final = (
    SELECTOR_CODE,
    "apache.org:selector-filter:string",
    "apache.org:jms-selector-filter:string",
)
_NO_LOCAL_DESCRIPTORS: Final = (NO_LOCAL_CODE, "apache.org:no-local-filter:list", "apache.org:jms-no-local-filter:list")
# Clients that send the selector without a descriptor, under one of these keys, mean the same.
_SELECTOR_KEYS: Final = ("jms-selector", "apache.org:selector-filter:string")

_PRIORITY_PARAMETER: Final = "consumer-priority="


# Users of other ActiveMQ clients write these. Without such a prefix on the acceptor it is part of the name: sending
# succeeds and nothing arrives, which is why the broker logs a warning (artemis-model §7.1).
_SCHEMES: Final = (("queue://", "anycastPrefix"), ("topic://", "multicastPrefix"))


def missing_prefix(address: str, prefixes: Prefixes) -> str | None:
    """Return the acceptor parameter that `queue://` or `topic://` in this address needs; None: nothing is missing."""
    for scheme, parameter in _SCHEMES:
        if address.startswith(scheme) and prefixes.strip(address)[1] is None:
            return f"{parameter}={scheme}"
    return None


def routing_type_of(capabilities: tuple[Symbol, ...]) -> RoutingType | None:
    """Return the routing type that a terminus' capabilities ask for; the first one that names a type counts."""
    for capability in capabilities:
        if capability in QUEUE_CAPABILITIES:
            return RoutingType.ANYCAST
        if capability in TOPIC_CAPABILITIES:
            return RoutingType.MULTICAST
    return None


def cut_parameters(address: str) -> tuple[str, int]:
    """Split `address?consumer-priority=5`; without the parameter the priority is 0.

    Raises InvalidRequest for a priority that is not a number.
    """
    name, mark, query = address.partition("?")
    if not mark:
        return address, 0
    for parameter in query.split("&"):
        if parameter.startswith(_PRIORITY_PARAMETER):
            text = parameter[len(_PRIORITY_PARAMETER) :]
            try:
                return name, int(text)
            except ValueError:
                raise InvalidRequest(f"consumer-priority must be a whole number, not '{text}'") from None
    # A question mark is legal in an address: only parameters we know are cut off.
    return address, 0


def split_source(address: str, prefixes: Prefixes, has_rabbit_addresses: bool) -> tuple[str, RoutingType | None, int]:
    """Return the name that a source means, the routing type of its prefix if it has one, and the consumer's priority.

    Raises InvalidRequest.
    """
    queue = read_source(address) if has_rabbit_addresses else None
    if queue is not None:
        return queue, None, 0
    text, priority = cut_parameters(address)
    name, prefixed = prefixes.strip(text)
    return name, prefixed, priority


@frozen
class SequenceRange:
    """A part of a queue, by sequence numbers of its messages: from `start` up to, but not including, `stop`."""

    start: int
    stop: int
    queue_id: int | None = None
    """Id that the queue must have; None: any queue with that name."""


@frozen
class SourceFilters:
    """The filters of a source that are in force."""

    selector: Filter | None = None
    no_local: bool = False
    range: "SequenceRange | None" = None
    applied: dict[Symbol, object] = field(factory=dict)
    """Filters that the answer may echo: one that is not applied is left out."""

    def combined(self, container_id: str) -> Filter | None:
        """Return selector and no-local as one filter."""
        if not self.no_local:
            return self.selector
        others = without_own(container_id)
        return parse_filter(others if self.selector is None else f"({self.selector.text}) AND {others}")


def read_filters(source: Source) -> SourceFilters:
    """Return the filters we know. Raises InvalidFilter for a bad range, or a selector that does not parse."""
    selector: Filter | None = None
    no_local = False
    span: SequenceRange | None = None
    applied: dict[Symbol, object] = {}
    for key, value in (source.filter or {}).items():
        descriptor = value.descriptor if isinstance(value, Described) else None
        content = value.value if isinstance(value, Described) else value
        if descriptor in _SELECTOR_DESCRIPTORS or (descriptor is None and key in _SELECTOR_KEYS):
            if not isinstance(content, str):
                raise InvalidFilter("a selector must be a string")
            if content.strip():
                selector = parse_filter(content)
            applied[key] = value
        elif descriptor in _NO_LOCAL_DESCRIPTORS:
            no_local = True
            applied[key] = value
        elif descriptor == SEQUENCE_RANGE:
            span = _read_range(content)
            applied[key] = value
    return SourceFilters(selector, no_local, span, applied)


def _read_range(content: object) -> SequenceRange:
    if (
        isinstance(content, list)
        and 2 <= len(content) <= 3
        and all(isinstance(item, int) and item is not True and item is not False for item in content)
    ):
        return SequenceRange(*(int(item) for item in content))
    raise InvalidFilter("a sequence range is a list of two numbers, from and to, and perhaps the id of the queue")


def subscription_name(
    container_id: str, link_name: str, is_durable: bool, is_shared: bool, is_global: bool, core_naming: bool
) -> str:
    """Return the queue name of a subscription, as Artemis forms it (artemis-model §4.1.4).

    Clients number the links of one shared subscription behind a `|`, which is cut off.
    """
    if is_shared:
        link_name = link_name.partition("|")[0]
    if core_naming:
        name = _escape(link_name) if is_global else f"{_escape(container_id)}.{_escape(link_name)}"
        return name if is_durable else f"nonDurable.{name}"
    name = link_name if is_global else f"{container_id}.{link_name}"
    if is_shared and not is_durable:
        name += ":shared-volatile"
    if is_global:
        name += ":global"
    return name


def _escape(name: str) -> str:
    return name.replace("\\", "\\\\").replace(".", "\\.")
