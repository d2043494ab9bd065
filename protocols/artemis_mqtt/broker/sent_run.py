"""Deliveries of a subscription that are on their way to its client, as a run: what the engine and the core know of it.

The engine's part has the packet identifiers, the core's the messages that the client has not acknowledged. Either side
may have to look at single deliveries, and then both parts become such in one step (`DeliveryTable.unfold`).
"""

from typing import TYPE_CHECKING

from artemis_mqtt.broker.copies import Copies
from artemis_mqtt.broker.kinds import SHARED
from artemis_mqtt.broker.sent import Sent
from artemis_mqtt.engine.delivery import Delivery, DeliveryTable
from artemis_mqtt.engine.delivery_run import DeliveryRun
from artemis_mqtt.engine.flight import RECEIVED, RELEASED, SENT
from artemis_py.core.messages.message import Message
from artemis_py.core.queues.consumer import Consumer
from artemis_py.core.queues.reference import Reference
from artemis_py.core.queues.run import Run

if TYPE_CHECKING:
    from artemis_mqtt.broker.deliveries import Outlet, Subscription


class KeptRun(Run):
    """The messages of a run."""

    def __init__(self, consumer: Consumer, first: int, table: DeliveryTable) -> None:
        super().__init__(consumer, first)
        self._table: DeliveryTable = table

    def unfold(self) -> None:
        """Make deliveries of all runs of the session."""
        self._table.unfold()


class SentRun(DeliveryRun):
    """The packet identifiers of a run."""

    def __init__(self, subscription: "Subscription", kept: KeptRun, qos: int, first_id: int) -> None:
        super().__init__(qos, first_id)
        self.subscription: Subscription = subscription
        self.kept: KeptRun = kept

    def unfold(self) -> list[Delivery]:
        """Return deliveries; those whose PUBREC came have no message any more."""
        references = self.kept.take_references()
        found: list[Delivery] = []
        for index in range(self.count):
            state = SENT
            reference: Reference | None = None
            if index < self.released:
                state = RELEASED
            elif index < self.received:
                state = RECEIVED
            else:
                reference = references[index - self.received]
            order = self.subscription.session.next_order()
            delivery = Sent(reference, self.subscription, order, self.qos, self.first_id + index, state)
            delivery.was_sent = True
            found.append(delivery)
        return found


def run_room(outlet: "Outlet", subscription: "Subscription", most: int) -> int:
    """Return how many messages may go out to a subscription as a run, at most so many; 0: they go one by one.

    A message that comes alone, with no run before it, is no run: a session with little to do has a delivery that was
    used before.
    """
    session = outlet.session
    engine = outlet.engine
    if (
        subscription.qos == 0
        or subscription.has_keys
        or (subscription.is_wild and outlet.is_checked)
        or subscription.kind == SHARED
        or (subscription.qos == 2 and session.is_stored)
        or outlet.writer.has_aliases
        or outlet.is_queueing
        or engine.is_halted
        or session.awaited
        or not engine.can_send
    ):
        return 0
    outgoing = outlet.outgoing
    if most == 1 and not outgoing.deliveries.runs:
        return 0
    return outgoing.run_room(most)


def send_run(outlet: "Outlet", subscription: "Subscription", messages: list[Message], first: int) -> int:
    """Send the first of these messages as a run; return how many. `first` is the sequence of the first one.

    As many go out as there is room for (`run_room`), up to one that has to go out by itself.
    """
    consumer = subscription.consumer
    manager = outlet.handler.manager
    copies = manager.copies
    if copies is None or not copies.are_for(outlet, subscription, messages):
        copies = Copies(outlet, subscription, messages)
        manager.copies = copies if copies.may_be_kept else None
    writer = outlet.writer
    if copies.count == 0 or consumer is None or consumer.mark is not None or not writer.takes(copies.largest):
        return 0
    count = writer.room_for(copies.sizes)
    writer.send_packets(copies.packets(outlet.outgoing.next_id, count))
    if count < len(messages):
        messages = messages[:count]
    _add(outlet, subscription, consumer, messages, first, copies.qos)
    return count


def _add(
    outlet: "Outlet", subscription: "Subscription", consumer: Consumer, messages: list[Message], first: int, qos: int
) -> None:
    """Note deliveries that were sent: with the run before them, or as a new one."""
    outgoing = outlet.outgoing
    next_id = outgoing.next_id
    run = as_sent_run(outgoing.last_run)
    if (
        run is None
        or run.subscription is not subscription
        or run.qos != qos
        or run.first_id + run.count != next_id
        or run.kept.consumer is not consumer
        or (run.kept.count > 0 and run.kept.first + run.kept.count != first)
    ):
        run = SentRun(subscription, KeptRun(consumer, first, outgoing.deliveries), qos, next_id)
    run.kept.add(messages, first)
    outgoing.add_run(run, len(messages))


def as_sent_run(run: DeliveryRun | None) -> SentRun | None:
    """Return a run of a subscription; the engine knows no other kind."""
    return run if isinstance(run, SentRun) else None
