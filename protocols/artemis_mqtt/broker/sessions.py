"""All sessions of a broker: taken up, ended, brought back by a restart; and the wills that are due."""

from functools import partial
from typing import TYPE_CHECKING, Final

from artemis_mqtt.broker import records
from artemis_mqtt.broker.deliveries import Subscription
from artemis_mqtt.broker.kinds import OWN, SHARED
from artemis_mqtt.broker.ownership import adopt, expiry_allowed
from artemis_mqtt.broker.parameters import BrokerLimits
from artemis_mqtt.broker.publishing import Publisher
from artemis_mqtt.broker.records import StoredSession, SubscriptionRecord
from artemis_mqtt.broker.sent import Sent, sent
from artemis_mqtt.broker.session import NEVER, ClientSession
from artemis_mqtt.broker.subscriptions import give_back, suspend, unsubscribe
from artemis_mqtt.engine.delivery import Delivery
from artemis_mqtt.engine.flight import RELEASED, SENT, IncomingFlight
from artemis_mqtt.engine.publish import subscription_identifier_property
from artemis_py.core.queues.queue import Queue
from artemis_py.core.runtime.access import Subject
from artemis_py.core.runtime.background import SLICE_UNITS, Steps
from artemis_py.core.sessions.session import Session
from artemis_py.errors import LimitExceeded, Refusal
from artemis_py.logs import LogBrake, named_logger
from artemis_py.protocol import Host

if TYPE_CHECKING:
    from artemis_mqtt.broker.addressing import Names
    from artemis_mqtt.broker.format import MqttFormat

LOGGER: Final = named_logger(__name__)


