"""Our engine and Proton's, in one process, in both roles, with every read cut somewhere else."""

from collections import deque
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from proton import SASL, Collector, Connection, Delivery, Link, Session, Transport

from artemis_amqp.engine.connection import AmqpConnection
from artemis_amqp.engine.limits import ConnectionLimits
from artemis_amqp.engine.performatives import Source, Target
from artemis_amqp.engine.receiver import ReceiverLink
from artemis_amqp.engine.sender import SenderLink
from tests.amqp_harness import ACCEPTED, Recorder
from tests.examples import examples


class Welcoming(Recorder):
    """Lets everybody in, grants what the test says."""

    def on_sasl_header(self) -> None:
        """Anonymous only."""
        self.engine.login.offer(["ANONYMOUS"])

    def on_sasl_init(self, mechanism: str, initial_response: bytes | None, hostname: str | None) -> None:
        """Welcome."""
        self.engine.login.finish(0, b"")


class Wires:
    """Our engine at one end, Proton's at the other."""

    def __init__(self, seed: int, is_server: bool, frame_size: int) -> None:
        self.random = Random(seed)
        self.handler = Welcoming()
        self.handler.credit = 0
        limits = ConnectionLimits(max_frame_size=frame_size, output_limit_bytes=5000)
        self.ours = AmqpConnection(self.handler, limits, is_client=not is_server, container_id="ours")
        self.handler.engine = self.ours
        self.transport = Transport(Transport.SERVER if not is_server else Transport.CLIENT)
        self.transport.max_frame_size = frame_size
        self.connection = Connection()
        self.collector = Collector()
        self.connection.collect(self.collector)
        sasl: SASL = self.transport.sasl()
        sasl.allowed_mechs("ANONYMOUS")
        if not is_server:
            sasl.done(SASL.OK)
        self.connection.container = "proton"
        self.transport.bind(self.connection)

    def exchange(self) -> None:
        """Carry bytes in small pieces until nobody has anything to say."""
        idle = 0
        while idle < 3:
            idle += 1
            waiting = self.transport.pending()
            if waiting > 0:
                data = self.transport.peek(min(waiting, self.random.choice((1, 7, 100, 5000))))
                self.transport.pop(len(data))
                self.ours.receive_data(bytes(data), 0.0)
                idle = 0
            output = self.ours.data_to_send()
            while output:
                idle = 0
                count = min(self.random.choice((1, 9, 300, 5000)), self.transport.capacity())
                assert count > 0
                self.transport.push(output[:count])
                output = output[count:]
        while self.collector.peek():
            self.collector.pop()


def proton_links(wires: Wires, names: tuple[str, str]) -> tuple[Link, Link]:
    """Proton's sender and receiver, opened by Proton."""
    wires.connection.open()
    session: Session = wires.connection.session()
    session.open()
    sender, receiver = session.sender(names[0]), session.receiver(names[1])
    sender.target.address = "q"
    receiver.source.address = "q"
    sender.open()
    receiver.open()
    wires.exchange()
    return sender, receiver


def received(link: Link) -> list[tuple[bytes, Delivery]]:
    """Complete deliveries that wait on a Proton receiver."""
    found: list[tuple[bytes, Delivery]] = []
    while (delivery := link.current) is not None and not delivery.partial:
        found.append((link.recv(delivery.pending) or b"", delivery))
        link.advance()
    return found


sizes = st.lists(st.integers(1, 6000), min_size=1, max_size=12)


