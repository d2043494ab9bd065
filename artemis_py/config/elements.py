"""Reads one element of broker.xml: its options, its name, its filter.

The readers of all kinds of elements share this. Mistakes are reported and skipped, so that reading can continue.
"""

from collections.abc import Iterable
from typing import Any, Final

from artemis_py.config.document import in_core
from artemis_py.config.report import Place, Report, local_name
from artemis_py.config.values import parse_value
from artemis_py.config.variables import Overrides, Written
from artemis_py.core.names.syntax import FQQN_SEPARATOR
from artemis_py.core.selectors.filter import parse_filter
from artemis_py.core.settings.declaration import Option
from artemis_py.errors import InvalidFilter


class Elements:
    """Reads elements and reports what is wrong with them."""

    def __init__(self, overrides: Overrides, report: Report) -> None:
        self.report: Final = report
        self._overrides: Final = overrides

    def children(self, element: Any, options: Iterable[Option], section: str | None = None) -> dict[str, Any]:
        """Return values by attribute, from the children of an element (None: it is missing) or their overrides."""
        children = {} if element is None else {local_name(child): child for child in element}
        values: dict[str, Any] = {}
        for option in options:
            child = children.get(option.name)
            override = None if section is None else self._overrides.take(section, option.name)
            if override is not None:
                self._parse(option, override, values)
            elif child is not None:
                self._parse(option, Written(child.text or "", self.report.place(child)), values)
        return values

    def attributes(self, element: Any, options: Iterable[Option]) -> dict[str, Any]:
        """Return values by attribute, from the attributes of an element."""
        values: dict[str, Any] = {}
        for option in options:
            text = element.get(option.name)
            if text is not None:
                self._parse(option, Written(text, self.report.place(element, f"attribute {option.name}")), values)
        return values

    def name(self, element: Any, attribute: str = "name") -> str | None:
        """Return a name; None if it is missing, which the schema reports, or empty, which is reported here."""
        name: str | None = element.get(attribute)
        if name is None:
            return None
        name = name.strip()
        if not name:
            self.report.problem(self.report.place(element, f"attribute {attribute}"), "is empty; write a name")
            return None
        return name

    def filter(self, parent: Any) -> str | None:
        """Return the selector of the `<filter>` in an element; None if there is none, or an empty one."""
        element = parent.find(in_core("filter"))
        text: str | None = None if element is None else element.get("string")
        if text is None or not text.strip():
            return None
        try:
            parse_filter(text)
        except InvalidFilter as error:
            self.report.problem(self.report.place(element, "attribute string"), str(error))
        return text

    def check_separator(self, name: str, place: Place) -> None:
        """Report a name that contains the separator of fully qualified names."""
        if FQQN_SEPARATOR in name:
            self.report.problem(
                place, f'"{name}" contains {FQQN_SEPARATOR}, which separates an address from a queue; remove it'
            )

    def _parse(self, option: Option, written: Written, values: dict[str, Any]) -> None:
        if self.report.has_problem_at(written.place):  # a variable without a value
            return
        try:
            values[option.attribute] = parse_value(option, written.text)
        except ValueError as error:
            self.report.problem(written.place, str(error))
