"""One MQTT connection inside the broker, from the socket to the end.

The engine knows what may come when; this module and its neighbours know what it is for: `login` is everything up to
CONNACK, `exchange` the messages and their answers, `deliveries` what is sent, `subscribing` the subscriptions.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from artemis_mqtt.broker.deliveries import Subscription
from artemis_mqtt.broker.exchange import Exchange
from artemis_mqtt.broker.login import Login
from artemis_mqtt.broker.ownership import expiry_allowed
from artemis_mqtt.broker.referral import redirecting_reason, server_reference
from artemis_mqtt.broker.session import ClientSession
from artemis_mqtt.broker.subscribing import subscribe_steps, unsubscribe_steps
from artemis_mqtt.broker.subscriptions import resume, under_way, unsubscribe
from artemis_mqtt.engine import packets, reasons
from artemis_mqtt.engine.connection import MqttConnection
from artemis_mqtt.engine.handler import MqttHandler
from artemis_mqtt.engine.properties import NO_PROPERTIES, Properties
from artemis_py.core.queues.reference import Reference
from artemis_py.core.runtime.referrals import Alternative
from artemis_py.core.sessions.session import Session
from artemis_py.errors import NotAuthorized, Refusal
from artemis_py.logs import LogBrake
from artemis_py.peers import address_of
from artemis_py.protocol import ConnectionContext, Host
from artemis_py.wire.answers import Answers
from artemis_py.wire.partial_input import PartialInput

if TYPE_CHECKING:
    from artemis_mqtt.broker.manager import MqttProtocolManager
    from artemis_mqtt.broker.parameters import Parameters

_DISCONNECT_WITH_WILL: Final = 0x04


class ClientHandler(MqttHandler):
    """One MQTT connection, as the transport and the engine know it."""

    def __init__(self, manager: "MqttProtocolManager", context: ConnectionContext, parameters: "Parameters") -> None:
        self.manager: MqttProtocolManager = manager
        self.context: ConnectionContext = context
        self.parameters: Parameters = parameters
        self.host: Host = manager.host
        self.client_id: str = ""
        self.brake: LogBrake = manager.brake
        self.source: str = address_of(context.peer)
        """Peer address; the log counts the lines of one peer together."""
        self.engine: MqttConnection = MqttConnection(self, parameters.limits(context), manager.host.meter)
        self.answers: Answers = Answers(
            manager.host.storage,
            self.engine.outbox,
            self.is_over,
            self._store_failed,
            manager.host.dispatcher.announcements,
        )
        self.session: ClientSession | None = None
        """Set once the credentials are checked, and never reset."""
        self.core: Session | None = None
        """The core's session; set with ours."""
        self.exchange: Exchange | None = None
        """Messages in both directions, between CONNACK and the end."""
        self._is_lost: bool = False
        self._left_out: bool = False
        self._input: PartialInput = PartialInput(manager.host.memory)

    # -- the transport's side --------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether the connection is closed and nothing more will be sent."""
        return self.engine.closed

    @property
    def logged_in(self) -> bool:
        """Whether the client was accepted."""
        return self.session is not None

    def receive_data(self, data: bytes, now: float) -> None:
        """Process bytes, and ask the store once for all answers to them."""
        self.engine.receive_data(data, now)
        self._count_input()
        self.ask_store()

    @property
    def has_input(self) -> bool:
        """Whether packets wait for a later iteration of the loop."""
        return self.engine.has_input

    def work(self, now: float) -> None:
        """Process packets that waited."""
        self.engine.work(now)
        self._count_input()
        self.ask_store()

    def _count_input(self) -> None:
        """Count the input that is kept, and end the connection where the rest of a packet would be too much.

        Input that waits for a later iteration of the loop, or for room, is at most one read, which may be kept.
        """
        engine = self.engine
        if not self._input.update(engine.kept_bytes) and not (engine.closed or engine.has_input or engine.is_halted):
            self.end(reasons.QUOTA_EXCEEDED, "the broker has no memory for the rest of this packet")

    def data_to_send(self) -> bytes:
        """Return the output and forget it."""
        self.ask_store()
        return self.engine.data_to_send()

    def next_deadline(self) -> float | None:
        """Return when the client will have been silent for too long."""
        return self.engine.next_deadline()

    def handle_deadline(self, now: float) -> None:
        """Disconnect a silent client."""
        self.engine.handle_deadline(now)

    def pause(self) -> None:
        """Deliver nothing: the client does not read."""
        self.engine.pause()

    def resume(self) -> None:
        """Deliver again."""
        self.engine.resume()

    def shutdown(self, reason: str) -> None:
        """End the conversation for the broker or an administrator."""
        if not self.engine.closed:
            others = self._others() if self.host.referrals.is_leaving else []
            if others:
                self._send_away(others)
            else:
                self.engine.disconnect(reasons.SERVER_SHUTTING_DOWN, reason)
                self._leave(with_will=True)

    def connection_lost(self) -> None:
        """Return everything to the core: the socket is gone."""
        self._is_lost = True
        self._input.update(0)
        self._leave(with_will=True)

    def wake(self) -> None:
        """Tell the transport of output outside of its calls."""
        self.context.wake()

    # -- answers that wait for the store -----------------------------------------------------------------------

    def is_over(self) -> bool:
        """Tell whether no answer can reach the client any more."""
        return self._is_lost or self.engine.closed

    def ask_store(self) -> None:
        """Ask for all answers that wait."""
        if self.exchange is not None:
            self.exchange.gather()
        self.answers.ask_store()

    def answer_later(self, answer: Callable[[], None]) -> None:
        """Call `answer` when what it promises is durable, behind the answers that were gathered before it."""
        if self.exchange is not None:
            self.exchange.answer_later(answer)

    def _store_failed(self, text: str) -> None:
        """End the connection: some of what it asked for will never be answered."""
        self.end(reasons.IMPLEMENTATION_SPECIFIC_ERROR, text)
        self.wake()

    # -- rare packets ------------------------------------------------------------------------------------------

    def on_connect(self, connect: packets.Connect) -> None:
        """Begin the login."""
        Login(self, connect).begin()

    def enter(self, manager: "MqttProtocolManager") -> None:
        """Use the domain of a manager, which the client names; nothing was done in another one yet."""
        self.manager = manager
        self.host = manager.host

    def on_auth(self, auth: packets.Auth) -> None:
        """Do nothing: no method is supported, so the engine lets no AUTH through."""

    def on_subscribe(self, request: packets.Subscribe) -> None:
        """Subscribe, filter by filter."""
        self.engine.work_through(subscribe_steps(self, request))

    def on_unsubscribe(self, request: packets.Unsubscribe) -> None:
        """Unsubscribe, filter by filter."""
        self.engine.work_through(unsubscribe_steps(self, request))

    def on_writable(self) -> None:
        """Go on with deliveries."""
        if self.exchange is not None:
            self.exchange.outlet.go_on()

    def read_on(self) -> None:
        """Read from the client again, if it was not: what it owes us may be behind what waits."""
        if self.exchange is not None:
            self.exchange.read_on()

    # -- other brokers -------------------------------------------------------------------------------------------

    def refer(self, only_followers: bool) -> None:
        """Send the client to another broker; see `Client`. No client is known to follow, so those that must stay."""
        others = self._others()
        if others and not only_followers and not self.engine.closed:
            self._send_away(others)
            self.wake()

    def _others(self) -> list[Alternative]:
        return self.host.referrals.for_client("MQTT", self.context.is_encrypted, self.client_id)

    def _send_away(self, others: list[Alternative]) -> None:
        """Disconnect the client, and name other brokers if its version has words for that; its will goes out."""
        reason = redirecting_reason(self.host.referrals)
        self.end(reason, "", Properties(server_reference=server_reference(others)))

    # -- rights --------------------------------------------------------------------------------------------------

    def user_removed(self, reason: str) -> None:
        """Disconnect a client whose user is gone."""
        if not self.engine.closed:
            self.end(reasons.NOT_AUTHORIZED, reason)
            self.wake()

    def closed_by_operator(self, reason: str) -> None:
        """Disconnect a client for an administrator; it may connect again, and its session stays."""
        if not self.engine.closed:
            self.end(reasons.ADMINISTRATIVE_ACTION, reason)
            self.wake()

    def rights_changed(self) -> None:
        """Apply the new rights. MQTT cannot take one subscription away, so the connection ends instead."""
        session, core, exchange = self.session, self.core, self.exchange
        if session is None or core is None or exchange is None or self.engine.closed:
            return
        outlet = exchange.outlet
        outlet.rights_changed()
        exchange.publisher.forget_rights()
        references = under_way(session)
        for subscription in list(session.subscriptions.values()):
            try:
                if subscription.consumer is None:
                    resume(subscription, outlet, core, references.get(subscription, []))
                else:
                    core.check_consumer(subscription.queue)
            except NotAuthorized as refusal:
                if subscription.consumer is not None:
                    self.end(reasons.NOT_AUTHORIZED, str(refusal))
                    break
            except Refusal:
                continue
        outlet.go_on()
        self.wake()

    # -- the end -------------------------------------------------------------------------------------------------

    def take_over(self) -> None:
        """Give way to another connection with our client identifier [MQTT-3.1.4-3]."""
        self.brake.info(self.source, "session taken over: client=%s from=%s", self.client_id, self.context.peer)
        self.end(reasons.SESSION_TAKEN_OVER, "another connection took the session over")
        self.wake()

    def end(self, reason: int, text: str, properties: Properties = NO_PROPERTIES) -> None:
        """End this connection from our side; the will goes out."""
        self.engine.disconnect(reason, text, properties)
        self._leave(with_will=True)

    def on_disconnect(self, disconnect: packets.Disconnect) -> None:
        """Let the session end as the client wants it."""
        session = self.session
        interval = disconnect.properties.session_expiry_interval
        if session is not None and self.core is not None and interval is not None and session.expiry_s > 0:
            longest = self.parameters.max_session_expiry_s
            wanted_s = interval if longest < 0 else min(interval, longest)
            session.expiry_s = expiry_allowed(self.manager.sessions, session, self.core, wanted_s)
        self._leave(with_will=disconnect.reason == _DISCONNECT_WITH_WILL)

    def on_failed(self, reason: int, text: str) -> None:
        """Log the end: the client broke the protocol, or fell silent."""
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
        exchange = self.exchange
        if exchange is not None:
            exchange.forget_room()
        session, core = self.session, self.core
        if session is None or core is None or session.handler is not self:
            return
        # No CONNACK, no will.
        self.manager.sessions.leave(session, with_will and exchange is not None)
        core.close()
        self.exchange = None

    def queue_gone(self, subscription: Subscription, reason: str) -> None:
        """Disconnect a client whose queue was deleted: it must know that it is not subscribed any more."""
        session = self.session
        if session is None or self.engine.closed or session.is_over:
            return
        if session.subscriptions.get(subscription.topic_filter) is not subscription:
            return
        unsubscribe(self.manager.sessions, subscription, None, reason)
        self.end(reasons.ADMINISTRATIVE_ACTION, f"the queue of '{subscription.topic_filter}' was removed: {reason}")
        self.wake()

    # -- what the log should know ----------------------------------------------------------------------------------

    def left_out(self, subscription: Subscription, reference: Reference) -> None:
        """Log the first message that did not go to this client."""
        if not self._left_out:
            self._left_out = True
            self.brake.warning(
                self.source,
                "message left out, it is too large for the client or its address is no topic: client=%s address=%s",
                self.client_id,
                reference.message.address,
            )

    def unconverted(self, reference: Reference, error: Exception) -> None:
        """Log a message of another protocol that became a dead letter."""
        self.brake.warning(
            self.source,
            "message not delivered: client=%s queue=%s reason=%s",
            self.client_id,
            reference.queue.name,
            error,
        )
