"""The mistakes found in a configuration so far, and the places where values are written."""

from typing import Any, Final

from attrs import define, field, frozen

from artemis_py.errors import ConfigError, Problem

ENVIRONMENT: Final = "environment"
"""Name that replaces the file name if a value comes from an environment variable."""


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


def local_name(element: Any) -> str:
    """Return an lxml element's name without its namespace."""
    return str(element.tag).rpartition("}")[2]


def _problem(place: Place, message: str) -> Problem:
    text = f"{place.part}: {message}" if place.part else message
    return Problem(file=place.file, line=place.line, element=place.element, message=text)
