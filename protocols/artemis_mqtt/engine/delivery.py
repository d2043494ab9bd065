"""Outgoing deliveries of QoS 1 and 2 by their packet identifiers.

Identifiers are given in ascending order and mostly answered in that order, so those in use are close together. The
table is a ring: a delivery lies at the last bits of its identifier, and no number is looked up in a dictionary, which
would need an object for it. An identifier whose place is taken by another, one that a client left unanswered for a
whole round, is passed over like one that is in use itself.

The newest deliveries may be runs, which have no places (`delivery_run`). Whatever looks at them one by one, or adds to
them, makes deliveries of them before.
"""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from artemis_mqtt.engine.delivery_run import DeliveryRun

MAX_PACKET_ID: Final = 65535

# A client with a few messages under way needs no more; places double when half of them are taken.
_LEAST_PLACES: Final = 16
_MOST_PLACES: Final = MAX_PACKET_ID + 1


class Delivery:
    """An outgoing message of QoS 1 or 2 on its way. The handler may add to it in a class of its own."""

    __slots__ = ("is_counted", "number", "packet_id", "qos", "state", "token")

    def __init__(self, packet_id: int, qos: int, state: int, token: object, is_counted: bool) -> None:
        self.packet_id: int = packet_id
        self.qos: int = qos
        self.state: int = state
        self.token: object = token
        """The handler's own; the engine only carries it."""
        self.is_counted: bool = is_counted
        """Whether its PUBLISH was sent on this connection; it uses one of the window until the delivery is over."""
        self.number: int = 0
        """Its place in the order of sending, given by the table."""


class DeliveryTable:
    """All deliveries of a session that are under way."""

    __slots__ = ("_last_number", "_listed", "_mask", "_places", "count", "runs")

    def __init__(self) -> None:
        self._places: list[Delivery | None] = [None] * _LEAST_PLACES
        self._mask: int = _LEAST_PLACES - 1
        self._last_number: int = 0
        self._listed: int = 0
        """Number of deliveries in `_places`."""
        self.runs: list[DeliveryRun] = []
        """Deliveries that came after those in `_places`, in the order of sending."""
        self.count: int = 0
        """Number of all deliveries."""

    def listed(self, packet_id: int) -> Delivery | None:
        """Return the delivery with this identifier, unless it is in a run; None if there is none."""
        delivery = self._places[packet_id & self._mask]
        if delivery is None or delivery.packet_id != packet_id:
            return None
        return delivery

    def get(self, packet_id: int) -> Delivery | None:
        """Return the delivery with this identifier; None if there is none."""
        delivery = self.listed(packet_id)
        if delivery is None and self.runs:
            self.unfold()
            delivery = self.listed(packet_id)
        return delivery

    def add(self, delivery: Delivery, packet_id: int) -> None:
        """Add a delivery under the next identifier after this one that can be used; there must be one."""
        if self.runs:
            self.unfold()
        places, mask = self._places, self._mask
        while True:
            packet_id = packet_id + 1 if packet_id < MAX_PACKET_ID else 1
            place = packet_id & mask
            if places[place] is None:
                break
        places[place] = delivery
        delivery.packet_id = packet_id
        self._note(delivery)

    def put(self, delivery: Delivery) -> None:
        """Add a delivery, as the last one in the order of sending; its identifier must not be in use."""
        if self.runs:
            self.unfold()
        while self._places[delivery.packet_id & self._mask] is not None:
            self._grow()
        self._places[delivery.packet_id & self._mask] = delivery
        self._note(delivery)

    def _note(self, delivery: Delivery) -> None:
        """Count a delivery that was put into its place, and give it its place in the order of sending."""
        self._last_number += 1
        delivery.number = self._last_number
        self.count += 1
        self._listed += 1
        if 2 * self._listed > self._mask and self._mask < MAX_PACKET_ID:
            self._grow()

    def take(self, packet_id: int, qos: int) -> Delivery | None:
        """Remove and return what was sent on this connection with this identifier and QoS; None if it was not.

        What is in a run is not found.
        """
        places = self._places
        place = packet_id & self._mask
        delivery = places[place]
        if delivery is None or delivery.packet_id != packet_id or delivery.qos != qos or not delivery.is_counted:
            return None
        places[place] = None
        self.count -= 1
        self._listed -= 1
        return delivery

    def remove(self, delivery: Delivery) -> None:
        """Remove a delivery, which must be here."""
        self._places[delivery.packet_id & self._mask] = None
        self.count -= 1
        self._listed -= 1

    # -- runs --------------------------------------------------------------------------------------------------

    def count_free(self, packet_id: int, most: int) -> int:
        """Return how many identifiers from this one on a run may use, at most so many."""
        most = min(most, MAX_PACKET_ID + 1 - packet_id, MAX_PACKET_ID - self.count)
        for run in self.runs:
            if run.first_id >= packet_id:
                most = min(most, run.first_id - packet_id)
            elif run.first_id + run.count > packet_id:
                return 0
        if self._listed == 0:
            return most
        if len(self._places) <= most:
            # Most often a few deliveries are listed, and the places are few.
            for delivery in self._places:
                if delivery is not None and packet_id <= delivery.packet_id < packet_id + most:
                    most = delivery.packet_id - packet_id
            return most
        for offset in range(most):
            if self.listed(packet_id + offset) is not None:
                return offset
        return most

    def unfold(self) -> None:
        """Make deliveries of all runs."""
        runs = self.runs
        self.runs = []
        for run in runs:
            self.count -= run.count
            for delivery in run.unfold():
                self.put(delivery)

    # -- all ---------------------------------------------------------------------------------------------------

    def in_order(self) -> list[Delivery]:
        """Return all deliveries in the order of sending [MQTT-4.6.0-1]; they may be removed meanwhile."""
        if self.runs:
            self.unfold()
        return sorted([delivery for delivery in self._places if delivery is not None], key=_number_of)

    def clear(self) -> None:
        """Remove all deliveries."""
        self._places = [None] * _LEAST_PLACES
        self._mask = _LEAST_PLACES - 1
        self.runs = []
        self._listed = 0
        self.count = 0

    def _grow(self) -> None:
        """Double the places. Two identifiers that differ are apart at the latest when there is a place for each."""
        size = min(2 * len(self._places), _MOST_PLACES)
        places: list[Delivery | None] = [None] * size
        for delivery in self._places:
            if delivery is not None:
                places[delivery.packet_id & (size - 1)] = delivery
        self._places = places
        self._mask = size - 1


def _number_of(delivery: Delivery) -> int:
    return delivery.number
