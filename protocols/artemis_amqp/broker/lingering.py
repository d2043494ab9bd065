"""Deliveries of a link that was detached, but neither closed nor in error, while its session lasts (AMQP 1.0 §2.7.6).

    detach(closed=false) --> the deliveries stay: dispositions count, in transactions too
                         --> settled, resumed by an attach under the same name, or returned to their queue
                             when the session ends, or `timeout` after the detach with expiry-policy link-detach

After the session's end `termini` decides whether they wait for their client to come back.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from artemis_amqp.broker.consumers import OutgoingLink
from artemis_amqp.broker.termini import UNSETTLED_STATE, LinkKey, SuspendedSource
from artemis_amqp.engine.handlers import SenderLinkHandler
from artemis_amqp.engine.link import Link
from artemis_amqp.engine.performatives import Source, Target
from artemis_amqp.engine.sender import SenderLink
from artemis_py.core.queues.reference import Reference

if TYPE_CHECKING:
    from artemis_amqp.broker.handler import AmqpHandler

LINK_DETACH: Final = "link-detach"
NEVER: Final = "never"

# Deliveries of detached senders of one session whose outcome the client did not settle (rcv-settle-mode second): ten
# links with their credit. Beyond that, a link's deliveries are forgotten as if it had been closed.
UNSETTLED_LIMIT: Final = 10_000


def resumption_timeout_s(terminus: Source | Target | None) -> int:
    """Return the seconds that unsettled deliveries wait for their client after its session; 0: none, -1: for ever."""
    if terminus is None or terminus.durable != UNSETTLED_STATE:
        return 0
    return -1 if terminus.expiry_policy == NEVER else terminus.timeout


def seconds(timeout_s: int) -> int | None:
    """Return the same time as `Termini.suspend` takes it: None for ever."""
    return None if timeout_s < 0 else timeout_s


class Lingering(SenderLinkHandler):
    """The deliveries of one detached link, as long as its session knows them."""

    def __init__(
        self,
        handler: "AmqpHandler",
        link: SenderLink,
        key: LinkKey,
        outgoing: OutgoingLink,
        terminus: SuspendedSource,
        source: Source | None,
        ended: Callable[[], None],
    ) -> None:
        """Prepare to replace the link; `ended` is called when none of its deliveries are left."""
        self._handler = handler
        self._link = link
        self._key = key
        self._outgoing = outgoing
        self._terminus = terminus
        self._source = source
        self._ended = ended
        self.session: Final = link.session

    def start(self) -> None:
        """Take the link's place."""
        self._outgoing.deliveries.consumer = self._terminus.holder
        self._link.handler = self
        self._terminus.cut = self._cut
        timeout_s = None
        if self._source is not None and self._source.expiry_policy == LINK_DETACH:
            timeout_s = self._source.timeout
        self._handler.manager.termini.suspend(self._key, self._terminus, timeout_s)

    def on_credit(self, link: SenderLink) -> None:
        """Do nothing: a link that is not attached has no credit."""

    def on_abort(self, link: SenderLink, token: object) -> None:
        """Do nothing: incomplete deliveries were dropped with the detach."""

    def on_disposition(self, link: SenderLink, delivery_id: int, token: object, state: object, settled: bool) -> None:
        """Apply the client's disposition of one delivery, as if the link were attached."""
        terminus = self._terminus
        assert isinstance(token, Reference)
        self._outgoing.on_disposition(link, delivery_id, token, state, settled)
        if not terminus.holder.outstanding.count and not link.has_unsettled:
            self._handler.manager.termini.drop(self._key)

    def session_ended(self, failed: bool) -> None:
        """Return unsettled deliveries to the queue, or let them wait for the client to resume them."""
        terminus = self._terminus
        termini = self._handler.manager.termini
        if not termini.is_suspended(self._key, terminus):
            return
        terminus.failed = failed
        timeout_s = resumption_timeout_s(self._source)
        if timeout_s == 0 or is_consumed(terminus) or not terminus.holder.outstanding.count:
            termini.drop(self._key)
            return
        terminus.cut = None
        self._cut()
        termini.limit(self._key, seconds(timeout_s))

    def _cut(self) -> None:
        """Make the session forget the deliveries: they are settled, resumed or given back."""
        self._outgoing.stop()
        self._link.handler = None
        self._link.session.drop_deliveries(self._link)
        self._handler.links.lingering.pop(self._link, None)
        self._ended()


def is_consumed(terminus: SuspendedSource) -> bool:
    """Tell whether the queue has other consumers, which must not wait for a client that may never come back."""
    return any(not consumer.browse for consumer in terminus.queue.consumers)


def complete_deliveries(link: Link) -> dict[bytes, Reference]:
    """Return the link's deliveries that the client has and did not settle, by delivery-tag."""
    assert isinstance(link, SenderLink)
    return {tag: token for tag, token in link.unsettled_tokens().items() if isinstance(token, Reference)}


def may_linger(source: Source | None) -> bool:
    """Tell whether the terminus outlives a detach at all (AMQP 1.0 §3.5.6)."""
    return source is None or source.expiry_policy != LINK_DETACH or source.timeout > 0
