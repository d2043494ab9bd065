"""The links of one connection: attached ones, and detached ones whose deliveries the client may still settle."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from artemis_amqp.broker.addressing import missing_prefix
from artemis_amqp.broker.consumer_end import ConsumerEnd
from artemis_amqp.broker.coordinator import CoordinatorEnd
from artemis_amqp.broker.lifetimes import Departures, Ending, check_terminus
from artemis_amqp.broker.lingering import Lingering
from artemis_amqp.broker.link_end import LinkEnd, Parting
from artemis_amqp.broker.producer_end import ProducerEnd
from artemis_amqp.engine import errors
from artemis_amqp.engine.limits import LINK_BYTES
from artemis_amqp.engine.link import Link
from artemis_amqp.engine.performatives import AmqpError, Attach, Coordinator, Source, Target
from artemis_amqp.engine.receiver import ReceiverLink
from artemis_amqp.engine.sender import SenderLink
from artemis_amqp.engine.session import AmqpSession
from artemis_py.core.runtime.background import SLICE_UNITS
from artemis_py.core.runtime.meter import LINK_UNITS
from artemis_py.errors import MalformedFrame, NotAuthorized, Refusal

if TYPE_CHECKING:
    from artemis_amqp.broker.handler import AmqpHandler


FIRST_LINKS: Final = 2
"""Links that a connection may have when there is no memory left for more: one for requests, one for the answers."""


class Links:
    """All links of one connection."""

    def __init__(self, handler: "AmqpHandler") -> None:
        self._handler = handler
        self._ends: dict[Link, LinkEnd] = {}
        self.lingering: Final[dict[Link, Lingering]] = {}
        """Detached links whose deliveries the client may still settle."""
        self.departures: Final = Departures(handler.manager.lifetimes, handler.manager.termini)
        self._has_warned_of_prefix = False

    @property
    def arriving_count(self) -> int:
        """Number of large messages of which part has arrived."""
        return sum(end.is_receiving for end in self._ends.values())

    def attach(self, link: Link, attach: Attach) -> None:
        """Attach the link that a client asks for, or refuse it with the reason."""
        handler = self._handler
        end = self._end_of(link, attach)
        self._check_prefix(attach.target if link.is_receiver else attach.source)
        try:
            for terminus in (attach.source, attach.target):
                if isinstance(terminus, Source | Target):
                    check_terminus(terminus)
            handler.host.check_tables(f"link '{attach.name}'", len(self._ends) < FIRST_LINKS)
            end.open()
        except (Refusal, MalformedFrame, errors.Condition) as error:
            template = "link refused: peer=%s link=%s reason=%s"
            handler.brake.info(handler.source, template, handler.context.peer, attach.name, error)
            self._unregister(link)
            handler.manager.termini.detach(end.key, end)
            end.undo()
            link.refuse(errors.to_amqp(error))

    def _end_of(self, link: Link, attach: Attach) -> LinkEnd:
        """Return the kind of link end that a client asks for."""
        if isinstance(link, SenderLink):
            return ConsumerEnd(self._handler, link, attach)
        assert isinstance(link, ReceiverLink)
        if isinstance(attach.target, Coordinator):
            return CoordinatorEnd(self._handler, link, attach, attach.target)
        return ProducerEnd(self._handler, link, attach, attach.target)

    def _check_prefix(self, terminus: Source | Target | Coordinator | None) -> None:
        """Warn, once per connection, of an address whose prefix the client probably expects to be cut off."""
        handler = self._handler
        if self._has_warned_of_prefix or not isinstance(terminus, Source | Target) or terminus.address is None:
            return
        remedy = missing_prefix(terminus.address, handler.prefixes)
        if remedy is not None:
            self._has_warned_of_prefix = True
            handler.brake.warning(
                handler.source,
                "prefix taken as part of the address: peer=%s address=%s; "
                "if it is to be removed, add %s to the parameters of the acceptor",
                handler.context.peer,
                terminus.address,
                remedy,
            )

    def register(self, end: LinkEnd) -> None:
        """Register a link under its name; another link under the same name is detached first."""
        self._handler.manager.termini.attach(end.key, end)
        self._handler.host.tables.occupy(LINK_BYTES)
        self._ends[end.link] = end

    def _unregister(self, link: Link) -> LinkEnd | None:
        end = self._ends.pop(link, None)
        if end is not None:
            self._handler.host.tables.vacate(LINK_BYTES)
        return end

    def part(self, link: Link, parting: Parting) -> None:
        """End a link; does nothing for one that was refused or is gone."""
        end = self._unregister(link)
        if end is not None:
            self._handler.manager.termini.detach(end.key, end)
            end.leave(parting)

    def detach(self, link: Link, error: AmqpError) -> None:
        """Detach a link from our side for the reason given; if it is detached already, end its session."""
        if link.is_attached:
            self.part(link, Parting.REMOVED)
            link.detach(error)
            self._handler.wake()
        elif link in self.lingering:
            link.session.end(error)

    def steal(self, end: LinkEnd) -> None:
        """Detach a link whose name another link took over."""
        self.part(end.link, Parting.ENDED)
        end.link.detach(AmqpError(errors.STOLEN, "the link was attached elsewhere under the same name"))
        self._handler.wake()

    def check_rights(self) -> None:
        """Detach the links that the client's new rights do not allow."""
        for end in list(self._ends.values()):
            try:
                end.check_rights()
            except NotAuthorized as error:
                self.detach(end.link, errors.to_amqp(error))

    def find_room(self) -> None:
        """Let consumers that waited for room in the output continue."""
        for end in self._ends.values():
            end.find_room()

    def session_ended(self, session: AmqpSession) -> None:
        """Detach, but do not close, the links of a session that ends (AMQP 1.0 §2.5.6)."""
        for link in list(self._ends):
            if link.session is session:
                self.part(link, Parting.ENDED)
        for lingering in list(self.lingering.values()):
            if lingering.session is session:
                lingering.session_ended(failed=False)
        self.departures.ended(Ending.SESSION, session)

    def connection_ended(self, failed: bool) -> Iterator[None]:
        """End all links, in slices: a client may have thousands, each with its own queue."""
        meter = self._handler.host.meter
        end = meter.work + SLICE_UNITS
        for link in list(self._ends):
            self.part(link, Parting.LOST if failed else Parting.ENDED)
            meter.work += LINK_UNITS
            if meter.work >= end:
                yield
                end = meter.work + SLICE_UNITS
        for lingering in list(self.lingering.values()):
            lingering.session_ended(failed)
        self.departures.ended(Ending.SESSION)
        self.departures.ended(Ending.CONNECTION)
