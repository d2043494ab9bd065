"""Subscribers find what was retained at another node the moment before (C35)."""

from collections.abc import Callable, Container, Iterator
from functools import partial
from pathlib import Path

import pytest

from artemis_py.cluster.hello import FEATURES, RETAINED_ASKED
from artemis_py.cluster.mesh import Mesh
from artemis_py.cluster.newcomers import MAX_LATE, Newcomers
from artemis_py.cluster.records import AskedRetained, Record, RetainedPiece, ToldRetained
from artemis_py.cluster.retained_topics import MAX_QUESTIONS
from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.message import Message
from artemis_py.core.messages.record import encode_with_durability
from artemis_py.core.messages.view import MessageView
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.consumer import ACCEPTED, Sink
from artemis_py.core.queues.reference import Reference
from artemis_py.core.services.retained import Newcomer
from artemis_py.core.sessions.subscriptions import SubscriptionSpec
from tests.cluster.node import FORMATS, Node
from tests.cluster.simulation import MeshMaker, Simulation
from tests.cluster.test_connections import HELLO, UP, open_wire
from tests.cluster.test_handover import meshed

PIECES = 100 * 65_536


class Subscriber(Sink, Newcomer):
    """What an MQTT subscription is to the core."""

    def __init__(self, node: Node, pattern: str = "t") -> None:
        self.node = node
        self.pattern = pattern
        self.found: list[str] = []
        """What was retained before."""
        self.live: list[str] = []
        """What was published afterwards."""
        self.answers = 0
        subscription = node.session.subscribe(SubscriptionSpec(pattern))
        self.consumer = node.session.consume(subscription.queue, self)
        self.consumer.grant(1_000)
        node.services.retained.introduce(self)
        self.announcement = node.domain.dispatcher.announcements.fresh
        """What its answer waits for."""
        node.domain.dispatcher.announcements.fresh = None
        if self.announcement is None or self.announcement.is_over:
            self.answered()
        else:
            self.announcement.when_over(self.answered)

    def answered(self) -> None:
        """The client is answered, and what was retained is before that."""
        self.answers += 1
        self.found.append("answer")

    def look_up(self, live: Container[str]) -> None:
        search = self.node.services.retained.search(self.pattern, live)
        while not search.is_done:
            self.found += [str(message.view.body) for message in search.next(10, 10)]

    def give(self, message: Message) -> None:
        self.found.append(str(message.view.body))

    def deliver(self, reference: Reference) -> None:
        self.live.append(str(reference.message.view.body))
        self.consumer.settle(reference, ACCEPTED)

    def drained(self) -> None:
        pass

    def ended(self, reason: str) -> None:
        pass


def publish(node: Node, topic: str, body: str, answered: Callable[[], None] | None = None) -> None:
    """What a publish with RETAIN does; without a body the message is deleted."""
    node.run(node.generation, partial(_publish, node, topic, body, answered))


def _publish(node: Node, topic: str, body: str, answered: Callable[[], None] | None) -> None:
    message = plain_message(topic, MessageView(body=body))
    message.durable = True
    node.session.producer(topic, RoutingType.MULTICAST).send(message)
    if body:
        node.services.retained.put(message)
    else:
        node.services.retained.remove(topic)
    if answered is not None:
        node.store.when_durable(answered)


def subscribe(node: Node, pattern: str = "t") -> list[Subscriber]:
    """A new subscriber, as soon as the node has time for it."""
    made: list[Subscriber] = []
    node.run(node.generation, lambda: made.append(Subscriber(node, pattern)))
    return made


def at_once(publisher: Node, body: str, node: Node, pattern: str = "t") -> list[Subscriber]:
    """Retain a message; on the answer a client subscribes at another node."""
    made: list[Subscriber] = []
    publish(publisher, "t", body, lambda: node.run(node.generation, lambda: made.append(Subscriber(node, pattern))))
    return made


def has_answers(made: list[Subscriber], count: int = 1) -> bool:
    """Whether so many subscribers were answered."""
    return len(made) == count and all(each.answers for each in made)


def test_message_that_was_retained_the_moment_before_is_found(sim: Simulation) -> None:
    """The other node's answer to the publisher comes before the message does, and it is the first of its topic."""
    a, b = meshed(sim, 2)
    made = at_once(a, "one", b)
    assert sim.run_until(lambda: has_answers(made))
    sim.run_for(1_000)

    assert made[0].found == ["one", "answer"]
    assert made[0].live == []


def test_message_that_was_replaced_or_deleted_the_moment_before_is_not_found(sim: Simulation) -> None:
    """The subscriber's node has the old one."""
    a, b = meshed(sim, 2)
    publish(a, "t", "old")
    sim.run_for(1_000)
    assert b.services.retained.get("t") is not None
    replaced = at_once(a, "new", b, "*")
    sim.run_for(1_000)
    deleted = at_once(a, "", b)
    sim.run_for(1_000)

    assert replaced[0].found == ["new", "answer"]
    assert deleted[0].found == ["answer"]


