"""The mistakes found in a configuration so far, and the places where values are written."""

from collections.abc import Iterable
from typing import Any, Final

from attrs import define, field, frozen

from artemis_py.errors import ConfigError, Problem

ENVIRONMENT: Final = "environment"
"""Name that replaces the file name if a value comes from an environment variable."""


# A warning stays one line of a terminal or two.
_LISTED_LINES: Final = 5


@frozen(kw_only=True)
class Place:
    """Place where something is written, for the operator to find it."""

    file: str
    line: int
    element: str
    part: str = ""
    """Attribute or URL parameter of the element; empty for the element itself."""


@define
class Report:
    """Collects mistakes, so that all of them are reported at once."""

    file: str
    problems: list[Problem] = field(factory=list)
    warnings: list[Problem] = field(factory=list)
    _told: set[Place] = field(factory=set, init=False)

    def place(self, element: Any, part: str = "") -> Place:
        """Return the place of an lxml element."""
        return Place(file=self.file, line=element.sourceline, element=local_name(element), part=part)

    def problem(self, place: Place, message: str) -> None:
        """Add a mistake that makes the configuration unusable."""
        self.problems.append(_problem(place, message))
        self._told.add(place)

    def warning(self, place: Place, message: str) -> None:
        """Add a warning."""
        self.warnings.append(_problem(place, message))

    def has_problem_at(self, place: Place) -> bool:
        """Tell whether a problem was reported for exactly this place."""
        return place in self._told

    def has_problem_in(self, place: Place) -> bool:
        """Tell whether a problem was reported for this element or any part of it."""
        return any((told.line, told.element) == (place.line, place.element) for told in self._told)

    def raise_problems(self) -> None:
        """Raise ConfigError with all mistakes, sorted by line, if there are any."""
        if self.problems:
            raise ConfigError(sorted(self.problems, key=lambda problem: (problem.file, problem.line)))


def merged(problems: Iterable[Problem]) -> list[Problem]:
    """Return problems with those that say the same of several lines of a file as one, sorted by file and line."""
    lines: dict[tuple[str, str, str], list[int]] = {}
    for each in problems:
        lines.setdefault((each.file, each.element, each.message), []).append(each.line)
    found = []
    for (file, element, message), at in lines.items():
        first, *others = sorted(set(at))
        also = f" (also in {'line' if len(others) == 1 else 'lines'} {_listed(others)})" if others else ""
        found.append(Problem(file, first, element, message + also))
    return sorted(found, key=lambda problem: (problem.file, problem.line))


def _listed(lines: list[int]) -> str:
    """Return the numbers of lines, of many only the first ones."""
    rest = f" and {len(lines) - _LISTED_LINES} more" if len(lines) > _LISTED_LINES else ""
    return ", ".join(map(str, lines[:_LISTED_LINES])) + rest


def local_name(element: Any) -> str:
    """Return an lxml element's name without its namespace."""
    return str(element.tag).rpartition("}")[2]


def _problem(place: Place, message: str) -> Problem:
    text = f"{place.part}: {message}" if place.part else message
    return Problem(file=place.file, line=place.line, element=place.element, message=text)
