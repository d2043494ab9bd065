"""A minimal broker on the engine of python-qpid-proton: what ours is measured against.

It does as little as a broker can: queues by name, fan-out for addresses that start with `topic.`, credit, settled and
unsettled deliveries, release and reject. No persistence, permissions, expiry, priorities, filters or limits. It uses
Proton's public interface (collector, transport, connection) without a reactor, and takes every short cut that this
interface allows: large reads and writes, credit in blocks, message bodies passed on as bytes without decoding, one
write per connection and turn.

    python proton_broker.py --port-file FILE [--port 0]
"""

import argparse
import selectors
import socket
import uuid
from collections import deque
from pathlib import Path
from typing import Any, Final

from proton import Collector, Connection, Delivery, Event, Link, Transport, TransportException

READ_BYTES: Final = 256 * 1024
CREDIT_BLOCK: Final = 2000
"""Credit a producer has after each top-up, given when half of it is used."""
TOPIC_PREFIX: Final = "topic."

Message = bytes


class Queue:
    """Messages in order, and the senders that want them."""

    def __init__(self) -> None:
        self.messages: deque[Message] = deque()
        self.consumers: deque[Consumer] = deque()

    def dispatch(self) -> None:
        """Hand messages to consumers in turn, as far as credit goes."""
        messages, consumers = self.messages, self.consumers
        without_credit = 0
        while messages and without_credit < len(consumers):
            consumer = consumers[0]
            consumers.rotate(-1)
            if consumer.credit <= 0:
                without_credit += 1
                continue
            without_credit = 0
            consumer.send(messages.popleft())


class Consumer:
    """A link we send on."""

    def __init__(self, peer: "Peer", link: Any, queue: Queue, is_settled: bool) -> None:
        self.peer = peer
        self.link = link
        self.queue = queue
        self.is_settled = is_settled
        self.credit = 0
        self.next_tag = 0
        self.unsettled: dict[str, Message] = {}

    def send(self, message: Message) -> None:
        """Write one delivery."""
        tag = str(self.next_tag)
        self.next_tag += 1
        self.credit -= 1
        delivery = self.link.delivery(tag)
        self.link.stream(message)
        self.link.advance()
        if self.is_settled:
            delivery.settle()
        else:
            self.unsettled[tag] = message
        self.peer.broker.has_output.add(self.peer)

    def close(self) -> None:
        """What was not settled goes back to the front of the queue."""
        self.queue.consumers.remove(self)
        self.queue.messages.extendleft(reversed(self.unsettled.values()))
        self.queue.dispatch()


class Broker:
    """All queues and connections."""

    def __init__(self, port: int) -> None:
        self.selector = selectors.DefaultSelector()
        self.listener = socket.create_server(("127.0.0.1", port), backlog=1024)
        self.listener.setblocking(False)
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.queues: dict[str, Queue] = {}
        self.topics: dict[str, list[Queue]] = {}
        self.has_output: set[Peer] = set()
        self.touched: set[Queue] = set()

    @property
    def port(self) -> int:
        """Where it listens."""
        port: int = self.listener.getsockname()[1]
        return port

    def targets(self, address: str) -> list[Queue]:
        """The queues that a message to `address` goes to."""
        if address.startswith(TOPIC_PREFIX):
            return self.topics.setdefault(address, [])
        return [self.source(address)]

    def source(self, address: str) -> Queue:
        """The queue that a consumer of `address` reads."""
        if address.startswith(TOPIC_PREFIX):
            queue = Queue()
            self.topics.setdefault(address, []).append(queue)
            return queue
        return self.queues.setdefault(address, Queue())

    def run(self) -> None:
        """Serve for ever: read everything, then dispatch, then write everything."""
        while True:
            for key, events in self.selector.select():
                if key.data is None:
                    self.accept()
                    continue
                peer: Peer = key.data
                if events & selectors.EVENT_READ:
                    peer.read()
                if events & selectors.EVENT_WRITE:
                    self.has_output.add(peer)
            while self.touched:
                self.touched.pop().dispatch()
            while self.has_output:
                self.has_output.pop().write()

    def accept(self) -> None:
        """Take a new connection."""
        try:
            connection, _ = self.listener.accept()
        except BlockingIOError:
            return
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer = Peer(self, connection)
        self.selector.register(connection, selectors.EVENT_READ, peer)


