"""A turn is bounded in the work it does: whoever asks for much goes on in later turns, everybody else comes between."""

from collections.abc import Callable

import pytest
from attrs import evolve, frozen
from wsproto import ConnectionType, WSConnection
from wsproto.events import BytesMessage, Request

from artemis_amqp.broker.manager import AmqpProtocolManager
from artemis_amqp.engine.performatives import Attach, Begin, Open, Source, Target, frame
from artemis_amqp.engine.states import AMQP_HEADER
from artemis_mqtt.broker.manager import MqttProtocolManager
from artemis_mqtt.engine.packets import MQTT_3_1_1, Connect, Subscribe, Subscription, Unsubscribe
from artemis_py.protocol import ProtocolManager
from artemis_py.transport.driver import Driver
from artemis_py.transport.turn import LEAST_UNITS, LINE_UNITS, READ_UNITS
from artemis_py.transport.websocket import with_websocket
from tests import mqtt_harness as mqtt
from tests.amqp_harness import transfer
from tests.line_protocol import LineConnection
from tests.unit.transport.doubles import Bench, FakeTransport


class Site(Bench):
    """Every protocol on one port."""

    def __init__(self) -> None:
        super().__init__(output_limit_bytes=1 << 20)
        managers: list[ProtocolManager] = [
            self.manager,
            MqttProtocolManager(self.host),
            AmqpProtocolManager(self.host),
        ]
        self.terms = evolve(self.terms, managers=with_websocket(managers, self.domain.meter))

    def feed(self, transport: FakeTransport, data: bytes) -> None:
        """Bytes arrive; the turn they cause is still to come."""
        assert transport.driver is not None
        transport.driver.data_received(data)

    def turns_until(self, done: Callable[[], bool]) -> int:
        """Iterations of the loop until then."""
        count = 0
        while not done():
            assert self.loop.ready, "nothing is going to happen"
            self.loop.run_once()
            count += 1
        return count

    def routed(self, address: str) -> int:
        """Messages that were sent to an address."""
        found = self.domain.addresses.get(address)
        return 0 if found is None else found.routed + found.unrouted


def mqtt_hello(name: str = "a") -> bytes:
    return mqtt.connect(Connect(version=MQTT_3_1_1, client_id=name))


def mqtt_publishes(count: int, topic: str = "t") -> bytes:
    return mqtt.publish(MQTT_3_1_1, topic, b"m", 0, 0) * count


def mqtt_subscribe(filters: list[str]) -> bytes:
    wanted = tuple(Subscription(topic_filter=one, qos=0) for one in filters)
    return mqtt.subscribe(MQTT_3_1_1, Subscribe(packet_id=1, subscriptions=wanted))


def amqp_hello() -> bytes:
    return (
        AMQP_HEADER
        + frame(0, Open(container_id="c"))
        + frame(0, Begin(next_outgoing_id=0, incoming_window=2000, outgoing_window=2000))
        + frame(0, Attach(name="s", handle=0, role=False, initial_delivery_count=0, target=Target(address="t")))
    )


def amqp_attaches(first: int, count: int) -> bytes:
    return b"".join(
        frame(0, Attach(name=f"l{one}", handle=one, role=True, source=Source(address=f"q{one}"), target=Target()))
        for one in range(first, first + count)
    )


@frozen
class Asking:
    """A client that asks for much in one read."""

    hello: bytes
    octets: bytes
    result: Callable[[Site], int]
    """How much of it was done."""
    count: int


MESSAGE = b"\x00\x53\x77\xa1\x01m"

ASKING = {
    "LINE messages": Asking(b"LINE a\n", b"SEND t m\n" * 5000, lambda site: site.routed("t"), 5000),
    "MQTT publishes": Asking(mqtt_hello(), mqtt_publishes(5000), lambda site: site.routed("t"), 5000),
    "MQTT topics": Asking(
        mqtt_hello(),
        b"".join(mqtt_publishes(1, f"t/{one}") for one in range(1000)),
        lambda site: len(site.domain.addresses),
        1000,
    ),
    "MQTT filters": Asking(
        mqtt_hello(),
        mqtt_subscribe([f"f/{one}" for one in range(1000)]),
        lambda site: len(site.domain.queues),
        1000,
    ),
    "AMQP messages": Asking(
        amqp_hello(),
        b"".join(transfer(one, MESSAGE, settled=True) for one in range(900))
        + b"\x00\x00\x00\x08\x02\x00\x00\x00" * 5000
        + transfer(900, MESSAGE, settled=True),
        lambda site: site.routed("t"),
        901,
    ),
    "AMQP attaches": Asking(amqp_hello(), amqp_attaches(1, 200), lambda site: len(site.domain.queues), 200),
}


