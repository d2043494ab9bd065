"""QoS 1 and 2: which messages are under way, in which state, under which packet identifier (MQTT 5.0 §4.3, §4.4, §4.9).

Both machines belong to a session and outlive its connections; the handler makes what they hold durable and restores it.
They know no packets: `connection` asks them what an arriving identifier means.

    outgoing QoS 1:  add -> SENT -PUBACK-> gone
    outgoing QoS 2:  add -> SENT -PUBREC-> RECEIVED -send_pubrels-> RELEASED -PUBCOMP-> gone
    incoming QoS 2:  PUBLISH -> received -PUBREL-> gone
"""

from typing import Final

from artemis_mqtt.engine.delivery import MAX_PACKET_ID, Delivery, DeliveryTable
from artemis_mqtt.engine.delivery_run import DeliveryRun
from artemis_mqtt.engine.reasons import protocol_error

# States of an outgoing delivery.
SENT: Final = 0
"""PUBLISH went out; a lost connection sends it again."""
RECEIVED: Final = 1
"""QoS 2: PUBREC arrived; PUBREL is not sent yet (the handler waits for its store)."""
RELEASED: Final = 2
"""QoS 2: PUBREL went out; a lost connection sends that again."""

# Runs that are looked at for an answer; behind so many, deliveries are made of all of them.
_RUNS_EXAMINED: Final = 8

# Runs of one client. One that does not answer has a run for each turn of each of its subscriptions, perhaps of a single
# message: with more of them, deliveries are made of all.
MOST_RUNS: Final = 64


class IncomingFlight:
    """QoS 2 messages of a client that were taken and not released yet."""

    __slots__ = ("received",)

    def __init__(self, received: list[int] | None = None) -> None:
        self.received: set[int] = set(received or ())
        """Packet identifiers. The engine adds at PUBLISH, before `on_publish`, and takes away at PUBREL, before
        `on_pubrel`, or when the message is refused with a PUBREC of 0x80 or more."""


