"""Which MQTT packet may come when: one client's conversation, server side.

Wire order only: no sockets, no clock, no broker. `codec` turns bytes into packets, this module says whether a packet is
legal now, and the `MqttHandler` gives it a meaning. Calls are made in wire order from within `receive_data`; the
handler answers at once or later. Interface skeleton; the machine follows.
"""

from mypy_extensions import mypyc_attr

from artemis_mqtt.flight import Delivery, IncomingFlight, OutgoingFlight
from artemis_mqtt.limits import ConnectionLimits
from artemis_mqtt.packets import Auth, Connack, Connect, Disconnect, Subscribe, Unsubscribe
from artemis_mqtt.properties import NO_PROPERTIES, Properties


@mypyc_attr(allow_interpreted_subclasses=True)
class MqttHandler:
    """What the conversation means."""

    def wake(self) -> None:
        """There is output now, where there was none."""
        raise NotImplementedError

    def on_connect(self, connect: Connect) -> None:
        """The client introduced itself: answer, now or later, with `accept`, `refuse` or `send_auth`.

        What the client sends behind it waits until then.
        """
        raise NotImplementedError

    def on_auth(self, auth: Auth) -> None:
        """The next step of enhanced authentication: before the login answered as `on_connect` is, after it with
        `send_auth` or `disconnect`. Only if CONNECT named a method, and with that method [MQTT-4.12.0-5]."""
        raise NotImplementedError

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
        """A message. QoS 1: answer with `send_puback`, QoS 2: with `send_pubrec`; once each, in order, now or later.

        `topic` has its alias resolved and is valid. `properties` are those that travel with the message (§3.3.2.3: payload
        format, content type, response topic, correlation data, user properties), validated, encoded as they came, without
        their length; `read_properties` decodes them. `expiry_s` is the Message Expiry Interval, -1: none.
        """
        raise NotImplementedError

    def on_duplicate(self, packet_id: int) -> None:
        """A QoS 2 message that was received before: answer with `send_pubrec` once the first one is durable."""
        raise NotImplementedError

    def on_pubrel(self, packet_id: int) -> None:
        """The client released a QoS 2 message: forget its identifier, then `send_pubcomp`, now or later."""
        raise NotImplementedError

    def on_puback(self, delivery: Delivery, reason: int) -> None:
        """A QoS 1 delivery is over; `reason` of 0x80 or more: the client refused it, and must not get it again."""
        raise NotImplementedError

    def on_pubrec(self, delivery: Delivery, reason: int) -> None:
        """The client has a QoS 2 message: record that, then `send_pubrel` (later: when that is durable).

        `reason` of 0x80 or more: it refused the message, the delivery is over, there is nothing to send.
        """
        raise NotImplementedError

    def on_pubcomp(self, delivery: Delivery) -> None:
        """A QoS 2 delivery is over, its identifier free."""
        raise NotImplementedError

    def on_subscribe(self, subscribe: Subscribe) -> None:
        """Answer with `send_suback`, now or later."""
        raise NotImplementedError

    def on_unsubscribe(self, unsubscribe: Unsubscribe) -> None:
        """Answer with `send_unsuback`, now or later."""
        raise NotImplementedError

    def on_disconnect(self, disconnect: Disconnect) -> None:
        """The client said goodbye; the engine is closed. Reason 0x04: its will is to be published all the same."""
        raise NotImplementedError

    def on_failed(self, reason: int, text: str) -> None:
        """The client broke the protocol or fell silent; the engine has said so and closed. Nothing comes after this."""
        raise NotImplementedError

    def on_writable(self) -> None:
        """Deliveries may go on: output went out, or the window opened (at most once per read)."""
        raise NotImplementedError


