"""Listening sockets and real connections on them. The peers run in the same loop, so nothing waits for the clock."""

import asyncio
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from artemis_py.core.runtime.events import ConnectionClosed, ConnectionOpened, Event, Events
from artemis_py.errors import ConfigError
from artemis_py.management.event_log import EventLog
from artemis_py.transport.acceptor import Acceptor
from artemis_py.transport.acceptor_context import AcceptorContext
from artemis_py.transport.config import AcceptorConfig, TlsConfig
from artemis_py.transport.connections import ConnectionLimits, Connections
from artemis_py.transport.driver import Driver
from artemis_py.transport.tls import server_context
from artemis_py.transport.turn import Turn
from tests.core_harness import make_host
from tests.line_protocol import LineProtocolManager
from tests.unit.transport.doubles import AnyName, small_domain

CERTIFICATES = Path(__file__).parent / "certificates"


class Site:
    """A listening acceptor and what it shares with its connections."""

    def __init__(self, config: AcceptorConfig, limits: ConnectionLimits) -> None:
        domain = small_domain()
        self.manager = LineProtocolManager(make_host(domain))
        self.turn = Turn(domain.dispatcher, asyncio.get_running_loop())
        self.connections = Connections(limits)
        self.events = Events()
        EventLog().listen(self.events)
        self.acceptor = Acceptor(
            AcceptorContext(
                config=config,
                managers=[self.manager],
                authenticator=AnyName(),
                turn=self.turn,
                connections=self.connections,
                events=self.events,
                tls=server_context(config),
            )
        )

    async def connect(self, context: ssl.SSLContext | None = None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.acceptor.port, ssl=context)

    async def until_all_left(self) -> None:
        """Every connection that was taken is gone again."""
        await self.connections.shutdown("test over", timeout_s=5)


@asynccontextmanager
async def listening(
    config: AcceptorConfig | None = None, limits: ConnectionLimits | None = None
) -> AsyncIterator[Site]:
    site = Site(config or AcceptorConfig(name="test", port=0), limits or ConnectionLimits(total=100, strangers=50))
    await site.acceptor.start()
    try:
        yield site
    finally:
        await site.acceptor.stop()
        await site.until_all_left()
        site.turn.stop()


def encrypted(**options: object) -> AcceptorConfig:
    tls = TlsConfig(key_store_path=CERTIFICATES / "broker.pem", **options)  # type: ignore[arg-type]
    return AcceptorConfig(name="test", port=0, tls=tls)


def client_context(certificate: str | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=CERTIFICATES / "authority.pem")
    if certificate is not None:
        context.load_cert_chain(CERTIFICATES / certificate)
    return context


async def test_conversation_over_a_real_socket() -> None:
    """Port 0 gives a port to connect to; first bytes, answers and the orderly end pass through."""
    async with listening() as site:
        reader, writer = await site.connect()
        writer.write(b"LINE alice\nECHO x\nQUIT\n")

        assert await reader.read() == b"HELLO alice\nx\nBYE as you wish\n"
        writer.close()
        await site.until_all_left()
        assert site.manager.opened[0].lost_count == 1


async def test_a_listener_is_told_of_a_connection_and_how_it_ended() -> None:
    """One event for its beginning and one for its end, with what tells it from all others."""
    async with listening() as site:
        told: list[Event] = []
        site.events.subscribe(told.append)
        reader, writer = await site.connect()
        host, port = writer.get_extra_info("sockname")
        writer.write(b"LINE alice\nECHO x\n")
        writer.write_eof()
        await reader.read()
        writer.close()
        await site.connections.wait_empty(asyncio.Event(), timeout_s=60)

        who = (1, "LINE", "test", f"{host}:{port}")
        assert told == [ConnectionOpened(*who), ConnectionClosed(*who, "closed by peer")]


async def test_a_socket_that_is_accepted_while_the_broker_stops_is_closed() -> None:
    """Otherwise its client would wait for a broker that is no longer there."""
    async with listening() as site:
        with socket.create_connection(("127.0.0.1", site.acceptor.port), timeout=10) as client:
            for _ in range(2):  # asyncio accepts it, and has no transport for it yet
                await asyncio.sleep(0)
            await site.acceptor.stop()
            await site.connections.shutdown("the broker stops", timeout_s=0)

            assert client.recv(1) == b""
            assert site.manager.opened == []


