"""The bridge between a transport and a connection: what goes through, and how it ends."""

import logging
from collections.abc import Callable

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from artemis_py.core.runtime.access import Subject
from artemis_py.protocol import ConnectionContext, LoginOutcome, LoginResult
from artemis_py.transport.config import AcceptorConfig
from artemis_py.transport.connections import ConnectionLimits
from artemis_py.transport.detection import MAX_HEAD_BYTES
from artemis_py.transport.driver import LINGER_S
from tests.line_protocol import SILENCE_LIMIT_S, LineConnection, LineParameters, LineProtocolManager
from tests.unit.transport.doubles import START_MS, AnyName, Bench, FakeTransport

LOGIN_S = 10


@pytest.fixture
def bench() -> Bench:
    return Bench()


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.levelno >= logging.ERROR]


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.levelno == logging.WARNING]


# What goes through.


@given(st.lists(st.integers(1, 40)))
def test_any_fragmentation_is_the_same_conversation(cuts: list[int]) -> None:
    """TCP may cut anywhere, also within the bytes that tell the protocol."""
    conversation = b"LINE alice\nECHO one\nECHO two\nQUIT\n"
    bench = Bench()
    transport = bench.accept()
    offset = 0
    for cut in [*cuts, len(conversation)]:
        bench.receive(transport, conversation[offset : offset + cut])
        offset += cut

    assert transport.output == b"HELLO alice\none\ntwo\nBYE as you wish\n"


def test_output_of_one_iteration_is_one_write(bench: Bench) -> None:
    """Several reads before the turn, one write in it."""
    transport, _ = bench.log_in()
    assert transport.driver is not None
    transport.driver.data_received(b"ECHO one\n")
    transport.driver.data_received(b"ECHO two\n")
    assert transport.written == []
    bench.loop.run()

    assert transport.written == [b"one\ntwo\n"]


def test_parameters_are_parsed_once_for_all_connections_of_an_acceptor() -> None:
    """A URL says the same to each of them, and parsing all of it is no business of a client that connects."""
    bench = Bench(config=AcceptorConfig(name="test", parameters={"lineGreeting": "HI"}))
    _, one = bench.log_in()
    _, other = bench.log_in()

    assert one.context.parameters == LineParameters(greeting="HI")
    assert one.context.parameters is other.context.parameters


def test_delivery_wakes_the_receiver_in_the_same_turn(bench: Bench) -> None:
    """A message from one connection goes out on the other without waiting for that one to say something."""
    sender, _ = bench.log_in("sender")
    receiver, _ = bench.log_in("receiver")
    bench.receive(receiver, b"TAKE q 10\n")
    bench.receive(sender, b"SEND q hello\n")

    assert sender.output == b"SENT 1\n"
    assert receiver.output == b"MESSAGE hello\n"


def test_core_knows_the_time_when_bytes_arrive(bench: Bench) -> None:
    """Sessions and messages are stamped with it."""
    transport, _ = bench.log_in()
    bench.loop.now = 2.0
    bench.receive(transport, b"ECHO x\n")

    assert bench.domain.dispatcher.now_ms == START_MS + 2000


@pytest.mark.parametrize(
    ("peername", "peer", "is_loopback"),
    [
        (("127.0.0.1", 5), "127.0.0.1:5", True),
        (("127.8.8.8", 5), "127.8.8.8:5", True),
        (("::1", 5), "[::1]:5", True),
        (("::ffff:127.0.0.1", 5), "[::ffff:127.0.0.1]:5", True),
        (("192.0.2.1", 5), "192.0.2.1:5", False),
        (("fe80::1%eth0", 5), "[fe80::1%eth0]:5", False),
        (("::ffff:192.0.2.1", 5), "[::ffff:192.0.2.1]:5", False),
    ],
)
def test_connection_knows_its_peer(bench: Bench, peername: tuple[str, int], peer: str, is_loopback: bool) -> None:
    """Anonymous logins depend on where the peer is."""
    bench.receive(bench.accept(peername), b"LINE alice\n")
    context = bench.manager.opened[0].context

    assert (context.peer, context.is_loopback, context.is_encrypted) == (peer, is_loopback, False)


