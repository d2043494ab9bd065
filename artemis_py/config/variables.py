"""Values from outside the file: `${name:default}` in it, and environment variables that replace elements.

`ARTEMIS_PY_CORE_GLOBAL_MAX_SIZE=1G` replaces the element global-max-size of core, `ARTEMIS_PY_LOGIN_…` one of login,
`ARTEMIS_PY_WEB_…` one of web, and `ARTEMIS_PY_ACCEPTOR_AMQP=tcp://…` the URL of the acceptor called amqp. A variable
that replaces nothing is a mistake, because its author believes that it has an effect.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from attrs import define, field, frozen

from artemis_py.config.report import ENVIRONMENT, Place, Report
from artemis_py.config.values import suggest

_REFERENCE: Final = re.compile(r"\$\{([^${}:]+)(?::([^${}]*))?\}")
_PREFIXES: Final = {
    "core": "ARTEMIS_PY_CORE_",
    "login": "ARTEMIS_PY_LOGIN_",
    "web": "ARTEMIS_PY_WEB_",
    "acceptor": "ARTEMIS_PY_ACCEPTOR_",
}


@frozen
class Written:
    """A text and the place where it is written."""

    text: str
    place: Place


def substitute(root: Any, variables: Mapping[str, str], report: Report) -> None:
    """Replace every `${name}` and `${name:default}` in texts and attributes; references in values are not replaced."""
    for element in root.iter():
        if element.text and "${" in element.text:
            element.text = _replace(element.text, report.place(element), variables, report)
        for name, text in element.attrib.items():
            if "${" in text:
                element.attrib[name] = _replace(text, report.place(element, f"attribute {name}"), variables, report)


def _replace(text: str, place: Place, variables: Mapping[str, str], report: Report) -> str:
    def value(match: re.Match[str]) -> str:
        name, default = match.groups()
        found: str | None = variables.get(name, default)
        if found is None:
            report.problem(place, f"${{{name}}} has no value; set it, or give it a default: ${{{name}:default}}")
            return match[0]
        if not found.isprintable():
            report.problem(place, f"the value of ${{{name}}} has control characters; remove them")
            return match[0]
        return found

    if "${" in _REFERENCE.sub("", text):
        report.problem(place, f'"{text}" has a ${{ that is not of the form ${{name}} or ${{name:default}}')
    return _REFERENCE.sub(value, text)


@define
class Overrides:
    """Values from the environment that replace those of the file; finds the ones that replace nothing."""

    _variables: Mapping[str, str]
    _legal: set[str] = field(factory=set, init=False)

    def take(self, section: str, name: str) -> Written | None:
        """Return the value that replaces an element or acceptor; None if there is none."""
        variable = _PREFIXES[section] + re.sub(r"[^A-Z0-9]", "_", name.upper())
        self._legal.add(variable)
        text = self._variables.get(variable)
        if text is None:
            return None
        return Written(text, Place(file=ENVIRONMENT, line=0, element=variable))

    def report_unused(self, report: Report) -> None:
        """Report variables that look like overrides but were never taken."""
        for prefix in _PREFIXES.values():
            legal = [variable for variable in self._legal if variable.startswith(prefix)]
            for variable in sorted(self._variables):
                if variable.startswith(prefix) and variable not in self._legal:
                    report.problem(
                        Place(file=ENVIRONMENT, line=0, element=variable),
                        f"replaces nothing in this configuration; {suggest(variable, legal)}",
                    )
