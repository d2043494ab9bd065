"""Writes that wait for their commit, as any client makes them."""

import json
from typing import Any, Final

import pytest
from proton import Message, symbol
from proton.reactor import LinkOption

from tests.interop.broker_process import BrokerProcess, Instance, launch, start_broker
from tests.interop.proton.client import Client, Refused, Sender
from tests.interop.proton.test_ranges import ask

PROPERTY: Final = symbol("artemis:stage")
STAGED: Final = symbol("artemis:staged")
REFUSED: Final = symbol("artemis:refused")


class Stage(LinkOption):  # type: ignore[misc]
    """Asks for a stage."""

    def __init__(self, *value: object) -> None:
        self._value = list(value)

    def apply(self, link: Any) -> None:
        """Before the attach."""
        link.properties = {PROPERTY: self._value}


def stage(client: Client, address: str, *value: object) -> Sender:
    return client.sender(address, options=[Stage(*value)])


def staged(sender: Sender) -> object:
    """How many messages the broker says are in the stage."""
    return sender.link.remote_properties[STAGED]


def test_a_stage_is_routed_by_its_commit(broker: BrokerProcess, name: str) -> None:
    with Client(broker.url) as client:
        sender = stage(client, name, name, 0, "a")
        assert staged(sender) == 0
        sender.send("1")
        sender.send("2")
        assert client.bodies(name) == []

        assert ask(client, "writer", "commitEpoch", name, 0, {"a": 2}) is True
        assert ask(client, "writer", "commitEpoch", name, 0, {"a": 2}) is False
        assert ask(client, "writer", "lastEpoch", name) == 0
        assert client.bodies(name) == ["1", "2"]


def test_a_new_link_hears_how_far_the_old_one_came(broker: BrokerProcess, name: str) -> None:
    """And the old one is at its end: what it has under way cannot come behind the answer."""
    with Client(broker.url) as client, Client(broker.url) as other:
        first = stage(client, name, name, 0, "a")
        first.send("1")
        second = stage(other, name, name, 0, "a")

        assert staged(second) == 1
        assert first.wait_closed().condition == "amqp:link:stolen"
        second.send("2")
        assert ask(other, "writer", "commitEpoch", name, 0, {"a": 2}) is True
        assert other.bodies(name) == ["1", "2"]


def test_what_a_commit_misses_is_told(broker: BrokerProcess, name: str) -> None:
    with Client(broker.url) as client:
        stage(client, name, name, 0, "a").send("1")
        with pytest.raises(Refused, match="has 1 messages, not 2"):
            ask(client, "writer", "commitEpoch", name, 0, {"a": 2})
        assert ask(client, "writer", "abortEpoch", name, 0, ["b"]) == 0
        assert ask(client, "writer", "abortEpoch", name, 0, ["a"]) == 1
        assert client.bodies(name) == []


@pytest.mark.parametrize("value", [(), ("w", 0), ("w", "0", "a"), (1, 0, "a"), ("w", -1, "a"), ("", 0, "a")])
def test_what_names_no_stage_is_refused(broker: BrokerProcess, name: str, value: tuple[object, ...]) -> None:
    with Client(broker.url) as client, pytest.raises(Refused):
        stage(client, name, *value)


@pytest.mark.parametrize("address", [None, "activemq.management", "q::q"])
def test_a_stage_needs_an_address(broker: BrokerProcess, address: str | None) -> None:
    with Client(broker.url) as client, pytest.raises(Refused):
        stage(client, address, "w", 0, "a")  # type: ignore[arg-type]


