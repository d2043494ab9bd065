"""Ring queues and non-destructive queues of a real broker, before and after a restart (artemis-model §3.3, §3.5)."""

from pathlib import Path

from proton import Message, Terminus

from tests.interop.broker_process import Instance, launch, start_broker
from tests.interop.proton.client import Client
from tests.interop.proton.test_ranges import ask
from tests.interop.proton.test_transactions import Coordinator, retire

INSTANCE = Instance(
    persistence="true",
    addresses="""<address name="ring"><anycast><queue name="ring" ring-size="3"/></anycast></address>
      <address name="head"><anycast><queue name="head" ring-size="2" ring-eviction="HEAD"/></anycast></address>
      <address name="kept"><anycast><queue name="kept" non-destructive="true" ring-size="4"/></anycast></address>""",
)


def durable(body: str, priority: int = 4) -> Message:
    return Message(body=body, durable=True, priority=priority)


def test_a_ring_keeps_the_newest_over_a_restart_and_when_it_changes(tmp_path: Path) -> None:
    """What consumers have does not count, and returns with the restart; then the oldest go."""
    broker = start_broker(INSTANCE, tmp_path)
    with Client(broker.url) as client:
        for number in range(5):
            client.send("ring", durable(str(number), priority=number))
        assert [one.body for one in client.receiver("ring", copy=True).drain()] == ["4", "3", "2"]
        taken = client.receiver("ring")
        assert taken.receive().body == "4"
        client.send("ring", durable("5"), durable("6"))
        assert ask(client, "queue.ring", "getMessagesReplaced") == 3
        assert ask(client, "queue.ring", "getMessageCount") == 4
    broker.stop()

    broker = launch(tmp_path)
    with Client(broker.url) as client:
        assert [one.body for one in client.receiver("ring", copy=True).drain()] == ["4", "5", "6"]
        ask(client, "broker", "updateQueue", {"name": "ring", "ring-size": 1})
        assert client.bodies("ring") == ["6"]
        client.send("head", durable("a", 9), durable("b", 1), durable("c", 9), durable("d", 5))
        assert client.bodies("head") == ["d", "b"]
        assert ask(client, "queue.DLQ", "getMessageCount") == 0
    broker.stop()


def test_everybody_sees_everything_in_a_non_destructive_queue(tmp_path: Path) -> None:
    """Whatever anybody says about it, and again after a restart; a ring bounds it."""
    broker = start_broker(INSTANCE, tmp_path)
    with Client(broker.url) as client, Client(broker.url) as other:
        first = client.receiver("kept")
        assert first.link.remote_source.distribution_mode == Terminus.DIST_MODE_COPY
        client.send("kept", durable("1"), durable("2"), durable("3"))
        one, two, three = first.receive_many(3)
        one.accept()
        two.reject()
        three.modify(failed=True, undeliverable_here=True)
        assert first.drain() == []
        coordinator = Coordinator(other)
        second = other.receiver("kept")
        transaction = coordinator.declare()
        for received in second.receive_many(3):
            retire(received, transaction)
        coordinator.discharge(transaction)
        assert second.drain() == []
        assert other.receiver("kept", settled=True).bodies() == ["1", "2", "3"]
        assert [ask(client, f"queue.{name}", "getMessageCount") for name in ("kept", "DLQ")] == [3, 0]

        client.send("kept", durable("4"), durable("5"))
        assert (first.bodies(), second.bodies()) == (["4", "5"], ["4", "5"])
        ask(client, "broker", "updateQueue", {"name": "kept", "non-destructive": False})
        assert sorted(first.bodies() + second.bodies()) == ["2", "3", "4", "5"]
        ask(client, "broker", "updateQueue", {"name": "kept", "non-destructive": True})
    broker.stop()

    broker = launch(tmp_path)
    with Client(broker.url) as client:
        client.send("kept", durable("6"))
        assert client.receiver("kept").bodies() == client.receiver("kept").bodies() == ["6"]
    broker.stop()
