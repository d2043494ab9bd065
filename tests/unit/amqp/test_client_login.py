"""SASL mechanisms, client side, and how the engine runs them (RFC 4422, 4616, 5802, 7677; AMQP 1.0 §5.3)."""

from typing import Any

import pytest

from artemis_amqp.client.mechanisms import ScramClient, StrongestLogin
from artemis_amqp.engine.connection import AmqpConnection
from artemis_amqp.engine.limits import ConnectionLimits
from artemis_amqp.engine.performatives import AmqpError, SaslChallenge, SaslMechanisms, SaslOutcome, frame
from artemis_amqp.engine.states import AMQP_HEADER, SASL_FRAME, SASL_HEADER
from artemis_amqp.engine.types import Symbol
from tests.amqp_harness import Recorder, read_frames

NONCE = "rOprNGfwEbeRWgbNEkqO"
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
FINAL = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def login(**given: Any) -> StrongestLogin:
    """Of the user and password of RFC 7677."""
    values: dict[str, Any] = {"user": "user", "password": "pencil", "has_certificate": False, "may_send_password": True}
    return StrongestLogin(**(values | given), nonce=lambda: NONCE)


def offer(*names: str) -> tuple[Symbol, ...]:
    """Mechanisms of a server."""
    return tuple(map(Symbol, names))


@pytest.mark.parametrize(
    ("given", "offered", "expected"),
    [
        ({}, ("PLAIN", "ANONYMOUS", "SCRAM-SHA-256"), ("SCRAM-SHA-256", FIRST)),
        ({"has_certificate": True}, ("SCRAM-SHA-256", "EXTERNAL"), ("EXTERNAL", b"")),
        ({"has_certificate": True}, ("SCRAM-SHA-256",), ("SCRAM-SHA-256", FIRST)),
        ({}, ("EXTERNAL", "PLAIN"), ("PLAIN", b"\0user\0pencil")),
        ({"may_send_password": False}, ("PLAIN",), None),
        ({"may_send_password": False}, ("PLAIN", "SCRAM-SHA-256"), ("SCRAM-SHA-256", FIRST)),
        ({"password": None}, ("PLAIN", "SCRAM-SHA-256"), None),
        ({"user": None, "password": None}, ("ANONYMOUS",), None),
        ({"user": None, "password": None, "may_be_anonymous": True}, ("PLAIN", "ANONYMOUS"), ("ANONYMOUS", b"")),
        ({"may_be_anonymous": True, "may_send_password": False}, ("PLAIN", "ANONYMOUS"), None),
        ({"allowed": ("PLAIN",), "may_send_password": False}, ("SCRAM-SHA-256", "PLAIN"), ("PLAIN", b"\0user\0pencil")),
        ({"allowed": ("EXTERNAL",)}, ("SCRAM-SHA-256", "PLAIN"), None),
        ({}, (), None),
    ],
)
def test_the_strongest_mechanism_of_both_sides_is_taken(
    given: dict[str, object], offered: tuple[str, ...], expected: tuple[str, bytes] | None
) -> None:
    """A password is never sent where others can listen, and nobody logs in without a name."""
    assert login(**given).begin(offer(*offered)) == expected


def test_scram_speaks_the_exchange_of_the_rfc() -> None:
    """RFC 7677 §3, byte for byte."""
    client = ScramClient("user", "pencil", NONCE)

    assert client.first() == FIRST
    assert client.final(SERVER_FIRST) == FINAL
    assert client.is_proven(SERVER_FINAL)


def test_names_are_written_so_that_commas_do_no_harm() -> None:
    """RFC 5802 §5.1: `=2C` and `=3D`."""
    assert ScramClient("a=b,c", "x", "n").first() == b"n,,n=a=3Db=2Cc,r=n"


