"""The MQTT clients of the crash test: threads that outlive the server and keep to the delivery protocols.

Each connects again whenever the server went away and takes its exchanges up where they were, as [MQTT-4.4.0-1] asks
for. So at the end everything that was ever attempted is through, and what must hold is simple: QoS 2 exactly once,
QoS 1 at least once, both in order, sessions and retained messages kept. A group gets each message as one client does,
and the will of a client that was let in comes exactly once, whoever broke the connection.
"""

import random
import threading
import time
from collections import Counter
from typing import Final

from tests.interop.mqtt import packets
from tests.interop.mqtt.packets import Packet, Property, Will
from tests.interop.mqtt.raw import Closed, Raw
from tests.interop.mqtt.server import MqttServer

WINDOW: Final = 20
TOPICS: Final = 10
RECONNECT_PAUSE_S: Final = 0.02
DRAIN_TIMEOUT_S: Final = 60.0
FOREVER: Final = 0xFFFFFFFF


class Connection(Raw):
    """A server that stops may say so; to a client that connects again it is all the same."""

    def read(self) -> Packet:
        packet = super().read()
        if packet.kind == packets.DISCONNECT:
            raise Closed
        return packet


class Worker(threading.Thread):
    """A client with a kept session."""

    def __init__(self, server: MqttServer, client_id: str, version: int) -> None:
        super().__init__(name=client_id, daemon=True)
        self.server: Final = server
        self.client_id: Final = client_id
        self.version: Final = version
        self.violations: Final[list[str]] = []
        self.connections = 0
        self.stopping = threading.Event()

    def run(self) -> None:
        """Work, and connect again when the server goes away."""
        while not self.is_finished():
            try:
                with Connection(self.server, self.version) as client:
                    given = [(Property.SESSION_EXPIRY, FOREVER)] if self.version == 5 else []
                    connack = client.connect(self.client_id, False, given=given, will=self.next_will())
                    if connack.code:
                        # It came while the server stopped.
                        raise Closed
                    if self.connections and self.version > 3 and not connack.session_present:
                        self.violations.append(f"P8 session lost: {self.client_id}")
                    self.resume(client)
                    self.connections += 1
                    while not self.is_finished():
                        self.work(client)
            except (Closed, OSError):
                time.sleep(RECONNECT_PAUSE_S)
            except AssertionError as error:
                self.violations.append(f"{self.client_id}: {error}")
                return

    def is_finished(self) -> bool:
        """Told to stop, and nothing is open."""
        return self.stopping.is_set()

    def next_will(self) -> Will | None:
        """What the next connection leaves behind."""
        return None

    def resume(self, client: Raw) -> None:
        """What the protocol asks for after a connection."""

    def work(self, client: Raw) -> None:
        """One step; may wait for a packet."""
        raise NotImplementedError


class Publisher(Worker):
    """Numbers from 1; each is sent until its exchange is complete."""

    def __init__(self, server: MqttServer, client_id: str, version: int, topic: str, qos: int) -> None:
        super().__init__(server, client_id, version)
        self.topic: Final = topic
        self.qos: Final = qos
        self.attempted = 0
        self.acknowledged = 0
        self._open: Final[dict[int, tuple[int, bool]]] = {}
        """By packet identifier, oldest first: the number, and whether PUBREC has come."""
        self._packet_id = 0

    def is_finished(self) -> bool:
        return self.stopping.is_set() and not self._open

    def resume(self, client: Raw) -> None:
        for packet_id, (number, is_received) in self._open.items():
            if is_received:
                client.send(packets.answer(packets.PUBREL, packet_id))
            else:
                self._send(client, packet_id, number, True)

    def work(self, client: Raw) -> None:
        while len(self._open) < WINDOW and not self.stopping.is_set():
            self._packet_id = self._packet_id % 65535 + 1
            self.attempted += 1
            self._open[self._packet_id] = (self.attempted, False)
            self._send(client, self._packet_id, self.attempted, False)
        if self._open:
            self._act(client, client.read())

    def _send(self, client: Raw, packet_id: int, number: int, dup: bool) -> None:
        payload = f"{self.client_id}/{number}".encode()
        client.send(packets.publish(self.version, self.topic, payload, self.qos, packet_id, dup=dup))

    def _act(self, client: Raw, packet: Packet) -> None:
        assert packet.packet_id in self._open, f"an answer to nothing: {packet}"
        number, _ = self._open[packet.packet_id]
        assert packet.code < 0x80 or packet.code == 0x92, f"refused: {packet}"
        if packet.kind == packets.PUBREC:
            self._open[packet.packet_id] = (number, True)
            client.send(packets.answer(packets.PUBREL, packet.packet_id))
        else:
            assert packet.kind == (packets.PUBACK if self.qos == 1 else packets.PUBCOMP)
            del self._open[packet.packet_id]
            self.acknowledged += 1


