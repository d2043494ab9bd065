"""Our half of one attached link of any kind; the kinds are in `consumer_end`, `producer_end` and `coordinator`.

open()  -->  registered  -->  leave(parting)          the link exists until it parts
   '---->  refused: undo()                            removes what the attach created for this link alone
"""

from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from artemis_amqp.broker.lingering import resumption_timeout_s, seconds
from artemis_amqp.broker.termini import LinkKey, SuspendedSource, SuspendedTarget
from artemis_amqp.engine.link import Link
from artemis_amqp.engine.performatives import Attach, Source, Target
from artemis_py.core.sessions.temporary import TemporaryNode

if TYPE_CHECKING:
    from artemis_amqp.broker.handler import AmqpHandler


class Parting(Enum):
    """Ways in which a link ends, which decide what the client may resume later."""

    CLOSED = auto()
    """The client closed it: nothing is kept."""
    DETACHED = auto()
    """The client detached it: its session still knows its deliveries, and it may be resumed."""
    ENDED = auto()
    """Its session ended, another link took its name, or the client detached it with an error: it may be resumed."""
    LOST = auto()
    """The connection broke: as ENDED, and unsettled deliveries count as failed attempts."""
    REMOVED = auto()
    """We detached it with an error: it cannot be resumed."""


class LinkEnd:
    """Our half of one link."""

    def __init__(self, handler: "AmqpHandler", link: Link, attach: Attach) -> None:
        user = handler.core_session.subject.user
        self.handler: Final = handler
        self.link: Final = link
        self.attach: Final = attach
        self.key: Final[LinkKey] = (handler.container_id, attach.role, attach.name, user)
        self.dynamic_node: TemporaryNode | None = None
        """The node that was created for the link; None if there is none."""

    @property
    def terminus(self) -> Source | Target | None:
        """Terminus on our side, if it can outlive the link."""
        raise NotImplementedError

    @property
    def is_receiving(self) -> bool:
        """Whether part of a large message has arrived."""
        return False

    def open(self) -> None:
        """Set up the link and answer the attach. Raises Refusal, MalformedFrame, errors.Condition."""
        raise NotImplementedError

    def undo(self) -> None:
        """Remove what was created for a link that is refused."""
        if self.dynamic_node is not None:
            self.handler.manager.lifetimes.gone(self.key)
            self.dynamic_node.delete("its link was refused")

    def leave(self, parting: Parting) -> None:
        """Return the link's deliveries and resources, or keep them for a client that may come back."""
        raise NotImplementedError

    def check_rights(self) -> None:
        """Raise NotAuthorized if the client's new rights do not allow this link."""

    def find_room(self) -> None:
        """Continue to send: there is room for output again."""

    def stolen(self) -> None:
        """Detach: another attach took over the name of this link (AMQP 1.0 §2.6.1)."""
        handler = self.handler
        handler.brake.info(handler.source, "link stolen: container=%s link=%s", self.key[0], self.key[2])
        handler.links.steal(self)

    def depart(self, parting: Parting) -> None:
        """Tell `departures` that the link left, which may have been the last one to its dynamic node."""
        is_over = parting in (Parting.CLOSED, Parting.REMOVED)
        self.handler.links.departures.left(self.key, self.link.session, self.terminus, is_over)

    def suspend(self, terminus: SuspendedSource | SuspendedTarget) -> None:
        """Keep a terminus for a client that may come back and resume the link."""
        timeout_s = resumption_timeout_s(self.terminus)
        self.handler.manager.termini.suspend(self.key, terminus, seconds(timeout_s))
