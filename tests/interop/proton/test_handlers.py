"""Proton's event-driven style, as its own examples and most programs use it."""

from typing import Any

from proton import Message
from proton.handlers import MessagingHandler
from proton.reactor import AtMostOnce, Container

from tests.interop.broker_process import BrokerProcess


class Producer(MessagingHandler):  # type: ignore[misc]
    """Sends a number of messages and ends when all are accepted."""

    def __init__(self, url: str, total: int, options: Any = None) -> None:
        super().__init__()
        self.url, self.total, self.options = url, total, options
        self.sent = self.confirmed = 0

    def on_start(self, event: Any) -> None:
        event.container.create_sender(self.url, options=self.options)

    def on_sendable(self, event: Any) -> None:
        while event.sender.credit and self.sent < self.total:
            event.sender.send(Message(id=self.sent, body=self.sent))
            self.sent += 1
            if event.sender.snd_settle_mode == event.sender.SND_SETTLED:
                self.confirmed += 1
        self.finish(event)

    def on_accepted(self, event: Any) -> None:
        self.confirmed += 1
        self.finish(event)

    def finish(self, event: Any) -> None:
        if self.confirmed == self.total:
            event.connection.close()


class Consumer(MessagingHandler):  # type: ignore[misc]
    """Takes a number of messages, accepting each, and ends."""

    def __init__(self, url: str, total: int, **options: Any) -> None:
        super().__init__(**options)
        self.url, self.total = url, total
        self.bodies: list[Any] = []

    def on_start(self, event: Any) -> None:
        event.container.create_receiver(self.url)

    def on_message(self, event: Any) -> None:
        self.bodies.append(event.message.body)
        if len(self.bodies) == self.total:
            event.receiver.close()
            event.connection.close()


class Server(MessagingHandler):  # type: ignore[misc]
    """Answers each request at its reply-to, over the anonymous relay."""

    def __init__(self, url: str, address: str) -> None:
        super().__init__()
        self.url, self.address = url, address

    def on_start(self, event: Any) -> None:
        self.connection = event.container.connect(self.url, handler=self, reconnect=False)
        event.container.create_receiver(self.connection, self.address)
        self.relay = event.container.create_sender(self.connection, None)

    def on_message(self, event: Any) -> None:
        request = event.message
        reply = Message(address=request.reply_to, body=request.body.upper(), correlation_id=request.correlation_id)
        self.relay.send(reply)

    def on_settled(self, event: Any) -> None:
        if event.link == self.relay:
            self.connection.close()


class Requester(MessagingHandler):  # type: ignore[misc]
    """Asks once and keeps the answer."""

    def __init__(self, url: str, address: str) -> None:
        super().__init__()
        self.url, self.address = url, address
        self.answer: Any = None

    def on_start(self, event: Any) -> None:
        self.connection = event.container.connect(self.url, handler=self, reconnect=False)
        self.sender = event.container.create_sender(self.connection, self.address)
        self.receiver = event.container.create_receiver(self.connection, None, dynamic=True)

    def on_link_opened(self, event: Any) -> None:
        if event.receiver == self.receiver:
            self.sender.send(Message(reply_to=self.receiver.remote_source.address, body="ping"))

    def on_message(self, event: Any) -> None:
        self.answer = event.message.body
        self.connection.close()


def test_producer_then_consumer(broker: BrokerProcess, name: str) -> None:
    """Thousands of unsettled messages over windows of credit, in order."""
    producer = Producer(f"{broker.url}/{name}", 3000)
    Container(producer).run()
    consumer = Consumer(f"{broker.url}/{name}", 3000)
    Container(consumer).run()

    assert consumer.bodies == list(range(3000))


def test_producer_and_consumer_in_one_container(broker: BrokerProcess, name: str) -> None:
    """Both at once over two connections."""
    consumer = Consumer(f"{broker.url}/{name}", 1000)
    Container(consumer, Producer(f"{broker.url}/{name}", 1000)).run()

    assert consumer.bodies == list(range(1000))


def test_settled_producer(broker: BrokerProcess, name: str) -> None:
    """AtMostOnce: no disposition comes back."""
    consumer = Consumer(f"{broker.url}/{name}", 1000)
    Container(consumer, Producer(f"{broker.url}/{name}", 1000, AtMostOnce())).run()

    assert consumer.bodies == list(range(1000))


def test_large_prefetch(broker: BrokerProcess, name: str) -> None:
    """Prefetch far above the number of messages."""
    Container(Producer(f"{broker.url}/{name}", 200)).run()
    consumer = Consumer(f"{broker.url}/{name}", 200, prefetch=10_000)
    Container(consumer).run()

    assert consumer.bodies == list(range(200))


def test_request_and_reply(broker: BrokerProcess, name: str) -> None:
    """Dynamic reply node, anonymous relay, two connections."""
    requester = Requester(broker.url, name)
    Container(Server(broker.url, name), requester).run()

    assert requester.answer == "PING"
