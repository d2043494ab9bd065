"""What one MQTT connection means to the broker: login, session, messages and their answers.

The engine (`connection`, `flight`) knows what may come when; this module knows what it is for. Sending to the client is
in `deliveries`, subscriptions have a module of their own.

Answers that promise something (PUBACK, PUBREC, PUBREL, PUBCOMP, SUBACK, UNSUBACK) are gathered, and go out when the
store has what they promise: one callback per connection and turn, in the order of their causes. CONNACK waits, too, if
the session or its will is stored, and nothing is worked through behind it until then.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from artemis_mqtt.broker.deliveries import Outlet, Subscription, sent
from artemis_mqtt.broker.errors import to_reason, to_subscribe_reason
from artemis_mqtt.broker.ownership import check_takeover, check_unsubscribe, expiry_allowed
from artemis_mqtt.broker.publishing import Publisher
from artemis_mqtt.broker.records import StoredWill
from artemis_mqtt.broker.session import NEVER, ClientSession
from artemis_mqtt.broker.subscriptions import abandon, hand_over_retained, resume, subscribe, under_way, unsubscribe
from artemis_mqtt.broker.system_topics import is_system_topic
from artemis_mqtt.engine import packets, reasons
from artemis_mqtt.engine.connection import MqttConnection, MqttHandler
from artemis_mqtt.engine.flight import Delivery
from artemis_mqtt.engine.properties import NO_PROPERTIES, Properties
from artemis_mqtt.engine.topics import split_shared
from artemis_py.core.addresses.address import Address
from artemis_py.core.queues.consumer import ACCEPTED, REJECTED
from artemis_py.core.queues.dispatcher import Hub
from artemis_py.core.queues.reference import Reference
from artemis_py.core.routing.post_office import PostOffice
from artemis_py.core.runtime.access import Permission
from artemis_py.core.runtime.background import SLICE_UNITS, Steps
from artemis_py.core.runtime.buffers import PartialInput
from artemis_py.core.runtime.events import Denied
from artemis_py.core.sessions.session import Session
from artemis_py.errors import LimitExceeded, NotAuthorized, Refusal
from artemis_py.logs import LogBrake
from artemis_py.peers import address_of
from artemis_py.protocol import ConnectionContext, LoginOutcome, LoginResult

if TYPE_CHECKING:
    from artemis_mqtt.broker.manager import MqttProtocolManager
    from artemis_mqtt.broker.parameters import Parameters

_EXTERNAL: Final = "EXTERNAL"

# Kinds of gathered answers: the third octet of a number, above a reason and a packet identifier.
_PUBACK: Final = 0
_PUBREC: Final = 1
_PUBCOMP: Final = 2
_LATER: Final = 3
"""The next of the answers that are no numbers."""

_DISCONNECT_WITH_WILL: Final = 0x04


class ClientHandler(MqttHandler):
    """One MQTT connection; what the transport and the engine hold on to."""

    def __init__(self, manager: "MqttProtocolManager", context: ConnectionContext, parameters: "Parameters") -> None:
        self.manager: MqttProtocolManager = manager
        self.context: ConnectionContext = context
        self.parameters: Parameters = parameters
        self.postoffice: PostOffice = manager.postoffice
        self.hub: Hub = manager.postoffice.hub
        self.client_id: str = ""
        self.brake: LogBrake = manager.brake
        self.source: str = address_of(context.peer)
        """Whose lines in the log are counted together."""
        self.engine: MqttConnection = MqttConnection(self, parameters.limits(context), self.hub.meter)
        self._session: ClientSession | None = None
        self._core: Session | None = None
        self._outlet: Outlet | None = None
        self._publisher: Publisher | None = None
        self._answers: list[int] = []
        self._releases: list[Delivery] = []
        self._later: deque[Callable[[], None]] = deque()
        self._is_lost: bool = False
        self._left_out: bool = False
        self._input: PartialInput = PartialInput(manager.postoffice.account)
        self._full: Address | None = None
        """What this client waits for, while it is not read from."""
        """There is room again: the kept input is worked through when the transport comes by."""

    # -- the transport's side --------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether everything was said."""
        return self.engine.closed

    @property
    def logged_in(self) -> bool:
        """Whether the client was accepted."""
        return self._session is not None

    def receive_data(self, data: bytes, now: float) -> None:
        """Take bytes; answers that wait for the store are asked for once per call."""
        self.engine.receive_data(data, now)
        self._count_input()
        self._ask_store()

    @property
    def has_input(self) -> bool:
        """Whether packets wait for another turn."""
        return self.engine.has_input

    def work(self, now: float) -> None:
        """Go on with them."""
        self.engine.work(now)
        self._count_input()
        self._ask_store()

    def _count_input(self) -> None:
        """Count what is kept of it, and go no further with a packet whose rest would be too much.

        What waits for a share of a turn, or for room, is no more than one read: that may stay.
        """
        engine = self.engine
        if not self._input.update(engine.kept_bytes) and not (engine.closed or engine.has_input or engine.is_halted):
            self._end(reasons.QUOTA_EXCEEDED, "the broker has no memory for the rest of this packet")

    def data_to_send(self) -> bytes:
        """Take the output."""
        self._ask_store()
        return self.engine.data_to_send()

    def next_deadline(self) -> float | None:
        """When the client's silence gets too long."""
        return self.engine.next_deadline()

    def handle_deadline(self, now: float) -> None:
        """The keep-alive is over."""
        self.engine.handle_deadline(now)

    def pause(self) -> None:
        """The client does not read."""
        self.engine.pause()

    def resume(self) -> None:
        """It reads again."""
        self.engine.resume()

    def shutdown(self, reason: str) -> None:
        """The broker or an administrator ends the conversation."""
        if not self.engine.closed:
            self.engine.disconnect(reasons.SERVER_SHUTTING_DOWN, reason)
            self._leave(with_will=True)

    def connection_lost(self) -> None:
        """The socket is gone."""
        self._is_lost = True
        self._input.update(0)
        self._leave(with_will=True)

    def wake(self) -> None:
        """There is output outside of a call from the transport."""
        self.context.wake()

    # -- durable answers ---------------------------------------------------------------------------------------

    def _ask_store(self) -> None:
        outlet = self._outlet
        unstored: list[Delivery] = []
        if outlet is not None and outlet.unstored:
            unstored = outlet.unstored
            outlet.unstored = []
        if self._answers or self._releases or unstored:
            answers = self._answers
            releases = self._releases
            later = self._later
            self._answers = []
            self._releases = []
            self._later = deque()
            self.postoffice.storage.when_durable(
                lambda: self._stored(answers, releases, later, unstored), self._store_failed
            )

    def _stored(
        self,
        answers: list[int],
        releases: list[Delivery],
        later: deque[Callable[[], None]],
        unstored: list[Delivery],
    ) -> None:
        engine = self.engine
        if self._is_lost or engine.closed:
            return
        for answer in answers:
            packet_id = answer & 0xFFFF
            kind = answer >> 24
            if kind == _PUBACK:
                engine.send_puback(packet_id, answer >> 16 & 0xFF)
            elif kind == _PUBREC:
                engine.send_pubrec(packet_id, answer >> 16 & 0xFF)
            elif kind == _PUBCOMP:
                engine.send_pubcomp(packet_id)
            else:
                later.popleft()()
        for delivery in releases:
            engine.send_pubrel(delivery)
        if unstored and self._outlet is not None:
            self._outlet.stored(unstored)

    def _store_failed(self, reason: str) -> None:
        """Something will never be answered, and nobody knows whether a restart brings it back: say that, and end."""
        if not self._is_lost and not self.engine.closed:
            self._end(
                reasons.IMPLEMENTATION_SPECIFIC_ERROR,
                f"the store failed: {reason}; what was not answered may be stored or not",
            )
            self.wake()

    # -- login -------------------------------------------------------------------------------------------------

    def on_connect(self, connect: packets.Connect) -> None:
        """A client wants in."""
        if connect.properties.authentication_method is not None:
            # No method of enhanced authentication is supported [MQTT-4.12.0-1].
            self.engine.refuse(reasons.BAD_AUTHENTICATION_METHOD)
            return
        context = self.context
        authenticator = context.authenticator

        def done(result: LoginResult) -> None:
            if not self._is_lost and not self.engine.closed:
                self._logged_in(connect, result)
                self.wake()

        if connect.username is None and _EXTERNAL in authenticator.mechanisms(context):
            exchange = authenticator.begin(_EXTERNAL, context)
            if exchange is not None:
                exchange.respond(b"", lambda challenge: None, done)
                return
        password = None if connect.password is None else connect.password.decode("utf-8", "replace")
        authenticator.login(connect.username, password, context, done)

    def on_auth(self, auth: packets.Auth) -> None:
        """No method is supported, so the engine lets no AUTH through."""

    def _logged_in(self, connect: packets.Connect, result: LoginResult) -> None:
        if result.outcome is LoginOutcome.BUSY:
            self.engine.refuse(reasons.SERVER_BUSY)
            return
        subject = result.subject
        if result.outcome is not LoginOutcome.OK or subject is None:
            is_anonymous = connect.username is None
            self.engine.refuse(reasons.NOT_AUTHORIZED if is_anonymous else reasons.BAD_USER_NAME_OR_PASSWORD)
            return
        self.client_id = connect.client_id or f"auto-{self.postoffice.entropy.uuid()}"
        core = Session(self.postoffice, subject, self.client_id, self.context.peer, "MQTT")
        core.client = self
        try:
            will = self._will(connect, core)
        except Refusal as refusal:
            self.brake.warning(
                self.source, "connection refused for its will: peer=%s reason=%s", self.context.peer, refusal
            )
            core.close()
            self.engine.refuse(to_reason(refusal))
            return
        self._open(connect, core, will)

    def _will(self, connect: packets.Connect, core: Session) -> StoredWill | None:
        """The will, if the client may publish it. Raises Refusal."""
        will = connect.will
        if will is None:
            return None
        core.check(Permission.SEND, self.manager.names.address(will.topic))
        self.hub.check_tables("a will")
        expiry_s = will.properties.message_expiry_interval
        return StoredWill(
            topic=will.topic,
            payload=will.payload,
            qos=will.qos,
            retain=will.retain,
            properties=will.publish_properties,
            expiry_s=-1 if expiry_s is None else expiry_s,
            delay_s=will.properties.will_delay_interval or 0,
            user=core.subject.user,
            roles=tuple(sorted(core.subject.roles)),
        )

    def _open(self, connect: packets.Connect, core: Session, will: StoredWill | None) -> None:
        parameters = self.parameters
        sessions = self.manager.sessions
        earlier = sessions.get(self.client_id)
        was_stored = earlier is not None and earlier.has_record
        if earlier is not None and not self._may_take_over(earlier, core, connect.clean_start):
            return
        if earlier is not None and earlier.handler is not None:
            if not parameters.allows_link_stealing:
                core.close()
                self.engine.refuse(reasons.UNSPECIFIED_ERROR)
                return
            earlier.handler.take_over()
        expiry_s, announced = self._expiry(connect)
        try:
            session, is_present = sessions.open(self.client_id, core, connect.clean_start, expiry_s)
        except LimitExceeded as refusal:
            self.brake.warning(
                self.source,
                "connection refused: peer=%s client=%s reason=%s",
                self.context.peer,
                self.client_id,
                refusal,
            )
            core.close()
            self.engine.refuse(to_reason(refusal))
            return
        if connect.version >= packets.MQTT_5 and session.expiry_s != expiry_s:
            announced = session.expiry_s
        self._core = core
        self._session = session
        self._publisher = Publisher(core, self.manager.names, self.manager.format, self.manager.limits)
        session.handler = self
        session.will = will
        session.save()

        def stored() -> None:
            if not self._is_lost and not self.engine.closed:
                self._admit(connect, session, core, announced, is_present)

        if was_stored or session.has_record:
            # CONNACK promises that the session and its will are kept, and that one which was to end has ended.
            self.postoffice.storage.when_durable(stored, self._store_failed)
        else:
            stored()

    def _may_take_over(self, earlier: ClientSession, core: Session, clean_start: bool) -> bool:
        """Whether the session under our client identifier is ours, or ours to end; the client is told if not."""
        try:
            check_takeover(self.manager.sessions, earlier, core, clean_start, self.parameters.keeps_owners)
        except NotAuthorized as refusal:
            self.brake.warning(
                self.source,
                "connection refused, the session is not the user's to end: peer=%s user=%s client=%s reason=%s",
                self.context.peer,
                core.subject.name,
                self.client_id,
                refusal,
            )
            core.close()
            self.engine.refuse(to_reason(refusal))
            return False
        return True

    def _admit(
        self,
        connect: packets.Connect,
        session: ClientSession,
        core: Session,
        announced: int | None,
        is_present: bool,
    ) -> None:
        """Take up the session's subscriptions, in slices if they are many, then answer CONNECT.

        Until then nothing is delivered, and what the client sent behind it waits.
        """
        outlet = Outlet(self, session, core.subject)

        def resumed(is_whole: object) -> None:
            if is_whole and not self._is_lost and not self.engine.closed:
                self._welcome(connect, session, core, outlet, announced, is_present)

        self.hub.slices.start(self._resume(session, outlet, core), resumed)

    def _welcome(
        self,
        connect: packets.Connect,
        session: ClientSession,
        core: Session,
        outlet: Outlet,
        announced: int | None,
        is_present: bool,
    ) -> None:
        self._outlet = outlet
        self.engine.accept(
            packets.Connack(
                session_present=is_present,
                properties=Properties(
                    assigned_client_identifier=None if connect.client_id else self.client_id,
                    session_expiry_interval=announced,
                ),
            ),
            self._keep_alive_s(connect),
            session.incoming,
            session.outgoing,
            self.parameters.max_in_flight,
        )
        self._releases += session.releases()
        outlet.go_on()
        self.brake.info(
            self.source,
            "connection opened: peer=%s user=%s client=%s version=%d session_present=%s",
            self.context.peer,
            core.subject.name,
            self.client_id,
            connect.version,
            is_present,
        )
        self._ask_store()
        self.wake()

    def _resume(self, session: ClientSession, outlet: Outlet, core: Session) -> Steps:
        """Subscriptions of before; what the client may not read any more rests. False: the client left."""
        meter = self.hub.meter
        end = meter.work + SLICE_UNITS
        references = under_way(session)
        for subscription in list(session.subscriptions.values()):
            if meter.work >= end:
                yield None
                end = meter.work + SLICE_UNITS
                if session.handler is not self or self.engine.closed:
                    return False
            if session.subscriptions.get(subscription.topic_filter) is not subscription:
                continue
            try:
                resume(subscription, outlet, core, references.get(subscription, []))
            except NotAuthorized as refusal:
                # Its messages are the user's, and the right may come back: it waits as if the client were away.
                template = "subscription rests, its client lost the permission: client=%s filter=%s reason=%s"
                self.brake.warning(self.source, template, self.client_id, subscription.topic_filter, refusal)
                abandon(subscription)
                continue
            except Refusal as refusal:
                self.brake.warning(
                    self.source,
                    "subscription given up: client=%s filter=%s reason=%s",
                    self.client_id,
                    subscription.topic_filter,
                    refusal,
                )
                abandon(subscription)
                unsubscribe(self.manager.sessions, subscription, core, "its client cannot consume from it any more")
                continue
            hand_over_retained(subscription, self.postoffice)
        return True

    def _expiry(self, connect: packets.Connect) -> tuple[int, int | None]:
        """How long the session outlives its connection in seconds, and what the client must be told of that."""
        if connect.version < packets.MQTT_5:
            default_s = self.parameters.default_session_expiry_s
            return (0 if connect.clean_start else NEVER if default_s < 0 else default_s), None
        wanted = connect.properties.session_expiry_interval or 0
        longest = self.parameters.max_session_expiry_s
        if longest < 0 or wanted <= longest:
            return wanted, None
        return longest, longest

    def _keep_alive_s(self, connect: packets.Connect) -> int:
        """In seconds, 0: none. Only version 5 can be told another one than it asked for."""
        override_ms = self.context.idle_timeout_override_ms
        if override_ms is not None:
            return -(-override_ms // 1500)
        wanted, ours = connect.keep_alive_s, self.parameters.server_keep_alive_s
        if connect.version < packets.MQTT_5 or ours < 0:
            return wanted
        return ours if wanted == 0 or 0 < ours < wanted else wanted

    # -- rights --------------------------------------------------------------------------------------------------

    def user_removed(self, reason: str) -> None:
        """The client may not be here any more."""
        if not self.engine.closed:
            self._end(reasons.NOT_AUTHORIZED, reason)
            self.wake()

    def rights_changed(self) -> None:
        """Read and publish by the new rights. MQTT cannot take one subscription away: the connection ends."""
        session, core, outlet = self._session, self._core, self._outlet
        if session is None or core is None or outlet is None or self._publisher is None or self.engine.closed:
            return
        outlet.rights_changed(core.subject)
        self._publisher.forget_rights()
        references = under_way(session)
        for subscription in list(session.subscriptions.values()):
            try:
                if subscription.consumer is None:
                    resume(subscription, outlet, core, references.get(subscription, []))
                else:
                    core.check_consumer(subscription.queue)
            except NotAuthorized as refusal:
                if subscription.consumer is not None:
                    self._end(reasons.NOT_AUTHORIZED, str(refusal))
                    break
            except Refusal:
                continue
        outlet.go_on()
        self.wake()

    # -- the end -------------------------------------------------------------------------------------------------

    def take_over(self) -> None:
        """Another connection came with our client identifier [MQTT-3.1.4-3]."""
        self.brake.info(self.source, "session taken over: client=%s from=%s", self.client_id, self.context.peer)
        self._end(reasons.SESSION_TAKEN_OVER, "another connection took the session over")
        self.wake()

    def _end(self, reason: int, text: str, properties: Properties = NO_PROPERTIES) -> None:
        """End this connection from our side; the will goes out."""
        self.engine.disconnect(reason, text, properties)
        self._leave(with_will=True)

    def on_disconnect(self, disconnect: packets.Disconnect) -> None:
        """The client said goodbye."""
        session = self._session
        interval = disconnect.properties.session_expiry_interval
        if session is not None and self._core is not None and interval is not None and session.expiry_s > 0:
            longest = self.parameters.max_session_expiry_s
            wanted_s = interval if longest < 0 else min(interval, longest)
            session.expiry_s = expiry_allowed(self.manager.sessions, session, self._core, wanted_s)
        self._leave(with_will=disconnect.reason == _DISCONNECT_WITH_WILL)

    def on_failed(self, reason: int, text: str) -> None:
        """The client broke the protocol, or fell silent."""
        self.brake.warning(
            self.source,
            "connection failed: peer=%s client=%s reason=%#x %s",
            self.context.peer,
            self.client_id,
            reason,
            text,
        )
        self._leave(with_will=True)

    def _leave(self, with_will: bool) -> None:
        if self._full is not None:
            self._full.forget(self._has_room)
            self._full = None
        session, core = self._session, self._core
        if session is None or core is None or session.handler is not self:
            return
        # No CONNACK, no will.
        self.manager.sessions.leave(session, with_will and self._outlet is not None)
        core.close()
        self._outlet = None

    def queue_gone(self, subscription: Subscription, reason: str) -> None:
        """Somebody deleted the queue of a subscription: the client must know that it is not subscribed any more."""
        session = self._session
        if session is None or self.engine.closed or session.is_over:
            return
        if session.subscriptions.get(subscription.topic_filter) is not subscription:
            return
        unsubscribe(self.manager.sessions, subscription, None, reason)
        self._end(reasons.ADMINISTRATIVE_ACTION, f"the queue of '{subscription.topic_filter}' was removed: {reason}")
        self.wake()

    # -- messages from the client ---------------------------------------------------------------------------------

    def on_publish(
        self,
        topic: str,
        payload: bytes,
        qos: int,
        retain: bool,
        dup: bool,
        packet_id: int,
        properties: bytes,
        expiry_s: int,
    ) -> None:
        """Route it; the answer waits for the store."""
        publisher = self._publisher
        assert publisher is not None
        try:
            count = publisher.publish(topic, payload, qos, retain, properties, expiry_s)
        except Refusal as refusal:
            self._refuse(topic, qos, packet_id, refusal)
            return
        if publisher.full is not None:
            self._halt(publisher.full)
            publisher.full = None
        if qos == 0:
            return
        if count == 0 and self.engine.version >= packets.MQTT_5:
            packet_id |= reasons.NO_MATCHING_SUBSCRIBERS << 16
        if qos == 1:
            self._answers.append(packet_id)
        else:
            session = self._session
            assert session is not None
            session.save_incoming(packet_id & 0xFFFF)
            self._answers.append(_PUBREC << 24 | packet_id)

    def _refuse(self, topic: str, qos: int, packet_id: int, refusal: Refusal) -> None:
        """Say no in version 5; in 3.x, which has no word for it, close or keep silent as configured."""
        level = logging.WARNING if isinstance(refusal, NotAuthorized) else logging.INFO
        template = "message refused: peer=%s client=%s reason=%s"
        self.brake.log(level, self.source, template, self.context.peer, self.client_id, refusal)
        reason = to_reason(refusal)
        is_v5 = self.engine.version >= packets.MQTT_5
        if not is_v5 and self.parameters.closes_on_refusal:
            self._end(reason, str(refusal))
        elif qos == 1:
            self._answers.append(_PUBACK << 24 | (reason if is_v5 else 0) << 16 | packet_id)
        elif qos == 2:
            if not is_v5 and self._session is not None:
                self._session.save_incoming(packet_id)
            self._answers.append(_PUBREC << 24 | (reason if is_v5 else 0) << 16 | packet_id)

    def _halt(self, full: Address) -> None:
        """Read nothing more from a client that fills an address whose producers shall wait: MQTT has no credit.

        One that owes us acknowledgements is read on, for they come behind what it publishes, and may be what frees
        memory; beyond the last limit it is refused like everybody.
        """
        session = self._session
        if self._full is None and session is not None and not session.outgoing.deliveries:
            self._full = full
            self.engine.halt()
            self.context.read(False)
            full.when_room(self._has_room)

    def _has_room(self) -> None:
        """Called while somebody gives memory back, so that no message may be routed here: the transport comes by."""
        self.go_on()

    def go_on(self) -> None:
        """Read from the client again, if it was not."""
        full = self._full
        if full is None:
            return
        self._full = None
        full.forget(self._has_room)
        if not self._is_lost and not self.engine.closed:
            self.engine.proceed()
            self.context.read(True)

    def on_duplicate(self, packet_id: int) -> None:
        """It was routed before; its answer got lost, or is still to come."""
        self._answers.append(_PUBREC << 24 | packet_id)

    def on_pubrel(self, packet_id: int) -> None:
        """The identifier may be used anew once nobody remembers it as used."""
        if self._session is not None:
            self._session.forget_incoming(packet_id)
        self._answers.append(_PUBCOMP << 24 | packet_id)

    # -- the client's answers --------------------------------------------------------------------------------------

    def on_puback(self, delivery: Delivery, reason: int) -> None:
        """QoS 1: it has it, or refuses it."""
        self._settle(delivery, reason)

    def on_pubrec(self, delivery: Delivery, reason: int) -> None:
        """QoS 2: it has it, or refuses it."""
        session = self._session
        if session is None:
            return
        if reason >= 0x80:
            self._settle(delivery, reason)
            session.forget_outgoing(delivery.packet_id)
            return
        session.received(delivery)
        self._releases.append(delivery)

    def on_pubcomp(self, delivery: Delivery) -> None:
        """QoS 2: it is over."""
        if self._session is not None:
            self._session.forget_outgoing(delivery.packet_id)

    def _settle(self, delivery: Delivery, reason: int) -> None:
        token = sent(delivery)
        if token is not None and token.reference is not None:
            reference = token.reference
            token.reference = None
            consumer = reference.consumer
            if consumer is not None:
                consumer.settle(reference, ACCEPTED if reason < 0x80 else REJECTED)

    def on_writable(self) -> None:
        """The window opened, or output went out."""
        if self._outlet is not None:
            self._outlet.go_on()

    # -- subscriptions ---------------------------------------------------------------------------------------------

    def on_subscribe(self, request: packets.Subscribe) -> None:
        """Each filter gets its own answer."""
        self.engine.work_through(self._subscribe(request))

    def _subscribe(self, request: packets.Subscribe) -> Iterator[None]:
        codes: list[int] = []
        for wanted in request.subscriptions:
            outlet, core = self._outlet, self._core
            if outlet is None or core is None:
                return
            codes.append(self._subscribe_to(wanted, request.identifier, outlet, core))
            yield
        self._answer_later(partial(self.engine.send_suback, request.packet_id, codes))

    def _subscribe_to(self, wanted: packets.Subscription, identifier: int, outlet: Outlet, core: Session) -> int:
        """One filter; returns its reason code."""
        try:
            self._check_system_topics(wanted.topic_filter)
            sessions = self.manager.sessions
            qos = subscribe(sessions, outlet, core, wanted, identifier, self.parameters.max_subscriptions)
            self._show_system_topics(wanted.topic_filter)
        except Refusal as refusal:
            self.brake.warning(
                self.source,
                "subscription refused: peer=%s client=%s filter=%s reason=%s",
                self.context.peer,
                self.client_id,
                wanted.topic_filter,
                refusal,
            )
            return to_subscribe_reason(refusal)
        return qos

    def _check_system_topics(self, topic_filter: str) -> None:
        """Raises NotAuthorized for a client without a name, unless the acceptor lets it see them."""
        outlet = self._outlet
        if (
            is_system_topic(split_shared(topic_filter)[1])
            and outlet is not None
            and outlet.checks_access
            and outlet.subject.user is None
            and not self.parameters.shows_system_topics
        ):
            raise NotAuthorized("anonymous clients do not see what is below $SYS")

    def _show_system_topics(self, topic_filter: str) -> None:
        if is_system_topic(split_shared(topic_filter)[1]) and self._session is not None:
            self.manager.system_topics.wanted(self._session.subscriptions[topic_filter].queue)

    def on_unsubscribe(self, request: packets.Unsubscribe) -> None:
        """Each filter gets its own answer, though 3.x cannot be told."""
        self.engine.work_through(self._unsubscribe(request))

    def _unsubscribe(self, request: packets.Unsubscribe) -> Iterator[None]:
        codes: list[int] = []
        for topic_filter in request.topic_filters:
            session = self._session
            if session is None:
                return
            subscription = session.subscriptions.get(topic_filter)
            if subscription is None:
                codes.append(reasons.NO_SUBSCRIPTION_EXISTED)
            elif self._may_unsubscribe(subscription, topic_filter, codes):
                unsubscribe(self.manager.sessions, subscription, self._core, "the client unsubscribed")
                codes.append(reasons.SUCCESS)
            yield
        self._answer_later(partial(self.engine.send_unsuback, request.packet_id, codes))

    def _may_unsubscribe(self, subscription: Subscription, topic_filter: str, codes: list[int]) -> bool:
        """Whether the client may end it; if not, the reason is the next of `codes`."""
        assert self._core is not None
        try:
            check_unsubscribe(self.manager.sessions, subscription, self._core)
        except NotAuthorized as refusal:
            # It stays, in 3.x too: what the client may not delete does not go because it cannot be told.
            template = "unsubscribe refused: peer=%s client=%s filter=%s reason=%s"
            self.brake.warning(self.source, template, self.context.peer, self.client_id, topic_filter, refusal)
            codes.append(to_reason(refusal))
            return False
        return True

    def _answer_later(self, answer: Callable[[], None]) -> None:
        self._answers.append(_LATER << 24)
        self._later.append(answer)

    # -- what the log should know ----------------------------------------------------------------------------------

    def denied(self, address: str) -> None:
        """A wildcard led to an address that the client may not read."""
        assert self._core is not None
        self.postoffice.events.emit(Denied(self._core.subject, Permission.CONSUME, address, None, self.context.peer))

    def left_out(self, subscription: Subscription, reference: Reference) -> None:
        """A message did not go to this client; the first one is logged."""
        if not self._left_out:
            self._left_out = True
            self.brake.warning(
                self.source,
                "message left out, it is too large for the client or its address is no topic: client=%s address=%s",
                self.client_id,
                reference.message.address,
            )

    def unconverted(self, reference: Reference, error: Exception) -> None:
        """A message of another protocol became a dead letter."""
        self.brake.warning(
            self.source,
            "message not delivered: client=%s queue=%s reason=%s",
            self.client_id,
            reference.queue.name,
            error,
        )
