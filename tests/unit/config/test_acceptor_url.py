"""Acceptor URLs: what the transport reads, what is left for protocols, and what is wrong with either."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from attrs import frozen

from artemis_py.config import check_acceptors
from artemis_py.core.messages.message import MessageFormat
from artemis_py.core.settings.declaration import Kind, Option, option, options_of
from artemis_py.protocol import ConnectionContext, ProtocolConnection
from artemis_py.transport.config import ACCEPTOR_OPTIONS, TLS_OPTIONS, AcceptorConfig, TlsConfig
from tests.unit.config.samples import mistakes, other_value, read


class Speaker:
    """A protocol that is only looked at."""

    def __init__(self, name: str, *parameters: Option) -> None:
        self.name = name
        self.formats: Sequence[MessageFormat] = ()
        self.parameters: Sequence[Option] = parameters
        self.websocket_subprotocols: Sequence[str] = ()
        self.greeting = b""

    def read_parameters(self, acceptor: str, given: Mapping[str, str]) -> object:
        return dict(given)

    def start(self) -> None:
        raise NotImplementedError

    def matches(self, head: bytes) -> bool | None:
        return False

    def connect(self, context: ConnectionContext) -> ProtocolConnection:
        raise NotImplementedError


@frozen
class Amqp:
    """What AMQP reads here."""

    credits: int = option(Kind.COUNT, 1000, "", name="amqpCredits")
    prefix: str = option(Kind.TEXT, "", "", name="anycastPrefix")
    is_strict: bool = option(Kind.BOOLEAN, False, "", name="amqpStrict")


@frozen
class Other:
    """What another protocol reads."""

    limit: int = option(Kind.COUNT, 0, "", name="otherLimit")


AMQP = Speaker("AMQP", *options_of(Amqp))
OTHER = Speaker("OTHER", *options_of(Other))


def acceptor_element(url: str) -> str:
    """An `<acceptors>` with one acceptor, and the router that it may name."""
    acceptors = f'<acceptors><acceptor name="a">{url}</acceptor></acceptors>'
    if "router=" not in url:
        return acceptors
    router = '<connection-router name="other"><local-target-filter>x</local-target-filter></connection-router>'
    return f"{acceptors}<connection-routers>{router}</connection-routers>"


def acceptor(url: str, folder: Path = Path()) -> AcceptorConfig:
    """The acceptor that a URL gives."""
    return read(acceptor_element(url), folder=folder).acceptors[0]


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        ("tcp://127.0.0.1:5672", "127.0.0.1", 5672),
        (" tcp://localhost ", "localhost", 61616),
        ("tcp://[::1]:0/?backlog=5", "::1", 0),
        ("tcp://0.0.0.0:65535?", "0.0.0.0", 65535),
    ],
)
def test_a_url_has_a_host_and_a_port(url: str, host: str, port: int) -> None:
    """Without a port it is Artemis' 61616; an IPv6 address is in brackets."""
    config = acceptor(url)

    assert (config.host, config.port) == (host, port)


@pytest.mark.parametrize("option", ACCEPTOR_OPTIONS, ids=lambda option: option.name)
def test_a_parameter_of_the_transport_reaches_its_field(option: object) -> None:
    """artemis-model §6.5."""
    chosen = next(each for each in ACCEPTOR_OPTIONS if each is option)
    text, value = other_value(chosen)

    config = acceptor(f"tcp://h:1?{chosen.name}={text}")

    assert getattr(config, chosen.attribute) == value != chosen.default
    assert config.parameters == {}


@pytest.mark.parametrize("separator", [";", "&amp;", " ; "])
def test_parameters_are_separated_as_in_artemis(separator: str) -> None:
    """`;`, or `&` as XML wants it."""
    config = acceptor(f"tcp://h:1?tcpNoDelay=false{separator}backlog=7;")

    assert (config.tcp_no_delay, config.backlog) == (False, 7)


def test_what_the_transport_does_not_know_is_left_for_the_protocols() -> None:
    """As text, percent signs decoded, with the place for messages about it."""
    config = acceptor("tcp://h:1?anycastPrefix=queue%3A//;amqpCredits=5;tcpNoDelay=true")

    assert config.parameters == {"anycastPrefix": "queue://", "amqpCredits": "5"}
    assert (config.file, config.line) == ("broker.xml", 4)