class Keeper(Worker):
    """Writes retained messages, one after the other, QoS 1."""

    def __init__(self, server: MqttServer, client_id: str, version: int, seed: int) -> None:
        super().__init__(server, client_id, version)
        self.attempted: Final = [0] * TOPICS
        self.acknowledged: Final = [0] * TOPICS
        self._random: Final = random.Random(seed)
        self._count = 0

    def work(self, client: Raw) -> None:
        self._count += 1
        topic = self._random.randrange(TOPICS)
        self.attempted[topic] = self._count
        client.publish(f"state/{topic}", str(self._count), 1, retain=True)
        self.acknowledged[topic] = self._count


class Doomed(Worker):
    """Leaves a numbered will of QoS 2, and breaks its connection soon, or the server does."""

    def __init__(self, server: MqttServer, client_id: str, version: int, seed: int) -> None:
        super().__init__(server, client_id, version)
        self.attempted = 0
        self.acknowledged: Final[set[str]] = set()
        """Wills of connections that were let in."""
        self._random: Final = random.Random(seed)

    def next_will(self) -> Will:
        self.attempted += 1
        return Will(topic=f"work/will/{self.client_id}", payload=self._id().encode(), qos=2)

    def _id(self) -> str:
        return f"{self.client_id}/{self.attempted}"

    def resume(self, client: Raw) -> None:
        self.acknowledged.add(self._id())

    def work(self, client: Raw) -> None:
        time.sleep(self._random.uniform(0, 0.2))
        raise Closed


class Subscriber(Worker):
    """Takes everything that its filter covers, as a receiver that never forgets."""

    def __init__(self, server: MqttServer, client_id: str, version: int, topic_filter: str) -> None:
        super().__init__(server, client_id, version)
        self.topic_filter: Final = topic_filter
        self.deliveries: Final[Counter[str]] = Counter()
        self.subscribed: Final = threading.Event()
        self._received: Final[set[int]] = set()
        """Packet identifiers of QoS 2 messages whose PUBREL has not come."""
        self._newest: Final[Counter[str]] = Counter()

    def resume(self, client: Raw) -> None:
        if not self.subscribed.is_set():
            assert client.subscribe(self.topic_filter, options=2) == (2,)
            self.subscribed.set()

    def work(self, client: Raw) -> None:
        packet = client.read()
        if packet.kind == packets.PUBREL:
            self._received.discard(packet.packet_id)
            client.send(packets.answer(packets.PUBCOMP, packet.packet_id))
            return
        assert packet.kind == packets.PUBLISH, f"unexpected: {packet}"
        if packet.qos == 1:
            self._note(packet)
            client.send(packets.answer(packets.PUBACK, packet.packet_id))
        else:
            if packet.packet_id not in self._received:
                self._received.add(packet.packet_id)
                self._note(packet)
            client.send(packets.answer(packets.PUBREC, packet.packet_id))

    def _note(self, packet: Packet) -> None:
        id = packet.payload.decode()
        publisher, _, number = id.rpartition("/")
        is_alone = not self.topic_filter.startswith("$share/")
        if is_alone and not self.deliveries[id] and int(number) < self._newest[publisher]:
            self.violations.append(f"P5 out of order: {id} after {self._newest[publisher]}")
        self._newest[publisher] = max(self._newest[publisher], int(number))
        self.deliveries[id] += 1
