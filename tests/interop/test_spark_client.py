"""The connector's own client against a broker, without Spark: failover, logins, TLS, ranges, and broken connections."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest

from artemis_py.spark.connection import Broker, Connection
from artemis_py.spark.encoding import Encoded
from artemis_py.spark.errors import ConnectionLost, InvalidOption, Refused, SendFailed
from artemis_py.spark.management import Management
from artemis_py.spark.offsets import earliest, latest, lost, ranges_by_key
from artemis_py.spark.options import ConnectionOptions, Server, read_options, write_options
from artemis_py.spark.planning import Planner
from artemis_py.spark.receiving import RangeLink
from artemis_py.spark.sending import Sender, StageName
from tests.interop.broker_process import BrokerProcess, Instance, launch, start_broker
from tests.interop.conftest import StartBroker
from tests.interop.proton.client import Client

CERTIFICATES: Final = Path(__file__).resolve().parents[1] / "transport" / "certificates"
CLIENT_ROLE: Final = "jobs = CN=client\\,OU=Tests\\,O=Example\\\\\\, Inc.\n"
"""The subject of the certificate `client.pem`."""
QUICK: Final = {"retryDelay": "10ms", "connectTimeout": "10s"}


def connection_options(url: str, **options: str) -> ConnectionOptions:
    return write_options({"url": url, "address": "a", **QUICK, **options}).connection


def nobody() -> str:
    """A URL that refuses."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"amqp://127.0.0.1:{server.getsockname()[1]}"


@contextmanager
def cut_after(broker: BrokerProcess, limits: list[int]) -> Iterator[str]:
    """A proxy that cuts each connection after so many octets from the client; the last limit is for all that follow."""
    server = socket.create_server(("127.0.0.1", 0))
    remaining = list(limits)
    ends: list[socket.socket] = []
    pumps: list[threading.Thread] = []
    is_closed = threading.Event()

    def pump(source: socket.socket, sink: socket.socket, limit: int | None) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if limit is not None:
                    limit -= len(data)
                    if limit < 0:
                        break
                sink.sendall(data)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def accept() -> None:
        while not is_closed.is_set():
            try:
                near, _ = server.accept()
            except OSError:
                return
            far = socket.create_connection((broker.host, broker.port))
            limit = remaining.pop(0) if remaining else None
            for source, sink, bound in ((near, far, limit), (far, near, None)):
                pumps.append(threading.Thread(target=pump, args=(source, sink, bound), daemon=True))
                pumps[-1].start()
            ends.extend((near, far))

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    yield f"amqp://127.0.0.1:{server.getsockname()[1]}"
    is_closed.set()
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    thread.join(10)
    for end in ends:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
    for running in pumps:
        running.join(10)
    for end in ends:
        end.close()


def messages(count: int, size: int = 1) -> Iterator[Encoded]:
    for number in range(count):
        body = f"{number:0{size}}".encode()
        yield Encoded(None, b"\x00\x53\x70\xc0\x02\x01\x41", b"\x00\x53\x75\xb0" + len(body).to_bytes(4, "big") + body)


def numbers(broker: BrokerProcess, queue: str) -> list[int]:
    with Client(broker.url) as client:
        # Proton's body is a view into its message, which has to live as long.
        found = [one.message for one in client.receiver(queue, copy=True).drain(100_000)]
        return [int(bytes(message.body)) for message in found]


def test_the_next_broker_of_the_list_is_taken(broker: BrokerProcess) -> None:
    with Broker(connection_options(f"{nobody()},{broker.url}")).connect() as connection:
        assert isinstance(Management(connection, 10).heads(addresses=["none"]).node, str)


def test_every_broker_of_the_list_is_named_when_none_answers() -> None:
    first, second = nobody(), nobody()

    with pytest.raises(ConnectionLost) as raised:
        Broker(connection_options(f"{first},{second}", retries="1")).run(lambda connection: None)

    assert first in str(raised.value)
    assert second in str(raised.value)


def test_work_begins_anew_when_the_connection_breaks(broker: BrokerProcess) -> None:
    with cut_after(broker, [900]) as url:
        tried: list[Connection] = []

        def work(connection: Connection) -> str:
            tried.append(connection)
            return Management(connection, 10).heads(addresses=["x" * 500]).node

        assert Broker(connection_options(url)).run(work)
        assert len(tried) == 2


@pytest.fixture(scope="module")
def secure(start: StartBroker) -> BrokerProcess:
    """One user, and TLS."""
    permissions = "".join(
        f'<permission type="{kind}" roles="jobs"/>'
        for kind in ("send", "consume", "browse", "createAddress", "createDurableQueue", "createNonDurableQueue",
                     "deleteNonDurableQueue")
    )  # fmt: skip
    core = (
        "<security-enabled>true</security-enabled><security-settings>"
        f'<security-setting match="#">{permissions}</security-setting>'
        '<security-setting match="closed"><permission type="send" roles="nobody"/></security-setting>'
        "</security-settings>"
    )
    return start(
        Instance(
            core=core,
            parameters=f"protocols=AMQP;sslEnabled=true;keyStorePath={CERTIFICATES / 'broker.pem'}",
            users="job = geheim\n",
            roles="jobs = job\n",
        )
    )


