"""Transport connectors and the SSL context become acceptors and PEM files."""

from typing import Final
from urllib.parse import parse_qsl, unquote

from attrs import frozen

from artemis_py.config.foreign_xml import ForeignElement
from artemis_py.errors import ConfigError
from artemis_py.migrate.activemq.reading import Reading
from artemis_py.migrate.findings import Outcome
from artemis_py.migrate.java_properties import read_bytes
from artemis_py.migrate.key_stores import KeyStoreError, read_key_store
from artemis_py.migrate.placeholders import unresolved
from artemis_py.migrate.target import Acceptor

_OPENWIRE: Final = frozenset(["OPENWIRE"])
_ALL: Final = frozenset(["AMQP", "MQTT", "OPENWIRE"])
# `+nio`, `+ssl` and `auto+` are removed before; a scheme that is missing here is not spoken.
_SCHEMES: Final = {
    "tcp": _OPENWIRE,
    "nio": _OPENWIRE,
    "ssl": _OPENWIRE,
    "openwire": _OPENWIRE,
    "auto": _ALL,
    "amqp": frozenset(["AMQP"]),
    "mqtt": frozenset(["MQTT"]),
    "ws": frozenset(["MQTT"]),
    "wss": frozenset(["MQTT"]),
}
_DEFAULT_PORTS: Final = {"amqp": 5672, "mqtt": 1883, "ws": 61614, "wss": 61614}
_DEFAULT_PORT: Final = 61616
_MATCH_ALL: Final = "virtualTopicConsumerWildcards"
_FRAME_SIZE: Final = {"OPENWIRE": "openwireMaxFrameSize", "AMQP": "amqpMaxMessageSize", "MQTT": "maximumPacketSize"}
_LARGEST_MQTT: Final = 268_435_460
# Parameter of a URI -> parameter of an acceptor, and the protocol that has it ("" for the acceptor itself).
_NUMBERS: Final = {
    "maximumConnections": ("connectionsAllowed", ""),
    "backlog": ("backlog", ""),
    "wireFormat.maxInactivityDuration": ("maxInactivityDuration", "OPENWIRE"),
    "wireFormat.maxInactivityDurationInitalDelay": ("maxInactivityDurationInitalDelay", "OPENWIRE"),
    "wireFormat.idleTimeout": ("amqpIdleTimeout", "AMQP"),
}
_CLUSTER: Final = ("updateClusterClients", "updateClusterClientsOnRemove", "rebalanceClusterClients")
"""What a connector and an acceptor call alike: what clients are told of other brokers."""
_MILLISECONDS: Final = 1000


@frozen
class _Keys:
    """PEM files of the SSL context."""

    identity: str | None = None
    trust: str | None = None


def read_connectors(reading: Reading, broker: ForeignElement) -> None:
    """Read `transportConnectors` and `sslContext` of a broker."""
    keys = _Keys()
    for holder in broker.children:
        if holder.name == "sslContext":
            inner = holder.find("sslContext")
            keys = _read_keys(reading, holder if inner is None else inner)
            if keys.identity is None and keys.trust is None:
                reading.tell(holder, "", Outcome.DROPPED, "neither key store could be read")
            else:
                reading.tell(holder)
    connectors = broker.find("transportConnectors")
    for element in connectors.children if connectors is not None else ():
        if element.name == "transportConnector":
            _read_connector(reading, element, keys)


# Long because each way in which a connector can fail has its own finding.
def _read_connector(reading: Reading, element: ForeignElement, keys: _Keys) -> None:
    uri = reading.text(element, "uri", is_told=False)
    parts = None if uri is None else _split(uri)
    if parts is None:
        if uri is not None or "uri" not in element.attributes:
            _leave_out(reading, element, Outcome.DROPPED, "has no uri of the form scheme://host:port")
        else:
            _leave_out(reading, element, Outcome.DROPPED, "its uri has no value")
        return
    scheme, host, port, query = parts
    words = [word for word in scheme.lower().split("+") if word]
    kinds = [word for word in words if word not in ("nio", "ssl")] or [words[0] if words else "tcp"]
    protocols = _SCHEMES.get(kinds[0])
    if protocols is None:
        is_inside = kinds[0] == "vm"
        text = f"{scheme} is within one Java process" if is_inside else f"{scheme} is not spoken here"
        _leave_out(reading, element, Outcome.NEEDLESS if is_inside else Outcome.DROPPED, text)
        return
    name = reading.text(element, "name")
    origin = reading.origin(element, "uri")
    acceptor = Acceptor(
        name=_free_name(reading, name or kinds[0]),
        host=host if host not in ("", "0") else "0.0.0.0",
        port=_DEFAULT_PORTS.get(kinds[0], _DEFAULT_PORT) if port is None else port,
        origin=origin,
    )
    if protocols != _ALL:
        acceptor.parameters["protocols"] = ",".join(sorted(protocols))
    for key, value in query:
        _read_parameter(reading, element, acceptor, protocols, key, value)
    if "ssl" in words or kinds[0] == "wss":
        if not _guard(acceptor, keys):
            text = "the key store could not be read, and the acceptor is not opened without TLS"
            _leave_out(reading, element, Outcome.DROPPED, text)
            return
    else:
        acceptor.parameters.pop("needClientAuth", None)
    taken = next((each for each in reading.target.acceptors if each.port and each.port == acceptor.port), None)
    if taken is not None:
        _leave_out(reading, element, Outcome.DROPPED, f"port {acceptor.port} is taken by {taken.name}")
        return
    _read_own(reading, element, acceptor, protocols)
    reading.target.acceptors.append(acceptor)
    reading.tell(element, "uri")
    reading.tell(element, "", None, f"`acceptor` for {', '.join(sorted(protocols))} on port {acceptor.port}")


