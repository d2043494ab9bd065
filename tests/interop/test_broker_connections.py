"""Connections to other brokers: two of ours, and a peer that Proton makes, which rejects, releases and disconnects.

docs/broker-connections.md has the promises.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from proton import Message, symbol

from artemis_amqp.bridge.connection import LINKS_PER_SESSION
from artemis_py.broker import Broker
from artemis_py.config.reader import parse
from artemis_py.core.runtime.bridging import BridgeState
from artemis_py.deployment.broker_connections import BrokerConnection
from artemis_py.testing.running import RunningBroker, running_broker
from tests.interop.bridge_peer import ACCEPTED, MODIFIED, REJECTED, RELEASED, peer
from tests.interop.proton.client import Client

XML = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
  <name>{name}</name>
  <security-enabled>false</security-enabled>
  <connectors><connector name="far">tcp://127.0.0.1:{port}</connector></connectors>
  <acceptors><acceptor name="all">tcp://127.0.0.1:0?amqpIdleTimeout=0</acceptor></acceptors>
  {connections}
  <addresses>
    <address name="DLQ"><anycast><queue name="DLQ"/></anycast></address>
    <address name="out"><anycast><queue name="out"/></anycast></address>
    <address name="in"><anycast><queue name="in"/></anycast></address>
    {addresses}
  </addresses>
  <address-settings><address-setting match="#">
    <dead-letter-address>DLQ</dead-letter-address>
    <max-delivery-attempts>3</max-delivery-attempts>
    <default-address-routing-type>ANYCAST</default-address-routing-type>
    <default-queue-routing-type>ANYCAST</default-queue-routing-type>
    <auto-delete-queues>false</auto-delete-queues>
  </address-setting>{settings}</address-settings>
</core></configuration>"""

TO = "<broker-connections>{}</broker-connections>"
SENDER = '<sender queue-name="out"/>'


def configuration(name: str, connections: str = "", port: int = 1, addresses: str = "", settings: str = "") -> str:
    """A broker.xml."""
    return XML.format(name=name, connections=connections, port=port, addresses=addresses, settings=settings)


def connection(port: int, inside: str = SENDER, name: str = "far", more: str = "") -> str:
    """Elements of a connection to a port."""
    uri = f"tcp://127.0.0.1:{port}"
    return TO.format(
        f'<amqp-connection name="{name}" uri="{uri}" retry-interval="50" {more}>{inside}</amqp-connection>'
    )


@contextmanager
def pair(inside: str) -> Iterator[tuple[RunningBroker, RunningBroker]]:
    """A broker with a connection to another, and that one."""
    with (
        running_broker(configuration("far"), persistent=True) as there,
        running_broker(configuration("near", connection(there.port(), inside)), persistent=True) as here,
    ):
        yield here, there


def send(broker: RunningBroker, address: str, *bodies: Any, **options: Any) -> None:
    """Messages, durable unless told otherwise."""
    with Client(broker.url()) as client:
        sender = client.sender(address)
        sent = [sender.start(Message(body=body, **({"durable": True} | options))) for body in bodies]
        for each in sent:
            sender.wait(each)
            each.settle()


def until(is_so: Callable[[], bool]) -> None:
    """Wait; a test that waits in vain fails."""
    end = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.002)


def facts(broker: RunningBroker, attribute: str, name: str = "far") -> Any:
    """An attribute of a connection."""

    return broker._ask(lambda running: getattr(of(running)[name], attribute))


def of(running: Broker) -> dict[str, BrokerConnection]:
    """The connections of a broker by their names."""
    assert running.broker_connections is not None
    return {each.options.name: each for each in running.broker_connections.facts}


def bodies(broker: RunningBroker, queue: str) -> list[object]:
    """Of the messages in a queue."""
    return [each.body for each in broker.queue(queue).peek()]


# --- both ways ---


