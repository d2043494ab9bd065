"""Annotations that a consumer adds when it gives a message back (AMQP 1.0 §3.4.5), seen by real clients."""

from pathlib import Path

import pytest
from proton import Delivery, Message, symbol

from tests.interop.broker_process import Instance, launch, start_broker
from tests.interop.proton.client import Client, Received

KEY = symbol("x-opt-why")
INSTANCE = Instance(
    persistence="true",
    settings='<address-setting match="fragile"><max-delivery-attempts>1</max-delivery-attempts>'
    "<dead-letter-address>DLQ</dead-letter-address></address-setting>",
)


def modify(received: Received, failed: bool, reason: str) -> None:
    """Give a message back with an annotation."""
    received.delivery.local.failed = failed
    received.delivery.local.annotations = {KEY: reason}
    received.delivery.update(Delivery.MODIFIED)
    received.delivery.settle()
    received.client.sync()


@pytest.mark.parametrize("failed", [False, True])
def test_they_survive_redelivery_and_restart(tmp_path: Path, failed: bool) -> None:
    """The message is durable, and so is what was added to it."""
    broker = start_broker(INSTANCE, tmp_path)
    with Client(broker.url) as client:
        client.send("q", Message(body="m", durable=True, annotations={KEY: "old", symbol("x-opt-kept"): 1}))
        receiver = client.receiver("q")
        modify(receiver.receive(), failed, "first")
        again = receiver.receive()
        seen = again.annotations["x-opt-why"]
        modify(again, failed, "second")
        receiver.close()
    broker.stop()
    broker = launch(tmp_path)
    with Client(broker.url) as client:
        received = client.receive("q")
    broker.stop()

    assert seen == "first"
    assert (received.annotations["x-opt-why"], received.annotations["x-opt-kept"]) == ("second", 1)
    assert received.body == "m"


def test_the_dead_letter_tells_the_reason(tmp_path: Path) -> None:
    """With its origin, after a restart as well."""
    broker = start_broker(INSTANCE, tmp_path)
    with Client(broker.url) as client:
        client.send("fragile", Message(body="m", durable=True))
        modify(client.receiver("fragile").receive(), True, "broken")
    broker.stop()
    broker = launch(tmp_path)
    with Client(broker.url) as client:
        annotations = client.receive("DLQ").annotations
    broker.stop()

    assert (annotations["x-opt-why"], annotations["x-opt-ORIG-ADDRESS"]) == ("broken", "fragile")
