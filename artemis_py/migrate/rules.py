"""Tables of what a format has and what becomes of it. The findings and the manual are both made from them."""

from collections.abc import Iterable
from typing import Final

from attrs import frozen

from artemis_py.migrate.findings import Finding, Findings, Origin, Outcome


@frozen
class Rule:
    """What becomes of one element, attribute or option."""

    name: str
    """`element`, `element.attribute`, or the first word of a line."""
    outcome: Outcome
    text: str
    """What it becomes here, or why it is left out."""


def kept(name: str, text: str) -> Rule:
    """Make a rule for what means the same here."""
    return Rule(name, Outcome.KEPT, text)


def changed(name: str, text: str) -> Rule:
    """Make a rule for what is carried over with a difference."""
    return Rule(name, Outcome.CHANGED, text)


UNKNOWN: Final = "is not known to this migration"


def words(text: str) -> frozenset[str]:
    """Return the words of a text: how a long list of names is written."""
    return frozenset(text.split())


def needless(names: str, text: str) -> tuple[Rule, ...]:
    """Make rules, with one text, for names that can be left out without loss."""
    return tuple(Rule(name, Outcome.NEEDLESS, text) for name in names.split())


def dropped(names: str, text: str) -> tuple[Rule, ...]:
    """Make rules, with one text, for names that are left out and may be missed."""
    return tuple(Rule(name, Outcome.DROPPED, text) for name in names.split())


class Table:
    """The rules of one format, by name."""

    def __init__(self, rules: Iterable[Rule | tuple[Rule, ...]]) -> None:
        """Create it. Raises ValueError if two rules have one name."""
        flat = [each for entry in rules for each in ((entry,) if isinstance(entry, Rule) else entry)]
        self.rules: Final = {each.name: each for each in flat}
        if len(self.rules) != len(flat):
            names = [each.name for each in flat]
            raise ValueError(f"two rules have one name: {sorted({name for name in names if names.count(name) > 1})}")

    def find(self, name: str) -> Rule | None:
        """Return the rule for a name; `*.attribute` stands for the attribute of any element."""
        return self.rules.get(name) or self.rules.get(f"*.{name.rpartition('.')[2]}")

    def tell(self, findings: Findings, origin: Origin, outcome: Outcome | None, text: str | None) -> None:
        """Report what the rule of an origin says; an outcome or text that is given replaces what it says.

        What the rule says itself is then no longer true, and is removed if it was reported before.
        """
        rule = self.find(origin.element)
        if rule is not None:
            usual = Finding(origin, rule.outcome, rule.text)
            outcome, text = outcome or rule.outcome, text or rule.text
            if usual != Finding(origin, outcome, text):
                findings.remove(usual)
        findings.add(origin, outcome or Outcome.DROPPED, text or UNKNOWN)

    def markdown(self) -> str:
        """Return the table as the manual shows it, in the order of the rules."""
        lines = ["| in the old file | is | because, or as |", "| --- | --- | --- |"]
        rows: dict[tuple[Outcome, str], list[str]] = {}
        for rule in self.rules.values():
            rows.setdefault((rule.outcome, rule.text), []).append(f"`{rule.name}`")
        lines += [f"| {', '.join(names)} | {outcome.value} | {text} |" for (outcome, text), names in rows.items()]
        return "\n".join(lines)
