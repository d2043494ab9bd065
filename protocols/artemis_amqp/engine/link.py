"""Base of both directions of a link: names, handles, attach and detach (AMQP 1.0 §2.6, amqp10 §7).

We send on a `SenderLink`, the peer sends on a `ReceiverLink`; the link's handler decides what a delivery means.
"""

from typing import TYPE_CHECKING, Final

from artemis_amqp.engine import errors
from artemis_amqp.engine.performatives import AmqpError, Attach, Detach

if TYPE_CHECKING:
    from artemis_amqp.engine.session import AmqpSession

MASK: Final = 0xFFFFFFFF
HALF: Final = 0x80000000
"""Half of the 32-bit serial numbers: so many are ahead of any number, the others are behind it."""

# Values of snd-settle-mode and rcv-settle-mode (AMQP 1.0 §2.8.2, §2.8.3).
SETTLED: Final = 1
MIXED: Final = 2
SECOND: Final = 1


class Link:
    """Base of both directions of a link."""

    def __init__(self, session: "AmqpSession", name: str, handle: int, is_receiver: bool) -> None:
        self.session: AmqpSession = session
        self.name: str = name
        self.is_receiver: bool = is_receiver
        """Whether the peer sends on this link."""
        self.handle: int = handle
        """Number that we use for the link."""
        self.peer_handle: int = -1
        """Number that the peer uses for the link; -1 until it attached."""
        self.is_attached: bool = False
        """Whether both sides attached and neither detached."""
        self.attach_sent: bool = False
        self.detach_sent: bool = False
        self.snd_settle_mode: int = 2
        self.rcv_settle_mode: int = 0
        self.credit: int = 0
        self.delivery_count: int = 0

    def _answer(self, attach: Attach) -> None:
        """Answer the peer's attach."""
        if not self.session.fits(attach):
            self.fail(errors.FRAME_SIZE_TOO_SMALL, "the answer to this attach is larger than max-frame-size")
            return
        self.attach_sent = True
        self.is_attached = True
        self.session.write(attach)

    def detach(self, error: AmqpError | None = None, closed: bool = True) -> None:
        """End the link from our side; frames that the peer still sends on it are ignored until it answers."""
        if self.detach_sent or not self.attach_sent:
            return
        self.is_attached = False
        self.detach_sent = True
        self.session.forget(self)
        self.session.write(Detach(handle=self.handle, closed=closed, error=error))

    def fail(self, condition: str, text: str) -> None:
        """Detach with an error because the peer broke the rules of this link; the handler cleans up first."""
        error = AmqpError(condition, text)
        self.session.connection.handler.on_detach(self, Detach(handle=self.peer_handle, closed=True, error=error))
        self.refuse(error)

    def refuse(self, error: AmqpError) -> None:
        """Answer an attach with a null terminus and a detach that says why (AMQP 1.0 §2.6.3)."""
        if self.attach_sent:
            self.detach(error)
            return
        self.session.write(
            Attach(
                name=self.name,
                handle=self.handle,
                role=self.is_receiver,
                initial_delivery_count=None if self.is_receiver else 0,
            )
        )
        self.attach_sent = True
        self.detach(error)
