"""What became of each line of a migrated configuration."""

from enum import Enum
from pathlib import Path
from typing import Final

from attrs import Factory, define, field, frozen


class Outcome(Enum):
    """What became of an element, an attribute or a line."""

    KEPT = "kept"
    """It means the same here."""
    CHANGED = "changed"
    """It was carried over, with a difference that the text names."""
    NEEDLESS = "not needed"
    """It was left out, and clients notice nothing."""
    DROPPED = "dropped"
    """It was left out, and clients or operators may miss it."""


@frozen
class Origin:
    """Place in the old configuration where something is written."""

    file: Path
    line: int
    element: str
    """Name of the element, `element.attribute`, or the word that begins the line."""


@frozen
class Finding:
    """What became of one thing, with the reason."""

    origin: Origin
    outcome: Outcome
    text: str

    def __str__(self) -> str:
        origin = self.origin
        return f"{origin.file}:{origin.line}: {origin.element}: {self.outcome.value}: {self.text}"


@define
class Findings:
    """All findings of one migration."""

    found: list[Finding] = Factory(list)
    _known: set[Finding] = field(factory=set, init=False)

    def add(self, origin: Origin, outcome: Outcome, text: str) -> None:
        """Add a finding; the same one again says nothing new and is ignored."""
        finding = Finding(origin, outcome, text)
        if finding not in self._known:
            self._known.add(finding)
            self.found.append(finding)

    def remove(self, finding: Finding) -> None:
        """Remove a finding that is no longer true."""
        if finding in self._known:
            self._known.remove(finding)
            self.found.remove(finding)

    def in_order(self) -> list[Finding]:
        """Return the findings by file and line; files in the order in which they were read."""
        files = {file: number for number, file in enumerate(dict.fromkeys(each.origin.file for each in self.found))}
        return sorted(self.found, key=lambda each: (files[each.origin.file], each.origin.line))

    def count(self, outcome: Outcome) -> int:
        """Return how many findings have this outcome."""
        return sum(each.outcome is outcome for each in self.found)


NOWHERE: Final = Origin(Path(), 0, "")
"""Origin of what no line of the old configuration asks for."""
