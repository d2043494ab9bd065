"""An OpenWire client that costs next to nothing, to see what a broker costs.

Works on blocks: messages of one size are written from a template in which only the numbers are patched, column by
column; deliveries are read as runs of frames of one size, and acknowledged by columns too. One process plays all
clients, each over a connection of its own. What is sent is what the Java client sends with its defaults: an
acknowledgement for each message (in a transaction one for the batch), a prefetch of 1,000 on queues, 32,766 on topics
and 100 of a durable subscription; `--sync` waits for the answer to each message, as that client does with persistent
ones.

Verified: nothing but the expected commands comes; in the end every consumer has got every message; with one producer
also their order.

    python openwire_load.py --port 61616 --pid 1234 --producers 1 --consumers 1
"""

import argparse
import json
import os
import selectors
import socket
import sys
import time
from pathlib import Path
from struct import Struct, pack, unpack
from typing import Final

from artemis_openwire.client.connection import ClientConnection, ClientHandler
from artemis_openwire.client.frames import AckTemplate, Dispatch, MessageTemplate
from artemis_openwire.engine.ack_fields import STANDARD
from artemis_openwire.engine.codec import read_frame, write_frame
from artemis_openwire.engine.commands import (
    ActiveMQBytesMessage,
    BaseCommand,
    ConnectionInfo,
    ConsumerInfo,
    ExceptionResponse,
    ProducerInfo,
    RemoveInfo,
    RemoveSubscriptionInfo,
    Response,
    SessionInfo,
    TransactionInfo,
)
from artemis_openwire.engine.limits import ConnectionLimits
from artemis_openwire.engine.negotiation import Agreement
from artemis_openwire.engine.structures import (
    ActiveMQDestination,
    ActiveMQQueue,
    ActiveMQTopic,
    ConnectionId,
    ConsumerId,
    LocalTransactionId,
    MessageId,
    ProducerId,
    SessionId,
)

BODY_BYTES: Final = 100
BLOCK: Final = 200
GATHER_S: Final = 0.0005
"""A pause between turns: a broker that writes message by message would otherwise keep the client busy with reads."""
READ_BYTES: Final = 1024 * 1024
QUEUE_PREFETCH: Final = 1000
TOPIC_PREFETCH: Final = 32_766
SUBSCRIPTION_PREFETCH: Final = 100
BEGIN: Final = 0
COMMIT: Final = 2
MARK: Final = 0x0123456789ABCDEF
"""A number that stands for the one of a transaction in templates."""
DISPATCH: Final = 21
RESPONSE: Final = 30
_SIZE: Final = Struct(">i")


class Broken(Exception):
    """The broker did what it must not."""


