"""The clients of a storm: threads that connect again whenever their broker goes away, and write everything down.

Those that may do their work anywhere choose a broker for each connection. The others stay at one, because their
subscription, their session or the numbers of their messages do.

What they write down is read by `verdict`: `attempted`, `again` (sent a second time, because its client cannot know
better), `acknowledged`; `delivered`, `released`, `settling`, `confirmed`.
"""

import random
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from paho.mqtt.client import Client as PahoClient
from paho.mqtt.client import MQTTMessage, MQTTProtocolVersion
from paho.mqtt.enums import CallbackAPIVersion, MessageState
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from proton import Delivery, Message, ProtonException, Timeout

from artemis_openwire.engine.commands import ActiveMQTextMessage, ExceptionResponse, MessageDispatch
from artemis_openwire.engine.structures import ActiveMQDestination, ActiveMQQueue, ActiveMQTopic
from tests.crash.ledger import Ledger
from tests.interop.mesh.brokers import Node
from tests.interop.mqtt.paho_client import close_sockets
from tests.interop.openwire_client import OpenWireClient, acknowledgement, text_content
from tests.interop.proton.client import Client, Receiver, Refused, Sender

WORK: Final = "work"
"""A queue, consumed anywhere."""
NEWS: Final = "news"
"""A topic with subscriptions of all kinds."""
GROUP: Final = "group"
"""The shared subscription of AMQP."""
SHARE: Final = "share"
"""The shared subscription of MQTT."""

WINDOW: Final = 6
CREDIT: Final = 20
RECONNECT_PAUSE_S: Final = 0.05
LOOK_S: Final = 0.1
LONGEST_PAUSE_S: Final = 0.4
"""Between two windows of a producer: consumers shall keep up."""
MOST_MESSAGES: Final = 500
"""Of one producer: on a slow machine a run shall end, too."""
LONGEST_STAY_S: Final = 3.0
"""How long a client that may be anywhere stays at one broker."""
FOREVER_S: Final = 0xFFFFFFFF
PACKET_IDENTIFIER_NOT_FOUND: Final = 0x92
"""The answer to a PUBREL of an exchange that a broker has completed already."""
PADDING: Final = (0, 0, 10, 200, 5000)
"""Octets beside the id."""


def body_of(id: str, padding: int) -> str:
    """The text of a message."""
    return f"{id} {'.' * padding}"


def id_of(body: Any) -> str:
    """The id in what came, text or octets."""
    text = body if isinstance(body, str) else bytes(body).decode()
    return text.partition(" ")[0]


class Worker(threading.Thread):
    """A client that connects again."""

    def __init__(self, name: str, nodes: Sequence[Node], folder: Path, seed: int) -> None:
        """`nodes`: where it may connect."""
        super().__init__(name=name, daemon=True)
        self.random: Final = random.Random(f"{seed} {name}")
        self.ledger: Final = Ledger(folder / f"{name}.ledger")
        self.ready: Final = threading.Event()
        """It has done its first work: a subscription exists."""
        self.stopping: Final = threading.Event()
        self.failure: str = ""
        """Why it ended, if that is a fault of the broker."""
        self.connections = 0
        self._nodes: Final = nodes
        self._numbers = 0

    def run(self) -> None:
        """Work, and connect again when the broker goes away."""
        while not self.is_finished():
            try:
                self.connect(self.random.choice(self._nodes))
            except (ProtonException, Refused, OSError):
                time.sleep(RECONNECT_PAUSE_S)
            except Exception as error:
                self.failure = f"{self.name}: {error!r}"
                return

    def is_finished(self) -> bool:
        """Told to stop, and nothing is open."""
        return self.is_ending()

    def is_ending(self) -> bool:
        """Nothing new is begun."""
        return self.stopping.is_set() or self._numbers >= MOST_MESSAGES

    def connect(self, node: Node) -> None:
        """One connection, from its beginning to its end."""
        raise NotImplementedError

    def new_id(self) -> str:
        """Numbers ascend, and begin again nowhere. What is sent at another connection has another producer's name."""
        self._numbers += 1
        return f"{self.name}.{self.connections}/{self._numbers}"

    def padded(self, id: str) -> str:
        """A body of some length."""
        return body_of(id, self.random.choice(PADDING))

    def pause(self) -> None:
        """Let the others have the machine."""
        time.sleep(self.random.uniform(0, LONGEST_PAUSE_S))

    def stay(self) -> float:
        """When a connection ends, by the monotonic clock."""
        return time.monotonic() + self.random.uniform(0, LONGEST_STAY_S)


