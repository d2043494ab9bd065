"""Deliveries of QoS 1 and 2 on their way to a client: what the engine knows of one, and whose message it is.

They are made and ended once for each copy of a message, so those that are over are used again.
"""

from typing import TYPE_CHECKING, Final

from artemis_mqtt.engine.delivery import Delivery
from artemis_mqtt.engine.flight import SENT
from artemis_py.core.queues.reference import Reference

if TYPE_CHECKING:
    from artemis_mqtt.broker.deliveries import Subscription

# Deliveries of a broker that are over and may be used again; each has 144 bytes.
SPARE_LIMIT: Final = 10_000


class Sent(Delivery):
    """A delivery of the engine, with the message and the subscription that it is under way for."""

    __slots__ = ("is_stored", "mark", "order", "reference", "subscription", "was_sent")

    def __init__(
        self,
        reference: Reference | None,
        subscription: "Subscription",
        order: int,
        qos: int,
        packet_id: int = 0,
        state: int = SENT,
        is_counted: bool = True,
    ) -> None:
        super().__init__(packet_id, qos, state, None, is_counted)
        self.reference: Reference | None = reference
        """Reference to the message; None after a restart, until the queue hands it over again."""
        self.subscription: Subscription = subscription
        self.order: int = order
        """Place in the order of sending, as the store keeps it."""
        self.was_sent: bool = False
        """Whether the client may have seen it."""
        self.mark: str | None = None
        """See `Consumer.mark`."""
        self.is_stored: bool = True
        """Whether its record, if it has one, is durable."""

    def renew(self, reference: Reference, subscription: "Subscription", order: int, qos: int) -> None:
        """Become the delivery of another message: this one is over, and nothing refers to it."""
        self.qos = qos
        self.state = SENT
        self.is_counted = True
        self.reference = reference
        self.subscription = subscription
        self.order = order
        self.was_sent = False
        self.mark = None
        self.is_stored = True


def sent(delivery: Delivery) -> Sent | None:
    """Return a delivery of a message; None: it is only an identifier that is to be released."""
    return delivery if isinstance(delivery, Sent) else None