def test_second_subscriber_of_a_topic_waits_too(sim: Simulation) -> None:
    """The publisher's node need not be told of it, because it knows the first one."""
    sim.stalls = 0
    sim.slowest_ms = 5
    a, b = meshed(sim, 2)
    first = subscribe(b)
    sim.run_for(1_000)
    second: list[Subscriber] = []
    publish(a, "t", "one", lambda: second.extend(subscribe(b)))
    sim.run_for(1_000)

    assert first[0].live == ["one"]
    # Its queue may be there before the copy for the first one comes.
    assert [*second[0].found, *second[0].live].count("one") == 1


def test_message_that_is_retained_after_the_question_comes_once(sim: Simulation) -> None:
    """Here, and at a node that has answered: as it was published. Another node has stopped."""
    a, b, c = meshed(sim, 3)
    for topic in "xyz":
        publish(a, topic, "old")
    sim.run_for(1_000)
    sim.stop(c, 2_000)
    made = subscribe(b, "*")
    publish(b, "x", "here")
    sim.run_for(150)
    publish(a, "y", "there")
    assert sim.run_until(lambda: has_answers(made))
    sim.run_for(3_000)

    assert sorted(made[0].found) == ["answer", "old"]
    assert sorted(made[0].live) == ["here", "there"]


def test_each_subscriber_has_a_beginning_of_its_own(sim: Simulation) -> None:
    """Two in one iteration, with a message between them that only the first one gets as it was published."""
    _, b = meshed(sim, 2)

    def all_at_once() -> None:
        made.append(Subscriber(b))
        _publish(b, "t", "one", None)
        made.append(Subscriber(b))

    made: list[Subscriber] = []
    b.run(b.generation, all_at_once)
    assert sim.run_until(lambda: has_answers(made, 2))

    assert (made[0].found, made[0].live) == (["answer"], ["one"])
    assert (made[1].found, made[1].live) == (["one", "answer"], [])


def test_large_message_comes_later_than_the_answer(sim: Simulation) -> None:
    """The answer waits for 5 s; what comes then is given to the subscription, once."""
    sim.stalls = 0
    sim.has_slow_disks = False
    a, b = meshed(sim, 2)
    made = at_once(a, "x" * PIECES, b)
    while not made:
        sim.run_for(0.1)
    sim.stop(a, 6_000)
    sim.run_for(5_100)
    assert made[0].found == ["answer"]
    second = subscribe(b)
    assert second[0].answers
    sim.run_for(60_000)

    for each in (*made, *second):
        assert [len(found) for found in each.found] == [len("answer"), PIECES]
    assert not b.mesh.newcomers.are_there


def test_answer_does_not_wait_for_a_node_that_stops_or_dies(sim: Simulation) -> None:
    """For 5 s at most, and once; nothing is remembered when it is gone."""
    a, b = meshed(sim, 2)
    publish(b, "t", "one")
    sim.run_for(1_000)
    sim.stop(a, 100_000)
    made = subscribe(b)
    sim.run_for(4_900)
    assert made[0].found == []
    sim.run_for(200)
    second = subscribe(b)
    assert made[0].found == second[0].found == ["one", "answer"]
    sim.run_for(90_000)

    assert not b.mesh.newcomers.are_there
    assert not b.mesh.newcomers._slow


def test_node_that_has_caught_up_is_waited_for_again(sim: Simulation) -> None:
    """It answers what it was asked while it had stopped."""
    a, b = meshed(sim, 2)
    sim.stop(a, 6_000)
    subscribe(b)
    sim.run_for(5_500)
    during = subscribe(b)
    sim.run_for(3_000)
    after = at_once(a, "one", b)
    sim.run_for(2_000)

    assert during[0].found == ["answer"]
    assert during[0].live == ["one"]
    # As the others, if its queue was there before the copy for these came.
    assert [*after[0].found, *after[0].live].count("one") == 1


def test_one_broker_and_what_stays_at_it_do_not_wait(sim: Simulation) -> None:
    """Without peers, and for addresses of the broker itself."""
    a, b = meshed(sim, 2)
    publish(b, "$SYS.x", "own")
    sim.run_for(500)
    own = Subscriber(b, "$SYS.x")
    sim.partition(a, b, 60_000)
    sim.run_for(50_000)
    alone = Subscriber(b, "t")

    assert own.found == ["own", "answer"]
    assert alone.found == ["answer"]


@pytest.fixture
def retained_features() -> Iterator[None]:
    """A peer that is played knows all that this broker knows of retained messages."""
    HELLO["features"] = [*FEATURES]
    yield
    del HELLO["features"]


def piece(topic: str, body: str, time_ms: int) -> RetainedPiece:
    """A message that a peer has retained."""
    return RetainedPiece(topic, time_ms, 1, 6, encode_with_durability(plain_message(topic, MessageView(body=body))))


def questions(records: list[Record]) -> list[int]:
    """What a peer was asked."""
    return [each.question for each in records if isinstance(each, AskedRetained)]