def test_messages_go_there_and_come_from_there_unchanged() -> None:
    """All but the header, the sequence number and the id that the other broker knows them by."""
    inside = '<sender queue-name="out" remote-address="of-near.{queue}"/><receiver queue-name="in"/>'
    message = Message(
        body={"k": [1, "two"]}, id="m-1", correlation_id=7, subject="s", group_id="g", reply_to="r", durable=True,
        priority=7, properties={"p": True},
    )  # fmt: skip
    message.annotations = {symbol("x-opt-mine"): "kept"}
    with pair(inside) as (here, there):
        with Client(here.url()) as client:
            client.sender("out").send(message)
        send(there, "in", b"x" * 1000, b"plain", durable=False)

        there.queue("of-near.out").wait_for(1)
        here.queue("in").wait_for(2)
        here.queue("out").wait_until_empty()
        there.queue("in").wait_until_empty()
        with Client(there.url()) as client:
            received = client.receiver("of-near.out").receive()
        got = received.message
        queue_id = here._ask(lambda broker: broker.domain.queues["out"].id)
        node_id = here._ask(lambda broker: broker.node_id)

        assert (got.id, got.correlation_id, got.subject, got.group_id, got.reply_to) == ("m-1", 7, "s", "g", "r")
        assert (got.body, got.durable, got.priority) == ({"k": [1, "two"]}, True, 7)
        assert got.properties == {"p": True, "_AMQ_DUPL_ID": f"{node_id}:{queue_id}:1"}
        assert received.annotations == {"x-opt-mine": "kept", "x-opt-sequence-number": 1}
        assert bodies(here, "in") == [b"x" * 1000, b"plain"]
        assert [each.durable for each in here.queue("in").peek()] == [False, False]
        assert (facts(here, "is_connected"), facts(here, "last_error")) == (True, "")


def test_large_messages_pass_both_ways() -> None:
    """Of more octets than a frame, in files at both brokers."""
    large = bytes(range(256)) * 4096
    with pair(f'{SENDER}<receiver queue-name="in"/>') as (here, there):
        send(here, "out", large, "behind")
        send(there, "in", large)
        there.queue("out").wait_for(2)
        here.queue("in").wait_for(1)
        kept = there._ask(lambda broker: [each.name for each in broker.domain.queues["out"].address.bindings])

        assert bodies(there, "out") == [large, "behind"]
        assert bodies(here, "in") == [large]
        assert kept == ["out"]


def test_an_id_of_the_producer_stays_and_none_is_given_if_that_is_switched_off() -> None:
    """`_AMQ_DUPL_ID` of the first message, and `use-duplicate-detection=false`."""
    plain = '<sender queue-name="out"/><sender queue-name="bare" use-duplicate-detection="false"/>'
    with peer() as other:
        port = other.port
        text = configuration("near", connection(port, plain), addresses=QUEUE.format("bare"))
        with running_broker(text, persistent=True) as here:
            send(here, "out", "own", properties={"_AMQ_DUPL_ID": "mine"})
            other.wait(lambda: len(other.messages) == 1)
            send(here, "bare", "bare", "_AMQ_DUPL_ID")
            other.wait(lambda: len(other.messages) == 3)

    assert [each.properties for each in other.messages] == [{"_AMQ_DUPL_ID": "mine"}, None, None]


def test_what_expires_has_the_rest_of_its_time() -> None:
    """And a message that was sent with a time of delivery goes when that has come."""
    with peer() as other, running_broker(configuration("near", connection(other.port))) as here:
        send(here, "out", "lives", ttl=60.0)
        other.wait(lambda: len(other.messages) == 1)

    assert 0 < other.messages[0].ttl <= 60.0
    assert other.messages[0].delivery_count == 0


# --- which queues ---

QUEUE = '<address name="{0}"><anycast><queue name="{0}"/></anycast></address>'