# -- AMQP -----------------------------------------------------------------------------------------------------------


class AmqpProducer(Worker):
    """To the queue and to the topic. What was not answered is not sent again: its outcome is unknown."""

    def connect(self, node: Node) -> None:
        self.connections += 1
        until = self.stay()
        client = Client(node.url)
        try:
            senders = {WORK: client.sender(WORK), NEWS: client.sender(NEWS, ("topic",))}
            while not self.is_finished() and time.monotonic() < until:
                address = self.random.choice((WORK, NEWS))
                self._send(senders[address], address)
                self.ready.set()
                self.pause()
        finally:
            leave(client)

    def _send(self, sender: Sender, address: str) -> None:
        on_the_way: list[tuple[str, Delivery]] = []
        for _ in range(self.random.randint(1, WINDOW)):
            id = self.new_id()
            self.ledger.note("attempted", id, address)
            on_the_way.append((id, sender.start(Message(body=self.padded(id), durable=True))))
        for id, delivery in on_the_way:
            state = sender.wait(delivery)
            assert state == Delivery.ACCEPTED, f"{id} was answered with {state}"
            self.ledger.note("acknowledged", id, address)
            delivery.settle()


class AmqpReceiver(Worker):
    """Takes everything; gives one in ten back, and one in ten up."""

    STAYS: bool = False
    """Whether the connection ends only with the broker."""

    def attach(self, client: Client) -> Receiver:
        """The link."""
        raise NotImplementedError

    destination: str
    """What the ledger calls the place where messages come from."""

    def connect(self, node: Node) -> None:
        self.connections += 1
        until = float("inf") if self.STAYS else self.stay()
        client = Client(node.url, self.name)
        try:
            receiver = self.attach(client)
            self.ready.set()
            receiver.flow(CREDIT)
            while not self.is_finished() and time.monotonic() < until:
                with suppress(Timeout):
                    client.connection.wait(lambda: receiver.waiting > 0, timeout=LOOK_S)
                self._take(receiver)
        finally:
            leave(client)

    def _take(self, receiver: Receiver) -> None:
        accepted: list[tuple[str, Delivery]] = []
        number = receiver.waiting
        for _ in range(number):
            received = receiver.receive()
            message, delivery = received.message, received.delivery
            id = id_of(received.body)
            marked = not message.first_acquirer or message.delivery_count > 0
            self.ledger.note("delivered", id, self.destination, marked=marked)
            lot = self.random.randrange(10)
            if lot == 0:
                self.ledger.note("released", id, self.destination)
                delivery.update(Delivery.RELEASED)
                delivery.settle()
            elif lot == 1:
                delivery.local.failed = True
                delivery.update(Delivery.MODIFIED)
                delivery.settle()
            else:
                self.ledger.note("settling", id, self.destination)
                delivery.update(Delivery.ACCEPTED)
                accepted.append((id, delivery))
        for id, delivery in accepted:
            receiver.client.wait(lambda delivery=delivery: delivery.settled, "a settlement")  # type: ignore[misc]
            self.ledger.note("confirmed", id, self.destination)
            delivery.settle()
        receiver.flow(number)


class AmqpConsumer(AmqpReceiver):
    """Of the queue, anywhere."""

    destination = WORK

    def attach(self, client: Client) -> Receiver:
        return client.receiver(WORK)


class AmqpSubscriber(AmqpReceiver):
    """A durable subscription, at one broker."""

    STAYS = True

    @property
    def destination(self) -> str:  # type: ignore[override]
        return self.name

    def attach(self, client: Client) -> Receiver:
        return client.receiver(NEWS, ("topic",), name="kept", durable=True)


class AmqpMember(AmqpReceiver):
    """One of those who share a durable subscription, anywhere."""

    destination = GROUP

    def attach(self, client: Client) -> Receiver:
        return client.receiver(NEWS, ("topic", "shared", "global"), name=GROUP, durable=True)


def leave(client: Client) -> None:
    """Close what is left of a connection; often the broker is gone already."""
    with suppress(ProtonException, OSError):
        client.close()


# -- OpenWire -------------------------------------------------------------------------------------------------------


class OpenWireWorker(Worker):
    """Connects under its own names, as the failover transport does."""

    def connect(self, node: Node) -> None:
        is_again = self.connections > 0
        name = f"ID:{self.name}:1"
        with OpenWireClient("127.0.0.1", node.port, name, fault_tolerant=True, failover_reconnect=is_again) as client:
            self.connections += 1
            self.resume(client)
            self.ready.set()
            until = self.until()
            while not self.is_finished() and time.monotonic() < until:
                self.work(client)

    def until(self) -> float:
        """When it leaves."""
        return float("inf")

    def resume(self, client: OpenWireClient) -> None:
        """Begin, or go on."""
        raise NotImplementedError

    def work(self, client: OpenWireClient) -> None:
        """One step."""
        raise NotImplementedError


