"""A link on which a client receives: its source, what is resumed on it, and what is kept when it ends.

`subscriptions` says which queue it reads, `consumers` handles the deliveries.
"""

from functools import partial
from typing import TYPE_CHECKING, Final

from attrs import evolve

from artemis_amqp.broker.addressing import SequenceRange, SourceFilters, read_filters
from artemis_amqp.broker.consumers import OutgoingLink
from artemis_amqp.broker.dynamic_nodes import create_node
from artemis_amqp.broker.exchange_sources import ExchangeSource, open_exchange_source, read_exchange_source
from artemis_amqp.broker.lingering import NEVER, Lingering, complete_deliveries, may_linger, resumption_timeout_s
from artemis_amqp.broker.link_end import LinkEnd, Parting
from artemis_amqp.broker.subscriptions import COPY, Subscription, find_durable, link_priority, open_node, open_source
from artemis_amqp.broker.termini import UNSETTLED_STATE, SuspendedSource
from artemis_amqp.engine import errors
from artemis_amqp.engine.extensions import CREATED
from artemis_amqp.engine.performatives import Attach, Modified, Source, Target
from artemis_amqp.engine.sender import SenderLink
from artemis_amqp.engine.types import Symbol
from artemis_py.core.queues.consumer import FAILED, Consumer
from artemis_py.core.queues.cursors.range_reader import RangeReader
from artemis_py.core.queues.reference import Reference
from artemis_py.core.sessions.exchange_subscriptions import subscribed_exchange
from artemis_py.errors import NoSuchQueue, Refusal

if TYPE_CHECKING:
    from artemis_amqp.broker.handler import AmqpHandler

OUTCOMES: Final = tuple([Symbol(f"amqp:{name}:list") for name in ("accepted", "rejected", "released", "modified")])
DEFAULT_OUTCOME: Final = Modified(delivery_failed=True)


