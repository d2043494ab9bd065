"""Acceptor URLs: `tcp://host:port?name=value;name=value` (artemis-model §6.5).

Parameters that the transport reads become an `AcceptorConfig`. The others are kept for the protocols; `acceptors`
checks them once the protocols are known.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from attrs import evolve

from artemis_py.config.report import Place, Report
from artemis_py.config.urls import endpoint_of, file_of, parameters_of, safe_versions, take
from artemis_py.config.values import suggest
from artemis_py.config.variables import Written
from artemis_py.config.verdicts import SASL_MECHANISMS
from artemis_py.security.authenticator import MECHANISMS
from artemis_py.transport.config import (
    ACCEPTOR_OPTIONS,
    TLS_OPTIONS,
    AcceptorConfig,
    TlsConfig,
    TlsParameters,
)

_EXAMPLE: Final = "write one such as tcp://127.0.0.1:5672?protocols=AMQP"


def read_acceptor(name: str, written: Written, folder: Path, report: Report) -> AcceptorConfig | None:
    """Return the acceptor that a URL describes; report mistakes, and return None if it is not a valid URL.

    Relative file names in the URL are relative to `folder`.
    """
    text = written.text.strip()
    scheme, separator, _ = text.partition("://")
    if not separator:
        report.problem(written.place, f'"{text}" is not a URL; {_EXAMPLE}')
        return None
    if scheme == "vm":
        text = (
            "is left out: only programs within Artemis' own process connect to vm://; here they need a port, see tcp://"
        )
        report.warning(written.place, text)
        return None
    if scheme != "tcp":
        report.problem(written.place, f"scheme {scheme}: only tcp is supported")
        return None
    endpoint = endpoint_of(text, written.place, report, _EXAMPLE)
    parameters = parameters_of(text.partition("?")[2], written.place, report)
    values = take(ACCEPTOR_OPTIONS, parameters, written.place, report)
    tls = tls_of(take(TLS_OPTIONS, parameters, written.place, report), folder, written.place, report)
    if endpoint is None:
        return None
    if "sasl_mechanisms" in values:
        values["sasl_mechanisms"] = _mechanisms(values["sasl_mechanisms"], written.place, report)
    host, port = endpoint
    return AcceptorConfig(
        name=name,
        host=host,
        port=port,
        tls=tls,
        parameters=parameters,
        file=written.place.file,
        line=written.place.line,
        **values,
    )


def _mechanisms(names: Sequence[str], place: Place, report: Report) -> tuple[str, ...]:
    """Return the mechanisms that this broker has, and report the others."""
    place = evolve(place, part="parameter saslMechanisms")
    offered = tuple(name for name in names if name in MECHANISMS)
    for name in names:
        if name in SASL_MECHANISMS and offered:
            report.warning(place, f"{name} is left out: this broker does not have it")
        elif name in SASL_MECHANISMS:
            report.problem(place, f"{name} is not supported by artemis_py; use some of {', '.join(sorted(MECHANISMS))}")
        elif name not in MECHANISMS:
            report.problem(place, f"{name}: {suggest(name, MECHANISMS)}")
    return offered


def tls_of(values: dict[str, Any], folder: Path, place: Place, report: Report) -> TlsConfig | None:
    """Return what TLS parameters say, by their attributes; None without sslEnabled."""
    written = TlsParameters(**values)
    if not written.ssl_enabled:
        return None

    find = partial(file_of, folder=folder, place=place, report=report)
    if written.key_store_path is None:
        message = "is missing; with sslEnabled it names the PEM file with the broker's certificate"
        report.problem(evolve(place, part="parameter keyStorePath"), message)
    if written.need_client_auth and written.trust_store_path is None:
        message = "is missing; with needClientAuth it names the certificates that may sign those of clients"
        report.problem(evolve(place, part="parameter trustStorePath"), message)
    return TlsConfig(
        key_store_path=find("keyStorePath", written.key_store_path) or folder,
        key_store_password=written.key_store_password,
        private_key_path=find("privateKeyPath", written.private_key_path),
        trust_store_path=find("trustStorePath", written.trust_store_path),
        need_client_auth=written.need_client_auth,
        enabled_protocols=safe_versions(written.enabled_protocols, place, report),
    )