class OpenWireProducer(OpenWireWorker):
    """At one broker; each message is sent under its number until it is answered, and must be there once."""

    DESTINATIONS: Final[dict[str, ActiveMQDestination]] = {
        WORK: ActiveMQQueue(physical_name=WORK),
        NEWS: ActiveMQTopic(physical_name=NEWS),
    }

    def __init__(self, name: str, nodes: Sequence[Node], folder: Path, seed: int) -> None:
        super().__init__(name, nodes, folder, seed)
        self._open: Final[dict[int, str]] = {}
        """Addresses of what is not answered, by number."""

    def is_finished(self) -> bool:
        return self.is_ending() and not self._open

    def resume(self, client: OpenWireClient) -> None:
        self._send(client)

    def work(self, client: OpenWireClient) -> None:
        address = self.random.choice((WORK, NEWS))
        for _ in range(self.random.randint(1, WINDOW)):
            self._numbers += 1
            self.ledger.note("attempted", f"{self.name}/{self._numbers}", address)
            self._open[self._numbers] = address
        self._send(client)
        self.pause()

    def _send(self, client: OpenWireClient) -> None:
        begun = []
        for number, address in self._open.items():
            content = text_content(body_of(f"{self.name}/{number}", PADDING[number % len(PADDING)]))
            begun.append(client.begin(client.message(self.DESTINATIONS[address], content, number)))
        for (number, address), command in zip([*self._open.items()], begun, strict=True):
            answer = client.answer(command)
            assert not isinstance(answer, ExceptionResponse), answer
            del self._open[number]
            self.ledger.note("acknowledged", f"{self.name}/{number}", address)


class OpenWireReceiver(OpenWireWorker):
    """Takes everything, one after the other."""

    destination: str

    def work(self, client: OpenWireClient) -> None:
        dispatch = client.next_dispatch(LOOK_S)
        if dispatch is None:
            return
        assert dispatch.message is not None
        id = id_of(_content(dispatch))
        # OpenWire counts failed attempts, and has no word for a message that may have come before.
        self.ledger.note("delivered", id, self.destination, marked=True)
        self.ledger.note("settling", id, self.destination)
        client.done(acknowledgement(dispatch))
        self.ledger.note("confirmed", id, self.destination)


class OpenWireConsumer(OpenWireReceiver):
    """Of the queue, anywhere."""

    destination = WORK

    def until(self) -> float:
        return self.stay()

    def resume(self, client: OpenWireClient) -> None:
        client.consume(ActiveMQQueue(physical_name=WORK), prefetch=self.random.choice((1, 10)))


class OpenWireSubscriber(OpenWireReceiver):
    """A durable subscription, at one broker."""

    @property
    def destination(self) -> str:  # type: ignore[override]
        return self.name

    def resume(self, client: OpenWireClient) -> None:
        client.consume(ActiveMQTopic(physical_name=NEWS), subscription_name="kept")


def _content(dispatch: MessageDispatch) -> bytes:
    message = dispatch.message
    assert message is not None
    content = message.content or b""
    return content[4:] if isinstance(message, ActiveMQTextMessage) else content


# -- MQTT -----------------------------------------------------------------------------------------------------------


class Paho(PahoClient):  # type: ignore[misc,unused-ignore]
    """Paho 2.1 with a mistake mended that a second attempt to connect shows.

    It forgets then that PUBREC has come, and publishes what the broker may have had to the end.
    """

    def _messages_reconnect_reset_out(self) -> None:
        released = [each for each in self._out_messages.values() if each.state == MessageState.MQTT_MS_RESEND_PUBREL]
        super()._messages_reconnect_reset_out()
        for each in released:
            each.state = MessageState.MQTT_MS_RESEND_PUBREL