def test_queues_of_a_match_are_taken_up_and_let_go() -> None:
    """Those that exist, those that come later, and not those of others, of clients' subscriptions or of the broker."""
    inside = '<sender address-match="a.#" remote-address="to.{address}"/>'
    addresses = (
        QUEUE.format("a.first")
        + '<address name="a.topic"><multicast><queue name="collected"/></multicast></address>'
        + QUEUE.format("b.other")
    )
    with peer() as other:
        text = configuration("near", connection(other.port, inside), addresses=addresses)
        with running_broker(text) as here:
            other.wait(lambda: len(other.targets) == 2)
            with Client(here.url(), "client") as client:
                subscriber = client.receiver("a.topic", name="sub", durable=True, capabilities=("topic",))
                send(here, "a.topic", "news")
                other.wait(lambda: "news" in other.bodies)
                assert subscriber.receive().body == "news"
            send(here, "a.later", "later")
            send(here, "b.other", "stays")
            other.wait(lambda: "later" in other.bodies)
            assert facts(here, "passed")(True) == 2
            here._ask(lambda broker: broker.domain.delete_queue("a.later", True, "test"))
            until(lambda: len(facts(here, "bridges")) == 2)

            assert sorted(other.targets) == ["to.a.first", "to.a.later", "to.a.topic"]
            assert other.bodies == ["news", "later"]
            assert here.queue("b.other").count == 1
            assert facts(here, "passed")(True) == 2


def test_a_full_name_is_asked_for_where_the_queue_has_another_name_than_its_address() -> None:
    """At both brokers."""
    address = '<address name="pair"><anycast><queue name="left"/><queue name="right"/></anycast></address>'
    with (
        running_broker(configuration("far", addresses=address), persistent=True) as there,
        running_broker(
            configuration("near", connection(there.port(), '<receiver queue-name="right"/>'), addresses=address)
        ) as here,
    ):
        send(there, "pair::right", "one", "two")
        here.queue("right").wait_for(2)

        assert (bodies(here, "right"), here.queue("left").count) == (["one", "two"], 0)


def test_a_queue_that_is_sent_is_not_received_on_the_same_connection(caplog: pytest.LogCaptureFixture) -> None:
    """The file does not show it: two patterns have an address in common."""
    inside = '<sender address-match="a.*"/><receiver address-match="*.b"/>'
    with running_broker(configuration("far")) as there:
        text = configuration("near", connection(there.port(), inside), addresses=QUEUE.format("a.b"))
        with running_broker(text) as here:
            until(lambda: facts(here, "is_connected"))
            send(here, "a.b", *range(5))
            there.queue("a.b").wait_for(5)
            states = {each.kind: each.state.value for each in facts(here, "bridges")}

            assert states == {"sender": "open", "receiver": "refused"}
            assert here.queue("a.b").count == 0
    assert "bridge refused: connection=far receiver=a.b remote=a.b reason=the same connection sends" in caplog.text


# --- what the other broker does not accept ---


@pytest.mark.parametrize("outcome", [REJECTED, RELEASED, MODIFIED])
def test_what_is_not_accepted_fails_and_becomes_a_dead_letter(outcome: int) -> None:
    """After three attempts; what is behind it passes."""

    def answer(number: int, message: Message) -> int:
        return outcome if message.body == "bad" else ACCEPTED

    with peer(answer) as other, running_broker(configuration("near", connection(other.port))) as here:
        send(here, "out", "good", "bad", "better")
        here.queue("DLQ").wait_for(1)
        here.queue("out").wait_until_empty()
        (bridge,) = facts(here, "bridges")

        assert bodies(here, "DLQ") == ["bad"]
        assert sorted(other.bodies) == ["bad"] * 3 + ["better", "good"]
        assert (bridge.passed, bridge.refused, bridge.pending) == (2, 3, 0)


def test_a_full_broker_holds_messages_back_and_none_becomes_a_dead_letter() -> None:
    """It says `amqp:resource-limit-exceeded` for a while, and more often than a message may fail."""

    def answer(number: int, message: Message) -> int | str:
        return "amqp:resource-limit-exceeded" if number < 8 else ACCEPTED

    with peer(answer, credit=1) as other, running_broker(configuration("near", connection(other.port))) as here:
        send(here, "out", "one", "two")
        here.queue("out").wait_until_empty()

        assert other.bodies[8:] == ["one", "two"]
        assert here.queue("DLQ").count == 0