def secure_options(secure: BrokerProcess, **options: str) -> dict[str, str]:
    ca = str(CERTIFICATES / "authority.pem")
    given = {"host": "localhost", "port": str(secure.port), "tls": "true", "tls.ca": ca, "user": "job"}
    return given | {"passwordEnv": "JOB_PASSWORD"} | QUICK | options


def test_a_job_needs_no_permission_to_manage(secure: BrokerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """TLS, a login with a password from the environment, a subscription, heads, acknowledgement, and a stage."""
    monkeypatch.setenv("JOB_PASSWORD", "geheim")
    given = secure_options(secure)
    planner = Planner(read_options({**given, "address": "news", "subscription": "s"}))
    heads = planner.heads()
    sender = Sender(write_options({**given, "address": "news", "routingType": "multicast"}), StageName("w", 0, "a"))
    sender.send(messages(3))
    sender.flush()
    sender.close()
    options = write_options({**given, "address": "news"}).connection

    assert sender.staged == {"a:0": 3}
    Broker(options).run(lambda connection: Management(connection, 10).commit_epoch("w", 0, sender.staged))
    planner.acknowledge(latest(planner.heads()))
    (head,) = planner.heads().queues
    assert (head.first, head.next) == (heads.queues[0].next + 3, heads.queues[0].next + 3)


def test_a_wrong_password_is_refused_and_not_repeated(secure: BrokerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOB_PASSWORD", "falsch")

    with pytest.raises(Refused, match="login failed") as raised:
        Planner(read_options({**secure_options(secure), "address": "news", "subscription": "s"})).heads()
    assert "falsch" not in str(raised.value)


def test_a_certificate_nobody_vouches_for_is_refused(secure: BrokerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOB_PASSWORD", "geheim")
    given = secure_options(secure)
    del given["tls.ca"]

    with pytest.raises(Refused, match="is not trusted"):
        Planner(read_options({**given, "address": "news", "subscription": "s"})).heads()
    with pytest.raises(InvalidOption, match=r"tls\.ca"):
        Planner(read_options({**given, "tls.ca": "/nowhere", "address": "n", "subscription": "s"})).heads()


def test_a_certificate_is_a_login(start: StartBroker) -> None:
    core = (
        '<security-settings><security-setting match="#"><permission type="send" roles="jobs"/>'
        '<permission type="createAddress" roles="jobs"/><permission type="createDurableQueue" roles="jobs"/>'
        '<permission type="browse" roles="jobs"/><permission type="createNonDurableQueue" roles="jobs"/>'
        '<permission type="consume" roles="jobs"/></security-setting></security-settings>'
    )
    trust = f"needClientAuth=true;trustStorePath={CERTIFICATES / 'authority.pem'}"
    parameters = f"protocols=AMQP;saslMechanisms=EXTERNAL;sslEnabled=true;keyStorePath={CERTIFICATES / 'broker.pem'}"
    broker = start(Instance(core=core, parameters=f"{parameters};{trust}", roles=CLIENT_ROLE))
    client = str(CERTIFICATES / "client.pem")
    given = {
        "host": "localhost",
        "port": str(broker.port),
        "tls": "true",
        "tls.ca": str(CERTIFICATES / "authority.pem"),
    }
    given |= {"tls.cert": client, "tls.key": client, "address": "news", "subscription": "s", **QUICK}

    (head,) = Planner(read_options({**given, "sasl": "external"})).heads().queues

    assert head.queue == "s.news:global"
    with pytest.raises(Refused):
        Planner(read_options(given)).heads()


def test_an_address_that_is_closed_to_us_is_an_error(secure: BrokerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOB_PASSWORD", "geheim")
    sender = Sender(write_options({**secure_options(secure), "address": "closed"}))

    with pytest.raises(Refused, match="lacks permission 'send'"):
        sender.send(messages(300))
    sender.close()


def test_everything_is_sent_once_credit_and_window_notwithstanding(broker: BrokerProcess, name: str) -> None:
    sender = Sender(write_options({"url": broker.url, "address": name, "maxInFlight": "700"}))
    sender.send(messages(5000))
    sender.flush()
    sender.close()

    assert sender.accepted == 5000
    assert numbers(broker, name) == list(range(5000))


def test_a_broken_connection_loses_nothing_that_was_sent(broker: BrokerProcess, name: str) -> None:
    """Without ids something may come twice, and does not get lost."""
    with cut_after(broker, [60_000, 60_000]) as url:
        sender = Sender(write_options({"url": url, "address": name, **QUICK}))
        sender.send(messages(3000, 50))
        sender.flush()
        sender.close()

    assert set(numbers(broker, name)) == set(range(3000))


def test_a_broken_connection_makes_no_duplicates_in_a_stage(broker: BrokerProcess, name: str) -> None:
    """The broker says how many it has: the rest is sent, in its order."""
    with cut_after(broker, [60_000, 60_000, 1000, 90_000]) as url:
        sender = Sender(write_options({"url": url, "address": name, **QUICK}), StageName(name, 0, "a"))
        sender.send(messages(3000, 50))
        sender.flush()
        sender.close()
    Broker(connection_options(broker.url)).run(
        lambda connection: Management(connection, 10).commit_epoch(name, 0, sender.staged)
    )

    assert numbers(broker, name) == list(range(3000))


def test_a_commit_is_waited_for_while_the_broker_is_at_it(start: StartBroker, caplog: pytest.LogCaptureFixture) -> None:
    """The epoch is larger than its address may be, and flows in as a consumer makes room."""
    blocked = (
        '<address-setting match="full"><max-size-bytes>3000</max-size-bytes>'
        "<address-full-policy>BLOCK</address-full-policy></address-setting>"
    )
    broker = start(Instance(settings=blocked))
    sender = Sender(write_options({"url": broker.url, "address": "full", **QUICK}), StageName("w", 0, "a"))
    sender.send(messages(50))
    sender.flush()
    sender.close()
    is_new: list[bool] = []

    def commit() -> None:
        with Connection(
            Server(host="127.0.0.1", port=broker.port, tls=False), connection_options(broker.url)
        ) as connection:
            is_new.append(Management(connection, 0.1).commit_epoch("w", 0, sender.staged))

    committing = threading.Thread(target=commit)
    committing.start()
    while "not done yet" not in caplog.text:
        committing.join(0.05)
        assert committing.is_alive()
    with Client(broker.url) as client:
        receiver = client.receiver("full")
        receiver.flow(50)
        for _ in range(50):
            receiver.receive().accept()
    committing.join()

    assert is_new == [True]


def test_a_rejected_message_is_named_or_dropped(start: StartBroker, name: str) -> None:
    setting = (
        '<address-setting match="full"><max-size-messages>3</max-size-messages>'
        "<address-full-policy>FAIL</address-full-policy></address-setting>"
    )
    small = start(Instance(settings=setting))
    options = {"url": small.url, "address": "full"}
    sender = Sender(write_options(options))
    sender.send(messages(200))
    with pytest.raises(SendFailed, match=r"rejected a message for full: address 'full' is full"):
        sender.flush()
    sender.close()
    dropping = Sender(write_options({**options, "onReject": "drop"}))
    dropping.send(messages(600))
    dropping.flush()
    dropping.close()

    assert dropping.dropped + dropping.accepted == 600
    assert dropping.dropped > 500


def test_a_range_is_read_in_pieces_and_ends_by_itself(broker: BrokerProcess, name: str) -> None:
    sender = Sender(write_options({"url": broker.url, "address": name}))
    sender.send(messages(10_000))
    sender.flush()
    sender.close()
    planner = Planner(read_options({"url": broker.url, "mode": "browse", "queue": name}))
    heads = planner.heads()
    (part,) = ranges_by_key(earliest(heads), latest(heads)).values()

    with Broker(connection_options(broker.url)).connect() as connection:
        batches: list[Any] = [len(batch) for batch in RangeLink(connection, part, 1, None, 100).batches(10)]

    assert (sum(batches), len(batches)) == (10_000, 2)


def test_a_crash_of_the_broker_loses_nothing_and_raises_no_alarm(tmp_path: Path) -> None:
    """Its numbers jump; an offset of before means the same messages, and the node and queue are the same ones."""

    def send(process: BrokerProcess, count: int) -> None:
        sender = Sender(write_options({"url": process.url, "address": "q"}))
        sender.send(messages(count))
        sender.flush()
        sender.close()

    process = start_broker(Instance(persistence="true"), tmp_path)
    send(process, 10)
    before = Planner(read_options({"url": process.url, "mode": "browse", "queue": "q"})).heads()
    process.kill()
    process = launch(tmp_path)
    send(process, 5)
    planner = Planner(read_options({"url": process.url, "mode": "browse", "queue": "q"}))
    heads = planner.heads()

    assert lost(earliest(before), heads) == []
    assert heads.queues[0].next - before.queues[0].next > 5
    planner.acknowledge(latest(before))
    assert lost(latest(before), planner.heads()) == []
    assert planner.heads().queues[0].first > before.queues[0].next
    process.stop()
