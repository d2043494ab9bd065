"""What a test of an application looks like: the broker is real, and started by the fixture in conftest.py.

pytest examples/embed_in_tests
"""

from proton import Message
from proton.utils import BlockingConnection


def place_order(url: str, number: int) -> None:
    """The code under test."""
    connection = BlockingConnection(url, timeout=10)
    connection.create_sender("orders").send(Message(id=number, body={"number": number}))
    connection.close()


def test_an_order_is_sent(broker_url: str) -> None:
    """The message is in the queue when the call returns."""
    place_order(broker_url, 7)

    connection = BlockingConnection(broker_url, timeout=10)
    receiver = connection.create_receiver("orders")
    message = receiver.receive(timeout=10)
    receiver.accept()
    connection.close()
    assert message.body == {"number": 7}
