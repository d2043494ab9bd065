"""Connections that a broker makes: real sockets, two brokers in one loop, and a network that fails as the test asks."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest
from attrs import evolve

from artemis_amqp.broker.manager import AmqpProtocolManager
from artemis_py.broker import Broker
from artemis_py.config.embedded import embedded_config
from artemis_py.core.runtime.access import Permission
from artemis_py.core.runtime.carrier import Greeting, Lane, PeerLogin
from artemis_py.errors import ConfigError
from artemis_py.protocol import OutgoingContext, ProtocolConnection
from artemis_py.testing.network import Relay
from artemis_py.transport.backoff import RetryPolicy
from artemis_py.transport.config import AcceptorConfig, ConnectorConfig, ConnectorTls, TlsConfig
from artemis_py.transport.connector import Connector, ConnectorState
from artemis_py.transport.outgoing import ConnectorContext
from tests.mesh_peers import Notes, OneMesh

CERTIFICATES: Final = Path(__file__).parent / "certificates"
ACCEPTOR_TLS: Final = TlsConfig(key_store_path=CERTIFICATES / "broker.pem")
TRUSTING: Final = ConnectorTls(trust_store_path=CERTIFICATES / "authority.pem")
QUICK: Final = RetryPolicy(first_s=0.01, longest_s=0.02)


class Site:
    """A broker that dials, one that is dialled, and what both hear."""

    def __init__(self, here: Broker, there: Broker, relay: Relay) -> None:
        self.here: Final = here
        self.there: Final = there
        self.relay: Final = relay
        self.heard: Final[list[Notes]] = []
        """What the dialling broker hears, a listener for each connection."""
        self.answers: Final[list[Notes]] = []
        self.connectors: Final[list[Connector]] = []
        self._carrier: Final = AmqpProtocolManager(here.host)
        site = self

        class Entrance(OneMesh):
            """A listener for each connection that comes."""

            def welcome(self, hello: Any, subject: Any) -> Any:
                """Let them in."""
                notes = Notes(confirms=True)
                site.answers.append(notes)
                return evolve(super().welcome(hello, subject), listener=notes)

        self.entrance: Final = Entrance(Notes())
        there.host.mesh = self.entrance

    @property
    def port(self) -> int:
        """Port of the broker that is dialled."""
        return int(self.there.url("amqp").rpartition(":")[2])

    async def relayed(self) -> int:
        """The same, through the network that fails."""
        return await self.relay.port("127.0.0.1", self.port)

    def connector(
        self,
        port: int,
        policy: RetryPolicy = QUICK,
        login: PeerLogin = PeerLogin(user="mesh", password="secret"),  # noqa: B008
        login_timeout_s: float = 5.0,
        alternatives: tuple[ConnectorConfig, ...] = (),
        may_dial: Callable[[], bool] = lambda: True,
        **options: Any,
    ) -> Connector:
        """A connector to a port, which begins to dial."""

        def connect(context: OutgoingContext) -> ProtocolConnection:
            notes = Notes(confirms=True)
            self.heard.append(notes)
            return self._carrier.dial(context, Greeting(hello=lambda: {"node": "here"}, listener=notes, login=login))

        assert self.here._turn is not None
        values: dict[str, Any] = {"name": "other", "host": "127.0.0.1", "port": port} | options
        context = ConnectorContext(
            config=ConnectorConfig(**values),
            protocol="AMQP",
            connect=connect,
            login_timeout_s=login_timeout_s,
            turn=self.here._turn,
            connections=self.here.connections,
            events=self.here.domain.events,
            may_dial=may_dial,
        )
        connector = Connector(context, policy, lambda: 0.5, alternatives)
        self.connectors.append(connector)
        connector.start()
        return connector


@asynccontextmanager
async def brokers(**there: Any) -> AsyncIterator[Site]:
    """Two brokers; the second has these parts of a configuration."""
    relay = Relay()
    async with Broker(evolve(embedded_config(), **there)) as second, Broker() as first:
        site = Site(first, second, relay)
        try:
            yield site
        finally:
            for connector in site.connectors:
                connector.stop("the test is over")
            await relay.close()


async def until(is_true: Callable[[], object], what: str = "") -> None:
    """Wait for something that the loop will do."""
    async with asyncio.timeout(60):
        while not is_true():
            await asyncio.sleep(0.005)


def words(notes: Notes) -> list[object]:
    """What was heard, without details; not whether something had to wait for room."""
    return [each[0] for each in notes.heard if each[0] != "room"]


async def test_a_broker_is_cut_off_and_returns() -> None:
    """Each connection has its own listeners; both sides hear of the end."""
    async with brokers() as site:
        connector = site.connector(await site.relayed())
        await until(lambda: connector.state is ConnectorState.OPEN)
        await until(lambda: site.answers and site.answers[0].connection)
        site.heard[0].there.send(Lane.HANDOVER, 1, b"message")
        await until(lambda: ("accepted", Lane.HANDOVER, 1) in site.heard[0].heard)
        site.relay.cut()
        await until(lambda: len(site.answers) == 2 and site.answers[1].connection)
        await until(lambda: connector.state is ConnectorState.OPEN)

        assert site.answers[0].heard[0] == ("opened", {"node": "here"})
        assert words(site.answers[0]) == ["opened", Lane.HANDOVER, "lost"]
        assert words(site.heard[0]) == ["opened", "accepted", "lost"]
        assert words(site.heard[1]) == ["opened"]


def test_a_broker_is_cut_off_and_returns_in_another_event_loop() -> None:
    """That of uvloop does not try addresses at the same time, and its timers do not tell when they go off."""
    with asyncio.Runner(loop_factory=pytest.importorskip("uvloop").new_event_loop) as runner:
        runner.run(test_a_broker_is_cut_off_and_returns())


async def test_a_broker_is_dialled_until_it_is_there() -> None:
    """Brokers are started in any order."""
    async with brokers() as site:
        site.relay.refuses = True
        connector = site.connector(await site.relayed())
        await until(lambda: connector._backoff.failures > 3)
        assert connector.state is not ConnectorState.OPEN
        site.relay.refuses = False

        await until(lambda: connector.state is ConnectorState.OPEN)
        assert connector.last_failure == ""


async def test_dialling_ends_when_the_attempts_are_used_up() -> None:
    """And begins again when it is asked to."""
    async with brokers() as site:
        port = site.port
        await site.there.stop()
        connector = site.connector(port, evolve(QUICK, first_attempts=3))
        await until(lambda: connector.state is ConnectorState.GIVEN_UP)

        assert connector._backoff.failures == 3
        assert "Connect" in connector.last_failure
        assert site.heard == []
        connector.start()
        assert connector.state is ConnectorState.DIALLING


async def test_a_refused_broker_may_rest() -> None:
    """What was refused for a reason is not asked for again within milliseconds."""
    async with brokers() as site:
        connector = site.connector(site.port)
        await until(lambda: connector.state is ConnectorState.OPEN)
        connector.rest(60.0)
        await site.there.stop()
        await until(lambda: connector.state is ConnectorState.WAITING)

        assert connector.planned_at - asyncio.get_running_loop().time() > 50


async def test_a_peer_that_never_answers_is_left() -> None:
    """`call-timeout`: from the connection until both have opened."""

    async def ignore(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with brokers() as site, await asyncio.start_server(ignore, "127.0.0.1", 0) as server:
        connector = site.connector(server.sockets[0].getsockname()[1], login_timeout_s=0.05)
        await until(lambda: len(site.heard) >= 2)

        assert words(site.heard[0]) == ["lost"]
        assert connector.last_failure == "login timeout"


async def test_a_connection_is_ended_with_a_word() -> None:
    """The other broker need not wait to find out; and nobody dials after that."""
    async with brokers() as site:
        connector = site.connector(site.port)
        await until(lambda: site.answers and site.answers[0].connection)
        connector.stop("enough")
        await until(lambda: "lost" in words(site.answers[0]))
        await asyncio.sleep(0.05)

        assert site.answers[0].heard[-1] == ("lost", "closed by the peer: enough")
        assert len(site.heard) == 1
        assert connector.state is ConnectorState.IDLE


async def test_a_stopped_broker_closes_what_it_dialled() -> None:
    """As it does with its clients."""
    async with brokers() as site:
        site.connector(site.port)
        await until(lambda: site.answers and site.answers[0].connection)
        await site.here.stop("going down")
        await until(lambda: "lost" in words(site.answers[0]))

        assert site.answers[0].heard[-1] == ("lost", "closed by the peer: going down")


async def test_an_attempt_that_is_stopped_leaves_no_socket_open() -> None:
    """It is closed when the wait ends: the program may stop the loop then."""
    async with brokers() as site:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            silent.setblocking(False)
            connector = site.connector(silent.getsockname()[1])
            while True:
                await asyncio.sleep(0)
                with suppress(BlockingIOError):
                    connection, _ = silent.accept()
                    break
            connector.stop("the broker stops")
            await connector.wait_stopped()

            with connection:
                connection.settimeout(10)
                assert connection.recv(1) == b""


async def test_connections_of_brokers_take_no_room_from_clients_that_log_in() -> None:
    """They are counted, and not as strangers: a flood of clients that do not log in must not end them."""
    async with brokers() as site:
        connector = site.connector(site.port)
        await until(lambda: connector.state is ConnectorState.OPEN)

        assert len(site.here.connections) == 1
        assert site.here.connections.strangers == 0


async def test_large_amounts_pass_a_slow_network() -> None:
    """Back-pressure both ways: sockets, output and windows hold back, and everything arrives in order."""
    async with brokers() as site:
        connector = site.connector(await site.relayed())
        await until(lambda: connector.state is ConnectorState.OPEN)
        site.relay.delay_s = 0.001
        for number in range(300):
            site.heard[0].there.send(Lane.COPIES, number, bytes(50_000))
        await until(lambda: ("accepted", Lane.COPIES, 299) in site.heard[0].heard)

        arrived = [each[1] for each in site.answers[0].heard if each[0] is Lane.COPIES]
        assert arrived == list(range(300))


# -- TLS -----------------------------------------------------------------------------------------------------------


def encrypted(**options: Any) -> dict[str, Any]:
    """A broker whose acceptor has TLS."""
    return {"acceptors": (AcceptorConfig(name="tls", port=0, tls=evolve(ACCEPTOR_TLS, **options)),)}


async def test_a_password_goes_over_tls() -> None:
    """The certificate of the other broker is checked, and its host."""
    async with brokers(**encrypted()) as site:
        connector = site.connector(site.port, tls=TRUSTING)
        await until(lambda: connector.state is ConnectorState.OPEN)

        assert [subject.user for subject in site.entrance.subjects] == ["mesh"]


async def test_a_certificate_is_a_login() -> None:
    """EXTERNAL: no password is needed anywhere."""
    acceptor = AcceptorConfig(
        name="tls",
        port=0,
        sasl_mechanisms=("EXTERNAL",),
        tls=evolve(ACCEPTOR_TLS, trust_store_path=CERTIFICATES / "authority.pem", need_client_auth=True),
    )
    permissions = {"#": {Permission.SEND: frozenset({"amq"})}}
    config = embedded_config()
    login = evolve(config.login, users_file="/dev/null", roles_file="/dev/null")
    parts = {"acceptors": (acceptor,), "security_enabled": True, "security_settings": permissions, "login": login}
    async with brokers(**parts) as site:
        tls = evolve(TRUSTING, key_store_path=CERTIFICATES / "client.pem")
        connector = site.connector(site.port, tls=tls, login=PeerLogin())
        await until(lambda: connector.state is ConnectorState.OPEN)

        assert [subject.user for subject in site.entrance.subjects] == ["CN=client,OU=Tests,O=Example\\, Inc."]


@pytest.mark.parametrize(
    ("tls", "host", "reason"),
    [
        (ConnectorTls(), "127.0.0.1", "the certificate of the other side is not accepted"),
        (evolve(TRUSTING, sni_host="elsewhere.example"), "127.0.0.1", "Hostname mismatch"),
        (None, "127.0.0.1", ""),
    ],
)
async def test_a_broker_that_cannot_prove_itself_is_not_told_anything(
    tls: ConnectorTls | None, host: str, reason: str
) -> None:
    """Neither a password, nor names of the mesh."""
    async with brokers(**encrypted()) as site:
        connector = site.connector(site.port, host=host, tls=tls)
        await until(lambda: connector._backoff.failures > 1)

        assert reason in connector.last_failure
        assert site.entrance.subjects == []


async def test_each_attempt_after_a_failure_takes_the_next_way(caplog: pytest.LogCaptureFixture) -> None:
    """Over and over, until one of them leads to a broker; then that one stays."""
    async with brokers() as site:
        ways = [ConnectorConfig(name="other", host=host, port=1) for host in ("no-such-host.invalid", "127.0.0.1")]
        last = ConnectorConfig(name="other", host="127.0.0.1", port=site.port)
        connector = site.connector(1, alternatives=(*ways, last))
        await until(lambda: connector.state is ConnectorState.OPEN)

        assert connector.config is last
        assert connector.last_failure == ""
    reasons = [each.partition("reason=")[2] for each in caplog.messages if "cannot be reached" in each]
    # The second one failed for another reason than the first, which the log tells; the third for the same as the first.
    assert len(reasons) == 3
    assert reasons[0] == reasons[2] == "Connection refused" != reasons[1]


async def test_a_protocol_says_why_a_connection_ended(caplog: pytest.LogCaptureFixture) -> None:
    """The socket only knows that it was closed; what was said counts for one connection only."""
    async with brokers() as site:
        connector = site.connector(await site.relayed())
        await until(lambda: connector.state is ConnectorState.OPEN)
        connector.explain("the login failed")
        site.relay.cut()
        await until(lambda: connector.state is not ConnectorState.OPEN)
        assert connector.last_failure == "the login failed"
        await until(lambda: connector.state is ConnectorState.OPEN)
        site.relay.cut()
        await until(lambda: connector.state is not ConnectorState.OPEN)

        assert connector.last_failure not in ("", "the login failed")


@pytest.mark.parametrize("is_wanted", [True, False])
async def test_the_end_of_a_connection_that_is_not_wanted_is_no_news(
    is_wanted: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """It ends, for example, because the other broker has connected to this one, and that connection stays."""
    wanted = [True]
    async with brokers() as site:
        port = await site.relayed()
        connector = site.connector(port, may_dial=lambda: wanted[0])
        await until(lambda: connector.state is ConnectorState.OPEN)
        wanted[0] = is_wanted
        site.relay.cut()
        await until(lambda: connector.state is not ConnectorState.OPEN)

    assert any("connection to another broker lost" in each for each in caplog.messages) is is_wanted


async def test_a_name_that_need_not_fit_is_not_checked() -> None:
    """`verifyHost=false` leaves the check of who signed it."""
    async with brokers(**encrypted()) as site:
        tls = evolve(TRUSTING, sni_host="elsewhere.example", verify_host=False)
        connector = site.connector(site.port, tls=tls)
        await until(lambda: connector.state is ConnectorState.OPEN)


def test_a_file_that_is_no_certificate_is_found_at_once() -> None:
    """Not at the first attempt to connect, hours later."""
    context: Any = type("Context", (), {})()
    context.config = ConnectorConfig(name="x", host="h", tls=ConnectorTls(trust_store_path=Path(__file__)))
    with pytest.raises(ConfigError, match=r"connector x: trustStorePath=.* cannot be used"):
        Connector(context, QUICK, lambda: 0.5)


@pytest.mark.parametrize("host", ["a..b", "x" * 70 + ".example", "no-such-host.invalid"])
async def test_a_host_that_does_not_exist_is_a_failure_like_others(host: str) -> None:
    """It may be given an address later."""
    async with brokers() as site:
        connector = site.connector(1, host=host)
        await until(lambda: connector._backoff.failures > 0)

        assert connector.last_failure
