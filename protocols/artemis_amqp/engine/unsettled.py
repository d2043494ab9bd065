"""The deliveries of one session that we sent and that are not settled, by delivery-id (AMQP 1.0 §2.6.12, §2.7.6).

Delivery-ids follow each other, and most deliveries are settled soon after they were sent. So a list has the newest of
them, at their distance from the first: a delivery costs one place in it, where a dict would need a number object, a
hash and a search for each step. What stays unsettled for long moves to a dict, so that the list does not grow with it.
"""

from typing import TYPE_CHECKING, Final

from artemis_amqp.engine.link import MASK

if TYPE_CHECKING:
    from artemis_amqp.engine.sender import SenderLink

MOST_EMPTY: Final = 64
"""Places of the list that may be empty, however few deliveries it has. A disposition of a wide range looks at each."""

MOST_PLACES: Final = 4
"""Places for each delivery beside those; with more, the older half of the list moves to the dict."""

LONGEST_GAP: Final = 64
"""Ids that may be left out between two deliveries of the list: those were sent settled."""


class Sent:
    """A delivery of ours that is not settled.

    Those of a link are in a list of their own, linked with each other: a second table would cost more for each of them.
    """

    __slots__ = ("delivery_id", "is_settled", "link", "newer", "number", "older", "token")

    def __init__(self, link: "SenderLink", delivery_id: int, token: object, number: int) -> None:
        self.link: SenderLink = link
        self.delivery_id: int = delivery_id
        self.token: object = token
        """What `SenderLink.send` was given."""
        self.number: int = number
        """Number of the delivery-tag; -1: the tag is none of ours."""
        self.is_settled: bool = False
        """Whether it is not among the unsettled ones any more."""
        self.older: Sent | None = None
        """The delivery of the same link that was sent before, of those that are not settled."""
        self.newer: Sent | None = None


class Unsettled:
    """Unsettled deliveries by delivery-id."""

    def __init__(self) -> None:
        self._first: int = 0
        """Delivery-id of the first place of the list."""
        self._places: list[Sent | None] = []
        self._begin: int = 0
        """Places at the front of the list that are empty for certain."""
        self._listed: int = 0
        """Deliveries in the list."""
        self._long: dict[int, Sent] = {}
        """Deliveries that have been unsettled for long, the oldest first."""

    def __len__(self) -> int:
        """Return how many there are."""
        return self._listed + len(self._long)

    def add(self, sent: Sent) -> None:
        """Add a delivery with a higher id than all others."""
        places = self._places
        gap = (sent.delivery_id - self._first - len(places)) & MASK
        if gap:
            self._leave_out(gap, sent.delivery_id)
            places = self._places
        places.append(sent)
        self._listed += 1
        if len(places) - self._begin > MOST_PLACES * self._listed + MOST_EMPTY:
            self._shorten()

    def get(self, delivery_id: int) -> Sent | None:
        """Return a delivery; None if it is settled, or was never sent."""
        index = (delivery_id - self._first) & MASK
        if index < len(self._places):
            return self._places[index]
        return self._long.get(delivery_id) if self._long else None

    def remove(self, sent: Sent) -> None:
        """Remove a delivery, which must be here."""
        sent.is_settled = True
        places = self._places
        index = (sent.delivery_id - self._first) & MASK
        if index >= len(places):
            del self._long[sent.delivery_id]
            return
        places[index] = None
        self._listed -= 1
        begin = self._begin
        if index == begin:
            end = len(places)
            begin += 1
            while begin < end and places[begin] is None:
                begin += 1
            self._begin = begin
            if begin >= MOST_EMPTY and begin * 2 >= end:
                self._cut(begin)
        if len(self._places) - self._begin > MOST_PLACES * self._listed + MOST_EMPTY:
            self._shorten()

    def between(self, first: int, last: int) -> list[Sent]:
        """Return the deliveries of a range of ids, those in the dict first.

        The range may be 2**32 wide: the cost depends only on how many deliveries there are.
        """
        width = (last - first) & MASK
        found: list[Sent] = []
        if width < len(self._long):
            for distance in range(width + 1):
                sent = self._long.get((first + distance) & MASK)
                if sent is not None:
                    found.append(sent)
        elif self._long:
            found += [sent for id, sent in self._long.items() if (id - first) & MASK <= width]
        places = self._places
        # In distances from the first place: what is left of the range behind the last id, then what is before it.
        start = (first - self._first) & MASK
        stop = start + width + 1
        self._collect(found, self._begin, stop - MASK - 1)
        self._collect(found, max(start, self._begin), min(stop, len(places)))
        return found

    def _collect(self, found: list[Sent], start: int, stop: int) -> None:
        places = self._places
        for index in range(start, min(stop, len(places))):
            sent = places[index]
            if sent is not None:
                found.append(sent)

    def all(self) -> list[Sent]:
        """Return all of them, the oldest first."""
        found = list(self._long.values())
        self._collect(found, self._begin, len(self._places))
        return found

    def clear(self) -> None:
        """Forget all of them."""
        for sent in self.all():
            sent.is_settled = True
        self._places = []
        self._begin = 0
        self._listed = 0
        self._long = {}

    def _leave_out(self, gap: int, following: int) -> None:
        """Have the list end before the id `following`, which is `gap` places behind its end."""
        if gap <= LONGEST_GAP and self._listed:
            self._places += [None] * gap
            return
        self._move(len(self._places))
        self._first = following
        self._places = []
        self._begin = 0

    def _shorten(self) -> None:
        """Move the deliveries in the older half of the list to the dict, until it has few empty places."""
        while len(self._places) - self._begin > MOST_PLACES * self._listed + MOST_EMPTY:
            half = (self._begin + len(self._places)) // 2
            self._move(half)
            self._cut(half)

    def _move(self, stop: int) -> None:
        """Move the deliveries before a place to the dict."""
        moved: list[Sent] = []
        self._collect(moved, self._begin, stop)
        for sent in moved:
            self._long[sent.delivery_id] = sent
        self._listed -= len(moved)

    def _cut(self, count: int) -> None:
        """Remove places at the front, which are empty or were moved."""
        self._places = self._places[count:]
        self._first = (self._first + count) & MASK
        places = self._places
        begin = 0
        while begin < len(places) and places[begin] is None:
            begin += 1
        self._begin = begin
