"""The way from CONNECT to CONNACK: credentials, session, and what must be durable before the answer.

    begin -> _checked -> _open -> _stored -> _welcome
             credentials  session  CONNACK    subscriptions
             are right    exists   may say so are resumed

Each step may run in a later iteration of the loop, and the client may be gone by then. Packets behind CONNECT wait
until the end.
"""

from functools import partial
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from artemis_mqtt.broker.deliveries import Outlet
from artemis_mqtt.broker.errors import to_reason
from artemis_mqtt.broker.exchange import Exchange
from artemis_mqtt.broker.ownership import check_takeover
from artemis_mqtt.broker.parameters import exchange_of
from artemis_mqtt.broker.publishing import Publisher
from artemis_mqtt.broker.records import StoredWill
from artemis_mqtt.broker.referral import redirecting_reason, server_reference
from artemis_mqtt.broker.session import NEVER, ClientSession
from artemis_mqtt.broker.subscriptions import abandon, hand_over_retained, resume, under_way, unsubscribe
from artemis_mqtt.engine import packets, reasons
from artemis_mqtt.engine.properties import Properties
from artemis_py.core.runtime.access import Permission, Subject
from artemis_py.core.runtime.background import SLICE_UNITS, Steps
from artemis_py.core.runtime.referrals import Route
from artemis_py.core.sessions.session import Session
from artemis_py.errors import LimitExceeded, NoSuchHost, NotAuthorized, Refusal
from artemis_py.protocol import LoginOutcome, LoginResult

if TYPE_CHECKING:
    from artemis_mqtt.broker.handler import ClientHandler

_EXTERNAL: Final = "EXTERNAL"


