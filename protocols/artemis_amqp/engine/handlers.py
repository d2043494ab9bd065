"""What the engine calls: the meaning of a connection, and of the deliveries on its links.

Implemented by the broker's side, by clients and by tests. Everything is called in wire order, from within
`AmqpConnection.receive_data` and `work`.
"""

from typing import TYPE_CHECKING, Protocol

from mypy_extensions import mypyc_attr

if TYPE_CHECKING:
    from artemis_amqp.engine.link import Link
    from artemis_amqp.engine.performatives import AmqpError, Attach, Begin, Close, Detach, End, Open
    from artemis_amqp.engine.receiver import ReceiverLink
    from artemis_amqp.engine.sender import SenderLink
    from artemis_amqp.engine.session import AmqpSession
    from artemis_amqp.engine.transfer_frame import TransferFrame


class ConnectionHandler(Protocol):
    """What the conversation means. Called in wire order, from within `receive_data`."""

    def wake(self) -> None:
        """There is output now, where there was none."""

    def on_sasl_header(self) -> None:
        """Server: the client wants to authenticate; answer with `send_sasl_mechanisms`."""

    def on_sasl_init(self, mechanism: str, initial_response: bytes | None, hostname: str | None) -> None:
        """Server: answer, now or later, with `send_sasl_challenge` or `send_sasl_outcome`."""

    def on_sasl_response(self, data: bytes) -> None:
        """Server: likewise."""

    def on_open(self, opening: "Open") -> None:
        """The peer opened. A server answers, now or later, with `send_open`."""

    def on_begin(self, session: "AmqpSession", begin: "Begin") -> None:
        """The peer began a session, or answered ours; the engine has answered."""

    def on_attach(self, link: "Link", attach: "Attach") -> None:
        """The peer attached (answer with `accept` or `refuse`), or answered our attach."""

    def on_detach(self, link: "Link", detach: "Detach") -> None:
        """The peer detached, or broke the link's rules; the engine answers."""

    def on_end(self, session: "AmqpSession", end: "End") -> None:
        """The session is over, on whoever's account; its links are still there to look at."""

    def on_close(self, close: "Close | None") -> None:
        """The peer closed; None: the conversation ended before it was opened."""

    def on_error(self, error: "AmqpError") -> None:
        """The peer broke the protocol; the engine has said so and closed."""

    def on_writable(self) -> None:
        """Output went out: who waited for room may send again."""


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
