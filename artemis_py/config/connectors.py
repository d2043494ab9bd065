"""Reads the `<connectors>` of broker.xml: URLs of brokers, this one among them (mesh §2.1)."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from attrs import evolve

from artemis_py.config.document import in_core
from artemis_py.config.elements import Elements
from artemis_py.config.known import ACCEPTOR_PARAMETERS
from artemis_py.config.report import Place, Report
from artemis_py.config.urls import endpoint_of, file_of, parameters_of, safe_versions, take
from artemis_py.config.values import suggest
from artemis_py.config.variables import Written
from artemis_py.config.verdicts import CONNECTOR_PARAMETERS
from artemis_py.transport.config import (
    CONNECTOR_OPTIONS,
    CONNECTOR_TLS_OPTIONS,
    ConnectorConfig,
    ConnectorTls,
    ConnectorTlsParameters,
)

_EXAMPLE: Final = "write one such as tcp://broker2.example:61616"


def read_connectors(core: Any, elements: Elements, folder: Path) -> Iterator[ConnectorConfig]:
    """Yield the connectors whose URLs are valid; file names in them are relative to `folder`."""
    report = elements.report
    names: set[str] = set()
    for element in core.iterfind(f"{in_core('connectors')}/{in_core('connector')}"):
        name = elements.name(element)
        if name is None:
            continue
        place = report.place(element)
        if name in names:
            report.problem(place, f'there is another connector called "{name}"; give each its own name')
            continue
        names.add(name)
        if report.has_problem_at(place):  # a variable without a value
            continue
        connector = read_connector(name, Written(element.text or "", place), folder, report)
        if connector is not None:
            yield connector


def read_connector(name: str, written: Written, folder: Path, report: Report) -> ConnectorConfig | None:
    """Return the connector that a URL describes; report mistakes, and return None if it is not a valid URL."""
    text, place = written.text.strip(), written.place
    scheme, separator, _ = text.partition("://")
    if not separator:
        report.problem(place, f'"{text}" is not a URL; {_EXAMPLE}')
        return None
    if scheme == "vm":
        report.warning(place, "is left out: vm:// leads to a broker in the same process of Java; see tcp://")
        return None
    if scheme != "tcp":
        report.problem(place, f"scheme {scheme}: only tcp is supported")
        return None
    endpoint = endpoint_of(text, place, report, _EXAMPLE)
    parameters = parameters_of(text.partition("?")[2], place, report)
    values = take(CONNECTOR_OPTIONS, parameters, place, report)
    tls = _tls(take(CONNECTOR_TLS_OPTIONS, parameters, place, report), folder, place, report)
    _report_others(parameters, place, report)
    if endpoint is None:
        return None
    host, port = endpoint
    if not port:
        report.problem(place, "port 0 is no port to connect to")
    return ConnectorConfig(name=name, host=host, port=port, tls=tls, file=place.file, line=place.line, **values)


def _tls(values: dict[str, Any], folder: Path, place: Place, report: Report) -> ConnectorTls | None:
    written = ConnectorTlsParameters(**values)
    if not written.ssl_enabled:
        return None

    find = partial(file_of, folder=folder, place=place, report=report)
    if written.private_key_path is not None and written.key_store_path is None:
        message = "is missing; with privateKeyPath it names the PEM file with the certificate"
        report.problem(evolve(place, part="parameter keyStorePath"), message)
    if not written.verify_host:
        message = "anyone with a certificate of the same authority can stand in for the other broker"
        report.warning(evolve(place, part="parameter verifyHost"), message)
    return ConnectorTls(
        trust_store_path=find("trustStorePath", written.trust_store_path),
        key_store_path=find("keyStorePath", written.key_store_path),
        key_store_password=written.key_store_password,
        private_key_path=find("privateKeyPath", written.private_key_path),
        enabled_protocols=safe_versions(written.enabled_protocols, place, report),
        verify_host=written.verify_host,
        sni_host=written.sni_host,
    )


def _report_others(parameters: Mapping[str, str], place: Place, report: Report) -> None:
    """Report parameters that a connector does not have."""
    own = [option.name for option in (*CONNECTOR_OPTIONS, *CONNECTOR_TLS_OPTIONS)]
    for name, text in parameters.items():
        at = evolve(place, part=f"parameter {name}")
        verdict = CONNECTOR_PARAMETERS.get(name)
        if verdict is not None:
            verdict.tell([text.replace(" ", "")], at, report)
        elif name in ACCEPTOR_PARAMETERS:
            report.warning(at, "has no effect here: it is for acceptors, or for clients in Java")
        else:
            report.problem(at, f"is unknown; {suggest(name, own)}")
