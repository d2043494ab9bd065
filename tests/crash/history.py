"""The ledgers of one run put in order: what was done with each message, in each queue, in each transaction."""

from collections import defaultdict
from collections.abc import Iterable

from attrs import define, field

from tests.crash.ledger import Line
from tests.crash.plan import NEWS, NEWS_QUEUES, RED_NEWS, SUBSCRIPTIONS, is_red

ARRIVED = ("delivered", "drained")


@define
class Transaction:
    """What was to happen together."""

    outcome: str = ""
    """begun: it never got to its end; committing: nobody knows; committed; rolled-back."""
    ended_at: float = 0.0
    messages: list[str] = field(factory=list)
    retired: list[tuple[str, str]] = field(factory=list)
    """Deliveries that were acknowledged in it: id and queue."""


@define
class History:
    """Everything that clients wrote down."""

    sent: dict[str, Line] = field(factory=dict)
    acknowledged: dict[str, Line] = field(factory=dict)
    places: dict[tuple[str, str], list[Line]] = field(factory=lambda: defaultdict(list))
    """By id and queue what happened to a message there, in the order of time."""
    present: set[str] = field(factory=set)
    """Ids that came to somebody."""
    transactions: dict[str, Transaction] = field(factory=lambda: defaultdict(Transaction))
    subscriptions: dict[str, list[Line]] = field(factory=lambda: defaultdict(list))
    _lines: dict[str, list[Line]] = field(factory=lambda: defaultdict(list))

    def add(self, line: Line) -> None:
        """Take the next line."""
        self._lines[line.id.removeprefix("?")].append(line)
        match line.what:
            case "attempted":
                self.sent[line.id] = line
                if line.transaction:
                    self.transactions[line.transaction].messages.append(line.id)
            case "acknowledged":
                self.acknowledged[line.id] = line
            case "begun" | "committing" | "committed" | "rolled-back":
                transaction = self.transactions[line.id]
                transaction.outcome = line.what
                transaction.ended_at = line.at
            case "delivered" | "drained" | "settling" | "confirmed" | "retired":
                self.places[(line.id, line.queue)].append(line)
                if line.what in ARRIVED:
                    self.present.add(line.id)
                if line.what == "retired":
                    self.transactions[line.transaction].retired.append((line.id, line.queue))
            case _:
                self.subscriptions[line.id].append(line)

    def of(self, id: str) -> list[Line]:
        """Everything about one message or subscription; for a message also how its transactions ended."""
        lines = self._lines[id.removeprefix("?")]
        transactions = {line.transaction for line in lines if line.transaction}
        ends = [line for transaction in transactions for line in self._lines[transaction]]
        return sorted([*lines, *ends], key=lambda line: line.at)

    def happened(self, transaction: Transaction) -> bool:
        """Whether it was committed: the client was told, or something of it is there."""
        return transaction.outcome == "committed" or any(id in self.present for id in transaction.messages)

    def targets(self, sent: Line) -> list[str]:
        """The queues in each of which a message must turn up."""
        if sent.queue != NEWS:
            return [sent.queue]
        wanted = [name for name in SUBSCRIPTIONS if name != RED_NEWS or is_red(sent.id)]
        return [*NEWS_QUEUES, *(name for name in wanted if self._was_subscribed(name, sent.at))]

    def _was_subscribed(self, name: str, at: float) -> bool:
        """Whether the broker had confirmed a lasting subscription by then."""
        return any(line.what == "subscribed" and line.at < at for line in self.subscriptions.get(name, []))

    def committed(self) -> set[str]:
        """Messages whose transaction was answered."""
        return {id for one in self.transactions.values() if one.outcome == "committed" for id in one.messages}


def history_of(lines: Iterable[Line]) -> History:
    """From lines in the order of time."""
    history = History()
    for line in lines:
        history.add(line)
    return history