def _leave_out(reading: Reading, element: ForeignElement, outcome: Outcome, text: str) -> None:
    """Report that there is no acceptor for a connector."""
    reading.cover(element)
    reading.tell(element, "", outcome, text)


def _read_own(reading: Reading, element: ForeignElement, acceptor: Acceptor, protocols: frozenset[str]) -> None:
    """Add what ActiveMQ does on every connector without being asked."""
    stealing = reading.flag(element, "allowLinkStealing")
    for name in _CLUSTER:
        if "OPENWIRE" not in protocols and name in element.attributes:
            reading.tell(element, name, Outcome.NEEDLESS, "is about OPENWIRE")
        elif (flag := reading.flag(element, name)) is not None:
            acceptor.parameters[name] = str(flag).lower()
    if "OPENWIRE" in protocols:
        if reading.virtual_topics:
            acceptor.parameters[_MATCH_ALL] = ",".join(reading.virtual_topics)
        if not reading.has_advisories:
            acceptor.parameters["supportAdvisory"] = "false"
        if stealing:
            acceptor.parameters["openwireAllowLinkStealing"] = "true"
    if "MQTT" in protocols and stealing is False:
        acceptor.parameters["allowLinkStealing"] = "false"
    if "AMQP" in protocols:
        acceptor.parameters |= {"anycastPrefix": "queue://", "multicastPrefix": "topic://"}


def _read_parameter(
    reading: Reading, element: ForeignElement, acceptor: Acceptor, protocols: frozenset[str], key: str, value: str
) -> None:
    """Carry over one parameter of a URI."""
    for prefix in ("transport.", "socket.", "sslServerSocket."):
        key = key.removeprefix(prefix)
    part = ForeignElement("uri", "", element.line, {key: value})
    if unresolved(value) is not None:
        reading.text(part, key)
    elif key in _NUMBERS:
        name, protocol = _NUMBERS[key]
        number = reading.number(part, key)
        if protocol and protocol not in protocols:
            reading.tell(part, key, Outcome.NEEDLESS, f"is about {protocol}")
        elif number is not None and number >= 0:
            acceptor.parameters[name] = str(number)
    elif key == "wireFormat.maxFrameSize":
        size = reading.size(part, key)
        if size:
            for protocol in sorted(protocols):
                limited = min(size, _LARGEST_MQTT) if protocol == "MQTT" else min(size, 2**31 - 1)
                acceptor.parameters[_FRAME_SIZE[protocol]] = str(limited)
    elif key == "connectAttemptTimeout" or key == "wireFormat.connectAttemptTimeout":
        part.attributes = {"wireFormat.connectAttemptTimeout": value}
        number = reading.number(part, "wireFormat.connectAttemptTimeout")
        if number:
            acceptor.parameters["handshake-timeout"] = str(max(1, number // _MILLISECONDS))
    elif key in ("needClientAuth", "tcpNoDelay"):
        flag = reading.flag(part, key)
        if flag is not None:
            acceptor.parameters[key] = str(flag).lower()
    elif key == "wantClientAuth" and value.lower() == "false":
        reading.tell(part, key, Outcome.NEEDLESS, "the default here")
    else:
        reading.tell(part, key)


def _guard(acceptor: Acceptor, keys: _Keys) -> bool:
    """Add the parameters of TLS; False if there are no keys for it."""
    if keys.identity is None or (acceptor.parameters.get("needClientAuth") == "true" and keys.trust is None):
        return False
    acceptor.parameters |= {"sslEnabled": "true", "keyStorePath": keys.identity}
    if keys.trust is not None:
        acceptor.parameters["trustStorePath"] = keys.trust
    return True


def _split(uri: str) -> tuple[str, str, int | None, list[tuple[str, str]]] | None:
    """Take a URI apart; None if that is not possible."""
    uri = uri.replace("&amp;", "&")
    scheme, separator, rest = uri.partition("://")
    if not separator:
        scheme, _, rest = uri.partition(":")
        rest = rest.strip("()")
    place, _, query = rest.partition("?")
    place = place.partition("/")[0]
    host, _, port = place.rpartition(":") if not place.endswith("]") and ":" in place else (place, "", "")
    if port and not port.isdecimal():
        return None
    if "," in place or "(" in uri or (port and int(port) > 65535):
        return None
    host = unquote(host.strip("[]"))
    return scheme, host, int(port) if port else None, parse_qsl(query, keep_blank_values=True)


def _free_name(reading: Reading, wanted: str) -> str:
    names = {each.name for each in reading.target.acceptors}
    name, number = wanted, 1
    while name in names:
        number += 1
        name = f"{wanted}-{number}"
    return name


def _read_keys(reading: Reading, element: ForeignElement) -> _Keys:
    """Turn the key stores of an SSL context into PEM files of the target."""
    made: dict[str, str] = {}
    for attribute, file in (("keyStore", "broker.pem"), ("trustStore", "trust.pem")):
        name = reading.text(element, attribute, is_told=False)
        if name is None:
            continue
        password = reading.text(element, f"{attribute}Password", is_told=False)
        key_password = reading.text(element, "keyStoreKeyPassword", is_told=False)
        try:
            store = read_key_store(read_bytes(reading.path(name)), password or "", key_password)
            content = store.identity() if attribute == "keyStore" else store.trust()
        except KeyStoreError as error:
            reading.tell(element, attribute, Outcome.DROPPED, str(error))
        except ConfigError as error:
            reading.tell(element, attribute, Outcome.DROPPED, error.problems[0].message)
        else:
            reading.target.files[file] = content
            made[attribute] = file
            reading.tell(element, attribute, None, f"{file}, readable by its owner only")
    return _Keys(made.get("keyStore"), made.get("trustStore"))
