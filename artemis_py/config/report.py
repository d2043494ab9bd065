"""The mistakes found in a configuration so far, and the places where values were written."""

from typing import Any, Final

from attrs import define, field, frozen

from artemis_py.errors import ConfigError, Problem

ENVIRONMENT: Final = "environment"
"""Stands for the file name where a value comes from an environment variable."""


@frozen(kw_only=True)
class Place:
    """Where something is written, for the operator to find it."""

    file: str
    line: int
    element: str
    part: str = ""
    """An attribute or URL parameter within the element."""


@define
class Report:
    """Collects what is wrong, so that all of it is told at once."""

    file: str
    problems: list[Problem] = field(factory=list)
    warnings: list[Problem] = field(factory=list)
    _told: set[Place] = field(factory=set, init=False)

    def place(self, element: Any, part: str = "") -> Place:
        """Where an lxml element stands."""
        return Place(file=self.file, line=element.sourceline, element=local_name(element), part=part)

    def problem(self, place: Place, message: str) -> None:
        """A mistake: the configuration cannot be used."""
        self.problems.append(_problem(place, message))
        self._told.add(place)

    def warning(self, place: Place, message: str) -> None:
        """Something to know."""
        self.warnings.append(_problem(place, message))

    def has_problem_at(self, place: Place) -> bool:
        """Whether something was said about exactly this place already."""
        return place in self._told

    def has_problem_in(self, place: Place) -> bool:
        """Whether something was said about this element or any part of it already."""
        return any((told.line, told.element) == (place.line, place.element) for told in self._told)

    def raise_problems(self) -> None:
        """Raise ConfigError with all mistakes by line, unless there are none."""
        if self.problems:
            raise ConfigError(sorted(self.problems, key=lambda problem: (problem.file, problem.line)))


def local_name(element: Any) -> str:
    """An lxml element's name without its namespace."""
    return str(element.tag).rpartition("}")[2]


def _problem(place: Place, message: str) -> Problem:
    text = f"{place.part}: {message}" if place.part else message
    return Problem(file=place.file, line=place.line, element=place.element, message=text)
