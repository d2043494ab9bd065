"""Definitions of one virtual host of RabbitMQ, with policies applied."""

import re
from pathlib import Path
from typing import Final

from attrs import Factory, define, frozen

from artemis_py.migrate.findings import Findings, Origin, Outcome
from artemis_py.migrate.json_document import JsonObject
from artemis_py.migrate.rabbitmq.table import TABLE
from artemis_py.migrate.target import Target

# Of two numbers the smaller one counts; of other values that of the queue.
_SMALLER: Final = frozenset(
    ["x-message-ttl", "x-expires", "x-max-length", "x-max-length-bytes", "x-delivery-limit", "x-max-in-memory-length"]
)
# Members of policies that are no arguments with `x-` before them.
_PLAIN: Final = ("ha-", "federation-", "target-group-size")


@frozen
class Argument:
    """One argument of a queue or exchange, from its declaration or a policy."""

    value: object
    line: int


@define(eq=False)
class Definitions:
    """What is migrated: one virtual host of a file."""

    path: Path
    root: JsonObject
    host: str
    target: Target
    findings: Findings
    matched: set[str] = Factory(set)
    """Names of policies that apply to something."""

    def of_host(self, name: str) -> list[JsonObject]:
        """Return the members of a list that belong to the virtual host; an export of one host does not name it."""
        return [each for each in self.root.objects(name) if each.text("vhost", self.host) == self.host]

    def origin(self, line: int, element: str) -> Origin:
        """Return a place in the file."""
        return Origin(self.path, line, element)

    def tell(
        self, rule: str, line: int, name: str = "", outcome: Outcome | None = None, text: str | None = None
    ) -> None:
        """Report what a rule of the table says; an outcome or text that is given replaces it."""
        found = TABLE.rules[rule]
        kind, _, member = rule.partition(".")
        element = f'{kind} "{name}"' if name else kind
        origin = self.origin(line, f"{element}.{member}" if member else element)
        self.findings.add(origin, outcome or found.outcome, text or found.text)

    def arguments(self, kind: str, subject: JsonObject) -> dict[str, Argument]:
        """Return the arguments of a queue or exchange together with those of its policy, as `x-` names."""
        given = subject.object("arguments")
        found = {name: Argument(value, given.line_of(name)) for name, value in given.items()}
        policy = self.policy(kind, subject)
        if policy is None:
            return found
        self.matched.add(policy.text("name"))
        definition = policy.object("definition")
        for member, value in definition.items():
            name = member if member.startswith(_PLAIN) else f"x-{member}"
            name = "alternate-exchange" if member == "alternate-exchange" else name
            own = found.get(name)
            if own is None or (name in _SMALLER and _is_less(value, own.value)):
                found[name] = Argument(value, definition.line_of(member))
        return found

    def policy(self, kind: str, subject: JsonObject) -> JsonObject | None:
        """Return the policy of a queue or exchange: of those that match, the one with the highest priority."""
        wanted = {kind, "all", ""}
        if kind == "queues":
            queue_type = subject.text("type") or str(subject.object("arguments").get("x-queue-type", "classic"))
            wanted.add("streams" if queue_type == "stream" else f"{queue_type}_queues")
        best: JsonObject | None = None
        for each in self.of_host("policies"):
            if each.text("apply-to") not in wanted or not matches(each.text("pattern"), subject.text("name")):
                continue
            if best is None or _priority(each) > _priority(best):
                best = each
        return best


def matches(pattern: str, name: str) -> bool:
    """Tell whether a regular expression of RabbitMQ finds something in a name; one that is broken finds nothing."""
    try:
        return re.search(pattern, name) is not None
    except (re.error, RecursionError):
        return False


def is_broken(pattern: str) -> bool:
    """Tell whether Python cannot read a regular expression."""
    try:
        re.compile(pattern)
    except (re.error, RecursionError):
        return True
    return False


def number(value: object) -> int | None:
    """Return a whole number that is not negative; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        return None
    return value


def _is_less(value: object, other: object) -> bool:
    one, two = number(value), number(other)
    return one is not None and two is not None and one < two


def _priority(policy: JsonObject) -> int:
    return number(policy.get("priority")) or 0