@pytest.mark.parametrize(
    "server_first",
    [
        b"",
        SERVER_FIRST.replace(b"r=rOpr", b"r=sOpr"),
        SERVER_FIRST.replace(b"%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0", b""),
        SERVER_FIRST.replace(b"i=4096", b"i=4095"),
        SERVER_FIRST.replace(b"i=4096", b"i=100000000000"),
        SERVER_FIRST.replace(b"i=4096", b"i=1000001"),
        SERVER_FIRST.replace(b"i=4096", b"i=-4096"),
        SERVER_FIRST.replace(b"s=W22Z", b"s=!!!!"),
        b"m=x," + SERVER_FIRST,
        b"\xff\xfe",
    ],
)
def test_scram_ends_with_a_server_that_breaks_the_rules(server_first: bytes) -> None:
    """RFC 5802 §5.1: another nonce, an extension we do not know; and rounds that are too few, or would take minutes."""
    assert ScramClient("user", "pencil", NONCE).final(server_first) is None


def test_scram_is_not_played_twice() -> None:
    """A second challenge would ask for a proof of something else."""
    client = ScramClient("user", "pencil", NONCE)
    client.final(SERVER_FIRST)

    assert client.final(SERVER_FIRST) is None


@pytest.mark.parametrize("final", [b"", b"v=", b"e=other-error", SERVER_FINAL[:-3] + b"AA="])
def test_a_server_that_does_not_know_the_password_is_found_out(final: bytes) -> None:
    """RFC 5802 §3: it could otherwise let anyone in, and take what is sent to it."""
    client = ScramClient("user", "pencil", NONCE)
    client.final(SERVER_FIRST)

    assert not client.is_proven(final)
    assert not ScramClient("user", "pencil", NONCE).is_proven(b"v=")


# -- in the engine -----------------------------------------------------------------------------------------------


def sasl(performative: object) -> bytes:
    """A frame of the login."""
    return frame(0, performative, SASL_FRAME)


class Texts(Recorder):
    """Notes the texts of errors."""

    def on_error(self, error: AmqpError) -> None:
        """The login failed."""
        self.calls.append(("error", error.description))


def connected(client: StrongestLogin, *mechanisms: str) -> tuple[AmqpConnection, Recorder]:
    """A client whose server offers these mechanisms."""
    handler = Texts()
    engine = AmqpConnection(handler, ConnectionLimits(), is_client=True)
    handler.engine = engine
    engine.login.start_with(client, "host")
    engine.data_to_send()
    engine.receive_data(SASL_HEADER + sasl(SaslMechanisms(offer(*mechanisms))), 0.0)
    return engine, handler


def test_the_engine_runs_a_login_of_several_steps() -> None:
    """AMQP 1.0 §5.3.2: mechanisms, init, challenge, response, outcome; then the header of AMQP."""
    engine, handler = connected(login(), "SCRAM-SHA-256")
    init = read_frames(engine.data_to_send())[0][1]
    engine.receive_data(sasl(SaslChallenge(SERVER_FIRST)), 0.0)
    response = read_frames(engine.data_to_send())[0][1]
    engine.receive_data(sasl(SaslOutcome(0, SERVER_FINAL)), 0.0)

    assert (init.mechanism, init.initial_response, init.hostname) == ("SCRAM-SHA-256", FIRST, "host")  # type: ignore[attr-defined]
    assert response.response == FINAL  # type: ignore[attr-defined]
    assert engine.data_to_send() == AMQP_HEADER
    assert handler.calls == []


@pytest.mark.parametrize(
    ("mechanisms", "frames", "text"),
    [
        (["GSSAPI", "ANONYMOUS"], [], "the server offers only GSSAPI, ANONYMOUS to log in"),
        (["PLAIN"], [SaslChallenge(b"x")], "the server breaks the rules of the login"),
        (["PLAIN"], [SaslMechanisms(offer("PLAIN"))], "the login failed"),
        (["PLAIN"], [SaslOutcome(1)], "the login failed"),
        (
            ["SCRAM-SHA-256"],
            [SaslChallenge(SERVER_FIRST), SaslOutcome(0)],
            "the server did not prove that it knows the password",
        ),
        (["SCRAM-SHA-256"], [SaslOutcome(0)], "the server did not prove that it knows the password"),
    ],
)
def test_a_login_that_fails_ends_with_its_reason(mechanisms: list[str], frames: list[object], text: str) -> None:
    """The reason is for the log of this broker; the server is told nothing."""
    engine, handler = connected(login(), *mechanisms)
    engine.receive_data(b"".join(map(sasl, frames)), 0.0)

    assert engine.closed
    assert handler.calls == [("error", text)]
