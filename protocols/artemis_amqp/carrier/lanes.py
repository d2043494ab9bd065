"""The links between two brokers: one for records and one for each lane of messages, in each direction.

    delivery on a lane:  | u64 number | message, in whatever form the mesh gives it |

The number is in front of the message and not in the delivery-tag: a tag of our own would take each delivery off the
short way through the engine.
"""

from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import Final

from artemis_amqp.engine.handlers import ReceiverLinkHandler, SenderLinkHandler
from artemis_amqp.engine.hot_frames import ACCEPTED_CODE
from artemis_amqp.engine.performatives import Accepted, encode
from artemis_amqp.engine.receiver import ReceiverLink
from artemis_amqp.engine.sender import SenderLink
from artemis_amqp.engine.transfer_frame import TransferFrame

NUMBER: Final = Struct(">Q")
_ACCEPTED: Final = encode(Accepted())

FIRST_MEAN_SIZE: Final = 1024
"""Bytes that a message is taken to have before the first one has come."""


class OutLane(SenderLinkHandler):
    """Sends on one link, in order; what the other side has no room for waits."""

    def __init__(self, is_settled: bool, failed: Callable[[str], None]) -> None:
        """Wait for a link; `failed` is called when the other side breaks the rules of the lane."""
        self._link: SenderLink | None = None
        self._is_settled: Final = is_settled
        self._failed: Final = failed
        self._waiting: Final[deque[tuple[bytes, bytes, int]]] = deque()
        """Heads, messages and numbers."""
        self._sent: Final[deque[int]] = deque()
        """Numbers that the other side has not confirmed."""
        self.confirmed = -1
        """Highest confirmed number since the last look; -1: none."""
        self.has_caught_up = False
        """Whether nothing waits any more, and something did; the code that reads it resets it."""

    def connect(self, link: SenderLink) -> None:
        """Send on this link from now on, what waits first."""
        self._link = link
        link.handler = self

    @property
    def has_room(self) -> bool:
        """Whether nothing waits."""
        return not self._waiting

    def send(self, head: bytes, message: bytes, number: int) -> bool:
        """Send, or keep what cannot be sent yet; return `has_room`."""
        self._waiting.append((head, message, number))
        self._pump()
        return self.has_room

    def on_credit(self, link: SenderLink) -> None:
        """Send what waits; a drain is answered, although we never get one from a broker."""
        had_waiting = bool(self._waiting)
        self._pump()
        if had_waiting and not self._waiting:
            self.has_caught_up = True
        if link.drain and not self._waiting:
            link.drained()

    def on_disposition(self, link: SenderLink, delivery_id: int, token: object, state: object, settled: bool) -> None:
        """Note a confirmation. Messages are confirmed in order, and never refused: the mesh counts on both."""
        if not settled or state != ACCEPTED_CODE or not self._sent or self._sent[0] != token:
            self._failed("a message was not confirmed in its order, or refused")
            return
        self.confirmed = self._sent.popleft()

    def on_abort(self, link: SenderLink, token: object) -> None:
        """Fail: messages are in memory, so none is aborted."""
        self._failed("a message could not be read")

    def _pump(self) -> None:
        link = self._link
        while self._waiting and link is not None:
            if not link.can_send:
                link.session.connection.outbox.ask_for_room()
                return
            head, message, number = self._waiting.popleft()
            if not self._is_settled:
                self._sent.append(number)
            link.send(head, message, number, self._is_settled)


class ControlIn(ReceiverLinkHandler):
    """Receives records on one link."""

    def __init__(self, link: ReceiverLink, credit: int, received: Callable[[bytes], None]) -> None:
        self._credit: Final = credit
        self._received: Final = received
        link.handler = self
        link.grant(credit)

    def on_transfer(self, link: ReceiverLink, delivery: TransferFrame) -> None:
        """Pass the records on, and grant credit again when half of it is used."""
        if link.credit * 2 <= self._credit and link.granting < 0:
            link.grant(self._credit)
        self._received(delivery.payload)

    def on_settled(self, link: ReceiverLink, delivery_id: int, tag: bytes) -> None:
        """Do nothing: records are sent settled."""


class LaneIn(ReceiverLinkHandler):
    """Receives messages of one lane, and confirms them when the mesh says so."""

    def __init__(
        self,
        link: ReceiverLink,
        credit: int,
        window_bytes: int,
        received: Callable[[int, bytes], None],
        failed: Callable[[str], None],
    ) -> None:
        """Take over a link and grant its first credit; `window_bytes` below 0: no limit."""
        self._link: Final = link
        self._credit: Final = credit
        self._window_bytes: Final = window_bytes
        self._received: Final = received
        self._failed: Final = failed
        self._unconfirmed: Final[deque[tuple[int, int, int]]] = deque()
        """Number, delivery-id and size of each message that is not confirmed."""
        self._unconfirmed_bytes = 0
        self._mean_size = float(FIRST_MEAN_SIZE)
        """Size of a message, as the last ones were."""
        link.handler = self
        self._grant()

    def on_transfer(self, link: ReceiverLink, delivery: TransferFrame) -> None:
        """Pass a message on; with a full window the other side gets no more credit."""
        payload = delivery.payload
        size = len(payload)
        if size < NUMBER.size or delivery.is_settled:
            self._failed("a message without a number, or sent settled")
            return
        number: int = NUMBER.unpack_from(payload)[0]
        self._unconfirmed.append((number, delivery.delivery_id, size))
        self._unconfirmed_bytes += size
        self._mean_size += (size - self._mean_size) / 8
        self._grant()
        self._received(number, payload[NUMBER.size :])

    def on_settled(self, link: ReceiverLink, delivery_id: int, tag: bytes) -> None:
        """Do nothing: our confirmation settles."""

    def confirm(self, number: int) -> None:
        """Confirm what was received up to this number, and grant credit for as much again."""
        session = self._link.session
        unconfirmed = self._unconfirmed
        first = last = -1
        while unconfirmed and unconfirmed[0][0] <= number:
            _, delivery_id, size = unconfirmed.popleft()
            self._unconfirmed_bytes -= size
            if first >= 0 and delivery_id != last + 1:
                # Deliveries of other lanes have numbers in between.
                session.settle_incoming(first, last, _ACCEPTED, True)
                first = -1
            if first < 0:
                first = delivery_id
            last = delivery_id
        if first >= 0:
            session.settle_incoming(first, last, _ACCEPTED, True)
        self._grant()

    def _grant(self) -> None:
        """Grant credit for what the window has room for, or revoke it; small differences cause no frame."""
        link = self._link
        wanted = self._credit - len(self._unconfirmed)
        if self._window_bytes >= 0:
            left = self._window_bytes - self._unconfirmed_bytes
            wanted = min(wanted, max(int(left / self._mean_size), 1)) if left > 0 else 0
        credit = link.credit if link.granting < 0 else link.granting
        if wanted >= 2 * credit > 0 or credit > 2 * wanted or (credit == 0 and wanted > 0):
            link.grant(max(wanted, 0))