@pytest.mark.usefixtures("retained_features")
def test_each_iteration_asks_once(sim: Simulation) -> None:
    """Any number of subscribers."""
    node, wire, _ = open_wire(sim, *UP)
    for _ in range(3):
        node.run(node.generation, lambda: [Subscriber(node), Subscriber(node)])
        sim.run_for(10)

    assert questions(wire.records) == [1, 2, 3]


@pytest.mark.usefixtures("retained_features")
def test_peer_that_never_answers_costs_a_bounded_memory(sim: Simulation) -> None:
    """The first questions are forgotten; what it tells late goes to the subscribers of the others."""
    node, _, peer = open_wire(sim, *UP)
    first = subscribe(node, "*")
    sim.run_for(10)
    for _ in range(MAX_LATE):
        node.run(node.generation, lambda: node.services.retained.introduce(_Nobody()))
        sim.run_for(1)
    last = subscribe(node, "*")
    sim.run_for(6_000)
    node.mesh.retained.take(peer, piece("t", "late", 5))

    assert len(node.mesh.newcomers._questions) <= MAX_LATE + 1
    assert first[0].found == ["answer"]
    assert last[0].found == ["answer", "late"]


class _Nobody(Newcomer):
    pattern = "nobody"

    def look_up(self, live: Container[str]) -> None:
        pass


@pytest.mark.usefixtures("retained_features")
def test_answer_comes_behind_what_was_there(sim: Simulation) -> None:
    """All that was stored before the question, in any number of pieces."""
    node, wire, peer = open_wire(sim, *UP)
    for number in range(20):
        publish(node, f"t{number}", "x" * 100_000)
    node.mesh.retained.asked_for_all(peer, 7)
    publish(node, "after", "x")
    node.plan_turn()
    sim.run_for(2_000)
    told = [each for each in wire.records if isinstance(each, RetainedPiece | ToldRetained)]
    answer = told.index(ToldRetained(7, 0))

    assert {each.topic for each in told[:answer] if isinstance(each, RetainedPiece)} >= {f"t{n}" for n in range(20)}


@pytest.mark.usefixtures("retained_features")
def test_peer_may_ask_any_number_of_questions(sim: Simulation) -> None:
    """Those that wait are bounded: the last answer is one to all of them."""
    node, wire, peer = open_wire(sim, *UP)
    publish(node, "t", "x" * 10_000_000)
    for number in range(3 * MAX_QUESTIONS):
        node.mesh.retained.asked_for_all(peer, number)
        node.plan_turn()
    sim.run_for(5_000)
    answers = [each.question for each in wire.records if isinstance(each, ToldRetained)]

    assert len(answers) <= MAX_QUESTIONS
    assert answers[-1] == 3 * MAX_QUESTIONS - 1


def test_peer_of_an_earlier_version_is_not_waited_for(sim: Simulation) -> None:
    """It would never answer."""
    HELLO["features"] = [each for each in FEATURES if each != RETAINED_ASKED]
    try:
        node, wire, _ = open_wire(sim, *UP)
    finally:
        del HELLO["features"]
    publish(node, "t", "one")
    sim.run_for(10)
    made = subscribe(node)

    assert made[0].found[0] == "one"
    assert questions(wire.records) == []


# -- a planted fault ---------------------------------------------------------------------------------------------


class NobodyAsked(Newcomers):
    """What is retained is looked up at once."""

    def introduce(self, newcomer: Newcomer) -> bool:
        return False


def maker_without_questions() -> MeshMaker:
    """What makes a mesh with this fault."""

    class Hasty(Mesh):
        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments)  # type: ignore[arg-type]
            self.newcomers = NobodyAsked(self)

    return lambda domain, config, id, name: Hasty(domain, config, id, name, FORMATS)


def came(folder: Path, seed: int, maker: MeshMaker | None = None) -> list[int]:
    """How often each of some messages came to a client that subscribed upon the answer to its publisher."""
    simulation = Simulation(seed, folder) if maker is None else Simulation(seed, folder, maker)
    try:
        # Stopped for longer than 250 ms, a node may lose what is in doubt then.
        simulation.stalls = 0
        simulation.has_slow_disks = False
        a, b, c = meshed(simulation, 3)
        counts: list[int] = []
        for number in range(10):
            publisher, node = simulation.keyed.choice([(a, b), (b, c), (c, a)], "pair", number)
            made = at_once(publisher, f"{number}", node, simulation.keyed.choice(["t", "*", "#"], "pattern", number))
            simulation.run_for(1_000)
            counts.append([*made[0].found, *made[0].live].count(f"{number}"))
        return counts
    finally:
        simulation.close()


@pytest.mark.parametrize("seed", range(5))
def test_every_subscriber_gets_it_once(seed: int, folder: Path) -> None:
    """Whatever the network does, within the time that an answer may take."""
    assert came(folder, seed) == [1] * 10


def test_planted_fault_is_found(folder: Path) -> None:
    """Messages are lost if nobody is asked."""
    assert any(0 in came(folder / f"{seed}", seed, maker_without_questions()) for seed in range(3))
