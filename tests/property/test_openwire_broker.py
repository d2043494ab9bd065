"""Any order of what OpenWire clients do: no message is lost or doubled, and what they had open is given back."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from artemis_openwire.engine.commands import MessageDispatch, RemoveInfo
from artemis_openwire.engine.structures import ConnectionId
from tests.examples import examples
from tests.openwire_site import Client, Site, connected, number_of, queue, text_of

ORDERS = queue("orders")
DELIVERED, STANDARD, INDIVIDUAL = 0, 2, 4
BEGIN, COMMIT, ROLLBACK = 0, 2, 4

ACTIONS = (
    "send",
    "consume",
    "close",
    "take",
    "ack",
    "ack one",
    "seen",
    "begin",
    "commit",
    "roll back",
    "leave",
    "lose",
)
STEPS = st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 1), st.integers(0, 5)), max_size=60)


class Person:
    """One client with at most one consumer and one transaction, and what must come of what it does."""

    def __init__(self, site: Site, number: int, waiting: set[str]) -> None:
        self._site = site
        self._number = number
        self._waiting = waiting
        """Texts that are in the queue or with a consumer, as every connection's outcome leaves it."""
        self._connections = 0
        self._sent = 0
        self._connect()

    def _connect(self) -> None:
        self._connections += 1
        self.client: Client = connected(self._site, f"c{self._number}.{self._connections}")
        self._has_consumer = False
        self._held: list[MessageDispatch] = []
        self._transaction = 0
        self._transactions = 0
        self._sent_in: set[str] = set()
        self._acknowledged_in: list[MessageDispatch] = []

    @property
    def _named(self) -> Any:
        return self.client.transaction(self._transaction) if self._transaction else None

    def do(self, action: str, choice: int) -> None:
        """Carry out one step, if it makes sense now."""
        client = self.client
        self._held += client.dispatches()
        match action:
            case "send":
                self._sent += 1
                text = f"{self._number}.{self._sent}"
                client.tell(client.text(ORDERS, text, transaction_id=self._named))
                (self._sent_in if self._transaction else self._waiting).add(text)
            case "consume" if not self._has_consumer:
                client.consume(ORDERS, prefetch=choice + 1)
                self._has_consumer = True
            case "close" if self._has_consumer:
                client.remove(client.consumer(), number_of(self._held[0]) if self._held else -1)
                self._has_consumer = False
                self._held.clear()
                client.dispatches()
            case "ack" | "ack one" if self._held:
                one = self._held.pop(choice % len(self._held))
                client.ack(one, one, kind=STANDARD if action == "ack" else INDIVIDUAL, transaction=self._named)
                if self._transaction:
                    self._acknowledged_in.append(one)
                else:
                    self._waiting.remove(text_of(one))
            case "seen" if self._held:
                client.ack(self._held[0], self._held[0], kind=DELIVERED)
            case "begin" if not self._transaction:
                self._transactions += 1
                self._transaction = self._transactions
                client.tell(client.step(BEGIN, self._transaction))
            case "commit" if self._transaction:
                client.done(client.step(COMMIT, self._transaction))
                self._waiting |= self._sent_in
                self._waiting -= {text_of(one) for one in self._acknowledged_in}
                self._end()
            case "roll back" if self._transaction:
                client.done(client.step(ROLLBACK, self._transaction))
                if self._has_consumer:
                    self._held += self._acknowledged_in
                self._end()
            case "leave":
                client.done(RemoveInfo(object_id=ConnectionId(value=client.name), last_delivered_sequence_id=-1))
                client.lose()
                self._connect()
            case "lose":
                client.lose()
                self._connect()

    def _end(self) -> None:
        self._transaction = 0
        self._sent_in, self._acknowledged_in = set(), []


@settings(max_examples=examples(150), deadline=None)
@given(steps=STEPS)
def test_nothing_is_lost_or_doubled(steps: list[tuple[str, int, int]]) -> None:
    """What waits in the end is what was sent and committed, without what was acknowledged and committed."""
    site = Site()
    waiting: set[str] = set()
    persons = [Person(site, number, waiting) for number in range(2)]
    for person in persons:
        person.do("consume", 3)
        person.do("send", 0)
    for action, index, choice in steps:
        persons[index].do(action, choice)
    for person in persons:
        person.client.lose()
    last = connected(site, "last")
    last.consume(ORDERS, prefetch=1000)

    found = last.texts()

    assert sorted(found) == sorted(waiting)
    assert site.domain.queue("orders").delivering_count == len(found)
