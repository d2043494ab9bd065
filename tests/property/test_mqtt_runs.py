"""A subscriber of QoS 1 and 2 whatever becomes of its runs: every message once, in order, and nothing is left over."""

from collections import deque
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from artemis_mqtt.engine.delivery import MAX_PACKET_ID, Delivery, DeliveryTable
from artemis_mqtt.engine.delivery_run import all_acks, count_acks
from tests import mqtt_harness as wire
from tests.examples import examples
from tests.mqtt_site import Client, Site, connected

PUBACK, PUBREC, PUBCOMP = 4, 5, 7


class World:
    """A writer, and a subscriber of two topics that answers some of what it gets."""

    def __init__(self, last_id: int) -> None:
        self.site = Site()
        self.reader: Client = connected(self.site, "reader")
        self.writer: Client = connected(self.site, "writer")
        self.reader.subscribe("t", 2)
        self.reader.subscribe("u", 2)
        assert self.reader.handler.session is not None
        self.session = self.reader.handler.session
        self.session.outgoing._last_id = last_id
        self.sent: dict[str, list[bytes]] = {"t": [], "u": []}
        self.got: dict[str, list[bytes]] = {"t": [], "u": []}
        self.due: deque[tuple[int, int]] = deque()
        """Answers that are due: the type of the packet and its identifier, in the order of what they answer."""
        self._number = 0

    def publish(self, topic: str, qos: int, count: int, size: int) -> None:
        """Some messages in one turn."""
        self.leave(topic, qos, count, size)
        self.writer.packets()
        self.take()

    def leave(self, topic: str, qos: int, count: int, size: int) -> None:
        """Some messages that wait for the next turn."""
        for _ in range(count):
            self._number += 1
            body = b"%d" % self._number + b"x" * (self._number % size)
            self.sent[topic].append(body)
            self.writer.publish(topic, body, qos, self._number)
            if qos == 2:
                self.writer.send(wire.ack(6, self._number))

    def take(self) -> None:
        """Deliver everything, and read what was written for the subscriber."""
        self._note(self.reader.packets())

    def pass_time(self, milliseconds: int) -> None:
        """Read what was written for the subscriber after some time, in which no queue was visited."""
        self.site.pass_time(milliseconds / 1000)
        self._note(wire.read_server_packets(self.reader.version, self.reader.handler.data_to_send()))

    def _note(self, packets: list[Any]) -> None:
        for packet in packets:
            if packet[0] == "publish":
                self.got[packet[1]].append(packet[2])
                if packet[3]:
                    self.due.append((PUBACK if packet[3] == 1 else PUBREC, packet[4]))
            else:
                assert packet[0] == "pubrel"
                self.due.append((PUBCOMP, packet[1]))

    def answer(self, count: int) -> None:
        """Give the answers that are due first, in one read."""
        self.answer_early(count)
        self.take()

    def answer_early(self, count: int) -> None:
        """Give them before messages that wait are delivered."""
        answers = [self.due.popleft() for _ in range(min(count, len(self.due)))]
        self.reader.send(*[wire.ack(*each) for each in answers])
        self.pass_time(0)

    def answer_one(self, index: int) -> None:
        """Give one answer out of its order."""
        if self.due:
            index %= len(self.due)
            packet_type, packet_id = self.due[index]
            del self.due[index]
            self.reader.send(wire.ack(packet_type, packet_id))
            self.take()

    def look(self) -> None:
        """Look at single deliveries, as management does."""
        for subscription in self.session.subscriptions.values():
            assert subscription.consumer is not None
            unsettled = subscription.consumer.unsettled()
            assert len(unsettled) == subscription.queue.delivering_count


publishing = st.tuples(
    st.sampled_from(["publish", "leave"]),
    st.sampled_from("tu"),
    st.integers(0, 2),
    st.integers(1, 12),
    st.sampled_from([1, 1, 3]),
)
steps = st.one_of(
    publishing,
    publishing,
    st.tuples(st.just("answer"), st.integers(1, 20)),
    st.tuples(st.just("answer"), st.integers(1, 20)),
    st.tuples(st.just("answer_early"), st.integers(1, 20)),
    st.tuples(st.just("answer_one"), st.integers(0, 5)),
    st.tuples(st.just("pass_time"), st.sampled_from([1, 25, 100])),
    st.tuples(st.just("look")),
)


@settings(max_examples=examples(150))
@given(st.lists(steps, max_size=25), st.sampled_from([0, 250, MAX_PACKET_ID - 7]))
def test_every_message_comes_once_in_order_and_nothing_is_left(actions: list[tuple[object, ...]], last_id: int) -> None:
    """Whatever the client answers when, and whoever looks."""
    world = World(last_id)
    for name, *arguments in actions:
        getattr(world, str(name))(*arguments)
    world.take()
    while world.due:
        world.answer(7)

    assert world.got == world.sent
    outgoing = world.session.outgoing
    assert (outgoing.deliveries.count, outgoing.quota) == (0, outgoing.window)
    assert outgoing.deliveries.runs == []
    for subscription in world.session.subscriptions.values():
        queue = subscription.queue
        assert (queue.message_count, queue.messages_acknowledged) == (0, len(world.sent[subscription.topic_filter]))
        assert subscription.consumer is not None
        assert subscription.consumer.unsettled_bytes == 0
    account = world.site.domain.account
    assert (account.size_bytes, account.message_count) == (0, 0)


@given(
    st.sets(st.integers(1, 60), max_size=20),
    st.integers(1, 60),
    st.integers(0, 60),
    st.sampled_from([0, MAX_PACKET_ID - 60]),
)
def test_a_run_may_use_the_identifiers_up_to_the_next_one_in_use(
    used: set[int], first_id: int, most: int, shift: int
) -> None:
    """However many deliveries are listed, and wherever they lie in the ring."""
    table = DeliveryTable()
    for packet_id in used:
        table.put(Delivery(packet_id + shift, 1, 0, None, True))
    free = 0
    while free < most and first_id + free not in used and first_id + free + shift <= MAX_PACKET_ID:
        free += 1

    assert table.count_free(first_id + shift, most) == free


@given(st.integers(1, 2000), st.integers(1, 3000), st.sets(st.integers(0, 3000), max_size=3))
def test_acknowledgements_are_counted_up_to_the_first_that_is_not_due(
    packet_id: int, most: int, wrong: set[int]
) -> None:
    """Wherever it is, also if the last one is due."""
    data = bytearray(all_acks(b"\x50\x02")[4 * (packet_id - 1) : 4 * (packet_id - 1 + most)])
    for index in wrong:
        if index < most:
            data[4 * index + 3] ^= 1
    right = min([index for index in wrong if index < most], default=most)

    assert count_acks(b"xy" + bytes(data), 2, b"\x50\x02", packet_id, most) == right