def test_without_credit_messages_stay() -> None:
    """And nothing is lost when the broker that gives none goes away."""
    with peer(credit=0) as other, running_broker(configuration("near", connection(other.port))) as here:
        send(here, "out", "one")
        other.wait(lambda: other.targets == ["out"])
        until(lambda: here.queue("out").consumers == 1)

        assert (here.queue("out").count, other.bodies) == (1, [])


def test_after_a_break_messages_are_sent_again_in_order_and_it_is_no_failed_attempt() -> None:
    """The peer ends ten connections, each with three messages under way: more often than a message may fail."""

    def answer(number: int, message: Message) -> int | str | None:
        if number < 30:
            return "drop" if number % 3 == 2 else None
        return ACCEPTED

    with peer(answer, credit=3) as other, running_broker(configuration("near", connection(other.port))) as here:
        send(here, "out", *range(50))
        here.queue("out").wait_until_empty()

        assert other.connections == 11
        assert other.bodies[:6] == [0, 1, 2, 0, 1, 2]
        assert other.bodies[-50:] == list(range(50))
        assert here.queue("DLQ").count == 0
        ids = {each.properties["_AMQ_DUPL_ID"] for each in other.messages}
        assert len(ids) == 50


def test_a_link_that_is_refused_is_tried_again_and_the_log_has_it_once(caplog: pytest.LogCaptureFixture) -> None:
    """The others of the connection work."""
    inside = f'{SENDER}<sender queue-name="other"/>'
    with peer(refused=frozenset(["other"])) as one:
        text = configuration("near", connection(one.port, inside), addresses=QUEUE.format("other"))
        with running_broker(text) as here:
            send(here, "out", "passes")
            one.wait(lambda: one.targets.count("other") >= 3 and one.bodies == ["passes"])
            states = {each.queue: (each.state.value, each.reason) for each in facts(here, "bridges")}

    assert states["out"] == ("open", "")
    assert states["other"][1] == "amqp:not-found: as the test wants it"
    assert states["other"][0] in ("refused", "opening")
    lines = [each for each in caplog.messages if each.startswith("bridge refused: connection=far sender=other")]
    assert len(lines) == 1


# --- what this broker does not take ---


def test_a_full_address_takes_nothing_and_all_stays_at_the_other_broker() -> None:
    """It takes the rest when it has room."""
    settings = (
        '<address-setting match="in"><max-size-messages>5</max-size-messages>'
        "<address-full-policy>BLOCK</address-full-policy></address-setting>"
    )
    with running_broker(configuration("far"), persistent=True) as there:
        send(there, "in", *range(2000))
        text = configuration("near", connection(there.port(), '<receiver queue-name="in"/>'), settings=settings)
        with running_broker(text, persistent=True) as here:
            here.queue("in").wait_for(5)
            until(lambda: there.queue("in").count + here.queue("in").count == 2000)
            assert here.queue("in").count <= 1005
            with Client(here.url()) as client:
                receiver = client.receiver("in")
                received: list[object] = []
                while len(received) < 2000:
                    received += receiver.bodies()

            assert received == list(range(2000))
        assert there.queue("in").count == 0


def test_what_arrives_is_settled_when_it_is_stored() -> None:
    """With a store that does not answer, the other broker keeps the message."""
    with pair('<receiver queue-name="in"/>') as (here, there):
        until(lambda: there.queue("in").consumers == 1)
        with here.faults.stalled_disk():
            send(there, "in", "one")
            here.queue("in").wait_for(1)
            assert (there.queue("in").count, facts(here, "bridges")[0].pending) == (1, 1)
        there.queue("in").wait_until_empty()


# --- logins ---


