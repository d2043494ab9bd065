"""A client's session: its subscriptions, what is under way in both directions, its will (MQTT 5.0 §4.1).

It lives as long as its expiry interval says, over connections and restarts of the broker. What it must not forget is in
`records`; a session that ends with its connection is not stored, but for its will.
"""

from typing import TYPE_CHECKING, Final

from artemis_mqtt.broker.deliveries import Subscription
from artemis_mqtt.broker.records import Records, SessionRecord, StoredWill, SubscriptionRecord
from artemis_mqtt.broker.sent import Sent, sent
from artemis_mqtt.engine.delivery import Delivery
from artemis_mqtt.engine.flight import RECEIVED, RELEASED, IncomingFlight, OutgoingFlight
from artemis_py.core.queues.consumer import ACCEPTED
from artemis_py.core.queues.storage import RecordStorage
from artemis_py.core.runtime.accounts import NAME_FACTOR, MemoryAccount
from artemis_py.core.runtime.timers import Timer

if TYPE_CHECKING:
    from artemis_mqtt.broker.handler import ClientHandler

# What a session costs without its subscriptions, whose queues and consumers count by themselves: 1,340 bytes measured
# with tracemalloc (without its record in a store), rounded up.
SESSION_BYTES: Final = 2048

NEVER: Final = 0xFFFFFFFF
"""The Session Expiry Interval that has no end (MQTT 5.0 §3.1.2.11.2)."""


