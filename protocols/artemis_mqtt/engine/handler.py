"""The calls that the engine makes, in wire order, from within `receive_data`: the meaning of a conversation."""

from mypy_extensions import mypyc_attr

from artemis_mqtt.engine.delivery import Delivery
from artemis_mqtt.engine.delivery_run import DeliveryRun
from artemis_mqtt.engine.flight import IncomingFlight, OutgoingFlight
from artemis_mqtt.engine.packets import Auth, Connect, Disconnect, Subscribe, Unsubscribe


@mypyc_attr(allow_interpreted_subclasses=True)
class MessageHandler:
    """Messages of a client that was accepted, and their acknowledgements. `MqttConnection.accept` is given one."""

    def __init__(self, incoming: IncomingFlight, outgoing: OutgoingFlight) -> None:
        """Keep the flights of the client's session."""
        self.incoming: IncomingFlight = incoming
        self.outgoing: OutgoingFlight = outgoing

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
        """Take a message. QoS 1: answer with `puback`, QoS 2: with `pubrec`, once each, in order, now or later.

        `topic` has its alias resolved and is valid. `properties` are those that travel with the message
        (MQTT 5.0 §3.3.2.3: payload format, content type, response topic, correlation data, user properties): validated,
        encoded as they came, without their length. `expiry_s` is the Message Expiry Interval, -1: none.
        """
        raise NotImplementedError

    def on_duplicate(self, packet_id: int) -> None:
        """Answer a QoS 2 message that was received before, with `pubrec` once the first one is durable."""
        raise NotImplementedError

    def on_pubrel(self, packet_id: int) -> None:
        """Forget the identifier of a QoS 2 message that the client released; answer with `pubcomp`, now or later."""
        raise NotImplementedError

    def on_pubacks(self, run: DeliveryRun, count: int) -> None:
        """End so many deliveries of QoS 1, which were the first ones of a run."""
        raise NotImplementedError

    def on_pubrecs(self, run: DeliveryRun, first_id: int, count: int) -> None:
        """Record that the client has so many QoS 2 messages of a run; then `send_pubrels`, as for `on_pubrec`.

        Nothing is called when their PUBCOMP comes.
        """
        raise NotImplementedError

    def on_puback(self, delivery: Delivery, reason: int) -> None:
        """End a QoS 1 delivery; `reason` of 0x80 or more: the client refused it, and must not get it again."""
        raise NotImplementedError

    def on_pubrec(self, delivery: Delivery, reason: int) -> None:
        """Record that the client has a QoS 2 message; then `send_pubrels`, later: when that is durable.

        `reason` of 0x80 or more: it refused the message, the delivery is over, there is nothing to send.
        """
        raise NotImplementedError

    def on_pubcomp(self, delivery: Delivery) -> None:
        """End a QoS 2 delivery; its identifier is free."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class MqttHandler:
    """Everything else: rare packets, each with an object of its own."""

    def wake(self) -> None:
        """Note that there is output now, where there was none."""
        raise NotImplementedError

    def on_connect(self, connect: Connect) -> None:
        """Answer the client's introduction, now or later, with `accept`, `refuse` or `send_auth`.

        What the client sends behind it waits until then.
        """
        raise NotImplementedError

    def on_auth(self, auth: Auth) -> None:
        """Take the next step of enhanced authentication: before the login answered as `on_connect` is, after it with
        `send_auth` or `disconnect`. Only if CONNECT named a method, and with that method [MQTT-4.12.0-5]."""
        raise NotImplementedError

    def on_subscribe(self, subscribe: Subscribe) -> None:
        """Answer with `send_suback`, now or later."""
        raise NotImplementedError

    def on_unsubscribe(self, unsubscribe: Unsubscribe) -> None:
        """Answer with `send_unsuback`, now or later."""
        raise NotImplementedError

    def on_disconnect(self, disconnect: Disconnect) -> None:
        """Note that the client said goodbye; the engine is closed. Reason 0x04: its will is published all the same."""
        raise NotImplementedError

    def on_failed(self, reason: int, text: str) -> None:
        """Note that the client broke the protocol or fell silent. The engine has said so, and calls nothing more."""
        raise NotImplementedError

    def on_writable(self) -> None:
        """Go on with deliveries: output went out, or the window opened (at most once per read)."""
        raise NotImplementedError
