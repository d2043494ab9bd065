"""Reads the `<web>` element, which Artemis has in bootstrap.xml in another form."""

from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from attrs import evolve

from artemis_py.config.acceptor_url import tls_of
from artemis_py.config.document import in_own
from artemis_py.config.elements import Elements
from artemis_py.config.report import Place
from artemis_py.config.urls import parameters_of, take
from artemis_py.config.values import suggest
from artemis_py.config.variables import Overrides, Written
from artemis_py.management.http.config import DEFAULT_BIND, DEFAULT_PORT, WEB_OPTIONS, WebConfig
from artemis_py.security.authenticator import MECHANISMS
from artemis_py.transport.config import TLS_OPTIONS, AcceptorConfig

_TLS: Final = [option for option in TLS_OPTIONS if option.attribute != "ssl_enabled"]
"""Parameters of an https URL."""

_EXAMPLE: Final = f"write one such as {DEFAULT_BIND} or https://0.0.0.0:8443?keyStorePath=broker.pem"


def read_web(root: Any, elements: Elements, overrides: Overrides, folder: Path) -> WebConfig | None:
    """Return what `<web>` says; None if there is no such element and no variable for a part of it, or it is wrong."""
    element = root.find(in_own("web"))
    values = elements.children(element, WEB_OPTIONS, "web")
    if element is None and not values:
        return None
    report = elements.report
    place = Place(file=report.file, line=0, element="web")
    override = overrides.take("web", "bind")
    if override is not None:
        place = override.place
    elif element is not None:
        bind = element.find(in_own("bind"))
        place = report.place(element if bind is None else bind)
    acceptor = _socket(Written(values.get("bind", DEFAULT_BIND), place), elements, folder)
    return None if acceptor is None else WebConfig(**values, acceptor=acceptor)


def _socket(written: Written, elements: Elements, folder: Path) -> AcceptorConfig | None:
    """Return the socket of a URL; reports what is wrong with it, and returns None then."""
    report, place = elements.report, written.place
    try:
        url = urlsplit(written.text.strip())
        host, port = url.hostname, url.port
    except ValueError:
        report.problem(place, f'"{written.text}" has no valid host and port; {_EXAMPLE}')
        return None
    if url.scheme not in ("http", "https") or not host or url.username is not None or url.path not in ("", "/"):
        report.problem(place, f'"{written.text}" is not the URL of a socket; {_EXAMPLE}')
        return None
    parameters = parameters_of(url.query, place, report)
    tls = None
    if url.scheme == "https":
        tls = tls_of({"ssl_enabled": True, **take(_TLS, parameters, place, report)}, folder, place, report)
    for name in parameters:
        text = suggest(name, [option.name for option in _TLS]) if tls is not None else "only https has parameters"
        report.problem(evolve(place, part=f"parameter {name}"), f"is unknown; {text}")
    return AcceptorConfig(
        name="web",
        host=host,
        port=DEFAULT_PORT if port is None else port,
        tls=tls,
        # A client that shows a certificate may log in with it, any other one with a name and a password.
        sasl_mechanisms=MECHANISMS,
        file=place.file,
        line=place.line,
    )