@settings(max_examples=examples(60))
@given(sizes, st.integers(0, 1000), st.sampled_from([512, 2000, 65536]), st.integers(1, 6))
def test_proton_sends_to_our_server(lengths: list[int], seed: int, frame_size: int, credit: int) -> None:
    """Every delivery arrives whole and in order, and Proton hears of each outcome."""
    wires = Wires(seed, True, frame_size)
    sender, _ = proton_links(wires, ("up", "down"))
    link = wires.handler.links["up"]
    assert isinstance(link, ReceiverLink)
    todo = deque((b"%d" % number, bytes((number,)) * length) for number, length in enumerate(lengths))
    expected = [body for _, body in todo]
    pending: list[Delivery] = []
    while todo:
        link.grant(credit)
        wires.handler.wake()
        wires.exchange()
        assert sender.credit == credit
        while sender.credit and todo:
            tag, body = todo.popleft()
            pending.append(sender.delivery(tag))
            sender.send(body)
            sender.advance()
        wires.exchange()
    calls = [call for call in wires.handler.calls if call[0] == "transfer"]
    first, last = calls[0][2], calls[-1][2]
    assert isinstance(first, int)
    assert isinstance(last, int)
    link.session.settle_incoming(first, last, ACCEPTED, True)
    wires.exchange()

    assert [call[4] for call in calls] == expected
    assert all(delivery.settled and delivery.remote_state == Delivery.ACCEPTED for delivery in pending)
    assert not wires.ours.closed


@settings(max_examples=examples(60))
@given(sizes, st.integers(0, 1000), st.sampled_from([512, 2000, 65536]), st.integers(1, 6), st.booleans())
def test_our_server_sends_to_proton(lengths: list[int], seed: int, frame_size: int, credit: int, drains: bool) -> None:
    """Credit, windows, split frames and drain, as Proton understands them."""
    wires = Wires(seed, True, frame_size)
    _, receiver = proton_links(wires, ("up", "down"))
    link = wires.handler.links["down"]
    assert isinstance(link, SenderLink)
    todo = deque(bytes((number,)) * length for number, length in enumerate(lengths))
    expected = list(todo)
    bodies: list[bytes] = []
    while todo or receiver.credit > 0:
        if drains:
            receiver.drain(credit)
        else:
            receiver.flow(credit)
        wires.exchange()
        while todo and link.can_send:
            link.send(b"", todo.popleft(), len(bodies), False)
            wires.exchange()
        if drains:
            link.drained()
        wires.exchange()
        for body, delivery in received(receiver):
            bodies.append(body)
            delivery.update(Delivery.ACCEPTED)
            delivery.settle()
        wires.exchange()
        if drains:
            assert receiver.credit == 0
        elif not todo:
            break

    assert bodies == expected
    assert len(link.session.unsettled) == 0
    assert [call[4] for call in wires.handler.calls if call[0] == "disposition"] == [0x24] * len(expected)
    assert not wires.ours.closed


@settings(max_examples=examples(40))
@given(sizes, st.integers(0, 1000), st.sampled_from([512, 65536]))
def test_our_client_talks_to_proton(lengths: list[int], seed: int, frame_size: int) -> None:
    """The client's role: login, open, begin, attach, transfer, detach, end, close."""
    wires = Wires(seed, False, frame_size)
    wires.ours.login.start("ANONYMOUS", b"")
    wires.exchange()
    wires.ours.send_open(wires.ours.our_open("ours"))
    session = wires.ours.channels.begin()
    link = session.attach("up", Source(), Target(address="q"), is_sender=True)
    assert isinstance(link, SenderLink)
    wires.exchange()
    wires.connection.open()
    wires.connection.session_head(0).open()
    theirs = wires.connection.link_head(0)
    theirs.target.copy(theirs.remote_target)
    theirs.source.copy(theirs.remote_source)
    theirs.open()
    theirs.flow(100)
    wires.exchange()
    for number, length in enumerate(lengths):
        link.send(b"h", bytes((number,)) * length, number, False)
        wires.exchange()
    bodies = received(theirs)
    for _, delivery in bodies:
        delivery.update(Delivery.RELEASED)
        delivery.settle()
    wires.exchange()
    link.detach()
    session.end()
    wires.ours.close()
    wires.exchange()

    assert [body for body, _ in bodies] == [b"h" + bytes((number,)) * length for number, length in enumerate(lengths)]
    assert wires.handler.names().count("disposition") == len(lengths)
    assert not link.has_unsettled
    assert wires.connection.remote_condition is None
