"""Ports of Broker-J become acceptors for AMQP 1.0."""

import base64
import binascii
from typing import Final

from artemis_py.errors import ConfigError
from artemis_py.migrate.brokerj.reading import Reading
from artemis_py.migrate.findings import Outcome
from artemis_py.migrate.java_properties import read_bytes
from artemis_py.migrate.json_document import JsonObject
from artemis_py.migrate.key_stores import KeyStoreError, read_key_store
from artemis_py.migrate.rules import words
from artemis_py.migrate.target import Acceptor, unique_file_name

_SPOKEN: Final = "AMQP_1_0"
_SECURE: Final = frozenset(["SSL", "WSS"])
_DEFAULT_PORT: Final = 5672
_READ: Final = words(
    """
    port protocols transports bindingAddress maxOpenConnections authenticationProvider keyStore trustStores
    needClientAuth wantClientAuth
    """
)


def read_ports(reading: Reading, root: JsonObject) -> set[str]:
    """Read the ports for AMQP; return the names of the authentication providers that they use."""
    used: set[str] = set()
    for port in root.objects("ports"):
        name = port.text("name")
        protocols = _words(port, "protocols")
        if "HTTP" in protocols or name.upper() == "HTTP":
            text = "management is by AMQP messages and `artemis-py`, not by HTTP"
            reading.tell("ports", port, name, Outcome.DROPPED, text)
        elif protocols and _SPOKEN not in protocols:
            text = f"{', '.join(protocols)}: not spoken here; clients need AMQP 1.0"
            reading.tell("ports", port, name, Outcome.DROPPED, text)
        elif _add_acceptor(reading, root, port, name, protocols):
            used.add(reading.text(port, "authenticationProvider"))
    return used


def _words(port: JsonObject, name: str) -> list[str]:
    value = port.get(name)
    if isinstance(value, str):
        return [each.strip() for each in value.strip("[]").split(",") if each.strip()]
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _add_acceptor(reading: Reading, root: JsonObject, port: JsonObject, name: str, protocols: list[str]) -> bool:
    number = reading.number(port, "port")
    if number is None or not 0 <= number <= 65535:
        number = _DEFAULT_PORT
    if any(each.port == number and number for each in reading.target.acceptors):
        reading.tell("ports", port, name, Outcome.DROPPED, f"port {number} is taken already")
        return False
    address = reading.text(port, "bindingAddress", "*")
    host = "0.0.0.0" if address in ("*", "") else address
    origin = reading.origin(port, "name", f'ports "{name}"')
    label = "".join(each if each.isalnum() or each in "-_" else "-" for each in name) or "amqp"
    acceptor = Acceptor(label, host, number, origin, {"protocols": "AMQP"})
    limit = reading.number(port, "maxOpenConnections")
    if limit is not None and limit > 0:
        acceptor.parameters["connectionsAllowed"] = str(limit)
    transports = _words(port, "transports")
    if _SECURE.intersection(transports) and not _add_tls(reading, root, port, name, acceptor):
        return False
    providers = {each.text("name"): each.text("type") for each in root.objects("authenticationproviders")}
    if providers.get(reading.text(port, "authenticationProvider")) == "External":
        acceptor.parameters["saslMechanisms"] = "EXTERNAL"
    reading.target.acceptors.append(acceptor)
    reading.tell_others("ports", port, name, _READ)
    notes = [each for each in protocols if each != _SPOKEN]
    if _SECURE.intersection(transports) and set(transports) - _SECURE:
        text = f"`acceptor` on port {number}, with TLS only: clients without TLS need one of their own"
        reading.tell("ports", port, name, Outcome.CHANGED, text)
    elif notes or not protocols:
        text = f"`acceptor` for AMQP 1.0 on port {number}; {', '.join(notes) or 'older protocols'}: not spoken here"
        reading.tell("ports", port, name, Outcome.CHANGED, text)
    else:
        reading.tell("ports", port, name, None, f"`acceptor` for AMQP 1.0 on port {number}")
    return True


def _add_tls(reading: Reading, root: JsonObject, port: JsonObject, name: str, acceptor: Acceptor) -> bool:
    """Add the files of TLS; False if one cannot be read, because the acceptor would be open without it."""
    stores = {each.text("name"): each for each in root.objects("keystores")}
    trusts = {each.text("name"): each for each in root.objects("truststores")}
    try:
        key = _content(reading, stores.get(reading.text(port, "keyStore")), reading.text(port, "keyStore"), True)
        _write(reading, acceptor, "keyStorePath", "broker.pem", key)
        for trust in _words(port, "trustStores"):
            if port.flag("needClientAuth") or port.flag("wantClientAuth"):
                content = _content(reading, trusts.get(trust), trust, False)
                _write(reading, acceptor, "trustStorePath", "trust.pem", content)
    except (KeyStoreError, ConfigError) as error:
        reason = error.problems[0].message if isinstance(error, ConfigError) else str(error)
        text = f"{reason}; the acceptor is left out, not opened without TLS"
        reading.tell("ports", port, name, Outcome.DROPPED, text)
        return False
    acceptor.parameters |= {"sslEnabled": "true", "needClientAuth": "true" if port.flag("needClientAuth") else "false"}
    return True


def _content(reading: Reading, store: JsonObject | None, name: str, is_key: bool) -> bytes:
    """Return a key or trust store as PEM. Raises KeyStoreError, ConfigError."""
    if store is None:
        raise KeyStoreError(f"there is no store {name}")
    if "privateKeyUrl" in store:
        parts = [reading.text(store, "certificateUrl"), reading.text(store, "privateKeyUrl")]
        return b"".join(_bytes(reading, part) for part in parts)
    data = _bytes(reading, reading.text(store, "storeUrl") or reading.text(store, "path"))
    found = read_key_store(data, reading.text(store, "password"))
    return found.identity() if is_key else found.trust()


def _bytes(reading: Reading, url: str) -> bytes:
    """Return what a URL of a file, or one with the data in it, means. Raises KeyStoreError, ConfigError."""
    if url.startswith("data:"):
        try:
            return base64.b64decode(url.partition(",")[2], validate=True)
        except binascii.Error:
            raise KeyStoreError("has data that is not base64") from None
    if not url or (":" in url and not url.startswith("file:")):
        raise KeyStoreError(f"{url or 'no file'} is not read: give it as a file")
    return read_bytes(reading.file(url))


def _write(reading: Reading, acceptor: Acceptor, parameter: str, wanted: str, content: bytes) -> None:
    target = reading.target
    same = next((each for each, there in target.files.items() if there == content), None)
    file = same or unique_file_name(target, wanted)
    target.files[file] = content
    acceptor.parameters[parameter] = file
