"""Reads the `<broker-connections>` of broker.xml: connections to brokers that are no members of the mesh."""

import re
from collections.abc import Iterator, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

from artemis_py.config.broker_config import BrokerConnectionSection
from artemis_py.config.connectors import read_connector
from artemis_py.config.document import in_core
from artemis_py.config.elements import Elements
from artemis_py.config.report import Place, local_name
from artemis_py.config.variables import Written
from artemis_py.core.names.syntax import WildcardSyntax
from artemis_py.core.settings.broker_connection_config import (
    BRIDGE_OPTIONS,
    BROKER_CONNECTION_OPTIONS,
    BridgeConfig,
    BrokerConnectionConfig,
)
from artemis_py.core.settings.queue_config import AddressConfig
from artemis_py.transport.config import ConnectorConfig

_ALTERNATIVE: Final = re.compile(r"[#,](?=[a-z]+://)")
"""Between two URLs: a comma may also be part of a parameter."""
_PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")
PLACEHOLDERS: Final = ("address", "queue")
"""What a `remote-address` may have in braces."""


def read_broker_connections(
    core: Any, elements: Elements, folder: Path, addresses: Sequence[AddressConfig], syntax: WildcardSyntax
) -> tuple[BrokerConnectionSection, ...]:
    """Return the connections that are complete; file names in their URIs are relative to `folder`."""
    reader = _Reader(elements, folder, addresses, syntax)
    return tuple(reader.read(core))


class _Reader:
    """Reads one connection after the other."""

    def __init__(
        self, elements: Elements, folder: Path, addresses: Sequence[AddressConfig], syntax: WildcardSyntax
    ) -> None:
        self._elements: Final = elements
        self._report: Final = elements.report
        self._folder: Final = folder
        self._addresses: Final = {queue.name: queue.address for each in addresses for queue in each.queues}
        """Addresses of the queues that the file declares."""
        self._syntax: Final = syntax

    def read(self, core: Any) -> Iterator[BrokerConnectionSection]:
        """Yield the connections."""
        names: set[str] = set()
        for element in core.iterfind(f"{in_core('broker-connections')}/{in_core('amqp-connection')}"):
            name = self._elements.name(element)
            place = self._report.place(element)
            if name in names:
                self._report.problem(place, f'there is another connection called "{name}"; give each its own name')
            ways = self._ways(element, name or "")
            values = self._elements.attributes(element, BROKER_CONNECTION_OPTIONS)
            bridges = tuple(self._bridges(element))
            if not bridges:
                self._report.warning(place, "has no sender and no receiver: no message will pass")
            self._check_circles(bridges)
            if name is None or not ways:
                continue
            names.add(name)
            options = BrokerConnectionConfig(name=name, bridges=bridges, **values)
            check_login(options, ways, self._elements, place)
            yield BrokerConnectionSection(options=options, ways=ways, file=place.file, line=place.line)

    def _ways(self, element: Any, name: str) -> tuple[ConnectorConfig, ...]:
        """Return where the other broker is; one that is not valid is reported."""
        uri = element.get("uri")
        place = self._report.place(element, "attribute uri")
        if uri is None or self._report.has_problem_at(place):  # it is missing, or a variable has no value
            return ()
        found = [
            read_connector(name, Written(url, place), self._folder, self._report) for url in _ALTERNATIVE.split(uri)
        ]
        return tuple([each for each in found if each is not None])

    def _bridges(self, element: Any) -> Iterator[BridgeConfig]:
        for child in element:
            place = self._report.place(child)
            values = self._elements.attributes(child, BRIDGE_OPTIONS)
            given = [values.get("address_match", ""), values.get("queue_name", "")]
            if given.count("") != 1:
                text = "needs one of address-match and queue-name, to say which queues it is about"
                self._report.problem(place, text)
                continue
            self._elements.check_separator(given[1], self._report.place(child, "attribute queue-name"))
            self._check_remote(child, values.get("remote_address", ""))
            yield BridgeConfig(is_sender=local_name(child) == "sender", file=place.file, line=place.line, **values)

    def _check_remote(self, element: Any, remote: str) -> None:
        for word in _PLACEHOLDER.findall(remote):
            if word not in PLACEHOLDERS:
                place = self._report.place(element, "attribute remote-address")
                self._report.problem(place, f"{{{word}}} stands for nothing; write {{address}} or {{queue}}")

    def _check_circles(self, bridges: Sequence[BridgeConfig]) -> None:
        """Report messages that would go to the other broker and come back without end."""
        for receiver in bridges:
            for sender in bridges:
                if sender.is_sender and not receiver.is_sender and self._shares(sender, receiver):
                    what = receiver.queue_name or receiver.address_match
                    text = (
                        f'"{what}" is sent on the same connection (line {sender.line}): messages would go there and '
                        "come back without end; keep one of the two"
                    )
                    place = Place(file=receiver.file, line=receiver.line, element="receiver")
                    self._report.problem(place, text)
                    break

    def _shares(self, sender: BridgeConfig, receiver: BridgeConfig) -> bool:
        """Tell whether there is a queue that both are about, as far as the file shows."""
        if sender.queue_name and receiver.queue_name:
            return sender.queue_name == receiver.queue_name
        one, other = self._address_of(sender), self._address_of(receiver)
        return self._syntax.matches(one, other) or self._syntax.matches(other, one)

    def _address_of(self, bridge: BridgeConfig) -> str:
        name = bridge.queue_name
        return self._addresses.get(name, name) if name else bridge.address_match


def check_login(
    options: BrokerConnectionConfig, ways: Sequence[ConnectorConfig], elements: Elements, place: Place
) -> None:
    """Report a login that is not complete, and one whose password others can read on its way."""
    if bool(options.user) != bool(options.password):
        missing = "password" if options.user else "user"
        elements.report.problem(place, f"has no {missing}; write both user and password, or none of them")
    for way in ways:
        if options.password and way.tls is None and "PLAIN" in way.sasl_mechanisms and not is_this_machine(way.host):
            text = (
                f"the password goes to {way.endpoint} without encryption, where others can read it; use sslEnabled, "
                "or remove PLAIN from saslMechanisms"
            )
            elements.report.warning(place, text)


def is_this_machine(host: str) -> bool:
    """Tell whether a host name or address is surely the machine itself."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
