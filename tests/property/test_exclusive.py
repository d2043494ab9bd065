"""An exclusive queue has one consumer at a time, in order, whatever happens to its consumers."""

from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from artemis_amqp.broker.termini import SuspendedSource
from artemis_py.core.queues.consumer import ACCEPTED, RELEASED, Consumer, Sink
from artemis_py.core.queues.reference import Reference
from artemis_py.core.settings.address_settings import AddressSettings
from tests.core_harness import make_domain, make_message, make_queue, make_session, settle_down
from tests.examples import examples

OPERATIONS: Final = st.one_of(
    st.tuples(st.just("send"), st.integers(1, 5), st.just(0)),
    st.tuples(st.just("attach"), st.integers(0, 1), st.integers(0, 2)),
    st.tuples(st.just("attach"), st.just(0), st.integers(0, 2)),
    st.tuples(st.just("credit"), st.integers(0, 3), st.integers(0, 4)),
    st.tuples(st.just("credit"), st.integers(0, 1), st.integers(1, 4)),
    st.tuples(st.just("finish"), st.integers(0, 1), st.just(0)),
    st.tuples(st.just("settle"), st.integers(0, 3), st.sampled_from((ACCEPTED, RELEASED))),
    st.tuples(st.just("detach"), st.integers(0, 3), st.just(0)),
    st.tuples(st.just("linger"), st.integers(0, 3), st.just(0)),
    st.tuples(st.just("return_"), st.integers(0, 1), st.just(0)),
)


class Client(Sink):
    """A consumer that notes what it gets."""

    def __init__(self, model: "Model", priority: int) -> None:
        self.model = model
        self.unsettled: list[Reference] = []
        self.terminus: SuspendedSource | None = None
        self.consumer: Consumer = make_session(model.domain).consume(model.queue, self, priority=priority)

    def deliver(self, reference: Reference) -> None:
        self.model.check_delivery(self, int(reference.message.data))
        self.unsettled.append(reference)


class Model:
    """What the test knows of the queue."""

    def __init__(self) -> None:
        unlimited = AddressSettings(max_read_page_messages=-1, max_delivery_attempts=-1)
        self.domain = make_domain({"#": unlimited})
        self.queue = make_queue(self.domain, exclusive=True)
        self.clients: list[Client] = []
        self.lingering: list[Client] = []
        self.pinned: Client | None = None
        self.waiting: set[int] = set()
        self.sent = 0

    def check_delivery(self, client: Client, number: int) -> None:
        assert number == min(self.waiting)
        assert all(not other.unsettled for other in self.clients + self.lingering if other is not client)
        if self.pinned is None:
            ready = [one for one in self.clients if one.consumer.credit > 0 or one is client]
            highest = max(one.consumer.priority for one in ready)
            assert client is next(one for one in ready if one.consumer.priority == highest)
            self.pinned = client
        assert self.pinned is client
        self.waiting.remove(number)

    def check_liveness(self) -> None:
        if not self.waiting:
            return
        if self.pinned is not None:
            assert self.pinned.consumer.credit == 0
        elif not any(one.unsettled for one in self.lingering):
            assert all(one.consumer.credit == 0 for one in self.clients)

    def send(self, count: int, _: int) -> None:
        for _ in range(count):
            self.sent += 1
            self.waiting.add(self.sent)
            self.domain.route(make_message(str(self.sent)), self.queue.address)

    def attach(self, priority: int, credit: int) -> None:
        if len(self.clients) < 4:
            self.clients.append(Client(self, priority))
            # The one that attached first is not the first with credit.
            self.clients[-1].consumer.grant(credit)

    def credit(self, index: int, credit: int) -> None:
        if index < len(self.clients):
            self.clients[index].consumer.grant(credit)

    def settle(self, index: int, outcome: int) -> None:
        if index < len(self.clients) and self.clients[index].unsettled:
            reference = self.clients[index].unsettled.pop()
            if outcome == RELEASED:
                self.waiting.add(int(reference.message.data))
            self.clients[index].consumer.settle(reference, outcome)

    def _depart(self, client: Client) -> None:
        self.clients.remove(client)
        if self.pinned is client:
            self.pinned = None

    def detach(self, index: int, _: int) -> None:
        if index < len(self.clients):
            client = self.clients[index]
            self._depart(client)
            self.waiting |= {int(reference.message.data) for reference in client.unsettled}
            client.consumer.close()

    def linger(self, index: int, _: int) -> None:
        if index < len(self.clients) and len(self.lingering) < 2:
            client = self.clients[index]
            self._depart(client)
            tokens = {bytes([number]): reference for number, reference in enumerate(client.unsettled)}
            client.terminus = SuspendedSource(client.consumer, tokens)
            client.consumer.close()
            self.lingering.append(client)

    def finish(self, index: int, _: int) -> None:
        """The client of a detached link settles a delivery."""
        if index < len(self.lingering) and self.lingering[index].unsettled:
            client = self.lingering[index]
            assert client.terminus is not None
            client.terminus.holder.settle(client.unsettled.pop(), ACCEPTED)

    def return_(self, index: int, _: int) -> None:
        if index < len(self.lingering):
            client = self.lingering.pop(index)
            assert client.terminus is not None
            self.waiting |= {int(reference.message.data) for reference in client.unsettled}
            client.terminus.give_back()


@settings(max_examples=examples(400), deadline=None)
@given(operations=st.lists(OPERATIONS, min_size=15, max_size=50))
def test_one_consumer_at_a_time(operations: list[tuple[str, int, int]]) -> None:
    """The next is the one with the highest priority, then the one attached longest, of those with credit."""
    model = Model()
    for name, first, second in operations:
        getattr(model, name)(first, second)
        settle_down(model.domain)
        model.check_liveness()
