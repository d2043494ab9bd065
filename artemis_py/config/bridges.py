"""Reads the `<bridges>` of broker.xml: each is a connection with one sender.

Artemis sends Core messages over a bridge. This broker sends AMQP, which the acceptors of Artemis take as well.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from attrs import evolve

from artemis_py.config.broker_config import BrokerConnectionSection
from artemis_py.config.broker_connections import check_login
from artemis_py.config.document import in_core
from artemis_py.config.elements import Elements
from artemis_py.core.settings.bridge_config import BRIDGE_ELEMENTS, BridgeElements, RoutingTypeOfBridge
from artemis_py.core.settings.broker_connection_config import BridgeConfig, BrokerConnectionConfig
from artemis_py.transport.config import ConnectorConfig


def read_bridges(
    core: Any, elements: Elements, connectors: Mapping[str, ConnectorConfig], taken: Sequence[BrokerConnectionSection]
) -> Iterator[BrokerConnectionSection]:
    """Yield the bridges that are complete; what they name must be among `connectors`."""
    report = elements.report
    names = {each.options.name for each in taken}
    for element in core.iterfind(f"{in_core('bridges')}/{in_core('bridge')}"):
        name = elements.name(element)
        place = report.place(element)
        if name in names:
            report.problem(place, f'there is another bridge or connection called "{name}"; give each its own name')
        written = BridgeElements(**elements.children(element, BRIDGE_ELEMENTS))
        selector = elements.filter(element)
        ways = _ways(element, elements, connectors)
        if not written.queue_name:
            report.problem(place, "has no queue-name; write <queue-name>…</queue-name> inside")
        _check_values(element, written, elements)
        if name is None or not ways or not written.queue_name:
            continue
        names.add(name)
        sender = BridgeConfig(
            is_sender=True,
            queue_name=written.queue_name,
            remote_address=written.forwarding_address,
            use_duplicate_detection=written.use_duplicate_detection,
            filter=selector,
            file=place.file,
            line=place.line,
        )
        options = BrokerConnectionConfig(
            name=name,
            user=written.user,
            password=written.password,
            retry_interval_ms=written.retry_interval_ms,
            retry_interval_multiplier=written.retry_interval_multiplier,
            max_retry_interval_ms=written.max_retry_interval_ms,
            initial_connect_attempts=written.initial_connect_attempts,
            reconnect_attempts=written.reconnect_attempts,
            bridges=(sender,),
        )
        check_login(options, ways, elements, place)
        yield BrokerConnectionSection(options=options, ways=ways, file=place.file, line=place.line)


def _ways(element: Any, elements: Elements, connectors: Mapping[str, ConnectorConfig]) -> tuple[ConnectorConfig, ...]:
    """Return the connectors that a bridge names, under the name of the bridge."""
    report = elements.report
    static = element.find(in_core("static-connectors"))
    if static is None:
        text = "names no other broker; write <static-connectors> with a <connector-ref>"
        report.problem(report.place(element), text)
        return ()
    found: list[ConnectorConfig] = []
    for reference in static:
        name = (reference.text or "").strip()
        if name in connectors:
            found.append(evolve(connectors[name], name=element.get("name", "").strip()))
        else:
            known = ", ".join(connectors) or "none"
            report.problem(report.place(reference), f'there is no connector "{name}"; <connectors> has {known}')
    if not found and not len(static):
        report.problem(report.place(static), "names no other broker; write a <connector-ref> inside")
    return tuple(found)


_ONLY: Final = "only {} is supported; write it, or remove the element"


def _check_values(element: Any, written: BridgeElements, elements: Elements) -> None:
    """Report values that ask for something that is not done here."""
    report = elements.report
    for name, is_wrong, legal in (
        ("routing-type", written.routing_type is not RoutingTypeOfBridge.PASS, "PASS"),
        ("concurrency", written.concurrency != 1, "1, which keeps the order of messages,"),
    ):
        if is_wrong:
            report.problem(report.place(element.find(in_core(name))), _ONLY.format(legal))