class Sessions:
    """Sessions by client identifier."""

    def __init__(self, host: Host, names: "Names", format: "MqttFormat", brake: LogBrake, limits: BrokerLimits) -> None:
        self.host: Final = host
        self._brake: Final = brake
        self._limits: Final = limits
        self._names: Final = names
        self._format: Final = format
        self._sessions: dict[str, ClientSession] = {}
        self._ending: dict[str, list[Subscription]] = {}
        """Subscriptions of sessions that are over, by the names of their queues."""
        self.spare: list[Sent] = []
        """Deliveries that are over, for other messages (`Outlet.reuse`). They refer to their last subscription, so the
        list is emptied whenever one ends."""
        self._sharers: dict[str, set[Subscription]] = {}
        """Subscriptions of all sessions, connected or not, by the name of their shared queue."""
        self.claims: dict[tuple[int, int], Delivery] = {}
        """Messages of groups that a member began with before a restart, by queue id and sequence."""
        self.stored_count = 0
        """Sessions that outlive their connections."""
        self._next_number = 1

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def connected_count(self) -> int:
        """Sessions whose client is connected."""
        return sum(session.handler is not None for session in self._sessions.values())

    @property
    def subscription_count(self) -> int:
        """Subscriptions of all sessions."""
        return sum(len(session.subscriptions) for session in self._sessions.values())

    def get(self, client_id: str) -> ClientSession | None:
        """Return the session of a client."""
        return self._sessions.get(client_id)

    # -- connections -----------------------------------------------------------------------------------------

    def open(self, client_id: str, core: Session, clean_start: bool, expiry_s: int) -> tuple[ClientSession, bool]:
        """Return the session of a client that connects, and whether it existed before; no connection has it.

        A session of another user is not handed over: it ends, and a new one begins (`ownership` has the permissions).
        Raises LimitExceeded if a new one would be one too many of those that outlive their connections.
        """
        user = core.subject.user
        session = self._sessions.get(client_id)
        if session is not None:
            adopt(self, session, core)
        if session is not None and session.user != user:
            template = "session of another user ended: client=%s user=%s by=%s"
            self._brake.warning(core.subject.name, template, client_id, session.user, user)
            self.end(session, "another user connected with its identifier")
            session = None
        if session is not None and clean_start:
            self.end(session, "the client asked for a clean start")
            session = None
        if session is not None:
            self._wake(session)
            session.expiry_s = expiry_allowed(self, session, core, expiry_s)
            return session, True
        limit = self._limits.values.max_sessions
        if expiry_s > 0 and 0 <= limit <= self.stored_count:
            raise LimitExceeded(f"the broker keeps {self.stored_count} sessions, which is the limit")
        self.host.check_tables(f"a session of '{client_id}'")
        session = ClientSession(
            self.host.record_storage, self.host.tables, self._next_number, client_id, expiry_s, user
        )
        self._next_number += 1
        self._add(session)
        return session, False

    def _add(self, session: ClientSession) -> None:
        self._sessions[session.client_id] = session
        self.stored_count += session.is_stored

    def _wake(self, session: ClientSession) -> None:
        """Cancel the end and the will: the client is back before its time was over (MQTT 5.0 §3.1.3.2.2)."""
        for timer in (session.expiry_timer, session.will_timer):
            if timer is not None:
                timer.cancel()
        session.expiry_timer = session.will_timer = None
        session.will = None
        session.ended_ms = 0

    def leave(self, session: ClientSession, with_will: bool) -> None:
        """Note that the connection is over; `with_will`: it did not end as it should."""
        session.handler = None
        self.spare.clear()
        suspend(session)
        if not with_will:
            session.will = None
        if session.expiry_s == 0:
            self.end(session, "its connection ended")
            return
        session.ended_ms = self.host.now_ms
        will = session.will
        if will is not None and will.delay_s == 0:
            self._publish_will(session)
        session.save()
        self._plan(session)

    def _plan(self, session: ClientSession) -> None:
        """Plan the end of an absent client's session, and its will."""
        absent_ms = self.host.now_ms - session.ended_ms
        if session.will is not None and (session.expiry_s == NEVER or session.will.delay_s < session.expiry_s):
            left_ms = _left_ms(session.will.delay_s, absent_ms)
            session.will_timer = self.host.after(left_ms, partial(self._will_due, session))
        if session.expiry_s != NEVER:
            left_ms = _left_ms(session.expiry_s, absent_ms)
            session.expiry_timer = self.host.after(left_ms, partial(self.end, session, "it expired"))

    def end(self, session: ClientSession, reason: str) -> None:
        """End a session: publish its will if it is still due, and delete its queues.

        It is over at once, also for a restart that comes before its queues are gone: many go in slices.
        """
        if session.is_over:
            return
        for timer in (session.expiry_timer, session.will_timer):
            if timer is not None:
                timer.cancel()
        if session.will is not None:
            self._publish_will(session)
        del self._sessions[session.client_id]
        self.stored_count -= session.is_stored
        session.will = None
        session.is_over = True
        session.save_end()
        for subscription in session.subscriptions.values():
            self._ending.setdefault(subscription.queue.name, []).append(subscription)
        self.host.background.start(self._end(session, reason))

    def _end(self, session: ClientSession, reason: str) -> Steps:
        meter = self.host.meter
        end = meter.work + SLICE_UNITS
        for subscription in list(session.subscriptions.values()):
            self.finish(subscription.queue.name)
            meter.work += 1
            if meter.work >= end:
                yield None
                end = meter.work + SLICE_UNITS
        session.forget()
        give_back(session)
        for key, delivery in session.awaited.items():
            token = sent(delivery)
            if token is not None and token.subscription.queue.is_deleted:
                self.claims.pop(key, None)
        LOGGER.debug("session ended: client=%s reason=%s", session.client_id, reason)
        return None

    def end_all(self) -> Steps:
        """End all sessions, without their wills, because their virtual host is deleted."""
        for session in list(self._sessions.values()):
            if session.client_id in self._sessions:
                session.will = None
                self.end(session, "its virtual host is deleted")
                yield None
        return None

    def finish(self, queue_name: str) -> None:
        """Delete the remaining queue of an ended session at once: a new subscription needs its name."""
        for subscription in self._ending.pop(queue_name, ()):
            unsubscribe(self, subscription, None, "its session ended")

    # -- wills -------------------------------------------------------------------------------------------------

    def _will_due(self, session: ClientSession) -> None:
        session.will_timer = None
        self._publish_will(session)
        session.save()

    def _publish_will(self, session: ClientSession) -> None:
        """Publish with the rights the client's user has now (MQTT 5.0 §3.1.2.5, §5.4.2)."""
        will = session.will
        session.will = None
        if will is None:
            return
        last_known = Subject(will.user, frozenset(will.roles))
        core = self.host.sessions.open_for_absent(last_known, session.client_id, "will", "MQTT")
        try:
            Publisher(core, self.host, self._names, self._format, self._limits, will.exchange).publish(
                will.topic, will.payload, will.qos, will.retain, will.properties, will.expiry_s
            )
        except Refusal as refusal:
            template = "will not published: client=%s reason=%s"
            self._brake.warning(core.subject.name, template, session.client_id, refusal)
        finally:
            core.close()

    # -- shared subscriptions ------------------------------------------------------------------------------------

    def joined(self, subscription: Subscription) -> None:
        """Count a subscription of a queue; the queue is in use as long as there is one."""
        subscription.queue.subscriber_count += 1
        if subscription.kind == SHARED:
            self._sharers.setdefault(subscription.queue.name, set()).add(subscription)

    def is_last(self, subscription: Subscription) -> bool:
        """Tell whether no other subscription shares its queue."""
        return self._sharers.get(subscription.queue.name, {subscription}) <= {subscription}

    def left(self, subscription: Subscription) -> bool:
        """Stop counting a subscription; True if no other one shares its queue."""
        self.spare.clear()
        subscription.queue.subscriber_count -= 1
        sharers = self._sharers.get(subscription.queue.name)
        if sharers is None:
            return True
        sharers.discard(subscription)
        if sharers:
            return False
        del self._sharers[subscription.queue.name]
        return True

    # -- restart -------------------------------------------------------------------------------------------------

    def restore(self) -> None:
        """Take up what an earlier run of the broker left. Called once, when addresses and queues are there again."""
        queues = {queue.name: queue for queue in self.host.sessions.queues()}
        count = 0
        for stored in records.load(self.host.record_storage):
            self._next_number = max(self._next_number, stored.number + 1)
            if stored.session is None or stored.session.client_id in self._sessions:
                records.forget(self.host.record_storage, stored.keys)
                continue
            session = self._restored(stored, queues)
            count += 1
            if session.expiry_s == 0:
                # It ended with the crash; all that was left is its will.
                self.end(session, "the broker started again")
            else:
                self._plan(session)
        if count:
            LOGGER.info("sessions restored: count=%d", count)

    def _restored(self, stored: StoredSession, queues: dict[str, Queue]) -> ClientSession:
        record = stored.session
        assert record is not None
        session = ClientSession(
            self.host.record_storage,
            self.host.tables,
            stored.number,
            record.client_id,
            record.expiry_s,
            record.user,
        )
        if stored.subscriptions:
            session.is_stored = True  # also if it ended, and only its queues are still to go
        self._add(session)
        session.will = record.will
        # Connected at the crash: that ended the connection, now.
        session.ended_ms = record.ended_ms or self.host.now_ms
        session.incoming = IncomingFlight(stored.incoming)
        for subscription in stored.subscriptions:
            self._restore_subscription(session, subscription, queues)
        outgoing = sorted(stored.outgoing, key=lambda each: each.order)
        by_queue = {each.queue.id: each for each in session.subscriptions.values()}
        for each in outgoing:
            owner = by_queue.get(each.queue_id)
            state = each.state
            delivery: Delivery
            if owner is None:
                # Its queue is gone, and the message with it: PUBREL has the client forget the identifier.
                state = RELEASED
                delivery = Delivery(each.packet_id, 2, state, None, False)
            else:
                delivery = Sent(None, owner, each.order, 2, each.packet_id, state, False)
            session.outgoing.restore(delivery)
            if state == SENT:
                session.awaited[(each.queue_id, each.sequence)] = delivery
                if owner is not None and owner.kind == SHARED:
                    self.claims[(each.queue_id, each.sequence)] = delivery
        session.know(
            max((each.order for each in outgoing), default=0),
            max((each.number for each in stored.subscriptions), default=0),
        )
        return session

    def _restore_subscription(
        self, session: ClientSession, record: SubscriptionRecord, queues: dict[str, Queue]
    ) -> None:
        queue = queues.get(record.queue)
        if queue is None:
            LOGGER.warning(
                "subscription without its queue left out: client=%s filter=%s", session.client_id, record.topic_filter
            )
            session.records.forget_subscription(record.number)
            return
        subscription = Subscription(session, record.number, record.topic_filter, queue, record.kind)
        subscription.qos = record.qos
        subscription.no_local = record.no_local
        subscription.retain_as_published = record.retain_as_published
        subscription.identifier_number = record.identifier
        subscription.identifier = subscription_identifier_property(record.identifier) if record.identifier else b""
        subscription.has_keys = self.host.sessions.is_through_exchange(queue)
        subscription.is_wild = "+" in record.topic_filter or "#" in record.topic_filter
        session.subscriptions[record.topic_filter] = subscription
        if record.kind == OWN and queue.user is None and session.user is not None:
            # Stored by a version that did not write it to the queue.
            self.host.sessions.set_user(queue, session.user)
        self.joined(subscription)


def _left_ms(span_s: int, absent_ms: int) -> int:
    """Return what is left of a span, after an absence that may count the time before a restart.

    Only that time is measured on the wall clock, which may have been set: an absence that has not begun yet is none.
    """
    return max(1000 * span_s - max(absent_ms, 0), 0)