def test_tls_needs_its_switch(tmp_path: Path) -> None:
    """artemis-model §6.5: `sslEnabled` is false by default, and the rest has no effect then."""
    assert acceptor("tcp://h:1?keyStorePath=broker.pem", tmp_path).tls is None


def test_tls_files_are_sought_beside_broker_xml(tmp_path: Path) -> None:
    """All TLS options; a path may also be absolute."""
    for name in ("broker.pem", "key.pem", "ca.pem"):
        (tmp_path / name).touch()
    url = (
        "tcp://h:1?sslEnabled=true;keyStorePath=broker.pem;keyStorePassword=a%3Bb;privateKeyPath=key.pem;"
        f"trustStorePath={tmp_path}/ca.pem;needClientAuth=true"
    )

    assert acceptor(url, tmp_path).tls == TlsConfig(
        key_store_path=tmp_path / "broker.pem",
        key_store_password="a;b",
        private_key_path=tmp_path / "key.pem",
        trust_store_path=tmp_path / "ca.pem",
        need_client_auth=True,
    )
    assert len(TLS_OPTIONS) == 7


def test_the_password_is_not_in_the_log() -> None:
    """Whoever prints a configuration must not print secrets."""
    assert "secret" not in repr(TlsConfig(key_store_path=Path("x"), key_store_password="secret"))


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("", '"" is not a URL; write one such as tcp://127.0.0.1:5672?protocols=AMQP'),
        ("127.0.0.1:5672", '"127.0.0.1:5672" is not a URL; write one such as tcp://127.0.0.1:5672?protocols=AMQP'),
        ("amqp://h:1", "scheme amqp: only tcp is supported"),
        (
            "tcp://h:65536",
            '"tcp://h:65536" has no valid host and port; the port is a number up to 65535',
        ),
        ("tcp://h:x", '"tcp://h:x" has no valid host and port; the port is a number up to 65535'),
        ("tcp://[::1", '"tcp://[::1" has no valid host and port; the port is a number up to 65535'),
        (
            "tcp://:1",
            (
                '"tcp://:1" is not of the form tcp://host:port?name=value; '
                "write one such as tcp://127.0.0.1:5672?protocols=AMQP"
            ),
        ),
        (
            "tcp://u:p@h:1",
            (
                '"tcp://u:p@h:1" is not of the form tcp://host:port?name=value; '
                "write one such as tcp://127.0.0.1:5672?protocols=AMQP"
            ),
        ),
        ("tcp://h:1?tcpNoDelay", 'parameter "tcpNoDelay" has no value; write name=value'),
        ("tcp://h:1?backlog=1;backlog=2", "parameter backlog: is given twice; keep one"),
        (
            "tcp://h:1?tcpNoDelay=1",
            'parameter tcpNoDelay: "1" is neither true nor false; write one of the two in lower case',
        ),
        ("tcp://h:1?handshake-timeout=0", "parameter handshake-timeout: 0 is too small; write 1 or more"),
        (
            "tcp://h:1?handshake-timeout=1m",
            'parameter handshake-timeout: "1m" is not a whole number; write a number of seconds without a unit',
        ),
        (
            "tcp://h:1?saslMechanisms=GSSAPI",
            (
                "parameter saslMechanisms: GSSAPI is not supported by artemis_py; use some of "
                "ANONYMOUS, EXTERNAL, PLAIN, SCRAM-SHA-256"
            ),
        ),
        ("tcp://h:1?saslMechanisms=PLAN", "parameter saslMechanisms: PLAN: did you mean PLAIN?"),
        (
            "tcp://h:1?sslEnabled=true",
            "parameter keyStorePath: is missing; with sslEnabled it names the PEM file with the broker's certificate",
        ),
        (
            "tcp://h:1?sslEnabled=true;keyStorePath=nowhere.pem",
            "parameter keyStorePath: there is no file nowhere.pem",
        ),
    ],
)
def test_what_is_wrong_with_a_url(url: str, expected: str) -> None:
    """One message each, with the parameter's name."""
    assert mistakes(acceptor_element(url)) == [f"broker.xml:4: acceptor: {expected}"]


