"""Deliveries of QoS 1 and 2 that are kept as runs, and whatever makes single deliveries of them."""

import pytest

from artemis_mqtt.broker.sent import sent
from artemis_mqtt.engine.delivery import MAX_PACKET_ID
from artemis_mqtt.engine.delivery_run import DeliveryRun, all_acks, count_acks
from artemis_mqtt.engine.flight import MOST_RUNS, OutgoingFlight
from artemis_mqtt.engine.packets import Unsubscribe
from artemis_mqtt.engine.properties import Properties
from artemis_py.core.runtime.meter import UNLIMITED
from tests import mqtt_harness as wire
from tests.mqtt_site import Client, Site, connected, lasting

PUBACK, PUBREC, PUBCOMP = 4, 5, 7


def flight(client: Client) -> OutgoingFlight:
    """What is on its way to a client."""
    assert client.handler.session is not None
    return client.handler.session.outgoing


def runs(client: Client) -> list[tuple[int, int]]:
    """The runs of a client: the first identifier and the number of deliveries of each."""
    return [(run.first_id, run.count) for run in flight(client).deliveries.runs]


def send(writer: Client, *payloads: bytes, topic: str = "t", qos: int = 1, **options: object) -> None:
    """Publish messages, whose deliveries wait for the next turn."""
    for payload in payloads:
        writer.publish(topic, payload, qos, 1 + len(payload), **options)
        if qos == 2:
            writer.send(wire.ack(6, 1 + len(payload)))


def answer(client: Client, packet_type: int, *packet_ids: int) -> None:
    """Acknowledge messages in one read."""
    client.send(*[wire.ack(packet_type, packet_id) for packet_id in packet_ids])


def world(qos: int = 1, version: int = 5) -> tuple[Site, Client, Client]:
    """A broker, a subscriber of `t`, and a client that writes."""
    site = Site()
    reader, writer = connected(site, "reader", version), connected(site, "writer")
    reader.subscribe("t", qos)
    return site, reader, writer


def is_over(site: Site, client: Client) -> bool:
    """Whether nothing is held any more: not by the session, nor by the queue, nor in an account."""
    outgoing = flight(client)
    queue = next(iter(client.handler.session.subscriptions.values())).queue if client.handler.session else None
    return (
        outgoing.deliveries.count == 0
        and outgoing.quota == outgoing.window
        and not outgoing.deliveries.runs
        and (queue is None or (queue.message_count, queue.delivering_count) == (0, 0))
        and site.domain.account.size_bytes == 0
        and site.domain.account.message_count == 0
    )


BODIES = [b"a", b"bb", b"ccc", b"dddd", b"eeeee"]


@pytest.mark.parametrize("version", [3, 4, 5])
def test_answers_in_order_end_a_run(version: int) -> None:
    """[MQTT-4.6.0-2] However many of them come in one read."""
    site, reader, writer = world(1, version)
    send(writer, *BODIES)
    got = [(packet[2], packet[4]) for packet in reader.packets()]
    seen = [runs(reader)]
    answer(reader, PUBACK, 1, 2, 3)
    seen.append(runs(reader))
    send(writer, b"f", b"gg")
    got += [(packet[2], packet[4]) for packet in reader.packets()]
    seen.append(runs(reader))
    answer(reader, PUBACK, 4, 5, 6, 7)

    assert got == list(zip([*BODIES, b"f", b"gg"], range(1, 8), strict=True))
    assert seen == [[(1, 5)], [(4, 2)], [(4, 4)]]
    assert is_over(site, reader)


def test_answers_of_a_run_are_little_work() -> None:
    """Sixteen of them are a unit, beside the one of the packet; a share that is used up leaves the rest for later."""
    site, reader, writer = world()
    send(writer, *[b"%d" % number for number in range(100)])
    reader.packets()
    meter = site.domain.meter
    before = meter.work
    answer(reader, PUBACK, *range(1, 41))
    work = [meter.work - before]
    meter.end = meter.work + 1
    answer(reader, PUBACK, *range(41, 101))
    work.append(meter.work - before)
    left = runs(reader)
    meter.end = UNLIMITED
    reader.packets()

    assert work == [3, 5]
    assert left == [(57, 44)]
    assert is_over(site, reader)