async def test_taken_port_is_a_configuration_error() -> None:
    """The operator reads file, line and acceptor, not a traceback."""
    async with listening() as site:
        config = AcceptorConfig(name="second", port=site.acceptor.port, file="broker.xml", line=7)
        with pytest.raises(ConfigError, match=r"broker\.xml:7: acceptor second: cannot listen on 127\.0\.0\.1:\d+"):
            await Site(config, site.connections.limits).acceptor.start()


async def test_connections_have_the_buffers_of_their_acceptor() -> None:
    """artemis-model §6.5, tcpSendBufferSize and tcpReceiveBufferSize; Linux doubles a size for its own needs."""
    sizes: dict[tuple[int, int], list[int]] = {}
    for send, receive in ((-1, -1), (65536, 32768), (2**40, -1)):
        config = AcceptorConfig(name="test", port=0, tcp_send_buffer_size=send, tcp_receive_buffer_size=receive)
        async with listening(config) as site:
            reader, writer = await site.connect()
            writer.write(b"LINE alice\nECHO x\n")
            await reader.readline()
            (driver,) = site.connections
            assert isinstance(driver, Driver)
            assert driver._transport is not None
            taken = driver._transport.get_extra_info("socket")
            options = (socket.SO_SNDBUF, socket.SO_RCVBUF)
            sizes[send, receive] = [taken.getsockopt(socket.SOL_SOCKET, each) for each in options]
            writer.close()

    assert sizes[65536, 32768] == [2 * 65536, 2 * 32768]
    assert sizes[-1, -1] != sizes[65536, 32768]
    assert sizes[2**40, -1][0] > sizes[65536, 32768][0]


async def test_stopped_acceptor_refuses_and_open_connections_go_on() -> None:
    """Graceful stop begins with the listening sockets."""
    async with listening() as site:
        reader, writer = await site.connect()
        writer.write(b"LINE alice\n")
        await reader.readline()
        port = site.acceptor.port
        await site.acceptor.stop()
        with pytest.raises(OSError, match=r"refused|Connect call failed"):
            await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"ECHO still here\n")

        assert await reader.readline() == b"still here\n"
        writer.close()


async def test_connection_above_connections_allowed_is_closed() -> None:
    """`connectionsAllowed`: the one too many sees the end at once, and its place comes back."""
    config = AcceptorConfig(name="test", port=0, connections_allowed=1)
    async with listening(config) as site:
        first_reader, first_writer = await site.connect()
        first_writer.write(b"LINE alice\n")
        await first_reader.readline()
        reader, writer = await site.connect()
        try:
            refused = await reader.read()
        except ConnectionResetError:
            refused = b""
        writer.close()

        assert refused == b""
        first_writer.write(b"QUIT\n")
        await first_reader.read()
        first_writer.close()
        await site.until_all_left()
        reader, writer = await site.connect()
        writer.write(b"LINE bob\n")
        assert await reader.readline() == b"HELLO bob\n"
        writer.close()


async def test_shutdown_says_goodbye_to_everybody() -> None:
    """Every client hears the reason in its protocol's words; nobody is left when it returns."""
    async with listening() as site:
        peers = [await site.connect() for _ in range(3)]
        for reader, writer in peers:
            writer.write(b"LINE alice\n")
            await reader.readline()

        async def leave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
            words = await reader.read()
            writer.close()
            return words

        leaving = [asyncio.ensure_future(leave(*peer)) for peer in peers]
        await site.connections.shutdown("broker stops", timeout_s=5)

        assert await asyncio.gather(*leaving) == [b"BYE broker stops\n"] * 3
        assert len(site.connections) == 0


async def test_shutdown_cuts_off_who_does_not_leave() -> None:
    """A peer that never closes cannot hold the broker up."""
    async with listening() as site:
        reader, writer = await site.connect()
        writer.write(b"LINE alice\n")
        await reader.readline()
        await site.connections.shutdown("broker stops", timeout_s=0)

        assert len(site.connections) == 0
        assert site.manager.opened[0].lost_count == 1
        writer.close()


@pytest.mark.parametrize("is_encrypted", [False, True])
async def test_shutdown_does_not_wait_for_who_has_the_last_words_and_is_silent(is_encrypted: bool) -> None:
    """A program that blocks elsewhere: the hour it would have need not pass, and it finds the words when it looks."""
    context = client_context() if is_encrypted else None
    async with listening(encrypted() if is_encrypted else None) as site:
        reader, writer = await site.connect(context)
        writer.write(b"LINE alice\n")
        await reader.readline()
        site.manager.opened[0].waits_for_answer = True
        await asyncio.wait_for(site.connections.shutdown("broker stops", timeout_s=3600), 60)

        assert await reader.read() == b"BYE broker stops\n"
        writer.close()


