"""What a loss of power leaves of a broker's store, opened by a broker and held against what was acknowledged before.

`python -m tests.crash.power_cut etc ledgers state time` checks one state in a process of its own: a state that should
not be possible may kill whoever maps it.
"""

import asyncio
import random
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from attrs import evolve, frozen

from artemis_py.broker import Broker
from artemis_py.config import load
from artemis_py.config.broker_config import BrokerConfig
from artemis_py.core.queues.consumer import Sink
from artemis_py.core.queues.reference import Reference
from artemis_py.core.runtime.access import Subject
from artemis_py.core.sessions.session import Session
from tests.crash.check import known_subscriptions
from tests.crash.history import ARRIVED, History, history_of
from tests.crash.ledger import Line, read
from tests.crash.lost_writes import Call, lose_files
from tests.crash.plan import LATER, MOVES, RESULTS, queue_of

ANY_CREDIT: Final = 1 << 30


@frozen
class State:
    """What a broker finds."""

    messages: dict[str, list[str]]
    """Ids in each queue, in the order of delivery."""

    def has(self, id: str, queue: str) -> bool:
        """Whether a message is in the queue of this label."""
        return id in self.messages.get(queue_of(queue), [])


def crash_states(calls: list[Call], count: int, lots: random.Random) -> Iterator[tuple[float, dict[str, bytes]]]:
    """Moments in ascending order, each with the files of the store that there may be after a loss of power then."""
    first = next(index for index, call in enumerate(calls) if call.kind == "S")
    for stop in sorted(lots.randrange(first, len(calls)) + 1 for _ in range(count)):
        yield calls[stop - 1].at, lose_files(calls[:stop], lots)


def wrongs(config: BrokerConfig, folder: Path, history: History) -> list[str]:
    """What a broker on the store in `folder` has lost, invented or cut in two."""
    state = asyncio.run(read_state(config, folder))
    checks = (
        _lost(state, history),
        _unexpected(state, history),
        _halved(state, history),
        _subscriptions(state, history),
    )
    return [wrong for one in checks for wrong in one]


async def read_state(config: BrokerConfig, folder: Path) -> State:
    """Start a broker, and browse all its queues."""
    async with Broker(evolve(config, journal_directory=str(folder), acceptors=())) as broker:
        session = Session(broker.domain, Subject("reader"))
        sinks: dict[str, _Browser] = {}
        for name, queue in broker.domain.queues.items():
            sinks[name] = _Browser()
            session.consume(queue, sinks[name], browse=True).grant(ANY_CREDIT, drain=True)
        while not all(sink.is_drained for sink in sinks.values()):
            broker.domain.dispatcher.run()
            await asyncio.sleep(0)
        return State({name: sink.ids for name, sink in sinks.items()})


class _Browser(Sink):
    """Notes the ids of what it sees."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.is_drained = False

    def deliver(self, reference: Reference) -> None:
        self.ids.append(str(reference.message.view.message_id))

    def drained(self) -> None:
        self.is_drained = True

    def ended(self, reason: str) -> None:
        raise AssertionError(reason)


def _lost(state: State, history: History) -> Iterator[str]:
    """P1, P3: what was acknowledged is there until somebody begins to settle it, and not when that was confirmed."""
    for id in history.acknowledged.keys() | history.committed():
        sent = history.sent[id]
        for queue in history.targets(sent):
            facts = {line.what for line in history.places.get((id, queue), [])}
            if "confirmed" in facts and state.has(id, queue):
                yield f"P3 settled and there: {id} in {queue}"
            if sent.queue == LATER or sent.queue in MOVES or facts & {"settling", "retired"}:
                continue
            if not state.has(id, queue):
                yield f"P1 acknowledged and not there: {id} in {queue}"


def _unexpected(state: State, history: History) -> Iterator[str]:
    """P2, P5, P11: what is there was sent, once, in this order."""
    for queue, ids in state.messages.items():
        yield from (f"P11 {count} times in {queue}: {id}" for id, count in Counter(ids).items() if count > 1)
        newest: dict[tuple[str, int], int] = {}
        for id in ids:
            if id not in history.sent:
                yield f"P2 never sent: {id} in {queue}"
                continue
            producer, _, number = id.rpartition("/")
            place = (producer, history.sent[id].priority)
            if int(number) < newest.get(place, 0) and queue not in (LATER, *MOVES.values()):
                yield f"P5 out of order: {id} in {queue}"
            newest[place] = int(number)


def _halved(state: State, history: History) -> Iterator[str]:
    """P6: a transaction is there as a whole, or not at all."""
    for name, transaction in history.transactions.items():
        there = 0
        for id in transaction.messages:
            was_seen = any(line.what in ARRIVED for line in history.places.get((id, RESULTS), []))
            there += was_seen or state.has(id, RESULTS)
        if there and (there < len(transaction.messages) or transaction.outcome in ("begun", "rolled-back")):
            yield f"P6 {transaction.outcome} transaction {name}: {there} of {len(transaction.messages)}"
        if transaction.outcome == "committed" and any(state.has(*place) for place in transaction.retired):
            yield f"P6 committed transaction {name}: what it took is still there"


def _subscriptions(state: State, history: History) -> Iterator[str]:
    """P10: subscriptions are there or gone, as was confirmed last."""
    for name, known in known_subscriptions(history).items():
        if known == ("missing" if queue_of(name) in state.messages else "found"):
            yield f"P10 {known} before: {name}"


def lines_until(lines: list[Line], at: float) -> list[Line]:
    """What was written down by then."""
    return [line for line in lines if line.at <= at]


def main() -> None:
    """Exit code 1 and what is wrong, if something is."""
    configuration, ledgers, folder, at = sys.argv[1:]
    history = history_of(lines_until(read(Path(ledgers)), float(at)))
    if found := wrongs(load(Path(configuration)), Path(folder), history):
        raise SystemExit("\n".join(found))


if __name__ == "__main__":
    main()