def test_a_message_that_comes_alone_is_no_run() -> None:
    """It has a delivery of its own, which is used again."""
    _, reader, writer = world()
    send(writer, b"a")
    reader.packets()

    assert (runs(reader), flight(reader).deliveries.count) == ([], 1)


@pytest.mark.parametrize("version", [4, 5])
def test_qos_2_is_released_and_completed_in_order(version: int) -> None:
    """[MQTT-4.3.3-1] [MQTT-4.6.0-3] PUBREC, PUBREL and PUBCOMP of a run, in parts that overlap."""
    site, reader, writer = world(2, version)
    send(writer, *BODIES, qos=2)
    reader.packets()
    answer(reader, PUBREC, 1, 2, 3)
    released = [packet[1] for packet in reader.packets()]
    answer(reader, PUBCOMP, 1)
    answer(reader, PUBREC, 4)
    answer(reader, PUBCOMP, 2, 3)
    send(writer, b"f", qos=2)
    more = [packet[:2] for packet in reader.packets()]
    seen = runs(reader)
    answer(reader, PUBREC, 5, 6)
    last = [packet[1] for packet in reader.packets()]
    answer(reader, PUBCOMP, 4, 5, 6)

    assert (released, last) == ([1, 2, 3], [5, 6])
    assert sorted(more) == [("publish", "t"), ("pubrel", 4)]
    assert seen == [(4, 3)]
    assert is_over(site, reader)


def test_a_pubcomp_that_answers_no_pubrel_ends_the_connection() -> None:
    """As for a delivery by itself: the message was received and not released, or not even received."""
    _, reader, writer = world(2)
    send(writer, *BODIES, qos=2)
    reader.packets()
    answer(reader, PUBCOMP, 1)

    assert reader.handler.closed


@pytest.mark.parametrize("qos", [1, 2])
def test_answers_in_another_order_end_deliveries_one_by_one(qos: int) -> None:
    """The client gets no more runs, because each would become single deliveries at once."""
    site, reader, writer = world(qos)
    send(writer, *BODIES, qos=qos)
    reader.packets()
    order = [3, 1, 5, 2, 4]
    for packet_id in order:
        answer(reader, PUBACK if qos == 1 else PUBREC, packet_id)
    released = [packet[1] for packet in reader.packets()]
    if qos == 2:
        answer(reader, PUBCOMP, *released)
    ended = is_over(site, reader)
    send(writer, *BODIES, qos=qos)
    reader.packets()

    assert released == (order if qos == 2 else [])
    assert ended
    assert (runs(reader), flight(reader).deliveries.count) == ([], 5)


def test_another_connection_finds_what_is_to_be_sent_again() -> None:
    """[MQTT-4.4.0-1] With its identifier and DUP, in order; what was answered is not."""
    _, reader, writer = world()
    send(writer, *BODIES)
    reader.packets()
    answer(reader, PUBACK, 1, 2)
    outgoing = flight(reader)
    outgoing.begin(100)
    again = [outgoing.next_resend() for _ in range(4)]

    found = [(sent(each).was_sent, each.packet_id) for each in again if each is not None]  # type: ignore[union-attr]
    assert found == [(True, 3), (True, 4), (True, 5)]
    assert again[3] is None


def test_a_session_that_ends_with_its_connection_takes_its_runs_along() -> None:
    """Nothing of it is left in an account."""
    site, reader, writer = world(2)
    send(writer, *BODIES, qos=2)
    reader.packets()
    answer(reader, PUBREC, 1, 2)
    reader.packets()
    reader.lose()
    site.turn()

    assert (site.domain.account.size_bytes, site.domain.account.message_count) == (0, 0)


def test_a_lasting_session_has_no_runs() -> None:
    """Its messages are stored, and each has a reference for the store."""
    site = Site()
    reader, writer = lasting(site, "reader"), connected(site, "writer")
    reader.subscribe("t", 1)
    send(writer, *BODIES)
    reader.packets()

    assert (runs(reader), flight(reader).deliveries.count) == ([], 5)


