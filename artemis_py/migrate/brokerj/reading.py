"""One migration of Broker-J: the file, its variables, and how findings are reported."""

from pathlib import Path

from attrs import Factory, define

from artemis_py.migrate.brokerj.table import IGNORED, TABLE
from artemis_py.migrate.findings import Findings, Origin, Outcome
from artemis_py.migrate.json_document import JsonObject
from artemis_py.migrate.placeholders import replace
from artemis_py.migrate.rules import UNKNOWN
from artemis_py.migrate.target import Target


@define(eq=False)
class Reading:
    """A file of Broker-J that is being read."""

    path: Path
    values: dict[str, str]
    findings: Findings
    target: Target = Factory(Target)
    is_nested: bool = False
    """Whether the present object was a text in another file, so that only the line of that text is known."""
    line: int = 0

    def text(self, owner: JsonObject, name: str, default: str = "") -> str:
        """Return an attribute as a text, with variables replaced."""
        value = owner.get(name, default)
        if isinstance(value, bool):
            return "true" if value else "false"
        return replace(str(value), self.values) if isinstance(value, str | int | float) else default

    def number(self, owner: JsonObject, name: str) -> int | None:
        """Return an attribute as a whole number; None if it is none."""
        text = self.text(owner, name)
        digits = text.removeprefix("-")
        return int(text) if digits.isdecimal() and len(digits) < 19 else None

    def file(self, name: str) -> Path:
        """Return a file that an attribute names; one that is not there may be beside the configuration."""
        path = Path(name.removeprefix("file:"))
        beside = self.path.parent / path.name
        if path.is_absolute():
            return path if path.exists() or not beside.exists() else beside
        return self.path.parent / path

    def origin(self, owner: JsonObject, member: str, element: str) -> Origin:
        """Return the place of an attribute."""
        return Origin(self.path, self.line if self.is_nested else owner.line_of(member), element)

    def tell(
        self,
        rule: str,
        owner: JsonObject,
        name: str = "",
        outcome: Outcome | None = None,
        text: str | None = None,
    ) -> Origin:
        """Report what a rule of the table says, and return the place; an outcome or text that is given replaces it."""
        kind, _, member = rule.partition(".")
        found = TABLE.rules.get(rule)
        element = f'{kind} "{name}"' if name else kind
        origin = self.origin(owner, member or "name", f"{element}.{member}" if member else element)
        usual = (Outcome.DROPPED, UNKNOWN) if found is None else (found.outcome, found.text)
        self.findings.add(origin, outcome or usual[0], text or usual[1])
        return origin

    def tell_others(self, kind: str, owner: JsonObject, name: str, read: frozenset[str]) -> None:
        """Report the attributes of an object that were not read."""
        for member in owner:
            if member not in read and member not in IGNORED:
                self.tell(f"{kind}.{member}", owner, name)