def test_stages_and_epochs_survive_a_crash(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    """`kill -9` between staging and commit, and after the commit; the node is the same one."""
    folder = tmp_path_factory.mktemp("broker")
    process = start_broker(Instance(persistence="true"), folder)
    client = Client(process.url)
    sender = stage(client, name, name, 7, "a")
    for body in ("1", "2"):
        sender.send(Message(body=body, durable=True, priority=int(body)))
    node = ask(client, "reader", "heads", {"queues": [name]})["node"]
    process.kill()
    client.abort()
    process = launch(folder)
    client = Client(process.url)
    assert staged(stage(client, name, name, 7, "a")) == 2
    assert ask(client, "writer", "commitEpoch", name, 7, {"a": 2}) is True
    process.kill()
    client.abort()
    process = launch(folder)
    with Client(process.url) as last:
        assert ask(last, "writer", "commitEpoch", name, 7, {"a": 2}) is False
        assert ask(last, "reader", "heads", {"queues": [name]})["node"] == node
        assert last.bodies(name) == ["2", "1"]
    process.stop()


def test_a_crash_does_not_forget_what_a_stage_refused(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    """By it a client that did not hear the answers knows that the messages in the stage are not its first ones."""
    folder = tmp_path_factory.mktemp("broker")
    full = f'<address-setting match="{name}"><max-size-messages>1</max-size-messages>'
    full += "<address-full-policy>FAIL</address-full-policy></address-setting>"
    process = start_broker(Instance(persistence="true", settings=full), folder)
    client = Client(process.url)
    sender = stage(client, name, name, 0, "a")
    assert sender.link.remote_properties[REFUSED] == 0
    sender.send(Message(body="1", durable=True))
    with pytest.raises(Refused, match="full"):
        sender.send(Message(body="2", durable=True))
    client.sender(f"{name}.other").send(Message(body="later", durable=True))
    process.kill()
    client.abort()
    process = launch(folder)
    with Client(process.url) as after:
        again = stage(after, name, name, 0, "a")
        assert (staged(again), again.link.remote_properties[REFUSED]) == (1, 1)
    process.stop()


def test_a_long_epoch_is_finished_after_a_crash_and_by_who_asks_again(
    tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    """`kill -9` when the request has been taken and not answered: the decision is on disk by then."""
    everything = [str(number) for number in range(2000)]
    folder = tmp_path_factory.mktemp("broker")
    process = start_broker(Instance(persistence="true"), folder)
    client = Client(process.url)
    sender = stage(client, name, name, 0, "a")
    deliveries = [sender.start(Message(body=body, durable=True)) for body in everything]
    for delivery in deliveries:
        sender.wait(delivery)
    properties = {"_AMQ_ResourceName": "writer", "_AMQ_OperationName": "commitEpoch"}
    body = json.dumps([name, 0, {"a": len(everything)}])
    request = Message(body=body, properties=properties, durable=True)
    client.sender("activemq.management").send(request)
    process.kill()
    client.abort()
    process = launch(folder)

    with Client(process.url) as again:
        assert ask(again, "writer", "commitEpoch", name, 0, {"a": len(everything)}) is False
        assert [one.body for one in again.receiver(name, copy=True).drain(5000)] == everything
        assert ask(again, "writer", "abortEpoch", name, 9) == 0
    process.stop()


def test_who_leaves_before_the_answer_leaves_the_commit_behind(broker: BrokerProcess, name: str) -> None:
    """Its connection is cut when the request was taken."""
    everything = [str(number) for number in range(1000)]
    client = Client(broker.url)
    sender = stage(client, name, name, 0, "a")
    deliveries = [sender.start(body) for body in everything]
    for delivery in deliveries:
        sender.wait(delivery)
    replies = client.receiver(None, dynamic=True)
    properties = {"_AMQ_ResourceName": "writer", "_AMQ_OperationName": "commitEpoch"}
    body = json.dumps([name, 0, {"a": len(everything)}])
    client.sender("activemq.management").send(Message(body=body, reply_to=replies.address, properties=properties))
    client.abort()

    with Client(broker.url) as other:
        assert ask(other, "writer", "commitEpoch", name, 0, {"a": len(everything)}) is False
        assert [one.body for one in other.receiver(name, copy=True).drain(5000)] == everything