class ConsumerEnd(LinkEnd):
    """Our half of a link on which a client receives messages."""

    def __init__(self, handler: "AmqpHandler", link: SenderLink, attach: Attach) -> None:
        super().__init__(handler, link, attach)
        self._link: Final = link
        self._source: Final = attach.source
        self._subscription: Subscription | None = None
        self._outgoing: OutgoingLink | None = None
        self._created: str | None = None
        """The name that the client gave, if what it means was created for this link."""

    @property
    def terminus(self) -> Source | None:
        """The source that the client asked for."""
        return self._source

    # -- attach ------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Find the queue, resume what the link left behind on it, and consume."""
        handler = self.handler
        subscription, answer, filters = self._open_source()
        self._subscription = subscription
        if subscription.queue.keeps_messages:
            answer = evolve(answer, distribution_mode=COPY)
        # What other clients left behind returns to the queue only if this client may consume.
        handler.core_session.check_consumer(subscription.queue, subscription.browse)
        # The link is registered before the queue is asked: the link that had the name may be its only allowed consumer.
        handler.links.register(self)
        handler.manager.termini.release(subscription.queue, self.key)
        resumed = self._take_back(subscription)
        self._outgoing = self._consume(subscription, resumed, filters.range)
        target = self.attach.target
        self._link.accept(
            answer,
            target if isinstance(target, Target) else None,
            unsettled=dict.fromkeys(resumed) if resumed else None,
            properties=None if self._created is None else {CREATED: self._created},
        )
        handler.manager.lifetimes.attached(self.key, subscription.queue.address.name)

    def undo(self) -> None:
        """Remove what was created for a link that is refused."""
        subscription = self._subscription
        if subscription is not None and subscription.is_temporary:
            self.handler.core_session.drop_temporary(subscription.queue, "its link was refused")
        super().undo()

    def _open_source(self) -> tuple[Subscription, Source, SourceFilters]:
        """Return what the link reads from, the source for the answer, and the filters in force."""
        source = self._source
        if source is None:
            return self._find_durable()
        filters = read_filters(source)
        if source.dynamic:
            return self._make_source(source, filters)
        bound = self._exchange_source(source)
        if bound is not None:
            return self._subscribe_to(bound, source, filters)
        name = self._missing(source)
        subscription = open_source(self.handler, self.attach, source, filters)
        self._created = name
        wanted = filters.range
        if wanted is not None and wanted.queue_id not in (None, subscription.queue.id):
            queue = subscription.queue
            raise NoSuchQueue(f"queue '{queue.name}' was created again: its id is {queue.id}")
        return subscription, _answer(source, source.address, filters), filters

    def _exchange_source(self, source: Source) -> ExchangeSource | None:
        """Return what is wanted of an exchange, if the address of the source means one."""
        name, prefixed, _ = self.handler.split_source(source.address or "")
        return None if prefixed is not None else read_exchange_source(self.handler.core_session, source, name)

    def _subscribe_to(
        self, wanted: ExchangeSource, source: Source, filters: SourceFilters
    ) -> tuple[Subscription, Source, SourceFilters]:
        """Subscribe to an exchange; the binding has the selector, and the answer the filters that are in force."""
        if filters.range is not None:
            raise errors.Condition(errors.INVALID_FIELD, "a new subscription has no messages, hence no range of them")
        selector = filters.combined(self.handler.container_id)
        subscription = open_exchange_source(self.handler, self.attach, source, wanted, selector)
        answer = _answer(source, source.address, filters)
        answer = evolve(answer, filter={**filters.applied, **wanted.applied} or None, distribution_mode=COPY)
        priority = link_priority(self.attach, self.handler.split_source(source.address or "")[2])
        return Subscription(of=subscription, priority=priority), answer, filters

    def _missing(self, source: Source) -> str | None:
        """Return the name of a source that does not exist yet; None if it does.

        A misspelt name makes a queue that no message will ever come to, so the client is told of it.
        """
        text, _, _ = self.handler.split_source(source.address or "")
        name, queue_name = self.handler.core_session.subscriptions.parse(text)
        sessions = self.handler.services.sessions
        if sessions.find_queue(queue_name or name) is not None:
            return None
        return text if queue_name or sessions.find_address(name) is None else None

    def _find_durable(self) -> tuple[Subscription, Source, SourceFilters]:
        """Return the durable subscription of the link's name: its client only asks what we remember of it."""
        found = find_durable(self.handler, self.attach)
        if found is None:
            text = f"there is no durable subscription '{self.attach.name}' of '{self.handler.container_id}'"
            raise NoSuchQueue(text)
        name = subscribed_exchange(self.handler.core_session, found.queue) or found.queue.address.name
        answer = Source(address=name, durable=UNSETTLED_STATE, expiry_policy=NEVER, distribution_mode=COPY)
        return found, answer, SourceFilters()

    def _make_source(self, source: Source, filters: SourceFilters) -> tuple[Subscription, Source, SourceFilters]:
        """Create a node for the link; return as `_open_source`."""
        handler = self.handler
        if filters.range is not None:
            raise errors.Condition(errors.INVALID_FIELD, "a new queue has no messages, hence no range of them")
        name, properties = create_node(self, source)
        answer = evolve(_answer(source, name, filters), dynamic_node_properties=properties)
        return open_node(handler, name, source, filters.combined(handler.container_id)), answer, filters

    def _take_back(self, subscription: Subscription) -> dict[bytes, Reference]:
        """Return deliveries from before a re-attach that both sides remember; all others return to the queue."""
        suspended = self.handler.manager.termini.resume(self.key)
        if not isinstance(suspended, SuspendedSource):
            return {}
        resumed: dict[bytes, Reference] = {}
        if suspended.queue is subscription.queue:
            known = self.attach.unsettled or {}
            for tag, reference in suspended.unsettled.items():
                if tag in known and reference.outstanding is suspended.holder.outstanding:
                    suspended.holder.relinquish(reference)
                    resumed[tag] = reference
        suspended.give_back()
        return resumed

    def _consume(
        self, subscription: Subscription, resumed: dict[bytes, Reference], wanted: SequenceRange | None
    ) -> OutgoingLink:
        """Create a consumer of the core that begins with the resumed deliveries."""
        attach, source, link = self.attach, self._source, self._link
        default_outcome = DEFAULT_OUTCOME if source is None else source.default_outcome or DEFAULT_OUTCOME
        outgoing = OutgoingLink(self.handler, link, default_outcome, attach.max_message_size or 0)
        try:
            consumer = self.handler.core_session.consume(
                subscription.queue,
                outgoing.deliveries,
                subscription.filter,
                subscription.browse,
                subscription.priority,
                presettled=attach.snd_settle_mode == 1,
                cursor=None if wanted is None else RangeReader(wanted.start, wanted.stop),
            )
        except Refusal:
            for reference in resumed.values():
                reference.queue.give_back(reference, FAILED)
            raise
        outgoing.start(consumer)
        for tag, reference in resumed.items():
            consumer.adopt(reference)
            outgoing.plan_resumption(tag, reference, (attach.unsettled or {}).get(tag))
        link.handler = outgoing
        return outgoing

    # -- while it is attached ------------------------------------------------------------------------------------

    def check_rights(self) -> None:
        """Raise NotAuthorized if the client's new rights do not allow this link."""
        if self._outgoing is not None and self._outgoing.consumer is not None:
            consumer = self._outgoing.consumer
            self.handler.core_session.check_consumer(consumer.queue, consumer.is_browser)

    def find_room(self) -> None:
        """Continue to deliver: there is room for output again."""
        outgoing = self._outgoing
        if outgoing is not None and outgoing.consumer is not None and outgoing.consumer.blocked:
            outgoing.go_on()

    # -- detach ------------------------------------------------------------------------------------------------

    def leave(self, parting: Parting) -> None:
        """Return unsettled deliveries to the queue, unless the client may still settle or resume them."""
        lingers = False
        outgoing = self._outgoing
        if outgoing is not None and outgoing.consumer is not None:
            consumer = outgoing.consumer
            outgoing.stop()
            if not consumer.browse and parting not in (Parting.CLOSED, Parting.REMOVED):
                lingers = self._keep_deliveries(outgoing, consumer, parting)
            self.handler.core_session.close_consumer(consumer, parting is Parting.LOST)
        if parting is Parting.DETACHED and not lingers:
            self.link.session.drop_deliveries(self.link)
        self.depart(parting)
        if not lingers:
            self._end_subscription(is_closed=parting is Parting.CLOSED)

    def _keep_deliveries(self, outgoing: OutgoingLink, consumer: Consumer, parting: Parting) -> bool:
        """Keep deliveries that the client did not settle; True if its session still knows them."""
        link, source = self._link, self._source
        unsettled = complete_deliveries(link)
        if not unsettled or self._subscription is None:
            return False
        lives = parting is Parting.DETACHED
        if lives and may_linger(source):
            terminus = SuspendedSource(consumer, unsettled)
            ended = partial(self._end_subscription, is_closed=False)
            lingering = Lingering(self.handler, link, self.key, outgoing, terminus, source, ended)
            self.handler.links.lingering[link] = lingering
            if self._subscription.is_temporary:
                # No consumer will ever read what arrives from now on.
                self._subscription.queue.enabled = False
            lingering.start()
            return True
        is_wanted = any(other is not consumer and not other.browse for other in consumer.queue.consumers)
        if not lives and not is_wanted and resumption_timeout_s(source) != 0:
            terminus = SuspendedSource(consumer, unsettled)
            terminus.failed = parting is Parting.LOST
            self.suspend(terminus)
        return False

    def _end_subscription(self, is_closed: bool) -> None:
        """Delete the queue if it existed for this link."""
        subscription = self._subscription
        if subscription is None:
            return
        handler = self.handler
        subscriptions = handler.core_session.subscriptions
        try:
            if is_closed:
                subscriptions.unsubscribe(subscription.of, "its client unsubscribed")
            else:
                subscriptions.leave(subscription.of, "its last consumer left")
        except Refusal as refusal:
            template = "subscription not deleted: queue=%s reason=%s"
            handler.brake.warning(handler.source, template, subscription.queue.name, refusal)


def _answer(source: Source, name: str | None, filters: SourceFilters) -> Source:
    """Return the source that we really serve: filters that are applied, and the outcomes we understand."""
    return Source(
        address=name,
        durable=source.durable,
        expiry_policy=source.expiry_policy,
        timeout=source.timeout,
        dynamic=source.dynamic,
        dynamic_node_properties=source.dynamic_node_properties,
        distribution_mode=source.distribution_mode,
        filter=filters.applied or None,
        default_outcome=source.default_outcome if source.default_outcome is not None else DEFAULT_OUTCOME,
        outcomes=source.outcomes or OUTCOMES,
        capabilities=source.capabilities,
    )
