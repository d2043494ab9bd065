"""A connection of this broker to Apache Artemis: messages go there and come from there, once and in order."""

import pytest
from proton import Message

from artemis_py.testing.running import running_broker
from tests.interop.peer.conftest import PASSWORD, USER
from tests.interop.proton.client import Client
from tests.interop.test_broker_connections import bodies, configuration, connection, facts, send, until

COUNT = 200

pytestmark = pytest.mark.timeout(300)
LARGE = bytes(range(256)) * 2048


def test_messages_pass_both_ways(artemis: str) -> None:
    """Small and large ones, and again after this broker has been restarted."""
    port = int(artemis.rpartition(":")[2])
    inside = (
        '<sender queue-name="out" remote-address="bridged.out"/><receiver queue-name="in" remote-address="bridged.in"/>'
    )
    more = f'user="{USER}" password="{PASSWORD}"'
    with Client(artemis, user=USER, password=PASSWORD) as client:
        sender = client.sender("bridged.in", ("queue",))
        bodies_in = [*[f"in {number}" for number in range(COUNT)], LARGE]
        for delivery in [sender.start(Message(body=body, durable=True)) for body in bodies_in]:
            sender.wait(delivery)
        # It makes the queue, which Artemis would make for a topic otherwise.
        client.receiver("bridged.out", ("queue",))
        text = configuration("near", connection(port, inside, more=more))
        with running_broker(text, persistent=True) as here:
            send(here, "out", *[f"out {number}" for number in range(COUNT)])
            send(here, "out", LARGE)
            here.queue("in").wait_for(COUNT + 1, 30)
            here.queue("out").wait_until_empty(30)
            here.restart()
            send(here, "out", "after a restart")
            until(lambda: here.queue("out").count == 0 and facts(here, "passed")(True) == 1)

            assert bodies(here, "in") == bodies_in
        receiver = client.receiver("bridged.out", ("queue",))
        received: list[object] = []
        while batch := receiver.bodies():
            received += batch

    assert received == [*[f"out {number}" for number in range(COUNT)], LARGE, "after a restart"]


def test_artemis_drops_what_it_has_already(artemis: str) -> None:
    """By the id that a sender gives: the same message is sent by two connections."""
    port = int(artemis.rpartition(":")[2])
    inside = '<sender queue-name="out" remote-address="bridged.once"/>'
    more = f'user="{USER}" password="{PASSWORD}"'
    with Client(artemis, user=USER, password=PASSWORD) as client:
        client.receiver("bridged.once", ("queue",))
        with running_broker(configuration("near", connection(port, inside, more=more)), persistent=True) as here:
            send(here, "out", "same", properties={"_AMQ_DUPL_ID": "once"})
            send(here, "out", "same", properties={"_AMQ_DUPL_ID": "once"})
            send(here, "out", "other")
            here.queue("out").wait_until_empty(30)
        receiver = client.receiver("bridged.once", ("queue",))

        assert receiver.bodies() == ["same", "other"]