def test_whatever_looks_at_single_deliveries_finds_them() -> None:
    """With their sequences; the client's answers go on where they were."""
    site, reader, writer = world(2)
    send(writer, *BODIES, qos=2)
    reader.packets()
    answer(reader, PUBREC, 1, 2)
    reader.packets()
    answer(reader, PUBCOMP, 1)
    assert reader.handler.session is not None
    (consumer,) = reader.handler.session.subscriptions["t"].queue.consumers
    unsettled = consumer.unsettled()
    answer(reader, PUBCOMP, 2)
    answer(reader, PUBREC, 3, 4, 5)
    released = [packet[1] for packet in reader.packets()]
    answer(reader, PUBCOMP, 3, 4, 5)

    assert [(one.sequence, one.message.data) for one in unsettled] == list(zip([3, 4, 5], BODIES[2:], strict=True))
    assert released == [3, 4, 5]
    assert is_over(site, reader)


def test_pubrels_that_wait_find_deliveries_that_became_single() -> None:
    """The run is made into deliveries between PUBREC and PUBREL."""
    site, reader, writer = world(2)
    send(writer, *BODIES, qos=2)
    reader.packets()
    session, exchange = reader.handler.session, reader.handler.exchange
    assert session is not None
    assert exchange is not None
    run = session.outgoing.deliveries.runs[0]
    run.received += 3
    exchange.on_pubrecs(run, 1, 3)
    session.outgoing.deliveries.unfold()
    released = [packet[1] for packet in reader.packets()]
    answer(reader, PUBCOMP, 1, 2, 3)
    answer(reader, PUBREC, 4, 5)
    released += [packet[1] for packet in reader.packets()]
    answer(reader, PUBCOMP, 4, 5)

    assert released == [1, 2, 3, 4, 5]
    assert is_over(site, reader)


def test_answers_for_a_subscription_that_has_ended_change_nothing() -> None:
    """Its messages went with its queue; identifiers are free when the client answers."""
    site, reader, writer = world()
    send(writer, *BODIES)
    reader.packets()
    reader.send(wire.unsubscribe(5, Unsubscribe(packet_id=9, topic_filters=("t",))))
    reader.packets()
    held = site.domain.account.message_count
    answer(reader, PUBACK, 1, 2, 3, 4, 5)

    assert held == 0
    assert flight(reader).deliveries.count == 0
    assert not reader.handler.closed


def test_identifiers_begin_again_behind_the_last_one() -> None:
    """[MQTT-2.2.1-4] A run ends there, the next one begins with 1."""
    site, reader, writer = world()
    flight(reader)._last_id = MAX_PACKET_ID - 2
    send(writer, *BODIES)
    got = [packet[4] for packet in reader.packets()]
    seen = runs(reader)
    answer(reader, PUBACK, *got)

    assert got == [MAX_PACKET_ID - 1, MAX_PACKET_ID, 1, 2, 3]
    assert seen == [(MAX_PACKET_ID - 1, 2), (1, 3)]
    assert is_over(site, reader)


def test_a_run_uses_no_identifier_of_a_delivery_that_is_not_answered() -> None:
    """However long the client leaves it."""
    site, reader, writer = world()
    send(writer, b"a")
    reader.packets()
    flight(reader)._last_id = MAX_PACKET_ID - 1
    send(writer, *BODIES)
    got = [packet[4] for packet in reader.packets()]

    assert got == [MAX_PACKET_ID, 2, 3, 4, 5]
    answer(reader, PUBACK, 1, *got)
    assert is_over(site, reader)


def test_a_run_uses_no_identifier_of_another_run() -> None:
    """[MQTT-2.2.1-4] A client may leave QoS 1 unanswered while it answers QoS 2 until identifiers begin again."""
    site, reader, writer = world(2)
    send(writer, b"a", b"bb")
    waiting = [packet[4] for packet in reader.packets()]
    flight(reader)._last_id = MAX_PACKET_ID - 1
    send(writer, *BODIES, qos=2)
    got = [packet[4] for packet in reader.packets()]
    answer(reader, PUBREC, *got)
    answer(reader, PUBCOMP, *[packet[1] for packet in reader.packets()])
    answer(reader, PUBACK, *waiting)

    assert waiting == [1, 2]
    assert got == [MAX_PACKET_ID, 3, 4, 5, 6]
    assert is_over(site, reader)


