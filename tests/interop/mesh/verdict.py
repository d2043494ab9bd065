"""Holds what the clients of a storm wrote down against what a mesh promises: nothing lost, doubled or out of order."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from attrs import define, field

from tests.crash.ledger import Line

SHOWN: Final = 10
"""Violations that a report prints, each with what happened to its message."""


@define
class Verdict:
    """What a run has shown."""

    acknowledged: dict[str, str] = field(factory=dict)
    """Addresses of all that a broker has confirmed, by id."""
    places: dict[tuple[str, str], list[Line]] = field(factory=lambda: defaultdict(list))
    """By id and destination what happened to a message there, in the order of time."""
    sent: dict[str, str] = field(factory=dict)
    again: set[str] = field(factory=set)
    missing: list[tuple[str, str]] = field(factory=list)
    """Id and destination of what has been confirmed and was not consumed."""
    violations: list[str] = field(factory=list)
    _lines: dict[str, list[Line]] = field(factory=lambda: defaultdict(list))

    def __str__(self) -> str:
        came = sum(len(lines) for lines in self.places.values())
        facts = [f"sent={len(self.sent)} acknowledged={len(self.acknowledged)} lines={came}"]
        facts.append(f"missing={len(self.missing)} violations={len(self.violations)}")
        texts = [" ".join(facts)]
        for text in self.violations[:SHOWN]:
            texts.append(text)
            texts += [f"    {line}" for line in self._lines[text.rpartition(" ")[2]]]
        for id, destination in self.missing[:SHOWN]:
            texts.append(f"missing at {destination}: {id}")
            texts += [f"    {line}" for line in self._lines[id]]
        return "\n".join(texts)

    def add(self, line: Line) -> None:
        """Take the next line."""
        self._lines[line.id].append(line)
        match line.what:
            case "attempted":
                self.sent[line.id] = line.queue
            case "again":
                self.again.add(line.id)
            case "acknowledged":
                self.acknowledged[line.id] = line.queue
            case _:
                self.places[(line.id, line.queue)].append(line)


def judge(lines: Iterable[Line], destinations: Mapping[str, Sequence[str]], ordered: Iterable[str]) -> Verdict:
    """All violations. `destinations`: by address who gets a copy of all that is sent there.

    `ordered`: destinations that get what each producer sent in its order, when nothing was given back there.
    """
    verdict = Verdict()
    for line in lines:
        verdict.add(line)
    for id, address in verdict.acknowledged.items():
        for destination in destinations[address]:
            if not any(line.what == "settling" for line in verdict.places.get((id, destination), ())):
                verdict.missing.append((id, destination))
    for (id, destination), happened in verdict.places.items():
        if id not in verdict.sent:
            verdict.violations.append(f"never sent, at {destination}: {id}")
        verdict.violations += _doubled(id, destination, happened, id in verdict.again)
    for destination in ordered:
        verdict.violations += _disordered(destination, verdict)
    return verdict


def _doubled(id: str, destination: str, lines: Sequence[Line], may_be_twice: bool) -> list[str]:
    """A message that comes again says so, unless it was given back, and none comes after its settlement was confirmed.

    What a client has sent a second time, because it lost its connection, is another message.
    """
    found = []
    confirmed, unmarked, released = 0, 0, 0
    times = 2 if may_be_twice else 1
    for line in lines:
        match line.what:
            case "delivered":
                unmarked += not line.marked
                if confirmed >= times:
                    found.append(f"came after its settlement was confirmed, at {destination}: {id}")
                elif unmarked > times + released:
                    found.append(f"came again without a mark, at {destination}: {id}")
            case "released":
                released += 1
            case "confirmed":
                confirmed += 1
    if confirmed > times:
        found.append(f"settled {confirmed} times, at {destination}: {id}")
    return found


def _disordered(destination: str, verdict: Verdict) -> list[str]:
    """First deliveries of each producer ascend. Those that come marked are not counted: their first ones were lost."""
    found = []
    firsts = [
        lines[0]
        for (_, place), lines in verdict.places.items()
        if place == destination and lines[0].what == "delivered"
    ]
    newest: dict[str, int] = {}
    for line in sorted(firsts, key=lambda line: line.at):
        producer, _, number = line.id.rpartition("/")
        if not line.marked and int(number) < newest.get(producer, 0):
            found.append(f"behind number {newest[producer]}, at {destination}: {line.id}")
        newest[producer] = max(newest.get(producer, 0), int(number))
    return found
