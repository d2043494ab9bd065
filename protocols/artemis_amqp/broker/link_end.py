"""Our half of one attached link, of whatever kind: `consumer_end`, `producer_end` and `coordinator` have the kinds.

open()  -->  registered  -->  leave(parting)          the link is there until it parts
   '---->  refused: undo()                            what the attach made for it alone goes again
"""

from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from artemis_amqp.broker.lingering import resumption_timeout_s, seconds
from artemis_amqp.broker.termini import LinkKey, SuspendedSource, SuspendedTarget
from artemis_amqp.engine.link import Link
from artemis_amqp.engine.performatives import Attach, Source, Target

if TYPE_CHECKING:
    from artemis_amqp.broker.handler import AmqpHandler


class Parting(Enum):
    """How a link ends. What the client may come back for follows from it."""

    CLOSED = auto()
    """The client closed it: nothing is kept."""
    DETACHED = auto()
    """The client detached it: its session goes on to know its deliveries, and it may be resumed."""
    ENDED = auto()
    """Its session ended, another link took its name, or the client detached it with an error: it may be resumed."""
    LOST = auto()
    """The connection broke: as ENDED, and what was under way counts as a failed attempt."""
    REMOVED = auto()
    """We detach it, with an error: it is not resumed."""


class LinkEnd:
    """Our half of one link."""

    def __init__(self, handler: "AmqpHandler", link: Link, attach: Attach) -> None:
        user = handler.core_session.subject.user
        self.handler: Final = handler
        self.link: Final = link
        self.attach: Final = attach
        self.key: Final[LinkKey] = (handler.container_id, attach.role, attach.name, user)
        self.dynamic_node: str | None = None
        """Name of the node that was made for the link."""

    @property
    def terminus(self) -> Source | Target | None:
        """What the link is attached to on our side, if it outlives the link at all."""
        raise NotImplementedError

    @property
    def is_receiving(self) -> bool:
        """Whether a large message has arrived in part."""
        return False

    def open(self) -> None:
        """Give the client what it asks for, and answer. Raises Refusal, MalformedFrame, errors.Condition."""
        raise NotImplementedError

    def undo(self) -> None:
        """Remove what was made for a link that is refused."""
        if self.dynamic_node is not None:
            self.handler.manager.lifetimes.gone(self.key)
            self.handler.core_session.delete_temporary(self.dynamic_node)

    def leave(self, parting: Parting) -> None:
        """Give back what the link held, or keep it for a client that may come back."""
        raise NotImplementedError

    def check_rights(self) -> None:
        """The client's rights changed. Raises NotAuthorized if it may not have this link any more."""

    def find_room(self) -> None:
        """There is room for output again."""

    def stolen(self) -> None:
        """Another attach took our name (AMQP 1.0 §2.6.1)."""
        handler = self.handler
        handler.brake.info(handler.source, "link stolen: container=%s link=%s", self.key[0], self.key[2])
        handler.links.steal(self)

    def depart(self, parting: Parting) -> None:
        """Tell the dynamic nodes that a link to one of them may have been the last."""
        is_over = parting in (Parting.CLOSED, Parting.REMOVED)
        self.handler.links.departures.left(self.key, self.link.session, self.terminus, is_over)

    def suspend(self, terminus: SuspendedSource | SuspendedTarget) -> None:
        """Keep a terminus for a client that may come back for it."""
        timeout_s = resumption_timeout_s(self.terminus)
        self.handler.manager.termini.suspend(self.key, terminus, seconds(timeout_s))