class ClientSession:
    """The state of one client."""

    def __init__(
        self,
        storage: RecordStorage,
        tables: MemoryAccount,
        number: int,
        client_id: str,
        expiry_s: int,
        user: str | None,
    ) -> None:
        self.client_id: str = client_id
        self.user: str | None = user
        """The user that made it. No other user was allowed to receive what waits in it."""
        self.records: Records = Records(storage, number)
        self.expiry_s: int = expiry_s
        """Seconds after its connection; 0: it ends with it, NEVER: it does not end."""
        self.is_stored: bool = expiry_s > 0
        """Whether it survives restarts. Fixed at its beginning, because its queues are durable or not."""
        self.subscriptions: dict[str, Subscription] = {}
        """Subscriptions by topic filter, `$share/…` included."""
        self.incoming: IncomingFlight = IncomingFlight()
        self.outgoing: OutgoingFlight = OutgoingFlight()
        self.awaited: dict[tuple[int, int], Delivery] = {}
        """QoS 2 deliveries from before a restart, by queue id and sequence of the message."""
        self.handler: ClientHandler | None = None
        """Current connection; None while the client is away."""
        self._will: StoredWill | None = None
        self._tables: MemoryAccount = tables
        self._size_bytes: int = SESSION_BYTES + NAME_FACTOR * len(client_id)
        tables.occupy(self._size_bytes)
        self.ended_ms: int = 0
        """Time at which its connection ended; 0 while there is one."""
        self.expiry_timer: Timer | None = None
        self.will_timer: Timer | None = None
        self.is_over: bool = False
        self.has_record: bool = False
        """Whether the session has a record in the store, or is about to."""
        self._last_order: int = 0
        self._last_subscription: int = 0

    @property
    def will(self) -> StoredWill | None:
        """The message that is published when the connection ends badly. It counts in the memory of tables."""
        return self._will

    @will.setter
    def will(self, will: StoredWill | None) -> None:
        if self._will is not None and not self.is_over:
            self._tables.vacate(self._will.size_bytes)
        if will is not None and not self.is_over:
            self._tables.occupy(will.size_bytes)
        self._will = will

    @property
    def number(self) -> int:
        """Number of its records in the store."""
        return self.records.number

    def next_order(self) -> int:
        """Return the next place in the order of sending."""
        self._last_order += 1
        return self._last_order

    def next_subscription(self) -> int:
        """Return the next number for a subscription's record."""
        self._last_subscription += 1
        return self._last_subscription

    def know(self, order: int, subscription: int) -> None:
        """Use no number again that was used before the restart."""
        self.has_record = True
        self._last_order = max(self._last_order, order)
        self._last_subscription = max(self._last_subscription, subscription)

    # -- records ---------------------------------------------------------------------------------------------

    def save(self) -> None:
        """Have the store remember it as it is now, if there is anything to remember."""
        if self.is_stored or self.will is not None:
            self.has_record = True
            self.records.save_session(
                SessionRecord(
                    client_id=self.client_id,
                    expiry_s=self.expiry_s,
                    ended_ms=self.ended_ms,
                    user=self.user,
                    will=self.will,
                )
            )
        elif self.has_record:
            self.has_record = False
            self.records.forget_session()

    def save_subscription(self, subscription: Subscription) -> None:
        """Have the store remember a subscription as it is now."""
        if self.is_stored:
            self.records.save_subscription(
                SubscriptionRecord(
                    number=subscription.number,
                    topic_filter=subscription.topic_filter,
                    queue=subscription.queue.name,
                    kind=subscription.kind,
                    qos=subscription.qos,
                    no_local=subscription.no_local,
                    retain_as_published=subscription.retain_as_published,
                    identifier=subscription.identifier_number,
                )
            )

    def forget_subscription(self, subscription: Subscription) -> None:
        """Have the store forget a subscription."""
        if self.is_stored:
            self.records.forget_subscription(subscription.number)

    def save_end(self) -> None:
        """Have a restart know that the session is over, before its queues are gone."""
        if self.has_record:
            self.expiry_s = 0
            self.records.save_session(
                SessionRecord(client_id=self.client_id, expiry_s=0, ended_ms=self.ended_ms, user=self.user)
            )

    def forget(self) -> None:
        """Forget everything: its queues are gone, and nothing comes back."""
        self._tables.vacate(self._size_bytes)
        if self.has_record:
            self.has_record = False
            self.records.forget_session()
        if self.is_stored:
            for packet_id in self.incoming.received:
                self.records.forget_incoming(packet_id)
            for delivery in self.outgoing.deliveries.in_order():
                if delivery.qos == 2:
                    self.records.forget_outgoing(delivery.packet_id)

    # -- QoS 2 -------------------------------------------------------------------------------------------------

    def save_incoming(self, packet_id: int) -> None:
        """Remember a QoS 2 message that was accepted in this iteration of the loop."""
        if self.is_stored:
            self.records.save_incoming(packet_id)

    def forget_incoming(self, packet_id: int) -> None:
        """Forget a QoS 2 message that was released, or refused."""
        if self.is_stored:
            self.records.forget_incoming(packet_id)

    def save_outgoing(self, packet_id: int, state: int, token: Sent) -> None:
        """Remember a QoS 2 delivery that is about to go out, or was received."""
        reference = token.reference
        if self.is_stored and reference is not None:
            self.records.save_outgoing(packet_id, state, token.order, reference.queue.id, reference.sequence)

    def forget_outgoing(self, packet_id: int) -> None:
        """Forget a QoS 2 delivery that is complete, or was refused."""
        if self.is_stored:
            self.records.forget_outgoing(packet_id)

    def received(self, delivery: Delivery) -> None:
        """Acknowledge the message and keep the identifier, in one iteration of the loop: PUBREC arrived."""
        token = sent(delivery)
        if token is None or token.reference is None:
            return
        reference = token.reference
        if reference.handle and self.is_stored:
            self.save_outgoing(delivery.packet_id, RELEASED, token)
        consumer = reference.consumer
        if consumer is not None:
            consumer.settle(reference, ACCEPTED)
        token.reference = None

    def releases(self) -> list[Delivery]:
        """Return deliveries whose PUBREL had no durable record yet when the connection ended."""
        return [delivery for delivery in self.outgoing.deliveries.in_order() if delivery.state == RECEIVED]
