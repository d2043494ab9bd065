"""Acceptor URLs: `tcp://host:port?name=value;name=value` (artemis-model §6.5).

Parameters that the transport reads become an `AcceptorConfig`. The others are kept for the protocols and checked
against the parameters that these declare, once the protocols are known.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from attrs import evolve

from artemis_py.config import known
from artemis_py.config.report import Place, Report
from artemis_py.config.values import parse_value, suggest
from artemis_py.config.variables import Written
from artemis_py.core.settings.declaration import Option
from artemis_py.errors import Problem
from artemis_py.protocol import ProtocolManager
from artemis_py.security.authenticator import MECHANISMS
from artemis_py.transport.config import (
    ACCEPTOR_OPTIONS,
    DEFAULT_PORT,
    TLS_OPTIONS,
    AcceptorConfig,
    TlsConfig,
    TlsParameters,
)
from artemis_py.wire.parameters import InvalidParameter, parse_parameter

_LARGEST_PORT: Final = 65535
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
    if scheme != "tcp":
        message = known.unsupported(scheme) if scheme == "vm" else "only tcp is supported"
        report.problem(written.place, f"scheme {scheme}: {message}")
        return None
    endpoint = _endpoint(text, written.place, report)
    parameters = _split(text.partition("?")[2], written.place, report)
    values = _take(ACCEPTOR_OPTIONS, parameters, written.place, report)
    tls = _tls(_take(TLS_OPTIONS, parameters, written.place, report), folder, written.place, report)
    if endpoint is None:
        return None
    for mechanism in values.get("sasl_mechanisms", ()):
        if mechanism not in MECHANISMS:
            is_known = mechanism in known.SASL_MECHANISMS
            message = known.unsupported(mechanism) if is_known else suggest(mechanism, MECHANISMS)
            report.problem(evolve(written.place, part="parameter saslMechanisms"), f"{mechanism}: {message}")
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


def check_parameters(acceptor: AcceptorConfig, managers: Iterable[ProtocolManager]) -> list[Problem]:
    """Return the problems of an acceptor's protocols and of their parameters, given all installed protocols.

    The managers must be the same objects for all acceptors of a broker: they remember values that have to agree.
    """
    report = Report(acceptor.file)
    place = Place(file=acceptor.file, line=acceptor.line, element="acceptor")
    by_name = {manager.name: manager for manager in managers}
    for name in acceptor.protocols:
        if name not in by_name:
            missing = known.unsupported(name) if name in known.PROTOCOLS else suggest(name, by_name)
            report.problem(evolve(place, part="parameter protocols"), f"{name}: {missing}")
    spoken = [manager for name, manager in by_name.items() if name in acceptor.protocols or not acceptor.protocols]
    legal = {parameter.name: parameter for manager in spoken for parameter in manager.parameters}
    for name, text in acceptor.parameters.items():
        wrong = _wrong_text(legal[name], text) if name in legal else _wrong_name(name, legal, by_name.values())
        if wrong is not None:
            report.problem(evolve(place, part=f"parameter {name}"), wrong)
    if not report.problems:
        for manager in spoken:
            try:
                manager.read_parameters(acceptor.name, acceptor.parameters)
            except InvalidParameter as error:
                report.problem(evolve(place, part=f"parameter {error.name}"), str(error))
    return report.problems


def _wrong_text(parameter: Option, text: str) -> str | None:
    try:
        parse_parameter(parameter, text)
    except InvalidParameter as error:
        return str(error)
    return None


def _wrong_name(name: str, legal: Mapping[str, Option], managers: Iterable[ProtocolManager]) -> str:
    for manager in managers:
        if any(parameter.name == name for parameter in manager.parameters):
            return f"is for {manager.name}, which this acceptor does not speak; remove it, or add {manager.name}"
    if name in known.ACCEPTOR_PARAMETERS:
        return known.unsupported(name)
    own = [option.name for option in (*ACCEPTOR_OPTIONS, *TLS_OPTIONS)]
    return f"is unknown; {suggest(name, [*own, *legal])}"


def _endpoint(text: str, place: Place, report: Report) -> tuple[str, int] | None:
    """Return host and port; report them and return None if they are not valid."""
    try:
        url = urlsplit(text)
        host, port = url.hostname, url.port
    except ValueError:
        report.problem(place, f'"{text}" has no valid host and port; the port is a number up to {_LARGEST_PORT}')
        return None
    if not host or url.username is not None or url.path not in ("", "/") or url.fragment:
        report.problem(place, f'"{text}" is not of the form tcp://host:port?name=value; {_EXAMPLE}')
        return None
    return host, DEFAULT_PORT if port is None else port


def _split(query: str, place: Place, report: Report) -> dict[str, str]:
    """Return the parameters of a URL; `;` and `&` both separate them."""
    parameters: dict[str, str] = {}
    for pair in query.replace("&", ";").split(";"):
        name, separator, text = pair.strip().partition("=")
        if not pair.strip():
            continue
        if not separator or not name:
            report.problem(place, f'parameter "{pair.strip()}" has no value; write name=value')
        elif name in parameters:
            report.problem(evolve(place, part=f"parameter {name}"), "is given twice; keep one")
        else:
            parameters[name] = unquote(text)
    return parameters


def _take(options: Iterable[Option], parameters: dict[str, str], place: Place, report: Report) -> dict[str, Any]:
    """Remove from `parameters` those that `options` describes, and return their values by attribute."""
    values: dict[str, Any] = {}
    for option in options:
        text = parameters.pop(option.name, None)
        if text is None:
            continue
        try:
            values[option.attribute] = parse_value(option, text)
        except ValueError as error:
            report.problem(evolve(place, part=f"parameter {option.name}"), str(error))
    return values


def _tls(values: dict[str, Any], folder: Path, place: Place, report: Report) -> TlsConfig | None:
    written = TlsParameters(**values)
    if not written.ssl_enabled:
        return None

    def find(name: str, path: str | None) -> Path | None:
        if path is None:
            return None
        found = folder / path
        if not found.is_file():
            report.problem(evolve(place, part=f"parameter {name}"), f"there is no file {found}")
        return found

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
    )