def test_a_run_ends_where_the_window_does() -> None:
    """[MQTT-3.3.4-9] The rest follows when the client has answered."""
    site = Site()
    reader = connected(site, "reader", properties=Properties(receive_maximum=3))
    writer = connected(site, "writer")
    reader.subscribe("t", 1)
    send(writer, *BODIES)
    got = [[packet[2] for packet in reader.packets()]]
    answer(reader, PUBACK, 1, 2)
    got.append([packet[2] for packet in reader.packets()])
    answer(reader, PUBACK, 3, 4, 5)

    assert got == [BODIES[:3], BODIES[3:]]
    assert is_over(site, reader)


def test_messages_of_different_qos_keep_their_order() -> None:
    """Each change of QoS is a run of its own, as is each turn of a subscription."""
    site, reader, writer = world(2)
    for number, qos in enumerate([1, 1, 2, 2, 1, 0, 1]):
        send(writer, BODIES[number % 5], qos=qos)
    got = [(packet[2], packet[3], packet[4]) for packet in reader.packets()]
    answer(reader, PUBACK, 1, 2)
    answer(reader, PUBREC, 3, 4)
    answer(reader, PUBACK, 5, 6)
    released = [packet[1] for packet in reader.packets()]
    answer(reader, PUBCOMP, *released)

    assert [one[1] for one in got] == [1, 1, 2, 2, 1, 0, 1]
    assert [one[0] for one in got] == [*BODIES, BODIES[0], BODIES[1]]
    assert released == [3, 4]
    assert is_over(site, reader)


def test_subscriptions_of_one_client_take_turns() -> None:
    """A run for each turn, answered in the order of sending."""
    site, reader, writer = world()
    reader.subscribe("u", 1)
    for topic in ("t", "u", "t"):
        send(writer, *BODIES, topic=topic)
        site.turn()
    got = [packet[4] for packet in reader.packets()]
    seen = runs(reader)
    answer(reader, PUBACK, *got)

    assert got == list(range(1, 16))
    assert seen == [(1, 5), (6, 5), (11, 5)]
    assert is_over(site, reader)


def test_a_client_that_does_not_answer_has_few_runs() -> None:
    """One more turn makes deliveries of them, which are answered as any others."""
    site, reader, writer = world()
    reader.subscribe("u", 1)
    most = 0
    for number in range(MOST_RUNS + 10):
        send(writer, b"a", b"bb", topic="tu"[number % 2])
        site.turn()
        most = max(most, len(runs(reader)))
    got = [packet[4] for packet in reader.packets()]
    left = len(runs(reader))
    answer(reader, PUBACK, *got)

    assert got == list(range(1, 2 * MOST_RUNS + 21))
    assert (most, left) == (MOST_RUNS, 9)
    assert is_over(site, reader)


def test_copies_differ_in_what_belongs_to_the_subscriber() -> None:
    """Identifiers, version and subscription identifier; the rest of the packets is made once."""
    site = Site()
    readers = [connected(site, f"reader{number}", version) for number, version in enumerate([4, 4, 5, 5])]
    writer = connected(site, "writer")
    for reader in readers[:3]:
        reader.subscribe("t", 1)
    readers[3].subscribe("t", 1, Properties(subscription_identifiers=(7,)))
    flight(readers[1])._last_id = 600
    send(writer, *BODIES)
    got = [reader.packets() for reader in readers]

    assert [[packet[2] for packet in each] for each in got] == [BODIES] * 4
    assert [each[0][4] for each in got] == [1, 601, 1, 1]
    assert [each[0][7].subscription_identifiers for each in got[2:]] == [(), (7,)]
    assert [runs(reader) for reader in readers] == [[(1, 5)], [(601, 5)], [(1, 5)], [(1, 5)]]


