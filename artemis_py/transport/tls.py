"""TLS of acceptors and connectors: their certificates, and the name in a client's certificate."""

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from artemis_py.errors import ConfigError, Problem
from artemis_py.transport.config import AcceptorConfig, ConnectorConfig

# RFC 4514 §3: the short names of the attributes that distinguished names are commonly made of.
SHORT_NAMES: Final[Mapping[str, str]] = {
    "commonName": "CN",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}

VERSIONS: Final[Mapping[str, ssl.TLSVersion]] = {
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}

_SERVER_NAME: Final = "artemis_py_server_name"

# RFC 4514 §2.4: characters that are written with a backslash wherever they occur.
ESCAPED: Final = frozenset('"+,;<>\\')


def server_context(config: AcceptorConfig) -> ssl.SSLContext | None:
    """Return the TLS context of an acceptor; None if it has none. Raises ConfigError if a file cannot be used."""
    tls = config.tls
    if tls is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    versions = [VERSIONS[name] for name in tls.enabled_protocols]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    # Renegotiation would let a client make the broker work at no cost to the client (reliability §5.7).
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.sni_callback = _note_server_name
    element = f"acceptor {config.name}"
    # Without a callback, `load_cert_chain` would ask for a missing password on the terminal.
    password = tls.key_store_password or ""
    problems = []
    try:
        context.load_cert_chain(tls.key_store_path, tls.private_key_path, lambda: password)
    except (OSError, ValueError) as error:
        problems.append(_problem(config, element, "keyStorePath", tls.key_store_path, error))
    if tls.trust_store_path is not None:
        try:
            context.load_verify_locations(tls.trust_store_path)
        except (OSError, ValueError) as error:
            problems.append(_problem(config, element, "trustStorePath", tls.trust_store_path, error))
        context.verify_mode = ssl.CERT_REQUIRED if tls.need_client_auth else ssl.CERT_OPTIONAL
    if problems:
        raise ConfigError(problems)
    return context


def _note_server_name(tls: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
    """Keep the name that a client asks for (SNI), which Python tells in no other way; no name is refused."""
    tls.__dict__[_SERVER_NAME] = name


def server_name(tls: ssl.SSLObject) -> str | None:
    """Return the name that the client of a connection has asked for."""
    name: str | None = tls.__dict__.get(_SERVER_NAME)
    return name


def client_context(config: ConnectorConfig) -> ssl.SSLContext | None:
    """Return the TLS context of a connector; None if it has none. Raises ConfigError if a file cannot be used."""
    tls = config.tls
    if tls is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    versions = [VERSIONS[name] for name in tls.enabled_protocols]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    context.check_hostname = tls.verify_host
    element = f"connector {config.name}"
    password = tls.key_store_password or ""
    problems = []
    try:
        if tls.trust_store_path is None:
            context.load_default_certs()
        else:
            context.load_verify_locations(tls.trust_store_path)
    except (OSError, ValueError) as error:
        problems.append(_problem(config, element, "trustStorePath", tls.trust_store_path or Path(), error))
    if tls.key_store_path is not None:
        try:
            context.load_cert_chain(tls.key_store_path, tls.private_key_path, lambda: password)
        except (OSError, ValueError) as error:
            problems.append(_problem(config, element, "keyStorePath", tls.key_store_path, error))
    if problems:
        raise ConfigError(problems)
    return context


def _problem(
    config: AcceptorConfig | ConnectorConfig, element: str, option: str, path: Path, error: Exception
) -> Problem:
    message = f"{option}={path} cannot be used: {error}; use a PEM file with a certificate and its key"
    if _is_java_key_store(path):
        message = f"{option}={path} is a key store of Java; convert it to PEM (docs/artemis-compatibility.md)"
    return Problem(config.file, config.line, element, message)


def _is_java_key_store(path: Path) -> bool:
    """Tell whether a file begins like a JKS or JCEKS file, or like a PKCS#12 file (RFC 7292 §4: version 3)."""
    try:
        with path.open("rb") as stream:
            head = stream.read(16)
    except OSError:
        return False
    return head[:4] in (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce") or (head[:1] == b"\x30" and b"\x02\x01\x03" in head)


def distinguished_name(certificate: Mapping[str, Any] | None) -> str | None:
    """Return the subject of a verified certificate as text, most specific part first (RFC 4514 §2.1); None without one.

    `certificate` is what `SSLObject.getpeercert` returns: empty or None if the peer showed none.
    """
    if not certificate:
        return None
    parts = []
    for relative in certificate.get("subject", ()):
        parts.append("+".join(f"{SHORT_NAMES.get(name, name)}={_escape(value)}" for name, value in relative))
    return ",".join(reversed(parts))


def _escape(value: str) -> str:
    """Return `value` escaped as RFC 4514 §2.4 requires."""
    last = len(value) - 1
    return "".join(
        "\\00"
        if character == "\0"
        else f"\\{character}"
        if character in ESCAPED or (character in " #" and index == 0) or (character == " " and index == last)
        else character
        for index, character in enumerate(value)
    )
