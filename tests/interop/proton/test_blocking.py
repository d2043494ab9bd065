"""Proton's own blocking classes, used as its documentation shows them."""

import pytest
from proton import Delivery, Message
from proton.utils import BlockingConnection, LinkDetached, SendException, SyncRequestResponse

from tests.interop.broker_process import BrokerProcess

pytestmark = pytest.mark.each_build

TIMEOUT_S = 60.0


def test_send_and_receive(broker: BrokerProcess, name: str) -> None:
    """The first program of every tutorial."""
    connection = BlockingConnection(broker.url, timeout=TIMEOUT_S)
    sender = connection.create_sender(name)
    for number in range(10):
        assert sender.send(Message(body=number)).remote_state == Delivery.ACCEPTED
    receiver = connection.create_receiver(name, credit=5)
    bodies = []
    for _ in range(10):
        bodies.append(receiver.receive().body)
        receiver.accept()
    connection.close()

    assert bodies == list(range(10))


def test_release_and_reject(broker: BrokerProcess, name: str) -> None:
    """`release` answers modified or released; neither says that the delivery failed. `reject` ends it here."""
    connection = BlockingConnection(broker.url, timeout=TIMEOUT_S)
    connection.create_sender(name).send(Message(body="m"))
    receiver = connection.create_receiver(name)
    counts = []
    for delivered in (False, True):
        counts.append(receiver.receive().delivery_count)
        receiver.release(delivered=delivered)
    counts.append(receiver.receive().delivery_count)
    receiver.reject()
    connection.close()

    assert counts == [0, 0, 0]


def test_request_and_response(broker: BrokerProcess, name: str) -> None:
    """`SyncRequestResponse` puts its reply node (dynamic) into each request."""
    client = BlockingConnection(broker.url, timeout=TIMEOUT_S)
    server = BlockingConnection(broker.url, timeout=TIMEOUT_S)
    requests = server.create_receiver(name)
    caller = SyncRequestResponse(client, name)
    request = Message(body="ping", reply_to=caller.reply_to, correlation_id=77)
    caller.sender.send(request)
    received = requests.receive()
    requests.accept()
    answer = Message(body="pong", correlation_id=received.correlation_id)
    server.create_sender(received.reply_to).send(answer)
    client.wait(lambda: caller.response is not None, msg="the response")
    response = caller.response
    for connection in (client, server):
        connection.close()

    assert response.body == "pong"
    assert response.correlation_id == 77


def test_refused_link_raises(broker: BrokerProcess, name: str) -> None:
    """`LinkDetached` carries the condition."""
    connection = BlockingConnection(broker.url, timeout=TIMEOUT_S)
    with pytest.raises(LinkDetached) as detached:
        connection.create_receiver(f"strict.{name}")
    connection.close()

    assert detached.value.condition == "amqp:not-found"


def test_rejected_send_raises(broker: BrokerProcess, name: str) -> None:
    """`SendException` carries the state."""
    connection = BlockingConnection(broker.url, timeout=TIMEOUT_S)
    sender = connection.create_sender(None)
    with pytest.raises(SendException) as refused:
        sender.send(Message(address=f"strict.{name}", body="m"))
    connection.close()

    assert refused.value.state == Delivery.REJECTED