def test_subscribers_at_the_same_identifiers_share_their_octets() -> None:
    """However different the room is that their connections have; where identifiers differ, octets do."""
    site = Site()
    readers = [connected(site, f"reader{number}", 4) for number in range(5)]
    writer = connected(site, "writer")
    for reader in readers:
        reader.subscribe("t", 1)
    readers[2].handler.engine.outbox.limit = 20
    flight(readers[3])._last_id = 600
    send(writer, *BODIES)
    site.turn()
    chunks = [reader.handler.engine.outbox.chunks for reader in readers]
    got = [[(packet[2], packet[4]) for packet in reader.packets()] for reader in readers]

    assert [len(each) for each in chunks] == [1] * 5
    assert chunks[1][0] is chunks[0][0]
    assert len(chunks[2][0]) < len(chunks[0][0])
    assert got == [list(zip(BODIES, range(first, first + 5), strict=True)) for first in (1, 1, 1, 601, 1)]


def test_a_message_that_is_retained_goes_by_itself() -> None:
    """[MQTT-3.3.1-12] With RETAIN if the subscription wants that as it was published."""
    site = Site()
    reader, writer = connected(site, "reader"), connected(site, "writer")
    reader.subscribe("t", 1, retain_as_published=True)
    send(writer, b"a", b"bb")
    send(writer, b"ccc", retain=True)
    send(writer, b"dddd", b"eeeee")
    got = [(packet[2], packet[5]) for packet in reader.packets()]
    answer(reader, PUBACK, 1, 2, 3, 4, 5)

    assert got == [(body, body == b"ccc") for body in BODIES]
    assert flight(reader).deliveries.count == 0


def test_the_answer_of_a_client_with_reasons_ends_its_runs() -> None:
    """Version 5 may say a reason with each answer; then nothing is gained, and each delivery is kept by itself."""
    site, reader, writer = world(2)
    send(writer, *BODIES, qos=2)
    reader.packets()
    for packet_id in range(1, 6):
        reader.ack(PUBREC, packet_id, 0)
    released = [packet[1] for packet in reader.packets()]
    for packet_id in range(1, 6):
        reader.ack(PUBCOMP, packet_id, 0)

    assert released == [1, 2, 3, 4, 5]
    assert is_over(site, reader)
    assert not flight(reader).answers_in_order


def test_a_subscription_that_changes_its_qos_keeps_its_run() -> None:
    """[MQTT-3.8.4-3] What was sent is answered as it was sent."""
    site, reader, writer = world()
    send(writer, *BODIES)
    reader.packets()
    reader.subscribe("t", 0)
    answer(reader, PUBACK, 1, 2, 3, 4, 5)

    assert is_over(site, reader)


@pytest.mark.parametrize("head", [b"\x40\x02", b"\x62\x02"])
def test_all_acknowledgements_are_in_the_order_of_their_identifiers(head: bytes) -> None:
    """From 1 to the last one."""
    octets = all_acks(head)

    assert len(octets) == 4 * MAX_PACKET_ID
    assert [octets[4 * index : 4 * index + 4] for index in (0, 255, 65534)] == [
        head + b"\x00\x01",
        head + b"\x01\x00",
        head + b"\xff\xff",
    ]


@pytest.mark.parametrize("right", [0, 1, 3, 4, 5, 11, 12, 13, 40])
def test_acknowledgements_are_counted_up_to_the_first_wrong_one(right: int) -> None:
    """Wherever it is, and whatever follows."""
    data = b"xy" + all_acks(b"\x40\x02")[4 * 99 : 4 * (99 + right)] + b"\x40\x02\xff\xff" * 3

    assert count_acks(data, 2, b"\x40\x02", 100, right + 3) == right
    assert count_acks(data, 2, b"\x40\x02", 100, right) == right


def test_an_answer_looks_at_few_runs() -> None:
    """Behind them the deliveries are looked at one by one."""
    outgoing = OutgoingFlight()
    for number in range(20):
        run = DeliveryRun(2 if number < 10 else 1, outgoing.next_id)
        outgoing.add_run(run, 2)

    assert outgoing.awaiting(2, False) is outgoing.deliveries.runs[0]
    assert outgoing.awaiting(1, False) is None