class Login:
    """The login of one connection."""

    def __init__(self, handler: "ClientHandler", connect: packets.Connect) -> None:
        self._handler: Final = handler
        self._connect: Final = connect
        self._announced_s: int | None = None
        """Session expiry that the client must be told, because it is not what it asked for."""
        self._is_present = False
        """The session was there before."""

    def begin(self) -> None:
        """Check the credentials."""
        connect, context = self._connect, self._handler.context
        if connect.properties.authentication_method is not None:
            # No method of enhanced authentication is supported [MQTT-4.12.0-1].
            self._handler.engine.refuse(reasons.BAD_AUTHENTICATION_METHOD)
            return
        try:
            username = self._enter()
        except NoSuchHost as refusal:
            handler = self._handler
            template = "connection refused: peer=%s reason=%s"
            handler.brake.warning(handler.source, template, context.peer, refusal)
            handler.engine.refuse(to_reason(refusal))
            return
        authenticator = context.authenticator
        if connect.username is None and _EXTERNAL in authenticator.mechanisms(context):
            exchange = authenticator.begin(_EXTERNAL, context)
            if exchange is not None:
                exchange.respond(b"", lambda challenge: None, self._checked)
                return
        password = None if connect.password is None else connect.password.decode("utf-8", "replace")
        authenticator.login(username, password, context, self._checked)

    def _enter(self) -> str | None:
        """Enter the virtual host that the client names, or that of its acceptor; return the name of the user.

        A user name `host:user` names both, as with RabbitMQ, if there is such a host; the last colon separates them.
        Raises NoSuchHost.
        """
        handler, username = self._handler, self._connect.username
        siblings = handler.manager.siblings
        name, separator, user = (username or "").rpartition(":")
        manager = siblings.named(name) if separator and name and user else None
        if manager is None:
            manager, user = siblings.find(None, handler.context.virtual_host), ""
        handler.enter(manager)
        return user or username

    def _checked(self, result: LoginResult) -> None:
        """Let the client in, or refuse it."""
        handler, connect = self._handler, self._connect
        if handler.is_over():
            return
        subject = result.subject
        if result.outcome is LoginOutcome.BUSY:
            handler.engine.refuse(reasons.SERVER_BUSY)
        elif result.outcome is not LoginOutcome.OK or subject is None:
            is_anonymous = connect.username is None
            handler.engine.refuse(reasons.NOT_AUTHORIZED if is_anonymous else reasons.BAD_USER_NAME_OR_PASSWORD)
        else:
            handler.client_id = connect.client_id or f"auto-{uuid4()}"
            handler.host.route(handler.context, "MQTT", handler.client_id, subject, partial(self._routed, subject))
        handler.wake()

    def _routed(self, subject: Subject, route: Route) -> None:
        """Go on with a client that is served here; tell another one where, or why nowhere."""
        handler, engine = self._handler, self._handler.engine
        if handler.is_over():
            return
        if not route.others and not route.refusal:
            self._admit(subject)
        else:
            where = server_reference(route.others) if route.others else route.refusal
            template = "connection routed: peer=%s user=%s client=%s to=%s"
            handler.brake.info(handler.source, template, handler.context.peer, subject.name, handler.client_id, where)
            if route.others:
                engine.refuse(redirecting_reason(handler.host.referrals), Properties(server_reference=where))
            else:
                engine.refuse(reasons.SERVER_UNAVAILABLE, Properties(reason_string=where))
        handler.wake()

    def _admit(self, subject: Subject) -> None:
        """Open a session of the core, unless the virtual host does not take the client."""
        handler = self._handler
        earlier = handler.manager.sessions.get(handler.client_id)
        replaced = None if earlier is None or earlier.handler is None else earlier.handler.core
        try:
            context = handler.context
            core = handler.host.sessions.open(
                subject,
                handler.client_id,
                context.peer,
                "MQTT",
                replaced=replaced,
                certificate=context.certificate_subject,
            )
        except Refusal as refusal:
            template = "connection refused: peer=%s user=%s client=%s reason=%s"
            handler.brake.warning(
                handler.source, template, handler.context.peer, subject.name, handler.client_id, refusal
            )
            handler.engine.refuse(to_reason(refusal))
            return
        core.client = handler
        self._open(core)

    def _refuse(self, core: Session, refusal: Refusal, template: str, *values: object) -> None:
        handler = self._handler
        handler.brake.warning(handler.source, template, handler.context.peer, *values, refusal)
        core.close()
        handler.engine.refuse(to_reason(refusal))

    def _will(self, core: Session) -> StoredWill | None:
        """Return the will, if the client may publish it. Raises Refusal."""
        will = self._connect.will
        if will is None:
            return None
        exchange = exchange_of(self._handler.parameters, will.topic)
        core.check(Permission.SEND, exchange or self._handler.manager.names.address(will.topic))
        self._handler.host.check_tables("a will")
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
            exchange=exchange,
        )

    def _open(self, core: Session) -> None:
        """Find or make the session, and have it stored."""
        handler, connect = self._handler, self._connect
        client_id, sessions = handler.client_id, handler.manager.sessions
        try:
            will = self._will(core)
        except Refusal as refusal:
            self._refuse(core, refusal, "connection refused for its will: peer=%s reason=%s")
            return
        earlier = sessions.get(client_id)
        was_stored = earlier is not None and earlier.has_record
        if earlier is not None and not self._take_over(earlier, core):
            return
        expiry_s = self._expiry_s()
        try:
            session, self._is_present = sessions.open(client_id, core, connect.clean_start, expiry_s)
        except LimitExceeded as refusal:
            self._refuse(core, refusal, "connection refused: peer=%s client=%s reason=%s", client_id)
            return
        if connect.version >= packets.MQTT_5 and session.expiry_s != expiry_s:
            self._announced_s = session.expiry_s
        handler.core = core
        handler.session = session
        session.handler = handler
        session.will = will
        session.save()
        if was_stored or session.has_record:
            # CONNACK promises that the session and its will are kept, and that one which was to end has ended.
            handler.answers.when_durable(lambda: self._stored(session, core))
            handler.answers.ask_store()
        else:
            self._stored(session, core)

    def _take_over(self, earlier: ClientSession, core: Session) -> bool:
        """Take the session under our client identifier from its client, if it is ours, or ours to end.

        The client is told if not.
        """
        handler, parameters = self._handler, self._handler.parameters
        try:
            check_takeover(handler.manager.sessions, earlier, core, self._connect.clean_start, parameters.keeps_owners)
        except NotAuthorized as refusal:
            self._refuse(
                core,
                refusal,
                "connection refused, the session is not the user's to end: peer=%s user=%s client=%s reason=%s",
                core.subject.name,
                handler.client_id,
            )
            return False
        if earlier.handler is not None:
            if not parameters.allows_link_stealing:
                core.close()
                handler.engine.refuse(reasons.UNSPECIFIED_ERROR)
                return False
            earlier.handler.take_over()
        return True

    def _expiry_s(self) -> int:
        """Return how long the session outlives its connection, and note what the client must be told of that."""
        connect, parameters = self._connect, self._handler.parameters
        if connect.version < packets.MQTT_5:
            default_s = parameters.default_session_expiry_s
            return 0 if connect.clean_start else NEVER if default_s < 0 else default_s
        wanted = connect.properties.session_expiry_interval or 0
        longest = parameters.max_session_expiry_s
        if longest < 0 or wanted <= longest:
            return wanted
        self._announced_s = longest
        return longest

    def _stored(self, session: ClientSession, core: Session) -> None:
        """Take up the session's subscriptions, in slices if they are many.

        Until then nothing is delivered.
        """
        handler = self._handler
        outlet = Outlet(handler, session, core)

        def resumed(is_whole: object) -> None:
            if is_whole and not handler.is_over():
                self._welcome(session, core, outlet)

        handler.host.background.start(self._resume(session, outlet, core), resumed)

    def _resume(self, session: ClientSession, outlet: Outlet, core: Session) -> Steps:
        """Take up the subscriptions; one that the client may not read any more rests. False: the client left."""
        handler = self._handler
        meter = handler.host.meter
        end = meter.work + SLICE_UNITS
        references = under_way(session)
        for subscription in list(session.subscriptions.values()):
            if meter.work >= end:
                yield None
                end = meter.work + SLICE_UNITS
                if session.handler is not handler or handler.engine.closed:
                    return False
            if session.subscriptions.get(subscription.topic_filter) is not subscription:
                continue
            try:
                resume(subscription, outlet, core, references.get(subscription, []))
            except NotAuthorized as refusal:
                # Its messages belong to the user, and the right may come back: it waits as if the client were away.
                template = "subscription suspended, its client lost the permission: client=%s filter=%s reason=%s"
                handler.brake.warning(handler.source, template, handler.client_id, subscription.topic_filter, refusal)
                abandon(subscription)
                continue
            except Refusal as refusal:
                handler.brake.warning(
                    handler.source,
                    "subscription ended: client=%s filter=%s reason=%s",
                    handler.client_id,
                    subscription.topic_filter,
                    refusal,
                )
                abandon(subscription)
                unsubscribe(handler.manager.sessions, subscription, None, "its client cannot consume from it any more")
                continue
            hand_over_retained(subscription, handler.manager.host)
        return True

    def _welcome(self, session: ClientSession, core: Session, outlet: Outlet) -> None:
        """Answer CONNECT."""
        handler, connect, manager = self._handler, self._connect, self._handler.manager
        publisher = Publisher(
            core, manager.host, manager.names, manager.format, manager.limits, handler.parameters.exchange
        )
        exchange = handler.exchange = Exchange(handler, session, publisher, outlet)
        handler.engine.accept(
            packets.Connack(
                session_present=self._is_present,
                properties=Properties(
                    assigned_client_identifier=None if connect.client_id else handler.client_id,
                    session_expiry_interval=self._announced_s,
                ),
            ),
            self._keep_alive_s(),
            exchange,
            handler.parameters.max_in_flight,
        )
        outlet.go_on()
        handler.brake.info(
            handler.source,
            "connection opened: peer=%s user=%s client=%s version=%d session_present=%s",
            handler.context.peer,
            core.subject.name,
            handler.client_id,
            connect.version,
            self._is_present,
        )
        handler.ask_store()
        handler.wake()

    def _keep_alive_s(self) -> int:
        """Return it in seconds, 0: none. Only version 5 can be told another one than it asked for."""
        override_ms = self._handler.context.idle_timeout_override_ms
        if override_ms is not None:
            return -(-override_ms // 1500)
        wanted, ours = self._connect.keep_alive_s, self._handler.parameters.server_keep_alive_s
        if self._connect.version < packets.MQTT_5 or ours < 0:
            return wanted
        return ours if wanted == 0 or 0 < ours < wanted else wanted
