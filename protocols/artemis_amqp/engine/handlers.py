"""Interfaces that the engine calls: they give meaning to a connection and to the deliveries on its links.

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
    from artemis_amqp.engine.types import Symbol


class ConnectionHandler(Protocol):
    """Handler of one connection. Called in wire order, from within `receive_data`."""

    def wake(self) -> None:
        """Called when there is output and there was none before."""

    def on_sasl_header(self) -> None:
        """Server: offer mechanisms to a client that wants to authenticate, with `send_sasl_mechanisms`."""

    def on_sasl_init(self, mechanism: str, initial_response: bytes | None, hostname: str | None) -> None:
        """Server: answer, now or later, with `send_sasl_challenge` or `send_sasl_outcome`."""

    def on_sasl_response(self, data: bytes) -> None:
        """Server: answer as for `on_sasl_init`."""

    def on_open(self, opening: "Open") -> None:
        """Called when the peer opened. A server answers, now or later, with `send_open`."""

    def on_begin(self, session: "AmqpSession", begin: "Begin") -> None:
        """Called when the peer began a session, which the engine has answered, or answered ours."""

    def on_attach(self, link: "Link", attach: "Attach") -> None:
        """Called when the peer attached (answer with `accept` or `refuse`), or answered our attach."""

    def on_detach(self, link: "Link", detach: "Detach") -> None:
        """Called when the peer detached, or broke the link's rules; the engine answers."""

    def on_end(self, session: "AmqpSession", end: "End") -> None:
        """Called when either side ended the session; its links can still be inspected."""

    def on_close(self, close: "Close | None") -> None:
        """Called when the peer closed; None: the connection ended before it was opened."""

    def on_error(self, error: "AmqpError") -> None:
        """Called when the peer broke the protocol; the engine closes with this error."""

    def on_writable(self) -> None:
        """Called when output was sent: links that waited for room may send again."""


@mypyc_attr(allow_interpreted_subclasses=True)
class ClientLogin:
    """Client: a login that depends on what the server offers and asks."""

    def begin(self, offered: "tuple[Symbol, ...]") -> tuple[str, bytes | None] | None:
        """Return the mechanism and its first response, chosen from those offered; None: none will do."""
        raise NotImplementedError

    def respond(self, challenge: bytes) -> bytes | None:
        """Return the response to a challenge; None: the server breaks the rules of the mechanism."""
        raise NotImplementedError

    def complete(self, data: bytes) -> bool:
        """Tell whether the end of a successful login proves what the mechanism says it must."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class DeliveryStream:
    """Destination of a delivery while it arrives, if it is too large to be collected in memory."""

    def append(self, data: bytes) -> int:
        """Take the next octets; return how many bytes of the delivery are in memory now. Never raises."""
        raise NotImplementedError

    def abandon(self) -> None:
        """Discard the delivery: its rest will never arrive. A second call, or one after the end, does nothing."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class DeliverySource:
    """Source of the octets of a delivery that is too large for memory, while it is sent."""

    def read(self, size: int) -> bytes:
        """Return the next octets, exactly `size` of them; fewer if they cannot be read any more."""
        raise NotImplementedError

    def close(self) -> None:
        """Close: everything was read, or the rest is not wanted. A second call does nothing."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class ReceiverLinkHandler:
    """Handler of the peer's deliveries on one link."""

    def open_stream(self, link: "ReceiverLink") -> DeliveryStream:
        """Return a stream for a delivery that grew to the link's `large_size`; it gets all octets from the first on."""
        raise NotImplementedError

    def on_stream(self, link: "ReceiverLink", delivery: "TransferFrame", stream: DeliveryStream) -> None:
        """Process one complete delivery, all of its octets in the stream that was opened for it."""
        raise NotImplementedError

    def on_transfer(self, link: "ReceiverLink", delivery: "TransferFrame") -> None:
        """Process one complete delivery; the record is valid during the call."""
        raise NotImplementedError

    def on_settled(self, link: "ReceiverLink", delivery_id: int, tag: bytes) -> None:
        """Called when the peer settled a delivery that we had answered without settling."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class SenderLinkHandler:
    """Handler of our deliveries on one link."""

    def on_credit(self, link: "SenderLink") -> None:
        """Called when credit, drain or the room for output changed."""
        raise NotImplementedError

    def on_disposition(self, link: "SenderLink", delivery_id: int, token: object, state: object, settled: bool) -> None:
        """Process the peer's disposition of a delivery; `state` is 0x24 for accepted, else a performative or None."""
        raise NotImplementedError

    def on_abort(self, link: "SenderLink", token: object) -> None:
        """Called when a delivery was aborted because its source failed; it is settled."""
        raise NotImplementedError