class Link(ClientHandler):
    """One connection with one session: blocking until `start`, then driven by a selector."""

    def __init__(self, port: int, name: str) -> None:
        self.name: Final = name
        self.received = b""
        self.waiting = bytearray()
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.engine: Final = ClientConnection(self, ConnectionLimits(max_inactivity_ms=0))
        self._answered: set[int] = set()
        self._is_negotiated = False
        while not self._is_negotiated:
            self._exchange()
        self.done(ConnectionInfo(connection_id=ConnectionId(value=name), client_id=name))
        self.done(SessionInfo(session_id=SessionId(connection_id=name, value=1)))

    # -- before the load -----------------------------------------------------------------------------------------

    def on_negotiated(self, agreement: Agreement) -> None:
        self._is_negotiated = True

    def on_response(self, command_id: int, response: Response) -> None:
        if isinstance(response, ExceptionResponse):
            raise Broken(f"a request failed: {response.exception}")
        self._answered.add(command_id)

    def on_closed(self, reason: str) -> None:
        raise Broken(reason)

    def done(self, command: BaseCommand) -> None:
        """Send a command and wait for its answer."""
        number = self.engine.request(command)
        while number not in self._answered:
            self._exchange()

    def _exchange(self) -> None:
        self.socket.sendall(self.engine.data_to_send())
        data = self.socket.recv(READ_BYTES)
        if not data:
            raise Broken("the broker closed the connection")
        self.engine.receive_data(data, time.monotonic())

    # -- under load ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """From now on the selector decides when to read, and `act` reads the frames."""
        self.socket.setblocking(False)

    def read(self) -> None:
        """Take what arrived."""
        try:
            data = self.socket.recv(READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            raise Broken("the broker closed the connection")
        self.received = self.act(self.received + data if self.received else data)

    def act(self, data: bytes) -> bytes:
        """Act on whole frames, in runs of one size and kind; return the rest."""
        offset = 0
        while len(data) - offset >= 5:
            end = offset + 4 + _SIZE.unpack_from(data, offset)[0]
            if end > len(data):
                break
            size = end - offset
            count = run_of(data, offset, size)
            end = offset + size * count
            if data[offset + 4] == DISPATCH:
                self.take_messages(data, offset, size, count)
            elif data[offset + 4] == RESPONSE:
                self.take_answers(count)
            else:
                self._take_rare(data[offset + 4 : offset + size])
                end = offset + size
            offset = end
        return data[offset:]

    def _take_rare(self, body: bytes) -> None:
        """Pass over signs of life and what brokers tell about themselves; an error ends the run."""
        command = type(read_frame(body, self.engine.version)).__name__
        if command not in ("KeepAliveInfo", "BrokerInfo", "ConnectionControl", "ProducerAck", "NoneType"):
            raise Broken(f"{command}: {read_frame(body, self.engine.version)}")

    def take_messages(self, data: bytes, offset: int, size: int, count: int) -> None:
        """Take a run of deliveries."""
        raise Broken("a delivery to a producer")

    def take_answers(self, count: int) -> None:
        """Take a run of answers."""
        raise Broken("an answer that was not asked for")

    def flush(self) -> None:
        """Write what the socket takes."""
        if self.waiting:
            try:
                sent = self.socket.send(self.waiting)
            except BlockingIOError:
                return
            del self.waiting[:sent]

    def transaction(self, number: int) -> LocalTransactionId:
        """Return the name of a transaction of this connection."""
        return LocalTransactionId(value=number, connection_id=ConnectionId(value=self.name))

    def close(self) -> None:
        """Say goodbye."""
        self.socket.setblocking(True)
        self.engine.close()
        self.socket.sendall(self.engine.data_to_send())
        self.socket.close()


def run_of(data: bytes, offset: int, size: int) -> int:
    """Return how many whole frames of the same size and kind follow one another."""
    least = (len(data) - offset) // size
    stop = offset + least * size
    for column in range(5):
        octets = data[offset + column : stop : size]
        least = min(least, len(octets) - len(octets.lstrip(octets[:1])))
    return least


def put(block: bytearray, column: int, size: int, octets: bytes, width: int) -> None:
    """Write one number of `width` octets into each frame of a block."""
    for index in range(width):
        block[column + index :: size] = octets[index::width]


class Batches:
    """Transactions of one link, one at a time: BEGIN, the work, COMMIT, which is answered."""

    def __init__(self, link: Link) -> None:
        self._link: Final = link
        self.number = 0
        self.is_open = False
        """Whether a commit is not answered yet."""

    def next(self) -> int:
        """Begin the next one."""
        self.number += 1
        self._tell(BEGIN, False)
        return self.number

    def commit(self) -> None:
        """Commit; the answer comes later."""
        self.is_open = True
        self._tell(COMMIT, True)

    def _tell(self, step: int, wants_answer: bool) -> None:
        link = self._link
        command = TransactionInfo(
            connection_id=ConnectionId(value=link.name),
            transaction_id=link.transaction(self.number),
            type=step,
            command_id=link.engine.next_id(),
            response_required=wants_answer,
        )
        link.waiting += write_frame(command, link.engine.version)


class Producer(Link):
    """Sends; knows how many of its messages are answered or committed."""

    def __init__(self, options: argparse.Namespace, name: str, destination: ActiveMQDestination) -> None:
        super().__init__(options.port, name)
        self.sent = 0
        self.done_count = 0
        self.batch: Final[int] = options.batch
        self.is_sync: Final[bool] = options.sync
        producer = ProducerId(connection_id=name, session_id=1, value=1)
        self.done(ProducerInfo(producer_id=producer, destination=destination))
        message = ActiveMQBytesMessage(
            producer_id=producer,
            destination=destination,
            message_id=MessageId(producer_id=producer, producer_sequence_id=0),
            transaction_id=self.transaction(MARK) if self.batch else None,
            persistent=options.durable,
            priority=4,
            timestamp=int(time.time() * 1000),
            content=b"x" * BODY_BYTES,
        )
        template = MessageTemplate(message, self.engine.version)
        self._frame: Final = template.frame(0, self.is_sync, MARK + 1)
        self._number_at: Final = self._frame.index(MARK.to_bytes(8, "big")[:7] + b"\xf0")
        self._transaction_at: Final = self._frame.find(MARK.to_bytes(8, "big"))
        self._batches: Final = Batches(self)
        self.start()

    @property
    def is_waiting(self) -> bool:
        """Whether an answer is due before it may send again."""
        return self._batches.is_open or (self.is_sync and self.done_count < self.sent)

    def produce(self, count: int) -> None:
        """Append a block of messages; all are one transaction if there are any."""
        frame = self._frame
        size = len(frame)
        transaction = self._batches.next() if self.batch else 0
        block = bytearray(frame * count)
        ids = [self.engine.next_id() for _ in range(count)]
        put(block, 5, size, pack(f">{count}I", *ids), 4)
        put(block, self._number_at, size, pack(f">{count}Q", *range(self.sent + 1, self.sent + count + 1)), 8)
        if self.batch:
            put(block, self._transaction_at, size, pack(">Q", transaction) * count, 8)
        self.waiting += block
        self.sent += count
        if self.batch:
            self._batches.commit()
        elif not self.is_sync:
            self.done_count = self.sent

    def take_answers(self, count: int) -> None:
        if self.is_sync:
            self.done_count += count
        else:
            self._batches.is_open = False
            self.done_count = self.sent


class Consumer(Link):
    """Counts, verifies and acknowledges."""

    def __init__(self, options: argparse.Namespace, name: str, destination: ActiveMQDestination) -> None:
        super().__init__(options.port, name)
        self.got = 0
        self.batch: Final[int] = options.batch
        self.is_ordered: Final[bool] = options.producers == 1 and (options.topic or options.consumers == 1)
        self._next = 1
        self._pending = 0
        """Messages that are not acknowledged yet, for a batch."""
        self._first = b""
        self._last = b""
        self._layouts: dict[int, tuple[int, int]] = {}
        """Where the message id and its numbers are in a frame of this size."""
        self._dispatch: Final = Dispatch()
        consumer = ConsumerId(connection_id=name, session_id=1, value=1)
        self._batches: Final = Batches(self)
        self._acks: Final = AckTemplate(
            consumer,
            destination,
            self.engine.version,
            STANDARD,
            self.transaction(MARK) if self.batch else None,
        )
        prefetch = TOPIC_PREFETCH if options.topic else QUEUE_PREFETCH
        # A name of its own, because the subscriptions of this client at Artemis do not differ by client id.
        self._subscription: Final = f"of-{name}" if options.subscribed else None
        self.done(
            ConsumerInfo(
                consumer_id=consumer,
                destination=destination,
                prefetch_size=SUBSCRIPTION_PREFETCH if options.subscribed else prefetch,
                subscription_name=self._subscription,
            )
        )
        self._id: Final = consumer
        self.start()

    @property
    def is_unfinished(self) -> bool:
        """Whether a batch can still be committed, or is being committed."""
        return self._batches.is_open or (self.batch > 0 and self._pending > 0)

    def _layout(self, frame: bytes) -> tuple[int, int]:
        """Return where the message id begins and where its two numbers are."""
        found = self._layouts.get(len(frame))
        if found is None:
            self._dispatch.read(frame[4:], self.engine.version)
            id = self._dispatch.message_id
            at = frame.index(id)
            found = self._layouts[len(frame)] = (at, at + len(id) - 16)
        return found

    def take_messages(self, data: bytes, offset: int, size: int, count: int) -> None:
        if not self.is_ordered and count > 1:
            # Each may have another producer, and acknowledgements name it.
            for index in range(count):
                self.take_messages(data, offset + index * size, size, 1)
            return
        end = offset + size * count
        id_at, numbers_at = self._layout(data[offset : offset + size])
        numbers = bytearray(16 * count)
        for column in range(16):
            numbers[column::16] = data[offset + numbers_at + column : end : size]
        pairs = bytes(numbers)
        if self.is_ordered:
            found = unpack(f">{2 * count}Q", pairs)[::2]
            if found != tuple(range(self._next, self._next + count)):
                raise Broken(f"out of order: {found[0]} to {found[-1]} where {self._next} was due")
            self._next += count
        self.got += count
        head = data[offset + id_at : offset + numbers_at]
        if self.batch:
            self._first = self._first or head + pairs[:16]
            self._last = head + pairs[-16:]
            self._pending += count
            self.commit(False)
        else:
            self._acknowledge(head, pairs, count)

    def _acknowledge(self, head: bytes, pairs: bytes, count: int) -> None:
        """Append an acknowledgement of each message."""
        last = head + bytes(16)
        frame = self._acks.frame(0, False, last, last, 1)
        size = len(frame)
        first_at = frame.index(last) + len(head)
        block = bytearray(frame * count)
        ids = [self.engine.next_id() for _ in range(count)]
        put(block, 5, size, pack(f">{count}I", *ids), 4)
        put(block, first_at, size, pairs, 16)
        put(block, first_at + len(last), size, pairs, 16)
        self.waiting += block

    def commit(self, is_last: bool) -> None:
        """Acknowledge and commit what has come, if it is enough."""
        if self._batches.is_open or self._pending < (1 if is_last else self.batch):
            return
        transaction = self._batches.next()
        frame = self._acks.frame(self.engine.next_id(), False, self._first, self._last, self._pending)
        self.waiting += frame.replace(MARK.to_bytes(8, "big"), transaction.to_bytes(8, "big"), 1)
        self._batches.commit()
        self._pending = 0
        self._first = b""

    def take_answers(self, count: int) -> None:
        self._batches.is_open = False
        self.commit(False)

    def close(self) -> None:
        if self._subscription is not None:
            self.socket.setblocking(True)
            self.socket.sendall(self.waiting)
            self.engine.request(RemoveInfo(object_id=self._id))
            self.engine.request(
                RemoveSubscriptionInfo(
                    connection_id=ConnectionId(value=self.name),
                    subscription_name=self._subscription,
                    client_id=self.name,
                )
            )
        super().close()


def cpu_s(pid: int) -> float:
    """User and system time of all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Load:
    """All clients of one run."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options: Final = options
        name = f"load{os.getpid()}"
        destination: ActiveMQDestination
        destination = ActiveMQTopic(physical_name=name) if options.topic else ActiveMQQueue(physical_name=name)
        self.consumers = [Consumer(options, f"ID:{name}-c{n}", destination) for n in range(options.consumers)]
        self.producers = [Producer(options, f"ID:{name}-p{n}", destination) for n in range(options.producers)]
        self.copies: Final = options.consumers if options.topic else 1
        self._links: list[Link] = [*self.producers, *self.consumers]
        self._selector = selectors.DefaultSelector()
        for link in self._links:
            self._selector.register(link.socket, selectors.EVENT_READ, link)

    @property
    def delivered(self) -> int:
        """Messages at all consumers."""
        return sum(consumer.got for consumer in self.consumers)

    def turn(self, timeout: float) -> None:
        """Read and write what is possible."""
        for link in self._links:
            link.flush()
        is_stuck = any(link.waiting for link in self._links)
        for key, _ in self._selector.select(0.001 if is_stuck else timeout):
            key.data.read()

    def fill(self) -> None:
        """Let producers send that owe nothing and are not too far ahead of the slowest consumer."""
        done = min(consumer.got for consumer in self.consumers) if self.options.topic else self.delivered
        ahead = sum(producer.sent for producer in self.producers) - done
        for producer in self.producers:
            count = 1 if producer.is_sync else producer.batch or BLOCK
            if ahead + count > self.options.ahead or producer.is_waiting or len(producer.waiting) > READ_BYTES:
                continue
            producer.produce(count)
            ahead += count

    def until(self, moment: float) -> None:
        """Full load up to a moment."""
        pause = 0.0 if self.options.sync else GATHER_S
        while time.monotonic() < moment:
            self.fill()
            self.turn(1.0)
            if pause:
                time.sleep(pause)

    def run(self) -> dict[str, float]:
        """Return the CPU per delivered message, and messages a second."""
        self.until(time.monotonic() + self.options.warm_up)
        begin, cpu, delivered = time.monotonic(), cpu_s(self.options.pid), self.delivered
        own = time.process_time()
        self.until(begin + self.options.seconds)
        elapsed = time.monotonic() - begin
        cpu, own = cpu_s(self.options.pid) - cpu, time.process_time() - own
        delivered = max(self.delivered - delivered, 1)
        self.finish()
        return {"cpu_us": cpu / delivered * 1e6, "client_us": own / delivered * 1e6, "per_s": delivered / elapsed}

    def finish(self) -> None:
        """Wait for everything that is on its way. Raises Broken if something is missing or came twice."""
        deadline = time.monotonic() + 30
        wanted = sum(producer.sent for producer in self.producers) * self.copies
        while (
            self.delivered < wanted
            or any(producer.is_waiting or producer.waiting for producer in self.producers)
            or any(consumer.is_unfinished or consumer.waiting for consumer in self.consumers)
        ):
            if time.monotonic() > deadline:
                raise Broken(f"{self.delivered} of {wanted} messages were delivered")
            if self.delivered >= wanted:
                for consumer in self.consumers:
                    if consumer.batch:
                        consumer.commit(True)
            self.turn(0.05)
        if self.delivered != wanted:
            raise Broken("messages were doubled")
        for link in self._links:
            link.close()


def main() -> int:
    """Print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--pid", type=int, required=True, help="the broker's process, for its CPU time")
    parser.add_argument("--producers", type=int, default=1)
    parser.add_argument("--consumers", type=int, default=1)
    parser.add_argument("--topic", action="store_true", help="every consumer gets every message")
    parser.add_argument("--subscribed", action="store_true", help="each consumer has a durable subscription")
    parser.add_argument("--durable", action="store_true", help="persistent messages")
    parser.add_argument("--sync", action="store_true", help="each message waits for the answer to the one before")
    parser.add_argument("--batch", type=int, default=0, help="messages of a transaction, on both sides; 0: none")
    parser.add_argument("--ahead", type=int, default=2000, help="messages that may be on their way")
    parser.add_argument("--warm-up", type=float, default=0.5)
    parser.add_argument("--seconds", type=float, default=2.0)
    try:
        print(json.dumps(Load(parser.parse_args()).run()))
    except (Broken, OSError) as error:
        print(f"openwire_load: {error!r}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