@pytest.mark.parametrize(
    ("versions", "expected", "told"),
    [
        ("TLSv1.3", ("TLSv1.3",), []),
        ("TLSv1.3, TLSv1.2", ("TLSv1.3", "TLSv1.2"), []),
        ("TLSv1.1,TLSv1.2", ("TLSv1.2",), ["parameter enabledProtocols: TLSv1.1 is left out: it is not safe"]),
    ],
)
def test_versions_of_tls_are_chosen(tmp_path: Path, versions: str, expected: tuple[str, ...], told: list[str]) -> None:
    """artemis-model §6.5, enabledProtocols; without it, both that are safe."""
    (tmp_path / "k").touch()
    config = read(
        acceptor_element(f"tcp://h:1?sslEnabled=true;keyStorePath=k;enabledProtocols={versions}"), folder=tmp_path
    )

    tls = config.acceptors[0].tls
    assert tls is not None
    assert tls.enabled_protocols == expected
    assert [warning.message for warning in config.warnings] == told


def test_a_version_of_tls_must_be_left(tmp_path: Path) -> None:
    """An unsafe one is not used because nothing else is named."""
    (tmp_path / "k").touch()
    element = acceptor_element("tcp://h:1?sslEnabled=true;keyStorePath=k;enabledProtocols={}")

    assert mistakes(element.format("TLSv1.1"), folder=tmp_path) == [
        (
            "broker.xml:4: acceptor: parameter enabledProtocols: names no version that is safe; use some of TLSv1.2, "
            "TLSv1.3"
        )
    ]
    assert mistakes(element.format("TLSv1.2,TLS1.3"), folder=tmp_path) == [
        "broker.xml:4: acceptor: parameter enabledProtocols: TLS1.3: did you mean TLSv1.3?"
    ]


def test_client_certificates_need_somebody_who_signs_them(tmp_path: Path) -> None:
    """Otherwise every client would be turned away."""
    (tmp_path / "k").touch()
    element = acceptor_element("tcp://h:1?sslEnabled=true;keyStorePath=k;needClientAuth=true")

    assert mistakes(element, folder=tmp_path) == [
        (
            "broker.xml:4: acceptor: parameter trustStorePath: is missing; with needClientAuth it names the "
            "certificates that may sign those of clients"
        )
    ]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", []),
        ("amqpCredits=5;amqpStrict=true;anycastPrefix=x;otherLimit=-1", []),
        ("protocols=AMQP;amqpCredits=5", []),
        ("amqpCredit=5", ["parameter amqpCredit: is unknown; did you mean amqpCredits?"]),
        ("tcpNodelay=true", ["parameter tcpNodelay: is unknown; did you mean tcpNoDelay?"]),
        ("zzz=1", ["parameter zzz: is unknown; docs/configuration.md lists the legal ones"]),
        (
            "amqpCredits=many;amqpStrict=TRUE",
            [
                'parameter amqpCredits: "many" is not a whole number; write one such as 1000',
                'parameter amqpStrict: "TRUE" is neither true nor false; write one of the two in lower case',
            ],
        ),
        ("protocols=AMQP,STOMP,AMPQ", ["parameter protocols: AMPQ: did you mean AMQP?"]),
        ("protocols=AMPQ", ["parameter protocols: AMPQ: did you mean AMQP?"]),
    ],
)
def test_parameters_are_checked_against_the_protocols_that_are_there(query: str, expected: list[str]) -> None:
    """Only now it is known who reads what."""
    problems = check_acceptors([acceptor(f"tcp://h:1?{query}")], [AMQP, OTHER]).problems

    assert [str(problem) for problem in problems] == [f"broker.xml:4: acceptor: {message}" for message in expected]


def test_a_number_of_a_protocol_has_its_bounds() -> None:
    @frozen
    class One:
        credits: int = option(Kind.COUNT, 10, "", minimum=1, maximum=20)

    problems = [
        check_acceptors([acceptor(f"tcp://h:1?credits={number}")], [Speaker("ONE", *options_of(One))]).problems
        for number in (0, 21, 1, 20)
    ]

    assert [[problem.message for problem in each] for each in problems] == [
        ["parameter credits: 0 is too small; write at least 1"],
        ["parameter credits: 21 is too large; write at most 20"],
        [],
        [],
    ]