@pytest.mark.parametrize("name", ASKING)
def test_others_come_between(name: str) -> None:
    """A packet that arrived later is answered long before all is done of one that asks for much."""
    site = Site()
    asking = ASKING[name]
    greedy = site.accept()
    site.receive(greedy, asking.hello)
    modest, _ = site.log_in("modest")
    before = asking.result(site)

    site.feed(greedy, asking.octets)
    done_at_once = asking.result(site) - before
    site.feed(modest, b"ECHO here\n")
    turns_to_answer = site.turns_until(lambda: b"here" in modest.output)
    done_when_answered = asking.result(site) - before
    turns_to_end = site.turns_until(lambda: asking.result(site) >= asking.count)
    site.loop.run()

    assert turns_to_answer == 1
    assert 0 < done_at_once <= READ_UNITS
    assert done_when_answered <= READ_UNITS + LINE_UNITS
    assert done_when_answered < asking.count
    assert turns_to_end >= 2
    assert greedy.is_reading_now


def test_turns_are_bounded_in_work() -> None:
    """Whatever is read: no turn does more than the shares say, and what the last packet of each takes."""
    site = Site()
    clients = [site.accept() for _ in range(10)]
    for number, client in enumerate(clients):
        site.receive(client, mqtt_hello(f"c{number}"))
    meter = site.domain.meter
    subscribe = mqtt_subscribe([f"f/{one}" for one in range(500)])

    before = meter.work
    for client in clients:
        site.feed(client, subscribe)
    spent = [meter.work - before]
    while site.loop.ready:
        before = meter.work
        site.loop.run_once()
        spent.append(meter.work - before)

    a_filter = 100
    assert max(spent) <= max(READ_UNITS, LINE_UNITS) + 10 * (LEAST_UNITS + a_filter)
    assert len(site.domain.queues) == 5000
    assert all(client.is_reading_now for client in clients)


def test_the_line_is_served_in_equal_parts() -> None:
    """Nobody in it waits for another one's end."""
    site = Site()
    clients = [site.accept() for _ in range(4)]
    for number, client in enumerate(clients):
        site.receive(client, mqtt_hello(f"c{number}"))
    for number, client in enumerate(clients):
        site.feed(client, mqtt_publishes(5000, f"t{number}"))
    routed = [site.routed(f"t{number}") for number in range(4)]
    for _ in range(4):
        site.loop.run_once()

    gained = [site.routed(f"t{number}") - before for number, before in enumerate(routed)]

    assert min(gained) > 500
    assert max(gained) - min(gained) <= 8


def test_answers_keep_their_order_over_turns() -> None:
    """SUBACK comes when all filters are done, and nothing of a later packet before it."""
    site = Site()
    client = site.accept()
    site.receive(client, mqtt_hello())
    client.written.clear()
    filters = [f"f/{one}" for one in range(1000)]
    unsubscribe = mqtt.unsubscribe(MQTT_3_1_1, Unsubscribe(packet_id=2, topic_filters=tuple(filters)))

    site.feed(client, mqtt_subscribe(filters) + mqtt.PINGREQ + unsubscribe + mqtt.PINGREQ)
    turns = site.turns_until(lambda: client.output.count(b"\xd0\x00") == 2)

    answers = [type(one).__name__ for one in mqtt.read_server_packets(MQTT_3_1_1, client.output)]
    assert turns > 10
    assert answers.index("Suback") < answers.index("Unsuback")
    assert len(answers) == 4
    assert not site.domain.queues


def test_what_is_kept_is_not_added_to() -> None:
    """The socket is not read from while input is kept; what comes all the same stays behind it."""
    site = Site()
    client = site.accept()
    site.receive(client, mqtt_hello())

    site.feed(client, mqtt_publishes(5000))
    was_reading = client.is_reading_now
    site.feed(client, mqtt_publishes(5000))
    routed = site.routed("t")
    site.loop.run()

    assert not was_reading
    assert routed <= READ_UNITS
    assert site.routed("t") == 10_000
    assert client.is_reading_now