class PahoWorker(Worker):
    """Eclipse Paho with a kept session at one broker; it connects again by itself, and takes its exchanges up."""

    VERSION: int = 5

    def connect(self, node: Node) -> None:
        client = Paho(
            CallbackAPIVersion.VERSION2,
            self.name,
            clean_session=False if self.VERSION < 5 else None,
            protocol=MQTTProtocolVersion(self.VERSION),
        )
        client.on_connect = self._on_connect
        client.reconnect_delay_set(1, 1)
        self.prepare(client)
        if self.VERSION == 5:
            properties = Properties(PacketTypes.CONNECT)
            properties.SessionExpiryInterval = FOREVER_S
            client.connect("127.0.0.1", node.port, clean_start=False, properties=properties)
        else:
            client.connect("127.0.0.1", node.port)
        client.loop_start()
        try:
            while not self.is_finished():
                self.work(client)
        finally:
            client.disconnect()
            client.loop_stop()
            close_sockets(client)

    def prepare(self, client: PahoClient) -> None:
        """Set callbacks."""

    def begin(self, client: PahoClient) -> None:
        """Do what follows the first connection."""
        self.ready.set()

    def work(self, client: PahoClient) -> None:
        """One step."""
        time.sleep(LOOK_S)

    def _on_connect(self, client: PahoClient, data: Any, flags: Any, code: Any, properties: Any) -> None:
        if code.is_failure:
            return  # it came while the broker stopped
        self.connections += 1
        if self.connections == 1:
            self.begin(client)
        elif not flags.session_present:
            self.failure = f"{self.name}: its session was lost"


class PahoPublisher(PahoWorker):
    """To the topic, with QoS 1 and 2."""

    def __init__(self, name: str, nodes: Sequence[Node], folder: Path, seed: int) -> None:
        super().__init__(name, nodes, folder, seed)
        self._open: Final[dict[int, tuple[str, int]]] = {}
        """Ids and QoS of what is not answered, by packet identifier."""
        self._answered: Final[set[int]] = set()
        """Packet identifiers; Paho's thread adds them, holding locks of its own."""
        self._lost: Final = threading.Event()

    def is_finished(self) -> bool:
        return self.is_ending() and not self._open

    def prepare(self, client: PahoClient) -> None:
        client.on_publish = self._on_publish
        client.on_disconnect = self._on_disconnect

    def work(self, client: PahoClient) -> None:
        if self._lost.is_set():
            self._lost.clear()
            for id, qos in self._open.values():
                if qos == 1:
                    self.ledger.note("again", id, NEWS)
        if self.ready.is_set() and not self.is_ending() and len(self._open) <= 2 * WINDOW:
            for _ in range(self.random.randint(1, WINDOW)):
                self._publish(client)
        for packet_id in self._answered & self._open.keys():
            self._answered.discard(packet_id)
            id, _ = self._open.pop(packet_id)
            self.ledger.note("acknowledged", id, NEWS)
        self.pause()

    def _publish(self, client: PahoClient) -> None:
        # MQTT keeps an order for each QoS [MQTT-4.6.0-5].
        qos = self.random.choice((1, 2))
        self._numbers += 1
        id = f"{self.name}.{qos}/{self._numbers}"
        self.ledger.note("attempted", id, NEWS)
        self._open[client.publish(NEWS, self.padded(id), qos).mid] = id, qos

    def _on_publish(self, client: PahoClient, data: Any, mid: int, code: Any, properties: Any) -> None:
        if code.is_failure and code.value != PACKET_IDENTIFIER_NOT_FOUND:
            self.failure = f"{self.name}: a message was answered with {code}"
        self._answered.add(mid)

    def _on_disconnect(self, client: PahoClient, data: Any, flags: Any, code: Any, properties: Any) -> None:
        self._lost.set()


class PahoSubscriber(PahoWorker):
    """A session with one subscription, QoS 2. Paho keeps to the protocol: what it hands over counts as confirmed."""

    FILTER: str = NEWS

    @property
    def destination(self) -> str:
        """What the ledger calls it."""
        return self.name

    def prepare(self, client: PahoClient) -> None:
        client.on_message = self._on_message
        client.on_subscribe = self._on_subscribe

    def begin(self, client: PahoClient) -> None:
        client.subscribe(self.FILTER, 2)

    def _on_subscribe(self, client: PahoClient, data: Any, mid: int, codes: Any, properties: Any) -> None:
        assert [code.value for code in codes] == [2], codes
        self.ready.set()

    def _on_message(self, client: PahoClient, data: Any, message: MQTTMessage) -> None:
        id = id_of(message.payload)
        # At least once is all that QoS 1 promises: a broker that dies need not know what it has sent.
        self.ledger.note("delivered", id, self.destination, marked=message.qos == 1)
        self.ledger.note("settling", id, self.destination)


class PahoMember(PahoSubscriber):
    """One of those who share a subscription."""

    FILTER = f"$share/{SHARE}/{NEWS}"

    @property
    def destination(self) -> str:
        return SHARE