class MqttConnection:
    """One client's conversation: bytes and time in, calls and bytes out."""

    def __init__(self, handler: MqttHandler, limits: ConnectionLimits) -> None:
        self.handler: MqttHandler = handler
        self.limits: ConnectionLimits = limits
        self.version: int = 0
        """Protocol level of the CONNECT; 0 before it."""
        self.incoming: IncomingFlight = IncomingFlight()
        self.outgoing: OutgoingFlight = OutgoingFlight()
        """The session's, from `accept` on."""

    # -- for the transport -------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether nothing more will be said."""
        raise NotImplementedError

    @property
    def is_open(self) -> bool:
        """Whether the client was accepted and nobody ended the conversation."""
        raise NotImplementedError

    def receive_data(self, data: bytes, now: float) -> None:
        """Work through what the client sent, in pieces of any size. Never raises for anything a client can send."""
        raise NotImplementedError

    def data_to_send(self) -> bytes:
        """Take all output."""
        raise NotImplementedError

    def next_deadline(self) -> float | None:
        """When the client's silence lasts too long: one and a half times its keep-alive [MQTT-3.1.2-22]."""
        raise NotImplementedError

    def handle_deadline(self, now: float) -> None:
        """Give a silent client up."""
        raise NotImplementedError

    def pause(self) -> None:
        """Send no deliveries until `resume`; the transport does not read, so silence means nothing."""
        raise NotImplementedError

    def resume(self) -> None:
        """Deliveries may go on."""
        raise NotImplementedError

    # -- login and end -----------------------------------------------------------------------------------------

    def accept(
        self, connack: Connack, keep_alive_s: int, incoming: IncomingFlight, outgoing: OutgoingFlight, window: int
    ) -> None:
        """Answer CONNECT with success; from here on messages come and go.

        The engine adds the properties of its own limits (Receive Maximum, Maximum Packet Size, Topic Alias Maximum)
        and Server Keep Alive if `keep_alive_s` (0: none) differs from what the client asked for. `window` is how many
        messages of QoS 1 and 2 we send ahead at most; the client's Receive Maximum lowers it. PUBRELs of the session
        that are still unanswered go out at once; messages to send again are to be taken from `outgoing.next_resend()`.
        What the client sent meanwhile is worked through before this returns.
        """
        raise NotImplementedError

    def refuse(self, reason: int, properties: Properties = NO_PROPERTIES) -> None:
        """Answer CONNECT with a failure, in the words of the client's version, and close [MQTT-3.2.2-7]."""
        raise NotImplementedError

    def send_auth(self, reason: int, properties: Properties) -> None:
        """Go on with enhanced authentication: 0x18, or 0x00 at the end of a re-authentication. The engine fills in
        the method."""
        raise NotImplementedError

    def disconnect(self, reason: int, text: str = "", properties: Properties = NO_PROPERTIES) -> None:
        """End the conversation: DISCONNECT in version 5 (CONNACK before the login), a bare close in 3.x. `text` becomes
        the Reason String if the client wants those. The handler hears nothing more."""
        raise NotImplementedError

    # -- deliveries ----------------------------------------------------------------------------------------------

    @property
    def can_send(self) -> bool:
        """Whether there is room for deliveries: not paused, and less output than the limit waits."""
        raise NotImplementedError

    def send_publish(
        self, topic_field: bytes, payload: bytes, qos: int, retain: bool, dup: bool, packet_id: int, properties: bytes
    ) -> bool:
        """Send one message; False: it is larger than the client takes, and was not sent [MQTT-3.1.2-24].

        `topic_field` is the topic as `topics.topic_field` encodes it (keep it); `packet_id` comes from `outgoing.add`
        (0 for QoS 0). `properties` are what `on_publish` gave, to which `publish.expiry_property` and
        `publish.subscription_identifier_property` may be appended; 3.x leaves them out. Topic aliases are the engine's.
        """
        raise NotImplementedError

    def send_encoded(self, packet: bytes) -> bool:
        """Send a QoS 0 PUBLISH as `publish.encode_publish` made it for this version; False: as in `send_publish`."""
        raise NotImplementedError

    def send_puback(self, packet_id: int, reason: int = 0) -> None:
        """Answer a QoS 1 message; the reason is left out in 3.x."""
        raise NotImplementedError

    def send_pubrec(self, packet_id: int, reason: int = 0) -> None:
        """Answer a QoS 2 message; 0x80 or more refuses it and frees its identifier (version 5 only)."""
        raise NotImplementedError

    def send_pubrel(self, delivery: Delivery) -> None:
        """Release a delivery whose PUBREC came."""
        raise NotImplementedError

    def send_pubcomp(self, packet_id: int) -> None:
        """Answer PUBREL."""
        raise NotImplementedError

    def send_suback(self, packet_id: int, reasons: list[int], properties: Properties = NO_PROPERTIES) -> None:
        """Answer SUBSCRIBE, one code per filter in order; codes of 0x80 or more are 0x80 in 3.1.1, QoS 0 in 3.1."""
        raise NotImplementedError

    def send_unsuback(self, packet_id: int, reasons: list[int], properties: Properties = NO_PROPERTIES) -> None:
        """Answer UNSUBSCRIBE, one code per filter in order."""
        raise NotImplementedError