def test_the_peers_end_counts_behind_what_it_sent() -> None:
    """All that arrived before is done, and answered, before this side closes."""
    site = Site()
    client = site.accept()
    site.receive(client, mqtt_hello())
    client.written.clear()
    assert client.driver is not None

    site.feed(client, mqtt_publishes(5000) + mqtt.PINGREQ)
    stays_open = client.driver.eof_received()
    was_closed = client.is_closed
    site.loop.run()

    assert stays_open
    assert not was_closed
    assert site.routed("t") == 5000
    assert client.output == b"\xd0\x00"
    assert client.is_closed


def lost(site: Site) -> tuple[FakeTransport, LineConnection]:
    """A connection whose socket broke with most of what it had received still to be done."""
    client, connection = site.log_in()
    site.feed(client, b"SEND t m\n" * 5000)
    assert client.driver is not None
    client.driver.connection_lost(OSError("broken pipe"))
    assert connection.lost_count == 0
    return client, connection


def test_what_arrived_before_the_socket_broke_counts() -> None:
    """As if all of it had been done in the turn in which it was read."""
    site = Site()
    _, connection = lost(site)
    members = len(site.connections)
    site.loop.run()

    assert members == 1
    assert site.routed("t") == 5000
    assert connection.lost_count == 1
    assert len(site.connections) == 0


@pytest.mark.parametrize("how", ["shutdown", "abort", "failure"])
def test_a_broken_connection_with_input_can_be_ended(how: str) -> None:
    """The end of the broker does not wait for it, and a failure in it ends it."""
    site = Site()
    client, connection = lost(site)
    driver = client.driver
    assert isinstance(driver, Driver)
    match how:
        case "shutdown":
            driver.shutdown("enough")
        case "abort":
            driver.abort()
        case "failure":
            connection._received = b"FAIL\n" + connection._received
    site.loop.run()

    assert connection.lost_count == 1
    assert len(site.connections) == 0
    assert site.routed("t") < 5000


def test_a_slow_reader_does_not_go_on() -> None:
    """Input that is kept waits with everything else of a peer that does not read, and goes on with it."""
    site = Site()
    client, _ = site.log_in()
    assert client.driver is not None
    site.feed(client, b"SEND t m\n" * 5000)
    client.driver.pause_writing()
    site.loop.run()
    routed = site.routed("t")
    was_reading = client.is_reading_now
    client.driver.resume_writing()
    site.loop.run()

    assert routed <= READ_UNITS
    assert not was_reading
    assert site.routed("t") == 5000
    assert client.is_reading_now


def test_keep_alive_does_not_run_while_nothing_is_read() -> None:
    """A client is not silent because we do not listen."""
    site = Site()
    client = site.accept()
    site.receive(client, mqtt.connect(Connect(version=MQTT_3_1_1, client_id="a", keep_alive_s=10)))
    site.feed(client, mqtt_publishes(5000))
    site.loop.now += 14
    site.loop.run()
    site.loop.advance(14)
    still_there = len(site.connections)
    site.loop.advance(2)

    assert still_there == 1
    assert client.is_half_closed


@pytest.mark.parametrize("frames", [1, 2000])
def test_a_web_socket_is_bounded_too(frames: int) -> None:
    """Few frames with many packets, or many with few."""
    site = Site()
    client = site.accept()
    peer = WSConnection(ConnectionType.CLIENT)
    site.receive(client, peer.send(Request(host="broker", target="/", subprotocols=["mqtt"])))
    peer.receive_data(client.output)
    assert list(peer.events())
    site.receive(client, peer.send(BytesMessage(data=mqtt_hello())))
    modest, _ = site.log_in("modest")

    site.feed(client, b"".join(peer.send(BytesMessage(data=mqtt_publishes(6000 // frames))) for _ in range(frames)))
    done_at_once = site.routed("t")
    site.feed(modest, b"ECHO here\n")
    turns_to_answer = site.turns_until(lambda: b"here" in modest.output)
    site.feed(client, peer.send(BytesMessage(data=mqtt.PINGREQ)))
    turns_to_end = site.turns_until(lambda: site.routed("t") == 6000)
    site.loop.run()

    assert done_at_once <= READ_UNITS
    assert turns_to_answer == 1
    assert turns_to_end >= 2
    assert client.output.endswith(b"\xd0\x00")
    assert client.is_reading_now
