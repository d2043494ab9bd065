"""What the engine calls: the meaning of a connection, and of the deliveries on its links.

Implemented by the broker's side, by clients and by tests. Everything is called in wire order, from within
`AmqpConnection.receive_data` and `work`.
"""

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

if TYPE_CHECKING:
    from artemis_amqp.engine.receiver import ReceiverLink
    from artemis_amqp.engine.sender import SenderLink
    from artemis_amqp.engine.transfer_frame import TransferFrame


@mypyc_attr(allow_interpreted_subclasses=True)
class DeliveryStream:
    """Takes a delivery while it arrives: one that is too large to wait in memory for its end."""

    def append(self, data: bytes) -> int:
        """Take the next octets; returns how many bytes of the delivery are in memory now. Never raises."""
        raise NotImplementedError

    def abandon(self) -> None:
        """The rest will never come; harmless the second time, and after the end."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class DeliverySource:
    """Gives the octets of a delivery that is too large for memory, while it is sent."""

    def read(self, size: int) -> bytes:
        """The next octets, exactly `size` of them; fewer if they cannot be read any more."""
        raise NotImplementedError

    def close(self) -> None:
        """Everything was read, or the rest is not wanted; harmless the second time."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class ReceiverLinkHandler:
    """What a peer's deliveries are for."""

    def open_stream(self, link: "ReceiverLink") -> DeliveryStream:
        """A delivery grows beyond the link's `large_size`: its octets, those that came first included, go there."""
        raise NotImplementedError

    def on_stream(self, link: "ReceiverLink", delivery: "TransferFrame", stream: DeliveryStream) -> None:
        """One complete delivery, all of its octets in the stream that was opened for it."""
        raise NotImplementedError

    def on_transfer(self, link: "ReceiverLink", delivery: "TransferFrame") -> None:
        """One complete delivery; the record is valid during the call."""
        raise NotImplementedError

    def on_settled(self, link: "ReceiverLink", delivery_id: int, tag: bytes) -> None:
        """The peer settled a delivery that we had answered without settling."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class SenderLinkHandler:
    """What becomes of our deliveries."""

    def on_credit(self, link: "SenderLink") -> None:
        """Credit, drain or the room for output changed."""
        raise NotImplementedError

    def on_disposition(self, link: "SenderLink", delivery_id: int, token: object, state: object, settled: bool) -> None:
        """The peer's word on a delivery; `state` is 0x24 for accepted, else a performative or None."""
        raise NotImplementedError

    def on_abort(self, link: "SenderLink", token: object) -> None:
        """The source of a delivery failed, so it was aborted; it is settled."""
        raise NotImplementedError