async def test_shutdown_waits_for_who_has_not_got_the_last_words() -> None:
    """A peer that reads nothing, with more before it than the systems between take."""
    async with listening() as site:
        with socket.create_connection(("127.0.0.1", site.acceptor.port)) as silent:
            silent.sendall(b"LINE alice\nFLOOD 50000000\n")
            while not site.manager.opened or not site.manager.opened[0].is_paused:
                await asyncio.sleep(0)
            member = next(iter(site.connections))
            member.shutdown("broker stops")
            await asyncio.sleep(0)

            assert not member.is_said()
            member.abort()


async def test_tls_conversation_names_the_clients_certificate() -> None:
    """RFC 4514: most specific part first, special characters escaped."""
    config = encrypted(trust_store_path=CERTIFICATES / "authority.pem", need_client_auth=True)
    async with listening(config) as site:
        reader, writer = await site.connect(client_context("client.pem"))
        writer.write(b"LINE alice\n")

        assert await reader.readline() == b"HELLO alice\n"
        context = site.manager.opened[0].context
        assert context.is_encrypted
        assert context.certificate_subject == r"CN=client,OU=Tests,O=Example\, Inc."
        writer.write(b"QUIT\n")
        assert await reader.read() == b"BYE as you wish\n"
        writer.close()


@pytest.mark.parametrize(
    ("enabled", "spoken"),
    [(("TLSv1.3",), [False, True]), (("TLSv1.2",), [True, False]), (("TLSv1.3", "TLSv1.2"), [True, True])],
)
async def test_clients_use_the_versions_of_tls_that_are_enabled(enabled: tuple[str, ...], spoken: list[bool]) -> None:
    """artemis-model §6.5, enabledProtocols."""
    found = []
    async with listening(encrypted(enabled_protocols=enabled)) as site:
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = client_context()
            context.check_hostname = False
            context.minimum_version = context.maximum_version = version
            try:
                _, writer = await site.connect(context)
                writer.close()
                found.append(True)
            except (ssl.SSLError, ConnectionError):
                found.append(False)

    assert found == spoken


async def test_tls_client_without_certificate_is_turned_away() -> None:
    """`needClientAuth`: no protocol is spoken with it."""
    config = encrypted(trust_store_path=CERTIFICATES / "authority.pem", need_client_auth=True)
    async with listening(config) as site:
        answer = b""
        # TLS 1.3 tells the client when it reads for the first time, TLS 1.2 within the handshake.
        with suppress(ssl.SSLError, ConnectionError):
            reader, writer = await site.connect(client_context())
            writer.write(b"LINE alice\n")
            answer = await reader.readline()
        await site.until_all_left()

        assert answer == b""
        assert site.manager.opened == []


async def test_plain_bytes_on_a_tls_port_end_that_connection_only(caplog: pytest.LogCaptureFixture) -> None:
    """One line in the log, no traceback, room for the next one."""
    async with listening(encrypted()) as site:
        reader, writer = await site.connect()
        writer.write(b"LINE alice\n" * 10)
        with suppress(ConnectionResetError):
            await reader.read()
        writer.close()
        reader, writer = await site.connect(client_context())
        writer.write(b"LINE alice\n")

        assert await reader.readline() == b"HELLO alice\n"
        assert site.connections.strangers == 0
        assert [record.getMessage()[:10] for record in caplog.records] == ["TLS failed"]
        writer.close()


async def test_stranger_in_the_tls_handshake_is_counted_and_limited() -> None:
    """The handshake is part of the login: a client that stalls in it makes room for the next one."""
    async with listening(encrypted(), ConnectionLimits(total=10, strangers=1)) as site:
        stalled, stalling = await site.connect()
        _, writer = await site.connect()
        try:
            displaced = await stalled.read()
        except ConnectionResetError:
            displaced = b""

        assert displaced == b""
        assert site.connections.strangers == 1
        stalling.close()
        writer.close()