class Peer:
    """One connection: a socket and Proton's engine behind it."""

    def __init__(self, broker: Broker, connection: socket.socket) -> None:
        self.broker = broker
        self.socket = connection
        self.wants_write = False
        self.is_closed = False
        self.collector = Collector()
        self.connection: Any = Connection()
        self.connection.collect(self.collector)
        self.connection.container = f"proton-{uuid.uuid4()}"
        self.transport: Any = Transport(Transport.SERVER)
        self.transport.max_frame_size = 131072
        sasl = self.transport.sasl()
        sasl.allowed_mechs("ANONYMOUS")
        self.transport.bind(self.connection)
        self.consumers: dict[str, Consumer] = {}

    def read(self) -> None:
        """Take what the socket has, feed it to the engine and act on its events."""
        try:
            data = self.socket.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        offset = 0
        try:
            while offset < len(data):
                room = self.transport.capacity()
                if room <= 0:
                    break
                self.transport.push(data[offset : offset + room])
                offset += room
                self.take_events()
        except TransportException:
            self.close()
            return
        self.broker.has_output.add(self)

    def take_events(self) -> None:
        """Act on all events that the engine has collected."""
        collector = self.collector
        while True:
            event: Any = collector.peek()
            if event is None:
                return
            kind = event.type
            if kind is Event.DELIVERY:
                self.on_delivery(event.delivery, event.link)
            elif kind is Event.LINK_FLOW:
                self.on_flow(event.link)
            elif kind is Event.CONNECTION_REMOTE_OPEN:
                event.connection.open()
            elif kind is Event.SESSION_REMOTE_OPEN:
                event.session.incoming_capacity = 64 * 1024 * 1024
                event.session.open()
            elif kind is Event.LINK_REMOTE_OPEN:
                self.on_link_open(event.link)
            elif kind in (Event.LINK_REMOTE_CLOSE, Event.LINK_REMOTE_DETACH):
                self.end_link(event.link)
                event.link.close()
            elif kind is Event.SESSION_REMOTE_CLOSE:
                event.session.close()
            elif kind is Event.CONNECTION_REMOTE_CLOSE:
                event.connection.close()
            collector.pop()

    def on_link_open(self, link: Any) -> None:
        """Answer an attach."""
        link.source.copy(link.remote_source)
        link.target.copy(link.remote_target)
        link.snd_settle_mode = link.remote_snd_settle_mode
        if link.is_sender:
            queue = self.broker.source(link.remote_source.address)
            consumer = Consumer(self, link, queue, link.remote_snd_settle_mode == Link.SND_SETTLED)
            self.consumers[link.name] = consumer
            # Attributes of an engine object stay with it: cheaper per message than a table by name.
            link.consumer = consumer
            queue.consumers.append(consumer)
        else:
            link.queues = self.broker.targets(link.remote_target.address)
            link.flow(CREDIT_BLOCK)
        link.open()

    def on_flow(self, link: Any) -> None:
        """A consumer granted credit."""
        if link.is_sender and link.name in self.consumers:
            consumer: Consumer = link.consumer
            consumer.credit = link.credit
            self.broker.touched.add(consumer.queue)

    def on_delivery(self, delivery: Any, link: Any) -> None:
        """A message came in, or the fate of one that we sent."""
        if link.is_receiver:
            if not delivery.readable or delivery.partial:
                return
            message = link.recv(delivery.pending)
            for queue in link.queues:
                queue.messages.append(message)
                self.broker.touched.add(queue)
            if not delivery.settled:
                delivery.update(Delivery.ACCEPTED)
            delivery.settle()
            if link.credit < CREDIT_BLOCK // 2:
                link.flow(CREDIT_BLOCK - link.credit)
        elif delivery.updated:
            consumer: Consumer = link.consumer
            state = delivery.remote_state
            if not delivery.settled and not state:
                return
            message = consumer.unsettled.pop(delivery.tag, None)
            delivery.settle()
            if message is not None and state in (Delivery.RELEASED, Delivery.MODIFIED):
                consumer.queue.messages.appendleft(message)
                self.broker.touched.add(consumer.queue)

    def end_link(self, link: Any) -> None:
        """A link is gone."""
        consumer = self.consumers.pop(link.name, None)
        if consumer is not None:
            self.end_consumer(consumer)

    def end_consumer(self, consumer: Consumer) -> None:
        """A consumer is gone; so is its queue if it was one of a topic's."""
        for queues in self.broker.topics.values():
            if consumer.queue in queues:
                queues.remove(consumer.queue)
        consumer.close()

    def write(self) -> None:
        """Send what the engine has for the peer, as much as the socket takes."""
        if self.is_closed:
            return
        transport = self.transport
        must_wait = False
        while (pending := transport.pending()) > 0:
            try:
                sent = self.socket.send(transport.peek(pending))
            except BlockingIOError:
                must_wait = True
                break
            except OSError:
                self.close()
                return
            transport.pop(sent)
        self.take_events()
        if transport.pending() < 0:
            self.close()
            return
        if must_wait != self.wants_write:
            self.wants_write = must_wait
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if must_wait else 0)
            self.broker.selector.modify(self.socket, events, self)

    def close(self) -> None:
        """The socket is gone, or the peer said goodbye."""
        if self.is_closed:
            return
        self.is_closed = True
        self.broker.has_output.discard(self)
        self.broker.selector.unregister(self.socket)
        self.socket.close()
        for consumer in self.consumers.values():
            self.end_consumer(consumer)
        self.consumers.clear()
        self.transport.unbind()


def main() -> None:
    """Run until killed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--port-file", type=Path)
    arguments = parser.parse_args()
    broker = Broker(arguments.port)
    if arguments.port_file is not None:
        arguments.port_file.write_text(f"{broker.port}\n", encoding="ascii")
    broker.run()


if __name__ == "__main__":
    main()
