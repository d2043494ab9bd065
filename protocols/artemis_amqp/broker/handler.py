"""What one AMQP connection means to the broker: logins, links and their ends.

The engine (`connection`, `session`, `link`) knows what may come when; this module knows what it is for. Producing,
consuming and transactions have modules of their own.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from attrs import evolve

from artemis_amqp import extensions
from artemis_amqp.broker import sole
from artemis_amqp.broker.addressing import (
    TOPIC_CAPABILITIES,
    Prefixes,
    SourceFilters,
    missing_prefix,
    read_filters,
    routing_type_of,
)
from artemis_amqp.broker.consumers import OutgoingLink
from artemis_amqp.broker.coordinator import CoordinatorLink, Transactions
from artemis_amqp.broker.coordinator import answer as coordinator_answer
from artemis_amqp.broker.lifetimes import Departures, Ending, check_terminus, node_properties, read_policy
from artemis_amqp.broker.lingering import (
    NEVER,
    UNSETTLED_LIMIT,
    Lingering,
    complete_deliveries,
    may_linger,
    resumption_timeout_s,
    seconds,
)
from artemis_amqp.broker.producers import IncomingLink
from artemis_amqp.broker.subscriptions import Afterlife, Subscription, find_durable, open_source
from artemis_amqp.broker.termini import UNSETTLED_STATE, LinkKey, SuspendedSource, SuspendedTarget
from artemis_amqp.engine import errors
from artemis_amqp.engine.connection import AmqpConnection
from artemis_amqp.engine.limits import LINK_BYTES
from artemis_amqp.engine.link import Link
from artemis_amqp.engine.performatives import (
    AmqpError,
    Attach,
    Begin,
    Close,
    Coordinator,
    Detach,
    End,
    Modified,
    Open,
    Source,
    Target,
)
from artemis_amqp.engine.receiver import ReceiverLink
from artemis_amqp.engine.sender import SenderLink
from artemis_amqp.engine.session import AmqpSession
from artemis_amqp.engine.types import Symbol
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.consumer import FAILED, Consumer
from artemis_py.core.queues.cursors.range_reader import Span
from artemis_py.core.queues.reference import Reference
from artemis_py.core.runtime.access import Subject
from artemis_py.core.runtime.background import SLICE_UNITS, Steps
from artemis_py.core.runtime.buffers import PartialInput
from artemis_py.core.runtime.meter import LINK_UNITS
from artemis_py.core.services.staging import Stage
from artemis_py.core.sessions.session import Producer, Session
from artemis_py.errors import MalformedFrame, NoSuchQueue, NotAuthorized, Refusal
from artemis_py.peers import address_of
from artemis_py.protocol import ConnectionContext, LoginOutcome, LoginResult, SaslExchange

if TYPE_CHECKING:
    from artemis_amqp.broker.manager import AmqpProtocolManager, Parameters

DELAYED_DELIVERY: Final = Symbol("DELAYED_DELIVERY")
OFFERED: Final = (
    sole.SOLE_CONNECTION,
    DELAYED_DELIVERY,
    Symbol("SHARED-SUBS"),
    Symbol("ANONYMOUS-RELAY"),
    extensions.STAGE,
    extensions.SEQUENCE_RANGE,
)
_ESTABLISHMENT_FAILED: Final = Symbol("amqp:connection-establishment-failed")
_ANONYMOUS: Final = "ANONYMOUS"

_ACCEPTED: Final = Symbol("amqp:accepted:list")
_REJECTED: Final = Symbol("amqp:rejected:list")
OUTCOMES: Final = (_ACCEPTED, _REJECTED, Symbol("amqp:released:list"), Symbol("amqp:modified:list"))
DEFAULT_OUTCOME: Final = Modified(delivery_failed=True)

# SASL outcome codes (AMQP 1.0 §5.3.3.6).
_SASL_OK: Final = 0
_SASL_AUTH: Final = 1
_SASL_SYS: Final = 2
_SASL_SYS_TEMP: Final = 4


class LinkEnd:
    """Our half of one attached link."""

    def __init__(self, handler: "AmqpHandler", link: Link, key: LinkKey, attach: Attach) -> None:
        self.handler: Final = handler
        self.link: Final = link
        self.key: Final = key
        self.attach: Final = attach
        self.outgoing: OutgoingLink | None = None
        self.incoming: IncomingLink | None = None
        self.coordinator: CoordinatorLink | None = None
        self.subscription: Subscription | None = None
        self.dynamic_node: str | None = None
        self.stage: Stage | None = None

    def stolen(self) -> None:
        """Another attach took our name (AMQP 1.0 §2.6.1)."""
        handler = self.handler
        handler.brake.info(handler.source, "link stolen: container=%s link=%s", self.key[0], self.key[2])
        self.handler.steal(self)


class AmqpHandler:
    """One AMQP connection; what the transport and the engine hold on to."""

    def __init__(self, manager: "AmqpProtocolManager", context: ConnectionContext, parameters: "Parameters") -> None:
        self.manager: Final = manager
        self.context: Final = context
        self.parameters: Final = parameters
        self.prefixes: Final[Prefixes] = parameters.prefixes
        self.postoffice: Final = manager.postoffice
        self.brake: Final = manager.brake
        self.source: Final = address_of(context.peer)
        """Whose lines in the log are counted together."""
        self.stores: Final[bool] = manager.postoffice.storage.is_durable
        self.container_id: str = ""
        self.sole_policy: sole.Policy | None = None
        """What the client asked to become of other connections of its container."""
        self._input: Final = PartialInput(manager.postoffice.account)
        self.coordinator: Final = Transactions(self)
        self.engine: Final = AmqpConnection(
            self,
            parameters.limits(context),
            is_client=False,
            container_id=manager.postoffice.options.name,
            meter=manager.postoffice.hub.meter,
        )
        self.engine.login.is_required = _ANONYMOUS not in context.authenticator.mechanisms(context)
        self._subject: Subject | None = None
        self._session: Session | None = None
        self._exchange: SaslExchange | None = None
        self._is_logging_in = False
        self._ends: dict[Link, LinkEnd] = {}
        self._departures: Final = Departures(manager.lifetimes, manager.termini)
        self.lingering: Final[dict[Link, Lingering]] = {}
        """Detached links of whose deliveries their clients may still speak."""
        self.turn: int = 0
        """Grows whenever the answers that were gathered are handed to the store."""
        self._durable: list[Callable[[], None]] = []
        self._is_lost = False
        self._is_leaving = False
        """The core's session is being closed, or it was."""
        self._has_warned_of_prefix = False

    @property
    def core_session(self) -> Session:
        """The core's session of this connection; there is one once it is open."""
        session = self._session
        assert session is not None
        return session

    @property
    def user(self) -> str | None:
        """Who logged in; None for a client without a name."""
        return None if self._subject is None else self._subject.user

    @property
    def arriving_count(self) -> int:
        """Large messages that have arrived in part."""
        return sum(end.incoming is not None and end.incoming.is_receiving for end in self._ends.values())

    # -- the transport's side --------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether everything was said."""
        return self.engine.closed

    @property
    def logged_in(self) -> bool:
        """Whether the client is known and has opened its connection."""
        return self._session is not None

    def receive_data(self, data: bytes, now: float) -> None:
        """Take bytes; answers that wait for the store are asked for once per call."""
        self.engine.receive_data(data, now)
        self._count_input()
        self.manager.lifetimes.run()
        self._ask_store()

    def _count_input(self) -> None:
        """Count what is kept of it, and go no further with a message whose rest would be too much."""
        engine = self.engine
        if not self._input.update(engine.kept_bytes) and not (engine.closed or engine.has_input):
            self._close_core(failed=True)
            engine.close(
                AmqpError(errors.RESOURCE_LIMIT_EXCEEDED, "the broker has no memory for the rest of this message")
            )

    @property
    def has_input(self) -> bool:
        """Whether frames wait for another turn."""
        return self.engine.has_input

    def work(self, now: float) -> None:
        """Go on with them."""
        self.engine.work(now)
        self._count_input()
        self.manager.lifetimes.run()
        self._ask_store()

    def data_to_send(self) -> bytes:
        """Take the output."""
        return self.engine.data_to_send()

    def next_deadline(self) -> float | None:
        """When a heartbeat is due, or the client's silence gets too long."""
        return self.engine.next_deadline()

    def handle_deadline(self, now: float) -> None:
        """Heartbeats and the idle time-out."""
        self.engine.handle_deadline(now)

    def pause(self) -> None:
        """The client does not read."""
        self.engine.pause()

    def resume(self) -> None:
        """It reads again."""
        self.engine.resume()

    def shutdown(self, reason: str) -> None:
        """Say goodbye: consumers are detached by the close, what they hold returns to its queues."""
        if not self.engine.closed:
            self._close_core(failed=False)
            self.engine.close(AmqpError(errors.CONNECTION_FORCED, reason))

    def connection_lost(self) -> None:
        """The socket is gone."""
        self._is_lost = True
        self._input.update(0)
        self._close_core(failed=True)
        self.manager.forget(self)

    def wake(self) -> None:
        """There is output outside of a call from the transport."""
        self.context.wake()

    # -- durable answers ---------------------------------------------------------------------------------------

    def when_durable(self, answer: Callable[[], None]) -> None:
        """Write this answer once everything that was put so far is durable."""
        self._durable.append(answer)

    def _ask_store(self) -> None:
        if self._durable:
            answers, self._durable = self._durable, []
            self.turn += 1
            self.postoffice.storage.when_durable(lambda: self._stored(answers), self._store_failed)

    def _stored(self, answers: list[Callable[[], None]]) -> None:
        if self._is_lost or self.engine.closed:
            return
        for answer in answers:
            answer()
        self.wake()

    def _store_failed(self, reason: str) -> None:
        """Something will never be answered, and nobody knows whether a restart brings it back: say that, and end."""
        if not self._is_lost and not self.engine.closed:
            text = f"the store failed: {reason}; what was not answered may be stored or not"
            self.end(AmqpError(errors.INTERNAL_ERROR, text))

    # -- login -----------------------------------------------------------------------------------------------

    def on_sasl_header(self) -> None:
        """The client wants to authenticate: name the mechanisms."""
        self.engine.login.offer(list(self.context.authenticator.mechanisms(self.context)))

    def on_sasl_init(self, mechanism: str, initial_response: bytes | None, hostname: str | None) -> None:
        """The client chose a mechanism."""
        self._exchange = self.context.authenticator.begin(mechanism, self.context)
        if self._exchange is None:
            template = "login refused: peer=%s mechanism=%s is not offered"
            self.brake.info(self.source, template, self.context.peer, mechanism)
            self.engine.login.finish(_SASL_AUTH, b"")
            return
        self._exchange.respond(initial_response, self._challenge, self._logged_in)

    def on_sasl_response(self, data: bytes) -> None:
        """The client answered a challenge."""
        if self._exchange is not None:
            self._exchange.respond(data, self._challenge, self._logged_in)

    def _challenge(self, data: bytes) -> None:
        if not self.engine.closed and not self._is_lost:
            self.engine.login.challenge(data)
            self.wake()

    def _logged_in(self, result: LoginResult) -> None:
        if self.engine.closed or self._is_lost:
            return
        self._exchange = None
        if result.outcome is LoginOutcome.OK:
            self._subject = result.subject
            self.engine.login.finish(_SASL_OK, result.data)
        else:
            code = _SASL_AUTH if result.outcome is LoginOutcome.BAD_CREDENTIALS else _SASL_SYS_TEMP
            self.engine.login.finish(code, b"")
        self._ask_store()
        self.wake()

    # -- connection --------------------------------------------------------------------------------------------

    def on_open(self, opening: Open) -> None:
        """The client opens; without SASL before it must be welcome anonymously."""
        self.container_id = opening.container_id
        if self._subject is not None:
            self._opened(opening, self._subject)
            return

        def done(result: LoginResult) -> None:
            if self.engine.closed or self._is_lost:
                return
            if result.outcome is LoginOutcome.OK and result.subject is not None:
                self._subject = result.subject
                self._opened(opening, result.subject)
            else:
                self._refuse(AmqpError(errors.UNAUTHORIZED_ACCESS, "log in with SASL: anonymous access is not allowed"))
            self._ask_store()
            self.wake()

        self.context.authenticator.login(None, None, self.context, done)

    def _opened(self, opening: Open, subject: Subject) -> None:
        others = self.manager.connections_of(self.container_id, self)
        self.sole_policy = sole.wanted(opening)
        policy = sole.in_force(self.sole_policy, [other.sole_policy for other in others])
        if any(other.user != subject.user for other in others) and policy is not None:
            # A container-id is no secret: nobody closes the connections of another user with it.
            policy = sole.Policy.REFUSE
        if others and policy is sole.Policy.REFUSE:
            self._refuse(sole.taken(self.container_id))
            return
        if policy is sole.Policy.CLOSE_EXISTING:
            for other in others:
                other.end(sole.taken_over())
        self._session = Session(self.postoffice, subject, self.container_id, self.context.peer, "AMQP")
        self._session.client = self
        self.manager.remember(self)
        self.engine.send_open(self._our_open(sole.answer(self.sole_policy)))
        template = "connection opened: peer=%s user=%s container=%s"
        self.brake.info(self.source, template, self.context.peer, subject.name, self.container_id)

    def user_removed(self, reason: str) -> None:
        """The client may not be here any more."""
        if not self.engine.closed:
            self.end(AmqpError(errors.UNAUTHORIZED_ACCESS, reason))

    def rights_changed(self) -> None:
        """Detach the links that the client may not have any more."""
        session = self._session
        if session is None or self.engine.closed:
            return
        self._subject = session.subject
        for end in list(self._ends.values()):
            outgoing, incoming = end.outgoing, end.incoming
            try:
                if outgoing is not None and outgoing.consumer is not None:
                    session.check_consumer(outgoing.consumer.queue, outgoing.consumer.browse)
                if incoming is not None:
                    incoming.check_rights()
            except NotAuthorized as error:
                self.detach(end.link, errors.to_amqp(error))

    def end(self, error: AmqpError) -> None:
        """Close this connection from our side."""
        self._close_core(failed=False)
        self.engine.close(error)
        self.wake()

    def _refuse(self, error: AmqpError) -> None:
        """Refuse a connection: open first, then close (reference/amqp10 §5.1)."""
        self.engine.send_open(self._our_open({_ESTABLISHMENT_FAILED: True}))
        self.engine.close(error)

    def _our_open(self, extra: dict[Symbol, object]) -> Open:
        properties: dict[Symbol, object] = {
            Symbol("product"): "artemis_py",
            Symbol("version"): self.manager.version,
        }
        properties |= extra
        return self.engine.our_open(self.postoffice.options.name, OFFERED, properties)

    def on_begin(self, session: AmqpSession, begin: Begin) -> None:
        """The engine answers; there is nothing to decide."""

    def on_end(self, session: AmqpSession, end: End) -> None:
        """A session ends: its links are detached, not closed (AMQP 1.0 §2.5.6)."""
        for link in list(self._ends):
            if link.session is session:
                self._detached(link, closed=False, failed=False)
        for lingering in list(self.lingering.values()):
            if lingering.session is session:
                lingering.session_ended(failed=False)
        self._departures.ended(Ending.SESSION, session)

    def on_close(self, close: Close | None) -> None:
        """The client says goodbye."""
        self._close_core(failed=False)

    def on_error(self, error: AmqpError) -> None:
        """The client broke the protocol; the engine has said so."""
        template = "protocol error: peer=%s condition=%s reason=%s"
        self.brake.warning(self.source, template, self.context.peer, error.condition, error.description)
        self._close_core(failed=True)

    def on_writable(self) -> None:
        """Output went out: consumers that waited for room go on."""
        for end in self._ends.values():
            outgoing = end.outgoing
            if outgoing is not None and outgoing.consumer is not None and outgoing.consumer.blocked:
                outgoing.go_on()

    # -- links -----------------------------------------------------------------------------------------------

    def on_attach(self, link: Link, attach: Attach) -> None:
        """A client attaches a link: it gets what it asked for, or a refusal with the reason."""
        self.manager.lifetimes.run()
        self.postoffice.meter.work += LINK_UNITS
        offset, definitions = len(self.engine.outbox.chunks), self.postoffice.storage.definitions
        self._attach(link, attach)
        self._hold_answer(offset, definitions)

    def _hold_answer(self, offset: int, definitions: int) -> None:
        """Send what was written from `offset` on when the queues made or deleted meanwhile are durable (P10).

        The connection's later output waits behind it, so everything keeps its order.
        """
        if self.postoffice.storage.definitions != definitions:
            self.engine.outbox.put_gate(offset)
            self.when_durable(self.engine.outbox.open_gate)

    def _attach(self, link: Link, attach: Attach) -> None:
        user = self.core_session.subject.user
        end = LinkEnd(self, link, (self.container_id, attach.role, attach.name, user), attach)
        self._check_prefix(attach.target if isinstance(link, ReceiverLink) else attach.source)
        try:
            for terminus in (attach.source, attach.target):
                if isinstance(terminus, Source | Target):
                    check_terminus(terminus)
            self.postoffice.hub.check_tables(f"link '{attach.name}'")
            if isinstance(link, ReceiverLink):
                self._attach_producer(end, link, attach)
            else:
                assert isinstance(link, SenderLink)
                self._attach_consumer(end, link, attach)
        except (Refusal, MalformedFrame, errors.Condition) as error:
            template = "link refused: peer=%s link=%s reason=%s"
            self.brake.info(self.source, template, self.context.peer, attach.name, error)
            self._clean_up(end)
            if end.subscription is not None and end.subscription.afterlife is Afterlife.TEMPORARY:
                self.core_session.delete_temporary(end.subscription.queue.name)
            if end.dynamic_node is not None:
                self.manager.lifetimes.gone(end.key)
                self.core_session.delete_temporary(end.dynamic_node)
            link.refuse(errors.to_amqp(error))

    def _check_prefix(self, terminus: Source | Target | Coordinator | None) -> None:
        """Warn, once per connection, of a name that probably means something else than it says."""
        if self._has_warned_of_prefix or not isinstance(terminus, Source | Target) or terminus.address is None:
            return
        remedy = missing_prefix(terminus.address, self.prefixes)
        if remedy is not None:
            self._has_warned_of_prefix = True
            self.brake.warning(
                self.source,
                "prefix taken as part of the address: peer=%s address=%s; "
                "if it should be cut off, add %s to the parameters of the acceptor",
                self.context.peer,
                terminus.address,
                remedy,
            )

    def _register(self, end: LinkEnd) -> None:
        self.manager.termini.attach(end.key, end)
        self.postoffice.hub.tables.occupy(LINK_BYTES)
        self._ends[end.link] = end

    def _unregister(self, link: Link) -> LinkEnd | None:
        end = self._ends.pop(link, None)
        if end is not None:
            self.postoffice.hub.tables.vacate(LINK_BYTES)
        return end

    def _attach_producer(self, end: LinkEnd, link: ReceiverLink, attach: Attach) -> None:
        target = attach.target
        outcomes = () if attach.source is None else attach.source.outcomes
        supports_rejected = not outcomes or _REJECTED in outcomes
        if isinstance(target, Coordinator):
            coordinator = end.coordinator = CoordinatorLink(self, link, supports_rejected)
            link.handler = coordinator
            self._register(end)
            link.accept(attach.source, coordinator_answer(target), max_message_size=self.parameters.max_message_size)
            coordinator.start()
            return
        if target is None:
            # A sender that only asks what we remember of its terminus (reference/amqp10 §9).
            raise NoSuchQueue(f"nothing is known of a target for link '{attach.name}'")
        answer = target
        producer = None
        if target.dynamic:
            name, properties = self._create_node(end, target)
            answer = evolve(target, address=name, dynamic_node_properties=properties)
            producer = self.core_session.producer(name, routing_type_of(target.capabilities))
        elif target.address:
            name, prefixed = self.prefixes.strip(target.address)
            routing_type = routing_type_of(target.capabilities)
            producer = self.core_session.producer(name, prefixed if routing_type is None else routing_type)
        staged = self._stage(end, attach, producer)
        incoming = end.incoming = IncomingLink(self, link, producer, supports_rejected)
        link.handler = incoming
        self._register(end)
        if producer is not None:
            producer.hold()
        suspended = self.manager.termini.resume(end.key)
        if isinstance(suspended, SuspendedTarget) and attach.unsettled:
            # The same dictionary: the client may also settle them by what the link's former session called them.
            incoming.unsettled = suspended.unsettled
            for tag in [tag for tag in suspended.unsettled if tag not in attach.unsettled]:
                del suspended.unsettled[tag]
        link.accept(
            attach.source,
            answer,
            max_message_size=self.parameters.max_message_size,
            offered_capabilities=(DELAYED_DELIVERY,) if DELAYED_DELIVERY in attach.desired_capabilities else (),
            unsettled=errors.decode_states(incoming.unsettled) if incoming.unsettled else None,
            properties=staged,
        )
        self.manager.lifetimes.attached(end.key, "" if producer is None else producer.name)
        incoming.start()

    def _stage(self, end: LinkEnd, attach: Attach, producer: Producer | None) -> dict[Symbol, object] | None:
        """Open the stage that the link property `artemis:stage` asks for; the answer says how much is in it.

        Raises Refusal, errors.Condition.
        """
        wanted = (attach.properties or {}).get(extensions.STAGE)
        if wanted is None:
            return None
        names = _stage_names(wanted)
        if names is None or producer is None or producer.address is None or producer.queue_name:
            text = "artemis:stage is a list of writer, epoch and attempt, on a link whose target is an address"
            raise errors.Condition(errors.INVALID_FIELD, text)
        writer, epoch, attempt = names
        user = self.core_session.subject.name
        end.stage = self.postoffice.staging.open(user, writer, epoch, attempt, producer.name, end)
        producer.stage(end.stage)
        return {extensions.STAGED: end.stage.count, extensions.REFUSED: end.stage.refused}

    def _create_node(self, end: LinkEnd, terminus: Source | Target) -> tuple[str, dict[Symbol, object]]:
        """A dynamic node: a temporary queue, or a temporary address for topics; its name and what it is.

        Raises Refusal, errors.Condition.
        """
        asked = terminus.dynamic_node_properties
        policy = read_policy(asked)
        is_topic = any(capability in TOPIC_CAPABILITIES for capability in terminus.capabilities)
        properties = node_properties(asked, policy, is_topic)
        if is_topic:
            name = self.core_session.create_temporary_address(RoutingType.MULTICAST).name
        else:
            name = self.core_session.create_temporary_queue(RoutingType.ANYCAST).name
        end.dynamic_node = name
        self.manager.lifetimes.create(name, policy, end.key, self.core_session)
        return name, properties

    def _attach_consumer(self, end: LinkEnd, link: SenderLink, attach: Attach) -> None:
        source = attach.source
        filters = SourceFilters()
        if source is None:
            queue = find_durable(self, attach)
            if queue is None:
                raise NoSuchQueue(f"there is no durable subscription '{attach.name}' of '{self.container_id}'")
            answer = Source(
                address=queue.address.name, durable=UNSETTLED_STATE, expiry_policy=NEVER, distribution_mode="copy"
            )
            subscription = Subscription(queue=queue, afterlife=Afterlife.UNSUBSCRIBE)
        elif source.dynamic:
            filters = read_filters(source)
            if filters.range is not None:
                raise errors.Condition(errors.INVALID_FIELD, "a new queue has no messages, hence no range of them")
            name, properties = self._create_node(end, source)
            answer = evolve(_with_source(source, name, filters), dynamic_node_properties=properties)
            if routing_type_of(source.capabilities) is RoutingType.MULTICAST:
                queue = self.core_session.create_temporary_queue(RoutingType.MULTICAST, name)
                afterlife = Afterlife.TEMPORARY
            else:
                queue = self.postoffice.queue(name)
                afterlife = Afterlife.KEEP
            subscription = Subscription(queue=queue, filter=filters.combined(self.container_id), afterlife=afterlife)
        else:
            filters = read_filters(source)
            subscription = open_source(self, attach, source, filters)
            answer = _with_source(source, source.address, filters)
            if filters.range is not None and filters.range.queue_id not in (None, subscription.queue.id):
                raise NoSuchQueue(f"queue '{subscription.queue.name}' was made anew: its id is {subscription.queue.id}")
        end.subscription = subscription
        # What others left behind on the queue goes back to it only for a client that may consume.
        self.core_session.check_consumer(subscription.queue, subscription.browse)
        # The name is ours before the queue is asked: a former holder may be its only allowed consumer.
        self._register(end)
        self.manager.termini.release(subscription.queue, end.key)
        resumed = self._take_back(end, subscription, attach)
        default_outcome = DEFAULT_OUTCOME if source is None else source.default_outcome or DEFAULT_OUTCOME
        outgoing = OutgoingLink(self, link, default_outcome, attach.max_message_size or 0)
        try:
            consumer = self.core_session.consume(
                subscription.queue,
                outgoing.deliveries,
                subscription.filter,
                subscription.browse,
                subscription.priority,
                presettled=attach.snd_settle_mode == 1,
                span=None if filters.range is None else Span(filters.range.start, filters.range.stop),
            )
        except Refusal:
            for reference in resumed.values():
                reference.queue.give_back(reference, FAILED)
            raise
        outgoing.start(consumer)
        for tag, reference in resumed.items():
            consumer.adopt(reference)
            outgoing.plan_resumption(tag, reference, (attach.unsettled or {}).get(tag))
        end.outgoing = outgoing
        link.handler = outgoing
        link.accept(
            answer,
            attach.target if isinstance(attach.target, Target) else None,
            unsettled=dict.fromkeys(resumed) if resumed else None,
        )
        self.manager.lifetimes.attached(end.key, subscription.queue.address.name)

    def _take_back(self, end: LinkEnd, subscription: Subscription, attach: Attach) -> dict[bytes, Reference]:
        """Deliveries of this link's former life that both sides remember; all others return to the queue."""
        suspended = self.manager.termini.resume(end.key)
        if not isinstance(suspended, SuspendedSource):
            return {}
        resumed: dict[bytes, Reference] = {}
        if suspended.queue is subscription.queue:
            known = attach.unsettled or {}
            for tag, reference in suspended.unsettled.items():
                if tag in known and suspended.holder.outstanding.get(reference.sequence) is reference:
                    suspended.holder.relinquish(reference)
                    resumed[tag] = reference
        suspended.give_back()
        return resumed

    def on_detach(self, link: Link, detach: Detach) -> None:
        """The client detaches or closes a link; the engine answers."""
        self.postoffice.meter.work += LINK_UNITS
        offset, definitions = len(self.engine.outbox.chunks), self.postoffice.storage.definitions
        self._detached(link, detach.closed, failed=False, lives=not detach.closed and detach.error is None)
        self.manager.lifetimes.run()
        self._hold_answer(offset, definitions)

    def detach(self, link: Link, error: AmqpError) -> None:
        """Detach a link from our side, for the reason given; of a link that is detached already the session ends."""
        if link.is_attached:
            self._detached(link, closed=False, failed=False, suspends=False)
            link.detach(error)
            self.wake()
        elif link in self.lingering:
            link.session.end(error)

    def steal(self, end: LinkEnd) -> None:
        """Another link took this one's name."""
        self._detached(end.link, closed=False, failed=False)
        end.link.detach(AmqpError(errors.STOLEN, "the link was attached elsewhere under the same name"))
        self.wake()

    def _detached(self, link: Link, closed: bool, failed: bool, suspends: bool = True, lives: bool = False) -> None:
        """One link is gone; decide about everything it held. `lives`: its session goes on to know its deliveries."""
        end = self._unregister(link)
        if end is None:
            return
        self.manager.termini.detach(end.key, end)
        session = self.core_session
        outgoing = end.outgoing
        lingers = False
        if outgoing is not None and outgoing.consumer is not None:
            consumer = outgoing.consumer
            outgoing.stop()
            if not closed and suspends and not consumer.browse:
                lingers = self._keep_deliveries(end, outgoing, consumer, failed, lives)
            session.close_consumer(consumer, failed)
        if lives and not lingers and isinstance(link, SenderLink):
            link.session.drop_deliveries(link)
        if end.coordinator is not None:
            end.coordinator.close()
        if end.incoming is not None:
            self._detached_producer(end, end.incoming, suspends and not closed)
        terminus = end.attach.source if end.key[1] else end.attach.target
        if not isinstance(terminus, Coordinator):
            self._departures.left(end.key, end.link.session, terminus, closed or not suspends)
        if end.stage is not None:
            self.postoffice.staging.release(end.stage, end)
        if lingers:
            self._clean_up(end)
            return
        self._end_subscription(end, closed)
        self._clean_up(end)

    def _keep_deliveries(
        self, end: LinkEnd, outgoing: OutgoingLink, consumer: Consumer, failed: bool, lives: bool
    ) -> bool:
        """Keep what the client has and did not settle; true if its session goes on to know that."""
        link = end.link
        assert isinstance(link, SenderLink)
        unsettled = complete_deliveries(link)
        source = end.attach.source
        if not unsettled or end.subscription is None:
            return False
        if lives and may_linger(source):
            terminus = SuspendedSource(consumer, unsettled)
            ended = partial(self._end_subscription, end, False)
            lingering = self.lingering[link] = Lingering(self, link, end.key, outgoing, terminus, source, ended)
            if end.subscription.afterlife is Afterlife.TEMPORARY:
                # Nobody will ever read what comes from now on.
                end.subscription.queue.enabled = False
            lingering.start()
            return True
        timeout_s = 0 if lives else resumption_timeout_s(source)
        if timeout_s != 0 and not any(other is not consumer and not other.browse for other in consumer.queue.consumers):
            terminus = SuspendedSource(consumer, unsettled)
            terminus.failed = failed
            self.manager.termini.suspend(end.key, terminus, seconds(timeout_s))
        return False

    def _detached_producer(self, end: LinkEnd, incoming: IncomingLink, suspends: bool) -> None:
        """Keep outcomes that the client did not settle, if it may come back for them."""
        incoming.stop()
        target = end.attach.target
        timeout_s = resumption_timeout_s(target if isinstance(target, Target) else None)
        if suspends and timeout_s != 0 and incoming.has_unsettled:
            self.manager.termini.suspend(end.key, SuspendedTarget(incoming.unsettled), seconds(timeout_s))
        if len(end.link.session.unsettled_in) > UNSETTLED_LIMIT:
            end.link.session.drop_deliveries(end.link)

    def _end_subscription(self, end: LinkEnd, closed: bool) -> None:
        subscription = end.subscription
        if subscription is None:
            return
        queue = subscription.queue
        if queue.is_deleted or queue.configuration_managed:
            return
        afterlife = subscription.afterlife
        if afterlife is Afterlife.TEMPORARY:
            self.core_session.delete_temporary(queue.name)
        elif not queue.consumers and (
            afterlife is Afterlife.LAST_ONE or (afterlife is Afterlife.UNSUBSCRIBE and closed)
        ):
            try:
                self.core_session.delete_queue(queue.name)
            except Refusal as refusal:
                template = "subscription not deleted: queue=%s reason=%s"
                self.brake.warning(self.source, template, queue.name, refusal)

    def _clean_up(self, end: LinkEnd) -> None:
        """Undo what an attach made for the link alone."""
        self._unregister(end.link)
        self.manager.termini.detach(end.key, end)

    def _close_core(self, failed: bool) -> None:
        """Give everything back to the core; harmless the second time."""
        session = self._session
        if session is None or self._is_leaving:
            return
        self._is_leaving = True
        session.block()
        self.postoffice.hub.slices.start(self._leave(session, failed))

    def _leave(self, session: Session, failed: bool) -> Steps:
        """Each link in its turn: a client may have thousands, with a queue for each."""
        meter = self.postoffice.meter
        end = meter.work + SLICE_UNITS
        for link in list(self._ends):
            self._detached(link, closed=False, failed=failed)
            meter.work += LINK_UNITS
            if meter.work >= end:
                yield None
                end = meter.work + SLICE_UNITS
        for lingering in list(self.lingering.values()):
            lingering.session_ended(failed)
        self._departures.ended(Ending.SESSION)
        self._departures.ended(Ending.CONNECTION)
        self._session = None
        session.close(failed)
        self.manager.lifetimes.connection_closed(session)
        self.brake.info(
            self.source,
            "connection closed: peer=%s user=%s container=%s",
            self.context.peer,
            session.subject.name,
            self.container_id,
        )
        return None


def _stage_names(value: object) -> tuple[str, int, str] | None:
    """Writer, epoch and attempt; None for anything else."""
    match value:
        case [str() as writer, int() as epoch, str() as attempt]:
            return writer, int(epoch), attempt
        case _:
            return None


def _with_source(source: Source, name: str | None, filters: SourceFilters) -> Source:
    """The source we really serve: filters that are applied, and the outcomes we understand."""
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