def test_connection_gets_the_parameters_of_its_acceptor() -> None:
    """What the acceptor's URL says for this protocol."""
    bench = Bench(config=AcceptorConfig(name="test", parameters={"lineGreeting": "WELCOME"}))
    transport = bench.accept()
    bench.receive(transport, b"LINE alice\n")

    assert transport.output == b"WELCOME alice\n"


# Strangers.


def test_unknown_protocol_is_cut_off(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """Its first bytes are logged, not all: they may be somebody's secret sent to the wrong port."""
    transport = bench.accept()
    bench.receive(transport, b"GET /secret HTTP/1.1\r\n")

    assert transport.is_aborted
    assert warnings(caplog)[0].endswith("first_bytes=47455420 (HTTP)")


def test_head_without_protocol_is_bounded(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """reliability §4: a limit before a protocol is recognised."""
    monkeypatch.setattr(type(bench.manager), "matches", lambda self, head: None)
    transport = bench.accept()
    for _ in range(MAX_HEAD_BYTES - 1):
        bench.receive(transport, b"?")
    assert not transport.is_aborted
    bench.receive(transport, b"?")

    assert transport.is_aborted


def test_silent_stranger_is_cut_off_after_ten_seconds(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """reliability §4: 10 s in all from accept to logged in."""
    transport = bench.accept()
    bench.loop.advance(LOGIN_S - 0.1)
    assert not transport.is_aborted
    bench.loop.advance(0.2)

    assert transport.is_aborted
    assert warnings(caplog) == ["login took too long: peer=127.0.0.1:40000 seconds=10"]


def test_bytes_do_not_restart_the_login_deadline(bench: Bench) -> None:
    """reliability §4: not restarted by bytes, neither before nor after the protocol is known."""
    transport = bench.accept()
    for byte in b"LINE alice"[:9]:
        bench.receive(transport, bytes((byte,)))
        bench.loop.advance(1.0)
    assert not transport.is_aborted
    bench.receive(transport, b"x")
    bench.loop.advance(1.1)

    assert transport.is_aborted
    assert [connection.lost_count for connection in bench.manager.opened] == [1]


def test_logged_in_peer_may_be_silent_longer(bench: Bench) -> None:
    """From then on the protocol's own heartbeat counts."""
    transport, connection = bench.log_in()
    bench.loop.advance(SILENCE_LIMIT_S - 1)

    assert not transport.is_aborted
    assert not connection.closed


def test_late_login_result_ends_the_deadline() -> None:
    """Passwords are checked elsewhere: the result comes with no byte from the peer."""
    waiting: list[Callable[[], None]] = []

    class Slow(AnyName):
        def login(
            self,
            user: str | None,
            password: str | None,
            context: ConnectionContext,
            done: Callable[[LoginResult], None],
        ) -> None:
            waiting.append(lambda: AnyName.login(self, user, password, context, done))

    bench = Bench()
    object.__setattr__(bench.terms, "authenticator", Slow())
    transport = bench.accept()
    bench.receive(transport, b"LINE alice\n")
    bench.loop.advance(LOGIN_S - 1)
    waiting[0]()
    bench.loop.advance(LOGIN_S)

    assert transport.output == b"HELLO alice\n"
    assert not transport.is_aborted
    assert bench.connections.strangers == 0


def test_connection_over_the_limit_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    """The log says which limit; those who are in stay."""
    bench = Bench(limits=ConnectionLimits(total=1, strangers=1))
    first, _ = bench.log_in()
    refused = bench.accept()

    assert refused.is_aborted
    assert not first.is_aborted
    assert "1 connections are open" in warnings(caplog)[0]
    bench.lose(refused)
    assert len(bench.connections) == 1


def test_a_silent_connection_makes_place(caplog: pytest.LogCaptureFixture) -> None:
    """The oldest one that said nothing goes, the log counts them; bytes of no protocol yet are nothing said."""
    bench = Bench(limits=ConnectionLimits(total=10, strangers=2))
    logging_in = bench.accept()
    bench.receive(logging_in, b"LINE ")
    trickling = bench.accept()
    bench.receive(trickling, b"LI")
    bench.receive(bench.accept(), b"LINE alice\n")
    bench.lose(trickling)

    assert trickling.is_aborted
    assert not logging_in.is_aborted
    assert "stranger displaced: peer=127.0.0.1:40000 reason=2 connections are not logged in" in warnings(caplog)[0]
    bench.receive(logging_in, b"bob\n")
    assert logging_in.output == b"HELLO bob\n"
    assert bench.connections.strangers == 0


def test_a_login_that_is_being_checked_keeps_its_place() -> None:
    """The client waits for the broker: a flood of others does not cost it the login."""
    bench = Bench(limits=ConnectionLimits(total=10, strangers=1))
    waiting: list[Callable[[LoginResult], None]] = []

    class Slow(AnyName):
        def login(
            self,
            user: str | None,
            password: str | None,
            context: ConnectionContext,
            done: Callable[[LoginResult], None],
        ) -> None:
            waiting.append(done)

    bench.terms = evolve(bench.terms, authenticator=Slow())
    checked = bench.accept()
    bench.receive(checked, b"LINE alice\n")
    refused = bench.accept()
    waiting[0](LoginResult(LoginOutcome.OK, Subject("alice")))
    bench.loop.run()

    assert refused.is_aborted
    assert checked.output == b"HELLO alice\n"


def test_connections_that_were_told_goodbye_make_place_first() -> None:
    """A failed login whose peer does not close holds no place that a login under way could use."""
    bench = Bench(limits=ConnectionLimits(total=10, strangers=2))
    logging_in = bench.accept()
    bench.receive(logging_in, b"LINE ")
    failed = bench.accept()
    bench.receive(failed, b"LINE nobody\n")
    bench.accept()

    assert failed.is_aborted
    assert not logging_in.is_aborted


def test_refused_login_is_said_and_ends(bench: Bench) -> None:
    """The protocol has the last word, then the connection closes."""
    transport = bench.accept()
    bench.receive(transport, b"LINE nobody\n")

    assert transport.output == b"BYE bad credentials\n"
    assert transport.is_half_closed


# Heartbeats.


def test_heartbeat_follows_the_last_byte(bench: Bench) -> None:
    """A deadline that moved with each byte is kept to the second, though the timer is not moved with it."""
    transport, connection = bench.log_in()
    bench.loop.advance(SILENCE_LIMIT_S / 2)
    bench.receive(transport, b"ECHO x\n")
    bench.loop.advance(SILENCE_LIMIT_S - 1)
    assert not connection.closed
    bench.loop.advance(1)

    assert connection.closed
    assert transport.output == b"x\nBYE silence\n"


def test_idle_connection_costs_no_timer_of_its_own(bench: Bench) -> None:
    """Idle connections cost memory only, a look per heartbeat aside."""
    for _ in range(20):
        bench.log_in()

    assert len(bench.loop.timers) == 1


# Backpressure.


def test_slow_reader_stops_deliveries_and_reading(bench: Bench) -> None:
    """reliability §4: more than the output limit waiting means no deliveries and no reading for this peer."""
    transport, connection = bench.log_in()
    transport.room = 0
    bench.receive(transport, b"FLOOD 1001\n")

    assert connection.is_paused
    assert not transport.is_reading_now


def test_output_of_a_paused_peer_waits_in_its_connection(bench: Bench) -> None:
    """What the peer has not taken is not added to: the transport's buffer stays near its limit."""
    slow, _ = bench.log_in("slow")
    other, _ = bench.log_in("other")
    bench.receive(slow, b"TAKE q 1000\n")
    slow.room = 0
    for _ in range(100):
        bench.receive(other, b"SEND q " + b"x" * 100 + b"\n")

    assert slow.waiting_bytes <= 2 * bench.terms.output_limit_bytes
    assert bench.domain.queues["q"].message_count > 80


def test_peer_that_caught_up_gets_the_rest(bench: Bench) -> None:
    """Nothing is lost and nothing stays behind."""
    slow, connection = bench.log_in("slow")
    other, _ = bench.log_in("other")
    bench.receive(slow, b"TAKE q 1000\n")
    slow.room = 0
    for number in range(100):
        bench.receive(other, b"SEND q %d\n" % number + b"" * 100)
    while slow.waiting_bytes:
        slow.take(500)
        bench.loop.run()

    assert slow.output == b"".join(b"MESSAGE %d\n" % number for number in range(100))
    assert not connection.is_paused
    assert slow.is_reading_now


def test_a_connection_that_wants_nothing_is_not_read_until_it_says_so(bench: Bench) -> None:
    """Whether the peer takes its output or not: both must be as they should before it is read again."""
    transport, connection = bench.log_in()
    reads = [transport.is_reading_now]
    connection.context.read(False)
    reads.append(transport.is_reading_now)
    transport.room = 0
    bench.receive(transport, b"FLOOD 1001\n")
    transport.take(2000)
    reads.append(transport.is_reading_now)
    connection.context.read(True)
    reads.append(transport.is_reading_now)

    assert reads == [True, False, False, True]


def test_a_peer_that_takes_no_output_is_not_read_though_its_connection_wants_it(bench: Bench) -> None:
    """The other way round."""
    transport, connection = bench.log_in()
    connection.context.read(False)
    transport.room = 0
    bench.receive(transport, b"FLOOD 1001\n")
    connection.context.read(True)

    assert not transport.is_reading_now


def test_slow_reader_does_not_slow_others(bench: Bench) -> None:
    """P14, isolation."""
    slow, _ = bench.log_in("slow")
    other, _ = bench.log_in("other")
    slow.room = 0
    bench.receive(slow, b"FLOOD 100000\n")
    bench.receive(other, b"ECHO still here\n")

    assert other.output == b"still here\n"


# Ends.


def test_peer_that_closes_its_socket_during_our_goodbye_disturbs_nobody(bench: Bench) -> None:
    """Half-closing then fails (ENOTCONN); the turn goes on with the other connections."""
    leaving, _ = bench.log_in("leaving")
    other, _ = bench.log_in("other")

    def fail() -> None:
        raise OSError(107, "Transport endpoint is not connected")

    leaving.write_eof = fail  # type: ignore[method-assign]
    bench.receive(leaving, b"QUIT\n")
    bench.receive(other, b"ECHO still here\n")

    assert leaving.is_aborted
    assert other.output == b"still here\n"


def test_last_words_go_out_before_the_end(bench: Bench) -> None:
    """Only our direction is closed: a reset caused by unread bytes would overtake the last words."""
    transport, connection = bench.log_in()
    bench.receive(transport, b"QUIT\n")

    assert transport.output == b"BYE as you wish\n"
    assert transport.is_half_closed
    assert not transport.is_closed
    assert connection.lost_count == 1


def test_bytes_after_the_end_are_thrown_away(bench: Bench) -> None:
    """The peer may still be sending when it learns of the end."""
    transport, connection = bench.log_in()
    bench.receive(transport, b"QUIT\n")
    bench.receive(transport, b"ECHO x\n")

    assert transport.output == b"BYE as you wish\n"
    assert connection.lost_count == 1


def test_peer_that_never_closes_is_cut_off(bench: Bench) -> None:
    """Lingering has a bound, also for a peer that reads nothing."""
    transport, _ = bench.log_in()
    transport.room = 0
    bench.receive(transport, b"FLOOD 5000\nQUIT\n")
    bench.loop.advance(LINGER_S - 0.1)
    assert not transport.is_aborted
    bench.loop.advance(0.2)

    assert transport.is_aborted


def test_end_of_the_peer_is_answered_before_closing(bench: Bench) -> None:
    """A client may say all it has, close its direction, and read the answers."""
    transport, connection = bench.log_in()
    assert transport.driver is not None
    transport.driver.data_received(b"ECHO last\n")
    keep_open = transport.driver.eof_received()

    assert transport.output == b"last\n"
    assert not keep_open
    assert connection.lost_count == 1


@pytest.mark.parametrize("error", [None, ConnectionResetError("reset by peer")])
def test_lost_connection_is_told_once(bench: Bench, error: Exception | None) -> None:
    """P14: what it held is given back, its place is free."""
    transport, connection = bench.log_in()
    bench.lose(transport, error)
    bench.lose(transport, error)

    assert connection.lost_count == 1
    assert len(bench.connections) == 0
    assert bench.loop.timers == [] or bench.loop.timers[0] >= 0


def test_unsettled_messages_of_a_lost_connection_go_to_others(bench: Bench) -> None:
    """The dispatch that follows needs no byte from anybody."""
    first, _ = bench.log_in("first")
    second, _ = bench.log_in("second")
    sender, _ = bench.log_in("sender")
    bench.receive(first, b"TAKE q 10\n")
    bench.lose(first)
    bench.receive(second, b"TAKE q 10\n")
    bench.receive(sender, b"SEND q hello\n")

    assert second.output == b"MESSAGE hello\n"


# Bugs.


def test_exception_ends_its_own_connection_only(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """reliability §5.11: one handler per connection, logged once with its traceback."""
    bad, failed = bench.log_in("bad")
    good, _ = bench.log_in("good")
    bench.receive(bad, b"FAIL\n")
    bench.receive(bad, b"ECHO x\n")
    bench.receive(good, b"ECHO fine\n")
    bench.lose(bad)

    assert bad.is_aborted
    assert bad.output == b""
    assert failed.lost_count == 1
    assert good.output == b"fine\n"
    assert len(errors(caplog)) == 1
    assert caplog.records[-1].exc_info is not None


@pytest.mark.parametrize(
    "method",
    ["data_to_send", "next_deadline", "handle_deadline", "pause", "resume", "shutdown", "connection_lost"],
)
def test_exception_in_any_method_is_contained(
    bench: Bench, method: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever a connection does wrong, its driver survives and its end is told."""
    transport, connection = bench.log_in()
    other, _ = bench.log_in("other")
    bench.loop.run()

    def fail(*args: object) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr(connection, method, fail)
    transport.room = 0
    bench.receive(transport, b"FLOOD 2000\n")  # data_to_send, next_deadline, pause
    transport.take(2000)  # resume
    bench.loop.run()
    if method == "handle_deadline":
        bench.loop.advance(SILENCE_LIMIT_S - 1)
        bench.receive(other, b"ECHO awake\n")
        bench.loop.advance(1)
    assert transport.driver is not None
    transport.driver.shutdown("end")  # shutdown
    bench.loop.run()
    bench.lose(transport)
    bench.receive(other, b"ECHO fine\n")

    assert len(errors(caplog)) == 1
    assert other.output.endswith(b"fine\n")
    assert len(bench.connections) == 1
    if method != "connection_lost":
        assert connection.lost_count == 1


def test_manager_that_fails_to_connect_is_contained(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A protocol of somebody else's may be broken."""

    def fail(context: ConnectionContext) -> LineConnection:
        raise RuntimeError("planted")

    monkeypatch.setattr(bench.manager, "connect", fail)
    transport = bench.accept()
    bench.receive(transport, b"LINE alice\n")

    assert transport.is_aborted
    assert len(errors(caplog)) == 1


# Orders from the broker.


def test_shutdown_says_goodbye_in_the_protocols_words(bench: Bench) -> None:
    """Graceful stop: consumers are detached by the protocol."""
    transport, connection = bench.log_in()
    assert transport.driver is not None
    transport.driver.shutdown("broker stops")
    bench.loop.run()

    assert transport.output == b"BYE broker stops\n"
    assert transport.is_half_closed
    assert connection.lost_count == 1


def test_shutdown_does_not_wait_for_the_peers_own_goodbye(bench: Bench) -> None:
    """Nothing that comes after ours counts, and some clients never send one: our side is closed at once."""
    transport, connection = bench.log_in()
    connection.waits_for_answer = True
    assert transport.driver is not None
    transport.driver.shutdown("broker stops")
    bench.loop.run()

    assert not connection.closed
    assert transport.output == b"BYE broker stops\n"
    assert transport.is_half_closed
    assert connection.lost_count == 1


def test_shutdown_cuts_strangers_off(bench: Bench) -> None:
    """Who has said nothing yet is owed nothing."""
    transport: FakeTransport = bench.accept()
    assert transport.driver is not None
    transport.driver.shutdown("broker stops")

    assert transport.is_aborted


def test_a_stranger_is_told_what_is_spoken_here(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """AMQP 1.0 §2.2: the header of a supported version, then the end; what follows is thrown away."""
    monkeypatch.setattr(LineProtocolManager, "greeting", b"LINE?")
    transport = bench.accept()
    bench.receive(transport, b"GARBAGE!")
    bench.receive(transport, b"LINE alice\n")

    assert transport.output == b"LINE?"
    assert transport.is_half_closed
