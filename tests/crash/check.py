"""Holds what clients wrote down against what reliability promises (P1 to P6, P9 to P11)."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from attrs import define, field, frozen

from tests.crash.history import ARRIVED, History, history_of
from tests.crash.ledger import Line
from tests.crash.plan import LATER, MOVES, ONCE

SHOWN: Final = 10
"""Violations that a report prints, each with the history of its message."""

SUBSCRIBED: Final = {
    "subscribing": "unknown",
    "subscribed": "found",
    "unsubscribing": "unknown",
    "unsubscribed": "missing",
}
"""What a broker must know of a subscription after what its client wrote down."""


@frozen
class Violation:
    """A broken promise."""

    property: str
    text: str
    id: str = ""
    """Of the message or subscription, if it is about one."""

    def __str__(self) -> str:
        return f"{self.property} {self.text} {self.id}"


@define
class Report:
    """The seven numbers of a run, and every violation."""

    history: History = field(factory=History)
    attempted: int = 0
    acknowledged: int = 0
    delivered: int = 0
    lost: int = 0
    unexpected: int = 0
    duplicated: int = 0
    recovered: int = 0
    violations: list[Violation] = field(factory=list)

    @property
    def broken(self) -> set[str]:
        """The properties that do not hold."""
        return {violation.property for violation in self.violations}

    def __str__(self) -> str:
        numbers = (
            f"attempted={self.attempted} acknowledged={self.acknowledged} delivered={self.delivered} lost={self.lost} "
            f"unexpected={self.unexpected} duplicated={self.duplicated} recovered={self.recovered} "
            f"violations={len(self.violations)}"
        )
        lines = [numbers]
        for violation in self.violations[:SHOWN]:
            lines.append(str(violation))
            lines += [f"    {line}" for line in self.history.of(violation.id)]
        return "\n".join(lines)


def check(lines: Iterable[Line]) -> Report:
    """All violations; the lines are in the order of time, and the last ones drain every queue."""
    history = history_of(lines)
    checks = (_lost, _unexpected, _taken_back, _unmarked, _disordered, _halved, _moved, _subscriptions, _copied)
    violations = [violation for one in checks for violation in one(history)]
    arrivals = [_arrivals(lines) for lines in history.places.values()]
    acknowledged = history.acknowledged.keys() | history.committed()
    return Report(
        history=history,
        attempted=len(history.sent),
        acknowledged=len(acknowledged),
        delivered=sum(map(len, arrivals)),
        lost=sum(violation.property == "P1" for violation in violations),
        unexpected=len(history.present - history.sent.keys()),
        duplicated=sum(len(lines) > 1 for lines in arrivals),
        recovered=len(history.present - acknowledged),
        violations=violations,
    )


def _arrivals(lines: list[Line]) -> list[Line]:
    return [line for line in lines if line.what in ARRIVED]


def _lost(history: History) -> Iterator[Violation]:
    """P1: what was acknowledged is settled by somebody, or still there in the end."""
    for id in history.acknowledged.keys() | history.committed():
        for queue in history.targets(history.sent[id]):
            places = [queue, *([MOVES[queue]] if queue in MOVES else [])]
            if not any(_is_accounted_for(history, line) for place in places for line in history.places[(id, place)]):
                yield Violation("P1", f"acknowledged and lost, of {queue}:", id)


def _is_accounted_for(history: History, line: Line) -> bool:
    if line.what == "retired":
        return history.happened(history.transactions[line.transaction])
    return line.what in ("settling", "confirmed", "drained")


def _unexpected(history: History) -> Iterator[Violation]:
    """P2: nothing comes that was not sent, octet for octet."""
    for id in history.present - history.sent.keys():
        yield Violation("P2", "never sent like that:", id)


def _taken_back(history: History) -> Iterator[Violation]:
    """P3: a confirmed settlement holds."""
    for (id, queue), lines in history.places.items():
        is_over = False
        for line in lines:
            if line.what in ARRIVED and is_over:
                yield Violation("P3", f"delivered from {queue} after its confirmed settlement:", id)
            is_over |= line.what == "confirmed"


def _unmarked(history: History) -> Iterator[Violation]:
    """P4: whatever comes again says so."""
    for (id, queue), lines in history.places.items():
        for line in _arrivals(lines)[1:]:
            if not line.marked:
                yield Violation("P4", f"redelivered from {queue} without a mark:", id)


def _disordered(history: History) -> Iterator[Violation]:
    """P5: the messages of one producer and priority keep their order in a queue, and on the way to each consumer."""
    orders: dict[tuple[str, ...], list[tuple[float, int, str]]] = defaultdict(list)
    for (id, queue), lines in history.places.items():
        if queue == LATER or queue in MOVES.values():  # these are in the order in which their time came
            continue
        producer, _, number = id.rpartition("/")
        for line in _arrivals(lines)[:1]:
            place: tuple[str, ...] = (queue, producer, str(line.priority))
            orders[place].append((line.sequence, int(number), id))
            if not line.marked:
                orders[(*place, line.client)].append((line.at, int(number), id))
    for place, order in orders.items():
        newest = 0
        for _, count, id in sorted(order):
            if count < newest:
                yield Violation("P5", f"behind number {newest} in {' '.join(place)}:", id)
            newest = max(newest, count)


def _halved(history: History) -> Iterator[Violation]:
    """P6: a transaction happens as a whole or not at all."""
    for name, transaction in history.transactions.items():
        there = sum(id in history.present for id in transaction.messages)
        may_be = transaction.outcome in ("committing", "committed")
        if there and (there < len(transaction.messages) or not may_be):
            yield Violation("P6", f"{transaction.outcome}, {there} of {len(transaction.messages)} messages:", name)
        if not history.happened(transaction):
            continue
        for place in transaction.retired:
            if any(line.at > transaction.ended_at for line in _arrivals(history.places[place])):
                yield Violation("P6", f"acknowledged in {name} that happened, and delivered again:", place[0])


def _moved(history: History) -> Iterator[Violation]:
    """P9: a message that expired or was given up is in one queue, never in both."""
    for source, target in MOVES.items():
        for (id, queue), lines in history.places.items():
            moved = _arrivals(lines)
            if queue != target or history.sent[id].queue != source or not moved:
                continue
            for line in history.places.get((id, source), []):
                if line.what == "confirmed" or (line.what in ARRIVED and line.at > moved[0].at):
                    yield Violation("P9", f"in {target}, and {line.what} from {source}:", id)


def _subscriptions(history: History) -> Iterator[Violation]:
    """P10: subscriptions are there or gone, as was confirmed last."""
    for name, lines in history.subscriptions.items():
        known = "missing"
        for line in lines:
            if line.what in ("found", "missing") and known not in (line.what, "unknown"):
                yield Violation("P10", f"{line.what}, but {known} before:", name)
            known = SUBSCRIBED.get(line.what, line.what)


def known_subscriptions(history: History) -> dict[str, str]:
    """Of each subscription whether a broker must find it: found, missing, or unknown."""
    return {name: SUBSCRIBED.get(lines[-1].what, lines[-1].what) for name, lines in history.subscriptions.items()}


def _copied(history: History) -> Iterator[Violation]:
    """P11, and P2: one message has one place in a queue, also if it was sent again under its duplicate id.

    A scheduled message may be delivered before its place is committed. A crash in between brings it back as scheduled,
    with another place when its time comes; it says then that it may have been delivered before (docs/store.md).
    """
    for (id, queue), lines in history.places.items():
        sequences = {line.sequence for line in _arrivals(lines) if queue != LATER or not line.marked}
        if len(sequences) > 1:
            yield Violation("P11" if queue == ONCE else "P2", f"{len(sequences)} times in {queue}:", id)
