"""Holds the ledgers against what reliability promises (P1 to P6, P9, P11)."""

from collections import Counter, defaultdict
from collections.abc import Iterable

from attrs import define, field

from tests.crash.ledger import Line
from tests.crash.load import BRIEF, EXPIRED, LATER, NEWS, ONCE, SUBSCRIPTIONS


@define
class Report:
    """The seven numbers of a run, and every violation in words."""

    attempted: int = 0
    acknowledged: int = 0
    delivered: int = 0
    lost: int = 0
    unexpected: int = 0
    duplicated: int = 0
    recovered: int = 0
    violations: list[str] = field(factory=list)

    def __str__(self) -> str:
        numbers = (
            f"attempted={self.attempted} acknowledged={self.acknowledged} delivered={self.delivered} lost={self.lost} "
            f"unexpected={self.unexpected} duplicated={self.duplicated} recovered={self.recovered}"
        )
        return "\n".join([numbers, *self.violations[:20]])


def targets(address: str) -> tuple[str, ...]:
    """The queues in each of which a message for this address must turn up."""
    return SUBSCRIPTIONS if address == NEWS else (address,)


def check(lines: Iterable[Line]) -> Report:
    """All violations; the lines are in the order of time, and the last ones drain every queue."""
    report = Report()
    sent: dict[str, Line] = {}
    acknowledged: dict[str, Line] = {}
    confirmed: set[tuple[str, str]] = set()
    deliveries: Counter[tuple[str, str]] = Counter()
    newest: dict[tuple[str, str, str, int], int] = defaultdict(int)
    members: dict[str, list[str]] = defaultdict(list)
    ended: dict[str, str] = {}
    for line in lines:
        place = (line.id, line.queue)
        match line.what:
            case "attempted":
                sent[line.id] = line
                if line.transaction:
                    members[line.transaction].append(line.id)
            case "acknowledged":
                acknowledged[line.id] = line
            case "begun" | "committed" | "rolled-back":
                ended[line.id] = line.what
            case "confirmed":
                confirmed.add(place)
            case "delivered":
                if place in confirmed:
                    report.violations.append(f"P3 delivered after its confirmed settlement: {place}")
                if deliveries[place] and not line.marked:
                    report.violations.append(f"P4 redelivery without a mark: {place} to {line.client}")
                if not line.marked:
                    _check_order(report, newest, line)
                deliveries[place] += 1
    for transaction, outcome in ended.items():
        if outcome == "committed":
            acknowledged |= {id: sent[id] for id in members[transaction]}
    present = {id for id, _ in deliveries}
    for id, line in acknowledged.items():
        for queue in targets(line.queue):
            if not deliveries[(id, queue)] and not (queue == BRIEF and deliveries[(id, EXPIRED)]):
                report.lost += 1
                report.violations.append(f"P1 acknowledged and lost: {id} of {queue}")
    for id in present - sent.keys():
        report.unexpected += 1
        report.violations.append(f"P2 never sent: {id}")
    for transaction, outcome in ended.items():
        there = sum(id in present for id in members[transaction])
        if there and (outcome == "rolled-back" or there < len(members[transaction])):
            report.violations.append(f"P6 {outcome} transaction {transaction}: {there} of {len(members[transaction])}")
    for (id, queue), count in deliveries.items():
        if queue == ONCE and count > 1:
            report.violations.append(f"P11 taken twice under one duplicate id: {id}")
        if queue == EXPIRED and deliveries[(id, BRIEF)]:
            report.violations.append(f"P9 expired and still there: {id}")
    report.attempted = len(sent)
    report.acknowledged = len(acknowledged)
    report.delivered = deliveries.total()
    report.duplicated = sum(count > 1 for count in deliveries.values())
    report.recovered = len(present - acknowledged.keys())
    return report


def _check_order(report: Report, newest: dict[tuple[str, str, str, int], int], line: Line) -> None:
    """P5: what one consumer gets of one producer, for the first time and of one priority, ascends."""
    if line.queue in (LATER, EXPIRED):  # these are in the order in which their time came
        return
    producer, _, number = line.id.rpartition("/")
    key = (producer, line.queue, line.client, line.priority)
    if int(number) < newest[key]:
        report.violations.append(f"P5 out of order: {line.id} after {newest[key]} in {line.queue} to {line.client}")
    newest[key] = max(newest[key], int(number))