async def test_a_handshake_that_got_somewhere_outlives_silence() -> None:
    """A ClientHello makes a stranger one that is logging in."""
    async with listening(encrypted(), ConnectionLimits(total=10, strangers=2)) as site:
        reader, writer = await site.connect()
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = client_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
        with pytest.raises(ssl.SSLWantReadError):
            client.do_handshake()
        writer.write(outgoing.read())
        incoming.write(await reader.read(65536))
        silent, silent_writer = await site.connect()
        _, last_writer = await site.connect()
        try:
            displaced = await silent.read()
        except ConnectionResetError:
            displaced = b""

        assert displaced == b""
        assert site.connections.strangers == 2
        for each in (writer, silent_writer, last_writer):
            each.close()


@pytest.mark.parametrize("head", ["feedfeed00000002", "cececece00000002", "30820a5e020103", "30808002010330"])
def test_a_key_store_of_java_is_called_that(head: str, tmp_path: Path) -> None:
    """OpenSSL would say "PEM lib"; and both files are told at once."""
    store = tmp_path / "store"
    store.write_bytes(bytes.fromhex(head) + bytes(50))
    with pytest.raises(ConfigError) as caught:
        server_context(
            AcceptorConfig(name="a", file="f", line=1, tls=TlsConfig(key_store_path=store, trust_store_path=store))
        )

    assert [str(problem) for problem in caught.value.problems] == [
        f"f:1: acceptor a: {option}={store} is a key store of Java; convert it to PEM (docs/artemis-compatibility.md)"
        for option in ("keyStorePath", "trustStorePath")
    ]


@pytest.mark.parametrize(
    ("tls", "option"),
    [
        (TlsConfig(key_store_path=CERTIFICATES / "missing.pem"), "keyStorePath"),
        (TlsConfig(key_store_path=Path(__file__)), "keyStorePath"),
        (
            TlsConfig(key_store_path=CERTIFICATES / "broker.pem", trust_store_path=Path(__file__)),
            "trustStorePath",
        ),
    ],
)
def test_unusable_certificate_is_a_configuration_error(tls: TlsConfig, option: str) -> None:
    """Before anything starts, with the parameter that names the file."""
    config = AcceptorConfig(name="secure", tls=tls, file="broker.xml", line=3)
    with pytest.raises(ConfigError, match=rf"broker\.xml:3: acceptor secure: {option}="):
        server_context(config)


# Runs in a process of its own: the limit of open files is the process'.
OUT_OF_DESCRIPTORS = """
import asyncio, errno, os, resource
from asyncio import constants
from tests.transport.test_acceptor import listening

constants.ACCEPT_RETRY_DELAY = 0  # asyncio's pause after EMFILE, 1 s, is not what is tested

async def main():
    complaints = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context["exception"]))
    async with listening() as site:
        reader, writer = await site.connect()
        writer.write(b"LINE alice\\n")
        assert await reader.readline() == b"HELLO alice\\n"
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        spare = os.dup(0)
        resource.setrlimit(resource.RLIMIT_NOFILE, (spare + 1, hard))  # one descriptor left: the client's own end
        os.close(spare)
        late_reader, late_writer = await site.connect()
        late_writer.write(b"LINE bob\\n")
        while not complaints:
            writer.write(b"ECHO still here\\n")
            assert await reader.readline() == b"still here\\n"
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert await late_reader.readline() == b"HELLO bob\\n"
        assert {error.errno for error in complaints} == {errno.EMFILE}
        writer.close()
        late_writer.close()

asyncio.run(main())
"""


def test_accepting_survives_running_out_of_file_descriptors() -> None:
    """reliability §5.12: those who are in go on, those who wait are taken when there is room again."""
    root = Path(__file__).resolve().parents[2]
    program = f"import sys; sys.path.append({str(root)!r})\n" + OUT_OF_DESCRIPTORS
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)

    assert (finished.returncode, finished.stderr) == (0, "")


@pytest.mark.parametrize(
    ("host", "port", "advice"),
    [
        ("nowhere.invalid", 0, "write a name of this machine that resolves"),
        ("192.0.2.1", 0, "this machine has no such address"),
    ],
)
async def test_advice_is_about_what_went_wrong(host: str, port: int, advice: str) -> None:
    """Another port does not help against a name that does not resolve."""
    async with listening() as site:
        config = AcceptorConfig(name="second", host=host, port=port)
        with pytest.raises(ConfigError, match=advice):
            await Site(config, site.connections.limits).acceptor.start()