def test_a_login_that_is_refused_is_told_and_the_password_is_not(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """The next attempt has the right user, which a reload brings."""
    caplog.set_level("INFO")
    secured = configuration("far").replace(
        "<security-enabled>false</security-enabled>",
        "<security-settings><security-setting match='#'><permission type='send' roles='w'/>"
        "<permission type='createAddress' roles='w'/><permission type='createDurableQueue' roles='w'/>"
        "</security-setting></security-settings>",
    )
    (tmp_path / "broker.xml").write_text(secured)
    (tmp_path / "artemis-users.properties").write_text("edge = right\n")
    (tmp_path / "artemis-roles.properties").write_text("w = edge\n")
    with running_broker(tmp_path / "broker.xml") as there, running_broker(configuration("near")) as here:
        wrong, right = (
            configuration("near", connection(there.port(), more=f'user="edge" password="{password}"'))
            for password in ("mistyped-one", "right")
        )
        reload(here, wrong)
        until(lambda: facts(here, "last_error") == "the login failed")
        assert not facts(here, "is_connected")
        send(here, "out", "one")
        reload(here, right)
        until(lambda: facts(here, "is_connected"))
        here.queue("out").wait_until_empty()
        reload(here, configuration("near"))
        until(lambda: here.queue("out").consumers == 0)
        assert here._ask(lambda broker: len(of(broker))) == 0

    assert "another broker cannot be reached: connector=far" in caplog.text
    assert "reason=the login failed" in caplog.text
    assert "mistyped-one" not in caplog.text


def reload(broker: RunningBroker, text: str) -> None:
    """Have it follow another broker.xml; the ports and folders stay."""

    def follow(running: Broker) -> None:
        config = parse(text.encode(), "broker.xml", running.config.login.folder)
        assert running.reload(evolve(running.config, broker_connections=config.broker_connections)).problems == []

    broker._ask(follow)


def test_an_administrator_stops_and_starts_it() -> None:
    """It stays away until then, and messages wait."""
    with pair(SENDER) as (here, there):
        until(lambda: facts(here, "is_connected"))
        here._ask(lambda broker: of(broker)["far"].stop())
        send(here, "out", "one")
        assert (facts(here, "is_connected"), facts(here, "is_started"), there.queue("out").count) == (False, False, 0)
        here._ask(lambda broker: of(broker)["far"].start())
        there.queue("out").wait_for(1)


def test_a_bridge_of_artemis_sends_what_it_selects_to_its_address() -> None:
    """Its elements as Artemis has them."""
    bridge = (
        "<bridges><bridge name='b'><queue-name>out</queue-name><forwarding-address>there</forwarding-address>"
        "<filter string=\"kind = 'wanted'\"/><retry-interval>50</retry-interval>"
        "<static-connectors><connector-ref>far</connector-ref></static-connectors></bridge></bridges>"
    )
    with (
        running_broker(configuration("far")) as there,
        running_broker(configuration("near", bridge, port=there.port())) as here,
    ):
        send(here, "out", "yes", properties={"kind": "wanted"})
        send(here, "out", "no", properties={"kind": "other"})
        there.queue("there").wait_for(1)
        until(lambda: here.queue("out").count == 1)

        assert (bodies(there, "there"), bodies(here, "out")) == (["yes"], ["no"])


def test_many_queues_have_links_in_several_sessions() -> None:
    """RabbitMQ allows no more than 256 in one. All are there again after a break, and each queue has its own."""
    count = 2 * LINKS_PER_SESSION + 1
    names = [f"many.{number}" for number in range(count)]
    addresses = "".join(map(QUEUE.format, names))
    with running_broker(configuration("far")) as there:
        inside = '<sender address-match="many.#"/>'
        with running_broker(configuration("near", connection(there.port(), inside), addresses=addresses)) as here:
            for name in (names[0], names[-1]):
                send(here, name, name)
                there.queue(name).wait_for(1)
            there._ask(lambda broker: [each.disconnect("test") for each in broker.services.sessions.opened.values()])
            until(lambda: [each.state for each in facts(here, "bridges")] == [BridgeState.OPEN] * count)
            send(here, names[1], names[1])
            there.queue(names[1]).wait_for(1)

            assert [bodies(there, name) for name in (names[0], names[1], names[-1])] == [
                [names[0]],
                [names[1]],
                [names[-1]],
            ]
