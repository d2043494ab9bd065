"""What the URLs of acceptors and connectors have in common: `tcp://host:port?name=value;name=value`."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from attrs import evolve

from artemis_py.config.report import Place, Report
from artemis_py.config.values import parse_value, suggest
from artemis_py.core.settings.declaration import Option
from artemis_py.transport.config import DEFAULT_PORT, TLS_VERSIONS

_UNSAFE_VERSIONS: Final = ("SSLv2Hello", "SSLv3", "TLSv1", "TLSv1.1")
_LARGEST_PORT: Final = 65535


def endpoint_of(text: str, place: Place, report: Report, example: str) -> tuple[str, int] | None:
    """Return host and port; report them and return None if they are not valid."""
    try:
        url = urlsplit(text)
        host, port = url.hostname, url.port
    except ValueError:
        report.problem(place, f'"{text}" has no valid host and port; the port is a number up to {_LARGEST_PORT}')
        return None
    if not host or url.username is not None or url.path not in ("", "/") or url.fragment:
        report.problem(place, f'"{text}" is not of the form tcp://host:port?name=value; {example}')
        return None
    return host, DEFAULT_PORT if port is None else port


def parameters_of(query: str, place: Place, report: Report) -> dict[str, str]:
    """Return the parameters of a URL; `;` and `&` both separate them."""
    parameters: dict[str, str] = {}
    for pair in query.replace("&", ";").split(";"):
        name, separator, text = pair.strip().partition("=")
        if not pair.strip():
            continue
        if not separator or not name:
            report.problem(place, f'parameter "{pair.strip()}" has no value; write name=value')
        elif parameters.get(name) == unquote(text):
            report.warning(evolve(place, part=f"parameter {name}"), "is given twice; remove one")
        elif name in parameters:
            report.problem(evolve(place, part=f"parameter {name}"), "is given twice; keep one")
        else:
            parameters[name] = unquote(text)
    return parameters


def take(options: Iterable[Option], parameters: dict[str, str], place: Place, report: Report) -> dict[str, Any]:
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


def safe_versions(names: Sequence[str], place: Place, report: Report) -> tuple[str, ...]:
    """Return the versions of TLS among those that are written, and report the others."""
    place = evolve(place, part="parameter enabledProtocols")
    versions = tuple(name for name in names if name in TLS_VERSIONS)
    for name in names:
        if name in _UNSAFE_VERSIONS:
            report.warning(place, f"{name} is left out: it is not safe")
        elif name not in TLS_VERSIONS:
            report.problem(place, f"{name}: {suggest(name, TLS_VERSIONS)}")
    if not versions:
        report.problem(place, f"names no version that is safe; use some of {', '.join(TLS_VERSIONS)}")
    return versions or TLS_VERSIONS


def file_of(name: str, path: str | None, folder: Path, place: Place, report: Report) -> Path | None:
    """Return the file that a parameter names, below a folder; None if it names none. Report one that is missing."""
    if path is None:
        return None
    found = folder / path
    if not found.is_file():
        report.problem(evolve(place, part=f"parameter {name}"), f"there is no file {found}")
    return found