class OutgoingFlight:
    """Messages of QoS 1 and 2 towards a client, in the order in which they were first sent [MQTT-4.6.0-1]."""

    __slots__ = ("_last_id", "_resend", "answers_in_order", "deliveries", "quota", "was_exhausted", "window")

    def __init__(self) -> None:
        self.deliveries: DeliveryTable = DeliveryTable()
        self.window: int = MAX_PACKET_ID
        """Unacknowledged messages that the client accepts: its Receive Maximum, or our limit if that is lower."""
        self.quota: int = MAX_PACKET_ID
        """Number of messages that may be sent now (MQTT 5.0 §4.9)."""
        self.was_exhausted: bool = False
        """Whether a delivery waits for the window; `connection` tells the handler when it opens."""
        self.answers_in_order: bool = True
        """Whether the client has answered in order on this connection, so that runs are worth while."""
        self._last_id: int = 0
        self._resend: list[Delivery] = []
        """Deliveries that an earlier connection sent and this one has not sent yet; last first."""

    @property
    def can_send(self) -> bool:
        """Whether `add` will find an identifier: the window is open, and what is to be sent again has been."""
        return self.quota > 0 and not self._resend and self.deliveries.count < MAX_PACKET_ID

    def add(self, qos: int, token: object) -> int:
        """Take a packet identifier for a new message, and one of the window; 0 if `can_send` is false."""
        delivery = Delivery(0, qos, SENT, token, True)
        return delivery.packet_id if self.take(delivery) else 0

    def take(self, delivery: Delivery) -> bool:
        """Give a new delivery a packet identifier, and one of the window; False if `can_send` is false."""
        deliveries = self.deliveries
        if self.quota <= 1 or self._resend or deliveries.count >= MAX_PACKET_ID:
            self.was_exhausted = True
            if self.quota <= 0 or self._resend or deliveries.count >= MAX_PACKET_ID:
                return False
        deliveries.add(delivery, self._last_id)
        self._last_id = delivery.packet_id
        self.quota -= 1
        return True

    def restore(self, delivery: Delivery) -> None:
        """Take up a delivery that a store remembered, with its identifier; before `begin`, in sending order.

        SENT if the store knows nothing of its PUBREC, else RELEASED.
        """
        self.deliveries.put(delivery)
        self._last_id = max(self._last_id, delivery.packet_id)

    def begin(self, window: int) -> None:
        """Start a connection: whatever is SENT is to be sent again [MQTT-4.4.0-1]. `accept` calls this.

        What is RECEIVED stays so: the handler, which waits for its store, releases it.
        """
        self.window = self.quota = window
        self.answers_in_order = True
        self._resend = []
        for delivery in reversed(self.deliveries.in_order()):
            delivery.is_counted = False
            if delivery.state == SENT:
                self._resend.append(delivery)

    def next_resend(self) -> Delivery | None:
        """Return the next message to send again with DUP and its identifier; None: none is left, or the window is full.

        It has taken one of the window. Ask again whenever the window opens.
        """
        if not self._resend:
            return None
        if self.quota <= 1:
            self.was_exhausted = True
            if self.quota <= 0:
                return None
        self.quota -= 1
        delivery = self._resend.pop()
        delivery.is_counted = True
        return delivery

    def drop(self, packet_id: int) -> None:
        """Forget a delivery that will not be sent after all: too large for the client, expired, its queue gone."""
        delivery = self.deliveries.get(packet_id)
        if delivery is not None:
            if self._is_unsent(delivery):
                self._resend.remove(delivery)
            self._end(delivery)

    def _end(self, delivery: Delivery) -> None:
        self.deliveries.remove(delivery)
        if delivery.is_counted:
            self.quota += 1

    def _is_unsent(self, delivery: Delivery) -> bool:
        """Tell whether it is still to be sent on this connection, so that no answer can be meant for it."""
        return delivery.state == SENT and not delivery.is_counted

    # -- runs ----------------------------------------------------------------------------------------------------

    @property
    def next_id(self) -> int:
        """The packet identifier of the next delivery, if it is not in use."""
        return self._last_id + 1 if self._last_id < MAX_PACKET_ID else 1

    @property
    def last_run(self) -> DeliveryRun | None:
        """The run that holds the newest delivery, if one does."""
        runs = self.deliveries.runs
        return runs[len(runs) - 1] if runs else None

    def run_room(self, most: int) -> int:
        """Return how many deliveries `add_run` can take now, at most so many; 0 if only `take` can."""
        if self._resend or not self.answers_in_order or len(self.deliveries.runs) >= MOST_RUNS:
            return 0
        return self.deliveries.count_free(self.next_id, min(most, self.quota))

    def add_run(self, run: DeliveryRun, count: int) -> None:
        """Add deliveries, no more than `run_room` said, with identifiers from `next_id` on: to the last run, or a new
        one that begins there."""
        if run.count == 0:
            self.deliveries.runs.append(run)
        run.count += count
        self.deliveries.count += count
        self._last_id = run.first_id + run.count - 1
        self.quota -= count
        if self.quota <= 0:
            self.was_exhausted = True

    def awaiting(self, qos: int, is_received: bool) -> DeliveryRun | None:
        """Return the first run of a QoS with deliveries that are not over; with `is_received`, that lack their PUBREC.

        Few runs are there: each of them begins where another subscription had its turn. The rest is not looked at.
        """
        left = _RUNS_EXAMINED
        for run in self.deliveries.runs:
            if run.qos == qos and not (is_received and run.received == run.count):
                return run
            left -= 1
            if left == 0:
                break
        return None

    def end_run(self, run: DeliveryRun, count: int) -> None:
        """Note that the first deliveries of a run are over."""
        run.end(count)
        self.deliveries.count -= count
        self.quota += count
        if run.count == 0:
            self.deliveries.runs.remove(run)

    def release(self, first_id: int, count: int) -> None:
        """Note that PUBREL goes out for so many deliveries, whose identifiers follow each other."""
        deliveries = self.deliveries
        while count > 0:
            step = 1
            delivery = deliveries.listed(first_id)
            if delivery is not None:
                delivery.state = RELEASED
            else:
                for run in deliveries.runs:
                    if run.released < run.received and run.first_id + run.released == first_id:
                        step = min(count, run.received - run.released)
                        run.released += step
                        break
            first_id += step
            count -= step

    def unfold(self) -> None:
        """Make deliveries of all runs, and make no more of them: an answer came that was not the next one."""
        if self.deliveries.runs:
            self.answers_in_order = False
            self.deliveries.unfold()

    # -- what the client answers; PacketError: no client that keeps to the protocol answers so --------------------

    def acknowledge(self, packet_id: int) -> Delivery | None:
        """Process a PUBACK, the end of a QoS 1 delivery; None: an unknown identifier (it may have been dropped)."""
        delivery = self.deliveries.take(packet_id, 1)
        if delivery is not None:
            # Nearly always. The rest says the same, and what else there is.
            self.quota += 1
            return delivery
        self.unfold()
        delivery = self.deliveries.get(packet_id)
        if delivery is None:
            return None
        if delivery.qos != 1 or self._is_unsent(delivery):
            raise protocol_error(f"PUBACK {packet_id} answers nothing that was sent with QoS 1")
        self._end(delivery)
        return delivery

    def receive(self, packet_id: int, refused: bool) -> Delivery | None:
        """Take a PUBREC: the client has the message, or refuses it, which ends the delivery; None: unknown."""
        self.unfold()
        delivery = self.deliveries.get(packet_id)
        if delivery is None:
            return None
        if delivery.qos != 2 or self._is_unsent(delivery):
            raise protocol_error(f"PUBREC {packet_id} answers nothing that was sent with QoS 2")
        if refused:
            self._end(delivery)
        elif delivery.state == SENT:
            delivery.state = RECEIVED
        return delivery

    def complete(self, packet_id: int) -> Delivery | None:
        """Take a PUBCOMP, the end of a QoS 2 delivery; None: unknown."""
        delivery = self.deliveries.listed(packet_id)
        if delivery is None:
            self.unfold()
            delivery = self.deliveries.listed(packet_id)
        if delivery is None:
            return None
        if delivery.state != RELEASED:
            raise protocol_error(f"PUBCOMP {packet_id} answers no PUBREL")
        self._end(delivery)
        return delivery
